#!/usr/bin/env python3
"""widened.py ADLGEN: products of floats of 8 bits on a GPU whose instructions take none: fragments of both operands are widened in registers, in one
kernel without workspace; every byte is what it means; quantised again behind, summed apart in blocks of scales, gated, in batches."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from runs import run_batch

GPU = "a100"
CEIL = lambda x, y: -(-x // y)


def graph(a, b, types=("e4m3", "e4m3"), turned=True, behind=(), aligned=0, **attributes):
    """A MatMul of [.., M, K] and [.., N, K] (`turned`) or [.., K, N]; `behind`: (operator, attributes)."""
    inputs = {name: {"type": type_, "shape": shape, **({"align": aligned} if aligned else {})} for name, type_, shape in zip("ab", types, (a, b))}
    nodes, right = [], "b"
    if turned:
        nodes, right = [{"op": "Transpose", "inputs": ["b"], "outputs": ["t"], "attributes": {"perm": [*range(len(b) - 2), len(b) - 1, len(b) - 2]}}], "t"
    nodes.append({"op": "MatMul", "inputs": ["a", right], "outputs": ["y0"], "attributes": attributes})
    for i, (op, of) in enumerate(behind):
        nodes.append({"op": op, "inputs": [f"y{i}"], "outputs": [f"y{i + 1}"], "attributes": of})
    return {"name": "g", "inputs": inputs, "nodes": nodes, "outputs": [f"y{len(behind)}"]}


def scaled(m, n, k, depth=128, width=128, types=("e4m3", "e4m3"), scale="f32", behind=(("Cast", {"to": "bf16"}),)):
    """Scales of blocks: of `depth` of k and one row, and of `width` columns."""
    given = graph([m, k], [n, k], types, turned=False, behind=behind, aligned=16)
    given["inputs"]["as"] = {"type": scale, "shape": [m, CEIL(k, depth)]}
    given["inputs"]["bs"] = {"type": scale, "shape": [CEIL(n, width), CEIL(k, depth)]}
    to = {} if scale == "f32" else {"output_dtype": "f32"}
    given["nodes"][:1] = [
        {"op": "DequantizeLinear", "inputs": ["a", "as"], "outputs": ["af"], "attributes": {"axis": 1, "block_size": depth, **to}},
        {"op": "DequantizeLinear", "inputs": ["b", "bs"], "outputs": ["bf"], "attributes": {"block_shape": [width, depth], **to}},
        {"op": "Gemm", "inputs": ["af", "bf"], "outputs": ["y0"], "attributes": {"transB": 1}}]
    return given


def gated(m, n, k):
    """silu(a b^T) * (a c^T)."""
    given = graph([m, k], [n, k], turned=False)
    given["inputs"]["c"] = given["inputs"]["b"]
    given["nodes"] = [{"op": "Gemm", "inputs": ["a", x], "outputs": [f"{x}y"], "attributes": {"transB": 1}} for x in "bc"]
    given["nodes"] += [{"op": "Swish", "inputs": ["by"], "outputs": ["s"]}, {"op": "Mul", "inputs": ["s", "cy"], "outputs": ["y0"]}]
    return given


def cases():
    for i, types in enumerate((x, y) for x in ("e4m3", "e5m2") for y in ("e4m3", "e5m2")):
        yield graph([33 + i, 300], [65, 300], types)
        yield graph([130, 256], [136, 256], types, aligned=16, behind=[("Cast", {"to": "bf16"})])
    for m, n, k in (0, 8, 16), (5, 7, 0), (1, 1, 1), (1, 129, 127), (31, 33, 129), (127, 31, 257), (129, 257, 64):
        yield graph([m, k], [n, k])
    yield graph([33, 64], [64, 48], turned=False)
    yield graph([3, 33, 96], [3, 40, 96], aligned=16)
    yield graph([33, 64], [40, 64], behind=[("Relu", {}), ("Cast", {"to": "e4m3"})])
    yield gated(65, 48, 160)
    for m, n, k, depth, width in (1, 33, 129, 128, 128), (65, 200, 384, 128, 128), (33, 72, 300, 128, 1), (40, 130, 192, 32, 64), (0, 64, 256, 128, 128):
        yield scaled(m, n, k, depth, width)
    yield scaled(33, 65, 257, types=("e5m2", "e4m3"), behind=())
    yield scaled(33, 65, 160, 32, 32, scale="e8m0")


def check_bytes(adlgen, types):
    """Each of the 256 numbers of one type, each of the other's: a sum of one product each, NaN and infinities as f32 has them."""
    given = graph([256, 1], [256, 1], types)
    with tempfile.TemporaryDirectory() as folder:
        path, tensors = pathlib.Path(folder, "graph.json"), pathlib.Path(folder, "in.safetensors")
        path.write_text(json.dumps(given))
        names = {"e4m3": "F8_E4M3", "e5m2": "F8_E5M2"}
        head = json.dumps({x: {"dtype": names[t], "shape": [256, 1], "data_offsets": [i * 256, (i + 1) * 256]} for i, (x, t) in enumerate(zip("ab", types))})
        tensors.write_bytes(struct.pack("<Q", len(head)) + head.encode() + bytes(range(256)) * 2)
        done = subprocess.run([adlgen, "run", path, "--gpu", GPU, "--on", "sim", "--check", "--out", folder, f"--input=a={tensors}", f"--input=b={tensors}"],
                              capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"every byte of {types}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def check_launches(adlgen):
    """One kernel, no workspace, each byte of the operands read as it is."""
    for given in graph(["M", 256], [128, 256], aligned=16), scaled("M", 256, 384), gated("M", 64, 256):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "graph.json")
            path.write_text(json.dumps(given))
            done = subprocess.run([adlgen, "compile", path, "--gpu", GPU, "--emit", "ptx", "--out", folder], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{given['nodes']}: exit {done.returncode}\n{done.stderr}")
            plan = json.loads(pathlib.Path(folder, GPU, "plan.json").read_text())
            texts = [kernel.read_text() for kernel in pathlib.Path(folder, GPU).glob("*.ptx")]
        fragments = all("f16.f16.f32" in text for text in texts)
        if len(plan["launches"]) != 1 or plan["workspace"]["bytes"] != 0 or not fragments:
            sys.exit(f"{given['nodes']}: {len(plan['nodes'])} launches, workspace {plan['workspace']}, products of f16 everywhere: {fragments}")


check_launches(sys.argv[1])
for pair in ("e4m3", "e5m2"), ("e5m2", "e4m3"):
    check_bytes(sys.argv[1], pair)
run_batch(sys.argv[1], [{"label": f"{i}", "graph": each, "gpu": GPU} for i, each in enumerate(cases())])
