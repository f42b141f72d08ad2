"""Every committed kernel at the sizes around its tile that `adlgen catalog simulate` chooses.

Kernels that several GPUs share run for each. Every other case may use two SMs only, so that persistent kernels give a
block several tiles."""
import json
import pathlib
import subprocess

from . import batch

TITLE = "the catalogue"


def cases(context):
    words = [context.adlgen, "catalog", "simulate", "--list", "--json", "--root", str(context.root)]
    for gpu in context.gpus or []:
        words += ["--gpu", gpu]
    listed = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    graphs = {}
    for number, case in enumerate(listed["cases"]):
        # Equal texts are one object, so that lines of one graph are found to be equal fast.
        graph = graphs.setdefault(case["graph"], json.loads(case["graph"]))
        gpus = pathlib.PurePath(case["file"]).parts[0].split("-")
        for gpu in (g for g in gpus if not context.gpus or g in context.gpus):
            sizes = " ".join(f"{k}={v}" for k, v in case["dims"].items())
            yield {"label": f"{case['kernel']} {gpu} {sizes} skew={case['skew']}", "graph": graph, "gpu": gpu,
                   "dims": case["dims"], "skew": case["skew"], "sms": 2 * (number % 2), "_first": number}
    context.problems = [(f"{p['kernel']} {p['gpu']}", p["what"]) for p in listed["problems"]]


def run(context):
    passed, failures, left = batch.run(context, list(cases(context)))
    return passed, failures + context.problems, left
