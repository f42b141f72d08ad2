#!/usr/bin/env python3
"""Every rewrite of fusion that may be skipped can be: rewrites.py ADLGEN

Small graphs that between them take every optional rewrite run on the simulator without each of them: right, or refused
by name (exit 3). What --explain says of a rewrite is there with it and not without."""
import json
import os
import re
import subprocess
import sys
import tempfile

ADLGEN = os.path.abspath(sys.argv[1])
GPU = "h100"


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def node(op, inputs, outputs, **attributes):
    return {"op": op, "inputs": inputs.split(), "outputs": outputs.split(), "attributes": attributes}


GRAPHS = {
    # gate and up side by side, and the largest of each row of the result; K is odd
    "gate": {"inputs": {"x": tensor("bf16", 9, 67), "w": tensor("bf16", 67, 128)},
             "constants": {"last": {"type": "s64", "shape": [1], "data": [-1]}},
             "nodes": [node("MatMul", "x w", "both"), node("Split", "both", "gate up", axis=-1, num_outputs=2),
                       node("Sigmoid", "gate", "soft"), node("Mul", "soft up", "y"), node("Abs", "y", "size"),
                       node("ReduceMax", "size last", "most")], "outputs": ["y", "most"]},
    "quantised": {"inputs": {"a": tensor("s8", 8, 64), "s": tensor("f32"), "b": tensor("s8", 64, 16), "t": tensor("f32", 16)},
                  "nodes": [node("DequantizeLinear", "a s", "x"), node("DequantizeLinear", "b t", "w", axis=1),
                            node("MatMul", "x w", "y")], "outputs": ["y"]},
    # two products with constants whose results are seen as heads
    "stacked": {"inputs": {"x": tensor("f16", 9, 16)},
                "constants": {"a": {"type": "f16", "shape": [16, 8], "data": [i % 7 - 3 for i in range(128)]},
                              "b": {"type": "f16", "shape": [16, 8], "data": [i % 5 - 2 for i in range(128)]},
                              "to": {"type": "s64", "shape": [3], "data": [9, 2, 4]}},
                "nodes": [node("MatMul", "x a", "p"), node("MatMul", "x b", "q"), node("Reshape", "p to", "p1"),
                          node("Reshape", "q to", "q1"), node("Relu", "p1", "y"), node("Relu", "q1", "z")], "outputs": ["y", "z"]},
    # rows of tokens that are gathered for their experts and quantised
    "late": {"inputs": {"x": tensor("bf16", 33, 256), "l": tensor("f32", 33, 5)},
             "constants": {"blocks": {"type": "s64", "shape": [3], "data": [0, 2, 128]}, "last": {"type": "s64", "shape": [1], "data": [2]},
                           "least": {"type": "f32", "shape": [], "data": 0.0001}, "largest": {"type": "f32", "shape": [], "data": 448}},
             "nodes": [{**node("Route", "l", "e t", k=3, normalize=1), "domain": "adlgen"},
                       {**node("Permute", "e", "ends source place", experts=5, align=4), "domain": "adlgen"},
                       node("Gather", "x source", "r", axis=0), node("Reshape", "r blocks", "rb"), node("Abs", "rb", "ra"),
                       node("Cast", "ra", "rf", to="f32"), node("ReduceMax", "rf last", "rm", keepdims=0), node("Max", "rm least", "rl"),
                       node("Div", "rl largest", "sr"), node("QuantizeLinear", "r sr", "qr", axis=1, block_size=128, output_dtype="e4m3")],
             "outputs": ["ends", "place", "t", "qr", "sr"]},
    # two operators that gather the same angles
    "equal": {"inputs": {"x": tensor("bf16", 1, 5, 32), "y": tensor("bf16", 1, 5, 32), "c": tensor("bf16", 9, 8), "s": tensor("bf16", 9, 8),
                         "p": tensor("s64", 1, 5)},
              "nodes": [node("RotaryEmbedding", f"{x} c s p", out, num_heads=2) for x, out in (("x", "a"), ("y", "b"))], "outputs": ["a", "b"]},
    # a linear layer of three dimensions as two
    "opened": {"inputs": {"x": tensor("f16", 2, 5, 16), "w": tensor("f16", 8, 16), "c": tensor("f16", 8)},
               "constants": {"rows": {"type": "s64", "shape": [2], "data": [-1, 16]}, "back": {"type": "s64", "shape": [3], "data": [2, 5, 8]}},
               "nodes": [node("Reshape", "x rows", "r"), node("Gemm", "r w c", "p", transB=1), node("Reshape", "p back", "q"),
                         node("Gelu", "q", "y")], "outputs": ["y"]},
    # a square, times 1 and a constant that repeats
    "square": {"inputs": {"x": tensor("f16", 5, 7)},
               "constants": {"two": {"type": "f16", "shape": [], "data": 2}, "one": {"type": "f16", "shape": [], "data": 1},
                             "w": {"type": "f16", "shape": [7], "data": [0, 0.5, -1, 2, 3, 4, 5]}},
               "nodes": [node("Pow", "x two", "s"), node("Add", "w one", "v"), node("Mul", "s v", "y")], "outputs": ["y"]},
    # new rows of sequences, turned by their places, that go into pages
    "paged": {"inputs": {"qkv": tensor("bf16", 4, 128), "kc": tensor("bf16", 4, 8, 1, 32), "vc": tensor("bf16", 4, 8, 1, 32),
                         "cos": tensor("bf16", 16, 8), "sin": tensor("bf16", 16, 8),
                         "past": tensor("s32", 2)},
              "constants": {"ends": {"type": "s32", "shape": [3], "data": [0, 3, 4]},
                            "table": {"type": "s32", "shape": [2, 2], "data": [[2, 0], [3, 1]]}},
              "nodes": [{**node("PagedAttention", "qkv", "y kn vn", num_heads=2, kv_num_heads=1, do_rotary=1), "domain": "com.microsoft",
                         "inputs": ["qkv", "", "", "kc", "vc", "ends", "past", "table", "cos", "sin"]}], "outputs": ["y", "kn", "vn"]},
    # a part by a known index
    "picked": {"inputs": {"x": tensor("f32", 3, 5, 8)}, "constants": {"i": {"type": "s64", "shape": [], "data": 2}},
               "nodes": [node("Gather", "x i", "p", axis=1), node("Relu", "p", "y")], "outputs": ["y"]},
    # steps in front of rows, and branches behind them that meet again
    "rows": {"inputs": {"x": tensor("f32", 5, 40)},
             "nodes": [node("Tanh", "x", "t"), node("Softmax", "t", "p", axis=-1), node("Sigmoid", "p", "q"),
                       node("Mul", "p q", "y")], "outputs": ["y"]},
    # a sum that is a result and the norm of it, and three reductions of one tensor
    "norm": {"inputs": {"x": tensor("bf16", 3, 200), "r": tensor("bf16", 3, 200), "g": tensor("bf16", 200)},
             "constants": {"last": {"type": "s64", "shape": [1], "data": [-1]}},
             "nodes": [node("Add", "x r", "h"), node("RMSNormalization", "h g", "y", axis=-1), node("Mul", "h h", "q"),
                       node("ReduceSum", "q last", "s"), node("ReduceMax", "h last", "m"), node("Div", "y m", "z")],
             "outputs": ["h", "z", "s"]},
    # widened by hand, as exporters write norms
    "wide": {"inputs": {"x": tensor("bf16", 3, 200)},
             "nodes": [node("Cast", "x", "w", to="f32"), node("Mul", "w w", "s"), node("Softmax", "s", "y", axis=-1)],
             "outputs": ["y"]},
    # a norm, and scales for parts of its rows
    "parts": {"inputs": {"x": tensor("bf16", 3, 256), "g": tensor("bf16", 256)},
              "constants": {"last": {"type": "s64", "shape": [1], "data": [2]}, "p": {"type": "s64", "shape": [3], "data": [3, 2, 128]}},
              "nodes": [node("RMSNormalization", "x g", "n", axis=-1), node("Reshape", "n p", "v"), node("Abs", "v", "a"),
                        node("ReduceMax", "a last", "m", keepdims=0), node("Unsqueeze", "m last", "s"), node("Div", "v s", "y")],
              "outputs": ["y", "m"]},
    # a norm whose halves meet
    "halves": {"inputs": {"x": tensor("bf16", 3, 64), "g": tensor("bf16", 64)},
               "nodes": [node("RMSNormalization", "x g", "n", axis=-1), node("Split", "n", "n1 n2", axis=-1, num_outputs=2),
                         node("Mul", "n1 n2", "y")], "outputs": ["y"]},
    # sums over rows that another kernel has
    "sums": {"inputs": {"x": tensor("f32", 2048, 16)}, "constants": {"first": {"type": "s64", "shape": [1], "data": [0]}},
             "nodes": [node("Softmax", "x", "y", axis=-1), node("ReduceSum", "y first", "z", keepdims=0)], "outputs": ["y", "z"]},
    # two kernels of the same operands
    "siblings": {"inputs": {"x": tensor("f32", 6, 50), "a": tensor("f32", 6, 50)},
                 "nodes": [node("Mul", "x a", "y"), node("Sub", "x a", "z")], "outputs": ["y", "z"]},
    # heads of queries and of keys behind one another, turned by the same angles
    "turned": {"inputs": {"x": tensor("bf16", 2, 3, 128), "c": tensor("bf16", 2, 3, 8), "s": tensor("bf16", 2, 3, 8)},
               "constants": {"widths": {"type": "s64", "shape": [3], "data": [64, 32, 32]}},
               "nodes": [node("Split", "x widths", "q k v", axis=-1), node("RotaryEmbedding", "q c s", "a", num_heads=4),
                         node("RotaryEmbedding", "k c s", "b", num_heads=2), node("Relu", "v", "w")], "outputs": ["a", "b", "w"]},
    # one long row, which would be one block
    "whole": {"inputs": {"x": tensor("f32", 1000003)}, "nodes": [node("ReduceSum", "x", "y", keepdims=0)], "outputs": ["y"]},
    # products that are added up over their batches
    "summed": {"inputs": {"x": tensor("bf16", 3, 20, 64), "w": tensor("bf16", 3, 64, 32)},
               "constants": {"first": {"type": "s64", "shape": [1], "data": [0]}},
               "nodes": [node("MatMul", "x w", "p"), node("ReduceSum", "p first", "y", keepdims=0)], "outputs": ["y"]},
    # the steps of a recurrence
    "steps": {"inputs": {"x": tensor("f16", 5, 3, 64), "w": tensor("f16", 1, 256, 64), "r": tensor("f16", 1, 256, 64)},
              "nodes": [node("LSTM", "x w r", "y", hidden_size=64)], "outputs": ["y"]},
    # rows that start anywhere, which copies are worth
    "odd": {"inputs": {"x": tensor("f16", 512, 129), "w": tensor("f16", 129, 257)},
            "nodes": [node("MatMul", "x w", "y")], "outputs": ["y"]},
    # two heads of keys and values for four of queries
    "attention": {"inputs": {"q": tensor("bf16", 1, 4, 20, 16), "k": tensor("bf16", 1, 2, 1, 36, 16),
                             "v": tensor("bf16", 1, 2, 1, 36, 16)},
                  "constants": {"g": {"type": "s64", "shape": [5], "data": [1, 1, 2, 1, 1]},
                                "h": {"type": "s64", "shape": [4], "data": [1, 4, 36, 16]}},
                  "nodes": [node("Expand", "k g", "ke"), node("Reshape", "ke h", "kr"), node("Expand", "v g", "ve"),
                            node("Reshape", "ve h", "vr"), node("Transpose", "kr", "kt", perm=[0, 1, 3, 2]),
                            node("MatMul", "q kt", "s"), node("Softmax", "s", "p", axis=-1), node("MatMul", "p vr", "y")],
                  "outputs": ["y"]},
    # halves that are turned by their place and scales in front of the product of scores, as exporters write them
    "forms": {"inputs": {"q": tensor("bf16", 1, 2, 20, 16), "k": tensor("bf16", 1, 2, 36, 16), "v": tensor("bf16", 1, 2, 36, 16),
                         "c": tensor("bf16", 1, 1, 20, 16), "s": tensor("bf16", 1, 1, 20, 16)},
              "constants": {"half": {"type": "bf16", "shape": [], "data": 0.5},
                            "zero": {"type": "s64", "shape": [1], "data": [0]}, "middle": {"type": "s64", "shape": [1], "data": [8]},
                            "all": {"type": "s64", "shape": [1], "data": [16]}, "last": {"type": "s64", "shape": [1], "data": [3]}},
              "nodes": [node("Slice", "q zero middle last", "q1"), node("Slice", "q middle all last", "q2"), node("Neg", "q2", "qn"),
                        node("Concat", "qn q1", "qo", axis=-1), node("Mul", "q c", "qc"), node("Mul", "qo s", "qm"),
                        node("Add", "qc qm", "qr"), node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), node("Mul", "qr half", "qs"),
                        node("Mul", "kt half", "ks"), node("MatMul", "qs ks", "e"), node("Softmax", "e", "p", axis=-1),
                        node("MatMul", "p v", "y")],
              "outputs": ["y"]},
}
RUN = ["paged", "gate", "equal", "picked", "quantised", "rows", "norm", "whole", "wide", "parts", "halves", "sums", "siblings", "turned", "attention", "forms", "summed", "steps"]  # the other is large


