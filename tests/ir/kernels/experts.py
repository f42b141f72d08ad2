#!/usr/bin/env python3
"""experts.py ADLGEN: two layers of a mixture of experts in one kernel, whose tiles a sub-kernel orders by sizes in memory; a
role between the one that copies and the one that stores multiplies, too. On the simulator, against double precision."""
import random
import sys
import tempfile

from kernel import Kernel, bf16, number

G, SENTINEL = 3, 0x4242
WORDS = {"h100": ["role @producer warps 0 .. 4", "role @fills_hidden warps 4 .. 8", "role @consumer warps 8 .. 16",
                  "channel @hidden slots 2 full_arrivals 4 empty_arrivals 8", "via tma", "via warpgroup"],
         "a100": ["role @all warps 0 .. 8", "via async", "via warp", "put @hidden.h["]}
SHARED = 131184


def product(rows, columns, k):
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in rows]


def split(values, rows, k):
    return [values[i * k:(i + 1) * k] for i in range(rows)]


def check(gpu, sizes, counts):
    R, H, N, K = sizes
    x, v, w = [[bf16(random.gauss(0, 0.5)) for _ in range(G * n)] for n in (R * K, H * K, N * H)]
    X, V, W = [[number(bits) for bits in t] for t in (x, v, w)]
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "experts", "experts", gpu, WORDS[gpu], folder, 2)
        buffers = {"X": ("bf16", x), "V": ("bf16", v), "W": ("bf16", w), "counts": ("s32", counts),
                   "D": ("bf16", [SENTINEL] * (G * R * N))}
        maps = {"X": ([K, R, G], [64, 64, 1]), "V": ([K, H, G], [64, 64, 1]), "W": ([H, N, G], [64, 256, 1])}
        out = kernel.run(2, SHARED, buffers, [G, R, H, N, K], maps, "D")
    for g in range(G):
        hidden = product(split(X[g * R * K:], counts[g], K), split(V[g * H * K:], H, K), K)
        hidden = [[number(bf16(max(0.0, value))) for value in row] for row in hidden]
        wanted = product(hidden, split(W[g * N * H:], N, H), H)
        for i in range(R * N):
            r, n = divmod(i, N)
            got = out[g * R * N + i]
            if r >= counts[g] and got != SENTINEL:
                sys.exit(f"{gpu}: row {r} of group {g} lies past its end and was written")
            if r < counts[g] and abs(number(got) - wanted[r][n]) > 2 ** -7 * max(1, abs(wanted[r][n])):
                sys.exit(f"{gpu}: D[{g}, {r}, {n}] is {number(got)}, not {wanted[r][n]}")
    print(f"{gpu}: {sum(counts) * N} elements right")


random.seed(3)
for gpu in WORDS:
    check(gpu, (72, 136, 40, 72), [70, 0, 5])
    check(gpu, (3, 8, 1, 8), [1, 3, 0])
