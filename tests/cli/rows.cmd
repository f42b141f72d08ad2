# How LayerNorm of long rows of 16 bits is shared: clusters whose blocks have 128 KB of rows an SM under way, each thread 64 elements as they were loaded; a row that a block keeps takes no more than 96 KB an SM. Columns, threads, blocks an SM, blocks of a cluster.
$ echo '{"name": "ln", "inputs": {"x": {"type": "bf16", "shape": ["R", "C"], "align": 16}, "s": {"type": "bf16", "shape": ["C"], "align": 16}, "b": {"type": "bf16", "shape": ["C"], "align": 16}}, "nodes": [{"op": "LayerNormalization", "inputs": ["x", "s", "b"], "outputs": ["y"]}], "outputs": ["y"]}' > ln.json

$ for c in 8192 16384 24576 32768 65536 131072 262144; do adlgen compile ln.json --gpu h100 --dim C=$c --emit ptx --out out > log && f=$(grep -l "ld.global.v4" out/h100/*.ptx) && echo $c $(sed -n 's/^.reqnctapercluster \([0-9]*\).*/\1/p; s/^.maxntid \([0-9]*\).*/\1/p; s/^.minnctapersm //p' $f); rm -r out; done
8192 128 6
16384 256 3
24576 192 5 2
32768 128 8 4
65536 256 4 4
131072 256 4 8
262144 256 4 16
