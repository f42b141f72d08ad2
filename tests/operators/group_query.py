#!/usr/bin/env python3
"""GroupQueryAttention with a cache, against its definition in double precision: group_query.py ADLGEN

New rows stand behind `seqlens_k + 1 - rows` keys of their sequence, in the cache's own memory or in a copy that has room for them; queries and
keys are turned by these places; a row sees the keys up to its own, or a window of them. Caches may be of 8 bits, with one scale each."""
import math
import pathlib
import random
import sys

import runs

adlgen = pathlib.Path(sys.argv[1]).resolve()
LIMITS = {"bf16": 8e-3, "f16": 1.5e-3}
draw = random.Random(5)
UNITS = {"k": 0.03125, "v": 0.0234375}  # scales of caches of 8 bits


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def graph_of(kind, batches, heads, kv_heads, rows, capacity, size, packed, in_place, rotary, sink, stored, attributes):
    widths = [heads * size, kv_heads * size, kv_heads * size]
    given = {"q": tensor(kind, batches, rows, sum(widths))} if packed else {x: tensor(kind, batches, rows, w) for x, w in zip("qkv", widths)}
    inputs = {**given, **{x: tensor(stored or kind, batches, kv_heads, capacity, size) for x in ("pk", "pv")}, "n": tensor("s32", batches)}
    graph = {"name": "gqa", "inputs": inputs, "constants": {"total": {"type": "s32", "shape": [], "data": capacity}}, "outputs": ["y", "nk", "nv"]}
    names = ["q", *(["", ""] if packed else "kv"), "pk", "pv", "n", "total"]
    if rotary:
        inputs.update({"cos": tensor(kind, 2 * capacity, size // 2), "sin": tensor(kind, 2 * capacity, size // 2)})
        names += ["cos", "sin"]
    if sink:
        inputs["sink"] = tensor(kind, heads)
        names += [""] * (11 - len(names)) + ["sink"]
    if stored:
        graph["constants"].update({x + "s": {"type": "f32", "shape": [1], "data": [UNITS[x]]} for x in "kv"})
        names += [""] * (12 - len(names)) + ["ks", "vs"]
        attributes = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8, **attributes}
    graph["nodes"] = [{"op": "GroupQueryAttention", "domain": "com.microsoft", "inputs": names, "outputs": ["y", "nk", "nv"],
                       "attributes": {"num_heads": heads, "kv_num_heads": kv_heads, **({"do_rotary": 1} if rotary else {}), **attributes}}]
    if in_place:
        graph["in_place"] = {"nk": "pk", "nv": "pv"}
    return graph


def turned(x, place, given, size):
    half = size // 2
    c, s = (given[name][place * half:(place + 1) * half] for name in ("cos", "sin"))
    return [a * p - b * q for a, b, p, q in zip(x[:half], x[half:], c, s)] + [b * p + a * q for a, b, p, q in zip(x[:half], x[half:], c, s)]


def check(gpu, kind, heads, kv_heads, rows, capacity, size, lengths, packed=False, in_place=True, rotary=True, sink=False, stored=None, **attributes):
    batches, room = len(lengths), capacity + (0 if in_place else rows)
    graph = graph_of(kind, batches, heads, kv_heads, rows, capacity, size, packed, in_place, rotary, sink, stored, attributes)
    lists = [("n", "s32", [batches], [n - 1 for n in lengths])]
    if stored:  # rows that fill the range of the cache, whatever the default data would be
        rows_of = {x: tensor["shape"] for x, tensor in graph["inputs"].items() if x in "qkv"}
        lists += [(x, kind, shape, [draw.gauss(0, 1) for _ in range(math.prod(shape))]) for x, shape in rows_of.items()]
    given, found = runs.run(adlgen, graph, gpu, lists)
    width = (heads + 2 * kv_heads) * size
    what = f"{gpu} {kind} {heads}/{kv_heads} heads of {size}, {rows} rows, {lengths} keys"

    def row(x, b, s, h):
        n, first = (heads, 0) if x == "q" else (kv_heads, heads * size + (kv_heads * size if x == "v" else 0))
        if packed:
            at = (b * rows + s) * width + first + h * size
            return given["q"][at:at + size]
        at = ((b * rows + s) * n + h) * size
        return given[x][at:at + size]

    if stored:  # as numbers, which are what the cache holds times its scale
        for x in ("pk", "pv", "nk", "nv"):
            at = given if x in given else found
            at[x] = [UNITS[x[1]] * y for y in at[x]]

    def held(x, cache, wanted):
        """A new row as the cache has it, which is within half a unit of what is wanted."""
        if stored and any(abs(a - min(max(b, -128 * UNITS[x]), 127 * UNITS[x])) > 0.51 * UNITS[x] + 0.01 * abs(b) for a, b in zip(cache, wanted)):
            sys.exit(f"{what}: a new row is another")
        return cache if stored else wanted

    off = whole = cache_off = 0.0
    for b, length in enumerate(lengths):
        past = max(length - rows, 0)
        for h in range(kv_heads):
            keys, values = [], []
            for t in range(past + rows):
                old = ((b * kv_heads + h) * capacity + t) * size
                k, v = (given["pk"][old:old + size], given["pv"][old:old + size]) if t < past else (row("k", b, t - past, h), row("v", b, t - past, h))
                now = ((b * kv_heads + h) * room + t) * size
                keys.append(turned(k, t, given, size) if rotary and t >= past else k)
                if t >= past:
                    keys[-1], v = held("k", found["nk"][now:now + size], keys[-1]), held("v", found["nv"][now:now + size], v)
                values.append(v)
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
    check(device, "bf16", 4, 2, 1, 160, 64, [1, 160, 65], stored="s8")
    check(device, "f16", 2, 1, 5, 40, 64, [17, 30], in_place=False, stored="s8", packed=True)
print("GroupQueryAttention with caches: right")
