"""transfer.py - bytes a second between two processes, against iperf3's one stream."""
import json
import os
import re
import shutil
import socket
import subprocess
import time

from harness import median, turns
from peers.mooncake import Engine

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

    def rate(self, block, *more):
        out = self.b.run("iperf3", "-c", "127.0.0.1", "-p", self.port, "-P",
                         "1", "-t", "1", "-l", str(block), "-J", *more)
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
                    reno=lambda: peer.rate(block, "-C", "reno"),
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
        # Ours does not pace within a machine; beside it one that does not either.
        b.against(name + "_reno", "GB/s", got[op], "iperf3 with reno",
                  got["reno"], None, rate=True)


def against_mooncake(b):
    """The same blocks by Mooncake's transfer engine over TCP, one thread.

    It sends no sums, nor do stores ask for a block's; with them beside it.
    """
    try:
        peer = Engine(b.peers, b.others, b.tmp)
    except (OSError, subprocess.SubprocessError, RuntimeError) as e:
        for name in BLOCKS:
            b.skip(name + "_mooncake", f"no mooncake ({e}); make bench-peers "
                   "installs it, and it needs root")
        return
    try:
        for name, (block, depth) in BLOCKS.items():
            for op in ("read", "write"):
                got = turns(b.rounds,
                            own=lambda: rate(b, op, block, depth),
                            sums=lambda: rate(b, op, block, depth, 1),
                            peer=lambda: peer.rate(op, block, depth))
                for own, part, bar in (("own", "", ">= 2"),
                                       ("sums", "_sums", None)):
                    b.against(f"{name}_mooncake_{op}{part}", "GB/s", got[own],
                              "mooncake", got["peer"], bar, rate=True)
    finally:
        peer.close()


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


def handoff_delta(b):
    """Bytes moved to a peer that has the prefix, against those of the state."""
    text = " ".join(str(i) for i in range(100))
    there = os.path.join(b.tmp, "there")
    server = subprocess.Popen(
        ["epd-serve", "--role", "data", "--store", there, "--listen",
         "tcp://127.0.0.1:0"], env=b.env(), stdout=subprocess.PIPE, text=True)
    b.others.servers.add(server.pid)
    try:
        address = server.stdout.readline().strip()
        t = b.run("epd-prefill", "--store", there, "-p", text).strip()
        s = b.run("epd-prefill", "-p", text).strip()
        b.run("epd-decode", "--ignore-eos", "-n", "40", s)
        state = json.loads(b.run("epd-state", "show", "-j", s))
        known = {p["kv_page_id"] for p in json.loads(b.run(
            "epd-state", "show", "--store", there, "-j", t))["kv_pages"]
            if p["sealed"]}
        lacks = sum(p["kv_page_id"] not in known for p in state["kv_pages"])
        b.run("epd-handoff", "--to", address, s)
        moved = float(re.search(r"^epd_transfer_tcp_bytes ([0-9.e+]+)",
                                b.run("epd-state", "metrics"), re.M)[1])
    finally:
        server.kill()
        server.wait()
        b.others.servers.discard(server.pid)
    each, pages = state["page_bytes"], state["pages"]
    b.emit("handoff_delta", moved, "bytes", "all its pages", each * pages,
           moved / each / pages, None, 1)
    b.emit("handoff_delta_pages", moved / each, "pages",
           "those the peer lacks", lacks, moved / each / lacks, "<= 1.0", 1)


def fetched(b, mode, pages=64, page=1 << 20):
    return b.works(b.tool("peer"), mode, str(pages), str(page), SECONDS)[0]


def peer_fetch(b):
    """Pages from a store into another, named and summed, against the wire."""
    got = turns(b.rounds, store=lambda: fetched(b, "disabled")["rate"],
                wire=lambda: rate(b, "read", *BLOCKS["tcp_1m"], checksum=1))
    b.against("peer_fetch", "GB/s", got["store"], "the same bytes on the wire",
              got["wire"], None, rate=True)


def peer_checksum(b):
    """The same with transfer.checksum, against without."""
    got = turns(3 * b.rounds, on=lambda: fetched(b, "disabled")["rate"],
                off=lambda: fetched(b, "nosum")["rate"])
    b.against("peer_checksum", "GB/s", got["on"], "without sums", got["off"],
              ">= 0.9", rate=True)


def plan_shadow(b):
    """Submitting with a plan made and compared beside it, against without."""
    got = turns(3 * b.rounds,
                on=lambda: 1 / fetched(b, "shadow", 1, 65536)["us"],
                off=lambda: 1 / fetched(b, "disabled", 1, 65536)["us"])
    b.against("plan_shadow", "fetches/us", got["on"], "disabled", got["off"],
              ">= 0.98", rate=True)


FIGURES = dict(handoff_delta=handoff_delta, peer_fetch=peer_fetch,
               peer_checksum=peer_checksum,
               plan_shadow=plan_shadow, tcp_64k=lambda b: against_iperf(b, "tcp_64k"),
               tcp_1m=lambda b: against_iperf(b, "tcp_1m"),
               tcp_mooncake=against_mooncake, tcp_checksum=checksum, shm_copy_bytes=shm)
