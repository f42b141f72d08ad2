#!/usr/bin/env python3
"""attention_decode.py ADLGEN IR_TOOL: templates/attention_decode.ir, filled in, on the simulator against double precision: few queries,
keys divided among blocks of which some get none, groups of heads, rows that see nothing; flags are as they were when the kernel ends."""
import math
import os
import random
import sys
import tempfile

from attending import LIMIT, Shape, filled_in, run
from kernel import Kernel

PLACES, ROWS = 24, 64
# type, causal, tensors with heads inside; then (batches, heads, group, queries, keys, diagonal, parts)
CASES = [("bf16", 0, False, [(1, 1, 1, 1, 1, None, 3), (1, 2, 2, 4, 300, None, 3), (2, 2, 1, 1, 150, None, 6)]),
         ("f16", 1, True, [(1, 2, 2, 9, 257, 248, 5), (1, 1, 1, 64, 70, -10, 2)])]
FULL = [(1, 1, 1, m, n, None, 4) for m in (1, 2, 63, 64) for n in (1, 2, 63, 64, 65, 127, 128, 129, 300, 1000)]
# what a wrong combination or a wrong tile looks like: each has to be found
MUTANTS = {"combined without the maximum": ("%under: tile<f32>[$chunk, 1] = sub %peaks[%u], %top2", "%under: tile<f32>[$chunk, 1] = sub %peaks[%u], 0.0"),
           "sums so far not rescaled": ("%faded: tile<f32>[$chunk, $dv_tile] = mul %sums, %old", "%faded: tile<f32>[$chunk, $dv_tile] = mul %sums, 1.0"),
           "totals of the part beside": ("load attention_left[%place, %r, $dv_tile + 1]", "load attention_left[%z - %part, %r, $dv_tile + 1]"),
           "keys one tile stale": ("K[%b, %h / G, (%to - 1 - %j) * $keys, 0]", "K[%b, %h / G, max(0, %to - 2 - %j) * $keys, 0]"),
           "last part left out": ("min(%q * $together + %u, PARTS - 1)", "min(%q * $together + %u, PARTS - 2)")}


def settings(d):
    return {"places": PLACES, "most": 6, "together": 2, "d": d, "dv": d, "scale": 1 / math.sqrt(d)}


def run_shape(kernel, kind, s, d, heads_inside):
    workspace = [("attention_left", "f32", PLACES * ROWS * (d + 4)), ("attention_posts", "s32", PLACES * 64)]
    return run(kernel, kind, Shape(*s[:5], d, d), s[0] * s[1] * s[6], 1 / math.sqrt(d), s[5], heads_inside, s[6:], workspace)


def find_mutants(adlgen, ir_tool, gpu):
    for name, mutant in MUTANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = filled_in(ir_tool, folder, "attention_decode", "bf16", False, mutant, causal=0, **settings(64))
            kernel = Kernel(adlgen, path, "attention_decode", gpu, [], folder, 132, "budget_registers")
            try:
                error = run_shape(kernel, "bf16", (1, 2, 2, 4, 300, None, 3), 64, False)
            except SystemExit:
                continue
            sys.exit(f"nobody sees that {name}: error {error:.2e}")
    print(f"{gpu}: {len(MUTANTS)} mutants found")


def main(adlgen, ir_tool):
    random.seed(18)
    full = os.environ.get("ADLGEN_TEST_FULL")
    for gpu in ("h100", "a100"):
        for kind, causal, heads_inside, shapes, d in ((*case, d) for case in CASES for d in ([64, 128] if full else [64])):
            with tempfile.TemporaryDirectory() as folder:
                words = ["via tma", "via warpgroup", "role @producer"] if gpu == "h100" else ["via async", "via warp"]
                path = filled_in(ir_tool, folder, "attention_decode", kind, heads_inside, causal=causal, **settings(d))
                kernel = Kernel(adlgen, path, "attention_decode", gpu, words, folder, 132, "budget_registers")
                if full:
                    shapes = shapes + [(*s[:5], s[4] - s[3] if causal else None, s[6]) for s in FULL]
                worst = max(run_shape(kernel, kind, s, d, heads_inside) for s in shapes)
                print(f"{gpu}, {kind}, {'causal' if causal else 'all keys'}: {len(shapes)} shapes, error {worst:.2e}, limit {LIMIT}")
        find_mutants(adlgen, ir_tool, gpu)


main(*sys.argv[1:])
