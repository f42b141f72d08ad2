# Exact sums of 8-bit floats on 64 rows that two warpgroups share, each with half of the columns: as the tile lies, and of swapped operands (swap-AB); scales of rows and columns, a residual.
$ echo '{"inputs": {"A": {"type": "e4m3", "shape": ["M", "K"], "align": 16}, "B": {"type": "e5m2", "shape": ["K", "N"], "align": 16, "strides": [1, "K"]}, "s": {"type": "f32", "shape": ["M", 1]}, "t": {"type": "f32", "shape": ["N"]}, "R": {"type": "bf16", "shape": ["M", "N"], "align": 16}}, "nodes": [{"op": "DequantizeLinear", "inputs": ["A", "s"], "outputs": ["a"]}, {"op": "DequantizeLinear", "inputs": ["B", "t"], "outputs": ["b"]}, {"op": "MatMul", "inputs": ["a", "b"], "outputs": ["d"]}, {"op": "Cast", "inputs": ["d"], "outputs": ["e"], "attributes": {"to": "bf16"}}, {"op": "Add", "inputs": ["e", "R"], "outputs": ["D"]}], "outputs": ["D"]}' > g.json; for s in "bn=256 --set swapped=1" "bn=192 --set swapped=0" "bn=64 --set warpgroups_n=2 --set swapped=0"; do for m in 63 321; do adlgen run g.json --gpu h100 --on sim --check --fixed --dim M=$m --dim N=264 --dim K=336 --set bm=64 --set split_k=1 --set pingpong=1 --set blocks=1 --set $s | tail -1; done; adlgen compile g.json --gpu h100 --dim M=321 --dim N=264 --dim K=336 --set bm=64 --set split_k=1 --set pingpong=1 --set blocks=1 --set $s --emit ir --out o --explain | grep 'instances:' | sort -u; done
D       bf16  1.85e-03  8.20e-02  4e-03  ok
D       bf16  1.78e-03  8.20e-02  4e-03  ok
    instances: role consumer is 2 warpgroups with 128 columns each
D       bf16  1.85e-03  8.20e-02  4e-03  ok
D       bf16  1.78e-03  8.20e-02  4e-03  ok
    instances: role consumer is 2 warpgroups with 96 columns each
D       bf16  1.85e-03  8.20e-02  4e-03  ok
D       bf16  1.78e-03  8.20e-02  4e-03  ok
    instances: role consumer is 2 warpgroups with 32 columns each
