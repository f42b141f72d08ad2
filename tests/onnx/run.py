#!/usr/bin/env python3
"""Models in ONNX's own format: run.py GRAPH-TOOL [NAME...]

Descriptions written as .onnx give the graphs that the descriptions give. What only .onnx files have (functions, Constant
nodes, data in several fields or beside the model, extents without names) gives the graph of an equal description. Wrong
and damaged files are refused with the messages that stand here, never with a crash."""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import encode
from encode import data, integer

ROOT = pathlib.Path(__file__).resolve().parents[2]
X = {"x": {"type": "f32", "shape": ["M", 4]}}
RELU = {"op": "Relu", "inputs": ["x"], "outputs": ["y"]}
WORSE = (70, 134, 139)  # an internal error, or a signal


def graph(nodes, inputs=None, outputs=("y",), **more):
    return {"name": "t", "inputs": inputs or X, "nodes": nodes, "outputs": list(outputs), **more}


def add(constant, **spec):
    return graph([{"op": "Add", "inputs": ["x", "c"], "outputs": ["y"]}], constants={constant: spec})


def constant_node(**attributes):
    return graph([{"op": "Constant", "inputs": [], "outputs": ["c"], "attributes": attributes},
                  {"op": "Add", "inputs": ["x", "c"], "outputs": ["y"]}])


def with_initializer(body):
    return encode.encode(graph([{"op": "Add", "inputs": ["x", "c"], "outputs": ["y"]}]), extra=data(5, body))


def external(location, offset=None, length=None):
    entries = [("location", location), ("offset", offset), ("length", length)]
    body = integer(1, 4) + integer(2, 1) + data(8, "c") + integer(14, 1)
    return with_initializer(body + b"".join(data(13, data(1, k) + data(2, str(v))) for k, v in entries if v is not None))


def function(name, inputs, outputs, nodes, attributes=(), opset=encode.OPSET):
    out = data(1, name) + data(10, "mine") + data(9, integer(2, opset))
    out += b"".join(data(4, i) for i in inputs) + b"".join(data(5, o) for o in outputs)
    out += b"".join(data(6, a) for a in attributes)
    return out + b"".join(data(7, n if isinstance(n, bytes) else encode.node(n)) for n in nodes)


def leaky(alpha):
    """LeakyRelu whose alpha is the function's attribute `slope`."""
    node = encode.node({"op": "LeakyRelu", "inputs": ["a"], "outputs": ["t"]})
    return node + data(5, data(1, "alpha") + data(21, "slope") + integer(20, 1)) + alpha


FUNCTION = function("Twice", ["a"], ["b"], [leaky(b""), {"op": "Add", "inputs": ["t", "t"], "outputs": ["b"]}], ["slope"])
CALL = {"op": "Twice", "domain": "mine", "name": "n", "inputs": ["x"], "outputs": ["y"], "attributes": {"slope": 0.25}}
FOUR = [1.5, -2.0, 3.0, 0.25]


def as_float(value):
    """As a file holds it: in 32 bits."""
    return struct.unpack("<f", struct.pack("<f", value))[0] if isinstance(value, float) else value


def scan(inner=()):
    """A Scan whose body reads what stands around it, with a constant of its own and whatever else."""
    body = {"inputs": ["s", "e"], "outputs": ["n", "n"], "constants": {"k": {"type": "f32", "shape": [4], "data": FOUR}},
            "nodes": [{"op": "Mul", "inputs": ["s", "k"], "outputs": ["p"]}, {"op": "Add", "inputs": ["p", "e"], "outputs": ["n"]}, *inner]}
    return graph([{"op": "Scan", "name": "loop", "inputs": ["first", "x"], "outputs": ["last", "y"], "attributes": {"num_scan_inputs": 1, "body": body}}],
                 {"first": {"type": "f32", "shape": [4]}, **X}, ["last", "y"])


def choice(then, otherwise):
    nodes = {"then_branch": {"nodes": then, "outputs": ["t"]}, "else_branch": {"nodes": otherwise, "outputs": ["t"]}}
    return graph([{"op": "If", "name": "if", "inputs": ["c"], "outputs": ["y"], "attributes": nodes}], {"c": {"type": "bool", "shape": []}, **X})


def declared_as(spec):
    return encode.encode(graph([RELU], outputs=[]), extra=data(12, encode.value_info("y", spec)))


