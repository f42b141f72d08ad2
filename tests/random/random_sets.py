#!/usr/bin/env python3
"""Random template parameters, forced by hand: each is in the kernels and the result right, or it is refused by name.

    random_sets.py ADLGEN TEMPLATES [--gpu a100,h100] [--first SEED] [--count N | --seconds S] [--jobs N] [--show]

A seed draws a small graph of some family of kernels, and one to three parameters that a template declares (read off the
heads in TEMPLATES), with values of their domains, most of them small. Three things can become of them: the graph compiles,
and then a kernel has each value, and results are right on the simulator; the graph is refused (exit 3), and the error
names what was set; or no kernel has such a parameter or value (exit 1), which names it too. Anything else is a failure."""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

SMALL = [1, 1, 2, 2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64, 64, 96, 128, 128, 192, 256, 512, 1024]
EXTENTS = [1, 4, 16, 33, 64, 128, 129, 200, 257, 320]


def declared(templates):
    """Names of parameters that may be set, and their domains, by template."""
    found = {}
    for path in sorted(pathlib.Path(templates).glob("*.ir")):
        for line in path.read_text().splitlines():
            match = re.match(r"(?:param|axis) (\w+): int = [^;]* in (\[[^]]*\]|[^;]*?)(?: if [^;]*)?\s*(?:;.*)?$", line)
            if match and " by " not in line:
                found.setdefault(path.stem, {})[match[1]] = match[2].strip()
    return found


def values(domain):
    if domain.startswith("["):
        return [int(v) for v in domain[1:-1].split(",")]
    match = re.match(r"(-?\d+) \.\. (-?\d+)(?: step (\d+))?", domain)
    low, high, step = int(match[1]), int(match[2]), int(match[3] or 1)
    return [v for v in [0] + SMALL if low <= v <= high and (v - low) % step == 0] or [low]


class Draw:
    """A graph, the templates that its kernels may come from, and what is set."""

    def __init__(self, seed, heads):
        self.rng = random.Random(seed)
        self.inputs, self.constants, self.nodes = {}, {}, []
        families = [self.product, self.product, self.few, self.pair, self.row, self.elementwise, self.reduction, self.turned,
                    self.attention, self.decoding, self.narrow, self.ranks]
        templates = families[seed % len(families)]()
        domains = {name: values(domain) for template in templates for name, domain in heads[template].items()}
        names = self.rng.sample(sorted(domains), min(len(domains), self.rng.choice([1, 1, 2, 3])))
        self.sets = {name: self.rng.choice(domains[name]) for name in names}
        self.graph = {"name": "sets", "inputs": self.inputs, "constants": self.constants, "nodes": self.nodes, "outputs": ["y"]}

    def tensor(self, name, kind, *shape):
        self.inputs[name] = {"type": kind, "shape": list(shape)}
        if self.rng.random() < 0.7:
            self.inputs[name]["align"] = 16

    def node(self, op, inputs, outputs=("y",), **attributes):
        self.nodes.append({"op": op, "inputs": list(inputs), "outputs": list(outputs), "attributes": attributes})

    def product(self, rows=None):
        kind, turned = self.rng.choice(["bf16", "f16", "f32"]), self.rng.random() < 0.5
        m, n, k = rows or self.rng.choice(EXTENTS), self.rng.choice([64, 96, 128, 256, 328, 100]), self.rng.choice([64, 128, 256, 520, 72])
        self.tensor("a", kind, m, k)
        self.tensor("b", kind, *((n, k) if turned else (k, n)))
        self.node("Gemm", ["a", "b"], transB=int(turned))
        return ["gemm"] if m > 4 else ["gemm", "gemv_few", "gemv_rows", "gemv_columns", "gemv_split"]

    def few(self):
        return self.product(self.rng.choice([1, 1, 2, 3, 4, 7]))

    def pair(self):
        m, n, k = self.rng.choice(EXTENTS), self.rng.choice([64, 128, 256]), self.rng.choice([64, 128, 256])
        for name in "bc":
            self.tensor(name, "bf16", k, n)
        self.tensor("a", "bf16", m, k)
        self.node("MatMul", "ab", "u")
        self.node("MatMul", "ac", "v")
        self.node("Sigmoid", "u", "s")
        self.node("Mul", "uv", "w")
        self.node("Mul", "sw")
        return ["gemm_dual", "gemm_dual_swapped"]

    def narrow(self):
        m, n, k = self.rng.choice([1, 8, 33, 130]), self.rng.choice([64, 128, 256]), self.rng.choice([64, 128, 256])
        self.tensor("a", "bf16", m, k)
        self.tensor("w", "s8", n, k)
        self.tensor("s", "bf16", n)
        self.node("DequantizeLinear", "ws", "d", axis=0)
        self.node("Gemm", "ad", transB=1)
        return ["gemm_narrow"]

    def row(self):
        self.tensor("x", self.rng.choice(["bf16", "f32"]), self.rng.choice([1, 5, 40]), self.rng.choice([31, 64, 1000, 2048, 5120]))
        op = self.rng.choice(["Softmax", "LogSoftmax", "RMSNormalization"])
        if op == "RMSNormalization":
            self.tensor("g", self.inputs["x"]["type"], self.inputs["x"]["shape"][1])
        self.node(op, "xg" if op == "RMSNormalization" else "x")
        return ["row"]

    def elementwise(self):
        self.tensor("x", self.rng.choice(["bf16", "f32"]), self.rng.choice([1, 5, 40]), self.rng.choice([31, 64, 1000, 2048]))
        self.node("Gelu", "x")
        return ["elementwise"]

    def reduction(self):
        self.tensor("x", self.rng.choice(["bf16", "f32"]), self.rng.choice([1, 5, 40]), self.rng.choice([31, 64, 1000, 2048]), 3)
        axes = self.rng.choice([[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]])
        self.constants["axes"] = {"type": "s64", "shape": [len(axes)], "data": axes}
        self.node(self.rng.choice(["ReduceMean", "ReduceMax"]), ["x", "axes"], keepdims=1)
        return ["row", "row_parts"]

    def turned(self):
        self.tensor("x", self.rng.choice(["bf16", "f32", "s8"]), self.rng.choice([3, 64, 100]), self.rng.choice([31, 64, 1000]))
        self.node("Transpose", "x", perm=[1, 0])
        return ["transpose"]

    def ranks(self):
        self.tensor("x", "f32", self.rng.choice([1, 5, 40]), self.rng.choice([31, 64, 1000]))
        if self.rng.random() < 0.5:
            self.constants["axis"] = {"type": "s64", "shape": [], "data": [1]}
            self.node("CumSum", ["x", "axis"])
            return ["row_scan"]
        self.constants["k"] = {"type": "s64", "shape": [1], "data": [8]}
        self.node("TopK", ["x", "k"], ["y", "i"], axis=1)
        return ["row_top"]

    def attention(self, queries=None):
        heads, keys = self.rng.choice([1, 3, 4]), self.rng.choice([16, 65, 128, 300])
        size = self.rng.choice([32, 64, 128])
        self.tensor("q", "bf16", 1, heads, queries or self.rng.choice([16, 65, 128, 200]), size)
        for name in "kv":
            self.tensor(name, "bf16", 1, heads, keys, size)
        self.node("Attention", "qkv", is_causal=int(self.rng.random() < 0.3 and not queries))
        return ["attention", "attention_decode"] if queries else ["attention"]

    def decoding(self):
        return self.attention(self.rng.choice([1, 4]))


