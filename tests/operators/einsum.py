#!/usr/bin/env python3
"""Einsum against its definition, element by element in double precision: einsum.py ADLGEN

Products, batches, transposes, sums, diagonals, ellipses that broadcast, no result's letters, three operands, extents that are open."""
import functools
import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import runs

run = functools.partial(runs.run, pathlib.Path(sys.argv[1]).resolve(), seed=11)
LIMITS = {"f32": 5e-6, "f16": 2e-3, "bf16": 8e-3}


def labels(text, rank, longest):
    text = text.replace(" ", "")
    dots = rank - len(text.replace("...", ""))
    return list(text.replace("...", "".join(chr(0x100 + longest - dots + i) for i in range(dots))))


def einsum(equation, shapes, values):
    left, _, right = equation.partition("->")
    texts = left.replace(" ", "").split(",")
    longest = max((len(s) - len(t.replace("...", "")) for t, s in zip(texts, shapes) if "..." in t), default=0)
    terms = [labels(t, len(s), longest) for t, s in zip(texts, shapes)]
    extent = {}
    for term, shape in zip(terms, shapes):
        for label, size in zip(term, shape):
            extent[label] = max(extent.get(label, size), size) if size else 0
    every = [label for term in terms for label in term]
    if "->" in equation:
        result = labels(right, len(right.replace(" ", "").replace("...", "")) + longest * ("..." in right), longest)
    else:
        result = sorted({x for x in every if ord(x) >= 0x100}) + sorted(x for x in set(every) if ord(x) < 0x100 and every.count(x) == 1)
    summed = sorted(set(every) - set(result))
    made, norm = [], []
    for at in itertools.product(*(range(extent[x]) for x in result)):
        total, size = 0.0, 0.0
        for more in itertools.product(*(range(extent[x]) for x in summed)):
            place, part = dict(zip(result + summed, at + more)), 1.0
            for term, shape, data in zip(terms, shapes, values):
                i = 0
                for label, n in zip(term, shape):
                    i = i * n + (place[label] if n > 1 else 0)
                part *= data[i]
            total += part
            size += part * part
        made.append(total)
        norm.append(size)
    return made, math.sqrt(sum(norm)) or 1.0


def check(gpu, kind, equation, *shapes, dims=None):
    names = [chr(ord("a") + i) for i in range(len(shapes))]
    declared = [[x if isinstance(x, str) else x for x in shape] for shape in shapes]
    graph = {"name": "einsum", "inputs": {n: {"type": kind, "shape": s} for n, s in zip(names, declared)},
             "nodes": [{"op": "Einsum", "inputs": names, "outputs": ["y"], "attributes": {"equation": equation}}], "outputs": ["y"]}
    given, found = run(graph, gpu, dims=dims)
    sizes = [[(dims or {}).get(x, x) for x in shape] for shape in shapes]
    wanted, norm = einsum(equation, sizes, [given.get(n, []) for n in names])
    error = math.sqrt(sum((x - y) ** 2 for x, y in zip(found["y"], wanted))) / norm
    if len(found["y"]) != len(wanted) or not error <= LIMITS[kind]:
        sys.exit(f"{gpu} {kind} {equation} of {sizes}: error {error:.2e}, {len(found['y'])} of {len(wanted)} elements")


