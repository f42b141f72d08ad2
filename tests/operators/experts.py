#!/usr/bin/env python3
"""Route, Permute, Combine and a layer of experts made of them, against their definitions in double precision: experts.py ADLGEN

Experts, ends, sources and places are exact; choices of nobody, experts that nobody chose, groups that begin at multiples, no tokens at all."""
import functools
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import runs

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=7)


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def node(op, inputs, outputs, domain="adlgen", **attributes):
    return {"op": op, "domain": domain, "inputs": inputs, "outputs": outputs, "attributes": attributes}


def same(what, found, wanted):
    if list(found) != list(wanted):
        at = next((i for i, (x, y) in enumerate(zip(found, wanted)) if x != y), "length")
        sys.exit(f"{what}: differs at {at}: {list(found)[:40]} in place of {list(wanted)[:40]}")


def close(what, found, wanted, limit):
    error = math.sqrt(sum((x - y) ** 2 for x, y in zip(found, wanted)) / max(sum(y * y for y in wanted), 1e-30))
    if len(found) != len(wanted) or not error <= limit:
        sys.exit(f"{what}: error {error:.2e}, limit {limit}")


# ---- definitions ----

def route(logits, bias, k, scoring="softmax", n_group=1, topk_group=0, group_score="max", normalize=0, factor=1.0):
    top = max(logits)
    if scoring == "sigmoid":
        scores = [1 / (1 + math.exp(-x)) for x in logits]
    else:
        total = sum(math.exp(x - top) for x in logits)
        scores = [math.exp(x - top) / total for x in logits]
    judged = [s + b for s, b in zip(scores, bias)] if bias else scores
    each = len(logits) // n_group
    if topk_group:
        groups = [sum(sorted(judged[g * each:(g + 1) * each])[-(2 if group_score == "top2" else 1):]) for g in range(n_group)]
        kept = sorted(range(n_group), key=lambda g: (-groups[g], g))[:topk_group]
        judged = [x if i // each in kept else -math.inf for i, x in enumerate(judged)]
    chosen = sorted(range(len(logits)), key=lambda e: (-judged[e], e))[:k]
    weights = [scores[e] for e in chosen]
    divisor = sum(weights) + 1e-20 if normalize else 1.0
    return chosen, [w / divisor * factor for w in weights]


def permute(chosen, k, experts, align):
    ends, place, end = [], [-1] * len(chosen), 0
    rows = len(chosen) if align == 1 else -(-(len(chosen) + experts * (align - 1)) // align) * align
    source = [-1] * rows
    for e in range(experts):
        end = -(-end // align) * align
        for i, c in enumerate(chosen):
            if c == e:
                place[i], source[end] = end, i // k
                end += 1
        ends.append(end)
    return ends, source, place


# ---- checks ----

def check_route(gpu, tokens, experts, bias, values=None, **attributes):
    """values: of the bias."""
    inputs = {"l": tensor("f32", tokens, experts), **({"b": tensor("f32", experts)} if bias else {})}
    graph = {"name": "route", "inputs": inputs, "nodes": [node("Route", list(inputs), ["e", "w"], **attributes)], "outputs": ["e", "w"]}
    given, found = run(graph, gpu, [("b", "f32", [experts], values)] if values else ())
    if values:
        given["b"] = values
    wanted = [route(given["l"][t * experts:(t + 1) * experts], given.get("b"), **attributes) for t in range(tokens)]
    same(f"{gpu} Route {attributes}", found["e"], [e for chosen, _ in wanted for e in chosen])
    close(f"{gpu} Route {attributes}, weights", found["w"], [w for _, weights in wanted for w in weights], 1e-5)


def check_no_numbers(gpu, **attributes):
    """Logits that are NaN or infinite: experts exist, and are none twice."""
    tokens, experts, k = 4, 64, 6
    logits = [math.nan] * experts + [-math.inf] * experts + [math.nan, math.inf] * (experts // 2) + [-math.inf] * (experts - 2) + [1.0, math.nan]
    graph = {"name": "numbers", "inputs": {"l": tensor("f32", tokens, experts)}, "nodes": [node("Route", ["l"], ["e", "w"], k=k, **attributes)], "outputs": ["e", "w"]}
    _, found = run(graph, gpu, [("l", "f32", [tokens, experts], logits)])
    for t in range(tokens):
        chosen = found["e"][t * k:(t + 1) * k]
        if len(set(chosen)) != k or not all(0 <= e < experts for e in chosen):
            sys.exit(f"{gpu} Route {attributes}: experts {chosen} of logits that are no numbers")


def check_permute(gpu, kind, chosen, k, experts, align, most=None, turned=False):
    """most: of tokens, of which there are an open number; 0: of which nothing is known. turned: choices lie behind one another."""
    shape = [len(chosen) // k, k]
    graph = {"name": "permute", "inputs": {"e": tensor(kind, *(shape if most is None else ["T", k]))},
             "nodes": [node("Permute", ["e"], ["ends", "source", "place"], experts=experts, align=align)], "outputs": ["ends", "source", "place"]}
    if turned:
        graph["inputs"]["e"]["strides"] = [1, shape[0]]
    if most:
        graph["dims"] = {"T": {"min": 0, "max": most}}
    _, found = run(graph, gpu, [("e", kind, shape, chosen)], dims=None if most is None else {"T": shape[0]})
    for name, values in zip(("ends", "source", "place"), permute(chosen, k, experts, align)):
        same(f"{gpu} Permute of {len(chosen)}, {experts} experts, align {align}: {name}", found[name], values)


def check_hostile(gpu, counts):
    """Counts of parts that are wrong: rows are, too, and may be several choices', but nothing else is written, which the simulator sees to."""
    graph = {"name": "hostile", "inputs": {"e": tensor("s32", 300, 2), "c": tensor("s32", 5, 7)},
             "nodes": [node("PlaceKeys", ["e", "c"], ["place", "ends", "source"], experts=7, align=16, part=128)], "outputs": ["place", "ends", "source"]}
    chosen = [random.Random(4).randrange(-1, 8) for _ in range(600)]
    run(graph, gpu, [("e", "s32", [300, 2], chosen), ("c", "s32", [5, 7], counts)], words=["--checkers", "bounds"])


def layer(tokens, experts, hidden, width, align, **attributes):
    inputs = {"x": {**tensor("bf16", tokens, hidden), "align": 16}, "l": tensor("f32", tokens, experts), "gate": {**tensor("bf16", experts, width, hidden), "align": 16},
              "up": {**tensor("bf16", experts, width, hidden), "align": 16}, "down": {**tensor("bf16", experts, hidden, width), "align": 16}}
    groups = {"groups": "ends", "align": align, "transB": 1}
    nodes = [node("Route", ["l"], ["e", "w"], **attributes), node("Permute", ["e"], ["ends", "source", "place"], experts=experts, align=align),
             node("Gather", ["x", "source"], ["rows"], "", axis=0), node("GroupedMatMul", ["rows", "gate", "ends"], ["g"], **groups), node("GroupedMatMul", ["rows", "up", "ends"], ["u"], **groups),
             node("Swish", ["g"], ["s"], ""), node("Mul", ["s", "u"], ["h"], ""), node("GroupedMatMul", ["h", "down", "ends"], ["d"], **groups), node("Combine", ["d", "place", "w"], ["y"])]
    return {"name": "experts", "opset": 24, "inputs": inputs, "nodes": nodes, "outputs": ["y", "e", "w"]}


def product(matrix, vector):
    n = len(vector)
    return [sum(a * b for a, b in zip(matrix[i:i + n], vector)) for i in range(0, len(matrix), n)]


def check_layer(gpu, tokens, experts, hidden, width, align, **attributes):
    given, found = run(layer(tokens, experts, hidden, width, align, **attributes), gpu)
    wanted, k, each = [0.0] * (tokens * hidden), attributes["k"], width * hidden
    for t in range(tokens):
        x = given["x"][t * hidden:(t + 1) * hidden]
        chosen, weights = route(given["l"][t * experts:(t + 1) * experts], None, **attributes)
        same(f"{gpu} layer, experts of {t}", found["e"][t * k:(t + 1) * k], chosen)
        for e, w in zip(chosen, weights):
            gate, up = (product(given[name][e * each:(e + 1) * each], x) for name in ("gate", "up"))
            down = product(given["down"][e * each:(e + 1) * each], [a / (1 + math.exp(-a)) * b for a, b in zip(gate, up)])
            for i, value in enumerate(down):
                wanted[t * hidden + i] += w * value
    close(f"{gpu} layer of {experts} experts, align {align}", found["y"], wanted, 1e-2)


def count_launches(gpu, wanted, graph):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        subprocess.run([pathlib.Path(sys.argv[1]).resolve(), "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", folder], check=True, capture_output=True)
        launches = json.loads(pathlib.Path(folder, gpu, "plan.json").read_text())["launches"]
    if len(launches) != wanted:
        sys.exit(f"{gpu} {graph['name']}: {len(launches)} launches in place of {wanted}")


draw = random.Random(3)
for device in ("h100", "a100"):
    check_route(device, 5, 16, False, k=2, normalize=1)
    check_route(device, 7, 33, False, k=5, normalize=1, factor=1.5)
    check_route(device, 4, 24, False, k=3, scoring="sigmoid", normalize=1)
    check_route(device, 3, 64, True, k=6, scoring="sigmoid", n_group=8, topk_group=3, group_score="top2", normalize=1, factor=2.5)
    check_route(device, 2, 40, False, k=4, n_group=5, topk_group=2)
    check_route(device, 3, 256, True, k=8, scoring="sigmoid", n_group=8, topk_group=4, group_score="top2", normalize=1, factor=2.5)
    check_route(device, 3, 64, True, k=8, n_group=16, topk_group=3)
    check_route(device, 2, 600, False, k=3)  # more than are looked through
    check_route(device, 3, 32, False, k=9, scoring="sigmoid")
    check_route(device, 3, 16, True, [-math.inf, -math.inf, 0.5] + [-math.inf] * 13, k=4, scoring="sigmoid")  # one expert is left
    check_route(device, 3, 16, True, [-math.inf] * 11 + [0.5] + [-math.inf] * 4, k=3, n_group=4, topk_group=2, group_score="top2")
    for further in {}, {"scoring": "sigmoid", "normalize": 1}, {"n_group": 8, "topk_group": 4, "group_score": "top2"}:
        check_no_numbers(device, **further)
    check_permute(device, "s32", [0, 3, 3, 1, 0, 3], 2, 4, 1)
    check_permute(device, "s64", [6, -1, 2, 7, 2, 2, 0, 6, 9], 3, 7, 4)  # experts 7, 9 and -1 are nobody
    check_permute(device, "s32", [5] * 130 + [0, 4], 1, 6, 64)
    check_permute(device, "s32", [], 2, 3, 1)
    drawn = [draw.choice([0, 1, 1, 4, 11, 11, 11, 12, -1, 40]) for _ in range(8 * 130)]
    check_permute(device, "s32", drawn, 8, 13, 16, most=32768)
    check_permute(device, "s32", drawn[:93], 3, 12, 1, most=64)
    check_permute(device, "s32", drawn[:40], 8, 12, 8, most=0)  # indices of 64 bits
    check_permute(device, "s32", [], 8, 13, 16, most=4096)
    check_permute(device, "s32", drawn[:60], 6, 13, 4, turned=True)
    for experts in (1, 1000, 1024, 1025):  # the last ones are sorted
        check_permute(device, "s32", [draw.randrange(-1, experts + 1) for _ in range(300)], 3, experts, 4)
    many = [draw.randrange(-1, 34) for _ in range(8 * 1031)]  # in parts, by several blocks
    check_permute(device, "s32", many, 8, 33, 1)
    check_permute(device, "s64", many, 8, 33, 128)
    check_permute(device, "s32", [7] * 8193, 1, 33, 1)
    for counts in ([2**31 - 1] * 35, [-5] * 35, [1000, 0, -2**31] * 11 + [3, 3], [10**6] + [-10**6] * 34):
        check_hostile(device, counts)
    check_layer(device, 9, 4, 64, 32, 1, k=2, normalize=1)
    check_layer(device, 5, 12, 64, 32, 8, k=8, normalize=1)
    count_launches(device, 6, layer(64, 256, 256, 128, 1, k=8, normalize=1))
    count_launches(device, 6, layer(64, 256, 256, 128, 1, k=8, scoring="sigmoid", n_group=8, topk_group=4, group_score="top2", normalize=1, factor=2.5))
check_layer("h100", 5, 8, 32, 16, 64, k=3, scoring="sigmoid", n_group=4, topk_group=2)
print("layers of experts: right")
