#!/usr/bin/env python3
"""fp8.py ADLGEN: an FP8 product whose scales come with the slots, one a row of A and step of k, on the simulator, against
double precision."""
import math
import random
import sys
import tempfile

from kernel import e4m3, Kernel, number

M, N, K, STEP = 140, 136, 272, 128
LIMIT = 4e-3  # of a bf16 result


random.seed(5)
steps, tiles_n = -(-K // STEP), -(-N // STEP)
a, b = [[random.choice([0, 0x28, 0x31, 0x36, 0x38, 0xB0, 0xBB, 0x3C]) for _ in range(rows * K)] for rows in (M, N)]
sa = [random.uniform(0.5, 2) for _ in range(steps * M)]
sb = [random.uniform(0.5, 2) for _ in range(tiles_n * steps)]
gpu, words = "h100", ["via tma", "via warpgroup", "role @producer", "map @map_SA", "get @ab.sa[%read]^T"]
with tempfile.TemporaryDirectory() as folder:
    kernel = Kernel(sys.argv[1], "fp8", "gemm_fp8", gpu, words, folder, 2)
    buffers = {"A": ("e4m3", a), "SA": ("f32", sa), "B": ("e4m3", b), "SB": ("f32", sb), "D": ("bf16", [0] * (M * N))}
    maps = {"A": ([K, M], [128, 128]), "B": ([K, N], [128, 128]), "SA": ([M, steps], [128, 1]), "D": ([N, M], [64, 128])}
    out = kernel.run(2, 199248, buffers, [M, N, K], maps, "D")
left, right = [[e4m3(x) for x in t] for t in (a, b)]
error = size = 0.0
for m in range(M):
    for n in range(N):
        wanted = 0.0
        for s in range(steps):
            part = range(s * STEP, min(K, (s + 1) * STEP))
            scale = sa[s * M + m] * sb[n // STEP * steps + s]
            wanted += scale * sum(left[m * K + k] * right[n * K + k] for k in part)
        error += (number(out[m * N + n]) - wanted) ** 2
        size += wanted ** 2
if math.sqrt(error / size) > LIMIT:
    sys.exit(f"{gpu}: error {math.sqrt(error / size):.2e}, limit {LIMIT}")
print(f"{gpu}: error {math.sqrt(error / size):.2e}, limit {LIMIT}")
