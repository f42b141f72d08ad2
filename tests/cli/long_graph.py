#!/usr/bin/env python3
"""A graph of N nodes of a kind, as JSON: long_graph.py KIND N [reversed].

tanh: a chain; tower: row and elementwise operators in turn; fan: one tensor that all others read; skip: each node adds the
one before and the one 40 before; products: a chain of them by one matrix; apart: nodes of inputs of their own; Sum, Mean, Max, Min: one node of N inputs."""
import json
import sys

kind, n = sys.argv[1], int(sys.argv[2])


def tensor(i):
    return "x" if i < 0 else f"t{i}"


def node(i):
    if kind == "tanh":
        return "Tanh", [tensor(i - 1)]
    if kind == "tower":
        return ("Relu" if i % 2 else "Softmax"), [tensor(i - 1)]
    if kind == "fan":
        return "Abs", ["t0" if i else "x"]
    if kind == "products":
        return "MatMul", [tensor(i - 1), "w"]
    if kind == "apart":
        return "Tanh", [f"x{i}"]
    return "Add", [tensor(i - 1), tensor(i - 40)]


if kind in ("Sum", "Mean", "Max", "Min"):
    inputs = {f"x{i}": {"type": "bf16", "shape": ["M", 8]} for i in range(n)}
    nodes, outputs = [{"op": kind, "inputs": list(inputs), "outputs": ["y"]}], ["y"]
else:
    rows = {"type": "f32", "shape": ["M", 64]}
    inputs = {f"x{i}": rows for i in range(n)} if kind == "apart" else {"x": rows, **({"w": {"type": "f32", "shape": [64, 64]}} if kind == "products" else {})}
    nodes = [dict(zip(("op", "inputs", "outputs"), (*node(i), [tensor(i)]))) for i in range(n)]
    outputs = [tensor(i) for i in range(kind == "fan", n)] if kind in ("fan", "apart") else [tensor(n - 1)]
json.dump({"inputs": inputs, "nodes": nodes[::-1] if "reversed" in sys.argv else nodes, "outputs": outputs}, sys.stdout)
