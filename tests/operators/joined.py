#!/usr/bin/env python3
"""joined.py ADLGEN: attention of one row a sequence whose kernel puts the new row into the cache, on the simulator against double precision:
where rows stand, whether keys are divided among blocks, groups of heads, masks, caches in any order, rows that have no place in the cache.
Each graph that may be is one launch; others keep AppendRows."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from runs import run_batch

ADLGEN = pathlib.Path(sys.argv[1]).resolve()
GPUS = ["h100", "a100"]
# Rows without a place are faults only where somebody gives them: then nothing is stored, and the rest is as it was.
CLAMPED = "bounds,alignment,undefined,race,proxy,proxy-war,wgmma,mbarrier,bulk,cluster,barrier,deadlock,registers,convergence,trap,limit"


def step(places, heads, own, capacity, d, kind="bf16", lengths=None, order="hnd", align=16, sums=False, launches=1, front=False, **attributes):
    """order: of the caches in memory, [batch, heads, rows, size] in the graph. front: places are computed, not given."""
    batches = len(places)
    steps = {"hnd": (own * capacity, capacity, 1), "nhd": (own * capacity, 1, own), "interleaved": (2 * own * capacity, 1, 2 * own),
             "odd": (own * (capacity * 3 + 1), capacity * 3 + 1, 3)}[order]
    inputs = {"q": {"type": kind, "shape": [batches, heads, 1, d], "align": align}}
    for name in "kv":
        inputs[name + "c"] = {"type": kind, "shape": [batches, own, capacity, d], "align": align, "strides": [s * d for s in steps] + [1]}
        inputs[name] = {"type": kind, "shape": [batches, own, 1, d], "align": align}
    constants = {"past": {"type": "s64", "shape": [batches], "data": places}}
    names = ["q", "kn", "vn", "", "", "", "", "", "past"]
    if lengths:
        constants["n"] = {"type": "s64", "shape": [batches], "data": lengths}
        names[6] = "n"
    outputs = ["y", "", "", "", "l"] if sums else ["y"]
    nodes = [{"op": "AppendRows", "domain": "adlgen", "inputs": ["past", "kc", "k", "vc", "v"], "outputs": ["kn", "vn"], "attributes": {"places": "begins"}},
             {"op": "Attention", "domain": "adlgen", "inputs": names, "outputs": outputs, "attributes": {"is_causal": 1, **attributes}}]
    if front:  # a number that nobody knows before
        constants.update({"none": {"type": "s64", "shape": [], "data": 0}, "first": constants.pop("past")})
        inputs["some"] = {"type": "s64", "shape": [batches]}
        nodes = [{"op": "Mul", "inputs": ["some", "none"], "outputs": ["nothing"]}, {"op": "Add", "inputs": ["nothing", "first"], "outputs": ["past"]}] + nodes
    return {"name": "joined", "inputs": inputs, "constants": constants, "nodes": nodes, "outputs": ["kn", "vn", *filter(None, outputs)],
            "in_place": {"kn": "kc", "vn": "vc"}}, launches


def beside(graph, launches, name, kind, shape):
    """With slopes of heads, a sink, or a mask that is added."""
    graph["inputs"][name] = {"type": kind, "shape": shape}
    names = graph["nodes"][-1]["inputs"]
    names += [""] * (10 - len(names))
    names[{"slopes": 9, "sink": 7, "mask": 3}[name]] = name
    return graph, launches


def narrow(stored, scales, places, heads, own, capacity, d, launches=1, **more):
    """Caches of 8 bits, and rows that have been quantised."""
    graph, _ = step(places, heads, own, capacity, d, **more)
    kind = graph["inputs"]["q"]["type"]
    for x in "kv":
        for name in (x, x + "c"):
            graph["inputs"][name]["type"] = stored
        node = {"op": "Cast", "inputs": [x + "n"], "outputs": [x + "w"], "attributes": {"to": {"bf16": 16, "f16": 10}[kind]}}
        if scales:
            graph["inputs"][x + "s"] = {"type": kind, "shape": {"one": [], "head": [own], "token": [len(places), own, capacity, 1]}[scales]}
            attributes = {"one": {}, "head": {"axis": 1}, "token": {"axis": 3, "block_size": d}}[scales]
            node = {"op": "DequantizeLinear", "inputs": [x + "n", x + "s"], "outputs": [x + "w"], "attributes": attributes}
        graph["nodes"].insert(1, node)
    graph["nodes"][-1]["inputs"][1:3] = ["kw", "vw"]
    return graph, launches


def viewed(name, op, shape, launches, more=(), **attributes):
    """The new rows, or what else is called so, are a view of a tensor of this shape."""
    graph, _ = step([50, 3], 4, 2, 100, 64)
    given, lists = graph["inputs"].pop(name), []
    graph["inputs"]["whole"] = {**given, "shape": shape}
    for i, values in enumerate([given["shape"]] if op == "Expand" else more):
        graph["constants"][f"n{i}"] = {"type": "s64", "shape": [len(values)], "data": values}
        lists.append(f"n{i}")
    graph["nodes"].insert(0, {"op": op, "inputs": ["whole", *lists], "outputs": [name], "attributes": attributes})
    return graph, launches


def one_cache(rows, capacity, place):
    """Several batches of queries read the one cache."""
    own = {"kc": capacity, "vc": capacity, "k": 1, "v": 1}
    inputs = {"q": {"type": "bf16", "shape": [3, 2, rows, 64]}, **{name: {"type": "bf16", "shape": [1, 2, n, 64]} for name, n in own.items()}}
    inputs["some"] = {"type": "s32", "shape": [1]}
    constants = {"low": {"type": "bf16", "shape": [], "data": -3e38}, "scale": {"type": "bf16", "shape": [], "data": 0.125},
                 "none": {"type": "s32", "shape": [], "data": 0}, "first": {"type": "s32", "shape": [1], "data": [place]}}
    nodes = [{"op": "Mul", "inputs": ["some", "none"], "outputs": ["nothing"]},
             {"op": "Add", "inputs": ["nothing", "first"], "outputs": ["past"]},
             {"op": "AppendRows", "domain": "adlgen", "inputs": ["past", "kc", "k", "vc", "v"], "outputs": ["kn", "vn"], "attributes": {"places": "begins"}},
             {"op": "Transpose", "inputs": ["kn"], "outputs": ["kt"], "attributes": {"perm": [0, 1, 3, 2]}},
             {"op": "MatMul", "inputs": ["q", "kt"], "outputs": ["products"]},
             {"op": "Mul", "inputs": ["products", "scale"], "outputs": ["s"]},
             {"op": "IndexAlong", "domain": "adlgen", "inputs": ["s"], "outputs": ["key"], "attributes": {"axis": -1}},
             {"op": "LessOrEqual", "inputs": ["key", "past"], "outputs": ["seen"]},
             {"op": "Where", "inputs": ["seen", "s", "low"], "outputs": ["scores"]},
             {"op": "Softmax", "inputs": ["scores"], "outputs": ["p"]},
             {"op": "MatMul", "inputs": ["p", "vn"], "outputs": ["y"]}]
    return {"name": "one_cache", "inputs": inputs, "constants": constants, "nodes": nodes, "outputs": ["kn", "vn", "y"],
            "in_place": {"kn": "kc", "vn": "vc"}}, 3


def paged(places, heads, own, rows, columns, d, kind="bf16", order="nhd", lengths=None, table=None, stored=None, sums=False, new=1, launches=1, **attributes):
    """Caches in pages, of which a table says whose they are: in any order, and some are nobody's. table: what it says instead, from its beginning on."""
    batches, spare = len(places), 3
    pages = batches * columns + spare
    inputs = {"q": {"type": kind, "shape": [batches, heads, new, d]}}
    for name in "kv":
        inputs[name + "c"] = {"type": stored or kind, "shape": [pages, rows, own, d] if order == "nhd" else [pages, own, rows, d]}
        inputs[name] = {"type": stored or kind, "shape": [batches, new, own, d] if order == "nhd" else [batches, own, new, d]}
    whose = random.Random(3).sample(range(pages), batches * columns)
    whose[:len(table or [])] = table or []
    constants = {"past": {"type": "s64", "shape": [batches], "data": places}, "table": {"type": "s32", "shape": [batches, columns], "data": whose},
                 "shape": {"type": "s64", "shape": [4], "data": [batches, columns * rows, own, d]}}
    nodes = [{"op": "AppendRows", "domain": "adlgen", "inputs": ["past", "kc", "k", "vc", "v", "table"], "outputs": ["kn", "vn"],
              "attributes": {"places": "begins", "axis": 1 if order == "nhd" else 2}}]
    for x in "kv":
        turned = order != "nhd"
        nodes += [{"op": "Transpose", "inputs": [x + "n"], "outputs": [x + "t"], "attributes": {"perm": [0, 2, 1, 3]}}] if turned else []
        nodes += [{"op": "Gather", "inputs": [x + ("t" if turned else "n"), "table"], "outputs": [x + "g"]}, {"op": "Reshape", "inputs": [x + "g", "shape"], "outputs": [x + "r"]},
                  {"op": "Transpose", "inputs": [x + "r"], "outputs": [x + "h"], "attributes": {"perm": [0, 2, 1, 3]}}]
        if stored:
            inputs[x + "s"] = {"type": kind, "shape": []}
            nodes += [{"op": "DequantizeLinear", "inputs": [x + "h", x + "s"], "outputs": [x + "w"]}]
    names = ["q", *(("kw", "vw") if stored else ("kh", "vh")), "", "", "", "", "", "past"]
    if lengths:
        constants["n"] = {"type": "s64", "shape": [batches], "data": lengths}
        names[6] = "n"
    outputs = ["y", "", "", "", "l"] if sums else ["y"]
    nodes += [{"op": "Attention", "domain": "adlgen", "inputs": names, "outputs": outputs, "attributes": {"is_causal": 1, **attributes}}]
    return {"name": "paged", "inputs": inputs, "constants": constants, "nodes": nodes, "outputs": ["kn", "vn", *filter(None, outputs)],
            "in_place": {"kn": "kc", "vn": "vc"}}, launches


