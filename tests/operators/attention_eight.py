#!/usr/bin/env python3
"""attention_eight.py ADLGEN: adlgen.Attention of queries, keys and values in e4m3, on the simulator with all checkers, against the reference in double precision:
sizes at the edges of tiles, masks, scales, what lies at odd addresses, few rows, and a GPU without such products. How many launches there are, and what the
attention's kernel multiplies, its name says."""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
OWN = "attention[a-z_]*_e4m3_bf16_"  # operands as they are; else `_bf16_`: widened first


def graph(d=64, dv=None, heads=(4, 2), align=16, attributes=(), more=(), outputs=("y",)):
    """more: place among the inputs of the node, name, type, shape"""
    inputs = {name: {"type": "e4m3", "shape": [1, heads[name != "q"], "M" if name == "q" else "N", (dv or d) if name == "v" else d], "align": align}
              for name in "qkv"}
    words = ["q", "k", "v"] + [""] * 11
    for place, name, kind, shape in more:
        inputs[name] = {"type": kind, "shape": shape}
        words[place] = name
    while not words[-1]:
        words.pop()
    return {"name": "eight", "inputs": inputs, "dims": {"M": {"max": 8192}, "N": {"max": 8192}},
            "nodes": [{"op": "Attention", "domain": "adlgen", "inputs": words, "outputs": list(outputs), "attributes": dict(attributes)}],
            "outputs": [name for name in outputs if name]}


CAUSAL = {"is_causal": 1}
SCALES = [(11, "a", "f32", [4]), (12, "b", "f32", [2]), (13, "c", "f32", [2])]
# Name, graph, sizes of M and N, words of run, what the launch's name is
CASES = [
    ("heads of 64", graph(), [(65, 129), (300, 33), (127, 1)], [], OWN),
    ("heads of 128, causal", graph(128, attributes=CAUSAL), [(130, 130), (33, 31)], [], OWN),
    ("heads of 256", graph(256, attributes=CAUSAL), [(129, 127)], [], OWN),
    ("heads of 128, all keys", graph(128), [(130, 129)], [], OWN),
    ("heads of 256, all keys", graph(256), [(65, 64)], [], OWN),
    ("heads of 192, values of 96", graph(192, 96), [(70, 70)], [], OWN),
    ("heads of 48", graph(48, heads=(3, 3)), [(70, 200)], [], OWN),
    ("tiles of two warpgroups", graph(128, attributes=CAUSAL), [(300, 300)], ["--set", "rows=128", "--set", "keys=128"], OWN),
    ("a product of two instructions", graph(256, attributes=CAUSAL), [(150, 150)], ["--set", "rows=128", "--set", "keys=64"], OWN),
    ("a window, no keys, no rows", graph(attributes={**CAUSAL, "left_window_size": 40}), [(129, 129), (70, 0), (0, 5)], [], OWN),
    ("scales of heads", graph(attributes=CAUSAL, more=SCALES), [(130, 130)], [], OWN),
    ("one scale, in f16", graph(attributes={"output_dtype": "f16"}, more=[(11, "a", "f32", []), (13, "c", "f32", [])]), [(66, 65)], [],
     "attention[a-z_]*_e4m3_f16_"),
    ("a mask, sinks, sums", graph(more=[(3, "m", "bool", [1, 1, "M", "N"]), (7, "s", "f32", [4])], outputs=["y", "", "", "", "l"]), [(70, 70)], [], OWN),
    ("odd addresses", graph(align=1), [(70, 70)], ["--offset", "k=1"], OWN + ".*any"),
    ("a result at an odd address", graph(), [(70, 70)], ["--offset", "y=2"], OWN + ".*any"),
]


