#!/usr/bin/env python3
"""Checks a JSON text on standard input against docs/schemas/NAME.schema.json: validate.py NAME

The part of JSON Schema that those files use: type, properties, required, additionalProperties, items, enum, const,
pattern, minimum, minItems, anyOf and $ref to #/$defs."""
import json
import pathlib
import re
import sys

schema_path = pathlib.Path(__file__).resolve().parents[2] / "docs/schemas" / f"{sys.argv[1]}.schema.json"
root = json.loads(schema_path.read_text())
KNOWN = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "properties", "required",
         "additionalProperties", "items", "enum", "const", "pattern", "minimum", "maximum", "minItems", "maxItems",
         "anyOf", "oneOf", "default", "examples"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def has_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def faults(value, schema, where):
    if schema is True or schema is False:
        return [] if schema else [f"{where}: not allowed"]
    unknown = set(schema) - KNOWN
    if unknown:
        return [f"{where}: the schema uses {sorted(unknown)}, which this checker does not know"]
    if "$ref" in schema:
        return faults(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], where)
    out = []
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(has_type(value, name) for name in names):
            return [f"{where}: {json.dumps(value)[:60]} is not of type {' or '.join(names)}"]
    if "enum" in schema and value not in schema["enum"]:
        out.append(f"{where}: {value!r} is not one of {schema['enum']}")
    if "const" in schema and value != schema["const"]:
        out.append(f"{where}: {value!r} is not {schema['const']!r}")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        out.append(f"{where}: {value!r} does not match {schema['pattern']}")
    if "minimum" in schema and has_type(value, "number") and value < schema["minimum"]:
        out.append(f"{where}: {value} is less than {schema['minimum']}")
    if "maximum" in schema and has_type(value, "number") and value > schema["maximum"]:
        out.append(f"{where}: {value} is more than {schema['maximum']}")
    for key in ("anyOf", "oneOf"):
        if key in schema and all(faults(value, choice, where) for choice in schema[key]):
            out.append(f"{where}: fits none of the choices")
    if isinstance(value, dict):
        out += object_faults(value, schema, where)
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
            out.append(f"{where}: has {len(value)} items")
        for i, item in enumerate(value):
            out += faults(item, schema.get("items", True), f"{where}[{i}]")
    return out


def object_faults(value, schema, where):
    out = [f"{where}: {key} is missing" for key in schema.get("required", []) if key not in value]
    for key, item in value.items():
        inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", True))
        if inner is False:
            out.append(f"{where}: {key} is not in the schema")
        else:
            out += faults(item, inner, f"{where}.{key}")
    return out


try:
    found = faults(json.load(sys.stdin), root, "$")
except json.JSONDecodeError as error:
    found = [f"not JSON: {error}"]
print("valid" if not found else "\n".join(found[:20]))
sys.exit(bool(found))
