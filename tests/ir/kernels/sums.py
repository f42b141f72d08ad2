#!/usr/bin/env python3
"""sums.py ADLGEN: two sums of unlike shape and their rows' reductions, on the simulator, against double precision."""
import random
import sys
import tempfile

from kernel import Kernel, bf16, number

M, N, L, K = 133, 128, 64, 72
WORDS = {"h100": ["role @producer", "in group.d(2) = var"], "a100": ["role @all warps 0 .. 8", "in mma.c("]}
SHARED = {"h100": 204848, "a100": 136192}


def check(gpu, name, columns, values, wanted):
    for i in range(M * columns):
        m, n = divmod(i, columns)
        if abs(values[i] - wanted[m][n]) > 1e-4:
            sys.exit(f"{gpu}: {name}[{m}, {n}] is {values[i]}, not {wanted[m][n]}")


random.seed(15)
x, w, v = [[bf16(random.gauss(0, 1)) for _ in range(n)] for n in (M * K, K * N, K * L)]
X, W, V = [[number(bits) for bits in tensor] for tensor in (x, w, v)]
wide = [[sum(X[m * K + k] * W[k * N + n] for k in range(K)) for n in range(N)] for m in range(M)]
narrow = [[sum(X[m * K + k] * V[k * L + n] for k in range(K)) for n in range(L)] for m in range(M)]
for gpu, words in WORDS.items():
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "sums", "sums", gpu, words, folder, 132)
        buffers = {"X": ("bf16", x), "W": ("bf16", w), "V": ("bf16", v), "D": ("f32", [0] * (M * N)),
                   "E": ("f32", [0] * (M * L))}
        maps = {"X": ([K, M], [64, 128]), "W": ([N, K], [64, 64]), "V": ([L, K], [64, 64]), "D": ([N, M], [32, 64]),
                "E": ([L, M], [32, 64])}
        d, e = kernel.run(2, SHARED[gpu], buffers, [M, K], maps, "D", "E")
    check(gpu, "D", N, d, [[value + max(narrow[m]) for value in wide[m]] for m in range(M)])
    check(gpu, "E", L, e, [[value - sum(wide[m]) for value in narrow[m]] for m in range(M)])
    print(f"{gpu}: {M * (N + L)} elements right")
