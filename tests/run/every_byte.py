#!/usr/bin/env python3
"""Every number of 8 bits is widened to 16 exactly: attention of one key, whose weight is 1, over values that are all 256 bytes.

    every_byte.py ADLGEN"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

TYPES = {"e4m3": "F8_E4M3", "e5m2": "F8_E5M2", "s8": "I8", "u8": "U8"}  # as safetensors spell them


def write_bytes(path, element):
    header = json.dumps({"v": {"dtype": TYPES[element], "shape": [1, 1, 1, 256], "data_offsets": [0, 256]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(256)))


def description(element, wide):
    graph = {"name": "bytes", "inputs": {"q": {"type": wide, "shape": [1, 1, 1, 256]}}, "nodes": [], "outputs": ["y"]}
    for name in "kv":
        graph["inputs"][name] = {"type": element, "shape": [1, 1, 1, 256]}
        graph["nodes"].append({"op": "Cast", "inputs": [name], "outputs": [name + "w"], "attributes": {"to": wide}})
    graph["nodes"].append({"op": "Attention", "inputs": ["q", "kw", "vw"], "outputs": ["y"]})
    return graph


def main():
    adlgen = sys.argv[1]
    failures = []
    with tempfile.TemporaryDirectory(prefix="adlgen-bytes-") as folder:
        values, graph = pathlib.Path(folder, "v.safetensors"), pathlib.Path(folder, "graph.json")
        for element in TYPES:
            write_bytes(values, element)
            for wide in ("f16", "bf16"):
                graph.write_text(json.dumps(description(element, wide)))
                for gpu in ("h100", "a100"):
                    done = subprocess.run([adlgen, "run", graph, "--gpu", gpu, "--on", "sim", "--check", "--json", "--input", f"v={values}"],
                                          capture_output=True, text=True)
                    error = json.loads(done.stdout)["outputs"][0]["error"] if done.returncode == 0 else None
                    if error != 0:
                        failures.append(f"{element} to {wide} on {gpu}: exit {done.returncode}, error {error}\n{done.stderr}")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
