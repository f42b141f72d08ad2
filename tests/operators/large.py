#!/usr/bin/env python3
"""large.py ADLGEN: tensors of more than 2^31 elements compile (graphs of bench/suites/large.json, which a GPU runs: they are too much for the
simulator), and no number of 32 bits that follows from the block, the thread and constants leaves its range. That holds for registers that are
written once; loops, and what is computed of loaded numbers, are not followed. Rows, columns or batches of more than 2^31 - 2^16 are refused
by name."""
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


def graph_of(op, shapes, axes=None, **attributes):
    inputs = {f"x{i}": {"type": "f16", "shape": shape} for i, shape in enumerate(shapes)}
    constants = {"axes": {"type": "s64", "shape": [len(axes)], "data": axes}} if axes else {}
    node = {"op": op, "inputs": [*inputs, *constants], "outputs": ["y"], "attributes": attributes}
    return {"inputs": inputs, "constants": constants, "nodes": [node], "outputs": ["y"]}


REFUSED = {"Softmax": graph_of("Softmax", [[70000, 65536, 2]], axis=-1), "MatMul": graph_of("MatMul", [[70000, 32768, 4], [4, 8]]),
           "batches": graph_of("MatMul", [[70000, 32768, 4, 4], [70000, 32768, 4, 4]]),
           "ArgMax": graph_of("ArgMax", [[70000, 32768, 4]], axis=2), "ReduceMax": graph_of("ReduceMax", [[2, 70000, 32768]], [0]),
           "GlobalAveragePool": graph_of("GlobalAveragePool", [[70000, 32768, 2, 2]]), "sums": graph_of("ReduceSum", [[2, 2147483647]], [1]),
           "MaxPool": graph_of("MaxPool", [[70000, 32768, 2, 2]], kernel_shape=[2, 2])}
# walked in 64 bits, as the tiles of a transposition are not
ELEMENTWISE = graph_of("Transpose", [[16, 70000, 32768]], perm=[1, 2, 0])
cases = {case["graph"]["name"]: case["graph"] for case in json.loads((root / "bench/suites/large.json").read_text())["cases"]}
cases["turned"] = {"name": "turned"} | ELEMENTWISE
with tempfile.TemporaryDirectory() as folder:
    for name, refused in REFUSED.items():
        graph = pathlib.Path(folder) / "refused.json"
        graph.write_text(json.dumps({"name": "refused"} | refused))
        done = subprocess.run([adlgen, "compile", graph, "--gpu", "h100", "--out", pathlib.Path(folder) / "none"], capture_output=True, text=True)
        if done.returncode != 3 or "rows, columns or batches are more than 2147418112" not in done.stderr:
            sys.exit(f"{name}: exit {done.returncode} where it is to be refused\n{done.stderr}")
    for name in [*CHOSEN, "turned"]:
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
print(f"{len(CHOSEN) + 1} graphs of large tensors compiled, no number of 32 bits out of range; {len(REFUSED)} refused by name")
