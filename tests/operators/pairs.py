#!/usr/bin/env python3
"""Every operator compiles with every type that `adlgen ops` lists for it: pairs.py ADLGEN [GPU...]

Graphs hold a node for each pair, in the operator's smallest form (required inputs and attributes) and its largest (all
inputs, all attributes, each choice of a string); they are compiled to PTX for the GPUs, by default one of each set of
8-bit floats that GPUs have. A new operator is taken up by its row; one whose inputs are not all alike needs a line in
`inputs_of`."""
import json
import pathlib
import subprocess
import sys
import tempfile

adlgen = pathlib.Path(sys.argv[1]).resolve()
SMALL_FLOATS = {"e4m3", "e5m2"}
BYTES = ["s8", "u8", "e4m3", "e5m2"]
SHAPE = [32, 64]


def ask(*words):
    return json.loads(subprocess.run([adlgen, *words, "--json"], check=True, stdout=subprocess.PIPE).stdout)


class Graph:
    def __init__(self, opset):
        self.opset, self.inputs, self.constants, self.nodes, self.in_place = opset, {}, {}, [], {}

    def tensor(self, type_, shape):
        name = f"{type_}_{'x'.join(map(str, shape))}"
        self.inputs[name] = {"type": type_, "shape": shape}
        return name

    def indices(self, values):
        name = "i_" + "_".join(map(str, values)).replace("-", "m")
        self.constants[name] = {"type": "s64", "shape": [len(values)], "data": values}
        return name

    def add(self, op, inputs, n_outputs, attributes, domain=""):
        outputs = [f"y{len(self.nodes)}_{i}" for i in range(n_outputs)]
        if op == "AppendRows":  # caches are written over: each node has its own
            inputs = list(inputs)
            for output, i in zip(outputs, (1, 3)):
                cache = self.in_place[output] = f"cache_{output}"
                self.inputs[cache], inputs[i] = self.inputs[inputs[i]], cache
        self.nodes.append({"op": op, "domain": domain, "inputs": inputs, "outputs": outputs, "attributes": attributes})

    def text(self):
        """A node a line, so that a message's line tells which."""
        rows = ",\n".join(json.dumps(node) for node in self.nodes)
        rest = {"opset": self.opset, "inputs": self.inputs, "constants": self.constants, "in_place": self.in_place,
                "outputs": [name for node in self.nodes for name in node["outputs"]]}
        return json.dumps(rest)[:-1] + ', "nodes": [\n' + rows + "]}"


def attributes_of(row, largest):
    """Sets of attributes: the required ones, or all; each choice of a string in a set of its own."""
    fixed = {"axis": -1, "to": "f32", "num_outputs": 2, "split": [32, 32], "perm": [1, 0], "axes": [1], "starts": [0],
             "ends": [8], "fmod": 1, "block_size": 0, "pads": [1, 0, 2, 3],
             "training_mode": 1, "q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1, "scale": 0.1, "softcap": 5,
             "num_groups": 2, "kernel_shape": [2, 2], "blocksize": 2, "batch_axis": 1, "time_axis": 0, "rotary_embedding_dim": 0, "k": 5, "n_group": 4, "topk_group": 2, "experts": 7, "candidates": 7, "count": 5}
    made = {}
    for attribute in row["attributes"]:
        name = attribute["name"]
        if attribute["kind"] == "string":
            made[name] = attribute.get("choices", ["ij->ji"]) if largest or attribute["required"] else []
        elif attribute["required"] or (largest and (name in fixed or attribute["default"] is not None)):
            made[name] = [fixed.get(name, attribute["default"])]
    if row["op"] in ("Cast", "CastLike"):  # their first opset has neither
        made.pop("saturate", None), made.pop("round_mode", None)
    if row["op"] == "Split" and "num_outputs" in made and largest:
        del made["num_outputs"]  # beside the input `split` it is wrong
    if row["op"] == "Split" and not largest and any(a["name"] == "num_outputs" for a in row["attributes"]):
        made["num_outputs"] = [2]
    if row["op"] == "GroupedMatMul":  # its inputs' shapes depend on it: grouped.py has the others
        made["groups"] = ["ends"]
    if row["op"] == "AttentionGradPart" and largest:  # only keys come with values
        made["of"], made["is_causal"] = ["keys"], [0]  # and leave what changes whole
    if row["op"] in ("LargestMagnitudes", "CompressGradient"):  # a number or a share
        made.pop("share", None)
        made["k"] = [5]
    if row["op"] == "DecompressGradient":
        made["shape"] = [[32, 64]]
    if row["op"].endswith("Pool"):  # not in their first opset either
        made.pop("ceil_mode", None), made.pop("dilations", None)
    if row["op"] in ("Resize", "Upsample"):  # what integers have too; the others: resize.py
        made = {name: values[:1] for name, values in made.items()}
    sets = [{}]
    for name, values in made.items():
        sets = [{**one, name: value} for one in sets for value in values] if values else sets
    return sets


