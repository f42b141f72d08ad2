# The graph behind each pass of its reading and each rewrite of fusion.
$ printf '{"name": "net", "inputs": {"x": {"type": "bf16", "shape": ["M", 64]}, "w": {"type": "bf16", "shape": [64, 64]}}, "constants": {"heads": {"type": "s64", "shape": [3], "data": [0, 4, 16]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]}, {"op": "Reshape", "inputs": ["h", "heads"], "outputs": ["r"]}, {"op": "Transpose", "inputs": ["r"], "outputs": ["t"], "attributes": {"perm": [1, 0, 2]}}, {"op": "Identity", "inputs": ["t"], "outputs": ["g"]}, {"op": "Softmax", "inputs": ["g"], "outputs": ["s"]}, {"op": "LpNormalization", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"]}' >net.json

$ adlgen import net.json --print-after all
; after read: nodes as they are written, behind those whose results they read
graph net opset 27
dim M 0 .. 2147483647 multiple 1
input x: bf16 [M, 64] align 2
input w: bf16 [64, 64] align 2
constant heads: s64 [3] align 8
tensor h
tensor r
tensor t
tensor g
tensor s
output y
node h = MatMul(x, w) alpha=1
node r = Reshape(h, heads) allowzero=0
node t = Transpose(r) perm=1,0,2
node g = Identity(t)
node s = Softmax(g) axis=-1 masked_rows=nan weights=own
node y = LpNormalization(s) axis=-1 p=2
; after infer: types and shapes are known, and integers that follow from shapes and constants
graph net opset 27
dim M 0 .. 2147483647 multiple 1
input x: bf16 [M, 64] align 2
input w: bf16 [64, 64] align 2
constant heads: s64 [3] align 8
tensor h: bf16 [M, 64] align 2
tensor r: bf16 [M, 4, 16] align 2
tensor t: bf16 [4, M, 16] align 2
tensor g: bf16 [4, M, 16] align 2
tensor s: bf16 [4, M, 16] align 2
output y: bf16 [4, M, 16] align 2
node h = MatMul(x, w) alpha=1
node r = Reshape(h, heads) allowzero=0
node t = Transpose(r) perm=1,0,2
node g = Identity(t)
node s = Softmax(g) axis=-1 masked_rows=nan weights=own
node y = LpNormalization(s) axis=-1 p=2
; after expand: functions are what they are defined by, what is known is constants, and nothing is left that these replace
graph net opset 27
dim M 0 .. 2147483647 multiple 1
input x: bf16 [M, 64] align 2
input w: bf16 [64, 64] align 2
constant heads: s64 [3] align 8
constant y.axes: s64 [1] align 8
constant y.number: f32 [] align 4
constant y.one: f32 [] align 4
tensor h: bf16 [M, 64] align 2
tensor r: bf16 [M, 4, 16] align 2
tensor t: bf16 [4, M, 16] align 2
tensor g: bf16 [4, M, 16] align 2
tensor s: bf16 [4, M, 16] align 2
tensor y.wide: f32 [4, M, 16] align 4
tensor y.square: f32 [4, M, 16] align 4
tensor y.sum: f32 [4, M, 1] align 4
tensor y.norm: f32 [4, M, 1] align 4
tensor y.zero: bool [4, M, 1] align 1
tensor y.divisor: f32 [4, M, 1] align 4
tensor y.share: f32 [4, M, 16] align 4
output y: bf16 [4, M, 16] align 2
node h = MatMul(x, w) alpha=1
node r = Reshape(h, heads) allowzero=0
node t = Transpose(r) perm=1,0,2
node g = Identity(t)
node s = Softmax(g) axis=-1 masked_rows=nan weights=own
node y.wide = Cast(s) round_mode=up saturate=1 to=f32
node y.square = Mul(y.wide, y.wide)
node y.sum = ReduceSum(y.square, y.axes) keepdims=1 noop_with_empty_axes=0
node y.norm = Sqrt(y.sum)
node y.zero = Equal(y.norm, y.number)
node y.divisor = Where(y.zero, y.one, y.norm)
node y.share = Div(y.wide, y.divisor)
node y = Cast(y.share) round_mode=up saturate=1 to=bf16

$ adlgen compile net.json --gpu h100 --out out --emit ptx --print-after read --print-after make_views --print-after join_rows >/dev/null; cd out; tail -n 99 graph.* h100/graph.*
==> graph.01-read.txt <==
graph net opset 27
dim M 0 .. 2147483647 multiple 1
input x: bf16 [M, 64] align 2
input w: bf16 [64, 64] align 2
constant heads: s64 [3] align 8
tensor h
tensor r
tensor t
tensor g
tensor s
output y
node h = MatMul(x, w) alpha=1
node r = Reshape(h, heads) allowzero=0
node t = Transpose(r) perm=1,0,2
node g = Identity(t)
node s = Softmax(g) axis=-1 masked_rows=nan weights=own
node y = LpNormalization(s) axis=-1 p=2

