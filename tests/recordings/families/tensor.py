"""Copies through tensor maps: 1 to 5 dimensions, every element type, swizzle, fill beyond the edges, negative
coordinates, strided elements, what a tf32 map does to f32, store, reduction, multicast, prefetch.

A load's kernel has one block per box. A store's has one block, since what it writes is its result. Cases called
limit.* have one box each: some end a kernel with an error on the GPU, and the simulator has to report a fault there."""
import struct

from case import SPECIAL32, noise
from families.bulk import INIT, MEET, WAIT
from kernels import dump_shared, fill_shared, kernel, zero_shared

SIZE = {"u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "tf32": 4,
        "f32_ftz": 4, "tf32_ftz": 4}
WORDS = ("f32", "tf32", "f32_ftz", "tf32_ftz")  # types of tensor maps that may change a word of f32
FLOATS = ("f16", "bf16", "f64") + WORDS
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def tensor(kind, dims, box, swizzle=0, oob="zero", element_strides=None):
    size = SIZE[kind]
    strides, total = [], dims[0] * size
    for d in dims[1:]:
        total = (total + 15) // 16 * 16
        strides.append(total)
        total *= d
    m = {"buffer": "tensor", "type": kind.removesuffix("_ftz"), "dims": dims, "strides": strides, "box": box, "swizzle": swizzle, "oob": oob}
    if kind.endswith("_ftz"):
        m["ftz"] = True
    if element_strides:
        m["element_strides"] = element_strides
    return m, (total + 127) // 128 * 128


def box_bytes(kind, box, element_strides=None):
    n = SIZE[kind]
    # the innermost dimension has no stride: cuTensorMapEncodeTiled ignores it
    for b, s in zip(box, [1] + (element_strides or [1] * len(box))[1:]):
        n *= (b + s - 1) // s
    return n


