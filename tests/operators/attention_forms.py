#!/usr/bin/env python3
"""How exporters write attention: every form is so many launches, and right on the simulator, by default
on one of its GPUs; launches are those of each.

  attention_forms.py ADLGEN [NAME...]"""
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile

from runs import has_turn


class Graph:
    """A graph that nodes are appended to; each gives the name of its first result."""

    def __init__(self, name, type_="bf16", opset=25):
        self.text = {"name": name, "opset": opset, "inputs": {}, "constants": {}, "nodes": [], "outputs": []}
        self.type, self.launches, self.dims = type_, 1, {"B": 2, "S": 65}
        self.gpus = ["h100", "a100"]
        self.note = ""

    def input(self, name, shape, type_=None):
        self.text["inputs"][name] = {"type": type_ or self.type, "shape": shape}
        return name

    def constant(self, data, type_=None, shape=None):
        name = f"c{len(self.text['constants'])}"
        if shape is None:
            shape = [len(data)] if isinstance(data, list) else []
        self.text["constants"][name] = {"type": type_ or self.type, "shape": shape, "data": data}
        return name

    def list(self, *items):
        return self.constant(list(items), "s64")

    def node(self, op, *inputs, outputs=None, domain="", **attributes):
        outputs = outputs or [f"t{len(self.text['nodes'])}"]
        node = {"op": op, "inputs": list(inputs), "outputs": outputs, "attributes": attributes}
        self.text["nodes"].append({**node, "domain": domain} if domain else node)
        return outputs[0]

    def heads(self, heads=2, kv_heads=None, d=64, dv=None, rows="S", keys="S"):
        kv_heads = kv_heads or heads
        return (self.input("q", ["B", heads, rows, d]), self.input("k", ["B", kv_heads, keys, d]),
                self.input("v", ["B", kv_heads, keys, dv or d]))

    def scores(self, q, k, scale=0.125):
        s = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        return self.node("Mul", s, self.constant(scale)) if scale else s

    def give(self, *names):
        self.text["outputs"] += names
        return self

    def result(self, scores, v):
        return self.give(self.node("MatMul", self.node("Softmax", scores, axis=-1), v))

    def expect(self, launches=1, gpus=None, note="", **dims):
        self.launches, self.dims, self.gpus, self.note = launches, dims or self.dims, gpus or self.gpus, note
        return self


# ---- the log-sum-exp beside the result ----

def sums_written():
    for keep in (0, 1):
        g = Graph(f"sums_keepdims_{keep}")
        q, k, v = g.heads()
        s = g.scores(q, k)
        sums = g.node("ReduceLogSumExp", s, g.list(-1), keepdims=keep)
        yield g.result(s, v).give(sums)


def sums_of_operator():
    g = Graph("sums_of_operator")
    q, k, v = g.heads(4, 2, rows="S", keys="K")
    mask = g.input("m", ["S", "K"], "bool")
    yield g.give(g.node("Attention", q, k, v, mask, outputs=["y", "", "", "", "sums"], domain="adlgen", is_causal=1),
                 "sums").expect(B=2, S=40, K=33)


def sums_of_repeated_heads():
    g = Graph("sums_of_repeated_heads", "f16")
    q, k, v = g.heads(4, 2)
    k, v = (g.node("Reshape", g.node("Expand", g.node("Unsqueeze", x, g.list(2)), g.list(1, 1, 2, 1, 1)),
                   g.list(0, 4, -1, 64)) for x in (k, v))
    s = g.scores(q, k)
    sums = g.node("ReduceLogSumExp", s, g.list(-1), keepdims=0)
    yield g.result(s, v).give(sums).expect(B=1, S=70)


# ---- causal masks by value, and by what computes them ----

def lower(rows, columns, seen, hidden, shift=0):
    return [seen if j <= i + shift else hidden for i in range(rows) for j in range(columns)]


