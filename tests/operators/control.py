#!/usr/bin/env python3
"""If, Loop and Scan against their definition: control.py ADLGEN

Directions and axes, several states, elements and stacks, open counts and none at all, numbers of times, computed conditions, branches
that are known and that are not, graphs within graphs, what they take from around them. The plan of many times is as long as that of few."""
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import runs

ADLGEN = pathlib.Path(sys.argv[1]).resolve()
draw = random.Random(7)


def node(op, inputs, outputs, **attributes):
    return {"op": op, "inputs": inputs.split(), "outputs": outputs.split(), "attributes": attributes}


def body(inputs, outputs, *nodes, **constants):
    return {"inputs": inputs.split(), "outputs": outputs.split(), "nodes": list(nodes), "constants": constants}


def constant(kind, data, shape=()):
    return {"type": kind, "shape": list(shape), "data": data}


def single(x):
    return runs.struct.unpack("<f", runs.struct.pack("<f", x))[0]


def check(gpu, name, graph, wanted, dims=None, **given):
    """given: values of inputs; wanted: of outputs, by functions of the values."""
    dims = dims or {}
    graph = {"name": name, "outputs": list(wanted), **graph}
    files = []
    for key, tensor in graph["inputs"].items():
        shape = [dims.get(extent, extent) for extent in tensor["shape"]]
        if key not in given:
            given[key] = [single(draw.uniform(-1, 1)) for _ in range(math.prod(shape))]
        files.append((key, tensor["type"], shape, given[key]))
    runs.KINDS.setdefault("bool", "BOOL")
    runs.CODES.setdefault("BOOL", "?")
    _, found = runs.run(ADLGEN, graph, gpu, files, dims=dims)
    for key, want in wanted.items():
        want = want(given)
        far = max((abs(a - b) for a, b in zip(found[key], want)), default=0)
        if len(found[key]) != len(want) or not far <= 2e-5:
            sys.exit(f"{gpu} {name}: {key} is off by {far}: {found[key][:8]} {want[:8]}")


def rows(values, width):
    return [values[i:i + width] for i in range(0, len(values), width)]


def decayed(g, steps, width, turned=False):
    """s = s w + x_t, of each time."""
    state, all_ = list(g["s"]), []
    x = rows(g["x"], width)
    for t in range(steps):
        state = [s * w + v for s, w, v in zip(state, g["w"], x[steps - 1 - t if turned else t])]
        all_.append(state)
    return state, all_


def scans(gpu, steps, width):
    """An open count; two states, one of which stays; w stands outside."""
    inner = body("a b e", "c b d", node("Mul", "a w", "p"), node("Add", "p e", "c"), node("Neg", "c", "d"))
    graph = {"inputs": {"s": {"type": "f32", "shape": [width]}, "k": {"type": "f32", "shape": [3]}, "x": {"type": "f32", "shape": ["T", width]},
                        "w": {"type": "f32", "shape": [width]}},
             "nodes": [node("Scan", "s k x", "y z all", body=inner, num_scan_inputs=1)]}
    check(gpu, "scan", graph, {"y": lambda g: decayed(g, steps, width)[0], "z": lambda g: g["k"],
                               "all": lambda g: [-v for row in decayed(g, steps, width)[1] for v in row]}, {"T": steps})


def turned_scan(gpu):
    """Elements along the last dimension from the last on, and along the first; stacks along the last, from the last on."""
    inner = body("a e f", "c c", node("Mul", "a f", "p"), node("Add", "p e", "c"))
    graph = {"inputs": {"s": {"type": "f32", "shape": [4]}, "x": {"type": "f32", "shape": [4, 7]}, "f": {"type": "f32", "shape": [7]}},
             "nodes": [node("Scan", "s x f", "y all", body=inner, num_scan_inputs=2, scan_input_axes=[-1, 0], scan_input_directions=[1, 0],
                            scan_output_axes=[1], scan_output_directions=[1])]}

    def define(g):
        state, all_ = list(g["s"]), []
        for t in range(7):
            state = [s * g["f"][t] + g["x"][i * 7 + 6 - t] for i, s in enumerate(state)]
            all_.insert(0, state)
        return state, [all_[t][i] for i in range(4) for t in range(7)]
    check(gpu, "turned", graph, {"y": lambda g: define(g)[0], "all": lambda g: define(g)[1]})


