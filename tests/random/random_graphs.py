#!/usr/bin/env python3
"""Random graphs through the whole program: compiled, run on the simulator, compared with the reference.

    random_graphs.py ADLGEN [--gpu a100,h100] [--first SEED] [--count N | --seconds S] [--jobs N] [--rows] [--show]

A third of the seeds are one operator, a third one product, a third chains that share intermediates. Shapes are odd on
purpose: dimensions 0, 1 and primes, any rank, broadcasting in every dimension, strides, pointers off their alignment,
symbols. With --rows each seed is a row program: up to four reductions along the same axis, and steps around them that go
on from elements, from values of rows, or from both. A seed that fails is printed with its graph and the options that reproduce it; --show prints all of them."""
import argparse
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from row_operators import CHANNELS, GRADIENTS, LOSSES, OURS, RowOperators

SIZE = {"f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "s8": 1, "u8": 1, "s32": 4, "bool": 1}
FLOATS = ["f32", "f16", "bf16"]
DIMS = [1, 1, 2, 3, 5, 7, 8, 13, 16, 31, 33]
LONG = [63, 64, 65, 127, 128, 129, 257, 1000, 1024, 2049]
PRODUCT = [1, 2, 7, 8, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129, 255, 257]
BOUNDED = ["Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Gelu", "Softsign", "Erf", "Identity", "LeakyRelu", "HardSwish",
           "Elu", "Mish", "Swish", "Softplus", "HardSigmoid", "Selu", "Atan"]
MOST_UNPROVEN, MOST_UNPROVEN_ROWS = 0.01, 0.02  # of all graphs: seen are 4 of 3000, and of rows 12 of 1000
INDEXED = ["Gather", "GatherElements", "Pad", "Tile", "Trilu", "ScatterElements", "ScatterND", "GatherND", "MaxPool", "AveragePool"]
REDUCTIONS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSum"]
TAME = ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceLogSumExp", "ReduceL2"]  # what goes on from them stays in range


class Case(RowOperators):
    """A graph and the options of its run."""

    def __init__(self, seed, ops, rows=False):
        self.rng = random.Random(seed)
        self.ops, self.outer_rows = ops, random.Random(-1 - seed).random() < 0.15
        self.inputs, self.constants, self.nodes, self.outputs, self.tensors = {}, {}, [], [], []
        self.options, self.symbols = ["--seed", str(seed)], {}
        ([self.rows] * 3 if rows else [self.single, self.product, self.chain])[seed % 3]()

    # ---- parts ----

    def chance(self, p):
        return self.rng.random() < p

    def dim(self, extent):
        """An extent, now and then as a symbol: the same wherever it occurs, so that shapes still agree."""
        if not self.symbolic or extent == 1:
            return extent
        name = self.symbols.setdefault(extent, f"D{extent}" if self.chance(0.6) else extent)
        return name

    def shape(self, limit, empty=True):
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8])
        shape = [self.rng.choice(DIMS if i < rank - 1 or self.chance(0.5) else LONG) for i in range(rank)]
        if empty and rank and self.chance(0.04):
            shape[self.rng.randrange(rank)] = 0
        while self.volume(shape) > limit:
            shape[shape.index(max(shape))] = max(shape) // self.rng.choice([2, 3]) or 1
        return shape

    @staticmethod
    def volume(shape):
        n = 1
        for extent in shape:
            n *= extent
        return n

    def narrowed(self, shape):
        """A shape that broadcasts to it."""
        shape = [1 if self.chance(0.3) else extent for extent in shape]
        return shape[self.rng.randrange(len(shape) + 1):] if self.chance(0.3) else shape

    def strides(self, shape):
        """Padded, or permuted: never overlapping."""
        order = list(range(len(shape)))
        if self.chance(0.5):
            self.rng.shuffle(order)
        strides, step = [0] * len(shape), self.rng.choice([1, 1, 1, 2])
        for axis in reversed(order):
            strides[axis] = step
            step = step * max(shape[axis], 1) + self.rng.choice([0, 0, 3])
        return strides

    def input(self, shape, kind):
        name = f"i{len(self.inputs)}"
        row = {"type": kind, "shape": [self.dim(extent) for extent in shape]}
        if shape and self.chance(0.2):
            row["strides"] = self.strides(shape)
        if self.chance(0.2):
            row["align"] = SIZE[kind]
            if self.chance(0.7):
                self.options += ["--offset", f"{name}={SIZE[kind] * self.rng.choice([1, 2, 3, 5])}"]
        self.inputs[name] = row
        self.tensors.append((name, shape, kind))
        return name

    def constant(self, shape, data, kind):
        name = f"k{len(self.constants)}"
        self.constants[name] = {"type": kind, "shape": shape, "data": data}
        return name

    def node(self, op, inputs, outputs, attributes=None):
        names = []
        for shape, kind in outputs:
            names.append(f"t{len(self.tensors)}")
            self.tensors.append((names[-1], shape, kind))
        domain = {"domain": "adlgen"} if op in OURS else {}
        self.nodes.append({"op": op, **domain, "inputs": inputs, "outputs": names, "attributes": attributes or {}})
        return names

    def reduce(self, op, name, shape, kind):
        axes = [axis for axis in range(len(shape)) if self.chance(0.5)]
        if self.chance(0.5):
            axes = list(range(self.rng.randrange(len(shape) + 1) if shape else 0, len(shape)))
        keep = self.rng.randrange(2)
        inputs, attributes = [name], {"keepdims": keep}
        if axes:
            inputs.append(self.constant([len(axes)], [axis - len(shape) if self.chance(0.5) else axis for axis in axes],
                                        "s64"))
        else:
            axes = list(range(len(shape)))
        left = [1 if axis in axes else extent for axis, extent in enumerate(shape) if keep or axis not in axes]
        self.node(op, inputs, [(left, kind)], attributes)

    def normalise(self, op, name, shape, kind):
        axis = self.rng.randrange(len(shape))
        inputs = [name, self.input([e if self.chance(0.8) else 1 for e in shape[axis:]], kind)]
        outputs = [(shape, kind)]
        if op == "LayerNormalization":
            if self.chance(0.6):
                inputs.append(self.input(self.narrowed(shape), kind))
            if self.chance(0.3):
                outputs += [(shape[:axis] + [1] * (len(shape) - axis), "f32")] * self.rng.choice([1, 2])
        self.node(op, inputs, outputs, {"axis": axis - (len(shape) if self.chance(0.5) else 0), "epsilon": 0.01})

    def transpose(self, name, shape, kind):
        order = list(range(len(shape)))[::-1]
        attributes = {}
        if self.chance(0.6):
            self.rng.shuffle(order)
            attributes["perm"] = order
        turned = [shape[axis] for axis in order]
        return self.node("Transpose", [name], [(turned, kind)], attributes)[0], turned

    def split(self, name, shape, kind, axis, sizes):
        """By sizes or by their number; names of the parts."""
        inputs, attributes = [name], {"axis": axis - (len(shape) if self.chance(0.5) else 0)}
        chunk = -(-sum(sizes) // len(sizes))
        if sizes == [chunk] * (len(sizes) - 1) + [sum(sizes) - chunk * (len(sizes) - 1)] and self.chance(0.6):
            attributes["num_outputs"] = len(sizes)
        else:
            inputs.append(self.constant([len(sizes)], sizes, "s64"))
        return self.node("Split", inputs, [(shape[:axis] + [n] + shape[axis + 1:], kind) for n in sizes], attributes)

    def slice(self, name, shape, kind):
        """Any indices and steps; the opset's newest version. Name and shape of the result."""
        axes = self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape)))
        starts, ends, steps, left = [], [], [], list(shape)
        for axis in axes:
            step = self.rng.choice([1, 1, 1, 1, 2, 3, -1, -2])
            low, high = sorted(self.rng.randint(-shape[axis] - 2, shape[axis] + 2) for _ in range(2))
            start, end = (low, high) if step > 0 else (high, low)
            if self.chance(0.4):
                start, end = (start, 2**63 - 1) if step > 0 else (start, -2**63)
            inside = (lambda v, least, most: min(max(v + shape[axis] if v < 0 else v, least), most))
            extent = shape[axis]
            first = max(inside(start, 0, extent), 0) if step > 0 else min(inside(start, 0, extent), extent - 1)
            last = inside(end, 0, extent) if step > 0 else inside(end, -1, extent - 1)
            left[axis] = len(range(first, last, step))
            starts, ends, steps = starts + [start], ends + [end], steps + [step]
        inputs = [name, self.constant([len(axes)], starts, "s64"), self.constant([len(axes)], ends, "s64")]
        if axes != list(range(len(axes))) or set(steps) != {1} or self.chance(0.5):
            inputs.append(self.constant([len(axes)], [a - len(shape) if self.chance(0.3) else a for a in axes], "s64"))
        if set(steps) != {1} or (len(inputs) == 4 and self.chance(0.3)):
            inputs.append(self.constant([len(axes)], steps, "s64"))
        return self.node("Slice", inputs, [(left, kind)])[0], left

    def concat(self, names, shapes, kind, axis):
        whole = list(shapes[0])
        whole[axis] = sum(shape[axis] for shape in shapes)
        attributes = {"axis": axis - (len(whole) if self.chance(0.5) else 0)}
        return self.node("Concat", names, [(whole, kind)], attributes)[0], whole

    def factors(self, n):
        """Extents whose product is n."""
        shape = []
        while n > 1 and self.chance(0.7):
            divisors = [d for d in range(2, min(n, 70) + 1) if n % d == 0]
            if not divisors:
                break
            shape.append(self.rng.choice(divisors))
            n //= shape[-1]
        shape.append(n)
        self.rng.shuffle(shape)
        return shape

    def reshape(self, name, shape, kind):
        """The same elements in another shape. Where extents are symbols, without naming them."""
        what = self.rng.choice(["Reshape", "Reshape", "Reshape", "Flatten", "Unsqueeze", "Squeeze"])
        if what == "Flatten":
            axis = self.rng.randrange(len(shape) + 1)
            left = [self.volume(shape[:axis]), self.volume(shape[axis:])]
            return self.node(what, [name], [(left, kind)], {"axis": axis})[0], left
        if what == "Unsqueeze" and len(shape) < 7:
            axis = self.rng.randrange(len(shape) + 1)
            left = shape[:axis] + [1] + shape[axis:]
            return self.node(what, [name, self.constant([1], [axis], "s64")], [(left, kind)])[0], left
        if what == "Squeeze" and 1 in shape:
            axis = shape.index(1)
            left = shape[:axis] + shape[axis + 1:]
            return self.node(what, [name, self.constant([1], [axis - len(shape)], "s64")], [(left, kind)])[0], left
        if self.symbolic or 0 in shape:
            kept = self.rng.randrange(len(shape))
            entries, left = [0] * kept + [-1], shape[:kept] + [self.volume(shape[kept:])]
            if 0 in shape:
                entries, left = [0] * len(shape), list(shape)
        else:
            left = self.factors(self.volume(shape))
            entries = list(left)
            if self.chance(0.5):
                entries[self.rng.randrange(len(entries))] = -1
        return self.node("Reshape", [name, self.constant([len(entries)], entries, "s64")], [(left, kind)])[0], left

    def expand(self, name, shape, kind):
        """Repeated along dimensions of 1, and along new ones in front."""
        left = [self.rng.choice([1, 2, 3]) for _ in range(self.rng.choice([0, 0, 1]))]
        left += [self.rng.choice([1, 2, 5, 8]) if extent == 1 else extent for extent in shape]
        entries = [1 if i >= len(left) - len(shape) and extent == shape[i - len(left)] else extent
                   for i, extent in enumerate(left)]
        return self.node("Expand", [name, self.constant([len(entries)], entries, "s64")], [(left, kind)])[0], left

    def indices(self, shape, n):
        """Constants, or an input: drawn from what is valid."""
        if self.chance(0.3) and self.volume(shape) < 200:
            kind, data = self.rng.choice(["s32", "s64"]), [self.rng.randrange(-n, n) for _ in range(self.volume(shape))]
            for extent in reversed(shape[1:]):
                data = [data[i:i + extent] for i in range(0, len(data), extent)] if extent else data
            return self.constant(shape, data if shape else data[0], kind)
        name = f"i{len(self.inputs)}"
        self.inputs[name] = {"type": self.rng.choice(["s32", "s64"]), "shape": shape}
        return name

    def indexed(self, op, name, shape, kind):
        """Elements at indices that are data or computed. Name and shape of the result."""
        axis = self.rng.randrange(len(shape))
        if op == "Gather":
            taken = self.rng.choice([[], [1], [5], [2, 3], [17], [64]])
            left = shape[:axis] + taken + shape[axis + 1:]
            inputs, attributes = [name, self.indices(taken, shape[axis])], {"axis": axis - self.rng.choice([0, len(shape)])}
        elif op == "GatherElements":
            left = [self.rng.randint(1, extent) for extent in shape]
            left[axis] = self.rng.choice([1, 3, 8, shape[axis], 2 * shape[axis]])
            inputs, attributes = [name, self.indices(left, shape[axis])], {"axis": axis}
        elif op in ("MaxPool", "AveragePool"):
            return self.pooled(op, name, shape, kind)
        elif op.startswith("Scatter") or op == "GatherND":
            return self.scattered(op, name, shape, kind)
        elif op == "Pad":
            mode = self.rng.choice(["constant", "constant", "edge", "reflect", "wrap"])
            most = [min(e - 1, 9) if mode == "reflect" else 9 for e in shape]
            pads = [self.rng.choice([0, 0, 1, m, self.rng.randint(0, m)]) for m in most + most] if mode != "constant" else \
                [self.rng.choice([0, 0, 1, 8, self.rng.randint(-(e // 3), 9)]) for e in shape + shape]
            left = [e + a + b for e, a, b in zip(shape, pads, pads[len(shape):])]
            inputs, attributes = [name, self.constant([len(pads)], pads, "s64")], {"mode": mode}
            if mode == "constant" and self.chance(0.5):
                inputs.append(self.constant([], self.rng.choice([0, 1]), kind) if kind != "bool" else "")
        elif op == "Tile":
            repeats = [self.rng.choice([1, 1, 2, 3]) for _ in shape]
            left = [e * r for e, r in zip(shape, repeats)]
            inputs, attributes = [name, self.constant([len(repeats)], repeats, "s64")], {}
        else:
            inputs, left, attributes = [name], shape, {"upper": self.rng.randrange(2)}
            if self.chance(0.5):
                inputs.append(self.constant([], self.rng.randint(-5, 5), "s64"))
        return self.node(op, inputs, [(left, kind)], attributes)[0], left

    def pooled(self, op, name, shape, kind):
        """Windows of what has a dimension behind two; a copy of other tensors."""
        if len(shape) < 3 or len(shape) > 5 or 0 in shape or (kind not in FLOATS and op == "AveragePool") or kind in ("s32", "bool", "tf32"):
            return self.node("Identity", [name], [(shape, kind)])[0], shape
        kernel = [self.rng.randint(1, min(4, extent)) for extent in shape[2:]]
        strides, pads = [self.rng.choice([1, 1, 2, 3]) for _ in kernel], [self.rng.randint(0, k - 1) for k in kernel + kernel]
        left = shape[:2] + [(e + a + b - k) // s + 1 for e, k, s, a, b in zip(shape[2:], kernel, strides, pads, pads[len(kernel):])]
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        if op == "AveragePool":
            attributes["count_include_pad"] = self.rng.randrange(2)
        return self.node(op, [name], [(left, kind)], attributes)[0], left

    def scattered(self, op, name, shape, kind):
        """Updates at indices that may repeat, or parts at lists of indices."""
        axis, n = self.rng.randrange(len(shape)), self.rng.choice([1, 2, 7, 20])
        attributes = {"reduction": self.rng.choice(["none", "none", "add", "max", "min"]) if kind != "bool" else "none"}
        if op == "ScatterElements":
            taken = [self.rng.randint(1, max(extent, 1)) for extent in shape]
            taken[axis] = n
            if any(d != axis and have > extent for d, (have, extent) in enumerate(zip(taken, shape))):
                return self.node("Identity", [name], [(shape, kind)])[0], shape
            inputs = [name, self.indices(taken, shape[axis]), self.input(taken, kind)]
            return self.node(op, inputs, [(shape, kind)], {"axis": axis, **attributes})[0], shape
        told = self.rng.randint(1, len(shape))
        lists = self.constant([n, told], [[self.rng.randrange(-e, e) if e else 0 for e in shape[:told]] for _ in range(n)], "s64")
        if op == "GatherND":
            return self.node(op, [name, lists], [([n] + shape[told:], kind)])[0], [n] + shape[told:]
        return self.node(op, [name, lists, self.input([n] + shape[told:], kind)], [(shape, kind)], attributes)[0], shape

    def cumulative(self, name, shape, kind):
        axis = self.rng.randrange(-len(shape), len(shape))
        return self.node("CumSum", [name, self.constant([], axis, self.rng.choice(["s32", "s64"]))], [(shape, kind)],
                         {"exclusive": self.rng.randrange(2), "reverse": self.rng.randrange(2)})

    def sizes(self, extent):
        n = self.rng.choice([1, 2, 2, 2, 3])
        if self.chance(0.5) and n > 1:
            chunk = -(-extent // n)
            if extent >= chunk * (n - 1):
                return [chunk] * (n - 1) + [extent - chunk * (n - 1)]
        cuts = sorted(self.rng.randint(0, extent) for _ in range(n - 1))
        return [high - low for low, high in zip([0] + cuts, cuts + [extent])]

    # ---- kinds of graphs ----

    def single(self):
        op, types = self.rng.choice(self.ops)
        kind = self.rng.choice([kind for kind in types if kind in SIZE])
        self.symbolic = self.chance(0.5)
        rows = op in REDUCTIONS or op.endswith(("oftmax", "Normalization", "ardmax")) or op.startswith(("Arg", "Dynamic")) or op in LOSSES + GRADIENTS
        shape = self.shape(20000, empty=not rows or op in ("ReduceSum", "Softmax"))
        if op in REDUCTIONS:
            self.reduce(op, self.input(shape, kind), shape, kind)
        elif op in ("ArgMax", "ArgMin"):
            shape = shape or [7]
            self.choose(op, self.input(shape, kind), shape, kind)
        elif op in ("Hardmax", "LpNormalization", "MeanVarianceNormalization"):
            shape = shape or [7]
            self.along_axis(op, self.input(shape, kind), shape, kind)
        elif op in CHANNELS:
            shape = shape + [3, 7][len(shape):]
            self.normalise_channels(op, self.input(shape, kind), shape, kind)
        elif op in LOSSES:
            self.symbolic = False  # a mean's gradient divides by a number
            self.loss(op, [max(e, 1) for e in (shape + [3, 7][len(shape):])[:5]], kind)
        elif op in GRADIENTS:
            self.gradient(op, shape or [7], kind)
        elif op == "RotaryEmbedding":
            self.symbolic = False
            self.rotate(kind)
        elif op == "GroupNormalization":
            self.symbolic = False
            shape = ([max(e, 1) for e in shape] + [3, 6][len(shape):])[:6]
            groups = self.rng.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
            inputs = [self.input(shape, kind)] + [self.input(shape[1:2], kind) for _ in range(2)]
            self.node(op, inputs, [(shape, kind)], {"num_groups": groups, "epsilon": 0.01})
        elif op == "IndexAlong":
            shape = shape or [7]
            self.node(op, [self.input(shape, kind)], [(shape, "s32")], {"axis": self.rng.randrange(len(shape))})
        elif op == "DynamicQuantizeLinear":
            self.node(op, [self.input(shape, kind)], [(shape, "u8"), ([], "f32"), ([], "u8")])
        elif op == "Transpose":
            self.transpose(self.input(shape, kind), shape, kind)
        elif op == "Slice":
            shape = shape or [7]
            self.slice(self.input(shape, kind), shape, kind)
        elif op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
            shape = shape or [1]
            self.reshape(self.input(shape, kind), shape, kind)
        elif op == "CumSum":
            shape = shape or [7]
            self.cumulative(self.input(shape, kind), shape, kind)
        elif op == "TopK":
            shape = shape or [7]
            self.top(self.input(shape, kind), shape, kind)
        elif op in ("Dropout", "OneHot", "EyeLike"):
            self.symbolic = False
            self.made_of_indices(op, shape[:7], kind)
        elif op in INDEXED:
            self.symbolic = False  # extents follow from numbers
            shape = [max(extent, 1) for extent in shape] or [7]
            shape = shape if op != "Trilu" or len(shape) > 1 else [5] + shape
            shape = shape[:7]
            self.indexed(op, self.input(shape, kind), shape, kind)
        elif op == "Expand":
            shape = self.narrowed(shape) if shape and 0 not in shape else [1]
            self.expand(self.input(shape, kind), shape, kind)
        elif op == "Concat":
            shape = shape or [7]
            axis, shapes = self.rng.randrange(len(shape)), [shape]
            for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
                shapes.append(shape[:axis] + [self.rng.choice([0, 1, 2, 8, shape[axis]])] + shape[axis + 1:])
            self.concat([self.input(part, kind) for part in shapes], shapes, kind, axis)
        elif op == "Split":
            self.symbolic = False  # sizes are numbers
            shape = shape or [7]
            axis = self.rng.randrange(len(shape))
            self.split(self.input(shape, kind), shape, kind, axis, self.sizes(shape[axis]))
        elif op in ("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"):
            shape = shape or [7]
            name = self.input(shape, kind)
            if op.endswith("Normalization"):
                self.normalise(op, name, shape, kind)
            else:
                self.node(op, [name], [(shape, kind)], {"axis": self.rng.randrange(-len(shape), len(shape))})
        else:
            self.elementwise(op, kind, shape)
        self.finish()

    def elementwise(self, op, kind, shape):
        attributes, n = {}, 1
        out = kind
        if op in ("Add", "Sub", "Mul", "Div", "Pow", "Mod", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "And",
                  "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
            n = 2
        elif op in ("Min", "Max", "Sum", "Mean"):
            n = self.rng.randrange(1, 5)
        if op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf"):
            out = "bool"
        if op == "Mod" and kind in FLOATS + ["tf32"]:
            attributes["fmod"] = 1
        if op == "BitShift":
            attributes["direction"] = self.rng.choice(["LEFT", "RIGHT"])
        if op == "Cast":
            out = self.rng.choice([t for t in SIZE if kind in FLOATS or t != "bool"])
            attributes["to"] = out
        if op == "BitCast":
            out = attributes["to"] = "f32" if kind == "s32" else "s32"
        if op == "Gelu" and self.chance(0.5):
            attributes["approximate"] = "tanh"
        if op == "PRelu":
            inputs = [self.input(shape, kind), self.input(self.narrowed(shape), kind)]
        elif op == "Where":
            inputs = [self.input(self.narrowed(shape), "bool"), self.input(shape, kind),
                      self.input(self.narrowed(shape), kind)]
            if self.chance(0.5):
                inputs[1:] = [inputs[2], inputs[1]]
        elif op in ("QuantizeLinear", "DequantizeLinear"):
            inputs, out, attributes = self.quantisation(op, kind, shape)
        elif op == "Clip":
            low, high = (3, 50) if kind in ("s8", "u8", "s32") else (-0.5, 0.75)
            inputs = [self.input(shape, kind), self.constant([], low, kind) if self.chance(0.7) else "",
                      self.constant([], high, kind)]
        else:
            inputs = [self.input(shape if i == 0 else self.narrowed(shape), kind) for i in range(n)]
            self.rng.shuffle(inputs)
        self.node(op, inputs, [(shape, out)], attributes)

    def quantisation(self, op, kind, shape):
        axis = self.rng.randrange(len(shape)) if shape and not self.symbolic and self.chance(0.7) else None
        extent = [] if axis is None else [shape[axis]]
        n = extent[0] if extent else 1
        bytes_ = op == "DequantizeLinear"
        out = self.rng.choice(FLOATS) if bytes_ else self.rng.choice(["s8", "u8"])
        quantised = kind if bytes_ else out
        data = [self.rng.choice([0.03125, 0.25, 2.0, 0.1, 0.007]) for _ in range(n)]
        inputs = [self.input(shape, kind), self.constant(extent, data if extent else data[0], out if bytes_ else "f32")]
        if quantised != "s32" and self.chance(0.5):
            zeros = [self.rng.randrange(100) for _ in range(n)]
            inputs.append(self.constant(extent, zeros if extent else zeros[0], quantised))
        attributes = {"axis": axis} if axis is not None else {}
        if not bytes_ and len(inputs) < 3:
            attributes["output_dtype"] = out
        return inputs, out, attributes

    def product(self):
        kind = self.rng.choice(["f32", "tf32", "f16", "bf16", "s8", "u8"])
        self.symbolic = self.chance(0.6)
        m, n, k = (self.rng.choice(PRODUCT) for _ in range(3))
        if self.chance(0.1):
            m, n, k = [(0, n, k), (m, 0, k), (m, n, 0)][self.rng.randrange(3)]
        out = "s32" if kind in ("s8", "u8") else kind
        if self.chance(0.5):
            a, b = self.rng.randrange(2), self.rng.randrange(2)
            inputs = [self.input([k, m] if a else [m, k], kind), self.input([n, k] if b else [k, n], kind)]
            attributes = {"transA": a, "transB": b}
            if out != "s32":
                attributes.update(alpha=self.rng.choice([1.0, 0.5, -2.0]), beta=self.rng.choice([1.0, 0.25, 0.0]))
            if self.chance(0.7):
                inputs.append(self.input(self.rng.choice([[m, n], [1, n], [n], [m, 1], [1, 1], [1], []]), out))
            name = self.node("Gemm", inputs, [([m, n], out)], attributes)[0]
            shape = [m, n]
        else:
            batch = self.rng.choice([[], [], [2], [3, 2], [1, 3]])
            left, right = (self.narrowed(batch) if self.chance(0.5) else batch for _ in range(2))
            if self.chance(0.5):
                left = batch
            else:
                right = batch
            a, b, shape = left + [m, k], right + [k, n], batch + [m, n]
            if self.chance(0.1) and not left:
                a, shape = [k], shape[:-2] + [n]
            elif self.chance(0.1) and not right:
                b, shape = [k], shape[:-1]
            inputs = [self.matrix(a, kind), self.matrix(b, kind)]
            integer = out == "s32" and self.chance(0.7)
            if integer:
                inputs += self.zero_points(a, b, kind)
            name = self.node("MatMulInteger" if integer else "MatMul", inputs, [(shape, out)])[0]
        if out in FLOATS and not self.symbolic and len(shape) >= 2 and shape[-1] % 2 == 0 and self.chance(0.4):
            name, shape = self.halves(name, shape, out)
        elif kind in FLOATS and self.chance(0.25) and self.nodes[-1]["inputs"][1] in self.inputs:
            name = self.second_product(name, shape, kind)
        elif out != "s32":
            for _ in range(self.rng.choice([0, 0, 1, 2, 3])):
                name = self.step_elementwise(name, shape, out)
        if kind in FLOATS and len(shape) >= 2 and 0 not in shape and self.chance(0.4):
            self.reduced_product(name, shape, out)
        self.finish()

    def matrix(self, shape, kind):
        """An operand, now and then one that is transposed or a part of another."""
        if self.chance(0.7) or len(shape) < 2:
            return self.input(shape, kind)
        if self.chance(0.5):
            order = list(range(len(shape)))
            self.rng.shuffle(order)
            source = self.input([shape[order.index(axis)] for axis in range(len(shape))], kind)
            return self.node("Transpose", [source], [(shape, kind)], {"perm": order})[0]
        if self.symbolic:
            return self.input(shape, kind)
        if self.chance(0.3) and 0 not in shape:
            axis = self.rng.randrange(len(shape))
            cut = self.rng.randint(0, shape[axis])
            pieces = [shape[:axis] + [n] + shape[axis + 1:] for n in (cut, shape[axis] - cut)]
            return self.concat([self.input(piece, kind) for piece in pieces], pieces, kind, axis)[0]
        if self.chance(0.4):
            axis, before, step = self.rng.randrange(len(shape)), self.rng.choice([0, 1, 8]), self.rng.choice([1, 1, 2, -1])
            wide = shape[:axis] + [before + shape[axis] * abs(step)] + shape[axis + 1:]
            ends = [before, 2**63 - 1] if step > 0 else [-1, before - 1 if before else -2**63]
            inputs = [self.input(wide, kind)] + [self.constant([1], [v], "s64") for v in (ends[0], ends[1], axis, step)]
            return self.node("Slice", inputs, [(shape, kind)])[0]
        axis, more = self.rng.randrange(len(shape)), self.rng.choice([1, 3, 8, 16])
        wide = shape[:axis] + [shape[axis] + more] + shape[axis + 1:]
        first = self.chance(0.5)
        parts = self.split(self.input(wide, kind), wide, kind, axis, [shape[axis], more] if first else [more, shape[axis]])
        return parts[0 if first else 1]

    def halves(self, name, shape, kind):
        """Gate and up of one product; mostly one kernel of two products."""
        for _ in range(self.rng.choice([0, 0, 1])):
            bias = self.input(self.rng.choice([[shape[-1]], [1], shape]), kind)
            name = self.node("Add", [name, bias], [(shape, kind)])[0]
        if self.chance(0.1):
            self.node("Relu", [name], [(shape, kind)])
        half = shape[:-1] + [shape[-1] // 2]
        if self.chance(0.3):
            pair = []
            for ends in ([0, half[-1]], [half[-1], 2**63 - 1]):
                lists = [self.constant([1], [value], "s64") for value in ends + [-1]]
                pair.append(self.node("Slice", [name] + lists, [(half, kind)])[0])
        else:
            pair = list(self.split(name, shape, kind, len(shape) - 1, [half[-1]] * 2))
        pair[0] = self.node(self.rng.choice(["Swish", "Gelu", "Sigmoid", "Relu"]), [pair[0]], [(half, kind)])[0]
        self.rng.shuffle(pair)
        return self.node(self.rng.choice(["Mul", "Mul", "Add"]), pair, [(half, kind)])[0], half

    def zero_points(self, a, b, kind):
        """None, of one operand or of both: one number, or one for each row of A and column of B."""
        points = []
        for extent in [a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1]:
            points.append("" if self.chance(0.3) else self.input(self.rng.choice([[], [1], [extent]]), kind))
        while points and not points[-1]:
            points.pop()
        return points

    def reduced_product(self, name, shape, kind):
        """Reductions of the product's result, over rows or all of it."""
        for _ in range(self.rng.choice([1, 1, 2])):
            op = self.rng.choice(["ReduceMax", "ReduceMax", "ReduceMin", "ReduceSum"])
            source = name
            if self.chance(0.5):
                source = self.node("Abs", [name], [(shape, kind)])[0]
            keep, inputs, first = self.rng.randrange(2), [source], 0
            if self.chance(0.5):
                inputs.append(self.constant([1], [-1], "s64"))
                first = len(shape) - 1
            self.node(op, inputs, [(shape[:first] + ([1] * (len(shape) - first) if keep else []), kind)],
                      {"keepdims": keep})

    def second_product(self, first, shape, kind):
        """Another product of the same operand, with a gate between: mostly one kernel."""
        product = self.nodes[-1]
        right = dict(self.inputs[product["inputs"][1]])
        name = f"i{len(self.inputs)}"
        self.inputs[name] = right
        if self.chance(0.15):
            self.options += ["--offset", f"{name}={SIZE[kind]}"]
        second = self.node(product["op"], [product["inputs"][0], name] + product["inputs"][2:],
                           [(shape, kind)], product["attributes"])[0]
        gate = self.node(self.rng.choice(["Swish", "Gelu", "Sigmoid", "Relu"]), [first], [(shape, kind)])[0]
        pair = [gate, second]
        self.rng.shuffle(pair)
        return self.node(self.rng.choice(["Mul", "Mul", "Add"]), pair, [(shape, kind)])[0]

    def step_elementwise(self, name, shape, kind):
        if self.chance(0.5):
            return self.node(self.rng.choice(BOUNDED), [name], [(shape, kind)])[0]
        other = [t[0] for t in self.tensors if t[1] == shape and t[2] == kind]
        if self.chance(0.3):
            second = self.constant([], self.rng.choice([0.5, 2.0, -1.0]), kind)
        elif other and self.chance(0.5):
            second = self.rng.choice(other)
        else:
            second = self.input(self.narrowed(shape), kind)
        inputs = [name, second] if self.chance(0.5) else [second, name]
        return self.node(self.rng.choice(["Add", "Add", "Max", "Min", "Sub", "Mul"]), inputs, [(shape, kind)])[0]

    def chain(self):
        kind = self.rng.choice(FLOATS)
        self.symbolic = self.chance(0.5)
        self.input(self.shape(2000, empty=False), kind)
        for _ in range(self.rng.randrange(1, 9)):
            name, shape, _ = self.rng.choice([t for t in self.tensors if t[2] == kind][-4:])
            what = self.rng.random()
            if shape and self.chance(0.12):
                self.transpose(name, shape, kind)
            elif shape and not self.symbolic and self.chance(0.15):  # symbols would stand beside their products
                self.reshape(name, shape, kind)
            elif shape and not self.symbolic and 0 not in shape and self.volume(shape) < 500 and self.chance(0.12):
                self.indexed(self.rng.choice([op for op in INDEXED if op != "Trilu" or len(shape) > 1]), name, shape, kind)
            elif 1 in shape and not self.symbolic and self.volume(shape) < 500 and len(shape) < 7 and self.chance(0.3):
                self.expand(name, shape, kind)
            elif shape and not self.symbolic and self.chance(0.15):
                self.sliced_or_joined(name, shape, kind)
            elif shape and not self.symbolic and self.chance(0.15):
                axis = self.rng.randrange(len(shape))
                cut = self.rng.randint(min(1, shape[axis]), max(0, shape[axis] - 1) or shape[axis])
                parts = [n for n in (cut, shape[axis] - cut) if n] or [0]
                self.split(name, shape, kind, axis, parts)
            elif what < 0.5 or not shape:
                self.step_elementwise(name, shape, kind)
            elif what < 0.6:
                condition = self.node("Less", [self.input(self.narrowed(shape), kind), self.input(shape, kind)],
                                      [(shape, "bool")])[0]
                self.node("Where", [condition, name, self.input(self.narrowed(shape), kind)], [(shape, kind)])
            elif what < 0.7:
                self.node(self.rng.choice(["Softmax", "LogSoftmax"]), [name], [(shape, kind)],
                          {"axis": self.rng.choice([-1, self.rng.randrange(len(shape))])})
            elif what < 0.8:
                self.normalise(self.rng.choice(["LayerNormalization", "RMSNormalization"]), name, shape, kind)
            elif what < 0.81 and self.volume(shape) < 500:
                self.cumulative(name, shape, kind)
            elif what < 0.82 and self.volume(shape) < 3000:
                self.top(name, shape, kind)
            elif what < 0.88:
                self.reduce(self.rng.choice(["ReduceMean", "ReduceMax", "ReduceMin"]), name, shape, kind)
            else:
                n, k = self.rng.choice([1, 3, 8, 17, 64]), shape[-1]
                # a scale of 1 / sqrt(K) as constant keeps chains of f16 in range
                scaled = self.node("Mul", [name, self.constant([], 2.0 ** -(k.bit_length() // 2), kind)],
                                   [(shape, kind)])[0]
                self.node("MatMul", [scaled, self.input([k, n], kind)], [(shape[:-1] + [n], kind)])
        if not self.nodes:
            self.node("Abs", [name], [(shape, kind)])
        self.finish()

    def rows(self):
        kind, self.symbolic = self.rng.choice(FLOATS), self.chance(0.3)
        shape = [self.rng.choice([1, 2, 3, 5]) for _ in range(self.rng.choice([1, 1, 1, 2, 3]))]
        axis = len(shape) if self.chance(0.85) else self.rng.randrange(len(shape) + 1)
        shape.insert(axis, self.rng.choice([1, 7, 31, 33, 64, 100, 127, 257, 600, 1025, 1100, 2049]))
        while self.volume(shape) > 9000:
            largest = max((extent, i) for i, extent in enumerate(shape) if i != axis)[1]
            shape[largest] = 1
        column = shape[:axis] + [1] + shape[axis + 1:]
        elements, values = [self.outer(shape, axis, kind) if self.outer_rows else self.input(shape, kind)], []
        if self.outer_rows and self.chance(0.7):  # and one operator behind: then no other kernel has the rows
            self.alone(elements[0], shape, axis, kind, TAME)
            return
        for _ in range(self.rng.randint(1, 4)):
            for _ in range(self.rng.choice([0, 1, 1, 2])):
                elements.append(self.step_of_rows(elements, values, shape, kind))
            what, source = self.rng.random(), self.rng.choice(elements[-3:])
            if what < 0.6:
                inputs = [source, self.constant([1], [axis - self.rng.choice([0, len(shape)])], "s64")]
                values += self.node(self.rng.choice(TAME), inputs, [(column, kind)], {"keepdims": 1})
                if self.chance(0.3):
                    values.append(self.step_elementwise(values[-1], column, kind))
            elif what < 0.7:
                op = self.rng.choice(["ArgMax", "ArgMin", "Hardmax"])
                keep = [(shape, kind)] if op == "Hardmax" else [(column, "s64")]
                elements += self.node(op, [source], keep, {"axis": axis})[:op == "Hardmax"]
            elif what < 0.85 or axis + 1 < len(shape):
                elements += self.node(self.rng.choice(["Softmax", "LogSoftmax"]), [source], [(shape, kind)],
                                      {"axis": axis})
            else:
                scale, op = self.input([shape[-1]], kind), self.rng.choice(["LayerNormalization", "RMSNormalization"])
                elements += self.node(op, [source, scale], [(shape, kind)], {"axis": -1, "epsilon": 0.01})
        elements.append(self.step_of_rows(elements, values, shape, kind))
        groups = [group for group in (2, 4, 16, 32, 64, 128, 3, 25) if shape[axis] % group == 0 and shape[axis] > group]
        if axis + 1 == len(shape) and groups and not self.symbolic and self.chance(0.5):
            self.in_parts(elements[-1], shape, kind, self.rng.choice(groups))
        self.finish()

    def step_of_rows(self, elements, values, shape, kind):
        source = self.rng.choice(elements[-3:])
        if self.chance(0.3) or not values:
            return self.step_elementwise(source, shape, kind)
        inputs = [source, self.rng.choice(values)]
        self.rng.shuffle(inputs)
        return self.node(self.rng.choice(["Add", "Sub", "Mul", "Max"]), inputs, [(shape, kind)])[0]

    def sliced_or_joined(self, name, shape, kind):
        """A part of a tensor; or it behind another, which may be computed, or itself."""
        if self.chance(0.5):
            self.slice(name, shape, kind)
            return
        axis = self.rng.randrange(len(shape))
        others = [t for t in self.tensors if t[2] == kind and len(t[1]) == len(shape) and
                  t[1][:axis] + t[1][axis + 1:] == shape[:axis] + shape[axis + 1:]]
        names, shapes = [name], [shape]
        for _ in range(self.rng.choice([1, 1, 2])):
            other = self.rng.choice(others)
            if self.volume(shape) * 4 < 20000:
                names, shapes = names + [other[0]], shapes + [other[1]]
        self.concat(names, shapes, kind, axis)

    def finish(self):
        read = {name for node in self.nodes for name in node["inputs"]}
        made = [name for node in self.nodes for name in node["outputs"]]
        self.outputs = [name for name in made if name not in read or self.chance(0.15)]
        for extent, name in self.symbols.items():
            if name == extent:
                continue
            self.options += ["--dim", f"{name}={extent}"]

    def graph(self):
        return {"name": "random", "inputs": self.inputs, "constants": self.constants, "nodes": self.nodes,
                "outputs": self.outputs}


def run(adlgen, gpu, seed, ops, rows):
    case = Case(seed, ops, rows)
    text = json.dumps(case.graph())
    options = ["--gpu", gpu, "--on", "sim", "--check"] + case.options
    try:
        done = subprocess.run([adlgen, "run", "-"] + options, input=text, capture_output=True, text=True, check=False,
                              timeout=30)
        code, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        code, said = "timeout", ""
    return seed, gpu, code, said, f"adlgen run - {' '.join(options)} <<'E'\n{text}\nE"


def is_unproven(code, said):
    """Nothing is wrong but that some limit is too wide, as that of the least of many numbers around 0."""
    return code == 5 and "  WIDE\n" in said and "  WRONG\n" not in said and " faults\n" not in said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("--gpu", default="a100,h100")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, help="as many, however long they take; what runs in CI has the same seeds everywhere")
    parser.add_argument("--seconds", type=float, default=60, help="without --count")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    listed = json.loads(subprocess.run([arguments.adlgen, "ops", "--json"], capture_output=True, check=True).stdout)
    rows = {}
    for row in (row for row in listed["ops"] if row["domain"] != "com.microsoft"):  # tests of their own
        rows.setdefault(row["op"], row["types"])  # the newest version comes first
    # products have graphs of their own, attention a test of its own; the rest have no kernel, or a second operand of another type
    elsewhere = ("MatMul", "MatMulInteger", "Gemm", "GroupedMatMul", "Attention", "AttentionGrad", "AttentionGradPart", "VarlenAttention", "Mask", "CastLike", "Scatter", "TensorScatter", "ReverseSequence",
                 "LpPool", "MaxUnpool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool", "DepthToSpace", "SpaceToDepth",
                 "Range", "HannWindow", "HammingWindow", "BlackmanWindow", "AffineGrid", "SwiGLU", "QLinearMatMul", "CenterCropPad",
                 "Compress", "Einsum", "NonZero", "TopRows", "TallyKeys", "PlaceKeys", "TallyMagnitudes", "PlaceMagnitudes", "ReduceSegments", "AppendRows", "LargestMagnitudes", "CompressGradient", "DecompressGradient", "Philox", "MergeStates", "Route", "Permute", "Combine", "Sample", "Resize", "Upsample", "Resample", "RNN", "GRU", "LSTM", "If", "Loop", "Scan")  # tests/run and those of the command line
    ops = [(op, types) for op, types in rows.items() if op not in elsewhere and types]
    gpus = arguments.gpu.split(",")
    end, ran, refused, failed, wide = time.monotonic() + (1e9 if arguments.count else arguments.seconds), 0, 0, 0, 0

    def one(seed):
        gpu = gpus[seed // 3 % len(gpus)]
        return run(arguments.adlgen, gpu, seed, ops, arguments.rows) if time.monotonic() < end else None

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(one, range(arguments.first, arguments.first + (arguments.count or 100000))):
            if not result:
                continue
            seed, gpu, code, said, how = result
            ran += 1
            refused += code == 3
            unproven = is_unproven(code, said)
            wide += unproven
            failed += code not in (0, 3) and not unproven
            if code not in (0, 3) and not unproven or arguments.show:
                print(f"---- seed {seed} on {gpu}: exit {code}\n{said}{how}", flush=True)
    print(f"{ran} random graphs, {refused} not supported, {wide} prove nothing, {failed} failed")
    return 1 if failed or wide > (MOST_UNPROVEN_ROWS if arguments.rows else MOST_UNPROVEN) * ran + 1 else 0


if __name__ == "__main__":
    sys.exit(main())