def chooser(name, times):
    """A function of a condition, whose attribute `g` is a graph, that has it in so many branches; the others give -a."""
    nodes = []
    for i in range(times):
        out = "b" if i + 1 == times else f"b{i}"
        other = data(1, "else_branch") + data(6, encode.body({"nodes": [{"op": "Neg", "inputs": ["a"], "outputs": ["u"]}], "outputs": ["u"]})) + integer(20, 5)
        node = encode.node({"op": "If", "name": f"if{i}", "inputs": ["k"], "outputs": [out]})
        nodes.append(node + data(5, data(1, "then_branch") + data(21, "g") + integer(20, 5)) + data(5, other))
    return function(name, ["k", "a"], ["b"], nodes, ["g"])


def chosen(deep, times):
    """A model whose functions give one another graphs that call the next one."""
    result = {"op": "Relu", "inputs": ["x"], "outputs": ["t0"]}
    for i in range(deep):
        inner = {"nodes": [result], "outputs": result["outputs"]}
        result = {"op": f"F{i}", "domain": "mine", "name": "n", "inputs": ["c", "x"], "outputs": [f"t{i + 1}"], "attributes": {"g": inner}}
    result["outputs"] = ["y"]
    return encode.encode(graph([result], {"c": {"type": "bool", "shape": []}, **X}), [chooser(f"F{i}", times) for i in range(deep)])


def callers(n, times):
    """Functions that each call the next one so often."""
    names = ["a", "t", "b"] if times == 2 else ["a", "b"]
    nodes = lambda i: [{"op": f"F{i + 1}", "domain": "mine", "inputs": [x], "outputs": [y]} for x, y in zip(names, names[1:])]
    return [function(f"F{i}", ["a"], ["b"], nodes(i)) for i in range(n)]


def equal_cases():
    """(name, bytes of the .onnx, the description that gives the same)"""
    for path in sorted([*ROOT.glob("examples/*.json"), *ROOT.glob("tests/generator/*.json")]):
        text = json.loads(path.read_text())
        text.pop("dims", None)
        for node in text["nodes"]:
            node["attributes"] = {k: as_float(v) for k, v in node.get("attributes", {}).items()}
        plain = all(not {"strides", "align"} & set(spec) for spec in text["inputs"].values())
        if plain and all("data" in spec for spec in text.get("constants", {}).values()):
            yield path.stem, encode.encode(text), text
    f32 = {"type": "f32", "shape": [4], "data": FOUR}
    want = add("c", **f32)
    floats = b"".join(struct.pack("<f", v) for v in FOUR)
    head = integer(1, 4) + integer(2, 1) + data(8, "c")
    yield "raw data", encode.encode(want), want
    yield "float_data, packed", with_initializer(head + data(4, floats)), want
    yield "float_data, one by one", with_initializer(head + b"".join(encode.single(4, v) for v in FOUR)), want
    yield "packed dims", with_initializer(data(1, encode.varint(4)) + integer(2, 1) + data(8, "c") + data(9, floats)), want
    bits = [struct.unpack("<I", struct.pack("<f", v))[0] >> 16 for v in FOUR]
    bf16 = graph(want["nodes"], {"x": {"type": "bf16", "shape": ["M", 4]}},
                 constants={"c": {"type": "bf16", "shape": [4], "data": FOUR}})
    body = integer(1, 4) + integer(2, 16) + data(8, "c") + data(5, b"".join(encode.varint(b) for b in bits))
    yield "bf16 in int32_data", encode.encode({**bf16, "constants": {}}, extra=data(5, body)), bf16
    yield "Constant, a tensor", encode.encode(constant_node(value=encode.tensor("", f32))), want
    yield "Constant, floats", encode.encode(constant_node(value_floats=FOUR)), want
    yield "Constant, a float", encode.encode(constant_node(value_float=1.5)), add("c", type="f32", shape=[], data=1.5)
    yield "data beside the model", external("weights.bin", 8, 16), want
    yield "an initializer that is also an input", encode.encode(want, extra=data(11, encode.value_info("c", f32))), want
    twice = graph([{"op": "LeakyRelu", "inputs": ["x"], "outputs": ["n.1/t"], "attributes": {"alpha": 0.25}},
                   {"op": "Add", "inputs": ["n.1/t", "n.1/t"], "outputs": ["y"]}])
    yield "a function", encode.encode(graph([CALL]), [FUNCTION]), twice
    yield "functions that would be 2^40 nodes, and that nobody calls", encode.encode(graph([RELU]), callers(40, 2)), graph([RELU])
    identity = {"op": "Identity", "inputs": ["x"], "outputs": ["x.output"]}
    yield "an input that is the output, without nodes", encode.encode(graph([], outputs=["x"])), graph([identity], outputs=["x.output"])
    again = [RELU, {**identity, "outputs": ["x.output2"]}, {**identity, "inputs": ["y"], "outputs": ["y.output"]}]
    taken = {**X, "x.output": X["x"]}
    yield "outputs that are named twice, and names that are taken", encode.encode(graph([RELU], taken, ["y", "x", "y"])), graph(again, taken, ["y", "x.output2", "y.output"])
    for declared in ({"type": "f32", "shape": ["N", 4]}, {"type": "f32", "shape": [7, -1]}):
        yield f"an output as {declared['shape']}", declared_as(declared), graph([RELU])
    yield "Scan", encode.encode(scan()), scan()
    branches = choice([{**RELU, "outputs": ["t"]}], [{"op": "Neg", "inputs": ["x"], "outputs": ["t"]}])
    yield "If", encode.encode(branches), branches
    given = {"then_branch": {"nodes": [{**RELU, "outputs": ["t0"]}], "outputs": ["t0"]},
             "else_branch": {"nodes": [{"op": "Neg", "inputs": ["x"], "outputs": ["n.1/u"]}], "outputs": ["n.1/u"]}}
    yield "a graph that a function is given, of its caller's tensors", chosen(1, 1), graph(
        [{"op": "If", "name": "if0", "inputs": ["c"], "outputs": ["y"], "attributes": given}], {"c": {"type": "bool", "shape": []}, **X})
    named = {"x": {"type": "f32", "shape": ["batch size", "2*past + 1"]}}
    yield "names that are none", encode.encode(graph([RELU], named)), graph(
        [RELU], {"x": {"type": "f32", "shape": ["batch_size", "2*past + 1"]}}, dims={"past": {}})
    open_shape = data(1, "x") + data(2, data(1, integer(1, 1) + data(2, data(1, b"") + data(1, integer(1, 4)))))
    body = data(1, encode.node(RELU)) + data(2, "t") + data(11, open_shape) + data(12, data(1, "y"))
    yield "an extent without a name", encode.model(body), graph([RELU], {"x": {"type": "f32", "shape": ["x_0", 4]}})


