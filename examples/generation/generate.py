#!/usr/bin/env python3
"""Writes text with a small transformer, a token at a time: generate.py ADLGEN [--gpu G] [--on sim|gpu|reference] [--prompt TEXT] [--tokens N]
[--temperature T] [--seed N] [--attention written|group] [--out DIR]

A network as Llama's (RMSNorm, RoPE, 4 heads that share 2 of keys and values, SwiGLU) with random weights of bf16, whose tokens are bytes. Two
descriptions, of the prompt (any number of rows) and of a step (one row), read one file of weights. What a run gives, the next one takes:
the token, the place behind it, and the caches, whose new rows are stored in place. DIR keeps the descriptions and the tensors of all runs."""
import argparse
import array
import json
import math
import pathlib
import random
import struct
import subprocess
import sys

LAYERS, WIDTH, HEADS, KV_HEADS, INNER, WORDS, CAPACITY = 2, 64, 4, 2, 192, 256, 64
SIZE = WIDTH // HEADS
CACHES = [f"{x}{i}" for i in range(LAYERS) for x in ("keys", "values")]
CODES = {"bf16": ("BF16", "H"), "f32": ("F32", "f"), "s64": ("I64", "q")}


def bf16(x):
    """The bits of the nearest one, of two the even."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def save(path, tensors):
    """tensors: name: (type, shape, values); writes a file of safetensors."""
    header, data = {}, b""
    for name, (kind, shape, values) in tensors.items():
        raw = array.array(CODES[kind][1], map(bf16, values) if kind == "bf16" else values).tobytes()
        header[name] = {"dtype": CODES[kind][0], "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path, name):
    """One tensor's numbers."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    entry = json.loads(raw[8:8 + size])[name]
    begin, end = (8 + size + x for x in entry["data_offsets"])
    values = array.array(next(code for kind, code in CODES.values() if kind == entry["dtype"]), raw[begin:end])
    if entry["dtype"] == "BF16":
        return [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in values]
    return values.tolist()


