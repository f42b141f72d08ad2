# GPUs that lack what kernels like best: other kernels, which are right.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": [256, 128], "align": 16}, "w": {"type": "bf16", "shape": [128, 192], "align": 16}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]}' > product.json

$ echo '{"inputs": {"x": {"type": "e4m3", "shape": [128, 128], "align": 16}, "w": {"type": "e4m3", "shape": [128, 192], "align": 16}}, "nodes": [{"op": "Gemm", "inputs": ["x", "w", ""], "outputs": ["y"], "attributes": {"transA": 1}}], "outputs": ["y"]}' > across.json

$ printf 'adl: 1\nname: narrow\nextends: h100\nsource: "a test file"\nfamilies: {tma: {swizzles: [64 B], box_max: 32}}\nlimits: {named_barriers: 2}\n' > narrow.yaml

$ printf 'adl: 1\nname: plain\nextends: h100\nsource: "a test file"\nfamilies: {matrix_load: {transpose: false}, mbarrier: {arrivals_max: 4}}\n' > plain.yaml

# boxes of 32 elements a side, swizzles of 64 bytes
$ adlgen compile product.json --gpu narrow.yaml --set bm=128 --set bn=64 --emit ir --print-after split_roles --out out | tail -1
files are under out: narrow/

$ grep -h '^ *map @map_[AB]' out/narrow/*split_roles.ir
  map @map_A of A box [1, 32, 32] swizzle 64
  map @map_B of B box [1, 32, 32] swizzle 64
  map @map_A of A box [1, 32, 32] swizzle 64
  map @map_B of B box [1, 32, 32] swizzle 64

$ adlgen run product.json --gpu narrow.yaml --on sim --check --set bm=128 --set bn=64 | tail -1
y       bf16  1.66e-03  1.56e-02  4e-03  ok

# bytes that lie across k pass through registers by matrices that are transposed, or not at all
$ adlgen compile across.json --gpu plain.yaml --explain --emit ptx --out out | grep 'rejected' | sort -u
    stores of out_a: TMA copies rejected: base or strides are not known to be multiples of 16 bytes

$ adlgen run across.json --gpu plain.yaml --on sim --check | tail -1
y       f32   1.27e-04  1.53e-02  2e-03  ok
