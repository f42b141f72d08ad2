#!/usr/bin/env python3
"""attention_template.py ADLGEN IR_TOOL: templates/attention.ir, filled in, on the simulator against double precision: queries and keys
of unlike numbers that are multiples of nothing, groups of heads, causal masks in both alignments, rows that see nothing, rounds that alternate by parameter and by launch,
and walks in which a block takes the next tile when it is free."""
import math
import os
import random
import sys
import tempfile

from attending import LIMIT, Shape, filled_in, run
from kernel import Kernel

# type, causal, tensors with heads inside, blocks that take the next tile when they are free; then (batches, heads, group, queries, keys, diagonal, blocks)
CASES = [("bf16", 0, False, 0, [(1, 1, 1, 1, 1, None, 2), (1, 2, 2, 65, 129, None, 2), (2, 2, 1, 129, 150, None, 4)]),
         ("f16", 1, True, 0, [(1, 1, 1, 2, 2, 0, 2), (2, 2, 2, 130, 140, 10, 4), (1, 1, 1, 270, 70, -70, 4)]),
         ("bf16", 1, False, 1, [(1, 1, 1, 1, 1, 0, 1), (2, 2, 2, 130, 140, 10, 3), (1, 1, 1, 270, 70, -70, 2)])]
FULL = [(1, 1, 1, m, n, None, 2) for m in (1, 2, 63, 64, 65, 127, 128, 129, 300) for n in (1, 2, 64, 127, 129, 300)]
FULL += [(1, 1, 1, 1000, 1000, None, 4), (3, 4, 2, 300, 127, None, 6)]


def main(adlgen, ir_tool):
    random.seed(17)
    full = os.environ.get("ADLGEN_TEST_FULL")
    for gpu in ("h100", "a100"):
        for kind, causal, heads_inside, dynamic, shapes, d in ((*case, d) for case in CASES for d in ([64, 128] if full else [64])):
            if dynamic and gpu == "a100":
                continue # one role copies and computes there
            pairs = gpu == "h100" and not dynamic
            with tempfile.TemporaryDirectory() as folder:
                words = ["via tma", "via warpgroup", "role @producer", "in group.a(", *(["claim"] if dynamic else [])] if gpu == "h100" else ["via async", "via warp"]
                path = filled_in(ir_tool, folder, "attention", kind, heads_inside, heads=2, backwards=1 - causal, dynamic=dynamic, causal=causal, cluster_n=2 if pairs else 1, queries=2 if gpu == "h100" else 1, d=d, dv=d, scale=1 / math.sqrt(d))
                kernel = Kernel(adlgen, path, "attention", gpu, words, folder, 132, "budget_registers")
                if full:
                    shapes = shapes + [(*s[:5], s[4] - s[3] if causal else None, s[6]) for s in FULL]
                worst = max(run(kernel, kind, Shape(*s[:5], d, d), s[6], 1 / math.sqrt(d), s[5], heads_inside, (0, causal), [("attention_left", "f32", d + 4), ("attention_posts", "s32", 128)]) for s in shapes)
                print(f"{gpu}, {kind}, {'causal' if causal else 'all keys'}{', dynamic' if dynamic else ''}: {len(shapes)} shapes, error {worst:.2e}, limit {LIMIT}")


main(*sys.argv[1:])
