# Template parameters that are forced: values they cannot have, and what follows from other things, are refused by name.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 192], "align": 16}, "w": {"type": "bf16", "shape": [192, 384], "align": 16}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]}' > product.json

$ for set in bm=0 split_k=0 pingpong=0 cluster_m=99 stages=65 persistent=2 bm=99999999999 bm=wide bm =3 ; do adlgen compile product.json --gpu h100 --set $set --emit ptx --out out || echo exit $?; done
error: --set bm=0: bm is from 1 to 65535
exit 1
error: --set split_k=0: split_k is from 1 to 16
exit 1
error: --set pingpong=0: pingpong is from 1 to 8
exit 1
error: --set cluster_m=99: cluster_m is from 1 to 16
exit 1
error: --set stages=65: stages is from 2 to 64 or from 1 to 8 or from 1 to 16
exit 1
error: --set persistent=2: persistent is from 0 to 1
exit 1
error: --set bm=99999999999: bm is from 1 to 65535
exit 1
error: --set bm=wide: a parameter's name, = and a whole number are wanted
hint: such as --set bm=128
exit 1
error: --set needs NAME=VALUE, not "bm"
exit 2
error: --set needs NAME=VALUE, not "=3"
exit 2

$ for set in ta=f16 one_row=1 promote=1; do adlgen compile product.json --gpu h100 --set $set --emit ptx --out out || echo exit $?; done
error: --set ta=f16: ta follows from the graph's types and cannot be set
exit 1
error: --set one_row=1: one_row follows from the rows that the variant's guard admits and cannot be set
hint: --dim fixes a dimension
exit 1
error: --set promote=1: promote follows from how products of 8-bit floats add up and cannot be set
hint: --accumulate exact or fast
exit 1

$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 64]}}, "constants": {"axis": {"type": "s64", "shape": [], "data": [1]}}, "nodes": [{"op": "CumSum", "inputs": ["x", "axis"], "outputs": ["y"]}], "outputs": ["y"]}' | adlgen run - --gpu h100 --on sim --dim M=2 --set reverse=1
error: --set reverse=1: reverse follows from the operator and cannot be set
[exit 1]

# `run` too says that a parameter is no kernel's.
$ adlgen run product.json --gpu a100 --on sim --dim M=2 --set cluster_m=2
error: --set cluster_m=2: no kernel of this graph has such a parameter, or may have that value
hint: adlgen compile --explain names the templates
[exit 1]

# A parameter of every variant is noted once.
$ adlgen compile product.json --gpu h100 --set bm=64 --set bn=64 --emit ptx --out out --explain | grep 'by --set'
  bm = 64 by --set
  bn = 64 by --set

# Blocks share a tile only of what TMA brings: bytes of B lie across k here, and rows of 48 fit no warpgroup MMA.
$ sed 's/bf16/s8/g; s/MatMul/MatMulInteger/' product.json > bytes.json

