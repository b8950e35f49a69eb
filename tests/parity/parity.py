#!/usr/bin/env python3
"""Fresh random checkpoints, computed by the reference and by this engine.

usage: parity.py --runner PROGRAM --out DIR [options]

For each family a few small checkpoints of random shapes and one of true widths
are made from the seed; tests/golden/gen.py computes what the reference says of
them, PROGRAM (tests/golden/run.c) compares.  A checkpoint is removed once it
passed.  The last line is "N passed, N failed".
"""
import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import time

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
FAMILIES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"]
ROWS = 152064
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def small_text(r, family):
    kv = r.choice([1, 1, 2, 2, 3])
    heads = kv * r.choice([1, 2, 3, 4])
    head_dim = r.choice([8, 12, 16, 20, 24, 32, 40])
    n = head_dim // 2
    if family == "qwen3_vl":
        third = n // 3
        return dict(hidden=r.choice([40, 52, 64, 72, 100]), heads=heads, kv=kv, head_dim=head_dim,
                    mrope=[n - 2 * third, third, third])
    first = r.randint(1, n - 2)
    second = r.randint(1, n - first - 1)
    return dict(hidden=heads * head_dim, heads=heads, kv=kv, mrope=[first, second, n - first - second])


def small(r, family, layers):
    text = small_text(r, family)
    text.update(inter=r.choice([61, 88, 96, 130, 176]), layers=layers or r.randint(1, 4), theta=r.choice([1e4, 1e6, 5e6]),
                eps=r.choice([1e-5, 1e-6]))
    depth, heads = r.randint(2, 4), r.choice([1, 2, 3, 4])
    vision = dict(depth=depth, heads=heads, dim=heads * r.choice([8, 12, 16, 20, 24]))
    if family == "qwen2_vl":
        vision.update(mlp_ratio=r.choice([2, 3, 4]))
    elif family == "qwen2_5_vl":
        vision.update(inter=r.choice([45, 72, 100, 131]), window=r.choice([56, 112]), tps=r.choice([1, 2, 4]),
                      fullatt=sorted(r.sample(range(depth), r.randint(1, depth - 1))))
    else:
        taps = r.randint(1, min(depth, text["layers"]))
        vision.update(inter=r.choice([45, 72, 96, 131]), pos=r.choice([4, 6, 8, 12]) ** 2,
                      deepstack=sorted(r.sample(range(depth), taps)))
    return dict(vocab=r.randint(538, 720), tied=r.random() < .5, shards=r.choice([1, 2]),
                layout=r.choice(["hub", "hub", "new"]), text=text, vision=vision)


def true(r, family, layers):
    """Widths of published checkpoints, the hidden size kept to what memory allows."""
    layers = layers or 2
    text = dict(layers=layers, theta=1e6, eps=1e-6, mrope=[16, 24, 24])
    if family == "qwen2_vl":
        text.update(hidden=1536, inter=8960, heads=12, kv=2)
        vision = dict(depth=2, dim=1280, heads=16, mlp_ratio=4)
    elif family == "qwen2_5_vl":
        text.update(hidden=1024, inter=8960, heads=8, kv=2)
        vision = dict(depth=2, dim=1280, heads=16, inter=3420, window=112, fullatt=[1], tps=2)
    else:
        text.update(hidden=1280, inter=4096, heads=16, kv=8, head_dim=128, theta=5e6, mrope=[24, 20, 20])
        vision = dict(depth=2, dim=1152, heads=16, inter=4304, pos=2304, deepstack=list(range(min(2, layers))))
    return dict(vocab=ROWS, tied=family != "qwen2_5_vl", shards=1, layout="hub", text=text, vision=vision)


def images(r):
    """Name, kind, width, height, seed as in spec_dev.py: a and b fit the grid, r and s are resized."""
    out, by_factor = [], {}
    seed = r.randrange(1 << 20)
    odd = ("odd.png", "rgb", r.randint(50, 400), r.randint(50, 400), seed)
    tall = ("tall.jpg", "jpg", r.randint(20, 60), r.randint(150, 260), seed + 1)
    for f in (28, 32):
        a = (f"exact{f}_a.png", "rgb", f * r.randint(2, 5), f * r.randint(2, 4), seed + f)
        b = (f"exact{f}_b.png", "rgb", f * 5, f * 3, seed + f + 1)
        out += [a, b]
        by_factor[f] = dict(a=a[0], b=b[0], r=odd[0], s=tall[0])
    return [odd, tall] + out, by_factor


def write_spec(path, name, r, checkpoints, margin):
    imgs, by_factor = images(r)
    most = r.choice([20, 40, 90])
    with open(path, "w") as f:
        f.write("from spec_dev import *\n")
        for key, value in dict(NAME=name, IMAGES=imgs, IMG=by_factor, PIXEL_VALUES_FULL=["odd.png"],
                               PROC={28: dict(min_pixels=3136, max_pixels=784 * most),
                                     32: dict(min_pixels=4096, max_pixels=1024 * most)},
                               MIN_MARGIN=margin, MIN_DIVERSITY=0, CHECKPOINTS=checkpoints).items():
            f.write(f"{key} = {value!r}\n")