def cases():
    yield step([0, 63, 64, 65, 99], 4, 2, 100, 64)
    yield step([0, 127, 699], 4, 1, 700, 128, sums=True)  # keys are divided among blocks
    yield step([870, 3], 3, 3, 900, 64, kind="f16", lengths=[871, 2], left_window_size=100)  # a row that is not seen
    yield step([1, 69], 33, 1, 70, 72, kind="f16")
    yield step([1, 69], 8, 1, 70, 256, sums=True)
    for order, align in (("nhd", 16), ("interleaved", 16), ("odd", 16), ("hnd", 2)):
        yield step([0, 50, 99], 4, 2, 100, 64, order=order, align=align)
    for capacity, place in ((64, 0), (64, 63), (64, -1), (1500, 1499), (1500, 1500)):
        yield step([place], 4, 2, capacity, 64, front=True, launches=2)
    yield step([-1, 64, 1 << 40, -(1 << 40)], 4, 2, 64, 64)
    yield step([0, 127, 699], 4, 1, 700, 128, softcap=5.0, sums=True)
    yield beside(*step([0, -1, 69], 4, 2, 70, 64), "slopes", "f32", [4])
    yield beside(*step([0, 127, 699], 4, 2, 700, 64), "mask", "bf16", [3, 4, 1, 700])  # of the new row what the mask says at its place
    yield beside(*step([1, -7, 70], 8, 8, 70, 72, softcap=4.0), "mask", "bf16", [1, 1, 1, 70])
    yield beside(*step([0, 63, 64, 99], 4, 2, 100, 64, sums=True), "sink", "f32", [4])
    yield narrow("e4m3", "one", [0, 63, 64, 65, 99], 4, 2, 100, 64)
    yield narrow("e4m3", "head", [0, 127, 699], 4, 1, 700, 128, sums=True)
    yield narrow("s8", "one", [0, 127, 699], 8, 4, 700, 128, kind="f16")
    yield narrow("e4m3", None, [1, -1, 1 << 40], 4, 2, 70, 64, kind="f16")
    yield narrow("s8", "head", [0, 50, 99], 4, 2, 100, 64, align=2)
    yield narrow("e5m2", "one", [0, 50, 99], 4, 2, 100, 64, order="odd", softcap=4.0)
    yield narrow("e4m3", "token", [1, 50], 4, 2, 70, 64, launches=2)
    yield viewed("k", "Expand", [2, 1, 1, 64], 1)  # heads, or batches, share the new row
    yield viewed("v", "Expand", [1, 2, 1, 64], 1)
    yield viewed("q", "Expand", [2, 1, 1, 64], 1)
    yield paged([0, 1, 63, 64, 65, 127], 4, 2, 64, 3, 64)
    yield paged([0, 15, 16, 17, 40, -1, 48, 1 << 40], 4, 2, 16, 3, 64, kind="f16")
    yield paged([700, 3, 0], 8, 2, 64, 12, 128, order="hnd", sums=True)  # keys are divided among blocks
    yield paged([4, 8, 31], 3, 3, 1, 32, 72)
    yield paged([70, 3], 4, 2, 64, 2, 64, lengths=[71, 2], left_window_size=20)  # a row that is not seen
    yield paged([64, 0], 4, 2, 64, 3, 64, table=[2, -1, 1 << 30, 4, -(1 << 30), 99])  # pages from the end on; what is behind a sequence's end is not looked at
    yield paged([200, 3, 128], 8, 2, 128, 4, 128, stored="e4m3")
    yield paged([60, 3, -3], 4, 2, 64, 3, 64, new=5, launches=2)  # rows in front of the first page are nowhere
    # what keeps a launch of its own
    yield viewed("k", "Transpose", [2, 64, 2, 1], 2, perm=[0, 2, 3, 1])
    yield viewed("v", "Slice", [2, 2, 1, 128], 2, more=[[0], [128], [3], [2]])
    yield viewed("k", "Expand", [2, 2, 1, 1], 2)
    yield one_cache(1, 100, 50)
    yield one_cache(5, 1500, 1499)
    yield step([1, 69], 71, 1, 70, 64, launches=2)
    yield step([1, 69], 128, 1, 70, 64, launches=2)
    yield step([1, 69], 4, 1, 70, 512, launches=2)
    yield step([1, 69], 2, 1, 70, 64, kind="f32", launches=None)


