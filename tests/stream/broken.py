#!/usr/bin/env python3
"""A kernel whose blocks leave sums for each other, broken in its PTX in one place at a time: the simulator must say so.

    tests/stream/broken.py ADLGEN

The kernel is compiled, run once and kept with its launch; each rule changes one line, and `adlgen sim` must report a fault
of the named kind. The unchanged kernel must pass."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

GRAPH = {"name": "stream", "inputs": {"a": {"type": "bf16", "shape": [100, 320]}, "b": {"type": "bf16", "shape": [320, 64]}},
         "nodes": [{"op": "MatMul", "inputs": ["a", "b"], "outputs": ["c"]}], "outputs": ["c"]}
SETS = ["bm=64", "bn=64", "stages=3", "stream_k=3"]
# what is broken, the line (a regular expression, its last match is taken), what it becomes, what must be reported
RULES = [
    ("the flag is set without release", r"st\.release\.gpu\.global\.u32", "st.relaxed.gpu.global.u32", "race"),
    ("the flag is set for the block only", r"st\.release\.gpu\.global\.u32", "st.release.cta.global.u32", "race"),
    ("the flag is awaited without acquire", r"ld\.acquire\.gpu\.global\.u32", "ld.relaxed.gpu.global.u32", "race"),
    ("the flag is never set", r"(@%p\d+ +)st\.release\.gpu\.global\.u32 .*", r"", "deadlock"),
    ("the flag is set before other lanes have written", r"bar\.warp\.sync +0xFFFFFFFF;(?=\s+@%p\d+ +st\.release)", "", "race"),
    ("the flag is cleared before other lanes have seen it", r"bar\.warp\.sync +0xFFFFFFFF;(?=\s+@%p\d+ +st\.global)", "", "race"),
    ("nobody waits for the flag", r"@%p\d+ +bra +flag_\d+;", "", "race"),
    ("the flag stays set", r"@%p\d+ +st\.global\.b32 +\[%rd\d+\], 0;", "", "workspace"),
]


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return done.returncode, done.stdout


def launch(folder):
    text = json.loads(next(folder.glob("*.launch.json")).read_text())
    text["outputs"] = {"stream_flags": "flags.bin"}
    (folder / "launch.json").write_text(json.dumps(text))
    return folder / "launch.json"


def outcome(adlgen, folder, ptx):
    """Kinds of faults, `workspace` if flags are left set."""
    (folder / "broken.ptx").write_text(ptx)
    (folder / "flags.bin").unlink(missing_ok=True)
    code, text = run(adlgen, "sim", str(folder / "broken.ptx"), "--launch", str(folder / "launch.json"), "--json")
    kinds = {fault["kind"] for fault in json.loads(text).get("faults", [])} if code in (0, 5) else {text}
    if code == 0 and any((folder / "flags.bin").read_bytes()):
        kinds.add("workspace")
    return kinds, text


def main(adlgen):
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "graph.json").write_text(json.dumps(GRAPH))
        sets = [word for text in SETS for word in ("--set", text)]
        code, text = run(adlgen, "run", str(folder / "graph.json"), "--gpu", "h100", "--on", "sim", "--check", *sets, "--keep",
                         str(folder / "kept"))
        if code:
            sys.exit(f"the kernel does not run:\n{text}")
        folder = folder / "kept"
        ptx = next(folder.glob("*.ptx")).read_text()
        launch(folder)
        for what, pattern, to, want in [("nothing is broken", "$^", "", None), *RULES]:
            places = list(re.finditer(pattern, ptx)) if want else []
            if want and not places:
                print(f"{what}: no line matches {pattern}")
                failed += 1
                continue
            at = places[-1] if want else None
            text = ptx[:at.start()] + at.expand(to) + ptx[at.end():] if want else ptx
            kinds, report = outcome(adlgen, folder, text)
            good = want in kinds if want else not kinds
            failed += not good
            print(f"{what}: {', '.join(sorted(kinds)) or 'no fault'}{'' if good else f', expected {want}'}")
            if not good:
                print(report[:2000])
    print(f"{len(RULES) + 1 - failed} as expected, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
