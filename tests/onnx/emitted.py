#!/usr/bin/env python3
"""`import --emit graph`: what is read back gives the same kernels, constants and plan, but for names of intermediates: emitted.py ADLGEN REPOSITORY

Descriptions of examples/ and models as exporters write them, with symbols, caches, views, functions that are expanded; a symbol bound while
the emitted graph is read is bound in known shapes too."""
import json
import pathlib
import subprocess
import sys
import tempfile

ADLGEN, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
APART = {"blocks.json"}  # scales of blocks: the operator that says so is expanded, and its product with it


def adlgen(*words):
    done = subprocess.run([ADLGEN, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr[:2000]}")
    return done.stdout


def plan(folder):
    """The plan, with intermediates called by their places."""
    text = json.loads((folder / "h100/plan.json").read_text())
    names = {tensor["name"]: f"t{i}" for i, tensor in enumerate(text["tensors"]) if tensor["kind"] == "workspace"}

    def renamed(value):
        if isinstance(value, dict):
            return {names.get(key, key): renamed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [renamed(item) for item in value]
        if isinstance(value, str):
            for name in sorted(names, key=len, reverse=True):
                value = value.replace(f'align("{name}")', f"align({name})").replace(f"align({name})", f"align({names[name]})")
            return names.get(value, value)
        return value

    return renamed(text)


def check(path, *dims):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        adlgen("import", path, "--emit", "graph", "--out", folder / "graph")
        for name, graph in (("before", path), ("after", folder / "graph/graph.json")):
            adlgen("compile", graph, "--gpu", "h100", "--emit", "ptx", "--out", folder / name, *dims)
        before, after = folder / "before/h100", folder / "after/h100"
        kernels = sorted(p.name for p in before.iterdir() if p.name != "plan.json")
        if kernels != sorted(p.name for p in after.iterdir() if p.name != "plan.json"):
            sys.exit(f"{path} {dims}: other kernels are made of the emitted graph")
        different = [name for name in kernels if (before / name).read_bytes() != (after / name).read_bytes()]
        if different or plan(folder / "before") != plan(folder / "after"):
            sys.exit(f"{path} {dims}: the emitted graph gives another plan or {different}")


graphs = [path for path in sorted(ROOT.glob("examples/*.json")) + sorted(ROOT.glob("examples/*/*.yaml")) if "nodes" in path.read_text() and path.name not in APART]
models = sorted(ROOT.glob("tests/onnx/models/*/*.onnx"))
if len(graphs) < 5 or len(models) < 3:
    sys.exit(f"{len(graphs)} descriptions and {len(models)} models: some have gone")
for path in graphs + models:
    check(path)
check(ROOT / "examples/mlp.json", "--dim", "T=5")
print(f"{len(graphs)} descriptions and {len(models)} models read back")
