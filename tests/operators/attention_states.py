#!/usr/bin/env python3
"""Sinks, and states of attention that are merged, against their definitions in double precision: attention_states.py ADLGEN

A prefix of keys that sequences share and their own keys, attended apart and merged by MergeStates, have to be attention over all keys; rows
that see nothing of one part, or of both, too. A sink is a score without a value: of each head, or of all (smooth_softmax)."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
LIMITS = {"bf16": 6e-3, "f16": 1.5e-3, "f32": 1e-5}
SCALE = 0.125


def run(graph, gpu, lengths=None):
    return runs.run(adlgen, graph, gpu, [("lengths", "s64", [len(lengths)], lengths)] if lengths else [])


def attend(q, keys, values, sink=None):
    """Result and log-sum-exp of one row."""
    scores = [SCALE * sum(x * y for x, y in zip(q, k)) for k in keys]
    peak = max(scores + ([] if sink is None else [sink]), default=-math.inf)
    weights = [math.exp(s - peak) for s in scores]
    total = sum(weights) + (0.0 if sink is None else math.exp(sink - peak))
    if not scores:
        return [0.0] * len(q), -math.inf if sink is None else sink
    return [sum(w * x for w, x in zip(weights, column)) / total for column in zip(*values)], peak + math.log(total)


def compare(what, kind, found, wanted):
    error = math.sqrt(sum((x - y) ** 2 for x, y in zip(found, wanted)) / sum(y * y for y in wanted))
    if not error <= LIMITS[kind] or len(found) != len(wanted):
        sys.exit(f"{what}: error {error:.2e}, limit {LIMITS[kind]}")
    print(f"{what}: error {error:.2e}")


def compare_sums(what, found, wanted):
    for i, (x, y) in enumerate(zip(found, wanted)):
        if not (x == y or abs(x - y) <= 3e-3):
            sys.exit(f"{what}: log-sum-exp {i} is {x}, not {y}")


def rows(values, at, n, size):
    return [values[at + i * size:at + (i + 1) * size] for i in range(n)]


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def check_merge(gpu, kind, heads, queries, size, parts, lengths):
    """Keys 0 .. parts[0] and the rest, of which `lengths` exist; lengths are of the second part."""
    batches = len(lengths)
    graph = {"name": "merge", "opset": 25, "inputs": {"q": tensor(kind, batches, heads, queries, size), "lengths": tensor("s64", batches)}, "nodes": []}
    for i, n in enumerate(parts):
        for x in "kv":
            graph["inputs"][f"{x}{i}"] = tensor(kind, batches, heads, n, size)
        graph["nodes"].append({"op": "Attention", "domain": "adlgen", "inputs": ["q", f"k{i}", f"v{i}", *(["", "", "", "lengths"] if i else [])], "outputs": [f"y{i}", "", "", "", f"l{i}"],
                               "attributes": {"scale": SCALE}})
    graph["nodes"].append({"op": "MergeStates", "domain": "adlgen", "inputs": ["y0", "l0", "y1", "l1"], "outputs": ["y", "l"]})
    graph["outputs"] = ["y", "l"]
    inputs, outputs = run(graph, gpu, lengths)
    wanted, sums = [], []
    for b in range(batches):
        for h in range(heads):
            k, v = ([row for i, n in enumerate(parts) for row in rows(inputs[f"{x}{i}"], (b * heads + h) * n * size, lengths[b] if i else n, size)] for x in "kv")
            for q in rows(inputs["q"], (b * heads + h) * queries * size, queries, size):
                y, total = attend(q, k, v)
                wanted += y
                sums.append(total)
    compare(f"{gpu}, {kind}, merged {parts}", kind, outputs["y"], wanted)
    compare_sums("merged", outputs["l"], sums)


def check_nothing(gpu):
    """States of which one, the other, and both have seen nothing."""
    none = -math.inf
    a, b = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0, 0.0, 0.0]
    constants = {"a": {**tensor("f32", 1, 1, 3, 2), "data": a}, "b": {**tensor("f32", 1, 1, 3, 2), "data": b}}
    nodes = [{"op": "Log", "inputs": [f"w{x}"], "outputs": [f"l{x}"]} for x in "ab"]  # ln 0 is -infinity
    constants.update({"wa": {**tensor("f32", 1, 1, 3), "data": [1.0, 0.0, 0.0]}, "wb": {**tensor("f32", 1, 1, 3), "data": [0.0, 2.0, 0.0]}})
    nodes.append({"op": "MergeStates", "domain": "adlgen", "inputs": ["a", "la", "b", "lb"], "outputs": ["y", "l"]})
    _, outputs = run({"name": "nothing", "opset": 25, "inputs": {}, "constants": constants, "nodes": nodes, "outputs": ["y", "l"]}, gpu)
    if [round(x, 5) for x in outputs["y"]] != [1, 2, 3, 4, 0, 0] or outputs["l"][2] != none or abs(outputs["l"][1] - math.log(2)) > 1e-5:
        sys.exit(f"states that saw nothing: {outputs}")


def check_launches(gpu, rows, keys, size, lengths=None, **attributes):
    """A sink is a part of the attention's kernel: where rows are few and keys are divided among blocks, where they are many, and where nothing is seen."""
    inputs = {"q": tensor("bf16", 2, 8, rows, size), "k": tensor("bf16", 2, 2, keys, size), "v": tensor("bf16", 2, 2, keys, size), "sink": tensor("bf16" if lengths else "f32", 8)}
    graph = {"name": "sink", "opset": 25, "inputs": inputs, "outputs": ["y", "l"],
             "nodes": [{"op": "Attention", "domain": "adlgen", "inputs": ["q", "k", "v", "", "", "", "n" if lengths else "", "sink"], "outputs": ["y", "", "", "", "l"], "attributes": attributes}]}
    if lengths:
        graph["constants"] = {"n": {**tensor("s64", 2), "data": lengths}}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        subprocess.run([adlgen, "compile", path, "--gpu", gpu, "--out", folder, "--emit", "ir"], check=True, stdout=subprocess.DEVNULL)
        launches = json.loads(pathlib.Path(folder, gpu, "plan.json").read_text())["launches"]
    if len(launches) != 1:
        sys.exit(f"{json.dumps(graph)}\n{gpu}: {len(launches)} launches for one")
    runs.run_batch(str(adlgen), [{"graph": graph, "gpu": gpu}])