def number(graph, type_, value):
    name = f"n_{type_}_{value}".replace("-", "m").replace(".", "_")
    graph.constants[name] = {"type": type_, "shape": [], "data": value}
    return name


def known_inputs(graph, row, type_, largest):
    """Operands of operators that must know some of them; None: it is none of these."""
    op, x = row["op"], graph.tensor(type_, SHAPE)
    if op == "Range":
        return [number(graph, type_, value) for value in ((-1.5, 7.0, 0.5) if type_[0] in "fb" else (-1, 7, 2))]
    if op.endswith("Window"):
        return [number(graph, type_, 40)]
    if op == "AffineGrid":
        return [graph.tensor(type_, [2, 2, 3]), graph.indices([2, 3, 8, 16])]
    if op == "CenterCropPad":
        return [x, graph.indices([70] if largest else [20, 70])]
    if op == "Compress":
        graph.constants["chosen"] = {"type": "bool", "shape": [4], "data": [True, False, True, True]}
        return [x, "chosen"]
    if op == "VarlenAttention":  # varlen.py has its other forms
        if not largest:
            return [graph.tensor(type_, [48, 2, 64])] * 3 + [graph.tensor("s32", [3])]
        return [graph.tensor(type_, [48, 4, 64])] + [graph.tensor(type_, [5, 16, 2, 64])] * 2 + [graph.tensor("s32", [3]), "", graph.tensor("s32", [2]),
                                                                                             graph.tensor("s32", [2, 4])]
    if op == "GroupedMatMul":  # an e4m3 beside an e5m2 is a MatMul's, too
        return [graph.tensor(type_, [64, 32]), graph.tensor(type_, [2, 32, 32]), graph.tensor("s32", [2])]
    if op == "DecompressGradient":
        return [graph.tensor("s32", [5]), graph.tensor("u8", [64]), graph.tensor("f32", [1])]
    if op == "QLinearMatMul":
        scale, zero = graph.tensor("f32", []), graph.tensor(type_, [])
        return [x, scale, zero, graph.tensor(type_, [64, 64]), scale, zero, scale, zero]
    return None


