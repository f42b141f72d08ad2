# run --accumulate: fast sums have a limit of their own, and are further off; what the graph says goes first.
$ printf '{"name": "p", "inputs": {"a": {"type": "e4m3", "shape": ["M", 640]}, "b": {"type": "e5m2", "shape": [640, 48], "strides": [1, 640]}}, "nodes": [{"op": "MatMul", "inputs": ["a", "b"], "outputs": ["d"]}], "outputs": ["d"]}' >plain.json

$ sed 's/"outputs": \["d"\]}\]/"outputs": ["d"], "attributes": {"accumulate": "exact"}}]/' plain.json >exact.json

$ adlgen run plain.json --gpu h100 --on sim --dim M=5 --check | grep limit -A1
output  type     error   max abs  limit  
d       f32   9.04e-05  7.09e-03  2e-03  ok

$ adlgen run plain.json --gpu h100 --on sim --dim M=5 --check --accumulate exact | grep limit -A1
output  type     error   max abs  limit  
d       f32   9.04e-05  7.09e-03  2e-03  ok

$ adlgen run plain.json --gpu h100 --on sim --dim M=5 --check --accumulate fast | grep limit -A1
output  type     error   max abs  limit  
d       f32   3.77e-04  9.54e-02  1e-02  ok

$ adlgen run exact.json --gpu h100 --on sim --dim M=5 --check --accumulate fast | grep limit -A1
output  type     error   max abs  limit  
d       f32   9.04e-05  7.09e-03  2e-03  ok

# A result that starts anywhere, of operands that do not: warpgroup MMAs too, so exact sums are added in f32 there as well.
$ sed 's/640\]}/640], "align": 16}/; s/\[1, 640\]}/[1, 640], "align": 16}/' exact.json >aligned.json

$ sed 's/48/256/' aligned.json >beside.json

$ adlgen run aligned.json --gpu h100 --on sim --dim M=5 --check --offset d=4 | grep -v limit | sed 's/, grid.*//'
matmul: matmul_e4m3_e5m2_f32_n48k640_64x64x64_any
d       f32   5.80e-05  4.70e-03  2e-03  ok

# Two warpgroups beside one another, f32: the ring leaves room for one part of the result.
$ adlgen run beside.json --gpu h100 --on sim --dim M=5 --check --set bm=64 --set bn=256 | grep -v limit | sed 's/, grid.*//'
matmul: matmul_e4m3_e5m2_f32_n256k640_64x256x128
d       f32   1.04e-04  1.40e-02  2e-03  ok

$ adlgen run plain.json --gpu h100 --on sim --dim M=5 --check --accumulate slow
error: adlgen run: --accumulate cannot be "slow"
hint: one of: exact, fast
[exit 2]

# Products of 16 bits have one way to add up: the same limit.
$ sed 's/e4m3/bf16/; s/e5m2/bf16/' plain.json >wide.json

$ adlgen run wide.json --gpu h100 --on sim --dim M=5 --check --accumulate fast | grep limit -A1
output  type     error   max abs  limit  
d       bf16  1.58e-03  1.34e-02  4e-03  ok

$ printf '{"graph": "plain.json", "gpu": "h100", "dims": {"M": 5}}\n{"graph": "plain.json", "gpu": "h100", "dims": {"M": 5}, "accumulate": "fast"}\n{"graph": "plain.json", "gpu": "h100", "dims": {"M": 5}, "accumulate": "default"}\n{"graph": "plain.json", "gpu": "h100", "dims": {"M": 5}, "accumulate": 1}\n' >lines.jsonl

$ adlgen run --batch lines.jsonl --on sim | sed 's/"error":[^,]*,//'
lines.jsonl:3:72: error: `accumulate` is exact or fast
  {"graph": "plain.json", "gpu": "h100", "dims": {"M": 5}, "accumulate": "default"}
                                                                         ^
hint: docs/cli.md describes the lines of a batch
lines.jsonl:4:72: error: expected a string, found `1`
  {"graph": "plain.json", "gpu": "h100", "dims": {"M": 5}, "accumulate": 1}
                                                                         ^
hint: put it in quotes if it is meant as text
{"line":1,"label":null,"faults":[],"outputs":[{"name":"d","max_abs":0.0070896148681640625,"limit":0.002,"plain_limit":0.002,"widest_limit":0.032000000000000001,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
{"line":2,"label":null,"faults":[],"outputs":[{"name":"d","max_abs":0.095428466796875,"limit":0.01,"plain_limit":0.01,"widest_limit":0.16,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
{"line":3,"label":null,"ok":false,"exit":1,"message":"`accumulate` is exact or fast","errors":[{"severity":"error","file":"lines.jsonl","line":3,"column":72,"message":"`accumulate` is exact or fast","hint":"docs/cli.md describes the lines of a batch","code":"bad-batch"}]}
{"line":4,"label":null,"ok":false,"exit":1,"message":"expected a string, found `1`","errors":[{"severity":"error","file":"lines.jsonl","line":4,"column":72,"message":"expected a string, found `1`","hint":"put it in quotes if it is meant as text","code":"wrong-type"}]}

# Choices measured with sums of one kind say nothing of the other.
$ printf '{"version": 1, "gpu": "h100", "sms": 132, "generation": 1, "entries": [{"product": "e4m3 mk x e4m3 nk + f32 -> f32", "sms": 132, "batches": 1, "n": 48, "k": 640, "m": 64, "from": 33, "to": 64, "parameters": {"bm": 128, "bn": 48}, "us": 1, "first_us": 2},{"product": "e4m3 mk x e4m3 nk + f32 -> f32, exact sums", "sms": 132, "batches": 1, "n": 48, "k": 640, "m": 64, "from": 33, "to": 64, "parameters": {"bm": 192, "bn": 48}, "us": 1, "first_us": 2}]}' >choices.json

$ adlgen compile plain.json --gpu h100 --dim M=64 --tuned choices.json --accumulate fast --out out --emit ptx --explain | grep tuned
  M = 64     tuned: bm=128 bn=48, measured at M = 64: 2.000 times as fast as the model's choice

$ adlgen compile plain.json --gpu h100 --dim M=64 --tuned choices.json --out out --emit ptx --explain | grep tuned
  M = 64     tuned: bm=192 bn=48, measured at M = 64: 2.000 times as fast as the model's choice

# Nor do recorded times, though the cases have one name.
$ sed 's/"outputs": \["d"\]}\]/"outputs": ["d"], "attributes": {"accumulate": "fast"}}]/' plain.json >fast.json

$ printf '{"version": 1, "gpu": "h100", "skipped": 0, "products": [{"case": "p M=64", "operator": "matmul", "product": "e4m3 mk x e4m3 nk + f32 -> f32", "sms": 132, "batches": 1, "m": 64, "n": 48, "k": 640, "winner": 0, "proposals": [{"parameters": {"bm": 64, "bn": 16}, "clocks": 1, "us": 5}]}]}' >times.json

$ adlgen tune fast.json --gpu h100 --dim M=64 --evaluate --times times.json 2>&1 | grep -m1 -o "the recording lacks the case"
[exit 1]

$ adlgen tune exact.json --gpu h100 --dim M=64 --evaluate --times times.json 2>&1 | grep -m1 -o "the recording lacks the case"
the recording lacks the case

$ adlgen tune plain.json --gpu h100 --dim M=64 --evaluate --times times.json --accumulate fast 2>&1 | grep -m1 -o "the recording lacks the case"
[exit 1]

$ adlgen tune plain.json --gpu h100 --dim M=64 --evaluate --times times.json 2>&1 | grep -m1 -o "the recording lacks the case"
the recording lacks the case