def batched_scan(gpu):
    """Of opset 8: for each batch, along the second dimension."""
    inner = body("a e", "c c", node("Add", "a e", "c"))
    graph = {"opset": 8, "inputs": {"s": {"type": "f32", "shape": [3, 2]}, "x": {"type": "f32", "shape": [3, 5, 2]}},
             "nodes": [{"op": "Scan", "inputs": ["", "s", "x"], "outputs": ["y", "all"], "attributes": {"body": inner, "num_scan_inputs": 1, "directions": [1]}}]}

    def define(g, batch):
        state, all_ = g["s"][2 * batch:2 * batch + 2], []
        for t in range(4, -1, -1):
            state = [s + v for s, v in zip(state, g["x"][10 * batch + 2 * t:])]
            all_ += state
        return state, all_
    check(gpu, "batched", graph, {"y": lambda g: sum((define(g, b)[0] for b in range(3)), []), "all": lambda g: sum((define(g, b)[1] for b in range(3)), [])})


def counted_loops(gpu, times):
    """v = v + i, a stack of them; the count is the extent of x."""
    inner = body("i c v", "c n n", node("Cast", "i", "j", to="f32"), node("Add", "v j", "n"))
    graph = {"inputs": {"v": {"type": "f32", "shape": [5]}, "x": {"type": "f32", "shape": ["T"]}}, "constants": {"true": constant("bool", True)},
             "nodes": [node("Shape", "x", "shape"), node("Loop", "shape true v", "y all", body=inner), node("Neg", "x", "x2")]}
    check(gpu, "counted", graph, {
        "y": lambda g: [v + times * (times - 1) // 2 for v in g["v"]], "x2": lambda g: [-v for v in g["x"]],
        "all": lambda g: [v + (t + 1) * t // 2 for t in range(times) for v in g["v"]]}, {"T": times})


def conditions(gpu, limit, held):
    """Doubled as long as the sum is below a limit that only data tell; at most 9 times. held: a first condition that is data too."""
    inner = body("i c v", "go n", node("Add", "v v", "n"), node("ReduceSum", "n", "sum", keepdims=0), node("Less", "sum limit", "go"))
    graph = {"inputs": {"v": {"type": "f32", "shape": [33]}, "limit": {"type": "f32", "shape": []}, "first": {"type": "bool", "shape": [1]}},
             "constants": {"most": constant("s64", 9)}, "nodes": [node("Loop", "most first v", "y", body=inner)]}

    def define(g):
        v, go = g["v"], g["first"][0]
        for _ in range(9):
            if not go:
                break
            v = [2 * x for x in v]
            go = sum(v) < limit
        return v
    check(gpu, "condition", graph, {"y": define}, v=[single((i + 1) / 600) for i in range(33)], limit=[limit], first=[held])


def sliced_loop(gpu):
    """Which elements a Slice takes, each time says; the first time's state has another shape than the last one's."""
    inner = body("i c v", "c n", node("Unsqueeze", "i zero", "a"), node("Add", "a one", "b"), node("Slice", "x a b", "e"),
                 node("Concat", "v e", "n", axis=0), one=constant("s64", [1], [1]), zero=constant("s64", [0], [1]))
    graph = {"inputs": {"v": {"type": "f32", "shape": [2]}, "x": {"type": "f32", "shape": [6]}}, "constants": {"n": constant("s64", 4), "true": constant("bool", True)},
             "nodes": [node("Loop", "n true v", "y", body=inner)]}
    check(gpu, "sliced", graph, {"y": lambda g: g["v"] + g["x"][:4]})


def branches(gpu, truth):
    """Computed: both; of shapes: one, whatever the other would give."""
    then, other = body("", "t", node("Exp", "x", "t")), body("", "t", node("Mul", "x k", "t"), k=constant("f32", [2.0, 3.0, 4.0], [3]))
    bad = body("", "t", node("Concat", "x x", "t", axis=0))
    graph = {"inputs": {"c": {"type": "bool", "shape": [1]}, "x": {"type": "f32", "shape": [5, 3]}}, "constants": {"three": constant("s64", 3), "i": constant("s64", 1)},
             "nodes": [node("If", "c", "y", then_branch=then, else_branch=other), node("Shape", "x", "shape"), node("Gather", "shape i", "width"),
                       node("Equal", "width three", "is"), node("If", "is", "z", then_branch=other, else_branch=bad)]}
    second = lambda g: [v * (2 + i % 3) for i, v in enumerate(g["x"])]
    check(gpu, "branches", graph, {"y": lambda g: [math.exp(v) for v in g["x"]] if truth else second(g), "z": second}, c=[truth])


def nested(gpu):
    """A loop in a Scan, which is written out, and an If in it, whose branches read what stands around all three."""
    choice = node("If", "g", "o", then_branch=body("", "t", node("Sub", "m a", "t")), else_branch=body("", "t", node("Add", "m v", "t")))
    inner = body("i c q", "c o", node("Mul", "q e", "m"), node("ReduceMax", "m", "most", keepdims=0), node("Greater", "most limit", "g"), choice)
    outer = body("a e", "b", node("Loop", "three true a", "b", body=inner))
    graph = {"inputs": {"v": {"type": "f32", "shape": [6]}, "x": {"type": "f32", "shape": ["T", 6]}},
             "constants": {"three": constant("s64", 3), "true": constant("bool", True), "limit": constant("f32", 0.25)},
             "nodes": [node("Scan", "v x", "y", body=outer, num_scan_inputs=1)]}

    def define(g):
        a = g["v"]
        for e in rows(g["x"], 6):
            q = a
            for _ in range(3):
                m = [s * t for s, t in zip(q, e)]
                q = [s - t for s, t in zip(m, a)] if max(m) > 0.25 else [s + t for s, t in zip(m, g["v"])]
            a = q
        return a
    check(gpu, "nested", graph, {"y": define}, {"T": 4})


def plans(gpu):
    """So many launches, which are repeated; a product that is the same each time stands in front."""
    inner = body("h e", "n n", node("MatMul", "v v", "vv"), node("MatMul", "h vv", "p"), node("Add", "p e", "s"), node("Tanh", "s", "n"))
    graph = {"name": "p", "inputs": {"h": {"type": "f16", "shape": [8, 64]}, "x": {"type": "f16", "shape": ["T", 8, 64]}, "v": {"type": "f16", "shape": [64, 64]}},
             "nodes": [node("Scan", "h x", "y all", body=inner, num_scan_inputs=1)], "outputs": ["y", "all"]}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        out = pathlib.Path(folder, "out")
        subprocess.run([str(w) for w in (ADLGEN, "compile", path, "--gpu", gpu, "--out", out, "--emit", "ir")], check=True, capture_output=True)
        plan = json.loads((out / gpu / "plan.json").read_text())
    repeat, = plan["repeats"]
    products = [i for i, launch in enumerate(plan["launches"]) if "matmul" in launch["name"]]
    if repeat["count"] != "T" or repeat["launches"] > 2 or products[0] >= repeat["first"]:
        sys.exit(f"{gpu}: {[launch['name'] for launch in plan['launches']]}, {plan['repeats']}")


for device in ("h100", "a100"):
    plans(device)
    for count, columns in ((5, 33), (0, 4), (1, 1)):
        scans(device, count, columns)
    turned_scan(device)
    batched_scan(device)
    for count in (4, 1, 0):
        counted_loops(device, count)
    for most, goes in ((8.0, True), (8.0, False), (0.0, True)):
        conditions(device, most, goes)
    sliced_loop(device)
    branches(device, True)
    branches(device, False)
    nested(device)
print("If, Loop, Scan: right")