def set_shape(c, settings):
    """text.hidden=2048, vision.heads=8, vocab=1000, ..."""
    for s in settings:
        key, value = s.split("=", 1)
        d = c
        *path, last = key.split(".")
        for p in path:
            d = d[p]
        d[last] = ast.literal_eval(value)


def plan(a):
    """A list of (name of the set, checkpoints, margin)."""
    r = random.Random(a.seed)
    sets = []
    for family in FAMILIES if a.family == "all" else [a.family]:
        group = []
        for kind, make, count in ("small", small, a.count), ("true", true, 1):
            if a.widths not in (kind, "both"):
                continue
            for k in range(count):
                c = make(r, family, a.layers)
                dtype = a.dtype or (r.choice(list(DTYPES)) if kind == "small" else "bf16")
                c.update(name=f"{family}-{kind}{k}", family=family, seed=1000 * a.seed + 50 * k, cases=a.cases,
                         padding=.7 if kind == "true" else .35,
                         dtype=DTYPES[dtype])
                set_shape(c, a.set)
                # Logits of one size whatever the width, so that one tolerance serves.
                c["embed"] = 4 / c["text"]["hidden"] ** .5
                group.append(c)
            if kind == "true" or a.widths != "both":
                sets.append((f"{family}-{a.seed}", group))
    return sets


def describe(c):
    t, v = c["text"], c["vision"]
    q = t["heads"] * t.get("head_dim", t["hidden"] // t["heads"])
    return (f"{c['dtype']}, {c['vocab']} rows{' tied' if c['tied'] else ''}, text {t['layers']} x {t['hidden']}, "
            f"{t['heads']}/{t['kv']} heads of {q // t['heads']}, FFN {t['inter']}; vision {v['depth']} x {v['dim']}, "
            f"heads of {v['dim'] // v['heads']}, FFN {v.get('inter', v.get('mlp_ratio', 0) * v['dim'])}")


def run_set(a, name, group):
    out = os.path.join(a.out, name)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    spec = os.path.join(out, "spec.py")
    write_spec(spec, name, random.Random(f"{a.seed} {name}"), group, a.margin)
    for c in group:
        print(f"# {c['name']}: {describe(c)}", flush=True)
    t = time.time()
    g = subprocess.run([sys.executable, "-B", os.path.join(GOLDEN, "gen.py"), "--spec", spec, "--out", out],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print("".join(f"#   {line}\n" for line in g.stdout.splitlines()[-12:]), end="")
    if g.returncode:
        print(f"not ok - {name}: the reference's program ended with status {g.returncode}", flush=True)
        return 0, 1
    took = time.time() - t
    t = time.time()
    p = subprocess.run([a.runner, out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    good = len(re.findall(r"(?m)^ok ", p.stdout))
    bad = len(re.findall(r"(?m)^not ok ", p.stdout))
    if bad or p.returncode or a.verbose:
        print(p.stdout, end="")
    if not bad and (p.returncode or not good):
        print(f"not ok - {name}: the runner ended with status {p.returncode}")
        bad = 1
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(out) for f in fs)
    print(f"# {name}: {good} passed, {bad} failed; reference {took:.0f} s, engine {time.time() - t:.0f} s, "
          f"{size / 1e6:.0f} MB", flush=True)
    if not bad and not a.keep:
        shutil.rmtree(out)
    return good, bad


def main():
    p = argparse.ArgumentParser(description="Compare with the reference on fresh random checkpoints.")
    p.add_argument("--runner", required=True, help="the golden runner")
    p.add_argument("--out", required=True, help="directory for checkpoints while they are compared")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--family", choices=FAMILIES + ["all"], default="all")
    p.add_argument("--widths", choices=["small", "true", "both"], default="both")
    p.add_argument("--count", type=int, default=2, help="small checkpoints a family")
    p.add_argument("--layers", type=int, help="text layers (small: 1 to 4 by chance; true: 2)")
    p.add_argument("--dtype", choices=list(DTYPES), help="stored type (small: by chance; true: bf16)")
    p.add_argument("--cases", choices=["few", "all"], default="few", help="all adds turns, batches, forks and video")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a shape, e.g. text.hidden=2048 or vocab=900")
    p.add_argument("--margin", type=float, default=.002, help="smallest top-1 margin of a greedy path that is compared")
    p.add_argument("--keep", action="store_true", help="leave the sets where they are")
    p.add_argument("--verbose", action="store_true", help="show the runner's lines")
    a = p.parse_args()
    good = bad = 0
    for name, group in plan(a):
        g, b = run_set(a, name, group)
        good, bad = good + g, bad + b
    print(f"{good} passed, {bad} failed")
    sys.exit(bad > 0 or good == 0)


if __name__ == "__main__":
    main()
