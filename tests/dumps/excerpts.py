#!/usr/bin/env python3
"""Excerpts in docs/gemm.md are real: excerpts.py ADLGEN SOURCE_ROOT

A fenced block behind `<!-- from FILE -->` must be found in that file, which is a source or written by compiling the
example (explain.txt: what --explain prints): its lines in order, one right behind the other unless `...` stands between
them. A `*` in FILE is the number of a pass. Blanks at line ends and beginnings do not count."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ADLGEN = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(sys.argv[2]).resolve()
PAGE = ROOT / "docs" / "gemm.md"
BLOCK = re.compile(r"<!-- from (\S+) -->\n```\n(.*?)```\n", re.DOTALL)


def first_missing(excerpt, text):
    """The excerpt's first part that is not in the text behind what was found before, or None."""
    at = 0
    for part in re.split(r"^\s*\.\.\.\n", excerpt, flags=re.MULTILINE):
        part = [line.strip() for line in part.splitlines()]
        found = next((i for i in range(at, len(text)) if text[i:i + len(part)] == part), None)
        if found is None:
            return "\n".join(part)
        at = found + len(part)
    return None


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as out:
        compiled = subprocess.run([ADLGEN, "compile", ROOT / "examples" / "linear.json", "--gpu", "h100,a100", "--emit",
                                   "ir,ptx", "--print-after", "all", "--explain", "--out", out],
                                  check=True, stdout=subprocess.PIPE, text=True, timeout=60)
        (pathlib.Path(out) / "explain.txt").write_text(compiled.stdout)
        blocks = BLOCK.findall(PAGE.read_text())
        for name, excerpt in blocks:
            file = next((f for f in (*pathlib.Path(out).glob(name), ROOT / name) if f.is_file()), None)
            missing = first_missing(excerpt, [line.strip() for line in file.read_text().splitlines()]) if file else excerpt
            if missing:
                print(f"{PAGE.name}: not in {name}:\n{missing}\n")
                wrong += 1
    print(f"{len(blocks)} excerpts, {wrong} wrong")
    return 1 if wrong or not blocks else 0


sys.exit(main())
