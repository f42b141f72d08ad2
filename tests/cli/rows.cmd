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

# Places of extrema, masked ends and several results take registers beyond what is counted: such rows have fewer blocks an SM, which the passes say to be few enough, or are read in passes; none is refused.
$ for x in bf16:65537 bf16:128256 bf16:128257 bf16:151937 bf16:262143 f32:200019 s8:50257 s8:151936; do echo '{"inputs": {"x": {"type": "'${x%:*}'", "shape": ["R", '${x#*:}'], "align": 16}}, "nodes": [{"op": "ArgMax", "inputs": ["x"], "outputs": ["y"], "attributes": {"axis": -1}}], "outputs": ["y"]}' > arg.json; adlgen compile arg.json --gpu h100,a100 --emit ptx --out out > log && echo $x $(sed -n 's/^.minnctapersm //p' out/*/*.ptx); rm -r out; done
bf16:65537 1 4
bf16:128256 1 3
bf16:128257 1 5
bf16:151937 1 4
bf16:262143 1 2
f32:200019 1 3
s8:50257 1 5
s8:151936 1 4

$ echo '{"inputs": {"x": {"type": "f16", "shape": ["R", 4099], "align": 16}}, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["h"]}, {"op": "ArgMax", "inputs": ["h"], "outputs": ["y"], "attributes": {"axis": -1}}, {"op": "ArgMin", "inputs": ["h"], "outputs": ["z"], "attributes": {"axis": -1}}], "outputs": ["y", "z"]}' > both.json

$ adlgen run both.json --gpu h100 --on sim --check --dim R=3 | grep -c "exact  ok"
2

$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["R", 4097], "align": 16}, "b": {"type": "bf16", "shape": [4097], "align": 16}, "s": {"type": "bf16", "shape": [4097], "align": 16}}, "constants": {"axes": {"type": "s64", "shape": [1], "data": [-1]}}, "nodes": [{"op": "Add", "inputs": ["x", "b"], "outputs": ["h"]}, {"op": "LayerNormalization", "inputs": ["h", "s", "b"], "outputs": ["y"]}, {"op": "ReduceMax", "inputs": ["h", "axes"], "outputs": ["z"]}], "outputs": ["y", "z"]}' > norm.json

$ adlgen run norm.json --gpu h100 --on sim --check --dim R=3 | grep -c "  ok"
2

$ adlgen compile norm.json --gpu a100 --emit ptx --out out > log

# Losses alone of 16 bits are read in chunks where there are rows enough to fill the GPU: those that would be a second turn of long chunks by shorter ones. Lengths that use SMs as well where rows stay, f32, few rows and losses whose mean is exact keep what they had, and so does what --set says of threads.
$ for x in bf16:8192 bf16:32000 f16:50257 f32:50257 bf16:128256 bf16:1000000; do echo '{"name": "ce", "inputs": {"X": {"type": "'${x%:*}'", "shape": ["R", '${x#*:}'], "align": 16}, "T": {"type": "s64", "shape": ["R"]}}, "nodes": [{"op": "SoftmaxCrossEntropyLoss", "inputs": ["X", "T"], "outputs": ["L"], "attributes": {"reduction": "none"}}], "outputs": ["L"]}' > ce_$x.json; adlgen compile ce_$x.json --gpu h100 --emit ptx --out out --explain > log && echo $x $(sed -n 's/^  variant [0-9]*: template row, tile \([^,]*\), guard/\1/p' log); rm -r out; done
bf16:8192 1x8192: always
bf16:32000 passes8192: R >= 1189 passes4096: R >= 792 1x32768: always
f16:50257 passes8192: R >= 1189 passes4096: R >= 528 cluster8: always
f32:50257 cluster8: always
bf16:128256 passes8192: R >= 1189 passes4096: R >= 528 cluster8: always
bf16:1000000 passes8192: always

$ for d in R=300 R=700 R=2608; do adlgen compile ce_f16:50257.json --gpu h100 --dim $d --emit ptx --out out --explain > log && echo $d $(sed -n 's/^  variant [0-9]*: template row, tile \([^,]*\), guard/\1/p' log); done
R=300 cluster8: always
R=700 passes4096: always
R=2608 passes8192: always

$ adlgen compile ce_f16:50257.json --gpu h100 --set threads=128 --emit ptx --out out --explain | sed -n 's/^  variant [0-9]*: template row, tile \([^,]*\), guard/\1/p'
cluster8: always

$ sed 's/"none"/"mean"/' ce_f16:50257.json > mean.json

$ adlgen compile mean.json --gpu h100 --emit ptx --out out --explain | sed -n 's/^  variant [0-9]*: template row, tile \(cl[^,]*\), guard/\1/p'
cluster8: always

$ for c in 4103 12288; do sed 's/32000/'$c'/' ce_bf16:32000.json > few.json; adlgen run few.json --gpu h100 --on sim --check --dim R=2 --set form=passes --set cols=4096 --set chunk=4096 --set threads=128 | grep -c "  ok"; done
1
1

# Exponentials of scores far below their row's largest are 0 in kernels, results that are less than a normal number in the reference.
$ echo '{"inputs": {"X": {"type": "f32", "shape": [2, 130]}}, "constants": {"S": {"type": "f32", "shape": [130], "data": [0, '$(LC_ALL=C seq -s ', ' -85.1 -0.2 -110.75)']}}, "nodes": [{"op": "Add", "inputs": ["X", "S"], "outputs": ["Z"]}, {"op": "Softmax", "inputs": ["Z"], "outputs": ["Y"]}], "outputs": ["Y"]}' | adlgen run - --gpu h100 --on sim --check | grep '^Y'
Y       f32   1.52e-38  8.28e-39  5e-06  ok

# A class's element is asked for beside the maximum, and the loss computed behind the gradient's stores, where registers are left for them: 40 elements a thread and what a kernel has fill seven blocks' 56.
$ for c in 32000 100352; do echo '{"name": "ce", "inputs": {"X": {"type": "bf16", "shape": ["R", '$c'], "align": 16}, "T": {"type": "s64", "shape": ["R"]}, "G": {"type": "bf16", "shape": ["R"]}}, "nodes": [{"op": "SoftmaxCrossEntropyLoss", "inputs": ["X", "T"], "outputs": ["L"], "attributes": {"reduction": "none"}}, {"op": "SoftmaxCrossEntropyLossGradient", "domain": "adlgen", "inputs": ["G", "X", "T"], "outputs": ["DX"], "attributes": {"reduction": "none"}}], "outputs": ["L", "DX"]}' >ce.json; rm -rf out; adlgen compile ce.json --gpu h200 --emit ptx --out out >log && sed -n 's/.*\(st.global[.a-z0-9]*\).*/\1/p; s/.*minnctapersm \(.*\)/\1 blocks/p' $(ls out/h200/*.ptx | head -1) | uniq | tr '\n' ' ' | sed "s/^/$c: /; s/ $/\n/"; done
32000: 8 blocks st.global.v4.b32 st.global.b16
100352: 7 blocks st.global.b16 st.global.v4.b32
