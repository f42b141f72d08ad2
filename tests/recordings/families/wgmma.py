"""wgmma: every type and N, A from registers and from shared memory, every swizzle, both majors, signs and scale-d.

A block copies a blob into shared memory as it is and multiplies it through descriptors that the case gives, so what a
descriptor means shows in the result alone. Blocks differ in data, swizzle and scale-d."""
from case import Case, Segment
from matrixdata import MIXES, operand

A_BYTES, B_BYTES = 8192, 32768
K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
SIZE = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def types():
    """(D, A, B)"""
    out = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
    out += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    return out + [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]


def columns(d):
    return list(range(8, 257, 8)) if d != "s32" else [8, 16, 24] + list(range(32, 257, 16))


def descriptor(swizzle, offset, leading, stride):
    return MODES[swizzle] << 62 | stride >> 4 << 32 | leading >> 4 << 16 | offset >> 4


def along_k(swizzle, offset, rows):
    """Rows of an operand that lies along k: groups of eight, one behind another."""
    if swizzle == 0:
        return descriptor(0, offset, 128, 256)  # the two 16-byte columns of a group lie together
    return descriptor(swizzle, offset, 16, 8 * swizzle)


def across_k(swizzle, offset, rows, step):
    """An operand that lies along m or n: atoms of eight k, (swizzle or 16) bytes wide."""
    if swizzle == 0:
        return descriptor(0, offset, 128 * (rows // 8) if step else 128, 128 if step else 256)
    return descriptor(swizzle, offset, 16 * swizzle, 8 * swizzle)


def text(entry, d, a, b, n, a_registers, transpose, negate):
    count = n // 2 // (2 if d == "f16" else 1)
    register = {"f32": "f32", "f16": "b32", "s32": "b32"}[d]
    body = ["  .shared .align 1024 .b8 blob[40960];", "  .reg .b32 %thread, %cta, %slot, %i, %s, %w;", "  .reg .b64 %p, %g, %da, %db, %step;",
            "  .reg .pred %q, %scale;", "  .reg .b32 %v<4>;", f"  .reg .{register} %d<{count}>;", "  .reg .b32 %a<4>;",
            "  mov.u32 %thread, %tid.x;", "  mov.u32 %cta, %ctaid.x;", "  mad.lo.u32 %slot, %cta, 128, %thread;",
            "  ld.param.u64 %g, [p_blob];", "  mad.wide.u32 %g, %cta, 40960, %g;", "  mad.wide.u32 %g, %thread, 16, %g;",
            "  mov.u32 %s, blob;", "  mov.u32 %w, %s;", "  mad.lo.u32 %s, %thread, 16, %s;", f"  mov.u32 %i, {(A_BYTES + n * 128 + 2047) // 2048};", "copy:",
            "  ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%g];", "  st.shared.v4.b32 [%s], {%v0, %v1, %v2, %v3};",
            "  add.u64 %g, %g, 2048;", "  add.u32 %s, %s, 2048;", "  sub.u32 %i, %i, 1;", "  setp.ne.u32 %q, %i, 0;", "  @%q bra copy;",
            "  fence.proxy.async.shared::cta;", "  bar.sync 0;",
            "  ld.param.u64 %p, [p_descriptors];", "  mad.wide.u32 %p, %cta, 32, %p;", "  ld.global.u64 %da, [%p];", "  ld.global.u64 %db, [%p+8];",
            "  ld.global.u32 %i, [%p+16];", "  setp.ne.u32 %scale, %i, 0;",
            "  shr.u32 %w, %w, 4;", "  cvt.u64.u32 %step, %w;", "  add.u64 %da, %da, %step;", "  add.u64 %db, %db, %step;",
            "  ld.param.u64 %p, [p_c];", f"  mad.wide.u32 %p, %slot, {4 * count}, %p;"]
    body += [f"  ld.global.{register} %d{i}, [%p+{4 * i}];" for i in range(count)]
    if a_registers:
        body += ["  ld.param.u64 %p, [p_a];", "  mad.wide.u32 %p, %slot, 16, %p;", "  ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%p];"]
    operands = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}, " + ("{%a0, %a1, %a2, %a3}" if a_registers else "%da") + ", %db, %scale"
    if d != "s32":
        operands += f", {negate[0]}, {negate[1]}"
    if a in ("f16", "bf16"):
        operands += f", {transpose[1]}" if a_registers else f", {transpose[0]}, {transpose[1]}"
    body += ["  wgmma.fence.sync.aligned;", f"  wgmma.mma_async.sync.aligned.m64n{n}k{K[a]}.{d}.{a}.{b} {operands};",
             "  wgmma.commit_group.sync.aligned;", "  wgmma.wait_group.sync.aligned 0;",
             "  ld.param.u64 %p, [p_d];", f"  mad.wide.u32 %p, %slot, {4 * count}, %p;"]
    body += [f"  st.global.{register} [%p+{4 * i}], %d{i};" for i in range(count)]
    return (f".visible .entry {entry}(.param .u64 p_blob, .param .u64 p_a, .param .u64 p_c, .param .u64 p_descriptors, .param .u64 p_d)\n"
            ".maxntid 128\n{\n" + "\n".join(body) + "\n  ret;\n}\n")


def blocks_of(a, transpose):
    """(mix, swizzle, scale-d) of each block."""
    if a in ("s8", "u8"):
        mixes = [("near", "near", "near"), ("sparse", "sparse", "near"), ("near", "sparse", "near"), ("sparse", "near", "near")]
    else:
        mixes = MIXES
    swizzles = [0, 128, 64, 32]
    return [(mix, swizzles[i % 4] if i else 0, int(i % 5 != 1)) for i, mix in enumerate(mixes)]


_cache = {}


def data(d, a, b, blocks):
    key = (d, a, b)
    if key not in _cache:
        blob = b"".join(operand(a, mix[0], A_BYTES // SIZE[a], f"wgmma a {i}") + operand(b, mix[1], B_BYTES // SIZE[b], f"wgmma b {i}")
                        for i, (mix, _, _) in enumerate(blocks))
        registers = b"".join(operand(a, mix[0], 2048 // SIZE[a], f"wgmma ar {i}") for i, (mix, _, _) in enumerate(blocks))
        c = [operand(d, mix[2], 64 * 256, f"wgmma c {i}") for i, (mix, _, _) in enumerate(blocks)]
        _cache[key] = blob, registers, c
    return _cache[key]


def one(d, a, b, n, a_registers, transpose=(0, 0), negate=(1, 1)):
    blocks = blocks_of(a, transpose)
    blob, registers, c = data(d, a, b, blocks)
    words = b""
    for mix, swizzle, scale in blocks:
        da = across_k(swizzle, 0, 64, True) if transpose[0] else along_k(swizzle, 0, 64)
        db = across_k(swizzle, A_BYTES, n, True) if transpose[1] else along_k(swizzle, A_BYTES, n)
        words += da.to_bytes(8, "little") + db.to_bytes(8, "little") + scale.to_bytes(16, "little")
    name = f"{d}.{a}.{b}.n{n}.{'r' if a_registers else 's'}"
    if transpose != (0, 0):
        name += f".t{transpose[0]}{transpose[1]}"
    if negate != (1, 1):
        name += f".neg{'a' if negate[0] < 0 else ''}{'b' if negate[1] < 0 else ''}"
    entry = "wgmma_" + name.replace(".", "_")
    size = 64 * n * (2 if d == "f16" else 4)
    buffers = {"blob": blob, "a": registers, "c": b"".join(x[:size] for x in c), "descriptors": words, "d": size * len(blocks)}
    width = 2 if d == "f16" else 4
    where = lambda i: f"operands {blocks[i * width // size]}, thread {i * width % size // (size // 128)}, element {i % (size // 128 // width)}"
    segment = Segment(f"wgmma {name}", "d", 0, size * len(blocks), width, keep="all" if n == 8 and transpose == (0, 0) and negate == (1, 1) else "crc", where=where)
    return Case("wgmma." + name, text(entry, d, a, b, n, a_registers, transpose, negate), entry,
                [("buffer", x) for x in ("blob", "a", "c", "descriptors", "d")], buffers, [segment], grid=(len(blocks), 1, 1),
                block=(128, 1, 1), module=f"wgmma_{d}_{a}_{b}_{(n - 1) // 64}")


def cases():
    out = []
    for d, a, b in types():
        for n in columns(d):
            for a_registers in (False, True):
                out.append(one(d, a, b, n, a_registers))
        if d != "s32":
            out += [one(d, a, b, n, r, negate=s) for n in (8, 40, 256) for r in (False, True) for s in ((-1, 1), (1, -1), (-1, -1))]
        if a in ("f16", "bf16"):
            out += [one(d, a, b, n, False, transpose=t) for n in (8, 40, 64, 128, 192, 256) for t in ((1, 0), (0, 1), (1, 1))]
            out += [one(d, a, b, n, True, transpose=(0, 1)) for n in (8, 40, 64, 128, 192, 256)]
    return out
