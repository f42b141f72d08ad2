"""A graph of adlgen (include/adlgen/peer.h says how it is written) as a function of PyTorch."""
import collections

import torch
import torch.nn.functional as F

TYPES = {
    "f64": torch.float64, "f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "s8": torch.int8, "u8": torch.uint8, "s16": torch.int16,
    "s32": torch.int32, "s64": torch.int64, "bool": torch.bool,
}


class Unsupported(Exception):
    pass


class Node:
    """What a translation of a node sees: attributes by name, the result's declared shape, operands that are known lists."""

    def __init__(self, graph, node):
        self.op, self.attributes = node["op"], node["attributes"]
        self.inputs = [name for name in node["inputs"]]
        self.outputs = node["outputs"]
        self.graph = graph
        tensors = graph["tensors"]
        self.out = tensors[next(name for name in self.outputs if name)]
        self.first = tensors[self.inputs[0]] if self.inputs and self.inputs[0] else None

    def __getitem__(self, name):
        return self.attributes.get(name)

    def known(self, index, name=None):
        """Integers of an input that is a constant, or of the attribute that older versions have instead; None: absent."""
        if name and self.attributes.get(name) is not None:
            return self.attributes[name]
        if index >= len(self.inputs) or self.inputs[index] is None:
            return None
        data = self.graph["tensors"][self.inputs[index]].get("data")
        if data is None:
            raise Unsupported(f"{self.op}: {self.inputs[index]} is no constant whose values are known")
        return [int(value) for value in data]

    def axes(self, index=1, name="axes"):
        rank = len(self.first["shape"])
        axes = self.known(index, name)
        if axes is None and self.attributes.get("noop_with_empty_axes"):
            raise Unsupported(f"{self.op} without axes")
        return sorted({axis % rank for axis in axes}) if axes else list(range(rank))


def reduction(compute):
    def translate(node):
        axes, keep = node.axes(), bool(node["keepdims"])
        return lambda x, *_: compute(x, axes, keep)
    return translate


def plain(compute):
    return lambda node: lambda *inputs: compute(*inputs)


def pairwise(compute):
    def fold(*inputs):
        value = inputs[0]
        for other in inputs[1:]:
            value = compute(value, other)
        return value
    return plain(fold)


def tensor(value, like):
    return value if isinstance(value, torch.Tensor) else torch.full_like(like, value)


def reshape(node):
    shape = node.out["shape"]
    return lambda x, *_: x.reshape(shape)


def expand(node):
    shape = node.out["shape"]
    return lambda x, *_: x.expand(shape)


def softmax(compute):
    def translate(node):
        rank = len(node.first["shape"])
        if node["axis"] % rank != rank - 1:
            axis = node["axis"]
            return lambda x: compute(x, axis)
        return lambda x: compute(x, -1)
    return translate


def normalised_shape(node):
    shape = node.first["shape"]
    return list(shape[node["axis"] % len(shape):])


def layer_norm(node):
    shape, epsilon = normalised_shape(node), node["epsilon"]
    if sum(name is not None for name in node.outputs) > 1:
        return lambda x, scale, bias=None: torch.native_layer_norm(x, shape, scale, bias, epsilon)
    return lambda x, scale, bias=None: F.layer_norm(x, shape, scale, bias, epsilon)


def rms_norm(node):
    shape, epsilon = normalised_shape(node), node["epsilon"]
    return lambda x, scale: F.rms_norm(x, shape, scale, epsilon)


def gelu(node):
    approximate = node["approximate"]
    return lambda x: F.gelu(x, approximate=approximate)


def cast(node):
    to = TYPES[node["to"]]
    if to in (torch.float8_e4m3fn, torch.float8_e5m2):
        most = torch.finfo(to).max
        return lambda x: x.clamp(-most, most).to(to)
    return lambda x: x.to(to)


def clip(node):
    low, high = node.attributes.get("min"), node.attributes.get("max")
    return lambda x, least=low, most=high: torch.clamp(x, least, most)