def masks_by_value():
    for name, type_, hidden in (("inf", "bf16", -math.inf), ("1e4", "bf16", -1e4), ("min", "bf16", -3.38953139e38),
                                ("f32", "f32", -math.inf), ("bool", "bool", False)):
        g = Graph(f"mask_of_{name}")
        q, k, v = g.heads(rows=65, keys=65)
        seen = True if type_ == "bool" else 0.0
        mask = g.constant(lower(65, 65, seen, hidden), type_, [1, 1, 65, 65])
        s = g.scores(q, k)
        if type_ == "f32":
            s = g.node("Cast", s, to="f32")
        s = g.node("Where", mask, s, g.constant(-math.inf)) if type_ == "bool" else g.node("Add", s, mask)
        s = g.node("Softmax", s, axis=-1)
        yield g.give(g.node("MatMul", g.node("Cast", s, to="bf16") if type_ == "f32" else s, v)).expect(B=2, note="hides keys by their place")


def masks_of_other_alignment():
    g = Graph("mask_below")
    q, k, v = g.heads(rows=20, keys=65)
    mask = g.constant(lower(20, 65, 0.0, -math.inf, 45), shape=[20, 65])
    yield g.result(g.node("Add", g.scores(q, k), mask), v).expect(B=2, note="hides keys by their place")


def masks_computed():
    g = Graph("mask_trilu_of_ones")
    q, k, v = g.heads(rows=65, keys=65)
    s = g.scores(q, k)
    ones = g.node("Expand", g.constant(1.0), g.list(65, 65))
    mask = g.node("Cast", g.node("Trilu", ones, upper=0), to="bool")
    yield g.result(g.node("Where", mask, s, g.constant(-math.inf)), v).expect(B=2, note="hides keys by their place")
    g = Graph("mask_trilu_of_infinity")
    q, k, v = g.heads(rows=65, keys=65)
    full = g.node("Expand", g.constant(-math.inf), g.list(65, 65))
    mask = g.node("Trilu", full, g.constant(1, "s64"), upper=1)
    yield g.result(g.node("Add", g.scores(q, k), mask), v).expect(B=2, note="hides keys by their place")


def masks_of_ranges():
    """Places as exporters count them: Range, whose rows stand behind those of a cache."""
    for rows, dims in (("S", {"P": 5, "S": 40}), (1, {"P": 33})):
        g = Graph(f"mask_of_ranges_{rows}")
        g.text["dims"] = {"P": {}}
        q, k, v = g.heads(rows=rows, keys=f"P + {rows}")
        sizes = [g.node("Gather", g.node("Shape", x), g.constant(2, "s64")) for x in (q, k)]
        indices = [g.node("Range", g.constant(0, "s64"), n, g.constant(1, "s64")) for n in sizes]
        own = g.node("Add", g.node("Unsqueeze", indices[0], g.list(1)), g.node("Sub", sizes[1], sizes[0]))
        mask = g.node("LessOrEqual", g.node("Unsqueeze", indices[1], g.list(0)), own)
        bias = g.node("Where", mask, g.constant(0.0), g.constant(-math.inf))
        yield g.result(g.node("Add", g.scores(q, k), bias), v).expect(B=2, note="hides keys by their place", **dims)


def mask_of_one_row():
    """A triangle that repeats along rows is none."""
    g = Graph("mask_of_one_row")
    q, k, v = g.heads(rows=40, keys=40)
    row = g.node("Trilu", g.node("Expand", g.constant(1.0), g.list(1, 40)), g.constant(5, "s64"), upper=0)
    hidden = g.node("Equal", row, g.constant(0.0))
    yield g.result(g.node("Add", g.scores(q, k), g.node("Where", hidden, g.constant(-6e4), g.constant(0.0))), v).expect(2, B=1)


