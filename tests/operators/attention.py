#!/usr/bin/env python3
"""The operator Attention against its definition, written here once more: attention.py ADLGEN

Each case is a description with random inputs, run on the simulator; every output is compared with attention in double
precision of the inputs that the program wrote, row by row, in plain Python. What a case has - heads, caches, masks, windows,
lengths, softcap, modes - stands in CASES, and adding one is adding a line. ADLGEN_TEST_FULL runs all, otherwise every other
one of those marked `more`."""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

adlgen = pathlib.Path(sys.argv[1]).resolve()
INF = math.inf
LIMITS = {"f32": 1e-5, "f16": 4e-3, "bf16": 2e-2}  # of the largest element of an output

# Hq, Hkv, rows, keys, past keys, size, size of values; `type`; `flat`: three dimensions; `mask`: (kind, shape); `lengths`; what is
# left are attributes. Symbols stand for rows and keys where `symbols` says so.
CASES = [
    {"dims": (2, 2, 5, 7, 0, 16, 16), "type": "f32"},
    {"dims": (4, 2, 9, 9, 0, 16, 8), "type": "f32", "is_causal": 1, "flat": True},
    {"dims": (4, 1, 3, 3, 5, 8, 8), "type": "bf16", "is_causal": 1, "symbols": True},
    {"dims": (6, 2, 4, 6, 3, 8, 24), "type": "f16", "mask": ("bool", (1, 6, 4, 9)), "flat": True, "opset": 23, "present": True},
    {"dims": (2, 2, 4, 6, 0, 16, 16), "type": "f32", "mask": ("f32", (4, 6)), "softcap": 2.0, "qk_matmul_output_mode": 2},
    {"dims": (4, 2, 3, 5, 0, 8, 8), "type": "f32", "mask": ("bool", (2, 1, 3, 5)), "qk_matmul_output_mode": 3, "hide": 1},
    {"dims": (4, 2, 5, 8, 0, 16, 8), "type": "f32", "lengths": (3, 8), "is_causal": 1, "symbols": True, "flat": True},
    {"dims": (2, 1, 9, 6, 0, 8, 8), "type": "f32", "left_window_size": 1, "right_window_size": 1, "opset": 25},
    # more
    {"dims": (2, 2, 5, 7, 0, 16, 16), "type": "f32", "scale": 0.5, "softcap": 1.5, "qk_matmul_output_mode": 0, "more": True},
    {"dims": (2, 2, 5, 7, 0, 16, 16), "type": "f32", "softcap": 1.5, "qk_matmul_output_mode": 1, "more": True},
    {"dims": (4, 2, 6, 6, 2, 8, 8), "type": "f32", "left_window_size": 2, "is_causal": 1, "opset": 25, "more": True, "present": True},
    {"dims": (3, 3, 1, 1, 0, 8, 8), "type": "f32", "is_causal": 1, "more": True},
    {"dims": (4, 4, 7, 7, 0, 40, 40), "type": "bf16", "is_causal": 1, "softmax_precision": "f32", "flat": True, "more": True},
    {"dims": (4, 2, 3, 9, 0, 8, 8), "type": "f32", "mask": ("bool", (4, 3, 6)), "more": True},
    {"dims": (4, 2, 3, 9, 0, 8, 8), "type": "f32", "mask": ("f32", (2, 1, 1, 6)), "lengths": (6, 2), "more": True},
    {"dims": (2, 2, 4, 6, 0, 8, 8), "type": "f32", "lengths": (0, 2), "is_causal": 1, "more": True},
    {"dims": (2, 2, 4, 6, 0, 8, 8), "type": "f32", "lengths": (6, 5), "left_window_size": 1, "right_window_size": 0, "opset": 25,
     "more": True},
]
BATCHES = 2


# ---- descriptions ----


