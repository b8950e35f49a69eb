"""harness.py - taking turns, timing processes, and saying what came out."""
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time
import zlib

median = statistics.median


class Bench:
    def __init__(self, build, mid, peers, rounds, out):
        self.build = os.path.abspath(build)
        self.mid = os.path.abspath(mid)
        self.peers = os.path.abspath(peers)
        self.rounds = rounds
        self.out = out
        self.tmp = None          # a folder of this run
        self.store = None        # a store in it
        self.below, self.count = [], 0
        self.cpu = 0.0           # seconds that the last wall() took of a core
        self.others = Others()

    def clean(self):
        """Stores, and their folders on the memory tier, which are named by uuid."""
        for name in os.listdir(self.tmp):
            try:
                with open(os.path.join(self.tmp, name, "store"),
                          encoding="ascii") as f:
                    uuid = re.search(r"^uuid ([0-9a-f]{32})$", f.read(), re.M)
            except OSError:
                continue
            shutil.rmtree(os.path.join("/dev/shm", "epd-" + uuid[1]),
                          ignore_errors=True)
        shutil.rmtree(self.tmp, ignore_errors=True)

    def bin(self, name):
        return os.path.join(self.build, "bin", name)

    def tool(self, name):
        return os.path.join(self.build, "bench", name)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items() if k != "EPD_CONFIG"}
        env.update(EPD_STORE=self.store, EPD_MODEL=self.mid,
                   XDG_CONFIG_HOME=self.tmp, PATH=os.path.join(
                       self.build, "bin") + ":" + os.environ["PATH"], **more)
        return env

    def emit(self, figure, value, unit, peer, peer_value, ratio, bar, n):
        """bar is ">= 2" or "<= 0.1" of the ratio, or "<= 30 ms" of the value."""
        line = dict(figure=figure, value=sig(value), unit=unit, peer=peer,
                    peer_value=sig(peer_value), ratio=sig(ratio), bar=bar,
                    n=n, others=self.others.share())
        text = json.dumps(line)
        print(text, flush=True)
        with open(self.out, "a", encoding="utf-8") as f:
            f.write(text + "\n")
        self.count += 1
        m = re.fullmatch(r"([<>]=) ([0-9.]+)( \S+)?", bar or "")
        if m:
            x = value if m[3] else ratio
            if not (x <= float(m[2]) if m[1] == "<=" else x >= float(m[2])):
                self.below.append(line)

    def against(self, figure, unit, own, peer, theirs, bar, rate=False):
        """Lists of one value a round; rate: more is better."""
        r = [a / b if rate else b / a for a, b in zip(own, theirs)]
        self.emit(figure, median(own), unit, peer, median(theirs), median(r),
                  bar, len(own))

    def alone(self, figure, argv, bar, n):
        """A process with no peer: its time, and of that the processor's."""
        self.wall(*argv)
        both = [(1e3 * self.wall(*argv), 1e3 * self.cpu) for _ in range(n)]
        t, cpu = zip(*both)
        self.emit(figure, median(t), "ms", None, None, None, bar, n)
        self.emit(figure + "_cpu", median(cpu), "ms", None, None, None, None,
                  n)

    def skip(self, figure, why):
        print(f"SKIP {figure}: {why}", file=sys.stderr, flush=True)

    def need(self, figure, *paths, why="make bench-peers installs it"):
        """Whether a peer is there; says it aloud if not."""
        for p in paths:
            if not os.path.exists(os.path.join(self.peers, p)):
                self.skip(figure, f"no {p} in {self.peers}; {why}")
                return False
        return True

    def run(self, *argv, **kw):
        """Standard output of a command that must work."""
        p = subprocess.run(argv, env=self.env(), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, check=False,
                           **kw)
        if p.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {p.stderr[-400:]}")
        return p.stdout

    def works(self, *argv):
        return [json.loads(x) for x in self.run(*argv).splitlines()]

    def wall(self, *argv):
        """Seconds of a whole process that writes to /dev/null."""
        null = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)]
        env = self.env()
        t = time.perf_counter()
        pid = os.posix_spawn(argv[0], argv, env, file_actions=null)
        _, status, used = os.wait4(pid, 0)
        t = time.perf_counter() - t
        self.cpu = used.ru_utime + used.ru_stime
        if status:
            raise RuntimeError(f"{' '.join(argv)}: status {status}")
        return t


def sig(x):
    return x if x is None else float(f"{x:.4g}")


def turns(rounds, **sides):
    """Each side in turn, round after round; a list of what each gave."""
    got = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            got[name].append(side())
    return got


class Others:
    """The share of the machine that went to processes not of this run."""

    def __init__(self):
        self.servers = set()     # pids still running whose time is ours
        self.last = 0.0
        self.mark()

    def _own(self):
        t = os.times()
        own = sum(t[:4])
        for pid in self.servers:
            own += ticks_of(pid)
        return own

    def mark(self):
        self.own, (self.busy, self.total) = self._own(), machine()

    def share(self):
        own, (busy, total) = self._own(), machine()
        if total - self.total < 0.05:
            return self.last
        share = (busy - self.busy - (own - self.own)) / \
            max(total - self.total, 0.01)
        self.mark()
        self.last = round(max(share, 0.0), 2)
        return self.last


TICK = os.sysconf("SC_CLK_TCK")


def machine():
    with open("/proc/stat", encoding="ascii") as f:
        v = [int(x) / TICK for x in f.readline().split()[1:9]]
    return sum(v) - v[3] - v[4], sum(v)


def ticks_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            v = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(v[11]) + int(v[12])) / TICK


def png(path, side, seed):
    """A picture of blocks of noise, 4 x 4 pixels each."""
    rows, state = [], seed * 2654435761 % 2**32 | 1
    for _ in range(0, side, 4):
        row = bytearray(b"\0")
        for _ in range(0, side, 4):
            state = state * 1664525 + 1013904223 & 0xFFFFFFFF
            row += struct.pack(">I", state)[:3] * 4
        rows.append(bytes(row[:1 + 3 * side]) * 4)
    data = b"".join(rows)[:(1 + 3 * side) * side]

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(
            ">I", zlib.crc32(kind + body))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
            ">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(data, 1)) + chunk(b"IEND", b""))
    # A file younger than two seconds is not remembered by its times.
    then = time.time() - 10
    os.utime(path, (then, then))
    return path
