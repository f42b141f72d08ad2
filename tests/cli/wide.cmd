# Limits that prove nothing are told by name and refused, unless admitted.
$ printf '{"name": "least", "inputs": {"x": {"type": "f32", "shape": ["R", 64]}, "w": {"type": "f32", "shape": [64, 96]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["p"]}, {"op": "Abs", "inputs": ["p"], "outputs": ["q"]}, {"op": "ReduceMin", "inputs": ["q"], "outputs": ["y"], "attributes": {"keepdims": 0}}], "outputs": ["y"]}' >least.json

$ adlgen run least.json --gpu h100 --on sim --dim R=40 --check | tail -n 2
y       f32   2.99e-04  2.83e-07  2e-03  WIDE
y: a limit of 1.5e-03 proves nothing, 8.0e-05 is the widest that does: ReduceMin, which gives y (least.json:1:232), makes it so; other data may prove more, --admit-wide takes it as it is

$ adlgen run least.json --gpu h100 --on sim --dim R=40 --check >/dev/null
[exit 5]

$ adlgen run least.json --gpu h100 --on sim --dim R=40 --check --admit-wide | tail -n 2
y       f32   2.99e-04  2.83e-07  2e-03  admitted
y: a limit of 1.5e-03 proves nothing, 8.0e-05 is the widest that does: ReduceMin, which gives y (least.json:1:232), makes it so; admitted

$ adlgen run least.json --gpu h100 --on sim --dim R=40 --check --json | validate run
valid

$ printf '{"graph": "least.json", "gpu": "h100", "dims": {"R": 40}}\n{"graph": "least.json", "gpu": "h100", "dims": {"R": 40}, "admit_wide": true}\n' >lines; adlgen run --batch lines --on sim | grep -o '"status":.*'
"status":"wide","ok":false,"wider":{"op":"ReduceMin","output":"y"}}],"ok":false}
"status":"admitted","ok":true,"wider":{"op":"ReduceMin","output":"y"}}],"ok":true}

$ adlgen run --batch lines --on sim --admit-wide | grep -o '"status":.*'
"status":"admitted","ok":true,"wider":{"op":"ReduceMin","output":"y"}}],"ok":true}
"status":"admitted","ok":true,"wider":{"op":"ReduceMin","output":"y"}}],"ok":true}

# Scores of order 1 without anybody's doing, and the scales that made them so.
$ printf '{"name": "scores", "inputs": {"x": {"type": "bf16", "shape": ["T", 256]}, "w": {"type": "bf16", "shape": [256, 192]}, "b": {"type": "bf16", "shape": [192]}}, "constants": {"sizes": {"type": "s64", "shape": [3], "data": [64, 64, 64]}}, "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["p"]}, {"op": "Add", "inputs": ["p", "b"], "outputs": ["a"]}, {"op": "Split", "inputs": ["a", "sizes"], "outputs": ["q", "k", "v"], "attributes": {"axis": 1}}, {"op": "Transpose", "inputs": ["k"], "outputs": ["kt"]}, {"op": "MatMul", "inputs": ["q", "kt"], "outputs": ["s"]}, {"op": "Softmax", "inputs": ["s"], "outputs": ["o"]}, {"op": "MatMul", "inputs": ["o", "v"], "outputs": ["y"]}], "outputs": ["y"]}' >scores.json

$ adlgen run scores.json --gpu h100 --on sim --dim T=40 --check --json | grep -A 3 '"scales"'
  "scales": {
    "w": 0.015625,
    "b": 0.125
  },

$ adlgen run scores.json --gpu h100 --on sim --dim T=40 --check | tail -n 1
y       bf16  1.98e-03  1.24e-03  4e-03  ok

# Tensor cores that keep four bits are noticed.
$ printf 'adl: 1\nname: coarse\nextends: h100\nsources:\n  planted: "a fault"\nfamilies:\n  warp_mma:\n    shapes:\n      bf16: {accumulator_bits: {value: 4, source: planted}}\n  warpgroup_mma:\n    shapes:\n      bf16: {accumulator_bits: {value: 4, source: planted}}\n' >coarse.yaml; adlgen run scores.json --gpu coarse.yaml --on sim --dim T=40 --check | grep -c WRONG
1
