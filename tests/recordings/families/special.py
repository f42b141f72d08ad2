"""The approximate functions, with the largest distance between simulator and GPU that is allowed."""
from case import SPECIAL32, SPECIAL64, Input, Variant, elementwise, near_one, operands, pack

# Places between simulator and GPU; absolute distance that is as good; (operand number, smallest, largest magnitude) of
# the operand for which the bound is meant. Ranges are those for which the PTX ISA promises something.
WIDE = ("a", 0, float("inf"))
ANGLE, DIVISOR = ("a", 0, 3.14159), ("b", 2.0 ** -126, 2.0 ** 126)
BOUNDS = {
    "ex2.approx.f32": (2, 0, WIDE), "ex2.approx.ftz.f32": (2, 0, WIDE),
    "lg2.approx.f32": (3, 2.0 ** -22, WIDE), "lg2.approx.ftz.f32": (3, 2.0 ** -22, WIDE),
    "sin.approx.f32": (3, 2.0 ** -20.5, ANGLE), "sin.approx.ftz.f32": (3, 2.0 ** -20.5, ANGLE),
    "cos.approx.f32": (3, 2.0 ** -20.5, ANGLE), "cos.approx.ftz.f32": (3, 2.0 ** -20.5, ANGLE),
    "tanh.approx.f32": (124, 0, WIDE),
    "div.approx.f32": (2, 0, DIVISOR), "div.approx.ftz.f32": (2, 0, DIVISOR),
    "div.full.f32": (2, 0, WIDE), "div.full.ftz.f32": (2, 0, WIDE),
    "ex2.approx.ftz.bf16": (1, 2.0 ** -126, WIDE)}


def v(label, bits, kind, operands="{a}"):
    return Variant(label, f"{label} {{d}}, {operands};", bits, ("ulp", kind, *BOUNDS.get(label, (1, 0, WIDE))))


def ramp(first, last, n):
    """n f32 patterns evenly between two."""
    return [first + (last - first) * i // (n - 1) for i in range(n)]


def cases():
    n = 16384
    # all binades, then dense: 2^-6 to 2^6 of both signs, and noise
    values = SPECIAL32 + ramp(0x00000000, 0x7f7fffff, 4000) + ramp(0x3c800000, 0x42800000, 4000) + ramp(0xbc800000, 0xc2800000, 4000)
    values += [int.from_bytes(operands("special", 32, 4096, 1, [0], near_one)[0][4 * i:4 * i + 4], "little") for i in range(n - len(values))]
    a = Input("a", 32, pack(32, values))
    b = Input("b", 32, pack(32, values[777:] + values[:777]))
    names = [f"{op}.approx{m}.f32" for op in ("ex2", "lg2", "sin", "cos", "rcp", "sqrt", "rsqrt") for m in ("", ".ftz")]
    out = elementwise("special", "f32", [a], [v(x, 32, "f32") for x in names + ["tanh.approx.f32"]], n)
    out += elementwise("special", "div", [a, b], [v(f"div.{k}{m}.f32", 32, "f32", "{a}, {b}") for k in ("approx", "full") for m in ("", ".ftz")], n)
    index = [Input("a", 0)]
    out += elementwise("special", "half", index, [v(x, 16, k) for x, k in (
        ("ex2.approx.f16", "f16"), ("tanh.approx.f16", "f16"),
        ("ex2.approx.ftz.bf16", "bf16"), ("tanh.approx.bf16", "bf16"))], 65536)
    d = operands("special f64", 64, 4096, 1, SPECIAL64, near_one)[0]
    out += elementwise("special", "f64", [Input("a", 64, d)], [v("rcp.approx.ftz.f64", 64, "f64"), v("rsqrt.approx.f64", 64, "f64"),
                                                               v("rsqrt.approx.ftz.f64", 64, "f64")], 4096)
    return out
