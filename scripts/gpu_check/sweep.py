"""Random shapes: 1, primes, edges of tiles, long rows and long K, addresses off their alignment, every type and layout.
The seed of a case is its number, so that a failure can be seen again."""
import random

from . import batch

TITLE = "random shapes"
COUNT = 500
SMALL = [1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33]
MIDDLE = [63, 64, 65, 97, 127, 128, 129, 191, 192, 193, 255, 256, 257, 383, 509, 512, 513]
LARGE = [1000, 1021, 1024, 1025, 2047, 2048, 2053, 4093, 4096, 4099]
HUGE = [16381, 16384, 16411, 50021, 65536, 65537, 131072, 200003]
SIZE = {"f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "s8": 1}
WORK = 2.5e8  # products, or elements of rows


def pick(rng, *lists):
    return rng.choice(rng.choice(lists))


def offsets(rng, graph):
    """Some addresses a few elements off: every description here promises the element's alignment only."""
    if rng.random() < 0.4:
        return []
    tensors = {name: t["type"] for name, t in graph["inputs"].items()}
    return [f"{name}={rng.randrange(1, 17) * SIZE[kind]}" for name, kind in tensors.items() if rng.random() < 0.7]


def product(rng):
    kind = rng.choice(["bf16", "bf16", "f16", "tf32", "f32", "s8"])
    while True:
        m, n, k = pick(rng, SMALL, MIDDLE, LARGE), pick(rng, SMALL, MIDDLE, LARGE), pick(rng, SMALL, MIDDLE, LARGE, HUGE)
        # Sums of so many terms in f32 are beyond what is promised of f32 results.
        if m * n * k <= WORK and (kind != "f32" or k <= 4096):
            break
    a, b = {"type": kind, "shape": ["M", "K"]}, {"type": kind, "shape": ["K", "N"]}
    if rng.random() < 0.5:
        b["strides"] = [1, "K"]
    if rng.random() < 0.3:
        a["strides"] = [1, "M"]
    graph = {"name": f"product_{kind}", "inputs": {"A": a, "B": b},
             "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["P"]}], "outputs": ["P"]}
    if kind != "s8":
        # The slope of tanh shows the rounding of tf32 factors beyond the limit of the product itself.
        for op in rng.choice([[], [], ["bias"], ["Relu"], ["bias", "Gelu"], ["residual"], ["Abs" if kind == "tf32" else "Tanh"]]):
            last, out = graph["outputs"][0], f"{op}_out"
            if op in ("bias", "residual"):
                graph["inputs"][op] = {"type": kind, "shape": ["N"] if op == "bias" else ["M", "N"]}
                graph["nodes"].append({"op": "Add", "inputs": [last, op], "outputs": [out]})
            else:
                graph["nodes"].append({"op": op, "inputs": [last], "outputs": [out]})
            graph["outputs"] = [out]
    return graph, {"M": m, "N": n, "K": k}


def rows(rng):
    kind = rng.choice(["f32", "f16", "bf16"])
    op = rng.choice(["LayerNormalization", "RMSNormalization", "Softmax", "LogSoftmax", "ReduceSum", "ReduceMax"])
    while True:
        r, c = pick(rng, SMALL, MIDDLE, LARGE), pick(rng, SMALL, MIDDLE, LARGE, HUGE)
        if r * c <= WORK / 20 and (op != "ReduceSum" or c <= 4096):
            break
    graph = {"name": f"{op}_{kind}", "inputs": {"X": {"type": kind, "shape": ["R", "C"]}}, "outputs": ["Y"]}
    node = {"op": op, "inputs": ["X"], "outputs": ["Y"]}
    if op.startswith("Reduce"):
        graph["constants"] = {"axes": {"type": "s64", "shape": [1], "data": [-1]}}
        node["inputs"].append("axes")
    else:
        node["attributes"] = {"axis": -1}
    for name in {"LayerNormalization": ["gamma", "beta"], "RMSNormalization": ["gamma"]}.get(op, []):
        graph["inputs"][name] = {"type": kind, "shape": ["C"]}
        node["inputs"].append(name)
    graph["nodes"] = [node]
    return graph, {"R": r, "C": c}


def elementwise(rng):
    kind = rng.choice(["f32", "f16", "bf16"])
    op = rng.choice(["Relu", "Gelu", "Tanh", "Sigmoid", "Abs", "Add", "Mul", "Max"])
    dims = {"A": pick(rng, SMALL, MIDDLE), "B": pick(rng, SMALL, MIDDLE, LARGE, HUGE)}
    graph = {"name": f"{op}_{kind}", "inputs": {"X": {"type": kind, "shape": ["A", "B"]}},
             "nodes": [{"op": op, "inputs": ["X"], "outputs": ["Y"]}], "outputs": ["Y"]}
    if op in ("Add", "Mul", "Max"):
        graph["inputs"]["Z"] = {"type": kind, "shape": rng.choice([["A", "B"], ["B"], ["A", 1], [1]])}
        graph["nodes"][0]["inputs"].append("Z")
    return graph, dims


def case(seed, gpus):
    rng = random.Random(seed)
    graph, dims = rng.choice([product, product, rows, elementwise])(rng)
    gpu = rng.choice(gpus)
    words = {"graph": graph, "gpu": gpu, "dims": dims, "offset": offsets(rng, graph), "fixed": rng.random() < 0.3,
             "seed": seed}
    sizes = " ".join(f"{k}={v}" for k, v in dims.items())
    return {"label": f"seed {seed}: {graph['name']} {gpu} {sizes} {' '.join(words['offset'])}".strip(), **words}


def run(context):
    gpus = context.gpus or ["h100", "h800", "a100"]
    return batch.run(context, [case(seed, gpus) for seed in range(context.first, context.first + context.count)])
