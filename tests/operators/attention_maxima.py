#!/usr/bin/env python3
"""attention_maxima.py ADLGEN: attention whose maxima rise late, against the reference in double precision: keys are walked from the last one, and scores grow
towards the first ones in steps, at one key, or at once without a bound, so that maxima have to be looked for again (pass skip_maxima). Of scores that are alike
less is executed, which shows that both ways were taken."""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
ROWS = 650  # six tiles of keys, the last one not whole

# Factor of the keys at a place
KEYS = {
    "alike": lambda key: 1,
    "steps": lambda key: 1 + 3 * ((ROWS - key) // 100),
    "one": lambda key: 60 if key == 3 else 1,
    "large": lambda key: 30,
}
# Elements of a head, type, causal, tile
CASES = [
    (128, "bf16", 1, ["rows=128", "keys=128"]),
    (128, "f16", 0, ["rows=128", "keys=128"]),
    (64, "bf16", 1, ["rows=192", "keys=128"]),
    (64, "bf16", 0, ["rows=64", "keys=128"]),
]


def executed(case, kind, folder):
    size, type_, causal, tile = case
    graph = {"name": "maxima", "opset": 24, "inputs": {name: {"type": type_, "shape": [1, 1, ROWS, size]} for name in "qkv"},
             "nodes": [{"op": "Attention", "inputs": ["q", "k", "v"], "outputs": ["y"], "attributes": {"is_causal": causal}}], "outputs": ["y"]}
    (folder / "graph.json").write_text(json.dumps(graph))
    words = [adlgen, "run", folder / "graph.json", "--gpu", "h100", "--on", "sim", "--check"]
    draw = random.Random(7)
    for name in "qkv":
        factor = KEYS[kind] if name == "k" else KEYS["alike"]
        values = [draw.gauss(0, 1) * factor(row) for row in range(ROWS) for _ in range(size)]
        runs.save(folder / f"{name}.safetensors", name, type_, [1, 1, ROWS, size], values)
        words += ["--input", f"{name}={folder / name}.safetensors"]
    for setting in tile:
        words += ["--set", setting]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{case} {kind}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return int(re.search(r"(\d+) warp-instructions", done.stdout).group(1))


with tempfile.TemporaryDirectory() as place:
    for one in CASES:
        counts = {kind: executed(one, kind, pathlib.Path(place)) for kind in KEYS}
        if not all(counts[kind] > counts["alike"] for kind in KEYS if kind != "alike"):
            sys.exit(f"{one}: maxima were looked for as often where scores are alike: {counts}")