def inputs_of(graph, row, type_, n, largest):
    """Lists of n operands for the pair: one list, or one for each further type that may stand beside it."""
    op, x = row["op"], graph.tensor(type_, SHAPE)
    known = known_inputs(graph, row, type_, largest)
    if known:
        return [known]
    square = graph.tensor(type_, [64, 64])
    if op in ("MatMul", "MatMulInteger", "Gemm"):
        sums = {"s8": "s32", "u8": "s32", "e4m3": "f32", "e5m2": "f32"}.get(type_, type_)
        more = [graph.tensor(sums, SHAPE)] if op == "Gemm" else [graph.tensor(type_, []), graph.tensor(type_, [])]
        return [[square, square, *more][:n] if op != "Gemm" else [x, square, *more][:n]]
    if op == "Pow":
        floats = ("f64", "f32", "f16", "bf16") if type_[0] in "ftb" else ()  # of integers powers by fractions are refused
        return [[x, graph.tensor(exponent, SHAPE)] for exponent in (*floats, "s8", "u8", "s32", "s64")]
    if op == "Where":
        return [[graph.tensor("bool", SHAPE), x, x]]
    if op == "Clip":
        return [[x, graph.tensor(type_, []), graph.tensor(type_, [])][:n]]
    if op == "Split":
        return [[x, graph.indices([16, 48])][:n]]
    if op in ("Squeeze", "Unsqueeze"):
        return [[graph.tensor(type_, [32, 1, 64]), graph.indices([1])][:n]]
    if op == "Reshape":
        return [[x, graph.indices([-1, 16])]]
    if op == "Expand":
        return [[graph.tensor(type_, [32, 1]), graph.indices([3, 1, 64])]]
    if op == "CumSum":
        graph.constants["along"] = {"type": "s32", "shape": [], "data": -1}
        return [[x, "along"]]
    if op == "OneHot":
        return [[x, number(graph, "s64", 5), graph.tensor("f32", [2])]]
    if op == "Dropout":
        return [[x, number(graph, "f32", 0.25), number(graph, "bool", True), graph.tensor("s64", []), graph.tensor("s64", [])][:n]]
    if op == "Philox":
        return [[x, graph.tensor("s64", []), graph.tensor("s64", [])]]
    if op == "Route":
        return [[x, graph.tensor(type_, SHAPE[-1:])][:n]]
    if op == "Sample":  # numbers for all rows, or one a row
        return [[x, graph.tensor(type_, []), graph.tensor("s32", [32]), graph.tensor("f32", [32]), graph.tensor("s64", [32]), graph.tensor("s32", [])][:n]]
    if op == "Combine":
        return [[x, graph.tensor(index, [16, 3]), graph.tensor("f32", [16, 3])] for index in ("s32", "s64")]
    if op == "AttentionGradPart":
        rows, sums = graph.tensor(type_, [1, 2, 16, 16]), graph.tensor("f32", [1, 2, 16])
        return [[rows, rows, rows, rows, sums, sums, graph.tensor("bool", [16, 16])][:n]]
    if op == "AttentionGrad":
        rows = graph.tensor(type_, [1, 2, 16, 16])
        return [[rows, rows, rows, rows, rows, graph.tensor("f64" if type_ == "f64" else "f32", [1, 2, 16]), graph.tensor("f32", [16, 16])][:n]]
    if op == "Einsum":
        return [[square]]
    if op == "MergeStates":
        return [[x, graph.tensor(type_, SHAPE[:-1])] * 2]
    if op == "TopK":
        return [[x, graph.indices([5])][:n]]
    if op in ("Gather", "GatherElements"):
        return [[x, graph.tensor(index, [16, 8])] for index in ("s32", "s64")]
    if op in ("Scatter", "ScatterElements"):
        return [[x, graph.tensor(index, [16, 8]), graph.tensor(type_, [16, 8])] for index in ("s32", "s64")]
    if op == "ScatterND":
        return [[x, graph.tensor("s64", [5, 1]), graph.tensor(type_, [5, 64])]]
    if op == "ReduceSegments":
        list_of = lambda n: graph.tensor("s32", [n])
        return [[x, list_of(5), graph.tensor(type_, [5, SHAPE[-1]]), list_of(SHAPE[0])]]
    if op == "GatherND":
        return [[x, graph.tensor("s64", [5, 2])]]
    if op == "UnpackGroups":
        return [[x, graph.tensor("s32", [2])]]
    if op == "TensorScatter":
        cache = graph.tensor(type_, [2, 32, 64])
        return [[cache, graph.tensor(type_, [2, 8, 64] if n < 3 else [2, 32, 8]), graph.tensor("s64", [2])][:n]]
    if op == "AppendRows":
        cache = graph.tensor(type_, [2, 32, 64])
        return [[graph.tensor(index, [2]), cache, cache, cache, cache][:max(n, 3)] for index in ("s32", "s64")]
    if op == "PlaceKeys":  # what TallyKeys gives is no random number
        return [[x]]
    if op in ("TallyMagnitudes", "PlaceMagnitudes"):
        numbers = [graph.tensor(kind, shape) for kind, shape in ((type_, [64, 1]), ("s32", [1]), ("s32", [1, 2]), ("s32", [1]))]
        return [numbers[:n]]
    if op == "ReverseSequence":
        return [[x, graph.tensor("s64", [64])]]
    if op == "MaxUnpool":
        graph.constants["unpooled"] = {"type": "s64", "shape": [4], "data": [2, 4, 64, 64]}
        return [[graph.tensor(type_, [2, 4, 8, 16]), graph.tensor("s64", [2, 4, 8, 16]), "unpooled"][:n]]
    if op.endswith(("Pool", "ToSpace", "ToDepth")):
        return [[graph.tensor(type_, [2, 4, 8, 16])]]
    if op == "Pad" and n > 1:
        fill = f"fill_{type_}"
        graph.constants[fill] = {"type": type_, "shape": [], "data": True if type_ == "bool" else 1}
        return [[x, graph.indices([1, 0, 2, 3]), fill, graph.indices([0, 1])][:n]]
    if op in ("Resize", "Upsample"):
        axes = 1 if row["op"] == "Resize" and row["since"] >= 18 and largest else 2  # attribute `axes`
        scales, region = f"scales{axes}", f"region{axes}"
        graph.constants[scales] = {"type": "f32", "shape": [axes], "data": [1, 2.5][-axes:]}
        graph.constants[region] = {"type": "f32", "shape": [2 * axes], "data": [0] * axes + [1] * axes}
        return [[x, scales] if n == 2 else [x, region, scales, ""][:max(n, 3)]]
    if op == "Resample":
        places, weights = ([[0, 5, 2], [1, 6, 9]], [graph.tensor("f32", [2, 3])]) if n > 2 else ([[0, 5, 2]], [])
        graph.constants[f"places{n}"] = {"type": "s32", "shape": [len(places), 3], "data": places}
        return [[x, f"places{n}", *weights]]
    if op == "Tile":
        return [[x, graph.indices([2, 3])]]
    if op == "Trilu" and n > 1:
        graph.constants["diagonal"] = {"type": "s64", "shape": [], "data": 1}
        return [[x, "diagonal"]]
    if op == "Attention":
        if n == 3:
            return [[graph.tensor(type_, [1, 2, 8, 32])] * n]
        heads, kv_heads = graph.tensor(type_, [1, 8, 128]), graph.tensor(type_, [1, 8, 64])
        cache = graph.tensor(type_, [1, 2, 8, 32])
        return [[heads, kv_heads, kv_heads, graph.tensor("bool", [8, 16]), cache, cache]]
    if op == "Mask":
        return [[x, *(graph.tensor("s64", []) for _ in range(n - 1))]]
    if op == "Slice" and n > 1:
        return [[x, *(graph.indices(list_) for list_ in ([1], [60], [1], [2]))][:n]]
    if op.startswith("Reduce"):
        return [[x, graph.indices([-1])][:n]]
    if op == "QuantizeLinear":
        scales = ["f32"] if type_ == "s32" else [type_]
        zeros = BYTES[:2] if n > 2 and row["since"] < 19 else BYTES if n > 2 else [None]
        return [[x, graph.tensor(scale, []), *([graph.tensor(zero, [])] if zero else [])] for scale in scales
                for zero in zeros]
    if op == "DequantizeLinear":
        scales = ["f32"] if row["since"] < 19 else ["f32", "f16", "bf16"]
        return [[x, graph.tensor(scale, []), graph.tensor(type_, [])][:n] for scale in scales]
    if op in ("LayerNormalization", "RMSNormalization"):
        return [[x, *[graph.tensor(type_, [64])] * (n - 1)]]
    if op == "MeanVarianceNormalization":
        return [[graph.tensor(type_, [2, 3, 8, 16])]]
    if op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLossGradient"):
        given = [graph.tensor(type_, [])] if op.endswith("Gradient") else []
        return [[*given, x, graph.tensor(index, [32]), graph.tensor(type_, [64])][:n] for index in ("s32", "s64")]
    if op.endswith("NormalizationGradient"):
        return [[x, x, graph.tensor(type_, [64])]]
    if op == "RotaryEmbedding":
        angles = graph.tensor(type_, [50, 16] if n > 3 else [2, 8, 16])
        return [[graph.tensor(type_, [2, 4, 8, 32]), angles, angles, graph.tensor("s64", [2, 8])][:n]]
    if op in ("InstanceNormalization", "BatchNormalization", "GroupNormalization"):
        return [[x, *[graph.tensor(type_, [64])] * (n - 1)]]
    return [[x] * n]