def keys_turned_as_matrices():
    """As PyTorch 2.15 exports heads that repeat: keys are turned with batches and heads as one dimension."""
    g = Graph("keys_turned_as_matrices", "f16")
    q, k, v = g.heads(4, 2)
    k, v = (g.node("Reshape", g.node("Expand", g.node("Unsqueeze", x, g.list(2)), g.list(1, 1, 2, 1, 1)),
                   g.list(0, 4, -1, 64)) for x in (k, v))
    turned = g.node("Transpose", g.node("Reshape", k, g.list(-1, 65, 64)), perm=[0, 2, 1])
    g.text["inputs"]["k"]["shape"][2] = 65
    g.text["inputs"]["v"]["shape"][2] = 65
    s = g.node("MatMul", q, g.node("Mul", g.node("Reshape", turned, g.list(-1, 4, 64, 65)), g.constant(0.125)))
    yield g.result(s, v).expect(B=2, S=33, note="are not repeated for groups of heads")


# ---- softmax and scales ----

def softmax_written():
    g = Graph("softmax_written")
    q, k, v = g.heads()
    s = g.node("Cast", g.scores(q, k), to="f32")
    e = g.node("Exp", g.node("Sub", s, g.node("ReduceMax", s, g.list(-1), keepdims=1)))
    p = g.node("Div", e, g.node("ReduceSum", e, g.list(-1), keepdims=1))
    yield g.give(g.node("MatMul", g.node("Cast", p, to="bf16"), v))


def scales_in_front():
    for both in (False, True):
        g = Graph(f"scale_in_front_{'of_both' if both else 'of_queries'}")
        q, k, v = g.heads()
        root = g.constant(0.125 ** 0.5 if both else 0.125)
        turned = g.node("Transpose", k, perm=[0, 1, 3, 2])
        s = g.node("MatMul", g.node("Mul", q, root), g.node("Mul", turned, root) if both else turned)
        yield g.result(s, v)


# ---- masks that are tensors, and other steps ----

def masks_given():
    for name, shape, type_ in (("rows", ["B", 1, "S", "S"], "bf16"), ("keys", ["B", 1, 1, "S"], "bf16"), ("one", ["S", "S"], "bool"),
                               ("padding", ["B", 1, 1, "S"], "bool"), ("heads", [2, 1, "S"], "bf16"), ("f32", ["B", 1, "S", "S"], "f32"),
                               ("column", ["B", 2, "S", 1], "bf16")):
        g = Graph(f"mask_given_{name}")
        q, k, v = g.heads()
        mask = g.input("mask", shape, type_)
        s = g.scores(q, k)
        if type_ == "f32":
            s = g.node("Cast", s, to="f32")
        s = g.node("Where", mask, s, g.constant(-1e4)) if type_ == "bool" else g.node("Add", s, mask)
        p = g.node("Softmax", s, axis=-1)
        yield g.give(g.node("MatMul", g.node("Cast", p, to="bf16") if type_ == "f32" else p, v))


def soft_cap():
    g = Graph("soft_cap")
    q, k, v = g.heads()
    cap = g.constant(20.0)
    yield g.result(g.node("Mul", g.node("Tanh", g.node("Div", g.scores(q, k), cap)), cap), v)


def linear_bias():
    g = Graph("linear_bias")
    q, k, v = g.heads(rows=65, keys=65)
    slopes, keys = g.constant([0.5, 0.25], shape=[2, 1, 1]), g.constant(list(range(65)))
    s = g.node("Add", g.scores(q, k), g.node("Mul", slopes, keys))
    s = g.node("Mask", s, "", g.constant(0, "s64"), domain="adlgen")
    yield g.result(s, v).expect(2, B=2)


def bias_of_buckets():
    """T5's: each distance has a number for each head, which lies innermost; one copy of it serves both layers."""
    for rows in ("S", 1):
        g = Graph("bias_of_buckets" + ("" if rows == "S" else "_step"), opset=23)
        table, buckets = g.input("table", [8, 2]), g.input("buckets", [rows, "S"], "s32")
        bias = g.node("Transpose", g.node("Gather", table, buckets), perm=[2, 0, 1])
        bias = g.node("Unsqueeze", bias, g.list(0))
        y, k, v = g.heads(rows=rows)
        for _ in range(2):
            y = g.node("MatMul", g.node("Softmax", g.node("Add", g.scores(y, k), bias), axis=-1), v)
        yield g.give(y).expect(3, B=2, S=65, note="it does not lie along keys" if rows == "S" else "")


