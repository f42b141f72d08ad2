"""Writes the launch file and the expected results of every kernel here, computed apart from the simulator.

python3 expect.py       (NumPy; NAME.ptx with entry E gets NAME.E.launch.json and NAME.E.expect.json)
"""
import json
import struct
import numpy as np


def write(file, entry, buffers, args, block=32, grid=1, expect=None, printed=None, faults=(), gpu=None, **launch):
    description = {"version": 1, "entry": entry, "grid": [grid], "block": [block], "args": args, "buffers": buffers}
    description.update(launch)
    wanted = {"version": 1, "buffers": {k: np.asarray(v).ravel().tolist() for k, v in (expect or {}).items()}}
    if printed is not None:
        wanted["printed"] = printed
    if faults:
        wanted["faults"] = list(faults)
    if gpu:
        wanted["gpu"] = gpu
    for kind, value in (("launch", description), ("expect", wanted)):
        with open(f"{file}.{entry}.{kind}.json", "w") as out:
            json.dump(value, out, separators=(", ", ": "))
            out.write("\n")


def out(n, kind="s32", fill="none"):
    return {"type": kind, "shape": [n], "fill": fill}


def signed(x):
    x &= 0xFFFFFFFF
    return x - (1 << 32) if x >> 31 else x


def language():
    t = range(64)

    def paths(r, c):
        return 1 if not r or not c else paths(r - 1, c) + paths(r, c - 1)

    write("language", "recursion", {"out": out(64)}, [{"buffer": "out"}], 64,
          expect={"out": [paths(i % 4, i % 5) * 100 + i % 4 + i % 5 for i in t]})
    functions = [lambda x: 2 * x, lambda x: x * x, lambda x: -x]
    write("language", "pointers", {"out": out(64)}, [{"buffer": "out"}, {"s32": 1}], 64,
          expect={"out": [functions[(i + 1) % 3](i) for i in t]})
    write("language", "virtuals", {"out": out(64)}, [{"buffer": "out"}], 64,
          expect={"out": [i * i if i % 2 else 3 * i for i in t]})
    write("language", "stack", {"out": out(64)}, [{"buffer": "out"}, {"s32": 9}], 64,
          expect={"out": [36 * i for i in t]})
    words = ["one", "three", "five"]
    write("language", "prints", {"out": out(3)}, [{"buffer": "out"}], 3,
          expect={"out": [ord(words[i][i]) for i in range(3)]},
          printed="".join("%d %s %5.2f %c %d ff%%\n" % (i, words[i], i + 0.5, chr(97 + i), -5000000000) for i in range(3)))
    write("language", "asserts", {"out": out(32, fill="zero")}, [{"buffer": "out"}, {"s32": 31}], 32, faults=["trap"])
    write("language", "heap", {"out": out(32)}, [{"buffer": "out"}], 32, expect={"out": [7 * i for i in range(32)]})
    write("language", "tiles", {"out": out(64)}, [{"buffer": "out"}], 64,
          expect={"out": [sum(range(i // 8 * 8, i // 8 * 8 + 8)) + (1000 * sum(j % 3 == 0 for j in range(i // 32 * 32, i // 32 * 32 + 32)) if i % 3 == 0 else 0) for i in t]})
    write("language", "gridsync", {"out": out(128)}, [{"buffer": "out"}, {"s32": 128}], 32, 4,
          expect={"out": [((i + 64) % 128) ** 2 for i in range(128)]})


def small_float(x, exponent, mantissa, bias, most):
    if x == 0:
        return 0.0
    e = max(np.floor(np.log2(abs(x))), 1 - bias)
    q = 2.0 ** (e - mantissa)
    return float(np.clip(np.round(x / q) * q, -most, most))


def bf16(x):
    u = struct.unpack("<I", struct.pack("<f", np.float32(x)))[0]
    return struct.unpack("<f", struct.pack("<I", (u + 0x7FFF + (u >> 16 & 1)) >> 16 << 16))[0]


def types():
    start = 0x7FFFFFFF - 100
    nibble = [[min(start + 32 * ((r - 4) * (c if c < 8 else c - 16)), 0x7FFFFFFF) for c in range(8)] for r in range(8)]
    write("types", "nibbles", {"out": out(64)}, [{"buffer": "out"}], expect={"out": nibble})
    a = [[0xFFFF if 2 * q < r else 0 for q in range(4)] for r in range(8)]
    b = [[0xFF if q < r else 0 for q in range(4)] for r in range(8)]
    count = lambda f: [[sum(bin(f(x, y)).count("1") for x, y in zip(a[r], b[c])) for c in range(8)] for r in range(8)]
    write("types", "bits", {"out": out(64)}, [{"buffer": "out"}],
          expect={"out": 1000 * np.array(count(lambda x, y: x ^ y)) + count(lambda x, y: x & y)})
    rows = []
    for t in range(32):
        x = np.float32((t - 16) * np.float32(0.3))
        low, high = np.float16(x), np.float16(np.float32(1) - x)
        fused = [max(float(np.float16(float(v) * float(v) - 1)), 0.0) for v in (low, high)]
        pair = [max(bf16(x), 0.25), max(bf16(-x), 0.25)]
        rows.append([np.float32(np.float32(fused[0]) + np.float32(fused[1])), np.float32(pair[0] * pair[1]),
                     small_float(float(x), 4, 3, 7, 448), small_float(float(x), 5, 2, 15, 57344)])
    write("types", "floats", {"out": out(128, "f32")}, [{"buffer": "out"}], expect={"out": np.array(rows, float)})
    values = []
    for t in range(32):
        a, b = 0x01020304 * t & 0xFFFFFFFF, 0x7F80FF10
        ab, bb = a.to_bytes(4, "little"), b.to_bytes(4, "little")
        s8 = lambda v: v - 256 if v > 127 else v
        s16 = lambda v: v - 65536 if v > 32767 else v
        join = lambda f: int.from_bytes(bytes(f(x, y) & 255 for x, y in zip(ab, bb)), "little")
        halves = [max(s16(a >> s & 0xFFFF), s16(b >> s & 0xFFFF)) & 0xFFFF for s in (0, 16)]
        dot = (5 + sum(x * y for x, y in zip(ab, bb))) & 0xFFFFFFFF
        both = (b << 32 | a) << 9 >> 32 & 0xFFFFFFFF
        permuted = bytes([ab[0], ab[1], bb[0], bb[1]])
        values.append(join(lambda x, y: x + y) ^ join(lambda x, y: abs(x - y)) ^ (halves[1] << 16 | halves[0]) ^
                      join(lambda x, y: (x + y + 1) >> 1) ^ join(lambda x, y: 255 if s8(x) > s8(y) else 0) ^ dot ^
                      int.from_bytes(permuted, "little") ^ both)
    write("types", "bytes", {"out": out(32, "u32")}, [{"buffer": "out"}], expect={"out": values})
    count, xor = 0, 0
    for t in range(128):
        count = 0 if count >= 6 else count + 1
        xor ^= t << 3
    write("types", "atomics", {"out": out(4, "u32", "zero"), "pairs": out(2, "bf16", "zero"), "one": out(1, "f32", "zero")},
          [{"buffer": "out"}, {"buffer": "pairs"}, {"buffer": "one"}], 32, 4,
          expect={"out": [sum(range(128)), count, xor, 127 * 5], "pairs": [128, 64], "one": [sum(range(128))]})


def pattern(rows, columns, limit):
    return (np.arange(rows)[:, None] * 7 + np.arange(columns)[None, :] * 5 + np.arange(rows)[:, None] ** 2) % limit


def copies():
    values = pattern(5, 64, 1000).astype(np.int32)
    np.save("numbers.npy", values)
    write("copies", "pipeline", {"in": {"type": "s32", "shape": [5, 64], "file": "numbers.npy"}, "out": out(64)},
          [{"buffer": "in"}, {"buffer": "out"}, {"s32": 5}], 64, expect={"out": values[:, ::-1].sum(0)})
    lanes = [sum(range(i, 32, 4)) for i in range(4)]
    write("copies", "remote", {"out": out(8, "u32")}, [{"buffer": "out"}], 32, 2, cluster=[2],
          expect={"out": [x + 100 * r for r in range(2) for x in lanes]})
    tensor = np.zeros((16, 32), np.int32)
    tensor.ravel()[:320] = values.ravel()
    np.save("tensor.npy", tensor)
    shown = tensor[4:12].copy()
    shown[10 - 4:] = 0
    write("copies", "tensormap", {"map": {"type": "u8", "shape": [384], "fill": "zero"},
                                  "base": {"type": "s32", "shape": [16, 32], "file": "tensor.npy"}, "out": out(256)},
          [{"buffer": "map"}, {"tensormap": "t"}, {"buffer": "base"}, {"s32": 10}, {"buffer": "out"}],
          tensormaps={"t": {"buffer": "base", "type": "s32", "dims": [32, 16], "strides": [128], "box": [32, 8]}},
          expect={"out": shown})


def tiles():
    a, b = (pattern(64, 64, 251) - 125).astype(np.int8), (pattern(64, 64, 241).T - 120).astype(np.int8)
    np.save("bytes_a.npy", a)
    np.save("bytes_b.npy", np.ascontiguousarray(b))
    product = a.astype(int) @ b.astype(int)
    scratch = {"scratch": {"type": "u8", "shape": [768], "fill": "zero"}}
    write("tiles80", "byte_product", {"a": {"type": "s8", "shape": [64, 64], "file": "bytes_a.npy"},
                                      "b": {"type": "s8", "shape": [64, 64], "file": "bytes_b.npy"}, "out": out(64), **scratch},
          [{"buffer": n} for n in ("a", "b", "out", "scratch", "scratch")], 128, shared=8192, gpu="a100",
          expect={"out": product.max(1) + product.sum(1)})
    a, b = (pattern(128, 128, 13) - 6).astype(np.float16), (pattern(128, 64, 11) - 5).astype(np.float16)
    np.save("halves_a.npy", a)
    np.save("halves_b.npy", b)
    write("tiles90", "described_product", {"a": {"type": "f16", "shape": [128, 128], "file": "halves_a.npy"},
                                           "b": {"type": "f16", "shape": [128, 64], "file": "halves_b.npy"},
                                           "out": out(128 * 64, "f32"), **scratch},
          [{"buffer": n} for n in ("a", "b", "out")] + [{"s32": 128}, {"s32": 128}, {"buffer": "scratch"}, {"buffer": "scratch"}],
          128, 2, shared=49176, gpu="h100", expect={"out": a.astype(int) @ b.astype(int)})


def forms():
    value = {0: lambda t: 1000, 1: lambda t: t + 2000, 2: lambda t: 3 * t, 3: lambda t: t + 2000}
    write("forms", "tables", {"out": out(32, "u32")}, [{"buffer": "out"}],
          expect={"out": [320000 + (value[t % 4](t) if t < 28 else 7) for t in range(32)]})
    write("forms", "registers", {"out": out(32, "u32")}, [{"buffer": "out"}],
          expect={"out": [t + 5 + (1000 if t + 5 > 20 else 0) for t in range(32)]})
    write("forms", "names", {"out": out(5, "u32")}, [{"buffer": "out"}], 1, expect={"out": [33, 11, 11, 33 * 33 + 1, 55]})
    x, y = 0x81FE7F02, 0x01020304
    write("forms", "parts", {"out": out(10, "u32")}, [{"buffer": "out"}], 1,
          expect={"out": [772 - 127, 128 + 252 + 124 + 2 + 5, 0x00010001, 2 * x & 0xFFFFFFFF, y + 1, x & y, x & y, 1, 0, 5]})


if __name__ == "__main__":
    for group in (language, types, copies, tiles, forms):
        group()
