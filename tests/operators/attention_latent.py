#!/usr/bin/env python3
"""attention_latent.py ADLGEN: heads wider than a block's sums, against the reference in double precision: latents of 576 elements that all heads share, of which values
are the first 512 (MLA's absorbed form), by lengths, in pages, of more heads than a tile has rows; one kernel each."""
import json
import pathlib
import subprocess
import sys
import tempfile

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
PAGE, PAGES = 64, 6  # rows of a page, pages of the cache

# batches, heads, rows, keys, elements of a latent and of its values, lengths (or none), pages; with which element values begin (or none: the first)
CASES = [
    (2, 16, 1, 300, 576, 512, [300, 129], False),
    (3, 16, 1, 40, 576, 512, [0, 1, 33], False),
    (1, 128, 1, 200, 576, 512, [127], False),
    (18, 16, 1, 131, 576, 512, None, False),  # parts of keys, two consumers a block
    (1, 16, 3, 131, 576, 512, None, False),
    (1, 40, 1, 31, 320, 264, None, False),
    (1, 8, 1, 140, 320, 64, None, False),
    (2, 16, 1, 192, 576, 512, [1, 190], True),
    (1, 16, 1, 129, 576, 512, None, False, 64),  # no keys' slot has them as its first columns
    (1, 16, 1, 70, 384, 384, None, False),
]


def tensor(kind, *shape, data=None):
    return {"type": kind, "shape": list(shape), **({"data": data} if data is not None else {})}


def graph_of(case):
    batches, heads, rows, keys, depth, width, lengths, paged, *begins = case
    begin = begins[0] if begins else 0
    cache = (PAGES, PAGE, 1, depth) if paged else (batches, 1, keys, depth)
    graph = {"name": "latent", "opset": 25, "inputs": {"q": tensor("bf16", batches, heads, rows, depth), "c": tensor("bf16", *cache)},
             "constants": {name: tensor("s64", 1, data=[value]) for name, value in (("begin", begin), ("end", begin + width), ("axis", 3))},
             "nodes": [{"op": "Slice", "inputs": ["c", "begin", "end", "axis"], "outputs": ["v"]}], "outputs": ["y", "l"]}
    keys_of = {"k": "c", "v": "v"}
    if paged:
        graph["constants"]["table"] = tensor("s64", batches, keys // PAGE, data=[5, 1, 0, 2, 5, 4])
        for name, of, size in (("k", "c", depth), ("v", "v", width)):
            graph["constants"][f"shape_{name}"] = tensor("s64", 4, data=[batches, keys, 1, size])
            graph["nodes"] += [{"op": "Gather", "inputs": [of, "table"], "outputs": [f"{name}0"]},
                               {"op": "Reshape", "inputs": [f"{name}0", f"shape_{name}"], "outputs": [f"{name}1"]},
                               {"op": "Transpose", "inputs": [f"{name}1"], "outputs": [f"{name}2"], "attributes": {"perm": [0, 2, 1, 3]}}]
            keys_of[name] = f"{name}2"
    if lengths:
        graph["constants"]["n"] = tensor("s64", batches, data=lengths)
    graph["nodes"].append({"op": "Attention", "domain": "adlgen", "inputs": ["q", keys_of["k"], keys_of["v"], "", "", ""] + (["n"] if lengths else []),
                           "outputs": ["y", "", "", "", "l"], "attributes": {"scale": 0.072}})
    return graph


def check_launches(case, gpu, latent):
    """One kernel, which multiplies values as they lie in keys' slots, or does not."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph_of(case)))
        done = subprocess.run([adlgen, "compile", path, "--gpu", gpu, "--emit", "ir", "--out", folder], capture_output=True, text=True)
        launches = json.loads(pathlib.Path(folder, gpu, "plan.json").read_text())["launches"] if not done.returncode else []
        texts = [text.read_text() for text in pathlib.Path(folder, gpu).glob("*.ir")]
    if len(launches) != 1:
        sys.exit(f"{gpu} {case}: {len(launches)} launches\n{done.stdout}{done.stderr}")
    if any(f"bound latent: int = {latent}" not in text for text in texts):
        sys.exit(f"{gpu} {case}: latent is not {latent} in all of its kernels")
    consumers = 2 if gpu == "h100" and latent and case[0] > 16 else 1
    if not any(f"bound consumers: int = {consumers}" in text for text in texts):
        sys.exit(f"{gpu} {case}: no kernel has {consumers} consumers")


for device in ("h100", "a100"):
    check_launches(CASES[0], device, 1)
    for case in CASES[3:5]:
        check_launches(case, device, 1)
    for case in CASES:
        if case[7] or case[8:]:
            check_launches(case, device, 0 if case[8:] else 1)
runs.run_batch(adlgen, [{"label": str(case), "graph": graph_of(case), "gpu": gpu} for case in CASES for gpu in ("h100", "a100")])

for case in (CASES[1], CASES[3]):  # undivided, where blocks that walk compute all scores twice; parts of keys
    whole, walked = (runs.run(adlgen, graph_of(case), "h100", words=words)[1] for words in ((), ("--check", "--sms", 2)))
    if whole != walked:
        sys.exit(f"h100 {case}: other bits on 2 SMs")
