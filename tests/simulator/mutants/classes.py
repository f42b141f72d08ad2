"""The classes of single faults: text rules, each applied at every site that matches.

A rule is a generator of (changes, partners): changes = [(instruction, new text)], partners = pattern of the opcodes that a
checker may name instead of the changed instruction, since a fault in synchronisation shows where it was needed."""
import re

SHARED = r"(ld|st|atom|red)\S*\.shared|ldmatrix|stmatrix|cp\.async|st\.async|wgmma\.mma|mbarrier|cp\.reduce"
GLOBAL = r"(ld|st|atom|red)\S*\.global"
ASYNC = r"cp\.async\.bulk|cp\.reduce|wgmma\.mma"
WAITS = r"mbarrier\.(try|test)_wait|barrier|bar\."
BULK_LOAD = r"cp\.async\.bulk\.\S*mbarrier"
CLASSES = {}


def rule(name, partners):
    def add(function):
        CLASSES[name] = (function.__doc__, lambda kernel: ((c, partners) for c in function(kernel)))
        return function
    return add


def drop(instructions):
    return ([(i, "")] for i in instructions)


def scoped(declarations, *instructions):
    return "{ " + " ".join([*declarations, *instructions]) + " }"


def following(kernel, instruction, n=3):
    return kernel.instructions[instruction.index + 1:instruction.index + 1 + n]


def immediate(text):
    return re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)", text)


# --- barriers of the block ---

@rule("block barrier dropped", f"{SHARED}|{GLOBAL}|{WAITS}")
def _(kernel):
    """bar.sync removed"""
    return drop(kernel.find(r"(bar|barrier)(\.cta)?\.sync"))


@rule("barrier count or number", f"{SHARED}|{WAITS}")
def _(kernel):
    """bar.sync or bar.arrive for 32 threads more (without a count: than the block has); another barrier, where
    the number is in a register or some threads only arrive"""
    threads = kernel.launch.get("launches", [kernel.launch])[0]["block"][0]
    for i in kernel.find(r"(bar|barrier)(\.cta)?\.(sync|arrive)"):
        operands = i.operands()
        count = int(operands[1]) if len(operands) > 1 else threads
        yield [(i, i.text(args=f"{operands[0]}, {count + 32}"))]
        if operands[0].startswith("%") or i.op.endswith("arrive"):
            yield [(i, i.text(args=", ".join(["13"] + operands[1:])))]


@rule("branch around a barrier", WAITS)
def _(kernel):
    """one lane of each warp goes around an instruction that all need"""
    declarations = [".reg .pred mutant_p;", ".reg .b32 mutant_r;", "mov.u32 mutant_r, %laneid;",
                    "setp.ne.u32 mutant_p, mutant_r, 0;"]
    for i in kernel.find(r"(bar|barrier)(\.cta)?\.sync|bar\.warp|ldmatrix|stmatrix|mma|wgmma|shfl|setmaxnreg"):
        if not i.guard:
            yield [(i, scoped(declarations, i.text(guard="@mutant_p")))]


# --- warps ---

@rule("warp barrier dropped", f"{SHARED}|{WAITS}|{GLOBAL}")
def _(kernel):
    """bar.warp.sync removed"""
    return drop(kernel.find(r"bar\.warp\.sync"))


@rule("warp mask", r"bar\.warp|shfl|match|vote|elect|redux")
def _(kernel):
    """one lane left out of the mask of an instruction of the whole warp"""
    for i in kernel.find(r"bar\.warp|shfl|match|vote|elect|redux"):
        for mask in ("0xfffffffe", "0x7fffffff"):
            args = re.sub(r"0[xX][fF]{8}$", mask, i.args)
            if args != i.args:
                yield [(i, i.text(args=args))]


# --- proxies ---

@rule("proxy fence dropped", f"{ASYNC}|{SHARED}")
def _(kernel):
    """fence.proxy.async removed"""
    return drop(kernel.find(r"fence\.proxy\.async"))


# --- asynchronous products ---

@rule("wgmma.fence dropped", r"wgmma")
def _(kernel):
    """wgmma.fence removed"""
    return drop(kernel.find(r"wgmma\.fence"))


