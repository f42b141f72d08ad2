#!/usr/bin/env python3
"""both.py ADLGEN: two roles of different sizes between the one that copies and the one that multiplies, on the simulator,
against double precision."""
import random
import sys
import tempfile

from kernel import Kernel, bf16, e4m3, number

WORDS = ["role @producer warps 0 .. 4", "role @fills_a warps 4 .. 12", "role @fills_b warps 12 .. 16",
         "role @consumer warps 16 .. 24", "channel @a slots 2 full_arrivals 8 empty_arrivals 8",
         "channel @b slots 3 full_arrivals 4 empty_arrivals 8", "via warpgroup"]
SHARED = 114832

random.seed(12)
for M, N, K in (130, 72, 208), (1, 1, 16):
    a = [random.randrange(-128, 128) for _ in range(M * K)]
    b = [random.choice([code for code in range(256) if (code & 127) < 127]) for _ in range(N * K)]
    s = [random.choice([1, 2, 3]) / 64 for _ in range(M)]
    A, B = [number(bf16(a[i] * s[i // K])) for i in range(M * K)], [e4m3(code) for code in b]
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "both", "both", "h100", WORDS, folder, 2)
        buffers = {"A": ("s8", a), "S": ("f32", s), "B": ("e4m3", b), "D": ("f32", [0] * (M * N))}
        maps = {"A": ([K, M], [64, 128], 0), "B": ([K, N], [64, 64], 0)}
        d = kernel.run(2, SHARED, buffers, [M, N, K], maps, "D")
    for i in range(M * N):
        m, n = divmod(i, N)
        row, column = A[m * K:(m + 1) * K], B[n * K:(n + 1) * K]
        size = sum(abs(x * y) for x, y in zip(row, column))
        if abs(d[i] - sum(x * y for x, y in zip(row, column))) > 1e-5 * size:
            sys.exit(f"D[{m}, {n}] is {d[i]}")
    print(f"h100: {M * N} elements right")
