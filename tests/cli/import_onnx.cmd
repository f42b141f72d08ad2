# A graph as it was read, as a model, and back: opsets of bodies, expressions of symbols, what ONNX has no place for.
$ printf '{"opset": 17, "inputs": {"x": {"type": "f16", "shape": ["B", "S", 6], "align": 16}}, "dims": {"B": {"min": 1, "max": 64}}, "constants": {"to": {"type": "s64", "shape": [2], "data": ["B*S", 6]}, "w": {"type": "f16", "shape": [3], "data": [1, "nan", "-inf"]}}, "nodes": [{"op": "Reshape", "inputs": ["x", "to"], "outputs": ["f"]}, {"op": "ReduceL2", "name": "norm", "inputs": ["f"], "outputs": ["n"], "attributes": {"axes": [1]}}, {"op": "Add", "inputs": ["n", "w"], "outputs": ["y"]}], "outputs": ["y"]}' >g.json

$ adlgen import g.json --emit onnx --out out; ls out
model.onnx

$ adlgen import out/model.onnx 2>/dev/null
graph graph opset 17
dim B 1 .. 64 multiple 1
dim S 0 .. 2147483647 multiple 1
input x: f16 [B, S, 6] align 16
constant adlgen.extent.7: s64 [1] align 8
constant adlgen.extent.10: s64 [1] align 8
constant adlgen.extent.11: s64 [1] align 8
constant adlgen.extent.3: s64 [1] align 8
constant w: f16 [3] align 2
constant n.axes: s64 [1] align 8
constant to.known: s64 [2] align 8
tensor f: f16 [B*S, 6] align 2
tensor n.wide: f32 [B*S, 6] align 4
tensor n.square: f32 [B*S, 6] align 4
tensor n.sum: f32 [B*S, 1] align 4
tensor n.root: f32 [B*S, 1] align 4
tensor n: f16 [B*S, 1] align 2
output y: f16 [B*S, 3] align 2
node f = Reshape(x, to.known) allowzero=0
node n.wide = Cast(f) round_mode=up saturate=1 to=f32
node n.square = Mul(n.wide, n.wide)
node n.sum = ReduceSum(n.square, n.axes) keepdims=1 noop_with_empty_axes=0
node n.root = Sqrt(n.sum)
node n = Cast(n.root) round_mode=up saturate=1 to=f16
node y = Add(n, w)

# An output in the memory of an input, as the metadata say: ours, or what is added to any model.
$ printf '{"inputs": {"cache": {"type": "f16", "shape": [2, 64, 8]}, "rows": {"type": "f16", "shape": [2, "T", 8]}, "at": {"type": "s64", "shape": [2]}}, "nodes": [{"op": "TensorScatter", "inputs": ["cache", "rows", "at"], "outputs": ["now"], "attributes": {"axis": 1}}], "outputs": ["now"], "in_place": {"now": "cache"}}' >append.json; adlgen import append.json --emit onnx --out append && adlgen compile append/model.onnx --gpu h100 --emit ptx --out kernels >/dev/null; grep -o '"in_place": "[a-z]*"' kernels/h100/plan.json
"in_place": "cache"

$ sed 's/, "in_place".*/}/' append.json >copy.json; python3 $SRC/tests/onnx/encode.py copy.json >copy.onnx; printf '\162\034\012\023adlgen.in_place.now\022\005cache' | cat copy.onnx - >added.onnx; for model in copy added; do adlgen compile $model.onnx --gpu h100 --emit ptx --out $model >/dev/null; grep -c in_place $model/h100/plan.json; done; cmp added/h100/plan.json kernels/h100/plan.json
0
1

# Refusals.
$ printf '\162\034\012\023adlgen.in_place.now\022\005there' | cat copy.onnx - >wrong.onnx; adlgen import wrong.onnx
wrong.onnx: byte 164: error: `now` cannot lie in `there`: these are no output and input of the graph
[exit 1]

$ printf '\162\022\012\014adlgen.dim.T\022\0025 ' | cat copy.onnx - >wrong.onnx; adlgen import wrong.onnx
wrong.onnx: byte 164: error: `adlgen.dim.T` of the metadata needs 3 numbers
[exit 1]

$ printf '\162\026\012\014adlgen.dim.T\022\0064 5 -1' | cat copy.onnx - >wrong.onnx; adlgen import wrong.onnx
wrong.onnx: byte 164: error: `adlgen.dim.T` of the metadata is no range
[exit 1]

$ echo '{"inputs": {"x": {"type": "tf32", "shape": ["B", 6]}}, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' >tf32.json; adlgen import tf32.json --emit onnx --out refused
tf32.json:1:13: error: `x` is tf32, a type that ONNX does not have
  {"inputs": {"x": {"type": "tf32", "shape": ["B", 6]}}, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}
              ^
hint: --emit graph has both
[exit 3]

$ sed 's/"tf32", "shape": \["B", 6\]/"f32", "shape": ["B", 6], "strides": [8, 1]/' tf32.json >strided.json; adlgen import strided.json --emit onnx --out refused
strided.json:1:13: error: `x` has strides, which a model cannot say
  {"inputs": {"x": {"type": "f32", "shape": ["B", 6], "strides": [8, 1]}}, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"...
              ^
hint: --emit graph has both
[exit 3]
