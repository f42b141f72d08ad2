#!/usr/bin/env python3
"""What adlgen says of every operator, attribute and type of ONNX agrees with ONNX's own checker: onnx_cases.py ADLGEN
[OPERATOR...]

Needs the Python package onnx, no older than generator/front/onnx.def; without it the test is skipped. Each version of each
operator is tried in the first and last opset it belongs to: in its smallest form, with each attribute of any version, with
each type of elements at each input, with one input too few and too many. Where ONNX's checker finds no fault, adlgen
must accept the node or say that it is not supported (exit 3); where it finds one, adlgen must say that it is wrong (exit
1), but for what docs/operators.md calls extensions."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
try:
    import onnx
    from onnx import defs, helper, numpy_helper
except ImportError:
    print("skipped: no Python package onnx")
    sys.exit(SKIPPED)

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLDEST = 7  # opset
TYPES = {number: name.lower() for name, number in onnx.TensorProto.DataType.items() if number}
NUMBERS = {name: number for number, name in TYPES.items()}
# Types that ours take where ONNX's do not: docs/operators.md.
FLOAT8 = {"float8e4m3fn", "float8e5m2"}
EXTENSIONS = {"PRelu": {"int8"}, "Shrink": {"bfloat16"}, "Split": FLOAT8, "Slice": FLOAT8, "Concat": FLOAT8,
              "MatMul": {"int8", "uint8", *FLOAT8}, "Gemm": {"int8", "uint8", *FLOAT8}}
GRAPH = helper.make_graph([helper.make_node("Identity", ["gx"], ["gy"])], "g",
                          [helper.make_tensor_value_info("gx", 1, [2])], [helper.make_tensor_value_info("gy", 1, [2])])
TENSOR = helper.make_tensor("t", 1, [1], [1.0])


def schemas(names):
    """(schema, opsets it is tried in)"""
    versions = {}
    for schema in defs.get_all_schemas_with_history():
        if not names or schema.name in names:
            versions.setdefault((schema.domain, schema.name), []).append(schema)
    for (domain, _), list_ in sorted(versions.items()):
        list_.sort(key=lambda s: s.since_version)
        for i, schema in enumerate(list_):
            end = list_[i + 1].since_version - 1 if i + 1 < len(list_) else defs.onnx_opset_version()
            if domain:
                if i + 1 == len(list_):
                    yield schema, list_, {defs.onnx_opset_version()}
            elif end >= OLDEST:
                yield schema, list_, {max(OLDEST, schema.since_version), end}


def tensor_name(type_string):
    match = re.fullmatch(r"tensor\((\w+)\)", type_string)
    return match and match.group(1)


def choices(schema, parameter):
    """The types of elements that a parameter admits, those that adlgen has first."""
    constraint = next((c for c in schema.type_constraints if c.type_param_str == parameter.type_str), None)
    names = [tensor_name(t) for t in (constraint.allowed_type_strs if constraint else [parameter.type_str])]
    order = ["float", "int64", "int32", "bool", "uint8", "int8", "float8e4m3fn"]
    return sorted((n for n in names if n in NUMBERS), key=lambda n: (order.index(n) if n in order else len(order), n))


def smallest(schema, n=None):
    """The types of the first n inputs, equal where they must be; None where one is no tensor."""
    chosen, types = {}, []
    count = max(schema.min_input, min(1, len(schema.inputs))) if n is None else n
    for i in range(count):
        parameter = schema.inputs[min(i, len(schema.inputs) - 1)] if schema.inputs else None
        admitted = choices(schema, parameter) if parameter else ["float"]
        if not admitted:
            return None
        types.append(chosen.setdefault(parameter.type_str if parameter else "", admitted[0]))
    return types


VALUES = {"to": 1, "pads": [1, 1, 1, 1], "axis": 0, "axes": [0], "perm": [1, 0], "direction": None, "equation": "ij->ji", "block_size": 0, "starts": [0],
          "ends": [1], "split": [2, 2], "num_outputs": 2, "output_dtype": None, "precision": 1, "dtype": 1, "blocksize": 2,
          "kernel_shape": [2, 2], "fmod": 0, "keepdims": 1, "stash_type": 1}
TEXTS = {"BitShift": "LEFT", "direction": "forward", "approximate": "tanh", "auto_pad": "NOTSET", "round_mode": "up",
         "mode": "linear", "reduction": "none", "case_change_action": "NONE", "accumulate": "default"}


def value_of(schema, name, attribute):
    """(as in an op description, as in a model) of an attribute; None where a description cannot say it."""
    kind = attribute.type.name
    default = helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else None
    if kind in ("GRAPH", "TENSOR", "SPARSE_TENSOR", "TYPE_PROTO"):
        proto = {"GRAPH": GRAPH, "TENSOR": TENSOR}.get(kind)
        return ("anything", proto) if proto is not None else None
    if isinstance(default, bytes):
        default = default.decode()
    if isinstance(default, list):
        default = [item.decode() if isinstance(item, bytes) else item for item in default]
    value = VALUES.get(name)
    if value is None or isinstance(value, list) != (kind in ("INTS", "FLOATS", "STRINGS")):
        value = default
    if value is None or value == []:
        value = {"INT": 1, "FLOAT": 0.5, "STRING": TEXTS.get(schema.name, TEXTS.get(name, "a")), "INTS": [1, 1],
                 "FLOATS": [0.5, 0.5], "STRINGS": ["a", "b"]}[kind]
    if schema.name == "Cast" and kind == "STRING" and name == "to":
        value = "FLOAT"
    return value, value


IMAGE, LISTS = [[1, 4, 4, 4]], [[4, 4], [4, 1]]
SHAPES = {"MaxPool": IMAGE, "AveragePool": IMAGE, "LpPool": IMAGE, "GlobalMaxPool": IMAGE, "GlobalAveragePool": IMAGE,
          "GlobalLpPool": IMAGE, "DepthToSpace": IMAGE, "SpaceToDepth": IMAGE, "GatherND": LISTS, "ScatterND": LISTS,
          "ReverseSequence": [[4, 4], [4]], "TensorScatter": [[2, 4, 4], [2, 4, 4], [2]]}


class Case:
    def __init__(self, schema, opset, types, what, kinds):
        self.schema, self.opset, self.types, self.what, self.kinds = schema, opset, list(types), what, kinds
        self.attributes = {n: value_of(schema, n, a) for n, a in schema.attributes.items() if a.required}
        self.n_outputs = max(1, schema.min_output)
        if schema.name == "Split":
            self.n_outputs = 2

    def constants(self):
        """Inputs whose value says what the shape is: those adlgen asks for as constants."""
        op, n = self.schema.name, len(self.types)
        if op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin") and n > 1:
            return {1: [0]}
        if op == "Split" and n > 1:
            return {1: [2, 2]}
        return {i: v for i, v in ((1, [0]), (2, [2]), (3, [0]), (4, [1])) if i < n} if op == "Slice" else {}

    def shapes(self):
        op = self.schema.name
        if op in SHAPES:
            return (SHAPES[op] + [[4, 4]] * len(self.types))[:len(self.types)]
        few = {"Clip": (1, 2), "QuantizeLinear": (1, 2), "DequantizeLinear": (1, 2), "MatMulInteger": (2, 3)}.get(op, ())
        return [[] if i in few else [4, 4] for i in range(len(self.types))]

    def description(self):
        constants, inputs, given = self.constants(), {}, {}
        for i, (type_, shape) in enumerate(zip(self.types, self.shapes())):
            known = i in constants and type_ in ("int64", "int32")
            (given if known else inputs)[f"x{i}"] = {"type": type_, "shape": [len(constants[i])], "data": constants[i]} if known else {"type": type_, "shape": shape}
        attributes = {name: value[0] for name, value in self.attributes.items() if value}
        node = {"op": self.schema.name, "domain": self.schema.domain, "inputs": [f"x{i}" for i in range(len(self.types))],
                "outputs": [f"y{i}" for i in range(self.n_outputs)], "attributes": attributes}
        return {"opset": self.opset, "inputs": inputs, "constants": given, "nodes": [node], "outputs": node["outputs"]}

    def model(self):
        node = helper.make_node(self.schema.name, [f"x{i}" for i in range(len(self.types))],
                                [f"y{i}" for i in range(self.n_outputs)], domain=self.schema.domain)
        for name, value in self.attributes.items():
            proto = onnx.AttributeProto(name=name)
            self.fill(proto, name, value[1])
            node.attribute.append(proto)
        inputs = [helper.make_tensor_value_info(f"x{i}", NUMBERS[t], None) for i, t in enumerate(self.types)]
        outputs = [onnx.ValueInfoProto(name=f"y{i}") for i in range(self.n_outputs)]
        opsets = [helper.make_opsetid("", self.opset)]
        if self.schema.domain:
            opsets.append(helper.make_opsetid(self.schema.domain, self.schema.since_version))
        return helper.make_model(helper.make_graph([node], "g", inputs, outputs), opset_imports=opsets, ir_version=10)

    def fill(self, proto, name, value):
        """The kind that this or another version of the operator gives the attribute."""
        attribute = self.kinds[name]
        field = {"INT": "i", "FLOAT": "f", "STRING": "s", "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings", "GRAPH": "g",
                 "TENSOR": "t"}[attribute]
        proto.type = getattr(onnx.AttributeProto, attribute)
        if field in ("g", "t"):
            getattr(proto, field).CopyFrom(value)
        elif field in ("ints", "floats"):
            getattr(proto, field).extend(value)
        elif field == "strings":
            proto.strings.extend(v.encode() for v in value)
        else:
            setattr(proto, field, value.encode() if field == "s" else value)

    def fault(self):
        """What ONNX's checker says; None: valid. A shape it cannot know of is no fault."""
        model = self.model()
        try:
            onnx.checker.check_node(model.graph.node[0], self.context())
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        except onnx.checker.ValidationError as error:
            return str(error).strip().split("\n")[0]
        except onnx.shape_inference.InferenceError as error:
            return str(error).strip().split("\n")[-1]
        except ValueError as error:
            return f"Inference error(s): {error}"
        return None

    def context(self):
        context = onnx.checker.C.CheckerContext()
        context.ir_version = 10
        context.opset_imports = {"": self.opset, **({self.schema.domain: self.schema.since_version} if self.schema.domain else {})}
        return context

    def is_extension(self):
        """Taken although ONNX finds a fault: types that it has in the newest version, or that we add."""
        newest = defs.get_schema(self.schema.name, defs.onnx_opset_version(), self.schema.domain)
        if newest is not self.schema and "typ" in (self.fault() or ""):
            later = Case(newest, defs.onnx_opset_version(), self.types, self.what, self.kinds)
            later.attributes = self.attributes
            if later.fault() is None:
                return True
        added = set(EXTENSIONS.get(self.schema.name, ()))
        for i, type_ in enumerate(self.types):
            here, later = (choices(s, s.inputs[min(i, len(s.inputs) - 1)]) for s in (self.schema, newest))
            if type_ not in here and (type_ in added or type_ in later):
                return True
        return False

    def is_beyond_definitions(self, fault):
        """What only ONNX's own inference of the operator finds, or finds at its results: a program that lacks the operator
        or the type does not know it."""
        own = "Inference error(s)" in fault or "InferenceError] (op_type" not in fault and "InferenceError]" in fault
        match = re.search(r"\(op_type:\w+\): (\w+) (has|typestr)", fault)
        return own or bool(match and match.group(1) in [output.name for output in self.schema.outputs])


