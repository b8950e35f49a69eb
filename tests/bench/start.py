"""start.py - the figures of starting up, and of what a process holds."""
import os
import subprocess
import sys
import time

from harness import median, turns
from peers.llama import Llama, Server

TINY = "examples/tiny-vlm"
PICTURE = TINY + "/samples/sample-images/005_0.png"
TEN = "How many of the shapes in this picture are red"


def start_tiny(b):
    """A new store's first process makes its caches: not counted."""
    argv = [b.bin("epd-prefill"), "-q", "-m", os.path.abspath(TINY + "/model"),
            "-i", os.path.abspath(PICTURE), "-p", TEN]
    b.alone("start_tiny", argv, "<= 30 ms", 4 * b.rounds + 1)


def start_mid(b):
    first = [b.tool("start"), "-m", b.mid, "-s", b.store]
    b.alone("start_mid", first, "<= 50 ms", 4 * b.rounds + 1)
    if not b.need("start_mid against llama-completion", "bin/llama-completion",
                  "models/mid-bf16.gguf"):
        return
    theirs = Llama(b.peers).completion(2)
    one = '"$0" -q --raw -p hello | "$1" -q --ignore-eos --temp 0 -n 1 -'
    b.wall(*theirs)
    got = turns(
        2 * b.rounds + 1,
        own=lambda: 1e3 * b.wall(*first),
        token=lambda: 1e3 * b.wall("/bin/sh", "-c", one, b.bin("epd-prefill"),
                                   b.bin("epd-decode")),
        llama=lambda: 1e3 * b.wall(*theirs))
    b.against("start_mid_layer", "ms", got["own"],
              "llama-completion to one token", got["llama"], ">= 10")
    b.against("start_mid_token", "ms", got["token"],
              "llama-completion to one token", got["llama"], None)


def start_state(b):
    store = os.path.join(b.tmp, "many")
    b.run(b.tool("state"), "fill", store)
    argv = [b.bin("epd-state"), "show", "--store", store, "big/s1"]
    b.alone("start_state", argv, "<= 5 ms", 8 * b.rounds + 1)


def prefix_match(b):
    d = b.works(b.tool("state"), "match")[0]
    b.emit("prefix_match", 1e6 * median(d["match"]), "us", None, None, None,
           "<= 50 us", len(d["match"]))


def private(pid):
    """MiB of a process that no one else has: its own memory, no file's."""
    total = 0
    mapped = True
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
        for line in f:
            key = line.split(None, 1)[0]
            if "-" in key and not key.endswith(":"):
                name = line.split(None, 5)[5:]
                mapped = bool(name) and name[0].startswith("/")
            elif key == "Private_Dirty:" or \
                    key == "Private_Clean:" and not mapped:
                total += int(line.split()[1])
    return total / 1024


def rss_mid(b):
    """While it decodes onto some 1,000 tokens, the most of what was seen."""
    state = b.run(b.bin("epd-prefill"), "-q", "-p",
                  "One word after another. " * 200).strip()
    p = subprocess.Popen(
        [b.bin("epd-decode"), "-q", "--ignore-eos", "-n", "48", state],
        env=b.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdout.read(1)
    seen = []
    while p.poll() is None and len(seen) < 20:
        try:
            seen.append(private(p.pid))
        except OSError:
            break
        time.sleep(0.05)
    p.stdout.read()
    if p.wait() or not seen or max(seen) == 0:
        raise RuntimeError("epd-decode could not be looked at")
    b.emit("rss_mid", max(seen), "MiB", None, None, None, "<= 64 MiB",
           len(seen))


def state_save(b):
    def ours():
        d = b.works(b.tool("state"), "save", b.store, "4096")[0]
        parts.append((d["save"], d["map"]))
        return 1e3 * (d["save"] + d["map"])

    parts = []
    rounds = 2 * b.rounds + 1
    if b.need("state_save against llama-server", "bin/llama-server",
              "models/mid-bf16.gguf", "models/mmproj-f16.gguf"):
        with Server(Llama(b.peers), b.others, b.tmp) as server:
            slot = server.slot(4096)
            slot()
            got = turns(rounds, own=ours, llama=lambda: 1e3 * slot())
        b.against("state_save_4096", "ms", got["own"],
                  "llama-server slot save and restore", got["llama"], ">= 2")
    else:
        v = [ours() for _ in range(rounds)]
        b.emit("state_save_4096", median(v), "ms", None, None, None, None,
               rounds)
    print("state_save: made durable in {:.1f} ms, mapped in {:.1f} ms".format(
        *(1e3 * median(x) for x in zip(*parts))), file=sys.stderr)


FIGURES = dict(start_tiny=start_tiny, start_mid=start_mid,
               start_state=start_state, prefix_match=prefix_match,
               rss_mid=rss_mid, state_save=state_save)
