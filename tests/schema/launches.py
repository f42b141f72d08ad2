#!/usr/bin/env python3
"""Every launch file of the repository is what docs/schemas/launch.schema.json says."""
import json
import sys

import validate

schema = validate.Schema("launch")
files = sorted(validate.ROOT.glob("tests/simulator/**/*.launch.json")) + sorted(validate.ROOT.glob("examples/sim/*.launch.json"))
wrong = [f"{path.relative_to(validate.ROOT)}: {fault}" for path in files for fault in schema.faults(json.loads(path.read_text()))]
print("\n".join(wrong) or f"{len(files)} files are valid")
sys.exit(bool(wrong) or not files)
