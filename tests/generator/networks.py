#!/usr/bin/env python3
"""Networks of scripts/models: launches and bytes of the plan that a layer costs, and the workspace beside what is live: networks.py ADLGEN"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# launches of a layer; symbols at which the workspace is looked at
MODELS = {
    "bert": (7, [{"B": 1, "S": 1}, {"B": 1, "S": 128}, {"B": 32, "S": 128}]),
    "gpt2": (7, [{"B": 8, "S": 512}, {"B": 3, "S": 33}]),
    "gpt2-step": (7, [{"B": 32, "C": 1024}]),
    "llama": (8, [{"B": 1, "S": 512}, {"B": 2, "S": 4096}]),
    "llama-step": (8, [{"B": 64, "C": 4096}]),
}
LAYERS = 2, 4
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "s32": 4, "u32": 4}
# tests/onnx/models: launches that stacked products save
STACKED = {"bert": 2, "llama-cache": 2, "t5": 5}
MOST_BYTES = 20000  # of plan.json, of one layer more
MOST_WORKSPACE = 1.1  # times what is live


def compiled(adlgen, name, layers, folder):
    graph = subprocess.run([ROOT / "scripts/models", name, "--layers", str(layers)], capture_output=True, check=True).stdout
    subprocess.run([adlgen, "compile", "-", "--gpu", "h100", "--out", folder, "--emit", "ir", "--no-cache"], input=graph, check=True,
                   stdout=subprocess.DEVNULL)
    return (pathlib.Path(folder) / "h100" / "plan.json").read_text()


def launches_of(adlgen, name, folder, *options):
    subprocess.run([adlgen, "compile", ROOT / f"tests/onnx/models/{name}/model.onnx", "--gpu", "h100", "--out", folder, "--emit", "ir",
                    "--no-cache", *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return len(json.loads((pathlib.Path(folder) / "h100" / "plan.json").read_text())["launches"])


def value(expression, symbols):
    if isinstance(expression, int):
        return expression
    functions = {"ceil_div": lambda a, b: -(-a // b), "max": max, "min": min}
    return eval(re.sub(r"/", "//", expression), {"__builtins__": {}}, {**functions, **symbols})


def tensors_of(launches, launch):
    if "like" in launch:
        return {launch["tensors"].get(name, name) for name in tensors_of(launches, launches[launch["like"]])}
    return {argument["tensor"] for variant in launch["variants"] for argument in variant["arguments"] if "tensor" in argument}


def live(plan, symbols):
    launches, places = plan["launches"], {}
    for i, launch in enumerate(launches):
        for name in tensors_of(launches, launch):
            places.setdefault(name, []).append(i)
    sums = [0] * len(launches)
    for tensor in plan["tensors"]:
        if tensor["kind"] != "workspace":
            continue
        last = sum((value(extent, symbols) - 1) * value(step, symbols) for extent, step in zip(tensor["shape"], tensor["strides"]))
        size = -(-(last + 1) * BYTES[tensor["type"]] // 256) * 256
        used = range(len(launches)) if tensor.get("zero") else range(min(places[tensor["name"]]), max(places[tensor["name"]]) + 1)
        for i in used:
            sums[i] += size
    return max(sums)


def main():
    adlgen, faults = sys.argv[1], []
    with tempfile.TemporaryDirectory() as folder:
        for name, (launches, sizes) in MODELS.items():
            texts = [compiled(adlgen, name, layers, f"{folder}/{name}{layers}") for layers in LAYERS]
            plans = [json.loads(text) for text in texts]
            layers = LAYERS[1] - LAYERS[0]
            more = (len(plans[1]["launches"]) - len(plans[0]["launches"])) / layers
            if more != launches:
                faults.append(f"{name}: {more} launches a layer instead of {launches}")
            grown = (len(texts[1]) - len(texts[0])) / layers
            if grown > MOST_BYTES:
                faults.append(f"{name}: plan.json grows by {grown} bytes a layer")
            for symbols in sizes:
                ratio = value(plans[1]["workspace"]["bytes"], symbols) / live(plans[1], symbols)
                if not 1 <= ratio <= MOST_WORKSPACE:
                    faults.append(f"{name} {symbols}: the workspace is {ratio:.3f} times what is live")
        for name, saved in STACKED.items():
            found = launches_of(adlgen, name, f"{folder}/{name}-each", "--skip", "stack_products") - launches_of(adlgen, name,
                                                                                                           f"{folder}/{name}")
            if found != saved:
                faults.append(f"{name}: stacked products save {found} launches instead of {saved}")
    print("\n".join(faults) or f"{len(MODELS)} networks")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
