#!/usr/bin/env python3
"""special_rows.py ADLGEN: softmax, LogSoftmax and cross-entropy of rows that are hard: infinities, NaN, maxima of any size, on the
simulator beside the reference; rows of numbers also one by one in double precision, since those of 1e38 are all of a tensor's norm; and
what is hidden by -inf has a share of exactly 0."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

INFINITY, NAN = math.inf, math.nan


def bits_of(kind, x):
    if kind == "f16":
        return struct.unpack("H", struct.pack("e", x if math.isinf(x) or x != x else max(-65504, min(65504, x))))[0]
    word = struct.unpack("I", struct.pack("f", x))[0]
    if x != x:
        return 0x7FC0
    return (word + (0 if math.isinf(x) else 0x7FFF + (word >> 16 & 1))) >> 16


def rows_of(columns):
    draw = random.Random(3)
    normal = lambda deviation=1.0: [draw.gauss(0, deviation) for _ in range(columns)]
    rows = [normal(), normal(), normal(), [-INFINITY] * columns, normal(), normal(1e4)]
    rows[1][columns // 2] = NAN
    rows[2][columns - 1] = INFINITY
    rows[4] = [x if i % 3 else -INFINITY for i, x in enumerate(rows[4])]
    rows[5][1] = 3e38
    rows += [[1e30] * columns, [-2e38] * columns, [-x * 1e6 for x in range(columns)], [1e9 + x * 1e7 for x in range(columns)]]
    rows += [[2.0**24 + (i % 7) * 2.0**17 for i in range(columns)], [-(2.0**13) - i * 64 for i in range(columns)]]
    rows += [[x - 80 for x in normal(10)], [x + 3000 for x in normal(100)], [-INFINITY] * (columns - 1) + [-5.0], [0.0] * columns]
    return rows


def save(path, tensors):
    header, body = {}, b""
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("Q", len(text)) + text + body)


def number_of(kind, word):
    return struct.unpack("e", struct.pack("H", word))[0] if kind == "f16" else struct.unpack("f", struct.pack("I", word << 16))[0]


def results_of(operator, row, target):
    """Each output's row: the results, and by how much they may be off but for rounding."""
    most = max(row)
    shares = [math.exp(x - most) for x in row]
    total = sum(shares)
    logs, shares = [x - most - math.log(total) for x in row], [x / total for x in shares]
    if operator == "Softmax":
        return {"Y": (shares, [1e-7] * len(row))}
    if operator == "LogSoftmax":
        return {"Y": (logs, [1e-4] * len(row))}
    # a loss is the maximum and the sum's logarithm, added up in f32, less the target's logit
    return {"L": ([-logs[target]], [1e-4 + abs(most) * 2**-23]), "Y": ([x - (i == target) for i, x in enumerate(shares)], [1e-7 + x * 2**-10 for x in shares])}


def row_fault(operator, kind, rows, folder):
    """The first element that is off, of rows of numbers and -inf; of the others --check says what must be NaN."""
    step, top = (2**-10, 65504) if kind == "f16" else (2**-7, 3.39e38)
    found = {name: load(f"{folder}/out/outputs.safetensors", name) for name in (("L", "Y") if "Loss" in operator else ("Y",))}
    for i, row in enumerate(rows):
        row = [number_of(kind, bits_of(kind, x)) for x in row]
        if any(x != x for x in row) or math.isinf(max(row)):
            continue
        for name, (wanted, slack) in results_of(operator, row, i * 37 % len(row)).items():
            for j, (word, want, off) in enumerate(zip(found[name][i * len(wanted):], wanted, slack)):
                y = number_of(kind, word)
                if not (y == want or abs(y - want) <= abs(want) * step + off or abs(want) > top and abs(y) >= top and y * want > 0):
                    return f"{name}: row {i}, element {j} is {y}, not {want}"
    return None


def load(path, name, code="H"):
    data = open(path, "rb").read()
    length = struct.unpack("Q", data[:8])[0]
    begin, end = json.loads(data[8 : 8 + length])[name]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // struct.calcsize(code)}{code}", data[8 + length + begin : 8 + length + end])


