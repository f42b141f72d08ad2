#!/usr/bin/env python3
"""New rows that go into caches in place, against what they are by definition: append.py ADLGEN

AppendRows by slots, of pages and of caches without, some of which are nobody's (below 0; those behind the cache are faults: tests/cli/lists.cmd); from each batch's index on, as
TensorScatter in place has it, also around a cache's end; and attention that reads the cache behind it."""
import math
import pathlib
import random
import sys

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
draw = random.Random(3)
FAR = 1 << 40


def tensor(kind, *shape, **more):
    return {"type": kind, "shape": list(shape), **more}


def run(graph, gpu, given, dims=None):
    return runs.run(adlgen, graph, gpu, given, dims=dims)


def same(what, found, wanted):
    if found != wanted:
        at = next(i for i, (x, y) in enumerate(zip(found, wanted)) if x != y)
        sys.exit(f"{what}: element {at} is {found[at]} in place of {wanted[at]}")


def slots_graph(kind, shape, rest, places, pairs):
    graph = {"name": "slots", "inputs": {"slots": tensor(places, "T")}, "nodes": [], "outputs": [], "in_place": {}}
    names = ["slots"]
    for i in range(pairs):
        graph["inputs"].update({f"c{i}": tensor(kind, *shape, *rest), f"r{i}": tensor(kind, "T", *rest)})
        names += [f"c{i}", f"r{i}"]
        graph["outputs"].append(f"y{i}")
        graph["in_place"][f"y{i}"] = f"c{i}"
    graph["nodes"] = [{"op": "AppendRows", "domain": "adlgen", "inputs": names, "outputs": graph["outputs"]}]
    return graph


def check_slots(gpu, kind, shape, rest, n, places="s32", pairs=1):
    capacity, width = math.prod(shape), math.prod(rest)
    slots = draw.sample(range(capacity), min(n, capacity))
    slots += [-1] * (n - len(slots))
    for i in range(2, n, 5):
        slots[i] = draw.choice([-1, -capacity, -shape[-1]] + ([-FAR] if places == "s64" else []))
    given, found = run(slots_graph(kind, shape, rest, places, pairs), gpu, [("slots", places, [n], slots)], {"T": n})
    for i in range(pairs):
        wanted = list(given[f"c{i}"])
        for t, slot in enumerate(slots):
            if 0 <= slot < capacity:
                wanted[slot * width:(slot + 1) * width] = given[f"r{i}"][t * width:(t + 1) * width]
        same(f"{gpu} {kind} slots of {shape} {rest}, {n} rows", found[f"y{i}"], wanted)


def begins_graph(kind, batches, heads, capacity, rows, size, circular, strides=None):
    cache = tensor(kind, batches, heads, capacity, size, **({"strides": strides} if strides else {}))
    return {"name": "begins", "inputs": {"at": tensor("s64", batches), "c": cache, "r": tensor(kind, batches, heads, rows, size)},
            "nodes": [{"op": "TensorScatter", "inputs": ["c", "r", "at"], "outputs": ["y"], "attributes": {"mode": "circular" if circular else "linear"}}],
            "outputs": ["y"], "in_place": {"y": "c"}}


def check_begins(gpu, kind, batches, heads, capacity, rows, size, begins, circular=False, strides=None):
    given, found = run(begins_graph(kind, batches, heads, capacity, rows, size, circular, strides), gpu, [("at", "s64", [batches], begins)])
    wanted = list(given["c"])
    for b in range(batches):
        for h in range(heads):
            for s in range(rows):
                to = (begins[b] + s) % capacity if circular else begins[b] + s
                if 0 <= to < capacity:
                    at, row = ((b * heads + h) * capacity + to) * size, ((b * heads + h) * rows + s) * size
                    wanted[at:at + size] = given["r"][row:row + size]
    same(f"{gpu} {kind} from {begins} on in {capacity}", found["y"], wanted)


