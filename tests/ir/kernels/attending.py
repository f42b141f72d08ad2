"""What the tests of attention's templates share: a template filled in, attention in double precision, and the comparison."""
import math
import operator
import pathlib
import random
import re
import struct
import sys

from kernel import HERE, bf16, call, number

TEMPLATES = HERE.parents[2] / "templates"
LIMIT = 4e-3  # of results of 16 bits, whose probabilities have as many
LSE_LIMIT = 2e-3
# what a writer adds: the scores as they are, and what becomes of a tile of results
PARTS = """
func all_keys(%b: s32, %h: s32) -> s32 {
  %n: s32 = let 1073741824
  return %n
}
func from_0(%b: s32) -> s32 {
  %n: s32 = let 0
  return %n
}
func no_page(%b: s32, %h: s32, %key: s32, %seen: s32) -> s32 {
  %n: s32 = let 0
  return %n
}
func plain(%s: tile<f32>[m, n], %b: s32, %h: s32, %row: s32, %key: s32) -> tile<f32>[m, n] {
  return %s
}
func plain_behind(%s: tile<f32>[m, n], %b: s32, %h: s32, %row: s32, %key: s32, %shift: s32, %tile: s32, %more: s32, %begin: s32, %length: s32) -> tile<f32>[m, n] {
  return %s
}
func from_first(%tile: s32) -> tile<s32>[ROWS, 1] {
  %down: tile<s32>[ROWS, 1] = iota dim 0
  return %down
}
func no_heads(Q: tensor<TYPE>[B, H, M, D], %h: s32, %row: s32, %begin: s32, %end: s32) -> tile<TYPE>[ROWS, WIDTH] {
  %none: tile<TYPE>[ROWS, WIDTH] = splat 0.0
  return %none
}
func as_they_are(%v: tile<TYPE>[m, n], %b: s32, %h: s32, %key: s32, %seen: s32) -> tile<TYPE>[m, n] {
  return %v
}
func keep(%o: tile<f32>[m, n], %lse: tile<f32>[m, 1], %b: s32, %h: s32, %row: s32, O: tensor<TYPE>[B, H, S, D], L: tensor<f32>[B, H, S, E]) {
  %out: tile<TYPE>[m, n] = cast %o
  store O[%b, %h, %row, 0] <- %out
  store L[%b, %h, %row, 0] <- %lse
}

func at_highest(%high: tile<f32>[m, 1]) -> tile<f32>[m, 1] {
  return %high
}
"""


def f16(value):
    return struct.unpack("<H", struct.pack("<e", value))[0]