def cases(schema, versions, opset):
    types = smallest(schema)
    if types is None:
        return
    kinds = {n: a.type.name for s in [*versions, schema] for n, a in s.attributes.items()}
    base = Case(schema, opset, types, "smallest", kinds)
    if None in base.attributes.values():
        return
    yield base
    for version in versions:
        for name, attribute in version.attributes.items():
            value = value_of(version, name, attribute)
            if value is None or name in base.attributes or (version is not schema and name in schema.attributes):
                continue
            case = Case(schema, opset, types, f"attribute {name}", kinds)
            case.attributes[name] = value
            yield case
    for name in base.attributes:
        case = Case(schema, opset, types, f"without {name}", kinds)
        del case.attributes[name]
        yield case
    for i in range(len(types)):
        for type_ in NUMBERS:
            case = Case(schema, opset, types, f"input {i} {type_}", kinds)
            users = [j for j in range(len(types)) if type_of(schema, j) == type_of(schema, i)]
            for j in users:
                case.types[j] = type_
            yield case
            if len(users) > 1:
                lone = Case(schema, opset, types, f"input {i} alone {type_}", kinds)
                lone.types[i] = type_
                yield lone
    if schema.min_input:
        yield Case(schema, opset, types[:schema.min_input - 1], "too few inputs", kinds)
    most = smallest(schema, schema.max_input + 1) if schema.max_input < 20 else None
    if most:
        yield Case(schema, opset, most, "too many inputs", kinds)
        if schema.max_input > len(types):
            yield Case(schema, opset, most[:-1], "all inputs", kinds)


