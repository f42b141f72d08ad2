#!/usr/bin/env python3
"""Follows a page of the documentation command by command: follow.py ADLGEN SOURCE_ROOT PAGE

What a page shows in ```console blocks is run in an empty folder, in order: `$ command`, below it what it prints on both
streams, with `...` for any text in a line or any lines, as in tests/cli/run.py, which runs it. A command with nothing below
it must succeed, whatever it prints. `<!-- file: NAME -->` in front of a block writes the block into that file; `<!-- test:
command -->` is run and not shown to readers. Behind `<!-- columns -->` any number of blanks is like one: the width of a table's
columns depends on lines that the page leaves out. A page with no command fails: nothing would be followed; so does one with
commands of ours in another block, unless `<!-- not run: WHY -->` stands in front of it."""
import pathlib
import re
import subprocess
import sys
import tempfile

adlgen, root, page = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
PART = re.compile(r"<!-- test: (?P<hidden>.*?) -->|<!-- file: (?P<file>\S+) -->\n```\w*\n(?P<text>.*?)```|"
                  r"(?P<columns>^<!-- columns -->\n)?^```console\n(?P<shown>.*?)^```", re.DOTALL | re.MULTILINE)


BLOCK = re.compile(r"(?P<why><!-- not run: .+? -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
OURS = re.compile(r"^(\$ |adlgen |build/cli/adlgen |\./scripts/|scripts/|meson |ninja )", re.MULTILINE)


def not_followed(text):
    """Commands of blocks that nobody runs and that do not say why."""
    for block in BLOCK.finditer(text):
        if block["kind"] != "console" and not block["why"]:
            yield from (line for line in block["text"].splitlines() if OURS.match(line))


def quiet(command):
    """A step that must succeed and print nothing: what it printed shows where it fails."""
    return [f"$ {{ {command}\n}} >.printed 2>&1 || {{ status=$?; cat .printed; exit $status; }}".replace("\n", "; ")]


def squeezed(command, printed):
    yield f"$ {{ {command}; }} >.printed 2>&1; status=$?; tr -s ' ' <.printed; exit $status"
    yield from (re.sub(" +", " ", line) for line in printed)


def shown_steps(text, columns):
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *printed = step.rstrip("\n").split("\n")
        yield from quiet(command) if not printed else squeezed(command, printed) if columns else [f"$ {command}", *printed]


def steps(text):
    for part in PART.finditer(text):
        if part["hidden"]:
            yield from quiet(part["hidden"])
        elif part["file"]:
            yield f"$ cp '{{files}}/{part['file']}' ."
        else:
            yield from shown_steps(part["shown"], part["columns"])


def main():
    text = page.read_text()
    made = list(steps(text))
    if not any(part["shown"] for part in PART.finditer(text)):
        print(f"{page.name} shows no command")
        return 1
    idle = list(not_followed(text))
    for command in idle:
        print(f"{page.name}: nobody runs `{command}`")
    if idle:
        return 1
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder) / "files"
        files.mkdir()
        for part in PART.finditer(text):
            if part["file"]:
                (files / part["file"]).write_text(part["text"])
        case = pathlib.Path(folder) / f"{page.stem}.cmd"
        case.write_text("# needs ptxas\n" + "\n".join(line.replace("{files}", str(files)) for line in made) + "\n")
        return subprocess.run([sys.executable, root / "tests/cli/run.py", adlgen, root, case]).returncode


sys.exit(main())
