#!/usr/bin/env python3
"""Asks ptxas which targets have an instruction, and from which PTX version on.

    tests/simulator/targets/record.py PTXAS        writes the columns of instructions.txt anew

instructions.txt has a line for each instruction: the first version for each target of the line `targets`, `-` where
there is none, then the instruction. Adding one is adding its text, with or without columns, and running this. The test
"simulator targets" holds the simulator against the columns; adl/instructions.yaml is what it goes by."""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).with_name("instructions.txt")
VERSIONS = ("6.3 6.4 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0").split()


def assembles(ptxas, preamble, target, version, instruction):
    text = (f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 prm)\n{{\n"
            + "\n".join(preamble) + f"\n{instruction}\nret;\n}}\n")
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([ptxas, "-arch", target, file.name, "-o", "/dev/null"], capture_output=True)
    return done.returncode == 0


def first_version(ptxas, preamble, target, instruction):
    """Versions only add; one at which the target itself is unknown counts as too old."""
    if not assembles(ptxas, preamble, target, VERSIONS[-1], instruction):
        return "-"
    low, high = 0, len(VERSIONS) - 1
    while low < high:
        middle = (low + high) // 2
        if assembles(ptxas, preamble, target, VERSIONS[middle], instruction):
            high = middle
        else:
            low = middle + 1
    return VERSIONS[low]


def main():
    ptxas = sys.argv[1]
    out, preamble, targets = [], [], []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for line in FILE.read_text().splitlines():
            if line.startswith("targets "):
                targets = line.split()[1:]
            elif line.startswith("preamble "):
                preamble.append(line[len("preamble "):])
            elif line and not line.startswith("#"):
                instruction = line.split("|", 1)[1].strip() if line[0] in "-0123456789" else line.strip()
                columns = pool.map(lambda t: first_version(ptxas, preamble, t, instruction), targets)
                line = " ".join(f"{c:>3}" for c in columns).lstrip() + " | " + instruction
            out.append(line)
    FILE.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
