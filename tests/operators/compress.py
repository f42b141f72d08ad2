#!/usr/bin/env python3
"""The largest magnitudes of a tensor, a gradient compressed to them and back, against their definitions: compress.py ADLGEN

Which elements are taken is exact, ties by their order, zeros, subnormal numbers, infinity and NaN among them; numbers lie within half a
scale; what is lost is the sum less what was sent, to the last bit but one."""
import functools
import math
import pathlib
import random
import struct
import sys

import runs

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=7)
draw = random.Random(5)
CODES = {"f16": "e", "f32": "f"}


def rounded(kind, x):
    if kind == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", x))[0]
        return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]
    return struct.unpack(CODES[kind], struct.pack(CODES[kind], x))[0]


def node(op, inputs, outputs, **attributes):
    return {"op": op, "domain": "adlgen", "inputs": inputs, "outputs": outputs, "attributes": attributes}


def largest(values, k):
    sizes = [math.inf if math.isnan(x) else abs(x) for x in values]
    return sorted(sorted(range(len(values)), key=lambda i: (-sizes[i], i))[:k])


def values_of(kind, n, how):
    if how == "equal":
        return [0.25] * n
    if how == "zero":
        return [0.0] * n
    if how == "rising":
        return [rounded(kind, (i - n / 3) / n) for i in range(n)]
    if how == "small":
        return [rounded(kind, draw.choice([1, -1]) * draw.random() * 2.0 ** (-147 if kind == "f32" else -22)) for _ in range(n)]
    values = [rounded(kind, draw.gauss(0, 1) * 2.0 ** draw.randint(-9, 3)) for _ in range(n)]
    if how == "odd":
        for i in range(0, n, 7):
            values[i] = draw.choice([math.inf, -math.inf, math.nan, 0.0, -0.0])
    return values


def check_largest(gpu, kind, shape, how, **attributes):
    n = math.prod(shape)
    k = attributes.get("k") or math.ceil(attributes["share"] * n)
    graph = {"name": "largest", "inputs": {"x": {"type": kind, "shape": shape}}, "nodes": [node("LargestMagnitudes", ["x"], ["v", "i"], **attributes)], "outputs": ["v", "i"]}
    given = values_of(kind, n, how) if kind != "bf16" else None
    inputs, found = run(graph, gpu, [("x", kind, shape, given)] if given else [])
    given = given or inputs["x"]
    wanted = largest(given, k)
    same = all(given[i] == v or (math.isnan(given[i]) and math.isnan(v)) for i, v in zip(wanted, found["v"]))
    if found["i"] != wanted or not same:
        sys.exit(f"{gpu} largest {kind} {shape} {how} {attributes}: {found['i'][:20]} {found['v'][:8]} in place of {wanted[:20]}")


def check_compressed(gpu, kind, shape, lost=None, **attributes):
    n = math.prod(shape)
    k = attributes.get("k") or math.ceil(attributes["share"] * n)
    blocks = -(-k // 128)
    inputs = {"x": {"type": kind, "shape": shape}, **({"e": {"type": lost, "shape": shape}} if lost else {})}
    nodes = [node("CompressGradient", list(inputs), ["i", "c", "s", "r"], **attributes), node("DecompressGradient", ["i", "c", "s"], ["y"], shape=shape)]
    given, found = run({"name": "compress", "inputs": inputs, "nodes": nodes, "outputs": ["i", "c", "s", "r", "y"]}, gpu)
    total = [rounded("f32", a + b) for a, b in zip(given["x"], given.get("e", [0] * n))]
    wanted = largest([rounded(kind, x) for x in total] if lost else total, k)
    what = f"{gpu} compressed {kind} {shape} {lost} {attributes}"
    if found["i"] != wanted or len(found["c"]) != 64 * blocks or len(found["s"]) != blocks:
        sys.exit(f"{what}: {found['i'][:20]} in place of {wanted[:20]}, {len(found['c'])} bytes, {len(found['s'])} scales")
    sent = [0.0] * n
    for slot, i in enumerate(wanted):
        scale = found["s"][slot // 128]
        most = max(abs(total[j]) for j in wanted[slot // 128 * 128:slot // 128 * 128 + 128])
        code = found["c"][slot // 2] >> 4 * (slot % 2) & 15
        code -= 16 * (code > 7)
        sent[i] = rounded("f32", code * scale)
        if abs(scale * 7 - most) > 1e-6 * most or abs(code * scale - total[i]) > 0.5001 * scale:
            sys.exit(f"{what}: {total[i]} is {code} times {scale}")
    if found["y"] != sent:
        sys.exit(f"{what}: what is sent comes back as something else")
    for i in range(n):
        rest = rounded(lost or kind, total[i] - sent[i])
        if abs(found["r"][i] - rest) > 2.0 ** -7 * abs(rest) + 1e-6 * abs(total[i]):
            sys.exit(f"{what}: {found['r'][i]} is lost of {total[i]} where {sent[i]} was sent")


for device in ("h100", "a100"):
    for form in ("f32", "f16"):
        for spread in ("drawn", "equal", "rising", "zero", "small", "odd"):
            check_largest(device, form, [3, 129], spread, k=100)
    check_largest(device, "f32", [1], "drawn", k=1)
    check_largest(device, "f32", [33], "odd", k=33)
    check_largest(device, "f32", [20000], "drawn", share=0.01)
    check_largest(device, "bf16", [130, 1024], "drawn", share=0.002)
    check_compressed(device, "f32", [40, 33], k=200)
    check_compressed(device, "bf16", [64, 128], share=0.1)
    check_compressed(device, "bf16", [31, 65], lost="f32", share=0.05)
    check_compressed(device, "f16", [127], lost="f16", k=127)
    check_compressed(device, "f32", [9000], lost="f32", k=1)
print("compression: right")
