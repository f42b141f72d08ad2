#!/usr/bin/env python3
"""sorts.py ADLGEN: `sort` in TILE text, and TopK of rows of any length, on the simulator."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from kernel import Kernel

ROWS, COLUMNS, LONG = 16, 256, 2048
LEAST, MOST = -2 ** 31, 2 ** 31 - 1


def expected(x, z):
    rows = [x[r * COLUMNS:(r + 1) * COLUMNS] for r in range(ROWS)]
    both = [sorted(row + [value ^ 1431655765 for value in row]) for row in rows]
    lows = [sorted((value << 32) - value for value in row) for row in rows]
    longs = sorted(z + [value ^ 255 for value in z])
    return {"A": [sorted(row) for row in rows], "B": [row[:4] for row in both],
            "D": [[value >> 32 for value in row[:64]] for row in lows], "E": [sorted(z)], "F": [longs[:16]],
            "G": [longs[:1024]], "H": [[min(row)] for row in rows]}


# Rows of a block and of a warp each, 32 and 64 bits; what was found before joins.
BOUNDED = """adlgen-ir 1 tile
kernel bounded(X: tensor<s32>[ROWS, COLUMNS], A: tensor<s32>[ROWS, KEEP], B: tensor<s32>[ROWS, KEEP],
    D: tensor<s32>[ROWS, KEEP]) dims N: s32 launch threads 128 {
  tiles %r in linear(1) {
    %x: tile<s32>[ROWS, COLUMNS] = load X[0, 0]
    %a: tile<s32>[ROWS, KEEP] = sort %x dim 1 survivors MOST
    store A[0, 0] <- %a
    %w: tile<s32>[ROWS, COLUMNS] = xor %x, -256
    %b: tile<s32>[ROWS, KEEP] = sort %w, %a dim 1 survivors MOST
    store B[0, 0] <- %b
    %wide: tile<s64>[ROWS, COLUMNS] = cast %x
    %high: tile<s64>[ROWS, COLUMNS] = shl %wide, 32
    %low: tile<s64>[ROWS, COLUMNS] = sub %high, %wide
    %d: tile<s64>[ROWS, KEEP] = sort %low dim 1 survivors MOST
    %d2: tile<s64>[ROWS, KEEP] = shr %d, 32
    %d3: tile<s32>[ROWS, KEEP] = cast %d2
    store D[0, 0] <- %d3
  }
}
"""


def check_bounded(gpu, name, values, rows, columns, keep, most):
    """The bound leaves few of numbers drawn at random; of others it is searched for."""
    x = values(rows * columns)
    cut = [x[r * columns:(r + 1) * columns] for r in range(rows)]
    wanted = {"A": [sorted(row)[:keep] for row in cut],
              "B": [sorted(row + [value ^ -256 for value in row])[:keep] for row in cut],
              "D": [[value >> 32 for value in sorted((value << 32) - value for value in row)[:keep]] for row in cut]}
    buffers = {"X": ("s32", x)} | {part: ("s32", [0] * rows * keep) for part in wanted}
    text = BOUNDED
    for word, number in ("ROWS", rows), ("COLUMNS", columns), ("KEEP", keep), ("MOST", most):
        text = text.replace(word, str(number))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bounded.ir"
        path.write_text(text)
        kernel = Kernel(sys.argv[1], path, "bounded", gpu, [f"survivors {most} exchange"], folder, 1, "choose_layouts")
        found = dict(zip("ABD", kernel.run(1, kernel.shared, buffers, [1], {}, *"ABD")))
    for part, sorted_rows in wanted.items():
        if list(found[part]) != [value for row in sorted_rows for value in row]:
            sys.exit(f"{gpu}, {name}: {part} of {rows} x {columns}, {keep} of {most}, is wrong")


def check(gpu, values):
    x, z = ([values() for _ in range(n)] for n in (ROWS * COLUMNS, LONG))
    wanted = expected(x, z)
    buffers = {"X": ("s32", x), "Z": ("s32", z)} | {
        name: ("s32", [0] * sum(map(len, rows))) for name, rows in wanted.items()}
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "sorts", "sorts", gpu, ["sort", "exchange"], folder, 1, "choose_layouts")
        found = dict(zip("ABDEFGH", kernel.run(1, kernel.shared, buffers, [1], {}, *"ABDEFGH")))
    for name, rows in wanted.items():
        if list(found[name]) != [value for row in rows for value in row]:
            sys.exit(f"{gpu}: {name} is wrong")
    print(f"{gpu}: sorted rows and their first elements right")


KINDS = ("f32", "f16", "bf16", "s32", "s8", "u8")


def line(kind, shape, axis, k, largest):
    top = {"op": "TopK", "inputs": ["X", "k"], "outputs": ["V", "I"], "attributes": {"axis": axis, "largest": largest}}
    return {"name": "g", "inputs": {"X": {"type": kind, "shape": shape}},
            "constants": {"k": {"type": "s64", "shape": [1], "data": [k]}}, "nodes": [top], "outputs": ["V", "I"]}


def tops():
    cases = [(kind, [3, n], -1, k, largest) for kind in KINDS for n in (1, 31, 33, 127, 1025, 5121)
             for k in sorted({0, 1, 2, 7, 16, 100, n // 2, n}) if k <= n for largest in (0, 1)]
    if not os.environ.get("ADLGEN_TEST_FULL"):
        cases = random.sample(cases, 30)
    cases += [(kind, [2, n], -1, k, k % 3 % 2) for kind in ("f32", "bf16", "s32") for n, k in
              ((4096, 16), (4096, 128), (32768, 20), (1000, 33), (5000, 256))]
    cases += [("f32", [0, 7], 1, 3, 1), ("bf16", [131, 40], 1, 4, 1), ("f32", [4, 9, 33], 1, 5, 0), ("f32", [37], 0, 3, 1),
              ("bf16", [1, 20000], -1, 50, 1), ("bf16", [1, 40000], -1, 50, 1), ("s32", [1, 9000], 1, 4500, 0),
              ("f32", [2, "N"], 1, 8, 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines")
        with open(path, "w") as file:
            for i, case in enumerate(cases):
                job = {"graph": line(*case), "gpu": ("h100", "a100")[i % 2], "label": str(case)}
                if "N" in case[1]:
                    job["dims"] = {"N": 5000}
                print(json.dumps(job), file=file)
        run = subprocess.run([sys.argv[1], "run", "--batch", path, "--on", "sim", "--json"], capture_output=True, text=True)
    results = [json.loads(row) for row in run.stdout.splitlines()]
    wrong = [row for row in results if not row.get("ok")]
    if len(results) != len(cases) or wrong:
        sys.exit(f"{len(results)} of {len(cases)} rows ran\n{run.stderr}" + "\n".join(map(str, wrong)))
    print(f"{len(cases)} first elements of rows right")


random.seed(11)
check("h100", lambda: random.randint(-2 ** 31, 2 ** 31 - 1))
check("a100", lambda: random.randint(-9, 9))
KINDS_OF_ROWS = {
    "random": lambda n: [random.randint(LEAST, MOST) for _ in range(n)],
    "few values": lambda n: [random.randint(-9, 9) for _ in range(n)],
    "rising": lambda n: list(range(n)), "falling": lambda n: list(range(n, 0, -1)),
    "all the least": lambda n: [LEAST] * n, "all the largest": lambda n: [MOST] * n,
    "two values": lambda n: [random.choice((LEAST, MOST)) for _ in range(n)]}
SHAPES = ((1, 2048, 16, 64), (4, 512, 16, 32), (1, 2048, 128, 256), (1, 4096, 2, 32), (4, 1024, 64, 128))
BLOCKS = [(name, shape) for name in KINDS_OF_ROWS for shape in SHAPES]
for i, (name, shape) in enumerate(BLOCKS):
    check_bounded(("h100", "a100")[i % 2], name, KINDS_OF_ROWS[name], *shape)
print(f"{len(BLOCKS)} kernels of first elements by a bound right")
tops()
