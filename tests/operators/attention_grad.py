#!/usr/bin/env python3
"""AttentionGrad against its definition in double precision: attention_grad.py ADLGEN

Gradients of attention's queries, keys and values: sizes about those of tiles, rows and keys apart, masks of all kinds, caps, heads that share keys,
rows that see nothing."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import runs
from attention_grad_graph import graph_of

adlgen = pathlib.Path(sys.argv[1]).resolve()
LIMITS = {"bf16": 1e-2, "f16": 2e-3, "f32": 2e-5}  # weights and their gradients are rounded to the operands' type


def rows(values, at, n, size):
    return [values[(at * n + i) * size:(at * n + i + 1) * size] for i in range(n)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def score(product, row, key, case, bias):
    """A key's score and its slope along the product, or None: it is hidden."""
    attributes = case.get("attributes", {})
    left, right, cap = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1), attributes.get("softcap", 0)
    if attributes.get("is_causal"):
        right = 0
    if (left >= 0 and key - row < -left) or (right >= 0 and key - row > right) or bias == -math.inf:
        return None
    scale = attributes.get("scale", 1 / math.sqrt(case["sizes"][5]))
    bent = math.tanh(product * scale / cap) if cap else 0
    return ((cap * bent if cap else product * scale) + bias, scale * (1 - bent * bent))


def reference(case, inputs):
    b, h, hk, m, n, d, e = case["sizes"]
    dq, dk, dv = [0.0] * (b * h * m * d), [0.0] * (b * hk * n * d), [0.0] * (b * hk * n * e)
    shape, mask = case.get("mask", ([1], [0.0]))
    for z in range(b * h):
        group = z // h * hk + z % h * hk // h
        q, g = rows(inputs["q"], z, m, d), rows(inputs["g"], z, m, e)
        k, v = rows(inputs["k"], group, n, d), rows(inputs["v"], group, n, e)
        for i in range(m):
            at = [(z // h, z % h, i, j) for j in range(n)]
            places = [sum(x % s * math.prod(shape[-c:] if c else []) for c, (x, s) in enumerate(zip(reversed(p), reversed(shape)))) for p in at]
            scores = [score(dot(q[i], k[j]), i, j, case, mask[places[j]]) for j in range(n)]
            peak = max((s[0] for s in scores if s), default=0)
            weights = [math.exp(s[0] - peak) if s else 0.0 for s in scores]
            total = sum(weights) or 1.0
            weights = [w / total for w in weights]
            of_weights = [dot(g[i], v[j]) for j in range(n)]
            delta = dot(weights, of_weights)
            for j in range(n):
                if not scores[j]:
                    continue
                of_product = weights[j] * (of_weights[j] - delta) * scores[j][1]
                for c in range(e):
                    dv[(group * n + j) * e + c] += weights[j] * g[i][c]
                for c in range(d):
                    dk[(group * n + j) * d + c] += of_product * q[i][c]
                    dq[(z * m + i) * d + c] += of_product * k[j][c]
    return {"dq": dq, "dk": dk, "dv": dv}


def check(case, gpus=("h100", "a100")):
    wanted = None
    for gpu in gpus:
        given = [("mask", "f32", case["mask"][0], case["mask"][1])] if "mask" in case else []
        inputs, outputs = runs.run(adlgen, graph_of(case), gpu, given)
        wanted = wanted or reference(case, inputs)
        for name, numbers in wanted.items():
            size = math.sqrt(sum(y * y for y in numbers))
            error = math.sqrt(sum((x - y) ** 2 for x, y in zip(outputs[name], numbers))) / (size or 1)
            if not error <= LIMITS[case["kind"]] or len(numbers) != len(outputs[name]):
                sys.exit(f"{gpu}, {case}: {name} is off by {error:.2e}, limit {LIMITS[case['kind']]}")
            print(f"{gpu} {case['kind']} {case['sizes']} {case.get('attributes', '')} {name}: {error:.2e}")


# batch, heads, heads of keys, rows, keys, sizes of a head
check({"kind": "f32", "sizes": (1, 2, 1, 17, 19, 8, 8), "attributes": {"is_causal": 1, "softcap": 2.0}})
check({"kind": "bf16", "sizes": (2, 2, 2, 33, 31, 32, 16)})
check({"kind": "f16", "sizes": (1, 4, 2, 65, 63, 16, 16), "attributes": {"is_causal": 1, "scale": 0.5}})
check({"kind": "bf16", "sizes": (1, 2, 1, 40, 70, 16, 16), "attributes": {"left_window_size": 5, "right_window_size": 3}})
check({"kind": "bf16", "sizes": (1, 64, 2, 8, 10, 16, 8), "attributes": {"is_causal": 1}})  # of 32 heads parts, whose sums are added
hidden = [-math.inf if i % 7 == 3 or (i + j) % 5 == 0 else 0.25 * ((i * j) % 3) for i in range(33) for j in range(20)]
check({"kind": "f16", "sizes": (1, 2, 1, 33, 20, 16, 16), "mask": ([33, 20], hidden)})  # rows 3, 10 .. see nothing

# Values wider than keys and narrower: kernels of each gradient, of which that of values does not read V.
wide = [("h100", (64, 200)), ("h100", (192, 64)), ("h100", (8, 256)), ("a100", (64, 192)), ("a100", (160, 64))]
lines = [{"label": f"{gpu} {widths}", "gpu": gpu, "graph": graph_of({"kind": "bf16", "sizes": (1, 1, 1, 24, 16, *widths), "attributes": {"is_causal": 1}})}
         for gpu, widths in wide]
alone = graph_of({"kind": "bf16", "sizes": (1, 1, 1, 24, 16, 64, 192)})
alone["nodes"][1]["outputs"] = ["dq", "", "dv"]
runs.run_batch(adlgen, lines + [{"label": "no dK", "gpu": "h100", "graph": {**alone, "outputs": ["dq", "dv", "y"]}}])

# What changes with products is more than the workspace has room for: shares, none of which is copied.
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder)
    (path / "shares.json").write_text(json.dumps(graph_of({"kind": "bf16", "sizes": (2, 16, 16, 8192, 8192, 128, 128)})))
    subprocess.run([adlgen, "compile", path / "shares.json", "--gpu", "h100", "--out", path / "out", "--emit", "ptx"], check=True, stdout=subprocess.DEVNULL)
    names = [launch["name"] for launch in json.loads((path / "out/h100/plan.json").read_text())["launches"]]
    if sum(name.startswith("attentiongradpart") for name in names) != 4 or any(name.startswith("identity") for name in names):
        sys.exit(f"two shares of two kernels each, and no copies: {names}")
