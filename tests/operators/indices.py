#!/usr/bin/env python3
"""indices.py ADLGEN: what is made of indices (EyeLike, OneHot), of random numbers that belong to them (Dropout), and
scales for blocks of elements, on the simulator."""
import sys

from runs import run_batch


def constant(kind, shape, data):
    return {"type": kind, "shape": shape, "data": data}


def node(op, inputs, outputs, **attributes):
    domain = {"domain": "adlgen"} if op.startswith("adlgen.") else {}
    return {"op": op.split(".")[-1], **domain, "inputs": inputs, "outputs": outputs, "attributes": attributes}


def graph(nodes, inputs, outputs, constants=None):
    tensors = {name: {"type": kind, "shape": shape} for name, (kind, shape) in inputs.items()}
    return {"name": "g", "inputs": tensors, "constants": constants or {}, "nodes": nodes, "outputs": outputs}


SHARE, TRAINING, NUMBER = constant("f32", [], 0.3), constant("bool", [], True), ("s64", [])


def dropouts():
    known = {"r": SHARE, "t": TRAINING}
    for kind, shape in [("f32", [7]), ("bf16", [3, 33]), ("f16", [2, 3, 129]), ("f32", []), ("f32", ["N", 7]), ("bf16", [0, 4])]:
        yield graph([node("Dropout", ["X", "r", "t"], ["Y", "M"], seed=5)], {"X": (kind, shape)}, ["Y", "M"], known)
    yield graph([node("Dropout", ["X", "r", "t"], ["Y"])], {"X": ("f32", [5, "N"])}, ["Y"], known)
    yield graph([node("Dropout", ["X"], ["Y", "M"])], {"X": ("f32", [3, 5])}, ["Y", "M"])
    yield graph([node("Dropout", ["X", "r", "t"], ["Y", "M"])], {"X": ("f32", [40, 5]), "r": ("f32", []), "t": ("bool", [])},
                ["Y", "M"])
    yield graph([node("Relu", ["X"], ["P"]), node("adlgen.Dropout", ["P", "r", "t", "s", "o"], ["Q"]), node("Add", ["Q", "Z"], ["Y"])],
                {"X": ("f32", [40, 5]), "Z": ("f32", [40, 5]), "s": NUMBER, "o": NUMBER}, ["Y"], known)


def made():
    for k in (0, 1, -2):
        yield graph([node("EyeLike", ["X"], ["Y"], k=k)], {"X": ("f32", [5, 7])}, ["Y"])
    yield graph([node("EyeLike", ["X"], ["Y"], dtype="f16")], {"X": ("s32", [5, 5])}, ["Y"])
    for kind, axis, depth in [("s32", -1, 9), ("s64", 0, 9), ("f32", 1, 9), ("s32", 0, 0), ("s8", 2, 33)]:
        yield graph([node("OneHot", ["X", "d", "v"], ["Y"], axis=axis)], {"X": (kind, [4, 6])}, ["Y"],
                    {"d": constant("s64", [], depth), "v": constant("f32", [2], [0.5, 2])})


def blocks():
    for size, shape, axis in [(32, [5, 128], -1), (128, [3, 256], 1), (4, [8, 6], 0)]:
        scales = list(shape)
        scales[axis] //= size
        yield graph([node("QuantizeLinear", ["X", "s", "z"], ["Y"], axis=axis, block_size=size)],
                    {"X": ("f32", shape), "s": ("f32", scales), "z": ("u8", scales)}, ["Y"])
        yield graph([node("DequantizeLinear", ["X", "s"], ["Y"], axis=axis, block_size=size)],
                    {"X": ("s8", shape), "s": ("f32", scales)}, ["Y"])


def lines():
    for i, graph in enumerate([*dropouts(), *made(), *blocks()]):
        is_open = any("N" in tensor["shape"] for tensor in graph["inputs"].values())
        yield {"graph": graph, "gpu": ("h100", "a100")[i % 2], **({"dims": {"N": 9}} if is_open else {})}


run_batch(sys.argv[1], lines())
