#!/usr/bin/env python3
"""Products whose results are added: added.py ADLGEN

x W + s (x A) B, as adapters of low rank (LoRA) have it, in the forms that exporters write, of groups of rows and narrow weights too: so many launches, the tiles that may be
asked for, and right by the reference, on the simulator with all checkers. Sums whose operands lie in unlike ways stay two kernels."""
import json
import pathlib
import subprocess
import sys
import tempfile

from runs import run_batch

ADLGEN = pathlib.Path(sys.argv[1]).resolve()


def node(op, inputs, outputs, **attributes):
    domain = {"GroupedMatMul": "adlgen", "MatMulNBits": "com.microsoft"}.get(op, "")
    return {"op": op, "domain": domain, "inputs": inputs, "outputs": outputs, "attributes": attributes}


def adapter(m, n, k, rank, kind="bf16", form="scaled", scale=0.5, ends=None, batch=()):
    """`form`: scaled (a Mul), alpha (of Gemm, with the other product as its C), plain, relu (a step behind the sum), turned (right operands lie as MatMul has them)."""
    tensor = lambda *shape: {"type": kind, "shape": list(shape), "align": 16}
    constants, groups = {}, [len(ends)] if ends else []
    turned = form == "turned" or bool(batch)
    right = lambda rows, columns: groups + ([columns, rows] if turned else [rows, columns])
    inputs = {"x": tensor(*batch, m, k), "w": tensor(*right(n, k)), "a": tensor(*right(rank, k)), "b": tensor(*right(n, rank))}
    if ends:
        constants["ends"] = {"type": "s32", "shape": groups, "data": ends}

    def product(x, w, y, *more, **attributes):
        if ends:
            return node("GroupedMatMul", [x, w, "ends"], [y], groups="ends", transB=1)
        return node("MatMul", [x, w], [y], **attributes) if turned else node("Gemm", [x, w, *more], [y], transB=1, **attributes)

    nodes = [product("x", "w", "y0"), product("x", "a", "t")]
    if form == "alpha":
        nodes.append(product("t", "b", "y", "y0", alpha=scale))
    elif form == "scaled":
        constants["s"] = {"type": kind, "shape": [], "data": scale}
        nodes += [product("t", "b", "l"), node("Mul", ["l", "s"], ["ls"]), node("Add", ["ls", "y0"], ["y"])]
    else:
        nodes += [product("t", "b", "l"), node("Add", ["y0", "l"], ["z"]), node("Relu" if form == "relu" else "Identity", ["z"], ["y"])]
    return {"name": f"adapter_{form}", "inputs": inputs, "constants": constants, "nodes": nodes, "outputs": ["y"],
            **({"dims": {"M": {"min": 0, "max": 4096}}} if m == "M" else {})}


