# Keys of sequences of few rows in parts that blocks claim: planted faults of the template are seen, a wrong rescaling, parts that nobody awaited,
# and keys that no part has.
$ echo '{"inputs": {"q": {"type": "bf16", "shape": [2, 2, 64]}, "k": {"type": "bf16", "shape": [1, 16400, 1, 64]}, "v": {"type": "bf16", "shape": [1, 16400, 1, 64]}}, "constants": {"ends": {"type": "s32", "shape": [2], "data": [0, 2]}, "n": {"type": "s32", "shape": [1], "data": [16400]}}, "nodes": [{"op": "VarlenAttention", "domain": "adlgen", "inputs": ["q", "k", "v", "ends", "", "n"], "outputs": ["y"], "attributes": {"is_causal": 1}}], "outputs": ["y"]}' > parts.json

$ adlgen run parts.json --gpu h100 --on sim --check | grep -v warp
output  type     error   max abs  limit  
y       bf16  2.33e-03  9.15e-05  4e-03  ok

$ mkdir -p own/templates; for fault in 's/fma %other, %weight, %less/add %other, %less/' '/await_posts/d' 's/%steps \* %which \/ %parts : 0/%steps * %which \/ %parts + %which : 0/'; do adlgen templates show attention | sed "$fault" > own/templates/attention.ir; ADLGEN_DATA_DIR=own adlgen run parts.json --gpu h100 --on sim --check > found 2>&1 || echo exit $?; grep -o WRONG found || grep -o 'fault: race' found | head -1; done
exit 5
WRONG
exit 5
fault: race
exit 5
WRONG
