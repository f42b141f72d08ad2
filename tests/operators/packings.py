#!/usr/bin/env python3
"""packings.py ADLGEN: layers as GPTQ and AWQ pack them, through python/adlgen_weights.py to MatMulNBits and to the sums in double
precision of the numbers that were packed; MXFP4 as bytes of a file."""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import adlgen_weights as weights

PROGRAM, K, N, SIZE, M = pathlib.Path(sys.argv[1]).resolve(), 256, 48, 64, 3
GROUPS = K // SIZE


def half(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def pack(codes, bits):
    words = []
    for i in range(0, len(codes), 32 // bits):
        words.append(sum(code << bits * j for j, code in enumerate(codes[i:i + 32 // bits])))
    return struct.pack(f"<{len(words)}I", *words)


def layer(kind, bits):
    """Numbers, zero points, scales, and the packed tensors."""
    draw = lambda low, high, n: [random.randint(low, high) for _ in range(n)]
    codes, zeros = [draw(0, (1 << bits) - 1, N) for _ in range(K)], [draw(1, (1 << bits) - 1, N) for _ in range(GROUPS)]
    scales = [[half(random.uniform(0.01, 0.1)) for _ in range(N)] for _ in range(GROUPS)]
    if kind == "gptq":
        down = [codes[k][n] for k in range(0, K) for n in range(N)]
        words = [[down[(k + j) * N + n] for j in range(32 // bits)] for k in range(0, K, 32 // bits) for n in range(N)]
        weight = (b"".join(pack(word, bits) for word in words), [K * bits // 32, N])
        zero = (b"".join(pack([z - 1 for z in row], bits) for row in zeros), [GROUPS, N * bits // 32])
    else:
        order = lambda row: [row[i + weights.AWQ_ORDER[j]] for i in range(0, N, 8) for j in range(8)]
        weight = (b"".join(pack(order(row), 4) for row in codes), [K, N // 8])
        zero = (b"".join(pack(order(row), 4) for row in zeros), [GROUPS, N // 8])
    tensors = {"l.qweight": ("I32", weight[1], weight[0]), "l.qzeros": ("I32", zero[1], zero[0]),
               "l.scales": ("F16", [GROUPS, N], struct.pack(f"<{GROUPS * N}e", *(s for row in scales for s in row)))}
    return codes, zeros, scales, tensors


def run(graph, folder, files, gpu):
    path = folder / "graph.json"
    path.write_text(json.dumps(graph))
    options = [word for name, file in files.items() for word in ("--input", f"{name}={file}")]
    subprocess.run([PROGRAM, "run", path, "--gpu", gpu, "--on", "sim", "--check", "--out", folder / "out", *options], check=True, capture_output=True)
    given, found = weights.read(folder / "out/inputs.safetensors"), weights.read(folder / "out/outputs.safetensors")
    floats = lambda tensor: struct.unpack(f"<{len(tensor[2]) // 2}e", tensor[2])
    return floats(given["a"]), floats(found["y"])


def compare(what, a, y, value):
    for m in range(M):
        for n in range(N):
            terms = [a[m * K + k] * value(k, n) for k in range(K)]
            if abs(y[m * N + n] - sum(terms)) > 2e-3 * sum(map(abs, terms)):
                sys.exit(f"{what}: y[{m}, {n}] is {y[m * N + n]}, not {sum(terms)}")
    print(f"{what}: right")


def check(kind, bits, gpu, scattered=False):
    codes, zeros, scales, tensors = layer(kind, bits)
    group = [7 * k % GROUPS if scattered else k // SIZE for k in range(K)]
    tensors["l.g_idx"] = ("I32", [K], struct.pack(f"<{K}i", *group))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights.write(folder / "in.safetensors", tensors)
        command = [sys.executable, ROOT / "python/adlgen_weights.py", folder / "in.safetensors", folder / "out.safetensors"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        attributes = json.loads(said.partition(" ")[2])
        converted = weights.read(folder / "out.safetensors")
        if ("l.g_idx" in converted) != scattered:
            sys.exit(f"{kind}: groups by indices only where they do not follow one another")
        kinds = {"U8": "u8", "F16": "f16", "I32": "s32"}
        names = {"b": "l.B", "s": "l.scales", "z": "l.zero_points"} | ({"g": "l.g_idx"} if scattered else {})
        inputs = {"a": {"type": "f16", "shape": [M, K], "align": 16}} | {
            key: {"type": kinds[converted[tensor][0]], "shape": converted[tensor][1], "align": 16} for key, tensor in names.items()}
        graph = {"name": kind, "inputs": inputs, "outputs": ["y"],
                 "nodes": [{"op": "MatMulNBits", "domain": "com.microsoft", "inputs": ["a", *names], "outputs": ["y"], "attributes": attributes}]}
        a, y = run(graph, folder, {key: f"{folder}/out.safetensors#{tensor}" for key, tensor in names.items()}, gpu)
        compare(f"{gpu}, {kind} of {bits} bits{', scattered' if scattered else ''}", a, y,
                lambda k, n: (codes[k][n] - zeros[group[k]][n]) * scales[group[k]][n])


def check_mxfp4(gpu):
    """Codes and scales in a file that knows them as bytes."""
    values = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    codes, powers = [random.randrange(16) for _ in range(N * K)], [random.randint(120, 130) for _ in range(N * K // 32)]
    tensors = {"w": ("U8", [N, K // 32, 16], bytes(low | high << 4 for low, high in zip(codes[::2], codes[1::2]))), "s": ("U8", [N, K // 32], bytes(powers))}
    graph = {"name": "mxfp4", "outputs": ["y"],
             "inputs": {"a": {"type": "f16", "shape": [M, K], "align": 16}, "w": {"type": "e2m1", "shape": [N, K], "align": 16}, "s": {"type": "e8m0", "shape": [N, K // 32], "align": 16}},
             "nodes": [{"op": "DequantizeLinear", "inputs": ["w", "s"], "outputs": ["b"], "attributes": {"axis": 1, "block_size": 32, "output_dtype": "f16"}},
                       {"op": "Gemm", "inputs": ["a", "b"], "outputs": ["y"], "attributes": {"transB": 1}}]}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights.write(folder / "in.safetensors", tensors)
        a, y = run(graph, folder, {key: f"{folder}/in.safetensors#{key}" for key in tensors}, gpu)
        sign = lambda code: -1 if code > 7 else 1
        compare(f"{gpu}, MXFP4", a, y, lambda k, n: sign(codes[n * K + k]) * values[codes[n * K + k] & 7] * 2.0 ** (powers[(n * K + k) // 32] - 127))


random.seed(5)
for device in "h100", "a100":
    check("gptq", 4, device)
    check("awq", 4, device)
    check("gptq", 8, device)
    check_mxfp4(device)
check("gptq", 2, "h100")
check("gptq", 4, "h100", scattered=True)
