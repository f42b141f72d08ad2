#!/usr/bin/env python3
"""turns.py ADLGEN: sections of attention's text that two warpgroups take in turn, and what it says of their order: on the
simulator against double precision, in PTX, and, where nvdisasm is there, in what the assembler makes of it."""
import math
import pathlib
import random
import re
import shutil
import sys
import tempfile

from kernel import HERE, Kernel, bf16, call, number

S, D, SHARED, LIMIT = 70, 128, 196688, 4e-3
EXPONENTIALS = "        %e: tile<f32>[128, 128] = exp2 %y\n"
ELEMENTS = 64  # of the probabilities, a thread's
KERNELS = {"turn": f"        turn @exponentials {{\n{EXPONENTIALS}        }}\n", "order": EXPONENTIALS + "        order\n"}
WORDS = {"turn": ["turn @exponentials instances 2 ids [1, 2]", "turn_wait @exponentials, instance()", "fence order",
                  "turn_pass @exponentials, instance()"],
         "order": ["turn @issues", "fence order", "wait_group products pending 1"]}
# what stands in front of a thread's exponentials, and behind them, in PTX and as the assembler has it
BORDERS = {"turn": [(r"bar\.sync|BAR\.SYNC", r"bar\.arrive|BAR\.ARV")],
           "order": [(r"wgmma\.wait_group\.sync\.aligned +1|WARPGROUP\.DEPBAR", r"wgmma\.wait_group\.sync\.aligned +0|WARPGROUP\.DEPBAR")]}


def between(text, borders):
    """The most exponentials that stand between two borders, no other border and no product between."""
    most = 0
    for low, high in borders:
        count = None
        for line in text.split("\n"):
            if re.search(high, line) and count is not None:
                most, count = max(most, count), None
            if re.search(low, line):
                count = 0
            elif re.search(r"wgmma\.mma_async|HGMMA", line):
                count = None
            elif count is not None and re.search(r"ex2\.|MUFU\.EX2", line):
                count += 1
    return most


random.seed(3)
q, k, v = [[bf16(random.gauss(0, 1)) for _ in range(S * D)] for _ in range(3)]
Q, K, V = [[[number(x) for x in t[r * D:(r + 1) * D]] for r in range(S)] for t in (q, k, v)]
wanted = []
for r in range(S):
    weights = [math.exp(sum(x * y for x, y in zip(Q[r], K[c])) / math.sqrt(D)) for c in range(r + 1)]
    wanted.append([sum(w * V[c][d] for c, w in enumerate(weights)) / sum(weights) for d in range(D)])
for name, text in KERNELS.items():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.ir"
        path.write_text((HERE / "attention.tile.ir").read_text().replace(EXPONENTIALS, text))
        kernel = Kernel(sys.argv[1], path, "attention", "h100", WORDS[name], folder, 132, "derive_waits")
        box = ([D, S, 1], [64, 128, 1])
        buffers = {"Q": ("bf16", q), "K": ("bf16", k), "V": ("bf16", v), "O": ("bf16", [0] * (S * D))}
        out = kernel.run(1, SHARED, buffers, [1, S], {"Q": box, "K": box, "V": box, "O": ([D, S, 1], [64, 64, 1])}, "O")
        found = {"PTX": between(kernel.ptx.read_text(), BORDERS[name])}
        if shutil.which("nvdisasm"):
            call(sys.argv[1], "compile", path, "--gpu", "h100", "--emit", "cubin", "--out", pathlib.Path(folder) / "assembled")
            cubin = pathlib.Path(folder) / "assembled" / "h100" / "attention.cubin"
            found["SASS"] = between(call("nvdisasm", "-c", cubin), BORDERS[name])
    square = sum((number(out[r * D + d]) - wanted[r][d]) ** 2 for r in range(S) for d in range(D))
    error = math.sqrt(square / sum(value ** 2 for row in wanted for value in row))
    if error > LIMIT:
        sys.exit(f"{name}: error {error:.2e}, limit {LIMIT}")
    for where, count in found.items():
        if count < ELEMENTS:
            sys.exit(f"{name}: {count} exponentials of {ELEMENTS} stay where the text has them in {where}")
    print(f"{name}: error {error:.2e}; exponentials in place: {found}")
