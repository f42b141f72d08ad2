#!/usr/bin/env python3
"""Whole transformers of one layer as exporters write them, batch and length open, with random weights: models.py ADLGEN

Each folder of models/ has a model and what ONNX's reference evaluator makes of its inputs. gpt2, bert and t5 (both halves) are in
the dialect of torch's former exporter, llama-cache in that of torch.export, llama-cache-f16 is the former in 16 bits."""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent / "models"
CLOSE = ["--rtol", "1e-3", "--atol", "1e-4"]
COARSE = ["--rtol", "2e-3", "--atol", "2e-3"]  # f16: two units of results of order 1; and as a whole
MOST_ERROR = 1e-3  # of f16, as run --check has it; docs/numerics.md, "Beside another program's results"
RUNS = [(folder, gpu, []) for folder in ("gpt2", "bert", "t5", "llama-cache", "llama-cache-f16") for gpu in ("h100", "a100")]
RUNS += [("llama-cache", "h100", ["--fixed"])]

# What the models take for granted of their symbols: tables of 32 positions.
FACTS = {"gpt2": "dim sequence 0 .. 32 ", "bert": "dim seq_len 0 .. 32 ", "llama-cache": "dim past_sequence_length 0 .. 2147483647 "}


def run(adlgen, *arguments):
    return subprocess.run([adlgen, *arguments], capture_output=True, text=True, check=False, timeout=300)


def main():
    adlgen, faults = sys.argv[1], []
    for folder, gpu, more in RUNS:
        model, limits = HERE / folder, COARSE if folder.endswith("f16") else CLOSE
        done = run(adlgen, "run", model / "model.onnx", "--data", model / "test_data_set_0", "--gpu", gpu, "--on", "sim",
                   "--checkers", "none", *limits, *more)
        if done.returncode:
            faults.append(f"{folder} {gpu} {more}: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr}")
        for name, error in re.findall(r"^(\S+) +f16 +(\S+)", done.stdout, re.M):
            if not float(error) <= MOST_ERROR:
                faults.append(f"{folder} {gpu}: {name} is {error} off")
    for folder, fact in FACTS.items():
        text = run(adlgen, "import", HERE / folder / "model.onnx").stdout
        if fact not in text:
            faults.append(f"{folder}: no `{fact}` among {re.findall('^dim.*', text, re.M)}")
    long = run(adlgen, "run", HERE / "gpt2" / "model.onnx", "--gpu", "h100", "--on", "sim", "--dim", "batch=1", "--dim", "sequence=33")
    if long.returncode != 1 or "does not broadcast" not in long.stderr:
        faults.append(f"33 positions of 32: exit {long.returncode}\n{long.stderr}")
    print("\n".join(faults) or f"{len(RUNS)} runs of {len(list(HERE.iterdir()))} models")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