def graph_of(operator, kind):
    inputs, attributes = {"X": {"type": kind, "shape": ["R", "C"]}}, {}
    if operator in ("Softmax", "LogSoftmax"):
        nodes = [{"op": operator, "inputs": ["X"], "outputs": ["Y"], "attributes": {"axis": -1}}]
        return {"name": "rows", "inputs": inputs, "nodes": nodes, "outputs": ["Y"]}
    inputs |= {"T": {"type": "s64", "shape": ["R"]}, "G": {"type": kind, "shape": ["R"]}}
    attributes = {"reduction": "none"}
    nodes = [{"op": "SoftmaxCrossEntropyLoss", "inputs": ["X", "T"], "outputs": ["L"], "attributes": attributes},
             {"op": "SoftmaxCrossEntropyLossGradient", "domain": "adlgen", "inputs": ["G", "X", "T"], "outputs": ["Y"],
              "attributes": attributes}]
    return {"name": "rows", "inputs": inputs, "nodes": nodes, "outputs": ["L", "Y"]}


def fails_to_narrow(adlgen, folder, gpu, kind, to):
    """Shares of 8 bits beside the reference's, of which many lie close to a tie: an exponential of fewer digits turns some."""
    graph = {"name": "narrowed", "inputs": {"X": {"type": kind, "shape": [64, 1000]}}, "outputs": ["Y"],
             "nodes": [{"op": "Softmax", "inputs": ["X"], "outputs": ["S"], "attributes": {"axis": -1}},
                       {"op": "Cast", "inputs": ["S"], "outputs": ["Y"], "attributes": {"to": to}}]}
    json.dump(graph, open(f"{folder}/graph.json", "w"))
    ran = subprocess.run([adlgen, "run", f"{folder}/graph.json", "--gpu", gpu, "--on", "sim", "--check", "--seed", "0"], capture_output=True, text=True)
    return [f"Softmax {kind} to {to} {gpu}: {ran.stdout[-400:]}{ran.stderr[-400:]}"] if ran.returncode else []


def fails_at_large(adlgen, folder, gpu, kind):
    """Rows of one large number, whose loss is ln C: the maximum takes no digits of it along."""
    columns, numbers = 64, (1e4, 3.3e38, -1e30)
    code, bits, allowed = ("<%df", lambda x: x, 1e-6) if kind == "f32" else ("<%dH", lambda x: bits_of(kind, x), 2.0**-7)
    shapes = {"X": (kind.upper(), [3, columns], b"".join(struct.pack(code % columns, *[bits(x)] * columns) for x in numbers)),
              "T": ("I64", [3], struct.pack("<3q", 0, 5, 63))}
    save(f"{folder}/in.safetensors", shapes)
    graph = {"name": "large", "inputs": {"X": {"type": kind, "shape": [3, columns]}, "T": {"type": "s64", "shape": [3]}}, "outputs": ["L", "P"],
             "nodes": [{"op": "SoftmaxCrossEntropyLoss", "inputs": ["X", "T"], "outputs": ["L", "P"], "attributes": {"reduction": "none"}}]}
    json.dump(graph, open(f"{folder}/graph.json", "w"))
    words = [adlgen, "run", f"{folder}/graph.json", "--gpu", gpu, "--on", "sim", "--out", f"{folder}/out"]
    ran = subprocess.run(words + [f"--input={name}={folder}/in.safetensors" for name in shapes], capture_output=True, text=True)
    if ran.returncode:
        return [f"loss of large {kind} {gpu}: {ran.stdout[-400:]}{ran.stderr[-400:]}"]
    value = (lambda x: x) if kind == "f32" else (lambda x: struct.unpack("<f", struct.pack("<I", x << 16))[0])
    found = [(value(x), sign) for name, sign in (("L", 1), ("P", -1)) for x in load(f"{folder}/out/outputs.safetensors", name, code[-1])]
    return [f"loss of large {kind} {gpu}: {x} for {sign * math.log(columns)}" for x, sign in found if not abs(x - sign * math.log(columns)) < allowed][:3]


