#!/usr/bin/env python3
"""Weights of few bits as GPTQ and AWQ pack them, turned into what MatMulNBits (com.microsoft) of adlgen and ONNX Runtime takes.

    adlgen_weights.py MODEL.safetensors OUT.safetensors [--v2]

takes every layer X that has X.qweight, X.qzeros and X.scales (X.g_idx) and writes X.B [N, blocks, bytes], X.scales [N, blocks],
X.zero_points [N, bytes] and, where groups do not follow one another, X.g_idx [K]; it prints the attributes of each. What is read:

    GPTQ   qweight s32 [K bits / 32, N], k by k from the lowest bits up; qzeros s32 [groups, N bits / 32], less one (`v2`: as they are);
           2, 4 or 8 bits
    AWQ    qweight s32 [K, N / 8], columns 0 2 4 6 1 3 5 7 of each eight from the lowest bits up; qzeros s32 [groups, N / 8] alike; 4 bits
    both   scales [groups, N], of two bytes an element

The functions take and give bytes, little-endian and row-major. Python's own library is all that it needs."""
import argparse
import json
import struct
import sys

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
LOW = bytes(code & 15 for code in range(256))
HIGH = bytes(code >> 4 for code in range(256))


def transposed(data, rows, columns, size):
    """[rows, columns] of elements of `size` bytes, as [columns, rows]."""
    elements = memoryview(data).cast({1: "B", 2: "H", 4: "I"}[size])
    assert len(elements) == rows * columns
    return b"".join(elements[column::columns].tobytes() for column in range(columns))


def joined(codes, bits):
    """Codes, a byte each, side by side, low first; the last byte filled up with zeros."""
    if bits == 8:
        return bytes(codes)
    while bits < 8:
        codes = bytes(codes) + bytes(len(codes) % 2)
        shift = bytes(code << bits & 255 for code in range(256))
        low, high = int.from_bytes(codes[0::2], "little"), int.from_bytes(codes[1::2].translate(shift), "little")
        codes = (low | high).to_bytes(len(codes) // 2, "little")
        bits *= 2
    return codes


def zero_points(rows, bits):
    """Codes of [N, groups], each row from a whole byte on."""
    return b"".join(joined(row, bits) for row in rows)


def gptq(qweight, qzeros, scales, k, n, groups, bits=4, v2=False):
    """B, scales and zero points of one layer."""
    if bits not in (2, 4, 8):
        raise ValueError(f"{bits} bits: 2, 4 and 8 are what MatMulNBits has")
    words, most = memoryview(qzeros).cast("I"), (1 << bits) - 1
    each, width = 32 // bits, n * bits // 32
    rows = [bytearray(groups) for _ in range(n)]
    for group in range(groups):
        for column in range(n):
            zero = (words[group * width + column // each] >> column % each * bits & most) + (not v2)
            if zero > most:
                raise ValueError(f"column {column}, group {group}: a zero point of {zero} does not fit into {bits} bits")
            rows[column][group] = zero
    return transposed(qweight, k * bits // 32, n, 4), transposed(scales, groups, n, 2), zero_points(rows, bits)


def awq_columns(words, rows, n):
    """Codes of [rows, n], a byte each, column by column."""
    for column in range(n):
        place = AWQ_ORDER.index(column % 8)
        yield words[column // 8 * 4 + place // 2::n // 2].translate(HIGH if place % 2 else LOW)


def awq(qweight, qzeros, scales, k, n, groups):
    """B, scales and zero points of one layer, of 4 bits."""
    weights = b"".join(joined(codes, 4) for codes in awq_columns(bytes(qweight), k, n))
    return weights, transposed(scales, groups, n, 2), zero_points(awq_columns(bytes(qzeros), groups, n), 4)


# ---- files ----


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


def write(path, tensors):
    header, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def convert(layer, tensors, v2):
    """The tensors and attributes of a layer."""
    weight, zeros, scales = (tensors[f"{layer}.{part}"] for part in ("qweight", "qzeros", "scales"))
    groups, n = scales[1]
    if weight[1][1] == n:  # along k
        bits = 32 * zeros[1][1] // n
        k = weight[1][0] * 32 // bits
        parts = gptq(weight[2], zeros[2], scales[2], k, n, groups, bits, v2)
    elif weight[1][1] * 8 == n:
        k, bits = weight[1][0], 4
        parts = awq(weight[2], zeros[2], scales[2], k, n, groups)
    else:
        raise ValueError(f"qweight {weight[1]} and scales {scales[1]} are neither GPTQ's nor AWQ's")
    size = k // groups
    if size * groups != k or size < 16 or size & size - 1:
        raise ValueError(f"groups of {k} / {groups} elements are no power of two from 16 on")
    given = {f"{layer}.B": ("U8", [n, groups, size * bits // 8], parts[0]), f"{layer}.scales": (scales[0], [n, groups], parts[1]),
             f"{layer}.zero_points": ("U8", [n, -(-groups * bits // 8)], parts[2])}
    index = tensors.get(f"{layer}.g_idx")
    if index and index[2] != struct.pack(f"<{k}i", *(i // size for i in range(k))):
        given[f"{layer}.g_idx"] = index
    return given, {"K": k, "N": n, "bits": bits, "block_size": size}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--v2", action="store_true", help="GPTQ's zero points are stored as they are, not less one")
    arguments = parser.parse_args()
    tensors, converted = read(arguments.model), {}
    for name in tensors:
        layer, dot, part = name.rpartition(".")
        if not dot or part != "qweight":
            continue
        try:
            given, attributes = convert(layer, tensors, arguments.v2)
        except ValueError as problem:
            sys.exit(f"{arguments.model}: {layer}: {problem}")
        converted.update(given)
        print(layer, json.dumps(attributes))
    write(arguments.out, converted)


if __name__ == "__main__":
    main()
