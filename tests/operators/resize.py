#!/usr/bin/env python3
"""resize.py ADLGEN: Resize and Upsample on the simulator against their definition, with what the run itself drew: each element of
the result is a sum over all of x's along each axis, by its kernel of the distance. Then open extents, chains of kernels and
types against the reference."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

from runs import run_batch

TOLERANCE = 2e-5
CENTRES = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")


def place(mode, i, extent, size, scale, region):
    width = scale * extent
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        return 0.0 if width == 1 else i * (extent - 1) / (width - 1)
    if mode == "tf_crop_and_resize":
        start, end = region
        inside = (end - start) * (extent - 1) / 2 if width == 1 else i * (end - start) * (extent - 1) / (width - 1)
        return start * (extent - 1) + inside
    if mode == "pytorch_half_pixel" and width == 1:
        return -0.5
    shift = extent / 2 * (1 - size / width) if mode == "half_pixel_symmetric" else 0
    return shift + (i + 0.5) / scale - 0.5


def nearest(how, at):
    return {"floor": math.floor, "ceil": math.ceil, "round_prefer_floor": lambda v: math.ceil(v - 0.5),
            "round_prefer_ceil": lambda v: math.floor(v + 0.5)}[how](at)


def kernel(mode, a, distance):
    d = abs(distance)
    if mode == "linear":
        return max(0.0, 1 - d)
    if d <= 1:
        return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1
    return a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a if d < 2 else 0.0


def along(row, size, scale, o, region):
    """One axis, as a list; None stands for what is outside of a region."""
    extent, mode, result = len(row), o.get("mode", "nearest"), []
    coordinates = o.get("coordinate_transformation_mode", "half_pixel")
    for i in range(size):
        at = place(coordinates, i, extent, size, scale, region)
        if coordinates == "tf_crop_and_resize" and not 0 <= at <= extent - 1:
            result.append(o.get("extrapolation_value", 0.0))
            continue
        if mode == "nearest":
            result.append(row[min(max(nearest(o.get("nearest_mode", "round_prefer_floor"), at), 0), extent - 1)])
            continue
        narrow = min(scale, 1.0) if o.get("antialias") else 1.0
        reach = math.ceil(2 / narrow) + 1
        near = range(math.floor(at) - reach, math.floor(at) + reach + 1)
        weights = {j: kernel(mode, o.get("cubic_coeff_a", -0.75), (j - at) * narrow) for j in near}
        if o.get("exclude_outside"):
            weights = {j: w for j, w in weights.items() if 0 <= j < extent}
        whole = sum(weights.values()) if o.get("antialias") or o.get("exclude_outside") else 1
        result.append(sum(w / whole * row[min(max(j, 0), extent - 1)] for j, w in weights.items()))
    return result


def read(path, name):
    """Elements of an f32 tensor in a file of tensors."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:start])[name]
    first, last = (start + offset for offset in entry["data_offsets"])
    return struct.unpack(f"<{(last - first) // 4}f", data[first:last])


def resize(shape, options, scales=None, sizes=None, region=None, kind="f32", dims=None, op="Resize"):
    constants, inputs = {}, ["X", "", "", ""]
    for i, (name, type_, data) in enumerate([("roi", "f32", region), ("scales", "f32", scales), ("sizes", "s64", sizes)]):
        if data is not None:
            constants[name] = {"type": type_, "shape": [len(data)], "data": data}
            inputs[1 + i] = name
    if op == "Upsample":
        inputs = ["X", "scales"]
    text = {"name": "g", "inputs": {"X": {"type": kind, "shape": shape}}, "constants": constants,
            "nodes": [{"op": op, "inputs": inputs, "outputs": ["Y"], "attributes": options}], "outputs": ["Y"],
            "opset": 9 if op == "Upsample" else 19}
    return {"graph": text, **({"dims": dims} if dims else {})}


