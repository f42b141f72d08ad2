#!/usr/bin/env python3
"""unlisted.py ADLGEN [NAME...]: kernels that no part of the compiler was written for (unlisted/*.tile.ir), each with what it
computes, on the simulator with all checkers, against double precision."""
import math
import random
import sys
import tempfile

from kernel import HERE, Kernel, bf16, number

NEVER = 0x4242 # what elements hold that no kernel is to write


def drawn(n, deviation=0.5):
    return [bf16(random.gauss(0, deviation)) for _ in range(n)]


def rows(values, n):
    return [values[i:i + n] for i in range(0, len(values), n)]


def wide(bits):
    return [number(b) for b in bits]


def rounded(values):
    return [number(bf16(v)) for v in values]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def times(a, b):
    """a b^T, of lists of rows."""
    return [[dot(x, y) for y in b] for x in a]


def turned(a):
    return [list(column) for column in zip(*a)]


def tiles(*extents):
    n = 1
    for extent, side in zip(extents[::2], extents[1::2]):
        n *= -(-extent // side)
    return n


class Case:
    """A kernel's tensors, by the names of the text: (type, shape, values), and `out` those it writes."""

    def __init__(self, name, dims, blocks, tensors, out, wanted, allowed=2 ** -7):
        self.name, self.dims, self.blocks, self.tensors, self.out = name, dims, blocks, tensors, out
        self.wanted, self.allowed = wanted, allowed

    def run(self, adlgen, gpu):
        with tempfile.TemporaryDirectory() as folder:
            path = HERE / "unlisted" / f"{self.name}.tile.ir"
            kernel = Kernel(adlgen, path, self.name, gpu, [], folder, 4, "allocate_resources")
            buffers = {name: (kind, values) for name, (kind, shape, values) in self.tensors.items()}
            maps = {name: (self.tensors[name][1][::-1], box, swizzle) for name, (box, swizzle) in kernel.boxes.items()}
            cluster = kernel.template.get("cluster", [1])[0]
            found = kernel.run(self.blocks * cluster, kernel.shared, buffers, self.dims, maps, *self.out)
        for name, values in zip(self.out, found if len(self.out) > 1 else [found]):
            self.compare(gpu, name, values)

    def compare(self, gpu, name, values):
        kind, wanted = self.tensors[name][0], self.wanted[name]
        for i, (value, want) in enumerate(zip(values, wanted)):
            got = number(value) if kind == "bf16" else value
            if want is None:
                if value != NEVER:
                    sys.exit(f"{gpu}: {self.name}: {name}[{i}] was written")
            elif not abs(got - want) <= self.allowed * max(1, abs(want)):
                sys.exit(f"{gpu}: {self.name}: {name}[{i}] is {got}, not {want}")


def flat(a):
    return [v for row in a for v in row]


def empty(kind, *shape):
    return kind, list(shape), [NEVER] * math.prod(shape)


def operand(*shape, deviation=0.5):
    return "bf16", list(shape), drawn(math.prod(shape), deviation)


def two_sums(M, N, K):
    a, b, c = operand(M, K), operand(N, K), operand(N, K)
    A, B, C = (rows(wide(t[2]), K) for t in (a, b, c))
    s, t = times(A, B), times(A, C)
    # a block sees 64 columns
    P, T = [[0] * N for _ in range(M)], [[0] * N for _ in range(M)]
    for m in range(M):
        for first in range(0, N, 64):
            here = range(first, min(first + 64, N))
            one, two = sum(abs(s[m][n]) for n in here), sum(t[m][n] ** 2 for n in here)
            for n in here:
                P[m][n], T[m][n] = s[m][n] / (one + 1), t[m][n] / (two + 1) + one
    return Case("two_sums", [M, N, K], 2, {"A": a, "B": b, "C": c, "P": empty("bf16", M, N), "T": empty("f32", M, N)},
                ["P", "T"], {"P": flat(P), "T": flat(T)})


def ragged(starts, steps, N, K):
    G, R = len(steps), starts[-1] + 5
    a, b = operand(R, K), operand(G, N, K)
    A, B = rows(wide(a[2]), K), [rows(group, K) for group in rows(wide(b[2]), N * K)]
    D = [[None] * N for _ in range(R)]
    for g in range(G):
        for r in range(starts[g], starts[g + 1]):
            D[r] = [dot(A[r][:64 * steps[g]], B[g][n]) for n in range(N)]
    tensors = {"A": a, "B": b, "starts": ("s32", [G + 1], starts), "steps": ("s32", [G], steps), "D": empty("bf16", R, N)}
    return Case("ragged", [G, G + 1, R, N, K], 4, tensors, ["D"], {"D": flat(D)})


def three_roles(M, N, K):
    a, b = operand(M, K), operand(N, K)
    s = [random.gauss(0, 1) for _ in range(M)]
    A, B = rows(wide(a[2]), K), rows(wide(b[2]), K)
    scaled = [[] for _ in A]
    for k in range(0, K, 64): # the largest of what a slot has, zeros past the end included
        for m, row in enumerate(A):
            part = row[k:k + 64]
            most = max(part + [0.0] * (64 - len(part)))
            scaled[m] += rounded([v * most * s[m] for v in part])
    D = times(scaled, [rounded([v * v for v in row]) for row in B])
    return Case("three_roles", [M, N, K], 3, {"A": a, "S": ("f32", [M, 1], s), "B": b, "D": empty("f32", M, N)}, ["D"], {"D": flat(D)})


def four_blocks(R, C):
    x = [random.gauss(0, 2) for _ in range(R * C)]
    g = [random.gauss(0, 1) for _ in range(C)]
    X, Y, L = rows(x, C), [], []
    for row in X:
        most = max(row)
        root = math.sqrt(sum((v - most) ** 2 for v in row))
        L.append(most)
        Y += [(v - most) * w / root for v, w in zip(row, g)]
    tensors = {"X": ("f32", [R, C], x), "G": ("f32", [1, C], g), "Y": empty("bf16", R, C), "L": empty("f32", R, 1)}
    return Case("four_blocks", [R, C], R, tensors, ["Y", "L"], {"Y": Y, "L": L})


def alibi(Z, S):
    q, k, v = operand(Z, S, 64), operand(Z, S, 64), operand(Z, S, 64)
    O, L = [], []
    for z in range(Z):
        Q, K, V = (rows(wide(t[2][z * S * 64:(z + 1) * S * 64]), 64) for t in (q, k, v))
        for i in range(S):
            scores = [(dot(Q[i], K[j]) + (j - i) / 16) / 8 for j in range(i + 1)]
            weights = [math.exp(s) for s in scores]
            O += [dot(weights, column) / sum(weights) for column in turned(V[:i + 1])]
            L.append(math.log(sum(weights)))
    tensors = {"Q": q, "K": k, "V": v, "O": empty("bf16", Z, S, 64), "L": empty("f32", Z, S, 1)}
    return Case("alibi", [Z, S], Z * tiles(S, 64), tensors, ["O", "L"], {"O": O, "L": L}, 2 ** -6)


def paged(M, N, pages, P):
    K = 64 * len(pages)
    a, b = operand(M, K), operand(P, N, 64)
    B = [rows(page, 64) for page in rows(wide(b[2]), N * 64)]
    D = times(rows(wide(a[2]), K), [flat([B[p][n] for p in pages]) for n in range(N)])
    tensors = {"A": a, "B": b, "pages": ("s32", [len(pages)], pages), "D": empty("bf16", M, N)}
    return Case("paged", [M, N, K, P, len(pages)], 2, tensors, ["D"], {"D": flat(D)})


def chained(M, H):
    x, v, w = operand(M, 64), operand(H, 64), operand(H, 128)
    hidden = [rounded([s * abs(s) for s in row]) for row in times(rows(wide(x[2]), 64), rows(wide(v[2]), 64))]
    D = times(hidden, turned(rows(wide(w[2]), 128)))
    # an element of the hidden layer near the middle of two bf16 may be rounded to the other: 2^-6 at 4, by a weight of 1/2
    return Case("chained", [M, H], tiles(M, 64), {"X": x, "V": v, "W": w, "D": empty("bf16", M, 128)}, ["D"], {"D": flat(D)},
                2 ** -6)


def triangle(M, N):
    a, b = operand(M, M), operand(M, N)
    A = [row[:m + 1] for m, row in enumerate(rows(wide(a[2]), M))]
    columns = turned(rows(wide(b[2]), N))
    return Case("triangle", [M, N], tiles(M, 64, N, 64), {"A": a, "B": b, "D": empty("f32", M, N)}, ["D"],
                {"D": flat(times(A, columns))})


def columns(R, C):
    x = operand(R, C)
    across = turned(rows(wide(x[2]), C))
    return Case("columns", [R, C], tiles(C, 128), {"X": x, "SUM": empty("f32", 1, C), "MOST": empty("f32", 1, C)}, ["SUM", "MOST"],
                {"SUM": [sum(c) for c in across], "MOST": [max(c) for c in across]}, 2 ** -16)


def gradient(M, K, N):
    x, y, g = operand(M, K), operand(M, N), operand(M, N)
    masked = [b if a > 0 else 0.0 for a, b in zip(wide(y[2]), wide(g[2]))]
    D = times(turned(rows(wide(x[2]), K)), turned(rows(masked, N)))
    return Case("gradient", [M, K, N], 2, {"X": x, "Y": y, "G": g, "D": empty("f32", K, N)}, ["D"], {"D": flat(D)})


def taps(R, C, N):
    x, w = operand(R, C), operand(3, N, C)
    X, W = rows(wide(x[2]), C), [rows(t, C) for t in rows(wide(w[2]), N * C)]
    Y = [[sum(dot(X[r + t], W[t][n]) for t in range(3) if r + t < R) for n in range(N)] for r in range(R)]
    return Case("taps", [R, C, N], tiles(R, 64, N, 64), {"X": x, "W": w, "Y": empty("bf16", R, N)}, ["Y"], {"Y": flat(Y)})


def scales(M, N, K):
    a, b = ([random.randrange(-128, 128) for _ in range(n * K)] for n in (M, N))
    s, z = [random.choice((0.25, -0.5, 2.0)) for _ in range(M)], [random.randrange(-9, 10) for _ in range(N)]
    A, B = rows(a, K), rows(b, K)
    D = [[s[m] * (dot(A[m], B[n]) - z[n] * sum(A[m])) for n in range(N)] for m in range(M)]
    tensors = {"A": ("s8", [M, K], a), "B": ("s8", [N, K], b), "S": ("f32", [M, 1], s), "Z": ("s32", [1, N], z), "D": empty("f32", M, N)}
    return Case("scales", [M, N, K], 2, tensors, ["D"], {"D": flat(D)}, 0)


def cases():
    return [two_sums(130, 72, 136), ragged([0, 3, 3, 70], [1, 0, 2], 40, 72), three_roles(65, 33, 72), four_blocks(2, 4104),
            alibi(2, 65), paged(65, 40, [2, 0, 2], 3), chained(65, 80), triangle(136, 40), columns(69, 136), gradient(72, 72, 40),
            taps(67, 72, 40), scales(65, 33, 80)]


def main():
    random.seed(7)
    for case in cases():
        for gpu in ("h100", "a100"):
            if not sys.argv[2:] or case.name in sys.argv[2:]:
                case.run(sys.argv[1], gpu)
                print(f"{gpu}: {case.name}: right")


main()