def narrow(m, n, k, rank, weights="s4", block=128, zeros=False, turned=False, **more):
    """Weights of fewer bits, with scales of blocks or (0) of columns; `turned`: the adapter's second right operand lies along columns, which these do not."""
    graph = adapter(m, n, k, rank, **more)
    inputs, kind = graph["inputs"], graph["inputs"]["x"]["type"]
    shape = inputs["w"]["shape"]
    blocks = [*shape[:-1], k // block] if block else [n]
    inputs["w"] = {"type": weights, "shape": shape, "align": 16}
    inputs["ws"] = {"type": kind, "shape": blocks, "align": 16}
    if zeros:
        inputs["wz"] = {"type": weights, "shape": blocks, "align": 16}
    graph["nodes"][0]["inputs"][1] = "d"
    graph["nodes"].insert(0, node("DequantizeLinear", ["w", "ws"] + ["wz"] * zeros, ["d"], **({"axis": len(shape) - 1, "block_size": block} if block else {"axis": 0})))
    if turned:
        inputs["b"]["shape"].reverse()
        next(x for x in graph["nodes"] if x["inputs"][1] == "b")["attributes"]["transB"] = 0
    return graph


def packed(m, n, k, rank, bits=4, block=128):
    """MatMulNBits beside MatMul."""
    tensor = lambda *shape: {"type": "f16", "shape": list(shape), "align": 16}
    inputs = {"x": tensor(m, k), "w": {"type": "u8", "shape": [n, k // block, block * bits // 8], "align": 16}, "ws": tensor(n, k // block),
              "a": tensor(k, rank), "b": tensor(rank, n)}
    nodes = [node("MatMulNBits", ["x", "w", "ws"], ["y0"], K=k, N=n, bits=bits, block_size=block), node("MatMul", ["x", "a"], ["t"]),
             node("MatMul", ["t", "b"], ["l"]), node("Add", ["y0", "l"], ["y"])]
    return {"name": "packed", "inputs": inputs, "nodes": nodes, "outputs": ["y"], **({"dims": {"M": {"min": 0, "max": 4096}}} if m == "M" else {})}


def unlike():
    """Rows of one left operand lie beside one another, of the other one columns."""
    tensor = lambda *shape: {"type": "bf16", "shape": list(shape), "align": 16}
    nodes = [node("Gemm", ["x", "w"], ["y0"], transB=1), node("Gemm", ["t", "b"], ["y1"], transA=1, transB=1), node("Add", ["y0", "y1"], ["y"])]
    return {"name": "unlike", "inputs": {"x": tensor(72, 64), "w": tensor(40, 64), "t": tensor(32, 72), "b": tensor(40, 32)}, "nodes": nodes, "outputs": ["y"]}


def column():
    """One column: elements of its right operands are neighbours along k, and of one of these along columns as well."""
    tensor = lambda *shape: {"type": "bf16", "shape": list(shape), "align": 16}
    nodes = [node("MatMul", ["x", "w"], ["y0"]), node("Gemm", ["t", "b"], ["y1"], transB=1), node("Add", ["y0", "y1"], ["y"])]
    return {"name": "column", "inputs": {"x": tensor(5, 64), "w": tensor(64, 1), "t": tensor(5, 8), "b": tensor(1, 8)}, "nodes": nodes, "outputs": ["y"]}


def launches(graph, gpu):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        done = subprocess.run([ADLGEN, "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", pathlib.Path(folder, "out")], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{graph} {gpu}: exit {done.returncode} {done.stderr}")
        return len(json.loads(pathlib.Path(folder, "out", gpu, "plan.json").read_text())["launches"])


def forced(graph, *sets, dim=()):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        done = subprocess.run([ADLGEN, "run", path, "--gpu", "h100", "--on", "sim", "--check", *(f"--set={s}" for s in sets), *dim], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{sets} {graph}: exit {done.returncode} {done.stdout[-500:]} {done.stderr}")


CASES = [
    (adapter(129, 136, 200, 16), 2), (adapter(33, 576, 264, 64, form="alpha", scale=-0.25), 2), (adapter(1, 264, 136, 8, form="plain"), 2),
    (adapter(200, 72, 64, 72, form="relu"), 2), (adapter(65, 136, 72, 24, form="turned"), 2), (adapter(31, 64, 128, 16, kind="f16", form="alpha"), 2),
    (adapter(17, 40, 72, 16, form="scaled", batch=(3,)), 2), (adapter(130, 136, 128, 16, ends=[0, 1, 130]), 2), (adapter(90, 64, 72, 8, form="relu", ends=[60, 7, 90]), 2),
    (adapter(70, 64, 136, 1), 3), (unlike(), 2), (column(), 2),
    (narrow(1, 136, 256, 8), 2), (narrow(65, 264, 256, 24, block=64), 2), (narrow(130, 72, 256, 64, "u4", zeros=True, turned=True), 2),
    (narrow(33, 64, 128, 72, "s8", kind="f16", form="plain"), 2), (narrow(40, 136, 128, 16, "e4m3", form="alpha"), 2),
    (narrow(70, 64, 256, 16, "s8", block=0, zeros=True), 2), (narrow(9, 136, 128, 40, block=0, form="relu"), 2), (narrow(129, 64, 128, 16, "e5m2", block=0, turned=True), 2),
    (narrow(66, 64, 128, 16, ends=[0, 1, 66]), 2), (narrow(60, 72, 128, 40, "e4m3", ends=[40, 7, 60]), 2), (packed(7, 72, 256, 16), 2),
]
for device in ("h100", "a100"):
    for case, wanted in CASES:
        found = launches(case, device)
        if found != wanted:
            sys.exit(f"{device} {case}: {found} launches in place of {wanted}")
LINES = [{"label": f"{i}", "graph": graph, "gpu": gpu} for i, (graph, _) in enumerate(CASES) for gpu in ("h100", "a100")]
OPEN = adapter("M", 136, 200, 16)
LINES += [{"label": f"open {m}", "graph": OPEN, "gpu": gpu, "dims": {"M": m}} for m in (0, 1, 31, 129) for gpu in ("h100", "a100")]
LINES += [{"label": f"narrow {m}", "graph": packed("M", 72, 128, 16), "gpu": gpu, "dims": {"M": m}} for m in (0, 1, 65) for gpu in ("h100", "a100")]
LINES += [{"label": "narrow moved", "graph": narrow(33, 40, 128, 16), "gpu": gpu, "skew": 2} for gpu in ("h100", "a100")]
LINES += [{"label": "odd", "graph": adapter(65, 129, 71, 24, form=form), "gpu": gpu} for form in ("turned", "plain") for gpu in ("h100", "a100")]
LINES += [{"label": "moved", "graph": adapter(33, 40, 72, 16), "gpu": gpu, "skew": 2} for gpu in ("h100", "a100")]
run_batch(ADLGEN, LINES)
forced(adapter(300, 264, 200, 72), "bm=128", "bn=64", "cluster_m=2")
forced(adapter(130, 192, 264, 24), "bm=64", "bn=64", "split_k=4")
forced(adapter(40, 192, 264, 24), "swapped=1", "bm=64", "bn=16", "split_k=2")
forced(OPEN, "bm=128", "bn=64", "stages=2", dim=["--dim=M=257"])
forced(narrow(3, 72, 1024, 72), "by_warps=1", "bm=64", "parts_m=4", "bn=8", "k_parts=4")  # each part of the rows by another warp
forced(narrow(40, 192, 256, 24), "bm=64", "bn=16", "split_k=2")
print("added products: right")
