"""Lanes of a warp and blocks of a cluster: shuffles, votes, match, redux, elect, mapa, special registers."""
from case import noise
from kernels import kernel, store

LOAD = "mad.wide.u32 %rd0, %lane, 4, %in0;\nld.global.b32 %r0, [%rd0];\nmad.wide.u32 %rd1, %lane, 4, %in1;\nld.global.b32 %r1, [%rd1];\n"


def small(label, limit, n=32):
    return b"".join((x % limit).to_bytes(4, "little") for x in noise(label, n))


def cases():
    out = []

    def add(name, body, results, inputs=None):
        out.append(kernel("warp", name, LOAD + body + "\n" + store(results), inputs or [noise("warp", 128), small("lanes", 32)],
                          128 * len(results)))

    for mode in ("up", "down", "bfly", "idx"):
        for clamp in (0, 31, 0x1c00 | 31, 0x1800 | 31, 0x1f00, 0x0807, 7):
            # the distance differs between lanes
            add(f"shfl.{mode}.{clamp:x}", f"shfl.sync.{mode}.b32 %r2|%p0, %r0, %r1, {clamp}, -1;\nselp.b32 %r3, 1, 0, %p0;", ["%r2", "%r3"])
            add(f"shfl.{mode}.{clamp:x}.3", f"shfl.sync.{mode}.b32 %r2|%p0, %r0, 3, {clamp}, -1;\nselp.b32 %r3, 1, 0, %p0;", ["%r2", "%r3"])
    for mode in ("all", "any", "uni"):
        for name, test in (("some", "setp.lt.s32 %p0, %r0, 0;"), ("every", "setp.eq.u32 %p0, %r0, %r0;"), ("no", "setp.ne.u32 %p0, %r0, %r0;")):
            add(f"vote.{mode}.{name}", f"{test}\nvote.sync.{mode}.pred %p1, %p0, -1;\nselp.b32 %r2, 1, 0, %p1;", ["%r2"])
            add(f"vote.{mode}.{name}.not", f"{test}\nvote.sync.{mode}.pred %p1, !%p0, -1;\nselp.b32 %r2, 1, 0, %p1;", ["%r2"])
    add("vote.ballot", "setp.lt.s32 %p0, %r0, 0;\nvote.sync.ballot.b32 %r2, %p0, -1;", ["%r2"])
    half = "setp.lt.u32 %p7, %lane, 13;\nmov.u32 %r2, 7;\nmov.u32 %r3, 9;\n"
    add("vote.ballot.part", half + "setp.lt.s32 %p0, %r0, 0;\n@%p7 vote.sync.ballot.b32 %r2, %p0, 0x1fff;", ["%r2"])
    add("activemask", half + "@%p7 activemask.b32 %r2;", ["%r2"])
    for op in ("add", "min", "max"):
        for t in ("u32", "s32"):
            add(f"redux.{op}.{t}", f"redux.sync.{op}.{t} %r2, %r0, -1;", ["%r2"])
            add(f"redux.{op}.{t}.part", half + f"@%p7 redux.sync.{op}.{t} %r2, %r0, 0x1fff;", ["%r2"])
    for op in ("and", "or", "xor"):
        add(f"redux.{op}.b32", f"redux.sync.{op}.b32 %r2, %r0, -1;", ["%r2"])
    few = [small("few", 3), small("lanes", 32)]
    add("match.any.b32", "match.any.sync.b32 %r2, %r0, -1;", ["%r2"], few)
    add("match.any.part", half + "@%p7 match.any.sync.b32 %r2, %r0, 0x1fff;", ["%r2"], few)
    add("match.any.b64", "mov.b64 %rd2, {%r0, %r0};\nmatch.any.sync.b64 %r2, %rd2, -1;", ["%r2"], few)
    for name, value in (("different", "%r0"), ("same", "%r4")):
        add(f"match.all.b32.{name}", f"mov.u32 %r4, 5;\nmatch.all.sync.b32 %r2|%p0, {value}, -1;\nselp.b32 %r3, 1, 0, %p0;", ["%r2", "%r3"], few)
    add("elect", "elect.sync %r2|%p0, -1;\nselp.b32 %r3, 1, 0, %p0;", ["%r2", "%r3"])
    add("elect.part", "setp.ge.u32 %p7, %lane, 13;\nmov.u32 %r2, 7;\nmov.u32 %r3, 9;\n@%p7 elect.sync %r2|%p0, 0xffffe000;\n@%p7 selp.b32 %r3, 1, 0, %p0;", ["%r2", "%r3"])
    lanes = "\n".join(f"mov.u32 %r{2 + i}, %{x};" for i, x in enumerate(("laneid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt")))
    add("lanemasks", lanes, [f"%r{2 + i}" for i in range(6)])
    # a cluster of four: addresses of peers and ranks
    body = ["mov.u32 %r0, %cluster_ctarank;", "mov.u32 %r1, mem;"]
    results = ["%r0"]
    for i in range(4):
        body += [f"mapa.shared::cluster.u32 %r{10 + i}, %r1, {i};", f"getctarank.shared::cluster.u32 %r{20 + i}, %r{10 + i};"]
        results.append(f"%r{20 + i}")
    for i, x in enumerate(("cluster_nctarank", "cluster_ctaid.x", "cluster_nctaid.x", "clusterid.x", "nclusterid.x")):
        body.append(f"mov.u32 %r{30 + i}, %{x};")
        results.append(f"%r{30 + i}")
    body += ["cvt.u64.u32 %rd1, %r1;", "cvta.shared.u64 %rd1, %rd1;", "mapa.u64 %rd2, %rd1, 3;", "getctarank.u64 %r40, %rd2;",
             "isspacep.shared::cta %p0, %rd1;", "selp.b32 %r41, 1, 0, %p0;", "isspacep.shared::cluster %p0, %rd2;", "selp.b32 %r42, 1, 0, %p0;",
             "isspacep.global %p0, %out;", "selp.b32 %r43, 1, 0, %p0;", "isspacep.global %p0, %rd1;", "selp.b32 %r44, 1, 0, %p0;"]
    results += ["%r40", "%r41", "%r42", "%r43", "%r44"]
    body += ["mov.u32 %r50, %ctaid.x;", f"mul.lo.u32 %r51, %r50, {128 * len(results)};", "cvt.u64.u32 %rd3, %r51;", "add.u64 %rd4, %out, %rd3;"]
    out.append(kernel("warp", "cluster", "\n".join(body) + "\n" + store(results, "%rd4"), [], 8 * 128 * len(results), grid=(8, 1, 1),
                      cluster=(4, 1, 1), shared=1024))
    return out
