# Gradients of attention, few blocks of keys: how many parts follows from the GPU's SMs (132, 78, 108), which 64 blocks fill by halves or more, and
# from what two batches have.
$ for b in 1 2; do echo '{"inputs": {"g": {"type": "bf16", "shape": ['$b', 32, 1024, 128]}, "q": {"type": "bf16", "shape": ['$b', 32, 1024, 128]}, "k": {"type": "bf16", "shape": ['$b', 8, 1024, 128]}, "v": {"type": "bf16", "shape": ['$b', 8, 1024, 128]}, "y": {"type": "bf16", "shape": ['$b', 32, 1024, 128]}, "l": {"type": "f32", "shape": ['$b', 32, 1024]}}, "nodes": [{"op": "AttentionGrad", "domain": "adlgen", "inputs": ["g", "q", "k", "v", "y", "l"], "outputs": ["dq", "dk", "dv"]}], "outputs": ["dq", "dk", "dv"]}' > heads$b.json; sed 's/"outputs": \["dq", "dk", "dv"\]}\]/"outputs": ["dq", "dk", "dv"], "attributes": {"is_causal": 1}}]/' heads$b.json > causal$b.json; done

$ for run in 'heads1 h100' 'heads1 h20' 'heads1 a100' 'causal2 h20'; do echo $run $(adlgen compile ${run% *}.json --gpu ${run#* } --emit ptx --out out --explain | sed -n 's/.*AttentionGradPart of `g` \(in.*\):.*/\1/p'); done
heads1 h100 in 2 parts of its heads that share keys
heads1 h20
heads1 a100
causal2 h20 in 2 parts of its heads that share keys

# As many on fewer SMs of that GPU, so that results are the same bits there.
$ adlgen compile heads1.json --gpu h100 --sms 64 --emit ptx --out out --explain | grep -c 'parts of its heads'
1

# Parts of heads, of rows, and of keys that few rows see, and what is wrong where they begin elsewhere.
$ for s in '[1, 16, 8, 32] [1, 1, 40, 32]' '[1, 4, 40, 64] [1, 1, 40, 64]' '[1, 1, 1024, 16] [1, 1, 10, 16]' '[1, 2, 16, 16] [1, 1, 1024, 16]'; do q=${s% \[*}; k=${s#*\] }; echo '{"inputs": {"g": {"type": "f16", "shape": '$q'}, "q": {"type": "f16", "shape": '$q'}, "k": {"type": "f16", "shape": '$k'}, "v": {"type": "f16", "shape": '$k'}}, "nodes": [{"op": "Attention", "domain": "adlgen", "inputs": ["q", "k", "v"], "outputs": ["y", "", "", "", "l"]}, {"op": "AttentionGrad", "domain": "adlgen", "inputs": ["g", "q", "k", "v", "y", "l"], "outputs": ["dq", "dk", "dv"]}], "outputs": ["dq", "dk", "dv"]}' > parts$(echo $q | cut -d, -f2 | tr -d ' ').json; done

$ for h in 16 4 1 2; do adlgen compile parts$h.json --gpu h100 --emit ptx --out out --explain | sed -n 's/.*AttentionGradPart of `g` \(in.*\):.*/\1/p'; adlgen run parts$h.json --gpu h100 --on sim --check | grep -v warp; done
in 16 parts of its heads that share keys
output  type     error   max abs  limit  
dq      f16   3.01e-04  2.79e-05  1e-03  ok
dk      f16   2.92e-04  4.32e-04  1e-03  ok
dv      f16   3.02e-04  3.20e-04  1e-03  ok
in 4 parts of its heads that share keys
output  type     error   max abs  limit  
dq      f16   3.03e-04  3.54e-05  1e-03  ok
dk      f16   3.01e-04  4.69e-04  1e-03  ok
dv      f16   2.88e-04  3.18e-04  1e-03  ok
in 4 parts of its rows
output  type     error   max abs  limit  
dq      f16   3.15e-04  1.97e-04  1e-03  ok
dk      f16   2.98e-04  3.13e-03  1e-03  ok
dv      f16   3.30e-04  3.99e-03  1e-03  ok
in 8 parts of its keys
output  type     error   max abs  limit  
dq      f16   2.84e-04  9.27e-06  1e-03  ok
dk      f16   2.96e-04  1.03e-05  1e-03  ok
dv      f16   2.79e-04  7.93e-06  1e-03  ok

$ mkdir -p own/templates; for fault in 's/%part \* %sharing/0/ keys 16' 's/? %part \* (M/? 0 * (M/ keys 1' 's/%from + N/N + N/ queries 2'; do set -- ${fault##*/}; rm -f own/templates/*; adlgen templates show attention_grad_$1 | sed "${fault% * *}" > own/templates/attention_grad_$1.ir; ADLGEN_DATA_DIR=own adlgen run parts$2.json --gpu h100 --on sim --check > found 2>&1 || echo exit $?; grep -o WRONG found | sort -u; done
exit 5
WRONG
exit 5
WRONG
exit 5
WRONG