def windows():
    for alignment in ("begin", "end"):
        g = Graph(f"window_{alignment}")
        q, k, v = g.heads(rows="S", keys="K")
        s = g.node("Mask", g.scores(q, k), g.constant(-20, "s64"), g.constant(0, "s64"), domain="adlgen", diagonal=alignment)
        yield g.give(g.node("MatMul", g.node("Softmax", s, axis=-1, masked_rows="zero"), v)).expect(B=1, S=200, K=300)
    for rows, keys in ((300, 64), (64, 300), (300, 300)):
        g = Graph(f"window_{rows}_{keys}", opset=25)
        q, k, v = g.heads(4, 2, rows="S", keys="K")
        yield g.give(g.node("Attention", q, k, v, left_window_size=20, is_causal=int(rows > 64))).expect(B=1, S=rows, K=keys)


# ---- head sizes ----

def head_sizes():
    for d, dv in ((40, 40), (64, 64), (72, 72), (80, 80), (96, 96), (160, 160), (192, 192), (192, 128), (256, 256), (8, 8), (104, 248)):
        g = Graph(f"heads_of_{d}_{dv}")
        q, k, v = g.heads(d=d, dv=dv)
        y = g.node("Attention", q, k, v, is_causal=1)
        yield g.give(y).expect(B=1, S=70)


# ---- ONNX Runtime's operators ----

MICROSOFT = "com.microsoft"


def multi_head():
    b = lambda g, name, *shape, type_=None: g.input(name, ["B", *shape], type_)
    g = Graph("multi_head")
    yield g.give(g.node("MultiHeadAttention", b(g, "q", "S", 128), b(g, "k", "K", 128), b(g, "v", "K", 192), domain=MICROSOFT,
                        num_heads=2)).expect(B=2, S=40, K=70)
    g = Graph("multi_head_packed")
    yield g.give(g.node("MultiHeadAttention", b(g, "qkv", "S", 2, 3, 64), domain=MICROSOFT, num_heads=2, unidirectional=1))
    g = Graph("multi_head_keys_packed")
    yield g.give(g.node("MultiHeadAttention", b(g, "q", "S", 128), b(g, "kv", "K", 2, 2, 64), domain=MICROSOFT, num_heads=2,
                        scale=0.2)).expect(B=2, S=40, K=70)
    g = Graph("multi_head_masked")
    yield g.give(g.node("MultiHeadAttention", b(g, "q", "S", 128), b(g, "k", "S", 128), b(g, "v", "S", 128), "",
                        b(g, "m", "S", type_="s32"), g.input("bias", [1, 2, "S", "S"]), domain=MICROSOFT, num_heads=2)).expect(3)
    g = Graph("multi_head_lengths")
    yield g.give(g.node("MultiHeadAttention", b(g, "q", "S", 128), b(g, "k", "S", 128), b(g, "v", "S", 128), "",
                        b(g, "lengths", type_="s32"), domain=MICROSOFT, num_heads=2)).expect(2)
    g = Graph("multi_head_crossed")
    yield g.give(g.node("MultiHeadAttention", b(g, "q", "S", 128), b(g, "k", 2, "K", 64), b(g, "v", 2, "K", 64), domain=MICROSOFT,
                        num_heads=2)).expect(B=2, S=40, K=70)
    g = Graph("multi_head_cached")
    outputs = ["y", "present_k", "present_v"]
    g.node("MultiHeadAttention", b(g, "q", "S", 128), b(g, "k", "S", 128), b(g, "v", "S", 128), g.input("bias", [384]), "", "",
           b(g, "past_k", 2, "P", 64), b(g, "past_v", 2, "P", 64), outputs=outputs, domain=MICROSOFT, num_heads=2, unidirectional=1)
    yield g.give(*outputs).expect(8, B=1, S=33, P=20)


