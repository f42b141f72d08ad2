#!/usr/bin/env python3
"""A catalogue of the entries of another whose tiles are forced, for one GPU.
small_catalog.py CATALOG GPU"""
import json
import sys

catalog = json.load(open(sys.argv[1]))
NAMES = {"gemm_{type}_nt_turns_{tile.name}"}


def is_kept(entry):
    return sys.argv[2] in entry.get("gpus", [sys.argv[2]]) and entry["name"] in NAMES


catalog["gpus"] = [sys.argv[2]]
catalog["entries"] = [entry for entry in catalog["entries"] if is_kept(entry)]
assert catalog["entries"], "none of the entries is there any more"
json.dump(catalog, sys.stdout)