def add_microsoft(graph, row, type_):
    """ONNX Runtime's operators, which take less than they have inputs for: tests/operators/attention_forms.py runs more of them."""
    x, vector = graph.tensor(type_, [2, 8, 64]), graph.tensor(type_, [64])
    angles = graph.tensor(type_, [50, 16])
    inputs, attributes = {
        "FusedMatMul": ([graph.tensor(type_, [64, 64])] * 2, {"transB": 1}),
        "GroupQueryAttention": ([graph.tensor(type_, [2, 8, 128])], {"num_heads": 2, "kv_num_heads": 1}),
        "MatMulNBits": ([x, graph.tensor("u8", [32, 2, 16]), graph.tensor(type_, [32, 2])], {"K": 64, "N": 32, "block_size": 32}),
        "MultiHeadAttention": ([x] * 3, {"num_heads": 2}),
        "PackedMultiHeadAttention": ([graph.tensor(type_, [16, 128])] * 3 + ["", graph.tensor("s32", [2, 12]), graph.tensor("s32", [3])], {"num_heads": 2}),
        "RotaryEmbedding": ([x, graph.indices([0]), angles, angles], {}),
        "SkipLayerNormalization": ([x, x, vector, vector, vector], {}),
        "SkipSimplifiedLayerNormalization": ([x, x, vector, vector], {}),
        "BiasGelu": ([x, vector], {}),
    }.get(row["op"], ([x], {}))
    graph.add(row["op"], inputs, 1, attributes, row["domain"])