$ adlgen compile bytes.json --gpu h100 --set bm=64 --set bn=64 --set split_k=4 --emit ptx --out out
<embedded>/templates/gemm.ir:186:3: error: 4 blocks would share a tile, but threads copy its operands
    tiles %g, %m, %n, %from, %to, %begun in raster($slices > 1 ? $slices : $summed == 1 ? 1 : G, $one_row == 1 ? 1 : ceil_div(M, $bm), $one_column == 1 ...
    ^
hint: split_k 1, or a tile and operands that TMA copies and warpgroup MMAs take: --explain says what was rejected, --set swapped=1 swaps the operands; asked for: --set bm=64 --set bn=64 --set split_k=4
<embedded>/templates/gemm.ir: `adlgen templates show gemm` prints it
[exit 3]

$ adlgen compile product.json --gpu h100 --set swapped=0 --set bm=48 --set bn=64 --set split_k=2 --emit ptx --out out
<embedded>/templates/gemm.ir:186:3: error: 2 blocks would share a tile, but threads copy its operands
    tiles %g, %m, %n, %from, %to, %begun in raster($slices > 1 ? $slices : $summed == 1 ? 1 : G, $one_row == 1 ? 1 : ceil_div(M, $bm), $one_column == 1 ...
    ^
hint: split_k 1, or a tile and operands that TMA copies and warpgroup MMAs take: --explain says what was rejected, --set swapped=1 swaps the operands; asked for: --set swapped=0 --set bm=48 --set bn=64 --set split_k=2
<embedded>/templates/gemm.ir: `adlgen templates show gemm` prints it
[exit 3]

# So is a budget of SMs that the GPU does not have.
$ adlgen compile product.json --gpu h100 --sms 133 --emit ptx --out out
error: a budget of 133 SMs is more than the 132 of h100
[exit 1]

# A tile set by hand may be too large for the turns that the plan takes: then warpgroups share it.
$ sed 's/192, 384/1536, 24576/; s/192\]/1536]/' product.json > short.json

$ adlgen compile short.json --gpu h100 --dim M=4096 --set bm=128 --set bn=256 --emit ptx --out out | awk '/128x256x64/ {print $1, $6, $7, $8, $9, $10}'
matmul_bf16_m4096n24576k1536_128x256x64 4 producer + 8 consumer

$ adlgen compile short.json --gpu h100 --dim M=4096 --set bm=128 --set bn=256 --set pingpong=2 --emit ptx --out out
<embedded>/templates/gemm.ir:185:8: error: an accumulator of role 'consumer' takes 256 registers a thread, 1 more than the 255 a thread may have
  kernel gemm(A: tensor<$ta>[G, M, K], B: tensor<$tb>[G, K, N]) dims G: s32, M: s32, N: s32, K: s32 {
         ^
hint: a smaller tile, or more warps; asked for: --set bm=128 --set bn=256 --set pingpong=2
<embedded>/templates/gemm.ir: `adlgen templates show gemm` prints it
[exit 3]

# One value for each.
$ adlgen compile product.json --gpu h100 --set bm=64 --set bn=64 --set bm=128 --emit ptx --out out
error: --set bm=128: bm is set already, by --set bm=64
[exit 1]

$ adlgen compile product.json --gpu h100 --dim M=64 --dim M=128 --emit ptx --out out
error: dimension `M` is given two values
[exit 1]

# Blocks that have one tile take no turns, which the plan wanted for its own: results have the shared memory of one tile.
$ echo '{"name": "once", "inputs": {"a": {"type": "bf16", "shape": ["M", 328], "align": 16}, "b": {"type": "bf16", "shape": [328, 456], "align": 16, "strides": [1, 328]}, "bias": {"type": "bf16", "shape": [456], "align": 16}}, "nodes": [{"op": "MatMul", "inputs": ["a", "b"], "outputs": ["p"]}, {"op": "Add", "inputs": ["p", "bias"], "outputs": ["y"]}], "outputs": ["y"]}' > turns.json; adlgen compile turns.json --gpu h100 --no-tuned --dim M=9000 --set split_k=1 --set stream_k=1 --set persistent=0 --set bm=128 --set bn=112 --emit ptx --out out | sed -n '2s/  *-  *-$//p'
matmul_add_bf16_m9000n456k328_128x112x64  h100  gemm      128x112x64       5  4 producer + 8 consumer      384          -  211024

# Several behind commas.
$ adlgen compile product.json --gpu h100 --set bm=64,bn=64 --emit ptx --out out --explain | grep 'by --set'
  bm = 64 by --set
  bn = 64 by --set

$ adlgen compile product.json --gpu h100 --set bm=64,bm=128 --emit ptx --out out
error: --set bm=128: bm is set already, by --set bm=64
[exit 1]

# Blocks that share a head's keys tell each other by flags, of which there are so many: more rows have more warps.
$ echo '{"inputs": {"q": {"type": "bf16", "shape": ["B", 8, "S", 64]}, "k": {"type": "bf16", "shape": ["B", 8, "N", 64]}, "v": {"type": "bf16", "shape": ["B", 8, "N", 64]}}, "nodes": [{"op": "Attention", "inputs": ["q", "k", "v"], "outputs": ["y"]}], "outputs": ["y"]}' > attention.json

$ adlgen compile attention.json --gpu h100 --set rows=192 --emit ptx --out wide 2> refused || echo exit $?; sed 's/ir:[0-9]*:[0-9]*:/ir:/' refused
exit 3
<embedded>/templates/attention_decode.ir: error: `attention_posts` has 64 flags in a row; a pair of 12 warps each needs 144
        post %at
        ^
hint: a tile of fewer rows, which fewer warps share; asked for: --set rows=192
<embedded>/templates/attention_decode.ir: `adlgen templates show attention_decode` prints it

# A tile has one scale of the right operand along a step of k.
$ echo '{"name": "blocks", "inputs": {"A": {"type": "e4m3", "shape": [130, 256], "align": 16}, "As": {"type": "f32", "shape": [130, 2], "strides": [1, 132]}, "B": {"type": "e4m3", "shape": [512, 256], "align": 16}, "Bs": {"type": "f32", "shape": [4, 2]}}, "nodes": [{"op": "DequantizeLinear", "inputs": ["A", "As"], "outputs": ["a"], "attributes": {"axis": 1, "block_size": 128}}, {"op": "DequantizeLinear", "inputs": ["B", "Bs"], "outputs": ["b"], "attributes": {"block_shape": [128, 128]}}, {"op": "Gemm", "inputs": ["a", "b"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}' > blocks.json; adlgen compile blocks.json --gpu h100 --set bn=136 --emit ptx --out out 2>&1 | grep 'error\|hint'; adlgen run blocks.json --gpu h100 --on sim --set bn=64 --set bm=128 --check | tail -1
blocks.json:1:486: error: bn 136: columns of the right operand share a scale, 128 each, and a tile would have more than two
hint: bn that divides the block; asked for: --set bn=136
y       f32   1.23e-04  4.51e-03  2e-03  ok
