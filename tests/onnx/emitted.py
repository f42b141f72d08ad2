#!/usr/bin/env python3
"""`import --emit graph` and `--emit onnx`: what is read back gives the same kernels, constants and plan, but for names of intermediates:
emitted.py ADLGEN REPOSITORY

Descriptions of examples/ and models as exporters write them, with symbols, caches, views, functions that are expanded; a symbol bound while
the emitted graph is read is bound in known shapes too."""
import json
import pathlib
import re
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


def plain(text):
    """Without what tells kernels of one form apart, which follows from names of intermediates too."""
    return re.sub(r"_[0-9a-f]{4}(?![0-9a-zA-Z])", "", text)


def kernels(folder):
    return sorted((plain(p.name), plain(p.read_text())) for p in (folder / "h100").glob("*.ptx"))


def constants(folder):
    """Whatever their order: name, type and shape, bytes."""
    path = folder / "h100/constants.safetensors"
    if not path.exists():
        return []
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return sorted((name, one["dtype"], one["shape"], data[start:][slice(*one["data_offsets"])]) for name, one in header.items() if name != "__metadata__")


def plan(folder):
    """The plan, with intermediates called by their places."""
    text = json.loads(plain((folder / "h100/plan.json").read_text()))
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
        for kind in ("graph", "onnx"):
            adlgen("import", path, "--emit", kind, "--out", folder / kind)
        for name, graph in (("before", path), ("text", folder / "graph/graph.json"), ("model", folder / "onnx/model.onnx")):
            adlgen("compile", graph, "--gpu", "h100", "--emit", "ptx", "--out", folder / name, *dims)
        for name in ("text", "model"):
            if kernels(folder / "before") != kernels(folder / name):
                sys.exit(f"{path} {dims}: other kernels are made of the emitted {name}")
            if constants(folder / "before") != constants(folder / name):
                sys.exit(f"{path} {dims}: the emitted {name} has other constants")
            if plan(folder / "before") != plan(folder / name):
                sys.exit(f"{path} {dims}: the emitted {name} gives another plan")


graphs = [path for path in sorted(ROOT.glob("examples/*.json")) + sorted(ROOT.glob("examples/*/*.yaml")) if "nodes" in path.read_text() and path.name not in APART]
models = sorted(ROOT.glob("tests/onnx/models/*/*.onnx"))
if len(graphs) < 5 or len(models) < 3:
    sys.exit(f"{len(graphs)} descriptions and {len(models)} models: some have gone")
for path in graphs + models:
    check(path)
check(ROOT / "examples/mlp.json", "--dim", "T=5")
print(f"{len(graphs)} descriptions and {len(models)} models read back")
