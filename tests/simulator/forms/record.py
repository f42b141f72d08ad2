#!/usr/bin/env python3
"""Asks ptxas which modifiers each instruction takes with which types.

    tests/simulator/forms/record.py PTXAS        writes the answers in forms.txt anew

A line `try` of forms.txt has an opcode, its operands, how many modifiers at most, the modifiers, and the types: every set of
so many of these modifiers is tried with every type (`all x all`: with every pair). Operands: t and s have the instruction's
first and second type (t twice its size with .wide, where it is the result or the addend), i 32 bits, p is a predicate, B
one where a modifier combines with one; anything else stands as it is; a slash parts two lists, of which one must do. The answers are the lines below it: types, then the
sets of modifiers, each set in the order of `try`. The test "simulator forms" holds the simulator, which goes by adl/forms.yaml,
against them, set by set."""
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).with_name("forms.txt")
BITS = {"pred": 1, "b128": 128, "f32x2": 64, "tf32": 32}
ALL = ("pred b8 u8 s8 b16 u16 s16 f16 bf16 b32 u32 s32 f32 tf32 f16x2 bf16x2 u16x2 s16x2 b64 u64 s64 f64 f32x2 b128").split()
HEAD = [".version 9.0", ".target sm_100a", ".address_size 64", ".visible .entry k()", "{",
        ".reg .pred p<9>; .reg .b16 h<9>; .reg .b32 r<9>; .reg .b64 d<10>; .reg .b128 x<9>;"]
AT_ONCE = 4000


def register(type_, number, scale=1):
    bits = BITS.get(type_) or int(re.match(r"[a-z]+(\d+)", type_)[1]) * (2 if type_.endswith("x2") else 1)
    return {1: "p", 8: "r", 16: "h", 32: "r", 64: "d", 128: "x"}[min(bits * scale if bits > 1 else 1, 128)] + str(number)


def instruction(opcode, operands, modifiers, types):
    made = []
    for at, operand in enumerate(operands.split(",")):
        scale = 2 if "wide" in modifiers and at in (0, 3) else 1
        made.append({"t": lambda: register(types[0], at, scale), "s": lambda: register(types[-1], at), "i": lambda: f"r{at}",
                     "p": lambda: f"p{at}", "B": lambda: "p8" if {"and", "or", "xor"} & set(modifiers) else ""}
                    .get(operand, lambda: operand)())
    return ".".join([opcode, *modifiers, *types]) + " " + ",".join(m for m in made if m) + ";"


def taken(ptxas, lines):
    """ptxas names every line that is wrong, but some only when others are gone."""
    good = set(range(len(lines)))
    for start in range(0, len(lines), AT_ONCE):
        while True:
            tried = [i for i in range(start, min(start + AT_ONCE, len(lines))) if i in good]
            with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
                file.write("\n".join(HEAD + [lines[i] for i in tried] + ["ret;", "}", ""]))
                file.flush()
                done = subprocess.run([ptxas, "-arch", "sm_100a", "-O0", file.name, "-o", "/dev/null"], capture_output=True, text=True)
            wrong = {int(n) - len(HEAD) - 1 for n in re.findall(r"line (\d+); (?:error|fatal)", done.stderr + done.stdout)}
            wrong = {tried[n] for n in wrong if 0 <= n < len(tried)}
            if not wrong and done.returncode:
                sys.exit(done.stderr)
            good -= wrong
            if not wrong:
                break
    return good


def answers(ptxas, line):
    _, opcode, operands, most, *words = line.split()
    split = words.index("types")
    modifiers, types = words[:split], words[split + 1:]
    singles = ALL if types[0] == "all" else types
    choices = [(a, b) for a in ALL for b in ALL] if types == ["all", "x", "all"] else [(t,) for t in singles]
    tries = [(chosen, which) for n in range(int(most) + 1) for chosen in itertools.combinations(modifiers, n) for which in choices]
    good = set().union(*(taken(ptxas, [instruction(opcode, one, *t) for t in tries]) for one in operands.split("/")))
    by_type = {}
    for i in sorted(good):
        chosen, which = tries[i]
        by_type.setdefault(".".join(which), []).append(" ".join(chosen) or "-")
    groups = {}
    for which, sets in by_type.items():
        groups.setdefault(tuple(sets), []).append(which)
    return [f"{' '.join(which)} | {', '.join(sets)}" for sets, which in groups.items()]


def main():
    made = []
    for line in FILE.read_text().splitlines():
        if line.startswith("#"):
            made.append(line)
        elif line.startswith("try "):
            made += [line, *answers(sys.argv[1], line)]
    FILE.write_text("\n".join(made) + "\n")


main()
