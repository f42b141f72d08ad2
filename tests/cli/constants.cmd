# Constants come beside the plan, those from files too, under their names in the graph.
$ echo '{"inputs": {"x": {"type": "f32", "shape": [4, 3]}}, "nodes": [{"op": "Abs", "inputs": ["x"], "outputs": ["a"]}, {"op": "Neg", "inputs": ["x"], "outputs": ["b"]}], "outputs": ["a", "b"]}' > make.json; adlgen run make.json --gpu h100 --on sim --out made >/dev/null

$ echo '{"inputs": {"x": {"type": "f32", "shape": ["M", 4]}}, "constants": {"w": {"type": "f32", "shape": [4, 3], "file": "made/outputs.safetensors#b"}, "v": {"type": "f32", "shape": [3], "data": [1, 2, 3]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["p"]}, {"op": "Add", "inputs": ["p", "v"], "outputs": ["y"]}], "outputs": ["y"]}' > g.json; adlgen compile g.json --gpu h100,a100 --emit ptx --out out >/dev/null; ls out/h100/constants* out/a100/constants*
out/a100/constants.safetensors
out/h100/constants.safetensors

$ python3 -c "import json; print(*[(t['name'], t['file']) for t in json.load(open('out/h100/plan.json'))['tensors'] if t['kind'] == 'constant'], sep='\n')"
('w', 'constants.safetensors')
('v', 'constants.safetensors')

# The same bytes.
$ tail -c 60 out/h100/constants.safetensors | head -c 48 | od -An -tx1 | md5sum >one; tail -c 48 made/outputs.safetensors | od -An -tx1 | md5sum | diff one - && echo same
same

$ mv made gone; adlgen compile g.json --gpu h100 --emit ptx --out none; ls -d none
error: cannot read made/outputs.safetensors: Failed to open file “made/outputs.safetensors”: open() failed: No such file or directory
ls: cannot access 'none': No such file or directory
[exit 2]

# Rows of a constant that begin anywhere are padded where it is loaded: w and its transpose beside few rows; the plan says what of the padded one it is.
$ python3 -c "import json; print(json.dumps({'inputs': {'x': {'type': 'f16', 'shape': ['M', 40], 'align': 16}, 'z': {'type': 'f16', 'shape': ['M', 67], 'align': 16}}, 'constants': {'w': {'type': 'f16', 'shape': [40, 67], 'data': [(i * 7 % 31 - 15) / 16 for i in range(40 * 67)]}}, 'nodes': [{'op': 'MatMul', 'inputs': ['x', 'w'], 'outputs': ['y']}, {'op': 'Gemm', 'inputs': ['z', 'w'], 'outputs': ['q'], 'attributes': {'transB': 1}}], 'outputs': ['y', 'q']}))" >odd.json; adlgen run odd.json --gpu h100 --on sim --dim M=3 --check | grep -v warp; adlgen compile odd.json --gpu h100 --emit ptx --out odd >/dev/null; python3 -c "import json; print([(t['name'], t['shape'], t['stacks']) for t in json.load(open('odd/h100/plan.json'))['tensors'] if t['kind'] == 'constant'])"; validate plan <odd/h100/plan.json
output  type     error   max abs  limit  
y       f16   2.07e-04  8.73e-04  1e-03  ok
q       f16   1.90e-04  9.59e-04  1e-03  ok
[('w.padded', [40, 128], [{'name': 'w', 'columns': 67}])]
valid
