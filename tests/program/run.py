#!/usr/bin/env python3
"""Programs of fused operators as text: run.py GRAPH-TOOL [--update] [NAME...]

Each NAME.program is read, verified, printed, read back, and matched with the families of kernels. NAME.txt beside it
holds the exit status and what was printed: the program and its family's view of it, or why none takes it (no-*), or
what is wrong with the text (wrong-*). A matched program is refused nowhere, one that is refused is matched nowhere."""
import difflib
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
STATUS = {"no": 3, "wrong": 1}


def main():
    arguments = [a for a in sys.argv[2:] if a != "--update"]
    update = "--update" in sys.argv
    tool, failed, total = pathlib.Path(sys.argv[1]).resolve(), 0, 0
    for path in sorted(HERE.glob("*.program")):
        if arguments and path.stem not in arguments:
            continue
        total += 1
        done = subprocess.run([tool, "program", path.name], cwd=HERE, capture_output=True, text=True, check=False)
        actual = f"exit {done.returncode}\n{done.stdout}{done.stderr}"
        beside = path.with_suffix(".txt")
        expected = beside.read_text() if beside.exists() else ""
        wanted = STATUS.get(path.stem.split("-")[0], 0)
        if done.returncode != wanted:
            print(f"{path.name}: exit {done.returncode}, not {wanted}\n{actual}")
            failed += 1
        elif actual != expected:
            sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), actual.splitlines(True), beside.name, "now"))
            failed += not update
            if update:
                beside.write_text(actual)
    print(f"{total} programs, {failed} not as expected")
    return 1 if failed or not total else 0


sys.exit(main())
