#!/usr/bin/env python3
"""MatMulNBits against its definition in double precision: numbers of 8, 4 and 2 bits, blocks that end behind K, zero points that are
packed or absent, groups by indices, a bias, batches: nbits.py ADLGEN"""
import functools
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import runs

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=3)
LIMITS = {"f32": 1e-6, "f16": 2e-3, "bf16": 8e-3}


def unpack(raw, bits):
    return [byte >> shift & (1 << bits) - 1 for byte in raw for shift in range(0, 8, bits)]


def product(given, rows, n, k, bits, size, bias, groups):
    blocks = -(-k // size)
    numbers, row_bytes = unpack(given["b"], bits), blocks * size
    zero_row = -(-blocks * bits // 8) * 8 // bits
    zeros = unpack(given["z"], bits) if "z" in given else None
    for r in range(rows):
        a = given["a"][r * k:(r + 1) * k]
        for c in range(n):
            total = given["c"][c] if bias else 0.0
            for i in range(k):
                block = groups[i] if groups else i // size
                zero = zeros[c * zero_row + block] if zeros else 1 << bits - 1
                total += a[i] * (numbers[c * row_bytes + i] - zero) * given["s"][c * blocks + block]
            yield total


def check(gpu, kind, lead, n, k, bits, size, zeros=False, bias=False, flat=False, groups=None, joins=False):
    """joins: the product has to read the numbers itself, by one kernel."""
    blocks = -(-k // size)
    tensor = lambda kind, shape: {"type": kind, "shape": shape, "align": 16}
    inputs = {"a": tensor(kind, [*lead, k]), "b": tensor("u8", [n, blocks, size * bits // 8]), "s": tensor(kind, [n * blocks] if flat else [n, blocks])}
    if zeros:
        inputs["z"] = tensor("u8", [n, -(-blocks * bits // 8)])
    if bias:
        inputs["c"] = tensor(kind, [n])
    names = ["a", "b", "s", "z" if zeros else "", "g" if groups else "", "c"][:6 if bias else 5 if groups else 4 if zeros else 3]
    graph = {"name": "nbits", "inputs": inputs, "constants": {"g": {"type": "s32", "shape": [k], "data": groups}} if groups else {}, "outputs": ["y"],
             "nodes": [{"op": "MatMulNBits", "domain": "com.microsoft", "inputs": names, "outputs": ["y"],
                        "attributes": {"K": k, "N": n, "bits": bits, "block_size": size}}]}
    if joins:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "graph.json")
            path.write_text(json.dumps(graph))
            subprocess.run([sys.argv[1], "compile", path, "--gpu", gpu, "--emit", "ir", "--out", folder], check=True, capture_output=True)
            plan = json.loads(pathlib.Path(folder, gpu, "plan.json").read_text())
            kernels = [variant["kernel"] for launch in plan["launches"] for variant in launch["variants"]]
            if len(plan["launches"]) != 1 or not all(f"_u{bits}_" in kernel for kernel in kernels):
                sys.exit(f"{gpu}: the product of {bits} bits does not read them itself: {kernels}")
    given, found = run(graph, gpu)
    wanted = list(product(given, math.prod(lead), n, k, bits, size, bias, groups))
    error = math.sqrt(sum((x - y) ** 2 for x, y in zip(found["y"], wanted)) / sum(y * y for y in wanted))
    if len(found["y"]) != len(wanted) or not error <= LIMITS[kind]:
        sys.exit(f"{gpu} {kind} {lead} x {n} x {k}, {bits} bits, blocks of {size}: error {error:.2e}, limit {LIMITS[kind]}")


def reshaped():
    """Scales that reach DequantizeLinear as a view."""
    tensor = lambda kind, *shape: {"type": kind, "shape": list(shape), "align": 16}
    constants = {"shape": {"type": "s64", "shape": [2], "data": [64, 4]}}
    nodes = [{"op": "Reshape", "inputs": ["s", "shape"], "outputs": ["t"]},
             {"op": "DequantizeLinear", "inputs": ["w", "t"], "outputs": ["b"], "attributes": {"axis": 1, "block_size": 32}},
             {"op": "Gemm", "inputs": ["a", "b"], "outputs": ["y"], "attributes": {"transB": 1}}]
    return {"name": "reshaped", "inputs": {"a": tensor("bf16", 16, 128), "w": tensor("s8", 64, 128), "s": tensor("bf16", 256)},
            "constants": constants, "nodes": nodes, "outputs": ["y"]}


runs.run_batch(sys.argv[1], [{"graph": reshaped(), "gpu": device} for device in ("h100", "a100")])
for device in ("h100", "a100"):
    check(device, "bf16", [3], 16, 128, 8, 32)
    check(device, "f16", [17], 24, 64, 8, 64, zeros=True, bias=True)
    check(device, "bf16", [2, 5], 8, 72, 4, 16)
    check(device, "f16", [1], 33, 160, 4, 32, zeros=True, flat=True)
    check(device, "f32", [4], 7, 50, 4, 16, zeros=True, bias=True)
    check(device, "f16", [6], 16, 96, 2, 32, zeros=True)
    check(device, "bf16", [1], 5, 40, 2, 16, bias=True)
    check(device, "bf16", [3], 72, 256, 4, 128, zeros=True, joins=True)
    check(device, "f16", [2, 9], 40, 200, 4, 32, zeros=True, bias=True, flat=True, joins=True)
    check(device, "bf16", [16], 64, 128, 4, 64, joins=True)
    check(device, "bf16", [5], 33, 200, 8, 64, zeros=True, joins=True)
    check(device, "f16", [4], 64, 96, 8, 32, bias=True, joins=True)
    check(device, "bf16", [3], 24, 64, 4, 16, zeros=True, groups=[(7 * i) % 4 for i in range(64)])
    check(device, "f16", [2], 9, 50, 8, 32, groups=[i // 3 % 2 for i in range(50)])
print("products of few bits: right")
