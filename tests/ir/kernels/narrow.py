#!/usr/bin/env python3
"""narrow.py ADLGEN: weights of 8 bits and of 4 that a product takes from registers, on the simulator. Each code comes out as its number,
exactly, on GPUs with an instruction for it and without; and sums against double precision."""
import math
import pathlib
import random
import struct
import sys
import tempfile

from kernel import HERE, Kernel, bf16, e4m3, number

ROWS = 256 # times the columns of a step: each code several times


def e5m2(bits):
    return struct.unpack("<e", struct.pack("<H", bits << 8))[0]


E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
NIBBLES = ("s4", "u4", "e2m1") # two a byte, low first
VALUES = {"s8": lambda code: float(code - 256 if code > 127 else code), "u8": float, "e5m2": e5m2,
          "s4": lambda code: float(code - 16 if code > 7 else code), "u4": float, "e2m1": lambda code: E2M1[code & 7] * (-1 if code > 7 else 1),
          "e4m3": lambda code: math.nan if code & 127 == 127 else e4m3(code)}
WORDS = {"h100": ["via warpgroup", "group.a(1) = cast"], "a100": ["via async", "via warp", "mma.a("]}
WARPS = {"h100": ["via tma", "via warp", "mma.a_runs(16, 4, 1) = cast"], "a100": ["via async", "via warp", "mma.a_runs(16, 4, 1) = cast"]}


def compile_for(gpu, kind, wide, warps, folder):
    text = pathlib.Path(folder, "narrow.tile.ir")
    tile = (HERE / "narrow.tile.ir").read_text().replace("e4m3", kind).replace("bf16", wide)
    if kind in NIBBLES:
        tile = tile.replace("multiple 16", "multiple 32")
    if warps:
        tile = tile.replace("slots 3", "slots 3 by_warps 1")
    text.write_text(tile)
    runs = kind in NIBBLES and (warps or gpu == "a100")
    return Kernel(sys.argv[1], text, "narrow", gpu, (WARPS if runs else WORDS)[gpu], folder, 4)


def check_readers(gpu, steps=60):
    """An operand each step of which reads the one before twice: paths through it are 2 to the number of steps, and none walks them all."""
    chain = "".join(f"%c{i + 1}: tile<bf16>[64, 64] = max %c{i}, %c{i}\n" for i in range(steps - 1))
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "readers.tile.ir")
        cast = "%w: tile<bf16>[64, 64] = cast @ab.w\n"
        text.write_text((HERE / "narrow.tile.ir").read_text().replace(cast, cast.replace("%w", "%c0") + chain + f"%w: tile<bf16>[64, 64] = max %c{steps - 1}, %c{steps - 1}\n"))
        Kernel(sys.argv[1], text, "narrow", gpu, WORDS[gpu], folder, 4)


def half(value):
    return struct.unpack("<H", struct.pack("<e", value))[0]


def check(gpu, kind, wide, warps=False):
    encode = bf16 if wide == "bf16" else half
    with tempfile.TemporaryDirectory() as folder:
        kernel = compile_for(gpu, kind, wide, warps, folder)

        def run(codes, x, M, N, K):
            signed = [code - 256 if kind == "s8" and code > 127 else code for code in codes]
            if kind in NIBBLES: # the launch's tensor is of bytes
                signed = [low | high << 4 for low, high in zip(codes[::2], codes[1::2])]
            buffers = {"W": ("u8" if kind in NIBBLES else kind, signed), "X": (wide, x), "D": ("f32", [0] * (M * N))}
            blocks = -(-N // 64) * -(-M // 16)
            extents = {"W": [K, N], "X": [K, M], "D": [M, N]}
            boxes = dict(kernel.boxes)
            if kind in NIBBLES:
                extents["W"][0] //= 2
                if "W" in boxes:
                    boxes["W"] = ([boxes["W"][0][0] // 2, boxes["W"][0][1]], *boxes["W"][1:])
            return kernel.run(blocks, kernel.shared, buffers, [M, N, K], {name: (extents[name], *box) for name, box in boxes.items()}, "D")

        # Column m of D is column m of W, where X has a 1 at k = m and zeros: every code in every place of a word
        count = 16 if kind in NIBBLES else 256
        M, K = 16, 64 if kind in NIBBLES else 16 # a whole line of the slot
        codes = [(n + 37 * k + k // 16) % count for n in range(ROWS) for k in range(K)]
        finite = [code if math.isfinite(VALUES[kind](code)) else 0 for code in codes]
        one = [encode(float(k == m)) for m in range(M) for k in range(K)]
        d = run(finite, one, M, ROWS, K)
        for n in range(ROWS):
            for m in range(M):
                wanted = VALUES[kind](finite[n * K + m])
                if d[n * M + m] != wanted:
                    sys.exit(f"{gpu}, {kind} to {wide}: code {finite[n * K + m]} is {d[n * M + m]}, not {wanted}")
        # What is no number, or infinite, alone in its row
        odd = [code for code in range(count) if not math.isfinite(VALUES[kind](code))]
        if odd:
            d = run([code for code in odd for _ in range(K)], [encode(1.0)] * (M * K), M, len(odd), K)
            for n, code in enumerate(odd):
                wanted = VALUES[kind](code)
                if any(not (math.isnan(x) if math.isnan(wanted) else x == wanted) for x in d[n * M:n * M + M]):
                    sys.exit(f"{gpu}, {kind} to {wide}: code {code} gives {d[n * M]}, not {wanted}")
        for M, N, K in [(4, 70, 224 if kind in NIBBLES else 208)] if wide == "bf16" and kind != "e5m2" else []:
            codes = [random.choice([code for code in range(count) if abs(VALUES[kind](code)) < 500]) for _ in range(N * K)]
            x = [encode(random.gauss(0, 1)) for _ in range(M * K)]
            X = [number(b) if wide == "bf16" else struct.unpack("<e", struct.pack("<H", b))[0] for b in x]
            W = [VALUES[kind](code) for code in codes]
            d = run(codes, x, M, N, K)
            for n in range(N):
                for m in range(M):
                    terms = [W[n * K + k] * X[m * K + k] for k in range(K)]
                    if abs(d[n * M + m] - sum(terms)) > 1e-5 * sum(map(abs, terms)):
                        sys.exit(f"{gpu}, {kind} and {wide}: D[{n}, {m}] is {d[n * M + m]}, not {sum(terms)}")
    print(f"{gpu}, {kind} as {wide}: right")


random.seed(12)
for gpu in "h100", "a100":
    check_readers(gpu)
    for kind in "s8", "u8", "e4m3", "e5m2", *NIBBLES:
        for wide in "bf16", "f16":
            check(gpu, kind, wide)
for kind in NIBBLES: # warps take them on the GPU where groups of them do else
    check("h100", kind, "bf16", warps=True)
