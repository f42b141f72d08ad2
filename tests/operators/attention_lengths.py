#!/usr/bin/env python3
"""attention_lengths.py ADLGEN: one query a sequence, as many keys as a loaded number says, of more heads than half of the SMs: the template of few rows
walks up to that number (`_bounded`), and gives what the definition does in double precision, at the ends of tiles too."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
HEADS, SHARED, KEYS, SIZE = 32, 4, 300, 128  # heads of queries; so many of them have one of keys
LENGTHS = [0, 1, 63, 64, 65, 129, 200, 299, 300]


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def graph():
    n = len(LENGTHS)
    return {"name": "bounded", "opset": 24, "inputs": {"q": tensor("bf16", n, HEADS, 1, SIZE), **{x: tensor("bf16", n, HEADS // SHARED, KEYS, SIZE) for x in "kv"}, "n": tensor("s64", n)},
            "nodes": [{"op": "Attention", "inputs": ["q", "k", "v", "", "", "", "n"], "outputs": ["y"]}], "outputs": ["y"]}


def check_choice(gpu):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph()))
        done = subprocess.run([adlgen, "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", folder], capture_output=True, text=True)
    if done.returncode or "_bounded" not in done.stdout:
        sys.exit(f"{gpu}: exit {done.returncode}, no kernel that is bounded by the loaded number\n{done.stdout}{done.stderr}")


def attend(q, keys, values):
    if not keys:
        return [0.0] * SIZE
    scores = [sum(x * y for x, y in zip(q, k)) / math.sqrt(SIZE) for k in keys]
    weights = [math.exp(s - max(scores)) for s in scores]
    return [sum(w * x for w, x in zip(weights, column)) / sum(weights) for column in zip(*values)]


def check(gpu):
    given, found = runs.run(adlgen, graph(), gpu, [("n", "s64", [len(LENGTHS)], LENGTHS)])
    for b, n in enumerate(LENGTHS):
        for h in (0, 5, HEADS - 1):
            at, first = (b * HEADS + h) * SIZE, (b * (HEADS // SHARED) + h // SHARED) * KEYS
            keys, values = ([given[x][(first + t) * SIZE:(first + t + 1) * SIZE] for t in range(n)] for x in "kv")
            wanted = attend(given["q"][at:at + SIZE], keys, values)
            error = math.sqrt(sum((x - y) ** 2 for x, y in zip(found["y"][at:at + SIZE], wanted)) / (sum(y * y for y in wanted) or 1))
            if not error <= 6e-3:
                sys.exit(f"{gpu}, {n} keys, head {h}: error {error:.2e}")


def check_empty(gpu, size, keys):
    """Without queries nothing is launched, whichever kernel few of them have."""
    given = {"q": tensor("f16", 2, 2, "M", size), **{x: tensor("f16", 2, 2, keys, size) for x in "kv"}, "n": tensor("s64", 2)}
    node = {"op": "Attention", "inputs": ["q", "k", "v", "", "", "", "n"], "outputs": ["y"]}
    whole = {"name": "no_queries", "opset": 24, "inputs": given, "nodes": [node], "outputs": ["y"]}
    _, found = runs.run(adlgen, whole, gpu, [("n", "s64", [2], [keys, 2])], dims={"M": 0})
    if found["y"]:
        sys.exit(f"{gpu}, no queries: {len(found['y'])} results")


for device in ("h100", "a100"):
    check_choice(device)
    check(device)
check_empty("h100", 64, 5)
check_empty("h100", 64, 2100)
print("loaded numbers of keys: right")