def wrong_cases():
    """(name, bytes, exit status, what the messages hold)"""
    relu = encode.encode(graph([{**RELU, "name": "n0"}]))
    yield "no graph's end", relu[:-3], 1, ["byte 61", "ends too early"]
    yield "an operator of no one", encode.encode(graph([{**RELU, "op": "Rely", "name": "n0"}])), 1, [
        "unknown operator `Rely`", "in node `n0` (Rely)"]
    yield "an operator that we lack", encode.encode(graph([
        {**RELU, "op": "NonMaxSuppression", "name": "n0", "inputs": ["x", "x"]}])), 3, [
        "`NonMaxSuppression` is not supported"]
    yield "an attribute of another type", encode.encode(graph([{
        "op": "LeakyRelu", "name": "n0", "inputs": ["x"], "outputs": ["y"], "attributes": {"alpha": "big"}}])), 1, [
            "a number is expected here; this is a text", "in attribute `alpha` of node `n0` (LeakyRelu)"]
    yield "a tensor of strings", with_initializer(integer(1, 4) + integer(2, 8) + data(8, "c") + data(6, "a")), 1, [
        "type string (ONNX's number 8) is not supported", "in tensor `c`"]
    yield "too few bytes", with_initializer(integer(1, 4) + integer(2, 1) + data(8, "c") + data(9, b"\0" * 12)), 1, [
        "12 bytes for constant `c`, which has 4 elements of 32 bits"]
    yield "a negative extent", with_initializer(integer(1, -4) + integer(2, 1) + data(8, "c") + data(9, b"")), 1, [
        "an extent of -4 is not supported"]
    yield "data outside of the folder", external("../weights.bin", 0, 16), 1, ["leads out of the model's folder"]
    yield "data at an absolute path", external("/etc/passwd", 0, 16), 1, ["is no path within the model's folder"]
    yield "data behind a link", external("link.bin", 0, 16), 1, ["`link.bin`: is no plain file"]
    other = encode.encode(add("c", type="f32", shape=[4], data=FOUR), extra=data(11, encode.value_info("c", {"type": "f32", "shape": [5]})))
    yield "an initializer of another shape than its input", other, 1, ["input `c` and the initializer of its name differ in type or shape"]
    yield "data behind a link to a folder", external("linked/weights.bin", 0, 16), 1, ["`linked/weights.bin`: leads through what is no plain folder"]
    yield "data that end too early", external("weights.bin", 16, 16), 1, ["16 bytes at 16 of `weights.bin`, which has 24"]
    yield "data that are missing", external("none.bin", 0, 16), 1, ["`none.bin`: No such file"]
    itself = function("F", ["a"], ["b"], [{"op": "F", "domain": "mine", "inputs": ["a"], "outputs": ["b"]}])
    call = {**CALL, "op": "F", "attributes": {}}
    yield "a function that calls itself", encode.encode(graph([call]), [itself]), 1, ["function `F` calls itself"]
    old = function("F", ["a"], ["b"], [{"op": "Relu", "inputs": ["a"], "outputs": ["b"]}], opset=13)
    yield "a function of another opset", encode.encode(graph([call]), [old]), 3, ["is of opset 13, the graph of 27"]
    for kind, extents, text in (("f32", ["M", 5], "f32 [?, 5]"), ("s64", ["M", 4], "s64 [?, 4]"), ("f32", [], "f32 []"), ("f32", ["M", 4, 1], "f32 [?, 4, 1]")):
        yield f"an output declared as {text}", declared_as({"type": kind, "shape": extents}), 1, [f"output `y` is declared as {text}, and is f32 [M, 4]", "in value `y`"]
    sequence = data(1, "y") + data(2, data(4, data(1, data(1, integer(1, 1)))))
    yield "an output declared as a sequence", encode.encode(graph([RELU], outputs=[]), extra=data(12, sequence)), 1, ["`y` is declared as a sequence, and is f32"]
    yield "functions that double", encode.encode(graph([{**call, "op": "F0"}]), callers(40, 2)), 3, ["more than 1048576 nodes, with those of its functions at every call"]
    yield "graphs that functions double", chosen(8, 8), 3, ["more than 1048576 nodes, with those of its functions at every call"]
    yield "functions in a long chain", encode.encode(graph([{**call, "op": "F0"}]), callers(5000, 1)), 3, ["functions within functions, 32 deep, are not supported"]
    deep = b""
    for _ in range(80):
        deep = data(1, encode.node({"op": "If", "inputs": ["x"], "outputs": ["y"]}) + data(5, data(1, "then_branch") + data(6, deep)))
    yield "subgraphs that are too deep", encode.model(deep + data(12, data(1, "y"))), 1, ["messages within messages are too deep"]
    yield "a body that reads what is not there", encode.encode(scan([{"op": "Relu", "name": "n0", "inputs": ["z"], "outputs": ["q"]}])), 1, [
        "tensor `z` is not defined", "in node `n0` (Relu) of attribute `body` of node `loop` (Scan)"]
    yield "an operator that we lack in a branch", encode.encode(choice([{"op": "NonMaxSuppression", "inputs": ["x", "x"], "outputs": ["t"]}], [{**RELU, "outputs": ["t"]}])), 3, [
        "`NonMaxSuppression` is not supported", "in a node (NonMaxSuppression) of attribute `then_branch` of node `if` (If)"]
    yield "a text that is none", encode.model(data(1, data(4, b"\xff\xfe")) + data(12, data(1, "y"))), 1, ["not a text in UTF-8"]


