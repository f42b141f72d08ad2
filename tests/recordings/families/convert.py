"""cvt: every pair of types of sm_90a. Sources of 8 and 16 bits are taken exhaustively."""
from case import (SPECIAL32, SPECIAL64, SPECIAL_INT, SPECIAL_LONG, Input, Variant, elementwise, near_one, operands, pack)

INTEGERS = {"u8": 8, "s8": 8, "u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64}
TO_INTEGER, TO_FLOAT = ["rni", "rzi", "rmi", "rpi"], ["rn", "rz", "rm", "rp"]


def cvt(modifiers, to, source, bits, operand="{a}"):
    label = f"cvt{modifiers}.{to}.{source}"
    return Variant(label, f"{label} {{d}}, {operand};", bits)


def from_half(source):
    """f16 or bf16 as the thread's number."""
    v = [cvt("." + r, i, source, max(bits, 16)) for r in TO_INTEGER for i, bits in INTEGERS.items()
         if bits > 8 or source == "f16"]
    v += [cvt("", "f32", source, 32)]
    v += [cvt("." + r, source, source, 16) for r in TO_INTEGER]
    if source == "f16":
        v += [cvt("", "f64", "f16", 64), cvt(".sat", "f32", "f16", 32), cvt(".ftz", "f32", "f16", 32),
              cvt(".sat", "f16", "f16", 16), cvt(".rni.sat", "f16", "f16", 16), cvt(".rzi.sat", "u8", "f16", 16),
              cvt(".rni.sat", "s8", "f16", 16)]
        for to in ("e4m3x2", "e5m2x2"):
            for m in (".rn.satfinite", ".rn.satfinite.relu"):
                label = f"cvt{m}.{to}.f16x2"
                v.append(Variant(label, "mov.b32 {t}, {{{a}, {a}}};\n" + label + " {d}, {t};", 16))
    else:
        v += [cvt("", "f64", "bf16", 64)]
    other = "bf16" if source == "f16" else "f16"
    v += [cvt("." + r, other, source, 16) for r in TO_FLOAT]
    return v


def span(t):
    bits = INTEGERS[t]
    return (0, 2 ** bits - 1) if t[0] == "u" else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)


def from_integer(source):
    v = [cvt("." + r, f, source, b) for r in TO_FLOAT for f, b in (("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64))
         if f != "bf16" or INTEGERS[source] > 8]
    for to, bits in INTEGERS.items():
        if to != source:
            v.append(cvt("", to, source, max(bits, 16)))
            if span(source)[0] < span(to)[0] or span(source)[1] > span(to)[1]:
                v.append(cvt(".sat", to, source, max(bits, 16)))
    v += [cvt(".rn.sat", "f32", source, 32), cvt(".rn.sat", "f16", source, 16)]
    return v


def from_fp8():
    return [Variant(f"cvt{m}.f16x2.{s}", f"cvt{m}.f16x2.{s} {{d}}, {{a}};", 32)
            for s in ("e4m3x2", "e5m2x2") for m in (".rn", ".rn.relu")]


def from_single():
    v = []
    for i, bits in INTEGERS.items():
        v += [cvt(m, i, "f32", max(bits, 16)) for r in TO_INTEGER for m in (f".{r}", f".{r}.ftz")]
    v += [cvt(f".{r}{m}", "f32", "f32", 32) for r in TO_INTEGER for m in ("", ".ftz", ".sat")]
    v += [cvt(".sat", "f32", "f32", 32), cvt(".ftz", "f32", "f32", 32), cvt("", "f64", "f32", 64), cvt(".ftz", "f64", "f32", 64)]
    v += [cvt(f".{r}{m}", "f16", "f32", 16) for r in TO_FLOAT for m in ("", ".sat", ".ftz")]
    for to in ("f16", "bf16"):
        v += [cvt(f".{r}{m}", to, "f32", 16) for r in ("rn", "rz") for m in (".relu", ".satfinite", ".relu.satfinite")]
    v += [cvt(f".{r}", "bf16", "f32", 16) for r in TO_FLOAT]
    v += [cvt(m, "tf32", "f32", 32) for m in (".rna", ".rna.satfinite", ".rn", ".rz", ".rn.relu", ".rz.relu")]
    return v


def from_two_singles():
    v = []
    for to in ("f16x2", "bf16x2"):
        v += [cvt(f".{r}{m}", to, "f32", 32, "{a}, {b}") for r in ("rn", "rz") for m in ("", ".relu", ".satfinite")]
    for to in ("e4m3x2", "e5m2x2"):
        v += [cvt(m, to, "f32", 16, "{a}, {b}") for m in (".rn.satfinite", ".rn.satfinite.relu")]
    return v


def from_double():
    v = [cvt("." + r, i, "f64", max(bits, 16)) for r in TO_INTEGER for i, bits in INTEGERS.items()]
    v += [cvt(f".{r}{m}", "f32", "f64", 32) for r in TO_FLOAT for m in ("", ".sat", ".ftz")]
    v += [cvt("." + r, "f16", "f64", 16) for r in TO_FLOAT] + [cvt("." + r, "bf16", "f64", 16) for r in TO_FLOAT]
    v += [cvt("." + r, "f64", "f64", 64) for r in TO_INTEGER]
    return v


def narrow_edges(label, n):
    """f32 around every value of the 16-bit formats: halfway cases are what roundings differ in."""
    values = []
    for k in range(n):
        low = (0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x7fff, 0x8000, 0x8001, 0xffff, 0x0008, 0x3000)[k % 12]
        values.append((k // 12 * 0x9E3779B1 << 13 & 0xffff0000 & 0xffffffff | low) & 0xffffffff)
    return values


def cases():
    out = []
    index = [Input("a", 0)]
    out += elementwise("convert", "f16", index, from_half("f16"), 65536)
    out += elementwise("convert", "bf16", index, from_half("bf16"), 65536)
    out += elementwise("convert", "fp8", index, from_fp8(), 65536)
    for t in ("u16", "s16"):
        out += elementwise("convert", t, index, from_integer(t), 65536)
    for t in ("u8", "s8"):
        out += elementwise("convert", t, [Input("a", 8, bytes(range(256)), t == "s8")], from_integer(t), 256)
    for t in ("u32", "s32", "u64", "s64"):
        bits = INTEGERS[t]
        data = operands("convert " + t, bits, 4096, 1, SPECIAL_INT if bits == 32 else SPECIAL_LONG)[0]
        # every magnitude, not only large ones
        values = [int.from_bytes(data[i:i + bits // 8], "little") >> (i // 8 % bits if i % 3 else 0) for i in range(0, len(data), bits // 8)]
        out += elementwise("convert", t, [Input("a", bits, pack(bits, values))], from_integer(t), 4096)
    n = 16384
    a = operands("convert f32", 32, 4096, 1, SPECIAL32, near_one)[0] + pack(32, narrow_edges("edges", n - 4096))
    out += elementwise("convert", "f32", [Input("a", 32, a)], from_single(), n)
    b = a[4 * 5000:] + a[:4 * 5000]
    out += elementwise("convert", "f32x2", [Input("a", 32, a), Input("b", 32, b)], from_two_singles(), n)
    d = operands("convert f64", 64, 4096, 1, SPECIAL64, near_one)[0]
    out += elementwise("convert", "f64", [Input("a", 64, d)], from_double(), 4096)
    return out