def fails_at_places(adlgen, folder, gpu, kind, rows, columns, axis):
    """Where extremes are: NaN first, zeros of either sign alike, of equal ones the first, of -inf alone the first of all."""
    draw = random.Random(rows + columns)
    table = [[draw.choice((0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY)) for _ in range(columns)] for _ in range(rows)]
    for i, line in enumerate(table):
        for j in range(columns):
            at, of = (j, i) if axis else (i, j)  # along, across
            if of % 5 == 0:
                line[j] = -INFINITY
            elif of % 5 == 1:
                line[j] = draw.choice((0.0, -0.0))
            elif of % 5 == 2 and at % 17 == 9:
                line[j] = NAN
            elif of % 5 == 3:
                line[j] = INFINITY
    code, bits = ("<%df", lambda x: x) if kind == "f32" else ("<%dH", lambda x: bits_of(kind, x))
    save(f"{folder}/in.safetensors", {"X": (kind.upper(), [rows, columns], b"".join(struct.pack(code % columns, *map(bits, line)) for line in table))})
    nodes = [{"op": op, "inputs": ["X"], "outputs": [name], "attributes": {"axis": axis, "keepdims": 0}} for op, name in (("ArgMax", "Y"), ("ArgMin", "Z"))]
    json.dump({"name": "places", "inputs": {"X": {"type": kind, "shape": [rows, columns]}}, "outputs": ["Y", "Z"], "nodes": nodes}, open(f"{folder}/graph.json", "w"))
    ran = subprocess.run([adlgen, "run", f"{folder}/graph.json", "--gpu", gpu, "--on", "sim", "--out", f"{folder}/out", f"--input=X={folder}/in.safetensors"],
                         capture_output=True, text=True)
    if ran.returncode:
        return [f"places {kind} {gpu}: {ran.stdout[-400:]}{ran.stderr[-400:]}"]
    lines = table if axis else list(zip(*table))
    for name, pick in (("Y", max), ("Z", min)):
        wanted = [next((i for i, x in enumerate(line) if x != x), None) for line in lines]
        wanted = [line.index(pick(line)) if at is None else at for at, line in zip(wanted, lines)]
        found = load(f"{folder}/out/outputs.safetensors", name, "q")
        wrong = [i for i, (a, b) in enumerate(zip(found, wanted)) if a != b]
        if wrong:
            return [f"places {kind} {gpu} {rows} x {columns} axis {axis}: {name}[{wrong[0]}] is {found[wrong[0]]}, not {wanted[wrong[0]]}"]
    return []


def main():
    adlgen, failed = os.path.abspath(sys.argv[1]), []
    with tempfile.TemporaryDirectory() as folder:
        for case in (("h100", "f32", "e4m3"), ("h100", "f32", "e5m2"), ("a100", "f32", "bf16")):
            failed += fails_to_narrow(adlgen, folder, *case)
        for case in (("h100", "bf16", 6, 1025, 1), ("a100", "f32", 6, 4097, 1), ("h100", "f32", 300, 40, 0), ("a100", "bf16", 131, 33, 0)):
            failed += fails_at_places(adlgen, folder, *case)
        for case in (("h100", "f32"), ("a100", "bf16")):
            failed += fails_at_large(adlgen, folder, *case)
        for gpu, kind, columns, operator, more in (
            ("h100", "bf16", 40, "Softmax", []), ("a100", "f16", 1500, "Softmax", []), ("h100", "bf16", 300, "LogSoftmax", []),
            ("a100", "f16", 40, "LogSoftmax", []), ("h100", "bf16", 1500, "SoftmaxCrossEntropyLoss", ["--set", "form=cluster"]),
            ("a100", "bf16", 1500, "SoftmaxCrossEntropyLoss", ["--set", "form=passes"]), ("h100", "f16", 40, "SoftmaxCrossEntropyLoss", [])):
            rows = rows_of(columns)
            pack = lambda values: b"".join(struct.pack("H", bits_of(kind, x)) for x in values)
            stored = {"bf16": "BF16", "f16": "F16"}[kind]
            save(f"{folder}/in.safetensors", {"X": (stored, [len(rows), columns], pack(x for row in rows for x in row)),
                                  "T": ("I64", [len(rows)], struct.pack(f"<{len(rows)}q", *(i * 37 % columns for i in range(len(rows))))),
                                  "G": (stored, [len(rows)], pack([1.0] * len(rows)))})
            graph = graph_of(operator, kind)
            json.dump(graph, open(f"{folder}/graph.json", "w"))
            words = [adlgen, "run", f"{folder}/graph.json", "--gpu", gpu, "--on", "sim", "--check", "--dim", f"R={len(rows)}",
                     "--dim", f"C={columns}", "--fixed", "--out", f"{folder}/out"] + more
            for name in graph["inputs"]:
                words += ["--input", f"{name}={folder}/in.safetensors"]
            ran = subprocess.run(words, capture_output=True, text=True)
            label = f"{operator} {kind} {columns} {gpu} {' '.join(more)}"
            if ran.returncode:
                failed.append(f"{label}: {ran.stdout[-400:]}{ran.stderr[-400:]}")
                continue
            if fault := row_fault(operator, kind, rows, folder):
                failed.append(f"{label}: {fault}")
            if operator == "Softmax":
                y = load(f"{folder}/out/outputs.safetensors", "Y")
                hidden = [y[4 * columns + i] for i in range(0, columns, 3)]
                if any(hidden):
                    failed.append(f"{label}: what is -inf has shares {[hex(x) for x in hidden if x][:4]}")
    for line in failed:
        print(line)
    sys.exit(bool(failed))


main()
