#!/usr/bin/env python3
"""launches.py ADLGEN: graphs as exporters write them are so many launches, and right on the simulator: nodes that compute the same are one
(merge_equal), what only looks alike is computed for itself; parts that are gathered cost nothing (slice_gathers), tokens' rows are quantised before they are gathered (late_gathers); a norm behind a product is
one kernel."""
import json
import pathlib
import subprocess
import sys
import tempfile

import runs

GPUS = ("h100", "a100")


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def node(op, inputs, outputs, **attributes):
    return {"op": op, "inputs": inputs.split(), "outputs": outputs.split(), "attributes": attributes}


def constant(kind, data):
    return {"type": kind, "shape": [len(data)] if isinstance(data, list) else [], "data": data}


def graph(name, inputs, nodes, outputs, constants=None):
    return {"name": name, "inputs": inputs, "constants": constants or {}, "nodes": nodes, "outputs": outputs.split()}


def angles():
    """Three operators that gather the same angles: two gathers in all, and a kernel each."""
    wide = tensor("bf16", "B", "S", 128)
    turn = lambda x, y: node("RotaryEmbedding", f"{x} cos sin places", y, num_heads=4)
    return graph("angles", {"x": wide, "y": wide, "cos": tensor("bf16", 64, 16), "sin": tensor("bf16", 64, 16),
                            "places": tensor("s64", "B", "S")}, [turn("x", "a"), turn("y", "b"), turn("b", "c")], "a c")


def casts():
    """A Cast in front of each of three products with constants whose results are seen as heads: one Cast and one product."""
    weights = {f"w{i}": {"type": "f16", "shape": [32, 16], "data": [(7 * j + i) % 9 - 4 for j in range(512)]} for i in range(3)}
    nodes = []
    for i in range(3):
        nodes += [node("Cast", "x", f"h{i}", to="f16"), node("MatMul", f"h{i} w{i}", f"p{i}"), node("Reshape", f"p{i} heads", f"v{i}"),
                  node("Transpose", f"v{i}", f"t{i}", perm=[0, 2, 1, 3])]
    nodes += [node("Add", "t0 t1", "s"), node("Mul", "s t2", "y")]
    return graph("casts", {"x": tensor("f32", "B", "S", 32)}, nodes, "y", {**weights, "heads": constant("s64", [0, 0, 2, 8])})


def masks():
    """The mask of two layers of attention is made once, of truth values that lie in no order."""
    heads = tensor("f16", "B", 2, "S", 32)
    inputs = {**{name: heads for name in ("q", "k", "v")}, "seen": tensor("bool", "B", 1, "S", "S")}
    nodes, x = [], "q"
    for i in range(2):
        nodes += [node("Where", f"seen zero{i} low", f"m{i}"), node("Transpose", "k", f"kt{i}", perm=[0, 1, 3, 2]),
                  node("MatMul", f"{x} kt{i}", f"s{i}"), node("Add", f"s{i} m{i}", f"b{i}"), node("Softmax", f"b{i}", f"p{i}", axis=-1),
                  node("MatMul", f"p{i} v", f"y{i}")]
        x = f"y{i}"
    return graph("masks", inputs, nodes, "y1", {"zero0": constant("f16", 0), "zero1": constant("f16", 0), "low": constant("f16", -60000)})


def rows_and_products():
    """Norms and products of the same, of tensors that are the same themselves."""
    nodes = []
    for i in range(2):
        nodes += [node("Softmax", "x", f"p{i}", axis=-1), node("MatMul", f"p{i} w", f"m{i}"), node("Transpose", f"m{i}", f"t{i}", perm=[1, 0])]
    nodes += [node("MatMul", "t0 m1", "z"), node("Relu", "t1", "r")]
    return graph("rows_and_products", {"x": tensor("f16", "M", 40), "w": tensor("f16", 40, 24)}, nodes, "z r")


def unlike():
    """Another axis, another attribute, another constant, operands the other way round, and results that the graph gives: none is left out."""
    nodes = [node("Softmax", "x", "a", axis=-1), node("Softmax", "x", "b", axis=0), node("ReduceSum", "x rows", "c", keepdims=1),
             node("ReduceSum", "x columns", "d", keepdims=1), node("Sub", "x z", "e"), node("Sub", "z x", "f"),
             node("Gather", "x one", "g", axis=0), node("Gather", "x two", "h", axis=0), node("Softmax", "x", "i", axis=-1)]
    return graph("unlike", {"x": tensor("f32", 12, 20), "z": tensor("f32", 12, 20)}, nodes, "a b c d e f g h i",
                 {"rows": constant("s64", [0]), "columns": constant("s64", [1]), "one": constant("s64", [1, 5]), "two": constant("s64", [1, 6])})


