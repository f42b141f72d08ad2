"""Integer arithmetic, logic, bit fields and dot products."""
from case import SPECIAL_INT, SPECIAL_LONG, Input, Variant, elementwise, noise, operands


def v(label, bits, arguments, lines=None):
    return Variant(label, lines or f"{label} {{d}}, {arguments};", bits)


def common(t, bits):
    u = t[0] == "u"
    wide = {16: 32, 32: 64}.get(bits)
    two = [v(f"{op}.{t}", bits, "{a}, {b}") for op in ("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max")]
    if wide:
        two.append(v(f"mul.wide.{t}", wide, "{a}, {b}"))
    if t == "s32":
        two += [v(f"{op}.sat.s32", 32, "{a}, {b}") for op in ("add", "sub")]
    if not u:
        two += [v(f"abs.{t}", bits, "{a}"), v(f"neg.{t}", bits, "{a}")]
    three = [v(f"mad.{h}.{t}", bits, "{a}, {b}, {c}") for h in ("lo", "hi")] + [v(f"sad.{t}", bits, "{a}, {b}, {c}")]
    if t == "s32":
        three.append(v("mad.hi.sat.s32", 32, "{a}, {b}, {c}"))
    for op in ("eq", "ne", "lt", "le", "gt", "ge") + (("lo", "ls", "hi", "hs") if u else ()):
        two.append(v(f"setp.{op}.{t}", 32, "", f"setp.{op}.{t} {{p}}, {{a}}, {{b}};\nselp.b32 {{d}}, 1, 0, {{p}};"))
    two.append(v(f"slct.{t}.s32", bits, "", f"cvt.u32.{t} {{t}}, {{b}};\nslct.{t}.s32 {{d}}, {{a}}, {{b}}, {{t}};".replace("cvt.u32.u32", "mov.b32").replace("cvt.u32.s32", "mov.b32")))
    return two, three


def logic(bits):
    b = f"b{bits}"
    two = [v(f"{op}.{b}", bits, "{a}, {b}") for op in ("and", "or", "xor")] + [v(f"{op}.{b}", bits, "{a}") for op in ("not", "cnot")]
    return two


def shifts(bits):
    """The amount is 32 bits wide, so b goes through {t} for other widths."""
    get = {16: "cvt.u32.u16 {t}, {b};", 32: "mov.b32 {t}, {b};", 64: "cvt.u32.u64 {t}, {b};"}[bits]
    return [v(f"{op}{bits}", bits, "", f"{get}\n{op}{bits} {{d}}, {{a}}, {{t}};") for op in ("shl.b", "shr.u", "shr.s")]


def bits32():
    out = [v(f"{op}.b32", 32, "{a}") for op in ("popc", "clz", "brev")]
    out += [v(f"bfind{m}.{t}32", 32, "{a}") for m in ("", ".shiftamt") for t in "us"]
    out += [v(f"bmsk.{m}.b32", 32, "{a}, {b}") for m in ("clamp", "wrap")]
    out += [v(f"szext.{m}.{t}32", 32, "{a}, {b}") for m in ("clamp", "wrap") for t in "us"]
    out += [v(f"mul24.{h}.{t}32", 32, "{a}, {b}") for h in ("lo", "hi") for t in "us"]
    return out


def bits64():
    out = [v(f"{op}.b64", w, "{a}") for op, w in (("popc", 32), ("clz", 32), ("brev", 64))]
    return out + [v(f"bfind{m}.{t}64", 32, "{a}") for m in ("", ".shiftamt") for t in "us"]


