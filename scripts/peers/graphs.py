#!/usr/bin/env python3
"""Runs `adlgen bench` with PyTorch's kernels beside ours: eager, Inductor (torch.compile; autotune: max-autotune), the libraries of its attention and of its gradients (FlashAttention-2, cuDNN), FlashAttention-3, FlashMLA, products of 8-bit floats with scales, DeepGEMM, QuACK and Liger, in one process.

  ninja -C build cli/adlgen-program.so
  scripts/peers/graphs.py [--peers eager,inductor,autotune,attention,flash3,varlen3,flashmla,gradients,scaled,deepgemm,quack,liger] build/cli/adlgen-program.so bench --suite rows --gpu h100 ...

Several commands stand behind one another, with --then between them. The program runs as a library of this process, so that peers share its device, stream and clock. What PyTorch launches for a
case is captured once, on the case's own inputs, and launched from C (graphs.c): no time of Python's is measured. Needs a C
compiler, CUDA's headers (CUDA_HOME) and PyTorch; FlashAttention-3 (PyPI: fa3-fwd), FlashMLA (tokenspeed-flashmla), DeepGEMM, QuACK (PyPI: quack-kernels) and Liger are left out where they are not installed."""
import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

POINTER = ctypes.c_void_p
TEXT = ctypes.POINTER(ctypes.c_char)


class Graph(ctypes.Structure):
    """adlgen_peer_graph"""
    _fields_ = [("name", ctypes.c_char_p), ("json", ctypes.c_char_p), ("tensors", ctypes.POINTER(ctypes.c_char_p)),
                ("n_tensors", ctypes.c_uint32), ("device", ctypes.c_int32), ("sms", ctypes.c_int32),
                ("reserved", ctypes.c_uint32)]


COUNT = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.POINTER(Graph), TEXT, ctypes.c_size_t)
NAME = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(Graph), ctypes.c_uint)
PREPARE = ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(Graph), ctypes.c_uint, ctypes.POINTER(POINTER), TEXT, ctypes.c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, POINTER)


def say(message, room, text):
    data = str(text).splitlines()[0].encode()[:room - 1] if str(text) else b"no reason given"
    ctypes.memmove(message, data + b"\0", len(data) + 1)


