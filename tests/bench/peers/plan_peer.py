#!/usr/bin/env python3
"""plan_peer.py - a planner in Python, as small as one can be that filters by
capability and health and ranks by cost, over the same five scenarios as plan.c.

    plan_peer.py [DECISIONS]

One JSON line: plan_ns and ok.  What ours does besides - policies, freshness, charges,
dependencies, reasons - it leaves out.
"""
import json
import sys
import time
from typing import NamedTuple


class Way(NamedTuple):
    name: str
    near: bool                # within a machine
    far: bool                 # between machines
    memories: frozenset       # pairs; empty: any
    needs: tuple              # what must be up
    begin_us: float
    us_per_byte: float


HOST, GPU = "host", "gpu"
BOTH = frozenset((x, y) for x in (HOST, GPU) for y in (HOST, GPU))
WAYS = (
    Way("rdma", False, True, BOTH, ("rdma",), 10, 1 / 50e3),
    Way("shm", True, False, frozenset([(HOST, HOST)]), ("shm",), 1, 1 / 20e3),
    Way("tcp", True, True, frozenset([(HOST, HOST)]), ("tcp",), 60, 1 / 3e3),
    Way("staged", False, True, BOTH - {(HOST, HOST)}, ("tcp", "copy"),
        70, 1 / 3e3 + 2 / 10e3),
    Way("recompute", True, True, frozenset(), (), 200e3, 0.0),
)
CASES = (
    (GPU, GPU, True, frozenset(), "rdma"),
    (HOST, HOST, False, frozenset(), "shm"),
    (HOST, HOST, True, frozenset(["rdma"]), "tcp"),
    (GPU, GPU, True, frozenset(["rdma"]), "staged"),
    (GPU, GPU, True, frozenset(["rdma", "tcp"]), "recompute"),
)


def plan(source, target, remote, down, size):
    pair = source, target
    fit = [(w.begin_us + w.us_per_byte * size, i) for i, w in enumerate(WAYS)
           if (w.far if remote else w.near)
           and (not w.memories or pair in w.memories)
           and down.isdisjoint(w.needs)]
    return WAYS[min(fit)[1]].name


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200000
    size = 1 << 20
    ok = sum(plan(*c[:4], size) == c[4] for c in CASES)
    began = time.perf_counter_ns()
    for i in range(n):
        c = CASES[i % 5]
        plan(c[0], c[1], c[2], c[3], size)
    ns = (time.perf_counter_ns() - began) / n
    print(json.dumps(dict(plan_ns=round(ns, 1), ok=ok)))


if __name__ == "__main__":
    main()