def exact(adlgen, folder, gpu, shape, options, sizes, region=None):
    """Two dimensions of which the last, or both, change."""
    path, out = os.path.join(folder, "graph.json"), os.path.join(folder, "out")
    with open(path, "w") as file:
        json.dump(resize(shape, options, sizes=sizes, region=region)["graph"], file)
    run = subprocess.run([adlgen, "run", path, "--gpu", gpu, "--on", "sim", "--check", "--out", out], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{shape} to {sizes}, {options}: exit {run.returncode}\n{run.stdout}{run.stderr}")
    x, y = read(os.path.join(out, "inputs.safetensors"), "X"), read(os.path.join(out, "outputs.safetensors"), "Y")
    rows = [list(x[i * shape[1]:(i + 1) * shape[1]]) for i in range(shape[0])]
    region = region or [0, 0, 1, 1]
    rows = [along(row, sizes[1], sizes[1] / shape[1], options, (region[1], region[3])) for row in rows]
    columns = [along(list(column), sizes[0], sizes[0] / shape[0], options, (region[0], region[2])) for column in zip(*rows)]
    wanted = [column[i] for i in range(sizes[0]) for column in columns]
    worst = max(abs(a - b) for a, b in zip(y, wanted))
    if len(y) != len(wanted) or worst > TOLERANCE * max(1, *map(abs, wanted)):
        sys.exit(f"{shape} to {sizes}, {options}: {worst} off")


def definitions():
    sizes = [([1, 31], [1, 33]), ([3, 33], [3, 31]), ([2, 127], [2, 1025]), ([5, 1025], [4, 31]), ([4, 1], [4, 7]), ([3, 9], [6, 1])]
    drawn = 0
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in (*CENTRES, "align_corners", "asymmetric", "tf_crop_and_resize"):
            options = {"mode": mode, "coordinate_transformation_mode": coordinates}
            if mode == "nearest":
                options["nearest_mode"] = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")[drawn % 4]
            elif drawn % 3 == 1:
                options["exclude_outside"] = 1
            elif drawn % 3 == 2 and coordinates != "tf_crop_and_resize":
                options["antialias"] = 1
            region = [0, 0.1, 1, 1.2] if coordinates == "tf_crop_and_resize" else None
            if region:
                options["extrapolation_value"] = 10.0
            yield *sizes[drawn % len(sizes)][:1], options, sizes[drawn % len(sizes)][1], region
            drawn += 1


def against_reference():
    yield resize(["N", 3, 5, 7], {}, scales=[1, 1, 2, 3], dims={"N": 2})
    yield resize([2, 3, "H", "W"], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, scales=[1, 1, 2, 2],
                 dims={"H": 31, "W": 5})
    yield resize([2, 1, "H", "W"], {"mode": "linear"}, scales=[1, 1, 2, 0.75], dims={"H": 9, "W": 31})
    yield resize([1, 2, "H", "W"], {"mode": "cubic", "antialias": 1}, scales=[1, 1, 0.5, 1.5], dims={"H": 33, "W": 5}, kind="f16")
    yield resize([1, 2, "H", "W"], {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}, scales=[1, 1, 1.5, 0.375],
                 dims={"H": 1, "W": 33}, kind="s32")
    yield resize([1, "C", 33, 31], {"mode": "linear"}, scales=[1, 1, 0.6, 2.5], dims={"C": 3})
    yield resize([1, 2, 64, 33], {"mode": "cubic", "antialias": 1}, sizes=[1, 2, 9, 7])
    yield resize([2, 4, 5, 6], {"mode": "linear", "keep_aspect_ratio_policy": "not_larger", "axes": [2, -1]}, sizes=[9, 9])
    yield resize([2, 3, 4, 5, 6], {"mode": "linear"}, scales=[1, 1, 1.5, 2, 0.5])
    yield resize([3, 3, 3, 3, 3], {"mode": "linear"}, scales=[2, 2, 1.5, 2, 3])
    yield resize([3, 20, 30], {"mode": "linear"}, scales=[1, 1.3, 0.7], kind="u8")
    yield resize([3, 20, 30], {"mode": "cubic"}, scales=[1, 1.3, 0.7], kind="s8")
    for kind in ("f16", "bf16", "s32", "s64", "bool", "u8"):
        yield resize([3, 20, 33], {"mode": "linear"} if "f" in kind else {}, scales=[1, 1.3, 0.7], kind=kind)
    yield resize([2, 3, 5, 7], {}, scales=[1, 1, 2, 3], op="Upsample")
    yield resize([2, 3, 5, 7], {"mode": "linear"}, scales=[1, 1, 2, 1.5], op="Upsample")


def main():
    adlgen = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        cases = list(definitions())
        for i, (shape, options, sizes, region) in enumerate(cases):
            exact(adlgen, folder, ("h100", "a100")[i % 2], shape, options, sizes, region)
    run_batch(adlgen, [{"gpu": ("h100", "a100")[i % 2], **text} for i, text in enumerate(against_reference())])
    print(f"{len(cases)} by their definition")


main()
