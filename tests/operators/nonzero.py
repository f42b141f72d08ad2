#!/usr/bin/env python3
"""NonZero of a size that is known, against its definition: nonzero.py ADLGEN

One word and several rows of words, numbers of elements that fill none, extents that are open, fewer columns than elements that are not 0."""
import functools
import pathlib
import random
import sys

import runs

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=7)
draw = random.Random(5)


def non_zero(shape, values, size):
    found = [i for i, x in enumerate(values) if x != 0]
    rows, step = [], 1
    for extent in reversed(shape):
        rows.insert(0, [i // step % extent for i in found])
        step *= extent
    return [(row + [-1] * size)[:size] for row in rows], len(found)


def check(gpu, kind, shape, share, size=0, dims=None, most=None):
    n = 1
    for extent in shape:
        n *= extent
    values = [draw.choice([1, 2, 3]) if draw.random() < share else 0 for _ in range(n)]
    declared = shape if dims is None else [name if name else extent for name, extent in zip(dims, shape)]
    graph = {"name": "non_zero", "inputs": {"x": {"type": kind, "shape": declared}},
             "nodes": [{"op": "NonZero", "domain": "adlgen", "inputs": ["x"], "outputs": ["i", "n"], "attributes": {"size": size} if size else {}}], "outputs": ["i", "n"]}
    names = [name for name in dims or [] if name]
    if most:
        graph["dims"] = {name: {"max": most} for name in names}
    _, found = run(graph, gpu, [("x", kind, shape, values)], dims=dict(zip(names, [e for name, e in zip(dims or [], shape) if name])) or None)
    rows, count = non_zero(shape, values, size or n)
    wanted = [i for row in rows for i in row]
    if found["i"] != wanted or found["n"] != [count]:
        sys.exit(f"{gpu} NonZero {kind} {shape} {share}: {found['n']} {found['i'][:40]} in place of {count} {wanted[:40]}")


for device in ("h100", "a100"):
    check(device, "f32", [1], 1)
    check(device, "s32", [5, 7], 0.5)
    check(device, "f16", [4, 33, 2], 0.1, size=20)
    check(device, "s64", [32], 1)
    check(device, "f32", [8, 32], 0.9, size=7)
    check(device, "f32", [129], 0)
    check(device, "f32", [3, 0], 0)
    check(device, "f32", [40000], 0.02, size=1000)
    check(device, "f16", [2, 65536], 0.001, size=200)
    check(device, "f32", [9, 13], 0.4, dims=["A", None], most=4000)
    check(device, "s32", [0, 13], 0.4, size=3, dims=["A", None], most=4000)
print("NonZero: right")