def half(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


TYPES = {"bf16": (bf16, number), "f16": (f16, half)}


# There are none here, and nobody calls what they are of.
NEW_ROWS = dict.fromkeys(("own", "value", "place", "new_key", "new_value", "kept"), "@as_they_are")


def filled_in(ir_tool, folder, name, kind, heads_inside, mutant=None, **parameters):
    """The template with outputs and parts; heads_inside: tensors lie as [batch, sequence, head, element]."""
    text = (TEMPLATES / f"{name}.ir").read_text()
    text = text.replace("[B, H / G, N, $dv]", f"[B, H / G, N, $dv], O: tensor<{kind}>[B, H, M, $dv], L: tensor<f32>[B, H, M, 1]")
    text = re.sub(r"(call \$epilogue\(.*)\)", r"\1, O, L)", text)
    if mutant:
        if mutant[0] not in text:
            sys.exit(f"the template has no `{mutant[0]}`")
        text = text.replace(*mutant)
    for tensor, heads, rows, width in (("Q", "H", "M", "$d"), ("K", "H / G", "N", "$d"), ("V", "H / G", "N", "$dv"), ("O", "H", "M", "$dv")):
        element = kind if tensor == "O" else "$t" if tensor == "Q" else "$tk"
        head = f"{tensor}: tensor<{element}>[B, {heads}, {rows}, {width}]"
        if head not in text:
            sys.exit(f"the template has no `{head}`")
        strides = f" strides [{rows} * ({heads}) * {width}, {width}, ({heads}) * {width}, 1]" if heads_inside else ""
        text = text.replace(head, f"{head}{strides} align 16")
    path = pathlib.Path(folder) / f"{name}.ir"
    own = {"tk": kind, "keyed": "@as_they_are", "values": "@as_they_are", "seen": "@all_keys", "slab": "@no_page", "behind": "@from_0", "down": "@from_first", "start": "@at_highest", "gathered": "@no_heads",
           **NEW_ROWS}
    bound = {"t": kind, **{name: value for name, value in own.items() if f"param {name}:" in text}, "score": "@plain_behind" if "$down" in text else "@plain", "epilogue": "@keep", **parameters}
    path.write_text(text + PARTS.replace("TYPE", kind).replace("ROWS", str(bound.get("rows", 128))).replace("WIDTH", str(bound.get("d", 128))))
    path.write_text(call(ir_tool, "instantiate", path, *[f"{name}={value}" for name, value in bound.items()]))
    return path


class Shape:
    def __init__(self, batches, heads, group, queries, keys, d, dv):
        self.batches, self.heads, self.group, self.queries, self.keys, self.d, self.dv = batches, heads, group, queries, keys, d, dv


def attend(shape, q, k, v, scale, diagonal):
    """Results and log-sum-exps of one head; diagonal: None, or how many keys more than its own number a row sees."""
    columns = list(zip(*v))
    for i in range(shape.queries):
        n = shape.keys if diagonal is None else max(0, min(shape.keys, i + diagonal + 1))
        scores = [scale * sum(map(operator.mul, q[i], k[j])) for j in range(n)]
        if not scores:
            yield [0.0] * shape.dv, -math.inf
            continue
        peak = max(scores)
        weights = [math.exp(s - peak) for s in scores]
        total = sum(weights)
        yield [sum(map(operator.mul, weights, c)) / total for c in columns], peak + math.log(total)


def rows_of(shape, values, heads, count, width, heads_inside, b, h):
    """Where the rows of a head lie in a tensor."""
    for s in range(count):
        at = ((b * count + s) * heads + h) * width if heads_inside else ((b * heads + h) * count + s) * width
        yield values[at:at + width]


def map_of(shape, heads, count, width, box, swizzle, heads_inside):
    dims = [width, count, heads, shape.batches]
    strides = [heads * width, width, heads * count * width] if heads_inside else [width, count * width, heads * count * width]
    return {"dims": dims, "box": box, "strides": [2 * s for s in strides], "swizzle": swizzle}


def run(kernel, kind, shape, blocks, scale, diagonal, heads_inside, more_dims=(), workspace=()):
    to_bits, to_number = TYPES[kind]
    kv_heads = shape.heads // shape.group
    counts = {"Q": (shape.heads, shape.queries, shape.d), "K": (kv_heads, shape.keys, shape.d), "V": (kv_heads, shape.keys, shape.dv),
              "O": (shape.heads, shape.queries, shape.dv)}
    values = {name: [to_bits(random.gauss(0, 1)) for _ in range(shape.batches * h * s * w)] for name, (h, s, w) in counts.items() if name != "O"}
    buffers = {name: (kind, values[name]) for name in "QKV"}
    buffers["O"] = (kind, [0x7E00] * (shape.batches * shape.heads * shape.queries * shape.dv))
    buffers["L"] = ("f32", [7.0] * (shape.batches * shape.heads * shape.queries))
    buffers.update({name: (element, [0] * n) for name, element, n in workspace})
    maps = {name: map_of(shape, *counts[name], *kernel.boxes[name], heads_inside) for name in kernel.boxes}
    dims = [shape.batches, shape.heads, shape.group, shape.queries, shape.keys, diagonal or 0, *more_dims]
    posts = [name for name, *_ in workspace if name.endswith(("posts", "counter"))]
    out, lse, *left = kernel.run(blocks, kernel.shared, buffers, dims, maps, "O", "L", *posts)
    if any(map(any, left)):
        sys.exit("posts are left behind, or a counter has not come round")
    error = size = 0.0
    for b in range(shape.batches):
        for h in range(shape.heads):
            q, k, v = ([[to_number(x) for x in row] for row in rows_of(shape, values[name], *counts[name], heads_inside, b, h if name == "Q" else h // shape.group)]
                       for name in "QKV")
            found = rows_of(shape, out, *counts["O"], heads_inside, b, h)
            for i, ((wanted, wanted_lse), row) in enumerate(zip(attend(shape, q, k, v, scale, diagonal), found)):
                error += sum((to_number(x) - y) ** 2 for x, y in zip(row, wanted))
                size += sum(y * y for y in wanted)
                at = lse[(b * shape.heads + h) * shape.queries + i]
                if not (at == wanted_lse or abs(at - wanted_lse) <= LSE_LIMIT):
                    sys.exit(f"log-sum-exp of row {i} of head {h} is {at}, not {wanted_lse}")
                if wanted_lse == -math.inf and any(row):
                    sys.exit(f"row {i} of head {h} sees nothing, and is not 0")
    relative = math.sqrt(error / size) if size else math.sqrt(error)
    if not relative <= LIMIT:
        sys.exit(f"error {relative:.2e}, limit {LIMIT}")
    return relative