def group_query():
    b = lambda g, name, *shape, type_=None: g.input(name, ["B", *shape], type_)
    lengths = lambda g: (g.input("seqlens_k", ["B"], "s32"), g.input("total", [1], "s32"))
    g = Graph("group_query")
    g.node("GroupQueryAttention", b(g, "q", "S", 256), b(g, "k", "S", 128), b(g, "v", "S", 128), "", "", *lengths(g),
           outputs=["y", "present_k", "present_v"], domain=MICROSOFT, num_heads=4, kv_num_heads=2, local_window_size=20, softcap=15.0)
    yield g.give("y")
    g = Graph("group_query_packed_rotary")
    g.node("GroupQueryAttention", b(g, "qkv", "S", 512), "", "", "", "", *lengths(g), g.input("cos", [128, 32]),
           g.input("sin", [128, 32]), outputs=["y"], domain=MICROSOFT, num_heads=4, kv_num_heads=2, do_rotary=1)
    yield g.give("y").expect(2)


# ---- a whole block: product, heads, positions, attention, output product ----

def projected(g, heads, kv_heads, d):
    hidden, kv = heads * d, kv_heads * d
    qkv = g.node("MatMul", g.input("x", ["B", "S", hidden]), g.input("w_qkv", [hidden, hidden + 2 * kv]))
    return g.node("Split", qkv, g.list(hidden, kv, kv), outputs=["q", "k", "v"], axis=-1), "k", "v"


