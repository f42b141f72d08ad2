#!/usr/bin/env python3
"""LSTM, GRU and RNN against their definition: recurrent.py ADLGEN

Sizes that are no multiples of anything, both directions and layouts, lengths of sequences (0 and beyond the steps among them), initial
states, peepholes, clip, functions, results that are absent. The plan of many steps is as long as that of few, and serves any number of them."""
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import runs

ADLGEN = pathlib.Path(sys.argv[1]).resolve()
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
FUNCTIONS = {"Tanh": lambda x, a, b: math.tanh(x), "Sigmoid": lambda x, a, b: 1 / (1 + math.exp(-x)), "Relu": lambda x, a, b: max(x, 0),
             "Affine": lambda x, a, b: a * x + b, "HardSigmoid": lambda x, a, b: max(0, min(1, a * x + b)),
             "ScaledTanh": lambda x, a, b: a * math.tanh(b * x), "Softsign": lambda x, a, b: x / (1 + abs(x)),
             "LeakyRelu": lambda x, a, b: x if x >= 0 else a * x}
draw = random.Random(3)


def values(kind, n, scale):
    found = [draw.uniform(-scale, scale) for _ in range(n)]
    if kind == "f32":
        return [runs.struct.unpack("<f", runs.struct.pack("<f", x))[0] for x in found]
    return [runs.struct.unpack("<e", runs.struct.pack("<e", x))[0] for x in found]


def step(op, case, functions, p, weights, bias, h, c, holes):
    """Of one row: p are the input's products, with its biases."""
    size, attributes = case["H"], case["attributes"]
    limit = attributes.get("clip", 0) or math.inf

    def run(i, x):
        name, a, b = functions[i]
        return FUNCTIONS[name](max(-limit, min(limit, x)), a, b)

    def free(i, x):
        name, a, b = functions[i]
        return FUNCTIONS[name](x, a, b)

    def product(of, g):
        return [sum(x * w for x, w in zip(of, weights[g * size + j])) for j in range(size)]

    def gate(g, of):
        return [p[g * size + j] + x + bias[g * size + j] for j, x in enumerate(product(of, g))]

    if op == "RNN":
        return [run(0, x) for x in gate(0, h)], c
    if op == "GRU":
        z, r = ([run(0, x) for x in gate(g, h)] for g in (0, 1))
        if attributes.get("linear_before_reset"):
            fresh = [p[2 * size + j] + r[j] * (x + bias[2 * size + j]) for j, x in enumerate(product(h, 2))]
        else:
            fresh = gate(2, [a * b for a, b in zip(r, h)])
        return [(1 - z[j]) * run(1, fresh[j]) + z[j] * h[j] for j in range(size)], c
    i, o, f, g = (gate(k, h) for k in range(4))
    i = [run(0, x + holes[j] * c[j]) for j, x in enumerate(i)]
    f = [1 - x for x in i] if attributes.get("input_forget") else [run(0, x + holes[2 * size + j] * c[j]) for j, x in enumerate(f)]
    c = [f[j] * c[j] + i[j] * run(1, g[j]) for j in range(size)]
    o = [run(0, x + holes[size + j] * c[j]) for j, x in enumerate(o)]
    return [o[j] * free(2, c[j]) for j in range(size)], c


