#!/usr/bin/env python3
"""ScatterND of whole parts, and ScatterElements of many updates, against their definition: the last of several updates stays, indices count from either end, those outside
update nothing: scatter.py ADLGEN"""
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


def scatter(data, shape, indices, told, updates):
    """Lists of `told` indices, one behind the other, and as many parts of updates."""
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
            result[place * inner:(place + 1) * inner] = updates[j * inner:(j + 1) * inner]
    return result


def check(gpu, kind, shape, lists, told, is_open=False):
    """lists: shape of the updates without the parts'."""
    indices = [draw.randrange(-shape[d] - 1, shape[d] + 1) for _ in range(volume(lists)) for d in range(told)]
    named = ["S", *shape[1:]] if is_open else shape
    tensor = lambda kind, shape: {"type": kind, "shape": shape}
    inputs = {"x": tensor(kind, named), "i": tensor("s64", [*(["J", *lists[1:]] if is_open else lists), told]),
              "u": tensor(kind, [*(["J", *lists[1:]] if is_open else lists), *named[told:]])}
    graph = {"name": "scatter", "inputs": inputs, "outputs": ["y"],
             "nodes": [{"op": "ScatterND", "inputs": ["x", "i", "u"], "outputs": ["y"]}]}
    given, found = run(graph, gpu, [("i", "s64", [*lists, told], indices)], dims={"S": shape[0], "J": lists[0]} if is_open else None)
    wanted = scatter(given["x"], shape, indices, told, given["u"])
    if found["y"] != wanted:
        at = next(i for i, (x, y) in enumerate(zip(found["y"], wanted)) if x != y)
        sys.exit(f"{gpu} {kind} {shape} {lists} {told}: element {at} is {found['y'][at]} in place of {wanted[at]}")


def check_elements(gpu, kind, shape, updates):
    """ScatterElements along axis 0."""
    each = volume(updates[1:])
    indices = [draw.randrange(-shape[0] - 1, shape[0] + 1) for _ in range(volume(updates))]
    tensor = lambda kind, shape: {"type": kind, "shape": shape}
    graph = {"name": "scatter", "inputs": {"x": tensor(kind, shape), "i": tensor("s64", updates), "u": tensor(kind, updates)}, "outputs": ["y"],
             "nodes": [{"op": "ScatterElements", "inputs": ["x", "i", "u"], "outputs": ["y"]}]}
    given, found = run(graph, gpu, [("i", "s64", updates, indices)])
    wanted = list(given["x"])
    for j, index in enumerate(indices):
        row, place = index + (shape[0] if index < 0 else 0), 0
        for d in range(1, len(shape)):
            place = place * shape[d] + j % each // volume(updates[d + 1:]) % updates[d]
        if 0 <= row < shape[0]:
            wanted[row * volume(shape[1:]) + place] = given["u"][j]
    if found["y"] != wanted:
        sys.exit(f"{gpu} elements {kind} {shape} {updates}: wrong")


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
print("parts of updates: right")
