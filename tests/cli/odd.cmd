# Rows that start at no multiples of 16 bytes: operands are copied, what a kernel writes has padded rows at once.
$ echo '{"inputs": {"x": {"type": "bf16", "shape": ["M", 333]}, "w": {"type": "bf16", "shape": [333, 777]}, "v": {"type": "bf16", "shape": [777, 520]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["h"]}, {"op": "MatMul", "inputs": ["h", "v"], "outputs": ["y"]}], "outputs": ["y"]}' > odd.json

$ adlgen compile odd.json --gpu h100 --explain --emit ptx --out out | grep -E '`.* (is copied|are padded)|^ *products:' | sort -u
    products: group, from shared memory filled by tensor copies
    products: tensor copies + group products rejected: base or strides are not known to be multiples of 16 bytes
    products: warp, from fragments
`w` is copied for MatMul: its rows start at no multiples of 16 bytes
`x` is copied for MatMul: its rows start at no multiples of 16 bytes
rows of `h` are padded to 128 bytes for MatMul

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
`x` is copied for MatMul: its rows start at no multiples of 16 bytes
