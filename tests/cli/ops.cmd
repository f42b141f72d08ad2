$ adlgen ops | head -8
operator                          domain         since  types
MatMul                            ai.onnx            7  f64 f32 tf32 f16 bf16 e4m3 e5m2 s8 u8
MatMulInteger                     ai.onnx           10  s8 u8
Gemm                              ai.onnx           11  f64 f32 tf32 f16 bf16 e4m3 e5m2 s8 u8
Gemm                              ai.onnx            7  f64 f32 tf32 f16 bf16 e4m3 e5m2 s8 u8
Gemm                              ai.onnx            6  f64 f32 tf32 f16 bf16
GroupedMatMul                     adlgen             7  f32 f16 bf16 e4m3 e5m2
Attention                         ai.onnx           25  f32 tf32 f16 bf16

$ adlgen ops | grep -c .
272

$ adlgen ops --json | validate ops
valid

$ adlgen ops MatMul
error: adlgen ops: unexpected argument MatMul
[exit 2]
