#!/usr/bin/env python3
"""Sums over all rows of a tensor beside operators of its rows, which keep them: summed_rows.py ADLGEN

Gradients of norms, and a bias' gradient beside a softmax's, at edges of a block's rows and of its threads' columns: so many launches,
and right by the reference, on the simulator with all checkers. Launches are those of both
GPUs; by default one of them runs a case."""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

from runs import has_turn

ADLGEN = pathlib.Path(sys.argv[1]).resolve()
GPUS = ("h100", "a100")
places = collections.Counter()  # by GPU: how many cases it has had


def check(graph, gpu, rows, launches):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        compiled = subprocess.run([ADLGEN, "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", pathlib.Path(folder, "out")], capture_output=True, text=True)
        if compiled.returncode:
            sys.exit(f"{graph} {gpu}: {compiled.stderr}")
        found = len(json.loads(pathlib.Path(folder, "out", gpu, "plan.json").read_text())["launches"])
        if found != launches:
            sys.exit(f"{graph} {gpu}: {found} launches in place of {launches}")
        places[gpu] += 1
        for r in rows if has_turn(places[gpu], GPUS.index(gpu)) else ():
            ran = subprocess.run([ADLGEN, "run", path, "--gpu", gpu, "--on", "sim", "--check", "--dim", f"R={r}"], capture_output=True, text=True)
            if ran.returncode:
                sys.exit(f"{graph} {gpu} {r} rows: {ran.stdout} {ran.stderr}")


def norm(op, kind, columns, *more):
    outputs = ["dx", "dg", "db"][:3 if op == "LayerNormalization" else 2]
    shapes = {"DY": ["R", *more, columns], "X": ["R", *more, columns], "W": [columns]}
    return {"name": "gradient", "inputs": {name: {"type": kind, "shape": shape} for name, shape in shapes.items()},
            "nodes": [{"op": op + "Gradient", "domain": "adlgen", "inputs": list(shapes), "outputs": outputs}], "outputs": outputs}


def softmax(kind, columns):
    nodes = [{"op": "SoftmaxGradient", "domain": "adlgen", "inputs": ["DY", "Y"], "outputs": ["dx"]},
             {"op": "ReduceSum", "inputs": ["dx", "axes"], "outputs": ["db"], "attributes": {"keepdims": 0}}]
    return {"name": "bias", "inputs": {name: {"type": kind, "shape": ["R", columns]} for name in ("DY", "Y")}, "constants": {"axes": {"type": "s64", "shape": [1], "data": [0]}},
            "nodes": nodes, "outputs": ["dx", "db"]}


for device in GPUS:
    for form, width in (("bf16", 1), ("f32", 31), ("f16", 127), ("f16", 512), ("bf16", 1024), ("bf16", 1025), ("f32", 2048), ("bf16", 5121)):
        wide = width > 2048  # 512, 1024 and 2048 are whole vectors of all threads: rows arrive in shared memory
        together = width >= 1024  # one kernel adds up both
        if width > 1:  # the gradient of a norm of one element is what roundings leave
            check(norm("LayerNormalization", form, width), device, (1, 33) if wide else (0, 1, 31, 32, 33, 131), 2 if together else 3)
            check(norm("RMSNormalization", form, width), device, (33,) if wide else (1, 65), 2)
        check(softmax(form, width), device, (33,) if wide else (1, 64, 97), 2)
    check(norm("LayerNormalization", "bf16", 127, 3), device, (0, 1, 11, 33), 3)  # rows of several dimensions, and parts that reach over two of the first
    check(norm("RMSNormalization", "f32", 33, 2, 5), device, (7,), 2)
    check(norm("RMSNormalization", "bf16", 16384), device, (3,), 2)  # whose sum has a kernel of its own: of two tensors' rows threads keep both
print("sums of columns: right")
