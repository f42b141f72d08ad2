#!/usr/bin/env python3
"""Checks JSON against docs/schemas/NAME.schema.json.

validate.py NAME                            the text on standard input
validate.py --output STATUS FILE ARGUMENT...   what `adlgen ARGUMENT...`, which ended with STATUS, printed into FILE: one
                                            object of the schema that docs/cli.md names for the command

The part of JSON Schema that those files use: type, properties, required, additionalProperties, items, enum, const,
pattern, minimum, maximum, minItems, maxItems, anyOf and $ref to #/$defs."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs/schemas"
KNOWN = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "properties", "required",
         "additionalProperties", "items", "enum", "const", "pattern", "minimum", "maximum", "minItems", "maxItems",
         "anyOf", "default", "examples"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def has_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


class Schema:
    """One file of docs/schemas."""

    def __init__(self, name):
        path = SCHEMAS / f"{name}.schema.json"
        if not path.exists():
            sys.exit(f"no such schema: {path.relative_to(ROOT)}")
        self.root = json.loads(path.read_text())

    def faults(self, value, schema=None, where="$"):
        schema = self.root if schema is None else schema
        if schema is True or schema is False:
            return [] if schema else [f"{where}: not allowed"]
        unknown = set(schema) - KNOWN
        if unknown:
            return [f"{where}: the schema uses {sorted(unknown)}, which this checker does not know"]
        if "$ref" in schema:
            return self.faults(value, self.root["$defs"][schema["$ref"].rsplit("/", 1)[1]], where)
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
        if "anyOf" in schema and all(self.faults(value, choice, where) for choice in schema["anyOf"]):
            out.append(f"{where}: fits none of the choices")
        if isinstance(value, dict):
            out += self.object_faults(value, schema, where)
        if isinstance(value, list):
            if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
                out.append(f"{where}: has {len(value)} items")
            for i, item in enumerate(value):
                out += self.faults(item, schema.get("items", True), f"{where}[{i}]")
        return out

    def object_faults(self, value, schema, where):
        out = [f"{where}: {key} is missing" for key in schema.get("required", []) if key not in value]
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", True))
            if inner is False:
                out.append(f"{where}: {key} is not in the schema")
            else:
                out += self.faults(item, inner, f"{where}.{key}")
        return out

    def text_faults(self, text):
        try:
            return self.faults(json.loads(text))
        except json.JSONDecodeError as error:
            return [f"not JSON: {error}"]


def documented_outputs():
    """What docs/cli.md says a command prints: {"gpus show": "gpu", ...}."""
    section = (ROOT / "docs/cli.md").read_text().split("\n## JSON\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.*`.*) \| (\S+) \|$", section, re.MULTILINE)
    return {command: schema for commands, schema in rows for command in re.findall(r"`([^`]+)`", commands)}


def schema_of_output(status, text, arguments):
    """The schema's name; None where docs/cli.md has no row for the command."""
    if int(status) and re.match(r'\{\s*"version": \d+,\s*"errors":', text):
        return "errors"
    table = documented_outputs()
    words = [word for word in arguments if not word.startswith("-")]
    if "--batch" in arguments:
        return table["run --batch"]
    for row in ([] if not words else [" ".join(words[:2]), words[0]]):
        if row in table:
            return table[row]
    return table.get("--version") if "--version" in arguments else None


def output_faults(status, text, arguments):
    name = schema_of_output(status, text, arguments)
    if name is None:
        return [f"docs/cli.md names no schema for what `adlgen {' '.join(arguments)}` prints with --json"]
    texts = text.splitlines() if "--batch" in arguments and name != "errors" else [text]
    if "--batch" in arguments and "--json" not in arguments and not text:
        return []  # its errors are text
    return [f"{name}: {fault}" for item in texts for fault in Schema(name).text_faults(item)]


def main():
    if sys.argv[1] == "--output":
        found = output_faults(sys.argv[2], pathlib.Path(sys.argv[3]).read_text(), sys.argv[4:])
    else:
        found = Schema(sys.argv[1]).text_faults(sys.stdin.read())
        print("valid" if not found else "", end="\n" if not found else "")
    if found:
        print("\n".join(found[:20]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
