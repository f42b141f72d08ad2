"""Graphs of attention and its gradients, for the tests of these."""


def tensor(kind, *shape):
    return {"type": kind, "shape": list(shape)}


def graph_of(case):
    kind, (b, h, hk, m, n, d, e) = case["kind"], case["sizes"]
    inputs = {"q": tensor(kind, b, h, m, d), "k": tensor(kind, b, hk, n, d), "v": tensor(kind, b, hk, n, e), "g": tensor(kind, b, h, m, e)}
    masks = ["mask"] if "mask" in case else []
    if masks:
        inputs["mask"] = tensor("f32", *case["mask"][0])
    attributes = case.get("attributes", {})
    return {"name": "grad", "opset": 25, "inputs": inputs, "outputs": ["dq", "dk", "dv", "y"],
            "nodes": [{"op": "Attention", "domain": "adlgen", "inputs": ["q", "k", "v", *masks], "outputs": ["y", "", "", "", "l"], "attributes": attributes},
                      {"op": "AttentionGrad", "domain": "adlgen", "inputs": ["g", "q", "k", "v", "y", "l", *masks], "outputs": ["dq", "dk", "dv"], "attributes": attributes}]}