def check_sink(gpu, kind, heads, kv_heads, queries, keys, size, operator):
    group, batches = heads // kv_heads, 2
    inputs = {"q": tensor(kind, batches, queries, heads * size), "k": tensor(kind, batches, keys, kv_heads * size), "v": tensor(kind, batches, keys, kv_heads * size), "sink": tensor(kind if operator != "Attention" else "f32", heads)}
    if operator == "Attention":
        node = {"op": "Attention", "domain": "adlgen", "inputs": ["q", "k", "v", "", "", "", "", "sink"], "outputs": ["y", "", "", "", "l"], "attributes": {"q_num_heads": heads, "kv_num_heads": kv_heads, "scale": SCALE}}
    else:
        smooth = operator == "smooth"
        names = ["q", "k", "v"] + ([""] * 8 + ["sink"] if not smooth else [])
        node = {"op": "GroupQueryAttention", "domain": "com.microsoft", "inputs": names, "outputs": ["y"], "attributes": {"num_heads": heads, "kv_num_heads": kv_heads, "scale": SCALE, **({"smooth_softmax": 1} if smooth else {})}}
        if smooth:
            del inputs["sink"]
    values, outputs = run({"name": "sink", "opset": 25, "inputs": inputs, "nodes": [node], "outputs": [x for x in node["outputs"] if x]}, gpu)
    wanted, sums = [0.0] * len(outputs["y"]), [0.0] * (batches * heads * queries)
    for b in range(batches):
        for h in range(heads):
            k, v = ([values[x][at:at + size] for at in (((b * keys + i) * kv_heads + h // group) * size for i in range(keys))] for x in "kv")
            sink = 0.0 if operator == "smooth" else values["sink"][h]
            for m in range(queries):
                at, seen = ((b * queries + m) * heads + h) * size, keys if operator == "Attention" else m + 1
                wanted[at:at + size], sums[(b * heads + h) * queries + m] = attend(values["q"][at:at + size], k[:seen], v[:seen], sink)
    compare(f"{gpu}, {kind}, sink, {operator}", kind, outputs["y"], wanted)
    if "l" in outputs:
        compare_sums("sink", outputs["l"], sums)


def check_numbers(gpu, rows):
    """A sink of -infinity is none, very negative and very large ones keep the sums' digits; numbers beyond 32 bits, which are known, hide all keys or none."""
    inputs = {"q": tensor("bf16", 1, 4, rows, 64), "k": tensor("bf16", 1, 2, 34, 64), "v": tensor("bf16", 1, 2, 34, 64)}
    tests = []
    for given, place, attributes in [({**tensor("f32", 4), "data": ["-inf", -1e30, 80, 3e38]}, 7, {}), *(({**tensor("s64", 1), "data": [past]}, 8, {"is_causal": 1}) for past in (2**33, 2**31 - 1, -2**31 - 1)), ({**tensor("s64", 1), "data": [7]}, 8, {"left_window_size": 2**40, "right_window_size": 2**63 - 1})]:
        names = ["q", "k", "v"] + [""] * (place - 3) + ["x"]
        node = {"op": "Attention", "domain": "adlgen", "inputs": names, "outputs": ["y", "", "", "", "l"], "attributes": attributes}
        tests.append({"graph": {"name": "numbers", "opset": 25, "inputs": inputs, "constants": {"x": given}, "outputs": ["y", "l"], "nodes": [node]}, "gpu": gpu})
    if rows == 5:
        node = {**node, "inputs": ["q", "k", "v", "", "", "", "n", "x"], "attributes": {}}
        nothing = {"n": {**tensor("s64", 1), "data": [0]}, "x": {**tensor("f32", 4), "data": ["-inf"] * 4}}
        tests.append({"graph": {"name": "nothing", "opset": 25, "inputs": inputs, "constants": nothing, "outputs": ["y", "l"], "nodes": [node]}, "gpu": gpu})
    runs.run_batch(str(adlgen), tests)


for device in ("h100", "a100"):
    check_merge(device, "bf16", 2, 1, 64, (128, 65), (65, 0, 1))
    check_merge(device, "f16", 1, 63, 64, (64, 129), (129, 127))
    check_nothing(device)
    check_sink(device, "bf16", 4, 2, 3, 70, 64, "Attention")
    check_sink(device, "f16", 2, 1, 65, 65, 64, "GroupQueryAttention")
    check_sink(device, "bf16", 2, 2, 33, 33, 64, "smooth")
    check_launches(device, 1, 300, 64, [0, 300])
    check_launches(device, 129, 131, 72, is_causal=1, left_window_size=31)
    check_numbers(device, 5 if device == "h100" else 1)
