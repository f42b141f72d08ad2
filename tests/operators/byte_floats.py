#!/usr/bin/env python3
"""byte_floats.py ADLGEN: a GPU without conversions of 8-bit floats gives the bytes that one with them gives: of every byte, and of
numbers at, beside and between all that these types have."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile


def save(path, tensors):
    header, data = {}, b""
    for name, (kind, count, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": [count], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:start])
    return {name: data[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]] for name, entry in entries.items()}


def numbers():
    """Powers of two times thirds, sixteenths and their neighbours, both signs, and what is no number."""
    found = [0.0, math.inf, 1e30, 1e-30, 448.0, 464.0, 465.0, 480.0, 57344.0, 61440.0, 61441.0, math.nan]
    for exponent in range(-19, 17):
        for i in range(16, 32):
            for bits in (-1, 0, 1):
                raw = struct.unpack("<i", struct.pack("<f", math.ldexp(i / 16, exponent)))[0] + bits
                found.append(struct.unpack("<f", struct.pack("<i", raw))[0])
    return found + [-x for x in found]


def node(op, inputs, output, **attributes):
    return {"op": op, "inputs": inputs, "outputs": [output], "attributes": attributes}


def main():
    values = numbers()
    nodes, outputs = [], []
    for kind in ("e4m3", "e5m2"):
        nodes += [node("Cast", [kind], f"from_{kind}", to="f32"), node("Cast", ["X"], f"to_{kind}", to=kind),
                  node("Cast", ["X"], f"all_{kind}", to=kind, saturate=0), node("Relu", ["X"], f"p_{kind}"),
                  node("Cast", [f"p_{kind}"], f"q_{kind}", to=kind), node("Cast", [f"q_{kind}"], f"r_{kind}", to="f32")]
        outputs += [f"from_{kind}", f"to_{kind}", f"all_{kind}", f"r_{kind}"]
    inputs = {"X": {"type": "f32", "shape": [len(values)]}, "e4m3": {"type": "e4m3", "shape": [256]}, "e5m2": {"type": "e5m2", "shape": [256]}}
    with tempfile.TemporaryDirectory() as folder:
        path, given, results = os.path.join(folder, "graph.json"), os.path.join(folder, "in.safetensors"), {}
        with open(path, "w") as file:
            json.dump({"name": "g", "inputs": inputs, "nodes": nodes, "outputs": outputs}, file)
        save(given, {"X": ("F32", len(values), struct.pack(f"<{len(values)}f", *values)), "e4m3": ("F8_E4M3", 256, bytes(range(256))),
                     "e5m2": ("F8_E5M2", 256, bytes(range(256)))})
        for gpu in ("h100", "a100"):
            out = os.path.join(folder, gpu)
            run = subprocess.run([sys.argv[1], "run", path, "--gpu", gpu, "--on", "sim", "--check", "--out", out,
                                  *(f"--input={name}={given}" for name in inputs)], capture_output=True, text=True)
            if run.returncode:
                sys.exit(f"{gpu}: exit {run.returncode}\n{run.stdout}{run.stderr}")
            results[gpu] = load(os.path.join(out, "outputs.safetensors"))
    for name in outputs:
        wide = name.startswith(("from", "r_"))
        have, want = ([struct.unpack(f"<{len(raw) // 4}f", raw) if wide else [b for b in raw] for raw in (results[g][name],)][0]
                      for g in ("a100", "h100"))
        nan = (0x7f,) if "e4m3" in name else (0x7d, 0x7e, 0x7f)
        same = [a == b or (a != a and b != b if wide else a & 0x7f in nan and b & 0x7f in nan) for a, b in zip(have, want)]
        if len(have) != len(want) or not all(same):
            sys.exit(f"{name}: element {same.index(False)} is {have[same.index(False)]}, not {want[same.index(False)]}")
    print(f"{len(values)} numbers and 256 bytes of each type alike")


main()