@rule("wgmma group not closed", f"wgmma|{SHARED}|{ASYNC}")
def _(kernel):
    """wgmma.commit_group removed"""
    return drop(kernel.find(r"wgmma\.commit"))


@rule("wgmma not waited for", f"wgmma|{SHARED}|{ASYNC}|cvt|st|mul|add|fma|mov")
def _(kernel):
    """wgmma.wait_group removed, or leaves one group more in flight"""
    for i in kernel.find(r"wgmma\.wait_group"):
        yield [(i, "")]
        yield [(i, i.text(args=str(int(i.args) + 1)))]


@rule("matrix descriptor", r"wgmma|cp\.async\.bulk\.tensor")
def _(kernel):
    """swizzle mode or stride of a shared-memory descriptor"""
    for i in kernel.find(r"(or|mov|add|mad\.lo)\.[bu]64|mov\.b64"):
        constant = i.operands()[-1]
        if not immediate(constant) or int(constant, 0) < 1 << 46 or not kernel.find("wgmma"):
            continue
        value = int(constant, 0)
        for flip in (1 << 62, 1 << 63):
            yield [(i, i.text(args=", ".join(i.operands()[:-1] + [hex(value ^ flip)])))]
        stride = value >> 32 & 0x3FFF
        yield [(i, i.text(args=", ".join(i.operands()[:-1] + [hex(value + (stride << 32))])))]


@rule("accumulator touched in flight", r"wgmma")
def _(kernel):
    """the first accumulator is read or written between a product and its wait"""
    for i in kernel.find(r"wgmma\.mma"):
        register = re.match(r"\{(%\w+)", i.args)
        move = f"mov.b32 {register[1]}, 0;" if ".s32." in i.op else f"mov.f32 {register[1]}, 0f3f800000;"
        yield [(i, f"{i.text()} {move}")]


# --- memory barriers ---

@rule("mbarrier fence dropped", r"mbarrier|cp\.async\.bulk")
def _(kernel):
    """fence.mbarrier_init removed"""
    return drop(kernel.find(r"fence\.mbarrier_init"))


@rule("mbarrier not made", r"mbarrier|cp\.async")
def _(kernel):
    """mbarrier.init removed"""
    return drop(kernel.find(r"mbarrier\.init"))


@rule("mbarrier count", r"mbarrier|cp\.async\.mbarrier")
def _(kernel):
    """mbarrier.init with one arrival more or less"""
    for i in kernel.find(r"mbarrier\.init"):
        address, count = i.operands()
        for change in (1, -1):
            if immediate(count) and int(count) + change > 0:
                yield [(i, i.text(args=f"{address}, {int(count) + change}"))]


