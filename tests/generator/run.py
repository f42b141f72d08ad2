#!/usr/bin/env python3
"""Op descriptions and what the front of the generator makes of them: run.py GRAPH-TOOL [--update] [NAME...]

Beside each NAME.json or NAME.yaml of this folder and of examples/ (expected/NAME.txt holds it): the graph after
inference, the programs of the fused operators and these themselves, and, with every symbol bound to a small number, the reference's results on default data.
The fused operators are also carried out and must give the same. Adding a test is adding a description and running with
--update."""
import difflib
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
LARGE = 1 << 22  # products beyond so many elements a tensor are not carried out here


def run(tool, command, path, bindings=()):
    done = subprocess.run([tool, command, str(path), *bindings], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}\n{done.stderr}"


def small_bindings(graph):
    """Each symbol at 5, or the nearest number that its facts allow."""
    bindings = []
    for name, low, high, multiple in re.findall(r"^dim (\S+) (\d+) \.\. (\d+) multiple (\d+)", graph, re.M):
        low, high, multiple = int(low), int(high), int(multiple)
        value = max(low, 5) + multiple - 1
        value -= value % multiple
        bindings.append(f"{name}={value if value <= high else high - high % multiple}")
    return bindings


def is_large(graph):
    def elements(shape):
        total = 1
        for extent in shape.split(","):
            total *= int(extent) if extent.strip().isdigit() else 8
        return total
    return any(elements(shape) > LARGE for shape in re.findall(r"^\w+ \S+: \w+ \[([^]]+)\]", graph, re.M))


def outcome(tool, path):
    graph = run(tool, "graph", path)
    text = [graph, run(tool, "programs", path), run(tool, "fusion", path)]
    if not is_large(graph):
        bindings = small_bindings(graph)
        text.append("\n".join([f"evaluate {' '.join(bindings)}".rstrip(), run(tool, "evaluate", path, bindings)]))
        verified = run(tool, "verify", path, bindings)
        text.append(f"fused as the graph\n{verified}")
    return "\n".join(text)


def plan_fits_schema(tool):
    """A plan with everything in it, as the program writes it."""
    plan = run(tool, "plan", HERE.parent / "fuzz/seeds/graph/plan.json")
    done = subprocess.run([HERE.parent / "schema/validate.py", "plan"], input=plan, text=True, check=False)
    return done.returncode == 0


def main():
    arguments = [a for a in sys.argv[2:] if a != "--update"]
    update = "--update" in sys.argv
    failed = total = 0
    paths = sorted([*HERE.glob("*.json"), *HERE.glob("*.yaml"), *EXAMPLES.glob("*.json"), *EXAMPLES.glob("*.yaml")])
    for path in paths:
        if arguments and path.stem not in arguments:
            continue
        total += 1
        expected_path = HERE / "expected" / f"{path.stem}.txt"
        expected = expected_path.read_text() if expected_path.exists() else ""
        actual = outcome(sys.argv[1], path)
        if actual != expected:
            sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), actual.splitlines(True),
                                                       str(expected_path.name), "now"))
            failed += not update
            if update:
                expected_path.parent.mkdir(exist_ok=True)
                expected_path.write_text(actual)
    if not arguments:
        failed += not plan_fits_schema(sys.argv[1])
        document = HERE.parents[1] / "docs/operators.md"
        table = subprocess.run([sys.argv[1], "operators"], capture_output=True, text=True, check=True).stdout
        if not document.exists() or document.read_text() != table:
            print("docs/operators.md is not what graph-tool operators prints")
            failed += not update
            if update:
                document.write_text(table)
    print(f"{total} descriptions, {failed} not as expected")
    return 1 if failed else 0


sys.exit(main())
