#!/usr/bin/env python3
"""Every pass that may be skipped can be: skip.py ADLGEN SOURCE_ROOT

Compiles graphs without each optional pass. A pass that silently relies on another one's result fails here: the
verifier's exit 70 is adlgen's own fault, and an exit 3 has to name what was missing."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ADLGEN = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(sys.argv[2]).resolve()
GPUS = "a100,h100"
# Sizes are known, so that a graph has few kernels; between them they take every template.
GRAPHS = {"mlp.json": ["T=200"], "attention.json": ["T=65"], "softmax.json": ["M=40"], "layernorm.yaml": [],
          "elementwise.json": [], "linear.json": []}


def symbols(graph):
    text = (ROOT / "examples" / graph).read_text(encoding="utf-8")
    return set(re.findall(r"\b([A-Z])\b", text))


def compile_without(graph, skipped, folder, option="--skip"):
    dims = [word for dim in GRAPHS[graph] if dim[0] in symbols(graph) for word in ("--dim", dim)]
    command = [ADLGEN, "compile", str(ROOT / "examples" / graph), "--gpu", GPUS, "--emit", "ptx", "--jobs", "1", "--out",
               folder, *dims]
    if skipped:
        command += [option, skipped]
    return subprocess.run(command, capture_output=True, text=True)


def passes(folder):
    """All passes, from the hint that follows a wrong name; of these, the ones that may be skipped. Rewrites of fusion,
    which --skip takes too, have a test of their own (rewrites.py)."""
    result = compile_without("softmax.json", "no_such_pass", folder, "--start-after")
    names = re.search(r"^hint: one of: (.*)$", result.stderr, re.MULTILINE).group(1).split(", ")
    optional = []
    for name in names:
        result = compile_without("softmax.json", name, folder)
        needed = f"pass {name} cannot be skipped" in result.stderr
        if not needed and result.returncode in (0, 3) and (result.returncode == 0 or "error: " in result.stderr):
            optional.append(name)
        elif not needed:
            print(f"softmax.json without {name}: exit {result.returncode}: {result.stderr}")
            sys.exit(1)
    return optional


def main():
    with tempfile.TemporaryDirectory() as folder:
        optional = passes(folder)
        if len(optional) < 10:
            sys.exit(f"only {len(optional)} passes may be skipped: {optional}")
        cases = [(graph, name) for name in optional for graph in GRAPHS if graph != "softmax.json"]

        def run(case):
            with tempfile.TemporaryDirectory() as out:
                return case, compile_without(*case, out)

        bad = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for (graph, name), result in pool.map(run, cases):
                if result.returncode not in (0, 3) or (result.returncode == 3 and not result.stderr.strip()):
                    print(f"{graph} without {name}: exit {result.returncode}: {result.stderr.strip()[:400]}")
                    bad += 1
        print(f"{len(cases)} compilations without one of {len(optional)} passes, {bad} failed")
        return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
