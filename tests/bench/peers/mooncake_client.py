"""mooncake_client.py - a Mooncake Store by the clients that come with it.

    mooncake_client.py rest|native COUNT BYTES AT_ONCE

rest: its REST service by aiohttp, which the service itself is made of; values
are base64 there, in JSON.  native: its own module.  put and get are GB/s.
"""
import asyncio
import base64
import json
import os
import sys
import time

# Beside this file lies another mooncake.
sys.path.pop(0)
URL, MASTER = "http://127.0.0.1:8081/api", "127.0.0.1:50051"


async def each(n, at_once, fn):
    todo = iter(range(n))

    async def some():
        for i in todo:
            await fn(i)
    await asyncio.gather(*(some() for _ in range(at_once)))


async def rest(names, values, at_once):
    import aiohttp
    async with aiohttp.ClientSession() as s:
        async def put(i):
            body = json.dumps(dict(
                key=names[i], value=base64.b64encode(values[i]).decode()))
            async with s.put(URL + "/put", data=body) as r:
                assert r.status == 200 and (await r.json())

        async def get(i):
            async with s.get(URL + "/get/" + names[i]) as r:
                assert base64.b64decode(await r.read()) == values[i]

        async def miss(i):
            async with s.get(URL + "/get/" + names[i]) as r:
                await r.read()
        await each(len(names), at_once, miss)
        t0 = time.perf_counter()
        await each(len(names), at_once, put)
        t1 = time.perf_counter()
        await each(len(names), at_once, get)
        return t1 - t0, time.perf_counter() - t1


def native(names, values):
    from mooncake.store import MooncakeDistributedStore
    s = MooncakeDistributedStore()
    assert s.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "",
                   MASTER) == 0
    s.get(names[0])
    t0 = time.perf_counter()
    for k, v in zip(names, values):
        assert s.put(k, v) == 0
    t1 = time.perf_counter()
    for k, v in zip(names, values):
        assert s.get(k) == v
    t2 = time.perf_counter()
    s.close()
    return t1 - t0, t2 - t1


def main():
    how, n, size, at_once = sys.argv[1], *map(int, sys.argv[2:])
    values = [os.urandom(size) for _ in range(n)]
    names = [os.urandom(16).hex() for _ in range(n)]
    put, get = native(names, values) if how == "native" else asyncio.run(
        rest(names, values, at_once))
    print(json.dumps(dict(put=1e-9 * n * size / put,
                          get=1e-9 * n * size / get)))


main()
