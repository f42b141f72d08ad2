"""GPU and simulator on the same inputs: for every committed kernel the smallest case in which it runs.

Kernels without approximate instructions must give the same bits; those with some, and those for another GPU than the
machine's, whose sums the simulator makes as wide as that GPU does, must stay within the limit of their type, as the
relative norm of the difference. context.results, if given, gets the table beside it: FILE.simulator.md."""
import concurrent.futures
import json
import math
import pathlib
import re
import struct
import subprocess
import tempfile
import time

from . import catalogue

TITLE = "the same bits as on the simulator"
LIMITS = {"F32": 1e-4, "F16": 1e-3, "BF16": 4e-3, "F64": 1e-12}  # of approximate functions
APPROXIMATE = re.compile(r"^\s*(@\S+\s+)?\w+\.(approx|full)\b", re.M)
BYTES = {"f64": 8, "s64": 8, "f32": 4, "tf32": 4, "s32": 4, "f16": 2, "bf16": 2}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def tensors(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:start])
    return {name: (t["dtype"], data[start + t["data_offsets"][0]:start + t["data_offsets"][1]])
            for name, t in head.items() if name != "__metadata__"}


def values(kind, data):
    if kind == "BF16":
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    letter = {"F64": "d", "F32": "f", "F16": "e", "BF16": "f"}[kind]
    return struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data)


def distance(kind, x, y):
    """The relative norm of the difference; infinite where only one is not finite."""
    difference = norm = 0.0
    for a, b in zip(values(kind, x), values(kind, y)):
        if not (math.isfinite(a) and math.isfinite(b)):
            if not (a == b or (a != a and b != b)):
                return math.inf
            continue
        difference, norm = difference + (a - b) ** 2, norm + b * b
    return math.sqrt(difference / norm) if norm else math.sqrt(difference)


def smallest(context):
    """One case a kernel and GPU: that with the smallest dimensions."""
    best = {}
    for case in catalogue.cases(context):
        kernel = case["label"].split()[0]
        size = math.prod(case["dims"].values()) if case["dims"] else 1
        # one whole tile shows more than a single element
        rank = (case["skew"] not in (0,), size < 64, size)
        if (kernel, case["gpu"]) not in best or rank < best[kernel, case["gpu"]][0]:
            best[kernel, case["gpu"]] = (rank, case)
    return {key: case for key, (_, case) in best.items()}


def execute(context, case, on, folder):
    graph, batch = folder / "graph.json", [context.adlgen, "run", str(folder / "graph.json"), "--gpu", case["gpu"], "--on", on]
    graph.write_text(json.dumps(case["graph"]))
    for key, value in case["dims"].items():
        batch += ["--dim", f"{key}={value}"]
    for name, tensor in case["graph"]["inputs"].items() if case["skew"] else ():
        batch += ["--offset", f"{name}={max(case['skew'], tensor.get('align') or BYTES.get(tensor['type'], 1))}"]
    batch += ["--out", str(folder / on)] + (["--checkers", "none"] if on == "sim" else [])
    result = subprocess.run(batch, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=context.timeout)
    if result.returncode:
        raise RuntimeError(f"--on {on}: exit {result.returncode}: {(result.stdout + result.stderr).strip()[-400:]}")
    return tensors(folder / on / "outputs.safetensors"), " are assembled for " in result.stdout + result.stderr


def approximate(context, kernel, gpu):
    manifest = json.loads((context.root / "generated" / f"{gpu}.json").read_text())
    for k in manifest["kernels"]:
        if k["kernel"] == kernel:
            return bool(APPROXIMATE.search((context.root / "generated" / k["file"]).read_text()))
    return False


def compare(context, key, case):
    """(what was found, whether that is right)"""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (gpu, foreign), (sim, _) = execute(context, case, "gpu", folder), execute(context, case, "sim", folder)
    if gpu == sim:
        return "same bits", True
    # a kernel for another GPU adds here as wide as this machine does, there as wide as its own GPU
    loose = foreign or approximate(context, *key)
    for tensor, (kind, data) in gpu.items():
        if data == sim[tensor][1]:
            continue
        if kind not in SIZES:
            return f"{tensor}: other values", False
        far = distance(kind, data, sim[tensor][1])
        if not loose or far > LIMITS[kind]:
            return f"{tensor}: {far:.1e} apart" + ("" if loose else ", without approximate instructions"), False
    return f"{far:.1e} apart, " + ("widths of another GPU" if foreign else "approximate instructions"), True


def run(context):
    if context.on != "gpu":
        return 0, [], 0
    cases, lines, failures, left = smallest(context), [], [], 0

    def one(item):
        if time.time() > context.deadline:
            return None
        try:
            return compare(context, *item)
        except (RuntimeError, subprocess.TimeoutExpired, OSError, ValueError) as e:
            return str(e), False

    with concurrent.futures.ThreadPoolExecutor(context.jobs) as pool:
        for (key, case), found in zip(cases.items(), pool.map(one, cases.items())):
            if found is None:
                left += 1
                continue
            what, right = found
            context.log(case, right, what)
            sizes = " ".join(f"{k}={v}" for k, v in case["dims"].items())
            lines.append(f"| {key[0]} | {key[1]} | {sizes} | {what} |")
            if not right:
                failures.append((case["label"], what))
    if context.results:
        head = ["| kernel | GPU | sizes | GPU and simulator |", "|---|---|---|---|"]
        pathlib.Path(context.results + ".simulator.md").write_text("\n".join(head + lines) + "\n")
    same = sum("same bits" in line for line in lines)
    print(f"{same} of {len(lines)} kernels give the same bits as the simulator")
    return len(lines) - len(failures), failures, left
