#!/usr/bin/env python3
"""A decoding loop of a small Llama over pages against a plain one in double precision: paged_llama.py ADLGEN [TOKENS]

Sequences of unlike prompts, one of which joins late and one that is done early, each token of each layer in pages that come in any order.
The plain network keeps every key and value, and says which token comes next. By default few tokens, with ADLGEN_TEST_FULL 70."""
import math
import os
import pathlib
import random
import sys

import runs

ADLGEN = pathlib.Path(sys.argv[1]).resolve()
LAYERS, WIDTH, HEADS, KV, SIZE, INNER, WORDS = 2, 32, 2, 1, 32, 48, 61
ROWS, COLUMNS, SEQUENCES = 8, 11, 3
PAGES = SEQUENCES * COLUMNS + 2
QKV = (HEADS + 2 * KV) * SIZE
TOKENS = int(sys.argv[2]) if len(sys.argv) > 2 else 70 if os.environ.get("ADLGEN_TEST_FULL") else 3
LIMIT = 2e-3  # of f16 through two layers
draw = random.Random(3)


def halves(values):  # as f16 has them
    return runs.numbers("F16", runs.struct.pack(f"<{len(values)}e", *values))


def matrix(rows, columns):
    return [halves([draw.gauss(0, 1 / math.sqrt(rows)) for _ in range(columns)]) for _ in range(rows)]


WEIGHTS = {"words": [halves([draw.gauss(0, 1) for _ in range(WIDTH)]) for _ in range(WORDS)], "head": matrix(WIDTH, WORDS)}
for layer in range(LAYERS):
    WEIGHTS.update({f"qkv{layer}": matrix(WIDTH, QKV), f"out{layer}": matrix(HEADS * SIZE, WIDTH), f"gate{layer}": matrix(WIDTH, INNER),
                    f"up{layer}": matrix(WIDTH, INNER), f"down{layer}": matrix(INNER, WIDTH)})
