#!/usr/bin/env python3
"""The reference against ONNX's own: oracle.py GRAPH-TOOL. Skipped (exit 77) where the Python package onnx is missing.

Each case is one node on four elements or fewer, written as constants of an op description."""
import json
import subprocess
import sys

try:
    import numpy as np
    import onnx.reference
    from onnx import TensorProto, helper
except ImportError:
    print("the Python package onnx is not installed")
    sys.exit(77)

TYPES = {"f64": (TensorProto.DOUBLE, np.float64), "f32": (TensorProto.FLOAT, np.float32),
         "f16": (TensorProto.FLOAT16, np.float16), "s32": (TensorProto.INT32, np.int32), "s8": (TensorProto.INT8, np.int8),
         "u8": (TensorProto.UINT8, np.uint8), "s64": (TensorProto.INT64, np.int64), "bool": (TensorProto.BOOL, np.bool_)}
MIXED, POSITIVE = [-2.5, -0.4, 0.0, 0.7], [0.3, 1.0, 2.5, 4.0]
UNIT, ABOVE_1, ROWS = [-0.9, -0.3, 0.2, 0.8], [1.0, 1.5, 2.0, 7.0], [0.1, 2, -1, 3]


def cases():
    """(operator, [(type, data, shape) or None], attributes)"""
    for op in ("Neg Abs Sign Exp Floor Ceil Round Sin Cos Tan Atan Sinh Cosh Tanh Asinh Erf Identity Relu LeakyRelu "
               "ThresholdedRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Mish Softplus Softsign Gelu Shrink IsNaN "
               "IsInf").split():
        yield op, [("f64", MIXED, [4])], {}
    for op in ("Sqrt", "Log", "Reciprocal"):
        yield op, [("f64", POSITIVE, [4])], {}
    for op in ("Asin", "Acos", "Atanh"):
        yield op, [("f64", UNIT, [4])], {}
    yield "Acosh", [("f64", ABOVE_1, [4])], {}
    yield "Gelu", [("f64", MIXED, [4])], {"approximate": "tanh"}
    yield "Swish", [("f64", MIXED, [4])], {"alpha": 1.5}
    yield "Shrink", [("f64", MIXED, [4])], {"bias": 0.25, "lambd": 0.3}
    yield "Elu", [("f64", MIXED, [4])], {"alpha": 2.0}
    yield "Celu", [("f32", MIXED, [4])], {"alpha": 2.0}
    yield "Selu", [("f64", MIXED, [4])], {"alpha": 2.0, "gamma": 3.0}
    for op in ("Add Sub Mul Div Pow Min Max Sum Mean Less LessOrEqual Greater GreaterOrEqual Equal").split():
        yield op, [("f64", POSITIVE, [2, 2]), ("f64", [0.5, 2.5], [2])], {}
    for op in "Add Sub Mul Div Min Max Less Greater Equal BitwiseAnd BitwiseOr BitwiseXor".split():
        yield op, [("s32", [-7, 3, 2147483647, 5], [2, 2]), ("s32", [3, -2], [2])], {}
    for fmod in (0, 1):
        yield "Mod", [("s32", [-7, 7, -7, 7], [4]), ("s32", [3, -3, -3, 3], [4])], {"fmod": fmod}
    yield "Mod", [("f32", [-7.5, 7.5, -7, 7], [4]), ("f32", [3, -3, -3, 3], [4])], {"fmod": 1}
    yield "Pow", [("s32", [2, -3, 5, 1], [4]), ("s32", [5, 3, 0, 9], [4])], {}
    for op in ("And", "Or", "Xor"):
        yield op, [("bool", [True, False, True, False], [4]), ("bool", [True, True, False, False], [4])], {}
    yield "Not", [("bool", [True, False], [2])], {}
    yield "BitwiseNot", [("s32", [5, -5], [2])], {}
    for direction in ("LEFT", "RIGHT"):
        yield "BitShift", [("u8", [200, 3, 255, 16], [4]), ("u8", [1, 2, 3, 4], [4])], {"direction": direction}
    yield "Where", [("bool", [True, False], [2, 1]), ("f64", [1, 2], [2]), ("f64", [3, 4], [1, 2])], {}
    yield "Clip", [("f64", MIXED, [4]), ("f64", [-1], []), ("f64", [0.5], [])], {}
    yield "Clip", [("s32", [-5, 0, 3, 9], [4]), None, ("s32", [4], [])], {}
    yield "PRelu", [("f64", MIXED, [2, 2]), ("f64", [0.1, 0.2], [2])], {}
    for to in ("s32", "bool", "f16"):
        yield "Cast", [("f32", [-2.7, 0.0, 1.5, 3.14159], [4])], {"to": to}
    for to in ("s8", "f32"):
        yield "Cast", [("s32", [-2, 300, 1, 0], [4])], {"to": to}
    yield from row_cases()
    yield from product_cases()
    yield from quantized_cases()


