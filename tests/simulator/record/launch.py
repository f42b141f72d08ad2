"""Launch files (docs/simulator.md) read by a program of its own: buffers filled as the simulator fills them."""
import json
import math
import os
import struct

SIZES = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1, "s16": 2,
         "u16": 2, "b16": 2, "s32": 4, "u32": 4, "b32": 4, "s64": 8, "u64": 8, "b64": 8, "bool": 1}


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def small_float(value, exponent_bits, mantissa_bits, largest):
    """Bits of a narrow float, rounded to nearest even, saturated at largest."""
    sign = 1 if math.copysign(1, value) < 0 else 0
    magnitude = min(abs(value), largest)
    bias = (1 << exponent_bits - 1) - 1
    exponent = max(math.frexp(magnitude)[1] - 1, 1 - bias) if magnitude else 1 - bias
    units = round(math.ldexp(magnitude, mantissa_bits - exponent))  # ties to even
    bits = units + ((exponent + bias - 1) << mantissa_bits)
    return sign << exponent_bits + mantissa_bits | bits


def encode(kind, value):
    if kind == "f64":
        return struct.pack("<d", value)
    if kind == "f32":
        return struct.pack("<f", value)
    if kind == "f16":
        return struct.pack("<H", small_float(value, 5, 10, 65504))
    if kind == "bf16":
        return struct.pack("<H", small_float(value, 8, 7, 3.3895313892515355e38))
    if kind == "e4m3":
        return struct.pack("<B", small_float(value, 4, 3, 448))
    if kind == "e5m2":
        return struct.pack("<B", small_float(value, 5, 2, 57344))
    raise ValueError(f"no random data of type {kind}")


def random_bytes(kind, count, seed, index):
    size, out = SIZES[kind], bytearray()
    is_float = kind[0] in "fe" or kind in ("bf16", "tf32")
    for pair in range((count + 1) // 2):
        w = philox((pair & 0xFFFFFFFF, pair >> 32, index, 0), (seed & 0xFFFFFFFF, seed >> 32))
        if is_float:
            radius = math.sqrt(-2 * math.log((w[0] + 1.0) / 4294967297.0))
            angle = 2 * math.pi * (w[1] / 4294967296.0)
            out += encode(kind, radius * math.cos(angle)) + encode(kind, radius * math.sin(angle))
        else:
            for i in range(2):
                out += ((w[i] | w[i + 2] << 32) & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(out[:count * size])


class Buffer:
    def __init__(self, name, index, text, folder):
        self.name, self.type, self.offset = name, text.get("type", "u8"), text.get("offset", 0)
        self.addresses = text.get("addresses", [])
        count = math.prod(text["shape"]) if "shape" in text else text["bytes"] // SIZES[self.type]
        self.bytes = text.get("bytes", count * SIZES[self.type])
        fill = text.get("fill", "none")
        if "file" in text:
            with open(os.path.join(folder, text["file"]), "rb") as f:
                self.data = f.read()[-self.bytes:]
        elif fill == "random":
            self.data = random_bytes(self.type, count, text.get("seed", 0), index)
        else:
            self.data = bytes([0 if fill == "zero" else 0xFF]) * self.bytes


def triple(values):
    return (list(values) + [1, 1, 1])[:3]


class Step:
    """One launch of a list; overlaps: it may start before the one before it has ended."""

    def __init__(self, text):
        self.entry, self.args, self.shared = text.get("entry"), text["args"], text.get("shared", 0)
        self.grid, self.block = triple(text["grid"]), triple(text["block"])
        self.cluster = triple(text.get("cluster", [1]))
        self.overlaps = any(d.get("dependent") for d in text.get("depends_on", []))


class Launch:
    def __init__(self, path):
        with open(path) as f:
            self.text = text = json.load(f)
        self.folder = os.path.dirname(path)
        self.steps = [Step(s) for s in text.get("launches", [text])]
        self.maps = text.get("tensormaps", {})
        self.buffers = {n: Buffer(n, i, b, self.folder) for i, (n, b) in enumerate(text["buffers"].items())}
        self.outputs = text.get("outputs", {})


def payload(data):
    """The elements in the bytes of a .npy or .safetensors file."""
    if data[:6] == b"\x93NUMPY":
        return data[10 + int.from_bytes(data[8:10], "little"):]
    return data[8 + int.from_bytes(data[:8], "little"):]