def gather(node):
    axis = node["axis"] % len(node.first["shape"])

    def compute(x, indices):
        if axis == 0 and x.dim() == 2 and x.is_floating_point():
            return F.embedding(indices, x)
        flat = torch.index_select(x, axis, indices.reshape(-1))
        return flat.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1:])
    return compute


def gather_elements(node):
    axis = node["axis"]
    return lambda x, indices: torch.gather(x, axis, indices.long())


def pad(node):
    rank = len(node.first["shape"])
    pads, axes = node.known(1, "pads"), node.known(3) or list(range(rank))
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}[node["mode"]]
    fill = node.attributes.get("value") or 0
    if len(node.inputs) > 2 and node.inputs[2]:
        fill = node.graph["tensors"][node.inputs[2]]["data"][0]
    if mode != "constant":
        raise Unsupported(f"Pad of mode {node['mode']}")
    both = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        place = 2 * (rank - 1 - axis % rank)
        both[place:place + 2] = pads[i], pads[i + len(axes)]
    return lambda x, *_: F.pad(x, both, value=fill)


def repeat(node):
    times = node.known(1)
    return lambda x, *_: x.repeat(times)


def trilu(node):
    known = node.known(1)
    k, upper = known[0] if known else 0, node["upper"]
    return lambda x, *_: torch.triu(x, k) if upper else torch.tril(x, k)


def slices(node):
    rank = len(node.first["shape"])
    starts, ends = node.known(1, "starts"), node.known(2, "ends")
    axes, steps = node.known(3, "axes") or list(range(len(starts))), node.known(4) or [1] * len(starts)
    if min(steps) < 1:
        raise Unsupported("Slice backwards")
    places = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps):
        places[axis % rank] = slice(start, end, step)
    return lambda x, *_: x[tuple(places)]


def split(node):
    axis = node["axis"]
    sizes = [node.graph["tensors"][name]["shape"][axis] for name in node.outputs]
    return lambda x, *_: torch.split(x, sizes, axis)


def concat(node):
    axis = node["axis"]
    return lambda *inputs: torch.cat(inputs, axis)


def transpose(node):
    order = node["perm"] or list(range(len(node.first["shape"])))[::-1]
    return lambda x: x.permute(order)


def cumulative(node):
    axis = node.known(1)[0]
    if node["exclusive"] or node["reverse"]:  # torch has neither
        raise Unsupported("CumSum that is exclusive or in reverse")
    return lambda x, _: torch.cumsum(x, axis, dtype=x.dtype)


def index_along(node):
    shape, axis = node.first["shape"], node["axis"] % len(node.first["shape"])
    sides = [extent if d == axis else 1 for d, extent in enumerate(shape)]
    return lambda x: torch.arange(shape[axis], dtype=TYPES[node.out["type"]], device=x.device).reshape(sides).expand(shape)


def top_k(node):
    k, axis, largest, ordered = node.known(1)[0], node["axis"], bool(node["largest"]), bool(node["sorted"])
    return lambda x, _: torch.topk(x, k, axis, largest, ordered)


def arg(compute):
    def translate(node):
        axis, keep = node["axis"], bool(node["keepdims"])
        if node["select_last_index"]:
            raise Unsupported(f"{node.op} that selects the last index")
        return lambda x: compute(x, axis, keep)
    return translate


def product(node):
    alpha = node.attributes.get("alpha", 1.0)
    return lambda a, b: torch.matmul(a, b) if alpha == 1.0 else torch.matmul(a * alpha, b)


