#!/usr/bin/env python3
"""Descriptions of GPUs with one value changed, or some families removed: each is either refused at a place in the file
that changed it, or every example compiles for it. Never exit 70, never exit 3, never a crash, never a hang.

    tests/fuzz/descriptions.py ADLGEN [--seed N] [--cases N] [--all] [--graphs NAME|FILE,...]

Values are drawn for every key of docs/adl.md: the ends of its range and beyond, wrong choices, other families. --all,
or ADLGEN_TEST_FULL in the environment, takes every value of every key once."""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASES = {"h100": [("warpgroup_mma", "bf16"), ("warp_mma", "s8"), ("warpgroup_mma", "fp8")],
         "a100": [("warp_mma", "f16")], "rtx4090": [("warp_mma", "fp8")]}
REMOVABLE = ("copy_async tma warp_mma warpgroup_mma matrix_load matrix_store mbarrier "
             "register_reallocation cluster elect dependent_launch lane_reduce cache_hint").split()
NUMBERS = ["0", "1", "2", "3", "7", "31", "64", "100", "1000", "65537", "4294967295"]
SPELLED = {"B": ["0 B", "1 B", "3 B", "16 B", "128 B", "6 KiB", "64 KiB", "100 KiB", "1 MiB", "3 GiB", "4000 GB"],
           "B/s": ["0 B/s", "1 B/s", "936 MB/s", "400 GB/s", "900 TB/s"],
           "MHz": ["0 MHz", "1 MHz", "900 MHz", "1830 GHz", "1.8 MHz"],
           "cycles": ["0 cycles", "1 cycles", "50 cycles", "1000000 cycles"], "W": ["0 W", "70 W", "700000 W"],
           "FLOP/s": ["0 FLOP/s", "1 TFLOP/s", "999 PFLOP/s"]}
TIMEOUT = 120


def rules():
    """(section, key, form) of every row of the reference."""
    section = None
    for line in (ROOT / "docs/adl.md").read_text().splitlines():
        if match := re.match(r"#### (.*)", line):
            section = match.group(1).strip()
        elif section and (match := re.match(r"\| `(\w+)` \| (.*?) \| .*? \| ", line)):
            yield section, match.group(1), match.group(2)


def values(form):
    words = re.findall(r"`([^`]+)`", form)
    if form == "text":
        return ["sm_77", "sm_80", "sm_90", "sm_100a", "sm_120"]
    if form == "version":
        return ["6.0", "7.4", "8.3", "9.0", "9.9"]
    if form == "true or false":
        return ["true", "false"]
    if form.startswith("one of"):
        return words
    if form.startswith("list of"):
        return ["[]", "[%s]" % ", ".join(words)] + ["[%s]" % word for word in words]
    if form.startswith("number type"):
        return ["f64", "e4m3", "s8", "f16"]
    if form.startswith("list, in B"):
        return ["[]", "[1 B]", "[16 B]", "[32 B]", "[64 B]", "[128 B]", "[1 GiB]"]
    if form.startswith("list, in"):
        return ["[]", "[1]", "[2]", "[3]", "[4]"]
    if form.startswith("numbers and ranges"):
        return ["[8]", "8..256 step 24", "3", "256"]
    if form.endswith("/clk/SM"):
        return ["%s %s" % (n, form) for n in ("0", "1", "300", "1000000")]
    return SPELLED.get(form, NUMBERS)


def description(base, section, key, value, shape):
    text = f'adl: 1\nname: changed\nextends: {base}\nsource: "a test"\n'
    if section == "Top level":
        return text + f"{key}: {value}\n"
    if section == "removed":
        return text + "families: {%s}\n" % ", ".join(f"{family}: null" for family in value) + (
            "limits: {cluster_portable: 1, cluster_max: 1}\npeaks: null\nchip: {%s}\n"
            % ", ".join(f"clusters_of_{n}: null" for n in range(2, 9)) if "cluster" in value else "peaks: null\n")
    if section.startswith("families."):
        return text + f"families: {{{section[9:]}: {{{key}: {value}}}}}\n"
    if section == "shape":
        return text + f"families: {{{shape[0]}: {{shapes: {{{shape[1]}: {{{key}: {value}}}}}}}}}\n"
    return text + f"{section}: {{{key}: {value}}}\n" + ("peaks: null\n" if section in ("chip", "throughput") else "")


def cases():
    for base, shapes in BASES.items():
        for section, key, form in rules():
            for value, shape in itertools.product(values(form), shapes if section == "shape" else [None]):
                yield base, section, key, value, shape
        for n in (1, 2, 3):
            for families in itertools.combinations(REMOVABLE, n):
                yield base, "removed", "", families, None


def run(command):
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
        return done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        return None, "hangs"


def complaint(adlgen, graphs, case):
    """What is wrong with how a description is taken; None: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "changed.yaml")
        pathlib.Path(path).write_text(description(*case))
        code, message = run([adlgen, "gpus", "check", path])
        if code == 1:
            return None if f"{path}:" in message else "is refused elsewhere than in its own file: " + message[:200]
        if code != 0:
            return f"ends gpus check with {code}: {message[:200]}"
        for graph in graphs:
            file = graph if "." in graph else f"examples/{graph}.json"
            code, message = run([adlgen, "compile", file, "--gpu", path, "--out", folder + "/out",
                                 "--emit", "ptx", "--no-cache"])
            if code != 0:
                return f"is accepted, but {graph} ends with {code}: {message[:300]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--graphs", default="linear,softmax")
    options = parser.parse_args()
    adlgen, chosen = os.path.abspath(options.adlgen), list(cases())
    if not options.all and not os.environ.get("ADLGEN_TEST_FULL"):
        chosen = random.Random(options.seed).sample(chosen, options.cases)
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, fault in zip(chosen, pool.map(lambda c: complaint(adlgen, options.graphs.split(","), c), chosen)):
            if fault:
                wrong += 1
                print(f"{case}: {fault}", flush=True)
    print(f"{len(chosen)} descriptions, {wrong} taken wrongly")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
