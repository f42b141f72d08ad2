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
