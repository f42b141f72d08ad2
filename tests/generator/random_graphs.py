#!/usr/bin/env python3
"""Random graphs: carried out by their fused operators they must give what the reference gives node by node.

    random_graphs.py GRAPH-TOOL [COUNT [FIRST-SEED]]

A seed that fails is printed with its description, which `graph-tool verify -` then reproduces."""
import json
import random
import subprocess
import sys

UNARY = ["Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Gelu", "Softplus", "Erf", "Identity", "Sin"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]


def row_major(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


class Builder:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.inputs, self.constants, self.nodes, self.tensors = {}, {}, [], []
        self.base = [self.rng.choice([1, 2, 3, 4, 5]) for _ in range(self.rng.choice([1, 2, 2, 3, 3, 4]))]

    def input(self, shape):
        name = f"i{len(self.inputs)}"
        self.inputs[name] = {"type": "f32", "shape": shape}
        if shape and self.rng.random() < 0.3:
            self.inputs[name]["strides"] = self.strides(shape)
        self.tensors.append((name, shape))
        return name

    def strides(self, shape):
        """Padded, or permuted: never overlapping."""
        order = list(range(len(shape)))
        if self.rng.random() < 0.5:
            self.rng.shuffle(order)
        strides, step = [0] * len(shape), self.rng.choice([1, 1, 1, 2])
        for axis in reversed(order):
            strides[axis] = step
            step = step * shape[axis] + self.rng.choice([0, 0, 3])
        return strides

    def constant(self, shape, data, kind="s64"):
        name = f"k{len(self.constants)}"
        self.constants[name] = {"type": kind, "shape": shape, "data": data}
        return name

    def node(self, op, inputs, shape, attributes=None):
        name = f"t{len(self.nodes)}"
        self.nodes.append({"op": op, "inputs": inputs, "outputs": [name], "attributes": attributes or {}})
        self.tensors.append((name, shape))

    def pick(self, need=lambda shape: True):
        found = [t for t in self.tensors[-6:] + self.rng.sample(self.tensors, min(3, len(self.tensors))) if need(t[1])]
        return self.rng.choice(found) if found else None

    def narrowed(self, shape):
        """A shape that broadcasts to it."""
        shape = [1 if self.rng.random() < 0.3 else extent for extent in shape]
        return shape[self.rng.randrange(len(shape) + 1):] if self.rng.random() < 0.3 else shape

    def add_unary(self):
        name, shape = self.pick()
        self.node(self.rng.choice(UNARY), [name], shape)

    def add_binary(self):
        name, shape = self.pick()
        same = self.pick(lambda other: other == shape)
        if self.rng.random() < 0.15:
            other = self.constant([], self.rng.choice([0.5, 2, -1]), "f32")
        else:
            other = same[0] if same and self.rng.random() < 0.6 else self.input(self.narrowed(shape))
        self.node(self.rng.choice(BINARY), self.rng.choice([[name, other], [other, name]]), shape)

    def add_where(self):
        name, shape = self.pick()
        self.nodes.append({"op": "Less", "inputs": [name, self.input(self.narrowed(shape))], "outputs": [f"c{len(self.nodes)}"]})
        self.node("Where", [self.nodes[-1]["outputs"][0], name, self.input(self.narrowed(shape))], shape)

    def add_matmul(self):
        found = self.pick(lambda shape: len(shape) >= 1)
        if not found:
            return
        name, shape = found
        n, k = self.rng.choice([1, 2, 3, 5]), shape[-1]
        batch = self.narrowed(shape[:-2]) if self.rng.random() < 0.5 else []
        kind = self.rng.random()
        if kind < 0.2 and len(shape) == 2:
            transposed = self.rng.randrange(2)
            other = self.input([n, k] if transposed else [k, n])
            inputs = [name, other] + ([self.input(self.narrowed([shape[0], n]))] if self.rng.random() < 0.6 else [])
            self.node("Gemm", inputs, [shape[0], n], {"transB": transposed, "alpha": self.rng.choice([1, 0.5]),
                                                      "beta": self.rng.choice([1, 2, 0])})
        elif kind < 0.3:
            self.node("MatMul", [name, self.input([k])], shape[:-1])
        elif kind < 0.5 and len(shape) >= 2:
            m = self.rng.choice([1, 3])
            self.node("MatMul", [self.input(batch + [m, shape[-2]]), name], shape[:-2] + [m, k])
        else:
            self.node("MatMul", [name, self.input(batch + [k, n] if len(shape) > 1 else [k, n])], shape[:-1] + [n])

    def add_gate(self):
        """Two products of one operand whose results meet."""
        found = self.pick(lambda shape: len(shape) >= 2)
        if not found:
            return
        name, shape = found
        n = self.rng.choice([1, 2, 3, 5])
        for _ in range(2):
            self.node("MatMul", [name, self.input([shape[-1], n])], shape[:-1] + [n])
        (first, out), (second, _) = self.tensors[-3], self.tensors[-1]
        self.node("Sigmoid", [first], out)
        self.node("Mul", [self.tensors[-1][0], second], out)

    def add_row(self):
        found = self.pick(lambda shape: len(shape) >= 1)
        if not found:
            return
        name, shape = found
        kind = self.rng.choice(["Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "Reduce", "Reduce"])
        axis = self.rng.randrange(len(shape))
        if kind.endswith("Softmax"):
            self.node(kind, [name], shape, {"axis": -1})
        elif kind.endswith("Normalization"):
            scale = [extent if self.rng.random() < 0.8 else 1 for extent in shape[axis:]]
            inputs = [name, self.input(scale)]
            if kind.startswith("Layer") and self.rng.random() < 0.6:
                inputs.append(self.input(self.narrowed(shape)))
            self.node(kind, inputs, shape, {"axis": axis, "epsilon": 0.01})
        else:
            keepdims = self.rng.randrange(2)
            axes = list(range(axis, len(shape)))
            self.node("Reduce" + self.rng.choice(["Sum", "Mean", "Max", "Min"]), [name, self.constant([len(axes)], axes)],
                      shape[:axis] + ([1] * len(axes) if keepdims else []), {"keepdims": keepdims})

    def add_parts(self, name, shape, axis, sizes):
        """Split, by one of the ways to say how; names of the parts."""
        names = [f"t{len(self.nodes)}_{i}" for i in range(len(sizes))]
        node = {"op": "Split", "inputs": [name], "outputs": names, "attributes": {"axis": self.rng.choice([axis, axis - len(shape)])}}
        even = all(size == sizes[0] for size in sizes)
        if even and self.rng.random() < 0.6:
            node["attributes"]["num_outputs"] = len(sizes)
        else:
            node["inputs"].append(self.constant([len(sizes)], sizes))
        self.nodes.append(node)
        parts = [(part, shape[:axis] + [size] + shape[axis + 1:]) for part, size in zip(names, sizes)]
        self.tensors += parts
        return parts

    def add_split(self):
        found = self.pick(lambda shape: len(shape) >= 1)
        if not found:
            return
        name, shape = found
        axis = self.rng.randrange(len(shape))
        first = self.rng.randint(0, shape[axis])
        rest = self.rng.randint(0, shape[axis] - first)
        sizes = [size for size in (first, rest, shape[axis] - first - rest) if size]
        self.add_parts(name, shape, axis, sizes)

    def add_transpose(self):
        name, shape = self.pick()
        order = list(range(len(shape)))[::-1]
        attributes = {}
        if self.rng.random() < 0.7:
            self.rng.shuffle(order)
            attributes["perm"] = order
        self.node("Transpose", [name], [shape[i] for i in order], attributes)

    def add_halves(self):
        """A product, perhaps with a bias, whose halves meet again."""
        found = self.pick(lambda shape: len(shape) >= 2)
        if not found:
            return
        name, shape = found
        n = self.rng.choice([1, 2, 3, 4])
        wide = shape[:-1] + [2 * n]
        if self.rng.random() < 0.3 and len(shape) == 2:
            bias = [self.input(self.rng.choice([[2 * n], [1, 2 * n], [shape[0], 1], wide]))] if self.rng.randrange(2) else []
            self.node("Gemm", [name, self.input([2 * n, shape[-1]])] + bias, wide, {"transB": 1, "beta": 0.5})
        else:
            self.node("MatMul", [name, self.input([shape[-1], 2 * n])], wide)
        if self.rng.random() < 0.5:
            self.node("Add", [self.tensors[-1][0], self.input(self.rng.choice([[2 * n], [1], wide]))], wide)
        last = self.tensors[-1]
        if self.rng.random() < 0.2:
            self.node("Abs", [last[0]], wide)  # reads all of it
        (gate, half), (up, _) = self.add_parts(last[0], wide, len(wide) - 1, [n, n])
        self.node("Sigmoid", [gate], half)
        self.node("Mul", [self.tensors[-1][0], up], half)

    def graph(self):
        self.input(self.base)
        steps = [self.add_unary, self.add_unary, self.add_binary, self.add_binary, self.add_binary, self.add_where,
                 self.add_matmul, self.add_row, self.add_gate, self.add_split, self.add_transpose, self.add_halves]
        for _ in range(self.rng.randrange(1, 14)):
            self.rng.choice(steps)()
        if not self.nodes:
            self.add_unary()
        read = {name for node in self.nodes for name in node["inputs"]}
        made = [name for node in self.nodes for name in node["outputs"]]
        outputs = [name for name in made if name not in read or (name[0] == "t" and self.rng.random() < 0.15)]
        return {"name": "random", "inputs": self.inputs, "constants": self.constants, "nodes": self.nodes,
                "outputs": outputs}


def main():
    tool = sys.argv[1]
    count, first = int(sys.argv[2]) if len(sys.argv) > 2 else 150, int(sys.argv[3]) if len(sys.argv) > 3 else 0
    failed = 0
    for seed in range(first, first + count):
        graph = json.dumps(Builder(seed).graph(), indent=1)
        done = subprocess.run([tool, "verify", "-"], input=graph, capture_output=True, text=True, check=False)
        if done.returncode:
            failed += 1
            print(f"seed {seed}: exit {done.returncode}\n{done.stderr}\n{graph if failed == 1 else ''}")
    print(f"{count} random graphs, {failed} differ")
    return 1 if failed else 0


sys.exit(main())