def area_of(kind, box, swizzle, element_strides=None):
    """Bytes of shared memory: a box narrower than its swizzle may lie in rows as wide as the swizzle."""
    n = box_bytes(kind, box, element_strides)
    return (max(n, swizzle * n // (SIZE[kind] * box[0])) + 127) // 128 * 128


def corners(kind, dims, box):
    """Boxes at coordinates from zero on whose rows begin at a multiple of 16 bytes: inside, over each edge, beyond."""
    unit = 16 // SIZE[kind]
    down = lambda c: [c[0] // unit * unit] + c[1:]
    last = [max(d - b, 0) for d, b in zip(dims, box)]
    out = [[0] * len(dims), last, [d - (b + 1) // 2 for d, b in zip(dims, box)], [d - 1 for d in dims]]
    out += [[d - 1 if i == j else x for i, (d, x) in enumerate(zip(dims, last))] for j in range(len(dims))]
    out += [[d + unit for d in dims]]
    unique = []
    for c in map(down, out):
        if c not in unique:
            unique.append(c)
    return unique


def negative(kind, dims, box):
    """Boxes that begin before the tensor in all dimensions, in one, or end before it."""
    unit = 16 // SIZE[kind]
    out = [[-unit] + [-1] * (len(dims) - 1), [-box[0] // 2 // unit * unit] + [-((b + 1) // 2) for b in box[1:]], [-(b + unit - 1) // unit * unit for b in box]]
    out += [[-(unit if i == 0 else 2) if i == j else unit if i == 0 else 1 for i in range(len(dims))] for j in range(len(dims))]
    return out


def place(rank):
    """Reads the block's coordinates into %r20.. from table %in0."""
    lines = ["mov.u32 %r70, %ctaid.x;", "mad.wide.u32 %rd0, %r70, 20, %in0;"]
    return "\n" + "\n".join(lines + [f"ld.global.s32 %r{20 + i}, [%rd0+{4 * i}];" for i in range(rank)]) + "\n"


def at(rank):
    return "{" + ", ".join(f"%r{20 + i}" for i in range(rank)) + "}"


def table(list_of):
    return b"".join(struct.pack("<5i", *(c + [0] * (5 - len(c)))) for c in list_of)


def content(kind, total):
    data = noise(f"tensor {kind}", total)
    if kind not in WORDS:
        return data
    words = list(struct.unpack(f"<{total // 4}I", data))
    for i in range(0, len(words), 7):
        words[i] = SPECIAL32[i // 7 % len(SPECIAL32)]
    return struct.pack(f"<{len(words)}I", *words)


def rounding_words():
    """Words of f32 that tell the ways of rounding to 10 bits of mantissa apart: 256 of them."""
    low = (0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2001, 0x2fff, 0x3000, 0x3001, 0x3fff, 0x7fefff, 0x7ff000, 0x7ff001, 0x7fffff)
    high = (0x3f8, 0x000, 0x008, 0x7f0, 0x7f8, 0x400, 0x07f, 0x320)
    words = [sign | h << 20 | x for h in high for x in low for sign in (0, 1 << 31)]
    return struct.pack("<256I", *words)


def renamed(case, name):
    """The case under a name of its own: kernels of one text are assembled once."""
    case.name = f"tensor.{name}"
    return case


def load(name, kind, dims, box, swizzle=0, oob="zero", element_strides=None, boxes=None, data=None):
    m, total = tensor(kind, dims, box, swizzle, oob, element_strides)
    n, area = box_bytes(kind, box, element_strides), area_of(kind, box, swizzle, element_strides)
    list_of = boxes or corners(kind, dims, box)
    rank = len(dims)
    body = zero_shared(area) + place(rank) + INIT
    body += f"@!%p0 bra wait;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8192], {n};\n"
    body += f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile [%map0, {at(rank)}];\n"
    body += f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%map0, {at(rank)}], [%r1+8192];\n" + WAIT
    body += f"mul.lo.u32 %r71, %r70, {area};\ncvt.u64.u32 %rd1, %r71;\nadd.u64 %rd2, %out, %rd1;\n" + dump_shared(area, to="%rd2")
    return renamed(kernel("tensor", f"load.{rank}d.{n}.{area}", body, [table(list_of)], area * len(list_of), grid=(len(list_of), 1, 1), shared=8320,
                          maps={"map": m}, buffers={"tensor": data or content(kind, total)}, width=SIZE[kind], label=name, module=f"tensor_load{rank}"), name)


def loads(name, kind, dims, box, **more):
    return [load(f"load.{name}", kind, dims, box, **more),
            load(f"load.{name}.negative", kind, dims, box, boxes=negative(kind, dims, box), **more)]


def store(name, kind, dims, box, where, swizzle=0, op=None, element_strides=None, source=None, before=None):
    """One box; the tensor is zero before, or `before` (always so for a reduction)."""
    m, total = tensor(kind, dims, box, swizzle, "zero", element_strides)
    area, rank = area_of(kind, box, swizzle, element_strides), len(dims)
    body = fill_shared(area, source="%in1") + place(rank)
    if op:
        body += "mad.wide.u32 %rd3, %lane, 4, %in2;\nmad.wide.u32 %rd4, %lane, 4, %tensor;\n"
        body += f"mov.u32 %r3, 0;\ncopy:\nld.global.b32 %r2, [%rd3];\nst.global.b32 [%rd4], %r2;\nadd.u64 %rd3, %rd3, 128;\nadd.u64 %rd4, %rd4, 128;\nadd.u32 %r3, %r3, 128;\nsetp.lt.u32 %p2, %r3, {total};\n@%p2 bra copy;\nfence.proxy.async.global;\n"
    body += "fence.proxy.async;\nbar.sync 0;\nmov.u32 %r1, mem;\nsetp.eq.u32 %p0, %lane, 0;\n@!%p0 bra done;\n"
    copy = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.tile" if op else f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile"
    body += f"{copy}.bulk_group [%map0, {at(rank)}], [%r1];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\ndone:\n"
    inputs = [table([where]), source or content(kind, area + 36)[36:]]
    if op in ("inc", "dec"):
        inputs[1] = b"".join((x % 7).to_bytes(4, "little") for x in noise("tensor inc", area // 4))
        inputs.append(b"".join((x % 7).to_bytes(4, "little") for x in noise("tensor dec", total // 4)))
    elif op:
        inputs.append(before or content(kind, total))
    return renamed(kernel("tensor", f"{op or 'store'}.{rank}d.{area}.{total if op else 0}", body, inputs, 0, shared=8320, maps={"map": m},
                          outputs=[("tensor", total)], width=SIZE[kind], label=name, module=f"tensor_store{rank}"), name)


def stores(name, kind, dims, box, boxes=None, **more):
    return [store(f"store.{name}.{i}", kind, dims, box, c, **more) for i, c in enumerate(boxes or corners(kind, dims, box))]


def multicast(mask, kind="f16"):
    m, total = tensor(kind, [64, 40], [64, 16], 128)
    n = 2048
    body = zero_shared(n) + "\nmov.u32 %r70, %cluster_ctarank;\n" + INIT
    body += f"shr.u32 %r71, {mask}, %r70;\nand.b32 %r71, %r71, 1;\nsetp.ne.u32 %p5, %r71, 0;\nand.pred %p6, %p5, %p0;\n"
    body += f"@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8192], {n};\n" + MEET
    body += f"setp.eq.u32 %p2, %r70, 1;\nand.pred %p3, %p0, %p2;\nmov.b16 %h0, {mask};\n"
    body += "@%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%map0, {%r10, %r11}], [%r1+8192], %h0;\n"
    body = "mov.u32 %r10, 0;\nmov.u32 %r11, 5;\n" + body + "@!%p5 bra show;\n" + WAIT + "show:\n"
    body += f"mul.lo.u32 %r72, %r70, {n};\ncvt.u64.u32 %rd1, %r72;\nadd.u64 %rd2, %out, %rd1;\n" + dump_shared(n, to="%rd2") + "\n" + MEET
    return kernel("tensor", f"multicast.{mask}", body, [], 4 * n, grid=(4, 1, 1), cluster=(4, 1, 1), shared=8320, maps={"map": m},
                  buffers={"tensor": content(kind, total)}, width=2, module="tensor_multicast")


SHAPES = {1: ([100], [32]), 2: ([40, 11], [16, 6]), 3: ([24, 7, 5], [16, 3, 4]), 4: ([16, 6, 5, 4], [8, 4, 3, 2]), 5: ([16, 5, 4, 3, 3], [8, 3, 2, 2, 2])}
REDUCTIONS = {"u32": OPERATIONS, "s32": ("add", "min", "max", "and"), "u64": ("add", "min", "max", "xor"), "s64": ("min", "max"),
              "f16": ("add", "min", "max"), "bf16": ("add", "min", "max"), "f32": ("add",), "f64": ("add",)}


def copies():
    out = []
    for kind, size in SIZE.items():
        # 21 elements: the last 16 bytes of a row are not all the tensor's
        for d in (24, 21):
            box = [32 // size if size < 4 else 8, 5]
            for oob in ("zero", "nan") if kind in FLOATS else ("zero",):
                out += loads(f"2d.{d}.{kind}.{oob}", kind, [d, 9], box, oob=oob)
            out += stores(f"2d.{d}.{kind}", kind, [d, 9], box, boxes=[[0, 0], [16, 6]])
    for rank, (dims, box) in SHAPES.items():
        for kind in ("f32", "bf16", "u8"):
            scale = {4: 1, 2: 1, 1: 2}[SIZE[kind]]
            d, b = [dims[0] * scale] + dims[1:], [box[0] * scale] + box[1:]
            out += loads(f"{rank}d.{kind}.shape", kind, d, b)
            if kind == "f32":
                out += stores(f"{rank}d.{kind}.shape", kind, d, b)
    for swizzle in (32, 64, 128):
        for kind in ("u8", "bf16", "f32", "f64"):
            inner = swizzle // SIZE[kind]
            out += loads(f"swizzle{swizzle}.{kind}", kind, [inner * 2 - 1, 25], [inner, 9], swizzle=swizzle)
            out.append(load(f"load.swizzle{swizzle}.{kind}.narrow", kind, [inner * 2, 25], [16 // SIZE[kind], 20], swizzle))
            out += stores(f"swizzle{swizzle}.{kind}", kind, [inner * 2, 25], [inner, 11], boxes=[[0, 0], [inner, 20]], swizzle=swizzle)
        out.append(load(f"load.swizzle{swizzle}.3d", "bf16", [swizzle, 7, 6], [swizzle // 2, 3, 5], swizzle))
        out += stores(f"swizzle{swizzle}.narrow", "bf16", [swizzle, 25], [8, 11], boxes=[[8, 20]], swizzle=swizzle)
    for strides in ([1, 2], [2, 1], [2, 3]):
        name = "x".join(str(s) for s in strides)
        out += loads(f"strided.{name}", "f32", [40, 21], [16, 9], element_strides=strides)
        out += stores(f"strided.{name}", "f32", [40, 21], [16, 9], boxes=[[0, 0], [28, 15]], element_strides=strides)
    out += loads("strided.3d", "bf16", [64, 9, 8], [32, 4, 5], element_strides=[1, 3, 2])
    for kind in WORDS:
        words = rounding_words()
        out.append(load(f"load.rounding.{kind}", kind, [32, 8], [32, 8], boxes=[[0, 0]], data=words))
        out.append(store(f"store.rounding.{kind}", kind, [32, 8], [32, 8], [0, 0], source=words))
        for other in (0, 0x80000000, 0x3f800000):
            out.append(store(f"reduce.rounding.{kind}.{other:x}", kind, [32, 8], [32, 8], [0, 0], op="add", source=words, before=struct.pack("<I", other) * 256))
    for kind, ops in REDUCTIONS.items():
        for op in ops:
            out += [store(f"reduce.{op}.{kind}.{i}", kind, [21, 9], [8, 5], c, op=op) for i, c in enumerate(([8, 3], [16, 6]))]
    return out + [multicast(mask) for mask in (1, 2, 3, 5, 8, 15)]


def limits():
    """Boxes and reductions that a GPU may refuse, each in a launch of its own."""
    out = []
    for name, where in {"edge": [48, 9], "left": [-16, 2], "inside": [-32, 0], "over": [32, -2], "corner": [-16, -2]}.items():
        out += [store(f"limit.store.{name}.{kind}", kind, [64, 11], [32, 5], where) for kind in ("u8", "f32")]
    for name, where in {"one": [1, 2], "before": [-1, 2], "beyond": [61, 2], "half": [2, 2]}.items():
        for kind in ("u8", "bf16", "f32"):
            out.append(load(f"limit.load.{name}.{kind}", kind, [64, 11], [32, 5], boxes=[where]))
            if kind != "bf16":
                out.append(store(f"limit.store.{name}.{kind}", kind, [64, 11], [32, 5], where))
    for kind in [k for k in SIZE if not k.endswith("_ftz")]:
        for op in OPERATIONS:
            if op not in REDUCTIONS.get(kind, ()):
                out.append(store(f"limit.{op}.{kind}", kind, [32, 9], [16, 5], [0, 0], op=op))
    return out


def cases():
    return copies() + limits()
