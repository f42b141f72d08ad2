#!/usr/bin/env python3
"""Replays the recorded kernels on the simulator and compares the results with those of the GPU.

  replay.py REPLAY-LAUNCHES [FAMILY...] [--gpu NAME] [--jobs N] [--sample N] [--only TEXT] [--checkers LIST]
            [--schedules N] [--keep DIR] [--bounds]

REPLAY-LAUNCHES is the program beside this file. --sample N takes one of N cases of a family of 500 and more, evenly, unless
ADLGEN_TEST_FULL is in the environment; --bounds prints the largest
distance of every approximate instruction. Results agree bit for bit unless the case says otherwise. The last line is
`N passed, N failed`."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading

import families
import store
from case import CHUNK

HERE = pathlib.Path(__file__).resolve().parent
# where the simulator is known to differ from the recording, with the reason
DIFFERENCES = json.loads((HERE / "differences.json").read_text())


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("families", nargs="*", default=[])
    p.add_argument("--gpu", default="h100")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--sample", type=int, default=1)
    p.add_argument("--only")
    p.add_argument("--checkers", default="all")
    p.add_argument("--schedules", default="1")
    p.add_argument("--keep")
    p.add_argument("--data", default=str(HERE / "data"))
    p.add_argument("--bounds", action="store_true")
    p.add_argument("--list", action="store_true", help="every wrong result, not only a case's first")
    arguments = p.parse_args()
    if os.environ.get("ADLGEN_TEST_FULL"):
        arguments.sample = 1
    return arguments


FLOATS = {"f16": (2, 0x7fff, 0x7c00), "bf16": (2, 0x7fff, 0x7f80), "f32": (4, 0x7fffffff, 0x7f800000),
          "f64": (8, (1 << 63) - 1, 0x7ff << 52)}


def distance(kind, x, y):
    """Places between two floats given as patterns; infinite where only one is NaN or infinite."""
    size, magnitude, infinity = FLOATS[kind]
    if x == y:
        return 0
    if x & magnitude > infinity or y & magnitude > infinity:
        return float("inf") if (x & magnitude > infinity) != (y & magnitude > infinity) else 0
    place = lambda v: -(v & magnitude) if v > magnitude else v
    return abs(place(x) - place(y))


def number(kind, x):
    """The value of a pattern."""
    if kind == "bf16":
        return struct.unpack("<f", (x << 16).to_bytes(4, "little"))[0]
    letter, size = {"f16": ("e", 2), "f32": ("f", 4), "f64": ("d", 8)}[kind]
    return struct.unpack("<" + letter, x.to_bytes(size, "little"))[0]


def elements(data, width):
    return struct.unpack(f"<{len(data) // width}{ {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[width] }", data)


def compare(segment, stored, got, bounds):
    """None, or what differs first."""
    how, width, kept = stored
    if how == "crc":
        own = store.checksums(got)
        if own == kept:
            return None
        bad = [i for i in range(len(own) // 4) if own[4 * i:4 * i + 4] != kept[4 * i:4 * i + 4]]
        return f"{len(bad)} of {len(own) // 4} checksums differ, the first for bytes {bad[0] * CHUNK} to {bad[0] * CHUNK + CHUNK - 1}"
    if segment.how == "exact" and kept == store.planes(got, width):
        return None
    want, got = elements(store.unplane(kept, width), width), elements(got, width)
    place = lambda i: f" ({segment.where(i)})" if segment.where else ""
    if segment.how == "exact":
        bad = [i for i in range(len(want)) if want[i] != got[i]]
        i = bad[0]
        return f"{len(bad)} of {len(want)} differ, first element {i}{place(i)}: GPU 0x{want[i]:0{2 * width}x}, simulator 0x{got[i]:0{2 * width}x}"
    _, kind, bound, absolute, (operand, least, most) = segment.how
    worst, at = 0, 0
    for i, (x, y) in enumerate(zip(want, got)):
        far = distance(kind, x, y)
        if far > worst and abs(number(kind, x) - number(kind, y)) > absolute and (
                (least, most) == (0, float("inf")) or least <= abs(number(kind, int.from_bytes(segment.operand(operand, i), "little"))) <= most):
            worst, at = far, -i
    bounds.append((segment.label, kind, worst, bound))
    if worst <= bound:
        return None
    return f"{worst} ulp, bound {bound}, element {-at}{place(-at)}: GPU 0x{want[-at]:0{2 * width}x}, simulator 0x{got[-at]:0{2 * width}x}"


def check(case, recorded, error, folder, verdict, bounds):
    if error:
        return [] if verdict.startswith("fault ") else [f"{case.name}: GPU {error}, simulator {verdict}"]
    if verdict != "ok":
        return [f"{case.name}: {verdict}"]
    wrong = []
    outputs = {s.buffer: (folder / f"{case.name}.{s.buffer}.out").read_bytes() for s in case.segments}
    for s in case.segments:
        stored = recorded.get((case.name, s.label))
        if stored is None:
            wrong.append(f"{case.name}: {s.label}: no recording")
            continue
        problem = compare(s, stored, outputs[s.buffer][s.offset:s.offset + s.bytes], bounds)
        known = DIFFERENCES.get(f"{case.name}: {s.label}")
        if known and not problem:
            wrong.append(f"{case.name}: {s.label}: agrees now; take it out of differences.json")
        elif problem and not known:
            wrong.append(f"{case.name}: {s.label}: {problem}")
    for path in {folder / f"{case.name}.{s.buffer}.out" for s in case.segments}:
        path.unlink()
    return wrong


class Simulator:
    """A process that runs launches one after another; a new one where it ended."""

    def __init__(self, options):
        self.words = [options.program, options.gpu, options.checkers, options.schedules]
        self.process = None

    def run(self, folder, stem):
        if not self.process:
            self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(f"{folder / stem}.ptx {folder / stem}.json\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            answer = f"the simulator ended with status {self.process.wait()}"
            self.process = None
        return answer


def main():
    options = parse()
    passed, failed, bounds, local = 0, [], [], threading.local()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch)
        folder.mkdir(parents=True, exist_ok=True)

        def one(case, recorded, error):
            if not hasattr(local, "simulator"):
                local.simulator = Simulator(options)
            case.launch(folder, case.name)
            return check(case, recorded, error, folder, local.simulator.run(folder, case.name), bounds)

        for name in options.families or families.NAMES:
            machine, recorded, errors = store.read(pathlib.Path(options.data) / f"{name}.xz")
            cases = [c for i, c in enumerate(families.cases(name)) if i % options.sample == 0 or len(families.cases(name)) < 500]
            cases = [c for c in cases if not options.only or options.only in c.name]
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                wrong = list(pool.map(lambda c: one(c, recorded, errors.get(c.name)), cases))
            bad = [w for w in wrong if w]
            passed, failed = passed + len(wrong) - len(bad), failed + bad
            print(f"{name}: {len(wrong) - len(bad)} of {len(wrong)} cases as recorded on {machine['gpu']}", flush=True)
            for lines in bad:
                for line in lines if options.list else lines[:1]:
                    print("  " + line)
    if options.bounds:
        for label in sorted({b[0] for b in bounds}):
            rows = [b for b in bounds if b[0] == label]
            print(f"{label:30} {max(r[2] for r in rows):8g} ulp ({rows[0][1]}), bound {rows[0][3]}")
    print(f"{len(DIFFERENCES)} known differences (differences.json)")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
