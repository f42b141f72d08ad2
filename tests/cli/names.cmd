# What the field calls operators and attributes: case first, then a table of other names, then what is spelt nearly alike.
$ for name in Silu SiLU silu torch.nn.functional.silu aten::addmm_ aten.add.Tensor aten.silu.default LayerNorm layer_norm FusedLayerNorm RMSNorm SwiGLU GLU Linear nn.Linear Dense Conv2d conv bmm BatchMatMul matmul MATMUL SDPA scaled_dot_product_attention RELU ReLU relu6 gelu_tanh gelu_new FastGelu Dequantize dequantize_linear add plus HSwish hardswish LogSigmoid Softmx Sofmax LeakyReLU clamp rsqrt cat permute softmax_op GELU_forward Tanhh Quux x MaxPol _ ::; do printf '{"inputs": {"x": {"type": "f32", "shape": [4]}}, "nodes": [{"op": "%s", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' "$name" | adlgen compile - --gpu h100 --out out 2>errors; echo "exit $? $name: $(sed -n 's/hint: //p' errors)"; done
exit 1 Silu: did you mean `Swish` (with its default alpha of 1)?
exit 1 SiLU: did you mean `Swish` (with its default alpha of 1)?
exit 1 silu: did you mean `Swish` (with its default alpha of 1)?
exit 1 torch.nn.functional.silu: did you mean `Swish` (with its default alpha of 1)?
exit 1 aten::addmm_: did you mean `Gemm` (its inputs are A, B, C)?
exit 1 aten.add.Tensor: did you mean `Add`?
exit 1 aten.silu.default: did you mean `Swish` (with its default alpha of 1)?
exit 1 LayerNorm: did you mean `LayerNormalization`?
exit 1 layer_norm: did you mean `LayerNormalization`?
exit 1 FusedLayerNorm: did you mean `LayerNormalization`?
exit 1 RMSNorm: did you mean `RMSNormalization`?
exit 1 SwiGLU: set `opset` to 28 or more
exit 1 GLU: write Split into two halves, Sigmoid of the second, and Mul with the first
exit 1 Linear: did you mean `Gemm` (weights of shape [out, in] take transB: 1; MatMul and Add where x has more dimensions)?
exit 1 nn.Linear: did you mean `Gemm` (weights of shape [out, in] take transB: 1; MatMul and Add where x has more dimensions)?
exit 1 Dense: did you mean `Gemm` (weights of shape [out, in] take transB: 1; MatMul and Add where x has more dimensions)?
exit 1 Conv2d: did you mean `Conv`? It is not supported: `adlgen ops` lists what is
exit 1 conv: did you mean `Conv`? It is not supported: `adlgen ops` lists what is
exit 1 bmm: did you mean `MatMul` (leading dimensions are batches)?
exit 1 BatchMatMul: did you mean `MatMul` (leading dimensions are batches)?
exit 1 matmul: did you mean `MatMul`?
exit 1 MATMUL: did you mean `MatMul`?
exit 1 SDPA: did you mean `Attention`?
exit 1 scaled_dot_product_attention: did you mean `Attention`?
exit 1 RELU: did you mean `Relu`?
exit 1 ReLU: did you mean `Relu`?
exit 1 relu6: did you mean `Clip` (between 0 and 6)?
exit 1 gelu_tanh: did you mean `Gelu` (with approximate "tanh")?
exit 1 gelu_new: did you mean `Gelu` (with approximate "tanh")?
exit 1 FastGelu: did you mean `Gelu` (with approximate "tanh")?
exit 1 Dequantize: did you mean `DequantizeLinear`?
exit 1 dequantize_linear: did you mean `DequantizeLinear`?
exit 1 add: did you mean `Add`?
exit 1 plus: did you mean `Add`?
exit 1 HSwish: did you mean `HardSwish`?
exit 1 hardswish: did you mean `HardSwish`?
exit 1 LogSigmoid: write Neg of Softplus of Neg; Log of Sigmoid overflows
exit 1 Softmx: did you mean `Softmax`?
exit 1 Sofmax: did you mean `Softmax`?
exit 1 LeakyReLU: did you mean `LeakyRelu`?
exit 1 clamp: did you mean `Clip`?
exit 1 rsqrt: write Reciprocal of Sqrt: they are one kernel
exit 1 cat: did you mean `Concat`?
exit 1 permute: did you mean `Permute`?
exit 1 softmax_op: did you mean `Softmax`?
exit 1 GELU_forward: did you mean `Gelu`?
exit 1 Tanhh: did you mean `Tanh`?
exit 1 Quux: `adlgen ops` lists the operators
exit 1 x: `adlgen ops` lists the operators
exit 1 MaxPol: did you mean `MaxPool`?
exit 1 _: `adlgen ops` lists the operators
exit 1 ::: `adlgen ops` lists the operators

# Known to ONNX, but not supported: exit 3 as ever, with how else it is written where that is known.
$ for node in '"Conv", "inputs": ["x", "x"]' '"NonZero", "inputs": ["x"]'; do printf '{"inputs": {"x": {"type": "f32", "shape": [4]}}, "nodes": [{"op": %s, "outputs": ["y"]}], "outputs": ["y"]}' "$node" | adlgen compile - --gpu h100 --out out 2>errors; echo "exit $? ${node%%,*}: $(sed -n 's/hint: //p' errors)"; done
exit 3 "Conv": `adlgen ops` lists what is
exit 3 "NonZero": domain adlgen, which takes the number of columns as an attribute

$ for pair in LayerNormalization:eps LayerNormalization:dim LayerNormalization:Epsilon Gemm:transpose_b Gemm:trans_b Gemm:TRANSA LeakyRelu:negative_slope Cast:dtype Softmax:dim Gelu:approximation Gelu:tanh Relu:inplace; do printf '{"inputs": {"x": {"type": "f32", "shape": [4, 4]}}, "nodes": [{"op": "%s", "inputs": ["x", "x"], "outputs": ["y"], "attributes": {"%s": 1}}], "outputs": ["y"]}' "${pair%:*}" "${pair#*:}" | adlgen compile - --gpu h100 --out out 2>errors; echo "$pair: $(grep -A3 'no attribute' errors | sed -n 's/hint: //p')"; done
LayerNormalization:eps: did you mean `epsilon`?
LayerNormalization:dim: did you mean `axis`?
LayerNormalization:Epsilon: did you mean `epsilon`?
Gemm:transpose_b: did you mean `transB`?
Gemm:trans_b: did you mean `transB`?
Gemm:TRANSA: did you mean `transA`?
LeakyRelu:negative_slope: did you mean `alpha`?
Cast:dtype: did you mean `to`?
Softmax:dim: did you mean `axis`?
Gelu:approximation: did you mean `approximate`?
Gelu:tanh: its attributes: approximate
Relu:inplace: it takes none
