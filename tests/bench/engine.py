"""engine.py - the figures of the engine."""
import json
import os
import subprocess
import sys
import time

from harness import median, png, turns
from peers.llama import Llama, Server

WORDS = "The quick brown fox jumps over the lazy dog near the river bank. "

KERN_BARS = [("gemm_m512", ">= 0.95"), ("gemm_m1_", ">= 1.5"),
             ("gemv_bandwidth", ">= 0.9"), ("attn_decode8k", ">= 0.75")]


def kern(prefix):
    def fn(b):
        argv = [b.tool("kern"), "-f", prefix, "-r", str(max(5, b.rounds) * 5)]
        p = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.PIPE)
        b.others.servers.add(p.pid)
        for d in map(json.loads, p.stdout):
            bar = [x for n, x in KERN_BARS if d["figure"].startswith(n)]
            b.emit(d["figure"], d["value"], d["unit"], d["peer"],
                   d["peer_value"], d["ratio"], bar[0] if bar else None,
                   max(5, b.rounds) * 5)
        err = p.stderr.read()
        b.others.servers.discard(p.pid)
        if p.wait():
            raise RuntimeError(err[-300:])
        for line in err.splitlines():
            if "SKIP" in line and prefix.startswith("gemm"):
                b.skip(prefix, line.split("SKIP ")[1])
    return fn


def own(b, threads, *works):
    """What engine says of each work: seconds."""
    return [d["seconds"] for d in b.works(b.tool("engine"), "-m", b.mid, "-t",
                                          str(threads), *works)]


LENGTHS = [512, 2048]


def text_mid(b, prefill, decode):
    """Prefill and decode on both sides, in the same rounds."""
    name = "prefill_mid" if prefill else "decode_mid"
    kinds = ["bf16", "f16"] if prefill else ["bf16"]
    if not b.need(name, "bin/llama-bench",
                  *[f"models/mid-{k}.gguf" for k in kinds]):
        return
    llama = Llama(b.peers)
    works = [f"prefill:{n}" for n in prefill] + [f"decode:{n}" for n in decode]
    for threads in (1, 2):
        sides = {"own": lambda: own(b, threads, *works)}
        for k in kinds:
            sides[k] = lambda k=k: llama.bench(k, threads, prefill,
                                               decode[0] if decode else 0)
        got = turns(b.rounds, **sides)
        for i, n in enumerate(prefill + decode):
            ours = [n / r[i] for r in got["own"]]
            for k in kinds:
                key = f"pp{n}" if i < len(prefill) else f"tg{n}"
                bar = {"f16": ">= 1.15", "bf16": ">= 0.85"}[k] if prefill \
                    else {1: ">= 1.0", 2: ">= 1.2"}[threads]
                b.against(f"{name}_{n}_t{threads}" if prefill else
                          f"{name}_t{threads}", "token/s", ours,
                          "llama.cpp " + k, [r[key] for r in got[k]], bar,
                          rate=True)


def prefill_mid(b):
    text_mid(b, LENGTHS, [])


def decode_mid(b):
    text_mid(b, [], [128])


def prefill_busy(b):
    """Beside a process that keeps one core for itself."""
    if not b.need("prefill_busy", "bin/llama-bench", "models/mid-bf16.gguf",
                  "models/mid-f16.gguf"):
        return
    llama = Llama(b.peers)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    b.others.servers.add(busy.pid)
    try:
        got = turns(b.rounds, own=lambda: 512 / own(b, 2, "prefill:512")[0],
                    **{k: lambda k=k: llama.bench(k, 2, [512], 0)["pp512"]
                       for k in ("bf16", "f16")})
    finally:
        b.others.servers.discard(busy.pid)
        busy.kill()
        busy.wait()
    for k in ("bf16", "f16"):
        b.against("prefill_busy_512_t2", "token/s", got["own"],
                  "llama.cpp " + k, got[k], ">= 2", rate=True)


def encode_mid(b):
    if not b.need("encode_mid", "bin/llama-mtmd-cli", "models/mid-bf16.gguf",
                  "models/mmproj-f16.gguf", "models/mmproj-bf16.gguf"):
        return
    llama = Llama(b.peers)
    for side in (448, 1008):
        image = png(os.path.join(b.tmp, f"{side}.png"), side, side)
        got = turns(b.rounds, own=lambda: own(b, 2, f"encode:{side}")[0],
                    **{k: lambda k=k: llama.encode(k, 2, image)
                       for k in ("f16", "bf16")})
        for k in ("f16", "bf16"):
            b.against(f"encode_mid_{side}_t2", "s", got["own"],
                      f"llama.cpp mmproj {k}", got[k], ">= 1.5")


def fan_out(b, text, answers, length):
    """Prefill, fork and decode as three processes, nothing known before."""
    t = time.perf_counter()
    state = b.run(b.bin("epd-prefill"), "-q", "--reuse", "none", "--raw", "-p",
                  text).strip()
    states = b.run(b.bin("epd-fork"), "-q", "--replace", "-n", str(answers),
                   state).split()
    b.run(b.bin("epd-decode"), "-q", "--ignore-eos", "--temp", "0.8", "-n",
          str(length), *states)
    return time.perf_counter() - t


