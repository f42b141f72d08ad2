#!/usr/bin/env python3
"""Attention over keys and values in pages, from graphs: attention_pages.py ADLGEN

Gather, Reshape and Attention have to be one kernel, which is run on the simulator and compared with attention in double precision of the
same inputs, row by row, in plain Python: caches [page, row, head, element] and [page, head, row, element], pages out of order and shared,
entries behind a sequence's end that name no page or one that nobody uses (these hold NaN), sequences of length 0, one query and many."""
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

adlgen = pathlib.Path(sys.argv[1]).resolve()
LIMIT = 6e-3  # of the norm: results and probabilities of 16 bits

# Hq, Hkv, queries, size; rows of a page, heads in front of rows (HND); lengths; causal; symbols; type of the table
CASES = [
    {"dims": (4, 2, 1, 64), "page": 16, "lengths": (0, 1, 65, 300), "table": "s64"},
    {"dims": (2, 1, 1, 64), "page": 128, "hnd": True, "lengths": (129, 127), "table": "s32", "symbols": True},
    {"dims": (4, 2, 70, 64), "page": 32, "lengths": (70, 128, 300), "causal": 1, "table": "s32"},
    {"dims": (2, 2, 130, 64), "page": 64, "lengths": (1, 130), "hnd": True, "table": "s64", "symbols": True},
    {"dims": (1, 1, 3, 40), "page": 4, "lengths": (63,), "causal": 1, "table": "s32"},
]


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def number(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def describe(case, batches, columns, pages):
    q_heads, kv_heads, queries, size = case["dims"]
    page, hnd = case["page"], case.get("hnd")
    b, c, n = ("B", "C", "N") if case.get("symbols") else (batches, columns, pages)
    inputs = {"q": {"type": "bf16", "shape": [b, q_heads, queries, size]}, "table": {"type": case["table"], "shape": [b, c]}, "lengths": {"type": "s64", "shape": [b]}}
    nodes = []
    for x in "kv":
        inputs[x + "_cache"] = {"type": "bf16", "shape": [n, kv_heads, page, size] if hnd else [n, page, kv_heads, size]}
        rows = x + "_cache"
        if hnd:
            nodes.append({"op": "Transpose", "inputs": [rows], "outputs": [x + "_rows"], "attributes": {"perm": [0, 2, 1, 3]}})
            rows = x + "_rows"
        nodes += [{"op": "Gather", "inputs": [rows, "table"], "outputs": [x + "_pages"], "attributes": {"axis": 0}},
                  {"op": "Reshape", "inputs": [x + "_pages", "shape"], "outputs": [x + "_flat"]},
                  {"op": "Transpose", "inputs": [x + "_flat"], "outputs": [x], "attributes": {"perm": [0, 2, 1, 3]}}]
    nodes.append({"op": "Attention", "inputs": ["q", "k", "v", "", "", "", "lengths"], "outputs": ["y"], "attributes": {"is_causal": case.get("causal", 0)}})
    shape = [0, -1, kv_heads, size]
    return {"name": "pages", "opset": 24, "inputs": inputs, "constants": {"shape": {"type": "s64", "shape": [4], "data": shape}}, "nodes": nodes, "outputs": ["y"]}


def write_tensors(path, tensors):
    """safetensors: name -> (type, shape, values)."""
    codes = {"BF16": "H", "I32": "i", "I64": "q"}
    header, data = {}, b""
    for name, (kind, shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}{codes[kind]}", *values)
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_tensor(path, name):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    entry = json.loads(raw[8:8 + size])[name]
    first, last = entry["data_offsets"]
    return struct.unpack(f"<{(last - first) // 2}H", raw[8 + size + first:8 + size + last])


def tables(case, columns):
    """A table and its cache's pages: those in use out of order, one shared; others of no meaning."""
    page, lengths = case["page"], case["lengths"]
    needed = sum(-(-n // page) for n in lengths)
    free = random.sample(range(needed + 2), needed + 2)
    table = [[random.choice([needed + 2, 1 << 20, 0, -(1 << 30)]) for _ in range(columns)] for _ in lengths]
    for row, n in zip(table, lengths):
        row[:-(-n // page)] = [free.pop() for _ in range(-(-n // page))]
    full = [row for row, n in zip(table, lengths) if n >= page]
    if len(full) > 1:
        full[1][0] = full[0][0]
    return table, needed + 2


def attend(q, keys, values, scale):
    scores = [scale * sum(x * y for x, y in zip(q, k)) for k in keys]
    if not scores:
        return [0.0] * len(q)
    peak = max(scores)
    weights = [math.exp(s - peak) for s in scores]
    total = sum(weights)
    return [sum(w * x for w, x in zip(weights, column)) / total for column in zip(*values)]


def check(case, gpu):
    q_heads, kv_heads, queries, size = case["dims"]
    page, lengths, hnd, causal = case["page"], case["lengths"], case.get("hnd"), case.get("causal", 0)
    columns = -(-max(lengths) // page) + 1
    table, pages = tables(case, columns)
    used = {row[i // page] for row, n in zip(table, lengths) for i in range(0, n, page)}
    each = page * kv_heads * size
    q = [bf16(random.gauss(0, 1)) for _ in range(len(lengths) * q_heads * queries * size)]
    caches = {x: [y for p in range(pages) for y in ([bf16(random.gauss(0, 1)) for _ in range(each)] if p in used else [0x7FC0] * each)] for x in "kv"}
    graph = describe(case, len(lengths), columns, pages)
    shapes = {x: [{"B": len(lengths), "C": columns, "N": pages}.get(n, n) for n in graph["inputs"][x]["shape"]] for x in graph["inputs"]}
    tensors = {"q": ("BF16", shapes["q"], q), "lengths": ("I64", shapes["lengths"], lengths),
               "table": ("I32" if case["table"] == "s32" else "I64", shapes["table"], [x for row in table for x in row]),
               "k_cache": ("BF16", shapes["k_cache"], caches["k"]), "v_cache": ("BF16", shapes["v_cache"], caches["v"])}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "graph.json").write_text(json.dumps(graph))
        write_tensors(folder / "in.safetensors", tensors)
        words = [adlgen, "run", folder / "graph.json", "--gpu", gpu, "--on", "sim", "--out", folder, "--keep", folder / "kept"]
        words += [f"--input={name}={folder / 'in.safetensors'}" for name in tensors]
        if case.get("symbols"):
            words += [f"--dim=B={len(lengths)}", f"--dim=C={columns}", f"--dim=N={pages}"]
        run = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{gpu} {case}: exit {run.returncode}\n{run.stdout[-3000:]}{run.stderr}")
        launches = len(list((folder / "kept").glob("*.ptx")))
        out = [number(x) for x in read_tensor(folder / "outputs.safetensors", "y")]
    error = norm = 0.0
    for b, n in enumerate(lengths):
        for h in range(q_heads):
            g = h // (q_heads // kv_heads)
            rows = {x: [[number(y) for y in caches[x][at:at + size]] for at in (((table[b][i // page] * kv_heads + g) * page + i % page) * size if hnd else
                                                                                   ((table[b][i // page] * page + i % page) * kv_heads + g) * size for i in range(n))] for x in "kv"}
            for m in range(queries):
                at = ((b * q_heads + h) * queries + m) * size
                seen = max(0, min(n, m + n - queries + 1)) if causal else n
                wanted = attend([number(x) for x in q[at:at + size]], rows["k"][:seen], rows["v"][:seen], 1 / math.sqrt(size))
                error += sum((x - y) ** 2 for x, y in zip(out[at:at + size], wanted))
                norm += sum(y * y for y in wanted)
    relative = math.sqrt(error / norm)
    if launches != 1:
        sys.exit(f"{gpu} {case}: {launches} kernels, not one")
    if not relative <= LIMIT:
        sys.exit(f"{gpu} {case}: error {relative:.2e}, limit {LIMIT}")
    print(f"{gpu}: pages of {page}, lengths {lengths}, {queries} queries: error {relative:.2e}")


def main():
    random.seed(23)
    for gpu in ("h100", "a100"):
        for case in CASES:
            check(case, gpu)


main()
