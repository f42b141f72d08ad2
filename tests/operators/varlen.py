#!/usr/bin/env python3
"""varlen.py ADLGEN: VarlenAttention on the simulator against double precision: sequences of likely, hostile or wrong lengths, keys that lie as
rows do, by ends of their own, in caches and in pages; rows of no sequence stay as they were (0xff, which is NaN)."""
import sys

from runs import fault_batch, has_turn, run_batch

GPUS = ["h100", "a100"]


def varlen(ends, heads, own, d, dv=None, rows=None, dtype="bf16", key_ends=None, keys=None, lengths=None, table=None, page=0, sums=False, cast=False,
           align=16, stored=None, scales=None, front=None, slopes=None, sinks=None, words=None, **attributes):
    """ends, key_ends, lengths, table: numbers; keys: of the tensor; page: rows of one. stored: keys' and values' type; scales: what they broadcast
    along, as inputs, or (front) of a node in front: DequantizeLinear's axis, or Cast's. slopes, sinks: their shapes; words: of a tree, whose bits are drawn."""
    dv, rows = dv or d, rows or max(ends + [1])
    of_keys = [rows] if key_ends is None and lengths is None else [keys] if lengths is None else [keys, page] if table else [len(lengths), keys]
    inputs = {"q": {"type": dtype, "shape": [rows, heads, d], "align": max(align, 2)}, "k": {"type": dtype, "shape": of_keys + [own, d], "align": align},
              "v": {"type": dtype, "shape": of_keys + [own, dv], "align": align}}
    constants, names = {}, ["q", "k", "v"]
    for name, values in (("e", ends), ("ke", key_ends), ("n", lengths), ("p", table)):
        shape = [] if values is None else [len(ends) - 1, -1] if name == "p" else [len(values)]
        if name == "p" and values:
            shape[1] = len(values) // shape[0]
        if values is not None:
            constants[name] = {"type": "s32", "shape": shape, "data": list(values)}
        names.append("" if values is None else name)
    while not names[-1]:
        names.pop()
    outputs = ["y", "l"] if sums else ["y"]
    nodes = []
    for name, slot in (("k", 7), ("v", 8)) if stored else ():
        inputs[name]["type"] = stored
        if scales is not None:
            whole = inputs[name]["shape"]
            kept = [1 if axis - len(whole) not in scales else extent for axis, extent in enumerate(whole)]
            if front == "DequantizeLinear":  # one number, or one for each head
                kept = kept[-2:-1] if scales else []
            while len(kept) > 1 and kept[0] == 1:
                kept = kept[1:]
            inputs["s" + name] = {"type": "f32", "shape": kept}
        if front:
            nodes.append({"op": front, "inputs": [name] + (["s" + name] if scales is not None else []), "outputs": ["w" + name],
                          "attributes": {"to": dtype} if front == "Cast" else {"output_dtype": dtype} | ({"axis": -2} if scales else {})})
            names[names.index(name)] = "w" + name
        elif scales is not None:
            names += [""] * (slot - len(names)) + ["s" + name]
    if slopes is not None:
        inputs["lean"] = {"type": "f32", "shape": slopes}
        names += [""] * (9 - len(names)) + ["lean"]
    if sinks is not None:
        inputs["sink"] = {"type": "f32", "shape": sinks}
        names += [""] * (10 - len(names)) + ["sink"]
    if words:
        inputs["tree"] = {"type": "s32", "shape": [rows, words]}
        names += [""] * (11 - len(names)) + ["tree"]
    nodes += [{"op": "VarlenAttention", "domain": "adlgen", "inputs": names, "outputs": outputs, "attributes": attributes}]
    if cast:
        nodes.append({"op": "Cast", "inputs": ["y"], "outputs": ["z"], "attributes": {"to": "f32"}})
    return {"name": "g", "inputs": inputs, "constants": constants, "nodes": nodes, "outputs": outputs + (["z"] if cast else [])}


