#!/usr/bin/env python3
"""band.py ADLGEN: a loop that is split at both edges of a band, on the simulator, against double precision."""
import math
import random
import sys
import tempfile

from kernel import Kernel, bf16, number

S, D, WINDOW = 330, 64, 150
LIMIT = 4e-3  # of factors of bf16
SHARED = {"h100": 57424, "a100": 40960}

random.seed(4)
q, k, v = [[bf16(random.gauss(0, 1)) for _ in range(S * D)] for _ in range(3)]
Q, K, V = [[[number(x) for x in t[r * D:(r + 1) * D]] for r in range(S)] for t in (q, k, v)]
wanted = []
for r in range(S):
    weights = [(c, sum(x * y for x, y in zip(Q[r], K[c]))) for c in range(max(0, r - WINDOW + 1), r + 1)]
    wanted.append([sum(w * V[c][d] for c, w in weights) for d in range(D)])
for gpu, shared in SHARED.items():
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(sys.argv[1], "band", "band", gpu, ["select"], folder, 132, after="split_loops")
        staged = next((kernel.folder / gpu).glob("*split_loops.ir")).read_text()
        loops = staged[staged.rindex("role @"):].split("for %")[1:]
        free = [loop for loop in loops if "mma" in loop and "select" not in loop]
        if len(loops) < 4 or not free:
            sys.exit(f"{gpu}: {len(loops)} loops, {len(free)} of them without a mask")
        buffers = {"Q": ("bf16", q), "K": ("bf16", k), "V": ("bf16", v), "O": ("f32", [0] * (S * D))}
        box = ([D, S], [64, 64])
        out = kernel.run(6, shared, buffers, [S], {"Q": box, "K": box, "V": box, "O": ([D, S], [32, 64])}, "O")
    error = sum((out[r * D + d] - wanted[r][d]) ** 2 for r in range(S) for d in range(D))
    size = sum(x * x for row in wanted for x in row)
    if math.sqrt(error / size) > LIMIT:
        sys.exit(f"band, {gpu}: error {math.sqrt(error / size):.2e}, limit {LIMIT}")
    print(f"band, {gpu}: error {math.sqrt(error / size):.2e}, limit {LIMIT}")
