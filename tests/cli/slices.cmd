# Blocks that are no cluster share tiles of a long k, slice by slice; the last slice's blocks add up what the others
# leave, in the order of k. Rows, columns and steps of k that no tile, no slice divides; more parts than a warp has lanes;
# clusters whose blocks share copies.
$ echo '{"name": "slices", "inputs": {"A": {"type": "bf16", "shape": [M, K], "align": 16}, "B": {"type": "bf16", "shape": [K, N], "align": 16, "strides": [1, K]}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["D"]}], "outputs": ["D"]}' > slices

$ sed 's/M, K/65, 520/; s/K, N/520, 72/; s/1, K/1, 520/' slices > edges.json; adlgen run edges.json --gpu h100 --on sim --set bm=64 --set bn=64 --set slices=4 --check | sed -n 's/.*\(grid .*\) x 1 x 1.*/\1/p; s/^D.* //p'
grid 16
ok

$ sed 's/M, K/2, 5128/; s/K, N/5128, 3/; s/1, K/1, 5128/' slices > tiny.json; adlgen run tiny.json --gpu h100 --on sim --set swapped=1 --set bm=64 --set bn=8 --set slices=37 --check | sed -n 's/.*\(grid .*\) x 1 x 1.*/\1/p; s/^D.* //p'
grid 37
ok

$ sed 's/M, K/130, 1032/; s/K, N/1032, 200/; s/1, K/1, 1032/' slices > clusters.json; adlgen run clusters.json --gpu h100 --on sim --set bm=64 --set bn=64 --set slices=3 --set cluster_m=2 --set cluster_n=2 --check | sed -n 's/.*\(grid .*\) x 1 x 1.*/\1/p; s/^D.* //p'
grid 48
ok

# Slices where tiles are few and k is long; the workspace that they take.
$ sed 's/M, K/512, 16384/; s/K, N/16384, 512/; s/1, K/1, 16384/' slices > long.json; adlgen compile long.json --gpu h100 --no-tuned --explain --emit ptx --out out | grep 'kernel.*slices\|workspace'
  kernel matmul_bf16_m512n512k16384_128x128x64_slices8
    blocks of several parts of k share each tile; workspace: 1056 x 8192 bytes

# What excludes slices is named.
$ adlgen compile long.json --gpu h100 --set slices=4 --set split_k=2 --emit ptx --out out 2>&1 | grep 'error\|hint'
<embedded>/templates/gemm.ir:44:7: error: parameter `slices` is 1 where `!batched && !grouped && !led && $split_k == 1 && $stream_k == 1 && $pingpong == 1` does not hold, not 4
hint: asked for: --set slices=4 --set split_k=2

$ adlgen compile long.json --gpu h100 --set bm=64 --set bn=64 --set slices=3 --emit ptx --out out 2>&1 | grep 'error\|hint'
long.json:1:183: error: 3 slices of each tile of up to 512 rows are up to 192 blocks, more than the 132 that run at once
hint: fewer slices, larger tiles, or fix the number of rows (--dim); asked for: --set bm=64 --set bn=64 --set slices=3

$ sed 's/M, K/5, 64, 4096/; s/K, N/5, 4096, 64/; s/1, K/262144, 1, 4096/' slices > batches.json; adlgen compile batches.json --gpu h100 --set slices=4 --emit ptx --out out 2>&1 | grep 'error\|hint'
<embedded>/templates/gemm.ir:44:7: error: parameter `slices` is 1 where `!batched && !grouped && !led && $split_k == 1 && $stream_k == 1 && $pingpong == 1` does not hold, not 4
hint: asked for: --set slices=4

# Warps that have parts of k of narrow weights have scales that TMA brings, and rows in parts of 16.
$ echo '{"name": "narrow", "inputs": {"x": {"type": "bf16", "shape": [16, 1536], "align": 16}, "w": {"type": "s4", "shape": [128, 1536], "align": 16}, "s": {"type": "bf16", "shape": [128, 4], "align": 16}}, "nodes": [{"op": "DequantizeLinear", "inputs": ["w", "s"], "outputs": ["d"], "attributes": {"axis": 1, "block_size": 384}}, {"op": "Gemm", "inputs": ["x", "d"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}' > narrow.json; for more in k_parts=2,parts_m=4 parts_m=4 scales=8; do adlgen compile narrow.json --gpu h100 --set by_warps=1,bm=64,bn=16,$more --emit ptx --out out 2>&1 | grep -o 'error: .*'; done
error: k_parts 2: the scales of a step lie at no multiples of 16 bytes, where TMA copies could bring them
error: parameter `parts_m` is 1 where `$k_parts > 1 && $bm == 16 * $parts_m || $k_parts == 1 && $parts_m == 1` does not hold, not 4
error: --set scales=8: scales follows from blocks and cannot be set

# Blocks of elementwise kernels are whole vectors.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": [5, 64]}}, "nodes": [{"op": "Gelu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' >g.json; adlgen compile g.json --gpu a100 --no-tuned --set block=12 --set vector=8 --emit ptx --out o
g.json:1:65: error: blocks of 12 elements are no whole vectors of 8
  {"inputs": {"x": {"type": "bf16", "shape": [5, 64]}}, "nodes": [{"op": "Gelu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}
                                                                  ^
hint: another `block` or `vector`; asked for: --set block=12 --set vector=8
[exit 3]

# Weights of 4 bits are widened ahead, as fourths, beside more than 32 rows, and where halves of k of 32 rows have an SM each.
$ for of in "32 28672 8192" "32 7168 8192" "32 4096 8192" "64 4096 8192" "64 28672 8192" "256 28672 8192"; do set -- $of; echo '{"name": "early", "inputs": {"x": {"type": "bf16", "shape": ['$1', '$3'], "align": 16}, "w": {"type": "s4", "shape": ['$2', '$3'], "align": 16}, "s": {"type": "bf16", "shape": ['$2', '$(($3 / 128))'], "align": 16}}, "nodes": [{"op": "DequantizeLinear", "inputs": ["w", "s"], "outputs": ["d"], "attributes": {"axis": 1, "block_size": 128}}, {"op": "Gemm", "inputs": ["x", "d"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}' > early.json; rm -rf early; adlgen compile early.json --gpu h200 --emit ptx --out early > text; echo "$of: $(grep -l 0x7F003E80 early/h200/*.ptx | sed 's/.*k8192_//')"; done
32 28672 8192: 
32 7168 8192: 
32 4096 8192: 32x64x128_blocks128_swapped_split2.ptx
64 4096 8192: 64x64x128_blocks128_swapped_split2.ptx
64 28672 8192: 64x64x128_blocks128_swapped.ptx
256 28672 8192: 
