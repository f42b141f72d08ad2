# What --set leaves open of a tile is made to fit what it sets, or the message says by how much the least is too large.
$ printf '%s' '{"name": "g", "inputs": {"A": {"type": "bf16", "shape": ["M", 4096], "align": 16}, "B": {"type": "bf16", "shape": [4096, 4096], "align": 16}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["D"]}], "outputs": ["D"]}' >g.json

# On 227, 163 and 99 KiB of shared memory.
$ for set in 'bm=128 bn=192' 'bm=128 bn=256 stages=8' 'bn=256 stages=6' 'bm=256' 'bk=256' 'stages=12' 'blocks=2 bm=128 bn=256' 'blocks=3' 'bk=32' 'swapped=1 bm=64 bn=64 stages=6'; do for gpu in h100 a100 l40s; do adlgen compile g.json --gpu $gpu --out out --emit ir $(printf ' --set %s' $set) >printed 2>&1 || { echo "$set $gpu"; cat printed; }; done; done

$ adlgen compile g.json --gpu l40s --out out --emit ir --set bm=128 --set bn=192 --dim M=4096 --explain | grep -- --set
  bm = 128 by --set
  bn = 192 by --set

$ adlgen compile g.json --gpu l40s --out out --emit ir --set bm=128 --set bn=128 --set bk=512 --dim M=4096 2>&1 | sed -n 's/.*error: //p'
kernel 'matmul_bf16_m4096n4096k4096_128x128x512' needs 524288 bytes of shared memory, 422912 more than the 101376 a block of l40s may have

$ adlgen compile g.json --gpu l40s --out out --emit ir --set bn=192 --set bk=64 --set stages=4 --dim M=4096 2>&1 | sed -n 's/.*error: //p'
kernel 'matmul_bf16_m4096n4096k4096_32x192x64' needs 114688 bytes of shared memory, 13312 more than the 101376 a block of l40s may have

$ adlgen compile g.json --gpu h100 --out out --emit ir --set bm=256 --set bn=256 --dim M=4096 2>&1 | sed -n 's/.*error: //p'
an accumulator of role 'consumer' takes 256 registers a thread, 1 more than the 255 a thread may have

