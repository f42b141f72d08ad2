#!/usr/bin/env python3
"""picks.py ADLGEN: `pick` in TILE text on the simulator, of rows that a bound of numbers drawn at random does not suit too."""
import math
import pathlib
import random
import sys
import tempfile

from kernel import Kernel

INF, NAN = math.inf, math.nan

TEXT = """adlgen-ir 1 tile
kernel picked(X: tensor<f32>[ROWS, COLUMNS], P: tensor<s32>[ROWS, MOST]) dims N: s32 launch threads 128 {
  tiles %r in linear(ROWS / 4) {
    %x: tile<f32>[4, COLUMNS] = load X[%r * 4, 0]
    %place: tile<s32>[4, MOST] = pick %x count KEEP dim 1
    store P[%r * 4, 0] <- %place
  }
}
"""


def hard_rows(columns):
    drawn = [random.gauss(0, 1) for _ in range(columns)]
    either = lambda share, a, b: [a if random.random() < share else b for _ in range(columns)]
    numbers = range(columns)
    return [drawn, list(map(float, numbers)), [-float(i) for i in numbers], [1.5] * columns,
            [0.0 if i % 2 else -0.0 for i in numbers], [i % 64 * .37 for i in numbers], [-INF] * columns, [INF] * columns,
            [NAN] * columns, [x if i < 5 else -INF for i, x in enumerate(drawn)],
            [NAN if random.random() < .3 else x for x in drawn], either(.5, NAN, INF), either(.005, NAN, INF),
            [max(x - 1.5, 0) for x in drawn], [x * 1e-42 for x in drawn], [1 + i * 1.2e-7 for i in numbers],
            [-0.0 if random.random() < .5 else -abs(x) for x in drawn], either(.5, 3e38, -3e38), either(.9, NAN, -INF),
            either(.02, 1.0, -INF)]


def check(gpu, columns, keep, most):
    rows = hard_rows(columns)
    text = TEXT
    for word, value in ("ROWS", len(rows)), ("COLUMNS", columns), ("MOST", most), ("KEEP", keep):
        text = text.replace(word, str(value))
    buffers = {"X": ("f32", sum(rows, [])), "P": ("s32", [0] * len(rows) * most)}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "picked.ir"
        path.write_text(text)
        kernel = Kernel(sys.argv[1], path, "picked", gpu, ["pick"], folder, 1, "choose_layouts")
        found = kernel.run(1, kernel.shared, buffers, [1], {}, "P")
    for r, row in enumerate(rows):
        places = list(found[r * most:(r + 1) * most])
        taken = [place for place in places if place >= 0]
        first = sorted(range(columns), key=lambda i: (not math.isnan(row[i]), 0 if math.isnan(row[i]) else -row[i], i))[:keep]
        if len(set(taken)) != len(taken) or not set(first) <= set(taken) or places[len(taken):] != [-1] * (most - len(taken)) \
                or max(taken) >= columns:
            sys.exit(f"{gpu}, {keep} of {columns}, {most} places: row {r} is wrong: {places}, first {first}")


EXTREMES = """adlgen-ir 1 tile
kernel extremes(X: tensor<f32>[R, C], P: tensor<s32>[R, 1], Q: tensor<s32>[R, 1]) dims R: s32, C: s32 maximum 2048 launch threads 128 {
  tiles %r in linear(R) row C hold registers {
    %x: tile<f32>[1, C] = load X[%r, 0]
    %column: tile<s32>[1, C] = iota dim 1
    %most: tile<f32>[1, 1], %first: tile<s32>[1, 1] = reduce %x, %column with @arg_max dim 1
    store P[%r, 0] <- %first
    %least: tile<f32>[1, 1], %last: tile<s32>[1, 1] = reduce %x, %column with @arg_min dim 1
    store Q[%r, 0] <- %last
  }
}
"""


def check_extremes(gpu, columns, hold):
    """Places of the largest and the smallest, the first of each, a NaN before all others."""
    rows = hard_rows(columns)
    buffers = {"X": ("f32", sum(rows, []))} | {name: ("s32", [0] * len(rows)) for name in "PQ"}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "extremes.ir"
        path.write_text(EXTREMES.replace("hold registers", f"hold {hold}"))
        kernel = Kernel(sys.argv[1], path, "extremes", gpu, ["@together"] if hold == "registers" else ["for %at"], folder, 1, "place_rows")
        found = kernel.run(len(rows), kernel.shared, buffers, [len(rows), columns], {}, *"PQ")
    for r, row in enumerate(rows):
        for places, sign in zip(found, (-1, 1)):
            wanted = min(range(columns), key=lambda i: (not math.isnan(row[i]), 0 if math.isnan(row[i]) else sign * row[i], i))
            if places[r] != wanted:
                sys.exit(f"{gpu}, {columns}: the extreme of row {r} is at {places[r]}, not {wanted}")


random.seed(3)
CASES = (("h100", 512, 16, 32), ("a100", 128, 1, 32), ("h100", 1024, 128, 256), ("a100", 4096, 64, 128), ("h100", 256, 8, 64))
for case in CASES:
    check(*case)
print(f"{len(CASES)} kernels of picked places right")
for where in ("h100", 1025, "registers"), ("a100", 33, "registers"), ("a100", 1025, "passes chunk 256"):
    check_extremes(*where)
print("places of extremes right")
