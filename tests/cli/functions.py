"""Graphs of functions.cmd."""
import json
def graph(name, nodes, numbers, number="f16", extra=None):
    nodes = [dict(zip(("op", "inputs", "outputs", "attributes"), (op, inputs.split(), [result], dict(more)))) for op, inputs, result, *more in nodes]
    json.dump({"name": name, "inputs": {"x": {"type": number, "shape": ["M", 40]}}, "constants": {key: {"type": number, "shape": [], "data": value} for key, value in numbers.items()}, "nodes": nodes, "outputs": [nodes[-1]["outputs"][0]]}, open(name + ".json", "w"))
gate = [("Add", "f one", "g"), ("Mul", "x g", "h"), ("Mul", "h half", "y")]
half = {"one": 1, "half": 0.5}
graph("erf", [("Div", "x root", "t"), ("Erf", "t", "f"), *gate], {"root": 1.41421356, **half})
cube = [("Pow", "x three", "c"), ("Mul", "c a", "d"), ("Add", "x d", "e"), ("Mul", "e b", "t"), ("Tanh", "t", "f")]
tanh = {"three": 3, "a": 0.044715, "b": 0.7978845608, **half}
graph("tanh", [*cube, *gate], tanh, "bf16")
graph("fast", [("Mul", "a x", "c"), ("Mul", "c x", "d"), ("Add", "d one", "e"), ("Mul", "x b", "s"), ("Mul", "s e", "t"), ("Tanh", "t", "f"), ("Add", "one f", "g"), ("Mul", "half x", "h"), ("Mul", "h g", "y")], {key: tanh[key] for key in ("a", "b", "one", "half")}, "f32")
graph("other", [*cube, *gate], {**tanh, "a": 0.05})
graph("third", [("Div", "x root", "t"), ("Erf", "t", "f"), *gate], {"root": 1.41421356, "one": 1, "half": 0.25})
graph("powers", [("Pow", "x two", "a"), ("Pow", "x three", "b"), ("Pow", "x root", "c"), ("Add", "a b", "d"), ("Add", "d c", "y")], {"two": 2, "three": 3, "root": 2.5})
turn = {"name": "turn", "inputs": {"x": {"type": "bf16", "shape": ["B", 2, "S", 40]}, "c": {"type": "bf16", "shape": ["S", 16]}, "s": {"type": "bf16", "shape": ["S", 16]}}, "constants": {}, "nodes": [], "outputs": ["y"]}
for name, value in (("zero", [0]), ("eight", [8]), ("sixteen", [16]), ("end", [40]), ("axis", [3])):
    turn["constants"][name] = {"type": "s64", "shape": [1], "data": value}
for op, inputs, result in (("Slice", "x zero sixteen axis", "a"), ("Slice", "x sixteen end axis", "rest"), ("Slice", "a zero eight axis", "first"), ("Slice", "a eight sixteen axis", "second"), ("Neg", "second", "minus"), ("Concat", "minus first", "turned"), ("Mul", "a c", "p"), ("Mul", "turned s", "q"), ("Add", "p q", "t"), ("Concat", "t rest", "y")):
    turn["nodes"].append({"op": op, "inputs": inputs.split(), "outputs": [result], **({"attributes": {"axis": -1}} if op == "Concat" else {})})
json.dump(turn, open("turn.json", "w"))