def dequantize(node):
    sizes, axis, block, to = node["block_shape"], (node["axis"] if node["axis"] is not None else 1) % max(len(node.first["shape"]), 1), node["block_size"] or 0, TYPES[node.out["type"]]

    def widened(scale, x):
        for place, size in enumerate(sizes or [block if place == axis else 1 for place in range(scale.dim())]):
            if size > 1:
                scale = scale.repeat_interleave(size, place).narrow(place, 0, x.shape[place])
        return scale.reshape([-1 if place == axis else 1 for place in range(x.dim())]) if scale.dim() == 1 and x.dim() > 1 else scale

    def compute(x, scale, zero=None):
        value = x.float() if zero is None else x.float() - widened(zero.float(), x)
        return (value * widened(scale.float(), x)).to(to)
    return compute


def grouped(node):
    """Rows of groups by torch's own kernel, which has no gaps between groups and no counts."""
    turned = bool(node["transB"])
    if node["groups"] != "ends":
        raise Unsupported(f"groups by {node['groups']}")
    return lambda a, b, ends: torch._grouped_mm(a, b.transpose(-2, -1) if turned else b, offs=ends)


# What computes softmax(scale q k^T) v of [batch, heads, rows, size]: by_kernel() of graphs.py puts another library's in its place.
attend = F.scaled_dot_product_attention


def attention(node):
    """What graph_of_attention() makes one node: queries, keys and values of [batch, heads, rows, size], or of heads in groups, and what may be seen."""
    scale, causal = node["alpha"], node["causal"]

    def compute(q, k, v, *seen):
        if seen:
            return attend(q, k, v, attn_mask=seen[0], scale=scale)
        groups = q.dim() == 5
        if groups:
            q, k, v, shape = q.flatten(1, 2), k.squeeze(2), v.squeeze(2), q.shape
        y = attend(q, k, v, is_causal=causal, scale=scale, enable_gqa=groups)
        return y.reshape(*shape[:4], y.shape[-1]) if groups else y
    return compute


def gradient(node):
    """One part of attention's gradients, its scores in memory."""
    scale, causal, of = node["scale"], bool(node["is_causal"]), node["of"]
    if node["softcap"] or node["left_window_size"] >= 0 or (node["right_window_size"] >= 0 and not causal):
        raise Unsupported("gradients with a cap or windows")

    def compute(g, q, k, v, sums, delta, mask=None, left=None):
        if left is not None:
            return torch.matmul(left.transpose(-1, -2), k) * scale
        if mask is not None or q.shape[1] != k.shape[1]:
            raise Unsupported("gradients with masks or shared heads")
        scores = torch.matmul(q, k.transpose(-1, -2)).float() * scale
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        weights = torch.exp(scores - sums[..., None])
        grad_v = torch.matmul(weights.to(q.dtype).transpose(-1, -2), g)
        if of == "values":
            return grad_v
        changes = (weights * (torch.matmul(g, v.transpose(-1, -2)).float() - delta[..., None])).to(q.dtype)
        if of == "queries":
            return torch.matmul(changes, k) * scale
        return (torch.matmul(changes.transpose(-1, -2), q) * scale, grad_v, changes.transpose(-1, -2))[:len(node.outputs)]
    return compute