def type_of(schema, i):
    return schema.inputs[min(i, len(schema.inputs) - 1)].type_str


def verdicts(adlgen, all_cases):
    """adlgen's exit for each, in one process for each two hundred."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lines"
        for start in range(0, len(all_cases), 200):
            part = all_cases[start:start + 200]
            path.write_text("\n".join(json.dumps({"graph": case.description(), "gpu": "h100"}) for case in part))
            result = subprocess.run([adlgen, "run", "--batch", path, "--on", "sim"], capture_output=True, text=True)
            lines = [json.loads(line) for line in result.stdout.splitlines()]
            assert len(lines) == len(part), result.stderr
            yield from ((case, line.get("exit", 0 if line["ok"] else 5), line.get("message", "")) for case, line in zip(part, lines))


def main():
    known = int(re.search(r"^ONNX_OPSET\((\d+)\)", (ROOT / "generator/front/onnx.def").read_text(), re.MULTILINE).group(1))
    if defs.onnx_opset_version() != known:
        print(f"skipped: onnx {onnx.__version__} has opset {defs.onnx_opset_version()}, generator/front/onnx.def {known}")
        return SKIPPED
    everything = [case for schema, versions, opsets in schemas(set(sys.argv[2:])) if not schema.deprecated
                  for opset in sorted(opsets) for case in cases(schema, versions, opset)]
    wrong = 0
    for case, exit_, message in verdicts(sys.argv[1], everything):
        fault = case.fault()
        if fault is None:
            right = exit_ in (0, 3)
        else:
            right = exit_ == 1 or (exit_ == 3 and case.is_beyond_definitions(fault)) or (exit_ in (0, 3) and case.is_extension())
        if not right:
            wrong += 1
            print(f"{case.schema.domain}{case.schema.name} opset {case.opset}, {case.what} {case.types}: exit {exit_} ({message}); "
                  f"ONNX: {fault or 'valid'}")
    print(f"{len(everything)} cases, {wrong} disagree")
    return wrong > 0


sys.exit(main())
