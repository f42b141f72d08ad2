"""What tests of operators share: graphs that run on the simulator one by one or as a batch, and tensors in files."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

CODES = {"F16": "e", "F32": "f", "I32": "i", "I64": "q", "U8": "B", "I8": "b", "BOOL": "B"}
KINDS = {"bf16": "BF16", "f16": "F16", "f32": "F32", "s32": "I32", "s64": "I64", "s8": "I8", "bool": "BOOL"}


def has_turn(place, which):
    """Does case number `place` run on GPU number `which` of two? By default on one of them, in turn (0 1 1 0: lists often alternate
    by themselves); with ADLGEN_TEST_FULL on both."""
    return bool(os.environ.get("ADLGEN_TEST_FULL")) or (place + place // 2) % 2 == which


def numbers(kind, raw):
    if kind == "BF16":
        return [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in struct.unpack(f"<{len(raw) // 2}H", raw)]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(CODES[kind])}{CODES[kind]}", raw))


def load(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    return {name: numbers(e["dtype"], raw[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in json.loads(raw[8:8 + size]).items() if name != "__metadata__"}


def save(path, name, kind, shape, values):
    if kind == "bf16":  # values that it holds
        data = struct.pack(f"<{len(values)}H", *(struct.unpack("<I", struct.pack("<f", x))[0] >> 16 for x in values))
    else:
        data = struct.pack(f"<{len(values)}{CODES[KINDS[kind]]}", *values)
    text = json.dumps({name: {"dtype": KINDS[kind], "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def run(adlgen, graph, gpu, given=(), seed=5, dims=None, words=()):
    """Inputs and outputs of a run. given: name, type, shape and values of inputs; the others are random. dims: values of symbols; words: further options."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "graph.json").write_text(json.dumps(graph))
        words = [adlgen, "run", folder / "graph.json", "--gpu", gpu, "--on", "sim", "--out", folder, "--seed", seed, *words]
        words += [f"--dim={name}={value}" for name, value in (dims or {}).items()]
        for name, kind, shape, values in given:
            save(folder / f"{name}.given.safetensors", name, kind, shape, values)
            words.append(f"--input={name}={folder}/{name}.given.safetensors")
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{gpu} {graph['name']}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
        inputs = folder / "inputs.safetensors"
        return load(inputs) if inputs.exists() else {}, load(folder / "outputs.safetensors")


def results_of(adlgen, lines):
    texts = [json.dumps(line) for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "lines.jsonl")
        path.write_text("\n".join(texts) + "\n")
        done = subprocess.run([adlgen, "run", "--batch", path, "--on", "sim", "--json"], capture_output=True, text=True)
    return texts, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def run_batch(adlgen, lines):
    """Each line a graph, a GPU and what else `run --batch` takes; ends the test where one of them is wrong."""
    texts, results, complaints = results_of(adlgen, lines)
    wrong = [f"{texts[r['line'] - 1]}\n  {json.dumps(r)[:1500]}" for r in results if not r["ok"]]
    if wrong or len(results) != len(texts):
        sys.exit("\n".join(wrong) + f"\n{len(wrong)} wrong, {len(results)} of {len(texts)} ran\n{complaints[-3000:]}")
    print(f"{len(texts)} runs right")


def fault_batch(adlgen, lines, kind):
    """The same of lines whose runs end with a fault of the kind, and with no other."""
    texts, results, complaints = results_of(adlgen, lines)
    found = [{fault["kind"] for fault in r.get("faults", [])} for r in results]
    other = [texts[r["line"] - 1] for r, kinds in zip(results, found) if kinds != {kind} or r["ok"]]
    if other or len(results) != len(texts):
        sys.exit("\n".join(other) + f"\n{len(other)} are no fault of the kind {kind}, {len(results)} of {len(texts)} ran\n{complaints[-3000:]}")
    print(f"{len(texts)} faults found")