TABLE = {
    "Add": pairwise(lambda a, b: a + b), "Sub": plain(lambda a, b: a - b), "Mul": plain(lambda a, b: a * b),
    "Div": plain(lambda a, b: a / b), "Pow": plain(lambda a, b: a ** b), "Sum": pairwise(lambda a, b: a + b),
    "Min": pairwise(lambda a, b: torch.minimum(a, tensor(b, a))), "Max": pairwise(lambda a, b: torch.maximum(a, tensor(b, a))),
    "Neg": plain(torch.neg), "Abs": plain(torch.abs), "Sign": plain(torch.sign), "Reciprocal": plain(torch.reciprocal),
    "Sqrt": plain(torch.sqrt), "Exp": plain(torch.exp), "Log": plain(torch.log), "Floor": plain(torch.floor),
    "Ceil": plain(torch.ceil), "Round": plain(torch.round), "Sin": plain(torch.sin), "Cos": plain(torch.cos),
    "Tanh": plain(torch.tanh), "Erf": plain(torch.erf), "Sigmoid": plain(torch.sigmoid), "Relu": plain(torch.relu),
    "Gelu": gelu, "Softplus": plain(F.softplus), "Identity": plain(lambda x: x.clone()), "Cast": cast, "Clip": clip,
    "Swish": lambda node: (lambda alpha: lambda x: x * torch.sigmoid(alpha * x))(node["alpha"]),
    "Where": plain(torch.where), "Equal": plain(lambda a, b: a == b), "Less": plain(lambda a, b: a < b),
    "LessOrEqual": plain(lambda a, b: a <= b), "Greater": plain(lambda a, b: a > b),
    "GreaterOrEqual": plain(lambda a, b: a >= b), "And": plain(torch.logical_and), "Or": plain(torch.logical_or),
    "Not": plain(torch.logical_not),
    "Reshape": reshape, "Flatten": reshape, "Squeeze": reshape, "Unsqueeze": reshape, "Expand": expand, "Slice": slices,
    "Split": split, "Concat": concat, "Transpose": transpose,
    "DequantizeLinear": dequantize,
    "Gather": gather, "GatherElements": gather_elements, "Pad": pad, "Tile": repeat, "Trilu": trilu,
    "Softmax": softmax(torch.softmax), "LogSoftmax": softmax(torch.log_softmax), "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "ReduceSum": reduction(lambda x, axes, keep: torch.sum(x, axes, keep, dtype=x.dtype)),
    "ReduceMean": reduction(torch.mean), "ReduceMax": reduction(torch.amax), "ReduceMin": reduction(torch.amin),
    "ReduceL2": reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "ReduceL1": reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 1, axes, keep)),
    "ReduceSumSquare": reduction(lambda x, axes, keep: torch.sum(x * x, axes, keep, dtype=x.dtype)),
    "ReduceLogSumExp": reduction(torch.logsumexp),
    "ArgMax": arg(torch.argmax), "ArgMin": arg(torch.argmin), "TopK": top_k, "CumSum": cumulative,
    "IndexAlong": index_along,
    "MatMul": product, "GroupedMatMul": grouped, "attention": attention, "AttentionGradPart": gradient,
}


def is_diagonal(graph, mask):
    """Rows see keys up to their own."""
    lower, upper, length = (mask["inputs"] + [None] * 3)[1:4]
    return not lower and not length and scalar(graph, upper) == 0 and mask["attributes"]["diagonal"] == "begin"


def is_infinite(graph, name):
    """A constant of one element that is not written: -infinity (and no other infinity hides scores)."""
    entry = graph["tensors"].get(name)
    return entry is not None and entry["kind"] == "constant" and not entry["shape"] and not entry.get("data")


def graph_of_attention(graph):
    """The graph with products that have a softmax between as one node of PyTorch's; itself, if there are none."""
    makers = {name: entry for entry in graph["nodes"] for name in entry["outputs"]}
    uses = [name for entry in graph["nodes"] for name in entry["inputs"]] + graph["outputs"]

    def maker(name, op):
        entry = makers.get(name)
        return entry if entry and entry["op"] == op and uses.count(name) == 1 else None

    nodes = list(graph["nodes"])
    for entry in graph["nodes"]:
        softmax_of = maker(entry["inputs"][0], "Softmax") if entry["op"] == "MatMul" and entry["inputs"] else None
        if not softmax_of or "alpha" in entry["attributes"] and entry["attributes"]["alpha"] != 1.0:
            continue
        mask = maker(softmax_of["inputs"][0], "Mask")
        hidden = maker(softmax_of["inputs"][0], "Where")
        biased = maker(softmax_of["inputs"][0], "Add")
        scores = maker(hidden["inputs"][1] if hidden else (mask or biased or softmax_of)["inputs"][0], "MatMul")
        turned = maker(scores["inputs"][1], "Transpose") if scores else None
        rank = len(graph["tensors"][entry["outputs"][0]]["shape"])
        last = turned and turned["attributes"]["perm"] == [*range(rank - 2), rank - 1, rank - 2]
        if not last or rank not in (4, 5) or (mask and not is_diagonal(graph, mask)):
            continue
        if (hidden or biased) and rank != 4 or hidden and not is_infinite(graph, hidden["inputs"][2]):
            continue
        parts = [part for part in (softmax_of, mask, hidden, biased, scores, turned) if part]
        seen = [hidden["inputs"][0]] if hidden else [biased["inputs"][1]] if biased else []
        whole = {"op": "attention", "domain": "", "inputs": [scores["inputs"][0], turned["inputs"][0], entry["inputs"][1], *seen],
                 "outputs": entry["outputs"], "attributes": {"alpha": scores["attributes"].get("alpha", 1.0), "causal": bool(mask)}}
        nodes = [whole if node is entry else node for node in nodes if not any(node is part for part in parts)]
    return {**graph, "nodes": nodes}


