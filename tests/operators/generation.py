#!/usr/bin/env python3
"""The loop of examples/generation against the same network in double precision: generation.py ADLGEN

Each run's inputs are what the last one gave: tokens, places, caches, which hold large numbers where nothing was stored. Scores of every step,
their tokens, greedy and drawn."""
import importlib.util
import math
import operator
import os
import pathlib
import sys
import tempfile

from draws import sample

adlgen = pathlib.Path(sys.argv[1]).resolve()
sys.dont_write_bytecode = True  # the example lies in the source tree
spec = importlib.util.spec_from_file_location("generate", pathlib.Path(__file__).resolve().parents[2] / "examples" / "generation" / "generate.py")
net = importlib.util.module_from_spec(spec)
spec.loader.exec_module(net)
LIMIT = 2e-2  # of scores' norm: two layers in bf16


class Reference:
    """One sequence: a token in, scores of the next one out."""

    def __init__(self, weights):
        self.keys, self.values = ([[] for _ in range(net.LAYERS)] for _ in range(2))
        self.matrices, self.rows = {}, {}
        for name, (_, shape, values) in weights.items():
            if len(shape) == 1:
                self.rows[name] = values
            else:  # columns of what a product takes, rows of a table
                step = 1 if name in ("words", "cos", "sin") else shape[1]
                self.matrices[name] = [values[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])] if step == 1 else \
                    [values[i::step] for i in range(shape[1])]

    def norm(self, x, scale):
        root = math.sqrt(sum(v * v for v in x) / len(x) + 1e-5)
        return [v / root * s for v, s in zip(x, self.rows[scale])]

    def product(self, x, name):
        return [sum(map(operator.mul, x, column)) for column in self.matrices[name]]

    def turned(self, x, place):
        half = net.SIZE // 2
        cos, sin = self.matrices["cos"][place], self.matrices["sin"][place]
        return [a * c - b * s for a, b, c, s in zip(x[:half], x[half:], cos, sin)] + [a * s + b * c for a, b, c, s in zip(x[:half], x[half:], cos, sin)]

    def attention(self, i, x):
        heads = [x[at:at + net.SIZE] for at in range(0, len(x), net.SIZE)]
        place, first = len(self.keys[i]), net.HEADS + net.KV_HEADS
        self.keys[i].append([self.turned(h, place) for h in heads[net.HEADS:first]])
        self.values[i].append(heads[first:])
        y = []
        for h in range(net.HEADS):
            q, own = self.turned(heads[h], place), h // (net.HEADS // net.KV_HEADS)
            scores = [sum(map(operator.mul, q, k[own])) / math.sqrt(net.SIZE) for k in self.keys[i]]
            shares = [math.exp(s - max(scores)) for s in scores]
            y += [sum(s * v[own][e] for s, v in zip(shares, self.values[i])) / sum(shares) for e in range(net.SIZE)]
        return y

    def scores(self, token):
        x = self.matrices["words"][token]
        for i in range(net.LAYERS):
            y = self.attention(i, self.product(self.norm(x, f"{i}.norm1"), f"{i}.qkv"))
            x = list(map(operator.add, x, self.product(y, f"{i}.out")))
            y = self.product(self.norm(x, f"{i}.norm2"), f"{i}.gate_up")
            y = [g / (1 + math.exp(-g)) * u for g, u in zip(y[:net.INNER], y[net.INNER:])]
            x = list(map(operator.add, x, self.product(y, f"{i}.down")))
        return self.product(self.norm(x, "norm"), "logits")


def check(gpu, form, prompts, tokens, temperature):
    what = f"{gpu} {form} temperature {temperature}"
    seeds = [1000 + i for i in range(len(prompts))]
    equal, worst = 0, 0.0
    with tempfile.TemporaryDirectory() as out:
        generator = net.Generator(adlgen, out, gpu, "sim", form, fill=1e30)
        stored = {name: (kind, shape, net.load(pathlib.Path(out, "weights.safetensors"), name)) for name, (kind, shape, _) in generator.weights.items()}
        references, given = [Reference(stored) for _ in prompts], [list(p) for p in prompts]
        for step, _ in enumerate(generator.generate(prompts, tokens, temperature, seeds)):
            for b, reference in enumerate(references):
                wanted = [reference.scores(token) for token in given[b]][-1]
                found = generator.scores[b * net.WORDS:(b + 1) * net.WORDS]
                error = math.dist(found, wanted) / math.hypot(*wanted)
                worst = max(worst, error)
                if not error <= LIMIT:
                    sys.exit(f"{what}: step {step}, sequence {b}: scores are off by {error:.3g}")
                token = generator.tokens[b][-1]
                for name, scores, near in (("its scores'", found, 1e-4), ("the reference's", wanted, 0.05)):
                    due, gap = sample(scores, 0, temperature, seed=seeds[b], offset=len(prompts[b]) + step)
                    if token != due and gap > near:
                        sys.exit(f"{what}: step {step}, sequence {b}: token {token} in place of {name} {due}, which leads by {gap:.3g}")
                equal += token == due
                given[b] = [token]
    print(f"{what}: {generator.tokens}, {equal} of {tokens * len(prompts)} the reference's, scores off by {worst:.2g} at most")


# Compiling and simulating each run is what takes time: a sample by default.
PROMPTS = [list(b"adlgen"), list(b"tokens"), list(b"python")]
if os.environ.get("ADLGEN_TEST_FULL"):
    check("h100", "written", PROMPTS[:1], net.CAPACITY - len(PROMPTS[0]), 0.0)
    for device in ("h100", "a100"):
        for way in ("written", "group"):
            check(device, way, PROMPTS, 4, 1.0)
else:
    check("h100", "written", PROMPTS[:1], 3, 0.0)
    check("a100", "group", PROMPTS, 2, 1.0)
