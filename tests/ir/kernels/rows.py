#!/usr/bin/env python3
"""rows.py ADLGEN: kernels of whole rows, of lengths that are no powers of two, in each way in which rows stay, on the
simulator, against double precision."""
import math
import os
import pathlib
import random
import re
import struct
import sys
import tempfile

from kernel import HERE, Kernel, bf16, number


def rewritten(name, folder, columns, hold, known):
    """The kernel's text for rows of so many columns: known exactly, or only at most. Vectors where they divide."""
    text = (HERE / f"{name}.tile.ir").read_text()
    multiple = next(m for m in (8, 4, 2, 1) if columns % m == 0)
    fact = f"multiple {columns} maximum {columns}" if known else f"multiple {multiple} maximum {columns + 24}"
    text = re.sub(r"C: s32 multiple \d+ maximum \d+", f"C: s32 {fact}", text)
    text = re.sub(r"row C hold registers", f"row C hold {hold}", text)
    if columns % 8:
        text = re.sub(r" align 16", "", text)
    path = pathlib.Path(folder) / f"{name}.ir"
    path.write_text(text)
    return path


def softmax_mask(gpu, columns, rows, hold, known):
    batch, heads, queries = 2, 3, max(rows // 6, 1)
    rows = batch * heads * queries
    x = [bf16(random.gauss(0, 8)) for _ in range(rows * columns)]
    mask = [bf16(random.choice((0, -1, -math.inf))) for _ in range(batch * queries * columns)]
    for first in range(0, len(mask), columns):
        mask[first] = 0
    buffers = {"X": ("bf16", x), "MASK": ("bf16", mask), "Y": ("bf16", [7] * len(x))}
    out = run("softmax_mask", gpu, columns, rows, hold, known, buffers, [batch, heads, queries, columns], "Y")
    for r in range(rows):
        other = (r // (heads * queries) * queries + r % queries) * columns
        weights = [math.exp(number(x[r * columns + c]) / 8 + number(mask[other + c])) for c in range(columns)]
        total = sum(weights)
        for c, weight in enumerate(weights):
            close(number(out[r * columns + c]), weight / total, 1.05 * 2 ** -8 * weight / total, f"Y[{r}, {c}]")


def e4m3(bits):
    exponent, mantissa = bits >> 3 & 15, bits & 7
    size = (1 + mantissa / 8) * 2 ** (exponent - 7) if exponent else mantissa / 8 * 2 ** -6
    return -size if bits & 128 else size


def add_norm_quantise(gpu, columns, rows, hold, known):
    blocks = -(-columns // 128)
    x, res = ([bf16(random.gauss(1, 2)) for _ in range(rows * columns)] for _ in range(2))
    gamma, beta = ([bf16(random.gauss(1, 1)) for _ in range(columns)] for _ in range(2))
    buffers = {"X": ("bf16", x), "RES": ("bf16", res), "GAMMA": ("bf16", gamma), "BETA": ("bf16", beta),
               "H": ("bf16", [7] * len(x)), "Q": ("e4m3", [7] * len(x)), "S": ("f32", [7] * (rows * blocks))}
    h, q, s = run("add_norm_quantise", gpu, columns, -(-rows // 2), hold, known, buffers, [rows, columns], "H", "Q", "S")
    for r in range(rows):
        row = [bf16(number(x[r * columns + c]) + number(res[r * columns + c])) for c in range(columns)]
        if list(h[r * columns:(r + 1) * columns]) != row:
            sys.exit(f"{CASE}: row {r} of H is not X + RES")
        row = [number(v) for v in row]
        mean = sum(row) / columns
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / columns + 1e-5)
        y = [(v - mean) * scale * number(gamma[c]) + number(beta[c]) for c, v in enumerate(row)]
        for b in range(blocks):
            most = max(abs(v) for v in y[128 * b:128 * b + 128])
            close(s[r * blocks + b], most / 448, 1e-4 * most / 448, f"S[{r}, {b}]")
            for c in range(128 * b, min(128 * b + 128, columns)):
                wanted = y[c] * 448 / most
                close(e4m3(q[r * columns + c]), wanted, abs(wanted) / 15.9 + 2 ** -9, f"Q[{r}, {c}]")


def cross_entropy(gpu, columns, rows, hold, known):
    x = [bf16(random.gauss(0, 4)) for _ in range(rows * columns)]
    classes = [random.randrange(columns) for _ in range(rows)]
    buffers = {"X": ("bf16", x), "T": ("s32", classes), "LOSS": ("f32", [7] * rows), "DX": ("bf16", [7] * len(x))}
    loss, dx = run("cross_entropy", gpu, columns, rows, hold, known, buffers, [rows, columns], "LOSS", "DX")
    for r in range(rows):
        row = [number(v) for v in x[r * columns:(r + 1) * columns]]
        total = sum(math.exp(v) for v in row)
        wanted = math.log(total) - row[classes[r]]
        close(loss[r], wanted, 2 ** -12 * (1 + abs(wanted)), f"LOSS[{r}]")
        for c, v in enumerate(row):
            p = math.exp(v) / total
            close(number(dx[r * columns + c]), p - (c == classes[r]), 1.05 * 2 ** -8 * (p if c != classes[r] else 1) + 1e-9, f"DX[{r}, {c}]")


def row_statistics(gpu, columns, rows, hold, known):
    """Rows about 10000 with a deviation of 1, of few values, so that the largest stands in several places; and one NaN."""
    x = [struct.unpack("<f", struct.pack("<f", 1e4 + round(random.gauss(0, 1) * 64) / 64))[0] for _ in range(rows * columns)]
    buffers = {"X": ("f32", x), "SUM": ("f32", [7] * rows), "MOST": ("f32", [7] * rows), "AT": ("s32", [7] * rows), "Y": ("f32", [7] * len(x))}
    lost = rows - 1 if rows > 1 else rows
    if lost < rows:
        x[lost * columns + columns // 2] = math.nan
    found = run("row_statistics", gpu, columns, rows, hold, known, buffers, [rows, columns], "SUM", "MOST", "AT", "Y")
    for r in range(rows):
        row = x[r * columns:(r + 1) * columns]
        if r == lost:
            if found[2][r] != columns // 2 or not math.isnan(found[1][r]) or not math.isnan(found[0][r]):
                sys.exit(f"{CASE}: NaN at {columns // 2} of row {r} is told as {[f[r] for f in found[:3]]}")
            continue
        close(found[0][r], math.fsum(row), 2 ** -20 * math.fsum(row), f"SUM[{r}]")
        if found[1][r] != max(row) or found[2][r] != row.index(max(row)):
            sys.exit(f"{CASE}: largest element {found[1][r]} of row {r} at {found[2][r]}, not {max(row)} at {row.index(max(row))}")
        mean = math.fsum(row) / columns
        root = math.sqrt(math.fsum((v - mean) ** 2 for v in row) / columns + 1e-5)
        ulps = 4 * 2 ** -10 / root  # of the largest term, some 10000
        for c, v in enumerate(row):
            close(found[3][r * columns + c], (v - mean) / root, ulps + 4 * 2 ** -22, f"Y[{r}, {c}]")


def close(found, wanted, allowed, what):
    if not abs(found - wanted) <= allowed:
        sys.exit(f"{CASE}: {what} is {found}, not {wanted}")


def run(name, gpu, columns, blocks, hold, known, buffers, dims, *outputs):
    with tempfile.TemporaryDirectory() as folder:
        text = rewritten(name, folder, columns, hold, known)
        kernel = Kernel(sys.argv[1], text, name, gpu, [], folder, 8, "place_rows")
        together = 2 if hold.startswith("cluster") and gpu == "h100" else 1
        return kernel.run(blocks * together, 163840 if hold.startswith("shared") else 4096, buffers, dims, {}, *outputs)


def softmax_rows(gpu, columns, rows, hold, known):
    x = [bf16(random.gauss(0, 2)) for _ in range(rows * columns)]
    buffers = {"X": ("bf16", x), "Y": ("bf16", [7] * len(x))}
    out = run("softmax_rows", gpu, columns, rows, hold, known, buffers, [rows, columns], "Y")
    for r in range(rows):
        weights = [math.exp(number(v)) for v in x[r * columns:(r + 1) * columns]]
        total = sum(weights)
        for c, weight in enumerate(weights):
            close(number(out[r * columns + c]), weight / total, 1.05 * 2 ** -8 * weight / total, f"Y[{r}, {c}]")


HOLDS = ["registers", "passes chunk 1024", "cluster split_k 2", "shared slots 2"]
FULL = os.environ.get("ADLGEN_TEST_FULL")
random.seed(16)
ran = 0
for check in (softmax_rows, softmax_mask, add_norm_quantise, cross_entropy, row_statistics):
    for columns, rows in [(1, 131), (31, 131), (33, 1), (127, 6), (1025, 3), (1280, 2), (5120, 1), (5121, 1)]:
        for hold in HOLDS:
            for known in (True, False):
                gpus = ("h100", "a100") if FULL or (columns, known) in ((33, False), (5121, True)) else ("h100",)
                if hold.startswith("cluster") and (check is add_norm_quantise or columns in (1, 31, 127, 1280)):
                    continue
                drawn = {softmax_rows: (1, 33, 5121), add_norm_quantise: (33, 1280), softmax_mask: (1025,), cross_entropy: (127, 5120),
                         row_statistics: (33, 127, 5121)}
                if not FULL and (columns not in drawn[check] or known == (columns == 33)):
                    continue
                for gpu in gpus[:1] if check is add_norm_quantise else gpus:  # only h100 of them has e4m3
                    CASE = f"{check.__name__}, {gpu}, {hold}, C {'=' if known else '<='} {columns}, {rows} rows"
                    check(gpu, columns, rows, hold, known)
                    ran += 1
print(f"{ran} kernels of rows right")