def eight_of(graph):
    """Queries, keys and values that a graph which is one attention widens from e4m3, and its attributes; None: it is something else."""
    nodes = graph_of_attention(graph)["nodes"]
    widened = {entry["outputs"][0]: entry["inputs"][0] for entry in nodes if entry["op"] == "Cast"}
    found = [entry for entry in nodes if entry["op"] == "attention"]
    if len(found) != 1 or len(found) + len(widened) != len(nodes) or len(found[0]["inputs"]) != 3:
        return None
    names = [widened.get(name) for name in found[0]["inputs"]]
    eight = all(name and graph["tensors"][name]["type"] == "e4m3" for name in names)
    return (names, found[0]["attributes"]) if eight else None


def varlen_of(graph):
    """The node of a graph that is one VarlenAttention of 16 bits, and the most rows of a sequence; None: it is something else."""
    node = graph["nodes"][0]
    if len(graph["nodes"]) != 1 or node["op"] != "VarlenAttention":
        return None
    ends = graph["tensors"][node["inputs"][3]].get("data")
    if not ends or graph["tensors"][node["inputs"][1]]["type"] not in ("bf16", "f16"):
        raise Unsupported("only 16-bit keys and values, and ends that are known")
    return node, int(max(past - first for first, past in zip(ends, ends[1:])))


def gradient_of(graph):
    """Names of operands and results of a graph that is one AttentionGrad, in whatever shares of heads or batches; None: it is something else."""
    makers = {name: entry for entry in graph["nodes"] for name in entry["outputs"]}
    readers = {name: entry for entry in graph["nodes"] for name in entry["inputs"]}
    parts = {entry["attributes"]["of"]: entry for entry in reversed(graph["nodes"]) if entry["op"] == "AttentionGradPart"}
    if set(parts) != {"queries", "keys"} or len(parts["keys"]["outputs"]) < 2:
        return None

    def whole(name):
        while name in makers and makers[name]["op"] in ("Slice", "Reshape"):
            name = makers[name]["inputs"][0]
        return name

    def joined(name):
        while name in readers and readers[name]["op"] == "Concat":
            name = readers[name]["outputs"][0]
        return name

    names = {key: whole(name) for key, name in zip(("g", "q", "k", "v", "sums", "delta"), parts["keys"]["inputs"])}
    where, sums = makers[names["sums"]], makers[names["delta"]]
    product = makers[sums["inputs"][0]]
    result = product["inputs"][1]
    while result in makers:
        result = makers[result]["inputs"][0]
    outputs = {joined(parts["queries"]["outputs"][0]): "dq", joined(parts["keys"]["outputs"][0]): "dk", joined(parts["keys"]["outputs"][1]): "dv"}
    return {**names, "l": where["inputs"][2], "y": result, "outputs": outputs, "attributes": parts["keys"]["attributes"]}


Product = collections.namedtuple("Product", "a a_scale b b_scale added groups turned attributes")


