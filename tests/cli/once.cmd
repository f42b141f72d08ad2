# A block that has one tile: its results are staged in the slots of the ring, which has room for two more.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", "K"], "align": 16}, "w": {"type": "bf16", "shape": ["N", "K"], "align": 16}}, "nodes": [{"op": "Gemm", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}' > once.json

$ adlgen compile once.json --gpu h100 --no-tuned --dim M=256 --dim N=7168 --dim K=5120 --explain --emit ptx --out out | sed -n '/kernel gemm_.*_128/,/kernel.*any/p' | grep -m3 'shared memory:'
    shared memory:        0 a            16384 bytes x 7
    shared memory:   114688 b            14336 bytes x 7
    shared memory:        0 part         28672 bytes x 2

# Tiles that follow one another: staged beside the ring.
$ adlgen compile once.json --gpu h100 --no-tuned --dim M=256 --dim N=7168 --dim K=5120 --set persistent=1 --explain --emit ptx --out out | sed -n '/kernel gemm_.*_128/,/kernel.*any/p' | grep -m3 'shared memory:'
    shared memory:        0 part         28672 bytes x 2
    shared memory:    57344 a            16384 bytes x 5
    shared memory:   139264 b            14336 bytes x 5

# One tile more than SMs.
$ adlgen compile once.json --gpu h100 --no-tuned --dim M=256 --dim N=7448 --dim K=5120 --set bm=128 --set bn=112 --explain --emit ptx --out out | sed -n '/kernel gemm_.*_128/,/kernel.*any/p' | grep -m3 'shared memory:'
    shared memory:        0 part         28672 bytes x 2
    shared memory:    57344 a            16384 bytes x 5
    shared memory:   139264 b            14336 bytes x 5

# A budget of SMs is kept by walking.
$ adlgen compile once.json --gpu h100 --no-tuned --dim M=256 --dim N=7168 --dim K=5120 --sms 130 --explain --emit ptx --out out | sed -n '/kernel gemm_.*_128/,/kernel.*any/p' | grep -m3 'shared memory:'
    shared memory:        0 part         28672 bytes x 2
    shared memory:    57344 a            16384 bytes x 5
    shared memory:   139264 b            14336 bytes x 5
