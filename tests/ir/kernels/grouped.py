#!/usr/bin/env python3
"""grouped.py ADLGEN: a grouped product whose tiles a sub-kernel orders, from TILE text, for every GPU of the list, on the
simulator, against double precision; rows past the end of a group are not touched."""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

adlgen, source = sys.argv[1], pathlib.Path(__file__).parent / "grouped.tile.ir"
G, R, N, K, COUNTS, SENTINEL = 3, 160, 136, 72, [129, 0, 5], 0x4242
MECHANISMS = {"h100": ["via tensor", "via group", "role @producer"], "a100": ["via async", "via warp"]}


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def number(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def save(path, values, code="H"):
    path.write_bytes(struct.pack(f"<{len(values)}{code}", *values))


def call(*words):
    run = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


def tensor_map(name, rows):
    return {"buffer": name, "type": "bf16", "dims": [K, rows, G], "strides": [2 * K, 2 * K * rows], "box": [64, 128, 1],
            "swizzle": 128, "oob": "zero"}


def check(gpu, folder, a, b):
    call(adlgen, "compile", source, "--gpu", gpu, "--emit", "ptx", "--sms", 2, "--out", folder, "--print-after",
         "split_roles")
    ptx = folder / gpu / "gemm_grouped_masked.ptx"
    staged = next((folder / gpu).glob("*split_roles.ir")).read_text()
    for word in MECHANISMS[gpu]:
        if word not in staged:
            sys.exit(f"{gpu}: no `{word}` in the STAGED form")
    template = json.loads(call(adlgen, "sim", ptx, "--print-launch"))
    buffers = {"A": (a, R), "B": (b, N)}
    launch = dict(template, grid=[2, 1, 1], shared=100000, tensormaps={}, outputs={"D": "D.bin"}, buffers={
        "A": {"type": "bf16", "shape": [len(a)], "file": "A.bin"}, "B": {"type": "bf16", "shape": [len(b)], "file": "B.bin"},
        "counts": {"type": "s32", "shape": [G], "file": "counts.bin"},
        "D": {"type": "bf16", "shape": [G * R * N], "file": "before.bin"}})
    launch["args"] = [{"buffer": name} for name in ("A", "B", "counts", "D")] + [{"s32": n} for n in (G, R, N, K)]
    for argument in template["args"]:
        if "tensormap" in argument:
            name = argument["tensormap"].rsplit("_", 1)[1]
            launch["tensormaps"][name] = tensor_map(name, buffers[name][1])
            launch["args"].append({"tensormap": name})
    save(folder / "A.bin", a)
    save(folder / "B.bin", b)
    save(folder / "counts.bin", COUNTS, "i")
    save(folder / "before.bin", [SENTINEL] * (G * R * N))
    (folder / "launch.json").write_text(json.dumps(launch))
    call(adlgen, "sim", ptx, "--launch", folder / "launch.json", "--gpu", gpu)
    return struct.unpack(f"<{G * R * N}H", (folder / "D.bin").read_bytes())


def compare(gpu, out, a, b):
    values_a, values_b = [number(x) for x in a], [number(x) for x in b]
    for g in range(G):
        columns = [values_b[(g * N + n) * K:(g * N + n + 1) * K] for n in range(N)]
        for r in range(R):
            row = values_a[(g * R + r) * K:(g * R + r + 1) * K]
            for n in range(N):
                got = out[(g * R + r) * N + n]
                if r >= COUNTS[g]:
                    if got != SENTINEL:
                        sys.exit(f"{gpu}: row {r} of group {g} lies past its end and was written")
                    continue
                wanted = sum(x * y for x, y in zip(row, columns[n]))
                if abs(number(got) - wanted) > 2 ** -8 * abs(wanted) + 1e-4:
                    sys.exit(f"{gpu}: D[{g}, {r}, {n}] is {number(got)}, not {wanted}")


random.seed(7)
data = [[bf16(random.gauss(0, 1)) for _ in range(G * rows * K)] for rows in (R, N)]
for gpu in MECHANISMS:
    with tempfile.TemporaryDirectory() as folder:
        compare(gpu, check(gpu, pathlib.Path(folder), *data), *data)
        print(f"{gpu}: {sum(COUNTS) * N} elements right")
