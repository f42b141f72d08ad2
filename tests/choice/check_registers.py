#!/usr/bin/env python3
"""Do the registers that roles hand over follow the description and its model? check_registers.py ADLGEN

What a producer keeps is the model's `producer_registers`, what a warpgroup that multiplies gets is the rest of what the block entered
with, within `register_reallocation` of the description: so the splits of 24/240, 32/160 and 40/256 are facts of these files."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

GRAPH = {"name": "product", "inputs": {name: {"type": "bf16", "shape": [4096, 4096], "align": 16} for name in "ab"},
         "nodes": [{"op": "Gemm", "inputs": ["a", "b"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}
# Rows of a tile, of which a warpgroup multiplies 64; the model's constant; register_reallocation; what roles then ask for.
SPLITS = [
    (64, None, {}, {("dec", 40), ("inc", 256)}),
    (128, None, {}, {("dec", 40), ("inc", 232)}),
    (192, None, {}, {("dec", 40), ("inc", 152)}),
    (64, 56, {}, {("dec", 56), ("inc", 256)}),
    (128, 24, {}, {("dec", 24), ("inc", 240)}),
    (128, 56, {}, {("dec", 56), ("inc", 224)}),
    (192, 32, {}, {("dec", 32), ("inc", 160)}),
    (128, None, {"min": 64}, {("dec", 64), ("inc", 216)}),
    (128, None, {"max": 208}, {("dec", 40), ("inc", 208)}),
    (128, None, {"step": 32}, {("dec", 64), ("inc", 192)}),
    (64, None, {"max": 248}, set()),  # what all threads enter with
]


def handed(adlgen, rows, producer, family):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "product.json").write_text(json.dumps(GRAPH))
        lines = ["adl: 1", "name: changed", "extends: h100", 'source: "a test"']
        if family:
            lines.append("families: {register_reallocation: {%s}}" % ", ".join(f"{key}: {value}" for key, value in family.items()))
        if producer:
            lines.append("model: ./model.yaml")
            (folder / "model.yaml").write_text("adl: 1\nmodel: changed\nextends: h100\nguess: a test\n"
                                               f"constants: {{producer_registers: {{value: {producer}}}}}\n")
        (folder / "changed.yaml").write_text("\n".join(lines) + "\n")
        run = subprocess.run([adlgen, "compile", folder / "product.json", "--gpu", folder / "changed.yaml", "--out", folder / "out",
                              "--emit", "ptx", "--no-cache", "--set", f"bm={rows}", "--set", "bn=128", "--set", "pingpong=1"],
                             capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stderr)
        texts = [path.read_text() for path in (folder / "out/changed").glob("*.ptx")]
    return {(way, int(count)) for text in texts for way, count in re.findall(r"setmaxnreg\.(\w+)\.\S+ (\d+);", text)}


def main():
    wrong = 0
    for rows, producer, family, wanted in SPLITS:
        found = handed(sys.argv[1], rows, producer, family)
        print(f"{rows} rows, producer_registers {producer}, {family}: {sorted(found)}")
        if found != wanted:
            wrong = 1
            print(f"  and not {sorted(wanted)}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
