"""Triton kernels of our own: a product of bytes (saturating mma), and a product through tensor maps that the kernel makes.

python3 tiles.py       (Triton 3.9.0; writes tiles80.ptx and tiles90.ptx; needs no GPU)
"""
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def byte_product(a, b, out, N: tl.constexpr):
    row = tl.arange(0, N)
    x = tl.load(a + row[:, None] * N + row[None, :])
    y = tl.load(b + row[:, None] * N + row[None, :])
    product = tl.dot(x, y)
    tl.store(out + row, tl.max(product, 1) + tl.sum(product, 1))


@triton.jit
def described_product(a, b, out, M, K, N: tl.constexpr):
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[N, N])
    right = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[N, N])
    result = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[N, N])
    sums = tl.zeros((N, N), dtype=tl.float32)
    for k in range(0, K, N):
        sums = tl.dot(left.load([tl.program_id(0) * N, k]), right.load([k, 0]), sums)
    result.store([tl.program_id(0) * N, 0], sums)


def write(kernel, capability, signature, file):
    names = kernel.arg_names
    types = dict(zip(names, signature), N="constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
    source = ASTSource(fn=kernel, signature=types, constexprs={"N": 64}, attrs=aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    lines = compiled.asm["ptx"].splitlines()
    # debug information names the folder of this file
    kept = [l for l in lines if not l.lstrip().startswith((".loc", ".file", "//"))]
    text = "\n".join(kept).split("\t.section\t.debug")[0].replace(", debug", "")
    with open(file, "w") as out:
        out.write(text.rstrip() + "\n")
    print(file, compiled.metadata.shared, compiled.metadata.global_scratch_size)


if __name__ == "__main__":
    write(byte_product, 80, ["*i8", "*i8", "*i32"], "tiles80.ptx")
    write(described_product, 90, ["*fp16", "*fp16", "*fp32", "i32", "i32"], "tiles90.ptx")
