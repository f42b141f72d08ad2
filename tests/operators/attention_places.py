#!/usr/bin/env python3
"""attention_places.py ADLGEN: scores that depend on where they are, against their definition in double precision: slopes of heads (ALiBi), with causal masks, caches,
lengths and where rows stand; trees of rows that see keys of their own ancestors alone; one kernel each, of few rows and of many, in groups of heads and without."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
LIMITS = {"bf16": 6e-3, "f16": 1.5e-3, "f32": 1e-5}
NAMES = ["q", "k", "v", "mask", "past_k", "past_v", "lengths", "sink", "first", "slopes", "tree"]

# type; batches, heads of queries, of keys, rows, keys, size; what the operator has: `past` keys, `lengths`, where rows stand (`first`), a `tree`: by truth values (bool) or by bits (s32) of
# so many words, attributes
CASES = [
    ("bf16", (2, 4, 2, 33, 31, 16), {"is_causal": 1}),
    ("f16", (1, 2, 2, 129, 127, 64), {"softcap": 3.0}),
    ("bf16", (3, 4, 1, 1, 140, 16), {"lengths": [0, 65, 140]}),
    ("f16", (3, 4, 2, 5, 140, 24), {"lengths": [5, 64, 140], "is_causal": 1, "left_window_size": 20}),
    ("bf16", (2, 2, 1, 3, 40, 16), {"lengths": [3, 40], "first": [0, 37], "is_causal": 1, "scale": 1.5}),
    ("f16", (1, 2, 1, 3, 2, 16), {"past": 31, "is_causal": 1}),
    ("f32", (1, 2, 1, 5, 7, 16), {"is_causal": 1}),
    ("bf16", (3, 4, 2, 5, 140, 16), {"lengths": [5, 64, 140], "tree": ("s32", 1)}),
    ("f16", (2, 2, 2, 40, 150, 64), {"lengths": [40, 141], "first": [0, 101], "tree": ("s32", 2), "softcap": 3.0}),
    ("f16", (1, 4, 2, 33, 2, 16), {"past": 31, "tree": ("bool", 33)}),
    ("bf16", (2, 2, 1, 1, 129, 16), {"lengths": [0, 129], "tree": ("bool", 1)}),
]


def describe(kind, dims, options):
    batches, heads, shared, rows, keys, size = dims
    inputs = {"q": (kind, batches, heads, rows, size), "k": (kind, batches, shared, keys, size), "v": (kind, batches, shared, keys, size),
              "slopes": ("f32", heads)}
    if "tree" in options:
        inputs["tree"] = (options["tree"][0], batches if "lengths" in options else 1, rows, rows if options["tree"][0] == "bool" else options["tree"][1])
    for name in ("lengths", "first"):
        if name in options:
            inputs[name] = ("s64", batches)
    if "past" in options:
        inputs.update({f"past_{x}": (kind, batches, shared, options["past"], size) for x in "kv"})
    names = [name if name in inputs else "" for name in NAMES]
    attributes = {name: value for name, value in options.items() if name not in ("lengths", "first", "past", "tree")}
    return {"name": "places", "opset": 25, "inputs": {name: {"type": shape[0], "shape": list(shape[1:])} for name, shape in inputs.items()},
            "nodes": [{"op": "Attention", "domain": "adlgen", "inputs": names, "outputs": ["y", "", "", "", "l"], "attributes": attributes}], "outputs": ["y", "l"]}


def attend(given, dims, options, place):
    """A row's result and log-sum-exp."""
    _, heads, shared, rows, new, size = dims
    batch, head, row = place
    past, own = options.get("past", 0), head // (heads // shared)
    length = options["lengths"][batch] if "lengths" in options else past + new
    stands = row + (options["first"][batch] if "first" in options else length - rows if "lengths" in options else past)

    def keys_of(name):
        old = [] if not past else [given[f"past_{name}"][((batch * shared + own) * past + t) * size:][:size] for t in range(past)]
        return old + [given[name][((batch * shared + own) * new + t) * size:][:size] for t in range(new)]

    q = given["q"][((batch * heads + head) * rows + row) * size:][:size]
    keys, values = keys_of("k"), keys_of("v")
    tree = given["tree"] if "tree" in options else None  # of each batch and row: what it sees of the rows' own keys
    stood = stands - row
    seen = [t for t in range(len(keys)) if t < length and (not tree or t < stood or (t - stood < rows and tree[batch][row][t - stood])) and (not options.get("is_causal") or t <= stands)
            and t >= stands - options.get("left_window_size", 1 << 30)]
    cap, scores = options.get("softcap"), []
    for t in seen:
        score = options.get("scale", 1 / math.sqrt(size)) * sum(x * y for x, y in zip(q, keys[t]))
        scores.append((cap * math.tanh(score / cap) if cap else score) + given["slopes"][head] * (t - stands))
    if not scores:
        return [0.0] * size, -math.inf
    peak = max(scores)
    weights = [math.exp(s - peak) for s in scores]
    return [sum(w * values[t][e] for w, t in zip(weights, seen)) / sum(weights) for e in range(size)], peak + math.log(sum(weights))


