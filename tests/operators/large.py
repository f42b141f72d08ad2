#!/usr/bin/env python3
"""large.py ADLGEN: tensors of more than 2^31 elements compile (graphs of bench/suites/large.json, which a GPU runs: they are too much for the
simulator), and no number of 32 bits that follows from the block, the thread and constants leaves its range."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

adlgen, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(__file__).resolve().parents[2]
CHOSEN = ["add_row", "softmax_odd", "sum_first", "transpose", "gather", "gemm_bias", "grouped", "attn", "pad"]
STEPS = {"shl": lambda a, b: a << b, "shr": lambda a, b: a >> b, "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
         "mul": lambda a, b: a * b, "mad": lambda a, b, c: a * b + c, "div": lambda a, b: a // b if b else 0,
         "mov": lambda a: a, "cvt": lambda a: a, "shfl": lambda a, *_: a}


def beyond(text, grid, threads):
    """Lines whose result of 32 bits may be out of range: intervals of registers that are written once, of integers that only grow with
    what they are made of."""
    lines = [m.groups() for m in re.finditer(r"^\s*(?:@!?%p\d+ +)?([a-z][\w.]*) +(%\w+), *([^;]*);", text, re.M)]
    written = {}
    for name, to, _ in lines:
        written[to] = written.get(to, 0) + (not name.startswith(("st.", "setp")))
    known = {"%tid.x": (0, threads - 1)}
    known |= {f"%ctaid.{d}": (0, n - 1) for d, n in zip("xyz", grid)}
    found = []
    for name, to, operands in lines:
        parts, words = name.split("."), [w.strip() for w in operands.split(",")]
        if parts[-1] not in ("s32", "u32", "b32", "s64", "u64", "b64") or parts[0] not in STEPS or written[to] != 1:
            continue
        values = [(int(w), int(w)) if re.fullmatch(r"-?\d+", w) else known.get(w) for w in words]
        if parts[0] == "shfl":
            values = values[:1]
        if None in values or any(low < 0 for low, _ in values):
            continue
        ends = [STEPS[parts[0]](*choice) for choice in ([low for low, _ in values], [high for _, high in values])]
        low, high = (0, values[0][1]) if parts[0] in ("sub", "shr", "div") else ends
        if "64" not in parts[-1] and "wide" not in parts and high >= 2**31:
            found.append(f"{name} {to}, {operands}: up to {high}")
        else:
            known[to] = (low, high)
    return found


cases = {case["graph"]["name"]: case["graph"] for case in json.loads((root / "bench/suites/large.json").read_text())["cases"]}
with tempfile.TemporaryDirectory() as folder:
    for name in CHOSEN:
        graph = pathlib.Path(folder) / f"{name}.json"
        graph.write_text(json.dumps(cases[name]))
        for gpu in ("h100", "a100"):
            out = pathlib.Path(folder) / "out"
            done = subprocess.run([adlgen, "compile", graph, "--gpu", gpu, "--emit", "ir,ptx", "--out", out], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name} on {gpu}: exit {done.returncode}\n{done.stderr}")
            for kernel in (out / gpu).glob("*.ir"):
                grid, threads = re.search(r"grid \[([^\]]*)\] threads (\d+)", kernel.read_text()).groups()
                extents = [int(n) if n.strip().isdigit() else 1 for n in grid.split(",")]
                bad = beyond(kernel.with_suffix(".ptx").read_text(), extents, int(threads))
                if bad:
                    sys.exit(f"{kernel.stem} on {gpu}: " + "; ".join(bad))
                kernel.unlink()
if not beyond("    mov.u32 %r6, %ctaid.x;\n    shl.b32 %r7, %r6, 9;\n", [4480475, 1, 1], 256):
    sys.exit("a block's first element of 32 bits that leaves its range was not found")
print(f"{len(CHOSEN)} graphs of large tensors: compiled, no number of 32 bits out of range")
