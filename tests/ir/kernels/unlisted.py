#!/usr/bin/env python3
"""unlisted.py ADLGEN [roles | NAME...]: kernels that no part of the compiler was written for (unlisted/*.tile.ir), each with what it
computes, on the simulator with all checkers, against double precision."""
import math
import random
import struct
import sys
import tempfile

from kernel import HERE, Kernel, bf16, number

NEVER = 0x4242 # what elements hold that no kernel is to write


def drawn(n, deviation=0.5):
    return [bf16(random.gauss(0, deviation)) for _ in range(n)]


def drawn_halves(n):
    return [struct.unpack("<H", struct.pack("<e", random.gauss(0, 0.5)))[0] for _ in range(n)]


def half(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def halves(bits):
    return [half(b) for b in bits]


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
    texts, gpus = HERE / "unlisted", ("h100", "a100")

    def __init__(self, name, dims, blocks, tensors, out, wanted, allowed=2 ** -7):
        self.name, self.dims, self.blocks, self.tensors, self.out = name, dims, blocks, tensors, out
        self.wanted, self.allowed = wanted, allowed
        self.maps = {} # extents and strides of tensors that do not lie as their shape says

    def run(self, adlgen, gpu):
        with tempfile.TemporaryDirectory() as folder:
            path = self.texts / f"{self.name}.tile.ir"
            kernel = Kernel(adlgen, path, self.name, gpu, [], folder, 4, "allocate_resources")
            buffers = {name: (kind, values) for name, (kind, shape, values) in self.tensors.items()}
            maps = {}
            for name, (box, swizzle) in kernel.boxes.items():
                tensor = kernel.mapped[name]
                maps[name] = (self.tensors[tensor][1][::-1], box, swizzle)
                if tensor in self.maps:
                    maps[name] = {**self.maps[tensor], "box": box, "swizzle": swizzle}
            if {"buffer": "arg_walk_counter"} in kernel.template["args"]: # of blocks that take the next tile when they are free
                buffers["walk_counter"] = ("s32", [0])
            cluster = kernel.template.get("cluster", [1])[0]
            found = kernel.run(self.blocks * cluster, kernel.shared, buffers, self.dims, maps, *self.out)
        for name, values in zip(self.out, found if len(self.out) > 1 else [found]):
            self.compare(gpu, name, values)

    def compare(self, gpu, name, values):
        kind, wanted = self.tensors[name][0], self.wanted[name]
        for i, (value, want) in enumerate(zip(values, wanted)):
            got = {"bf16": number, "f16": half}.get(kind, float)(value)
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


def alibi(Z, S, stop=None):
    """stop: of tiles of keys, where nonzero the walk ends."""
    q, k, v = operand(Z, S, 64), operand(Z, S, 64), operand(Z, S, 64)
    O, L = [], []
    for z in range(Z):
        Q, K, V = (rows(wide(t[2][z * S * 64:(z + 1) * S * 64]), 64) for t in (q, k, v))
        for i in range(S):
            seen = min(i + 1, 64 * stop.index(1)) if stop else i + 1
            scores = [(dot(Q[i], K[j]) + (j - i) / 16) / 8 for j in range(seen)]
            weights = [math.exp(s) for s in scores]
            O += [dot(weights, column) / sum(weights) for column in turned(V[:seen])]
            L.append(math.log(sum(weights)))
    tensors = {"Q": q, "K": k, "V": v, "O": empty("bf16", Z, S, 64), "L": empty("f32", Z, S, 1)}
    if stop:
        tensors["stop"] = ("s32", [len(stop)], stop)
        return Case("early_attention", [Z, S, len(stop)], Z * tiles(S, 64), tensors, ["O", "L"], {"O": O, "L": L}, 2 ** -6)
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


def weighted(rows_of_weights, V):
    """Weights times values, over the sum of their row."""
    return [[x / sum(p) for x in row] for p, row in zip(rows_of_weights, times(rows_of_weights, turned(V)))]


def state(Z, S):
    q, k, v = operand(Z, S, 64), operand(Z, S, 64), operand(Z, S, 128)
    O, H = [], []
    for z in range(Z):
        Q, K = (rows(wide(t[2][z * S * 64:(z + 1) * S * 64]), 64) for t in (q, k))
        V, kept = rows(wide(v[2][z * S * 128:(z + 1) * S * 128]), 128), [[0.0] * 128 for _ in range(64)]
        for first in range(0, S, 64):
            here = slice(first, first + 64)
            scores = [rounded(row[:i + 1] + [0.0] * (len(row) - i - 1)) for i, row in enumerate(times(Q[here], K[here]))]
            new, old = times(scores, turned(V[here])), times(Q[here], turned([rounded(row) for row in kept]))
            O += [a + b for x, y in zip(new, old) for a, b in zip(x, y)]
            kept = [[a / 2 + b for a, b in zip(x, y)] for x, y in zip(kept, times(turned(K[here]), turned(V[here])))]
        H += flat(kept)
    tensors = {"Q": q, "K": k, "V": v, "O": empty("f32", Z, S, 128), "H": empty("f32", Z, 64, 128)}
    return Case("state", [Z, S], Z, tensors, ["O", "H"], {"O": O, "H": H}, 2 ** -5)


def backward(S):
    q, k, v, g = operand(S, 64), operand(S, 64), operand(S, 128), operand(S, 128)
    Q, K, V, G = (rows(wide(t[2]), n) for t, n in ((q, 64), (k, 64), (v, 128), (g, 128)))
    E = [[math.exp(s / 8) if j <= i else 0 for j, s in enumerate(row)] for i, row in enumerate(times(Q, K))]
    L = [math.log2(sum(row)) for row in E]
    P, dP = [[e / sum(row) for e in row] for row in E], times(G, V)
    D = [dot(p, d) for p, d in zip(P, dP)]
    dS = [[p * (d - D[i]) / 8 for p, d in zip(P[i], dP[i])] for i in range(S)]
    tensors = {"Q": q, "K": k, "V": v, "G": g, "L": ("f32", [1, S], L), "T": ("f32", [1, S], D), "DK": empty("f32", S, 64),
               "DV": empty("f32", S, 128)}
    wanted = {"DK": flat(times(turned(dS), turned(Q))), "DV": flat(times(turned(P), turned(G)))}
    return Case("backward", [S], tiles(S, 64), tensors, ["DK", "DV"], wanted)


def turned_operand(S):
    q, k, g = operand(S, 64), operand(S, 64), operand(S, 64)
    Q, K, G = (rows(wide(t[2]), 64) for t in (q, k, g))
    wanted = times(turned([rounded(row) for row in times(Q, K)]), turned(G))
    return Case("turned_operand", [S], tiles(S, 64), {"Q": q, "K": k, "G": g, "DV": empty("f32", S, 64)}, ["DV"],
                {"DV": flat(wanted)}, 2 ** -5)


def second_operand(M, N, K):
    a, b = operand(M, K), operand(K, N)
    wanted = times(rows(wide(a[2]), K), turned(rows([abs(v) for v in wide(b[2])], N)))
    return Case("second_operand", [M, N, K], 2, {"A": a, "B": b, "D": empty("f32", M, N)}, ["D"], {"D": flat(wanted)})


def worklist(M, N, K, items, count):
    a, b = ("f16", [M, K], drawn_halves(M * K)), ("f16", [K, N], drawn_halves(K * N))
    A, B = rows(halves(a[2]), K), turned(rows(halves(b[2]), N))
    P = []
    for w, (m, n, k0, k1) in enumerate(items):
        for r in range(128 * m, 128 * m + 128):
            P += [None if w >= count else dot(A[r][64 * k0:64 * k1], B[c][64 * k0:64 * k1]) if r < M and c < N else 0
                  for c in range(64 * n, 64 * n + 64)]
    tensors = {"A": a, "B": b, "work": ("s32", [len(items), 4], flat(items)), "count": ("s32", [1], [count]),
               "P": empty("f32", len(items), 128, 64)}
    return Case("worklist", [M, N, K, len(items)], 2, tensors, ["P"], {"P": P})


def varlen(starts, H):
    T = starts[-1]
    q, k, v = operand(T, H, 64), operand(T, H, 64), operand(T, H, 64)
    Q, K, V = ([rows(row, 64) for row in rows(wide(t[2]), 64 * H)] for t in (q, k, v))
    O = [[[] for _ in range(H)] for _ in range(T)]
    for first, last in zip(starts, starts[1:]):
        for h in range(H):
            for i in range(first, last):
                weights = [math.exp(dot(Q[i][h], K[j][h]) / 8) for j in range(first, i + 1)]
                O[i][h] = [dot(weights, column) / sum(weights) for column in turned([V[j][h] for j in range(first, i + 1)])]
    tensors = {"Q": q, "K": k, "V": v, "starts": ("s32", [len(starts)], starts), "O": empty("bf16", T, H, 64)}
    case = Case("varlen", [T, H, len(starts)], 3, tensors, ["O"], {"O": flat(flat(O))}, 2 ** -6)
    case.maps = {name: {"dims": [64, T, H], "strides": [128 * H, 128]} for name in "QKV"}
    return case


def linked(M, following, heads):
    a, b = operand(M, 64), operand(len(following), 64, 64)
    A, B, D = rows(wide(a[2]), 64), [turned(rows(block, 64)) for block in rows(wide(b[2]), 4096)], []
    for node in heads:
        total = [[0.0] * 64 for _ in A]
        while node >= 0:
            total = [[x + y for x, y in zip(p, q)] for p, q in zip(total, times(A, B[node]))]
            node = following[node]
        D += flat(total)
    tensors = {"A": a, "B": b, "next": ("s32", [len(following)], following), "head": ("s32", [len(heads)], heads),
               "D": empty("f32", len(heads), M, 64)}
    return Case("linked", [M, len(following), len(heads)], len(heads) * tiles(M, 64), tensors, ["D"], {"D": D})


def early(M, N, K, flags):
    a, b = operand(M, K), operand(N, K)
    A, B, steps = rows(wide(a[2]), K), rows(wide(b[2]), K), tiles(K, 64)
    D = []
    for m, row in enumerate(A):
        here, n = flags[m // 64 * steps:], 0
        while n < steps and here[n] != 1 and not (here[n] >= 2 and n):
            n += 1
        D += [dot(row[:64 * n], column[:64 * n]) for column in B]
    tensors = {"A": a, "B": b, "flags": ("s32", [len(flags)], flags), "D": empty("f32", M, N)}
    return Case("early", [M, N, K, len(flags)], 2, tensors, ["D"], {"D": D})


def own_slot(S):
    q, k, v = operand(S, 64), operand(S, 64), operand(S, 128)
    P = [[abs(s) for s in row] for row in times(rows(wide(q[2]), 64), rows(wide(k[2]), 64))]
    tensors = {"Q": q, "K": k, "V": v, "O": empty("f32", S, 128), "L": empty("f32", S, 1)}
    return Case("own_slot", [S], tiles(S, 64), tensors, ["O", "L"],
                {"O": flat(weighted(P, rows(wide(v[2]), 128))), "L": [sum(row) for row in P]})


def powers(M, T):
    x, w = operand(M, 64), operand(64, 64, deviation=0.125)
    X, W = rows(wide(x[2]), 64), turned(rows(wide(w[2]), 64))
    for _ in range(T):
        X = [rounded([max(v, -1.0) for v in row]) for row in times(X, W)]
    return Case("powers", [M, T], 1, {"X": x, "W": w, "D": empty("bf16", M, 64)}, ["D"], {"D": flat(X)}, 2 ** -5)


def eight_blocks(R):
    x, Y, V, I = [random.gauss(1, 2) for _ in range(R * 8192)], [], [], []
    for row in rows(x, 8192):
        mean = sum(row) / 8192
        root = math.sqrt(sum((v - mean) ** 2 for v in row) / 8192 + 1e-5)
        Y += [(v - mean) / root for v in row]
        V.append(max(Y[-8192:]))
        I.append(Y[-8192:].index(V[-1]))
    tensors = {"X": ("f32", [R, 8192], x), "Y": empty("bf16", R, 8192), "V": empty("f32", R, 1), "I": empty("s32", R, 1)}
    return Case("eight_blocks", [R], R, tensors, ["Y", "V", "I"], {"Y": Y, "V": V, "I": I})


def unroll2(M, N, K, name="unroll2"):
    a, b = operand(M, K), operand(N, K)
    return Case(name, [M, N, K], 2, {"A": a, "B": b, "D": empty("f32", M, N)}, ["D"],
                {"D": flat(times(rows(wide(a[2]), K), rows(wide(b[2]), K)))})


def stored_up(M, N):
    a, b = operand(M, 256), operand(N, 256)
    return Case("stored_up", [M, N], 2, {"A": a, "B": b, "D": empty("f32", M, N)}, ["D"],
                {"D": flat(times(rows(wide(a[2]), 256), rows(wide(b[2]), 256)))})


def two_boxes(M, K):
    x = operand(M, K)
    X = rows(wide(x[2]), K)
    return Case("two_boxes", [M, K], 2, {"X": x, "D": empty("f32", M, M)}, ["D"], {"D": flat(times(X, X))})


def pieces(M, N, K):
    H, R = K // 2, 128 * tiles(M, 64)
    a, c, b = operand(M, K), operand(2, M, H), operand(N, K)
    A, C, B = rows(wide(a[2]), K), rows(rows(wide(c[2]), H), M), rows(wide(b[2]), K)
    left = []
    for first in range(0, M, 64):
        here = range(first, first + 64)
        left += [A[m] if m < M else [0] * K for m in here]
        left += [flat([C[half][m][k:k + 32] for k in range(0, H, 32) for half in (0, 1)]) if m < M else [0] * K for m in here]
    tensors = {"A": a, "C": c, "B": b, "D": empty("f32", R, N)}
    return Case("pieces", [M, N, K, H, R], 2, tensors, ["D"], {"D": flat(times(left, B))})


def two_swizzles(M, N, K):
    a, b = operand(M, K), operand(N, K)
    A = rows(wide(a[2]), K)
    D = [[v + sum(row[:32]) for v in here] for row, here in zip(A, times(A, rows(wide(b[2]), K)))]
    return Case("two_swizzles", [M, N, K], 2, {"A": a, "B": b, "D": empty("f32", M, N)}, ["D"], {"D": flat(D)})


def turned_round(M, N, K):
    a, b = operand(M, K), operand(N, K)
    A = rows(wide(a[2]), K)
    D = times(A, rows(wide(b[2]), K))
    C = [[sum(row[n] for row in D[m:m + 64]) for n in range(N)] for m in range(0, M, 64)]
    tensors = {"A": a, "B": b, "D": empty("f32", N, M), "C": empty("f32", tiles(M, 64), N), "E": empty("bf16", K, M)}
    return Case("turned", [M, N, K], 2, tensors, ["D", "C", "E"], {"D": flat(turned(D)), "C": flat(C), "E": flat(turned(A))})


def small(M):
    x, w = [random.gauss(0, 1) for _ in range(M * 48)], [0.0] * 5
    X, Y, R, C, S = rows(x, 48), [], [], [], []
    for m in range(0, M, 10):
        down, across = [sum(row) for row in X[m:m + 10]], [max(column) for column in turned(X[m:m + 10])]
        Y += [(v - d) * a + sum(down) for row, d in zip(X[m:m + 10], down) for v, a in zip(row, across)]
        R, C, S = R + down, C + across, S + [sum(down)]
    tensors = {"X": ("f32", [M, 48], x), "W": ("f32", [5], w), "Y": empty("f32", M, 48), "R": empty("f32", M, 1),
               "C": empty("f32", tiles(M, 10), 48), "S": empty("f32", tiles(M, 10), 1)}
    return Case("small", [M], tiles(M, 10), tensors, ["Y", "R", "C", "S"], {"Y": Y, "R": R, "C": C, "S": S}, 2 ** -12)


def mla(S, T):
    q, k = operand(S, 192, deviation=0.3), operand(T, 192, deviation=0.3)
    Q, K = rows(wide(q[2]), 192), rows(wide(k[2]), 192)
    P = [[2 ** (s - max(row)) for s in row] for row in times(Q, K)]
    return Case("mla", [S, T], tiles(S, 64), {"Q": q, "K": k, "O": empty("bf16", S, 128)}, ["O"],
                {"O": flat(weighted(P, [row[:128] for row in K]))})


def xent(M, V, K):
    x, w, label = operand(M, K), operand(V, K), [random.randrange(V) for _ in range(M)]
    logits = times(rows(wide(x[2]), K), rows(wide(w[2]), K))
    label[::3] = [row.index(max(row)) for row in logits[::3]]
    loss = [math.log(sum(map(math.exp, row))) - row[l] for row, l in zip(logits, label)]
    tensors = {"X": x, "W": w, "label": ("s32", [M, 1], label), "loss": empty("f32", M, 1), "hit": empty("f32", M, 1)}
    return Case("xent", [M, V, K], 2, tensors, ["loss", "hit"],
                {"loss": loss, "hit": [float(row[l] >= max(row)) for row, l in zip(logits, label)]}, 2 ** -10)


def quant_out(M, N, K):
    a, b, D, S = operand(M, K), operand(N, K), [], []
    for row in times(rows(wide(a[2]), K), rows(wide(b[2]), K)):
        for part in rows(row, 32):
            S.append(max(map(abs, part)) / 127)
            D += [v / S[-1] for v in part]
    tensors = {"A": a, "B": b, "D": ("s8", [M, N], [0] * (M * N)), "S": empty("f32", M, N // 32)}
    return Case("quant_out", [M, N, K], 2, tensors, ["D"], {"D": D}, 0.51) # rounded to integers


def mixed_copies(M, K):
    a, b, c = operand(M, K), operand(128, K), operand(64, K)
    A, B, C = (rows(wide(t[2]), K) for t in (a, b, c))
    s, t = times(A, B), times(A, C)
    wanted = {"D": flat([[v + sum(q) for v in p] for p, q in zip(s, t)]), "E": flat([[v * max(p) for v in q] for p, q in zip(s, t)])}
    tensors = {"A": a, "B": b, "C": c, "D": empty("f32", M, 128), "E": empty("bf16", M, 64)}
    return Case("mixed_copies", [M, K], 2, tensors, ["D", "E"], wanted, 2 ** -6)


def negated_bytes(M, N, K):
    a, b, c = ([random.randrange(-127, 128) for _ in range(n * K)] for n in (M, 2 * N, N))
    A, C, B = [[-abs(v) for v in row] for row in rows(a, K)], rows(c, K), rows(b, K)
    both = [[x + y for x, y in zip(*pair)] for pair in zip(B[:N], B[N:])]
    tensors = {"A": ("s8", [M, K], a), "B": ("s8", [2, N, K], b), "C": ("s8", [N, K], c), "D": empty("s32", M, N), "E": empty("f32", M, N)}
    return Case("negated_bytes", [M, N, K], 2, tensors, ["D", "E"],
                {"D": flat(times(A, both)), "E": [2 * v for v in flat(times(A, C))]}, 0)


def own_ring(M, N, K):
    a, b = operand(M, K), operand(N, K)
    D = times([[max(v, 0) for v in row] for row in rows(wide(a[2]), K)], rows(wide(b[2]), K))
    sums = [sum(row[n:n + 32]) for row in D for n in range(0, N, 32)]
    tensors = {"A": a, "B": b, "D": empty("f32", M, N), "S": empty("f32", M, tiles(N, 32))}
    return Case("own_ring", [M, N, K, tiles(N, 32)], 2, tensors, ["D", "S"], {"D": flat(D), "S": sums})


def unlike_blocks(M, N, K, first):
    a, b, c = operand(M, K), operand(max(first) + N, K), operand(N, K)
    A, B, C = (rows(wide(t[2]), K) for t in (a, b, c))
    D = [times([row], B[first[m // 64]:first[m // 64] + N])[0] for m, row in enumerate(A)]
    E = [[dot(row[:m // 64 * 64 + 64], column[:m // 64 * 64 + 64]) for column in C] for m, row in enumerate(A)]
    tensors = {"A": a, "B": b, "C": c, "from": ("s32", [len(first)], first), "D": empty("f32", M, N), "E": empty("f32", M, N)}
    return Case("unlike_blocks", [M, max(first) + N, N, K, len(first)], 2, tensors, ["D", "E"], {"D": flat(D), "E": flat(E)})


def places(G, M, N, K, taken):
    a, b = operand(G, M, K), operand(G, N, K)
    A, B = (rows(rows(wide(t[2]), K), n) for t, n in ((a, M), (b, N)))
    D = [[[None] * N for _ in range(M)] for _ in range(G)]
    for g, m, n in taken:
        for r in range(64 * m, min(M, 64 * m + 64)) if g < G else []:
            for c in range(64 * n, min(N, 64 * n + 64)):
                D[g][r][c] = dot(A[g][r], B[g][c])
    tensors = {"A": a, "B": b, "places": ("s32", [len(taken)], [256 * g + 16 * m + n for g, m, n in taken]), "D": empty("bf16", G, M, N)}
    return Case("places", [len(taken), G, M, N, K], 4, tensors, ["D"], {"D": flat(flat(D))})


def steps(T, M, N):
    s, b, x = operand(2, M, N), operand(N, N), operand(T, M, N)
    B, X = rows(wide(b[2]), N), rows(rows(wide(x[2]), N), M)
    places = rows(rows(wide(s[2]), N), M)
    for t in range(T):
        products = times(places[t % 2], B)
        places[(t + 1) % 2] = [rounded([p / 8 + v for p, v in zip(*pair)]) for pair in zip(products, X[t])]
    tensors = {"S": s, "B": b, "X": x, "flags": ("s32", [1, 64], [0] * 64)}
    return Case("steps", [T, M, N], 4, tensors, ["S", "flags"], {"S": flat(flat(places)), "flags": [0] * 64}, 2 ** -6)


def picked_rows(R, C, taken):
    x = operand(R, C)
    X = rows(wide(x[2]), C)
    Y = [v - max(row) if r in taken else None for r, row in enumerate(X) for v in row]
    return Case("picked_rows", [len(taken), R, C], 4, {"X": x, "places": ("s32", [len(taken)], taken), "Y": empty("bf16", R, C)}, ["Y"], {"Y": Y})


def three_takes(M, N, K):
    a, b = operand(M, K), operand(3, N, K)
    A = rows(wide(a[2]), K)
    sums = [times(A, rows(part, K)) for part in rows(wide(b[2]), N * K)]
    roots = [math.sqrt(sum(s[m][n] ** 2 for s in sums)) for m in range(M) for n in range(N)]
    return Case("three_takes", [M, N, K], 3, {"A": a, "B": b, "D": empty("bf16", 3, M, N), "Q": empty("f32", M, N)}, ["D", "Q"],
                {"D": flat(flat(sums)), "Q": roots})


def gated(M, N, K, on):
    a, b = operand(M, K), operand(N, K)
    A, B = rows(wide(a[2]), K), rows(wide(b[2]), K)
    D = [None if 64 <= m < 128 else 0 for m in range(M) for n in range(N)]
    for step, copied in enumerate(on):
        here = slice(64 * step, 64 * step + 64)
        D = [d if d is None else d + dot(A[i // N][here], B[i % N][here]) if copied else d / 2 for i, d in enumerate(D)]
    return Case("gated", [M, N, K, len(on)], 3, {"A": a, "B": b, "on": ("s32", [len(on)], on), "D": empty("f32", M, N)}, ["D"], {"D": D})


def left_inside(M, N, K, stop):
    a, b = operand(M, K), operand(len(stop), N, K)
    A = rows(wide(a[2]), K)
    sums = [flat(times(A, rows(part, K))) for part in rows(wide(b[2]), N * K)][:(stop + [1]).index(1)]
    D, E = ([sum(s[i] for s in part) for i in range(M * N)] for part in (sums, sums[::2]))
    tensors = {"A": a, "B": b, "stop": ("s32", [len(stop)], stop), "D": empty("f32", M, N), "E": empty("bf16", M, N)}
    return Case("left_inside", [len(stop), M, N, K], 3, tensors, ["D", "E"], {"D": D, "E": E})


def joined(M, N, K, R):
    a, b, a2, b2 = operand(M, K), operand(N, K), operand(M, R), operand(N, R)
    first, second = (times(rows(wide(x[2]), k), rows(wide(y[2]), k)) if k else [[0] * N] * M for x, y, k in ((a, b, K), (a2, b2, R)))
    D = [x + y / 2 for x, y in zip(flat(first), flat(second))]
    return Case("joined", [M, N, K, R], 2, {"A": a, "B": b, "A2": a2, "B2": b2, "D": empty("f32", M, N)}, ["D"], {"D": D})


def spans(ends, last, N, K):
    G, M = len(ends), ends[-1] + 7
    a, b = operand(M, K), operand(G, N, K)
    A, B = rows(wide(a[2]), K), [rows(part, K) for part in rows(wide(b[2]), N * K)]
    D = [[None] * N for _ in range(M)]
    for g, begin in enumerate([0] + ends[:-1]):
        depth = -(-last[g] // 64) * 64
        D[begin:ends[g]] = times([row[:depth] for row in A[begin:ends[g]]], [row[:depth] for row in B[g]])
    tensors = {"A": a, "B": b, "ends": ("s32", [G], ends), "last": ("s32", [G], last), "D": empty("bf16", M, N)}
    return Case("spans", [G, M, N, K], 4, tensors, ["D"], {"D": flat(D)})


def gathered(R, M, N, K):
    a, b, at, to = operand(R, K), operand(N, K), random.choices(range(R), k=M), random.sample(range(R), M)
    A, B, D = rows(wide(a[2]), K), rows(wide(b[2]), K), [[None] * N for _ in range(R)]
    for here, there in zip(at, to):
        D[there] = times([A[here]], B)[0]
    tensors = {"A": a, "B": b, "at": ("s32", [M, 1], at), "to": ("s32", [M, 1], to), "D": empty("f32", R, N)}
    return Case("gathered", [R, M, N, K], 3, tensors, ["D"], {"D": flat(D)})


def four_tiles(M, N, K):
    a, b = (("f16", [n, K], drawn_halves(n * K)) for n in (M, N))
    r, w = ([random.gauss(0, 1) for _ in range(n)] for n in (M, N))
    Y = [[max(v + x, y) for v, y in zip(row, w)] for row, x in zip(times(rows(halves(a[2]), K), rows(halves(b[2]), K)), r)]
    tensors = {"A": a, "B": b, "R": ("f32", [M, 1], r), "W": ("f32", [1, N], w), "D": empty("bf16", M, N), "E": empty("f32", N, M)}
    return Case("four_tiles", [M, N, K], 4, tensors, ["D", "E"], {"D": flat(Y), "E": flat(turned(Y))})


def column_scales(M, N, K):
    a, w, s = operand(M, K), [random.randrange(-127, 128) for _ in range(N * K)], [random.gauss(0, 1) for _ in range(N * K // 64)]
    D = [sum(dot(x[g:g + 64], y[g:g + 64]) * scale[g // 64] for g in range(0, K, 64))
         for x in rows(wide(a[2]), K) for y, scale in zip(rows(w, K), rows(s, K // 64))]
    tensors = {"A": a, "W": ("s8", [N, K], w), "S": ("f32", [N, K // 64], s), "D": empty("f32", M, N)}
    return Case("column_scales", [M, N, K, K // 64], 3, tensors, ["D"], {"D": D})


def counted_rows(M):
    x, counters, ranks = [random.randrange(16) for _ in range(8 * M)], [0] * 16, []
    for row in rows(x, 8):
        ranks.append(counters[max(row)])
        counters[max(row)] += 1
    return Case("counted_rows", [M], 1, {"X": ("s32", [M, 8], x), "R": empty("s32", M, 1), "H": empty("s32", 1, 16)}, ["R", "H"],
                {"R": ranks, "H": counters}, 0)


def at_hand(M, N, K):
    a, b = operand(M, K), operand(N, K)
    D = flat(times(rows(wide(a[2]), K), rows(wide(b[2]), K)))
    return Case("at_hand", [M, N, K], 3, {"A": a, "B": b, "D": empty("f32", M, N)}, ["D"], {"D": D})


def ended(lengths, S, T):
    Z = len(lengths)
    a, b, w = operand(Z, S, 64), operand(Z, T, 64), [random.gauss(0, 1) for _ in range(Z * T)]
    A, B, P = rows(rows(wide(a[2]), 64), S), rows(rows(wide(b[2]), 64), T), []
    for z, length in enumerate(lengths):
        P += [[dot(A[z][i], B[z][j]) + w[z * T + j] if j < length and i - 40 <= j <= i else None for j in range(T)] for i in range(S)]
    best = [max([v for v in row if v is not None], default=-1e30) for row in P]
    tensors = {"A": a, "B": b, "lengths": ("s32", [Z], lengths), "W": ("f32", [Z, T], w), "O": empty("f32", Z, S, 1), "P": empty("bf16", Z, S, T)}
    return Case("ended", [Z, S, T], 3, tensors, ["O", "P"], {"O": best, "P": flat(P)}, 2 ** -6)


def roles():
    return [state(2, 72), backward(68), turned_operand(68), second_operand(65, 72, 72), own_slot(70), powers(65, 3),
            worklist(130, 72, 200, [(1, 0, 0, 2), (0, 1, 2, 4), (0, 0, 1, 1), (9, 9, 9, 9)], 3), varlen([0, 3, 3, 70], 2),
            linked(65, [2, -1, 3, -1, 1], [0, -1, 4]), early(129, 72, 136, [0, 2, 0, 2, 1, 0, 0, 0, 0]), eight_blocks(2),
            alibi(1, 136, [0, 1, 0]), unroll2(66, 72, 200), unroll2(66, 72, 136, "rotated"), stored_up(40, 72), two_boxes(136, 72),
            two_swizzles(66, 40, 72), turned_round(72, 40, 72), small(20), mla(65, 70),
            xent(65, 136, 40), quant_out(65, 128, 40), mixed_copies(70, 200),
            negated_bytes(70, 33, 80), own_ring(135, 68, 328),
            unlike_blocks(150, 36, 168, [5, 0, 9]),
            places(2, 100, 72, 40, [(0, 0, 0), (1, 1, 1), (0, 0, 2), (2, 0, 0), (1, 2, 0), (5, 3, 9)]), picked_rows(5, 520, [3, 9, 0, 5]),
            three_takes(65, 40, 136), gated(130, 34, 200, [1, 0, 1, 1]), left_inside(65, 40, 72, [0, 0, 0, 1, 0]), spans([3, 3, 70], [64, 128, 0], 40, 136),
            steps(3, 70, 56), pieces(70, 36, 192), pieces(1, 4, 64), gathered(80, 66, 33, 72), four_tiles(70, 72, 72), column_scales(65, 33, 128), counted_rows(130), at_hand(65, 66, 328), ended([3, 0, 70], 66, 70)]


def cases():
    return [two_sums(130, 72, 136), ragged([0, 3, 3, 70], [1, 0, 2], 40, 72), three_roles(65, 33, 72), four_blocks(2, 4104),
            alibi(2, 65), paged(65, 40, [2, 0, 2], 3), chained(65, 80), triangle(136, 40), columns(69, 136), gradient(72, 72, 40),
            taps(67, 72, 40), scales(65, 33, 80), joined(200, 136, 208, 80), joined(33, 129, 336, 16), joined(129, 40, 16, 272)]


def run(cases, wanted=()):
    for case in cases:
        for gpu in case.gpus:
            if not wanted or case.name in wanted:
                case.run(sys.argv[1], gpu)
                print(f"{gpu}: {case.name}: right")


def main():
    random.seed(7)
    wanted = sys.argv[2:]
    if wanted and wanted != ["roles"]:
        run(roles() + cases(), wanted)
    else:
        run(roles() if wanted else cases())


if __name__ == "__main__":
    main()
