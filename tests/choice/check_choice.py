#!/usr/bin/env python3
"""Is the cost model's choice still good? Judged by what was measured: check_choice.py ADLGEN ROOT

For each recording bench/plan-choice/GPU.json the present model chooses among the shapes of bench/suites/plan-choice.json, and
the recorded times say what that costs: geometric means of best / chosen >= 0.94 and best / best of the first 8 proposals
>= 0.985. A choice that was never measured cannot be judged; where more than a quarter are such, the shapes are to be
measured anew (docs/tune.md)."""
import json
import pathlib
import subprocess
import sys

FIRST, BEST_OF_8, KNOWN = 0.94, 0.985, 0.75
adlgen, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
recordings = sorted((root / "bench/plan-choice").glob("*.json"))
faults = [] if recordings else ["there is no recording"]
for recording in recordings:
    run = subprocess.run([adlgen, "tune", "--suite", "plan-choice", "--gpu", recording.stem, "--evaluate", "--times",
                          recording, "--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    result = json.loads(run.stdout)
    choice, n = result["choice"], len(result["products"])
    print(recording.stem, json.dumps(choice))
    if choice["products"] < KNOWN * n:
        faults.append(f"{recording.stem}: of {n} choices {choice['products']} were measured")
        continue
    for key, least in (("first", FIRST), ("best_of_8", BEST_OF_8)):
        if not choice[key] >= least:
            faults.append(f"{recording.stem}: {key} is {choice[key]:.4f}, at least {least} is wanted")
print("\n".join(faults) or "good")
sys.exit(bool(faults))
