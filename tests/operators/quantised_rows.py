#!/usr/bin/env python3
"""quantised_rows.py ADLGEN: values of rows that are quantised, with a scale for each row or for so many columns of it, on the
simulator: right, and of as few launches as are told."""
import json
import os
import subprocess
import sys
import tempfile

LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "s8": 127.0}


class Rows:
    """A graph of nodes behind each other; `y` is the tensor that the next one reads."""

    def __init__(self, columns, kind="bf16", rows="R", width=None):
        self.columns, self.kind, self.y = columns, kind, "x"
        self.inputs = {"x": {"type": kind, "shape": [rows, width or columns]}}
        self.constants, self.nodes, self.outputs = {}, [], []

    def input(self, name, shape, kind=None):
        self.inputs[name] = {"type": kind or self.kind, "shape": shape}
        return name

    def constant(self, kind, shape, data):
        name = f"k{len(self.constants)}"
        self.constants[name] = {"type": kind, "shape": shape, "data": data}
        return name

    def integers(self, *items):
        return self.constant("s64", [len(items)], list(items))

    def node(self, op, *inputs, n=1, out=None, **attributes):
        names = [out] if out else [f"t{len(self.nodes)}_{i}" for i in range(n)]
        self.nodes.append({"op": op, "inputs": list(inputs), "outputs": names, "attributes": attributes})
        if out:
            self.outputs.append(out)
        return names[0] if n == 1 else names

    def norm(self, op="RMSNormalization", residual=False):
        if residual:
            self.y = self.node("Add", self.y, self.input("residual", self.inputs["x"]["shape"]), out="h")
        self.y = self.node(op, self.y, self.input("scale", [self.columns]), epsilon=1e-5)
        return self

    def gate(self):
        gate, up = self.node("Split", "x", n=2, axis=1, num_outputs=2)
        self.y = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
        return self

    def scales(self, largest, kind, power_of_two):
        """A scale of what is largest, at least 1e-4: its part of the type's largest, or the power of two above."""
        number = lambda value: self.constant("f32", [], value)
        scale = self.node("Div", self.node("Max", largest, number(1e-4)), number(LARGEST[kind]))
        if not power_of_two:
            return scale
        power = self.node("Ceil", self.node("Div", self.node("Log", scale), number(0.6931471805599453)))
        return self.node("Pow", number(2.0), power)

    def largest(self, x, axis, keepdims):
        return self.node("ReduceMax", self.node("Cast", self.node("Abs", x), to="f32"), self.integers(axis), keepdims=keepdims)

    def rounded(self, x, kind, out=None):
        return self.node("Cast", self.node("Round", x) if kind == "s8" else x, to=kind, **({"out": out} if out else {}))

    def by_row(self, kind):
        scale = self.node("Identity", self.scales(self.largest(self.y, 1, 1), kind, False), out="s")
        self.rounded(self.node("Div", self.node("Cast", self.y, to="f32"), scale), kind, "q")
        return self

    def by_view(self, kind, group=128, power_of_two=False):
        """As PyTorch's users write it: x.view(m, -1, 128).abs().amax(2), clamped, and unsqueezed where it divides."""
        parts = self.node("Reshape", self.y, self.integers(0, self.columns // group, group))
        scale = self.node("Reshape", self.largest(parts, 2, 0), self.integers(0, self.columns // group))
        scale = self.node("Identity", self.scales(scale, kind, power_of_two), out="s")
        quotient = self.node("Div", self.node("Cast", parts, to="f32"), self.node("Unsqueeze", scale, self.integers(2)))
        self.node("Reshape", self.rounded(quotient, kind), self.integers(0, self.columns), out="q")
        return self

    def by_blocks(self, kind, group=128):
        """QuantizeLinear of blocks, with a scale that is computed."""
        y = self.node("Cast", self.y, to="f32")
        parts = self.node("Reshape", y, self.integers(0, self.columns // group, group))
        scale = self.scales(self.largest(parts, -1, 1), kind, False)
        scale = self.node("Squeeze", scale, self.integers(2), out="s")
        self.node("QuantizeLinear", y, scale, out="q", axis=1, block_size=group, output_dtype=kind)
        return self


def cases():
    """Graph, GPU, rows, launches, options."""
    yield Rows(4096).norm(residual=True).by_blocks("e4m3"), "h100", 3, 1, []
    yield Rows(7168).norm().by_view("e4m3"), "h100", 2, 1, []
    yield Rows(5120).norm("LayerNormalization", residual=True).by_view("s8"), "a100", 2, 1, []
    yield Rows(4096).norm().by_view("e4m3", power_of_two=True), "h100", 1, 1, []
    yield Rows(1152, "f16").norm().by_view("e5m2"), "h100", 5, 1, ["--offset", "x=2", "--offset", "s=4"]
    yield Rows(256, "f32").norm(residual=True).by_view("s8"), "a100", 9, 1, []
    yield Rows(128).norm().by_view("e4m3"), "h100", 5, 1, []
    yield Rows(528).norm().by_view("e4m3", group=16), "h100", 3, 1, []
    yield Rows(2048).norm().by_view("s8", group=32), "a100", 0, 0, []
    yield Rows(1152).norm(residual=True).by_view("e4m3"), "h100", 2, 1, ["--set", "form=passes"]
    yield Rows(480).norm().by_view("e4m3", group=96), "h100", 3, 2, []
    yield Rows(1408, width=2816).gate().by_view("e4m3"), "h100", 3, 1, []
    yield Rows(1408, width=2816).gate().by_view("s8"), "a100", 3, 1, []
    yield Rows(1408, width=2816).gate().by_row("e4m3"), "h100", 3, 1, []
    yield Rows(7168).by_view("e4m3"), "h100", 3, 1, []
    yield Rows(1000).norm(residual=True).by_row("e4m3"), "h100", 3, 1, []


def run(adlgen, folder, index, case):
    rows, gpu, dims, launches, options = case
    path = os.path.join(folder, f"g{index}.json")
    with open(path, "w") as file:
        json.dump({"name": "g", "inputs": rows.inputs, "constants": rows.constants, "nodes": rows.nodes, "outputs": rows.outputs}, file)
    bound = [word for name, value in dims.items() for word in ("--dim", f"{name}={value}")]
    done = subprocess.run([adlgen, "run", path, "--gpu", gpu, "--on", "sim", "--check", *bound, *options], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seen = done.stdout.count(", grid ")
    if done.returncode or seen != launches:
        return f"case {index} on {gpu}: {seen} launches, {launches} expected\n{done.stdout}"
    return None


def check(adlgen, every):
    """Each case: what has inputs, constants, nodes and outputs, a GPU, dims, launches, options."""
    with tempfile.TemporaryDirectory() as folder:
        faults = [fault for i, case in enumerate(every) if (fault := run(os.path.abspath(adlgen), folder, i, case))]
    print("\n".join(faults), f"{len(every) - len(faults)} of {len(every)} right", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[1], [(rows, gpu, {"R": n}, launches, options) for rows, gpu, n, launches, options in cases()]))