class Peer:
    """One table. `variants`: name -> function of (graph as read, compute) that gives what is to be captured; compute is None of a peer that
    translates nothing. `rows`: function of (graph as read, tensors) that gives the ranges of the result's rows which are to be right, for peers
    that write others too."""

    def __init__(self, name, about, variants, takes, translates=True, rows=None):
        import torch
        self.torch, self.name, self.variants, self.takes, self.translates, self.rows = torch, name, variants, takes, translates, rows
        self.states = {}
        self.about = about.encode()
        self.names = [ctypes.c_char_p(variant.encode()) for variant in variants]
        self.callbacks = (COUNT(self.count), NAME(self.variant_name), PREPARE(self.prepare), RELEASE(self.release))

    def attach(self, path):
        self.library = ctypes.CDLL(path)
        self.library.graphs_state_new.restype = POINTER
        self.library.graphs_state_new.argtypes = [POINTER, POINTER, ctypes.c_uint, TEXT, ctypes.c_size_t]
        self.library.graphs_state_free.argtypes = [POINTER]
        self.library.graphs_set(ctypes.c_char_p(self.about), *self.callbacks)

    def count(self, graph, message, room):
        import graph_in_torch
        try:
            read = json.loads(graph.contents.json)
            if self.translates:
                graph_in_torch.check(read)
            self.takes(read)
            return len(self.variants)
        except graph_in_torch.Unsupported as reason:
            say(message, room, reason)
        except Exception as fault:
            say(message, room, f"{type(fault).__name__}: {fault}")
        return 0

    def variant_name(self, _graph, index):
        return ctypes.cast(self.names[index], POINTER).value

    def tensors(self, graph, read, addresses):
        import graph_in_torch
        torch, given, outputs = self.torch, {}, {}
        for i in range(graph.contents.n_tensors):
            name = graph.contents.tensors[i].decode()
            entry = read["tensors"][name]
            if entry["output"]:
                outputs[name] = addresses[i]
                continue
            dtype = graph_in_torch.TYPES[entry["type"]]
            elements = 1 + sum((extent - 1) * step for extent, step in zip(entry["shape"], entry["strides"]))
            if 0 in entry["shape"]:
                raise graph_in_torch.Unsupported("an empty tensor")
            size = elements * dtype.itemsize
            memory = type("Memory", (), {"__cuda_array_interface__": {
                "shape": (size,), "typestr": "|u1", "data": (addresses[i], False), "version": 2}})()
            flat = torch.as_tensor(memory, device="cuda").view(dtype)
            given[name] = flat.as_strided(entry["shape"], entry["strides"])
        return given, outputs

    def prepare(self, graph, index, addresses, message, room):
        torch = self.torch
        try:
            import graph_in_torch
            read = json.loads(graph.contents.json)
            given, outputs = self.tensors(graph, read, addresses)
            compute = list(self.variants.values())[index](read, graph_in_torch.function(read) if self.translates else None)
            stream = torch.cuda.Stream()
            with torch.no_grad(), torch.cuda.stream(stream):
                for _ in range(2):
                    compute(given)
            stream.synchronize()
            captured = torch.cuda.CUDAGraph(keep_graph=True)
            with torch.no_grad(), torch.cuda.graph(captured, stream=stream):
                results = compute(given)
            torch.cuda.synchronize()
            places = []
            for name, result in zip(read["outputs"], results):
                if any(result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for x in given.values()):
                    raise graph_in_torch.Unsupported("a view of an input: there is nothing to time")
                result.reshape(-1).view(torch.uint8).fill_(255)  # so that only a launch makes it right
                row = result.shape[-1] * result.element_size() if result.dim() else result.element_size()
                whole = [(0, result.numel() * result.element_size() // max(row, 1))]
                for first, past in self.rows(read, given) if self.rows else whole:
                    places += [result.data_ptr() + first * row, outputs[name] + first * row, (past - first) * row]
            torch.cuda.synchronize()
            state = self.library.graphs_state_new(captured.raw_cuda_graph(), (ctypes.c_uint64 * len(places))(*places),
                                                  len(places) // 3, message, room)
            if state:
                self.states[state] = (captured, results, given)
            return state
        except Exception as fault:
            say(message, room, f"{type(fault).__name__}: {fault}")
            return None

    def release(self, state):
        self.library.graphs_state_free(state)
        self.states.pop(state, None)
        self.torch.cuda.empty_cache()


def anything(_graph):
    pass


def compiled(**options):
    def build(_graph, compute):
        import torch
        torch._dynamo.reset()
        return torch.compile(compute, dynamic=False, fullgraph=True, **options)
    return build


def only_attention(graph):
    import graph_in_torch
    if not any(node["op"] == "attention" for node in graph_in_torch.graph_of_attention(graph)["nodes"]):
        raise graph_in_torch.Unsupported("only attention")


def only_lengths(graph):
    import graph_in_torch
    if not graph_in_torch.varlen_of(graph):
        raise graph_in_torch.Unsupported("only one VarlenAttention")


def by_backend(name):
    """PyTorch's attention by one of the libraries that it brings."""
    def build(_graph, compute):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def inside(given):
            with sdpa_kernel(getattr(SDPBackend, name)):
                return compute(given)
        return inside
    return build


def only_gradient(graph):
    import graph_in_torch
    if not graph_in_torch.gradient_of(graph):
        raise graph_in_torch.Unsupported("only gradients of attention")


def gradient_by(name):
    """The gradients by a library that PyTorch brings, of the result and the log-sum-exps that are given: its forward only tells what else it wants."""
    def build(graph, _compute):
        import graph_in_torch
        import torch
        names = graph_in_torch.gradient_of(graph)
        given_by, kept, extra = names["attributes"], [], []
        forward = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")
        backward = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention_backward")
        cudnn = name == "cudnn"

        def inside(given):
            g, q, k, v, y, l = (given[names[x]] for x in ("g", "q", "k", "v", "y", "l"))
            options = {"scale": given_by["scale"]}
            if not kept:
                causal = bool(given_by["is_causal"])
                front = (None, True) if cudnn else ()
                kept.extend(forward(q, k, v, *front, 0.0, causal, False, **options))
                bias = [None] if cudnn else []
                seed, offset = kept[6], kept[7]
                extra.append([seed, offset, *bias, *kept[2:6], 0.0, causal] if cudnn else [*kept[2:6], 0.0, causal, seed, offset])
            grads = backward(g, q, k, v, y, l.reshape(kept[1].shape), *extra[0], **options)
            found = dict(zip(("dq", "dk", "dv"), grads))
            return [found[names["outputs"][output]].contiguous() for output in graph["outputs"]]
        return inside
    return build


def only_scaled(graph):
    import graph_in_torch
    found = graph_in_torch.scaled_of(graph)
    if not found or not found[3]:
        raise graph_in_torch.Unsupported("only one product of 8-bit floats with scales, the right one turned")


def scaled_by(fast):
    """Products of 8-bit floats with scales by the kernels that PyTorch has: cuBLASLt's of blocks, CUTLASS's of groups of rows with scales of rows and columns."""
    def build(graph, _compute):
        import graph_in_torch
        import torch
        (a, a_scale), (b, b_scale), ends, _ = graph_in_torch.scaled_of(graph)

        def inside(given):
            x, w, x_scale, w_scale = given[a], given[b].transpose(-2, -1), given[a_scale], given[b_scale]
            if ends:
                return [torch._scaled_grouped_mm(x, w, x_scale, w_scale, offs=given[ends], out_dtype=torch.bfloat16, use_fast_accum=fast)]
            return [torch._scaled_mm(x, w, x_scale, w_scale.t(), out_dtype=torch.bfloat16, use_fast_accum=fast)]
        return inside
    return build


def only_deepgemm(graph):
    deepgemm(graph, None)


def deepgemm(graph, _compute):
    """DeepGEMM's own products: 8-bit floats with scales of 1x128 and 128x128 (or 1x128 both), and bf16, dense or of groups of rows. The right operand lies turned."""
    import graph_in_torch
    found = graph_in_torch.product_of(graph)
    if not found or not found.turned:
        raise graph_in_torch.Unsupported("only one product of bf16, or of 8-bit floats with scales, the right one turned")
    output, kind = graph["tensors"][graph["outputs"][0]], found.attributes.get("groups", "dense")
    types = {graph["tensors"][name]["type"] for name in (found.a, found.b)}
    scaled = found.a_scale is not None
    if types != ({"e4m3"} if scaled else {"bf16"}) or (found.a_scale is None) != (found.b_scale is None):
        raise graph_in_torch.Unsupported("only e4m3 with scales and bf16")
    if found.added is not None:
        raise graph_in_torch.Unsupported("what is added to must be the result itself")
    if kind == "ends" and found.attributes.get("align", 1) != 128:
        raise graph_in_torch.Unsupported("groups must begin at multiples of 128 rows")
    if kind == "ends" and len(graph["tensors"][found.b]["shape"]) != 3:
        raise graph_in_torch.Unsupported("no groups of the inner extent")
    if kind == "index" and found.attributes.get("align", 1) % 128:
        raise graph_in_torch.Unsupported("groups must begin at multiples of 128 rows")
    scales = graph["tensors"][found.b_scale]["shape"] if scaled else None
    each_row = scaled and scales[-2] == graph["tensors"][found.b]["shape"][-2]  # of B: 1x128, not 128x128

    def inside(given):
        import deep_gemm
        import torch
        a, b = ((given[x], given[s]) if scaled else given[x] for x, s in ((found.a, found.a_scale), (found.b, found.b_scale)))
        y = torch.empty(output["shape"], dtype=graph_in_torch.TYPES[output["type"]], device="cuda")
        name = "fp8_gemm_nt" if scaled else "bf16_gemm_nt"
        recipe = {"recipe": (1, 1, 128)} if each_row else {}
        expected = found.attributes.get("expected")
        if kind == "dense":
            getattr(deep_gemm, name)(a, b, y, **recipe)
        elif kind == "counts":
            groups = getattr(deep_gemm, f"m_grouped_{name}_masked")
            groups(a, b, y, given[found.groups], expected or output["shape"][1], **recipe)
        else:
            ends = kind == "ends"
            groups = getattr(deep_gemm, f"m_grouped_{name}_contiguous")
            groups(a, b, y, given[found.groups], use_psum_layout=ends, ensure_zero_padding=bool(found.attributes.get("clear")),
                   **recipe, **({"expected_m_for_psum_layout": expected} if ends and expected else {}))
        return [y]
    return inside


def rows_of_groups(graph, given):
    """Rows of the groups of a product: DeepGEMM's tiles write those behind them too."""
    import graph_in_torch
    found, output = graph_in_torch.product_of(graph), graph["tensors"][graph["outputs"][0]]["shape"]
    kind = found.attributes.get("groups")
    if kind is None:
        return [(0, math.prod(output[:-1]))]
    told = given[found.groups].cpu().tolist()
    if kind == "counts":
        return [(g * output[1], g * output[1] + n) for g, n in enumerate(told) if n > 0]
    if kind == "index":
        return [(row, row + 1) for row, group in enumerate(told) if group >= 0]
    align, ranges, end = found.attributes.get("align", 1), [], 0
    for last in told:
        ranges.append((-(-end // align) * align, last))
        end = max(end, last)
    return [(first, past) for first, past in ranges if past > first]


def flash3(splits):
    """FlashAttention-3 (`fa3-fwd`): bf16, or e4m3 where the graph widens it; keys divided into so many parts, 0: as many as it thinks best."""
    def build(_graph, compute):
        import fa3_fwd_interface
        import graph_in_torch
        import torch

        def attend(q, k, v, is_causal, scale, enable_gqa):
            y = torch.empty((*q.shape[:3], v.shape[3]), dtype=torch.bfloat16 if q.dtype == torch.float8_e4m3fn else q.dtype, device=q.device)
            if is_causal and q.shape[2] != k.shape[2]:
                raise graph_in_torch.Unsupported("its masks begin at the last row")
            if splits != 1 and q.shape[2] > 64:
                raise graph_in_torch.Unsupported("parts of keys are for few queries")
            turned = [x.transpose(1, 2) for x in (q, k, v)]
            # No other than positions are known: no new keys, ends, pages, positions or scales; no window, no softcap.
            torch.ops.fa3_fwd.fwd(*turned, *[None] * 3, y.transpose(1, 2), *[None] * 16, scale, is_causal, -1, -1, 0, 0.0, True, None, splits, None, 0)
            return y

        eight = graph_in_torch.eight_of(_graph)

        def inside(given):
            if eight:
                names, attributes = eight
                return [attend(*(given[name] for name in names), attributes["causal"], attributes["alpha"], True)]
            return with_attention(attend, compute, given)
        return inside
    return build


def varlen3(splits):
    """FlashAttention-3 of sequences of their own lengths: keys behind one another, or up to lengths in batches; `fa3-fwd` is built without pages."""
    def build(graph, _compute):
        import fa3_fwd_interface  # noqa: F401
        import graph_in_torch
        import torch
        node, longest = graph_in_torch.varlen_of(graph)
        names, attributes = [*node["inputs"], *[None] * 2][:6], node["attributes"]
        causal = bool(attributes["is_causal"])
        if any(node["inputs"][6:]):
            raise graph_in_torch.Unsupported("no pages, scales and slopes")
        if causal and attributes["diagonal"] != "end":
            raise graph_in_torch.Unsupported("its masks begin at the last row")
        by_length = bool(names[5])
        # Keys that a sequence has at most: those of its place in the batch, or of all sequences.
        most = graph["tensors"][names[1]]["shape"][1 if by_length else 0]
        scale = attributes["scale"] or graph["tensors"][names[0]]["shape"][2] ** -0.5
        windows = attributes["left_window_size"], 0 if causal else attributes["right_window_size"]

        def inside(given):
            q, k, v, ends, key_ends, lengths = (given[name] if name else None for name in names)
            y = torch.empty((*q.shape[:2], v.shape[-1]), dtype=q.dtype, device=q.device)
            behind = None if by_length else ends if key_ends is None else key_ends
            torch.ops.fa3_fwd.fwd(q, k, v, *[None] * 3, y, ends, behind, *[None] * 2, lengths, longest, most, *[None] * 9,
                                  scale, causal, *windows, 0, attributes["softcap"], True, None, splits, None, 0)
            return [y]
        return inside
    return build


def with_attention(attend, compute, given):
    """The graph computed with another library's attention in the place of PyTorch's."""
    import graph_in_torch
    before, graph_in_torch.attend = graph_in_torch.attend, attend
    try:
        return compute(given)
    finally:
        graph_in_torch.attend = before


def flashmla(_graph, compute):
    """FlashMLA's dense decoding: one head of latents of 576 elements, whose first 512 are the values, in pages of 64 rows that lie behind one another. It schedules when it is called first."""
    import flash_mla
    import graph_in_torch
    import torch
    kept = {}

    def attend(q, k, v, is_causal, scale, enable_gqa):
        batch, rows, size = k.shape[0], k.shape[2], k.shape[3]
        if k.shape[1] != 1 or (size, v.shape[3]) != (576, 512) or v.data_ptr() != k.data_ptr() or rows % 64 or is_causal:
            raise graph_in_torch.Unsupported("only latents of 576 elements, 64 rows at a time")
        if not kept:
            kept["lengths"] = torch.full((batch,), rows, dtype=torch.int32, device=k.device)
            kept["pages"] = torch.arange(batch * rows // 64, dtype=torch.int32, device=k.device).view(batch, -1)
            kept["plan"] = flash_mla.get_mla_metadata()[0]
        y, _ = flash_mla.flash_mla_with_kvcache(q.transpose(1, 2), k.reshape(-1, 64, 1, size), kept["pages"], kept["lengths"], 512, kept["plan"], softmax_scale=scale)
        return y.transpose(1, 2)
    return lambda given: with_attention(attend, compute, given)


def one_row_operator(graph):
    import graph_in_torch
    node = graph["nodes"][0]
    if len(graph["nodes"]) != 1 or node["op"] not in ("Softmax", "LayerNormalization", "RMSNormalization"):
        raise graph_in_torch.Unsupported("only one softmax or norm")
    if node["attributes"]["axis"] % len(graph["tensors"][node["inputs"][0]]["shape"]) != len(
            graph["tensors"][node["inputs"][0]]["shape"]) - 1:
        raise graph_in_torch.Unsupported("only along the last axis")


def liger(graph, _compute):
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.softmax import LigerSoftmaxFunction
    import torch
    node = graph["nodes"][0]
    names, epsilon = node["inputs"], node["attributes"].get("epsilon")

    def compute(given):
        x = [given[name] for name in names if name]
        if node["op"] == "Softmax":
            return [LigerSoftmaxFunction.apply(x[0])]
        if node["op"] == "RMSNormalization":
            return [LigerRMSNormFunction.apply(x[0], x[1], epsilon, 0.0, "llama", False)]
        bias = x[2] if len(x) > 2 else torch.zeros_like(x[1])
        return [LigerLayerNormFunction.apply(x[0], x[1], bias, epsilon)]
    return compute


def quack(graph, _compute):
    """QuACK's softmax and norms, compiled for the columns by the first call."""
    from quack.rmsnorm import layernorm_fwd, rmsnorm_fwd
    from quack.softmax import softmax_fwd
    node = graph["nodes"][0]
    names, epsilon = node["inputs"], node["attributes"].get("epsilon")
    wide = []  # its LayerNorm wants scale and bias of f32: they are widened ahead of what is captured

    def compute(given):
        first, *others = [given[name] for name in names if name]
        x = first.reshape(-1, first.shape[-1])
        if node["op"] == "Softmax":
            y = softmax_fwd(x)
        elif node["op"] == "RMSNormalization":
            y = rmsnorm_fwd(x, others[0], eps=epsilon)[0]
        else:
            if not wide:
                wide.extend(other.float() for other in others)
            y = layernorm_fwd(x, *wide, eps=epsilon)
        return [y.reshape(first.shape)]
    return compute


def peers_of(names):
    import torch
    about = f"PyTorch {torch.__version__}"
    for name in names:
        if name == "eager":
            yield Peer(name, about, {"eager": lambda graph, compute: compute}, anything)
        elif name == "inductor":
            import triton
            yield Peer(name, f"{about}, Triton {triton.__version__}", {"default": compiled()}, anything)
        elif name == "autotune":
            import triton
            options = {"mode": "max-autotune-no-cudagraphs"}  # what it launches is captured here
            yield Peer(name, f"{about}, Triton {triton.__version__}", {"default": compiled(**options)}, anything)
        elif name == "attention":
            yield Peer(name, about, {"flash": by_backend("FLASH_ATTENTION"), "cudnn": by_backend("CUDNN_ATTENTION")}, only_attention)
        elif name == "gradients":
            yield Peer(name, about, {"flash": gradient_by("flash"), "cudnn": gradient_by("cudnn")}, only_gradient)
        elif name == "scaled":
            yield Peer(name, about, {"exact": scaled_by(False), "fast": scaled_by(True)}, only_scaled, False)
        elif name == "deepgemm":
            try:
                import deep_gemm
            except ImportError as missing:
                print(f"deepgemm is left out: {missing}", file=sys.stderr)
                continue
            yield Peer(name, f"DeepGEMM {deep_gemm.__version__}", {"default": deepgemm}, only_deepgemm, False, rows_of_groups)
        elif name in ("flash3", "varlen3"):
            try:
                import fa3_fwd_interface  # noqa: F401
            except ImportError as missing:
                print(f"{name} is left out: {missing}", file=sys.stderr)
                continue
            about = "FlashAttention-3 (fa3-fwd)"
            if name == "flash3":
                yield Peer(name, about, {"1": flash3(1), "auto": flash3(0), **{str(n): flash3(n) for n in (4, 16, 64)}}, only_attention)
            else:
                yield Peer(name, about, {"1": varlen3(1), "auto": varlen3(0), "4": varlen3(4), "16": varlen3(16)}, only_lengths, False)
        elif name == "quack":
            try:
                import quack as package
            except ImportError as missing:
                print(f"quack is left out: {missing}", file=sys.stderr)
                continue
            yield Peer(name, f"QuACK {package.__version__}", {"default": quack}, one_row_operator)
        elif name == "flashmla":
            try:
                import flash_mla
            except ImportError as missing:
                print(f"flashmla is left out: {missing}", file=sys.stderr)
                continue
            yield Peer(name, f"FlashMLA {flash_mla.__version__}", {"default": flashmla}, only_attention)
        elif name == "liger":
            try:
                from importlib.metadata import version
                import liger_kernel.ops.rms_norm  # noqa: F401
            except ImportError as missing:
                print(f"liger is left out: {missing}", file=sys.stderr)
                continue
            yield Peer(name, f"Liger {version('liger_kernel')}", {"default": liger}, one_row_operator)
        else:
            sys.exit(f"unknown peer {name}: eager, inductor, autotune, attention, flash3, varlen3, flashmla, gradients, scaled, deepgemm, quack or liger")


def build(name, folder):
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    path = os.path.join(folder, f"{name}.so")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden",
                    f'-DNAME="{name}"', f"-I{ROOT}/include", f"-I{cuda}/include", "-o", path, f"{HERE}/graphs.c", "-ldl"],
                   check=True)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default="eager,inductor,liger")
    parser.add_argument("program", help="adlgen-program.so")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="bench and its options")
    options = parser.parse_args()
    sys.path.insert(0, HERE)
    peers, against, status = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        import torch
        torch.cuda.init()
        for peer in peers_of(options.peers.split(",")):
            path = build(peer.name, folder)
            peer.attach(path)
            peers.append(peer)
            against += ["--against", f"plugin:{path}"]
        program = ctypes.CDLL(os.path.abspath(options.program))
        for words in commands(options.words):
            words = ["adlgen", *words, *against]
            arguments = (ctypes.c_char_p * (len(words) + 1))(*[word.encode() for word in words], None)
            status = max(status, program.adlgen_program(len(words), arguments))
    sys.stdout.flush()
    os._exit(status)  # not through the ends of two programs


def commands(words):
    while "--then" in words:
        place = words.index("--then")
        yield words[:place]
        words = words[place + 1:]
    yield words


if __name__ == "__main__":
    main()
