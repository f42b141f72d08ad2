#!/usr/bin/env python3
"""paper.py ADLGEN: the five TILE texts that define the language (tests/ir/paper), told the facts that real kernels have,
compile with the mechanisms and roles of their STAGED twins, and without TMA at sizes that fit."""
import pathlib
import sys
import tempfile

from kernel import Kernel, with_facts

PAPER = pathlib.Path(__file__).resolve().parents[1] / "paper"
ROLES = ["via tma", "via warpgroup", "role @producer", "role @consumer"]
# of each text and GPU: slots of its channels (0: as they are), and words of its STAGED form; None: the GPU lacks the type
TEXTS = {
    "attention_forward": {"h100": (0, ROLES + ["cursor @k", "cursor @v"]),
                          "a100": (0, ["via async", "via warp", "mma.a(8, 1)"])},
    "gemm_bf16": {"h100": (0, ROLES), "a100": (3, ["via async", "via warp"])},
    "gemm_fp8": {"h100": (0, ROLES + ["get @ab.sa[%read]^T"]), "a100": None},
    "gemm_grouped_masked": {"h100": (0, ROLES), "a100": (3, ["via async", "via warp"])},
    "softmax_cluster": {"h100": (0, ["role @all"]), "a100": (0, ["role @all"])},
}


for name, gpus in TEXTS.items():
    for gpu, expected in gpus.items():
        if not expected:
            continue
        slots, words = expected
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"{name}.ir"
            path.write_text(with_facts((PAPER / f"{name}.tile.ir").read_text(), slots))
            Kernel(sys.argv[1], path, name, gpu, words, folder, 132)
            print(f"{name}: {gpu}")
