#!/usr/bin/env python3
"""Runs the recordings' kernels on this machine's GPU and writes data/FAMILY.xz.

  record.py [FAMILY...] [--cubins DIR] [--assemble] [--out DIR] [--ptxas FILE] [--only TEXT]

--assemble only makes the cubins (ptxas is enough for that, a GPU is not needed); without --cubins they go to a folder
for this run alone. A kernel that ends with an
error of CUDA is recorded with its text; one that does not end is reported and left out; the rest goes on."""
import argparse
import concurrent.futures
import datetime
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import families
import store
from case import HEADER

HERE = pathlib.Path(__file__).resolve().parent


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("families", nargs="*", default=[])
    p.add_argument("--cubins")
    p.add_argument("--assemble", action="store_true")
    p.add_argument("--out", default=str(HERE / "data"))
    p.add_argument("--ptxas", default=os.environ.get("ADLGEN_PTXAS") or shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    p.add_argument("--only")
    p.add_argument("--timeout", type=float, default=8, help="seconds a kernel may take")
    p.add_argument("--stop", type=float, default=1e9, help="seconds after which a family's remaining cases are left out")
    return p.parse_args()


def modules_of(cases):
    modules = {}
    for case in cases:
        entries = modules.setdefault(case.module or case.name, {})
        entries[case.entry] = case.text
    return {name: HEADER + "\n".join(entries.values()) for name, entries in modules.items()}


def assemble(ptxas, folder, name, text):
    source, cubin = folder / f"{name}.ptx", folder / f"{name}.cubin"
    if cubin.exists() and source.exists() and source.read_text() == text:
        return None
    source.write_text(text)
    result = subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], capture_output=True, text=True)
    if result.returncode == 0:
        return None
    cubin.unlink(missing_ok=True)
    lines = text.split("\n")
    message = re.sub(r"ptxas \S+, line (\d+); (.*)", lambda m: f"{m[2]}: {lines[int(m[1]) - 1].strip()}", result.stderr.strip())
    return f"{name}: {message[:3000]}"


def assemble_all(ptxas, folder, cases):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(assemble, ptxas, folder, name, text) for name, text in modules_of(cases).items()]
        return [j.result() for j in jobs if j.result()]


def worker(name, only, folder, first, pipe):
    """Runs the cases from number `first` on; sends (number, kept results or a text)."""
    import cuda
    driver = cuda.Driver()
    pipe.send(("machine", {"gpu": driver.name, "driver": driver.version}))
    loaded, module = None, None
    for number, case in enumerate(select(name, only)):
        if number < first:
            continue
        pipe.send(("start", number))
        key = case.module or case.name
        cubin = folder / f"{key}.cubin"
        if not cubin.exists():
            pipe.send(("done", "not assembled"))
            continue
        if key != loaded:
            if module:
                driver.unload(module)
            loaded, module = key, driver.load(cubin.read_bytes())
        try:
            outputs = driver.run(module, case)
        except cuda.CudaError as e:
            pipe.send(("done", str(e)))
            return  # the context is lost; a new process goes on behind this case
        pipe.send(("done", [store.keep(s, outputs[s.buffer][s.offset:s.offset + s.bytes]) for s in case.segments]))
    pipe.send(("end", None))


def select(name, only):
    return [c for c in families.cases(name) if not only or only in c.name]


def record_family(name, options, folder):
    cases, results, machine, number = select(name, options.only), {}, {}, -1
    end = time.monotonic() + options.stop
    while number + 1 < len(cases) and time.monotonic() < end:
        here, there = multiprocessing.Pipe(False)
        process = multiprocessing.Process(target=worker, args=(name, options.only, folder, number + 1, there))
        process.start()
        there.close()
        begun = number
        while True:
            try:
                if not here.poll(options.timeout):
                    results[cases[max(number, 0)].name] = f"still running after {options.timeout:g} s"
                    break
                kind, value = here.recv()
            except EOFError:
                if number >= 0:
                    results.setdefault(cases[number].name, "the process died")
                break
            if kind == "machine":
                machine = value
            elif kind == "start":
                number = value
            elif kind == "done":
                results[cases[number].name] = value
            else:
                number = len(cases)
                break
        process.kill()
        process.join()
        if number == begun:
            number += 1
    return cases, results, machine


def main():
    options = parse()
    names = options.families or families.NAMES
    temporary = tempfile.TemporaryDirectory()
    folder = pathlib.Path(options.cubins or temporary.name)
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names:
        if options.assemble or not options.cubins:
            for problem in assemble_all(options.ptxas, folder, select(name, options.only)):
                print(problem)
                failed += 1
        if options.assemble:
            continue
        cases, results, machine = record_family(name, options, folder)
        machine["date"] = datetime.date.today().isoformat()
        bad = [(c.name, results.get(c.name, "not run")) for c in cases if not isinstance(results.get(c.name), list)]
        for case, why in bad[:20]:
            print(f"{case}: {why}")
        failed += len(bad)
        out = pathlib.Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        store.write(out / f"{name}.xz", machine, cases, results)
        print(f"{name}: {len(cases) - len(bad)} of {len(cases)} cases, {(out / (name + '.xz')).stat().st_size} bytes, "
              f"{json.dumps(machine)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
