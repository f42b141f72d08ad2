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
