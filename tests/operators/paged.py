#!/usr/bin/env python3
"""PagedAttention and PackedMultiHeadAttention against their definitions in double precision: paged.py ADLGEN

Prompts, single queries and chunks behind cached prefixes in one batch, whose pages come in any order, by the table or by slots;
and a loop of steps, each of which finds what the ones before it have put into the pages."""
import math
import pathlib
import random
import sys

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
draw = random.Random(7)
LIMITS = {"bf16": 8e-3, "f16": 1.5e-3}
UNITS = {"kc": 0.03125, "vc": 0.0234375}  # scales of caches of 8 bits


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def attend(q, keys, values, scale, cap=0, sink=-math.inf):
    scores = [scale * sum(x * y for x, y in zip(q, k)) for k in keys]
    scores = [cap * math.tanh(x / cap) for x in scores] if cap else scores
    peak = max(scores + [sink])
    weights = [math.exp(x - peak) for x in scores]
    total = sum(weights) + math.exp(sink - peak)
    return [sum(w * v[e] for w, v in zip(weights, values)) / total for e in range(len(values[0]))]


def turned(x, place, given, size):
    half = size // 2
    c, s = (given[name][place * half:(place + 1) * half] for name in ("cos", "sin"))
    return [a * p - b * q for a, b, p, q in zip(x[:half], x[half:], c, s)] + [b * p + a * q for a, b, p, q in zip(x[:half], x[half:], c, s)]


def compare(what, kind, found, wanted):
    off = math.sqrt(sum((x - y)**2 for x, y in zip(found, wanted)) / max(sum(y * y for y in wanted), 1e-30))
    if not off <= LIMITS[kind] or len(found) != len(wanted):
        sys.exit(f"{what}: off by {off}")
    print(f"{what}: error {off:.2e}")


def check_packed(gpu, kind, heads, size, lengths, together, bias):
    t, ends, names = sum(lengths), [sum(lengths[:i]) for i in range(len(lengths) + 1)], ["q", "k", "v"]
    inputs = {"q": tensor(kind, t, heads, 3, size)} if together else {x: tensor(kind, t, heads * size) for x in names}
    inputs.update({"where": tensor("s32", len(lengths), max(lengths)), "ends": tensor("s32", len(ends)), **({"bias": tensor(kind, 3 * heads * size)} if bias else {})})
    graph = {"name": "packed", "inputs": inputs, "outputs": ["y"],
             "nodes": [{"op": "PackedMultiHeadAttention", "domain": "com.microsoft", "inputs": ["q", *(["", ""] if together else ["k", "v"]), "bias" if bias else "", "where", "ends"],
                        "outputs": ["y"], "attributes": {"num_heads": heads}}]}
    given, found = runs.run(adlgen, graph, gpu, [("ends", "s32", [len(ends)], ends)])

    def row(i, token, h):
        at = ((token * heads + h) * 3 + i) * size if together else (token * heads + h) * size
        more = given["bias"][(i * heads + h) * size:(i * heads + h + 1) * size] if bias else [0.0] * size
        return [x + y for x, y in zip(given["q" if together else names[i]][at:at + size], more)]

    wanted = []
    for b, n in enumerate(lengths):
        for m in range(n):
            for h in range(heads):
                own = range(ends[b], ends[b + 1])
                wanted += attend(row(0, ends[b] + m, h), [row(1, j, h) for j in own], [row(2, j, h) for j in own], 1 / math.sqrt(size))
    compare(f"{gpu} {kind} packed {lengths}", kind, found["y"], wanted)


