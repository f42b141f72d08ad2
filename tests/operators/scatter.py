#!/usr/bin/env python3
"""ScatterND of whole parts, and ScatterElements of many updates, against their definition: the last of several updates stays, or they are combined in their order, indices
count from either end, those outside update nothing: scatter.py ADLGEN"""
import functools
import pathlib
import random
import sys

import runs

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=11)
draw = random.Random(5)


def volume(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


def wrapped(x):
    return x if isinstance(x, float) else (x + 2**31) % 2**32 - 2**31


COMBINED = {"none": lambda x, u: u, "add": lambda x, u: wrapped(x + u), "mul": lambda x, u: wrapped(x * u), "max": max, "min": min}
CLOSE = {"f32": 2e-6, "f16": 2e-3, "bf16": 1e-2}  # of the largest result: sums are rounded once


def are_close(kind, reduction, found, wanted):
    if kind not in CLOSE or reduction not in ("add", "mul"):
        return found == wanted
    limit = CLOSE[kind] * max(1, *map(abs, wanted))
    return all(abs(x - y) <= limit for x, y in zip(found, wanted))


def scatter(data, shape, indices, told, updates, reduction="none"):
    """Lists of `told` indices, one behind the other, and as many parts of updates."""
    combine = COMBINED[reduction]
    inner, result = volume(shape[told:]), list(data)
    for j in range(len(indices) // told):
        place = 0
        for d in range(told):
            index = indices[j * told + d]
            index += shape[d] if index < 0 else 0
            if not 0 <= index < shape[d]:
                break
            place = place * shape[d] + index
        else:
            for i in range(inner):
                result[place * inner + i] = combine(result[place * inner + i], updates[j * inner + i])
    return result


def node(op, reduction):
    given = {"attributes": {"reduction": reduction}} if reduction != "none" else {}
    return {"op": op, "inputs": ["x", "i", "u"], "outputs": ["y"], **given}


def check(gpu, kind, shape, lists, told, is_open=False, reduction="none", of_one=None):
    """lists: shape of the updates without the parts'; of_one: all updates are of this index."""
    indices = [draw.randrange(-shape[d] - 1, shape[d] + 1) if of_one is None else of_one for _ in range(volume(lists)) for d in range(told)]
    named = ["S", *shape[1:]] if is_open else shape
    tensor = lambda kind, shape: {"type": kind, "shape": shape}
    inputs = {"x": tensor(kind, named), "i": tensor("s64", [*(["J", *lists[1:]] if is_open else lists), told]),
              "u": tensor(kind, [*(["J", *lists[1:]] if is_open else lists), *named[told:]])}
    graph = {"name": "scatter", "inputs": inputs, "outputs": ["y"],
             "nodes": [node("ScatterND", reduction)]}
    given, found = run(graph, gpu, [("i", "s64", [*lists, told], indices)], dims={"S": shape[0], "J": lists[0]} if is_open else None)
    wanted = scatter(given["x"], shape, indices, told, given["u"], reduction)
    if not are_close(kind, reduction, found["y"], wanted):
        at = max(range(len(wanted)), key=lambda i: abs(found["y"][i] - wanted[i]))
        sys.exit(f"{gpu} {kind} {shape} {lists} {told} {reduction}: element {at} is {found['y'][at]} in place of {wanted[at]}")


def check_elements(gpu, kind, shape, updates, reduction="none", repeated=False):
    """ScatterElements along axis 0; repeated: by an Expand of one index a row."""
    each = volume(updates[1:])
    indices = [draw.randrange(-shape[0] - 1, shape[0] + 1) for _ in range(volume(updates))]
    tensor = lambda kind, shape: {"type": kind, "shape": shape}
    graph = {"name": "scatter", "inputs": {"x": tensor(kind, shape), "i": tensor("s64", updates), "u": tensor(kind, updates)}, "outputs": ["y"],
             "nodes": [node("ScatterElements", reduction)]}
    if repeated:
        rows = [updates[0]] + [1] * (len(updates) - 1)
        indices = [index for index in indices[:updates[0]] for _ in range(each)]
        graph["inputs"]["rows"] = tensor("s64", rows)
        del graph["inputs"]["i"]
        graph["constants"] = {"shape": {"type": "s64", "shape": [len(updates)], "data": updates}}
        graph["nodes"].insert(0, {"op": "Expand", "inputs": ["rows", "shape"], "outputs": ["i"]})
        given, found = run(graph, gpu, [("rows", "s64", rows, indices[::each])])
    else:
        given, found = run(graph, gpu, [("i", "s64", updates, indices)])
    wanted = list(given["x"])
    for j, index in enumerate(indices):
        row, place = index + (shape[0] if index < 0 else 0), 0
        for d in range(1, len(shape)):
            place = place * shape[d] + j % each // volume(updates[d + 1:]) % updates[d]
        if 0 <= row < shape[0]:
            at = row * volume(shape[1:]) + place
            wanted[at] = COMBINED[reduction](wanted[at], given["u"][j])
    if not are_close(kind, reduction, found["y"], wanted):
        sys.exit(f"{gpu} elements {kind} {shape} {updates} {reduction}: wrong")


def check_keys(gpu, n, bins):
    """A counting sort of so many bins that counters of a block's warps need more shared memory than it has: fewer warps."""
    keys = [draw.randrange(-1, bins + 1) for _ in range(n)]
    graph = {"name": "keys", "inputs": {"k": {"type": "s32", "shape": [n, 1]}}, "outputs": ["p", "e", "s"],
             "nodes": [{"op": "PlaceKeys", "domain": "adlgen", "inputs": ["k"], "outputs": ["p", "e", "s"], "attributes": {"experts": bins}}]}
    _, found = run(graph, gpu, [("k", "s32", [n, 1], keys)])
    order = sorted((i for i in range(n) if 0 <= keys[i] < bins), key=lambda i: keys[i])
    ends = [sum(0 <= key <= bin_ for key in keys) for bin_ in range(0, bins, 97)]
    if found["s"][:len(order)] != order or found["e"][::97] != ends:
        sys.exit(f"{gpu}: {n} keys of {bins} bins are not in order")


check_keys("l40s", 2000, 4000)
for device in ("h100", "a100"):
    check(device, "f32", [40, 6], [70], 1)
    check(device, "bf16", [5, 7, 24], [9, 4], 2)
    check(device, "s32", [3, 4, 5, 2], [50], 3)
    check(device, "f16", [300, 3], [17], 1)
    check(device, "f32", [33, 5], [100], 1, is_open=True)
    check(device, "bf16", [9, 4, 8], [20, 3], 2, is_open=True)
    check(device, "bf16", [700, 3], [4097], 1)  # so many updates are sorted: by one digit, or two
    check(device, "f32", [41, 33], [4100], 2)
    check_elements(device, "f32", [37, 5], [4097, 4])
    check_elements(device, "s32", [3, 1, 2], [4099, 1, 2])
    check(device, "f32", [4, 3], [16], 1)  # few: one kernel
    check(device, "f32", [4, 3], [64], 2)  # of elements: one kernel
    check(device, "f32", [7, 0], [40], 1)
    # combined: so many that they are sorted, by one digit or two
    check(device, "f32", [1031, 33], [2100], 1, reduction="add")
    check(device, "bf16", [33, 1032], [2049], 1, reduction="add")
    check(device, "f32", [5, 207, 31], [2101], 2, reduction="max")
    check(device, "s32", [1000, 64], [1300], 1, reduction="min")
    check(device, "s32", [301, 1, 257], [900], 1, reduction="mul")
    check(device, "s64", [129, 127, 5], [1025], 2, reduction="max")
    check(device, "f32", [90, 1000], [800], 1, reduction="add", of_one=3)  # one part has all
    check(device, "f32", [40, 24], [100], 1, is_open=True, reduction="add")
    check_elements(device, "f32", [300, 40], [6000, 33], reduction="add")
    check_elements(device, "s32", [37, 5], [41, 5], reduction="add", repeated=True)
    check_elements(device, "f32", [37, 5, 3], [41, 5, 3], repeated=True)
    check_elements(device, "f16", [700, 129], [1025, 129], reduction="max", repeated=True)
print("parts of updates: right")
