#!/usr/bin/env python3
"""bench.py - figures as ratios, taken in turns in one run.

    bench.py --build DIR --mid DIR --peers DIR [--rounds N] [--out FILE] [NAME ...]

NAME is a group (engine, start) or the beginning of a figure's name; without one
all figures are made.  Each is one JSON line: figure, value, unit, peer,
peer_value, ratio (medians of n rounds), bar, and the share of the machine that
others had meanwhile.  A peer that is absent is said aloud and its rows left out;
what is below its bar is printed all the same and named at the end.
"""
import argparse
import os
import sys
import tempfile

sys.dont_write_bytecode = True

import engine  # noqa: E402
import mooncake  # noqa: E402
import mount   # noqa: E402
import plan    # noqa: E402
import start   # noqa: E402
import state   # noqa: E402
import tier  # noqa: E402
import transfer  # noqa: E402
from harness import Bench  # noqa: E402

GROUPS = dict(engine=engine.FIGURES, start=start.FIGURES,
              state=state.FIGURES, plan=plan.FIGURES,
              transfer=transfer.FIGURES, mount=mount.FIGURES,
              tier=tier.FIGURES, mooncake=mooncake.FIGURES)


def chosen(names):
    for group, figures in GROUPS.items():
        for figure, fn in figures.items():
            if not names or group in names or any(
                    figure.startswith(n) for n in names):
                yield figure, fn


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--build", required=True)
    ap.add_argument("--mid", required=True)
    ap.add_argument("--peers", required=True)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--out", default=os.devnull)
    ap.add_argument("names", nargs="*")
    a = ap.parse_args()
    todo = list(chosen(a.names))
    if not todo:
        ap.error("no figure of that name; there are " + ", ".join(
            f for g in GROUPS.values() for f in g))
    b = Bench(a.build, a.mid, a.peers, a.rounds, a.out)
    b.tmp = tempfile.mkdtemp(prefix="epd-bench.")
    b.store = os.path.join(b.tmp, "store")
    failed = 0
    try:
        # In the page cache before anything is timed.
        with open(os.path.join(b.mid, "model.safetensors"), "rb") as f:
            while f.read(1 << 22):
                pass
        for figure, fn in todo:
            b.others.mark()
            try:
                fn(b)
            except (RuntimeError, OSError, ValueError) as e:
                print(f"FAILED {figure}: {e}", file=sys.stderr, flush=True)
                failed += 1
    finally:
        b.clean()
    print(f"{b.count} figures, {len(b.below)} below their bar, "
          f"{failed} failed", file=sys.stderr)
    for f in b.below:
        print(f"    {f['figure']}: {f['value']} {f['unit']}, ratio "
              f"{f['ratio']} against {f['peer']}, bar {f['bar']}",
              file=sys.stderr)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
