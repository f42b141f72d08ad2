#!/usr/bin/env python3
"""grouped.py ADLGEN: GroupedMatMul on the simulator against double precision: sizes that are likely, hostile or wrong, in every
place; rows of no group stay as they were (0xff, which is NaN), or become 0."""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from runs import has_turn, results_of, run, run_batch

GPUS = ["h100", "a100"]


def grouped(kind, sizes, rows, groups, n, k, dtype="bf16", behind=(), more=None, name="", **attributes):
    """`behind`: (operator, further inputs); `more`: those inputs, name to (type, shape)."""
    a = [groups, rows, k] if kind == "counts" else [rows, k]
    turned = attributes.get("transB", 0)
    inputs = {"a": {"type": dtype, "shape": a, "align": 16}, "b": {"type": dtype, "shape": [groups, n, k] if turned else [groups, k, n], "align": 16}}
    for key, (type_, shape) in (more or {}).items():
        inputs[key] = {"type": type_, "shape": shape}
    constants = {}
    if sizes is None:
        inputs["s"] = {"type": "s32", "shape": [rows if kind == "index" else groups]}
    else:
        constants["s"] = {"type": "s32", "shape": [len(sizes)], "data": list(sizes)}
    nodes = [{"op": "GroupedMatMul", "domain": "adlgen", "inputs": ["a", "b", "s"], "outputs": ["y0"],
              "attributes": {"groups": kind, **attributes}}]
    for i, (op, others) in enumerate(behind):
        extra = {"attributes": {"to": others}} if op == "Cast" else {}
        nodes.append({"op": op, "inputs": [f"y{i}"] + ([] if extra else list(others)), "outputs": [f"y{i + 1}"], **extra})
    return {"name": "g", "inputs": inputs, "constants": constants, "nodes": nodes, "outputs": [f"y{len(behind)}"]}


