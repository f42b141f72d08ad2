#!/usr/bin/env python3
"""Sample against its definition in double precision: sample.py ADLGEN

Drawn from whole rows, short and in parts, and from candidates; numbers for all rows and one a row; what is not random; frequencies of many draws."""
import functools
import itertools
import math
import pathlib
import random
import sys

import runs
from draws import f32, sample

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=7)
GPUS = ("h100", "a100")
places = {gpu: itertools.count() for gpu in GPUS}


def check(gpu, rows, length, kind="f32", given=None, scale=3.0, open_rows=False, lead=None, known=(), **attributes):
    """given: values of inputs, a list where each row has its own; those of `known` are constants. By default one of the GPUs has it."""
    if not runs.has_turn(next(places[gpu]), GPUS.index(gpu)):
        return
    given = given or {}
    types = {"temperature": "f32", "top_k": "s32", "top_p": "f32", "seed": "s64", "offset": "s64"}
    draw = random.Random(rows * 1000 + length)
    values = [f32(round(draw.gauss(0, scale) * 16) / 16 + draw.randrange(4) / 64) if kind == "f32" else round(draw.gauss(0, scale) * 4) / 4 for _ in range(rows * length)]
    lead = lead or [rows]
    inputs, constants = {"logits": {"type": kind, "shape": [*(["B"] if open_rows else lead), length]}}, {}
    data = [("logits", kind, [*lead, length], values)]
    for name, value in given.items():
        many = isinstance(value, list)
        if name in known:
            constants[name] = {"type": types[name], "shape": [], "data": value}
            continue
        inputs[name] = {"type": types[name], "shape": (["B"] if open_rows else lead) if many else []}
        data.append((name, types[name], lead if many else [], value if many else [value]))
    node = {"op": "Sample", "domain": "adlgen", "inputs": ["logits", *(name if name in given else "" for name in types)], "outputs": ["token"], "attributes": attributes}
    while not node["inputs"][-1]:
        node["inputs"].pop()
    graph = {"name": "sample", "inputs": inputs, "constants": constants, "nodes": [node], "outputs": ["token"]}
    _, found = run(graph, gpu, data, dims={"B": rows} if open_rows else None)
    for row, token in enumerate(found["token"]):
        own = {("k" if n == "top_k" else "p" if n == "top_p" else n): (v[row] if isinstance(v, list) else v) for n, v in given.items()}
        numbered = 0 if isinstance(given.get("seed"), list) and rows > 1 else row
        wanted, gap = sample(values[row * length:(row + 1) * length], numbered, **{n: f32(v) if isinstance(v, float) else v for n, v in own.items()}, **attributes)
        if token != wanted and gap > 1e-4:
            sys.exit(f"{gpu} {rows} x {length} {kind} {given} {attributes}: row {row}: token {token} in place of {wanted}")


def check_frequencies(gpu):
    """Of rows of the same logits each token comes as often as its share: 2048 draws, five standard deviations."""
    rows, logits, temperature = 2048, [0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1.5], 1.5
    inputs = {"x": {"type": "f32", "shape": [rows, len(logits)]}, "t": {"type": "f32", "shape": []}, "s": {"type": "s64", "shape": []}}
    graph = {"name": "frequencies", "inputs": inputs, "nodes": [{"op": "Sample", "domain": "adlgen", "inputs": ["x", "t", "", "", "s"], "outputs": ["y"]}], "outputs": ["y"]}
    _, found = run(graph, gpu, [("x", "f32", [rows, len(logits)], logits * rows), ("t", "f32", [], [temperature]), ("s", "s64", [], [3])])
    shares = [math.exp(x / temperature) for x in logits]
    for token, share in enumerate(shares):
        share /= sum(shares)
        n = found["y"].count(token)
        if abs(n - rows * share) > 5 * math.sqrt(rows * share * (1 - share)):
            sys.exit(f"{gpu}: token {token} came {n} times of {rows}, {rows * share:.0f} are due")


def check_special(gpu):
    """Greedy takes the first of equal ones; NaN is taken first; of -infinity nothing is; +infinity always."""
    inf, nan = math.inf, math.nan
    for attributes, p in (({}, None), ({"candidates": 4}, None), ({"candidates": 0}, 0.99)):
        rows = [[1, 3, 3, 0], [nan, 0, 1, 5], [5, 1, nan, 0], [-inf, -inf, 0, -inf], [0, inf, 1, 2], [-inf, 2, -inf, 2]]
        for temperature, wanted in ((0.0, [[1], [0], [2], [2], [1], [1]]), (1.0, [[0, 1, 2, 3], [0], [2], [2], [1], [1, 3]])):
            inputs = {"x": {"type": "f32", "shape": [len(rows), 4]}, "t": {"type": "f32", "shape": [1]}}
            names = ["x", "t"] if p is None else ["x", "t", "", "p"]
            graph = {"name": "special", "inputs": inputs, "constants": {} if p is None else {"p": {"type": "f32", "shape": [], "data": p}},
                     "nodes": [{"op": "Sample", "domain": "adlgen", "inputs": names, "outputs": ["y"], "attributes": attributes}], "outputs": ["y"]}
            _, found = run(graph, gpu, [("x", "f32", [len(rows), 4], [float(x) for row in rows for x in row]), ("t", "f32", [1], [temperature])])
            if any(token not in allowed for token, allowed in zip(found["y"], wanted)):
                sys.exit(f"{gpu} {attributes} at {temperature}: {found['y']}, where {wanted} may be")


for name in GPUS:
    check_special(name)
    check_frequencies(name)
    check(name, 1, 1)
    check(name, 5, 33, given={"temperature": 0.7, "seed": 2**40 + 5, "offset": 9})
    check(name, 3, 1000, "bf16", given={"temperature": [0.0, 1.0, 2.5], "seed": [7, 7, -1], "offset": [1, 2, 3]})
    check(name, 2, 129, "f16", open_rows=True, given={"temperature": 0.0})
    check(name, 4, 127, lead=[2, 2], given={"offset": 3, "top_k": [1, 5, 0, 200], "top_p": 0.9})
    check(name, 2, 8192, given={"temperature": 1.2, "seed": 1})
    check(name, 1, 32768, "bf16", given={"temperature": 0.8, "seed": 4, "top_p": 0.95})
    check(name, 3, 8192, open_rows=True, given={"temperature": 0.9, "seed": [4, 5, 6], "top_k": 40, "top_p": [0.5, 0.99, 1.0]})
    check(name, 2, 31, given={"top_p": 0.0})
    check(name, 3, 129, open_rows=True, given={"temperature": 1.1, "top_k": 2}, known=["top_k"])
    check(name, 2, 500, given={"temperature": 1.0, "seed": 11}, candidates=7)
    check(name, 3, 129, given={"temperature": [1.0, 0.3, 0.0], "top_p": [0.9, 0.999, 0.5], "seed": 3}, candidates=0)
    check(name, 2, 4096, "bf16", given={"temperature": 4.0, "top_p": 0.97, "top_k": [3000, 0]}, scale=1.0, candidates=0)
    check(name, 2, 31, "f16", open_rows=True, given={"top_k": [1, 40], "top_p": 0.0, "offset": 5}, candidates=0)
    check(name, 2, 1000, given={"temperature": 1.0, "top_p": [1.0, 0.7], "top_k": 700, "seed": [8, 9]}, scale=0.2, candidates=0)
    check(name, 4, 1, given={"top_k": 1}, candidates=0)
    check(name, 0, 64, open_rows=True, given={"temperature": 1.0})
    check(name, 2, 50257, given={"temperature": 1.0, "seed": 12})
