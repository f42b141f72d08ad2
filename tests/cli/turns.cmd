# Warpgroups in turn: where the products are long enough to hide it, results leave in narrow parts, one at a time, and the ring has five slots.
$ for k in 1536 512; do for n in 24576 24578; do echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", '$k'], "align": 16}, "w": {"type": "bf16", "shape": ['$n', '$k'], "align": 16}}, "nodes": [{"op": "Gemm", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]}' > $n-$k.json; done; done

$ for f in 24576-1536 24576-512 24578-1536; do adlgen compile $f.json --gpu h100 --no-tuned --dim M=4096 --set bm=128 --set bn=176 --set pingpong=2 --set swapped=0 --emit ptx --out out | sed -n '2s/ *$//p'; done
gemm_bf16_m4096n24576k1536_128x176x64  h100  gemm      128x176x64       5  4 producer + 8 consumer      384          -  219216       -     -
gemm_bf16_m4096n24576k512_128x176x64  h100  gemm      128x176x64       4  4 producer + 8 consumer      384          -  204864       -     -
gemm_bf16_m4096n24578k1536_128x176x64  h100  gemm      128x176x64       4  4 producer + 8 consumer      384          -  204864       -     -

# Arithmetic takes longer: as before.
$ sed 's/"outputs": \["y"\], "attributes"/"outputs": ["p"], "attributes"/; s/}}\], "outputs"/}}, {"op": "Gelu", "inputs": ["p"], "outputs": ["y"]}], "outputs"/' 24576-1536.json > gelu.json; adlgen compile gelu.json --gpu h100 --no-tuned --dim M=4096 --set bm=128 --set bn=176 --set pingpong=2 --set swapped=0 --emit ptx --out out | sed -n '2s/ *$//p'
gemm_gelu_bf16_m4096n24576k1536_128x176x64  h100  gemm      128x176x64       4  4 producer + 8 consumer      384          -  204864       -     -