def check_pages(gpu, kind, shape, heads, rows, size, begins, table):
    """shape: of pages, and rows of each. table: [batch][page of a batch], also ones that there are not."""
    batches, (pages, each) = len(begins), shape
    columns = len(table[0])
    graph = {"name": "pages", "inputs": {"at": tensor("s64", batches), "c": tensor(kind, pages, each, heads, size), "r": tensor(kind, batches, rows, heads, size),
                                         "t": tensor("s32", batches, columns)},
             "nodes": [{"op": "AppendRows", "domain": "adlgen", "inputs": ["at", "c", "r", "", "", "t"], "outputs": ["y"], "attributes": {"places": "begins", "axis": 1}}],
             "outputs": ["y"], "in_place": {"y": "c"}}
    given, found = run(graph, gpu, [("at", "s64", [batches], begins), ("t", "s32", [batches, columns], sum(table, []))])
    wanted, width = list(given["c"]), heads * size
    for b in range(batches):
        for s in range(rows):
            to = begins[b] + s
            page = table[b][to // each] if 0 <= to < each * columns else pages
            page += pages if page < 0 else 0
            if 0 <= page < pages:
                at = (page * each + to % each) * width
                wanted[at:at + width] = given["r"][(b * rows + s) * width:(b * rows + s + 1) * width]
    same(f"{gpu} {kind} from {begins} on in pages {table}", found["y"], wanted)


def check_attention(gpu, kind, heads, kv_heads, capacity, size, lengths):
    """A row more for each sequence, and attention of one query over all of them: two launches write and read one cache."""
    batches, lim = len(lengths), {"bf16": 6e-3, "f16": 1.5e-3}[kind]
    cache, row = tensor(kind, batches, kv_heads, capacity, size), tensor(kind, batches, kv_heads, 1, size)
    graph = {"name": "decode", "opset": 25, "inputs": {"q": tensor(kind, batches, heads, 1, size), "k": row, "v": row, "kc": cache, "vc": cache,
                                                       "at": tensor("s64", batches), "n": tensor("s64", batches)},
             "nodes": [{"op": "AppendRows", "domain": "adlgen", "inputs": ["at", "kc", "k", "vc", "v"], "outputs": ["kn", "vn"], "attributes": {"places": "begins"}},
                       {"op": "Attention", "inputs": ["q", "kn", "vn", "", "", "", "n"], "outputs": ["y"]}],
             "outputs": ["y", "kn", "vn"], "in_place": {"kn": "kc", "vn": "vc"}}
    given, found = run(graph, gpu, [("at", "s64", [batches], [n - 1 for n in lengths]), ("n", "s64", [batches], lengths)])
    off = whole = 0.0
    for b in range(batches):
        for h in range(heads):
            at = (b * kv_heads + h // (heads // kv_heads)) * capacity * size
            k, v = ([found[x][at + i * size:at + (i + 1) * size] for i in range(lengths[b])] for x in ("kn", "vn"))
            q = given["q"][(b * heads + h) * size:(b * heads + h + 1) * size]
            scores = [sum(x * y for x, y in zip(q, row)) / math.sqrt(size) for row in k]
            weights = [math.exp(s - max(scores)) for s in scores]
            for e in range(size):
                wanted = sum(w * row[e] for w, row in zip(weights, v)) / sum(weights)
                off += (found["y"][(b * heads + h) * size + e] - wanted)**2
                whole += wanted**2
    if not off <= lim**2 * whole:
        sys.exit(f"{gpu} {kind}: attention behind new rows is off by {math.sqrt(off / whole)}")


for device in ("h100", "a100"):
    check_slots(device, "bf16", [5, 16], [2, 64], 33, pairs=2)
    check_slots(device, "f16", [7, 1], [3, 8], 9, "s64")
    check_slots(device, "f32", [40], [5], 41)
    check_slots(device, "s32", [3, 256], [4], 129, "s64", pairs=2)
    check_slots(device, "bf16", [2, 16], [1, 128], 1)
    check_slots(device, "bf16", [2, 16], [1, 128], 0)
    check_begins(device, "bf16", 3, 2, 40, 5, 64, [0, 35, 31])
    check_begins(device, "f16", 2, 1, 31, 4, 40, [29, -2], circular=True)
    check_begins(device, "f32", 2, 3, 9, 1, 7, [8, 0])
    check_begins(device, "bf16", 2, 2, 33, 2, 64, [0, 31], strides=[33 * 2 * 64, 64, 128, 1])
    check_pages(device, "bf16", [7, 16], 2, 5, 64, [0, 14, 27, 11], [[3, 99], [5, 0], [-1, 2], [1, 4]])
    check_attention(device, "bf16", 4, 2, 200, 64, [1, 129, 200])
print("new rows in caches: right")