def block():
    for heads, kv_heads in ((4, 4), (8, 2), (32, 8)):
        g = Graph(f"block_{heads}_{kv_heads}")
        d = 32
        q, k, v = projected(g, heads, kv_heads, d)
        angles = [g.input(name, ["B", "S", d // 2]) for name in ("cos", "sin")]
        q, k = (g.node("RotaryEmbedding", x, *angles, num_heads=n) for x, n in ((q, heads), (k, kv_heads)))
        y = g.node("Attention", q, k, v, is_causal=1, q_num_heads=heads, kv_num_heads=kv_heads)
        g.give(g.node("MatMul", y, g.input("w_out", [heads * d, heads * d])))
        yield g.expect(4, gpus=["h100", "a100"] if heads < 32 else ["h100"], B=1, S=40)


def block_written():
    """As PyTorch's exporter wrote models of older opsets: views of heads, halves turned, heads repeated, a mask by value."""
    heads, kv_heads, d, rows = 8, 2, 32, 40
    g = Graph("block_written", opset=17)
    q, k, v = projected(g, heads, kv_heads, d)
    cos, sin = (g.input(name, ["B", 1, rows, d]) for name in ("cos", "sin"))
    g.text["inputs"]["x"]["shape"][1] = rows

    def split(x, n):
        return g.node("Transpose", g.node("Reshape", x, g.list(0, 0, n, d)), perm=[0, 2, 1, 3])

    def turned(x):
        first, second = (g.node("Slice", x, g.list(low), g.list(high), g.list(3)) for low, high in ((0, d // 2), (d // 2, 1 << 40)))
        other = g.node("Concat", g.node("Neg", second), first, axis=-1)
        return g.node("Add", g.node("Mul", x, cos), g.node("Mul", other, sin))

    def repeated(x):
        return g.node("Reshape", g.node("Expand", g.node("Unsqueeze", x, g.list(2)), g.list(1, 1, heads // kv_heads, 1, 1)),
                      g.list(0, heads, -1, d))

    q, k, v = turned(split(q, heads)), repeated(turned(split(k, kv_heads))), repeated(split(v, kv_heads))
    s = g.node("Div", g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2])), g.constant(d ** 0.5))
    s = g.node("Add", s, g.constant(lower(rows, rows, 0.0, -math.inf), shape=[1, 1, rows, rows]))
    y = g.node("MatMul", g.node("Cast", g.node("Softmax", g.node("Cast", s, to="f32"), axis=-1), to="bf16"), v)
    y = g.node("Reshape", g.node("Transpose", y, perm=[0, 2, 1, 3]), g.list(0, 0, -1))
    yield g.give(g.node("MatMul", y, g.input("w_out", [heads * d, heads * d]))).expect(4, B=1)


def others():
    g = Graph("others_of_microsoft")
    x, y, w, b = (g.input(name, shape) for name, shape in (("x", ["B", "S", 128]), ("y", ["B", "S", 128]), ("w", [128]), ("b", [128])))
    heads, cos, sin = g.input("heads", ["B", 2, "S", 64]), g.input("cos", [100, 32]), g.input("sin", [100, 32])
    first, places = g.list(3), g.input("places", ["B", "S"], "s64")
    for i, (op, inputs, n, attributes) in enumerate((
            ("BiasGelu", (x, b), 1, {}), ("FastGelu", (x, b), 1, {}), ("FastGelu", (x,), 1, {}), ("Gelu", (x,), 1, {}),
            ("QuickGelu", (x,), 1, {"alpha": 1.5}), ("SkipLayerNormalization", (x, y, w, b, b), 4, {"epsilon": 1e-5}),
            ("SkipSimplifiedLayerNormalization", (x, y, w), 4, {}), ("FusedMatMul", (x, y), 1, {"transB": 1, "alpha": 0.5}),
            ("RotaryEmbedding", (x, first, cos, sin), 1, {}), ("RotaryEmbedding", (heads, first, cos, sin), 1, {"interleaved": 1}),
            ("RotaryEmbedding", (x, places, cos, sin), 1, {"num_heads": 2}))):
        outputs = [f"o{i}", "", "", f"s{i}"][:n]
        g.node(op, *inputs, outputs=outputs, domain=MICROSOFT, **attributes)
        g.give(*(name for name in outputs if name))
    yield g.expect(None, B=2, S=9)


FORMS = [sums_written, sums_of_operator, sums_of_repeated_heads, masks_by_value, masks_of_other_alignment, masks_computed,
         masks_of_ranges, mask_of_one_row, keys_turned_as_matrices, softmax_written, scales_in_front, masks_given, soft_cap, linear_bias, bias_of_buckets, windows, head_sizes, multi_head,
         group_query, block, block_written, others]


# ---- the program ----

def run(adlgen, graph, gpu, simulated, folder):
    path = os.path.join(folder, graph.text["name"] + ".json")
    with open(path, "w") as file:
        file.write(json.dumps(graph.text).replace("-Infinity", "\"-inf\""))
    dims = [word for name, value in graph.dims.items() for word in ("--dim", f"{name}={value}")]
    command = ["run", path, "--on", "sim", "--check", *dims] if simulated else ["compile", path, "--out", folder, "--emit", "ir", "--explain"]
    done = subprocess.run([adlgen, *command, "--gpu", gpu], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if graph.note and gpu == graph.gpus[0]:
        told = done if not simulated else subprocess.run([adlgen, "compile", path, "--gpu", gpu, "--out", folder, "--emit", "ir", "--explain"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if graph.note not in told.stdout:
            return f"{graph.text['name']} on {gpu}: --explain does not say `{graph.note}`"
    launches = done.stdout.count(", grid ")
    if not simulated and not done.returncode:
        with open(os.path.join(folder, gpu, "plan.json")) as file:
            launches = len(json.load(file)["launches"])
    if done.returncode or launches != (graph.launches or launches):
        return f"{graph.text['name']} on {gpu}: {launches} launches, {graph.launches} expected\n{done.stdout}"
    return None


def main():
    adlgen, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    graphs = [graph for form in FORMS for graph in form() if not wanted or graph.text["name"] in wanted]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(graph, gpu, len(graph.gpus) == 1 or has_turn(i, which)) for i, graph in enumerate(graphs) for which, gpu in enumerate(graph.gpus)]
        faults = [fault for fault in pool.map(lambda job: run(adlgen, *job, tempfile.mkdtemp(dir=folder)), jobs) if fault]
    print("\n".join(faults), f"{len(jobs) - len(faults)} of {len(jobs)} right", sep="\n")
    return 1 if faults or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