def add_recurrence(graph, row, type_, largest):
    ways, gates, size = 2 if largest else 1, {"RNN": 1, "GRU": 3, "LSTM": 4}[row["op"]], 32
    inputs = [[3, 4, 64], [ways, gates * size, 64], [ways, gates * size, size]]
    attributes, side = {}, [ways, 4, size]
    if largest:
        inputs += [[ways, 2 * gates * size], [4], side, side, [ways, 3 * size]][:row["inputs"][1] - 3]
        attributes = {"direction": "bidirectional", "clip": 2.0}
    graph.add(row["op"], [graph.tensor("s32" if shape == [4] else type_, shape) for shape in inputs], row["outputs"][1] if largest else 1, attributes)


def add_pair(graph, row, type_, largest):
    if row["op"] in ("RNN", "GRU", "LSTM"):
        return add_recurrence(graph, row, type_, largest)
    if row["op"] in ("If", "Loop", "Scan"):  # have graphs: control.py
        return None
    if row["op"] == "PagedAttention":  # writes inputs over: paged.py runs it with each of its types
        return None
    if row["domain"] == "com.microsoft":
        return largest or add_microsoft(graph, row, type_)
    least, most = row["inputs"]
    n = least if not largest else max(least, 3) if most is None else most
    op = row["op"]
    for attributes in attributes_of(row, largest):
        if type_ == "bool" and attributes.get("reduction", "none") != "none":
            continue
        if op == "Mod":
            attributes = {"fmod": 1} if largest else {}
        for inputs in inputs_of(graph, row, type_, n, largest):
            if op == "SoftmaxCrossEntropyLossGradient" and attributes.get("reduction") == "none":
                inputs = [graph.tensor(type_, [32]), *inputs[1:]]
            parts = 2 if op == "Split" else 1 if op == "BatchNormalization" and row["since"] < 14 else row["outputs"][1] if largest else row["outputs"][0]
            for to in row["types"] if op in ("Cast", "BitCast") else [None]:
                graph.add(op, inputs, parts, {**attributes, **({"to": to} if to else {})}, row["domain"])


def uses_small_floats(node, graph):
    types = {graph.inputs[name]["type"] for name in node["inputs"] if name in graph.inputs}
    return bool((types | set(map(str, node["attributes"].values()))) & SMALL_FLOATS)


def graphs(rows, small_floats):
    """One for each opset that begins a version; on GPUs without 8-bit floats without them."""
    for opset in sorted({row["since"] for row in rows}):
        graph = Graph(opset)
        for row in (row for row in rows if row["since"] == opset):
            for type_ in row["types"]:
                for largest in (False, True):
                    add_pair(graph, row, type_, largest)
        if not small_floats:
            graph.nodes = [node for node in graph.nodes if not uses_small_floats(node, graph)]
        used = {name for node in graph.nodes for name in node["inputs"]}
        graph.inputs = {name: tensor for name, tensor in graph.inputs.items() if name in used}
        graph.constants = {name: tensor for name, tensor in graph.constants.items() if name in used}
        graph.in_place = {output: name for output, name in graph.in_place.items() if name in used}
        yield graph


def representatives():
    """The first GPU, by name, of each set of 8-bit floats."""
    found = {}
    for gpu in ask("gpus")["gpus"]:
        types = {product["a"] for product in ask("gpus", "show", gpu["name"])["products"]}
        found.setdefault(frozenset(types & SMALL_FLOATS), gpu["name"])
    return {name: bool(types) for types, name in found.items()}


def main():
    rows, failed, n = ask("ops")["ops"], 0, 0
    gpus = representatives()
    if len(sys.argv) > 2:
        products = {gpu: ask("gpus", "show", gpu)["products"] for gpu in sys.argv[2:]}
        gpus = {gpu: any(p["a"] in SMALL_FLOATS for p in list_) for gpu, list_ in products.items()}
    for gpu, small_floats in gpus.items():
        for graph in graphs(rows, small_floats):
            n += len(graph.nodes)
            with tempfile.TemporaryDirectory() as folder:
                result = subprocess.run([adlgen, "compile", "-", "--gpu", gpu, "--out", f"{folder}/out", "--emit", "ptx"],
                                        input=graph.text(), capture_output=True, text=True)
            if result.returncode:
                failed += 1
                print(f"{gpu}, opset {graph.opset}: exit {result.returncode}\n{result.stderr}")
    print(f"{n} nodes of {len(rows)} rows for {', '.join(gpus)}" if not failed else f"{failed} graphs failed")
    return failed > 0


sys.exit(main())