class Paged:
    """A graph, and the sequences as lists of keys and values by which results are judged."""

    def __init__(self, gpu, kind, heads, kv_heads, size, pages, rows, columns, sequences, packed=False, slots=False, window=0, cap=0, stored=None, sinks=False, open=False):
        self.__dict__.update({k: v for k, v in locals().items() if k != "self"})
        self.keys, self.values = ([[[] for _ in range(kv_heads)] for _ in range(sequences)] for _ in range(2))
        order = draw.sample(range(pages), sequences * columns)
        self.table = [order[b * columns:(b + 1) * columns] for b in range(sequences)]
        self.caches = {x: None for x in ("kc", "vc")}

    def graph(self, t):
        t, sequences, ends = ("T", "B", "B+1") if self.open else (t, self.sequences, self.sequences + 1)
        widths = [self.heads * self.size, self.kv_heads * self.size, self.kv_heads * self.size]
        rows = {"q": tensor(self.kind, t, sum(widths))} if self.packed else {x: tensor(self.kind, t, w) for x, w in zip("qkv", widths)}
        cache = tensor(self.stored or self.kind, self.pages, self.rows, self.kv_heads, self.size)
        angles = tensor(self.kind, self.rows * self.columns, self.size // 2)
        inputs = {**rows, "kc": cache, "vc": cache, "ends": tensor("s32", ends), "past": tensor("s32", sequences),
                  "table": tensor("s32", sequences, self.columns), "cos": angles, "sin": angles, **({"slots": tensor("s32", t)} if self.slots else {})}
        names = ["q", *(["", ""] if self.packed else "kv"), "kc", "vc", "ends", "past", "table", "cos", "sin", *(["slots"] if self.slots else [])]
        if self.sinks:
            inputs["sink"] = tensor(self.kind, self.heads)
            names += [""] * (11 - len(names)) + ["sink"]
        scales = {x[0] + "s": {"type": "f32", "shape": [1], "data": [unit]} for x, unit in UNITS.items()} if self.stored else {}
        names += [""] * (14 - len(names)) + list(scales) if scales else []
        more = {**({x: "PER_TENSOR" for x in ("k_quant_type", "v_quant_type")} if scales else {}), **({"local_window_size": self.window} if self.window else {}), **({"softcap": self.cap} if self.cap else {})}
        return {"name": "paged", "inputs": inputs, "constants": scales, "outputs": ["y", "kn", "vn"],
                "nodes": [{"op": "PagedAttention", "domain": "com.microsoft", "inputs": names, "outputs": ["y", "kn", "vn"],
                           "attributes": {"num_heads": self.heads, "kv_num_heads": self.kv_heads, "do_rotary": 1, **more}}]}

    def step(self, lengths, seed):
        t, ends, past = sum(lengths), [sum(lengths[:i]) for i in range(self.sequences + 1)], [len(k[0]) for k in self.keys]
        graph, shape = self.graph(t), [self.pages, self.rows, self.kv_heads, self.size]
        lists = {"ends": ends, "past": past, "table": [page for row in self.table for page in row]}
        if self.slots:
            lists["slots"] = [self.table[b][p // self.rows] * self.rows + p % self.rows for b, n in enumerate(lengths) for p in range(past[b], past[b] + n)]
        shapes = {"table": [self.sequences, self.columns]}
        given = [(name, "s32", shapes.get(name, [len(values)]), values) for name, values in lists.items()]
        given += [(x, self.stored or self.kind, shape, values) for x, values in self.caches.items() if values]
        dims = {"T": t, "B": self.sequences} if self.open else None
        if self.stored:  # rows that fill the range of the cache, whatever the default data would be
            rows = {x: tensor["shape"] for x, tensor in graph["inputs"].items() if x in "qkv"}
            given += [(x, self.kind, shape, [draw.gauss(0, 1) for _ in range(math.prod(shape))]) for x, shape in rows.items()]
        inputs, found = runs.run(adlgen, graph, self.gpu, given, seed=seed, dims=dims)
        self.caches = {"kc": found["kn"], "vc": found["vn"]}
        if self.stored:
            found = {**found, **{x[0] + "n": [UNITS[x] * y for y in self.caches[x]] for x in UNITS}}
        self.judge(inputs, found, lengths, ends, past)

    def row(self, inputs, x, token, h):
        if not self.packed:
            at = (token * (self.heads if x == "q" else self.kv_heads) + h) * self.size
            return inputs[x][at:at + self.size]
        first = {"q": 0, "k": self.heads, "v": self.heads + self.kv_heads}[x]
        at = (token * (self.heads + 2 * self.kv_heads) + first + h) * self.size
        return inputs["q"][at:at + self.size]

    def judge(self, inputs, found, lengths, ends, past):
        wanted, group = [], self.heads // self.kv_heads
        for b, n in enumerate(lengths):
            for m in range(n):
                token, place = ends[b] + m, past[b] + m
                for h in range(self.kv_heads):
                    self.keys[b][h].append(turned(self.row(inputs, "k", token, h), place, inputs, self.size))
                    self.values[b][h].append(self.row(inputs, "v", token, h))
                    at = ((self.table[b][place // self.rows] * self.rows + place % self.rows) * self.kv_heads + h) * self.size
                    off = max(abs(x - min(max(y, -128 * UNITS["vc"]), 127 * UNITS["vc"])) for x, y in zip(found["vn"][at:at + self.size], self.values[b][h][-1]))
                    if found["vn"][at:at + self.size] != self.values[b][h][-1] if not self.stored else off > 0.51 * UNITS["vc"]:
                        sys.exit(f"{self.gpu}: value {place} of sequence {b} is not in its page")
                    self.values[b][h][-1] = found["vn"][at:at + self.size]
                    self.keys[b][h][-1] = found["kn"][at:at + self.size]  # as rounded
            for m in range(n):
                for g in range(self.heads):
                    last = past[b] + m + 1
                    first = max(0, last - self.window) if self.window else 0
                    q = turned(self.row(inputs, "q", ends[b] + m, g), past[b] + m, inputs, self.size)
                    wanted += attend(q, self.keys[b][g // group][first:last], self.values[b][g // group][first:last], 1 / math.sqrt(self.size), self.cap,
                                     inputs["sink"][g] if self.sinks else -math.inf)
        compare(f"{self.gpu} {self.kind} paged {lengths} behind {past}", self.kind, found["y"], wanted)


def check_nowhere(gpu):
    """Rows in front of a sequence's first page, of a page beyond the cache, and of one so large that its rows would come back into it."""
    paged = Paged(gpu, "bf16", heads=2, kv_heads=1, size=32, pages=8, rows=16, columns=2, sequences=4)
    lists = {"ends": [0, 1, 1, 2, 4], "past": [-3, 9, 0, 16], "table": [1, 2, 3, 3, 99, 0, 4, 1 << 28]}
    given, found = runs.run(adlgen, paged.graph(4), gpu, [(x, "s32", [4, 2] if x == "table" else [len(y)], y) for x, y in lists.items()])
    if any(given[x + "c"] != found[x + "n"] for x in "kv"):
        sys.exit(f"{gpu}: a row that is nowhere is in a page")


check_nowhere("h100")
for device in ("h100", "a100"):
    check_packed(device, "bf16", 2, 64, [1, 33, 7], False, True)
    check_packed(device, "f16", 1, 64, [5, 65], True, False)
    for settings in ({"kind": "f16", "packed": True, "cap": 20.0}, {"kind": "bf16", "slots": True, "window": 9, "sinks": True, "open": True},
                     {"kind": "f16", "packed": True, "stored": "s8"}):
        paged = Paged(device, heads=4, kv_heads=2, size=64, pages=13, rows=16, columns=3, sequences=3, **settings)
        for i, lengths in enumerate(([17, 1, 5], [1, 1, 1], [3, 0, 1])):
            paged.step(lengths, 11 + i)
print("packed and paged attention: right")
