# Layers of one kind have one list of kernels, whatever their tensors are called: the first layer, which reads an input
# of the graph, those between, and the last.
$ for n in 1 2 3 32; do python3 $SRC/tests/cli/layers.py $n | adlgen compile - --gpu h100 --emit ir,ptx --out $n >/dev/null; ls $n/h100/*.ptx | wc -l >$n/kernels; done; echo $(($(cat 32/kernels) - $(cat 2/kernels))) more than two layers have, $(($(cat 32/kernels) < $(cat 1/kernels) * 3 / 2))
0 more than two layers have, 1

$ diff -r -x plan.json 3/h100 32/h100

$ python3 -c "import json, glob; p = json.load(open('32/h100/plan.json'))['launches']; v = [x for l in p for x in l.get('variants', [])]; print(len(p), 'launches,', len({x['kernel'] for x in v}) == len(glob.glob('32/h100/*.ptx'))); a, b = p[5], p[92]; print(a['variants'][0]['guard'], [x['tensor'] for x in a['variants'][0]['arguments'] if 'tensor' in x], b['like'], b['tensors'], sep='\n')"
96 launches, True
align(h1) >= 16 && align(down1) >= 16 && align(y0) >= 16 && align(y1) >= 16 && T <= 8
['down1', 'h1', 'y0', 'y1', 'down1', 'h1', 'h1']
5
{'down1': 'down30', 'y0': 'y29', 'h1': 'h30', 'y1': 'y30'}

$ python3 $SRC/tests/cli/layers.py 3 | adlgen compile - --gpu h100 --emit ptx --explain --out out | grep -B1 'the same variants'
matmul_swish_matmul_mul_1
  the same variants and kernels as matmul_swish_matmul_mul
--
rmsnormalization_2
  the same variants and kernels as rmsnormalization_1
matmul_swish_matmul_mul_2
  the same variants and kernels as matmul_swish_matmul_mul
matmul_add_2
  the same variants and kernels as matmul_add_1

# Names of kernels are their own: of a graph whose symbol has another name, or that has other operators in front, and
# with any number of threads.
$ python3 $SRC/tests/cli/layers.py 3 Rows | adlgen compile - --gpu h100 --emit ir,ptx --out rows --jobs 1 >/dev/null; diff -r -x plan.json 3/h100 rows/h100

$ python3 $SRC/tests/cli/layers.py 3 T Relu MatMul | adlgen compile - --gpu h100 --emit ir,ptx --out front >/dev/null; for f in 3/h100/*.ptx; do cmp $f front/h100/$(basename $f); done; ls front/h100 3/h100 | sort | uniq -c | awk '$1 == 1 {print $2}' | sed -n 's/_.*ptx//p' | sort -u
matmul
relu

# Operators that differ in what their names do not tell have digits of it in their names.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 64], "align": 16}, "y": {"type": "bf16", "shape": ["M", 64], "strides": [72, 1]}}, "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["a"]}, {"op": "Softmax", "inputs": ["y"], "outputs": ["b"]}], "outputs": ["a", "b"]}' | adlgen compile - --gpu h100 --emit ptx --out digits >/dev/null; ls digits/h100/*.ptx | sed 's/_[0-9a-f]*.ptx$/_DIGITS/' | sort
digits/h100/softmax_bf16_c64_32x64_2_DIGITS
digits/h100/softmax_bf16_c64_32x64_2_DIGITS
digits/h100/softmax_bf16_c64_32x64_DIGITS
digits/h100/softmax_bf16_c64_32x64_DIGITS
