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

# Integers that are known while the graph is read: rows beside one another are no list, and fmod's remainder has the dividend's sign.
$ echo '{"inputs": {}, "constants": {"c": {"type": "s64", "shape": [2, 2], "data": [[-7, 7], [0, 5]]}, "a": {"type": "s64", "shape": [3], "data": [-7, 7, 5]}, "b": {"type": "s64", "shape": [3], "data": [3, 3, 2]}}, "nodes": [{"op": "Concat", "inputs": ["c", "c"], "outputs": ["rows"], "attributes": {"axis": -1}}, {"op": "Concat", "inputs": ["c", "c"], "outputs": ["list"], "attributes": {"axis": 0}}, {"op": "Mod", "inputs": ["a", "b"], "outputs": ["rest"], "attributes": {"fmod": 1}}, {"op": "Mod", "inputs": ["a", "b"], "outputs": ["mod"]}], "outputs": ["rows", "list", "rest", "mod"]}' >known.json; adlgen import known.json --emit graph --out known >/dev/null; grep -o '"[a-z.]*": {"type.*\|"op".*' known/graph.json
"c": {"type": "s64", "shape": [2, 2], "data": [-7, 7, 0, 5]},
"list.known": {"type": "s64", "shape": [4, 2], "data": [-7, 7, 0, 5, -7, 7, 0, 5]},
"rest.known": {"type": "s64", "shape": [3], "data": [-1, 1, 1]},
"mod.known": {"type": "s64", "shape": [3], "data": [2, 1, 1]}
"op": "Concat", "inputs": ["c", "c"], "outputs": ["rows"], "attributes": {"axis": -1}},
"op": "Identity", "inputs": ["list.known"], "outputs": ["list"], "attributes": {}},
"op": "Identity", "inputs": ["rest.known"], "outputs": ["rest"], "attributes": {}},
"op": "Identity", "inputs": ["mod.known"], "outputs": ["mod"], "attributes": {}}