def run(name, description, gpu, folder, words, dims, exits=(0,)):
    (folder / "graph.json").write_text(json.dumps(description))
    command = [adlgen, "run", folder / "graph.json", "--gpu", gpu, "--on", "sim", "--check", *words, *(f"--dim={d}={n}" for d, n in dims.items())]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in exits:
        sys.exit(f"{name} {gpu} {dims}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def launches(text):
    return re.findall(r"\w+: (\w+), grid", text)


def rising(folder):
    """Maxima that rise late, and scores that are all alike: quantised in front of the attention."""
    kinds = {"alike": lambda key: 1, "none": lambda key: 0, "steps": lambda key: 1 + 3 * ((400 - key) // 100), "one": lambda key: 60 if key == 3 else 1}
    nodes = [{"op": "Cast", "inputs": [f"{name}w"], "outputs": [name], "attributes": {"to": "e4m3"}} for name in "qkv"]
    nodes += [{"op": "Attention", "domain": "adlgen", "inputs": ["q", "k", "v"], "outputs": ["y"], "attributes": CAUSAL}]
    description = {"name": "rising", "inputs": {f"{name}w": {"type": "bf16", "shape": [1, 1, 400, 64], "align": 16} for name in "qkv"}, "nodes": nodes, "outputs": ["y"]}
    counts = {}
    for kind, factor in kinds.items():
        draw, words = random.Random(7), ["--set", "rows=128", "--set", "keys=128"]
        for name in "qkv":
            values = [draw.gauss(0, 1) * (factor(row) if name == "k" else 1) for row in range(400) for _ in range(64)]
            runs.save(folder / f"{name}.safetensors", f"{name}w", "bf16", [1, 1, 400, 64], values)
            words += ["--input", f"{name}w={folder / name}.safetensors"]
        counts[kind] = int(re.search(r"(\d+) warp-instructions", run(kind, description, "h100", folder, words, {})).group(1))
    if counts["none"] > counts["alike"] or counts["steps"] <= counts["alike"]:
        sys.exit(f"maxima were looked for where there is nothing to find, or not where they rise: {counts}")


def exact(folder):
    """Weights that are all alike, and values of one sign: what is lost of sums over all keys, and what of sums over a tile's."""
    nodes = [{"op": "Cast", "inputs": [f"{name}w"], "outputs": [name], "attributes": {"to": "e4m3"}} for name in "qkv"]
    nodes += [{"op": "Attention", "domain": "adlgen", "inputs": ["q", "k", "v"], "outputs": ["y"]}]
    rows = {"q": 70, "k": 2048, "v": 2048}
    description = {"name": "exact", "inputs": {f"{name}w": {"type": "bf16", "shape": [1, 1, n, 64], "align": 16} for name, n in rows.items()}, "nodes": nodes, "outputs": ["y"]}
    draw, words = random.Random(3), []
    for name, n in rows.items():
        values = [0.0 if name == "q" else abs(draw.gauss(0, 1)) for _ in range(n * 64)]
        runs.save(folder / f"{name}.safetensors", f"{name}w", "bf16", [1, 1, n, 64], values)
        words += ["--input", f"{name}w={folder / name}.safetensors"]
    errors = {}
    for way in ("fast", "exact"):
        text = run(way, description, "h100", folder, [*words, "--accumulate", way], {}, (0, 5) if way == "fast" else (0,))
        errors[way] = float(re.search(r"y +bf16 +(\S+)", text).group(1))
    if not 4 * errors["exact"] < errors["fast"]:
        sys.exit(f"exact sums are as far off as others: {errors}")


def pages(folder):
    """Pages are read where they lie where few queries read them, though queries are widened then; gathered for many."""
    cache = {"type": "e4m3", "shape": [16, 64, 2, 64]}
    nodes = [{"op": "Gather", "inputs": [f"{x}c", "table"], "outputs": [f"{x}g"]} for x in "kv"]
    nodes += [{"op": "Reshape", "inputs": [f"{x}g", "whole"], "outputs": [f"{x}r"]} for x in "kv"]
    nodes += [{"op": "Transpose", "inputs": [f"{x}r"], "outputs": [x], "attributes": {"perm": [0, 2, 1, 3]}} for x in "kv"]
    nodes += [{"op": "Attention", "domain": "adlgen", "inputs": ["q", "k", "v", "", "", "", "lengths"], "outputs": ["y"]}]
    for rows, gathers in ((1, 0), (128, 2)):
        inputs = {"q": {"type": "e4m3", "shape": [2, 4, rows, 64]}, "kc": cache, "vc": cache, "table": {"type": "s32", "shape": [2, 4]}, "lengths": {"type": "s64", "shape": [2]}}
        description = {"name": "pages", "inputs": inputs, "constants": {"whole": {"type": "s64", "shape": [4], "data": [2, -1, 2, 64]}}, "nodes": nodes, "outputs": ["y"]}
        found = launches(run(f"pages{rows}", description, "h100", folder, [], {}))
        if sum(kernel.startswith("gather") for kernel in found) != gathers:
            sys.exit(f"{rows} rows over pages: {found}")


with tempfile.TemporaryDirectory() as place:
    place = pathlib.Path(place)
    for case, description, sizes, words, wanted in CASES:
        for m, n in sizes:
            found = launches(run(case, description, "h100", place, words, {"M": m, "N": n}))
            if m and not any(re.match(wanted, kernel) for kernel in found) or (wanted == OWN and len(found) > 1 + 2 * ("sinks" in case)):
                sys.exit(f"{case}: {found}, not {wanted}")
    found = launches(run("a100", graph(attributes=CAUSAL, more=SCALES), "a100", place, [], {"M": 130, "N": 129}))
    if not any(kernel.startswith("attention") and "_bf16_" in kernel and "e4m3" not in kernel for kernel in found):
        sys.exit(f"a GPU without such products: {found}")
    rising(place)
    exact(place)
    pages(place)
