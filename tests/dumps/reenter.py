#!/usr/bin/env python3
"""Every dump goes back in: reenter.py ADLGEN SOURCE_ROOT

Compiles graphs with `--print-after all`; then compiles single dumps with `--start-after` the pass that wrote it, which
must give the PTX of the whole run, byte for byte. A pass whose result the text does not hold completely, or a reader and
printer that disagree, fail here. With ADLGEN_TEST_FULL in the environment every dump is taken, else one in nine of a
kernel, others of the next, so that every kernel and every pass has its turn."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ADLGEN = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(sys.argv[2]).resolve()
GPUS = ["a100", "h100"]
GRAPHS = ["mlp.json", "gemm.json", "softmax.json", "layernorm.yaml", "elementwise.json"]
DUMP = re.compile(r"(?P<kernel>.+)\.(?P<number>\d\d)-(?P<pass>[a-z_]+)\.ir")
ONE_IN = 1 if os.environ.get("ADLGEN_TEST_FULL") else 9

# What the examples lack: mathematical functions in the hardware's form, run-time strides and unaligned ones,
# transposed operands, products without matrix instructions, a row too long for registers.
EXTRA = {
    "functions": {
        "inputs": {"x": {"type": "f32", "shape": ["M", 77]}, "y": {"type": "f32", "shape": [77]}},
        "nodes": [{"op": "Pow", "inputs": ["x", "y"], "outputs": ["p"]}, {"op": "Tanh", "inputs": ["p"], "outputs": ["z"]}],
    },
    "transposed": {
        "inputs": {"a": {"type": "f16", "shape": [256, "M"], "align": 16}, "b": {"type": "f16", "shape": [256, 512], "align": 16}},
        "nodes": [{"op": "Gemm", "inputs": ["a", "b"], "outputs": ["z"], "attributes": {"transA": 1}}],
    },
    "scalar": {
        "inputs": {"a": {"type": "f32", "shape": ["M", 100]}, "b": {"type": "f32", "shape": [100, 60]}},
        "nodes": [{"op": "MatMul", "inputs": ["a", "b"], "outputs": ["z"]}],
    },
    "long_row": {
        "inputs": {"x": {"type": "bf16", "shape": ["M", 100003]}},
        "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["z"], "attributes": {"axis": -1}}],
    },
}


def adlgen(*words):
    done = subprocess.run([ADLGEN, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else done.stderr or f"exit {done.returncode}"


def reenter(dump, gpu, out):
    match = DUMP.fullmatch(dump.name)
    kernel, pass_name = match["kernel"], match["pass"]
    complaint = adlgen("compile", dump, "--start-after", pass_name, "--gpu", gpu, "--emit", "ptx", "--out", out)
    if complaint:
        return f"{dump.name} on {gpu} is refused:\n{complaint}"
    same = (out / gpu / f"{kernel}.ptx").read_bytes() == dump.with_name(f"{kernel}.ptx").read_bytes()
    return None if same else f"{dump.name} on {gpu} gives other PTX than the whole run"


def sample(folder):
    """The dumps of a folder whose turn it is, by the places of kernel and pass; another GPU begins elsewhere."""
    found = [match for path in sorted(folder.glob("*.ir")) if (match := DUMP.fullmatch(path.name))]
    kernels = sorted({match["kernel"] for match in found})
    first = GPUS.index(folder.name)
    return [folder / m[0] for m in found if (kernels.index(m["kernel"]) + int(m["number"]) + first) % ONE_IN == 0]


def main():
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(name)
        graphs = [ROOT / "examples" / graph for graph in GRAPHS]
        for graph, body in EXTRA.items():
            graphs.append(folder / f"{graph}.json")
            graphs[-1].write_text(json.dumps({"name": graph, **body, "outputs": ["z"]}))
        jobs, wrong = [], 0
        for i, graph in enumerate(graphs):
            out = folder / f"out{i}"
            complaint = adlgen("compile", graph, "--gpu", ",".join(GPUS), "--print-after", "all", "--emit", "ptx", "--out", out)
            if complaint:
                print(f"{graph.name}:\n{complaint}")
                wrong += 1
            dumps = [dump for gpu in GPUS for dump in sample(out / gpu)]
            jobs += [pool.submit(reenter, d, d.parent.name, folder / f"back{i}-{j}") for j, d in enumerate(dumps)]
        complaints = list(filter(None, (job.result() for job in jobs)))
        print(*complaints[:20], sep="\n")
        print(f"{len(jobs)} dumps of {len(graphs)} graphs, {len(complaints)} do not go back in")
        return 1 if wrong or complaints or not jobs else 0


sys.exit(main())
