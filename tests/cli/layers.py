"""Prints a graph of N equal layers, each a gated MLP with its norm and residual: layers.py N [T] [OP...]. T is the name
of the number of rows; each OP is an operator of its own in front, on a tensor that no layer reads."""
import json
import sys

n, rows, others = int(sys.argv[1]), (sys.argv[2:] or ["T"])[0], sys.argv[3:]
SHAPES = {"gamma": [1024], "gate": [1024, 3584], "up": [1024, 3584], "down": [3584, 1024]}
inputs, nodes, outputs = {}, [], []
for i, op in enumerate(others):
    inputs[f"a{i}"] = {"type": "bf16", "shape": ["S", 512]}
    if op == "MatMul":
        inputs["b"] = {"type": "bf16", "shape": [512, 768]}
    nodes.append({"op": op, "inputs": [f"a{i}"] + ["b"] * (op == "MatMul"), "outputs": [f"front{i}"]})
    outputs.append(f"front{i}")
inputs["x"] = {"type": "bf16", "shape": [rows, 1024]}
x = "x"
for i in range(n):
    inputs |= {f"{name}{i}": {"type": "bf16", "shape": shape} for name, shape in SHAPES.items()}
    for op, operands, result in (("RMSNormalization", [x, f"gamma{i}"], "normed"),
                                 ("MatMul", [f"normed{i}", f"gate{i}"], "g"), ("Swish", [f"g{i}"], "s"),
                                 ("MatMul", [f"normed{i}", f"up{i}"], "u"), ("Mul", [f"s{i}", f"u{i}"], "h"),
                                 ("MatMul", [f"h{i}", f"down{i}"], "d"), ("Add", [f"d{i}", x], "y")):
        nodes.append({"op": op, "inputs": operands, "outputs": [f"{result}{i}"]})
    x = f"y{i}"
print(json.dumps({"name": "layers", "inputs": inputs, "dims": {rows: {"min": 1, "max": 4096}}, "nodes": nodes,
                  "outputs": outputs + [x]}))
