#!/usr/bin/env python3
"""Kernels written by hand, on the simulator: no fault and no finding in six schedules, and the same bytes that an H100
wrote (recorded.json, made by tests/simulator/record/record.py).

    check.py ADLGEN [NAME...]"""
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "record"))
from launch import payload  # noqa: E402


def run(adlgen, name, folder):
    """What is wrong with a kernel, or None."""
    with open(os.path.join(HERE, name + ".launch.json")) as f:
        launch = json.load(f)
    path = os.path.join(folder, name + ".launch.json")
    with open(path, "w") as f:
        json.dump(launch, f)
    command = [adlgen, "sim", os.path.join(HERE, name + ".ptx"), "--launch", path, "--gpu", "h100", "--schedules", "6",
               "--strict", "--json"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode not in (0, 5):
        return result.stderr
    faults = json.loads(result.stdout)["faults"]
    if faults:
        return "\n".join(f"line {f['line']}: {f['kind']}: {f['message']}" for f in faults)
    with open(os.path.join(HERE, "recorded.json")) as f:
        recorded = json.load(f)["kernels"].get(name, {})
    for output, file in launch["outputs"].items():
        with open(os.path.join(folder, file), "rb") as f:
            digest = hashlib.sha256(payload(f.read())).hexdigest()
        if digest != recorded.get(output):
            return f"output '{output}' is not what was recorded on the GPU"
    return None


def main():
    adlgen = os.path.abspath(sys.argv[1])
    names = sys.argv[2:] or sorted(os.path.basename(p)[:-len(".launch.json")]
                                   for p in glob.glob(os.path.join(HERE, "*.launch.json")))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            wrong = run(adlgen, name, folder)
            failed += wrong is not None
            if wrong:
                print(f"{name}: {wrong}")
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
