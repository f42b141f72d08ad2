"""Small kernels written as text: registers are declared, the pointers of the arguments loaded."""
from case import Case, Segment


def kernel(family, name, body, inputs=(), out=0, threads=32, grid=(1, 1, 1), cluster=(1, 1, 1), shared=0, width=4, maps=None,
           label=None, module=None, keep="all", buffers=None, outputs=(), weight=1):
    """One case. In the body: %lane (thread), %out and %in0.. (pointers), %map0.. (tensor maps), %r, %rd, %f, %fd, %h, %p
    registers, `shared` (bytes of shared memory as the symbol `mem`). outputs: further output buffers (name, bytes), whose
    pointers are %NAME; buffers: inputs of tensor maps, which are no arguments."""
    entry = f"{family}_{name}".replace(".", "_").replace("-", "_").replace(":", "_").replace(",", "_")
    names = [f"in{i}" for i in range(len(inputs))] + ["out"] + [n for n, _ in outputs]
    params = [f".param .u64 p_{n}" for n in names]
    params += [f".param .align 64 .b8 map{i}[128]" for i in range(len(maps or {}))]
    head = ["  .reg .b32 %lane, %r<96>;", "  .reg .b64 %rd<48>;", "  .reg .f32 %f<16>;", "  .reg .f64 %fd<8>;", "  .reg .b16 %h<16>;",
            "  .reg .pred %p<8>;", "  .reg .b64 " + ", ".join("%" + n for n in names) + ";"]
    if shared:
        head.append(f"  .shared .align 1024 .b8 mem[{shared}];")
    head += ["  mov.u32 %lane, %tid.x;"] + [f"  ld.param.u64 %{n}, [p_{n}];" for n in names]
    for i in range(len(maps or {})):
        head += [f"  .reg .b64 %map{i};", f"  mov.b64 %map{i}, map{i};", f"  cvta.param.u64 %map{i}, %map{i};"]
    lines = "\n".join("  " + line.strip() for line in body.strip().split("\n") if line.strip())
    directives = f".maxntid {threads}\n"
    if cluster != (1, 1, 1):
        directives += f".explicitcluster\n.reqnctapercluster {cluster[0]}, {cluster[1]}, {cluster[2]}\n"
    text = f".visible .entry {entry}(" + ", ".join(params) + f")\n{directives}{{\n" + "\n".join(head) + "\n" + lines + "\n  ret;\n}\n"
    data = {f"in{i}": x for i, x in enumerate(inputs)}
    data.update(buffers or {})
    segments = []
    if out:
        data["out"] = out
        segments.append(Segment(label or name, "out", 0, out, width, keep=keep))
    else:
        data["out"] = 16
    for n, size in outputs:
        data[n] = size
        segments.append(Segment(f"{label or name} {n}", n, 0, size, width, keep=keep))
    args = [("buffer", n) for n in names] + [("map", n) for n in (maps or {})]
    return Case(f"{family}.{name}", text, entry, args, data, segments, grid=grid, block=(threads, 1, 1), cluster=cluster,
                maps=maps or {}, module=module or family, weight=weight)


def fill_shared(n, threads=32, source="%in0", at="mem"):
    """Copies n bytes (a multiple of 4 x threads) of an input into shared memory."""
    lines = [f"mov.u32 %r90, {at};", "mad.lo.u32 %r90, %lane, 4, %r90;", f"mad.wide.u32 %rd40, %lane, 4, {source};"]
    for i in range(n // (4 * threads)):
        lines += [f"ld.global.b32 %r91, [%rd40+{4 * threads * i}];", f"st.shared.b32 [%r90+{4 * threads * i}], %r91;"]
    return "\n".join(lines + ["bar.sync 0;"])


def zero_shared(n, threads=32, at="mem"):
    lines = [f"mov.u32 %r90, {at};", "mad.lo.u32 %r90, %lane, 4, %r90;"]
    lines += [f"st.shared.b32 [%r90+{4 * threads * i}], 0;" for i in range(n // (4 * threads))]
    return "\n".join(lines + ["bar.sync 0;"])


def dump_shared(n, threads=32, at="mem", to="%out"):
    lines = ["bar.sync 0;", f"mov.u32 %r92, {at};", "mad.lo.u32 %r92, %lane, 4, %r92;", f"mad.wide.u32 %rd41, %lane, 4, {to};"]
    for i in range(n // (4 * threads)):
        lines += [f"ld.shared.b32 %r93, [%r92+{4 * threads * i}];", f"st.global.b32 [%rd41+{4 * threads * i}], %r93;"]
    return "\n".join(lines)


def store(registers, at="%out", stride=None, kind="b32", size=4):
    """Each thread stores its registers one behind another."""
    stride = stride or size * len(registers)
    return "\n".join([f"mad.wide.u32 %rd42, %lane, {stride}, {at};"] + [f"st.global.{kind} [%rd42+{size * i}], {r};" for i, r in enumerate(registers)])
