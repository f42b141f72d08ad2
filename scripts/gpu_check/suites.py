"""The cases of tests/run and tests/gpu."""
import json

from . import batch

TITLE = "operators, types and layouts (tests/run, tests/gpu)"


def cases_of(path, gpus=None):
    """Cases of one suite, as lines of a batch."""
    suite = json.loads(path.read_text())
    for number, case in enumerate(suite["cases"]):
        graph = case["graph"]
        name = case.get("name") or (graph.get("name") if isinstance(graph, dict) else None) or f"{path.stem}{number}"
        if isinstance(graph, str):
            graph = str((path.parent / graph).resolve())
        for gpu in gpus or case.get("gpus", suite.get("gpus", [])):
            for dims in case.get("dims", [{}]):
                for sets in case.get("set", [[]]):
                    label = " ".join([name, gpu] + [f"{k}={v}" for k, v in dims.items()] + list(sets))
                    yield {"label": label, "graph": graph, "gpu": gpu, "dims": dims, "set": list(sets),
                           "offset": case.get("offset", []), "in_place": case.get("in_place", []),
                           "fixed": bool(case.get("fixed")), "sms": case.get("sms", 0),
                           "admit_wide": bool(case.get("admit_wide"))}


def run(context):
    paths = [p for folder in ("run", "gpu") for p in sorted((context.root / "tests" / folder).glob("*.json"))]
    return batch.run(context, [case for path in paths for case in cases_of(path, context.gpus)])
