#!/usr/bin/env python3
"""attention_paged.py ADLGEN IR_TOOL: templates/attention_decode.ir, filled in for keys and values in pages, on the simulator against double
precision: pages of 1 to 256 rows, out of order and shared, lengths loaded, entries behind a length and beyond the cache of no meaning,
pages that nobody uses full of NaN; keys divided among blocks, and not."""
import math
import os
import random
import re
import sys
import tempfile
import pathlib

from attending import LIMIT, LSE_LIMIT, NEW_ROWS, PARTS, TEMPLATES, TYPES, Shape, attend
from kernel import Kernel, call

PLACES, ROWS, KIND = 24, 64, "bf16"
LENGTHS = (0, 1, 63, 64, 65, 127, 128, 129, 300)
# page, keys of a tile, heads inside (NHD) or not (HND), blocks that share a head's keys
CASES = [(16, 64, True, 3), (128, 64, False, 3), (64, 64, True, 0), (4, 64, False, 2)]
FULL = [(page, 64, inside, parts) for page in (1, 2, 8, 16, 32, 64, 128, 256) for inside in (True, False) for parts in (0, 3)] + [(48, 48, True, 2), (96, 32, True, 2)]
MUTANTS = {"page of the next sequence": ("load T[%b, %at]", "load T[%b + 1, %at]"), "next page": ("%at: s32 = let %key / ", "%at: s32 = let 1 + %key / ")}
MORE = """
func table(%b: s32, %h: s32, %key: s32, %seen: s32, T: tensor<s32>[B, P], %pages: s32) -> s32 {
  %at: s32 = let %key / PAGE
  %page: s32 = load T[%b, %at]
  %slab: s32 = let %key < %seen && %page >= 0 && %page < %pages ? %page : %pages
  return %slab
}
func length(%b: s32, %h: s32, LEN: tensor<s32>[B]) -> s32 {
  %n: s32 = load LEN[%b]
  return %n
}
func within(%s: tile<f32>[m, n], %b: s32, %h: s32, %row: s32, %key: s32, LEN: tensor<s32>[B]) -> tile<f32>[m, n] {
  %n: s32 = load LEN[%b]
  %across: tile<s32>[1, n] = iota dim 1
  %at: tile<s32>[1, n] = add %across, %key
  %there: tile<bool>[1, n] = lt %at, %n
  %x: tile<f32>[m, n] = select %there, %s, -inf
  return %x
}
"""


def filled_in(ir_tool, folder, page, keys, heads_inside, parts, d, mutant=None):
    text = (TEMPLATES / "attention_decode.ir").read_text()
    strides = {w: f" strides [{page} * (H / G) * {w}, {w}, (H / G) * {w}, 1]" if heads_inside else "" for w in ("$d", "$dv")}
    lies = ", ".join(f"{name}: tensor<$tk>[SLABS, H / G, {page}, {w}]{strides[w]} align 16" for name, w in (("K", "$d"), ("V", "$dv")))
    for old, new in (("K: tensor<$tk>[B, H / G, N, $d], V: tensor<$tk>[B, H / G, N, $dv]",
                      f"{lies}, O: tensor<{KIND}>[B, H, M, $dv] align 16, L: tensor<f32>[B, H, M, 1], T: tensor<s32>[B, P], LEN: tensor<s32>[B]"),
                     ("Q: tensor<$t>[B, H, M, $d]", "Q: tensor<$t>[B, H, M, $d] align 16"), ("PARTS: s32 launch", "PARTS: s32, SLABS: s32, P: s32 launch")):
        if old not in text:
            sys.exit(f"the template has no `{old}`")
        text = text.replace(old, new)
    for function, more in (("epilogue", "O, L"), ("slab", "T, SLABS"), ("seen", "LEN"), ("score", "LEN")):
        text = re.sub(rf"(call \${function}\(.*)\)", rf"\1, {more})", text)
    parts_text = (PARTS + MORE).replace("TYPE", KIND).replace("PAGE", str(page))
    if mutant:
        if mutant[0] not in parts_text:
            sys.exit(f"no `{mutant[0]}`")
        parts_text = parts_text.replace(*mutant)
    path = pathlib.Path(folder) / "attention_decode.ir"
    path.write_text(text + parts_text)
    bound = {"t": KIND, "tk": KIND, "keyed": "@as_they_are", "values": "@as_they_are", **NEW_ROWS, "seen": "@length", "slab": "@table", "score": "@within", "epilogue": "@keep", "page": page, "keys": keys, "stages": 3, "places": PLACES,
             "most": 6, "divided": int(parts > 0), "d": d, "dv": d, "scale": 1 / math.sqrt(d)}
    path.write_text(call(ir_tool, "instantiate", path, *[f"{name}={value}" for name, value in bound.items()]))
    return path


