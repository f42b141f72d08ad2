#!/usr/bin/env python3
"""Runs a transcript: run.py ADLGEN SOURCE_ROOT CASE.cmd [--update]

A transcript is what a terminal would show: a line `$ command` is run by sh in an empty folder, the lines up to the next
command are what it must print on both streams, and a last line `[exit N]` stands where the status is not 0. `...`
stands for any text within a line, a line `...` for any lines. `# ` begins a remark; `# needs ptxas` skips the case
where there is none. Commands find adlgen and validate (tests/schema/validate.py) in PATH and the
source in $SRC. What adlgen prints with --json, or for a batch, must be what its schema says: else the faults are
printed too. --update writes what was printed into the file."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
adlgen, root, case = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
update = "--update" in sys.argv
# What commands find as adlgen.
ADLGEN = """case " $* " in
*" --json "* | *" --batch "*) ;;
*) exec "{adlgen}" "$@" ;;
esac
case " $* " in *" --help "*) exec "{adlgen}" "$@" ;; esac
printed=$(mktemp)
"{adlgen}" "$@" >"$printed"
status=$?
[ $status -gt 128 ] || {validate} --output $status "$printed" "$@" >&2
cat "$printed"
rm -f "$printed"
exit $status
"""


def environment(folder):
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    validate = f'"{sys.executable}" "{root}/tests/schema/validate.py"'
    scripts = {"adlgen": ADLGEN.format(adlgen=adlgen, validate=validate), "validate": f'exec {validate} "$@"\n'}
    for name, script in scripts.items():
        (bin_folder / name).write_text("#!/bin/sh\n" + script)
        (bin_folder / name).chmod(0o755)
    keep = {k: v for k, v in os.environ.items() if k.startswith(("ADLGEN_PTXAS", "CUDA_", "ASAN_", "UBSAN_", "LSAN_"))}
    return {**keep, "PATH": f"{bin_folder}:{os.environ['PATH']}", "SRC": str(root), "HOME": str(folder),
            "TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "G_SLICE": "always-malloc"}


def has_ptxas():
    return subprocess.run([adlgen, "doctor"], capture_output=True).returncode == 0


def parse(text):
    """Header lines, then [command, expected lines, remarks before it] of each step."""
    header, steps, remarks = [], [], []
    for line in text.split("\n"):
        if line.startswith("$ "):
            steps.append([line[2:], [], remarks])
            remarks = []
        elif line.startswith("# ") and steps:
            remarks.append(line)
        elif steps:
            steps[-1][1].append(line)
        else:
            header.append(line)
    return header, steps


def run(command, folder, env):
    result = subprocess.run(["sh", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    text = result.stdout.decode(errors="replace").replace(str(root), "$SRC").replace(str(folder), "$TMP")
    printed = text.split("\n")
    if printed[-1] == "":
        printed.pop()
    if result.returncode:
        printed.append(f"[exit {result.returncode}]")
    return printed


def line_matches(pattern, line):
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), line) is not None


def matches(expected, printed):
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(matches(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and line_matches(expected[0], printed[0]) and matches(expected[1:], printed[1:])


def strip_blank(lines):
    while lines and lines[-1] == "":
        lines = lines[:-1]
    return lines


def main():
    header, steps = parse(case.read_text())
    if any(line.startswith("# needs ptxas") for line in header) and not has_ptxas():
        print("skipped: no ptxas")
        return SKIPPED
    failures = 0
    with tempfile.TemporaryDirectory(prefix="adlgen-test-") as name:
        folder = pathlib.Path(name).resolve()
        env = environment(folder)
        work = folder / "work"
        work.mkdir()
        for step in steps:
            printed = run(step[0], work, env)
            if matches(strip_blank(step[1]), strip_blank(printed)):
                continue
            if not update:
                failures += 1
                print(f"$ {step[0]}", "--- expected:", *step[1], "--- printed:", *printed, sep="\n")
            step[1] = printed + [""]
    if update:
        case.write_text("\n".join(header + [line for command, lines, remarks in steps
                                            for line in [*remarks, f"$ {command}", *strip_blank(lines), ""]]))
    return failures > 0


sys.exit(main())
