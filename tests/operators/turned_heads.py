#!/usr/bin/env python3
"""turned_heads.py ADLGEN: norms of heads in front of their positions (RotaryEmbedding, and the forms that exporters write), on the
simulator: right, and in one kernel."""
import sys

from quantised_rows import Rows, check


class Heads(Rows):
    """[B, S, H, D], a norm over D, and the halves of D turned by angles."""

    def __init__(self, d=128, kind="bf16", heads=4):
        super().__init__(d, kind)
        self.heads = heads
        self.inputs = {}
        self.y = self.input("x", ["B", "S", heads, d])

    def layer_norm(self):
        self.y = self.node("LayerNormalization", self.y, self.input("scale", [self.columns]), self.input("bias", [self.columns]))
        return self

    def norm_written(self):
        """As exporters write it: in f32, with a power, a mean, a root and a reciprocal."""
        x = self.node("Cast", self.y, to="f32")
        mean = self.node("ReduceMean", self.node("Pow", x, self.constant("f32", [], 2.0)), self.integers(-1), keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.constant("f32", [], 1e-6)))
        x = self.node("Cast", self.node("Mul", x, self.node("Reciprocal", root)), to=self.kind)
        self.y = self.node("Mul", self.input("scale", [self.columns]), x)
        return self

    def transposed(self):
        self.y = self.node("Transpose", self.y, perm=[0, 2, 1, 3])
        return self

    def hidden(self):
        self.y = self.node("Reshape", self.y, self.integers(0, 0, self.heads * self.columns))
        return self

    def angles(self):
        return [self.input(name, ["B", "S", self.columns // 2]) for name in ("cos", "sin")]

    def turned(self, **attributes):
        self.node("RotaryEmbedding", self.y, *self.angles(), out="y", **attributes)
        return self

    def at_positions(self):
        tables = [self.input(name, [50, self.columns // 2]) for name in ("cos", "sin")]
        self.node("RotaryEmbedding", self.y, *tables, self.input("places", ["B", "S"], "s64"), out="y")
        return self

    def turned_by_slices(self):
        """x cos + turned(x) sin, both as long as the heads."""
        half, d = self.columns // 2, self.columns
        cos, sin = (self.input(name, ["B", 1, "S", d]) for name in ("cos", "sin"))
        first, second = (self.node("Slice", self.y, self.integers(at), self.integers(end), self.integers(3))
                         for at, end in ((0, half), (half, d)))
        other = self.node("Concat", self.node("Neg", second), first, axis=-1)
        self.node("Add", self.node("Mul", self.y, cos), self.node("Mul", other, sin), out="y")
        return self


def cases():
    dims = {"B": 2, "S": 5}
    yield Heads().norm().transposed().turned(), "h100", dims, 1, []
    yield Heads(64, "f16").norm().hidden().turned(num_heads=4), "a100", dims, 1, []
    yield Heads(96, "f32", 3).norm().transposed().turned(), "a100", {"B": 1, "S": 33}, 1, ["--offset", "x=4"]
    yield Heads().layer_norm().transposed().turned(), "h100", dims, 1, []
    yield Heads().norm_written().transposed().turned(), "h100", dims, 1, []
    yield Heads().norm().transposed().turned_by_slices(), "h100", dims, 1, []
    yield Heads().norm().transposed().at_positions(), "h100", dims, 3, []  # of which two read the angles
    yield Heads(8, heads=1).norm().transposed().turned(), "a100", {"B": 3, "S": 0}, 0, []
    yield Heads().norm().transposed().turned(interleaved=1), "h100", dims, 2, []


if __name__ == "__main__":
    sys.exit(check(sys.argv[1], list(cases())))