def packed_heads():
    """As PyTorch exports nn.MultiheadAttention: queries, keys and values of one product, in a dimension that is gathered from."""
    lists = {"apart": [0, 0, 3, 32], "front": [0], "back": [3], "flat": [9, -1, 16], "heads": [-1, 2, 9, 16], "rows": [-1, 32]}
    nodes = [node("Transpose", "x", "xt", perm=[1, 0, 2]), node("MatMul", "xt w", "p"), node("Reshape", "p apart", "a"),
             node("Unsqueeze", "a front", "u"), node("Transpose", "u", "t", perm=[3, 1, 2, 0, 4]), node("Squeeze", "t back", "s")]
    for i, name in enumerate("qkv"):
        nodes += [node("Gather", f"s n{i}", f"{name}0", axis=0), node("Reshape", f"{name}0 flat", f"{name}1"),
                  node("Transpose", f"{name}1", f"{name}2", perm=[1, 0, 2]), node("Reshape", f"{name}2 heads", name)]
    nodes += [node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), node("MatMul", "q kt", "m"), node("Softmax", "m", "soft", axis=-1),
              node("MatMul", "soft v", "o"), node("Transpose", "o", "ot", perm=[2, 0, 1, 3]), node("Reshape", "ot rows", "y")]
    constants = {**{name: constant("s64", data) for name, data in lists.items()}, **{f"n{i}": constant("s64", i) for i in range(3)}}
    return graph("packed_heads", {"x": tensor("f16", "B", 9, 32), "w": tensor("f16", 32, 96)}, nodes, "y", constants)


def picked():
    """One index, indices in steps, the last ones, and such as do not count in steps or may lie outside."""
    nodes = [node("Gather", "x one", "a", axis=1), node("Gather", "x steps", "b", axis=2), node("Gather", "x last", "c", axis=0),
             node("Gather", "x any", "d", axis=2), node("Gather", "x first", "e", axis=1), node("Gather", "o one", "f", axis=0)]
    return graph("picked", {"x": tensor("f32", 3, 5, 9), "o": tensor("f32", "M", 6)}, nodes, "a b c d e f",
                 {"one": constant("s64", 4), "steps": constant("s32", [1, 4, 7]), "last": constant("s64", [-2, -1]),
                  "any": constant("s64", [0, 1, 3]), "first": constant("s64", [0])})


def norm_behind_product():
    """RMSNorm as exporters write it, of a product and a residual: a product and a kernel of rows. The largest of each row alone stays the product's."""
    nodes = [node("MatMul", "x w", "p"), node("Add", "p r", "h"), node("Cast", "h", "f", to="f32"), node("Pow", "f two", "q"),
             node("ReduceMean", "q axis", "m", keepdims=1), node("Add", "m epsilon", "e"), node("Sqrt", "e", "o"),
             node("Reciprocal", "o", "i"), node("Mul", "f i", "n"), node("Cast", "n", "c", to="bf16"), node("Mul", "g c", "y")]
    return graph("norm_behind_product", {"x": tensor("bf16", "M", 64), "w": tensor("bf16", 64, 192), "r": tensor("bf16", "M", 192), "g": tensor("bf16", 192)},
                 nodes, "h y", {"two": constant("f32", 2), "epsilon": constant("f32", 1e-5), "axis": constant("s64", [-1])})


def largest_behind_product():
    nodes = [node("MatMul", "x w", "p"), node("Abs", "p", "a"), node("ReduceMax", "a axis", "m", keepdims=0)]
    return graph("largest_behind_product", {"x": tensor("bf16", "M", 64), "w": tensor("bf16", 64, 192)}, nodes, "p m", {"axis": constant("s64", [-1])})


def quantised(x, parts):
    """Nodes of a quantisation to e4m3 in blocks of 128 along rows: qX and sX."""
    return [node("Reshape", f"{x} blocks{parts}", f"{x}b"), node("Abs", f"{x}b", f"{x}a"), node("Cast", f"{x}a", f"{x}f", to="f32"),
            node("ReduceMax", f"{x}f last", f"{x}m", keepdims=0), node("Max", f"{x}m least", f"{x}l"), node("Div", f"{x}l largest", f"s{x}"),
            node("QuantizeLinear", f"{x} s{x}", f"q{x}", axis=1, block_size=128, output_dtype="e4m3")]


