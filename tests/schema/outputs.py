#!/usr/bin/env python3
"""Every command and action has a schema for --json, named in docs/cli.md, and prints what it says: outputs.py ADLGEN

Commands are those that --help lists, so that a new one fails here until it has a row, a file and a call below. Calls
that need longer preparations stand in transcripts (tests/cli): run.py checks what those print."""
import pathlib
import re
import subprocess
import sys
import tempfile

import validate

adlgen = pathlib.Path(sys.argv[1]).resolve()
root = validate.ROOT
SIM = root / "examples/sim"
# A call of each command; {gpu} stands for every GPU in turn.
CALLS = {
    "--version": ["--version"],
    "gpus": ["gpus"],
    "gpus show": ["gpus", "show", "{gpu}"],
    "gpus rules": ["gpus", "rules"],
    "gpus check": ["gpus", "check", str(root / "adl/gpu/{gpu}.yaml")],
    "ops": ["ops"],
    "doctor": ["doctor", "--ptxas", "no/such/file"],
    "compile": ["compile", str(root / "examples/softmax.json"), "--gpu", "{gpu}", "--out", "{out}", "--emit", "ptx", "--explain", "--time-passes"],
    "cache": ["cache"],
    "cache show": ["cache", "show"],
    "cache path": ["cache", "path"],
    "cache clear": ["cache", "clear"],
}
# What needs a GPU: committed results are checked instead (tests/schema/meson.build).
ELSEWHERE = {"bench"}


def call(words, folder):
    environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "TMPDIR": folder}
    return subprocess.run([adlgen, *words], capture_output=True, text=True, cwd=folder, env=environment)


def listed(text, title):
    """The first words of the lines under `title:` of a help text."""
    section = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.MULTILINE)
    return re.findall(r"^  (\w\S*)", section.group(1), re.MULTILINE) if section else []


def commands(folder):
    """"gpus", "gpus show", ...; a command that is nothing without an action is left out."""
    for command in listed(call(["--help"], folder).stdout, "commands"):
        text = call([command, "--help"], folder).stdout
        if "\n  --json " not in text:
            yield command, "takes no --json"
        actions = listed(text, "actions")
        optional = re.match(r"usage: adlgen \w+ (\[(?!OPTION)|(?!\w+\|\w))", text)
        if not actions or optional:
            yield command, None
        for action in actions:
            yield f"{command} {action}", None


def in_transcripts(command):
    """A transcript runs it with --json."""
    pattern = re.compile(rf"^\$ .*\badlgen {command}\b[^|;]* --json", re.MULTILINE)
    return any(pattern.search(case.read_text()) for case in (root / "tests/cli").glob("*.cmd"))


def call_faults(words, folder):
    result = call([*words, "--json"], folder)
    if result.returncode not in (0, 4):
        return [f"exit {result.returncode}: {result.stdout}{result.stderr}"]
    return validate.output_faults(result.returncode, result.stdout, words)


def main():
    faults = []
    table = validate.documented_outputs()
    gpus = sorted(path.stem for path in (root / "adl/gpu").glob("*.yaml"))
    with tempfile.TemporaryDirectory() as folder:
        known = {"--version", "run --batch", "bench report"}
        for command, fault in commands(folder):
            known.add(command)
            if fault:
                faults.append(f"{command}: {fault}")
            elif validate.schema_of_output(0, "", command.split()) is None:
                faults.append(f"{command}: docs/cli.md names no schema for it")
            if command not in CALLS and command not in ELSEWHERE and not in_transcripts(command):
                faults.append(f"{command}: no call here, and no transcript that runs it with --json")
        faults += [f"docs/cli.md: there is no command `{row}`" for row in table if row not in known]
        for name in set(table.values()):
            validate.Schema(name)
        for command, words in CALLS.items():
            for gpu in gpus if any("{gpu}" in word for word in words) else [""]:
                made = [word.format(gpu=gpu, out=f"{folder}/{gpu}") for word in words]
                faults += [f"{' '.join(made)}: {fault}" for fault in call_faults(made, folder)]
    print("\n".join(faults) or "all valid")
    return bool(faults)


sys.exit(main())
