"""A sample of the catalogue under compute-sanitizer: memcheck (addresses) for the smallest case of every kernel of one
GPU, racecheck (shared memory) for some of those. A case passes if its result is right and the tool is silent."""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

from . import catalogue

TITLE = "compute-sanitizer"
SHARE = 12   # cases a process
RACES = 24   # cases of racecheck


def find_tool():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    found = shutil.which("compute-sanitizer") or os.path.join(home, "bin", "compute-sanitizer")
    return found if os.path.exists(found) else None


def run_share(context, tool, kind, share):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for case in share:
            file.write(json.dumps({k: v for k, v in case.items() if not k.startswith("_")}) + "\n")
        file.flush()
        words = [tool, "--tool", kind, "--error-exitcode", "9", context.adlgen, "run", "--batch", file.name, "--on", "gpu"]
        try:
            result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                    timeout=max(5, context.deadline - time.time()))
        except subprocess.TimeoutExpired:
            return 0, [], len(share)
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    wrong = [(f"{kind} {case['label']}", row.get("message") or "the result is wrong")
             for case, row in zip(share, rows) if not row["ok"]]
    text = result.stdout + result.stderr
    summary = re.search(r"(ERROR|RACECHECK) SUMMARY: (\d+)", text)
    if not summary or summary.group(2) != "0" or result.returncode == 9:
        told = [line for line in text.splitlines() if line.startswith("=========")][:12]
        wrong.append((f"{kind} over {share[0]['label']} .. {share[-1]['label']}", "\n".join(told) or text[-600:]))
    return max(0, len(rows) - len(wrong)), wrong, len(share) - len(rows)


def sample(context):
    seen, cases = set(), []
    gpu = (context.gpus or ["h100"])[0]
    for case in catalogue.cases(context):
        kernel = case["label"].split()[0]
        if case["gpu"] == gpu and kernel not in seen:
            seen.add(kernel)
            cases.append(case)
    return cases


def run(context):
    tool = find_tool()
    if not tool:
        print("  compute-sanitizer was not found: left out")
        return 0, [], 0
    cases = sample(context)
    jobs = [("memcheck", cases[i:i + SHARE]) for i in range(0, len(cases), SHARE)]
    racing = cases[::max(1, len(cases) // RACES)]
    jobs += [("racecheck", racing[i:i + 6]) for i in range(0, len(racing), 6)]
    with concurrent.futures.ThreadPoolExecutor(context.jobs) as pool:
        parts = list(pool.map(lambda job: run_share(context, tool, *job), jobs))
    return sum(p for p, _, _ in parts), [f for _, w, _ in parts for f in w], sum(n for _, _, n in parts)
