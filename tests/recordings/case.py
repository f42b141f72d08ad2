"""What a recording consists of: cases (one kernel launch each) with their inputs, and the results to compare.

Nothing here is random: all data come out of SHAKE-128 of a label, so a recording holds results only."""
import hashlib
import json
import struct
from dataclasses import dataclass, field

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n\n"
CHUNK = 4096  # bytes that one checksum of a result kept as checksums covers


def noise(label, n):
    return hashlib.shake_128(label.encode()).digest(n)


@dataclass
class Segment:
    """A stretch of an output buffer that one instruction made.

    how: "exact", or ("ulp", type, bound, absolute, (operand, least, most)): floats of the type that differ by at most
    bound places, or by an absolute distance, wherever the operand's magnitude is in the range;
    keep: "all" stores every byte, "crc" a checksum per CHUNK bytes;
    where: gives the words that tell what element i was made from."""
    label: str
    buffer: str
    offset: int
    bytes: int
    width: int = 4
    how: object = "exact"
    keep: str = "all"
    where: object = None
    operand: object = None  # gives the value of a named operand of element i as bytes


@dataclass
class Case:
    """One launch. args: ("buffer", name), ("map", name) or (type, value); buffers: name -> bytes for inputs, a
    number of bytes for outputs (zero before the launch)."""
    name: str
    text: str  # the entry's PTX, without the module's head
    entry: str
    args: list
    buffers: dict
    segments: list
    grid: tuple = (1, 1, 1)
    block: tuple = (32, 1, 1)
    cluster: tuple = (1, 1, 1)
    shared: int = 0
    maps: dict = field(default_factory=dict)
    module: str = ""  # cases of one module are assembled together
    weight: int = 1   # of how many cases a sample takes one; 0: always taken

    def size(self, name):
        data = self.buffers[name]
        return data if isinstance(data, int) else len(data)

    def launch(self, folder, stem):
        """The launch file for `adlgen sim`; inputs and outputs lie beside it."""
        buffers, args = {}, []
        for name, data in self.buffers.items():
            if isinstance(data, int):
                buffers[name] = {"bytes": data, "fill": "zero"}
            else:
                # many cases share their inputs
                file = hashlib.blake2b(data, digest_size=8).hexdigest() + ".in"
                if not (folder / file).exists():
                    part = folder / f"{stem}.{name}.part"
                    part.write_bytes(data)
                    part.rename(folder / file)
                buffers[name] = {"bytes": len(data), "file": file}
        for kind, value in self.args:
            args.append({"tensormap" if kind == "map" else kind: value})
        outputs = {s.buffer: f"{stem}.{s.buffer}.out" for s in self.segments}
        launch = {"version": 1, "entry": self.entry, "grid": self.grid, "block": self.block, "cluster": self.cluster,
                  "shared": self.shared, "args": args, "buffers": buffers, "outputs": outputs}
        if self.maps:
            launch["tensormaps"] = self.maps
        (folder / f"{stem}.json").write_text(json.dumps(launch))
        (folder / f"{stem}.ptx").write_text(HEADER + self.text)


# ---- elementwise kernels: thread i makes element i of every variant ----

REGISTERS = {8: "b16", 16: "b16", 32: "b32", 64: "b64", 128: "b64"}


@dataclass
class Input:
    name: str
    bits: int     # 8, 16, 32 or 64; 0: the thread's number as 16 bits
    data: bytes = b""
    signed: bool = False


@dataclass
class Variant:
    """An instruction (or several) on {d}, {a}, {b}, {c}; {p} and {q} are predicates, {t} a 32-bit scratch register."""
    label: str
    text: str
    bits: int = 32
    how: object = "exact"


def elementwise(family, name, inputs, variants, n, module=None, keep="all"):
    """The cases of a list of variants over n elements each, some tens of variants a kernel."""
    cases = []
    for part, first in enumerate(range(0, len(variants), 24)):
        cases.append(one_kernel(family, f"{name}.{part}", inputs, variants[first:first + 24], n,
                                f"{family}_{name}_{part}", module or f"{family}_{name}", keep))
    return cases


