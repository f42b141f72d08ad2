#!/usr/bin/env python3
"""The plan of every example for every GPU is what docs/schemas/plan.schema.json says, and its limits are those that
the program has: plans.py ADLGEN EXAMPLE"""
import pathlib
import re
import subprocess
import sys
import tempfile

import validate

adlgen, example = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
gpus = sorted(path.stem for path in (validate.ROOT / "adl/gpu").glob("*.yaml"))
schema = validate.Schema("plan")
faults = []
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([adlgen, "compile", example, "--gpu", ",".join(gpus), "--out", folder, "--emit", "ir"], check=True,
                   stdout=subprocess.DEVNULL)
    for gpu in gpus:
        text = (pathlib.Path(folder) / gpu / "plan.json").read_text()
        faults += [f"{gpu}: {fault}" for fault in schema.text_faults(text)]
limit = int(re.search(r"#define PLAN_MAX_VARIANTS (\d+)", (validate.ROOT / "plan/plan.h").read_text()).group(1))
told = schema.root["$defs"]["launch"]["properties"]["variants"]["maxItems"]
if told != limit:
    faults.append(f"the schema admits {told} variants, the program {limit}")
print("\n".join(faults) or f"{len(gpus)} plans are valid")
sys.exit(bool(faults))