def words(draw, gpu):
    return ["--gpu", gpu, "--no-tuned"] + [w for n, v in draw.sets.items() for w in ("--set", f"{n}={v}")]


def missing(adlgen, draw, gpu, text):
    """What was set, and no kernel has; None: it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([adlgen, "compile", "-", "--out", folder, "--emit", "ir", "--explain", "--jobs", "1"] + words(draw, gpu),
                              input=text, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            return None
        kernels = [path.read_text() for path in pathlib.Path(folder).glob("*/*.ir")]
    # what the generator itself reads of a template's head is in no kernel's text, but in its report
    return [name for name, value in draw.sets.items()
            if not any(re.search(rf"^bound {name}: int = {value}$", kernel, re.M) for kernel in kernels)
            and (any(re.search(rf"^bound {name}: int", kernel, re.M) for kernel in kernels)
                 or f"{name} = {value} by --set" not in done.stdout)]


def names_one(said, draw):
    return any(re.search(rf"--set {name}={value}\b", said) for name, value in draw.sets.items())


def judge(adlgen, draw, gpu, text):
    """None if all is well, else what is wrong, and whether the graph was refused."""
    done = subprocess.run([adlgen, "run", "-", "--on", "sim", "--check", "--admit-wide"] + words(draw, gpu), input=text,
                          capture_output=True, text=True, check=False, timeout=120)
    said = done.stdout + done.stderr
    if done.returncode in (1, 3):
        return (None if names_one(done.stderr, draw) else f"refused without a name: {said}"), True
    if done.returncode:
        return f"exit {done.returncode}: {said}", False
    absent = missing(adlgen, draw, gpu, text)
    return (f"not in any kernel: {absent}" if absent else None), False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("templates")
    parser.add_argument("--gpu", default="a100,h100")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float, default=60, help="without --count")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    heads, gpus = declared(arguments.templates), arguments.gpu.split(",")
    end = time.monotonic() + (1e9 if arguments.count else arguments.seconds)

    def one(seed):
        if time.monotonic() >= end:
            return None
        draw, gpu = Draw(seed, heads), gpus[seed // 12 % len(gpus)]
        text = json.dumps(draw.graph)
        try:
            wrong, refused = judge(arguments.adlgen, draw, gpu, text)
        except subprocess.TimeoutExpired:
            wrong, refused = "too slow", False
        return seed, wrong, refused, f"adlgen run - --on sim --check {' '.join(words(draw, gpu))} <<'E'\n{text}\nE"

    ran, refusals, failed = 0, 0, 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(one, range(arguments.first, arguments.first + (arguments.count or 100000))):
            if not result:
                continue
            seed, wrong, refused, how = result
            ran, refusals, failed = ran + 1, refusals + refused, failed + bool(wrong)
            if wrong or arguments.show:
                print(f"---- seed {seed}: {wrong or ('refused' if refused else 'right')}\n{how}", flush=True)
    print(f"{ran} random settings, {refusals} refused by name, {failed} failed")
    return 1 if failed or refusals == ran else 0


if __name__ == "__main__":
    sys.exit(main())
