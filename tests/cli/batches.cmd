# Few batches leave most SMs without a tile of those that are best for many: they have variants of their own, for the same rows.
$ echo '{"inputs": {"A": {"type": "bf16", "shape": ["B", 128, 128], "align": 16}, "W": {"type": "bf16", "shape": ["B", 128, 128], "align": 16}}, "dims": {"B": {"min": 1, "max": 65536}}, "nodes": [{"op": "MatMul", "inputs": ["A", "W"], "outputs": ["D"]}], "outputs": ["D"]}' > g.json

$ adlgen compile g.json --gpu h100 --explain --emit ptx --out out | grep 'variant.*gemm'
  variant 1: template gemm, tile 64x32x64, guard: align(D) >= 16 && B <= 16
  variant 2: template gemm, tile 64x64x64, guard: align(D) >= 16 && B <= 128
  variant 3: template gemm, tile 128x128x64, guard: align(D) >= 16
  variant 4: template gemm, tile 128x128x32, guard: always

# Each is launched, and right.
$ for b in 2 16 17 129; do adlgen run g.json --gpu h100 --on sim --check --dim B=$b | sed -n '1s/, grid.*//p; $s/  */ /gp'; done
matmul: matmul_bf16_m128n128k128_64x32x64
D bf16 1.68e-03 1.53e-02 4e-03 ok
matmul: matmul_bf16_m128n128k128_64x32x64
D bf16 1.66e-03 1.56e-02 4e-03 ok
matmul: matmul_bf16_m128n128k128_64x64x64_turns
D bf16 1.66e-03 1.56e-02 4e-03 ok
matmul: matmul_bf16_m128n128k128_128x128x64_turns
D bf16 1.65e-03 1.56e-02 4e-03 ok

# No more of them than there can be batches, and none where the number is known.
$ sed s/65536/100/ g.json | adlgen compile - --gpu h100 --explain --emit ptx --out out | grep 'variant.*gemm'
  variant 1: template gemm, tile 64x32x64, guard: align(D) >= 16 && B <= 16
  variant 2: template gemm, tile 64x64x64, guard: align(D) >= 16
  variant 3: template gemm, tile 64x128x32, guard: always

$ adlgen compile g.json --gpu h100 --dim B=4 --explain --emit ptx --out out | grep 'variant.*gemm'
  variant 1: template gemm, tile 64x16x64, guard: align(D) >= 16
  variant 2: template gemm, tile 64x32x32, guard: always

# Dimensions of batches that do not merge, and those that do, count together.
$ sed 's/\["B", 128, 128\]/["B", 4, 128, 128]/g' g.json | adlgen compile - --gpu a100 --explain --emit ptx --out out | grep 'variant.*gemm'
  variant 1: template gemm, tile 64x32x128, guard: align(D) >= 16 && 4*B <= 16
  variant 2: template gemm, tile 128x128x64, guard: align(D) >= 16 && 4*B <= 128
  variant 3: template gemm, tile 128x128x32, guard: align(D) >= 16
  variant 4: template gemm, tile 128x128x32, guard: always

# Many large batches: blocks drift apart, less so with fewer slots, in turn, or where a tile is as wide as the result.
$ sed 's/128/"S"/g' g.json > s.json

$ for s in 64,512 512,512 512,256 32,1024; do adlgen compile s.json --gpu h100 --no-tuned --dim B=${s%,*} --dim S=${s#*,} --explain --emit ptx --out out | sed -n 's/^  kernel //p; s/.* a  *16384/a/p; s/.* a  *8192/a/p' | sed -n 1,2p; done
matmul_bf16_b64m512n512k512_128x128x64_turns
a bytes x 6
matmul_bf16_b512m512n512k512_128x128x64_turns
a bytes x 5
matmul_bf16_b512m256n256k256_64x256x64_turns
a bytes x 4
matmul_bf16_b32m1024n1024k1024_128x128x64_turns
a bytes x 6

# Few rows with short k: three blocks share an SM.
$ sed 's/"shape": \["B", 128, 128\]/"shape": ["B", "M", 128]/; s/"W": {"type": "bf16", "shape": \["B", 128, 128\]/"W": {"type": "bf16", "shape": ["B", 128, 2048]/' g.json | adlgen compile - --gpu h100 --no-tuned --dim B=64 --dim M=16 --emit ptx --out out | grep swapped
matmul_bf16_b64m16n2048k128_16x64x128_swapped  h100  gemm      16x64x128       3  4 producer + 4 consumer      256          -   61488       -     -