def define(op, case, given):
    """Results by [time, direction, batch], and by [direction, batch] the last states."""
    steps, batch, width, size, ways, gates = case["T"], case["B"], case["I"], case["H"], case["ways"], GATES[op]
    take = lambda name, n: given.get(name, [0.0] * n)
    names = case["attributes"].get("activations", DEFAULTS[op] * ways)
    alphas, betas = list(case["attributes"].get("activation_alpha", [])), list(case["attributes"].get("activation_beta", []))
    own = {"HardSigmoid": (.2, .5), "LeakyRelu": (.01, None), "Affine": (1, 0), "ScaledTanh": (1, 1)}
    functions = []
    for name in names:
        a, b = own.get(name, (None, None))
        functions.append((name, a if a is None or not alphas else alphas.pop(0), b if b is None or not betas else betas.pop(0)))
    all_, last = [[[None] * batch for _ in range(ways)] for _ in range(steps)], []
    lengths = given.get("lengths", [steps] * batch)
    for d in range(ways):
        reverse = d == 1 or case["attributes"].get("direction") == "reverse"
        row = lambda name, r, n, rows: given[name][(d * rows + r) * n:(d * rows + r + 1) * n]
        weights = [row("w", r, width, gates * size) for r in range(gates * size)]
        states = [row("r", r, size, gates * size) for r in range(gates * size)]
        biases = take("b", 2 * ways * gates * size)[2 * d * gates * size:2 * (d + 1) * gates * size]
        holes = take("p", 3 * ways * size)[3 * d * size:3 * (d + 1) * size]
        for b in range(batch):
            at = (b * ways + d) if case["layout"] else (d * batch + b)
            h, c = (take(name, ways * batch * size)[at * size:(at + 1) * size] for name in ("h", "c"))
            valid = max(0, min(lengths[b], steps))
            for t in range(steps):
                all_[t][d][b] = [0.0] * size
            for t in reversed(range(valid)) if reverse else range(valid):
                begin = (b * steps + t if case["layout"] else t * batch + b) * width
                x = given["x"][begin:begin + width]
                p = [sum(a * w for a, w in zip(x, weights[r])) + biases[r] for r in range(gates * size)]
                h, c = step(op, case, functions[d * len(DEFAULTS[op]):], p, states, biases[gates * size:], h, c, holes)
                all_[t][d][b] = h
            last.append((h, c))
    if case["layout"]:
        y = [x for b in range(batch) for t in range(steps) for d in range(ways) for x in all_[t][d][b]]
        order = [d * batch + b for b in range(batch) for d in range(ways)]
    else:
        y = [x for t in range(steps) for d in range(ways) for b in range(batch) for x in all_[t][d][b]]
        order = range(ways * batch)
    return {"y": y, "y_h": [x for i in order for x in last[i][0]], "y_c": [x for i in order for x in last[i][1]]}


def description(op, case, kind, optional, outputs, open_=False):
    steps, batch, width, size, ways, gates = case["T"], case["B"], case["I"], case["H"], case["ways"], GATES[op]
    if open_:
        steps, batch = "T", "B"
    side = [batch, ways, size] if case["layout"] else [ways, batch, size]
    shapes = {"x": [batch, steps, width] if case["layout"] else [steps, batch, width], "w": [ways, gates * size, width],
              "r": [ways, gates * size, size], "b": [ways, 2 * gates * size], "lengths": [batch], "h": side, "c": side, "p": [ways, 3 * size]}
    order = ["x", "w", "r", "b", "lengths", "h", "c", "p"][:8 if op == "LSTM" else 6]
    used = [name if name in "xwr" or name in optional else "" for name in order]
    while not used[-1]:
        used.pop()
    node = {"op": op, "inputs": used, "outputs": outputs, "attributes": {"hidden_size": size, "layout": case["layout"], **case["attributes"]}}
    return {"name": op.lower(), "inputs": {name: {"type": "s32" if name == "lengths" else kind, "shape": shapes[name]} for name in used if name},
            "nodes": [node], "outputs": [name for name in outputs if name]}


def check(gpu, op, sizes, kind="f32", optional=(), outputs=None, layout=0, open_=False, lengths=None, words=(), **attributes):
    steps, batch, width, size = sizes
    case = {"T": steps, "B": batch, "I": width, "H": size, "layout": layout, "attributes": attributes,
            "ways": 2 if attributes.get("direction") == "bidirectional" else 1}
    outputs = outputs or ["y", "y_h", "y_c"][:3 if op == "LSTM" else 2]
    graph = description(op, case, kind, optional, outputs, open_)
    given, files = {}, []
    for name, tensor in graph["inputs"].items():
        shape = [{"T": steps, "B": batch}.get(extent, extent) for extent in tensor["shape"]]
        n = math.prod(shape)
        given[name] = list(lengths) if name == "lengths" else values(kind, n, 1 if name == "x" else 1 / math.sqrt(size))
        files.append((name, tensor["type"], shape, given[name]))
    _, found = runs.run(ADLGEN, graph, gpu, files, dims={"T": steps, "B": batch} if open_ else None, words=words)
    wanted = define(op, case, given)
    limit = 2e-5 if kind == "f32" else 4e-3
    for name in graph["outputs"]:
        far = max((abs(a - b) for a, b in zip(found[name], wanted[name])), default=0)
        if len(found[name]) != len(wanted[name]) or not far <= limit:
            sys.exit(f"{gpu} {op} {sizes} {kind} {optional} {attributes}: {name} is off by {far}")


