"""transfer.py - bytes a second between two processes, against iperf3's one stream."""
import json
import os
import shutil
import socket
import subprocess
import time

from harness import median, turns

BLOCKS = dict(tcp_64k=(65536, 16), tcp_1m=(1048576, 4))
SECONDS = "0.7"


def rate(b, op, block, depth, checksum=0, key=""):
    return b.works(b.tool("transfer"), "rate", "tcp", op, str(block),
                   str(depth), SECONDS, str(checksum), key)[0]["rate"]


class Iperf:
    """A server of iperf3's on a port of its own; what a client gets of it."""

    def __init__(self, b):
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = str(s.getsockname()[1])
        self.server = subprocess.Popen(
            ["iperf3", "-s", "-B", "127.0.0.1", "-p", self.port],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.b = b
        b.others.servers.add(self.server.pid)
        time.sleep(0.3)

    def rate(self, block):
        out = self.b.run("iperf3", "-c", "127.0.0.1", "-p", self.port, "-P",
                         "1", "-t", "1", "-l", str(block), "-J")
        return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8e9

    def close(self):
        self.server.kill()
        self.server.wait()
        self.b.others.servers.discard(self.server.pid)


def against_iperf(b, figure):
    block, depth = BLOCKS[figure]
    if not shutil.which("iperf3"):
        b.skip(figure, "no iperf3")
        return
    peer = Iperf(b)
    try:
        got = turns(3 * b.rounds, iperf=lambda: peer.rate(block),
                    read=lambda: rate(b, "read", block, depth),
                    write=lambda: rate(b, "write", block, depth),
                    keyed=lambda: rate(b, "read", block, depth,
                                       key=os.urandom(16).hex()))
    finally:
        peer.close()
    for op, name, bar in (("read", figure, ">= 0.9"),
                          ("write", figure + "_write", ">= 0.9"),
                          ("keyed", figure + "_key", None)):
        b.against(name, "GB/s", got[op], "iperf3 one stream", got["iperf"],
                  bar, rate=True)


def checksum(b):
    for name, (block, depth) in BLOCKS.items():
        for op in ("read", "write"):
            got = turns(3 * b.rounds,
                        on=lambda: rate(b, op, block, depth, 1),
                        off=lambda: rate(b, op, block, depth))
            b.against(f"tcp_checksum_{name[4:]}_{op}", "GB/s", got["on"],
                      "without sums", got["off"], ">= 0.9", rate=True)


def shm(b):
    d = b.works(b.tool("transfer"), "copied")[0]
    b.emit("shm_copy_bytes", d["copied"], "bytes", None, None, None,
           "<= 0 bytes", d["pages"])
    us = [b.works(b.tool("transfer"), "copied")[0]["us"]
          for _ in range(b.rounds)]
    b.emit("shm_page", median(us), "us", None, None, None, None, len(us))


FIGURES = dict(tcp_64k=lambda b: against_iperf(b, "tcp_64k"),
               tcp_1m=lambda b: against_iperf(b, "tcp_1m"),
               tcp_checksum=checksum, shm_copy_bytes=shm)
