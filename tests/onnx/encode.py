"""Op descriptions (as JSON has them) as .onnx files, without the package onnx: a protocol buffer of a few lines.

encode(graph) gives the bytes; `encode.py GRAPH.json >MODEL.onnx` writes them. What only descriptions have (dims' bounds, strides, align, files of constants) is left out."""
import json
import struct
import sys

TYPES = {"f32": 1, "tf32": 1, "u8": 2, "s8": 3, "u16": 4, "s16": 5, "s32": 6, "s64": 7, "bool": 9, "f16": 10, "f64": 11,
         "u32": 12, "u64": 13, "bf16": 16, "e4m3": 17, "e5m2": 19, "u4": 21, "s4": 22, "e2m1": 23, "e8m0": 24}
PACK = {"f32": "f", "f64": "d", "s8": "b", "u8": "B", "s32": "i", "s64": "q", "bool": "?", "f16": "e", "e8m0": "B"}
OPSET = 27  # that descriptions have where they say nothing


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def integer(number, value):
    return varint(number << 3) + varint(value)


def data(number, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def single(number, value):
    return varint(number << 3 | 5) + struct.pack("<f", value)


def attribute(name, value):
    out = data(1, name)
    if isinstance(value, str) and name in ("to", "dtype", "output_dtype", "softmax_precision"):
        value = TYPES[value]
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int):
        return out + integer(3, value) + integer(20, 2)
    if isinstance(value, float):
        return out + single(2, value) + integer(20, 1)
    if isinstance(value, str):
        return out + data(4, value) + integer(20, 3)
    if isinstance(value, dict):
        return out + data(6, body(value)) + integer(20, 5)
    if isinstance(value, bytes):  # a TensorProto
        return out + data(5, value) + integer(20, 4)
    if value and isinstance(value[0], float):
        return out + b"".join(single(7, v) for v in value) + integer(20, 6)
    return out + b"".join(integer(8, v) for v in value) + integer(20, 7)


def body(spec):
    """A graph that an attribute holds."""
    out = b"".join(data(1, node(n)) for n in spec["nodes"]) + data(2, "body")
    out += b"".join(data(5, tensor(*item)) for item in spec.get("constants", {}).items())
    return out + b"".join(data(11, data(1, name)) for name in spec.get("inputs", [])) + b"".join(data(12, data(1, name)) for name in spec["outputs"])


def node(spec):
    out = b"".join(data(1, name) for name in spec["inputs"]) + b"".join(data(2, name) for name in spec["outputs"])
    out += data(3, spec.get("name", "")) + data(4, spec["op"]) + data(7, spec.get("domain", ""))
    return out + b"".join(data(5, attribute(*item)) for item in spec.get("attributes", {}).items())


def shape(extents):
    return b"".join(data(1, integer(1, e) if isinstance(e, int) else data(2, e)) for e in extents)


def value_info(name, spec):
    return data(1, name) + data(2, data(1, integer(1, TYPES[spec["type"]]) + data(2, shape(spec["shape"]))))


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def element(kind, value):
    if kind == "bf16":  # of values that bf16 has
        return struct.pack("<f", value)[2:]
    return struct.pack("<" + PACK[kind], value)


def nibbles(values):
    """Codes of 4 bits, two a byte, low first."""
    codes = [v & 15 for v in values] + [0] * (len(values) % 2)
    return bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2]))


def tensor(name, spec):
    kind, values = spec["type"], flat(spec["data"])
    raw = nibbles(values) if kind in ("u4", "s4", "e2m1") else b"".join(element(kind, v) for v in values)
    return b"".join(integer(1, d) for d in spec["shape"]) + integer(2, TYPES[spec["type"]]) + data(8, name) + data(9, raw)


def model(body, opset=OPSET, functions=()):
    out = integer(1, 10) + data(2, "tests") + data(7, body) + data(8, integer(2, opset))
    return out + b"".join(data(25, f) for f in functions)


def encode(graph, functions=(), extra=b""):
    body = b"".join(data(1, node(n)) for n in graph["nodes"]) + data(2, graph.get("name", "graph")) + extra
    body += b"".join(data(5, tensor(*item)) for item in graph.get("constants", {}).items())
    body += b"".join(data(11, value_info(*item)) for item in graph["inputs"].items())
    body += b"".join(data(12, data(1, name)) for name in graph["outputs"])
    return model(body, graph.get("opset", OPSET), functions)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.buffer.write(encode(json.load(file)))
