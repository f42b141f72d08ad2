#!/usr/bin/env python3
"""ONNX's own backend cases: cases.py ADLGEN [--gpu GPU]... [--full] [--third N] [--match TEXT] [--on PLACE] [--list FILE]

Makes the cases of the Python package onnx (node models in memory, the others from the package's data), writes each as ONNX
does (model.onnx, test_data_set_0/*.pb) and runs `adlgen run --data` on it. Prints how many pass, are refused (by the
operator and the reason), are wrong, crash, or take too long; exit status 1 for wrong, crash and too long. "rounding" is a
case whose own outputs were computed in 16-bit floats: ours, which --check finds right, are a unit or two off; "drawn" are random numbers that ONNX leaves
open. Without --full a third of them, without the package none at all, which it says."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

PARTS = 3
LIMIT = 60  # seconds; no case is large
REFUSED, WRONG_INPUT, VERIFY = 3, 1, 5
TWO_F16_UNITS = 2 ** -9
SKIPPED = 77  # meson's
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")


def write_value(onnx, value, info, path):
    """A tensor, sequence, map or optional as ONNX's own tool writes it."""
    helper, kind = onnx.numpy_helper, info.type.WhichOneof("value")
    if not isinstance(value, onnx.TensorProto):
        make = {"map_type": helper.from_dict, "sequence_type": helper.from_list, "optional_type": helper.from_optional}
        value = make.get(kind, helper.from_array)(value, info.name)
    path.write_bytes(value.SerializeToString())


def write_case(onnx, case, folder):
    """False: it has no data."""
    if case.model is None:
        source = pathlib.Path(case.model_dir) if case.model_dir else None
        if not source or not (source / "test_data_set_0").is_dir():
            return False
        shutil.copytree(source, folder)
        return True
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    data = folder / "test_data_set_0"
    data.mkdir()
    for what, values, infos in (("input", case.data_sets[0][0], case.model.graph.input),
                                ("output", case.data_sets[0][1], case.model.graph.output)):
        for i, value in enumerate(values):
            write_value(onnx, value, infos[i], data / f"{what}_{i}.pb")
    return True


def make_cases(folder, part, match):
    """[(name, folder, rtol, atol)]"""
    import numpy  # pylint: disable=import-outside-toplevel
    import onnx  # pylint: disable=import-outside-toplevel
    from onnx.backend.test.case.model import collect_testcases  # pylint: disable=import-outside-toplevel
    from onnx.backend.test.loader import load_model_tests  # pylint: disable=import-outside-toplevel
    numpy.random.seed(0)
    numpy.seterr(all="ignore")
    found = {}
    for kind in KINDS:
        cases = collect_testcases() if kind == "simple" else []
        try:
            cases += load_model_tests(kind=kind)
        except ValueError:  # a kind that this version of the package has no data of
            pass
        found.update({f"{kind}/{case.name}": case for case in cases if case.kind == kind})
    cases = []
    for i, (name, case) in enumerate(sorted(found.items())):
        place = pathlib.Path(folder) / name.replace("/", ".")
        if i % PARTS in part and match in name and write_case(onnx, case, place):
            cases.append((name, place, case.rtol, case.atol))
    return cases


def reason(text):
    """The first error without the names of this model, so that alike ones are counted together."""
    line = next((line for line in text.splitlines() if line.startswith("error:") or ": error:" in line), text[:200])
    line = re.sub(r"^.*?error: ", "", line)
    line = re.sub(r": `[^`]*`( holds .*)?$", "", line)
    line = re.sub(r"`[^`]*` of shape \[[^]]*\]", "...", line)
    return re.sub(r"\((ONNX's number) (\d+)\)", "", line).strip()


def operators(place):
    """What the model consists of, the rarest first: to say whose refusal it was where the message does not."""
    import onnx  # pylint: disable=import-outside-toplevel
    nodes = onnx.load(place / "model.onnx", load_external_data=False).graph.node
    return "+".join(sorted({node.op_type for node in nodes}))[:60]


