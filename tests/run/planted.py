#!/usr/bin/env python3
"""Would `run --check` notice? Plants faults in every graph of examples/ and of the suites of tests/run.

    planted.py ADLGEN PLANT-TOOL [--only TEXT] [--show] [--part graphs|cores]

graphs: the graph is changed by a rule (a step of k or a bias left out, a softmax of scores twice as large, a part of a row
not summed), and what a right kernel of the changed graph gives is checked as a result of the good one (tests/tools/plant_tool.c);
a row and a tile of the results are changed too, by as much as a check promises to notice.
cores: the graph is run on the simulator as it is, with tensor cores that keep four bits of a sum; every other graph, and
with ADLGEN_TEST_FULL in the environment each.

A fault counts as planted where it changes some output by 5 % or more (coarse types: by what their limit asks for). Each that
is planted must be refused, and every good result must pass. There must be many of each class: a test that plants nothing
proves nothing. A new graph takes part without being named here."""
import argparse
import collections
import copy
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LEAST = {"step of k": 150, "term": 60, "scale of scores": 8, "sum of a softmax": 5, "part of a row": 40, "activation": 40,
         "row": 150, "tile": 150, "tensor cores": 60}
CORES_ONE_IN = 1 if os.environ.get("ADLGEN_TEST_FULL") else 2
VISIBLE = 0.05
SOFTMAX_SIZES = [33, 65, 129]
ROWS = ("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
ACTIVATIONS = ("Relu", "Gelu", "Swish", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Softplus", "Erf", "Sqrt", "Elu", "Mish")
COARSE = """adl: 1
name: coarse-{base}
extends: {base}
sources:
  planted: "a fault, to be noticed"
families:
{families}"""
CORES = {"h100": {"warp_mma": ["f16", "bf16", "tf32"], "warpgroup_mma": ["f16", "bf16", "tf32", "fp8"]},
         "a100": {"warp_mma": ["f16", "bf16", "tf32"]}}


# ---- graphs ----

def smaller(graph):
    """Large extents of the examples by a sixteenth, the same everywhere."""
    graph = copy.deepcopy(graph)
    for tensor in list(graph["inputs"].values()) + list(graph.get("constants", {}).values()):
        for key in ("shape", "strides"):
            if key in tensor:
                tensor[key] = [n // 16 if isinstance(n, int) and n >= 1024 else n for n in tensor[key]]
    return graph


def read(path):
    """The graph of an example; None for YAML where Python has no reader of it."""
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)
    try:
        import yaml
    except ImportError:
        return None
    return yaml.safe_load(text)


def softmax_dims(graph, dims):
    """Several sizes where there is a softmax and something is open."""
    if not any(node["op"].endswith("Softmax") for node in graph["nodes"]):
        return dims[:1]
    open_ = sorted({n for t in graph["inputs"].values() for n in t["shape"] if isinstance(n, str) and n.isidentifier()})
    small = [name for name in open_ if name in "BHR"]
    grown = [{name: 2 if name in small and len(open_) > 1 else size for name in open_} for size in SOFTMAX_SIZES]
    return dims[:1] + (grown if open_ else [])


def taken_cases():
    """Half of them by default: LEAST says what must be planted even so."""
    return (case for i, case in enumerate(all_cases()) if os.environ.get("ADLGEN_TEST_FULL") or i % 2)


def all_cases():
    """(label, graph, dims, suite's case), every graph once for each choice of dims taken here."""
    for path in sorted((ROOT / "examples").glob("*.json")) + sorted((ROOT / "examples").glob("*.yaml")):
        graph = read(path)
        if not graph or "nodes" not in graph:
            continue
        graph = smaller(graph)
        names = {n for t in graph["inputs"].values() for n in t["shape"] if isinstance(n, str)}
        least = {name: dim.get("min", 1) for name, dim in graph.get("dims", {}).items()}
        sizes = {name: max(3 if name in "BHC" else 33, least.get(name, 1)) for name in names}
        for dims in softmax_dims(graph, [sizes]):
            yield f"examples/{path.name}", graph, dims, {}
    for path in sorted((ROOT / "tests" / "run").glob("*.json")):
        suite = json.loads(path.read_text())
        for case in suite["cases"]:
            if not isinstance(case["graph"], dict):
                continue
            case = {"gpus": suite.get("gpus", []), **case}
            choices = [d for d in case.get("dims", [{}]) if 0 not in d.values()]
            for dims in softmax_dims(case["graph"], choices[:1]) if choices else []:
                yield f"{path.stem}: {case['graph'].get('name', '')}", case["graph"], dims, case


# ---- faults ----

class Rewriter:
    """A copy of a graph with nodes put before one of it."""

    def __init__(self, graph, index):
        self.graph = copy.deepcopy(graph)
        self.graph.setdefault("constants", {})
        self.index, self.count = index, 0

    @property
    def node(self):
        return self.graph["nodes"][self.index]

    def constant(self, data):
        self.count += 1
        name = f"planted_k{self.count}"
        self.graph["constants"][name] = {"type": "s64", "shape": [len(data)], "data": data}
        return name

    def before(self, op, inputs, attributes=None):
        self.count += 1
        name = f"planted_{self.count}"
        self.graph["nodes"].insert(self.index, {"op": op, "inputs": inputs, "outputs": [name], "attributes": attributes or {}})
        self.index += 1
        return name

    def after(self, make):
        """What the node gives goes through more nodes before anybody reads it."""
        name = self.node["outputs"][0]
        self.node["outputs"][0] = inner = f"planted_inner_{name}"
        self.index += 1
        op, inputs, attributes = make(inner)
        self.graph["nodes"].insert(self.index, {"op": op, "inputs": inputs, "outputs": [name], "attributes": attributes})

    def cut(self, name, axis, begin, end):
        return self.before("Slice", [name, self.constant([begin]), self.constant([end]), self.constant([axis])])

    def nothing(self, name):
        return self.before("Sub", [name, name])


def extent(graph, name, axis, dims):
    shape = graph["inputs"].get(name, {}).get("shape")
    value = shape[axis] if shape and -len(shape) <= axis < len(shape) else None
    return dims.get(value, value) if isinstance(value, str) else value


def attribute(node, name, default):
    return node.get("attributes", {}).get(name, default)


def step_of_k(graph, index, dims):
    r = Rewriter(graph, index)
    a, b = r.node["inputs"][:2]
    if r.node["op"] == "Gemm":
        axes = (0 if attribute(r.node, "transA", 0) else 1), (1 if attribute(r.node, "transB", 0) else 0)
    else:
        vector = len(graph["inputs"].get(b, {}).get("shape", [0, 0])) == 1
        axes = -1, (-1 if vector else -2)
    k = extent(graph, a, axes[0], dims) or extent(graph, b, axes[1], dims)
    left = -16 if isinstance(k, int) and k > 16 else -1
    r.node["inputs"][:2] = [r.cut(a, axes[0], 0, left), r.cut(b, axes[1], 0, left)]
    return r.graph


def drop_term(graph, index, dims):
    r = Rewriter(graph, index)
    if r.node["op"] == "Gemm":
        if len(r.node["inputs"]) < 3:
            return None
        r.node["inputs"] = r.node["inputs"][:2]
    else:
        kept, dropped = r.node["inputs"][:2]
        r.node["inputs"][:2] = [kept, r.nothing(dropped)]
    return r.graph


def double_scores(graph, index, dims):
    r = Rewriter(graph, index)
    x = r.node["inputs"][0]
    r.node["inputs"][0] = r.before("Add", [x, x])
    return r.graph


def part_of_softmax_sum(graph, index, dims):
    """Divided by the sum of all but the first elements."""
    if graph.get("opset", 27) < 13 or graph["nodes"][index]["op"] != "Softmax":
        return None
    r = Rewriter(graph, index)
    axis = attribute(r.node, "axis", -1)
    again = r.before("Softmax", list(r.node["inputs"]), {"axis": axis})
    part = r.before("ReduceSum", [r.cut(again, axis, 4, 2**63 - 1), r.constant([axis])], {"keepdims": 1})
    r.after(lambda inner: ("Div", [inner, part], {}))
    return r.graph


def part_of_row(graph, index, dims):
    """The first eight elements of a row are taken for 0."""
    r = Rewriter(graph, index)
    x = r.node["inputs"][0]
    if graph["inputs"].get(x, {}).get("shape") == []:
        return None
    head, tail = r.cut(x, -1, 0, 8), r.cut(x, -1, 8, 2**63 - 1)
    r.node["inputs"][0] = r.before("Concat", [r.nothing(head), tail], {"axis": -1})
    return r.graph


def no_activation(graph, index, dims):
    r = Rewriter(graph, index)
    r.node["op"], r.node["attributes"] = "Identity", {}
    return r.graph


RULES = {"step of k": (("MatMul", "Gemm", "MatMulInteger"), step_of_k), "term": (("Add", "Sub", "Gemm"), drop_term),
         "scale of scores": (("Softmax", "LogSoftmax"), double_scores), "sum of a softmax": (("Softmax",), part_of_softmax_sum),
         "part of a row": (ROWS, part_of_row), "activation": (ACTIVATIONS, no_activation)}


def faults_of(graph, dims):
    opset = graph.get("opset", 27)
    for name, (ops, rule) in RULES.items():
        places = [i for i, node in enumerate(graph["nodes"]) if node["op"] in ops]
        for index in places[:3] if opset >= 11 else []:
            changed = rule(graph, index, dims)
            if changed:
                yield {"name": name, "graph": changed}


# ---- judging ----

class Judge:
    def __init__(self, show):
        self.show, self.planted, self.failures = show, collections.Counter(), []

    def good(self, label, line):
        if not line["passes"]:
            self.failures.append(f"{label}: the good result is refused: {json.dumps(line['outputs'])}")

    def fault(self, label, name, passes, visible, line):
        if self.show:
            print(f"{label}: {name}: {'not planted' if not visible else 'MISSED' if passes else 'refused'}", flush=True)
        if not visible:
            return
        self.planted[name] += 1
        if passes:
            self.failures.append(f"{label}: {name} is not noticed: {json.dumps(line)}")


def is_visible(output):
    return output["difference"] is None or output["difference"] >= max(VISIBLE, 4 * output["plain_limit"])


def plant_graphs(options, judge):
    lines = []
    for label, graph, dims, case in taken_cases():
        label = " ".join([label] + [f"{k}={v}" for k, v in dims.items()])
        if options.only and options.only not in label or case.get("admit_wide"):
            continue
        lines.append(json.dumps({"label": label, "graph": graph, "dims": dims, "faults": list(faults_of(graph, dims))}))
    done = subprocess.run([options.tool], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        judge.failures.append(done.stderr)
    for text in done.stdout.splitlines():
        line = json.loads(text)
        if line["fault"] == "none":
            judge.good(line["label"], line)
        elif line["fault"] in ("row", "tile"):  # where the part is not 0
            large = any(o["difference"] and o["difference"] > 0.9 * (o["widest_limit"] or 1) for o in line["outputs"])
            judge.fault(line["label"], line["fault"], line["passes"], large, line)
        else:
            judge.fault(line["label"], line["fault"], line["passes"], any(map(is_visible, line["outputs"])), line)


def run_batch(options, lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(map(json.dumps, lines)) + "\n")
        file.flush()
        done = subprocess.run([options.adlgen, "run", "--batch", file.name, "--on", "sim"], capture_output=True, text=True,
                              check=False)
    return {(r["label"]): r for r in map(json.loads, done.stdout.splitlines())}


def plant_cores(options, judge, folder):
    lines, seen = [], set()
    for label, graph, dims, case in taken_cases():
        ops = {node["op"] for node in graph["nodes"]}
        if not ops & {"MatMul", "Gemm"} or options.only and options.only not in label:
            continue
        for gpu in [g for g in case.get("gpus", ["h100", "a100"]) if g in CORES][:1]:
            name = " ".join([label, gpu] + [f"{k}={v}" for k, v in dims.items()])
            if name in seen:
                continue
            seen.add(name)
            if len(seen) % CORES_ONE_IN:
                continue
            line = {"label": name, "graph": graph, "gpu": gpu, "dims": dims, "set": (case.get("set") or [[]])[0],
                    "fixed": bool(case.get("fixed")), "sms": case.get("sms", 0), "admit_wide": bool(case.get("admit_wide"))}
            lines += [line, {**line, "label": name + "!", "gpu": str(folder / f"{gpu}.yaml")}]
    results = run_batch(options, lines)
    for line in lines[::2]:
        good, bad = results.get(line["label"], {}), results.get(line["label"] + "!", {})
        if not good.get("ok") and any(o["status"] == "wide" for o in good.get("outputs", [])) and not good.get("faults") and all(
                o["status"] in ("ok", "wide") for o in good["outputs"]):
            continue  # a limit that proves nothing, of dims that no suite runs: no fault is seen there either
        if not good.get("ok"):
            judge.failures.append(f"{line['label']}: {json.dumps(good)}")
            continue
        if "outputs" not in bad:
            judge.failures.append(f"{line['label']}: coarse tensor cores: {json.dumps(bad)}")
            continue
        # what does not use tensor cores does not change; four bits are 5 % and more where they are used
        changed = any(b["error"] is not None and b["error"] >= max(VISIBLE, 4 * b["plain_limit"])
                      for b in bad["outputs"] if b["plain_limit"]) or any(o["misplaced"] for o in bad["outputs"])
        judge.fault(line["label"], "tensor cores", bad["ok"], changed, bad)


def write_gpus(folder):
    bits = "{accumulator_bits: {value: 4, source: planted}, accumulator_rounding: truncate}"
    for base, families in CORES.items():
        text = "".join(f"  {family}:\n    shapes:\n" + "".join(f"      {shape}: {bits}\n" for shape in shapes)
                       for family, shapes in families.items())
        (folder / f"{base}.yaml").write_text(COARSE.format(base=base, families=text))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("tool")
    parser.add_argument("--only")
    parser.add_argument("--part", choices=["graphs", "cores"])
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    judge = Judge(options.show)
    if options.part != "cores":
        plant_graphs(options, judge)
    if options.part != "graphs":
        with tempfile.TemporaryDirectory() as folder:
            write_gpus(pathlib.Path(folder))
            plant_cores(options, judge, pathlib.Path(folder))
    for name, least in LEAST.items():
        part = "cores" if name == "tensor cores" else "graphs"
        if not options.only and options.part in (None, part) and judge.planted[name] < least:
            judge.failures.append(f"{name}: planted {judge.planted[name]} times, {least} at least are expected")
    for failure in judge.failures:
        print(failure)
    print(", ".join(f"{name}: {n}" for name, n in sorted(judge.planted.items())) + f"; {len(judge.failures)} failures")
    return 1 if judge.failures else 0


if __name__ == "__main__":
    sys.exit(main())
