# What run prints, writes and refuses.
$ printf '{"name": "add", "inputs": {"x": {"type": "f32", "shape": ["R", 40]}, "y": {"type": "f32", "shape": [40]}}, "nodes": [{"op": "Add", "inputs": ["x", "y"], "outputs": ["z"]}], "outputs": ["z"]}' >add.json

$ adlgen run add.json --gpu a100 --on sim --dim R=3 --check | tail -n 2
output  type     error   max abs  limit  
z       f32   2.36e-08  1.19e-07  5e-06  ok

$ adlgen run add.json --gpu h100 --on sim --dim R=3 --check --json | validate run
valid

$ adlgen run - --gpu h100 --on sim --dim R=3 --json <add.json | validate run
valid

# Files go in again; strides and offsets change no result.
$ adlgen run add.json --gpu h100 --on sim --dim R=3 --out one >/dev/null && ls one
inputs.safetensors
outputs.safetensors

$ adlgen run add.json --gpu a100 --on sim --dim R=3 --input x=one/inputs.safetensors --input y=one/inputs.safetensors --seed 9 --out two >/dev/null && cmp one/outputs.safetensors two/outputs.safetensors

$ adlgen run add.json --gpu a100 --on sim --dim R=3 --offset x=4 --offset z=12 --fixed --out three >/dev/null && cmp one/outputs.safetensors three/outputs.safetensors

$ sed 's/"shape": \["R", 40\]/&, "strides": [48, 1]/' add.json >strided.json; adlgen run strided.json --gpu a100 --on sim --dim R=3 --out four >/dev/null && cmp one/outputs.safetensors four/outputs.safetensors

# A launch kept as files runs again by itself, to the same bytes.
$ adlgen run add.json --gpu a100 --on sim --dim R=3 --offset x=4 --keep kept >/dev/null && ls kept
add.launch.json
add.ptx
add.x.bin
add.y.bin

$ adlgen sim kept/add.ptx --launch kept/add.launch.json --gpu a100 --strict | sed 's/in .* s,/in T s,/'
768 warp-instructions in T s, 0 faults, 0 findings

$ tail -c 480 two/outputs.safetensors >a; cmp a kept/add.z.out.bin

$ adlgen run add.json --gpu a100 --on gpu --dim R=3 --keep kept
error: --keep is for --on sim
[exit 2]

# A result beyond the limit; nothing but the tolerance is wrong with it.
$ adlgen run add.json --gpu a100 --on sim --dim R=3 --check --tolerance 0 | grep WRONG
z       f32   2.36e-08  1.19e-07  exact  WRONG

$ adlgen run add.json --gpu a100 --on sim --dim R=3 --check --tolerance 0 >/dev/null
[exit 5]