def shuffled(pages, n):
    """Numbers of pages in no order, some of them shared."""
    return [(i * 7 + i // 3) % pages for i in range(n)]


def cases():
    mixed = [0, 1, 130, 130, 200, 290]
    for causal in (0, 1):  # keys as rows
        yield varlen(mixed, 4, 2, 64, rows=300, is_causal=causal)
        yield varlen([0, 63, 64, 128, 257, 386], 2, 2, 128, is_causal=causal, sums=True)
    for ends in ([0], [0, 0], [0, 0, 0, 1], [0, 100, 50, 150], [0, 300, 7, 2**31 - 1], [0, -3, -2**31, 9], [5, 20, 40], [0, 1, 2, 3]):
        yield varlen(ends, 2, 1, 64, rows=160, is_causal=1, sums=True)
    # keys by ends of their own: more than rows, fewer, none; wrong ones
    for key_ends in ([0, 40, 400, 400, 470, 600], [0, 0, 3, 3, 3, 3], [0, 90, 20, 700, -4, 2**31 - 1], [-5, 2, 300, 650, 9, 600]):
        for attributes in ({}, {"is_causal": 1}, {"is_causal": 1, "diagonal": "begin"}):
            yield varlen(mixed, 4, 2, 64, rows=300, key_ends=key_ends, keys=600, **attributes)
    yield varlen(mixed, 4, 4, 64, rows=300, key_ends=[0, 40, 400, 400, 470, 600], keys=600, left_window_size=37, right_window_size=5)
    yield varlen(mixed, 2, 2, 64, rows=300, key_ends=[0, 40, 400, 400, 470, 600], keys=600, left_window_size=0, is_causal=1)
    yield varlen(mixed, 2, 2, 64, rows=300, key_ends=[0, 40, 400, 400, 470, 600], keys=600, left_window_size=20, diagonal="begin")
    yield varlen(mixed, 2, 2, 64, rows=300, left_window_size=20, right_window_size=0)
    for lengths in (None, [8]):  # one row in all
        yield varlen([0, 1], 4, 2, 64, key_ends=None if lengths else [0, 8], lengths=lengths, keys=8, is_causal=1, left_window_size=5)
        yield varlen([0, 1], 4, 2, 64, key_ends=None if lengths else [0, 1], lengths=lengths, keys=1, is_causal=1)
    # caches with lengths: decoded, prefilled behind a prefix, empty, beyond the cache
    for lengths in ([200, 129, 0, 300, 91], [1, 2**31 - 1, 5, -7, 64]):
        yield varlen(mixed, 4, 2, 64, rows=300, lengths=lengths, keys=300, is_causal=1)
    yield varlen([0, 1, 2, 3, 4], 8, 2, 128, lengths=[64, 65, 1, 128], keys=128, is_causal=1, sums=True)
    # slopes of heads, or one, which heads that are rows of a tile have in common
    yield varlen(mixed, 4, 2, 64, rows=300, is_causal=1, slopes=[4], sums=True)
    for attributes in ({}, {"is_causal": 1, "softcap": 3.0}, {"diagonal": "begin", "left_window_size": 30}):
        yield varlen(mixed, 4, 2, 64, rows=300, key_ends=[0, 40, 400, 400, 470, 600], keys=600, slopes=[4] if attributes else [1], sums=True, **attributes)
    yield varlen([0, 13, 35, 64], 48, 3, 192, dtype="f16", is_causal=1, diagonal="begin", softcap=2.0, slopes=[48], sums=True)  # scores near 0, tanh of f16
    yield varlen([0, 0, 1], 4, 2, 64, lengths=[3, 14], keys=31, is_causal=1, slopes=[4], sums=True) # one row in all stands at its last key
    for slopes in ([4], []):
        yield varlen([0, 1, 2, 3, 4], 4, 2, 64, lengths=[64, 65, 1, 128], keys=128, is_causal=1, slopes=slopes, sums=True, dtype="f16")
    yield varlen([0, 1, 2, 90], 4, 1, 128, lengths=[1, 77, 200], table=[5, -1, 0, 1, 3, -3], page=128, keys=6, is_causal=1, stored="e4m3", scales=[],
                 front="DequantizeLinear", slopes=[4])
    # sinks of heads, or one: sequences without rows, rows without keys, keys divided among blocks
    for dtype in ("bf16", "f16"):
        yield varlen([0, 0, 1, 64, 193], 4, 2, 64, dtype=dtype, is_causal=1, sinks=[4], sums=True)
        yield varlen([0, 1, 2, 65, 194], 4, 2, 64, dtype=dtype, lengths=[0, 1, 63, 129], table=shuffled(20, 4 * 9), page=16, keys=20, sinks=[4], slopes=[4])
    yield varlen([0, 1], 4, 2, 64, lengths=[63], keys=140, is_causal=1, sinks=[], sums=True)
    unlike = varlen([0, 1, 2, 3, 4], 4, 2, 64, lengths=[0, 1, 63, 129], keys=140, is_causal=1, sinks=[4], sums=True)
    unlike["constants"]["sink"] = {**unlike["inputs"].pop("sink"), "data": ["-inf", -1e4, 3, 1000]}  # -infinity: none
    yield unlike
    yield varlen([0, 3, 4, 4, 5, 9], 4, 1, 64, lengths=[16389, 300, 7, 0, 9], keys=16400, is_causal=1, sinks=[4], sums=True)
    # trees: of caches, pages, rows' own keys, keys divided among blocks; more keys brought along than words say, fewer keys than rows, sequences
    # of more rows than a tile has
    for words, attributes in ((1, {}), (2, {"is_causal": 1, "sinks": [8]}), (3, {"left_window_size": 20, "slopes": [8], "dtype": "f16"})):
        yield varlen([0, 7, 8, 61, 61, 64], 8, 2, 64, lengths=[40, 1, 129, 7, 2], keys=140, words=words, sums=True, **attributes)
    yield varlen([0, 1, 2, 65, 194], 4, 1, 128, lengths=[0, 1, 63, 129], table=shuffled(20, 4 * 9), page=16, keys=20, words=2, is_causal=1)
    yield varlen([0, 0, 1, 64, 193], 4, 2, 64, words=5, sums=True)
    yield varlen([0, 7, 8, 61], 6, 3, 72, key_ends=[0, 40, 41, 170], keys=170, words=2, stored="s8", scales=[], scale=4e-4)
    yield varlen([0, 3, 4, 4, 5, 9], 4, 1, 64, lengths=[16389, 300, 7, 0, 9], keys=16400, words=1)
    # pages: shorter and longer than tiles, shared and in no order
    for page in (16, 64, 256):
        each = 512 // page
        yield varlen(mixed, 4, 2, 64, rows=300, lengths=[200, 129, 0, 300, 91], table=shuffled(3 * each, 5 * each), page=page, keys=3 * each, is_causal=1)
    yield varlen([0, 1, 2, 90], 4, 1, 128, lengths=[1, 77, 200], table=[5, -1, 0, 1, 3, -3], page=128, keys=6, is_causal=1, sums=True)
    yield varlen(mixed, 4, 2, 64, rows=300, lengths=[200, 129, 0, 300, 91], table=[5, 77, -7, 2**31 - 1] * 5, page=64, keys=6, is_causal=1)  # no pages
    # caches of 8 bits, whose scales are one number, a head's, or a key's
    for stored in ("e4m3", "s8"):
        for page in (16, 64, 128):
            each = 512 // page
            yield varlen(mixed, 4, 2, 64, rows=300, lengths=[200, 129, 0, 300, 91], table=shuffled(3 * each, 5 * each), page=page, keys=3 * each, is_causal=1,
                         stored=stored, scales=[-2] if page > 16 else [])
            yield varlen(mixed, 4, 2, 64, rows=300, lengths=[200, 129, 0, 300, 91], table=shuffled(3 * each, 5 * each), page=page, keys=3 * each, is_causal=1,
                         stored=stored, scales=[-4, -3, -2] if page != 64 else [-4, -3], dtype="f16" if page > 16 else "bf16", sums=page == 64,
                         scale=0.02 if stored == "e4m3" else 4e-4)
        for scales in ([], [-2], [-3], [-4, -3, -2], [-4]):
            yield varlen([0, 1, 2, 3, 70], 8, 2, 128, lengths=[64, 65, 1, 128], keys=128, is_causal=1, sums=True, stored=stored, scales=scales)
        yield varlen(mixed, 4, 2, 64, rows=300, key_ends=[0, 40, 400, 400, 470, 600], keys=600, stored=stored, scales=[-2], dtype="f16", softcap=20.0)
        yield varlen(mixed, 2, 2, 72, rows=300, is_causal=1, stored=stored)
        yield varlen(mixed, 2, 2, 64, rows=300, align=1, is_causal=1, stored=stored, scales=[-2])
    yield varlen([0, 1, 2, 90], 4, 1, 128, lengths=[1, 77, 200], table=[5, -1, 0, 1, 3, -3], page=128, keys=6, is_causal=1, stored="e4m3", scales=[],
                 front="DequantizeLinear")
    yield varlen([0, 1, 2, 90], 4, 1, 128, lengths=[1, 77, 200], table=[5, -1, 0, 1, 3, -3], page=128, keys=6, is_causal=1, stored="e4m3", scales=[-4, -3, -2])
    yield varlen([0, 1, 2, 90], 6, 3, 72, dv=40, rows=1000, lengths=[1, 77, 200], table=[5, 99, -9, 1, 3, -3], page=128, keys=6, stored="s8", scales=[-4, -3, -2],
                 scale=4e-4)
    yield varlen(mixed, 4, 2, 72, rows=300, lengths=[200, 129, 0, 300, 91], keys=300, is_causal=1, stored="s8", scales=[-2], scale=4e-4)
    yield varlen(mixed, 4, 2, 64, rows=300, lengths=[200, 129, 0, 300, 91], keys=300, is_causal=1, stored="u8", scales=[-2], front="DequantizeLinear")
    yield varlen(mixed, 4, 2, 64, rows=300, lengths=[200, 129, 0, 300, 91], keys=300, is_causal=1, stored="e5m2", front="Cast", dtype="f16")
    # pages whose rows of 8 bits are no whole 128 bytes
    yield varlen([0, 63, 65], 4, 2, 80, lengths=[1, 99], table=shuffled(60, 100), page=2, keys=60, stored="e5m2", front="Cast")
    yield varlen([0, 33], 2, 1, 72, dv=144, lengths=[32], table=shuffled(33, 33), page=1, keys=33, stored="s8", scales=[], is_causal=1, dtype="f16", scale=4e-4)
    infinite = varlen([0, 4], 2, 1, 64, lengths=[8], table=[0, 1], page=4, keys=2, stored="e5m2", scales=[-4, -3, -2])
    del infinite["inputs"]["v"]  # by scales that have two parts, which are no numbers together
    infinite["constants"]["v"] = {"type": "e5m2", "shape": [2, 4, 1, 64], "data": [0.5, -2] * 60 + ["inf", 1, 0, "-inf"] + [1.5, -0.25, 3, 0] * 97}
    yield infinite
    # groups of heads that do not divide a tile, in windows, with fewer keys than rows, of wider and narrower values
    for heads, own in ((6, 2), (7, 1), (20, 4), (16, 1)):
        yield varlen(mixed, heads, own, 64, rows=300, lengths=[200, 129, 0, 300, 91], keys=300, is_causal=1, left_window_size=40, sums=True)
    yield varlen([0, 1, 34, 37, 37], 10, 2, 72, lengths=[64, 20, 1, 33], keys=65, is_causal=1, sums=True)
    yield varlen([0, 2, 34, 37, 137], 6, 1, 64, dv=128, lengths=[64, 20, 2, 33], table=shuffled(20, 32), page=16, keys=20, is_causal=1, dtype="f16", right_window_size=3)
    yield varlen([0, 2, 34, 37, 137], 4, 1, 128, dv=64, key_ends=[0, 64, 70, 70, 133], keys=140, is_causal=1, diagonal="begin", sums=True, cast=True)
    yield varlen([0, 2, 34, 37, 137], 4, 2, 64, is_causal=1, align=2)
    # keys of few rows in parts, of caches and of pages, beside longer sequences and ones without rows or keys; more sequences than schedulers
    # look at together
    yield varlen([0, 3, 4, 4, 5, 75], 4, 1, 64, lengths=[16389, 9001, 300, 0, 200], keys=16400, is_causal=1, sums=True)
    yield varlen([0, 1, 2, 3, 5], 4, 1, 64, lengths=[16400, 8193, 8192, 1], table=shuffled(270, 4 * 257), page=64, keys=270, is_causal=1, sums=True, dtype="f16")
    yield varlen([0] + [1 + i // 2 for i in range(20)] + [90], 16, 1, 64, lengths=[16385] + [3 * i for i in range(19)] + [100], table=shuffled(270, 21 * 257), page=64,
                 keys=270, softcap=10.0)
    yield varlen([7 * i for i in range(37)] + [300], 4, 2, 64, is_causal=1)
    # kinds of operands
    yield varlen(mixed, 4, 2, 64, rows=300, dtype="f16", is_causal=1, softcap=20.0, scale=0.2)
    yield varlen(mixed, 2, 2, 72, rows=300, is_causal=1)
    yield varlen(mixed[:-1] + [300], 2, 1, 128, dv=64, key_ends=[0, 40, 400, 400, 470, 600], keys=600, is_causal=1, cast=True)
    yield varlen(mixed, 2, 2, 64, rows=300, align=2, is_causal=1)


def is_wrong(graph):
    """Are its lists none that somebody means?"""
    lists = {name: constant["data"] for name, constant in graph["constants"].items()}
    rows, k = graph["inputs"]["q"]["shape"][0], graph["inputs"]["k"]["shape"]
    room = k[0] if "n" not in lists else k[1] if "p" not in lists else k[1] * graph["constants"]["p"]["shape"][1]
    for name, most in (("e", rows), ("ke", room)):
        ends = lists.get(name, [0])
        if ends != sorted(ends) or ends[0] < 0 or ends[-1] > most or name == "e" and ends[0]:
            return True
    columns = graph["constants"]["p"]["shape"][1] if "p" in lists else 1
    beyond = any(not -k[0] <= page < k[0] for i, page in enumerate(lists.get("p", [])) if i % columns * k[1] < lists["n"][i // columns])
    return beyond or any(not 0 <= n <= room for n in lists.get("n", []))


# What a caller gives wrongly is clamped or not read: results are those of the reference, and nothing else is written. Without being told so the
# simulator calls it a fault.
CLAMPED = "bounds,alignment,undefined,race,proxy,proxy-war,wgmma,mbarrier,bulk,cluster,barrier,deadlock,registers,convergence,trap,limit"
# One of the GPUs for each case by default, in turn.
lines = [{"label": f"{i}", "graph": graph, "gpu": gpu} for i, graph in enumerate(cases()) for j, gpu in enumerate(GPUS)
         if is_wrong(graph) or has_turn(i, j)]
lines.append({"label": "heads as rows of two warpgroups", "gpu": "h100", "set": ["rows=128", "keys=64"], "graph": varlen(
    [0, 1, 34, 37, 37], 10, 2, 72, lengths=[64, 20, 1, 33], keys=65, is_causal=1, sums=True)})
# Scales of keys that were rounded to the queries' type in front of the product moved all of a key's score (and value) one way.
lines.append({"label": "scales of keys, bf16", "gpu": "a100", "seed": 125, "graph": varlen(
    [0, 1, 6], 8, 2, 128, lengths=[64, 64], table=[0, 0], page=128, keys=2, stored="e4m3", scales=[-4, -3, -2], is_causal=1, scale=0.2, sums=True)})
lines.append({"label": "scales of keys, f16", "gpu": "h100", "seed": 100, "graph": varlen(
    [0, 64], 8, 2, 64, dtype="f16", lengths=[64], table=[1, 1], page=32, keys=2, stored="e4m3", scales=[-4, -3], left_window_size=40, scale=0.2, sums=True)})
lines.append({"label": "scales of keys, s8", "gpu": "h100", "graph": varlen(
    [0, 128], 4, 1, 128, lengths=[512], table=list(range(8)), page=64, keys=8, stored="s8", scales=[-4, -3, -2], is_causal=1, left_window_size=200, scale=0.01)})
# Pages of one and two rows, which threads bring: a producer's thread kept more places than it had registers.
lines += [{"label": f"pages of few rows, {rows}, {d}, {page}", "gpu": "h100", "graph": varlen(
    [0, rows], 4, 2, d, lengths=[130], table=shuffled(130 // page, 130 // page), page=page, keys=130 // page, stored="s8", scales=scales, is_causal=1, scale=4e-4)}
    for rows, d, page, scales in ((1, 32, 1, []), (1, 128, 1, [-4, -3, -2]), (130, 64, 1, [-4, -3, -2]), (130, 64, 2, []))]
# A slope beside scores near 0: a log-sum-exp is rounded relative to a tile's columns times the slope.
lines.append({"label": "one slope, a short window", "gpu": "h100", "seed": 366, "graph": varlen(
    [0, 33, 163, 180, 310, 311], 1, 1, 192, key_ends=[0, 300, 430, 463, 593, 594], keys=594, slopes=[1], is_causal=1, left_window_size=1, sums=True)})
lines.append({"label": "slopes, rows of two warpgroups", "gpu": "h100", "graph": varlen([0, 100, 200], 2, 2, 64, slopes=[2], is_causal=1)})
run_batch(sys.argv[1], [{**line, "checkers": CLAMPED} if is_wrong(line["graph"]) else line for line in lines])
fault_batch(sys.argv[1], [line for line in lines if is_wrong(line["graph"]) and line["gpu"] == GPUS[0]], "operand")
