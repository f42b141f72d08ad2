#!/usr/bin/env python3
"""facts.py ADLGEN: what becomes of the five TILE texts of tests/ir/paper, with the facts that real kernels have, on each GPU:
the mechanisms and roles of their STAGED twins and no spills, at sizes that fit the GPU."""
import pathlib
import subprocess
import sys
import tempfile

from kernel import with_facts

PAPER = pathlib.Path(__file__).resolve().parent.parent / "paper"
ROLES = ["role @producer", "role @consumer", "via tma map", "via warpgroup"]
WARPS = ["role @all warps", "via async", "via warp"]
# text, GPU, what a smaller GPU needs besides, words of the form behind derive_waits
OUTCOMES = [
    ("attention_forward", "h100", {}, ROLES + ["pipelined", "pending 1", "cursor @k", "cursor @v"]),
    ("attention_forward", "a100", {}, WARPS + ["mma.a(8, 1)"]),
    ("gemm_bf16", "h100", {}, ROLES + ["pending 1"]),
    ("gemm_bf16", "a100", {"slots 4": "slots 3"}, WARPS),
    ("gemm_fp8", "h100", {}, ROLES + ["get @ab.sa[%read]^T"]),
    ("gemm_grouped_masked", "h100", {}, ROLES),
    ("gemm_grouped_masked", "a100", {"slots 6": "slots 4"}, WARPS),
    ("softmax_cluster", "h100", {}, ["cluster 4", "peer 3", "scope block"]),
    ("softmax_cluster", "a100", {}, ["role @all warps 0 .. 8", "reduce"]),
]
REFUSED = [
    ("gemm_fp8", "a100", {"slots 5": "slots 6"}, "bytes of shared memory,"),
    ("gemm_bf16", "a100", {}, "needs 196608 bytes of shared memory, 29696 more than"),
    ("gemm_grouped_masked", "a100", {}, "needs 196608 bytes of shared memory, 29696 more than"),
]


def text(name, changes):
    source = with_facts((PAPER / f"{name}.tile.ir").read_text(), 0)
    for old, new in changes.items():
        assert old in source, (name, old)
        source = source.replace(old, new)
    return source


def compile_text(adlgen, name, gpu, changes, folder):
    file = pathlib.Path(folder) / f"{name}.ir"
    file.write_text(text(name, changes))
    return subprocess.run([adlgen, "compile", file, "--gpu", gpu, "--emit", "cubin", "--out", folder, "--print-after", "overlap_products",
                           "--print-after", "derive_waits", "--print-after", "derive_barriers"], capture_output=True, text=True)


def main(adlgen):
    wrong = 0
    for name, gpu, changes, words in OUTCOMES:
        with tempfile.TemporaryDirectory() as folder:
            run = compile_text(adlgen, name, gpu, changes, folder)
            staged = "".join(file.read_text() for file in (pathlib.Path(folder) / gpu).glob("*.ir")) if not run.returncode else ""
        row = next((line.split() for line in run.stdout.splitlines() if line.startswith(name)), [])
        faults = [f"no `{word}`" for word in words if word not in staged]
        if not row or row[-2] != "0":
            faults.append(f"spills: {' '.join(row)}{run.stderr}")
        wrong += bool(faults)
        print(f"{name} {gpu}: {'; '.join(faults) or 'as its STAGED twin, no spills'}")
    for name, gpu, changes, message in REFUSED:
        with tempfile.TemporaryDirectory() as folder:
            run = compile_text(adlgen, name, gpu, changes, folder)
        right = run.returncode == 3 and message in run.stderr
        wrong += not right
        print(f"{name} {gpu}: {'refused by name' if right else f'exit {run.returncode}: {run.stderr}'}")
    return wrong > 0


sys.exit(main(sys.argv[1]))