# Refusals.
$ adlgen run add.json --gpu a100 --on sim
add.json:1:59: error: dimension R has no value
  {"name": "add", "inputs": {"x": {"type": "f32", "shape": ["R", 40]}, "y": {"type": "f32", "shape": [40]}}, "nodes": [{"op": "Add", "inputs": ["x", "y"...
                                                            ^
hint: --dim R=VALUE gives it one
[exit 1]

$ adlgen run add.json --gpu a100 --dim R=1
error: adlgen run needs --on
hint: adlgen run --help lists its options
[exit 2]

$ adlgen run add.json --gpu a100 --on moon --dim R=1
error: adlgen run: --on cannot be "moon"
hint: one of: sim, gpu, reference
[exit 2]

$ adlgen run add.json --gpu a100 --on sim --dim R=1 --input q=one/inputs.safetensors
error: --input: add has no input q
[exit 1]

$ adlgen run add.json --gpu a100 --on sim --dim R=2 --input x=one/inputs.safetensors
error: tensor `x` is f32 [3, 40], but f32 [2, 40] is needed
[exit 1]

$ adlgen run add.json --gpu a100 --on sim --dim R=1 --offset x=2
error: --offset: the description promises that x is aligned to 4 bytes
hint: the description's `align` can be lowered
[exit 1]

$ adlgen run add.json --gpu a100 --on sim --dim R=1 --offset w=4
error: --offset: w is no input, constant or output
[exit 1]

$ adlgen run add.json --gpu a100 --on sim --dim R=1 --tolerance much
error: --tolerance takes a number, not `much`
[exit 2]

$ adlgen run add.json --gpu a100 --on sim --dim R=1 --checkers rase
error: unknown checker 'rase'
hint: did you mean 'race'?
[exit 2]

# Bank conflicts and sectors.
$ adlgen run add.json --gpu h100 --on sim --dim R=3 --counts | grep -e executions -e all
       line  instruction       executions  wavefronts   least     sectors   least
in all: 0 wavefronts, least 0; 35 sectors, least 35

$ adlgen run add.json --gpu h100 --on sim --dim R=3 --offset x=4 --counts --json >counts.json; validate run <counts.json; grep -c uncoalesced counts.json
valid
1

# Breaks in the kernels of a graph.
$ adlgen compile add.json --gpu h100 --emit ptx --out ptx >/dev/null; line=$(grep -n st.global ptx/h100/add_f32_n40_v4.ptx | head -1 | cut -d: -f1); adlgen run add.json --gpu h100 --on sim --dim R=3 --break add_f32_n40_v4.ptx:$line --watch global:z:1x4:f32 | grep -A3 hit | sed 's/v4.ptx:[0-9]*/v4.ptx:LINE/; s/line [0-9]*/line LINE/'
add: add_f32_n40_v4.ptx:LINE: hit 1: block (0,0,0), warp 0, lanes 3fffffff, before st.global.v4.f32
  global:z:1x4:f32
        0 1 2 3
     0: ? ? ? ?
break add_f32_n40_v4.ptx:LINE: line LINE, 1 hits

$ adlgen run add.json --gpu h100 --on sim --dim R=3 --break 50 --json | validate run
valid

$ adlgen run add.json --gpu h100 --on sim --dim R=3 --break other.ptx:50
error: --break other.ptx:50: no kernel of this file was launched
hint: launched: add_f32_n40_v4.ptx
[exit 2]

# What each launch takes, also of launches that may overlap.
$ printf '{"name": "net", "inputs": {"x": {"type": "bf16", "shape": ["M", 64]}, "a": {"type": "bf16", "shape": [64, 64]}, "b": {"type": "bf16", "shape": [64, 64]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "a"], "outputs": ["h"]}, {"op": "MatMul", "inputs": ["h", "b"], "outputs": ["s"]}, {"op": "Softmax", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"]}' >net.json

$ adlgen run net.json --gpu h100 --on sim --dim M=200 --fixed --profile | grep -v ' s$' | sed 's/_[0-9a-z_]*//g; s/[0-9][0-9.]*/N/g; s/  */ /g'
launch kernel grid warp-instructions share
matmul matmul N x N x N N N %
matmul matmul N x N x N N N %
softmax softmax N x N x N N N %
N launches, N warp-instructions

kernel launches warp-instructions warp-instructions each share
softmax N N N N %
matmul N N N N %
matmul N N N N %

$ adlgen run net.json --gpu h100 --on sim --dim M=200 --fixed --profile --json >profile.json; validate run <profile.json; python3 -c 'import json; p = json.load(open("profile.json"))["profile"]; print(p["unit"], [sorted(l) for l in p["launches"]], all(l["warp_instructions"] > 100 for l in p["launches"]))'
valid
warp_instructions [['grid', 'kernel', 'launch', 'warp_instructions'], ['grid', 'kernel', 'launch', 'warp_instructions'], ['grid', 'kernel', 'launch', 'warp_instructions']] True

$ adlgen run net.json --on reference --dim M=200 --profile
error: --profile is for --on sim and --on gpu
[exit 2]

# A constant that is written as expressions of symbols.
$ echo '{"name": "net", "inputs": {"x": {"type": "f32", "shape": ["R", "C"]}}, "constants": {"s": {"type": "s64", "shape": [2], "data": ["C", "R"]}, "e": {"type": "s32", "shape": [1], "data": ["R*C-1"]}}, "nodes": [{"op": "Reshape", "inputs": ["x", "s"], "outputs": ["t"]}, {"op": "Abs", "inputs": ["t"], "outputs": ["y"]}, {"op": "Cast", "inputs": ["e"], "outputs": ["z"], "attributes": {"to": "s64"}}], "outputs": ["y", "z"]}' >symbols.json; adlgen run symbols.json --on reference --dim R=3 --dim C=4 | tail -n 1; adlgen run symbols.json --gpu h100 --on sim --check --dim R=3 --dim C=4 | tail -n 2
y       f32   0.00e+00  0.00e+00  5e-06  ok
z       s64   0.00e+00  0.00e+00  exact  ok

$ sed 's/R\*C-1/R*C*C/' symbols.json >wide.json; adlgen run wide.json --on reference --dim R=3 --dim C=65536
wide.json:1:142: error: element 0 of `e` is 12884901888, which s32 does not hold
  {"name": "net", "inputs": {"x": {"type": "f32", "shape": ["R", "C"]}}, "constants": {"s": {"type": "s64", "shape": [2], "data": ["C", "R"]}, "e": {"ty...
                                                                                                                                               ^
hint: give it the type s64
[exit 1]

$ echo '{"name": "net", "inputs": {"x": {"type": "s64", "shape": ["D", 2]}}, "constants": {"e": {"type": "s64", "shape": [2], "data": ["D-8", "D*D"]}}, "nodes": [{"op": "Add", "inputs": ["x", "e"], "outputs": ["y"]}], "outputs": ["y"]}' >list.json; adlgen run list.json --gpu h100 --on sim --check --fixed --dim D=12 | tail -n 1
y       s64   0.00e+00  0.00e+00  exact  ok

# One row of a tile of several in place: only the warp that stores it reads it.
$ echo '{"name": "net", "inputs": {"x": {"type": "f32", "shape": [1, 40], "align": 16}}, "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' >one.json; adlgen run one.json --gpu h100 --on sim --check --in-place y=x | tail -n 1
y       f32   4.56e-08  6.56e-09  5e-06  ok

$ echo '{"name": "net", "inputs": {"x": {"type": "f32", "shape": [1, 40], "align": 16}}, "constants": {"a": {"type": "s64", "shape": [], "data": 1}}, "nodes": [{"op": "CumSum", "inputs": ["x", "a"], "outputs": ["y"]}], "outputs": ["y"]}' >scan.json; adlgen run scan.json --gpu h100 --on sim --check --in-place y=x | tail -n 1
y       f32   5.26e-08  4.16e-07  5e-06  ok
