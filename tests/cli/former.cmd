# Former names of parameters (ir/former.def): --set takes each for today's, the same kernels come out, and the page has the table.
$ sed -n 's/^FORMER("\(.*\)", "\(.*\)")$/\1 \2/p' $SRC/ir/former.def > names; sed -n 's/^| `\(.*\)` | `\(.*\)` |$/\1 \2/p' $SRC/docs/gemm.md | grep -Fxf names | diff names - && wc -l < names
9

# Exact sums of 8-bit floats have them all.
$ echo '{"inputs": {"A": {"type": "e4m3", "shape": ["M", 336], "align": 16}, "B": {"type": "e5m2", "shape": [336, 264], "align": 16, "strides": [1, 336]}, "s": {"type": "f32", "shape": []}}, "nodes": [{"op": "DequantizeLinear", "inputs": ["A", "s"], "outputs": ["a"]}, {"op": "DequantizeLinear", "inputs": ["B", "s"], "outputs": ["b"]}, {"op": "MatMul", "inputs": ["a", "b"], "outputs": ["d"]}, {"op": "Cast", "inputs": ["d"], "outputs": ["D"], "attributes": {"to": "bf16"}}], "outputs": ["D"]}' > g.json; while read former today; do for name in $former $today; do adlgen compile g.json --gpu h100 --dim M=321 --set bm=64 --set bn=64 --set swapped=0 --set $name=2 --emit ptx --out $name --explain 2>&1 | grep "by --set" | grep -v ' bm\| bn\| swapped' | cat; done; diff -r $former/h100 $today/h100 && echo the same; done < names
  cluster_n = 2 by --set
  cluster_n = 2 by --set
the same
  pingpong = 2 by --set
  pingpong = 2 by --set
the same
  warpgroups_n = 2 by --set
  warpgroups_n = 2 by --set
the same
  cluster_m = 2 by --set
  cluster_m = 2 by --set
the same
  stream_steps = 2 by --set
  stream_steps = 2 by --set
the same
  raster = 2 by --set
  raster = 2 by --set
the same
  reducers = 2 by --set
  reducers = 2 by --set
the same
  split_k = 2 by --set
  split_k = 2 by --set
the same
  stream_k = 2 by --set
  stream_k = 2 by --set
the same

# Both names of one parameter are one parameter set twice.
$ adlgen compile g.json --gpu h100 --set split=2 --set split_k=3 --emit ptx --out out
error: --set split_k=3: split_k is set already, by --set split=2
[exit 1]

# In .ir too.
$ printf 'adlgen-ir 1 tile\nkernel dots(A: tensor<f32>[8, K] align 16, D: tensor<f32>[8, 1]) dims K: s32 multiple 4 launch threads 128 {\n  tiles %%m, %%n in raster(8, 1) group 8 split 2 {\n    %%a: tile<f32>[1, 512] = load A[%%m, cluster_rank() * 512]\n    %%part: tile<f32>[1, 1] = reduce %%a with sum dim 1\n    %%sum: tile<f32>[1, 1] = combine %%part\n    if cluster_rank() < 1 {\n      store D[%%m, 0] <- %%sum\n    }\n  }\n}\n' > dots.ir; adlgen compile dots.ir --gpu a100 --emit ir --out out
dots.ir:3:3: error: 2 blocks would share a tile, but the description lists no clusters
    tiles %m, %n in raster(8, 1) group 8 split 2 {
    ^
hint: split_k 1, or a tile and operands that TMA copies and warpgroup MMAs take: --explain says what was rejected, --set swapped=1 swaps the operands
[exit 3]
