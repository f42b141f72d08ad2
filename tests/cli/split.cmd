# Blocks of a cluster share a tile: any number of them, of which as many finish a part as its columns have parts.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 2048], "align": 16}, "w": {"type": "bf16", "shape": [576, 2048], "align": 16}}, "dims": {"M": {"min": 1, "max": 64}}, "nodes": [{"op": "Gemm", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}' > few.json

$ adlgen compile few.json --gpu h100 --set swapped=0 --set bm=64 --set bn=64 --set bk=64 --set stages=4 --set split_k=4 --explain --emit ptx --out out | grep 'share a tile'
    4 blocks share a tile: each adds up 16 of its columns

$ adlgen compile few.json --gpu h100 --set swapped=0 --set bm=64 --set bn=64 --set bk=64 --set stages=4 --set split_k=7 --explain --emit ptx --out out | grep 'share a tile'
    7 blocks share a tile: parts of 16 columns are added up in 4 of them

$ adlgen compile few.json --gpu h100 --set swapped=1 --set bm=64 --set bn=8 --set stages=4 --set split_k=3 --explain --emit ptx --out out | grep 'share a tile'
    3 blocks share a tile: parts of 8 columns are added up in 1 of them
    3 blocks share a tile: parts of 8 columns are added up in 1 of them

# A budget of SMs holds for blocks that share tiles too: they all run at once.
$ adlgen compile few.json --gpu h100 --sms 36 --set swapped=0 --set bm=64 --set bn=64 --set bk=64 --set stages=4 --set split_k=4 --emit ptx --out out | grep -c ptx
0
[exit 1]

$ adlgen compile few.json --gpu h100 --sms 35 --set swapped=0 --set bm=64 --set bn=64 --set bk=64 --set stages=4 --set split_k=4 --emit ptx --out out
few.json:1:178: error: 4 blocks of each tile of up to 8 rows are up to 36 blocks, more than the 35 SMs of --sms
  ...576, 2048], "align": 16}}, "dims": {"M": {"min": 1, "max": 64}}, "nodes": [{"op": "Gemm", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"tran...
                                                                                ^
hint: leave out split_k, or fix the number of rows (--dim) so that fewer blocks are needed; asked for: --set swapped=0 --set bm=64 --set bn=64 --set bk=64 --set stages=4 --set split_k=4
[exit 3]

# What is set by hand takes the place of the other way of sharing tiles that the model would choose: here slices, which
# are for their tile only.
$ sed 's/2048/12672/g; s/576/1680/g; s/"max": 64/"max": 1024/' few.json > rows.json

$ adlgen compile rows.json --gpu h100 --no-tuned --dim M=128 --emit ir --out out >/dev/null; grep -h 'bound \(split_k\|slices\)' $(ls out/h100/*x64*.ir | head -1)
bound split_k: int = 1
bound slices: int = 6

$ adlgen compile rows.json --gpu h100 --no-tuned --dim M=128 --set bm=128 --set bn=192 --set split_k=4 --emit ir --out out >/dev/null; grep -h 'bound \(split_k\|slices\)' $(ls out/h100/*192x64*.ir | head -1)
bound split_k: int = 4
bound slices: int = 1

$ adlgen compile rows.json --gpu h100 --no-tuned --dim M=128 --set bm=128 --set bn=192 --set cluster_m=2 --emit ir --out out >/dev/null; grep -h 'bound \(split_k\|slices\|cluster_m\)' $(ls out/h100/*192x64*.ir | head -1)
bound cluster_m: int = 2
bound split_k: int = 1
bound slices: int = 1

# Sums of threads need clusters just the same.
$ printf 'adlgen-ir 1 tile\nkernel dots(A: tensor<f32>[8, K] align 16, D: tensor<f32>[8, 1]) dims K: s32 multiple 4 launch threads 128 {\n  tiles %%m, %%n in raster(8, 1) split_k 2 {\n    %%a: tile<f32>[1, 512] = load A[%%m, cluster_rank() * 512]\n    %%part: tile<f32>[1, 1] = reduce %%a with sum dim 1\n    %%all: tile<f32>[1, 1] = combine %%part\n    if cluster_rank() < 1 {\n      store D[%%m, %%n] <- %%all\n    }\n  }\n}\n' > dots.ir

$ adlgen compile dots.ir --gpu a100 --emit ir --out out
dots.ir:3:3: error: 2 blocks would share a tile, but the description lists no clusters
    tiles %m, %n in raster(8, 1) split_k 2 {
    ^
hint: split_k 1, or a tile and operands that TMA copies and warpgroup MMAs take: --explain says what was rejected, --set swapped=1 swaps the operands
[exit 3]

$ adlgen compile dots.ir --gpu h100 --emit ptx --out out | tail -1
files are under out: h100/
