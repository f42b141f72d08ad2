#!/usr/bin/env python3
"""Kernels of several families, as adlgen makes them, broken in one place at a time: the simulator must say so.

    tests/simulator/planted.py ADLGEN

Each kernel is compiled, run once and kept with its launch, which must be clean. Each fault changes one line of the PTX, or one
number of a tensor map, and a fault of one of the named kinds must be reported. docs/mutants.md counts many more; these are what the
classes there do not make: wrong boxes, results that nobody writes, boxes that are stored beside the tensor, exchanges between blocks."""
import collections
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

Kernel = collections.namedtuple("Kernel", "gpu graph dims sets")


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape), "align": 16}


def gemm(kind, n, k):
    return {"name": "gemm", "inputs": {"x": tensor(kind, "M", k), "w": tensor(kind, n, k)}, "dims": {"M": {"min": 1, "max": 4096}},
            "nodes": [{"op": "Gemm", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}


def matmul(kind, m, n, k):
    return {"name": "matmul", "inputs": {"a": tensor(kind, m, k), "b": tensor(kind, k, n)},
            "nodes": [{"op": "MatMul", "inputs": ["a", "b"], "outputs": ["y"]}], "outputs": ["y"]}


def unary(op, kind, *shape):
    return {"name": op.lower(), "inputs": {"x": tensor(kind, *shape)},
            "nodes": [{"op": op, "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}


KERNELS = {"tma": Kernel("h100", gemm("bf16", 136, 520), 70, "bm=64 bn=64 stages=3 cluster_m=1 cluster_n=1"),
           "cluster": Kernel("h100", gemm("bf16", 264, 328), 300, "bm=128 bn=64 stages=3 blocks=1"),
           "exchange": Kernel("h100", matmul("bf16", 64, 64, 2048), None, "bm=64 bn=64 stages=3 split_k=2"),
           "sm80": Kernel("a100", gemm("f16", 136, 648), 70, "bm=64 bn=64 stages=3"),
           "rows": Kernel("h100", unary("Softmax", "f32", 4, 3333), None, "")}

LOAD = r"(?s)(cp\.async\.bulk\.tensor\.\dd\.shared::cluster\S*\s+\[[^;]*?)"
STORE = r"cp\.async\.bulk\.tensor\.\dd\.global\S* \[%rd\d+, "
# kernel, what is broken, a regular expression, which of its matches, what it becomes, kinds of which one must be reported
FAULTS = [
    ("tma", "nobody waits for a slot to be full", r"@!%p\d+ +bra +wait_\d+;", -1, "", "race"),
    ("tma", "nobody waits for a slot to be empty", r"@!%p\d+ +bra +wait_\d+;", 0, "", "race mbarrier"),
    ("tma", "the first phase of an empty slot is awaited", r"xor\.b32( +%r\d+, %r\d+), 1;(?=\nwait_)", 0, r"or.b32\1, 0;", "deadlock"),
    ("tma", "fewer bytes are expected than come", r"(expect_tx\S+ +_, \[\S+\], )[^;]+;", 0, r"\g<1>16368;", "mbarrier deadlock"),
    ("tma", "a copy signals the next slot", LOAD + r"\+(\d+)\];", 0, lambda m: f"{m[1]}+{int(m[2]) + 8}];", "mbarrier deadlock race"),
    ("tma", "a copy fills the next slot", r"(\[%r\d+)\+16384\](?=, \[%rd)", 0, r"\1+24576]", "undefined race wgmma"),
    ("tma", "results are stored without fence.proxy.async", r"fence\.proxy\.async\S*;", -1, "", "proxy"),
    ("tma", "results are stored before all warps have written them", r"bar\.sync +1, 128;", -1, "", "race"),
    ("tma", "rows and columns of the results change places", STORE + r"\{(%r\d+), (%r\d+)", -1,
     lambda m: m[0].replace("{" + m[1] + ", " + m[2], "{" + m[2] + ", " + m[1]), "bounds"),
    ("tma", "a tile of results is not stored", STORE + r"[^;]*;", -1, "", "undefined"),
    ("tma", "the block ends before its results are read", r"cp\.async\.bulk\.wait_group(\.read)? +0;", -1, "", "bulk"),
    ("tma", "products are in flight when their slot is given back", r"wgmma\.wait_group\S* +1;", -1, "", "race"),
    ("tma", "box of A", "map_A", "box", (1, 32), "deadlock"),
    ("tma", "box of the results", "map_out_a", "box", (1, 32), "undefined"),
    ("tma", "columns of the results", "map_out_a", "dims", (0, 144), "race bounds"),
    ("tma", "rows of the results", "map_out_a", "dims", (1, 64), "undefined bounds"),
    ("cluster", "a peer is not waited for at the start", r"barrier\.cluster\.wait\.aligned;", 0, "", "cluster race"),
    ("cluster", "a slot is given back to the wrong block", r"(mapa\S+ +%r\d+, %r\d+), %r\d+;", -1, r"\1, 0;", "deadlock race mbarrier"),
    ("cluster", "both halves of a tile meet at one barrier", r"bar\.sync +%r\d+, 128;", -1, "bar.sync 13, 128;", "barrier"),
    ("exchange", "sums are added before the peer has sent them", r"@!%p\d+ +bra +wait_\d+;", -1, "", "race undefined"),
    ("exchange", "sums are sent before the peer is there", r"barrier\.cluster\.wait\.aligned;", -1, "", "cluster race"),
    ("exchange", "sums lie in the place of the next four", r"\+8192\], \{", 0, "+8208], {", "undefined race bounds"),
    ("exchange", "no bytes are expected of the peer", r"mbarrier\.arrive\.expect_tx(\S+ _, \[\S+\]), 8192;", -1,
     r"mbarrier.arrive\1;", "deadlock"),
    ("sm80", "a copy too few is waited for", r"cp\.async\.wait_group +1;", -1, "cp.async.wait_group 2;", "race"),
    ("sm80", "a slot is filled while others read it", r"bar\.sync +0;", 1, "", "race"),
    ("sm80", "a part of the tile is not copied", r"cp\.async\.cg\.\S+[^;]*;", 3, "", "undefined"),
    ("rows", "sums are read before all warps have left them", r"bar\.sync +0;", -1, "", "race"),
    ("rows", "results are not stored", r"@?!?%?p?\d* +st\.global\.v4\.\S+[^;]*;", 0, "", "undefined"),
]


def kept(adlgen, folder, kernel):
    (folder / "graph.json").write_text(json.dumps(kernel.graph))
    words = [adlgen, "run", str(folder / "graph.json"), "--gpu", kernel.gpu, "--on", "sim", "--keep", str(folder / "kept")]
    words += ["--dim", f"M={kernel.dims}"] if kernel.dims else []
    done = subprocess.run(words + [w for s in kernel.sets.split() for w in ("--set", s)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"the kernel does not run:\n{done.stdout}")
    folder = folder / "kept"
    launch = json.loads(next(folder.glob("*.launch.json")).read_text())
    return folder, next(folder.glob("*.ptx")).read_text(), launch


def outcome(adlgen, gpu, folder, ptx, launch):
    """Kinds of the faults, and the report."""
    (folder / "broken.ptx").write_text(ptx)
    (folder / "broken.json").write_text(json.dumps(launch))
    done = subprocess.run([adlgen, "sim", str(folder / "broken.ptx"), "--launch", str(folder / "broken.json"), "--gpu", gpu, "--strict",
                           "--schedules", "2", "--json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 5):
        return {"exit " + str(done.returncode)}, done.stdout
    return {f["kind"] for f in json.loads(done.stdout)["faults"] if f["severity"] == "error"}, done.stdout


def changed(ptx, launch, pattern, which, to):
    """The broken text and launch, None where there is nothing to break."""
    if isinstance(which, str):
        launch = copy.deepcopy(launch)
        launch["tensormaps"][pattern][which][to[0]] = to[1]
        return ptx, launch
    places = list(re.finditer(pattern, ptx))
    if not places:
        return None
    at = places[which]
    return ptx[:at.start()] + (to(at) if callable(to) else at.expand(to)) + ptx[at.end():], launch


def main(adlgen):
    failed = 0
    for name, kernel in KERNELS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder, ptx, launch = kept(adlgen, pathlib.Path(scratch), kernel)
            kinds, report = outcome(adlgen, kernel.gpu, folder, ptx, launch)
            if kinds:
                sys.exit(f"{name}: the kernel is not clean:\n{report[:2000]}")
            for _, what, pattern, which, to, wanted in [f for f in FAULTS if f[0] == name]:
                broken = changed(ptx, launch, pattern, which, to)
                kinds, report = outcome(adlgen, kernel.gpu, folder, *broken) if broken else ({"no such line"}, "")
                good = kinds & set(wanted.split())
                failed += not good
                print(f"{name}: {what}: {', '.join(sorted(kinds)) or 'no fault'}{'' if good else f', expected {wanted}'}")
                if not good:
                    print(report[:1500])
    print(f"{len(FAULTS) - failed} of {len(FAULTS)} faults reported")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