def pages_of(lengths, page, columns):
    """A table: pages out of order, the first sequences' first one shared; entries behind a length name no page, or another's. Pages of the cache."""
    needed = sum(-(-n // page) for n in lengths)
    free = random.sample(range(needed + 3), needed + 3)
    table = [[random.choice([-1, 1 << 20, 0, -(1 << 31)]) for _ in range(columns)] for _ in lengths]
    for row, n in zip(table, lengths):
        row[:-(-n // page)] = [free.pop() for _ in range(-(-n // page))]
    full = [row for row, n in zip(table, lengths) if n >= page]
    if len(full) > 1:
        full[1][0] = full[0][0]
    return table, needed + 3


def run(kernel, lengths, page, heads, group, queries, d, heads_inside, parts):
    to_bits, to_number = TYPES[KIND]
    batches, kv_heads = len(lengths), heads // group
    columns = -(-max(max(lengths), 1) // page) + 1
    table, slabs = pages_of(lengths, page, columns)
    used = {row[i // page] for row, n in zip(table, lengths) for i in range(0, n, page)}

    def place(slab, h, r):
        return ((slab * page + r) * kv_heads + h) * d if heads_inside else ((slab * kv_heads + h) * page + r) * d

    q = [to_bits(random.gauss(0, 1)) for _ in range(batches * heads * queries * d)]
    caches = {}
    for name in "KV":
        cache = [0x7FC0] * (slabs * page * kv_heads * d)
        for slab in used:
            cache[slab * page * kv_heads * d:(slab + 1) * page * kv_heads * d] = [to_bits(random.gauss(0, 1)) for _ in range(page * kv_heads * d)]
        caches[name] = cache
    buffers = {"Q": (KIND, q), "K": (KIND, caches["K"]), "V": (KIND, caches["V"]), "O": (KIND, [0x7E00] * len(q)),
               "L": ("f32", [7.0] * (batches * heads * queries)), "T": ("s32", [x for row in table for x in row]), "LEN": ("s32", list(lengths)),
               "attention_left": ("f32", [0] * (PLACES * ROWS * (d + 4))), "attention_posts": ("s32", [0] * (PLACES * 64))}
    maps = {}
    for name in kernel.boxes:
        box, swizzle = kernel.boxes[name]
        dims = [d, queries, heads, batches] if name in "QO" else [d, page, kv_heads, slabs]
        strides = [d, queries * d, heads * queries * d] if name in "QO" else [kv_heads * d, d, page * kv_heads * d] if heads_inside else [d, page * d, kv_heads * page * d]
        maps[name] = {"dims": dims, "box": box, "strides": [2 * s for s in strides], "swizzle": swizzle}
    dims = [batches, heads, group, queries, columns * page, 0, max(1, parts), slabs, columns]
    out, lse, posts = kernel.run(batches * heads * max(1, parts), kernel.shared, buffers, dims, maps, "O", "L", "attention_posts")
    if any(posts):
        sys.exit("posts are left behind")
    error = size = 0.0
    for b, n in enumerate(lengths):
        shape = Shape(1, 1, 1, queries, n, d, d)
        for h in range(heads):
            k, v = ([[to_number(x) for x in caches[name][p:p + d]] for p in (place(table[b][i // page], h // group, i % page) for i in range(n))] for name in "KV")
            at = (b * heads + h) * queries
            rows = [[to_number(x) for x in q[(at + i) * d:(at + i + 1) * d]] for i in range(queries)]
            for i, (wanted, wanted_lse) in enumerate(attend(shape, rows, k, v, 1 / math.sqrt(d), None)):
                found = [to_number(x) for x in out[(at + i) * d:(at + i + 1) * d]]
                error += sum((x - y) ** 2 for x, y in zip(found, wanted))
                size += sum(y * y for y in wanted)
                if not (lse[at + i] == wanted_lse or abs(lse[at + i] - wanted_lse) <= LSE_LIMIT):
                    sys.exit(f"log-sum-exp of row {i} of head {h} of a sequence of {n} keys is {lse[at + i]}, not {wanted_lse}")
                if n == 0 and any(found):
                    sys.exit("a sequence without keys does not give 0")
    relative = math.sqrt(error / size) if size else math.sqrt(error)
    if not relative <= LIMIT:
        sys.exit(f"error {relative:.2e}, limit {LIMIT}")
    return relative


def words_of(gpu, page):
    if gpu == "h100" and page % 8 == 0:
        return ["via tma", "via warpgroup", "role @producer"]
    return ["via async", "via warp"]


def find_mutants(adlgen, ir_tool, gpu):
    for name, mutant in MUTANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = filled_in(ir_tool, folder, 16, 64, True, 3, 64, mutant)
            kernel = Kernel(adlgen, path, "attention_decode", gpu, [], folder, 132, "budget_registers")
            try:
                error = run(kernel, (129, 63), 16, 2, 2, 1, 64, True, 3)
            except SystemExit:
                continue
            sys.exit(f"nobody sees that {name}: error {error:.2e}")
    print(f"{gpu}: {len(MUTANTS)} mutants found")


def main(adlgen, ir_tool):
    random.seed(19)
    full = os.environ.get("ADLGEN_TEST_FULL")
    for gpu in ("h100", "a100"):
        for page, keys, heads_inside, parts in CASES + (FULL if full else []):
            with tempfile.TemporaryDirectory() as folder:
                path = filled_in(ir_tool, folder, page, keys, heads_inside, parts, 64)
                kernel = Kernel(adlgen, path, "attention_decode", gpu, words_of(gpu, page), folder, 132, "budget_registers")
                sets = [LENGTHS[i:i + 3] for i in range(0, 9, 3)] if full or page == 16 else [random.sample(LENGTHS, 3)]
                worst = max(run(kernel, lengths, page, 2, 2, 2, 64, heads_inside, parts) for lengths in sets)
                print(f"{gpu}, pages of {page}, {'NHD' if heads_inside else 'HND'}, {parts} parts: error {worst:.2e}, limit {LIMIT}")
        find_mutants(adlgen, ir_tool, gpu)


main(*sys.argv[1:])
