# needs ptxas
# Results of functions behind tiles in turn: whoever keeps the sum's registers from tile to tile spills here.
$ for t in bf16 e4m3; do echo '{"inputs": {"A": {"type": "'$t'", "shape": [8192, 2048], "align": 16}, "B": {"type": "'$t'", "shape": [2048, 8192], "align": 16, "strides": [1, 2048]}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["d"], "attributes": {"accumulate": "fast"}}, {"op": "Gelu", "inputs": ["d"], "outputs": ["e"]}, {"op": "Cast", "inputs": ["e"], "outputs": ["D"], "attributes": {"to": "bf16"}}], "outputs": ["D"]}' > $t.json; adlgen compile $t.json --gpu h100 --set bm=128 --set bn=192 --set pingpong=2 --set swapped=0 --set blocks=1 --emit cubin --out o | awk '/128x192/ {print $1, "spills", $(NF-1)}' | head -1; done
matmul_gelu_cast_bf16_m8192n8192k2048_128x192x64 spills 0
matmul_gelu_cast_e4m3_bf16_m8192n8192k2048_128x192x128 spills 0

# A residual of f32 takes registers too.
$ echo '{"inputs": {"A": {"type": "e4m3", "shape": [8192, 2048], "align": 16}, "B": {"type": "e4m3", "shape": [2048, 8192], "align": 16, "strides": [1, 2048]}, "R": {"type": "f32", "shape": [8192, 8192], "align": 16}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["d"], "attributes": {"accumulate": "fast"}}, {"op": "Add", "inputs": ["d", "R"], "outputs": ["e"]}, {"op": "Relu", "inputs": ["e"], "outputs": ["D"]}], "outputs": ["D"]}' > r.json; adlgen compile r.json --gpu h100 --set bm=128 --set bn=192 --set pingpong=2 --set swapped=0 --set blocks=1 --emit cubin --out o | awk '/128x192/ {print $1, "spills", $(NF-1)}' | head -1
matmul_add_relu_e4m3_f32_m8192n8192k2048_128x192x128 spills 0

# Chains of several operations that end in an exchange of lanes: computed all together they took 255 registers and spilled.
$ echo '{"inputs": {"A": {"type": "bf16", "shape": ["M", "K"], "align": 16}, "B": {"type": "bf16", "shape": ["N", "K"], "align": 16}}, "dims": {"M": {"min": 513, "multiple": 16}, "N": {"multiple": 16}, "K": {"min": 16, "multiple": 16}}, "nodes": [{"op": "Gemm", "inputs": ["A", "B"], "outputs": ["P"], "attributes": {"transB": 1}}, {"op": "Swish", "inputs": ["P"], "outputs": ["D"]}], "outputs": ["D"]}' > s.json; for k in 32 64; do adlgen compile s.json --gpu a100 --set bm=64 --set bn=128 --set bk=$k --emit cubin --out o | awk '/64x128/ {print $1, $(NF-3), "registers, spills", $(NF-1)}' | head -1; done
gemm_swish_bf16_64x128x32 150 registers, spills 0
gemm_swish_bf16_64x128x64 164 registers, spills 0