def fanout8_mid(b):
    """1,024 tokens, then eight answers of 64."""
    if not b.need("fanout8_mid", "bin/llama-server", "models/mid-bf16.gguf"):
        return
    rounds = min(b.rounds, 3)
    text = " hello" * 1024
    ids = [1000 + i * 7919 % 100000 for i in range(1024)]
    with Server(Llama(b.peers), b.others, b.tmp, slots=8,
                context=8 * 2048) as server:
        got = turns(rounds, own=lambda: fan_out(b, text, 8, 64),
                    one=lambda: server.fanout(ids, 8, 64, True),
                    eight=lambda: server.fanout(ids, 8, 64, False))
    b.against("fanout8_mid_t2", "s", got["own"],
              "llama.cpp server, one request", got["one"], ">= 1.5")
    b.against("fanout8_mid_t2", "s", got["own"],
              "llama.cpp server, 8 requests", got["eight"], ">= 5")


def first_token(b, *prefill):
    """Seconds to the first token of an answer, two processes; and the state."""
    t = time.perf_counter()
    state = b.run(b.bin("epd-prefill"), "-q", *prefill).strip()
    b.run(b.bin("epd-decode"), "-q", "--ignore-eos", "--temp", "0", "-n", "1",
          state)
    return time.perf_counter() - t, state


def same_image(b):
    """A picture both sides have seen, behind words that they have not."""
    if not b.need("same_image", "bin/llama-server", "models/mid-bf16.gguf",
                  "models/mmproj-f16.gguf"):
        return
    rounds = min(b.rounds, 3)
    image = png(os.path.join(b.tmp, "same.png"), 1008, 77)
    b.run(b.bin("epd-encode"), image)
    count = iter(range(1000))
    with Server(Llama(b.peers), b.others, b.tmp) as server:
        server.first_token("To begin with.", image, "Describe it.")
        got = turns(
            rounds,
            own=lambda: first_token(
                b, "-p", f"Other words, {next(count)}.", "-i", image, "-p",
                "Describe it.")[0],
            llama=lambda: server.first_token(f"Other words, {next(count)}.",
                                             image, "Describe it."))
    b.against("same_image_1008_t2", "s", got["own"], "llama.cpp server",
              got["llama"], ">= 5")
    b.skip("same_image against vLLM", "not among the peers installed here")


def decode_branches8(b):
    for threads in (1, 2):
        d = b.works(b.tool("engine"), "-m", b.mid, "-t", str(threads), "-r",
                    str(b.rounds + 2), "branches:8,2048")[0]
        b.emit(f"decode_branches8_t{threads}", d["value"], "token/s",
               "one branch", d["against"], d["ratio"], ">= 5", d["n"])


def decode_shared16k(b):
    for threads in (1, 2):
        d = b.works(b.tool("engine"), "-m", b.mid, "-t", str(threads), "-r",
                    str(b.rounds + 2), "shared:8,16384")[0]
        b.emit(f"decode_shared16k_t{threads}", d["value"], "token/s",
               "8 that share nothing", d["against"], d["ratio"], ">= 2",
               d["n"])
    d = b.works(b.tool("engine"), "-m", b.mid, "-t", "1", "bytes:8,16384")[0]
    b.emit("decode_shared16k_bytes", d["value"], "byte/layer",
           "8 that share nothing", d["against"], d["ratio"], "<= 0.1667", 1)


def fraction(b, figure, unit, own_, peer, theirs, bar):
    """As against(), but the ratio is our part of theirs."""
    r = [x / y for x, y in zip(own_, theirs)]
    b.emit(figure, median(own_), unit, peer, median(theirs), median(r), bar,
           len(r))


def ttft_turn2(b):
    """Two pictures of 784 tokens each, and text up to some 2,048 tokens."""
    images = [png(os.path.join(b.tmp, f"turn{i}.png"), 784, 90 + i)
              for i in range(2)]
    b.run(b.bin("epd-encode"), *images)
    first = ["-i", images[0], "-i", images[1], "-p", WORDS * 33]
    states = []

    def cold():
        t, state = first_token(b, *first)
        states.append(state)
        return t

    got = turns(min(b.rounds, 3), cold=cold, own=lambda: first_token(
        b, "-p", "And the second?", states[-1])[0])
    fraction(b, "ttft_turn2", "s", got["own"], "cold first prefill",
             got["cold"], "<= 0.1")


def feature_hit(b):
    """Processes that encode a new picture, and the same one again."""
    n = iter(range(1000))
    seen = []

    def miss():
        seen.append(png(os.path.join(b.tmp, f"miss{len(seen)}.png"), 1008,
                        500 + next(n)))
        return b.wall(b.bin("epd-encode"), seen[-1])

    got = turns(min(b.rounds, 5), miss=miss,
                own=lambda: median([b.wall(b.bin("epd-encode"), seen[-1])
                                    for _ in range(5)]))
    fraction(b, "feature_hit_1008", "s", got["own"], "a miss", got["miss"],
             "<= 0.02")
    encode = own(b, 2, *["encode:1008"] * 3)
    looked = b.works(b.tool("state"), "lookup", b.store, b.mid, seen[-1])[0]
    look = median(looked["lookup"])
    b.emit("feature_lookup_1008", look, "s", "encoding", median(encode),
           look / median(encode), "<= 0.001", len(looked["lookup"]))


FIGURES = dict(
    gemm=kern("gemm"), gemv_bandwidth=kern("gemv"), attn_decode8k=kern("attn"),
    prefill_mid=prefill_mid, prefill_busy=prefill_busy, decode_mid=decode_mid,
    encode_mid=encode_mid, fanout8_mid=fanout8_mid, same_image=same_image,
    decode_branches8=decode_branches8, decode_shared16k=decode_shared16k,
    ttft_turn2=ttft_turn2, feature_hit=feature_hit)
