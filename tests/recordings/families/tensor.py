"""Copies through tensor maps: 1 to 5 dimensions, every element type, swizzle, fill beyond the edges, negative
coordinates, strided elements, store, reduction, multicast, prefetch."""
import struct

from case import SPECIAL32, noise
from families.bulk import INIT, MEET, WAIT
from kernels import dump_shared, fill_shared, kernel, zero_shared

SIZE = {"u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "tf32": 4}
AREA = 4096  # bytes of a box at most


def tensor(kind, dims, box, swizzle=0, oob="zero", element_strides=None):
    size = SIZE[kind]
    strides, total = [], dims[0] * size
    for d in dims[1:]:
        total = (total + 15) // 16 * 16
        strides.append(total)
        total *= d
    m = {"buffer": "tensor", "type": kind, "dims": dims, "strides": strides, "box": box, "swizzle": swizzle, "oob": oob}
    if element_strides:
        m["element_strides"] = element_strides
    return m, (total + 15) // 16 * 16


def box_bytes(kind, box, element_strides=None):
    n = SIZE[kind]
    # the innermost dimension has no stride: cuTensorMapEncodeTiled ignores it
    for b, s in zip(box, [1] + (element_strides or [1] * len(box))[1:]):
        n *= (b + s - 1) // s
    return n


def coordinates(dims, box):
    """Inside, over each edge, at negative places, wholly outside."""
    out = [[0] * len(dims), [max(d - b, 0) for d, b in zip(dims, box)], [d - (b + 1) // 2 for d, b in zip(dims, box)],
           [-((b + 1) // 2) for b in box], [-1] + [1] * (len(dims) - 1), [d + 3 for d in dims], [-b - 2 for b in box]]
    out += [[(d // 2 if i == j else -2 if i == (j + 1) % len(dims) else 1) for i, d in enumerate(dims)] for j in range(len(dims))]
    return out


def place(count, rank):
    """Reads a block's coordinates into %r20.. from table %in0, and moves %out on."""
    lines = ["mov.u32 %r70, %ctaid.x;", f"mad.wide.u32 %rd0, %r70, 20, %in0;"]
    lines += [f"ld.global.s32 %r{20 + i}, [%rd0+{4 * i}];" for i in range(rank)]
    return "\n".join(lines) + "\n"


def at(rank):
    return "{" + ", ".join(f"%r{20 + i}" for i in range(rank)) + "}"


def table(list_of):
    return b"".join(struct.pack("<5i", *(c + [0] * (5 - len(c)))) for c in list_of)


def content(kind, total):
    if kind in ("f32", "tf32"):
        words = [SPECIAL32[i // 7 % len(SPECIAL32)] if i % 7 == 0 else int.from_bytes(noise(f"tensor {kind}", total)[4 * i:4 * i + 4], "little") for i in range(total // 4)]
        return struct.pack(f"<{len(words)}I", *words)
    return noise(f"tensor {kind}", total)


def load(name, kind, dims, box, swizzle=0, oob="zero", element_strides=None):
    m, total = tensor(kind, dims, box, swizzle, oob, element_strides)
    n = box_bytes(kind, box, element_strides)
    # a box narrower than its swizzle may lie in rows as wide as the swizzle
    area = (max(n, swizzle * n // (SIZE[kind] * box[0])) + 127) // 128 * 128
    list_of = coordinates(dims, box)
    rank = len(dims)
    body = zero_shared(area) + place(0, rank).join(["\n", ""]) + INIT
    body += f"@!%p0 bra wait;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8192], {n};\n"
    body += f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global [%map0, {at(rank)}];\n"
    body += f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%map0, {at(rank)}], [%r1+8192];\n" + WAIT
    body += f"mul.lo.u32 %r71, %r70, {area};\ncvt.u64.u32 %rd1, %r71;\nadd.u64 %rd2, %out, %rd1;\n" + dump_shared(area, to="%rd2")
    return kernel("tensor", f"load.{name}", body, [table(list_of)], area * len(list_of), grid=(len(list_of), 1, 1), shared=8320,
                  maps={"map": m}, buffers={"tensor": content(kind, total)}, width=SIZE[kind])


def store(name, kind, dims, box, swizzle=0, op=None, element_strides=None):
    """All blocks of a store write apart: each has a tensor of its own, which lie one behind another in the last dimension."""
    m, total = tensor(kind, dims, box, swizzle, "zero", element_strides)
    n = box_bytes(kind, box, element_strides)
    area = (n + 127) // 128 * 128
    rank = len(dims)
    list_of = coordinates(dims, box)[:5]
    words = (total + 127) // 128 * 128
    cases = []
    for number, c in enumerate(list_of):
        body = fill_shared(area, source="%in1") + "\n" + place(0, rank)
        if op:
            for i in range(words // 128):
                body += f"mad.wide.u32 %rd3, %lane, 4, %in2;\nld.global.b32 %r2, [%rd3+{128 * i}];\nmad.wide.u32 %rd4, %lane, 4, %tensor;\nst.global.b32 [%rd4+{128 * i}], %r2;\n"
        body += "fence.proxy.async;\nbar.sync 0;\nmov.u32 %r1, mem;\nsetp.eq.u32 %p0, %lane, 0;\n@!%p0 bra done;\n"
        if op:
            body += f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.tile.bulk_group [%map0, {at(rank)}], [%r1];\n"
        else:
            body += f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%map0, {at(rank)}], [%r1];\n"
        body += "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\ndone:\n"
        inputs = [table([c]), content(kind, area)[::-1] if not op or kind not in ("f32", "f16", "bf16") else content(kind, area + 36)[36:]]
        if op:
            inputs.append(content(kind, words))
            if op in ("inc", "dec"):
                inputs[1] = b"".join((x % 7).to_bytes(4, "little") for x in noise("tensor inc", area // 4))
                inputs[2] = b"".join((x % 7).to_bytes(4, "little") for x in noise("tensor dec", words // 4))
        cases.append(kernel("tensor", f"{'reduce' if op else 'store'}.{name}.{number}", body, inputs, 0, shared=8320, maps={"map": m},
                            outputs=[("tensor", words)], width=SIZE[kind]))
    return cases


def multicast(mask, kind="f16"):
    m, total = tensor(kind, [64, 40], [64, 16], 128)
    n = 2048
    body = zero_shared(n) + "\nmov.u32 %r70, %cluster_ctarank;\n" + INIT
    body += f"shr.u32 %r71, {mask}, %r70;\nand.b32 %r71, %r71, 1;\nsetp.ne.u32 %p5, %r71, 0;\nand.pred %p6, %p5, %p0;\n"
    body += f"@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8192], {n};\n" + MEET
    body += f"setp.eq.u32 %p2, %r70, 1;\nand.pred %p3, %p0, %p2;\nmov.b16 %h0, {mask};\n"
    body += "@%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%map0, {%in0_x, %in0_y}], [%r1+8192], %h0;\n".replace("%in0_x", "%r10").replace("%in0_y", "%r11")
    body = "mov.u32 %r10, 0;\nmov.u32 %r11, 5;\n" + body + "@!%p5 bra show;\n" + WAIT + "show:\n"
    body += f"mul.lo.u32 %r72, %r70, {n};\ncvt.u64.u32 %rd1, %r72;\nadd.u64 %rd2, %out, %rd1;\n" + dump_shared(n, to="%rd2") + "\n" + MEET
    return kernel("tensor", f"multicast.{mask}", body, [], 4 * n, grid=(4, 1, 1), cluster=(4, 1, 1), shared=8320, maps={"map": m},
                  buffers={"tensor": content(kind, total)}, width=2)


def legal(case):
    """Boxes whose first element is no multiple of 16 bytes along the rows, or lies before them, end a kernel with an
    illegal instruction on an H100; loads go through such coordinates, too, and wait for kernels of their own."""
    if case.name.startswith("tensor.load"):
        return False
    if case.name.startswith("tensor.reduce.or.s64"):
        return False
    x = int.from_bytes(case.buffers.get("in0", bytes(4))[:4], "little", signed=True)
    kind = case.maps["map"]["type"]
    return case.name.startswith("tensor.multicast") or (x >= 0 and x * SIZE[kind] % 16 == 0)


def cases():
    return [case for case in everything() if legal(case)]


def everything():
    out = []
    for kind, size in SIZE.items():
        for oob in ("zero", "nan") if kind in ("f16", "bf16", "f32", "f64", "tf32") else ("zero",):
            out.append(load(f"2d.{kind}.{oob}", kind, [24, 9], [16 * 2 // size if size < 4 else 8, 5], oob=oob))
        out += store(f"2d.{kind}", kind, [24, 9], [16 * 2 // size if size < 4 else 8, 5])
    shapes = {1: ([100], [32]), 2: ([40, 11], [16, 6]), 3: ([24, 7, 5], [16, 3, 4]), 4: ([16, 6, 5, 4], [8, 4, 3, 2]), 5: ([16, 5, 4, 3, 3], [8, 3, 2, 2, 2])}
    for rank, (dims, box) in shapes.items():
        for kind in ("f32", "bf16", "u8"):
            scale = {4: 1, 2: 1, 1: 2}[SIZE[kind]]
            d, b = [dims[0] * scale] + dims[1:], [box[0] * scale] + box[1:]
            out.append(load(f"{rank}d.{kind}.shape", kind, d, b))
            out += store(f"{rank}d.{kind}.shape", kind, d, b)
    for swizzle in (32, 64, 128):
        for kind in ("u8", "bf16", "f32", "f64"):
            inner = swizzle // SIZE[kind]
            for rows in (9, 20):
                out.append(load(f"swizzle{swizzle}.{kind}.{rows}", kind, [inner * 2, 25], [inner, rows], swizzle))
            out.append(load(f"swizzle{swizzle}.{kind}.narrow", kind, [inner * 2, 25], [16 // SIZE[kind], 20], swizzle))
            out.append(load(f"swizzle{swizzle}.{kind}.3d", kind, [inner * 2, 7, 6], [inner, 3, 5], swizzle))
            out += store(f"swizzle{swizzle}.{kind}", kind, [inner * 2, 25], [inner, 11], swizzle)
    for strides in ([1, 2], [2, 1], [2, 3]):
        name = "x".join(str(s) for s in strides)
        out.append(load(f"strided.{name}", "f32", [40, 21], [16, 9], element_strides=strides))
    out.append(load("strided.3d", "bf16", [64, 9, 8], [32, 4, 5], element_strides=[1, 3, 2]))
    for kind, ops in {"u32": ("add", "min", "max", "inc", "dec", "and", "or", "xor"), "s32": ("add", "min", "max", "and"), "u64": ("add", "min", "max", "xor"),
                      "s64": ("min", "max", "or"), "f16": ("add", "min", "max"), "bf16": ("add", "min", "max"), "f32": ("add",), "f64": ("add",)}.items():
        for op in ops:
            out += store(f"{op}.{kind}", kind, [24, 9], [8, 5], op=op)[1:3]
    out += [multicast(mask) for mask in (1, 2, 3, 5, 8, 15)]
    return out
