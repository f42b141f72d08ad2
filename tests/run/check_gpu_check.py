#!/usr/bin/env python3
"""scripts/gpu-check against stand-ins for adlgen that fail, die, hang, and lose the GPU: check_gpu_check.py ROOT"""
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

root = pathlib.Path(sys.argv[1]).resolve()
# The stand-in answers each line by its label's first word.
STAND_IN = """\
    #!{python}
    import json, sys, time
    for line in open(sys.argv[sys.argv.index("--batch") + 1]):
        case = json.loads(line)
        word = case["label"].split()[0]
        result = {{"label": case["label"], "ok": word == "good"}}
        if word == "wrong":
            result["outputs"] = [{{"name": "y", "error": 0.5, "limit": 0.1, "misplaced": 0, "outliers": 3, "ok": False}}]
        if word == "die":
            sys.exit("segmentation fault, say")
        if word == "hang":
            time.sleep(60)
        if word == "lose":
            result.update(message="the GPU reports a fault", context="lost")
        print(json.dumps(result), flush=True)
        if word == "lose":
            sys.exit(5)
"""
WANT = {"wrong": "output y: error 0.5, limit 0.1, misplaced 0, outliers 3", "die": "exit 1: segmentation fault, say",
        "hang": "no answer in time", "lose": "the GPU reports a fault"}


def check(names, folder):
    """One process gets all of them, so that those behind a failure must go on in another."""
    program, suite = folder / "adlgen", folder / "suite.json"
    program.write_text(textwrap.dedent(STAND_IN).format(python=sys.executable))
    program.chmod(0o755)
    cases = [{"name": f"{name} {i}", "graph": {"name": "same"}, "gpus": ["x"]} for i, name in enumerate(names)]
    suite.write_text(json.dumps({"cases": cases}))
    result = subprocess.run([sys.executable, root / "scripts" / "gpu-check", program, suite, "--jobs", "1", "--timeout", "2"],
                            capture_output=True, text=True)
    good = names.count("good")
    expected = []
    for i, name in enumerate(names):
        if name != "good":
            expected.append(f"FAILED {name} {i} x\n    {WANT[name]}\n")
    missing = [text for text in expected if text not in result.stdout]
    last = f"{good} passed, {len(names) - good} failed"
    if missing or result.stdout.splitlines()[-1] != last or result.returncode != (1 if expected else 0):
        sys.exit(f"{names}: exit {result.returncode}, not there: {missing}, last line is to be {last!r}\n"
                 + result.stdout + result.stderr)


with tempfile.TemporaryDirectory() as path:
    check(["good", "good"], pathlib.Path(path))
    check(["good", "wrong", "good", "die", "good", "lose", "good", "good"], pathlib.Path(path))
    check(["hang", "good", "die"], pathlib.Path(path))
