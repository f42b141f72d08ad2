#!/usr/bin/env python3
"""attention.py ADLGEN: attention from TILE text, whose probabilities stay in registers, on the simulator, against double
precision."""
import math
import pathlib
import random
import sys
import tempfile

from kernel import HERE, Kernel, bf16, number, with_facts

S, D = 150, 128
# the kernel of this folder, and the one of tests/ir/paper, whose queries are loaded as fragments; and shared bytes
FOLDERS = {"attention": HERE, "attention_forward": HERE.parent / "paper"}
CASES = {("h100", "attention"): (["via tma", "via warpgroup", "role @producer", "in group.a(2)"], 196688),
         ("a100", "attention"): (["via async", "via warp", "in mma.a(8, 1)"], 163840),
         ("h100", "attention_forward"): (["via tma", "via warpgroup", "role @producer", "group.a(2) = convert %q via nothing"],
                                         163904),
         ("a100", "attention_forward"): (["via async", "via warp", "in mma.a(8, 1) = convert %q via nothing"], 131072)}
LIMIT = 4e-3  # of a bf16 result, whose probabilities are of bf16 too


def reference(q, k, v):
    for r in range(S):
        scores = [sum(x * y for x, y in zip(q[r], k[c])) / math.sqrt(D) for c in range(r + 1)]
        peak = max(scores)
        weights = [math.exp(s - peak) for s in scores]
        total = sum(weights)
        yield [sum(w * v[c][d] for c, w in enumerate(weights)) / total for d in range(D)]


random.seed(3)
q, k, v = [[bf16(random.gauss(0, 1)) for _ in range(S * D)] for _ in range(3)]
rows = [[[number(x) for x in t[r * D:(r + 1) * D]] for r in range(S)] for t in (q, k, v)]
wanted = list(reference(*rows))
for (gpu, entry), (words, shared) in CASES.items():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{entry}.ir"
        path.write_text(with_facts((FOLDERS[entry] / f"{entry}.tile.ir").read_text(), 0))
        kernel = Kernel(sys.argv[1], path, entry, gpu, words, folder, 132)
        buffers = {"Q": ("bf16", q), "K": ("bf16", k), "V": ("bf16", v), "O": ("bf16", [0] * (S * D))}
        box = ([D, S, 1], [64, 128, 1])
        maps = {"Q": box, "K": box, "V": box, "O": ([D, S, 1], [64, 64, 1])}
        out = kernel.run(2, shared, buffers, [1, S], maps, "O")
    error = size = 0.0
    for r in range(S):
        for d in range(D):
            error += (number(out[r * D + d]) - wanted[r][d]) ** 2
            size += wanted[r][d] ** 2
    if math.sqrt(error / size) > LIMIT:
        sys.exit(f"{entry}, {gpu}: error {math.sqrt(error / size):.2e}, limit {LIMIT}")
    print(f"{entry}, {gpu}: error {math.sqrt(error / size):.2e}, limit {LIMIT}")
