"""state.py - the figures of the state plane."""
import os

import blocks
from harness import median, turns

CONTEXTS = dict(ctx1k=1024, ctx128k=131072)
BARS = dict(ctx1k=">= 5", ctx128k=">= 500")


def forked(b, name, tokens, rounds):
    at = os.path.join(b.tmp, name)
    return median(b.works(b.tool("shard"), "fork", at, str(tokens),
                          str(rounds))[0]["fork"])


def fork8(b):
    got = turns(
        b.rounds,
        ctx1k=lambda: forked(b, "f1k", 1024, 400),
        ctx128k=lambda: forked(b, "f128k", 131072, 400),
        blocks1k=lambda: median(blocks.times(1024, 201)),
        blocks128k=lambda: median(blocks.times(131072, 21)))
    for name in CONTEXTS:
        b.against(f"fork8_{name}", "us", [1e6 * x for x in got[name]],
                  "Python block tables",
                  [1e6 * x for x in got[name.replace("ctx", "blocks")]],
                  BARS[name])
    r = [x / y for x, y in zip(got["ctx128k"], got["ctx1k"])]
    b.emit("fork8_flat", 1e6 * median(got["ctx128k"]), "us",
           "the same at 1k", 1e6 * median(got["ctx1k"]), median(r), "<= 1.2",
           len(r))


def fork8_cli(b):
    """A whole process, durable, beside one fdatasync in the same place."""
    state = b.run(b.bin("epd-prefill"), "-q", "-p",
                  "One word after another. " * 40).strip()
    argv = [b.bin("epd-fork"), "-q", "-n", "8", state]
    b.wall(*argv)
    got = turns(
        4 * b.rounds + 1,
        own=lambda: 1e3 * b.wall(*argv),
        sync=lambda: 1e3 * median(b.works(
            b.tool("shard"), "sync", b.tmp, "5")[0]["sync"]))
    more = [x - y for x, y in zip(got["own"], got["sync"])]
    b.emit("fork8_cli", median(got["own"]), "ms", "one fdatasync",
           median(got["sync"]), median(got["own"]) / median(got["sync"]),
           None, len(more))
    b.emit("fork8_cli_beyond_sync", median(more), "ms", None, None, None,
           "<= 3 ms", len(more))


def log_append(b):
    at = iter(range(1000))

    def rate(threads):
        return b.works(b.tool("shard"), "append",
                       os.path.join(b.tmp, f"append{next(at)}"), str(threads),
                       "1")[0]["rate"]
    got = turns(b.rounds, one=lambda: rate(1), many=lambda: rate(8))
    b.against("log_append", "1/s", got["many"], "one at a time", got["one"],
              ">= 4", rate=True)


def two_workflows(b):
    for flush, name, bar in ((0, "unflushed", ">= 1.8"), (1, "flushed", None)):
        d = [b.works(b.tool("shard"), "two", os.path.join(
            b.tmp, f"two{flush}{i}"), str(flush), "1")[0]
            for i in range(b.rounds)]
        b.against(f"two_workflows_{name}", "1/s", [x["two"] for x in d],
                  "one process", [x["one"] for x in d], bar, rate=True)


def open_10k(b):
    d = b.works(b.tool("shard"), "open", os.path.join(b.tmp, "open"),
                "10000", str(20 * b.rounds + 1))[0]
    b.emit("open_10k", 1e3 * median(d["open"]), "ms", None, None, None,
           "<= 2 ms", len(d["open"]))


FIGURES = dict(fork8_ctx=fork8, fork8_cli=fork8_cli, log_append=log_append,
               two_workflows=two_workflows, open_10k=open_10k)