==> h100/graph.22-make_views.txt <==
input x: bf16 [M, 64] align 2
input w: bf16 [64, 64] align 2
tensor h: bf16 [M, 64] align 2
node h = MatMul(x, w) alpha=1
view h#2: bf16 [4, M, 16] strides [16, 64, 1] begins 0 align 2
tensor g: bf16 [4, M, 16] align 2
node g = Identity(h#2)
tensor s: bf16 [4, M, 16] align 2
node s = Softmax(g) axis=-1 masked_rows=nan weights=own
tensor y.square: f32 [4, M, 16] align 4
node y.square = Mul(s, s)
constant y.axes: s64 [1] align 8
tensor y.sum: f32 [4, M, 1] align 4
node y.sum = ReduceSum(y.square, y.axes) keepdims=1 noop_with_empty_axes=0
tensor y.norm: f32 [4, M, 1] align 4
node y.norm = Sqrt(y.sum)
constant y.number: f32 [] align 4
tensor y.zero: bool [4, M, 1] align 1
node y.zero = Equal(y.norm, y.number)
constant y.one: f32 [] align 4
tensor y.divisor: f32 [4, M, 1] align 4
node y.divisor = Where(y.zero, y.one, y.norm)
tensor y.share: f32 [4, M, 16] align 4
node y.share = Div(s, y.divisor)
output y: bf16 [4, M, 16] align 2
node y = Cast(y.share) round_mode=up saturate=1 to=bf16

==> h100/graph.36-join_rows.txt <==
group 0
input x: bf16 [M, 64] align 2
input w: bf16 [64, 64] align 2
tensor h: bf16 [M, 64] align 2
  node h = MatMul(x, w) alpha=1
group 2
view h#2: bf16 [4, M, 16] strides [16, 64, 1] begins 0 align 2
tensor g: bf16 [4, M, 16] align 2
  node g = Identity(h#2)
tensor s: bf16 [4, M, 16] align 2
  node s = Softmax(g) axis=-1 masked_rows=nan weights=own
tensor y.square: f32 [4, M, 16] align 4
  node y.square = Mul(s, s)
constant y.axes: s64 [1] align 8
tensor y.sum: f32 [4, M, 1] align 4
  node y.sum = ReduceSum(y.square, y.axes) keepdims=1 noop_with_empty_axes=0
tensor y.norm: f32 [4, M, 1] align 4
  node y.norm = Sqrt(y.sum)
constant y.number: f32 [] align 4
tensor y.zero: bool [4, M, 1] align 1
  node y.zero = Equal(y.norm, y.number)
constant y.one: f32 [] align 4
tensor y.divisor: f32 [4, M, 1] align 4
  node y.divisor = Where(y.zero, y.one, y.norm)
tensor y.share: f32 [4, M, 16] align 4
  node y.share = Div(s, y.divisor)
output y: bf16 [4, M, 16] align 2
  node y = Cast(y.share) round_mode=up saturate=1 to=bf16

# What a later pass refuses is printed as it was before.
$ sed 's/"Identity"/"Foo"/' net.json >foo.json; adlgen import foo.json --print-after read 2>/dev/null | grep node
; after read: nodes as they are written, behind those whose results they read
node h = MatMul(x, w) alpha=1
node r = Reshape(h, heads) allowzero=0
node t = Transpose(r) perm=1,0,2
node s = Softmax(g) axis=-1 masked_rows=nan weights=own
node y = LpNormalization(s) axis=-1 p=2

$ adlgen import net.json --print-after make_views
error: --print-after: reading a graph has no pass make_views
hint: one of: read, infer, expand, all; others are passes of compile
[exit 2]

$ adlgen import net.json --print-after read --report
error: --print-after and --report exclude each other
[exit 2]

$ adlgen import net.json --print-after expand --json | validate import
valid

# Those of reading stand once, beside the GPUs' folders.
$ adlgen compile net.json --gpu a100,h100 --out all --emit ptx --dim M=5 --print-after all >/dev/null; ls all; ls all/a100 | grep graph | head -2
a100
graph.01-read.txt
graph.02-infer.txt
graph.03-expand.txt
h100
graph.04-merge_equal.txt
graph.05-open_rows.txt

# Of a graph with loops each part is rewritten by itself.
$ echo '{"inputs": {"v": {"type": "f32", "shape": [4]}, "x": {"type": "f32", "shape": ["T", 4]}}, "nodes": [{"op": "Scan", "inputs": ["v", "x"], "outputs": ["a"], "attributes": {"num_scan_inputs": 1, "body": {"inputs": ["s", "e"], "nodes": [{"op": "Add", "inputs": ["s", "e"], "outputs": ["n"]}], "outputs": ["n"]}}}, {"op": "Tanh", "inputs": ["a"], "outputs": ["y"]}], "outputs": ["y"]}' >loop.json; adlgen compile loop.json --gpu h100 --out loop --emit ptx --print-after make_views >/dev/null; ls loop/h100 | grep graph
graph.22-make_views.2.txt
graph.22-make_views.3.txt
graph.22-make_views.txt

# A head taken apart in front of attention (read_forms) is printed too.
$ python3 -c 'import json; t = lambda *s: {"type": "bf16", "shape": list(s)}; n = lambda op, i, o, **a: {"op": op, "inputs": i.split(), "outputs": [o], "attributes": a}; print(json.dumps({"name": "heads", "inputs": {"x": t(2, 1, 64), "k": t(2, 2, 9, 16), "v": t(2, 2, 9, 16)}, "constants": {"to": {"type": "s64", "shape": [4], "data": [2, 1, 4, 16]}}, "nodes": [n("Reshape", "x to", "h"), n("Transpose", "h", "q", perm=[0, 2, 1, 3]), n("Attention", "q k v", "y")], "outputs": ["y"]}))' >heads.json

$ adlgen compile heads.json --gpu h100 --out out --emit ptx --print-after read_forms >/dev/null && grep -h "y.q" out/h100/graph.*
tensor y.q.apart18: bf16 [2, 1, 2, 2, 16] align 2
node y.q.apart18 = Reshape(x) allowzero=0
tensor y.q: bf16 [2, 2, 2, 1, 16] align 2
node y.q = Transpose(y.q.apart18) perm=
node y.scores = MatMul(y.q, y.kt) alpha=0.25
