# Models in ONNX's own format are graphs as descriptions are; what is wrong with one has a byte and a node.
$ python3 $SRC/tests/onnx/encode.py $SRC/examples/softmax.json >softmax.onnx; adlgen run softmax.onnx --gpu h100 --on sim --dim B=1 --dim H=2 --dim S=40 --check | grep weights
weights  f16   1.85e-04  1.52e-05  1e-03  ok

$ sed s/Softmax/Softmux/ softmax.onnx >wrong.onnx; adlgen compile wrong.onnx --gpu h100 --out out
wrong.onnx: byte 48: error: unknown operator `Softmux`
  in a node (Softmux)
hint: did you mean `Softmax`?
[exit 1]

$ adlgen compile wrong.onnx --gpu h100 --out out --json
{
  "version": 1,
  "errors": [
    {
      "severity": "error",
      "file": "wrong.onnx",
      "line": null,
      "column": null,
      "byte": 48,
      "part": "in a node (Softmux)",
      "message": "unknown operator `Softmux`",
      "hint": "did you mean `Softmax`?",
      "code": "unknown-operator"
    }
  ]
}
[exit 1]

$ head -c 60 softmax.onnx >cut.onnx; adlgen compile cut.onnx --gpu h100 --out out
cut.onnx: byte 9: error: ModelProto: a field goes beyond the end of what it is in
hint: the file is damaged, or no ONNX model
[exit 1]

$ adlgen run - --gpu h100 --on sim --dim B=1 --dim H=2 --dim S=40 --check <softmax.onnx | grep weights
weights  f16   1.85e-04  1.52e-05  1e-03  ok

$ adlgen import softmax.onnx
graph softmax opset 27
dim B 0 .. 2147483647 multiple 1
dim H 0 .. 2147483647 multiple 1
dim S 0 .. 2147483647 multiple 1
input scores: f16 [B, H, S, S] align 2
constant scale: f16 [] align 2
tensor scaled: f16 [B, H, S, S] align 2
output weights: f16 [B, H, S, S] align 2
node scaled = Mul(scores, scale)
node weights = Softmax(scaled) axis=-1 masked_rows=nan weights=own

$ echo '{"inputs": {"x": {"type": "f32", "shape": ["B", 4, 4]}}, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["a"]}, {"op": "Det", "inputs": ["a"], "outputs": ["y"]}, {"op": "Det", "inputs": ["x"], "outputs": ["z"]}], "outputs": ["y", "z"]}' >lacks.json; python3 $SRC/tests/onnx/encode.py lacks.json >lacks.onnx; adlgen import lacks.onnx --report
operator  domain   nodes  adlgen has it
Det       ai.onnx      2  no
Relu      ai.onnx      1  yes

1 of 3 nodes are of operators that adlgen has
lacks.onnx: byte 31: error: ONNX operator `Det` is not supported
  in a node (Det)
hint: `adlgen ops` lists what is
[exit 3]

$ adlgen import lacks.onnx --report --json
{
  "version": 1,
  "readable": false,
  "operators": [
    {
      "op": "Det",
      "domain": "",
      "nodes": 2,
      "supported": false
    },
    {
      "op": "Relu",
      "domain": "",
      "nodes": 1,
      "supported": true
    }
  ],
  "errors": [
    {
      "severity": "error",
      "file": "lacks.onnx",
      "line": null,
      "column": null,
      "byte": 31,
      "part": "in a node (Det)",
      "message": "ONNX operator `Det` is not supported",
      "hint": "`adlgen ops` lists what is",
      "code": "unsupported-operator"
    }
  ]
}
[exit 3]

$ adlgen import $SRC/examples/mlp.json --report
operator          domain   nodes  adlgen has it
MatMul            ai.onnx      3  yes
Add               ai.onnx      1  yes
Mul               ai.onnx      1  yes
RMSNormalization  ai.onnx      1  yes
Swish             ai.onnx      1  yes

7 of 7 nodes are of operators that adlgen has

# Who squeezes a dimension of a model takes it for 1; a graph says so.
$ echo '{"inputs": {"x": {"type": "f32", "shape": ["B", "S"]}}, "constants": {"axis": {"type": "s64", "shape": [1], "data": [0]}}, "nodes": [{"op": "Squeeze", "inputs": ["x", "axis"], "outputs": ["s"]}, {"op": "Relu", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"]}' >one.json; python3 $SRC/tests/onnx/encode.py one.json >one.onnx; adlgen run one.onnx --gpu h100 --on sim --dim S=5 --check | tail -1; adlgen run one.json --gpu h100 --on sim --dim S=5 --dim B=1 --fixed --check | tail -1; adlgen run one.onnx --gpu h100 --on sim --dim S=5 --dim B=2 --check; adlgen compile one.json --gpu h100 --emit ptx --out one | grep error
y       f32   0.00e+00  0.00e+00  5e-06  ok
y       f32   0.00e+00  0.00e+00  5e-06  ok
one.onnx: byte 18: error: dimension 0 of `x` is 2, and Squeeze takes away dimensions of 1
  in a node (Squeeze)
one.json:1:168: error: dimension 0 of `x` is B, which Squeeze takes away if it is 1
  ..., "shape": [1], "data": [0]}}, "nodes": [{"op": "Squeeze", "inputs": ["x", "axis"], "outputs": ["s"]}, {"op": "Relu", "inputs": ["s"], "outputs": ["y"...
                                                                                ^
hint: bind the symbol, or say so by its `min` and `max`
[exit 1]
