# What has no effect is left out, with a warning that names its place: dead nodes, unused inputs, constants and results.
$ printf '{"inputs": {"x": {"type": "f32", "shape": ["M", 64]},\n            "spare": {"type": "f32", "shape": ["M"]},\n            "mask": {"type": "f32", "shape": ["M", 64]},\n            "scale": {"type": "f32", "shape": [64]}},\n "constants": {"two": {"type": "f32", "shape": [], "data": 2}, "three": {"type": "f32", "shape": [], "data": 3}},\n "nodes": [{"op": "Mul", "inputs": ["x", "two"], "outputs": ["h"]},\n           {"op": "Add", "inputs": ["h", "mask"], "outputs": ["masked"]},\n           {"op": "Relu", "inputs": ["masked"], "outputs": ["positive"]},\n           {"op": "LayerNormalization", "inputs": ["h", "scale"], "outputs": ["y", "mean", "deviation"]},\n           {"op": "Neg", "inputs": ["mean"], "outputs": ["shift"]}],\n "outputs": ["y", "shift"]}\n' >graph.json

$ adlgen compile graph.json --gpu h100 --emit ptx --out out
graph.json:2:13: warning: no node reads the input `spare`
              "spare": {"type": "f32", "shape": ["M"]},
              ^
hint: remove it, or give its name to the node that needs it
graph.json:3:13: warning: only nodes that are left out read the input `mask`
              "mask": {"type": "f32", "shape": ["M", 64]},
              ^
graph.json:5:64: warning: no node reads the constant `three`
   "constants": {"two": {"type": "f32", "shape": [], "data": 2}, "three": {"type": "f32", "shape": [], "data": 3}},
                                                                 ^
hint: remove it, or give its name to the node that needs it
graph.json:7:12: warning: Add is left out: only nodes that are left out read `masked`
             {"op": "Add", "inputs": ["h", "mask"], "outputs": ["masked"]},
             ^
graph.json:8:12: warning: Relu is left out: nothing reads `positive`, and it is no output of the graph
             {"op": "Relu", "inputs": ["masked"], "outputs": ["positive"]},
             ^
hint: remove it, or name its result under `outputs`
graph.json:9:92: warning: nothing reads the result `deviation` of LayerNormalization
             {"op": "LayerNormalization", "inputs": ["h", "scale"], "outputs": ["y", "mean", "deviation"]},
                                                                                             ^
hint: write "" in its place if nothing needs it
kernel                                      GPU   template  tile   stages  roles  threads  registers  shared  spills  size
layernormalization_mul_neg_f32_c64_32x64    h100  row       32x64       1  4 all      128          -       0       -     -
layernormalization_mul_neg_f32_c64_32x64_2  h100  row       32x64       1  4 all      128          -       0       -     -

files are under out: h100/

$ adlgen compile graph.json --gpu h100 --emit ptx --out out --json >result.json; validate compile <result.json; grep '"code": "unused' result.json | sort | uniq -c; grep -c '"warning"' result.json
valid
      2       "code": "unused-node"
      1       "code": "unused-result"
      3       "code": "unused-tensor"
6

$ adlgen run graph.json --gpu h100 --on sim --dim M=3 --check --json >result.json 2>errors; wc -c <errors; validate run <result.json; grep -c '"warning"' result.json
0
valid
6

$ adlgen run graph.json --gpu h100 --on sim --dim M=3 2>&1 | grep warning
graph.json:2:13: warning: no node reads the input `spare`
graph.json:3:13: warning: only nodes that are left out read the input `mask`
graph.json:5:64: warning: no node reads the constant `three`
graph.json:7:12: warning: Add is left out: only nodes that are left out read `masked`
graph.json:8:12: warning: Relu is left out: nothing reads `positive`, and it is no output of the graph
graph.json:9:92: warning: nothing reads the result `deviation` of LayerNormalization

$ printf '{"graph": "graph.json", "gpu": "h100", "dims": {"M": 3}}\n' >batch; adlgen run --batch batch --on sim | grep -o 'the input `spare`'
the input `spare`

# Parts of a Split that nobody reads cannot be left out: no warning of them.
$ printf 'inputs: {x: {type: f32, shape: [4, 64]}}\nnodes:\n- {op: Split, inputs: [x], outputs: [a, b], attributes: {axis: 1, num_outputs: 2}}\n- {op: Relu, inputs: [a], outputs: [y]}\noutputs: [y]\n' >split.yaml; adlgen compile split.yaml --gpu h100 --emit ptx --out out >table