ANGLES = [[p / 100 ** (2 * i / SIZE) for i in range(SIZE // 2)] for p in range(ROWS * COLUMNS)]
WEIGHTS["cos"], WEIGHTS["sin"] = ([halves([f(a) for a in row]) for row in ANGLES] for f in (math.cos, math.sin))
TABLE = draw.sample(range(PAGES), SEQUENCES * COLUMNS)


# ---- the plain network ----

def times(x, w):
    return [sum(a * row[j] for a, row in zip(x, w)) for j in range(len(w[0]))]


def norm(x):
    scale = 1 / math.sqrt(sum(a * a for a in x) / len(x) + 1e-5)
    return [a * scale for a in x]


def turned(x, place):
    half, c, s = SIZE // 2, WEIGHTS["cos"][place], WEIGHTS["sin"][place]
    return [x[i] * c[i] - x[i + half] * s[i] for i in range(half)] + [x[i + half] * c[i] + x[i] * s[i] for i in range(half)]


def attend(q, keys, values):
    scores = [sum(a * b for a, b in zip(q, k)) / math.sqrt(SIZE) for k in keys]
    weights = [math.exp(s - max(scores)) for s in scores]
    return [sum(w * v[e] for w, v in zip(weights, values)) / sum(weights) for e in range(SIZE)]


def forward(cache, word):
    """Logits behind a word; the cache, a list of keys and one of values a layer and head, grows."""
    x, place = WEIGHTS["words"][word], len(cache[0][0][0])
    for layer in range(LAYERS):
        qkv = times(norm(x), WEIGHTS[f"qkv{layer}"])
        heads = [qkv[i:i + SIZE] for i in range(0, QKV, SIZE)]
        for h in range(KV):
            cache[layer][h][0].append(turned(heads[HEADS + h], place))
            cache[layer][h][1].append(heads[HEADS + KV + h])
        y = [e for h in range(HEADS) for e in attend(turned(heads[h], place), *cache[layer][h * KV // HEADS])]
        x = [a + b for a, b in zip(x, times(y, WEIGHTS[f"out{layer}"]))]
        n = norm(x)
        gate, up = times(n, WEIGHTS[f"gate{layer}"]), times(n, WEIGHTS[f"up{layer}"])
        inner = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
        x = [a + b for a, b in zip(x, times(inner, WEIGHTS[f"down{layer}"]))]
    return times(norm(x), WEIGHTS["head"])


# ---- the network in a graph ----

def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def graph():
    cache = tensor("f16", PAGES, ROWS, KV, SIZE)
    inputs = {"ids": tensor("s32", "T"), "ends": tensor("s32", SEQUENCES + 1), "past": tensor("s32", SEQUENCES), "table": tensor("s32", SEQUENCES, COLUMNS),
              **{f"{x}{layer}": cache for layer in range(LAYERS) for x in "kv"},
              **{name: tensor("f16", len(w), len(w[0])) for name, w in WEIGHTS.items()}}
    nodes, outputs = [{"op": "Gather", "inputs": ["words", "ids"], "outputs": ["x0"]}], []

    def add(op, given, out, domain=None, **attributes):
        nodes.append({"op": op, "inputs": given.split(), "outputs": out.split(), "attributes": attributes, **({"domain": domain} if domain else {})})

    for i in range(LAYERS):
        add("RMSNormalization", f"x{i} one", f"n{i}", epsilon=1e-5)
        add("MatMul", f"n{i} qkv{i}", f"h{i}")
        nodes.append({"op": "PagedAttention", "domain": "com.microsoft", "inputs": [f"h{i}", "", "", f"k{i}", f"v{i}", "ends", "past", "table", "cos", "sin"],
                      "outputs": [f"y{i}", f"kn{i}", f"vn{i}"], "attributes": {"num_heads": HEADS, "kv_num_heads": KV, "do_rotary": 1}})
        add("MatMul", f"y{i} out{i}", f"o{i}")
        add("Add", f"x{i} o{i}", f"r{i}")
        add("RMSNormalization", f"r{i} one", f"m{i}", epsilon=1e-5)
        add("MatMul", f"m{i} gate{i}", f"g{i}")
        add("MatMul", f"m{i} up{i}", f"u{i}")
        add("Swish", f"g{i}", f"s{i}")
        add("Mul", f"s{i} u{i}", f"a{i}")
        add("MatMul", f"a{i} down{i}", f"d{i}")
        add("Add", f"r{i} d{i}", f"x{i + 1}")
        outputs += [f"kn{i}", f"vn{i}"]
    add("RMSNormalization", f"x{LAYERS} one", "last", epsilon=1e-5)
    add("MatMul", "last head", "logits")
    return {"name": "paged_llama", "inputs": inputs, "constants": {"one": {"type": "f16", "shape": [WIDTH], "data": [1] * WIDTH}}, "nodes": nodes,
            "outputs": ["logits", *outputs]}


def main():
    plain = [[[([], []) for _ in range(KV)] for _ in range(LAYERS)] for _ in range(SEQUENCES)]
    memory, worst, chosen = {}, 0, 0
    waiting = [[draw.randrange(WORDS) for _ in range(n)] for n in (9, 0, 1)]  # words that come next, of each sequence
    network = graph()
    given = [(name, "f16", [len(w), len(w[0])], [e for row in w for e in row]) for name, w in WEIGHTS.items()]
    for step in range(TOKENS):
        if step == 2:
            waiting[1] = [draw.randrange(WORDS) for _ in range(4)]
        if step == TOKENS - 2:
            waiting[0] = []
        past, ids = [len(cache[0][0][0]) for cache in plain], [word for words in waiting for word in words]
        ends = [sum(len(words) for words in waiting[:b]) for b in range(SEQUENCES + 1)]
        lists = [("ids", "s32", [len(ids)], ids), ("ends", "s32", [SEQUENCES + 1], ends), ("past", "s32", [SEQUENCES], past),
                 ("table", "s32", [SEQUENCES, COLUMNS], TABLE)]
        lists += [(name, "f16", [PAGES, ROWS, KV, SIZE], values) for name, values in memory.items()]
        _, found = runs.run(ADLGEN, network, ("h100", "a100")[step % 2], given + lists, dims={"T": len(ids)})
        memory = {f"{x}{i}": found[f"{x}n{i}"] for i in range(LAYERS) for x in "kv"}
        for b, words in enumerate(waiting):
            for m, word in enumerate(words):
                wanted, row = forward(plain[b], word), (ends[b] + m) * WORDS
                got = found["logits"][row:row + WORDS]
                off = math.sqrt(sum((x - y)**2 for x, y in zip(got, wanted)) / sum(y * y for y in wanted))
                worst = max(worst, off)
                if not off <= LIMIT:
                    sys.exit(f"step {step}, sequence {b}, place {past[b] + m}: logits are off by {off}")
            best = max(range(WORDS), key=wanted.__getitem__) if words else None
            chosen += bool(words) and got[best] >= max(got) - 4 * LIMIT * max(map(abs, wanted))
            if words:
                waiting[b] = [best]
    print(f"{TOKENS} steps over {sum(len(c[0][0][0]) for c in plain)} places, {chosen} tokens as the plain network has them: error at most {worst:.2e}")


main()
