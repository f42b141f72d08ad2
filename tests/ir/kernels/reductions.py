#!/usr/bin/env python3
"""reductions.py ADLGEN: reductions of tuples, by the blocks of a cluster where the GPU has clusters, and rows that arrive in
a ring, on the simulator, against double precision."""
import math
import random
import sys
import tempfile

from kernel import Kernel, bf16, number

CLUSTER = {"h100": ["scope block", "barrier @shares.full", "peer 3"], "a100": ["reduce"]}
BLOCKS = {"h100": 4, "a100": 1}


def softmax(gpu):
    rows, columns = 3, 32768
    x = [bf16(random.gauss(0, 1)) for _ in range(rows * columns)]
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "softmax_cluster", "softmax_cluster", gpu, CLUSTER[gpu], folder, 8, "derive_barriers")
        buffers = {"X": ("bf16", x), "Y": ("bf16", [0] * len(x))}
        out = kernel.run(2 * BLOCKS[gpu], 672, buffers, [rows], {}, "Y")
    for r in range(rows):
        weights = [math.exp(number(v)) for v in x[r * columns:(r + 1) * columns]]
        total = sum(weights)
        for c, weight in enumerate(weights):
            if abs(number(out[r * columns + c]) - weight / total) > 2 ** -8 * weight / total:
                sys.exit(f"{gpu}: Y[{r}, {c}] is {number(out[r * columns + c])}, not {weight / total}")
    print(f"{gpu}: {len(x)} elements of a softmax right")


RINGS = {("rows_ring", "h100"): (["via bulk", "full_bytes 1280"], 2, 2592), ("rows_ring", "a100"): (["via async"], 2, 2560),
         ("rows_ring_cluster", "h100"): (["via bulk", "full_bytes 4096", "peer 3"], 8, 13520)}


def ring(name, gpu):
    """More rows than slots, a row or two of them in each."""
    words, blocks, shared = RINGS[name, gpu]
    rows, columns = (14, 320) if name == "rows_ring" else (9, 8192)
    x = [bf16(random.gauss(0, 1)) for _ in range(rows * columns)]
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], name, name, gpu, words, folder, blocks, "derive_barriers")
        out = kernel.run(blocks, shared, {"X": ("bf16", x), "Y": ("bf16", [0] * len(x))}, [rows], {}, "Y")
    for r in range(rows):
        row = [number(v) for v in x[r * columns:(r + 1) * columns]]
        scale = 1 / math.sqrt(sum(v * v for v in row))
        for c, value in enumerate(row):
            if abs(number(out[r * columns + c]) - value * scale) > 2 ** -8 * abs(value * scale):
                sys.exit(f"{name}, {gpu}: Y[{r}, {c}] is {number(out[r * columns + c])}, not {value * scale}")
    print(f"{gpu}: {rows} rows of {name} right")


def moments(gpu):
    rows, columns = 6, 4096
    x = [bf16(random.gauss(3, 1)) for _ in range(rows * columns)]
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "moments", "moments", gpu, CLUSTER[gpu], folder, 4, "derive_barriers")
        buffers = {"X": ("bf16", x), **{name: (kind, [7] * rows) for name, kind in
                                        (("Mean", "f32"), ("Far", "f32"), ("Peak", "f32"), ("At", "s32"))}}
        found = kernel.run(BLOCKS[gpu], 2048, buffers, [rows], {}, "Mean", "Far", "Peak", "At")
    for r, (mean, far, peak, at) in enumerate(zip(*found)):
        row = [number(v) for v in x[r * columns:(r + 1) * columns]]
        middle = sum(row) / columns
        squares = sum((v - middle) ** 2 for v in row)
        if abs(mean - middle) > 1e-5 * middle or abs(far - squares) > 1e-5 * squares:
            sys.exit(f"{gpu}: mean {mean}, squares {far} of row {r} are not {middle}, {squares}")
        if (peak, at) != (max(row), row.index(max(row))):
            sys.exit(f"{gpu}: largest element {peak} of row {r} at {at}, not {max(row)} at {row.index(max(row))}")
    print(f"{gpu}: moments and largest elements of {rows} rows right")


random.seed(5)
for name in BLOCKS:
    softmax(name)
    moments(name)
for name, gpu in RINGS:
    ring(name, gpu)
