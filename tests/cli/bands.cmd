# Bands of rows of tiles that are not whole: the last one has 3, 5, 1 and 7 rows, which a block finds its tile by without dividing.
$ echo '{"inputs": {"A": {"type": "e4m3", "shape": ["M", 64], "align": 16}, "B": {"type": "e4m3", "shape": [64, 224], "align": 16, "strides": [1, 64]}, "s": {"type": "f32", "shape": []}}, "nodes": [{"op": "DequantizeLinear", "inputs": ["A", "s"], "outputs": ["a"]}, {"op": "DequantizeLinear", "inputs": ["B", "s"], "outputs": ["b"]}, {"op": "MatMul", "inputs": ["a", "b"], "outputs": ["D"]}], "outputs": ["D"]}' > g.json; for m in 700 300 1090 450; do adlgen run g.json --gpu h100 --on sim --check --dim M=$m --set bm=64 --set bn=32 --set split_k=1 --set swapped=0 | tail -1; done
D       f32   7.55e-05  9.08e-04  2e-03  ok
D       f32   7.53e-05  9.08e-04  2e-03  ok
D       f32   7.57e-05  9.08e-04  2e-03  ok
D       f32   7.51e-05  9.08e-04  2e-03  ok
