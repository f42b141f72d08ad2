#!/usr/bin/env python3
"""examined.py ADLGEN [NAME...]: more kernels that no part of the compiler was written for (examined/*.tile.ir), as somebody writes them
who tries the language: each on the simulator with all checkers, against double precision."""
import math
import random
import sys

from kernel import HERE
from unlisted import Case, drawn_halves, dot, empty, flat, halves, operand, rounded, rows, run, tiles, times, turned, wide


class Examined(Case):
    texts = HERE / "examined"


def unlike_sums(M, K):
    a, b, c = operand(M, K), operand(32, K), operand(96, K)
    A = rows(wide(a[2]), K)
    P, T = [], []
    for x, s, t in zip(A, times(A, rows(wide(b[2]), K)), times(A, rows(wide(c[2]), K))):
        P += [v / (1 + sum(map(abs, t))) for v in s]
        T += [v / (1 + sum(w * w for w in s) + sum(map(abs, x))) for v in t]
    return Examined("unlike_sums", [M, K], 2, {"A": a, "B": b, "C": c, "P": empty("f32", M, 32), "T": empty("bf16", M, 96)}, ["P", "T"], {"P": P, "T": T})


def unlike_sizes(sizes, M, N, K):
    G = len(sizes)
    a, b = operand(G, M, K), operand(G, N, K)
    D = []
    for (m, n, k), left, right in zip(sizes, rows(rows(wide(a[2]), K), M), rows(rows(wide(b[2]), K), N)):
        depth = min(-(-k // 64) * 64, K)
        for r in range(M):
            for c in range(N):
                written = r // 64 < tiles(m, 64) and c // 32 < tiles(n, 32)
                D.append(dot(left[r][:depth], right[c][:depth]) if r < m and written else -1.0 if written else None)
    tensors = {"A": a, "B": b, "sizes": ("s32", [G, 3], flat(sizes)), "D": empty("f32", G, M, N)}
    return Examined("unlike_sizes", [G, M, N, K], 3, tensors, ["D"], {"D": D})


def widened_products(M, N, J, K):
    a, c, w = operand(M, J), operand(N, K), [random.randrange(-8, 8) for _ in range(J * K)]
    z = [float(random.randrange(-3, 4)) for _ in range(J)]
    wide_rows = [[v - zero for v in row] for row, zero in zip(rows(w, K), z)]
    products = [rounded([v / 2 for v in row]) for row in times(wide_rows, rows(wide(c[2]), K))]
    D = times(rows(wide(a[2]), J), turned(products))
    tensors = {"A": a, "W": ("s8", [J, K], w), "Z": ("f32", [J, 1], z), "C": c, "D": empty("f32", M, N)}
    # products near the middle of two bf16 may be rounded to the other
    return Examined("widened_products", [M, N, J, K], 2, tensors, ["D"], {"D": flat(D)}, 2 ** -4)


def shared_rows(R, C, taken):
    x, g = [random.gauss(0, 2) for _ in range(R * C)], [random.gauss(0, 1) for _ in range(C)]
    Y, I, T = [], [], []
    for row in (rows(x, C)[r] for r in taken):
        I.append(row.index(max(row)))
        weights = [math.exp(v - max(row)) for v in row]
        y = [w / sum(weights) * v for w, v in zip(weights, g)]
        T.append(max(y))
        Y += [v / max(T[-1], 0.0001) for v in y]
    tensors = {"X": ("f32", [R, C], x), "G": ("f32", [1, C], g), "list": ("s32", [len(taken)], taken), "Y": empty("bf16", len(taken), C),
               "I": empty("s32", len(taken), 1), "T": empty("f32", len(taken), 1)}
    return Examined("shared_rows", [len(taken), R, C], len(taken), tensors, ["Y", "I", "T"], {"Y": Y, "I": I, "T": T})


def picked_steps(M, N, K, R):
    a, b, entries = operand(M, K), operand(R, N), [random.choice([-1, *range(R)]) for _ in range(K)]
    B = rows(wide(b[2]), N)
    D = times(rows(wide(a[2]), K), turned([B[e] if e >= 0 else [0.0] * N for e in entries]))
    tensors = {"A": a, "B": b, "list": ("s32", [K, 1], entries), "D": empty("f32", M, N)}
    return Examined("picked_steps", [M, N, K, R], 2, tensors, ["D"], {"D": flat(D)})


def two_depths(M, K, H):
    x, u, v, w = operand(M, K), operand(H, K), operand(H, 64), operand(32, H)
    g = [random.gauss(0, 1) for _ in range(H)]
    hidden = [rounded([s * f / (1 + abs(s * f)) for s, f in zip(row, g)]) for row in times(rows(wide(x[2]), K), rows(wide(u[2]), K))]
    D, E = times(hidden, turned(rows(wide(v[2]), 64))), times(hidden, rows(wide(w[2]), H))
    tensors = {"X": x, "U": u, "g": ("f32", [1, H], g), "V": v, "W": w, "D": empty("f32", M, 64), "E": empty("f32", M, 32)}
    return Examined("two_depths", [M, K, H], tiles(M, 64), tensors, ["D", "E"], {"D": flat(D), "E": flat(E)})


def repeated(R, N, K):
    x, w = (("f16", shape, drawn_halves(math.prod(shape))) for shape in ([R, K], [3, N, K]))
    X, W = rows(halves(x[2]), K), rows(rows(halves(w[2]), K), N)
    sums = [flat([[(i + 1) * v for v in row] for row in times(X, W[i])]) for i in range(3)]
    best = [max(s) for s in zip(*sums)]
    tensors = {"X": x, "W": w, "Y": empty("f32", R, N), "I": empty("s32", R, N)}
    return Examined("repeated", [R, N, K], 2, tensors, ["Y", "I"], {"Y": best, "I": [s.index(b) for s, b in zip(zip(*sums), best)]}, 2 ** -9)


def running(M, V):
    x, w = operand(M, 64), operand(V, 64)
    S = times(rows(wide(x[2]), 64), rows(wide(w[2]), 64))
    return Examined("running", [M, V], tiles(M, 128), {"X": x, "W": w, "L": empty("f32", M, 1), "Q": empty("f32", M, 1)}, ["L", "Q"],
                    {"L": [math.log(sum(map(math.exp, row))) for row in S], "Q": [sum(v * v for v in row) for row in S]}, 2 ** -10)


def windows(bounds, S):
    Z = len(bounds)
    q, k, v = operand(Z, S, 64), operand(Z, S, 64), operand(Z, S, 64)
    O = []
    for z, (first, last) in enumerate(bounds):
        Q, K, V = (rows(wide(t[2][z * S * 64:(z + 1) * S * 64]), 64) for t in (q, k, v))
        for i, row in enumerate(rounded(s) for s in times(Q, K)):
            weights = [s * ((first <= j < last) + (0 <= i - j < 20)) for j, s in enumerate(row)]
            O.append([dot(weights, column) for column in turned(V)])
    tensors = {"Q": q, "K": k, "V": v, "from": ("s32", [Z], [b[0] for b in bounds]), "to": ("s32", [Z], [b[1] for b in bounds]), "O": empty("f32", Z, S, 64)}
    return Examined("windows", [Z, S], 2, tensors, ["O"], {"O": flat(O)}, 2 ** -5)


def pairs(M, N, K):
    a, b, c, old = operand(M, K), operand(N, K), operand(N, K), operand(M, N)
    bias, scale = [random.gauss(0, 1) for _ in range(M)], [random.gauss(0, 1) for _ in range(N)]
    A, before = rows(wide(a[2]), K), rows(wide(old[2]), N)
    D = [[max(s + bias[m], 0) * t * f + r for s, t, f, r in zip(left, right, scale, before[m])]
         for m, (left, right) in enumerate(zip(times(A, rows(wide(b[2]), K)), times(A, rows(wide(c[2]), K))))]
    tensors = {"A": a, "B": b, "C": c, "r": ("f32", [M, 1], bias), "c": ("f32", [1, N], scale), "R": old, "D": empty("bf16", M, N), "T": empty("f32", N, M)}
    return Examined("pairs", [M, N, K], 2, tensors, ["D", "T"], {"D": flat(D), "T": flat(turned(D))})


def tf32_turned(M, N, K):
    a, b = (("f32", [K, n], [v for v in wide(operand(K, n)[2])]) for n in (M, N)) # tf32 holds bf16 numbers
    B = rows(b[2], N)
    D = times(turned(rows(a[2], M)), turned([row[:64] for row in B]))
    tensors = {"A": a, "B": b, "D": empty("f32", M, N), "L": empty("f32", K, 1)}
    return Examined("tf32_turned", [M, N, K], 2, tensors, ["D", "L"], {"D": flat(D), "L": [max(row + [0.0] * (64 - N)) for row in B]}, 2 ** -12)


def shares(M, N, K):
    a, b = operand(M, K), operand(K, N)
    D = times(rows(wide(a[2]), K), turned(rows(wide(b[2]), N)))
    L = [max(row[n:n + 64] + [0.0] * (64 - len(row[n:n + 64]))) for row in D for n in range(0, N, 64)]
    tensors = {"A": a, "B": b, "D": empty("bf16", M, N), "L": empty("f32", M, tiles(N, 64)), "P": ("f32", [3, 4096], [0.0] * 3 * 4096),
               "F": ("s32", [3, 8], [0] * 24)}
    return Examined("shares", [M, N, K, tiles(N, 64)], 3, tensors, ["D", "L"], {"D": flat(D), "L": L})


def held_state(J, M, N):
    x, y, b = operand(J, M, 64), operand(J, 64, 64), operand(N, 64)
    B, kept, O, L = rows(wide(b[2]), 64), [[0.0] * 64 for _ in range(M)], [], []
    for X, Y in zip(rows(rows(wide(x[2]), 64), M), rows(rows(wide(y[2]), 64), 64)):
        kept = [[k / 2 + s for k, s in zip(*pair)] for pair in zip(kept, times(X, Y))]
        L += [max(row) for row in kept]
        O += flat(times([rounded(row) for row in kept], B))
    tensors = {"X": x, "Y": y, "B": b, "O": empty("f32", J, M, N), "L": empty("f32", J, M, 1)}
    return Examined("held_state", [J, M, N], tiles(M, 64), tensors, ["O", "L"], {"O": O, "L": L}, 2 ** -5)


def decays(Z, S):
    q, k, v, gates = operand(Z, S, 64, deviation=0.3), operand(Z, S, 64, deviation=0.3), operand(Z, S, 64), [-abs(random.gauss(0, 0.2)) for _ in range(Z * S)]
    O = []
    for z in range(Z):
        Q, K, V = (rows(wide(t[2][z * S * 64:(z + 1) * S * 64]), 64) for t in (q, k, v))
        run = [sum(gates[z * S:z * S + i + 1]) for i in range(S)]
        for i, row in enumerate(times(Q, K)):
            weights = [s * 2 ** (run[i] - run[j]) for j, s in enumerate(row[:i + 1])]
            O.append([dot(weights, column) for column in turned(V[:i + 1])])
    tensors = {"Q": q, "K": k, "V": v, "G": ("f32", [Z, S], gates), "O": empty("bf16", Z, S, 64)}
    return Examined("decays", [Z, S], Z, tensors, ["O"], {"O": flat(O)}, 2 ** -4)


def in_pairs(K, M, N, deep):
    a, b = ("f16", [K, M], drawn_halves(K * M)), ("f16", [N, K], drawn_halves(N * K))
    A, B, D = turned(rows(halves(a[2]), M)), rows(halves(b[2]), K), []
    for m, row in enumerate(A):
        depth = min(-(-deep[m // 64] // 64) * 64, K)
        D.append([dot(row[:depth], column[:depth]) for column in B])
    L = [max(row[n:n + 128] + [0.0] * (n + 128 - N if n + 128 > N else 0)) for row in D for n in range(0, N, 128)]
    C = [sum(row[n] for row in D[m:m + 64]) for m in range(0, M, 64) for n in range(N)]
    tensors = {"A": a, "B": b, "deep": ("s32", [len(deep)], deep), "D": empty("f16", M, N), "L": empty("f32", M, tiles(N, 128)), "C": empty("f32", len(deep), N)}
    return Examined("in_pairs", [K, M, N, len(deep), tiles(N, 128)], 2, tensors, ["D", "L", "C"], {"D": flat(D), "L": L, "C": C})


def split_shares(M, N, K):
    a, b, c, r = operand(M, K), operand(N, K), operand(N, K), [random.gauss(0, 1) for _ in range(N)]
    A = rows(wide(a[2]), K)
    D = [[s * f + max(t, 0.0) for s, t, f in zip(left, right, r)] for left, right in zip(times(A, rows(wide(b[2]), K)), times(A, rows(wide(c[2]), K)))]
    case = Examined("split_shares", [M, N, K], tiles(M, 64, N, 64), {"A": a, "B": b, "C": c, "r": ("f32", [1, N], r), "D": empty("f32", M, N)}, ["D"], {"D": flat(D)})
    case.gpus = ["h100"] # where threads copy, no blocks share a tile: refused by name
    return case


def consumers(M, N, K):
    a, b = operand(M, K), operand(N, K)
    A, B = rows(wide(a[2]), K), rows(wide(b[2]), K)
    D = [s * max(map(abs, row[n - n % 64:n - n % 64 + 64])) for row in times(A, B) for n, s in enumerate(row)]
    case = Examined("consumers", [M, N, K], tiles(M, 64, N, 128), {"A": a, "B": b, "D": empty("f32", M, N)}, ["D"], {"D": D})
    case.gpus = ["h100"] # where warps multiply, a tile has one consumer: refused by name
    return case


def long_passes(R, C, taken, P):
    x = ("f16", [R, C], drawn_halves(R * C))
    Y, I = [None] * (P * C), []
    for row, to in zip(rows(halves(x[2]), C), taken):
        I.append(row.index(min(row)))
        mean = sum(v - min(row) for v in row) / C
        Y[to * C:to * C + C] = [(v - min(row)) / (mean + 0.01) for v in row]
    tensors = {"X": x, "list": ("s32", [R], taken), "Y": empty("f16", P, C), "I": empty("s32", R, 1)}
    return Examined("long_passes", [R, C, P], R, tensors, ["Y", "I"], {"Y": Y, "I": I})


def byte_pairs(M, K):
    a, b, c = ([random.randrange(-128, 128) for _ in range(n * K)] for n in (M, 32, 96))
    z, y = ([random.randrange(-9, 10) for _ in range(n)] for n in (32, 96))
    A = rows(a, K)
    D, E = ([v - sum(row) * zero for row, s in zip(A, times(A, rows(t, K))) for v, zero in zip(s, zeros)] for t, zeros in ((b, z), (c, y)))
    tensors = {"A": ("s8", [M, K], a), "B": ("s8", [32, K], b), "C": ("s8", [96, K], c), "z": ("s32", [1, 32], z), "y": ("s32", [1, 96], y),
               "D": empty("s32", M, 32), "E": empty("s32", M, 96)}
    return Examined("byte_pairs", [M, K], tiles(M, 128), tensors, ["D", "E"], {"D": D, "E": E}, 0)


def grouped_k(begins, M, N):
    T = begins[-1] + 3
    a, b = operand(T, M), operand(T, N)
    A, B, D = rows(wide(a[2]), M), rows(wide(b[2]), N), []
    for first, last in zip(begins, begins[1:]):
        D += flat(times(turned(A[first:last]), turned(B[first:last]))) if first < last else [0.0] * (M * N)
    tensors = {"A": a, "B": b, "begins": ("s32", [len(begins)], begins), "D": empty("f32", len(begins) - 1, M, N)}
    return Examined("grouped_k", [len(begins) - 1, len(begins), T, M, N], 3, tensors, ["D"], {"D": D})


def cases():
    return [unlike_sums(129, 72), unlike_sizes([(70, 40, 72), (0, 8, 64), (1, 33, 0), (64, 64, 130)], 72, 68, 136), widened_products(130, 68, 72, 80),
            shared_rows(5, 4104, [3, 0, 3]), picked_steps(65, 72, 40, 9), two_depths(65, 136, 72), repeated(66, 36, 72), running(65, 128),
            windows([(5, 40), (0, 0), (69, 70)], 70), pairs(68, 136, 72), tf32_turned(68, 40, 36), shares(130, 72, 264), held_state(3, 65, 40), decays(2, 130), in_pairs(136, 136, 136, [136, 0, 40]), split_shares(65, 72, 328), consumers(65, 200, 136),
            long_passes(3, 1031, [4, 0, 2], 5), byte_pairs(129, 80), grouped_k([0, 3, 3, 70, 134], 72, 40)]


if __name__ == "__main__":
    random.seed(11)
    run(cases(), sys.argv[2:])
