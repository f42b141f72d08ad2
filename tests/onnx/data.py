#!/usr/bin/env python3
"""`adlgen run --data`: data.py ADLGEN. Models with what ONNX keeps beside them, inputs and outputs as .pb files."""
import pathlib
import subprocess
import sys
import tempfile

import encode
from encode import data, integer

F32 = "f32"


def graph(nodes, inputs, outputs=("y",), **more):
    return {"name": "t", "inputs": inputs, "nodes": nodes, "outputs": list(outputs), **more}


def spec(kind, shape, values):
    return {"type": kind, "shape": shape, "data": values}


def with_former_opset(content):
    """Opset 6, which ends the file."""
    return content[:content.rindex(data(8, integer(2, encode.OPSET)))] + data(8, integer(2, 6))


RESHAPE = graph([{"op": "Reshape", "inputs": ["x", "s"], "outputs": ["r"]}, {"op": "Neg", "inputs": ["r"], "outputs": ["y"]}],
                {"x": {"type": F32, "shape": [2, 3]}, "s": {"type": "s64", "shape": [2]}})
POSITIONS = graph([{"op": "Size", "inputs": ["past"], "outputs": ["p"]}, {"op": "Size", "inputs": ["x"], "outputs": ["s"]},
                   {"op": "Add", "inputs": ["p", "s"], "outputs": ["t"]},
                   {"op": "Range", "inputs": ["p", "t", "one"], "outputs": ["place"]},
                   {"op": "Mul", "inputs": ["place", "t"], "outputs": ["y"]}],
                  {"past": {"type": F32, "shape": ["P"]}, "x": {"type": F32, "shape": ["S"]}},
                  constants={"one": {"type": "s64", "shape": [], "data": 1}})
NUMBERS = [1.0, -2.0, 3.0, 4.5, 0.0, -6.0]
SHAPE = spec("s64", [2], [3, 2])
SYMBOLIC = graph([{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}], {"x": {"type": F32, "shape": ["M", 3]}})
RELU = spec(F32, [2, 3], [1.0, 0.0, 3.0, 4.5, 0.0, 0.0])
X = spec(F32, [2, 3], NUMBERS)
CHANNELS = graph([{"op": "Add", "inputs": ["x", "b"], "outputs": ["y"], "attributes": {"axis": 0, "broadcast": 1}}],
                 {"x": {"type": F32, "shape": [2, 3]}, "b": {"type": F32, "shape": [2]}})
KNOWN = graph([{"op": "Shape", "inputs": ["x"], "outputs": ["y"]}], {"x": {"type": F32, "shape": [2, 3]}}, ["y", "x"])
SEQUENCE = encode.model(data(1, encode.node({"op": "Relu", "inputs": ["x"], "outputs": ["y"]})) + data(2, "t") + data(
    11, data(1, "x") + data(2, data(4, b""))) + data(12, data(1, "y")))

FULL = encode.encode(graph([{"op": "ConstantOfShape", "inputs": ["s"], "outputs": ["c"],
                             "attributes": {"value": encode.tensor("", spec("s32", [1], [7]))}},
                            {"op": "BitShift", "inputs": ["c", "b"], "outputs": ["y"], "attributes": {"direction": "RIGHT"}}],
                           {"s": {"type": "s64", "shape": [2]}, "b": {"type": "s32", "shape": [2]}}))


def one(op, inputs, **attributes):
    """A model of one node; inputs by name, as they are in the data."""
    return encode.encode(graph([{"op": op, "inputs": list(inputs), "outputs": ["y"], "attributes": attributes}],
                               {name: {"type": value["type"], "shape": value["shape"]} for name, value in inputs.items()}))


def case(op, inputs, output, **attributes):
    return op, one(op, inputs, **attributes), list(inputs.values()), [output], [], 0, "ok"


def scalar(kind, value):
    return spec(kind, [], [value])


HANN = [0.0, 0.25, 0.75, 1.0, 0.75, 0.25]
LARGE = (1 << 40) + 1

