#!/usr/bin/env python3
"""How exporters write attention: every form is so many launches, and right on the simulator.

  attention_forms.py ADLGEN [NAME...]"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile


class Graph:
    """A graph that nodes are appended to; each gives the name of its first result."""

    def __init__(self, name, type_="bf16", opset=25):
        self.text = {"name": name, "opset": opset, "inputs": {}, "constants": {}, "nodes": [], "outputs": []}
        self.type, self.launches, self.dims = type_, 1, {"B": 2, "S": 65}
        self.gpus = ["h100", "a100"]

    def input(self, name, shape, type_=None):
        self.text["inputs"][name] = {"type": type_ or self.type, "shape": shape}
        return name

    def constant(self, data, type_=None, shape=None):
        name = f"c{len(self.text['constants'])}"
        if shape is None:
            shape = [len(data)] if isinstance(data, list) else []
        self.text["constants"][name] = {"type": type_ or self.type, "shape": shape, "data": data}
        return name

    def list(self, *items):
        return self.constant(list(items), "s64")

    def node(self, op, *inputs, outputs=None, domain="", **attributes):
        outputs = outputs or [f"t{len(self.text['nodes'])}"]
        node = {"op": op, "inputs": list(inputs), "outputs": outputs, "attributes": attributes}
        self.text["nodes"].append({**node, "domain": domain} if domain else node)
        return outputs[0]

    def heads(self, heads=2, kv_heads=None, d=64, dv=None, rows="S", keys="S"):
        kv_heads = kv_heads or heads
        return (self.input("q", ["B", heads, rows, d]), self.input("k", ["B", kv_heads, keys, d]),
                self.input("v", ["B", kv_heads, keys, dv or d]))

    def scores(self, q, k, scale=0.125):
        s = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        return self.node("Mul", s, self.constant(scale)) if scale else s

    def give(self, *names):
        self.text["outputs"] += names
        return self

    def result(self, scores, v):
        return self.give(self.node("MatMul", self.node("Softmax", scores, axis=-1), v))

    def expect(self, launches=1, gpus=None, **dims):
        self.launches, self.dims, self.gpus = launches, dims or self.dims, gpus or self.gpus
        return self


# ---- the log-sum-exp beside the result ----

def sums_written():
    for keep in (0, 1):
        g = Graph(f"sums_keepdims_{keep}")
        q, k, v = g.heads()
        s = g.scores(q, k)
        sums = g.node("ReduceLogSumExp", s, g.list(-1), keepdims=keep)
        yield g.result(s, v).give(sums)


def sums_of_operator():
    g = Graph("sums_of_operator")
    q, k, v = g.heads(4, 2, rows="S", keys="K")
    mask = g.input("m", ["S", "K"], "bool")
    yield g.give(g.node("Attention", q, k, v, mask, outputs=["y", "", "", "", "sums"], domain="adlgen", is_causal=1),
                 "sums").expect(B=2, S=40, K=33)


def sums_of_repeated_heads():
    g = Graph("sums_of_repeated_heads", "f16")
    q, k, v = g.heads(4, 2)
    k, v = (g.node("Reshape", g.node("Expand", g.node("Unsqueeze", x, g.list(2)), g.list(1, 1, 2, 1, 1)),
                   g.list(0, 4, -1, 64)) for x in (k, v))
    s = g.scores(q, k)
    sums = g.node("ReduceLogSumExp", s, g.list(-1), keepdims=0)
    yield g.result(s, v).give(sums).expect(B=1, S=70)


FORMS = [sums_written, sums_of_operator, sums_of_repeated_heads]


# ---- the program ----

def run(adlgen, graph, gpu, folder):
    path = os.path.join(folder, graph.text["name"] + ".json")
    with open(path, "w") as file:
        json.dump(graph.text, file)
    dims = [word for name, value in graph.dims.items() for word in ("--dim", f"{name}={value}")]
    done = subprocess.run([adlgen, "run", path, "--gpu", gpu, "--on", "sim", "--check", *dims], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    launches = done.stdout.splitlines()[0].count(", grid ") if done.stdout else 0
    if done.returncode or launches != graph.launches:
        return f"{graph.text['name']} on {gpu}: {launches} launches, {graph.launches} expected\n{done.stdout}"
    return None


def main():
    adlgen, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    graphs = [graph for form in FORMS for graph in form() if not wanted or graph.text["name"] in wanted]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [(graph, gpu) for graph in graphs for gpu in graph.gpus]
        faults = [fault for fault in pool.map(lambda job: run(adlgen, *job, tempfile.mkdtemp(dir=folder)), jobs) if fault]
    print("\n".join(faults), f"{len(jobs) - len(faults)} of {len(jobs)} right", sep="\n")
    return 1 if faults or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