def is_right(command, rtol, atol):
    """By the reference, and within these of the case's outputs."""
    at = command.index("--rtol")
    command = command[:at] + ["--rtol", str(rtol), "--atol", str(atol), "--check"] + command[at + 4:]
    return subprocess.run(command, capture_output=True, timeout=LIMIT, check=False).returncode == 0


def only_rounded(command, place, atol):
    """The outputs are f16, right by the reference, and two units in the last place off at most."""
    import onnx  # pylint: disable=import-outside-toplevel
    data = [onnx.load_tensor(path) for path in (place / "test_data_set_0").glob("output_*.pb")]
    return all(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in data) and is_right(command, TWO_F16_UNITS, atol)


def only_drawn(command, place):
    """Dropout's random numbers, which ONNX leaves open: ours are not NumPy's, and right by the reference."""
    return operators(place) == "Dropout" and is_right(command, 1, 1e9)


def run(adlgen, gpu, on, case):
    name, place, rtol, atol = case
    command = [adlgen, "run", place / "model.onnx", "--data", place / "test_data_set_0", "--on", on,
               "--rtol", str(rtol), "--atol", str(atol)] + (["--gpu", gpu] if on != "reference" else [])
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return name, place, "slow", f"more than {LIMIT} s", LIMIT
    took = time.monotonic() - started
    if done.returncode == 0:
        outcome = "pass"
    elif done.returncode == REFUSED:
        outcome = "refused"
    elif done.returncode == WRONG_INPUT:
        outcome = "called wrong"  # which ONNX's cases are not
    elif done.returncode == VERIFY:
        outcome = "rounding" if only_rounded(command, place, atol) else "drawn" if only_drawn(command, place) else "wrong"
    else:
        outcome = "crash"
    text = done.stderr if outcome != "wrong" else done.stdout + done.stderr
    return name, place, outcome, text, took


def show(gpu, results):
    counts = collections.Counter(outcome for _, _, outcome, _, _ in results)
    print(f"{gpu}: {len(results)} cases: " + ", ".join(f"{counts[k]} {k}" for k in
                                                       ("pass", "rounding", "drawn", "refused", "called wrong", "wrong",
                                                        "crash", "slow")))
    why = collections.Counter()
    for _, place, outcome, text, _ in results:
        if outcome in ("refused", "called wrong"):
            why[(outcome, reason(text), "" if "`" in reason(text) else operators(place))] += 1
    for (outcome, text, ops), count in why.most_common():
        print(f"{count:5} {outcome}: {text}{'  [' + ops + ']' if ops else ''}")
    for name, _, outcome, text, _ in results:
        if outcome in ("wrong", "crash", "slow"):
            print(f"{outcome}: {name}\n{text[:1500]}")
    slowest = sorted(results, key=lambda r: -r[4])[:5]
    print("slowest: " + ", ".join(f"{name} {took:.1f} s" for name, _, _, _, took in slowest))
    return counts["wrong"] + counts["crash"] + counts["slow"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("adlgen")
    parser.add_argument("--gpu", action="append")
    parser.add_argument("--on", default="sim", choices=("sim", "gpu", "reference"))
    parser.add_argument("--third", type=int, default=0)
    parser.add_argument("--full", action="store_true", default=bool(os.environ.get("ADLGEN_TEST_FULL")))
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", help="a file for every case's outcome, as JSON")
    parser.add_argument("--keep", help="where the cases are written, and stay")
    arguments = parser.parse_args()
    try:
        import onnx  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        print("skipped: the Python package onnx is not there")
        return SKIPPED
    bad, listed = 0, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or scratch
        os.makedirs(folder, exist_ok=True)
        cases = make_cases(folder, range(PARTS) if arguments.full else [arguments.third], arguments.match)
        for gpu in arguments.gpu or ["h100"]:
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                results = list(pool.map(lambda case, gpu=gpu: run(arguments.adlgen, gpu, arguments.on, case), cases))
            bad += show(gpu, results)
            listed[gpu] = {name: [outcome, reason(text)] for name, _, outcome, text, _ in results}
        if arguments.list:
            pathlib.Path(arguments.list).write_text(json.dumps(listed, indent=1), encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
