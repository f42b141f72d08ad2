"""ldmatrix, stmatrix and movmatrix: which lane gets and gives what."""
from case import noise
from kernels import dump_shared, fill_shared, kernel, store, zero_shared


def rows(label, n, distinct):
    """Row addresses of the lanes: multiples of 16; a permutation where rows are stored."""
    order = sorted(range(n), key=lambda i: noise(label, 4 * n)[4 * i:4 * i + 4])
    values = [order[i % n] * 16 if distinct else noise(label + "x", 32)[i] % n * 16 for i in range(32)]
    return b"".join(v.to_bytes(4, "little") for v in values)


def cases():
    out = []
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            registers = [f"%r{i}" for i in range(count)]
            group = "{" + ", ".join(registers) + "}"
            address = "mad.wide.u32 %rd0, %lane, 4, %in1;\nld.global.u32 %r80, [%rd0];\nmov.u32 %r81, mem;\nadd.u32 %r80, %r80, %r81;\n"
            op = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
            body = fill_shared(2048) + "\n" + address + f"{op} {group}, [%r80];\n" + store(registers)
            out.append(kernel("matrix", f"ldmatrix.x{count}{trans}", body, [noise("ldmatrix", 2048), rows("ld", 128, False)],
                              128 * count, shared=2048, label=op))
            op = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
            body = zero_shared(2048) + "\n" + address + f"mad.wide.u32 %rd1, %lane, {4 * count}, %in0;\n"
            body += "\n".join(f"ld.global.b32 {r}, [%rd1+{4 * i}];" for i, r in enumerate(registers))
            body += f"\n{op} [%r80], {group};\n" + dump_shared(2048)
            out.append(kernel("matrix", f"stmatrix.x{count}{trans}", body, [noise("stmatrix", 128 * count), rows("st", 128, True)],
                              2048, shared=2048, label=op))
    body = "mad.wide.u32 %rd0, %lane, 4, %in0;\nld.global.b32 %r0, [%rd0];\nmovmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;\n" + store(["%r1"])
    out.append(kernel("matrix", "movmatrix", body, [noise("movmatrix", 128)], 128))
    return out
