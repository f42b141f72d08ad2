#!/usr/bin/env python3
"""Is the cost model's choice still good? Judged by what was measured: check_choice.py ADLGEN ROOT

For each recording bench/SUITE/GPU.json of the suites below the present model chooses among the shapes of bench/suites/SUITE.json,
and the recorded times say what that costs: the geometric mean of best / chosen, the least of them, and the geometric
mean of best / best of the first 8 proposals (0: not asked of recordings of a few tiles of each kind). A choice that was
never measured cannot be judged; where more than a part of the shapes are such, they are to be measured anew
(docs/tune.md)."""
import json
import math
import pathlib
import subprocess
import sys

# mean, least of a shape, best of 8, part of the shapes whose choice was measured
LIMITS = {"plan-choice": (0.94, 0.85, 0.985, 1.0), "plan-choice-fp8": (0.94, 0.70, 0.985, 0.75),
          "plan-unlisted": (0.94, 0.85, 0, 0.9), "plan-drawn": (0.94, 0.75, 0, 0.9)}


def figures(result):
    """Geometric mean and least of best / chosen over what was measured, their number."""
    parts = []
    for product in result["products"]:
        times = [p["us"] for p in product["proposals"] if "us" in p]
        if "us" in product["proposals"][0]:
            parts.append((min(times) / product["proposals"][0]["us"], product["case"]))
    mean = math.exp(sum(math.log(p) for p, _ in parts) / len(parts)) if parts else 0
    return mean, min(parts, default=(0, "none")), len(parts)


def judge(adlgen, suite, recording):
    name = f"{suite}, {recording.stem}"
    run = subprocess.run([adlgen, "tune", "--suite", suite, "--gpu", recording.stem, "--evaluate", "--times",
                          recording, "--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    result = json.loads(run.stdout)
    n, (mean, (least, case), known), few = len(result["products"]), figures(result), result["choice"].get("best_of_8", 0)
    print(f"{name}: {known} of {n} choices measured, {mean:.4f} of the best, {least:.3f} at {case}, best of 8 {few:.4f}")
    wanted_mean, wanted_least, wanted_few, wanted_known = LIMITS[suite]
    if known < wanted_known * n:
        yield f"{name}: of {n} choices {known} were measured"
    if not mean >= wanted_mean:
        yield f"{name}: the mean is {mean:.4f}, at least {wanted_mean} is wanted"
    if not least >= wanted_least:
        yield f"{name}: {case} has {least:.3f} of the best, at least {wanted_least} is wanted"
    if not few >= wanted_few:
        yield f"{name}: the best of 8 is {few:.4f}, at least {wanted_few} is wanted"


def main():
    adlgen, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    recordings = [(suite, path) for suite in LIMITS for path in sorted((root / "bench" / suite).glob("*.json"))]
    faults = [f"{suite}: there is no recording" for suite in LIMITS if suite not in [s for s, _ in recordings]]
    faults += [fault for suite, recording in recordings for fault in judge(adlgen, suite, recording)]
    print("\n".join(faults) or "good")
    sys.exit(bool(faults))


main()