def product_of(graph):
    """The operands of a graph that is one product, their scales where they are 8-bit numbers with scales (None: without), what is added, the vector of its groups and
    whether the right operand lies turned; None: the graph is something else. Scales of blocks have been spread by Reshape and Gather on the way to DequantizeLinear."""
    makers = {name: entry for entry in graph["nodes"] for name in entry["outputs"]}
    products = [entry for entry in graph["nodes"] if entry["op"] in ("MatMul", "Gemm", "GroupedMatMul")]

    def origin(name, through):
        while name in makers and makers[name]["op"] in through:
            name = makers[name]["inputs"][0]
        return name

    if len(products) != 1 or [origin(name, ("Cast",)) for name in graph["outputs"]] != products[0]["outputs"][:1]:
        return None
    product = products[0]
    turned = bool(product["attributes"].get("transB"))
    operands = []
    for name in product["inputs"][:2]:
        while name in makers and makers[name]["op"] in ("Transpose", "Reshape"):
            turned ^= makers[name]["op"] == "Transpose"
            name = makers[name]["inputs"][0]
        made = makers.get(name)
        if made is None:
            operands += [name, None]
            continue
        if made["op"] != "DequantizeLinear" or len([x for x in made["inputs"] if x]) != 2:
            return None
        operands += [origin(made["inputs"][0], ("Reshape",)), origin(made["inputs"][1], ("Reshape", "Gather"))]
    third, grouped = (product["inputs"] + [None])[2], product["op"] == "GroupedMatMul"
    return Product(*operands, None if grouped else third or None, third if grouped else None, turned, product["attributes"])


def scaled_of(graph):
    """Operands, their scales, ends of groups and whether the right one lies turned, of a graph that is one product of 8-bit floats with scales; None: it is something else."""
    found = product_of(graph)
    if found is None or found.a_scale is None or found.b_scale is None:
        return None
    return (found.a, found.a_scale), (found.b, found.b_scale), found.groups, found.turned


def scalar(graph, name):
    """A constant of one element, as a number."""
    entry = graph["tensors"].get(name)
    if entry is None or entry["kind"] != "constant" or entry["shape"] or not entry.get("data"):  # infinities are not written
        return None
    return entry["data"][0] if entry["type"][0] not in "su" else int(entry["data"][0])


def check(graph):
    """Raises Unsupported for what there is no translation of."""
    graph = graph_of_attention(graph)
    for entry in graph["nodes"]:
        if (entry["domain"] and entry["op"] not in ("AttentionGradPart", "GroupedMatMul", "IndexAlong")) or entry["op"] not in TABLE:
            raise Unsupported(f"{entry['op']} has no translation")
        TABLE[entry["op"]](Node(graph, entry))
    dense = lambda t: t["strides"] == [*reversed(running(reversed(t["shape"])))]
    for name in graph["outputs"]:
        if not dense(graph["tensors"][name]):
            raise Unsupported(f"output {name} is not row-major")


def running(extents):
    step, steps = 1, []
    for extent in extents:
        steps.append(step)
        step *= extent
    return steps


def function(graph):
    """Takes the graph's inputs and constants by name, gives its outputs in order."""
    graph = graph_of_attention(graph)
    steps = []
    for entry in graph["nodes"]:
        numbers = [scalar(graph, name) if name else None for name in entry["inputs"]]
        if all(number is not None for number in numbers):
            numbers = [None] * len(numbers)
        steps.append((TABLE[entry["op"]](Node(graph, entry)), entry["inputs"], numbers, entry["outputs"]))

    def compute(tensors):
        values = dict(tensors)
        for step, inputs, numbers, outputs in steps:
            operands = [number if number is not None else values[name] if name else None
                        for name, number in zip(inputs, numbers)]
            results = step(*operands)
            for name, result in zip(outputs, results if isinstance(results, tuple) else (results,)):
                values[name] = result
        results = []
        for name in graph["outputs"]:
            result = values[name].to(TYPES[graph["tensors"][name]["type"]]).contiguous()
            results.append(result.reshape(graph["tensors"][name]["shape"]))
        return results
    return compute