def fields():
    out = [v(f"prmt.b32{m}", 32, "{a}, {b}, {c}") for m in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")]
    out += [v(f"shf.{d}.{m}.b32", 32, "{a}, {b}, {c}") for d in "lr" for m in ("clamp", "wrap")]
    out += [v(f"bfe.{t}32", 32, "{a}, {b}, {c}") for t in "us"]
    out += [v("bfi.b32", 32, "", "shr.u32 {t}, {c}, 8;\nbfi.b32 {d}, {a}, {b}, {c}, {t};")]
    out += [v("fns.b32", 32, "", "and.b32 {t}, {b}, 31;\nfns.b32 {d}, {a}, {t}, {c};")]
    out += [v(f"lop3.b32 {i}", 32, "", f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {i};") for i in (0x01, 0x96, 0xe8, 0xca, 0x1b, 0x7f)]
    out += [v(f"dp4a.{x}.{y}", 32, "{a}, {b}, {c}") for x in ("u32", "s32") for y in ("u32", "s32")]
    out += [v(f"dp2a.{h}.{x}.{y}", 32, "{a}, {b}, {c}") for h in ("lo", "hi") for x in ("u32", "s32") for y in ("u32", "s32")]
    out += [v(f"mad24.{h}.{t}32", 32, "{a}, {b}, {c}") for h in ("lo", "hi") for t in "us"]
    for op in ("vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4"):
        out.append(v(f"{op}.u32.u32.u32", 32, "{a}, {b}, {c}"))
    return out


def carries():
    out = []
    for bits, t in ((32, "u32"), (64, "u64")):
        out.append((bits, [
            v(f"add.cc addc {t}", bits, "", f"add.cc.{t} {{d}}, {{a}}, {{b}};\naddc.{t} {{d}}, {{c}}, {{b}};"),
            v(f"sub.cc subc {t}", bits, "", f"sub.cc.{t} {{d}}, {{a}}, {{b}};\nsubc.{t} {{d}}, {{c}}, {{b}};"),
            v(f"mad.lo.cc madc.hi {t}", bits, "", f"mad.lo.cc.{t} {{d}}, {{a}}, {{b}}, {{c}};\nmadc.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};")]))
    return out


def packed():
    out = []
    for to in ("u16", "s16"):
        out.append(v(f"cvt.pack.sat.{to}.s32", 32, "{a}, {b}"))
    for to in ("u8", "s8", "u4", "s4", "u2", "s2"):
        out.append(v(f"cvt.pack.sat.{to}.s32.b32", 32, "{a}, {b}, {c}"))
    return out


def amounts(label, n):
    """Small shift amounts and positions mixed with large ones."""
    raw = noise(label, 4 * n)
    return b"".join((raw[4 * i] % 70 if i % 4 else int.from_bytes(raw[4 * i:4 * i + 4], "little")).to_bytes(4, "little") for i in range(n))


def cases():
    n, out = 4096, []
    for bits in (16, 32, 64):
        special = {16: [x & 0xffff for x in SPECIAL_INT if x < 0x10000 or x > 0xfffffff0], 32: SPECIAL_INT, 64: SPECIAL_LONG}[bits]
        a, b = [Input(k, bits, d) for k, d in zip("ab", operands(f"integer {bits}", bits, n, 2, special))]
        c = Input("c", bits, operands(f"integer c {bits}", bits, n, 1, special)[0])
        for t in (f"u{bits}", f"s{bits}"):
            two, three = common(t, bits)
            out += elementwise("integer", t + "-2", [a, b], two, n)
            out += elementwise("integer", t + "-3", [a, b, c], three, n)
        extra = logic(bits) + (bits32() if bits == 32 else bits64() if bits == 64 else [])
        out += elementwise("integer", f"b{bits}", [a, b], extra, n)
        if bits == 32:
            small = Input("b", 32, amounts("integer amounts", n))
            out += elementwise("integer", "shift32", [a, small], shifts(32), n)
            out += elementwise("integer", "fields", [a, b, c], fields(), n)
            low = Input("c", 32, amounts("integer positions", n))
            out += elementwise("integer", "positions", [a, small, low], fields(), n)
            out += elementwise("integer", "pack", [a, b, c], packed(), n)
        if bits == 64:
            small = Input("b", 64, b"".join(x.to_bytes(4, "little") + bytes(4) for x in [int.from_bytes(amounts("integer amounts", n)[4 * i:4 * i + 4], "little") for i in range(n)]))
            out += elementwise("integer", "shift64", [a, small], shifts(64), n)
            out += elementwise("integer", "bfe64", [a, Input("b", 64, small.data)], [
                v(f"bfe.{t}64", 64, "", f"cvt.u32.u64 {{t}}, {{b}};\nbfe.{t}64 {{d}}, {{a}}, {{t}}, 13;") for t in "us"] + [
                v("bfi.b64", 64, "", "cvt.u32.u64 {t}, {b};\nbfi.b64 {d}, {b}, {a}, {t}, 21;")], n)
        for width, variants in carries():
            if width == bits:
                out += elementwise("integer", f"carry{bits}", [a, b, c], variants, n)
    return out
