#!/usr/bin/env python3
"""GroupQueryAttention with a cache, against its definition in double precision: group_query.py ADLGEN

New rows stand behind `seqlens_k + 1 - rows` keys of their sequence, in the cache's own memory or in a copy that has room for them; queries and
keys are turned by these places; a row sees the keys up to its own, or a window of them."""
import math
import pathlib
import sys

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
LIMITS = {"bf16": 8e-3, "f16": 1.5e-3}


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def graph_of(kind, batches, heads, kv_heads, rows, capacity, size, packed, in_place, rotary, sink, attributes):
    widths = [heads * size, kv_heads * size, kv_heads * size]
    given = {"q": tensor(kind, batches, rows, sum(widths))} if packed else {x: tensor(kind, batches, rows, w) for x, w in zip("qkv", widths)}
    inputs = {**given, **{x: tensor(kind, batches, kv_heads, capacity, size) for x in ("pk", "pv")}, "n": tensor("s32", batches)}
    graph = {"name": "gqa", "inputs": inputs, "constants": {"total": {"type": "s32", "shape": [], "data": capacity}}, "outputs": ["y", "nk", "nv"]}
    names = ["q", *(["", ""] if packed else "kv"), "pk", "pv", "n", "total"]
    if rotary:
        inputs.update({"cos": tensor(kind, 2 * capacity, size // 2), "sin": tensor(kind, 2 * capacity, size // 2)})
        names += ["cos", "sin"]
    if sink:
        inputs["sink"] = tensor(kind, heads)
        names += [""] * (11 - len(names)) + ["sink"]
    graph["nodes"] = [{"op": "GroupQueryAttention", "domain": "com.microsoft", "inputs": names, "outputs": ["y", "nk", "nv"],
                       "attributes": {"num_heads": heads, "kv_num_heads": kv_heads, **({"do_rotary": 1} if rotary else {}), **attributes}}]
    if in_place:
        graph["in_place"] = {"nk": "pk", "nv": "pv"}
    return graph


def turned(x, place, given, size):
    half = size // 2
    c, s = (given[name][place * half:(place + 1) * half] for name in ("cos", "sin"))
    return [a * p - b * q for a, b, p, q in zip(x[:half], x[half:], c, s)] + [b * p + a * q for a, b, p, q in zip(x[:half], x[half:], c, s)]


def check(gpu, kind, heads, kv_heads, rows, capacity, size, lengths, packed=False, in_place=True, rotary=True, sink=False, **attributes):
    batches, room = len(lengths), capacity + (0 if in_place else rows)
    graph = graph_of(kind, batches, heads, kv_heads, rows, capacity, size, packed, in_place, rotary, sink, attributes)
    given, found = runs.run(adlgen, graph, gpu, [("n", "s32", [batches], [n - 1 for n in lengths])])
    width = (heads + 2 * kv_heads) * size
    what = f"{gpu} {kind} {heads}/{kv_heads} heads of {size}, {rows} rows, {lengths} keys"

    def row(x, b, s, h):
        n, first = (heads, 0) if x == "q" else (kv_heads, heads * size + (kv_heads * size if x == "v" else 0))
        if packed:
            at = (b * rows + s) * width + first + h * size
            return given["q"][at:at + size]
        at = ((b * rows + s) * n + h) * size
        return given[x][at:at + size]

    off = whole = cache_off = 0.0
    for b, length in enumerate(lengths):
        past = max(length - rows, 0)
        for h in range(kv_heads):
            keys, values = [], []
            for t in range(past + rows):
                old = ((b * kv_heads + h) * capacity + t) * size
                k, v = (given["pk"][old:old + size], given["pv"][old:old + size]) if t < past else (row("k", b, t - past, h), row("v", b, t - past, h))
                keys.append(turned(k, t, given, size) if rotary and t >= past else k)
                values.append(v)
                now = ((b * kv_heads + h) * room + t) * size
                if found["nv"][now:now + size] != v:
                    sys.exit(f"{what}: value {t} of sequence {b} is another")
                cache_off = max(cache_off, *(abs(x - y) for x, y in zip(found["nk"][now:now + size], keys[-1])))
            group = heads // kv_heads
            for g in range(h * group, (h + 1) * group):
                for s in range(min(rows, length)):
                    q, last = row("q", b, s, g), past + s
                    q = turned(q, last, given, size) if rotary else q
                    window = attributes.get("local_window_size", -1)
                    seen = range(max(0, last - window + 1) if window > 0 else 0, min(last + 1, length))
                    scores = [sum(x * y for x, y in zip(q, keys[t])) / math.sqrt(size) for t in seen]
                    cap = attributes.get("softcap", 0)
                    scores = [cap * math.tanh(x / cap) for x in scores] if cap else scores
                    more = [given["sink"][g]] if sink else []
                    peak = max(scores + more)
                    weights = [math.exp(x - peak) for x in scores]
                    total = sum(weights) + sum(math.exp(x - peak) for x in more)
                    for e in range(size):
                        wanted = sum(w * values[t][e] for w, t in zip(weights, seen)) / total
                        off += (found["y"][((b * rows + s) * heads + g) * size + e] - wanted)**2
                        whole += wanted**2
    if not off <= LIMITS[kind]**2 * whole or cache_off > 0.05:
        sys.exit(f"{what}: off by {math.sqrt(off / whole)}, keys by {cache_off}")
    print(f"{what}: error {math.sqrt(off / whole):.2e}")


for device in ("h100", "a100"):
    check(device, "bf16", 4, 2, 1, 160, 64, [1, 160, 65])
    check(device, "f16", 4, 1, 1, 33, 64, [33, 2], packed=True, softcap=5.0)
    check(device, "bf16", 2, 2, 3, 70, 64, [70, 3], local_window_size=20)
    check(device, "f16", 2, 1, 5, 40, 64, [17, 30], in_place=False)
    check(device, "bf16", 4, 2, 33, 33, 64, [33, 9], packed=True)  # a first prompt, padded
    check(device, "f16", 2, 2, 2, 40, 64, [40, 7], rotary=False, sink=True)
print("GroupQueryAttention with caches: right")
