#!/usr/bin/env python3
"""A linear layer with Gelu from examples/gemm.json on PyTorch tensors: gemm_torch.py [GPU]

Compares with PyTorch in double precision, at several numbers of rows without compiling again, on a stream of its own, with a
buffer of the caller's, and replayed from a CUDA graph."""
import pathlib
import sys
import time

import torch

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "python"))
import adlgen  # noqa: E402


def error(y, x, w, bias):
    want = torch.nn.functional.gelu(x.double() @ w.double().T + bias.double())
    return ((y.double() - want).norm() / want.norm()).item()


def main():
    start = time.time()
    gemm = adlgen.compile(root / "examples" / "gemm.json", gpu=sys.argv[1] if len(sys.argv) > 1 else None)
    print(f"{gemm!r}, compiled in {1e3 * (time.time() - start):.0f} ms")
    for warning in gemm.warnings():
        print("warning:", warning)
    torch.manual_seed(0)
    w, bias = torch.randn(11008, 4096, device="cuda", dtype=torch.bfloat16), torch.randn(11008, device="cuda", dtype=torch.bfloat16)
    for rows in (1, 77, 1024):
        x = torch.randn(rows, 4096, device="cuda", dtype=torch.bfloat16)
        print(f"{rows} rows: error {error(gemm(x, w, bias), x, w, bias):.2e}")

    stream, out = torch.cuda.Stream(), torch.empty(1024, 11008, device="cuda", dtype=torch.bfloat16)
    with torch.cuda.stream(stream):
        gemm(x, w, bias, out=out)
    stream.synchronize()
    print(f"on a stream, with out=: error {error(out, x, w, bias):.2e}")

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = gemm(x, w, bias)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    print(f"replayed from a CUDA graph: error {error(y, x, w, bias):.2e}")

    try:
        gemm(x.T.contiguous().T, w, bias)
    except adlgen.Error as fault:
        print("refused:", str(fault).replace("\n", "; "))


main()