def damaged(count):
    """Copies of a model that are cut, or have other bytes."""
    whole = encode.encode(graph([CALL], constants={"c": {"type": "f32", "shape": [4], "data": FOUR}}), [FUNCTION])
    draw = random.Random(7)
    for i in range(count):
        copy = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            copy[draw.randrange(len(copy))] = draw.randrange(256)
        yield f"damaged {i}", bytes(copy[:draw.randint(1, len(copy))] if i % 3 == 0 else copy)


def main():
    tool, wanted = sys.argv[1], sys.argv[2:]
    passed, failed = 0, []

    def show(folder, name, content):
        path = pathlib.Path(folder) / name
        path.write_bytes(content)
        return subprocess.run([tool, "graph", path], capture_output=True, text=True, check=False, errors="replace")

    def judge(name, ok, text):
        nonlocal passed
        passed += ok
        if not ok:
            failed.append(name)
            print(f"FAILED {name}\n{text}")

    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "weights.bin").write_bytes(b"\0" * 8 + b"".join(struct.pack("<f", v) for v in FOUR))
        (pathlib.Path(folder) / "link.bin").symlink_to("weights.bin")
        (pathlib.Path(folder) / "linked").symlink_to(".")
        for name, content, text in equal_cases():
            if wanted and name not in wanted:
                continue
            got, want = show(folder, "m.onnx", content), show(folder, "m.json", json.dumps(text).encode())
            judge(name, not want.returncode and got.stdout == want.stdout,
                  f"--- wanted\n{want.stdout}{want.stderr}--- got\n{got.stdout}{got.stderr}")
        for name, content, status, parts in wrong_cases():
            if wanted and name not in wanted:
                continue
            got = show(folder, "m.onnx", content)
            judge(name, got.returncode == status and all(p in got.stderr for p in parts), f"{got.returncode}\n{got.stderr}")
        for name, content in damaged(60 if not wanted else 0):
            got = show(folder, "m.onnx", content)
            judge(name, got.returncode not in WORSE and got.returncode >= 0, f"{got.returncode}\n{got.stderr}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