def draw_tree(options, batches, rows):
    """Each row's parent is some row in front: it sees itself and its ancestors. Truth values, and as the input has them."""
    state, seen = 1, []
    for _ in range(batches):
        tree = []
        for row in range(rows):
            state = state * 48271 % 2147483647
            parent = state % row if row else None
            tree.append([(t == row) or (parent is not None and tree[parent][t]) for t in range(rows)])
        seen.append(tree)
    kind, words = options["tree"]
    if kind == "bool":
        return seen, [int(x) for tree in seen for row in tree for x in row]
    bits = [sum(row[t] << (t % 32) for t in range(rows) if t // 32 == w) for tree in seen for row in tree for w in range(words)]
    return seen, [x - (1 << 32) if x >> 31 else x for x in bits]


def check(gpu, kind, dims, options):
    batches, heads, _, rows, _, size = dims
    slopes = [2.0 ** (-8 * (i + 1) / heads) for i in range(heads)]
    lists = [(name, "s64", [batches], options[name]) for name in ("lengths", "first") if name in options]
    if "tree" in options:
        shape = describe(kind, dims, options)["inputs"]["tree"]["shape"]
        tree, values = draw_tree(options, shape[0], rows)
        lists.append(("tree", options["tree"][0], shape, values))
    given, found = runs.run(adlgen, describe(kind, dims, options), gpu, [("slopes", "f32", [heads], slopes)] + lists)
    given["slopes"] = slopes
    if "tree" in options:
        given["tree"] = tree * (1 if len(tree) == batches else batches)
    off = norm = 0.0
    for batch in range(batches):
        for head in range(heads):
            for row in sorted({0, 1, rows // 2, rows - 1} & set(range(rows))):
                y, sum_ = attend(given, dims, options, (batch, head, row))
                at = (batch * heads + head) * rows + row
                off += sum((a - b) ** 2 for a, b in zip(found["y"][at * size:][:size], y))
                norm += sum(b * b for b in y)
                if not (found["l"][at] == sum_ or abs(found["l"][at] - sum_) <= 3e-3):
                    sys.exit(f"{gpu} {kind} {dims} {options}: log-sum-exp of {batch, head, row} is {found['l'][at]}, not {sum_}")
    error = math.sqrt(off / (norm or 1))
    if not error <= LIMITS[kind]:
        sys.exit(f"{gpu} {kind} {dims} {options}: error {error:.2e}")


def check_launches(gpu):
    """Of 16 bits it is one kernel, that reads nothing of the scores' size."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(describe(*CASES[0])))
        done = subprocess.run([adlgen, "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", folder], capture_output=True, text=True)
        launches = json.loads(pathlib.Path(folder, gpu, "plan.json").read_text())["launches"] if not done.returncode else []
    if len(launches) != 1:
        sys.exit(f"{gpu}: {len(launches)} launches\n{done.stdout}{done.stderr}")


for device in ("h100", "a100"):
    check_launches(device)
    for case in CASES:
        check(device, *case)
print(f"{len(CASES)} cases: right")
