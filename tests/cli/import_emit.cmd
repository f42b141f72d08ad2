# A graph as it was read, as a description: an opset of its own where a function's body is newer, expressions of symbols.
$ printf '{"opset": 17, "inputs": {"x": {"type": "f32", "shape": ["B", 6]}}, "dims": {"B": {"min": 1, "max": 64}}, "nodes": [{"op": "Flatten", "inputs": ["x"], "outputs": ["f"]}, {"op": "ReduceL2", "inputs": ["f"], "outputs": ["n"], "attributes": {"axes": [1]}}, {"op": "Dropout", "inputs": ["n"], "outputs": ["y"]}], "outputs": ["y"]}' >g.json

$ adlgen import g.json --emit graph --out out

$ cat out/graph.json
{
  "version": 1,
  "name": "graph",
  "opset": 17,
  "dims": {
    "B": {"min": 1, "max": 64, "multiple": 1}
  },
  "inputs": {
    "x": {"type": "f32", "shape": ["B", 6], "align": 4}
  },
  "constants": {
    "n.axes": {"type": "s64", "shape": [1], "data": [1]}
  },
  "nodes": [
    {"op": "Flatten", "inputs": ["x"], "outputs": ["f"], "attributes": {}},
    {"op": "Mul", "inputs": ["f", "f"], "outputs": ["n.square"], "attributes": {}},
    {"op": "ReduceSum", "opset": 28, "inputs": ["n.square", "n.axes"], "outputs": ["n.sum"], "attributes": {"keepdims": 1, "noop_with_empty_axes": 0}},
    {"op": "Sqrt", "inputs": ["n.sum"], "outputs": ["n"], "attributes": {}},
    {"op": "Identity", "inputs": ["n"], "outputs": ["y"], "attributes": {}}
  ],
  "outputs": ["y"]
}

$ adlgen import g.json --emit graph --out out --json | validate import
valid

$ adlgen import g.json --emit graph
error: --emit needs a folder: --out DIR
[exit 2]

$ adlgen import g.json --out out
error: --out is the folder of --emit
[exit 2]