def describe(case):
    q_heads, kv_heads, rows, keys, past, size, width = case["dims"]
    type_, flat = case["type"], case.get("flat")
    s, t, p = ("S", "T", "P") if case.get("symbols") else (rows, keys, past)

    def operand(heads, n, elements):
        return {"type": type_, "shape": [BATCHES, n, heads * elements] if flat else [BATCHES, heads, n, elements]}

    inputs = {"q": operand(q_heads, s, size), "k": operand(kv_heads, t, size), "v": operand(kv_heads, t, width)}
    names = ["q", "k", "v", "", "", "", ""]
    if "mask" in case:
        inputs["mask"] = {"type": case["mask"][0], "shape": list(case["mask"][1])}
        names[3] = "mask"
    if past:
        inputs["pk"] = {"type": type_, "shape": [BATCHES, kv_heads, p, size]}
        inputs["pv"] = {"type": type_, "shape": [BATCHES, kv_heads, p, width]}
        names[4:6] = ["pk", "pv"]
    if "lengths" in case:
        inputs["lengths"] = {"type": "s64", "shape": [BATCHES]}
        names[6] = "lengths"
    while not names[-1]:
        names.pop()
    outputs = ["y"] + (["present_k", "present_v"] if case.get("present") else ["", ""])
    outputs.append("qk" if "qk_matmul_output_mode" in case else "")
    while not outputs[-1]:
        outputs.pop()
    wanted = ("is_causal", "softcap", "scale", "qk_matmul_output_mode", "left_window_size", "right_window_size",
              "softmax_precision")
    attributes = {name: case[name] for name in wanted if name in case}
    if flat:
        attributes.update(q_num_heads=q_heads, kv_num_heads=kv_heads)
    node = {"op": "Attention", "inputs": names, "outputs": outputs, "attributes": attributes}
    return {"opset": case.get("opset", 24), "inputs": inputs, "nodes": [node], "outputs": [name for name in outputs if name]}


# ---- data ----


