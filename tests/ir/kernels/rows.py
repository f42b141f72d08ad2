#!/usr/bin/env python3
"""rows.py ADLGEN: kernels of whole rows, of lengths that are no powers of two, in each way in which rows stay, on the
simulator, against double precision."""
import math
import os
import pathlib
import random
import re
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


def softmax(gpu, columns, rows, hold, known):
    x = [bf16(random.gauss(0, 2)) for _ in range(rows * columns)] or [0]
    with tempfile.TemporaryDirectory() as folder:
        text = rewritten("softmax_rows", folder, columns, hold, known)
        kernel = Kernel(sys.argv[1], text, "softmax_rows", gpu, [], folder, 8, "place_rows")
        out = kernel.run(max(rows, 1), 4096, {"X": ("bf16", x), "Y": ("bf16", [7] * len(x))}, [rows, columns], {}, "Y")
    for r in range(rows):
        weights = [math.exp(number(v)) for v in x[r * columns:(r + 1) * columns]]
        total = sum(weights)
        for c, weight in enumerate(weights):
            if not abs(number(out[r * columns + c]) - weight / total) <= 2 ** -8 * weight / total:
                sys.exit(f"{gpu}, {hold}, C = {columns}: Y[{r}, {c}] is {number(out[r * columns + c])}, not {weight / total}")
    print(f"{gpu}, {hold}, {'C' if known else 'C at most'} {columns}: {rows} rows of a softmax right")


HOLDS = ["registers", "passes chunk 1024"]
random.seed(16)
for columns in [1, 31, 33, 127, 1025, 5121, 5120]:
    for hold in HOLDS:
        for known in (True, False):
            for gpu in ("h100", "a100"):
                if gpu == "h100" or columns in (33, 5121) or os.environ.get("ADLGEN_TEST_FULL"):
                    softmax(gpu, columns, 2, hold, known)
