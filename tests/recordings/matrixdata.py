"""Operands of matrix products that show how the hardware adds: near values, wide exponents, cancellation, subnormals,
infinities and NaN. Elements lie one behind another; neighbours are neighbours along k where the layout allows it."""
from case import noise

# bytes, exponent bits, mantissa bits
FORMATS = {"f16": (2, 5, 10), "bf16": (2, 8, 7), "tf32": (4, 8, 23), "f32": (4, 8, 23), "f64": (8, 11, 52),
           "e4m3": (1, 4, 3), "e5m2": (1, 5, 2)}
# (A, B, C): how each operand is made
MIXES = [("near", "near", "near"), ("near", "near", "zero"), ("middle", "middle", "middle"), ("wide", "wide", "wide"),
         ("wide", "wide", "near"), ("cancel", "cancel-b", "near"), ("cancel", "cancel-b", "tiny"), ("tiny", "wide", "tiny"),
         ("special", "near", "near"), ("near", "special", "special"), ("middle", "middle", "special"), ("sparse", "wide", "middle"),
         ("cancel", "cancel-b", "wide"), ("tiny", "tiny", "zero"), ("large", "large", "near"), ("wide", "near", "large")]

_windows = {"near": (-2, 1), "middle": (-7, 6), "cancel": (-3, 2), "cancel-b": (-3, 2), "sparse": (-4, 4), "special": (-2, 1)}


def _exponents(fmt, kind):
    _, e, _ = FORMATS[fmt]
    bias, most = 2 ** (e - 1) - 1, 2 ** e - 2
    if kind == "wide":
        low, high = (0, most) if e <= 5 else (bias - 30, bias + 30)
    elif kind == "tiny":
        low, high = 0, 2
    elif kind == "large":
        low, high = most - 2, most
    else:
        low, high = (bias + x for x in _windows.get(kind, (-2, 1)))
    return max(low, 0), min(high, most)


def floats(fmt, kind, n, label):
    """n elements of a format."""
    size, e, m = FORMATS[fmt]
    if kind == "zero":
        return bytes(n * size)
    low, high = _exponents(fmt, kind)
    raw, out, bits = noise(f"{fmt} {kind} {label}", n * size), [], 8 * size
    for i in range(n):
        v = int.from_bytes(raw[i * size:(i + 1) * size], "little")
        exponent = low + (v >> m & (1 << e) - 1) % (high - low + 1)
        out.append(v & (1 << bits - 1 | (1 << m) - 1) | exponent << m)
    top, infinity = 1 << bits - 1, ((1 << e) - 1) << m
    for i in range(n):
        if kind in ("cancel", "cancel-b") and i & 1:
            # the product of this pair nearly cancels the one before it
            out[i] = out[i - 1] if kind == "cancel" else out[i - 1] ^ top ^ (out[i] & 3 if out[i] & 12 == 0 else 0)
        elif kind == "sparse" and i % 5:
            out[i] = out[i] & top
        elif kind == "special" and i % 29 == 3:
            some = [infinity, top | infinity, infinity | 1, top | infinity | 1, 0, top, 1, top | 1, infinity - 1, 1 << m]
            out[i] = some[i // 29 % len(some)]
            if fmt == "e4m3" and out[i] & 0x7f > 0x7b and i % 2:
                out[i] ^= 3
    return b"".join(v.to_bytes(size, "little") for v in out)


def integers(n, label, kind):
    raw = noise(f"int {label}", n)
    return raw if kind != "sparse" else raw.translate(bytes(x if x % 5 == 0 else (127, 128, 255)[x % 3] for x in range(256)))


def operand(fmt, kind, n, label):
    if fmt in FORMATS:
        return floats(fmt, kind, n, label)
    if fmt == "s32":
        return noise(f"s32 {label}", 4 * n) if kind != "zero" else bytes(4 * n)
    return integers(n, label, kind)  # s8, u8; smaller ones count bytes