def weights(seed):
    """Random ones, of products that keep their operand's size."""
    draw = random.Random(seed)
    shapes = {"words": [WORDS, WIDTH], "norm": [WIDTH], "logits": [WIDTH, WORDS]}
    for i in range(LAYERS):
        shapes.update({f"{i}.norm1": [WIDTH], f"{i}.qkv": [WIDTH, (HEADS + 2 * KV_HEADS) * SIZE], f"{i}.out": [WIDTH, WIDTH],
                       f"{i}.norm2": [WIDTH], f"{i}.gate_up": [WIDTH, 2 * INNER], f"{i}.down": [INNER, WIDTH]})
    found = {name: ("bf16", shape, [1 + draw.gauss(0, 0.1) if len(shape) == 1 else
                                    draw.gauss(0, 1) / (1 if name == "words" else math.sqrt(shape[0])) for _ in range(math.prod(shape))])
             for name, shape in shapes.items()}
    angles = [place / 10000**(i / (SIZE // 2)) for place in range(CAPACITY) for i in range(SIZE // 2)]
    found.update({"cos": ("bf16", [CAPACITY, SIZE // 2], list(map(math.cos, angles))),
                  "sin": ("bf16", [CAPACITY, SIZE // 2], list(map(math.sin, angles)))})
    return found


class Network:
    """The description of a run of `rows` tokens a sequence behind `at` that the caches have."""

    def __init__(self, name, rows, form, constants):
        cache = {"type": "bf16", "shape": ["B", KV_HEADS, CAPACITY, SIZE]}
        self.rows, self.form, self.n = rows, form, 0
        self.graph = {
            "name": name, "opset": 28, "dims": {"B": {"min": 1}},
            "inputs": {"ids": {"type": "s64", "shape": ["B", rows]}, "at": {"type": "s64", "shape": ["B"]},
                       "temperature": {"type": "f32", "shape": []}, "seed": {"type": "s64", "shape": ["B"]}, **{x: cache for x in CACHES}},
            "constants": {x: {"type": kind, "shape": shape, "file": f"weights.safetensors#{x}"} for x, (kind, shape, _) in constants.items()},
            "nodes": [], "outputs": ["token", "next", "scores", *(f"{x}_now" for x in CACHES)], "in_place": {f"{x}_now": x for x in CACHES}}
        if rows != 1:
            self.graph["dims"][rows] = {"min": 1}
        self.build()

    def node(self, op, *inputs, out=None, domain=None, **attributes):
        """What it gives: a name, or of a list `out` all."""
        self.n += 1
        names = out if isinstance(out, list) else [out or f"t{self.n}"]
        self.graph["nodes"].append({"op": op, "inputs": list(inputs), "outputs": names, **({"attributes": attributes} if attributes else {}),
                                    **({"domain": domain} if domain else {})})
        return names if isinstance(out, list) else names[0]

    def integers(self, *values):
        name = "n" + "_".join(str(x).replace("-", "m") for x in values)
        self.graph["constants"][name] = {"type": "s64", "shape": [len(values)], "data": list(values)}
        return name

    def split(self, x, *widths):
        return self.node("Split", x, self.integers(*widths), out=[f"{x}_{i}" for i in range(len(widths))], axis=-1)

    def heads(self, x, count):
        """[B, rows, count * SIZE] as [B, count, rows, SIZE]."""
        return self.node("Transpose", self.node("Reshape", x, self.integers(0, 0, count, SIZE)), perm=[0, 2, 1, 3])

    def written(self, i, qkv):
        """Positions, new rows and attention as operators of their own."""
        q, k, v = self.split(qkv, HEADS * SIZE, KV_HEADS * SIZE, KV_HEADS * SIZE)
        q, k = (self.node("RotaryEmbedding", self.heads(x, n), "cos_now", "sin_now") for x, n in ((q, HEADS), (k, KV_HEADS)))
        keys, values = self.node("AppendRows", "at", f"keys{i}", k, f"values{i}", self.heads(v, KV_HEADS), domain="adlgen",
                                 out=[f"keys{i}_now", f"values{i}_now"], places="begins")
        y = self.node("Attention", q, keys, values, "", "", "", "next", "", "at", domain="adlgen", is_causal=1)
        return self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), self.integers(0, 0, WIDTH))

    def group(self, i, qkv):
        """All of it in one operator, as ONNX Runtime has it."""
        return self.node("GroupQueryAttention", qkv, "", "", f"keys{i}", f"values{i}", "last", "capacity", "cos", "sin", domain="com.microsoft",
                         out=[f"context{i}", f"keys{i}_now", f"values{i}_now"], num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1)[0]

    def norm(self, x, scale):
        return self.node("RMSNormalization", x, scale)

    def build(self):
        rows = self.node("Squeeze", self.node("Shape", "ids", start=1, end=2), self.integers(0))
        self.node("Add", "at", rows, out="next")
        if self.form == "group":
            self.graph["constants"]["capacity"] = {"type": "s32", "shape": [], "data": CAPACITY}
            self.node("Cast", self.node("Sub", "next", self.integers(1)), out="last", to="s32")
        else:
            self.graph["constants"].update({"zero": {"type": "s64", "shape": [], "data": 0}, "one": {"type": "s64", "shape": [], "data": 1}})
            behind = self.node("Range", "zero", rows, "one")
            places = self.node("Add", self.node("Unsqueeze", "at", self.integers(1)), behind)
            for table in ("cos", "sin"):  # once for all layers
                self.node("Gather", table, places, out=f"{table}_now")
        x = self.node("Gather", "words", "ids")
        for i in range(LAYERS):
            qkv = self.node("MatMul", self.norm(x, f"{i}.norm1"), f"{i}.qkv")
            x = self.node("Add", x, self.node("MatMul", getattr(self, self.form)(i, qkv), f"{i}.out"))
            gate, up = self.split(self.node("MatMul", self.norm(x, f"{i}.norm2"), f"{i}.gate_up"), INNER, INNER)
            x = self.node("Add", x, self.node("MatMul", self.node("SwiGLU", gate, up), f"{i}.down"))
        if self.rows != 1:  # the last row's token is the next one
            x = self.node("Slice", x, self.integers(-1), self.integers(2**31 - 1), self.integers(1))
        x = self.node("Reshape", self.norm(x, "norm"), self.integers(-1, WIDTH))
        self.node("MatMul", x, "logits", out="scores")
        drawn = self.node("Sample", "scores", "temperature", "", "", "seed", "next", domain="adlgen")
        self.node("Unsqueeze", drawn, self.integers(1), out="token")


class Generator:
    """Runs of the prompt and of steps; `scores` of the last run and `tokens` of all, a list for each sequence."""

    def __init__(self, adlgen, folder, gpu, on, form="written", seed=0, fill=0.0):
        self.words = [str(adlgen), "run", "--gpu", gpu, "--on", on]
        self.folder, self.fill = pathlib.Path(folder), fill
        self.folder.mkdir(parents=True, exist_ok=True)
        self.weights = weights(seed)
        save(self.folder / "weights.safetensors", self.weights)
        for name, rows in (("prompt", "S"), ("step", 1)):
            (self.folder / f"{name}.json").write_text(json.dumps(Network(name, rows, form, self.weights).graph, indent=1))

    def run(self, name, out, inputs, batches, *words):
        done = subprocess.run([*self.words, self.folder / f"{name}.json", "--out", self.folder / out, f"--dim=B={batches}", *words,
                               *(f"--input={x}={file}" for x, file in inputs.items())], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
        result = self.folder / out / "outputs.safetensors"
        self.scores = load(result, "scores")
        for sequence, token in zip(self.tokens, load(result, "token")):
            sequence.append(token)
        return result

    def generate(self, prompts, tokens, temperature=0.0, seeds=None):
        """Yields when there is one token more for each of the prompts, lists of so many tokens each."""
        batches, rows = len(prompts), len(prompts[0])
        if rows + tokens - 1 > CAPACITY:
            sys.exit(f"{rows} tokens and {tokens - 1} more do not go into caches of {CAPACITY}")
        shape, start = [batches, KV_HEADS, CAPACITY, SIZE], self.folder / "start.safetensors"
        save(start, {"ids": ("s64", [batches, rows], [x for p in prompts for x in p]), "at": ("s64", [batches], [0] * batches),
                     "temperature": ("f32", [], [temperature]), "seed": ("s64", [batches], seeds or list(range(batches))),
                     **{x: ("bf16", shape, [self.fill] * math.prod(shape)) for x in CACHES}})
        self.tokens = [[] for _ in prompts]
        kept = {x: f"{start}#{x}" for x in ("temperature", "seed")}
        last = self.run("prompt", "run0", {**kept, **{x: f"{start}#{x}" for x in ("ids", "at", *CACHES)}}, batches, f"--dim=S={rows}")
        yield
        for i in range(1, tokens):
            given = {"ids": "token", "at": "next", **{x: f"{x}_now" for x in CACHES}}
            last = self.run("step", f"run{i}", {**kept, **{x: f"{last}#{y}" for x, y in given.items()}}, batches)
            yield


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adlgen")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--on", choices=["sim", "gpu", "reference"], default="sim")
    parser.add_argument("--prompt", default="adlgen")
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attention", choices=["written", "group"], default="written")
    parser.add_argument("--out", default="generated-text")
    given = parser.parse_args()
    generator = Generator(given.adlgen, given.out, given.gpu, given.on, given.attention)
    for _ in generator.generate([list(given.prompt.encode())], given.tokens, given.temperature, [given.seed]):
        print(*generator.tokens[0][-1:], end="\n" if len(generator.tokens[0]) == given.tokens else " ", flush=True)


if __name__ == "__main__":
    main()
