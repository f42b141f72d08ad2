"""One-dimensional bulk copies, bulk reductions, copies between blocks of a cluster, st.async."""
from case import noise
from families.memory import BITS, special_words
from kernels import dump_shared, fill_shared, kernel, zero_shared

INIT = """
  mov.u32 %r1, mem;
  setp.eq.u32 %p0, %lane, 0;
  @%p0 mbarrier.init.shared::cta.b64 [%r1+8192], 1;
  @%p0 fence.mbarrier_init.release.cluster;
  fence.proxy.async;
  bar.sync 0;
"""
WAIT = """
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8192], 0;
  @!%p1 bra wait;
"""
# a cluster of two whose blocks meet
MEET = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"


def to_shared(n, offset):
    body = zero_shared(2048) + INIT
    body += f"@!%p0 bra wait;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8192], {n};\nadd.u64 %rd0, %in0, {offset};\nadd.u32 %r2, %r1, {offset};\n"
    body += f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0], {n}, [%r1+8192];\n" + WAIT
    return kernel("bulk", f"load.{n}.{offset}", body + dump_shared(2048), [noise("bulk", 2048)], 2048, shared=8320)


def to_global(n, offset):
    body = fill_shared(2048) + "\nfence.proxy.async;\nbar.sync 0;\nmov.u32 %r1, mem;\nsetp.eq.u32 %p0, %lane, 0;\n@!%p0 bra done;\n"
    body += f"add.u64 %rd0, %out, {offset};\nadd.u32 %r2, %r1, {offset};\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], {n};\n"
    body += "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\ndone:\n"
    return kernel("bulk", f"store.{n}.{offset}", body, [noise("bulk", 2048)], 2048, shared=8320)


def values(kind, n, shift):
    if kind in ("f16", "bf16", "f32"):
        size = BITS[kind] // 8
        return special_words(n // size + shift, kind)[shift * size:]
    return noise(f"bulk reduce {kind} {shift}", n)


def reduce(op, kind):
    n = 1024
    bits = BITS[kind]
    modifier = ".noftz" if kind in ("f16", "bf16") and op == "add" else ""
    body = fill_shared(n, source="%in1") + "\nfence.proxy.async;\nbar.sync 0;\nmov.u32 %r1, mem;\n"
    for i in range(n // 128):
        body += f"mad.wide.u32 %rd0, %lane, 4, %in0;\nld.global.b32 %r2, [%rd0+{128 * i}];\nmad.wide.u32 %rd1, %lane, 4, %out;\nst.global.b32 [%rd1+{128 * i}], %r2;\n"
    body += "fence.proxy.async;\nbar.sync 0;\nsetp.eq.u32 %p0, %lane, 0;\n@!%p0 bra done;\n"
    body += f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{modifier}.{kind} [%out], [%r1], {n};\n"
    body += "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\ndone:\n"
    old, new = values(kind, n, 0), values(kind, n, 9)
    if op in ("inc", "dec"):
        old, new = (b"".join((x % 7).to_bytes(4, "little") for x in noise(f"bulk {op} {i}", n // 4)) for i in range(2))
    return kernel("bulk", f"reduce.{op}.{kind}", body, [old, new], n, shared=8320, width=bits // 8,
                  label=f"cp.reduce.async.bulk.global.{op}{modifier}.{kind}")


def between_blocks(op, kind):
    """Block 0 copies to, or reduces into, the shared memory of block 1."""
    n = 1024
    body = "mov.u32 %r70, %cluster_ctarank;\n" + fill_shared(n, source="%in0") + INIT
    # block 1 has other data
    body += "setp.eq.u32 %p2, %r70, 1;\n" + f"mad.wide.u32 %rd0, %lane, 4, %in1;\nmad.lo.u32 %r80, %lane, 4, %r1;\n"
    for i in range(n // 128):
        body += f"ld.global.b32 %r81, [%rd0+{128 * i}];\n@%p2 st.shared.b32 [%r80+{128 * i}], %r81;\n"
    body += "fence.proxy.async;\nbar.sync 0;\n"
    body += f"and.pred %p3, %p0, %p2;\n@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8192], {n};\n" + MEET
    body += "setp.ne.u32 %p4, %r70, 0;\n@%p4 bra other;\n@!%p0 bra met;\n"
    body += "mapa.shared::cluster.u32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 8192;\n"
    if op:
        body += f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{kind} [%r2], [%r1], {n}, [%r3];\n"
    else:
        body += f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2], [%r1], {n}, [%r3];\n"
    body += "bra met;\nother:\n" + WAIT + dump_shared(n) + "\nmet:\n" + MEET
    old, new = noise(f"between {kind}", n), noise(f"between new {kind}", n)
    if op in ("inc", "dec"):
        old, new = (b"".join((x % 7).to_bytes(4, "little") for x in noise(f"bulk {op} {i}", n // 4)) for i in range(2))
    name = f"peer.{op or 'copy'}.{kind}"
    return kernel("bulk", name, body, [new, old], n, grid=(2, 1, 1), cluster=(2, 1, 1), shared=8320)


def store_async(kind, count):
    bits = BITS[kind]
    size = bits // 8 * count
    body = "mov.u32 %r70, %cluster_ctarank;\n" + zero_shared(1024) + INIT
    body += f"setp.eq.u32 %p2, %r70, 1;\nand.pred %p3, %p0, %p2;\n@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8192], {32 * size};\n" + MEET
    body += "setp.ne.u32 %p4, %r70, 0;\n@%p4 bra other;\nmapa.shared::cluster.u32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 8192;\n"
    letter = "rd" if bits == 64 else "r"
    body += f"mad.wide.u32 %rd0, %lane, {size}, %in0;\nmad.lo.u32 %r4, %lane, {size}, %r2;\n"
    for i in range(count):
        body += f"ld.global.b{bits} %{letter}{10 + i}, [%rd0+{i * bits // 8}];\n"
    group = ", ".join(f"%{letter}{10 + i}" for i in range(count))
    vector = f".v{count}" if count > 1 else ""
    group = "{" + group + "}" if count > 1 else group
    body += f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.{kind} [%r4], {group}, [%r3];\nbra met;\nother:\n"
    body += WAIT + dump_shared(1024) + "\nmet:\n" + MEET
    return kernel("bulk", f"st.async.v{count}.{kind}", body, [noise("st.async", 1024)], 1024, grid=(2, 1, 1), cluster=(2, 1, 1), shared=8320)


def cases():
    out = [to_shared(n, o) for n in (16, 48, 1024) for o in (0, 16, 144)]
    out += [to_global(n, o) for n in (16, 48, 1024) for o in (0, 16, 144)]
    for kind in ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"):
        out.append(reduce("add", kind))
    for op in ("min", "max"):
        out += [reduce(op, kind) for kind in ("u32", "s32", "u64", "s64", "f16", "bf16")]
    out += [reduce(op, "u32") for op in ("inc", "dec")] + [reduce(op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")]
    out += [between_blocks(None, "b8")]
    out += [between_blocks(op, kind) for op, kind in (("add", "u32"), ("add", "s32"), ("add", "u64"), ("inc", "u32"), ("dec", "u32"), ("min", "u32"),
                                                     ("min", "s32"), ("max", "u32"), ("max", "s32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"))]
    out += [store_async(kind, count) for kind in ("b32", "b64") for count in (1, 2)] + [store_async("b32", 4)]
    return out
