#!/usr/bin/env python3
"""Random graphs of operators that share tensors: reductions over any axes, scans, softmax, norms, products, slices and what is computed
between them, in which one node's result is read by several of other kinds. Compiled, run on the simulator, compared with the reference.

    mixed_graphs.py ADLGEN [--first SEED] [--count N] [--show]

A seed is a graph and a GPU. One that fails is printed with its description and the options that reproduce it."""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ELEMENTWISE = ["Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Softsign", "Gelu"]
BETWEEN = ["Add", "Sub", "Mul", "Max", "Min"]
REDUCTIONS = ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceLogSumExp"]
AXES = ("M", "N", "K")


class Mixed:
    """A graph under way: `shapes` are lists of axes, by name, or 1."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        sizes = {"M": [1, 2, 31, 33, 65], "N": [3, 8, 24, 40, 65], "K": [1, 16, 33, 64]}
        self.sizes = {axis: rng.choice(values) for axis, values in sizes.items()}
        open_axes = rng.random() < 0.6
        self.extents = {axis: axis if open_axes and rng.random() < 0.7 else n for axis, n in self.sizes.items()}
        self.inputs, self.constants, self.nodes, self.shapes, self.read = {}, {}, [], {}, set()
        for _ in range(rng.choice([1, 2, 3])):
            self.add_input([rng.choice(AXES) for _ in range(rng.choice([1, 2, 2, 2, 3]))])
        for _ in range(rng.choice([3, 5, 7, 9, 12])):
            self.step()

    def add_input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = {"type": "f32", "shape": [self.extents[axis] for axis in shape]}
        self.shapes[name] = shape

    def integers(self, values, shape=None):
        name = f"c{len(self.constants)}"
        self.constants[name] = {"type": "s64", "shape": [len(values)] if shape is None else shape, "data": values if shape is None else values[0]}
        return name

    def node(self, op, inputs, shape, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append({"op": op, "inputs": inputs, "outputs": [name], **({"attributes": attributes} if attributes else {})})
        self.read.update(inputs)
        self.shapes[name] = shape
        return name

    def broadcast(self, a, b):
        """None: they do not."""
        rank = max(len(a), len(b))
        a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
        together = [x if y in (x, 1) else y if x == 1 else None for x, y in zip(a, b)]
        return None if None in together else together

    def step(self):
        names = list(self.shapes)
        name = self.rng.choice(names[-3:] if self.rng.random() < 0.5 else names)
        kinds = [(self.between, 6), (self.alone, 3), (self.reduce, 6), (self.softmax, 2), (self.scan, 2), (self.norm, 1), (self.product, 4),
                 (self.transpose, 2), (self.pick, 1), (self.unsqueeze, 1), (self.choose, 1)]
        kind = self.rng.choices([k for k, _ in kinds], [weight for _, weight in kinds])[0]
        if self.shapes[name]:
            kind(name, self.shapes[name])

    def partner(self, shape):
        other = self.rng.choice([n for n, s in self.shapes.items() if self.broadcast(shape, s) is not None])
        return other, self.broadcast(shape, self.shapes[other])

    def between(self, name, shape):
        other, together = self.partner(shape)
        self.node(self.rng.choice(BETWEEN), [name, other], together)

    def alone(self, name, shape):
        self.node(self.rng.choice(ELEMENTWISE), [name], shape)

    def reduce(self, name, shape):
        axes = sorted(self.rng.sample(range(len(shape)), self.rng.choice([1, 1, 1, min(2, len(shape))])))
        keep = self.rng.random() < 0.6
        result = [1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes]
        self.node(self.rng.choice(REDUCTIONS), [name, self.integers(axes)], result, keepdims=int(keep))

    def softmax(self, name, shape):
        self.node(self.rng.choice(["Softmax", "LogSoftmax"]), [name], shape, axis=self.rng.randrange(len(shape)))

    def scan(self, name, shape):
        axis = self.integers([self.rng.randrange(len(shape))], [])
        tame = self.node("Tanh", [name], shape)
        total = self.node("CumSum", [tame, axis], shape, exclusive=self.rng.randrange(2), reverse=self.rng.randrange(2))
        self.node("Softsign", [total], shape)

    def norm(self, name, shape):
        if shape[-1] != 1:
            scales = [n for n, s in self.shapes.items() if s == shape[-1:]]
            if scales:
                self.node("LayerNormalization", [name, self.rng.choice(scales)], shape, epsilon=0.01)

    def product(self, name, shape):
        fits = lambda other: len(other) >= 2 and other[-2] == shape[-1] and self.broadcast(shape[:-2], other[:-2]) is not None
        others = [n for n, s in self.shapes.items() if len(shape) >= 2 and fits(s)]
        if not others:
            return
        other = self.rng.choice(others)
        left = self.node("Softmax", [name], shape, axis=len(shape) - 1) if self.rng.random() < 0.5 else self.node("Tanh", [name], shape)
        self.node("MatMul", [left, other], self.broadcast(shape[:-2], self.shapes[other][:-2]) + [shape[-2], self.shapes[other][-1]])

    def transpose(self, name, shape):
        order = self.rng.sample(range(len(shape)), len(shape))
        self.node("Transpose", [name], [shape[i] for i in order], perm=order)

    def pick(self, name, shape):
        axis = self.rng.randrange(len(shape))
        if shape[axis] != 1:
            self.node("Gather", [name, self.integers([0])], [1 if i == axis else d for i, d in enumerate(shape)], axis=axis)

    def unsqueeze(self, name, shape):
        axis = self.rng.randrange(len(shape) + 1)
        if len(shape) < 4:
            self.node("Unsqueeze", [name, self.integers([axis])], shape[:axis] + [1] + shape[axis:])

    def choose(self, name, shape):
        other, together = self.partner(shape)
        self.node("Where", [self.node("Greater", [name, other], together), name, other], together)
        del self.shapes[f"t{len(self.nodes) - 2}"] # a truth value, which nothing else here takes

    def graph(self):
        made = [n for n in self.shapes if n.startswith("t")]
        outputs = [n for n in made if n not in self.read or self.rng.random() < 0.12]
        used = {n: i for n, i in self.inputs.items() if n in self.read}
        return {"name": "mixed", "inputs": used, "constants": self.constants, "nodes": self.nodes, "outputs": outputs}

    def options(self, inputs):
        return [word for axis, n in self.sizes.items() if any(axis in i["shape"] for i in inputs.values()) for word in ("--dim", f"{axis}={n}")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000 if os.environ.get("ADLGEN_TEST_FULL") else 20)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    tried = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.json"
        for seed in range(given.first, given.first + given.count):
            mixed = Mixed(seed)
            graph = mixed.graph()
            if not graph["outputs"]:
                continue
            tried += 1
            path.write_text(json.dumps(graph))
            options = ["--gpu", mixed.rng.choice(["h100", "a100"]), "--on", "sim", "--check", "--admit-wide", *mixed.options(graph["inputs"])]
            run = subprocess.run([given.adlgen, "run", path, *options], capture_output=True, text=True)
            failed += run.returncode != 0
            if run.returncode or given.show:
                print(f"seed {seed}: exit {run.returncode}, {' '.join(options)}\n{json.dumps(graph)}\n{run.stdout}{run.stderr}")
    print(f"{tried} graphs, {failed} failed")
    return 1 if failed or not tried else 0


sys.exit(main())
