#!/usr/bin/env python3
"""tile_texts.py ADLGEN [--cases N] [--seed N]: kernels in TILE text, changed at random, through all passes. What is legal
compiles or is refused with its place (exit 0, 1 or 3): no change makes a fault of the compiler."""
import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = sorted(ROOT.glob("ir/kernels/**/*.tile.ir")) + sorted(ROOT.glob("ir/paper/*.tile.ir"))
OPERATIONS = ["add", "sub", "mul", "max", "min", "ge", "lt", "or", "div"]
EXTENTS = [0, 1, 2, 3, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256]
TYPES = ["f32", "f16", "e4m3", "tf32", "s8"]
OPERATION = re.compile(r"= (" + "|".join(OPERATIONS) + r") ")


def is_plain(line):
    return "{" not in line and "}" not in line


def number(line, text):
    found = list(re.finditer(r"(?<![\w%@])\d+(?!\.)", line))
    if not found:
        return line
    at = random.choice(found)
    return line[:at.start()] + str(random.choice(EXTENTS)) + line[at.end():]


def other_name(line, text):
    names = re.findall(r"@\w+\.\w+|%\w+", line)
    return line.replace(random.choice(names), random.choice(re.findall(r"@\w+\.\w+|%\w+", text)), 1) if names else line


def operand(line, change):
    """One of the tiles that the line reads, changed."""
    found = list(re.finditer(r"(@\w+\.\w+|%\w+)(?![\w:\[^])", line.split("=", 1)[-1]))
    if not found or not is_plain(line):
        return line
    at, offset = random.choice(found), len(line) - len(line.split("=", 1)[-1])
    return line[:offset + at.start()] + change(at.group()) + line[offset + at.end():]


def transposed(line, text):
    return line.replace("^T", "") if "^T" in line and random.random() < 0.5 else operand(line, lambda tile: tile + "^T")


def part(line, text):
    n = random.choice([16, 32, 64])
    return operand(line, lambda tile: f"{tile}[0 .. {n}, 0 .. {random.choice([n, 64])}]")


def walk(line, text):
    words = ["persistent 2", "persistent 1 pingpong 2", "cluster_m 2", "cluster_n 2", "split_k 2", "split_k 4", "raster 4"]
    return re.sub(r"^(\s*tiles [^{]*?)( persistent \d+)?( \{)$", rf"\1 {random.choice(words)}\3", line)


def left(line, text):
    leaves = ["break_if 1 > 0", "if 1 > 0 {\n break_if 1 > 0\n}", "order", "%zz: s32 = let 3", "turn @zz {\n order\n}"]
    return random.choice(leaves) + "\n" + line if is_plain(line) else line


CHANGES = [
    number,
    other_name,
    transposed,
    part,
    walk,
    left,
    lambda line, text: "" if is_plain(line) else line,
    lambda line, text: line + "\n" + line if is_plain(line) else line,
    lambda line, text: line.replace(" align 16", ""),
    lambda line, text: re.sub(r" multiple \d+", "", line),
    lambda line, text: line.replace("bf16", random.choice(TYPES), random.choice([1, 9])),
    lambda line, text: OPERATION.sub(lambda _: f"= {random.choice(OPERATIONS)} ", line),
    lambda line, text: re.sub(r"dim ([01])", lambda at: f"dim {1 - int(at.group(1))}", line),
]


def moved(lines, at):
    """A plain line, or all that a line opens, stands elsewhere."""
    end, depth = at, 0
    while end < len(lines):
        depth += lines[end].count("{") - lines[end].count("}")
        end += 1
        if depth <= 0:
            break
    piece = lines[at:end]
    del lines[at:end]
    to = min(max(1, at + random.choice([-8, -4, -2, -1, 1, 2, 4, 8])), len(lines))
    lines[to:to] = piece


def mutant(text):
    lines = text.split("\n")
    for _ in range(random.choice([1, 1, 2, 3])):
        at = random.randrange(1, len(lines))
        if random.random() < 0.12:
            moved(lines, at)
            continue
        at = min(at, len(lines) - 1)
        lines[at] = random.choice(CHANGES)(lines[at], text)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random.seed(given.seed)
    ends, faults = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "mutant.ir"
        for _ in range(given.cases):
            file, gpu = random.choice(FILES), random.choice(["h100", "a100"])
            path.write_text(mutant(file.read_text()))
            run = subprocess.run([given.adlgen, "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", path.parent / "out"],
                                 capture_output=True, text=True)
            ends[run.returncode] = ends.get(run.returncode, 0) + 1
            if run.returncode not in (0, 1, 3):
                faults += 1
                print(f"exit {run.returncode} of {file.name} for {gpu}:\n{path.read_text()}\n{run.stderr}", file=sys.stderr)
    print(", ".join(f"exit {code}: {n}" for code, n in sorted(ends.items())))
    sys.exit(faults > 0)


main()
