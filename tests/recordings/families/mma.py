"""mma.sync and wmma: every shape and type. Every lane loads its registers as they come, so a fragment's layout shows in
the result alone."""
from case import Case, Segment
from matrixdata import MIXES, operand

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
        "b1": 1, "s32": 32}


def shapes():
    """(m, n, k, A, B, C and D, modifiers behind mma.sync.aligned.SHAPE.row.col)"""
    out = []
    for c in ("f16", "f32"):
        out += [(16, 8, k, "f16", "f16", c, "") for k in (8, 16)]
        out += [(16, 8, 32, a, b, c, "") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") if c == "f32"]
    out += [(16, 8, k, "bf16", "bf16", "f32", "") for k in (8, 16)]
    out += [(16, 8, k, "tf32", "tf32", "f32", "") for k in (4, 8)]
    out += [(8, 8, 4, "f64", "f64", "f64", "")] + [(16, 8, k, "f64", "f64", "f64", "") for k in (4, 8, 16)]
    for m in ("", ".satfinite"):
        for a in ("s8", "u8"):
            for b in ("s8", "u8"):
                out += [(8, 8, 16, a, b, "s32", m), (16, 8, 16, a, b, "s32", m), (16, 8, 32, a, b, "s32", m)]
        for a in ("s4", "u4"):
            for b in ("s4", "u4"):
                out += [(8, 8, 32, a, b, "s32", m), (16, 8, 32, a, b, "s32", m), (16, 8, 64, a, b, "s32", m)]
    out += [(m, 8, k, "b1", "b1", "s32", op) for op in (".xor.popc", ".and.popc") for m, k in ((8, 128), (16, 128), (16, 256))]
    return out


def registers(elements, bits):
    """(count, PTX type) of what one lane holds of so many elements."""
    if bits == 64:
        return elements // 32, "f64"
    return max(elements * bits // 32 // 32, 1), "b32"


def load(name, count, kind, lanes_offset):
    size = 8 if kind == "f64" else 4
    return [f"  ld.global.{'f64' if kind == 'f64' else 'b32'} %{name}{i}, [%p{name}+{size * i}];" for i in range(count)]


def mma_text(entry, instruction, counts, kinds, extra=""):
    body = ["  .reg .b32 %lane, %cta, %slot;", "  .reg .b64 %out;"]
    body += ["  mov.u32 %lane, %tid.x;", "  mov.u32 %cta, %ctaid.x;", "  mad.lo.u32 %slot, %cta, 32, %lane;"]
    for name, count, kind in zip("abc", counts, kinds):
        size = 8 if kind == "f64" else 4
        register = kind if kind in ("f64", "f32") else "b32"
        body += [f"  .reg .b64 %p{name};", f"  .reg .{register} %{name}<{count}>;", f"  ld.param.u64 %p{name}, [p_{name}];",
                 f"  mad.wide.u32 %p{name}, %slot, {size * count}, %p{name};"]
        body += [f"  ld.global.{register} %{name}{i}, [%p{name}+{size * i}];" for i in range(count)]
    register, size, count = (kinds[3] if kinds[3] in ("f64", "f32") else "b32"), 8 if kinds[3] == "f64" else 4, counts[3]
    body += [f"  .reg .{register} %d<{count}>;", "  ld.param.u64 %out, [p_d];", f"  mad.wide.u32 %out, %slot, {size * count}, %out;"]
    group = lambda name, n: "{" + ", ".join(f"%{name}{i}" for i in range(n)) + "}"
    body.append(f"  {instruction} {group('d', count)}, " + ", ".join(group(n, c) for n, c in zip("abc", counts)) + ";")
    body += [f"  st.global.{register} [%out+{size * i}], %d{i};" for i in range(count)]
    return (f".visible .entry {entry}(.param .u64 p_a, .param .u64 p_b, .param .u64 p_c, .param .u64 p_d)\n.maxntid 32\n{{\n"
            + "\n".join(body) + "\n  ret;\n}\n")


def repeated(fmt, bits, lanes_bytes, mixes, which, label):
    """The registers of all lanes, block after block, each block another mix."""
    out = b""
    for i, mix in enumerate(mixes):
        elements = lanes_bytes * 8 // bits if bits >= 8 else lanes_bytes
        out += operand(fmt if bits >= 8 else "s8", mix[which], elements, f"{label} {which} {i}")
    return out


def product(m, n, k, a, b, c, modifiers):
    kinds = [a, b, c, c]
    sizes = [m * k, k * n, m * n, m * n]
    regs = [registers(s, BITS[t]) for s, t in zip(sizes, kinds)]
    types = [r[1] if t == "f64" else "f32" if t == "f32" else "b32" for r, t in zip(regs, kinds)]
    counts = [r[0] for r in regs]
    name = f"m{m}n{n}k{k}.{a}.{b}.{c}{modifiers}"
    if a == "b1":
        instruction = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.s32.b1.b1.s32{modifiers}"
    else:
        instruction = f"mma.sync.aligned.m{m}n{n}k{k}.row.col{modifiers}.{c}.{a}.{b}.{c}"
    entry = "mma_" + name.replace(".", "_")
    floats = a in ("f16", "bf16", "tf32", "f64", "e4m3", "e5m2")
    mixes = MIXES * (3 if a in ("f16", "bf16", "tf32") and k * BITS[a] == 256 else 1) if floats else MIXES[:2] + MIXES[3:4] + MIXES[11:12]
    if not floats:
        mixes = [("near", "near", "near"), ("near", "near", "zero"), ("sparse", "sparse", "near"), ("sparse", "sparse", "zero")]
    data = {x: repeated(t, BITS[t], 32 * count * (8 if kind == "f64" else 4), mixes, i, f"mma {k}")
            for i, (x, t, count, kind) in enumerate(zip("abc", kinds, counts, types))}
    data["d"] = len(data["c"])
    text = mma_text(entry, instruction, counts, types)
    size = 8 if c == "f64" else 4
    width = 2 if c == "f16" else size
    where = lambda i: f"operands {mixes[i * width // (32 * counts[3] * size)]}, lane {i * width // (counts[3] * size) % 32}, element {i % (counts[3] * size // width)}"
    segment = Segment(instruction, "d", 0, data["d"], width, where=where)
    return Case("mma." + name, text, entry, [("buffer", x) for x in "abcd"], data, [segment], grid=(len(mixes), 1, 1), module="mma_" + a)


def quad_pair(a_layout, b_layout, d, c):
    """m8n8k4 of f16, the shape of sm_70: four products of eight lanes each."""
    counts = [2, 2, 4 if c == "f16" else 8, 4 if d == "f16" else 8]
    kinds = ["b32", "b32", "b32" if c == "f16" else "f32", "b32" if d == "f16" else "f32"]
    instruction = f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d}.f16.f16.{c}"
    name = f"m8n8k4.{a_layout}.{b_layout}.{d}.{c}"
    entry = "mma_" + name.replace(".", "_")
    data = {x: repeated(t, 16 if t == "f16" else 32, 128 * n, MIXES, i, "quad")
            for i, (x, t, n) in enumerate(zip("abc", ("f16", "f16", c), counts))}
    data["d"] = len(MIXES) * 128 * counts[3]
    segment = Segment(instruction, "d", 0, data["d"], 2 if d == "f16" else 4)
    return Case("mma." + name, mma_text(entry, instruction, counts, kinds), entry, [("buffer", x) for x in "abcd"], data,
                [segment], grid=(len(MIXES), 1, 1), module="mma_quad")


# ---- wmma ----

def wmma_types():
    for d in ("f16", "f32"):
        for c in ("f16", "f32"):
            yield ("f16", c, d, ["m16n16k16", "m32n8k16", "m8n32k16"], "")
    yield ("bf16", "f32", "f32", ["m16n16k16", "m32n8k16", "m8n32k16"], "")
    yield ("tf32", "f32", "f32", ["m16n16k8"], "")
    yield ("f64", "f64", "f64", ["m8n8k4"], "")
    for t in ("s8", "u8"):
        yield (t, "s32", "s32", ["m16n16k16", "m32n8k16", "m8n32k16"], "")
    yield ("s8", "s32", "s32", ["m16n16k16"], ".satfinite")


def sides(shape):
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def fragment(t, shape, which):
    m, n, k = sides(shape)
    if t == "f64":
        return 1 if which in "ab" else 2
    if which in "cd":
        return 4 if t == "f16" else 8
    if t == "f16":
        return 8
    if t == "tf32":
        return 4
    size = (m if which == "a" else n) * k * BITS[t] // 8
    return size // 128


def wmma(t, c, d, shape, modifiers, la, lb):
    m, n, k = sides(shape)
    name = f"wmma.{shape}.{la}.{lb}.{d}.{t}.{c}{modifiers}"
    entry = name.replace(".", "_")
    register = lambda x: "f64" if x == "f64" else "f32" if x == "f32" else "b32"
    regs = {"a": fragment(t, shape, "a"), "b": fragment(t, shape, "b"), "c": fragment(c, shape, "c"), "d": fragment(d, shape, "d")}
    types = {"a": t, "b": t, "c": c, "d": d}
    sizes = {"a": m * k * BITS[t] // 8, "b": k * n * BITS[t] // 8, "c": m * n * BITS[c] // 8, "d": m * n * BITS[d] // 8}
    stride = {"a": k if la == "row" else m, "b": n if lb == "row" else k, "c": n, "d": m}
    body = ["  .reg .b32 %cta;", "  mov.u32 %cta, %ctaid.x;"]
    group = lambda x: "{" + ", ".join(f"%{x}{i}" for i in range(regs[x])) + "}"
    for x in "abcd":
        body += [f"  .reg .b64 %p{x};", f"  .reg .{register(types[x])} %{x}<{regs[x]}>;", f"  ld.param.u64 %p{x}, [p_{x}];",
                 f"  mad.wide.u32 %p{x}, %cta, {sizes[x]}, %p{x};"]
    layouts = {"a": la, "b": lb, "c": "row"}
    for x in "abc":
        body.append(f"  wmma.load.{x}.sync.aligned.{layouts[x]}.{shape}.global.{types[x]} {group(x)}, [%p{x}], {stride[x]};")
    if t == "f16":
        kinds = f"{d}.{c}"
    else:
        kinds = f"{d}.{t}.{t}.{c}"
    if t == "f64":
        kinds = ".rn." + kinds
    else:
        kinds = "." + kinds
    body.append(f"  wmma.mma.sync.aligned.{la}.{lb}.{shape}{kinds}{modifiers} {group('d')}, {group('a')}, {group('b')}, {group('c')};")
    body.append(f"  wmma.store.d.sync.aligned.col.{shape}.global.{d} [%pd], {group('d')}, {stride['d']};")
    text = (f".visible .entry {entry}(.param .u64 p_a, .param .u64 p_b, .param .u64 p_c, .param .u64 p_d)\n.maxntid 32\n{{\n"
            + "\n".join(body) + "\n  ret;\n}\n")
    mixes = MIXES[:6] if t in ("f16", "bf16", "tf32", "f64") else [("near", "near", "near"), ("sparse", "sparse", "near")]
    data = {x: b"".join(operand(types[x], mix[i], sizes[x] * 8 // BITS[types[x]], f"wmma {i} {x}") for mix in mixes)
            for i, x in enumerate("abc")}
    data["d"] = sizes["d"] * len(mixes)
    segment = Segment(name, "d", 0, data["d"], max(BITS[d] // 8, 1))
    return Case("mma." + name, text, entry, [("buffer", x) for x in "abcd"], data, [segment], grid=(len(mixes), 1, 1), module="wmma_" + t)


def cases():
    out = [product(*s) for s in shapes()]
    out += [quad_pair(a, b, d, c) for a in ("row", "col") for b in ("row", "col") for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))]
    for t, c, d, list_of, modifiers in wmma_types():
        for shape in list_of:
            for la, lb in ([("row", "col"), ("col", "row")] if (c, d) != ("f16", "f16") or t != "f16" else
                           [("row", "col"), ("col", "row"), ("row", "row"), ("col", "col")]):
                out.append(wmma(t, c, d, shape, modifiers, la, lb))
    return out