def adlgen(*arguments):
    return subprocess.run([ADLGEN, *arguments], capture_output=True, text=True, check=False)


def names(folder, option):
    """What the option takes, from the hint that follows a wrong name."""
    said = adlgen("compile", f"{folder}/rows.json", "--gpu", GPU, "--out", f"{folder}/out", option, "no-such").stderr
    return re.search(r"^hint: one of: (.*)$", said, re.MULTILINE).group(1).split(", ")


def explain(folder, graph, *options):
    done = adlgen("compile", f"{folder}/{graph}.json", "--gpu", GPU, "--emit", "ptx", "--explain", "--jobs", "1",
                  "--out", f"{folder}/out", *options)
    return done.returncode, done.stdout + done.stderr


def mentions(text, rewrite):
    return re.search(rf"^{rewrite}: |^  joined by {rewrite}: ", text, re.MULTILINE) is not None


def check(folder, rewrite, usual):
    """What is wrong with skipping the rewrite, in words."""
    code, said = explain(folder, "rows", "--skip", rewrite)
    if "cannot be skipped" in said:
        return [] if code == 1 else [f"refused with exit {code}"]
    used = [graph for graph in GRAPHS if mentions(usual[graph], rewrite)]
    wrong = [] if used else ["no graph here takes it"]
    for graph in used:
        code, said = explain(folder, graph, "--skip", rewrite)
        if code not in (0, 3) or mentions(said, rewrite):
            wrong.append(f"{graph}: exit {code}, or it is still mentioned")
        if graph not in RUN or code == 3:
            continue
        done = adlgen("run", f"{folder}/{graph}.json", "--gpu", GPU, "--on", "sim", "--check", "--skip", rewrite)
        if done.returncode != 0:
            wrong.append(f"{graph} on the simulator: exit {done.returncode}: {(done.stdout + done.stderr)[-300:]}")
    return wrong


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, graph in GRAPHS.items():
            with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
                json.dump({"name": name, **graph}, file)
        passes = names(folder, "--start-after")
        rewrites = [name for name in names(folder, "--skip") if name not in passes]
        usual = {graph: explain(folder, graph)[1] for graph in GRAPHS}
        if len(rewrites) < 10:
            sys.exit(f"only {len(rewrites)} rewrites may be skipped: {rewrites}")
        bad = 0
        for rewrite in rewrites:
            for text in check(folder, rewrite, usual):
                print(f"without {rewrite}: {text}")
                bad += 1
        print(f"{len(rewrites)} rewrites of fusion, {bad} failed")
        return 1 if bad or len(rewrites) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
