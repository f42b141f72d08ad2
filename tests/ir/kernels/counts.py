#!/usr/bin/env python3
"""counts.py ADLGEN: `count` in TILE text on the simulator: columns and rows, bins that are missing, counters that go on."""
import random
import sys
import tempfile

from kernel import Kernel

ELEMENTS, BINS, FEW = 512, 40, 3


def expected(x, start):
    counters, before = list(start), []
    for bin_ in x:
        inside = 0 <= bin_ < len(counters)
        before.append(counters[bin_] if inside else -1)
        if inside:
            counters[bin_] += 1
    return before, counters


def check(gpu, x, y, start):
    buffers = {"X": ("s32", x), "Y": ("s32", y), "A": ("s32", [0] * ELEMENTS), "B": ("s32", [0] * ELEMENTS), "S": ("s32", start),
               "E": ("s32", [0] * BINS), "F": ("s32", [0] * FEW)}
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "counts", "counts", gpu, ["count", "exchange"], folder, 1, "choose_layouts")
        found = dict(zip("ABEF", kernel.run(1, kernel.shared, buffers, [1], {}, *"ABEF")))
    a, e = expected(x, start)
    b, f = expected(y, [0] * FEW)
    for name, wanted in zip("ABEF", (a, b, e, f)):
        if list(found[name]) != wanted:
            sys.exit(f"{gpu}: {name} is wrong: {list(found[name])[:40]} in place of {wanted[:40]}")


random.seed(29)
for gpu in ("h100", "a100"):
    start = [random.randint(-5, 1000) for _ in range(BINS)]
    check(gpu, [random.randint(-2, BINS + 1) for _ in range(ELEMENTS)], [random.randint(0, 3) for _ in range(ELEMENTS)], start)
    check(gpu, [7] * ELEMENTS, [-2 ** 31, 2 ** 31 - 1] * (ELEMENTS // 2), start)
    check(gpu, [i % 64 for i in range(ELEMENTS)], [2 - i // 171 for i in range(ELEMENTS)], start)
    print(f"{gpu}: counters right")