def check_small(gpu, op, **attributes):
    """Results of bf16 have its range, which f16 has not."""
    case = {"T": 3, "B": 1, "I": 16, "H": 16, "layout": 0, "attributes": attributes, "ways": 1}
    graph = description(op, case, "bf16", (), ["y"], False)
    given = {name: [draw.choice((-1, 1, 1.5)) * (1 if name == "x" else 2.0**-30) for _ in range(math.prod(tensor["shape"]))] for name, tensor in graph["inputs"].items()}
    _, found = runs.run(ADLGEN, graph, gpu, [(name, "bf16", tensor["shape"], given[name]) for name, tensor in graph["inputs"].items()])
    wanted = define(op, case, given)["y"]
    far = max(abs(y - want) for y, want in zip(found["y"], wanted, strict=True))
    if far > 2**-7 * max(map(abs, wanted)):
        sys.exit(f"{gpu} {op} of small weights: off by {far}")


def check_layers(gpu):
    """What one layer gives is read by the next one, whose first state was computed in front of both."""
    shapes = {"x": ["T", 3, 8], "w": [1, 20, 8], "r": [1, 20, 5], "w2": [1, 20, 5], "r2": [1, 20, 5], "h": [2, 3, 5]}
    nodes = [{"op": "Slice", "inputs": ["h", "one", "two", "zero"], "outputs": ["h2"]}, {"op": "Slice", "inputs": ["h", "zero", "one", "zero"], "outputs": ["h1"]},
             {"op": "LSTM", "inputs": ["x", "w", "r", "", "", "h1"], "outputs": ["y1"]}, {"op": "Squeeze", "inputs": ["y1", "one"], "outputs": ["x2"]},
             {"op": "LSTM", "inputs": ["x2", "w2", "r2", "", "", "h2"], "outputs": ["y", "y_h"]}]
    graph = {"name": "layers", "inputs": {name: {"type": "f32", "shape": shape} for name, shape in shapes.items()}, "nodes": nodes, "outputs": ["y", "y_h"],
             "constants": {name: {"type": "s64", "shape": [1], "data": [i]} for i, name in enumerate(["zero", "one", "two"])}}
    given = [(name, "f32", [{"T": 4}.get(e, e) for e in shape], values("f32", math.prod({"T": 4}.get(e, e) for e in shape), .5)) for name, shape in shapes.items()]
    _, found = runs.run(ADLGEN, graph, gpu, given, dims={"T": 4})
    tensors = {name: list_ for name, _, _, list_ in given}
    case = {"T": 4, "B": 3, "I": 8, "H": 5, "layout": 0, "attributes": {}, "ways": 1}
    first = define("LSTM", case, {"x": tensors["x"], "w": tensors["w"], "r": tensors["r"], "h": tensors["h"][:15]})
    second = define("LSTM", {**case, "I": 5}, {"x": first["y"], "w": tensors["w2"], "r": tensors["r2"], "h": tensors["h"][15:]})
    for name in ("y", "y_h"):
        far = max(abs(a - b) for a, b in zip(found[name], second[name]))
        if not far <= 2e-5:
            sys.exit(f"{gpu} two layers: {name} is off by {far}")


