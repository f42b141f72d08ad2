# Rows that start at no multiples of 16 bytes: operands are copied, what a kernel writes has padded rows at once.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 333]}, "w": {"type": "bf16", "shape": [333, 777]}, "v": {"type": "bf16", "shape": [777, 520]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]}, {"op": "MatMul", "inputs": ["h", "v"], "outputs": ["y"]}], "outputs": ["y"]}' > odd.json

$ adlgen compile odd.json --gpu h100 --explain --emit ptx --out out | grep -E '`.* (is copied|are padded)|^ *products:' | sort -u
    products: TMA copies + warpgroup MMAs rejected: base or strides are not known to be multiples of 16 bytes
    products: warp, from fragments
    products: warpgroup, from shared memory filled by TMA copies
align_operands: `w` is copied for MatMul: its rows start at no multiples of 16 bytes
align_operands: `x` is copied for MatMul: its rows start at no multiples of 16 bytes
align_operands: rows of `h` are padded to 128 bytes for MatMul

$ python3 -c "import json; print(*[(t['name'], t['strides']) for t in json.load(open('out/h100/plan.json'))['tensors'] if t['kind'] == 'workspace'], sep='\n')"
('x.copy5', [384, 1])
('w.copy5', [832, 1])
('h', [832, 1])

# Not where that takes longer than the product.
$ sed 's/333, 777/23, 17/; s/333/23/; s/777, 520/17, 16/' odd.json | adlgen compile - --gpu h100 --dim M=33 --explain --emit ptx --out out | grep -c -E '`.* (is copied|are padded)'
1

# Two products of one operand share its copy.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 333]}, "w": {"type": "bf16", "shape": [333, 520]}, "v": {"type": "bf16", "shape": [333, 264]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}, {"op": "MatMul", "inputs": ["x", "v"], "outputs": ["z"]}], "outputs": ["y", "z"]}' > shared.json

$ adlgen compile shared.json --gpu h100 --explain --emit ptx --out out | grep -E '`.* (is copied|are padded)'
align_operands: `x` is copied for MatMul: its rows start at no multiples of 16 bytes

# Very few rows need no copies: each weight is read once where it lies, and the copies launch nothing.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 333], "align": 16}, "w": {"type": "bf16", "shape": [333, 777], "align": 16, "strides": [1, 333]}, "b": {"type": "bf16", "shape": [777]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]}, {"op": "Add", "inputs": ["h", "b"], "outputs": ["s"]}, {"op": "Gelu", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"]}' > few.json

$ adlgen compile few.json --gpu h100 --explain --emit ptx --out out | grep -E 'sums along|template gemv'
  M = 1      sums along k of operands as they lie: 4001 clocks, else 10431
  M = 4      sums along k of operands as they lie: 5500 clocks, else 10434
  M = 8      sums along k of operands as they lie: 7000 clocks, else 10439
  variant 1: template gemv_few, tile 1x8x32, guard: M <= 1
  variant 2: template gemv_few, tile 4x8x32, guard: M <= 4
  variant 3: template gemv_few, tile 8x8x32, guard: M <= 8

$ python3 -c "import json; print(*[(l['name'], l['variants'][0].get('guard'), l['variants'][0]['grid']) for l in json.load(open('out/h100/plan.json'))['launches']], sep='\n')"
('identity', 'M <= 8', [0, 1, 1])
('identity_1', 'M <= 8', [0, 1, 1])
('matmul_add_gelu', 'M <= 1', ['98*M', 1, 1])

$ for m in 1 3 8 9 130; do adlgen run few.json --gpu h100 --on sim --dim M=$m --check | grep -o -E '^[a-z_]*: [a-z_0-9]*, grid|^y .*(ok|WRONG)' | sed -E 's/ +[0-9.e+-]+ +[0-9.e+-]+ +/ /'; done
matmul_add_gelu: matmul_add_gelu_bf16_n777k333_1x8x32_sums, grid
y       bf16 4e-03  ok
matmul_add_gelu: matmul_add_gelu_bf16_n777k333_4x8x32_sums, grid
y       bf16 4e-03  ok
matmul_add_gelu: matmul_add_gelu_bf16_n777k333_8x8x32_sums, grid
y       bf16 4e-03  ok
identity: identity_bf16_n333_ragged_v8, grid
y       bf16 4e-03  ok
identity: identity_bf16_n333_ragged_v8, grid
y       bf16 4e-03  ok

# Known to be few, and of four elements at a time; no copy is ever made.
$ sed 's/333/332/g' few.json | adlgen compile - --gpu h100 --dim M=2 --explain --emit ptx --out out | grep -E 'is copied|template'
kernel                                        GPU   template  tile     stages  roles  threads  registers  shared  spills  size
  variant 1: template gemv_few, tile 4x8x128, guard: always

# Nor a long k of few results: blocks of a cluster share it.
$ sed 's/333/9001/g; s/777/17/g' few.json | adlgen compile - --gpu h100 --dim M=1 --explain --emit ptx --out out | grep -E "is copied|template"
kernel                                               GPU   template    tile     stages  roles  threads  registers  shared  spills  size
  variant 1: template gemv_split, tile 1x2x128, guard: always

# Not where only the launch tells how rows start: variants with wide copies come first.
$ sed 's/333/"K"/g; s/777/"N"/g' few.json | adlgen compile - --gpu h100 --explain --emit ptx --out out | grep -E 'sums along|variant 1:'
  variant 1: template gemm, tile 8x64x128, guard: K % 8 == 0 && align(b) >= 16 && align(y) >= 16 && K >= 1 && M <= 8

# A normalisation over two axes writes its rows densely: in padded rows they would not be evenly spaced.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": [64, 64, 1001]}, "s": {"type": "bf16", "shape": [64, 1001]}, "w": {"type": "bf16", "shape": [1001, 4096]}}, "nodes": [{"op": "RMSNormalization", "inputs": ["x", "s"], "outputs": ["t"], "attributes": {"axis": 1}}, {"op": "MatMul", "inputs": ["t", "w"], "outputs": ["y"]}], "outputs": ["y"]}' | adlgen compile - --gpu h100 --explain --emit ptx --out out | grep -E '`t`|^ *family'
align_operands: `t` is copied for MatMul: its rows start at no multiples of 16 bytes
join_producers: Identity reads `t` from memory: elements of its rows are not evenly spaced
join_rows: RMSNormalization and Identity meet in memory, at `t`: elements of its rows are not evenly spaced
  family row
  family elementwise
  family gemm