def check_launches(gpu, equation, *shapes):
    """Operands that are turned are read where they lie, and rows are written where the result has them: one kernel."""
    names = [chr(ord("a") + i) for i in range(len(shapes))]
    graph = {"name": "einsum", "inputs": {n: {"type": "bf16", "shape": s, "align": 16} for n, s in zip(names, shapes)},
             "nodes": [{"op": "Einsum", "inputs": names, "outputs": ["y"], "attributes": {"equation": equation}}], "outputs": ["y"]}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        done = subprocess.run([sys.argv[1], "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", folder], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{gpu} {equation}: exit {done.returncode}\n{done.stderr}")
        plan = json.loads(pathlib.Path(folder, gpu, "plan.json").read_text())
    if len(plan["launches"]) != 1:
        sys.exit(f"{gpu} {equation}: {len(plan['launches'])} launches")


def check_large(gpu, m, n, words=()):
    """Products of two batches that are too large for f16, each with the other sign; their sum is not, and is never infinity less infinity."""
    graph = {"name": "einsum", "inputs": {"a": {"type": "f16", "shape": [2, m, 64]}, "b": {"type": "f16", "shape": [2, n, 64]}},
             "nodes": [{"op": "Einsum", "inputs": ["a", "b"], "outputs": ["y"], "attributes": {"equation": "bmk,bnk->mn"}}], "outputs": ["y"]}
    given = [("a", "f16", [2, m, 64], [40.0] * (m * 64) + [-40.0] * (m * 64)), ("b", "f16", [2, n, 64], [40.0] * (n * 64) + [39.0] * (n * 64))]
    y = run(graph, gpu, given, words=words)[1]["y"]
    if y != [2560.0] * (m * n):
        sys.exit(f"{gpu} f16 of {m} x {n} {' '.join(words)}: {y[:4]} for 2560")


def line(gpu, kind, equation, *shapes, align=16):
    """The same for larger ones, against the reference."""
    names = [chr(ord("a") + i) for i in range(len(shapes))]
    return {"label": equation, "gpu": gpu, "graph": {
        "name": "einsum", "inputs": {n: {"type": kind, "shape": s, "align": align} for n, s in zip(names, shapes)},
        "nodes": [{"op": "Einsum", "inputs": names, "outputs": ["y"], "attributes": {"equation": equation}}], "outputs": ["y"]}}


LINES = []
for device in ("h100", "a100"):
    for batches, m, n, k in (0, 5, 7, 64), (1, 31, 33, 64), (3, 129, 65, 127), (5, 64, 40, 96), (2, 33, 129, 257), (2, 8, 8, 0):
        LINES.append(line(device, "bf16", "bmk,bnk->mn", [batches, m, k], [batches, n, k]))
        LINES.append(line(device, "f16", "bkm,bkn->mn", [batches, k, m], [batches, k, n], align=2))
    LINES += [line(device, kind, "bmk,bkn->nm", [3, 40, 64], [3, 64, 24]) for kind in ("f32", "tf32")]
    for rows in (1, 33, 129):
        LINES.append(line(device, "bf16", "bhr,hdr->bhd", [rows, 3, 40], [3, 24, 40]))
        LINES.append(line(device, "bf16", "bhd,hdr->bhr", [rows, 3, 24], [3, 24, 40]))
runs.run_batch(sys.argv[1], LINES)
for device in ("h100", "a100"):
    check_launches(device, "bhr,hdr->bhd", ["B", 4, 128], [4, 64, 128])
    check_launches(device, "bhd,hdr->bhr", ["B", 4, 64], [4, 64, 128])
    check_launches(device, "bmk,bnk->mn", ["B", 64, 128], ["B", 96, 128])
    for sides in (1, 8), (8, 1), (8, 8), (1, 1):
        check_large(device, *sides)
    check(device, "bf16", "bmk,bnk->mn", ["B", 5, 64], ["B", 7, 64], dims={"B": 3})
    check(device, "bf16", "bhr,hdr->bhd", ["B", 3, 40], [3, 24, 40], dims={"B": 2})
    check(device, "bf16", "bhd,hdr->bhr", [5, 3, 24], [3, 24, 40])
    for kind in ("f32", "bf16"):
        check(device, kind, "ij,jk->ik", [5, 31], [31, 7])
        check(device, kind, "bhid,bhjd->bhij", [2, 3, 5, 8], [2, 3, 6, 8])
        check(device, kind, "bhij,bhjd->bihd", [2, 3, 5, 6], [2, 3, 6, 8])
    check(device, "f32", "ij -> ji", [5, 33])
    check(device, "f32", "ij->", [5, 33])
    check(device, "f32", "ii->i", [5, 5])
    check(device, "f32", "bijj->bi", [2, 3, 4, 4])
    check(device, "f32", "i,j->ij", [5], [7])
    check(device, "f32", "i,i", [129], [129])
    check(device, "f32", "ij,ij->ij", [5, 7], [5, 7])
    check(device, "f32", "ij,ij->j", [5, 7], [5, 7])
    check(device, "f16", "abc,cd,bd->ad", [2, 3, 5], [5, 4], [3, 4])
    check(device, "f32", "bac,cd", [2, 3, 5], [5, 4])
    check(device, "f32", "...ij,...jk->...ik", [2, 1, 5, 4], [3, 4, 6])
    check(device, "f32", "i...,...j->j...", [3, 2, 4], [2, 4, 5])
    check(device, "f32", "abij,cdij->acbd", [2, 3, 4, 5], [3, 2, 4, 5])
    check(device, "f32", "ab,cd->bd", [2, 3], [4, 5])
    check(device, "bf16", "bsd,dhe->bhse", ["B", 5, 16], [16, 2, 8], dims={"B": 3})
    check(device, "f32", "ij,jk->ik", [0, 3], [3, 4])
    check(device, "f32", "ij,jk->ik", [2, 0], [0, 4])
    check(device, "f32", ",i->i", [], [5])
print("Einsum: right")
