"""Floating-point arithmetic that is rounded correctly: all of it agrees bit for bit."""
from case import SPECIAL16, SPECIAL32, SPECIAL64, Input, Variant, elementwise, near_one, operands

ROUND = ["rn", "rz", "rm", "rp"]


def v(label, bits, n, text=None):
    return Variant(label, f"{text or label} {{d}}, " + ", ".join(["{a}", "{b}", "{c}"][:n]) + ";", bits)


def single():
    two = [v(f"{op}.{r}{m}.f32", 32, 2) for op in ("add", "sub", "mul") for r in ROUND for m in ("", ".ftz", ".sat", ".ftz.sat")]
    two += [v(f"div.{r}{m}.f32", 32, 2) for r in ROUND for m in ("", ".ftz")]
    two += [v(f"{op}{m}.f32", 32, 2) for op in ("min", "max") for m in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs")]
    two += [v("copysign.f32", 32, 2)]
    three = [v(f"fma.{r}{m}.f32", 32, 3) for r in ROUND for m in ("", ".ftz", ".sat", ".ftz.sat")]
    one = [v(f"{op}.{r}{m}.f32", 32, 1) for op in ("rcp", "sqrt") for r in ROUND for m in ("", ".ftz")]
    one += [v(f"{op}{m}.f32", 32, 1) for op in ("abs", "neg") for m in ("", ".ftz")]
    return one, two, three


def double():
    two = [v(f"{op}.{r}.f64", 64, 2) for op in ("add", "sub", "mul", "div") for r in ROUND]
    two += [v("min.f64", 64, 2), v("max.f64", 64, 2), v("copysign.f64", 64, 2)]
    three = [v(f"fma.{r}.f64", 64, 3) for r in ROUND]
    one = [v(f"{op}.{r}.f64", 64, 1) for op in ("rcp", "sqrt") for r in ROUND] + [v("abs.f64", 64, 1), v("neg.f64", 64, 1)]
    return one, two, three


def half(t):
    """t: f16 or bf16; scalars in the low half of a register, pairs use all of it."""
    pair, two, three, one = t + "x2", [], [], []
    for kind, bits in ((t, 16), (pair, 32)):
        if t == "f16":
            two += [v(f"{op}{r}{m}.{kind}", bits, 2) for op in ("add", "sub", "mul") for r in (".rn",) for m in ("", ".ftz", ".sat", ".ftz.sat")]
        else:
            two += [v(f"{op}.rn.{kind}", bits, 2) for op in ("add", "sub", "mul")]
        ftz = ("", ".ftz") if t == "f16" else ("",)
        two += [v(f"{op}{f}{m}.{kind}", bits, 2) for op in ("min", "max") for f in ftz for m in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")]
        three += [v(f"fma.rn{m}.{kind}", bits, 3) for m in (("", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu") if t == "f16" else ("", ".relu"))]
        one += [v(f"{op}{f}.{kind}", bits, 1) for op in ("neg", "abs") for f in (ftz if t == "f16" else ("",))]
    return one, two, three


def compare(t, bits):
    """Predicates of setp as 0 and 1."""
    out = []
    for op in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        for m in (("", ".ftz") if t == "f32" else ("",)):
            label = f"setp.{op}{m}.{t}"
            out.append(Variant(label, f"{label} {{p}}, {{a}}, {{b}};\nselp.b32 {{d}}, 1, 0, {{p}};", 32))
    return out


def test(t):
    return [Variant(f"testp.{op}.{t}", f"testp.{op}.{t} {{p}}, {{a}};\nselp.b32 {{d}}, 1, 0, {{p}};", 32)
            for op in ("finite", "infinite", "number", "notanumber", "normal", "subnormal")]


def inputs(label, bits, n, count, special):
    rows = operands(label, bits, n, count, special, near_one)
    return [Input(name, bits, data) for name, data in zip("abc", rows)]


def cases():
    n, out = 4096, []
    for t, bits, special, lists in (("f32", 32, SPECIAL32, single()), ("f64", 64, SPECIAL64, double())):
        for count, variants in enumerate(lists, 1):
            name = f"{t}-{count}"
            data = inputs("arithmetic " + name, bits, n, count, special)
            out += elementwise("arithmetic", name, data, variants + (test(t) if count == 1 else compare(t, bits) if count == 2 else []), n)
    for t in ("f16", "bf16"):
        for count, variants in enumerate(half(t), 1):
            scalar, pairs = [x for x in variants if x.bits == 16], [x for x in variants if x.bits == 32]
            if count == 1:
                out += elementwise("arithmetic", t + "-1", [Input("a", 0)], scalar, 65536)
            else:
                data = inputs(f"arithmetic {t} {count}", 16, n, count, SPECIAL16)
                out += elementwise("arithmetic", f"{t}-{count}", data, scalar + (compare(t, 16) if count == 2 else []), n)
            special = [x << 16 | y for x, y in zip(SPECIAL16, SPECIAL16[3:] + SPECIAL16[:3])]
            data = operands(f"arithmetic {t}x2 {count}", 32, n, count, special)
            out += elementwise("arithmetic", f"{t}x2-{count}", [Input(k, 32, d) for k, d in zip("abc", data)], pairs, n)
    return out
