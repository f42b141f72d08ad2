#!/usr/bin/env python3
"""nested.py ADLGEN: a channel that is filled and taken inside of another one's take, on the simulator, against double
precision."""
import random
import sys
import tempfile

from kernel import Kernel, bf16, close, number

S, D = 200, 128
WORDS = {"h100": ["via tma", "via warpgroup", "role @producer", "cursor @q", "cursor @k"],
         "a100": ["via async", "via warp", "cursor @q", "cursor @k"]}


def compare(gpu, out, q, k):
    rows = [[number(x) for x in k[r * D:(r + 1) * D]] for r in range(S)]
    folded = [[sum(rows[r][d] for r in range(c, S, 128)) for d in range(D)] for c in range(128)]
    for r in range(S):
        row = [number(x) for x in q[r * D:(r + 1) * D]]
        for c in range(128):
            if not close(out[r * D + c], sum(x * y for x, y in zip(row, folded[c]))):
                sys.exit(f"{gpu}: O[{r}, {c}] is {number(out[r * D + c])}")


random.seed(11)
q, k = [[bf16(random.gauss(0, 1)) for _ in range(S * D)] for _ in range(2)]
for gpu, words in WORDS.items():
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "nested", "qk", gpu, words, folder, 132)
        buffers = {"Q": ("bf16", q), "K": ("bf16", k), "O": ("bf16", [0] * (S * D))}
        box = ([D, S], [64, 128])
        maps = {"Q": box, "K": box, "O": ([D, S], [64, 64])}
        compare(gpu, kernel.run(2, 131120, buffers, [S], maps, "O"), q, k)
        print(f"{gpu}: {S * 128} elements right")