def quantised(kind, sizes, rows, groups, n, k, scale="f32", a_depth=128, b_shape=(1, 128, 128), by_columns=False, whole=None, **attributes):
    """Both operands are e4m3 with scales of blocks; `by_columns`: A's lie column behind column; `whole`: the shape of B's that all of k shares,
    along an axis, A has one."""
    counts = kind == "counts"
    ceil = lambda x, y: -(-x // y)
    a, b = [groups, rows, k] if counts else [rows, k], [groups, n, k]
    graph = grouped(kind, sizes, rows, groups, n, k, "e4m3", transB=1, **attributes)
    inputs, to = graph["inputs"], {} if scale == "f32" else {"output_dtype": "f32"}
    if whole is None:
        inputs["as"] = {"type": scale, "shape": a[:-1] + [ceil(k, a_depth)]}
        inputs["bs"] = {"type": scale, "shape": [ceil(x, y) for x, y in zip(b, b_shape)]}
        given = [{"axis": len(a) - 1, "block_size": a_depth, **to}, {"block_shape": list(b_shape), **to}]
    else:
        inputs["as"], inputs["bs"] = {"type": "f32", "shape": []}, {"type": "f32", "shape": [b[whole]]}
        given = [{}, {"axis": whole}]
    if by_columns:
        inputs["as"]["strides"] = [1, ceil(rows, 4) * 4]
    for name, attribute in zip("ab", given):
        graph["nodes"].insert(0, {"op": "DequantizeLinear", "inputs": [name, f"{name}s"], "outputs": [f"{name}f"], "attributes": attribute})
    graph["nodes"][-1]["inputs"][:2] = ["af", "bf"]
    return graph


def weighed(kind, sizes, rows, groups, n, k, weights, block=128, zero=False, whole=None, dtype="bf16", behind=(), more=None, **attributes):
    """Weights of fewer bits, with scales of blocks along k, or (`whole`) along an axis."""
    graph = grouped(kind, sizes, rows, groups, n, k, dtype, transB=1, behind=behind, more=more, **attributes)
    shape = [groups, n, -(-k // block)] if whole is None else [[groups, n][whole]]
    powers = weights == "e2m1"
    graph["inputs"]["b"]["type"] = weights
    graph["inputs"]["bs"] = {"type": "e8m0" if powers else dtype, "shape": shape, "align": 16}
    if zero:
        graph["inputs"]["bz"] = {"type": weights, "shape": shape, "align": 16}
    given = {"axis": 2, "block_size": block} if whole is None else {"axis": whole}
    graph["nodes"].insert(0, {"op": "DequantizeLinear", "inputs": ["b", "bs"] + ["bz"] * zero, "outputs": ["bf"],
                              "attributes": {**given, **({"output_dtype": dtype} if powers else {})}})
    graph["nodes"][1]["inputs"][1] = "bf"
    return graph


def gated(kind, sizes, rows, groups, n, k, dtype="bf16", **attributes):
    """Two products of the same rows, whose results meet: one kernel."""
    graph = grouped(kind, sizes, rows, groups, n, k, dtype, transB=1, **attributes)
    graph["inputs"]["b2"] = dict(graph["inputs"]["b"])
    second = {**graph["nodes"][0], "inputs": ["a", "b2", "s"], "outputs": ["y1"]}
    graph["nodes"] += [second, {"op": "Swish", "inputs": ["y0"], "outputs": ["h"]}, {"op": "Mul", "inputs": ["h", "y1"], "outputs": ["y"]}]
    graph["outputs"] = ["y"]
    return graph


def depths(ends, m, n, k, dtype="bf16", turned=1, added=True, to="f32", hole=None, **attributes):
    """Groups along k, A the transpose of a tensor (`turned`) or as it is; `added`: to a result so far. hole: (begin, end) of groups, behind which
    both operands are NaN up to the next one."""
    groups = 4 if ends is None else len(ends)
    right = [n, k] if attributes.get("transB") else [k, n]
    inputs = {"a": {"type": dtype, "shape": [k, m] if turned else [m, k], "align": 16}, "b": {"type": dtype, "shape": right, "align": 16}}
    constants, nodes, operands = {}, [], ["a", "b"]
    if ends is None:
        inputs["s"] = {"type": "s32", "shape": [groups]}
    else:
        constants["s"] = {"type": "s32", "shape": [groups], "data": list(ends)}
    if hole is not None:
        constants["nan"] = {"type": dtype, "shape": [], "data": "nan"}
        for i, along in enumerate((not turned, attributes.get("transB", 0))):
            constants[f"own{i}"] = {"type": "bool", "shape": [1, k] if along else [k, 1], "data": [any(x <= j < y for x, y in hole) for j in range(k)]}
            nodes.append({"op": "Where", "inputs": [f"own{i}", operands[i], "nan"], "outputs": [f"o{i}"]})
            operands[i] = f"o{i}"
    if turned:
        nodes.append({"op": "Transpose", "inputs": [operands[0]], "outputs": ["at"], "attributes": {"perm": [1, 0]}})
        operands[0] = "at"
    nodes.append({"op": "GroupedMatMul", "domain": "adlgen", "inputs": [*operands, "s"], "outputs": ["y0"], "attributes": {"groups": "ends", **attributes}})
    result = "y0"
    if to != dtype:
        nodes.append({"op": "Cast", "inputs": ["y0"], "outputs": ["y1"], "attributes": {"to": to}})
        result = "y1"
    if added:
        inputs["c"] = {"type": to, "shape": [groups, m, n], "align": 16}
        nodes.append({"op": "Add", "inputs": [result, "c"], "outputs": ["y2"]})
        result = "y2"
    return {"name": "d", "inputs": inputs, "constants": constants, "nodes": nodes, "outputs": [result]}


def scaled_depths(ends, m, n, k, align=128, depth=128, width=1, scale="f32", by_columns=False):
    """The same of e4m3 with scales of blocks along k of both, into a result so far."""
    graph = depths(ends, m, n, k, "e4m3", 0, True, "e4m3", transB=1, align=align)
    inputs, to = graph["inputs"], {} if scale == "f32" else {"output_dtype": "f32"}
    inputs["c"]["type"] = "f32"
    for name, rows in ("a", m), ("b", -(-n // width)):
        inputs[f"{name}s"] = {"type": scale, "shape": [rows, -(-k // depth)], **({"strides": [1, -(-rows // 4) * 4]} if by_columns else {})}
        graph["nodes"].insert(0, {"op": "DequantizeLinear", "inputs": [name, f"{name}s"], "outputs": [f"{name}f"],
                                  "attributes": {"block_shape": [width if name == "b" else 1, depth], **to}})
    graph["nodes"][2]["inputs"][:2] = ["af", "bf"]
    return graph


def packed(graph, align, names="ab"):
    """The operands' groups lie one behind another, each with a row step of its own."""
    for name in names:
        for node in graph["nodes"]:
            node["inputs"] = [f"{name}u" if i == name else i for i in node["inputs"]]
        graph["nodes"].insert(0, {"op": "UnpackGroups", "domain": "adlgen", "inputs": [name, "s"], "outputs": [f"{name}u"], "attributes": {"align": align}})
    return graph


def index(rows, align, runs):
    """Group numbers of rows: `runs` has (group, rows) for each block that begins one."""
    values = []
    for group, length in runs:
        values += [-1] * (-len(values) % align) + [group] * length
    return (values + [-1] * rows)[:rows]


def cases():
    bias, row, tile = {"c": ("bf16", [136])}, {"c": ("bf16", [200, 1])}, {"c": ("bf16", [200, 136])}
    for transposed in (0, 1):
        for kind in ("ends", "index", "counts"):
            yield grouped(kind, None, 256, 3, 136, 72, transB=transposed, align=64 if kind == "index" else 1)
    for counts in ([0, 0, 0], [0, 1, 127], [128, 129, 160], [129, 0, -5], [1, 2**31 - 1, -2**31], [160, 160, 160]):
        yield grouped("counts", counts, 160, 3, 136, 72, transB=1)
    for ends in ([0, 0, 0], [0, 1, 128], [129, 129, 200], [200, 200, 200], [100, 50, 150], [300, 7, 2**31 - 1], [-3, -2**31, 9], [1, 2, 3]):
        yield grouped("ends", ends, 200, 3, 136, 72, transB=1)
    # runs of 128 groups, four a lane, without rows, and some with: in front, behind, in the last run, which is no whole one
    for groups, filled in ((130, {0: 1, 129: 2}), (257, {64: 70, 70: 1, 127: 2, 128: 1, 256: 3}), (64, {63: 1}), (129, {})):
        counts = [filled.get(i, 0) for i in range(groups)]
        yield grouped("counts", counts, 70, groups, 8, 16, transB=1)
        yield grouped("ends", list(itertools.accumulate(counts)), 80, groups, 8, 16, transB=1)
    yield grouped("ends", [5, 9] + [4] * 100 + [-1] * 27 + [9, 2, 12], 16, 132, 8, 16, transB=1, align=8)
    yield grouped("ends", [100, 150, 256 + 40], 500, 3, 136, 72, transB=1, align=128)
    yield grouped("ends", [100, 110, 500], 500, 3, 136, 72, transB=1, align=128)
    yield grouped("index", [-1] * 256, 256, 3, 136, 72, transB=1, align=128)
    yield grouped("index", index(500, 128, [(0, 100), (2, 129)]), 500, 3, 136, 72, transB=1, align=128)
    yield grouped("index", index(500, 128, [(1, 1), (2, 244)]), 500, 3, 136, 72, transB=1, align=128)
    yield grouped("index", index(200, 64, [(0, 64), (1, 1), (2, 72)]), 200, 3, 40, 64, transB=1, align=64)
    for align in (1, 4, 8): # rows that lie side by side, and groups that begin anywhere among them
        graph = grouped("ends", [3, 90, 91, 190], 200, 4, 136, 72, align=align)
        graph["inputs"]["x"] = {"type": "bf16", "shape": [72, 200], "align": 16}
        del graph["inputs"]["a"]
        graph["nodes"].insert(0, {"op": "Transpose", "inputs": ["x"], "outputs": ["a"], "attributes": {"perm": [1, 0]}})
        yield graph
    yield grouped("ends", [], 20, 0, 16, 64, transB=1)
    yield grouped("ends", [0, 0], 0, 2, 16, 64, transB=1)
    yield grouped("counts", [3, 4], 0, 2, 16, 64, transB=1)
    yield grouped("ends", [3, 9], 10, 2, 16, 0, transB=1)
    yield grouped("ends", [3, 9], 10, 2, 17, 13)
    yield grouped("counts", [3, 1], 5, 2, 1, 1)
    yield grouped("ends", [0, 1, 1], 1, 3, 17, 13) # one row of all groups
    yield grouped("ends", [0, 0], 1, 2, 40, 64, transB=1)
    yield grouped("index", [1], 1, 3, 40, 64, behind=[("Add", "c"), ("Relu", "")], more={"c": ("bf16", [1, 40])}, transB=1, align=64)
    yield weighed("index", [2], 1, 3, 31, 64, "s4", 32, align=64, expected=1, behind=[("Add", "c")], more={"c": ("bf16", [31])})
    yield grouped("ends", None, 200, 3, 136, 72, "f16", transB=1)
    yield grouped("counts", None, 40, 3, 48, 128, "e4m3", transB=1)
    yield grouped("ends", None, 200, 3, 136, 72, behind=[("Add", "c"), ("Gelu", "")], more=bias, transB=1)
    yield grouped("ends", [17, 17, 180], 200, 3, 136, 72, behind=[("Mul", "c")], more=row, transB=1)
    yield grouped("index", index(200, 64, [(0, 64), (2, 72)]), 200, 3, 136, 72, behind=[("Add", "c"), ("Relu", ""), ("Cast", "f32")],
                  more=tile, transB=1, align=64)
    yield grouped("counts", [5, 0, 40], 40, 3, 136, 72, behind=[("Add", "c")], more={"c": ("bf16", [3, 1, 136])}, transB=1)
    yield grouped("counts", [5, 0, 40], 40, 3, 136, 72, behind=[("Cast", "e4m3")], transB=1)
    yield quantised("ends", None, 300, 3, 256, 256, align=128)
    yield quantised("ends", [0, 1, 130], 131, 3, 192, 160, by_columns=True)
    yield quantised("ends", [0, 1, 130], 131, 3, 192, 160, by_columns=True, align=4)
    yield quantised("index", index(500, 128, [(0, 100), (2, 129)]), 500, 3, 129, 256, b_shape=(1, 1, 128), align=128)
    yield quantised("counts", [129, 0, -5], 160, 3, 136, 128, a_depth=32, b_shape=(1, 32, 64))
    yield quantised("ends", [31, 33, 64], 80, 3, 128, 256, "e8m0", a_depth=32, b_shape=(1, 1, 32))
    yield quantised("counts", None, 33, 2, 128, 256, "e8m0", b_shape=(1, 128, 128))
    yield quantised("ends", [17, 17, 127], 129, 3, 136, 128, whole=0)
    yield quantised("index", index(200, 64, [(0, 64), (2, 72)]), 200, 3, 136, 128, whole=1, align=64)
    yield quantised("counts", [3, 0, 31], 31, 3, 40, 128, whole=0)
    yield weighed("ends", [0, 1, 130], 131, 3, 130, 256, "s4", expected=8)
    yield weighed("ends", [300, 7, 2**31 - 1], 129, 3, 64, 320, "u4", 64, zero=True)
    yield weighed("counts", [129, 0, -5], 160, 3, 136, 128, "e2m1", 32, expected=1)
    yield weighed("counts", None, 33, 2, 128, 256, "e4m3", dtype="f16", expected=16)
    yield weighed("index", index(200, 64, [(0, 64), (1, 1), (2, 72)]), 200, 3, 136, 256, "s4", zero=True, align=64, expected=4)
    yield weighed("index", index(500, 128, [(0, 100), (2, 129)]), 500, 3, 129, 128, "s8", whole=1, align=128)
    yield weighed("ends", [17, 17, 127], 129, 3, 48, 96, "s8", whole=0, zero=True, behind=[("Add", "c"), ("Gelu", "")], more={"c": ("bf16", [48])})
    yield weighed("ends", [3, 9], 10, 2, 16, 31, "s8", 32)
    yield gated("ends", [0, 1, 130], 131, 3, 136, 128)
    yield gated("ends", [300, 7, 2**31 - 1], 129, 3, 24, 40, align=4)
    yield gated("index", index(200, 64, [(0, 64), (1, 1), (2, 72)]), 200, 3, 136, 64, "f16", align=64)
    yield gated("counts", [129, 0, -5], 160, 3, 33, 96)
    yield gated("counts", [3, 31, 32], 32, 3, 64, 128, "e4m3")


def deep_cases():
    for ends in (None, [0, 1, 128, 255], [127, 254, 254, 383], [129, 129, 200, 328], [0, 0, 0, 0], [328, 328, 328, 328], [100, 50, 150, 300], [400, 7, 2**31 - 1, 3], [-3, -2**31, 9, 9]):
        yield depths(ends, 72, 136, 328)
    for turned in (0, 1):
        for transposed in (0, 1):
            yield depths([65, 190, 200], 33, 31, 201, turned=turned, added=False, transB=transposed)
            yield depths([64, 130, 193, 256], 192, 72, 256, turned=turned, added=False, transB=transposed, align=8)
            yield depths([1, 83, 193, 256], 192, 72, 256, turned=turned, added=False, transB=transposed) # whole steps that begin anywhere
    for hole, ends in ((((0, 1), (128, 255), (256, 256), (256, 385)), [1, 255, 256, 385]), (((0, 0), (0, 127), (128, 257)), [0, 127, 257]), (((0, 129), (256, 256), (256, 320)), [129, 129, 320])):
        for turned in (0, 1):
            yield depths(ends, 72, 40, 392, turned=turned, hole=hole, align=128, transB=1 - turned)
    yield depths([31, 33, 64], 1, 1, 64, added=False)
    yield depths([], 20, 16, 64, added=False)
    yield depths([0, 0], 40, 24, 0, added=False)
    yield depths([3, 9], 0, 24, 16, added=False)
    yield depths([40, 100, 129], 72, 40, 136, "f16", align=4, to="f16")
    yield depths([40, 100, 129], 72, 40, 136, "f32")
    yield depths([33, 127, 300], 72, 48, 304, "e4m3", 0, False, "e4m3", transB=1, align=32)
    yield scaled_depths(None, 136, 72, 512)
    yield scaled_depths([0, 1, 257, 511], 72, 136, 520, by_columns=True)
    yield scaled_depths([127, 128, 128, 387], 40, 128, 388, width=128)
    yield scaled_depths([33, 127, 300], 33, 72, 320, align=32, depth=32, scale="e8m0")
    yield scaled_depths([33, 127, 300], 33, 72, 320, align=32)
    yield packed(depths([128, 384, 384, 500], 72, 72, 512, turned=0, transB=1, align=64), 64)
    yield packed(depths([7, 100, 90, 250], 33, 40, 251, "f16", turned=0, added=False, to="f16"), 1, "a")
    yield packed(scaled_depths([0, 128, 384, 384, 512], 72, 40, 640), 128)


def rows_of_somebody(kind, sizes, rows, align):
    """By the definition, one after the other."""
    if kind == "index":
        return [g >= 0 for g in sizes]
    if kind == "counts":
        return [r < n for n in sizes for r in range(rows)]
    end, inside = 0, [False] * rows
    for given in sizes:
        begin, end = -(-end // align) * align, max(end, min(given, rows))
        inside[begin:end] = [True] * max(end - begin, 0)
    return inside


def check_cleared(gpu, kind, sizes, rows, n, align=1, dtype="bf16", **attributes):
    """Rows of no group are 0, all others are not."""
    groups = 4 if kind == "index" else len(sizes)
    graph = grouped(kind, sizes, rows, groups, n, 40, dtype, clear=1, **({"align": align} if align > 1 else {}), **attributes)
    _, found = run(sys.argv[1], graph, gpu, words=["--check"])
    y = found["y0"]
    for row, inside in enumerate(rows_of_somebody(kind, sizes, rows, align)):
        if any(y[row * n:(row + 1) * n]) != inside:
            sys.exit(f"{gpu} {kind} {sizes} align {align}: row {row} is {y[row * n:row * n + 4]}..")


def check_many_elements(gpu):
    """Weights of 7.5e9 elements are those of groups of rows, whose addresses count in 64 bits."""
    graph = grouped("ends", None, 64, 256, 4096, 7168, transB=1)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "graph.json")
        path.write_text(json.dumps(graph))
        done = subprocess.run([sys.argv[1], "compile", path, "--gpu", gpu, "--emit", "ptx", "--out", folder], capture_output=True, text=True)
        texts = [kernel.read_text() for kernel in pathlib.Path(folder, gpu).glob("*.ptx")]
    group = f"mad.wide.s32 {4096 * 7168 * 2}" if gpu == "a100" else "cp.async.bulk.tensor.3d"
    if done.returncode or not all(any(all(word in line for word in group.split()) for line in text.splitlines()) for text in texts):
        sys.exit(f"{gpu}: weights of many elements: exit {done.returncode}, {len(texts)} kernels without `{group}`\n{done.stderr}")


# Faults of templates, and a graph that shows each: (file, text, what stands there instead, how often it does, graph).
OWN = depths([129, 129, 320], 72, 40, 392, hole=((0, 129), (256, 256), (256, 320)), align=128)
SUMMED = {"name": "summed", "inputs": {"a": {"type": "bf16", "shape": [3, 40, 96], "align": 16}, "b": {"type": "bf16", "shape": [3, 96, 24], "align": 16}},
          "constants": {"axes": {"type": "s64", "shape": [1], "data": [0]}}, "outputs": ["y"], "nodes": [
              {"op": "MatMul", "inputs": ["a", "b"], "outputs": ["p"]}, {"op": "ReduceSum", "inputs": ["p", "axes"], "outputs": ["y"], "attributes": {"keepdims": 0}}]}
SPARSE = grouped("ends", list(itertools.accumulate({3: 1, 70: 2, 129: 2}.get(i, 0) for i in range(130))), 8, 130, 8, 16, transB=1)
FAULTS = [
    ("groups.ir", "max(%end, lane() > 0 ? %prior : 0)", "%end", 1, SPARSE),
    ("groups.ir", "(%all - %upto3)", "%all", 1, SPARSE),
    ("gemm.ir", "A[$summed == 1 ? %s : %g,", "A[$summed == 1 ? 0 : %g,", 1, SUMMED),
    ("gemm.ir", ": max(1, G)) step 1", ": max(1, G - 1)) step 1", 1, SUMMED),
    ("gemm.ir", "select %own_a, %all_a, 0", "select %own_a, %all_a, %all_a", 1, OWN),
    ("gemm.ir", "select %own_b, %all_b, 0", "select %own_b, %all_b, %all_b", 1, OWN),
    ("gemm.ir", "%to step $tail", "%to - 1 step $tail", 1, OWN),
    ("groups.ir", "max(%begin, %end), 0", "%end + 1, 0", 1, OWN),
    ("groups.ir", "set %end <- max(%end, min(%given, %depth))", "set %end <- min(%given, %depth)", 1, depths([100, 50, 150, 300], 72, 136, 328)),
    ("gemm_blocks.ir", "SB[%g, %k / $b_depth, %n * $bn / $b_width]", "SB[%g, %k / $b_depth + 1, %n * $bn / $b_width]", 6, scaled_depths([127, 128, 128, 387], 40, 128, 388, width=128)),
    ("gemm_blocks.ir", "+ %i * ($bm / $parts_m), %k / $a_depth]", "+ %i * ($bm / $parts_m), max(%k / $a_depth - 1, 0)]", 4, scaled_depths([0, 1, 257, 511], 72, 136, 520)),
]


def check_unpacked(device, ends, rows, columns, align, dtype="f32", is_open=False):
    """Each element lies where a walk over the groups, one behind another, puts it. `is_open`: extents are symbols."""
    dims = {"M": rows, "T": columns // align} if is_open else {}
    extents = ["M", f"{align}*T"] if is_open else [rows, columns]
    graph = {"name": "u", "dims": {name: {} for name in dims}, "inputs": {"x": {"type": dtype, "shape": extents}, "s": {"type": "s32", "shape": [len(ends)]}}, "outputs": ["y"],
             "nodes": [{"op": "UnpackGroups", "domain": "adlgen", "inputs": ["x", "s"], "outputs": ["y"], "attributes": {"align": align}}]}
    wanted, at, begin, highest = [None] * (rows * columns), 0, 0, 0
    for end in [*ends, columns]:
        highest = max(highest, min(end, columns))
        behind = -(-highest // align) * align
        for row in range(rows):
            for column in range(begin, behind):
                wanted[row * columns + column] = at % 251 - 125
                at += 1
        begin = behind
    given = [("x", dtype, [rows, columns], [i % 251 - 125 for i in range(rows * columns)]), ("s", "s32", [len(ends)], list(ends))]
    _, outputs = run(sys.argv[1], graph, device, given, dims=dims)
    if [int(x) for x in outputs["y"]] != wanted:
        sys.exit(f"{device} UnpackGroups {ends} of {rows} x {columns}, align {align}: {outputs['y'][:20]}...")


def check_faults():
    """Each is found by the check, on both GPUs."""
    templates = pathlib.Path(__file__).parents[2] / "templates"
    for name, text, fault, n, graph in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "templates", name)
            path.parent.mkdir()
            whole = (templates / name).read_text()
            if whole.count(text) != n:
                sys.exit(f"{name} has `{text}` {whole.count(text)} times, not {n}")
            path.write_text(whole.replace(text, fault))
            os.environ["ADLGEN_DATA_DIR"] = folder
            _, results, complaints = results_of(sys.argv[1], [{"label": gpu, "graph": graph, "gpu": gpu} for gpu in GPUS])
            if len(results) != len(GPUS) or any(r["ok"] or not (r.get("faults") or "outputs" in r) for r in results):
                sys.exit(f"{name} with `{fault}`: {json.dumps(results)[:800]} {complaints}")
    del os.environ["ADLGEN_DATA_DIR"]
    print(f"{len(FAULTS)} faults found")


LINES = [{"label": f"{i}", "graph": graph, "gpu": gpu} for i, graph in enumerate([*cases(), *deep_cases()])
         for which, gpu in enumerate(GPUS) if has_turn(i, which)]
turned = grouped("ends", [7, 7, 30], 40, 3, 48, 64) # rows of no group go on to what copies and computes
turned["nodes"] += [{"op": "Transpose", "inputs": ["y0"], "outputs": ["z"], "attributes": {"perm": [1, 0]}}, {"op": "Relu", "inputs": ["z"], "outputs": ["y"]}]
LINES += [{"label": "turned", "graph": {**turned, "outputs": outputs}, "gpu": gpu} for gpu, outputs in zip(GPUS, (["y"], ["z"]))]
moved = weighed("counts", [7], 7, 1, 20, 64, "u4", 64, zero=True)
parts = [quantised("ends", [5, 300, 513], 600, 3, 136, 300, by_columns=True, align=128), quantised("counts", [0, 300, 129], 320, 3, 264, 640),
         quantised("index", index(1024, 256, [(0, 300), (2, 10)]), 1024, 3, 136, 300, by_columns=True, align=256)]
LINES += [{"label": f"parts {i}", "graph": graph, "gpu": "h100", "set": ["bm=256", "bn=128", "parts_m=2"]} for i, graph in enumerate(parts)]
run_batch(sys.argv[1], LINES + [{"label": "moved", "graph": moved, "gpu": "h100", "skew": 2}])
for device in GPUS:
    check_many_elements(device)
    for ends, of, step in ([0, 1, 130], 200, 1), ([300, 7, 2**31 - 1], 129, 4), ([5, 3, 40, 33], 90, 16), ([10, 5, 40], 64, 4), ([-3, -3], 20, 1), ([20], 20, 8), ([0, 0], 5, 1):
        check_cleared(device, "ends", ends, of, 24, step)
    check_cleared(device, "index", index(200, 64, [(0, 64), (1, 1), (3, 20)]), 200, 24, 64, transB=1)
    check_cleared(device, "counts", [31, 0, -5, 40], 33, 24, dtype="f32")
    run(sys.argv[1], grouped("ends", [], 33, 0, 40, 64, clear=1), device, words=["--check"])
    run(sys.argv[1], grouped("ends", [10, 20], 64, 2, 72, 72, behind=[("Relu", "")], align=8, clear=1), device, words=["--check"])
    run(sys.argv[1], gated("ends", [0, 1, 100], 131, 3, 136, 128, clear=1), device, words=["--check"])
    for case in ([3, 3, 10, 7, 12], 5, 17, 1, "f32"), ([0, 16, 40, 2**31 - 1], 9, 64, 16, "bf16"), ([-5, 70], 3, 128, 64, "s8"), ([], 2, 8, 8, "f16"), ([4, 9], 1, 12, 4, "f32"), ([1, 17, 40], 5, 64, 16, "f16", True):
        check_unpacked(device, *case)
print("rows of no group: right")
check_faults()
