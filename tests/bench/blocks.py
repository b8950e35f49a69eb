"""blocks.py - a fork as schedulers in Python have it: block tables and counts.

A branch copies its parent's list of block ids and counts each block once more.
"""
import sys
import time


class Blocks:
    def __init__(self, n):
        self.refs = [1] * n


class Request:
    def __init__(self, blocks, table, tokens):
        self.blocks, self.table, self.tokens = blocks, table, tokens

    def fork(self, n):
        out = []
        refs = self.blocks.refs
        for _ in range(n):
            table = list(self.table)
            for b in table:
                refs[b] += 1
            out.append(Request(self.blocks, table, self.tokens))
        return out

    def release(self):
        refs = self.blocks.refs
        for b in self.table:
            refs[b] -= 1
        self.table = []


def times(context, rounds, branches=8, page=16):
    """Seconds of each fork of `branches`; they are released again between."""
    n = context // page
    r = Request(Blocks(n), list(range(n)), range(context))
    out = []
    for _ in range(rounds):
        t = time.perf_counter()
        forked = r.fork(branches)
        out.append(time.perf_counter() - t)
        for f in forked:
            f.release()
    return out


if __name__ == "__main__":
    print(sorted(times(int(sys.argv[1]), 101))[50])
