#!/usr/bin/env python3
"""Each tensor is read as it lies: check_alignment.py ADLGEN

A view at an odd offset (bias, weights of a norm, factors, additions to scores) is read one by one; the tensors beside it are copied and
loaded by 16 bytes all the same, and the results are right. Of products the same holds where only the launch knows it."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

WIDE = r"ld\.global\S*\.v4|cp\.async\.bulk\.tensor|cp\.async\.cg\S* [^;]*, 16"


def tensor(kind, *shape, align=16):
    return {"type": kind, "shape": list(shape), **({"align": align} if align else {})}


def numbers(*values, shape=None):
    return {"type": "s64", "shape": [len(values)] if shape is None else shape, "data": list(values)}


def graph(kind, inputs, length, nodes, constants=None, axis=None):
    """`v` is `w` without its first element."""
    slices = {"start": numbers(1), "end": numbers(length + 1), "of": numbers(0)}
    view = {"op": "Slice", "inputs": ["w", "start", "end", "of"], "outputs": ["v"]}
    nodes = [{"op": op, "inputs": given, "outputs": [out], "attributes": attributes} for op, given, out, attributes in nodes]
    return {"inputs": {**inputs, "w": tensor(kind, length + 4)}, "constants": {**slices, **(constants or {})}, "nodes": [view, *nodes],
            "outputs": ["y"]}


GRAPHS = {
    "gemm": graph("bf16", {"a": tensor("bf16", 130, 256), "b": tensor("bf16", 264, 256)}, 264,
                  [("Gemm", ["a", "b", "v"], "y", {"transB": 1})]),
    "norm": graph("bf16", {"x": tensor("bf16", "M", 1000), "b": tensor("bf16", 1000)}, 1000,
                  [("LayerNormalization", ["x", "v", "b"], "y", {})]),
    "long_norm": graph("f16", {"x": tensor("f16", "M", 20000)}, 20000, [("RMSNormalization", ["x", "v"], "y", {})]),
    "sum": graph("f32", {"x": tensor("f32", "M", 3000)}, 3000,
                 [("Mul", ["x", "v"], "t", {}), ("ReduceSum", ["t", "axes"], "y", {})], {"axes": numbers(1)}),
    "scan": graph("f32", {"x": tensor("f32", "M", 2048)}, 2048,
                  [("Mul", ["x", "v"], "t", {}), ("CumSum", ["t", "axis"], "y", {})], {"axis": numbers(1, shape=[])}),
    "attention": graph("f16", {name: tensor("f16", 1, 2, 130, 64) for name in "qkp"}, 130,
                       [("Attention", ["q", "k", "p", "v"], "y", {})]),
}
# Where only the launch knows: no `align`, and an offset for the run.
LAUNCHED = {"inputs": {"a": tensor("bf16", 130, 256, align=0), "b": tensor("bf16", 264, 256, align=0), "c": tensor("bf16", 264, align=0)},
            "nodes": [{"op": "Gemm", "inputs": ["a", "b", "c"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}
# Scales of weights are read one by one wherever they lie.
SCALES = {"inputs": {"a": tensor("f16", 64, 512), "b": tensor("s8", 256, 512), "c": tensor("f16", 256, 4, align=0)},
          "nodes": [{"op": "DequantizeLinear", "inputs": ["b", "c"], "outputs": ["w"], "attributes": {"axis": 1, "block_size": 128}},
                    {"op": "Gemm", "inputs": ["a", "w"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(adlgen, name, text, gpu, folder, offset=None):
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, **text}))
    out = folder / f"{name}-{gpu}"
    run(adlgen, "compile", path, "--gpu", gpu, "--emit", "ptx", "--no-cache", "--out", out)
    report = run(adlgen, "run", path, "--gpu", gpu, "--on", "sim", "--check", *(["--dim", "M=3"] if '"M"' in path.read_text() else []),
                 *(["--offset", offset] if offset else []))
    kernel = re.findall(r"(\w+), grid", report)[-1]
    if not re.search(WIDE, (out / gpu / f"{kernel}.ptx").read_text()):
        sys.exit(f"{gpu}: {name}: {kernel} reads everything one by one")
    if offset and kernel.endswith("_any"):
        sys.exit(f"{gpu}: {name}: {kernel} is for operands that lie anywhere")
    print(f"{gpu}: {name}: {kernel}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for gpu in ("h100", "a100"):
            for name, text in GRAPHS.items():
                check(sys.argv[1], name, text, gpu, pathlib.Path(folder))
            check(sys.argv[1], "launched", LAUNCHED, gpu, pathlib.Path(folder), "c=2")
            check(sys.argv[1], "scales", SCALES, gpu, pathlib.Path(folder), "c=2")


main()