def decode(type_, data):
    if type_ == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if type_ == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    if type_ == "BF16":
        return [struct.unpack("<f", bytes(2) + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    if type_ == "I64":
        return list(struct.unpack(f"<{len(data) // 8}q", data))
    return [bool(byte) for byte in data]


def load(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = (entry["shape"], decode(entry["dtype"], raw[8 + n + begin:8 + n + end]))
    return tensors


def save(path, type_, shape, values):
    form = {"s64": "q", "bool": "B"}[type_]
    data = struct.pack(f"<{len(values)}{form}", *values)
    header = json.dumps({"x": {"dtype": {"s64": "I64", "bool": "BOOL"}[type_], "shape": list(shape),
                               "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


# ---- the definition ----


class Tensor:
    """Elements at four indices, whatever dimensions it has: those in front are 1, and those of 1 repeat."""

    def __init__(self, tensor, heads=None):
        self.shape, self.data = tensor
        if heads and len(self.shape) == 3:  # [batch, rows, heads * size]
            batches, rows, columns = self.shape
            size = columns // heads
            self.extents = [batches, heads, rows, size]
            self.strides = [rows * columns, size, columns, 1]
            return
        self.extents = [1] * (4 - len(self.shape)) + list(self.shape)
        self.strides, stride = [], 1
        for extent in reversed(self.extents):
            self.strides.insert(0, stride if extent > 1 else 0)
            stride *= extent

    def at(self, *place):
        return self.data[sum(i * stride for i, stride in zip(place, self.strides))]


def bias(case, inputs, place, keys):
    """What is added to a row's scores: one number a key."""
    batch, head, row = place
    _, _, rows, _, past, _, _ = case["dims"]
    length = inputs["lengths"][1][batch] if "lengths" in case else None
    offset = length - rows if length is not None else past
    mask = Tensor(inputs["mask"]) if "mask" in case else None
    row_bias = []
    for key in range(keys):
        value = 0.0
        if mask:
            hidden = mask.extents[3] <= key and case.get("opset", 24) >= 24
            entry = False if hidden else mask.at(batch, head, row, key)
            value = (0.0 if entry else -INF) if case["mask"][0] == "bool" else -INF if hidden else entry
        seen = length is None or key < length
        if case.get("is_causal"):
            seen = seen and key <= row + offset
        if case.get("left_window_size", -1) >= 0:
            seen = seen and key >= row + offset - case["left_window_size"]
        if case.get("right_window_size", -1) >= 0:
            seen = seen and key <= row + offset + case["right_window_size"]
        row_bias.append(value if seen else -INF)
    return row_bias


def attend(case, inputs):
    """Outputs as {name: {place: number}} at indices [batch, head, row, column]."""
    q_heads, kv_heads, rows, new, past, size, width = case["dims"]
    q, k, v = (Tensor(inputs[name], heads) for name, heads in (("q", q_heads), ("k", kv_heads), ("v", kv_heads)))
    caches = [Tensor(inputs[name]) for name in ("pk", "pv")] if past else [None, None]
    keys, scale, cap = past + new, case.get("scale", 1 / math.sqrt(size)), case.get("softcap", 0)

    def element(cache, tensor, batch, head, key, column):
        return cache.at(batch, head, key, column) if key < past else tensor.at(batch, head, key - past, column)

    found = {"y": {}, "qk": {}, "present_k": {}, "present_v": {}}
    for batch in range(BATCHES):
        for head in range(kv_heads):
            for key in range(keys):
                for name, cache, tensor, n in (("present_k", caches[0], k, size), ("present_v", caches[1], v, width)):
                    for column in range(n):
                        found[name][batch, head, key, column] = element(cache, tensor, batch, head, key, column)
        for head in range(q_heads):
            own = head // (q_heads // kv_heads)
            for row in range(rows):
                scores = [scale * sum(q.at(batch, head, row, d) * element(caches[0], k, batch, own, key, d)
                                      for d in range(size)) for key in range(keys)]
                capped = [cap * math.tanh(score / cap) for score in scores] if cap else scores
                biased = [a + b for a, b in zip(capped, bias(case, inputs, (batch, head, row), keys))]
                most = max(biased)
                power = [math.exp(score - most) if most > -INF else 0.0 for score in biased]
                total = sum(power) or 1.0
                weights = [p / total for p in power]
                shown = (scores, capped, biased, weights)[case.get("qk_matmul_output_mode", 0)]
                for key in range(keys):
                    found["qk"][batch, head, row, key] = shown[key]
                for column in range(width):
                    found["y"][batch, head, row, column] = sum(
                        weights[key] * element(caches[1], v, batch, own, key, column) for key in range(keys))
    return found


# ---- comparison ----


def difference(name, output, wanted, limit):
    largest = max((abs(x) for x in wanted.values() if math.isfinite(x)), default=1.0)
    for place, value in wanted.items():
        got = output.at(*place)
        off = 0.0 if got == value else abs(got - value)
        if not off <= limit * largest:
            return f"{name}{list(place)} is {got}, not {value}"
    return None


def run(case, folder):
    graph = folder / "graph.json"
    graph.write_text(json.dumps(describe(case)))
    words = [adlgen, "run", graph, "--gpu", "h100", "--on", "sim", "--out", folder, "--check", "--seed", "7"]
    if case.get("symbols"):
        _, _, rows, keys, past, _, _ = case["dims"]
        words += ["--dim", f"S={rows}", "--dim", f"T={keys}"] + (["--dim", f"P={past}"] if past else [])
    if "lengths" in case:
        save(folder / "lengths.safetensors", "s64", [BATCHES], case["lengths"])
        words += ["--input", f"lengths={folder}/lengths.safetensors"]
    if case.get("hide") is not None:  # one row sees nothing
        shape = case["mask"][1]
        values = [(i // shape[-1]) % shape[-2] != case["hide"] and i % 3 != 1 for i in range(math.prod(shape))]
        save(folder / "mask.safetensors", "bool", shape, values)
        words += ["--input", f"mask={folder}/mask.safetensors"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        return done.stdout + done.stderr
    inputs, outputs = load(folder / "inputs.safetensors"), load(folder / "outputs.safetensors")
    wanted = attend(case, inputs)
    for name, output in outputs.items():
        tensor = Tensor(output, case["dims"][0] if name == "y" else None)
        if len(tensor.data) != len(wanted[name]):
            return f"{name} has {len(tensor.data)} elements, not {len(wanted[name])}"
        fault = difference(name, tensor, wanted[name], LIMITS[case["type"]])
        if fault:
            return fault
    return None


def main():
    failed, n = 0, 0
    more = [case for case in CASES if case.get("more")]
    sample = more if os.environ.get("ADLGEN_TEST_FULL") else more[::2]
    for case in [case for case in CASES if not case.get("more")] + sample:
        n += 1
        with tempfile.TemporaryDirectory() as folder:
            fault = run(case, pathlib.Path(folder))
        if fault:
            failed += 1
            print(f"{case}: {fault}")
    print(f"{n} cases, {failed} wrong")
    return failed > 0


sys.exit(main())
