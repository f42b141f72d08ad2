"""The kernels that are mutated: those written by hand beside this folder, and kernels of the catalogue's kinds at small
sizes, compiled and kept by `adlgen run --keep`."""
import glob
import json
import os
import subprocess

from ptx_text import Kernel

HERE = os.path.dirname(os.path.abspath(__file__))


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape), "align": 16}


def gemm(kind, n, k, extra=None):
    nodes = [{"op": "Gemm", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"transB": 1}}]
    return {"name": "gemm", "inputs": {"x": tensor(kind, "M", k), "w": tensor(kind, n, k)},
            "dims": {"M": {"min": 1, "max": 4096}}, "nodes": nodes, "outputs": ["y"]}


def unary(op, kind, *shape):
    return {"name": op.lower(), "inputs": {"x": tensor(kind, "M", *shape)}, "dims": {"M": {"min": 1, "max": 4096}},
            "nodes": [{"op": op, "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}


def norm(kind, n):
    return {"name": "norm", "inputs": {"x": tensor(kind, "M", n), "s": tensor(kind, n)},
            "dims": {"M": {"min": 1, "max": 4096}},
            "nodes": [{"op": "RMSNormalization", "inputs": ["x", "s"], "outputs": ["y"]}], "outputs": ["y"]}


def layer(kind, n):
    graph = norm(kind, n)
    graph["inputs"]["b"] = tensor(kind, n)
    graph["nodes"][0] = {"op": "LayerNormalization", "inputs": ["x", "s", "b"], "outputs": ["y"]}
    return graph


def add_row(kind, n):
    graph = norm(kind, n)
    graph["nodes"][0] = {"op": "Add", "inputs": ["x", "s"], "outputs": ["y"]}
    return graph


# name, GPU, graph, M, forced parameters (few slots, so that rings go round)
COMPILED = [("gemm", "h100", gemm("bf16", 136, 328), 70, "bm=64 bn=64 stages=3"),
            ("gemm_two", "h100", gemm("bf16", 136, 328), 130, "bm=128 bn=64 stages=3"),
            ("gemm_cluster", "h100", gemm("f16", 136, 392), 70, "bm=64 bn=64 stages=3 cluster_m=2"),
            ("gemm_split", "h100", gemm("bf16", 40, 1664), 3, ""), ("gemm_sm80", "a100", gemm("bf16", 72, 160), 70, ""),
            ("gemm_sm80_f16", "a100", gemm("f16", 40, 136), 3, ""), ("softmax", "h100", unary("Softmax", "f32", 333), 3, ""),
            ("softmax_bf16", "a100", unary("Softmax", "bf16", 1024), 2, ""), ("rms_norm", "h100", norm("bf16", 520), 3, ""),
            ("layer_norm", "a100", layer("f32", 300), 3, ""), ("add_row", "h100", add_row("bf16", 264), 5, ""),
            ("gelu", "a100", unary("Gelu", "f16", 100), 3, "")]


def by_hand(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.launch.json"))):
        with open(path) as f:
            launch = json.load(f)
        ptx = path[:-len(".launch.json")] + ".ptx"
        if not os.path.exists(ptx) or ptx.endswith("/counts.ptx"):
            continue
        with open(ptx) as f:
            text = f.read()
        name = os.path.relpath(ptx, os.path.join(HERE, ".."))[:-len(".ptx")]
        yield Kernel(name, text, launch, folder), "h100" if ".target sm_90" in text else None


def compiled(adlgen, scratch, wanted):
    for name, gpu, graph, m, forced in COMPILED:
        if wanted not in "adlgen " + name:
            continue
        folder = os.path.join(scratch, name)
        os.makedirs(folder)
        with open(os.path.join(folder, "graph.json"), "w") as f:
            json.dump(graph, f)
        sets = [word for parameter in forced.split() for word in ("--set", parameter)]
        subprocess.run([adlgen, "run", f.name, "--gpu", gpu, "--on", "sim", "--dim", f"M={m}", "--keep", folder, *sets],
                       check=True, stdout=subprocess.DEVNULL)
        (path,) = glob.glob(os.path.join(folder, "*.launch.json"))
        with open(path) as f, open(path[:-len(".launch.json")] + ".ptx") as ptx:
            launch = json.load(f)
            if forced:
                launch["grid"] = launch["cluster"]  # a loop over tiles runs more than once; where there is none, a part is written
                for buffer in launch["buffers"].values():
                    if "written" in buffer:
                        buffer["written"] = "part"
            yield Kernel("adlgen " + name, ptx.read(), launch, folder), gpu


def all_kernels(adlgen, scratch, wanted=""):
    for folder in ("kernels", "."):
        yield from (k for k in by_hand(os.path.join(HERE, "..", folder)) if wanted in k[0].name)
    yield from compiled(adlgen, scratch, wanted)
