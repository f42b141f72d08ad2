#!/usr/bin/env python3
"""unpool.py ADLGEN: MaxUnpool on the simulator against its definition: elements at their places in a tensor of zeros, and zeros behind."""
import functools
import itertools
import math
import pathlib
import random
import sys

import runs

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=3)
draw = random.Random(11)


def check(gpu, kind, shape, kernel, strides, pads, wanted=None, symbol=None):
    n = len(kernel)
    inner = shape[:2] + [(shape[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[n + d] for d in range(n)]
    values = [float(draw.randint(-64, 64)) for _ in range(math.prod(shape))]
    places = draw.sample(range(math.prod(inner)), len(values))
    declared = [symbol or shape[0], *shape[1:]]
    graph = {"name": "unpool", "inputs": {"x": {"type": kind, "shape": declared}, "i": {"type": "s64", "shape": declared}}, "constants": {},
             "nodes": [{"op": "MaxUnpool", "inputs": ["x", "i"] + ["s"] * bool(wanted), "outputs": ["y"], "attributes": {"kernel_shape": kernel, "strides": strides, "pads": pads}}],
             "outputs": ["y"]}
    if wanted:
        graph["constants"]["s"] = {"type": "s64", "shape": [len(wanted)], "data": wanted}
    _, found = run(graph, gpu, [("x", kind, shape, values), ("i", "s64", shape, places)], dims={symbol: shape[0]} if symbol else None)
    at = dict(zip(places, values))
    whole = wanted or inner
    result = []
    for index in itertools.product(*map(range, whole)):
        inside = all(i < extent for i, extent in zip(index, inner))
        place = functools.reduce(lambda so_far, pair: so_far * pair[1] + pair[0], zip(index, inner), 0)
        result.append(at.get(place, 0.0) if inside else 0.0)
    if list(found["y"]) != result:
        sys.exit(f"{gpu} {kind} {shape} {kernel} {strides} {pads} {wanted}: not as defined")


check("h100", "f32", [1, 1, 2, 2], [2, 2], [2, 2], [0, 0, 0, 0])
check("a100", "f32", [1, 1, 2, 2], [2, 2], [2, 2], [0, 0, 0, 0], [1, 1, 5, 5])
check("h100", "f16", [2, 3, 5, 4], [3, 2], [2, 2], [1, 0, 0, 0], None, "N")
check("a100", "f32", [1, 2, 3, 2, 2], [2, 2, 2], [2, 1, 2], [0, 0, 0, 0, 0, 1], [1, 2, 7, 3, 4])
print("unpooled: right")
