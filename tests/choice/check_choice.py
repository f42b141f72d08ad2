#!/usr/bin/env python3
"""Is the cost model's choice still good? Judged by what was measured: check_choice.py ADLGEN ROOT

For each recording bench/SUITE/GPU.json of the suites below the present model chooses among the shapes of bench/suites/SUITE.json,
and the recorded times say what that costs: geometric means of best / chosen >= 0.94 and best / best of the first 8 proposals
>= 0.985. A choice that was never measured cannot be judged; where more than a quarter are such, the shapes are to be
measured anew (docs/tune.md)."""
import json
import pathlib
import subprocess
import sys

SUITES = ["plan-choice", "plan-choice-fp8"]
FIRST, BEST_OF_8, KNOWN = 0.94, 0.985, 0.75
adlgen, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
recordings = [(suite, path) for suite in SUITES for path in sorted((root / "bench" / suite).glob("*.json"))]
faults = [f"{suite}: there is no recording" for suite in SUITES if suite not in [s for s, _ in recordings]]
for suite, recording in recordings:
    name = f"{suite}, {recording.stem}"
    run = subprocess.run([adlgen, "tune", "--suite", suite, "--gpu", recording.stem, "--evaluate", "--times",
                          recording, "--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    result = json.loads(run.stdout)
    choice, n = result["choice"], len(result["products"])
    print(f"{name}:", json.dumps(choice))
    if choice["products"] < KNOWN * n:
        faults.append(f"{name}: of {n} choices {choice['products']} were measured")
        continue
    for key, least in (("first", FIRST), ("best_of_8", BEST_OF_8)):
        if not choice[key] >= least:
            faults.append(f"{name}: {key} is {choice[key]:.4f}, at least {least} is wanted")
print("\n".join(faults) or "good")
sys.exit(bool(faults))
