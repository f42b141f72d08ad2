#!/usr/bin/env python3
"""Asks ptxas which modifiers each instruction takes with which types.

    tests/simulator/forms/record.py PTXAS        writes the answers in forms.txt anew

A line `try` of forms.txt has an opcode, its operands, how many modifiers at most, the modifiers, and the types: every set of
so many of these modifiers is tried with every type (`all x all`: with every pair). Operands: t and s have the instruction's
first and second type (t twice its size with .wide, where it is the result or the addend), i 32 bits, p is a predicate, B
one where a modifier combines with one, C the first type where the operation compares; V is as many of it as .v2, .v4 or .v8
says. Anything else stands as it is; a slash parts two lists, of which one must do. A modifier behind + is in every set, and in
no answer. A line `order` has one set and one list of types: the line below has the orders that ptxas takes. The answers are the lines below it: types, then the
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


def vector(type_, at, modifiers):
    n = max([int(m[1:]) for m in modifiers if m in ("v2", "v4", "v8")], default=1)
    return register(type_, at) if n == 1 else "{" + ",".join([register(type_, at)] * n) + "}"


def instruction(opcode, operands, modifiers, types):
    made = []
    for at, operand in enumerate(operands.split(",")):
        scale = 2 if "wide" in modifiers and at in (0, 3) else 1
        made.append({"t": lambda: register(types[0], at, scale), "s": lambda: register(types[-1], at), "i": lambda: f"r{at}",
                     "V": lambda: vector(types[0], at, modifiers), "C": lambda: register(types[0], at) if "cas" in modifiers else "",
                     "p": lambda: f"p{at}", "B": lambda: "p8" if {"and", "or", "xor"} & set(modifiers) else ""}
                    .get(operand, lambda: operand)())
    return ".".join([opcode, *modifiers, *types]) + " " + ",".join(m for m in made if m) + ";"


def assemble(ptxas, lines):
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write("\n".join(HEAD + lines + ["ret;", "}", ""]))
        file.flush()
        return subprocess.run([ptxas, "-arch", "sm_100a", "-O0", file.name, "-o", "/dev/null"], capture_output=True, text=True)


def taken(ptxas, lines, tried):
    """ptxas names every line that is wrong, but some only when others are gone; and it ends with a signal at some."""
    while tried:
        done = assemble(ptxas, [lines[i] for i in tried])
        if done.returncode < 0:
            half = len(tried) // 2
            return taken(ptxas, lines, tried[:half]) | taken(ptxas, lines, tried[half:]) if half else set()
        wrong = {int(n) - len(HEAD) - 1 for n in re.findall(r"line (\d+); (?:error|fatal)", done.stderr + done.stdout)}
        wrong = {tried[n] for n in wrong if 0 <= n < len(tried)}
        if not wrong and done.returncode:
            sys.exit(done.stderr)
        if not wrong:
            break
        tried = [i for i in tried if i not in wrong]
    return set(tried)


def taken_of(ptxas, lines):
    return set().union(*(taken(ptxas, lines, list(range(i, min(i + AT_ONCE, len(lines))))) for i in range(0, len(lines), AT_ONCE)))


def answers(ptxas, line):
    _, opcode, operands, most, *words = line.split()
    split = words.index("types")
    modifiers, types = words[:split], words[split + 1:]
    fixed = [m[1:] for m in modifiers if m.startswith("+")]
    modifiers = [m for m in modifiers if not m.startswith("+")]
    singles = ALL if types[0] == "all" else types
    choices = [(a, b) for a in ALL for b in ALL] if types == ["all", "x", "all"] else [(t,) for t in singles]
    tries = [(chosen, which) for n in range(int(most) + 1) for chosen in itertools.combinations(modifiers, n) for which in choices]
    good = set().union(*(taken_of(ptxas, [instruction(opcode, one, [*fixed, *t[0]], t[1]) for t in tries]) for one in operands.split("/")))
    by_type = {}
    for i in sorted(good):
        chosen, which = tries[i]
        by_type.setdefault(".".join(which), []).append(" ".join(chosen) or "-")
    groups = {}
    for which, sets in by_type.items():
        groups.setdefault(tuple(sets), []).append(which)
    print(len(tries), "of", line[:60])
    return [f"{' '.join(which)} | {', '.join(sets)}" for sets, which in groups.items()]


def orders(ptxas, line):
    """Every order of the words in which the types keep theirs; `all` if ptxas takes each."""
    _, opcode, operands, *words = line.split()
    split = words.index("types")
    modifiers, types = words[:split], words[split + 1:]
    tries = [p for p in itertools.permutations(modifiers + types) if [w for w in p if w in types] == types]
    lines = []
    for one in tries:
        operands_of = instruction(opcode, operands, modifiers, types).split(" ", 1)[1]
        lines.append(".".join([opcode, *one]) + " " + operands_of)
    good = taken_of(ptxas, lines)
    print(len(tries), "of", line[:60])
    return ["all" if len(good) == len(tries) else " ".join(sorted(".".join(tries[i]) for i in good))]


def main():
    made = []
    for line in FILE.read_text().splitlines():
        if line.startswith("#"):
            made.append(line)
        elif line.startswith("try "):
            made += [line, *answers(sys.argv[1], line)]
        elif line.startswith("order "):
            made += [line, *orders(sys.argv[1], line)]
    FILE.write_text("\n".join(made) + "\n")


main()