def numbers(*parts):
    return {**{f"blocks{n}": constant("s64", [0, n, 128]) for n in parts}, "last": constant("s64", [2]), "least": constant("f32", 1e-4),
            "largest": constant("f32", 448)}


def ours(op, inputs, outputs, **attributes):
    return {**node(op, inputs, outputs, **attributes), "domain": "adlgen"}


def multiplied(a, b, y, op, width, rank, **attributes):
    """Nodes of the product of what is quantised, whose scales are of 1 x 128 and 128 x 128."""
    return [node("DequantizeLinear", f"q{a} s{a}", f"{y}a", axis=1, block_size=128),
            node("DequantizeLinear", f"{b} s{b}", f"{y}b", block_shape=[1] * (rank - 2) + [width, 128]),
            {**node(op, f"{y}a {y}b" + (" ends" if op == "GroupedMatMul" else ""), y, transB=1, **attributes), "domain": "adlgen" if op == "GroupedMatMul" else ""}]


def quantised_product():
    """Rows are quantised by one kernel and multiplied as they are then by another."""
    return graph("quantised_product", {"x": tensor("bf16", "M", 256), "w": tensor("e4m3", 128, 256), "sw": tensor("f32", 1, 2)},
                 quantised("x", 2) + multiplied("x", "w", "y", "Gemm", 128, 2), "y", numbers(2))


def spreading(align):
    return [ours("Route", "l", "e t", k=3, normalize=1), ours("Permute", "e", "ends source place", experts=5, align=align), node("Gather", "x source", "r", axis=0)]


def spread():
    """Tokens' rows are quantised, and then gathered for their experts (late_gathers)."""
    return graph("spread", {"x": tensor("bf16", 33, 256), "l": tensor("f32", 33, 5)}, spreading(4) + quantised("r", 2), "ends place t qr sr", numbers(2))


def layer_of_8_bits():
    """Route to Combine, of e4m3 quantised on the way: rows of tokens once, hidden ones behind the gate."""
    nodes = (spreading(1) + quantised("r", 2) + multiplied("r", "w", "g", "GroupedMatMul", 128, 3, groups="ends") +
             [node("Cast", "g", "gh", to="bf16"), node("Split", "gh", "g1 g2", axis=1, num_outputs=2), node("Swish", "g1", "g3"), node("Mul", "g3 g2", "h")] +
             quantised("h", 1) + multiplied("h", "v", "d", "GroupedMatMul", 128, 3, groups="ends") + [ours("Combine", "d place t", "y")])
    return graph("layer_of_8_bits", {"x": tensor("bf16", 9, 256), "l": tensor("f32", 9, 5), "w": tensor("e4m3", 5, 256, 256), "sw": tensor("f32", 5, 2, 2),
                                     "v": tensor("e4m3", 5, 256, 128), "sv": tensor("f32", 5, 2, 1)}, nodes, "y", numbers(2, 1))


# graph, values of symbols, launches (of each GPU, where they differ); None: whatever it is
CASES = [(angles(), {"B": 2, "S": 33}, 5), (casts(), {"B": 1, "S": 31}, 3), (masks(), {"B": 2, "S": 65}, 3),
         (rows_and_products(), {"M": 129}, 4), (unlike(), {}, None),
         (packed_heads(), {"B": 3}, 2), (picked(), {"M": 5}, None), (norm_behind_product(), {"M": 33}, 2), (largest_behind_product(), {"M": 33}, 2),
         (quantised_product(), {"M": 33}, (2, None)), (spread(), {}, 5), (layer_of_8_bits(), {}, (9, None))]


def launches(adlgen, text, gpu, dims):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(text))
        bound = [f"--dim={name}={value}" for name, value in dims.items()]
        done = subprocess.run([adlgen, "compile", path, "--gpu", gpu, "--out", pathlib.Path(folder, "out"), "--emit", "ptx", *bound],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{gpu} {text['name']}: exit {done.returncode}\n{done.stderr}")
        return len(json.loads(pathlib.Path(folder, "out", gpu, "plan.json").read_text())["launches"])


def main():
    adlgen = sys.argv[1]
    for text, dims, wanted in CASES:
        for gpu, asked in zip(GPUS, wanted if isinstance(wanted, tuple) else [wanted] * len(GPUS)):
            found = launches(adlgen, text, gpu, dims)
            if asked is not None and found != asked:
                sys.exit(f"{text['name']} on {gpu}: {found} launches, {asked} expected")
    runs.run_batch(adlgen, [{"graph": text, "gpu": gpu, "dims": dims} for text, dims, _ in CASES for gpu in GPUS])


if __name__ == "__main__":
    main()
