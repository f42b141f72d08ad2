"""Atomics and reductions of global and shared memory, cp.async, vector loads and stores, mbarrier states."""
import struct

from case import SPECIAL16, SPECIAL32, noise
from kernels import dump_shared, fill_shared, kernel, store, zero_shared

INTEGER = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"), "inc": ("u32",),
           "dec": ("u32",), "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"), "exch": ("b32", "b64")}
BITS = {"u32": 32, "s32": 32, "b32": 32, "u64": 64, "s64": 64, "b64": 64, "f32": 32, "f64": 64, "f16": 16, "bf16": 16,
        "f16x2": 32, "bf16x2": 32}


def special_words(n, kind):
    """Operands with every special value of the float format in them."""
    if kind in ("f16", "bf16", "f16x2", "bf16x2"):
        values = [SPECIAL16[i % len(SPECIAL16)] for i in range(n * (2 if kind.endswith("x2") else 1))]
        return struct.pack(f"<{len(values)}H", *values)
    return struct.pack(f"<{n}I", *[SPECIAL32[i % len(SPECIAL32)] for i in range(n)])


def atomics():
    """Each lane its own address: the old value and the new one are certain."""
    out = []

    def add(space, op, t, operands=1):
        bits = BITS[t]
        size, register = bits // 8, {16: "h", 32: "r", 64: "rd"}[bits]
        n = 256
        if t[0] in "fb" and t not in ("b32", "b64"):
            old, new = special_words(n, t), special_words(n + 9, t)[9 * size:]
            if t == "f64":
                old, new = (noise(f"atom f64 {i}", n * 8) for i in range(2))
        else:
            old, new = noise(f"atom old {t}", n * size), noise(f"atom new {t}", n * size)
            if op in ("inc", "dec"):
                # values at and around the bound
                old, new = (b"".join((x % 7).to_bytes(4, "little") for x in noise(f"{op} {i}", n)) for i in range(2))
            if op == "cas":
                new = b"".join(old[i * size:(i + 1) * size] if i % 2 else new[i * size:(i + 1) * size] for i in range(n))
        modifier = ".noftz" if t in ("f16", "bf16", "f16x2", "bf16x2") else ""
        name = f"atom.{space}.{op}{modifier}.{t}"
        third = f"mad.wide.u32 %rd10, %lane, {size}, %in2;\nld.global.b{bits} %{register}5, [%rd10];\n" if operands == 2 else ""
        arguments = f"%{register}4" + (f", %{register}5" if operands == 2 else "")
        load = f"mad.wide.u32 %rd20, %lane, {size}, %in1;\nld.global.b{bits} %{register}4, [%rd20];\n" + third
        if space == "global":
            body = load + f"mad.wide.u32 %rd21, %lane, {size}, %memory;\nmad.wide.u32 %rd22, %lane, {size}, %in0;\nld.global.b{bits} %{register}6, [%rd22];\nst.global.b{bits} [%rd21], %{register}6;\n"
            body += f"{name} %{register}7, [%rd21], {arguments};\n"
            body += store([f"%{register}7"], size=size, kind=f"b{bits}")
            outputs = [("memory", n * size)]
            shared = 0
        else:
            body = fill_shared(n * size, n) if size >= 4 else fill_shared(n * size, n // 2) if False else ""
            body = f"mov.u32 %r80, mem;\nmad.lo.u32 %r80, %lane, {size}, %r80;\nmad.wide.u32 %rd22, %lane, {size}, %in0;\nld.global.b{bits} %{register}6, [%rd22];\nst.shared.b{bits} [%r80], %{register}6;\nbar.sync 0;\n"
            body += load + f"{name} %{register}7, [%r80], {arguments};\nbar.sync 0;\nld.shared.b{bits} %{register}8, [%r80];\n"
            body += store([f"%{register}7", f"%{register}8"], size=size, kind=f"b{bits}")
            outputs, shared = [], n * size
        inputs = [old, new] + ([noise(f"atom third {t}", n * size)] if operands == 2 else [])
        out.append(kernel("memory", name, body, inputs, n * size * (2 if space == "shared" else 1), threads=n, shared=shared, width=size,
                          outputs=outputs, module=f"memory_{space}"))

    for space in ("global", "shared"):
        for op, types in INTEGER.items():
            for t in types:
                add(space, op, t)
        for t in ("b32", "b64"):
            add(space, "cas", t, 2)
        for t in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
            add(space, "add", t)
        add(space, "cas", "b16", 2) if False else None
    return out


def vectors():
    """red and atom of vectors, global memory only."""
    out = []
    for count, t in ((2, "f32"), (4, "f32"), (2, "f16x2"), (4, "f16x2"), (2, "bf16x2"), (4, "bf16x2"), (8, "f16"), (4, "f16")):
        bits = 16 if t in ("f16", "bf16") else 32
        letter = "h" if bits == 16 else "f" if t == "f32" else "r"
        size, n = bits // 8 * count, 64
        modifier = ".noftz" if t != "f32" else ""
        old, new = special_words(n * count, t)[:n * size], special_words(n * count + 7, t)[7 * bits // 8:][:n * size]
        group = "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"
        kind = "f32" if t == "f32" else f"b{bits}"
        body = f"mad.wide.u32 %rd20, %lane, {size}, %in1;\nmad.wide.u32 %rd21, %lane, {size}, %memory;\nmad.wide.u32 %rd22, %lane, {size}, %in0;\n"
        for i in range(count):
            body += f"ld.global.{kind} %{letter}{i}, [%rd22+{i * bits // 8}];\nst.global.{kind} [%rd21+{i * bits // 8}], %{letter}{i};\n"
        body += "\n".join(f"ld.global.{kind} %{letter}{i}, [%rd20+{i * bits // 8}];" for i in range(count))
        body += f"\nred.global.add{modifier}.v{count}.{t} [%rd21], {group};\n"
        out.append(kernel("memory", f"red.v{count}.{t}", body, [old, new], threads=n, outputs=[("memory", n * size)], width=bits // 8,
                          module="memory_vector"))
    return out


def copies():
    out = []
    for size, caching in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
        # the bytes that are read differ between lanes; the rest becomes zero
        body = zero_shared(1024)
        body += f"\nrem.u32 %r0, %lane, {size + 1};\nmov.u32 %r1, mem;\nmad.lo.u32 %r1, %lane, {size}, %r1;\nmad.wide.u32 %rd0, %lane, 16, %in0;\n"
        body += "st.shared.b32 [%r1], -1;\nbar.sync 0;\n" + f"cp.async.{caching}.shared.global [%r1], [%rd0], {size}, %r0;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
        body += dump_shared(1024)
        out.append(kernel("memory", f"cp.async.{caching}.{size}", body, [noise("cp.async", 512)], 1024, shared=1024))
        body = zero_shared(1024)
        body += f"\nsetp.lt.u32 %p0, %lane, 11;\nmov.u32 %r1, mem;\nmad.lo.u32 %r1, %lane, {size}, %r1;\nmad.wide.u32 %rd0, %lane, 16, %in0;\n"
        body += f"cp.async.{caching}.shared.global [%r1], [%rd0], {size}, %p0;\ncp.async.wait_all;\n" + dump_shared(1024)
        out.append(kernel("memory", f"cp.async.{caching}.{size}.ignore", body, [noise("cp.async", 512)], 1024, shared=1024))
    return out


def barriers():
    """What tests of a barrier's phase answer, and the parities it goes through."""
    body = ["mov.u32 %r1, mem;", "setp.eq.u32 %p0, %lane, 0;", "@!%p0 bra done;", "mbarrier.init.shared::cta.b64 [%r1], 3;"]
    results = []

    def note(lines, predicate="%p1"):
        r = f"%r{10 + len(results)}"
        body.extend(lines + [f"selp.b32 {r}, 1, 0, {predicate};"])
        results.append(r)

    test = ["mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;"]
    other = ["mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 1;"]
    arrive = ["mbarrier.arrive.shared::cta.b64 %rd0, [%r1];"]
    note(test)
    note(other)
    note(arrive + test)
    note(arrive + test)
    note(["mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;"] + test)
    note(["mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;"] + test)
    note(other)
    note(["mbarrier.arrive.shared::cta.b64 %rd1, [%r1], 3;", "mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd1;"])
    note(["mbarrier.arrive_drop.shared::cta.b64 %rd1, [%r1];"] + test)
    note(["mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [%r1], 1;"] + test)
    note(["mbarrier.arrive.shared::cta.b64 %rd1, [%r1];"] + test)
    note(["mbarrier.arrive.shared::cta.b64 %rd1, [%r1], 2;", "mbarrier.pending_count.b64 %r0, %rd1;", "setp.eq.u32 %p1, %r0, 2;"])
    body += [f"st.global.b32 [%out+{4 * i}], {r};" for i, r in enumerate(results)] + ["done:"]
    return [kernel("memory", "mbarrier", "\n".join(body), [], 4 * len(results), shared=1024)]


def cases():
    return atomics() + vectors() + copies() + barriers()
