# Few rows: the operands change places, in ranges of M of their own.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", "K"], "align": 16}, "w": {"type": "bf16", "shape": ["N", "K"], "align": 16}}, "nodes": [{"op": "Gemm", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}' > thin.json

$ adlgen compile thin.json --gpu h100 --no-tuned --dim N=28672 --dim K=4096 --explain --emit ptx --out out | grep -E 'variant.*M <= (8|16|32)$'
  variant 1: template gemm, tile 16x64x128, guard: align(y) >= 16 && M <= 16
  variant 2: template gemm, tile 32x64x128, guard: align(y) >= 16 && M <= 32

$ ls out/h100 | grep -E '_(8|32)x[^_]*_swapped.ptx$'
gemm_bf16_n28672k4096_32x64x128_swapped.ptx

# With warp MMAs too.
$ adlgen compile thin.json --gpu a100 --dim N=4096 --dim K=4096 --explain --emit ptx --out out | grep -E 'variant.*M <= (8|16|32)$'
  variant 1: template gemm, tile 8x32x128, guard: align(y) >= 16 && M <= 8
  variant 2: template gemm, tile 16x32x128, guard: align(y) >= 16 && M <= 16
  variant 3: template gemm, tile 32x64x128, guard: align(y) >= 16 && M <= 32

# Few tiles: k is split.
$ adlgen compile thin.json --gpu h100 --dim M=8 --dim N=576 --dim K=7168 --explain --emit ptx --out out | grep 'blocks share a tile'
    8 blocks share a tile: parts of 8 columns are added up in 1 of them

# By hand; two blocks an SM enter with half of its registers each.
$ adlgen compile thin.json --gpu h100 --dim M=8 --dim N=4096 --dim K=4096 --set swapped=1 --set bm=64 --set bn=16 --set bk=64 --set split_k=2 --set stages=4 --set blocks=2 --set persistent=0 --emit ptx --out out | sed -n '2s/ *$//p'
gemm_bf16_m8n4096k4096_16x64x64    h100  gemm      16x64x64       4  4 producer + 4 consumer      256          -   43080       -     -

$ grep -h -E 'maxnreg|minnctapersm' out/h100/gemm_*_16x64x64.ptx
.maxnreg 128
            setmaxnreg.dec.sync.aligned.u32 40;
            setmaxnreg.inc.sync.aligned.u32 216;

# No product takes f32: at most four rows are sums along k.
$ sed s/bf16/f32/g thin.json | adlgen compile - --gpu h100 --dim N=4096 --dim K=4096 --explain --emit ptx --out out | grep -E 'sums|variant 1'
gemm_f32_n4096k4096_1x8x512_sums  h100  gemv_rows  1x8x512        -  8 all      256          -       0       -     -
  M <= 4: sums along k, since no product instruction takes the types
  variant 1: template gemv_rows, tile 1x8x512, guard: align(y) >= 16 && M <= 4
  kernel gemm_f32_n4096k4096_1x8x512_sums
    gemm_f32_n4096k4096_1x8x512_sums: it needs 56 of 255 registers, 2 predicates

# Two products with a gate in one kernel take no tiles in turn.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 256]}, "u": {"type": "bf16", "shape": [256, 256]}, "w": {"type": "bf16", "shape": [256, 256]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "u"], "outputs": ["a"]}, {"op": "Swish", "inputs": ["a"], "outputs": ["g"]}, {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["b"]}, {"op": "Mul", "inputs": ["g", "b"], "outputs": ["y"]}], "outputs": ["y"]}' > gated.json

$ adlgen compile gated.json --gpu h100 --dim M=4096 --set pingpong=2 --emit ptx --out out
error: --set pingpong=2: no kernel of this graph has such a parameter, or may have that value
hint: adlgen compile --explain names the templates
[exit 1]