@rule("expected bytes", r"mbarrier|cp\.async\.bulk")
def _(kernel):
    """expect_tx of 16 bytes more, 16 less, half"""
    for i in kernel.find(r"mbarrier\.\S*expect_tx"):
        operands = i.operands()
        if immediate(operands[-1]):
            for value in (int(operands[-1]) + 16, int(operands[-1]) - 16, int(operands[-1]) // 2):
                yield [(i, i.text(args=", ".join(operands[:-1] + [str(value)])))]


@rule("bytes not expected", r"mbarrier|cp\.async\.bulk|st\.async")
def _(kernel):
    """arrive.expect_tx only arrives, or is removed"""
    for i in kernel.find(r"mbarrier\.arrive\.expect_tx"):
        yield [(i, i.text(op=i.op.replace(".expect_tx", ""), args=", ".join(i.operands()[:-1])))]
        yield [(i, "")]


@rule("parity", f"mbarrier|{SHARED}|{ASYNC}")
def _(kernel):
    """a wait for the other parity"""
    for i in kernel.find(r"mbarrier\.(try|test)_wait\.parity"):
        operands = i.operands()
        flip = f"xor.b32 mutant_r, {operands[2]}, 1;"
        if immediate(operands[2]):
            flip = f"mov.b32 mutant_r, {int(operands[2], 0) ^ 1};"
        yield [(i, scoped([".reg .b32 mutant_r;"], flip, i.text(args=", ".join(operands[:2] + ["mutant_r"]))))]


@rule("wait ignored", f"mbarrier|{SHARED}|{ASYNC}|{WAITS}")
def _(kernel):
    """the branch back to a wait that has not succeeded removed, or the whole wait"""
    for i in kernel.find(r"mbarrier\.(try|test)_wait"):
        back = next((j for j in following(kernel, i, 2) if j.op.startswith("bra") and j.guard), None)
        if back:
            yield [(back, "")]
            yield [(i, ""), (back, "")]


@rule("arrival missing", f"mbarrier|{SHARED}|{ASYNC}")
def _(kernel):
    """mbarrier.arrive removed"""
    return drop(kernel.find(r"mbarrier\.arrive(?!\.expect_tx)|cp\.async\.mbarrier"))


@rule("arrival twice", f"mbarrier|{SHARED}|{ASYNC}")
def _(kernel):
    """mbarrier.arrive done twice"""
    for i in kernel.find(r"mbarrier\.arrive(?!\.expect_tx)"):
        yield [(i, i.text() + " " + i.text())]


@rule("wrong mbarrier", f"mbarrier|{SHARED}|{ASYNC}")
def _(kernel):
    """an arrival, a wait or a copy that signals the neighbouring mbarrier"""
    for i in kernel.find(r"mbarrier\.(arrive|try_wait|test_wait)|" + BULK_LOAD):
        brackets = [m for m in re.finditer(r"\[(%\w+)(\+\d+)?\]", i.args)]
        if brackets:
            m = brackets[-1]
            offset = int(m[2] or 0) + 8
            yield [(i, i.text(args=f"{i.args[:m.start()]}[{m[1]}+{offset}]{i.args[m.end():]}"))]


@rule("one thread becomes many", f"mbarrier|{ASYNC}|{WAITS}|{SHARED}")
def _(kernel):
    """elect.sync ignored, a guard dropped from an arrival or a copy, or mbarrier.init done by every thread"""
    for i in kernel.find(r"elect"):
        target = re.search(r"\|(%\w+)", i.args)
        if target:
            yield [(i, i.text() + f" setp.eq.u32 {target[1]}, 0, 0;")]
    for i in kernel.find(r"mbarrier\.arrive|cp\.async\.bulk\.\S*mbarrier|cp\.reduce|st\.async"):
        if i.guard:
            yield [(i, i.text(guard=""))]
    for i in kernel.find(r"mbarrier\.init")[:1]:
        before = kernel.instructions[i.index - 1]
        if before.op.startswith("bra") and before.guard:
            yield [(before, "")]


# --- asynchronous copies ---

@rule("cp.async not waited for", f"{SHARED}|{WAITS}")
def _(kernel):
    """cp.async.wait_group removed, or leaves one group more in flight"""
    for i in kernel.find(r"cp\.async\.wait"):
        yield [(i, "")]
        if immediate(i.args):
            yield [(i, i.text(args=str(int(i.args) + 1)))]


@rule("cp.async group not closed", f"{SHARED}|{WAITS}")
def _(kernel):
    """cp.async.commit_group removed"""
    return drop(kernel.find(r"cp\.async\.commit"))


@rule("bulk store not waited for", f"{ASYNC}|{SHARED}")
def _(kernel):
    """cp.async.bulk.wait_group removed, or leaves one group more"""
    for i in kernel.find(r"cp\.async\.bulk\.wait_group"):
        yield [(i, "")]
        yield [(i, i.text(args=str(int(i.args) + 1)))]


@rule("bulk group not closed", f"{ASYNC}|{SHARED}")
def _(kernel):
    """cp.async.bulk.commit_group removed"""
    return drop(kernel.find(r"cp\.async\.bulk\.commit"))


@rule("copy missing", f"{SHARED}|{ASYNC}|{WAITS}|st|mma|add|mul|cvt|mov")
def _(kernel):
    """a store to shared memory or a copy into it removed: what is read there was never written"""
    return drop(kernel.find(r"st\.shared|stmatrix|st\.async|cp\.async\.c[ag]|cp\.async\.bulk\.\S*mbarrier"))


# --- addresses ---

@rule("guard dropped", f"{GLOBAL}|{SHARED}")
def _(kernel):
    """a guarded access to memory done by every thread"""
    for i in kernel.find(r"(ld|st|red|atom)\S*\.(global|shared)"):
        if i.guard:
            yield [(i, i.text(guard=""))]


@rule("address misaligned", r"")
def _(kernel):
    """an address of four bytes or more moved by two"""
    wide = r"(ld|st)\.(global|shared)\S*\.(v[248]\.)?[busf](32|64)|ldmatrix|stmatrix|cp\.async\.c[ag]|cp\.async\.bulk\.tensor|atom|red"
    for i in kernel.find(wide):
        yield from moved(i, 2)


def moved(i, by):
    m = re.search(r"\[(%\w+)(\+\d+)?\]", i.args)
    if m:
        yield [(i, i.text(args=f"{i.args[:m.start()]}[{m[1]}+{int(m[2] or 0) + by}]{i.args[m.end():]}"))]


@rule("global address far off", f"{GLOBAL}|cp\\.async")
def _(kernel):
    """an address in global memory moved by 1 MiB"""
    for i in kernel.find(GLOBAL):
        yield from moved(i, 1 << 20)


@rule("slot size", f"{SHARED}|{ASYNC}|st")
def _(kernel):
    """slots of a ring half as far apart, or 16 bytes further (the number of a slot: what is set back by a guarded
    instruction or flipped)"""
    slots = {i.operands()[0] for i in kernel.instructions if i.guard and re.match(r"mov|sub", i.op)}
    slots |= {i.operands()[0] for i in kernel.find(r"xor") if i.operands()[0] == i.operands()[1] and i.operands()[2] == "1"}
    for i in kernel.find(r"mad\.lo\.[usb]32"):
        operands = i.operands()
        if operands[1] not in slots:
            continue
        if immediate(operands[2]) and int(operands[2], 0) >= 512 and int(operands[2], 0) % 128 == 0 and operands[3].startswith("%"):
            for size in (int(operands[2], 0) // 2, int(operands[2], 0) + 16):
                yield [(i, i.text(args=", ".join(operands[:2] + [str(size), operands[3]])))]


@rule("slot count", f"{SHARED}|{ASYNC}|{WAITS}")
def _(kernel):
    """a ring that wraps one slot late or early"""
    for i in kernel.find(r"setp\.(eq|ge)\.[us]32"):
        operands = i.operands()
        if not immediate(operands[2]) or not 2 <= int(operands[2], 0) <= 8:
            continue
        if any(j.guard == "@" + operands[0] and j.op.startswith(("mov", "xor", "sub")) or
               j.op.startswith("selp") and j.operands()[-1] == operands[0] for j in following(kernel, i, 3)):
            for change in (1, -1):
                yield [(i, i.text(args=", ".join(operands[:2] + [str(int(operands[2], 0) + change)])))]


# --- registers ---

@rule("register not set", r"st|red|atom|cp\.(reduce\.)?async\.bulk|bra")
def _(kernel):
    """the first write of a register removed, where it is a plain mov or setp"""
    seen = set()
    for i in kernel.instructions:
        operands = i.operands()
        if not operands or i.op.startswith(("st", "bra", "bar", "mbarrier", "red")):
            continue
        target = operands[0]
        if target.startswith("%") and target not in seen and not i.guard and i.op.startswith(("mov.", "setp.", "ld.param")):
            yield [(i, "")]
        seen.update(re.findall(r"%\w+", target))


@rule("register reallocation", r"setmaxnreg")
def _(kernel):
    """setmaxnreg with 8 or 16 registers more than the pool has, in the other direction, or removed where another
    warpgroup needs what it gives"""
    wanted = kernel.find(r"setmaxnreg\S*inc")
    for i in kernel.find(r"setmaxnreg"):
        if ".inc" in i.op:
            for more in (8, 16):
                yield [(i, i.text(args=str(min(int(i.args) + more, 256))))]
            yield [(i, i.text(op=i.op.replace(".inc", ".dec")))]
        else:
            yield [(i, i.text(op=i.op.replace(".dec", ".inc")))]
            if wanted:
                yield [(i, i.text(args=str(int(i.args) + 8)))]
                yield [(i, "")]


# --- clusters ---

@rule("multicast mask", f"mbarrier|{ASYNC}")
def _(kernel):
    """a block too few, or one that the cluster does not have, in the mask of a multicast copy"""
    for i in kernel.find(r"cp\.async\.bulk\S*multicast"):
        operands = i.operands()
        for mask in (1, 2, 7, 0x8003):
            replaced = ", ".join(operands[:-1] + ["mutant_m"])
            yield [(i, scoped([".reg .b16 mutant_m;"], f"mov.u16 mutant_m, {mask};", i.text(args=replaced)))]


@rule("cluster barrier dropped", f"{SHARED}|{ASYNC}|mapa|barrier|ret|mbarrier")
def _(kernel):
    """barrier.cluster.arrive and its wait removed, or the wait alone"""
    for i in kernel.find(r"barrier\.cluster\.arrive"):
        wait = next((j for j in following(kernel, i, 4) if j.op.startswith("barrier.cluster.wait")), None)
        if wait:
            yield [(i, ""), (wait, "")]
            yield [(wait, "")]


@rule("peer", f"{SHARED}|{ASYNC}|mapa|mbarrier")
def _(kernel):
    """mapa of the block after the one that is meant"""
    for i in kernel.find(r"mapa"):
        operands = i.operands()
        if immediate(operands[2]):
            yield [(i, i.text(args=", ".join(operands[:2] + [str(int(operands[2]) + 1)])))]
            continue
        yield [(i, scoped([".reg .b32 mutant_r;"], f"add.u32 mutant_r, {operands[2]}, 1;",
                          i.text(args=", ".join(operands[:2] + ["mutant_r"]))))]


# --- launches that overlap ---

@rule("dependent launch", f"{GLOBAL}|griddepcontrol|cp\\.async")
def _(kernel):
    """griddepcontrol.wait removed, or one, two or three accesses to global memory too late"""
    for i in kernel.find(r"griddepcontrol\.wait"):
        yield [(i, "")]
        accesses = [j for j in kernel.instructions[i.index + 1:] if re.match(f"{GLOBAL}|ret", j.op)]
        for j in accesses[:3]:
            if j.op.startswith("ret"):
                break
            yield [(i, ""), (j, j.text() + " " + i.text())]


# --- order through memory ---

@rule("order weakened", f"{GLOBAL}|{SHARED}|fence|membar|bar|cp\\.async")
def _(kernel):
    """a scope narrowed to the block, acquire or release made relaxed, a fence removed, a load marked as read-only"""
    for i in kernel.find(r"(ld|st|atom|red|fence|mbarrier|barrier\.cluster)\."):
        if i.op.startswith("fence.") and ".proxy" not in i.op and "mbarrier" not in i.op:
            yield [(i, "")]
        for scope in (".gpu", ".sys"):
            if scope in i.op and "proxy" not in i.op:
                yield [(i, i.text(op=i.op.replace(scope, ".cta")))]
        for order in (".acquire", ".release", ".acq_rel"):
            if order in i.op and not i.op.startswith(("fence", "barrier")) and ".shared" not in i.op:
                yield [(i, i.text(op=i.op.replace(order, ".relaxed")))]
    for i in kernel.find(r"membar"):
        yield [(i, "")]


@rule("atomic made plain", f"{GLOBAL}|{SHARED}")
def _(kernel):
    """red or atom as a load, an addition and a store"""
    for i in kernel.find(r"(red|atom)\.(shared|global)\S*\.add"):
        operands, kind = i.operands(), i.op.split(".")[-1]
        space = "shared" if ".shared" in i.op else "global"
        address, value = operands[-2:]
        old = operands[0] if i.op.startswith("atom") else "mutant_o"
        steps = [f"ld.{space}.{kind} {old}, {address};", f"add.{kind} mutant_r, {old}, {value};",
                 f"st.{space}.{kind} {address}, mutant_r;"]
        declared = [f".reg .{kind} mutant_r;", f".reg .{kind} mutant_o;"]
        yield [(i, scoped(declared, *[f"{i.guard} {s}".strip() for s in steps]))]