def row_cases():
    for op in ("Softmax", "LogSoftmax"):
        for axis in (0, 1, -1):
            yield op, [("f64", ROWS, [2, 2])], {"axis": axis}
    yield "LayerNormalization", [("f32", ROWS, [2, 2]), ("f32", [2, 3], [2]), ("f32", [1, -1], [2])], {"epsilon": 0.1}
    yield "LayerNormalization", [("f32", ROWS, [2, 2]), ("f32", [2], [1])], {"axis": 0}
    yield "RMSNormalization", [("f32", ROWS, [2, 2]), ("f32", [2, 3], [2])], {"epsilon": 0.1}
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"):
        for axes in ([-1], [0], [0, 1]):
            for keepdims in (0, 1):
                yield op, [("f64", ROWS, [2, 2]), ("s64", axes, [len(axes)])], {"keepdims": keepdims}
        yield op, [("f64", ROWS, [2, 2])], {}
        yield op, [("f64", ROWS, [2, 2])], {"noop_with_empty_axes": 1}


def quantized_cases():
    wide = [-300.0, -2.5, 1.25, 127.6]
    yield "QuantizeLinear", [("f32", wide, [4]), ("f32", [0.5], [])], {}
    yield "QuantizeLinear", [("f32", wide, [4]), ("f32", [0.5], []), ("s8", [3], [])], {}
    yield "QuantizeLinear", [("f32", wide, [2, 2]), ("f32", [0.5, 2.0], [2]), ("u8", [3, 200], [2])], {"axis": 0}
    yield "QuantizeLinear", [("f32", wide, [2, 2]), ("f32", [0.5, 2.0], [2]), ("u8", [3, 200], [2])], {"axis": -1}
    yield "DequantizeLinear", [("s8", [-128, -2, 7, 127], [4]), ("f32", [0.3], [])], {}
    yield "DequantizeLinear", [("u8", [0, 2, 7, 255], [2, 2]), ("f32", [0.3, 4], [2]), ("u8", [128, 1], [2])], {"axis": 0}
    yield "DequantizeLinear", [("u8", [0, 2, 7, 255], [2, 2]), ("f16", [0.5, 4], [2]), ("u8", [128, 1], [2])], {"axis": 1}
    yield "DequantizeLinear", [("s32", [-70000, 2, 7, 255], [4]), ("f32", [0.3], [])], {}


def product_cases():
    yield "MatMul", [("f64", ROWS, [2, 2]), ("f64", POSITIVE, [2, 2])], {}
    yield "MatMul", [("f64", ROWS, [4]), ("f64", POSITIVE, [4])], {}
    yield "MatMul", [("f64", ROWS, [2, 1, 2]), ("f64", POSITIVE, [2, 2, 1])], {}
    yield "MatMul", [("f64", ROWS, [2, 1, 2]), ("f64", POSITIVE[:2], [2])], {}
    yield "MatMulInteger", [("s8", [1, -2, 3, 4], [2, 2]), ("s8", [5, 6, -7, 8], [2, 2])], {}
    yield "MatMulInteger", [("u8", [1, 2, 3, 4], [2, 2]), ("s8", [5, 6, -7, 8], [2, 2]), ("u8", [2], []),
                            ("s8", [1], [])], {}
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            yield "Gemm", [("f64", ROWS, [2, 2]), ("f64", POSITIVE, [2, 2]), ("f64", [1, 2], [2])], {
                "transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": 2.0}


def ours(tool, op, inputs, attributes):
    """(shape, elements)"""
    names = [f"c{i}" if x else "" for i, x in enumerate(inputs)]
    graph = {"constants": {name: {"type": x[0], "shape": x[2], "data": x[1] if x[2] else x[1][0]}
                           for name, x in zip(names, inputs) if x},
             "nodes": [{"op": op, "inputs": names, "outputs": ["y"], "attributes": attributes}], "outputs": ["y"]}
    done = subprocess.run([tool, "evaluate", "-"], input=json.dumps(graph), capture_output=True, text=True, check=True)
    head, elements = done.stdout.split(" first")
    shape = [int(word) for word in head.split(" sum")[0].split()[2:] if word != "x"]
    return shape, [float(word) for word in elements.split()]


def theirs(op, inputs, attributes):
    names = [f"c{i}" if x else "" for i, x in enumerate(inputs)]
    given = [(name, x) for name, x in zip(names, inputs) if x]
    converted = {key: TYPES[value][0] if key == "to" else value for key, value in attributes.items()}
    node = helper.make_node(op, names, ["y"], **converted)
    infos = [helper.make_tensor_value_info(name, TYPES[x[0]][0], x[2]) for name, x in given]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    feeds = {name: np.array(x[1], dtype=TYPES[x[0]][1]).reshape(x[2]) for name, x in given}
    return np.asarray(onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0])


def main():
    total = failed = 0
    for op, inputs, attributes in cases():
        shape, elements = ours(sys.argv[1], op, inputs, attributes)
        want = theirs(op, inputs, attributes)
        total += 1
        if shape != list(want.shape) or not np.allclose(want.astype(np.float64).ravel()[:4], elements, rtol=1e-5,
                                                        atol=1e-6, equal_nan=True):
            print(f"{op} {attributes}: {want.ravel()} {want.shape}, but we say {elements} {shape}")
            failed += 1
    print(f"{total} cases, {failed} differ")
    return 1 if failed else 0


sys.exit(main())
