#!/usr/bin/env python3
"""Kernels of attention's gradients against double precision, at sizes about those of tiles, and kernels that are wrong: attention_grad_sizes.py ADLGEN

Rows and keys apart, every mask, shared heads, heads of 8 to 256, tensors that TMA cannot copy. Then faults planted in the templates: each has
to be found."""
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import runs
from attention_grad_graph import graph_of

adlgen = pathlib.Path(sys.argv[1]).resolve()
TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "templates"
SIZES = [1, 63, 64, 65, 127, 128, 129, 300]
CAUSAL, BAND = {"is_causal": 1}, {"left_window_size": 40, "right_window_size": 9}
FULL = os.environ.get("ADLGEN_TEST_FULL")


def cases():
    """Kind, sizes and attributes: a walk through the pairs of sizes that has each of a kind with each mask."""
    kinds, masks = itertools.cycle(["bf16", "f16"]), itertools.cycle([{}, CAUSAL, BAND, {**CAUSAL, "softcap": 3.0}, {**CAUSAL, "left_window_size": 30}])
    heads, widths = itertools.cycle([(2, 2), (2, 1), (4, 2)]), itertools.cycle([(64, 64), (128, 128), (72, 40), (64, 64), (8, 16), (192, 128), (256, 256)])
    pairs = list(itertools.product(SIZES, SIZES))
    for place, (rows, keys) in enumerate(pairs):
        case = {"kind": next(kinds), "sizes": (1, *next(heads), rows, keys, *next(widths)), "attributes": next(masks)}
        if FULL or place % 4 == 1:
            yield case


# template, what it says, what it is to say
MUTANTS = [
    ("keys", "le %key, %row", "lt %key, %row"),                                   # a row does not see its own key
    ("queries", "ge %last, %key", "gt %last, %key"),
    ("keys", "%i * $keys - DIAGONAL) / $rows", "%i * $keys - DIAGONAL) / $rows + 1"),    # the tile on the diagonal is left out
    ("queries", "min(M, (%i + 1) * $rows) + DIAGONAL", "min(M, %i * $rows + 1) + DIAGONAL"),
    ("keys", "min(%to, max(0, (%i + 1) * $keys - LOWEST))", "min(%to, max(0, %i * $keys - LOWEST))"),  # the window's edge
    ("queries", "max(%from, %i * $rows + LOWEST) / $keys)", "max(%from, %i * $rows + $keys + LOWEST) / $keys)"),
    ("keys", "sub %of_weights, %delta", "add %of_weights, 0.0"),                  # the mean is not subtracted
    ("keys", "<- SUMS[%b, %h, %g, %m]", "<- SUMS[%b, %h, 0, %m]"),                # log-sum-exps of another head
    ("keys", "<- DELTA[%b, %h, %g, %m]", "<- DELTA[%b, %h, %g, %m + 1]"),         # of the neighbour row
    ("keys", "%j / max(1, %n) : 0", "0 : 0"),                                     # one head's queries for all that share keys
    ("queries", "V[%b, %h, (%n - 1 - %j) * $keys, 0]", "V[%b, %h, (%n - 1) * $keys, 0]"),   # a stale tile
    ("queries", "mul %dq, $factor", "mul %dq, $factor * $factor"),
    ("keys", "/ 128 * 128 / $rows", "/ 128 * 128 / $rows + 1"),                   # what a block of 128 rows sees is not left whole
    ("keys", "%part * %sharing", "0"),                                            # all parts are of the first heads
    ("keys", "%from + M / $parts", "M"),                                          # a part has the rows of those behind it, too
    ("keys", "max(%from, %i * $keys - DIAGONAL) / 128", "max(0, %i * $keys - DIAGONAL) / 128"),  # and of those in front of it
    ("queries", "%from + N / $parts", "N"),                                       # of keys
    ("rows", "min(M, (%i + 1) * $rows) + DIAGONAL", "min(M, %i * $rows + 1) + DIAGONAL"),
    ("rows", "K[%b, %h, %j * $keys, 0]", "K[%b, %h, 0, 0]"),                      # a stale tile
]
FOUND_BY = [{"kind": "bf16", "sizes": (1, 4, 2, 200, 268, 64, 64), "attributes": CAUSAL},
            {"kind": "bf16", "sizes": (1, 2, 2, 264, 132, 64, 64), "attributes": BAND},
            {"kind": "bf16", "sizes": (1, 2, 1, 200, 268, 128, 128), "attributes": CAUSAL},
            {"kind": "bf16", "sizes": (1, 1, 1, 1024, 70, 128, 128), "attributes": CAUSAL},  # in parts of its rows
            {"kind": "bf16", "sizes": (1, 16, 1, 40, 40, 64, 64), "attributes": CAUSAL},     # in parts of its heads
            {"kind": "bf16", "sizes": (1, 2, 1, 16, 1024, 16, 16), "attributes": {}}]        # of its keys


def is_found(mutant):
    template, said, says = mutant
    name = f"attention_grad_{template}.ir"
    text = (TEMPLATES / name).read_text()
    if said not in text:
        sys.exit(f"{name} does not say `{said}`")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "templates").mkdir()
        (path / "templates" / name).write_text(text.replace(said, says))
        for place, case in enumerate(FOUND_BY):
            (path / f"{place}.json").write_text(json.dumps(graph_of(case)))
            done = subprocess.run([adlgen, "run", path / f"{place}.json", "--gpu", "h100", "--on", "sim", "--check"], capture_output=True, text=True,
                                  env={**os.environ, "ADLGEN_DATA_DIR": folder})
            if done.returncode == 5:
                return True
            if done.returncode:
                sys.exit(f"{name} that says `{says}`: exit {done.returncode}\n{done.stderr}")
    return False


runs.run_batch(adlgen, [{"label": str(case), "graph": graph_of(case), "gpu": gpu} for case in cases() for gpu in ("h100", "a100")])
alive = [mutant for mutant in MUTANTS if not is_found(mutant)]
for template, said, says in alive:
    print(f"nobody finds attention_grad_{template}.ir that says `{says}` for `{said}`")
print(f"{len(MUTANTS) - len(alive)} of {len(MUTANTS)} faults found")
sys.exit(bool(alive))
