#!/usr/bin/env python3
"""widened.py ADLGEN: weights of 8 bits that a role of its own widens between the copies and the products, on the simulator,
against double precision. Where one role does everything, it fills the slots and reads them in turn."""
import pathlib
import random
import sys
import tempfile

from kernel import HERE, Kernel, bf16, close, e4m3, number

ROLES = ["role @producer warps 0 .. 4", "role @fills_wide warps 4 .. 8", "role @consumer warps 8 .. 16", "via warpgroup",
         "channel @wide slots 3 full_arrivals 4 empty_arrivals 8"]
CASES = [("h100", "e4m3", ROLES, 155792), ("h100", "s8", ROLES, 155792),
         ("a100", "s8", ["role @all warps 0 .. 4", "via async", "via warp", "put @wide.b["], 122880)]
SIZES = [(70, 136, 208), (1, 8, 16), (128, 264, 336)]


def whole(text):
    return text


def mixed(text):
    """What is copied and what is computed are tiles of one slot."""
    text = text.replace("""    channel @x slots 3 {
      tile @a: tile<bf16>[128, 64]
    }
""", "").replace("channel @wide slots 3 {\n", "channel @wide slots 3 {\n      tile @a: tile<bf16>[128, 64]\n")
    text = text.replace("fill @x.a", "fill @wide.a").replace("@x.a *", "@wide.a *")
    return text.replace("      take @x {\n", "").replace("          mma", "        mma").replace("        }\n      }\n", "      }\n")


def nested(text):
    """The products stand in the `take` of the raw weights, which the consumer does not take."""
    inner = text[text.index("      take @x {"):text.index("    %d: tile")]
    inner = inner[:inner.rindex("    }\n")]
    return text.replace(inner, "").replace("        fill @wide.b <- %b\n", "        fill @wide.b <- %b\n" + inner)


def weights(kind, n):
    if kind == "s8":
        codes = [random.randrange(-128, 128) for _ in range(n)]
        return codes, [float(code) for code in codes]
    codes = [random.choice([code for code in range(256) if (code & 127) < 127]) for _ in range(n)]
    return codes, [e4m3(code) for code in codes]


def check(gpu, kind, words, shared, m_n_k, change=whole):
    M, N, K = m_n_k
    a = [bf16(random.gauss(0, 1)) for _ in range(M * K)]
    codes, values = weights(kind, N * K)
    s = [random.choice([1, 2, 3]) / 64 for _ in range(N)]
    A = [number(x) for x in a]
    wide = [number(bf16(values[i] * s[i // K])) for i in range(N * K)]
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "widened.tile.ir")
        text.write_text(change((HERE / "widened.tile.ir").read_text().replace("e4m3", kind)))
        kernel = Kernel(sys.argv[1], text, "gemm_widened", gpu, words, folder, 2)
        buffers = {"A": ("bf16", a), "W": (kind, codes), "S": ("f32", s), "D": ("bf16", [0] * (M * N))}
        maps = {"A": ([K, M], [64, 128]), "W": ([K, N], [64, 128], 0), "D": ([N, M], [64, 64])}
        d = kernel.run(2, shared, buffers, [M, N, K], maps, "D")
    for i in range(M * N):
        m, n = divmod(i, N)
        if not close(d[i], sum(x * y for x, y in zip(A[m * K:(m + 1) * K], wide[n * K:(n + 1) * K]))):
            sys.exit(f"{gpu}, {kind}: D[{m}, {n}] is {number(d[i])}")
    print(f"{gpu}, {kind}: {M * N} elements right")


random.seed(11)
for case in CASES:
    for size in SIZES[:2]:
        check(*case, size)
check(*CASES[0], SIZES[2])
check("h100", "s8", ROLES[:4] + ["channel @wide slots 3 full_arrivals 5 full_bytes 16384 empty_arrivals 8"], 155744, SIZES[0], mixed)
check("h100", "e4m3", ROLES, 155792, SIZES[0], nested)
check("a100", "s8", CASES[2][2], 122880, SIZES[0], mixed)
