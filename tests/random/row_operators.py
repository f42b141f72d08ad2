"""Nodes of row operators for random_graphs.py: what chooses, normalises, losses, gradients, rotations."""

CHANNELS = ["InstanceNormalization", "BatchNormalization"]
LOSSES = ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLossGradient"]
GRADIENTS = ["SoftmaxGradient", "LogSoftmaxGradient", "LayerNormalizationGradient", "RMSNormalizationGradient"]
OURS = set(LOSSES[2:] + GRADIENTS + ["IndexAlong"])


class RowOperators:
    """Methods of a case."""

    def outer(self, shape, axis, kind):
        """Rows of two tensors, each beside each: no operand has all dimensions."""
        kept = [self.rng.random() < 0.5 for _ in shape]
        sides = [[e if i == axis or keep == side else 1 for i, (e, keep) in enumerate(zip(shape, kept))] for side in (True, False)]
        inputs = [self.input(side, kind) for side in sides]
        return self.node(self.rng.choice(["Add", "Sub", "Max"]), inputs, [(shape, kind)])[0]

    def alone(self, name, shape, axis, kind, reductions):
        what = self.rng.random()
        if what < 0.5:
            inputs = [name, self.constant([1], [axis], "s64")]
            self.node(self.rng.choice(reductions), inputs, [(shape[:axis] + [1] + shape[axis + 1:], kind)], {"keepdims": 1})
        elif what < 0.7:
            self.cumulative(name, shape, kind)
        elif what < 0.85:
            self.choose(self.rng.choice(["ArgMax", "ArgMin"]), name, shape, kind)
        else:
            self.top(name, shape, kind)
        self.finish()

    def choose(self, op, name, shape, kind):
        axis, keep = self.rng.randrange(len(shape)), self.rng.randrange(2)
        left = shape[:axis] + [1] * keep + shape[axis + 1:]
        attributes = {"axis": axis - self.rng.choice([0, len(shape)]), "keepdims": keep}
        if self.chance(0.5):
            attributes["select_last_index"] = 1
        return self.node(op, [name], [(left, "s64")], attributes)

    def along_axis(self, op, name, shape, kind):
        """A result for each element: Hardmax, LpNormalization, MeanVarianceNormalization."""
        axis = self.rng.randrange(len(shape))
        attributes = {"axis": axis - self.rng.choice([0, len(shape)])}
        if op == "LpNormalization":
            attributes["p"] = self.rng.choice([1, 2])
        if op == "MeanVarianceNormalization":
            attributes = {"axes": sorted(self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape))))}
        return self.node(op, [name], [(shape, kind)], attributes)[0]

    def normalise_channels(self, op, name, shape, kind):
        training = op == "BatchNormalization" and self.chance(0.5)
        inputs = [name] + [self.input(shape[1:2], kind) for _ in range(2)]
        outputs, attributes = [(shape, kind)], {"epsilon": 0.01}
        if op == "BatchNormalization":
            inputs.append(self.input(shape[1:2], "f32"))
            size = self.input(shape[1:2], "f32")
            inputs += self.node("Abs", [size], [(shape[1:2], "f32")])
        if training:
            attributes["training_mode"] = 1
            outputs += [(shape[1:2], "f32")] * self.rng.choice([0, 2])
        return self.node(op, inputs, outputs, attributes)[0]

    def loss(self, op, shape, kind):
        """Classes of rows, which lie along dimension 1; weights, a class that does not count, a reduction."""
        rows, gradient = shape[:1] + shape[2:], op.endswith("Gradient")
        reduction = self.rng.choice(["none", "sum", "mean"])
        attributes = {"reduction": reduction}
        if self.chance(0.4):
            attributes["ignore_index"] = self.rng.randrange(shape[1])
        left = rows if reduction == "none" else []
        inputs = [self.input(left, kind)] if gradient else []
        inputs += [self.input(shape, kind), self.indices(rows, shape[1])]
        if self.volume(rows) == 1 and inputs[-1] in self.constants:  # nothing would be left to compute
            inputs[-1] = self.input(rows, "s32")
        if self.chance(0.4):
            inputs.append(self.input(shape[1:2], kind))
        outputs = [(shape, kind)] if gradient else [(left, kind)]
        if op.startswith("Softmax") and not gradient and self.chance(0.4):
            outputs.append((shape, kind))
        self.node(op, inputs, outputs, attributes)

    def gradient(self, op, shape, kind):
        inputs = [self.input(shape, kind), self.input(shape, kind)]
        axis = self.rng.randrange(len(shape))
        attributes, outputs = {"axis": axis - self.rng.choice([0, len(shape)])}, [(shape, kind)]
        if op.endswith("NormalizationGradient"):
            inputs.append(self.input(shape[axis:], kind))
            attributes["epsilon"] = 0.01
            outputs += [(shape[axis:], kind)] * self.rng.choice([0, 2 if op.startswith("Layer") else 1])
        self.node(op, inputs, outputs, attributes)

    def rotate(self, kind):
        batch, heads, length, head = (self.rng.choice(n) for n in ([1, 2], [1, 3, 4], [1, 5, 17], [2, 8, 64, 66]))
        turned = self.rng.choice([head, head, max(head // 4 * 2, 2)])
        flat = self.chance(0.5)
        shape = [batch, length, heads * head] if flat else [batch, heads, length, head]
        angles = [batch, length, turned // 2]
        inputs = [self.input(shape, kind)]
        if self.chance(0.5):
            inputs += [self.input([33, turned // 2], kind) for _ in range(2)] + [self.indices([batch, length], 33)]
            (self.inputs if inputs[-1] in self.inputs else self.constants)[inputs[-1]]["type"] = "s64"
        else:
            inputs += [self.input(angles, kind) for _ in range(2)]
        attributes = {"interleaved": self.rng.randrange(2), "rotary_embedding_dim": turned if turned < head else 0}
        if flat:
            attributes["num_heads"] = heads
        self.node("RotaryEmbedding", inputs, [(shape, kind)], attributes)

    def made_of_indices(self, op, shape, kind):
        if op == "EyeLike":
            shape = (shape + [5, 7])[:2]
            self.node(op, [self.input(shape, kind)], [(shape, kind)], {"k": self.rng.randint(-4, 4)})
        elif op == "OneHot":
            axis, depth = self.rng.randrange(-len(shape) - 1, len(shape) + 1), self.rng.choice([0, 1, 2, 5])
            left = list(shape)
            left.insert(axis if axis >= 0 else len(shape) + 1 + axis, depth)
            self.node(op, [self.input(shape, kind), self.constant([], depth, "s64"), self.constant([2], [0.5, 2], "f32")],
                      [(left, "f32")], {"axis": axis})
        else:
            ratio = self.constant([], self.rng.choice([0, 0.125, 0.3, 0.9]), "f32")
            inputs = [self.input(shape, kind)] + ([ratio, self.constant([], True, "bool")] if self.chance(0.8) else [])
            self.node(op, inputs, [(shape, kind), (shape, "bool")], {"seed": self.rng.randrange(100)})

    def top(self, name, shape, kind):
        axis = self.rng.randrange(-len(shape), len(shape))
        extent = shape[axis]
        k = min(extent, self.rng.choice([0, 1, 1, 2, 3, 5, 8, 17, extent // 2, extent]))
        if self.symbols.setdefault(k, k) != k:  # k is a number: an extent that has a name elsewhere would be another one
            k = min(extent, 1)
        if self.symbols.setdefault(k, k) != k:
            self.node("Abs", [name], [(shape, kind)])
            return
        left = list(shape)
        left[axis] = k
        self.node("TopK", [name, self.constant([1], [k], "s64")], [(left, kind), (left, "s64")],
                  {"axis": axis, "largest": self.rng.randrange(2), "sorted": self.rng.randrange(2)})

    def in_parts(self, name, shape, kind, group):
        """What was computed of rows is seen in parts of them, which have values of their own, as scales of a quantisation."""
        parts = [*shape[:-1], shape[-1] // group, group]
        seen = self.node("Reshape", [name, self.constant([len(parts)], parts, "s64")], [(parts, kind)])[0]
        keeps = self.chance(0.5)
        left = [*parts[:-1], 1] if keeps else parts[:-1]
        inputs = [self.step_elementwise(seen, parts, kind), self.constant([1], [len(parts) - 1], "s64")]
        value = self.node(self.rng.choice(["ReduceMean", "ReduceMax", "ReduceMin"]), inputs, [(left, kind)],
                          {"keepdims": int(keeps)})[0]
        if self.chance(0.5):
            value = self.step_elementwise(value, left, kind)
        if not keeps:
            value = self.node("Unsqueeze", [value, self.constant([1], [-1], "s64")], [([*left, 1], kind)])[0]
        result = self.node(self.rng.choice(["Add", "Sub", "Mul"]), [seen, value], [(parts, kind)])[0]
        if self.chance(0.5):
            self.node("Reshape", [result, self.constant([len(shape)], shape, "s64")], [(shape, kind)])