def one_kernel(family, name, inputs, variants, n, entry, module, keep):
    entry = entry.replace(".", "_").replace("-", "_")
    real = [i for i in inputs if i.bits]
    params = ",\n  ".join(f".param .u64 p_{i.name}" for i in real) + (",\n  " if real else "") + ".param .u64 p_out"
    body = ["  .reg .b32 %index, %cta, %t;", "  .reg .pred %p, %q;", "  .reg .b64 %o8, %o16, %o32, %o64, %out;"]
    body += ["  mov.u32 %index, %tid.x;", "  mov.u32 %cta, %ctaid.x;", "  mad.lo.u32 %index, %cta, 256, %index;"]
    for i in inputs:
        if not i.bits:
            body += [f"  .reg .b16 %{i.name};", f"  cvt.u16.u32 %{i.name}, %index;"]
            continue
        body += [f"  .reg .b64 %p{i.name};", f"  .reg .{REGISTERS[i.bits]} %{i.name};",
                 f"  ld.param.u64 %p{i.name}, [p_{i.name}];",
                 f"  mad.wide.u32 %p{i.name}, %index, {i.bits // 8}, %p{i.name};",
                 f"  ld.global.{'s' if i.signed else 'u'}{i.bits} %{i.name}, [%p{i.name}];" if i.bits == 8
                 else f"  ld.global.b{i.bits} %{i.name}, [%p{i.name}];"]
    body += ["  ld.param.u64 %out, [p_out];"]
    for bits in (8, 16, 32, 64):
        body += [f"  mad.wide.u32 %o{bits}, %index, {bits // 8}, %out;"]
    offset, segments = 0, []
    for number, v in enumerate(variants):
        offset = (offset + 15) // 16 * 16
        names = {i.name: f"%{i.name}" for i in inputs}
        text = v.text.format(d="%d", p="%p", q="%q", t="%t", **names)
        body += ["  {", f"    .reg .{REGISTERS[v.bits]} %d;"]
        body += ["    " + line.strip() for line in text.strip().split("\n")]
        body += [f"    st.global.b{v.bits} [%o{v.bits}+{offset}], %d;", "  }"]
        segments.append(Segment(v.label, "out", offset, n * v.bits // 8, v.bits // 8, v.how, keep,
                                lambda i, inputs=inputs: words(inputs, i), lambda x, i, inputs=inputs: value(inputs, x, i)))
        offset += n * v.bits // 8
    text = f".visible .entry {entry}(\n  {params})\n.maxntid 256\n{{\n" + "\n".join(body) + "\n  ret;\n}\n"
    buffers = {i.name: i.data for i in real}
    for i in real:
        assert len(i.data) == n * i.bits // 8, (name, i.name, len(i.data), n)
    buffers["out"] = offset
    return Case(f"{family}.{name}", text, entry, [("buffer", i.name) for i in real] + [("buffer", "out")], buffers,
                segments, grid=((n + 255) // 256, 1, 1), block=(min(n, 256), 1, 1), module=module)


def value(inputs, name, i):
    x = next(x for x in inputs if x.name == name)
    return x.data[i * x.bits // 8:(i + 1) * x.bits // 8] if x.bits else i.to_bytes(2, "little")


def words(inputs, i):
    texts = []
    for x in inputs:
        if x.bits:
            size = x.bits // 8
            texts.append(f"{x.name} = 0x{int.from_bytes(x.data[i * size:(i + 1) * size], 'little'):0{2 * size}x}")
        else:
            texts.append(f"{x.name} = 0x{i & 0xffff:04x}")
    return ", ".join(texts)


# ---- values ----

def pack(bits, values):
    return struct.pack(f"<{len(values)}{ {8: 'B', 16: 'H', 32: 'I', 64: 'Q'}[bits] }", *values)


SPECIAL32 = [0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x3f800000, 0xbf800000,
             0x3f000000, 0xbf000000, 0x3fc00000, 0x40200000, 0x3f7fffff, 0x3f800001, 0x7f7fffff, 0xff7fffff, 0x7f800000,
             0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x7fffffff, 0x477fe000, 0x477ff000, 0x33000000, 0x33000001,
             0x4b000001, 0x4f000000, 0xcf000000, 0x5f000000]
SPECIAL64 = [0, 1 << 63, 1, (1 << 63) | 1, 0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000,
             0xbff0000000000000, 0x3fe0000000000000, 0x3ff8000000000000, 0x3fefffffffffffff, 0x3ff0000000000001,
             0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
             0xfff8000000000001, 0x7ff0000000000001, 0x7fffffffffffffff, 0x47efffffe0000000, 0x47effffff0000000,
             0x36a0000000000000, 0x36a0000000000001, 0x4330000000000001, 0x41e0000000000000, 0xc1e0000000000000,
             0x43e0000000000000, 0x380fffffffffffff, 0x3690000000000000]
SPECIAL16 = [0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3800, 0x3e00, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
             0x7e00, 0xfe01, 0x7c01, 0x7fff, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0x7f81, 0x0080, 0x007f, 0x7f7f]
SPECIAL_INT = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff,
               0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0x12345678, 0xaaaaaaaa]
SPECIAL_LONG = SPECIAL_INT + [1 << 32, 1 << 33, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1, (1 << 64) - 2,
                              0x123456789abcdef0, (1 << 53) + 1, (1 << 24) + 1]


def near_one(bits, raw):
    """Random floats whose exponents stay within some 16 of one, so that sums round in interesting places."""
    if bits == 32:
        return raw & 0x807fffff | ((raw >> 23 & 31) + 111) << 23
    if bits == 64:
        return raw & 0x800fffffffffffff | ((raw >> 52 & 63) + 991) << 52
    return raw & 0x83ff | ((raw >> 10 & 15) + 8) << 10


def operands(label, bits, n, count, special, spread=None):
    """`count` operands of n elements: every combination of special values first, then noise; spread makes half of the
    noise into numbers near one."""
    rows, total = [[] for _ in range(count)], len(special) ** count
    while total > n * 3 // 4:
        special = special[:-1]
        total = len(special) ** count
    for i in range(total):
        for k in range(count):
            rows[k].append(special[i // len(special) ** k % len(special)])
    size = bits // 8
    for k in range(count):
        raw = noise(f"{label}{k}", n * size)
        for i in range(total, n):
            value = int.from_bytes(raw[i * size:(i + 1) * size], "little")
            if spread and i % 4 < 3:
                value = spread(bits, value)
            rows[k].append(value)
    return [pack(bits, r) for r in rows]
