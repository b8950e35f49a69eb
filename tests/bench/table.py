#!/usr/bin/env python3
"""table.py - the last of each figure in a bench.jsonl, as BENCH.md has them.

    table.py FILE
"""
import json
import sys


def number(x):
    """Four digits, without an exponent."""
    if x is None:
        return ""
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.4g}"


def main():
    last = {}
    with open(sys.argv[1], encoding="utf-8") as f:
        for d in map(json.loads, f):
            last[d["figure"], d["peer"]] = d
    print("| figure | ours | | against | theirs | ratio | bar | n | others |")
    print("|---|---:|---|---|---:|---:|---|---:|---:|")
    for (figure, peer), d in last.items():
        print(f"| {figure} | {number(d['value'])} | {d['unit']} | "
              f"{peer or ''} | {number(d['peer_value'])} | "
              f"{number(d['ratio'])} | {d['bar'] or ''} | {d['n']} | "
              f"{d['others']} |")


if __name__ == "__main__":
    sys.exit(main())
