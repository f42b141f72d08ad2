#!/usr/bin/env python3
"""grouped.py ADLGEN: a grouped product whose tiles a sub-kernel orders, on the simulator, against double precision; rows
past the end of a group are not touched."""
import random
import sys
import tempfile

from kernel import Kernel, bf16, close, number

G, R, N, K, COUNTS, SENTINEL = 3, 160, 136, 72, [129, 0, 5], 0x4242
WORDS = {"h100": ["via tma", "via warpgroup", "role @producer"], "a100": ["via async", "via warp"]}


def compare(gpu, out, a, b):
    values_a, values_b = [number(x) for x in a], [number(x) for x in b]
    for g in range(G):
        columns = [values_b[(g * N + n) * K:(g * N + n + 1) * K] for n in range(N)]
        for r in range(R):
            row = values_a[(g * R + r) * K:(g * R + r + 1) * K]
            for n in range(N):
                got = out[(g * R + r) * N + n]
                if r >= COUNTS[g]:
                    if got != SENTINEL:
                        sys.exit(f"{gpu}: row {r} of group {g} lies past its end and was written")
                elif not close(got, sum(x * y for x, y in zip(row, columns[n]))):
                    sys.exit(f"{gpu}: D[{g}, {r}, {n}] is {number(got)}")


random.seed(7)
a, b = [[bf16(random.gauss(0, 1)) for _ in range(G * rows * K)] for rows in (R, N)]
for gpu, words in WORDS.items():
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "grouped", "gemm_grouped_masked", gpu, words, folder, 2)
        buffers = {"A": ("bf16", a), "B": ("bf16", b), "counts": ("s32", COUNTS), "D": ("bf16", [SENTINEL] * (G * R * N))}
        maps = {"A": ([K, R, G], [64, 128, 1]), "B": ([K, N, G], [64, 128, 1])}
        compare(gpu, kernel.run(2, 100000, buffers, [G, R, N, K], maps, "D"), a, b)
        print(f"{gpu}: {sum(COUNTS) * N} elements right")