CASES = (
    case("Range", {"a": scalar("s64", 5), "b": scalar("s64", -4), "c": scalar("s64", -3)}, spec("s64", [3], [5, 2, -1])),
    case("Range", {"a": scalar(F32, 1.0), "b": scalar(F32, 2.1), "c": scalar(F32, 0.5)}, spec(F32, [3], [1.0, 1.5, 2.0])),
    case("HannWindow", {"n": scalar("s32", 6)}, spec(F32, [6], HANN)),
    case("CenterCropPad", {"x": X, "s": spec("s64", [2], [4, 1])}, spec(F32, [4, 1], [0.0, -2.0, 0.0, 0.0])),
    case("Compress", {"x": X, "c": spec("bool", [2], [False, True])}, spec(F32, [1, 3], NUMBERS[3:]), axis=0),
    case("Mod", {"a": spec(F32, [3], [-5.5, 5.5, -0.0]), "b": spec(F32, [3], [2.0, -2.0, 3.0])},
         spec(F32, [3], [0.5, -0.5, 0.0])),
    case("BitShift", {"a": spec("s8", [4], [-128, 64, -1, 5]), "b": spec("s8", [4], [3, 9, 100, -1])},
         spec("s8", [4], [-16, 0, -1, 0]), direction="RIGHT"),
    case("Add", {"a": spec("s64", [2], [LARGE, -LARGE]), "b": spec("s64", [2], [LARGE, 1])},
         spec("s64", [2], [2 * LARGE, 1 - LARGE])),
    case("Cast", {"x": spec("u4", [5], [0, 7, 8, 15, 3])}, spec(F32, [5], [0.0, 7.0, 8.0, 15.0, 3.0]), to=F32),
    case("Cast", {"x": spec("s4", [3], [-8, 7, -1])}, spec("s32", [3], [-8, 7, -1]), to="s32"),
    case("Cast", {"x": spec("e2m1", [16], list(range(16)))},
         spec(F32, [16], [sign * v for sign in (1.0, -1.0) for v in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)]), to=F32),
    case("Cast", {"x": spec("e8m0", [4], [0, 127, 130, 254])}, spec(F32, [4], [2.0 ** -127, 1.0, 8.0, 2.0 ** 127]), to=F32),
    case("DequantizeLinear", {"x": spec("s4", [2, 3], [-8, 7, 1, 2, -3, 4]), "s": spec(F32, [2], [0.5, 2.0]), "z": spec("s4", [2], [-1, 2])},
         spec(F32, [2, 3], [-3.5, 4.0, 1.0, 0.0, -10.0, 4.0]), axis=0),
    ("DequantizeLinear of weights in the model", encode.encode(graph(
        [{"op": "DequantizeLinear", "inputs": ["w", "s"], "outputs": ["b"], "attributes": {"axis": 1, "block_size": 16}},
         {"op": "MatMul", "inputs": ["x", "b"], "outputs": ["y"]}], {"x": {"type": F32, "shape": [1, 2]}},
        constants={"w": spec("u4", [2, 16], list(range(16)) + list(range(15, -1, -1))), "s": spec(F32, [2, 1], [0.5, 2.0])})),
     [spec(F32, [1, 2], [2.0, 1.0])], [spec(F32, [1, 16], [i + 2.0 * (15 - i) for i in range(16)])], [], 0, "ok"),
    case("Trilu", {"x": spec("s64", [2, 2], [LARGE, 2, 3, 4])}, spec("s64", [2, 2], [LARGE, 2, 0, 4])),
    case("QLinearMatMul", {"a": spec("u8", [1, 2], [10, 20]), "as": scalar(F32, 0.5), "az": scalar("u8", 4),
                           "b": spec("u8", [2, 1], [3, 7]), "bs": scalar(F32, 0.25), "bz": scalar("u8", 1),
                           "ys": scalar(F32, 2.0), "yz": scalar("u8", 100)}, spec("u8", [1, 1], [107])),
    ("ConstantOfShape", FULL, [spec("s64", [2], [3, 2]), spec("s32", [2], [1, 2])],
     [spec("s32", [3, 2], [3, 1, 3, 1, 3, 1])], [], 0, "ok"),
    # name, model, inputs, outputs, options, exit status, what is printed
    ("a shape is what an input holds", encode.encode(RESHAPE), [X, SHAPE],
     [spec(F32, [3, 2], [-v for v in NUMBERS])], [], 0, "y       f32   0.00e+00  0.00e+00  ok"),
    ("a value is off", encode.encode(RESHAPE), [X, SHAPE], [spec(F32, [3, 2], [-1.0, 2.0, -3.0, -4.6, 0.0, 6.0])], [], 5,
     "y: 1 of 6 elements are off; element 3 is -4.5, wanted -4.5999999"),
    ("and it may be", encode.encode(RESHAPE), [X, SHAPE], [spec(F32, [3, 2], [-1.0, 2.0, -3.0, -4.6, 0.0, 6.0])],
     ["--rtol", "0.1"], 0, "ok"),
    ("of another shape", encode.encode(RESHAPE), [X, SHAPE], [spec(F32, [2, 3], NUMBERS)], [], 5,
     "y: of another shape than output_0.pb, f32[2, 3]"),
    ("symbols are those of the data", encode.encode(SYMBOLIC), [X], [RELU], [], 0, "ok"),
    ("kernels know what symbols say", encode.encode(POSITIONS), [spec(F32, [2], [0.0, 0.0]), spec(F32, [3], [0.0, 0.0, 0.0])],
     [spec("s64", [3], [10, 15, 20])], [], 0, "ok"),
    ("on the reference", encode.encode(SYMBOLIC), [X], [RELU], ["--on", "reference"], 0, "ok"),
    ("opset 6 broadcasts by attributes", with_former_opset(encode.encode(CHANNELS)), [X, spec(F32, [2], [1.0, 2.0])],
     [spec(F32, [2, 3], [2.0, -1.0, 4.0, 6.5, 2.0, -4.0])], [], 0, "ok"),
    ("what is known, and an input, are outputs", encode.encode(KNOWN), [X], [spec("s64", [2], [2, 3]), X], [], 0,
     "x.output  f32   0.00e+00  0.00e+00  ok"),
    ("too few inputs", encode.encode(RESHAPE), [X], [RELU], ["--on", "reference"], 3, "shapes that are not a constant"),
    ("no data", encode.encode(SYMBOLIC), [X], [], [], 1, "there is no output_0.pb"),
    ("a sequence", SEQUENCE, [X], [b"\x12\x34"], [], 3, "input `x` is a sequence, which is not supported"),
)


def main():
    failed = []
    for name, model, inputs, outputs, options, status, part in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "model.onnx").write_bytes(model)
            for what, tensors in (("input", inputs), ("output", outputs)):
                for i, tensor in enumerate(tensors):
                    content = tensor if isinstance(tensor, bytes) else encode.tensor("", tensor)
                    (folder / f"{what}_{i}.pb").write_bytes(content)
            place = [] if "--on" in options else ["--on", "sim", "--gpu", "h100"]
            done = subprocess.run([sys.argv[1], "run", folder / "model.onnx", "--data", folder, *place, *options],
                                  capture_output=True, text=True, check=False)
            if done.returncode != status or part not in done.stdout + done.stderr:
                failed.append(name)
                print(f"FAILED {name}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"{len(CASES) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
