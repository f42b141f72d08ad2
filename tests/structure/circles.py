#!/usr/bin/env python3
"""circles.py BUILD: which files need each other, by the symbols of their objects; fails for a circle that circles.txt
beside this file does not allow, and for a line there that no circle matches any more."""
import collections
import fnmatch
import pathlib
import re
import subprocess
import sys

sys.setrecursionlimit(10000)
build = pathlib.Path(sys.argv[1])


def objects():
    """Path of each object of the libraries -> its name: ir/passes_lower for ir/passes/lower.c."""
    found = {}
    for library in build.glob("*/**/libadlgen-*.a.p"):
        if "tests" in library.relative_to(build).parts:
            continue
        for file in library.glob("*.c.o"):
            found[str(file)] = f"{library.relative_to(build).parts[0]}/{file.name[:-4]}"
    return found


def uses(names):
    """Object -> the objects that define what it needs."""
    home, needs = {}, collections.defaultdict(set)
    out = subprocess.run(["nm", "-A", "-P", *names], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        file, rest = line.split(": ", 1)
        symbol, kind = rest.split()[:2]
        if kind == "U":
            needs[file].add(symbol)
        elif kind in "TDBRVW":
            home[symbol] = file
    return {file: {home[s] for s in needs[file] if s in home and home[s] != file} for file in names}


def circles(graph):
    """Strongly connected components of more than one node (Tarjan, 1972)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            component = stack[at:]
            del stack[at:]
            on_stack.difference_update(component)
            if len(component) > 1:
                found.append(component)

    for node in graph:
        if node not in index:
            visit(node)
    return found


def allowed():
    path = pathlib.Path(__file__).with_name("circles.txt")
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        patterns = re.sub(r"#.*", "", line).split()
        if patterns:
            yield number, patterns


def main():
    names = objects()
    if len(names) < 100:
        sys.exit(f"{build} holds {len(names)} objects of the libraries: not the build that is meant")
    rules, used, bad = list(allowed()), set(), 0
    for circle in circles(uses(names)):
        members = sorted({names[file] for file in circle})
        fitting = {number for number, patterns in rules
                   if all(any(fnmatch.fnmatchcase(m, p) for p in patterns) for m in members)}
        used |= fitting
        if not fitting:
            print(f"these files need each other: {' '.join(members)}")
            bad += 1
    for number, patterns in rules:
        if number not in used:
            print(f"circles.txt:{number}: no circle of {' '.join(patterns)} is left: take the line out")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
