#!/usr/bin/env python3
"""A graph of N nodes of a kind, as JSON: long_graph.py KIND N [reversed].

tanh: a chain; tower: row and elementwise operators in turn; fan: one tensor that all others read; skip: each node adds the
one before and the one 40 before; Sum, Mean, Max, Min: one node of N inputs."""
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
    return "Add", [tensor(i - 1), tensor(i - 40)]


if kind in ("Sum", "Mean", "Max", "Min"):
    inputs = {f"x{i}": {"type": "bf16", "shape": ["M", 8]} for i in range(n)}
    nodes, outputs = [{"op": kind, "inputs": list(inputs), "outputs": ["y"]}], ["y"]
else:
    inputs = {"x": {"type": "f32", "shape": ["M", 64]}}
    nodes = [dict(zip(("op", "inputs", "outputs"), (*node(i), [tensor(i)]))) for i in range(n)]
    outputs = [tensor(i) for i in range(1, n)] if kind == "fan" else [tensor(n - 1)]
json.dump({"inputs": inputs, "nodes": nodes[::-1] if "reversed" in sys.argv else nodes, "outputs": outputs}, sys.stdout)