def count_launches(graph, gpu):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "g.json")
        path.write_text(json.dumps(graph))
        subprocess.run([ADLGEN, "compile", path, "--gpu", gpu, "--out", folder, "--emit", "ir"], check=True, stdout=subprocess.DEVNULL)
        return len(json.loads(pathlib.Path(folder, gpu, "plan.json").read_text())["launches"])


lines = []
# --set cannot divide a head's columns where one block stores the new row; numbers of a kernel that writes them one behind the other are copied.
graph, _ = step([49, 1], 8, 2, 50, 64)
lines += [{"label": "columns", "graph": graph, "gpu": "h100", "set": ["columns=2"]}]
# Pages that are gathered first, as a producer has no registers for their numbers.
lines += [{"label": "lone rows", "graph": paged([7, 0, 40], 4, 2, 1, 48, 64, stored="e4m3")[0], "gpu": "h100"}]
nodes = [{"op": "TallyKeys", "domain": "adlgen", "inputs": ["k"], "outputs": ["c"], "attributes": {"experts": 8, "part": 64}},
         {"op": "Concat", "inputs": ["x", "c"], "outputs": ["z"], "attributes": {"axis": 1}}]
inputs = {"k": {"type": "s32", "shape": [150, 2]}, "x": {"type": "s32", "shape": [5, 1]}}
lines += [{"label": "tally", "graph": {"name": "tally", "inputs": inputs, "nodes": nodes, "outputs": ["z"]}, "gpu": "h100"}]
for i, (graph, launches) in enumerate(cases()):
    gpu = GPUS[i % len(GPUS)]
    found = count_launches(graph, gpu) if launches else None
    if found != launches:
        sys.exit(f"{json.dumps(graph)}\n{found} launches for {launches} on {gpu}")
    lines += [{"label": f"{i}", "graph": graph, "gpu": gpu, "checkers": CLAMPED}]
run_batch(sys.argv[1], lines)
