#!/usr/bin/env python3
"""scans.py ADLGEN: `scan` in TILE text, and CumSum along any axis of any length, on the simulator."""
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

from kernel import Kernel

ROWS, COLUMNS = 16, 256
LEAST = -2 ** 31


def wrapped(value):
    return (value + 2 ** 31) % 2 ** 32 - 2 ** 31


def expected(x):
    rows = [x[r * COLUMNS:(r + 1) * COLUMNS] for r in range(ROWS)]
    columns = list(zip(*rows))
    a = [list(itertools.accumulate(row)) for row in rows]
    b = [[LEAST, *itertools.accumulate(reversed(row), max)][:COLUMNS][::-1] for row in rows]
    d = list(zip(*[itertools.accumulate(column, min) for column in columns]))
    products = [[1, *itertools.accumulate(column, lambda p, q: wrapped(p * q))] for column in columns]
    e = [[wrapped(products[c][r] + min(columns[c]) + products[c][ROWS]) for c in range(COLUMNS)] for r in range(ROWS)]
    t = [[sum(row) + max(row)] for row in rows]
    return {"A": a, "B": b, "D": d, "E": e, "T": t}


def text(gpu):
    x = [random.randint(-9, 9) for _ in range(ROWS * COLUMNS)]
    empty = [0] * len(x)
    buffers = {name: ("s32", empty) for name in "XABDE"} | {"T": ("s32", [0] * ROWS)}
    buffers["X"] = ("s32", x)
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "scans", "scans", gpu, ["scan", "exchange"], folder, 1, "choose_layouts")
        found = dict(zip("ABDET", kernel.run(1, kernel.shared, buffers, [1], {}, *"ABDET")))
    for name, rows in expected(x).items():
        if list(found[name]) != [value for row in rows for value in row]:
            sys.exit(f"{gpu}: {name} is wrong")
    print(f"{gpu}: scans of rows and columns right")


SHAPES = [([3, 1], 1), ([2, 31], -1), ([131, 33], 1), ([3, 127], 1), ([2, 1025], 1), ([2, 5121], 1), ([1, 4097], 1),
          ([33, 40], 0), ([1025, 16], 0), ([129, 36], 0), ([700, 1], 0), ([3, 17, 20], 1), ([4, 5, 6, 7], -2), ([37], 0),
          ([0, 7], 1), ([3, 0], 1)]


def line(kind, shape, axis, exclusive, reverse, around):
    sums = {"op": "CumSum", "inputs": ["X" if not around else "P", "a"], "outputs": ["Y" if not around else "S"],
            "attributes": {"exclusive": exclusive, "reverse": reverse}}
    inputs = {"X": {"type": kind, "shape": shape}}
    nodes = [sums]
    if around:
        inputs["Z"] = inputs["X"]
        nodes = [{"op": "Relu", "inputs": ["X"], "outputs": ["P"]}, sums, {"op": "Add", "inputs": ["S", "Z"], "outputs": ["Y"]}]
    return {"name": "g", "inputs": inputs, "constants": {"a": {"type": "s32", "shape": [], "data": axis}}, "nodes": nodes,
            "outputs": ["Y"]}


def graphs():
    flags = list(itertools.product((0, 1), (0, 1)))
    cases = [(kind, *shape, *pair, 0) for kind in ("f32", "bf16", "s32") for shape in SHAPES for pair in flags]
    if not os.environ.get("ADLGEN_TEST_FULL"):
        cases = random.sample(cases, 40)
    cases += [(kind, shape, axis, *flags[i], 1) for i, (kind, shape, axis) in enumerate(
        [("f32", [5, 300], 1), ("bf16", [5, 300], 1), ("f16", [300, 8], 0), ("f32", [5, 2049], 1)])]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines")
        with open(path, "w") as file:
            for i, case in enumerate(cases):
                print(json.dumps({"graph": line(*case), "gpu": ("h100", "a100")[i % 2], "label": str(case)}), file=file)
        run = subprocess.run([sys.argv[1], "run", "--batch", path, "--on", "sim", "--json"], capture_output=True, text=True)
    results = [json.loads(row) for row in run.stdout.splitlines()]
    wrong = [row for row in results if not row.get("ok")]
    if len(results) != len(cases) or wrong:
        sys.exit(f"{len(results)} of {len(cases)} sums ran\n{run.stderr}" + "\n".join(map(str, wrong)))
    print(f"{len(cases)} sums along an axis right")


random.seed(23)
for gpu in ("h100", "a100"):
    text(gpu)
graphs()
