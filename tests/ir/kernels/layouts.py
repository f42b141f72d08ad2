#!/usr/bin/env python3
"""layouts.py ADLGEN: tiles of one shape in several layouts, the conversions between them, on the simulator, against double
precision."""
import random
import struct
import sys
import tempfile

from kernel import Kernel, bf16, close, number

M, N, K, L = 136, 72, 72, 40
WORDS = {"h100": ["in group.d(2) = var", "in group.d_across(4, 2) = var", "via shared exchange @exchange", "in blocked("],
         "a100": ["in mma.c(2, 2) = var", "in blocked("]}
SHARED = {"h100": 165952, "a100": 102400}


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def turn(gpu):
    """Y = X + X^T + the sums of its rows along columns, in tiles of 64 x 64."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["convert %x^T via shared", "convert %r^T via shared"]
        kernel = Kernel(sys.argv[1], "turn", "turn", gpu, words, folder, 132)
        out = kernel.run(6, 17792, {"X": ("f32", r), "Y": ("f32", [0] * (M * N))}, [M, N], {}, "Y")
    for m0, n0 in [(m0, n0) for m0 in range(0, M, 64) for n0 in range(0, N, 64)]:
        x = [[r[m * N + n] if m < M and n < N else 0 for n in range(n0, n0 + 64)] for m in range(m0, m0 + 64)]
        y = [[x[i][j] + x[j][i] for j in range(64)] for i in range(64)]
        for i, j in [(i, j) for i in range(min(64, M - m0)) for j in range(min(64, N - n0))]:
            if abs(out[(m0 + i) * N + n0 + j] - y[i][j] - sum(y[j])) > 1e-4:
                sys.exit(f"{gpu}: Y[{m0 + i}, {n0 + j}] is {out[(m0 + i) * N + n0 + j]}, not {y[i][j] + sum(y[j])}")


def row_sums(gpu, shared):
    """O = A (B + 1)^T: slots that products and arithmetic read."""
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "row_sums", "row_sums", gpu, ["get @ab.a[%read]"], folder, 2)
        buffers = {"A": ("bf16", a), "B": ("bf16", b), "O": ("bf16", [0] * (M * N))}
        maps = {"A": ([K, M], [64, 128]), "B": ([K, N], [64, 64]), "O": ([N, M], [64, 128])}
        out = kernel.run(2, shared, buffers, [M, N, K], maps, "O")
    for m in range(M):
        for n in range(N):
            wanted = sum(left[m * K + k] * (right[n * K + k] + 1) for k in range(K))
            if not close(out[m * N + n], wanted):
                sys.exit(f"{gpu}: O[{m}, {n}] is {number(out[m * N + n])}, not {wanted}")


random.seed(9)
a, b = [[bf16(random.gauss(0, 1)) for _ in range(rows * K)] for rows in (M, N)]
c, d = [[random.randint(-64, 64) / 32 for _ in range(rows * L)] for rows in (M, N)]  # tf32 holds them; C is [L, M] in memory
r = [single(random.gauss(0, 1)) for _ in range(M * N)]
left, right = [number(x) for x in a], [number(x) for x in b]
sums = [[sum(left[m * K + k] * right[n * K + k] for k in range(K)) + sum(c[l * M + m] * d[n * L + l] for l in range(L))
         for n in range(N)] for m in range(M)]
for gpu, words in WORDS.items():
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "layouts", "layouts", gpu, words, folder, 132)
        buffers = {"A": ("bf16", a), "B": ("bf16", b), "C": ("f32", c), "D": ("f32", d), "R": ("f32", r),
                   "O": ("bf16", [0] * (M * N)), "P": ("f32", [0] * (M * N))}
        maps = {"A": ([K, M], [64, 128]), "B": ([K, N], [64, 64]), "C": ([M, L], [32, 32]), "D": ([L, N], [32, 64]),
                "O": ([N, M], [64, 128])}
        out, squares = kernel.run(4, SHARED[gpu], buffers, [M, N, K, L], maps, "O", "P")
    for m in range(M):
        for n in range(N):
            size = 1 + sum(abs(x) for x in sums[m][n // 64 * 64:n // 64 * 64 + 64])
            if not close(out[m * N + n], sums[m][n] / size):
                sys.exit(f"{gpu}: O[{m}, {n}] is {number(out[m * N + n])}, not {sums[m][n] / size}")
            if abs(squares[m * N + n] - r[m * N + n] ** 2 / 2) > 1e-6 * r[m * N + n] ** 2:
                sys.exit(f"{gpu}: P[{m}, {n}] is {squares[m * N + n]}")
    turn(gpu)
    row_sums(gpu, {"h100": 106544, "a100": 75776}[gpu])
    print(f"{gpu}: {4 * M * N} elements right")