def plan(gpu, graph, folder, words=()):
    path = pathlib.Path(folder, "graph.json")
    path.write_text(json.dumps(graph))
    done = subprocess.run([str(w) for w in (ADLGEN, "compile", path, "--gpu", gpu, "--out", pathlib.Path(folder, "out"), "--emit", "ir", *words)],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{gpu}: {done.stderr}")
    return pathlib.Path(folder, "out", gpu, "plan.json").read_text()


def check_plan(gpu):
    """So many launches, which are repeated as often as there are steps, of any number of these."""
    case = {"T": 5, "B": 2, "I": 16, "H": 16, "layout": 0, "attributes": {}, "ways": 1}
    with tempfile.TemporaryDirectory() as folder:
        few = plan(gpu, description("LSTM", case, "f16", (), ["y"]), folder)
        for op, attributes in (("LSTM", {}), ("GRU", {"linear_before_reset": 1})):
            whole = json.loads(plan(gpu, description(op, {**case, "attributes": attributes}, "f16", ("b", "h"), ["y", "y_h"]), folder))
            if whole["repeats"][0]["launches"] != 1:  # a step's product has its gates as epilogue
                sys.exit(f"{gpu}: {op} has {whole['repeats']}")
            together = [v["kernel"] for launch in whole["launches"] for v in launch.get("variants", ()) if v.get("together")]
            if bool(together) != (gpu == "h100"):  # in front of it one launch does all steps
                sys.exit(f"{gpu}: {op}: {together} walk the steps")
        many = plan(gpu, description("LSTM", {**case, "T": 1000}, "f16", (), ["y"]), folder)
        any_ = json.loads(plan(gpu, description("LSTM", case, "f16", (), ["y"], True), folder))
    if not len(few) / 2 < len(many) < len(few) * 2:
        sys.exit(f"{gpu}: the plan of 5 steps has {len(few)} bytes, that of 1000 {len(many)}")
    repeat = any_["repeats"][0]
    if len(any_["repeats"]) != 1 or repeat["count"] != "T" or repeat["launches"] > 2 or len(any_["launches"]) - repeat["launches"] > 4:
        sys.exit(f"{gpu}: {len(any_['launches'])} launches, {any_['repeats']}")


for device in ("h100", "a100"):
    check_plan(device)
    check_layers(device)
    check_small(device, "LSTM")
    check_small(device, "GRU", linear_before_reset=1)
    check_small(device, "RNN")
    for name in GATES:
        check(device, name, (3, 2, 5, 7))
        check(device, name, (4, 5, 3, 17), optional=("b", "lengths", "h", "c", "p"), lengths=[0, 4, 2, 1, 9], direction="bidirectional")
        check(device, name, (3, 4, 6, 5), optional=("b", "lengths", "h", "c"), lengths=[3, 0, 1, 2], direction="reverse", layout=1, clip=0.3)
        check(device, name, (1, 1, 1, 1), optional=("b",), outputs=["", "y_h"])
        check(device, name, (5, 3, 8, 31), kind="f16", optional=("b", "h"), open_=True)
        check(device, name, (0, 3, 4, 5), optional=("h",), open_=True)
    check(device, "GRU", (3, 3, 4, 33), optional=("b", "h"), linear_before_reset=1)
    check(device, "LSTM", (3, 2, 4, 9), optional=("b", "p", "c"), outputs=["", "", "y_c"], input_forget=1)
    check(device, "LSTM", (2, 2, 3, 4), optional=("b",), activations=["HardSigmoid", "Softsign", "ScaledTanh"], activation_alpha=[.3, .8], activation_beta=[.4, 1.2])
    check(device, "RNN", (2, 2, 3, 4), direction="bidirectional", activations=["LeakyRelu", "affine".capitalize()], activation_alpha=[.1, .7], activation_beta=[.2])
    check(device, "LSTM", (4, 5, 8, 40), kind="f16", optional=("b", "lengths", "h", "c", "p"), lengths=[0, 4, 2, 1, 9], direction="bidirectional", clip=0.7)
    check(device, "LSTM", (2, 66, 8, 72), kind="f16", optional=("b", "p"), open_=True)
    check(device, "GRU", (2, 5, 8, 40), kind="f16", optional=("b", "h", "lengths"), lengths=[2, 1, 0, 2, 1], linear_before_reset=1, open_=True)
    check(device, "GRU", (2, 64, 40, 129), kind="f16", optional=("b",), linear_before_reset=1)
    # few SMs take wide tiles, of whose columns the last tile has some only: a copy beside those of whole boxes
    check(device, "LSTM", (3, 2, 8, 40), kind="f16", optional=("b", "h", "c"), open_=True, words=("--sms", 2))
    check(device, "GRU", (2, 5, 8, 24), kind="f16", optional=("b", "h"), linear_before_reset=1, words=("--sms", 2))
check("h100", "LSTM", (2, 3, 16, 96), kind="f16", optional=("h", "p"), open_=True, words=("--sms", 30), clip=0.5)  # registers beside four products' sums
print("LSTM, GRU, RNN: right")
