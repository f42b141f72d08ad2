#!/usr/bin/env python3
"""Which kernels of DeepGEMM scripts/peers/build compiles: writes their list as a C++ header to standard output.

    deepgemm.py [SUITE...]      suites of adlgen bench; default: bench/suites/peers.json

DeepGEMM compiles a kernel for each shape when it is first called, N and K compiled in; here that is done ahead,
for the shapes of the suites whose graph is one bf16 product. The rules by which it chooses a kernel on GPUs
of capability 9.0 (version 2.6.1, csrc/jit_kernels/heuristics/sm90.hpp) are told again below."""
import json
import os
import struct
import sys

SMS = 132  # compiled into its kernels
SHARED = 232448  # bytes of shared memory it plans with
BLOCK_K = 64
FEW_ROWS, BARRIERS, MOST_STAGES = 64, 16 * 2 * 8, 16
L2_BYTES, L1_BYTES = int(min(64 * SMS, 8e6 / 1.3e3)), 128 * SMS  # a clock


def single(x):
    """Rounded to f32, in which it compares."""
    return struct.unpack("f", struct.pack("f", x))[0]


def ceil_div(a, b):
    return -(-a // b)


def stages_of(bm, bn):
    result = ceil_div(bm * bn * 2, 1024) * 1024
    return min((SHARED - result - BARRIERS) // ((bm + bn) * BLOCK_K * 2), MOST_STAGES)


def candidates(m):
    """(block m, block n, cluster along m, along n), in the order in which it looks at them: the first of
    equals wins."""
    rows = [64, 128] + [16] * (m <= 16) + [32] * (m <= 32) + [256]
    for cm, cn in ((1, 1), (1, 2), (2, 1)):
        for bm in rows:
            for bn in range(16, 257, 16):
                stages = stages_of(bm, bn)
                if (bm > 128 and bn > 128) or stages < 3 or (bm * bn < 128 * 192 and stages < 4):
                    continue
                yield bm, bn, cm, cn


def cycles(m, n, k, bm, bn, cm, cn):
    """Its estimate: the slower of L1 and L2, over how full the waves are."""
    blocks = ceil_div(m, bm) * ceil_div(n, bn)
    waves = ceil_div(blocks, SMS)
    if cm * cn > 1 and waves <= 1:
        return float("inf")
    loaded_l2 = k * (bm // cn + bn // cm) * 2
    loaded_l1 = k * (bm + bn) * 2
    read_l1 = k * (max(FEW_ROWS, bm) + bn) * 2 + bm * bn * 2
    stored = bm * bn * 2
    l2 = (loaded_l2 + stored) * blocks // L2_BYTES
    l1 = (loaded_l1 + read_l1 + stored) * blocks // L1_BYTES
    full = single(single(blocks) / single(waves * SMS))
    return int(single(single(max(l1, l2)) / full))


def choose(m, n, k):
    best = min(candidates(m), key=lambda c: cycles(m, n, k, *c))  # min() keeps the first of equals
    bm, bn, cm, cn = best
    swizzle = next(s for s in (128, 64, 32, 16) if bn * 2 % s == 0)
    return bm, bn, swizzle, stages_of(bm, bn), 128 if bm <= 64 else 256, cm * cn, cn > 1


def shapes_of(path):
    """(M, N, K) of the cases that are one bf16 product with k contiguous in both operands."""
    found = []
    with open(path) as file:
        suite = json.load(file)
    for case in suite["cases"]:
        inputs = case["graph"]["inputs"] if isinstance(case["graph"], dict) else {}
        if not all(i["type"] == "bf16" for i in inputs.values()) or set(inputs) != {"A", "B"}:
            continue
        if inputs["B"].get("strides", [0])[0] != 1:
            continue
        choices = [{}]
        for dims in case["dims"]:
            choices = [{**c, **d} for c in choices for d in dims]
        found += [(c["M"], c["N"], c["K"]) for c in choices if c["N"] % 8 == 0 and c["K"] % 8 == 0]
    return found


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    suites = sys.argv[1:] or [os.path.join(here, "..", "..", "bench", "suites", "peers.json")]
    shapes = sorted(set(s for path in suites for s in shapes_of(path)))
    kernels = {}
    print("// Written by deepgemm.py.\n#define PEER_SMS %d" % SMS)
    rows = []
    for m, n, k in shapes:
        kernel = (n, k) + choose(m, n, k)
        index = kernels.setdefault(kernel, len(kernels))
        rows.append("  X(%d, %d, %d, %d)" % (m, n, k, index))
    print("// N, K, block m, block n, swizzle of D, stages, threads that multiply, cluster, along n\n"
          "#define DEEPGEMM_KERNELS(X) \\")
    print(" \\\n".join("  X(%d, %d, %d, %d, %d, %d, %d, %d, %s)" % (k[:8] + ("true" if k[8] else "false",))
                       for k in kernels) + "\n")
    print("// M, N, K, its kernel's place in the list above\n#define DEEPGEMM_SHAPES(X) \\")
    print(" \\\n".join(rows))


if __name__ == "__main__":
    main()
