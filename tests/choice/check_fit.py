#!/usr/bin/env python3
"""Is adl/model/h100.yaml what scripts/fit-cost writes? check_fit.py ADLGEN ROOT

By the committed times of plan-unlisted (bench/), which the constants FITTED were fitted to: from the committed file the script finds
nothing better and leaves every byte; from a file in which some of them are a fifth too small it finds their values
again, says so with a run of its own, and changes nothing else."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FITTED = ["all_copy", "l2_rate", "neighbours", "turn", "split_line"]
MOVED = {"all_copy": 0.8, "split_line": 0.8}
WITHIN = 0.01


def value_of(text, name):
    return float(re.search(rf"^  {name}: \{{value: ([\d.]+)", text, re.MULTILINE).group(1))


def moved(text):
    for name, factor in MOVED.items():
        text = re.sub(rf"^(  {name}: \{{value: )[\d.]+", rf"\g<1>{value_of(text, name) * factor:.6g}", text, flags=re.MULTILINE)
    return text


def fit(adlgen, root, text, names):
    """What the script makes of a model's text, of which it may change some constants."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "adl/model/h100.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        run = subprocess.run([root / "scripts/fit-cost", adlgen, "h100", f"plan-unlisted={root}/bench/plan-unlisted/h100.json", "--run",
                              "again", "--rounds", "1", "--only", ",".join(names)], capture_output=True, text=True,
                             env=dict(os.environ, ADLGEN_DATA_DIR=folder))
        if run.returncode:
            sys.exit(run.stdout + run.stderr)
        print(run.stdout, end="")
        return path.read_text()


def main():
    adlgen, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    committed = (root / "adl/model/h100.yaml").read_text()
    if fit(adlgen, root, committed, FITTED) != committed:
        sys.exit("scripts/fit-cost finds better values for " + ", ".join(FITTED) + ": the committed ones are not what it writes")
    found = fit(adlgen, root, moved(committed), list(MOVED))
    faults = [name for name in MOVED if abs(value_of(found, name) / value_of(committed, name) - 1) > WITHIN]
    if faults:
        sys.exit("scripts/fit-cost does not find again: " + ", ".join(faults))
    changed = [line for line in found.splitlines() if line not in committed.splitlines()]
    if len(changed) != 1 + len(MOVED) or not all(re.match("  (again|" + "|".join(MOVED) + "): ", line) for line in changed):
        sys.exit("scripts/fit-cost changes more than it fits:\n" + "\n".join(changed))


main()
