#!/usr/bin/env python3
"""Products of operands with scales of blocks, on the simulator: how exact they are, what scales of 0, NaN and infinity give,
and whether a kernel would be noticed that takes a wrong scale.

    block_scales.py ADLGEN

The measure of exactness is 1 - 2 x.y / (x.x + y.y), of the result and of the double product of the quantised operands.
K = 7168 with ADLGEN_TEST_FULL, else 1024: what a block's sum loses does not depend on how many there are. Wrong kernels
are made from the template with a word changed (ADLGEN_DATA_DIR)."""
import array
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORST = {"normal": 1.2e-8, "uniform": 3e-7}
ROWS, COLUMNS = 16, 32
FULL = bool(os.environ.get("ADLGEN_TEST_FULL"))
DEPTH = 7168 if FULL else 1024
E4M3 = [math.nan if code & 127 == 127 else (-1 if code & 128 else 1) *
        ((code & 7) * 2.0 ** -9 if code & 120 == 0 else (8 + (code & 7)) * 2.0 ** ((code >> 3 & 15) - 10))
        for code in range(256)]
CODES = sorted(((value, code) for code, value in enumerate(E4M3) if not math.isnan(value) and code != 128))


def graph(rows, columns, depth, width, turned):
    blocks = -(-depth // 128)
    inputs = {"x": {"type": "e4m3", "shape": [rows, depth]}, "xs": {"type": "f32", "shape": [rows, blocks]},
              "w": {"type": "e4m3", "shape": [columns, depth]},
              "ws": {"type": "f32", "shape": [-(-columns // width), blocks]}}
    if turned:
        inputs["xs"]["strides"] = [1, -(-rows // 4) * 4]
        if width == 1:
            inputs["ws"]["strides"] = [1, -(-columns // 4) * 4]
    return {"name": "blocks", "inputs": inputs, "outputs": ["y"], "nodes": [
        {"op": "DequantizeLinear", "inputs": ["x", "xs"], "outputs": ["a"], "attributes": {"axis": 1, "block_size": 128}},
        {"op": "DequantizeLinear", "inputs": ["w", "ws"], "outputs": ["b"], "attributes": {"block_shape": [width, 128]}},
        {"op": "Gemm", "inputs": ["a", "b"], "outputs": ["y"], "attributes": {"transB": 1}}]}


def write_tensors(path, tensors):
    """A safetensors file of {name: (type, shape, bytes)}."""
    header, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def read_floats(path, name):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    first, last = json.loads(data[8:8 + size])[name]["data_offsets"]
    return array.array("f", data[8 + size + first:8 + size + last])


def run(adlgen, folder, description, tensors=None, check=False, templates=None, forced=()):
    (folder / "blocks.json").write_text(json.dumps(description))
    command = [adlgen, "run", folder / "blocks.json", "--gpu", "h100", "--on", "sim", "--out", folder / "out"]
    command += ["--check"] if check else []
    if tensors:
        write_tensors(folder / "in.safetensors", tensors)
        command += [part for name in tensors for part in ("--input", f"{name}={folder / 'in.safetensors'}")]
    for setting in forced:
        command += ["--set", setting]
    environment = dict(os.environ, **({"ADLGEN_DATA_DIR": str(templates)} if templates else {}))
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def nearest(value):
    import bisect
    at = bisect.bisect(CODES, (value, -1))
    return min(CODES[max(0, at - 1):at + 1], key=lambda entry: abs(entry[0] - value))[1]


def quantise(rows, depth, draw):
    """Codes, and the scale of each 128 of a row: its largest element becomes 448."""
    codes, scales = bytearray(), []
    for _ in range(rows):
        row = [draw() for _ in range(depth)]
        own = [max(map(abs, row[k:k + 128])) / 448 for k in range(0, depth, 128)]
        own = list(array.array("f", own))
        codes += bytes(nearest(value / own[k // 128]) for k, value in enumerate(row))
        scales.append(own)
    return bytes(codes), scales


def difference(x, y):
    return 1 - 2 * math.fsum(a * b for a, b in zip(x, y)) / math.fsum(a * a + b * b for a, b in zip(x, y))


def check_exactness(adlgen, folder, kind, draw):
    x, xs = quantise(ROWS, DEPTH, draw)
    w, ws = quantise(COLUMNS, DEPTH, draw)
    pack = lambda scales: array.array("f", [scale for row in scales for scale in row]).tobytes()
    blocks = DEPTH // 128
    tensors = {"x": ("F8_E4M3", [ROWS, DEPTH], x), "xs": ("F32", [ROWS, blocks], pack(xs)),
               "w": ("F8_E4M3", [COLUMNS, DEPTH], w), "ws": ("F32", [COLUMNS, blocks], pack(ws))}
    done = run(adlgen, folder, graph(ROWS, COLUMNS, DEPTH, 1, False), tensors)
    if done.returncode:
        return [f"{kind}: exit {done.returncode}: {done.stderr}"]
    left = [[E4M3[code] for code in x[i * DEPTH:(i + 1) * DEPTH]] for i in range(ROWS)]
    right = [[E4M3[code] for code in w[i * DEPTH:(i + 1) * DEPTH]] for i in range(COLUMNS)]
    exact = [math.fsum(xs[i][k] * ws[j][k] * sum(a * b for a, b in zip(left[i][k * 128:k * 128 + 128],
                                                                          right[j][k * 128:k * 128 + 128]))
                       for k in range(blocks)) for i in range(ROWS) for j in range(COLUMNS)]
    found = difference(read_floats(folder / "out" / "outputs.safetensors", "y"), exact)
    print(f"{kind}: K = {DEPTH}: {found:.3g}, at most {WORST[kind]:g}")
    return [] if found <= WORST[kind] else [f"{kind}: {found:g} is above {WORST[kind]:g}"]


def check_special(adlgen, folder):
    """Rows whose scale is 0, NaN, infinite in one block: 0 of it, NaN, infinite or NaN. Other rows do not see it."""
    special = [0.0, math.nan, math.inf]
    ones = lambda n: array.array("f", [1.0] * n)
    failures = []
    xs = ones(8 * 3)
    for row, scale in enumerate(special):
        xs[row * 3 + 2] = scale
    code = bytes([nearest(1.0)])
    tensors = {"x": ("F8_E4M3", [8, 300], code * 2400), "xs": ("F32", [8, 3], xs.tobytes()),
               "w": ("F8_E4M3", [40, 300], code * 12000), "ws": ("F32", [1, 3], ones(3).tobytes())}
    done = run(adlgen, folder, graph(8, 40, 300, 128, False), tensors)
    if done.returncode:
        return [f"scales of 0, NaN and infinity: exit {done.returncode}: {done.stderr}"]
    y = read_floats(folder / "out" / "outputs.safetensors", "y")
    for row, wanted in enumerate([256.0, math.nan, math.inf] + [300.0] * 5):
        for value in y[row * 40:row * 40 + 40]:
            if not (value == wanted or (math.isnan(value) and math.isnan(wanted))):
                failures.append(f"scales of 0, NaN and infinity: row {row} has {value}, not {wanted}")
                break
    return failures


# What is wrong, the words of the template and those in their place, columns of B that share a scale, in the ring or not.
MUTANTS = [
    ("the last partial block takes the scale before its own, of A", "%k / $a_depth", "min(%k / $a_depth, K / $a_depth - 1)", (1, 128), (False, True)),
    ("the last partial block takes the scale before its own, of B", "%k / $b_depth", "min(%k / $b_depth, K / $b_depth - 1)", (1, 128), (False, True)),
    ("scales of a row near by, at whole pieces as a copy wants", ": %m * $bm, %k / $a_depth", ": %m * $bm + 4, %k / $a_depth", (1, 128), (True,)),
    ("scales of the neighbouring row, loaded", ": %m * $bm) + %i", ": %m * $bm + 1) + %i", (1, 128), (False,)),
    ("scale of the neighbouring columns", "%n * $bn / $b_width]", "%n * $bn / $b_width + 1]", (128,), (False, True)),
    ("scale of the neighbouring column", "/ $b_depth, %n * $bn]", "/ $b_depth, %n * $bn + 1]", (1,), (True,)),
    ("scale of the neighbouring column, loaded", "%n * $bn / $b_width]", "%n * $bn / $b_width + 1]", (1,), (False,)),
    ("scales of A left out", "mul %sa, %sb", "mul 1.0, %sb", (128,), (False,))]


def check_mutants(adlgen, folder):
    failures, planted = [], 0
    text = (ROOT / "templates" / "gemm_blocks.ir").read_text()
    (folder / "data" / "templates").mkdir(parents=True)
    for width in (1, 128):
        for turned in (False, True):
            description = graph(70, 136, 300, width, turned)
            good = run(adlgen, folder, description, check=True)
            if good.returncode:
                failures.append(f"1 x {width}, turned {turned}: exit {good.returncode}: {good.stdout}{good.stderr}")
            for what, there, instead, widths, rings in MUTANTS:
                changed = text.replace(there, instead)
                if changed == text:
                    failures.append(f"{what}: the template has no `{there}`")
                if width not in widths or turned not in rings or changed == text:
                    continue
                (folder / "data" / "templates" / "gemm_blocks.ir").write_text(changed)
                done = run(adlgen, folder, description, check=True, templates=folder / "data")
                planted += 1
                if done.returncode != 5:
                    failures.append(f"1 x {width}, turned {turned}: {what}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"{planted} wrong kernels")
    return failures


# Tiles with columns of two blocks of B, and of rows in parts: settings, and what is wrong of them, as above.
TILES = [
    (("bm=128", "bn=192"), ("the first block's scale for both", "select %is_first, %sb_first, %sb_next", "select %is_first, %sb_first, %sb_first")),
    (("bm=64", "bn=160"), ("the next block begins a chunk later", "% $b_width) / $chunk", "% $b_width) / $chunk + 1")),
    (("bm=128", "bn=144"), ("the first block's scale for both, of the ring", "get @blocks.sb[%k / $b_depth % 4 .. %k / $b_depth % 4 + 1, 1 .. 2]", "get @blocks.sb[%k / $b_depth % 4 .. %k / $b_depth % 4 + 1, 0 .. 1]")),
    (("bm=128", "bn=192", "cluster_m=2"), ("the first of four blocks of k", "get @blocks.sb[%k / $b_depth % 4 .. %k / $b_depth % 4 + 1, 0 .. 1]", "get @blocks.sb[0 .. 1, 0 .. 1]")),
    (("bm=256", "bn=128", "parts_m=2", "cluster_n=2"), ("scales of the first part for both", ".sa[%i * ($bm / $parts_m) .. (%i + 1) * ($bm / $parts_m)", ".sa[0 .. $bm / $parts_m")),
    (("bm=256", "bn=128", "parts_m=2"), ("the first part's rows for both", "call $epilogue(%acc[%i], %g, %m * $bm +", "call $epilogue(%acc[0], %g, %m * $bm +"))]


def aligned(description):
    for entry in description["inputs"].values():
        entry["align"] = 16
    return description


def check_tiles(adlgen, folder):
    failures = []
    text = (ROOT / "templates" / "gemm_blocks.ir").read_text()
    (folder / "data" / "templates").mkdir(parents=True)
    for settings, mutant in TILES:
        for rows, columns, depth in ((300, 600, 512), (129, 193, 128), (140, 130, 384)):
            for turned in (False, True):
                if mutant and rows > 256:
                    changed = text.replace(mutant[1], mutant[2])
                    (folder / "data" / "templates" / "gemm_blocks.ir").write_text(changed)
                    done = run(adlgen, folder, aligned(graph(rows, columns, depth, 128, turned)), check=True, templates=folder / "data", forced=settings)
                    if changed == text or (done.returncode != 5 and (turned or ".s" not in mutant[1])):
                        failures.append(f"{settings}, turned {turned}: {mutant[0]}: exit {done.returncode}\n{done.stdout}{done.stderr}")
                done = run(adlgen, folder, aligned(graph(rows, columns, depth, 128, turned)), check=True, forced=settings)
                if done.returncode and "cluster" not in done.stderr:
                    failures.append(f"{rows} x {columns} x {depth}, {settings}, turned {turned}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return failures


def main():
    adlgen = sys.argv[1]
    draws = random.Random(1)
    failures = []
    for name, check in (("normal", lambda folder: check_exactness(adlgen, folder, "normal", lambda: draws.gauss(0, 1))),
                        ("uniform", lambda folder: check_exactness(adlgen, folder, "uniform", draws.random)),
                        ("special", lambda folder: check_special(adlgen, folder)),
                        ("tiles", lambda folder: check_tiles(adlgen, folder)),
                        ("mutants", lambda folder: check_mutants(adlgen, folder))):
        with tempfile.TemporaryDirectory(prefix=f"adlgen-{name}-") as folder:
            failures += check(pathlib.Path(folder))
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
