"""Recorded results on disk: one xz file a family.

A line of JSON (machine, and per result its case, label, how it is kept and how long it is), then the results one after
another. Elements are taken apart into planes of bytes and each plane into differences, which xz packs better."""
import json
import lzma
import zlib

from case import CHUNK


def planes(data, width):
    out = bytearray()
    for b in range(width):
        plane = data[b::width]
        out += bytes((x - y) & 255 for x, y in zip(plane, b"\0" + plane))
    return bytes(out)


def unplane(data, width):
    out, n = bytearray(len(data)), len(data) // width
    for b in range(width):
        total, plane = 0, bytearray(n)
        for i, x in enumerate(data[b * n:(b + 1) * n]):
            total = total + x & 255
            plane[i] = total
        out[b::width] = plane
    return bytes(out)


def checksums(data):
    """One checksum per CHUNK bytes: of those of its 16 parts."""
    parts = b"".join(zlib.crc32(data[i:i + CHUNK // 16]).to_bytes(4, "little") for i in range(0, len(data), CHUNK // 16))
    return b"".join(zlib.crc32(parts[i:i + 64]).to_bytes(4, "little") for i in range(0, len(parts), 64))


def keep(segment, data):
    """What is stored of a result."""
    return checksums(data) if segment.keep == "crc" else planes(data, segment.width)


def write(path, machine, cases, results):
    """results: case name -> list of bytes as kept, or a text that says why there are none."""
    head, payload, errors = [], [], {}
    for case in cases:
        result = results.get(case.name)
        if isinstance(result, str) and result.startswith("cu"):
            errors[case.name] = result
        if isinstance(result, str) or result is None:
            continue
        for segment, data in zip(case.segments, result):
            head.append([case.name, segment.label, segment.keep, segment.width, len(data)])
            payload.append(data)
    text = json.dumps({"machine": machine, "errors": errors, "results": head}, separators=(",", ":")).encode()
    path.write_bytes(lzma.compress(len(text).to_bytes(8, "little") + text + b"".join(payload), preset=9 | lzma.PRESET_EXTREME))


def read(path):
    """(machine, {(case, label): (keep, width, bytes)}, {case: error on the GPU}), the bytes still in planes."""
    data = lzma.decompress(path.read_bytes())
    at = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:at])
    results = {}
    for case, label, how, width, n in head["results"]:
        results[case, label] = (how, width, data[at:at + n])
        at += n
    return head["machine"], results, head.get("errors", {})
