#!/usr/bin/env python3
"""Descriptions of GPUs with several values changed at once: each is refused at a place in its own file, or every graph of
changed_graphs.jsonl runs right on the simulator, all checkers on. A graph may be refused (exit 3) where the description
lists no product of its types; never exit 70, a fault, a wrong result, a hang.

    tests/fuzz/changed_runs.py ADLGEN [--seed N] [--cases N] [--keep DIR]

PTX and plan.json of all the graphs then hold what the description says: no instruction of a family that is gone, no size,
swizzle or number beyond what is listed (KEPT below). What is drawn are values that the loader takes one by one: what of them together is contradictory, it has to see."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT = 180
BASES = {"h100": "h100 h100 h800 h20 h100-pcie".split(), "a100": "a100 a100 l40s rtx4090".split()}
CLUSTERS = [f"chip.clusters_of_{n}" for n in range(2, 9)]
SWIZZLES = ["[32 B]", "[64 B]", "[128 B]", "[32 B, 64 B]", "[32 B, 128 B]", "[64 B, 128 B]"]
MATRICES = ["[1]", "[2]", "[4]", "[1, 2]", "[1, 4]", "[2, 4]"]
# What any GPU has, and what those have that copy by tensor maps: a path, or several of which each has its value of a tuple.
COMMON = [
    ("limits.warps_per_sm limits.threads_per_sm", [(w, 32 * w) for w in (32, 40, 48, 56, 64, 96)]),
    ("limits.blocks_per_sm", [1, 2, 3, 5, 7, 16, 24, 64]),
    ("limits.registers_per_sm", [65536, 66304, 98304, 131072, 262144]),
    ("limits.shared_per_block limits.shared_per_sm limits.shared_carveouts limits.l1_and_shared",
     [(f"{n} KiB", f"{n + 1} KiB", f"[{n + 1} KiB]", f"{max(n + 1, 192)} KiB")
      for n in (48, 49, 53, 64, 67, 72, 80, 96, 100, 120, 131, 150, 160, 180, 200, 227, 255)]),
    ("limits.global_sector", ["32 B", "64 B", "128 B"]),
    ("limits.named_barriers", [1, 2, 3, 4, 5, 6, 7, 8, 11]),
    ("limits.schedulers", [1, 2, 4, 8]),
    ("chip.sm_count " + " ".join(CLUSTERS), [(n, *["null"] * 7) for n in (7, 13, 28, 46, 100, 131, 264)]),
    ("chip.l2", ["12 MiB", "40 MiB", "60 MiB"]),
    ("matrix_load.matrices", MATRICES),
    ("matrix_load.transpose", ["false"]),
    ("matrix_load.uniform_offset", ["true", "false"]),
    ("copy_async.sizes", ["[4 B]", "[8 B]", "[16 B]", "[4 B, 8 B]", "[8 B, 16 B]", "[4 B, 16 B]"]),
    ("copy_async", ["null"]), ("matrix_load", ["null"]), ("cache_hint", ["null"]), ("lane_reduce", ["null"]),
    ("latency.shared_load latency.block_barrier", [("1 cycles", "9000 cycles"), ("900 cycles", "1 cycles")]),
    ("throughput.conversion", ["1 op/clk/SM", "256 op/clk/SM"]),
    ("throughput.shared", ["16 B/clk/SM", "64 B/clk/SM"]),
    *((f"warp_mma.shapes.{shape}", ["null"]) for shape in "f16 bf16 tf32 s8 f16_f16".split()),
]
TENSOR = [
    ("tma.swizzles", SWIZZLES), ("warpgroup_mma.swizzles", SWIZZLES),
    ("tma.multicast", ["false"]),
    ("tma.shared_alignment", ["256 B", "512 B", "1024 B", "4096 B"]),
    ("tma.stride_multiple", ["32 B", "64 B", "128 B", "4096 B"]),
    ("tma.box_max", [8, 16, 24, 32, 48, 64, 100, 128, 200]),
    ("tma.box_row_multiple", ["32 B", "64 B", "128 B"]),
    ("tma.rank_max", [1, 2, 3, 4]),
    ("tma.bulk_multiple", ["32 B", "128 B", "4096 B"]),
    ("warpgroup_mma.alignment", ["64 B", "128 B", "1024 B", "4096 B"]),
    ("warpgroup_mma.swizzle_alignment", ["2048 B", "4096 B"]),
    ("warpgroup_mma.groups_in_flight", [1, 2, 3, 5]),
    ("warpgroup_mma.a", ["[shared]"]),
    *((f"warpgroup_mma.shapes.{shape}", ["null"]) for shape in "f16 bf16 tf32 fp8 s8 f16_f16".split()),
    ("matrix_store.matrices", MATRICES), ("matrix_store.transpose", ["false"]),
    ("mbarrier.arrivals_max", [1, 2, 5, 32, 127, 128, 129, 256, 384]),
    ("mbarrier.bytes_max", ["100 B", "1024 B", "16384 B", "30000 B", "49151 B", "65535 B"]),
    ("register_reallocation.min", [24, 32, 40, 56, 64, 80]),
    ("register_reallocation.max", [128, 152, 160, 168, 192, 208, 232, 240, 248]),
    ("register_reallocation.step", [8, 16, 32, 64]),
    *((family, ["null"]) for family in "tma matrix_store mbarrier register_reallocation elect dependent_launch".split()),
    ("warpgroup_mma register_reallocation", [("null", "null")]),
    ("cluster limits.cluster_portable limits.cluster_max " + " ".join(CLUSTERS), [("null", 1, 1, *["null"] * 7)]),
    ("limits.cluster_portable", [1, 2, 3, 4, 5, 7]),
    (" ".join(CLUSTERS), [(n, *[max(1, n // 2)] * 6) for n in (1, 2, 5, 66)]),
    ("tma.throughput tma.latency", [("1 B/clk/SM", "5000 cycles"), ("400 B/clk/SM", "10 cycles")]),
]
SECTIONS = ("limits", "chip", "latency", "throughput")


# ---- what kernels and plans may not hold, by path of what is changed ----

def never(pattern):
    """Of a family, or a property of one, that is taken away."""
    return lambda value, ptx, variants: re.findall(pattern, ptx) if value in ("null", "false", "[shared]") else []


def listed(value):
    return {int(word) for word in re.findall(r"\d+", str(value))}


def amount(value):
    number, _, unit = str(value).partition(" ")
    return int(number) * (1024 if unit == "KiB" else 1)


def above(pattern):
    return lambda value, ptx, variants: [n for n in map(int, re.findall(pattern, ptx)) if n > amount(value)]


def beside(pattern):
    """Numbers that are not listed."""
    return lambda value, ptx, variants: [n for n in map(int, re.findall(pattern, ptx)) if n not in listed(value)]


def maps(variants):
    return [a for v in variants for a in v["arguments"] if a["kind"] == "tensormap"]


def swizzled(value, variants):
    return [m["swizzle"] for m in maps(variants) if m["swizzle"] and m["swizzle"] not in listed(value)]


def multiplied(value, variants):
    """Of what warpgroup MMAs read: not of results, nor of weights that threads widen."""
    read = [{**v, "arguments": [a for a in v["arguments"] if not a["name"].startswith("map_out")]} for v in variants
            if "gemm_narrow" not in v["note"]]
    return swizzled(value, read)


HANDED = r"setmaxnreg\.(?:inc|dec)\.\S+\s+(\d+)"
KEPT = {
    "copy_async": never(r"cp\.async\.c\S+"), "matrix_load": never("ldmatrix"), "matrix_store": never("stmatrix"),
    "cache_hint": never(r"createpolicy|L2::cache_hint"), "mbarrier": never("mbarrier"), "elect": never(r"elect\.sync"),
    "register_reallocation": never("setmaxnreg"), "dependent_launch": never("griddepcontrol"), "warpgroup_mma": never("wgmma"),
    "tma": never(r"cp\.async\.bulk\.tensor"), "cluster": never(r"mapa|barrier\.cluster"),
    "matrix_load.transpose": never(r"ldmatrix\S*\.trans"), "matrix_store.transpose": never(r"stmatrix\S*\.trans"),
    "tma.multicast": never("multicast"),
    "matrix_load.matrices": beside(r"ldmatrix\S*\.x(\d)"), "matrix_store.matrices": beside(r"stmatrix\S*\.x(\d)"),
    "copy_async.sizes": beside(r"cp\.async\.c\S+ [^;]*\], (\d+)"),
    "warp_mma.shapes.bf16": never(r"mma\.sync\S*\.bf16\.bf16"), "warp_mma.shapes.f16": never(r"mma\.sync\S*f32\.f16\.f16\.f32"),
    "warp_mma.shapes.tf32": never(r"mma\.sync\S*\.tf32"), "warp_mma.shapes.s8": never(r"mma\.sync\S*\.s8\.s8"),
    "warpgroup_mma.shapes.bf16": never(r"wgmma\.mma_async\S*\.bf16"), "warpgroup_mma.shapes.f16": never(r"wgmma\.mma_async\S*f32\.f16"),
    "warpgroup_mma.shapes.fp8": never(r"wgmma\.mma_async\S*f32\.e\dm"), "warpgroup_mma.shapes.s8": never(r"wgmma\.mma_async\S*\.s8"),
    "warpgroup_mma.a": never(r"wgmma\.mma_async\S*\s+\{[^}]*\},\s+\{"),
    "tma.swizzles": lambda value, ptx, variants: swizzled(value, variants),
    "warpgroup_mma.swizzles": lambda value, ptx, variants: multiplied(value, variants),
    "tma.box_max": lambda value, ptx, variants: [side for m in maps(variants) for side in m["box"] if isinstance(side, int) and side > value],
    "tma.rank_max": lambda value, ptx, variants: [len(m["box"]) for m in maps(variants) if len(m["box"]) > value],
    "tma.stride_multiple": lambda value, ptx, variants: [
        s for m in maps(variants) for s in m["strides"] if isinstance(s, int) and s % amount(value)],
    "mbarrier.arrivals_max": above(r"mbarrier\.init\S*\s+\[[^]]*\], (\d+)"),
    "mbarrier.bytes_max": above(r"expect_tx\S*\s+[^;]*, (\d+);"),
    "register_reallocation.max": above(HANDED),
    "register_reallocation.min": lambda value, ptx, variants: [n for n in map(int, re.findall(HANDED, ptx)) if n < value],
    "register_reallocation.step": lambda value, ptx, variants: [n for n in map(int, re.findall(HANDED, ptx)) if n % value],
    "limits.named_barriers": lambda value, ptx, variants: [
        n for n in map(int, re.findall(r"(?:bar|barrier)\.\S*\s+(\d+)", ptx)) if n >= value],
    "limits.cluster_portable": lambda value, ptx, variants: [
        v["cluster"] for v in variants if v["cluster"][0] * v["cluster"][1] * v["cluster"][2] > value],
    "limits.shared_per_block": lambda value, ptx, variants: [
        v["shared"] for v in variants if isinstance(v["shared"], int) and v["shared"] > amount(value)],
}


def one_graph(lines):
    """All graphs in one, each with names of its own; dimensions that they share they share."""
    whole = {"name": "all", "inputs": {}, "constants": {}, "nodes": [], "outputs": []}
    for number, line in enumerate(lines):
        graph, of = line["graph"], lambda name, number=number: f"{name}_{number}"
        for kind in ("inputs", "constants"):
            whole[kind].update({of(name): value for name, value in graph.get(kind, {}).items()})
        whole["nodes"] += [{**node, "inputs": [of(n) for n in node["inputs"]], "outputs": [of(n) for n in node["outputs"]]}
                           for node in graph["nodes"]]
        whole["outputs"] += [of(name) for name in graph["outputs"]]
    return whole


def not_honoured(adlgen, lines, changes, folder):
    (folder / "all.json").write_text(json.dumps(one_graph(lines)))
    done = run([adlgen, "compile", folder / "all.json", "--gpu", folder / "changed.yaml", "--out", folder / "out", "--emit", "ptx", "--no-cache"])
    if done is None or done.returncode:
        return ["all graphs in one: " + ("hangs" if done is None else done.stderr[:400])]
    ptx = "\n".join(path.read_text() for path in sorted((folder / "out/changed").glob("*.ptx")))
    plan = json.loads((folder / "out/changed/plan.json").read_text())
    variants = [variant for launch in plan["launches"] for variant in launch["variants"]]
    return [f"{path} = {value}, but kernels have {found[:3]}" for path, value in changes.items()
            if path in KEPT and (found := KEPT[path](value, ptx, variants))]


def drawn(rng):
    """A base, and {path: value}."""
    kind = rng.choice(["h100", "h100", "a100"])
    base = rng.choice(BASES[kind])
    changes = {}
    for paths, values in rng.sample(COMMON + (TENSOR if kind == "h100" else []), rng.choice([1, 1, 2, 2, 3, 4, 6])):
        value = rng.choice(values)
        changes.update(zip(paths.split(), value if isinstance(value, tuple) else [value]))
    if base not in ("h100", "h800"): # the others have measured no clusters
        changes = {path: value for path, value in changes.items() if path not in CLUSTERS}
    gone = [path for path, value in changes.items() if value == "null"]
    return base, {path: value for path, value in changes.items() if not any(path.startswith(g + ".") for g in gone)}


def description(base, changes):
    tree = {"peaks": "null"}
    for path, value in changes.items():
        words, node = path.split("."), tree
        for word in ([] if words[0] in SECTIONS else ["families"]) + words[:-1]:
            node = node.setdefault(word, {})
        node[words[-1]] = value
    return "\n".join(["adl: 1", "name: changed", f"extends: {base}", 'source: "a test"',
                      *(f"{key}: {flow(value)}" for key, value in tree.items())]) + "\n"


def flow(node):
    return "{%s}" % ", ".join(f"{key}: {flow(value)}" for key, value in node.items()) if isinstance(node, dict) else str(node)


def run(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None


def complaints(adlgen, lines, text, changes, folder):
    """What is wrong with how a description is taken; and whether it is refused."""
    path, batch = folder / "changed.yaml", folder / "runs.jsonl"
    path.write_text(text)
    done = run([adlgen, "gpus", "check", path])
    if done is None or done.returncode not in (0, 1):
        return ["gpus check hangs" if done is None else f"gpus check ends with {done.returncode}: {done.stderr[:300]}"], True
    if done.returncode:
        told = done.stdout + done.stderr
        return ([] if f"{path}:" in told else ["is refused elsewhere than in its own file: " + told[:300]]), True
    batch.write_text("".join(json.dumps({**line, "gpu": str(path), "label": line["graph"]["name"]}) + "\n" for line in lines))
    done = run([adlgen, "run", "--batch", batch, "--on", "sim", "--json"])
    if done is None:
        return ["a run hangs"], False
    results = [json.loads(line) for line in done.stdout.splitlines()]
    lacking = {r["label"] for r in results if r.get("exit") == 3 and "lists no product of" in r["message"]}
    wrong = [f"{r['label']}: {r.get('message') or json.dumps(r)[:400]}" for r in results
             if not r["ok"] and r["label"] not in lacking]
    if len(results) != len(lines):
        wrong.append(f"{len(results)} of {len(lines)} runs, exit {done.returncode}: {done.stderr[-400:]}")
    return wrong + not_honoured(adlgen, [line for line in lines if line["graph"]["name"] not in lacking], changes, folder), False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--keep", help="a folder for descriptions that are taken wrongly")
    options = parser.parse_args()
    adlgen, lines = os.path.abspath(options.adlgen), [json.loads(line) for line in (HERE / "changed_graphs.jsonl").open()]
    cases = options.cases * (20 if os.environ.get("ADLGEN_TEST_FULL") else 1)

    def judge(seed):
        base, changes = drawn(random.Random(seed))
        with tempfile.TemporaryDirectory() as folder:
            text = description(base, changes)
            wrong, refused = complaints(adlgen, lines, text, changes, pathlib.Path(folder))
        if wrong and options.keep:
            pathlib.Path(options.keep, f"changed-{seed}.yaml").write_text(text)
        return seed, base, changes, wrong, refused

    wrong = refusals = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for seed, base, changes, faults, refused in pool.map(judge, range(options.seed, options.seed + cases)):
            refusals += refused
            wrong += bool(faults)
            for fault in faults:
                print(f"seed {seed}, {base} with {changes}: {fault}", flush=True)
    print(f"{cases} descriptions, {refusals} refused, {wrong} taken wrongly")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
