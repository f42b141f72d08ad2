# tune: what needs no GPU.
$ adlgen tune
error: adlgen tune needs --gpu
hint: adlgen tune --help lists its options
[exit 2]

$ adlgen tune --gpu h100
error: adlgen tune takes a GRAPH or --suite
hint: adlgen tune --help lists its options
[exit 2]

$ adlgen tune --suite plan-choice --gpu h100 --list --prepare
error: --list, --prepare and --times exclude each other
hint: adlgen tune --help lists its options
[exit 2]

$ adlgen tune --suite plan-choice --gpu h100 --evaluate --top 3
error: --evaluate measures every proposal: it takes no --top
hint: adlgen tune --help lists its options
[exit 2]

$ adlgen tune --suite plan-choice --gpu h100 --list --top 0
error: --top must be at least 1
hint: adlgen tune --help lists its options
[exit 2]

$ adlgen tune --suite plan-choice --gpu h100 --list --gain 0.5
error: --gain takes a number from 1 on, not `0.5`
[exit 2]

$ adlgen tune --suite plan-choice --gpu h100 --list --sms 0
error: --sms must be at least 1
[exit 2]

$ printf '{"name": "p", "inputs": {"A": {"type": "bf16", "shape": ["M", 512]}, "B": {"type": "bf16", "shape": [512, 256]}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["D"]}], "outputs": ["D"]}' >p.json

$ adlgen tune p.json --gpu h100 --list
p.json:1:58: error: dimension M of p has no value
  {"name": "p", "inputs": {"A": {"type": "bf16", "shape": ["M", 512]}, "B": {"type": "bf16", "shape": [512, 256]}}, "nodes": [{"op": "MatMul", "inputs":...
                                                           ^
hint: --dim M=VALUE binds it
[exit 1]

$ adlgen tune p.json --gpu h100 --dim M=64 --list --top 3
p M=64 ... clocks  bm=...  (the model's choice)
... clocks  bm=...
... clocks  bm=...

$ adlgen tune p.json --gpu h100 --dim M=64 --list --top 3 --json | validate tune
valid

# One of each kind of tile.
$ adlgen tune p.json --gpu h100 --dim M=64 --list --top 3 --kinds 1
p M=64 ... clocks  bm=...  (the model's choice)
... clocks  bm=...
... clocks  bm=...

$ adlgen tune p.json --gpu h100 --dim M=64 --list --kinds 0
error: adlgen tune: --kinds needs a whole number of at least 1
[exit 2]

# Times of an earlier run.
$ printf '{"version": 1, "products": [{"case": "p M=64", "operator": "matmul", "sms": 132, "proposals": [{"parameters": {"bm": 64, "bn": 128}, "us": 3.5, "spread": 0.01, "thorough": true}]}]}' >times.json

$ adlgen tune p.json --gpu h100 --dim M=64 --times times.json --out choices.json --json >result.json 2>/dev/null; validate tune <result.json
valid

$ cat choices.json
{"version": 1, "gpu": "h100", "sms": 132, "generation": 1, "entries": [
  {"product": "bf16 mk x bf16 kn + f32 -> bf16", "sms": 132, "batches": 1, "n": 256, "k": 512, "m": 64, "from": 33, "to": 64, "parameters": {"bm": 64, "bn": 128}, "us": 3.5, "first_us": 3.5}]}

$ adlgen compile p.json --gpu h100 --out out --emit ptx --explain --tuned choices.json | grep -o 'tuned: .*\|tile 64x128x64, guard.*M <= 64'
tuned: bm=64 bn=128, measured at M = 64: 1.000 times as fast as the model's choice
tile 64x128x64, guard: align(A) >= 16 && align(B) >= 16 && align(D) >= 16 && M <= 64

# Parameters are those that templates declare, with values that they may have; a file of other kernels is left out unread.
$ sed 's/"bn": 128/"bn": 128, "splitk": 2/' choices.json >named.json; adlgen compile p.json --gpu h100 --out out --emit ptx --tuned named.json
named.json:2:163: error: no template has a parameter `splitk`
  ...": 512, "m": 64, "from": 33, "to": 64, "parameters": {"bm": 64, "bn": 128, "splitk": 2}, "us": 3.5, "first_us": 3.5}]}
                                                                                ^
hint: did you mean `split_k`?
[exit 1]

$ sed 's/"bn": 128/"bn": 128, "pingpong": 9/' choices.json >turns.json; adlgen compile p.json --gpu h100 --out out --emit ptx --tuned turns.json
turns.json:2:175: error: `pingpong` is from 1 to 8
  ... 64, "from": 33, "to": 64, "parameters": {"bm": 64, "bn": 128, "pingpong": 9}, "us": 3.5, "first_us": 3.5}]}
                                                                                ^
[exit 1]

$ sed 's/"generation": 1/"generation": 7/' named.json >later.json; adlgen compile p.json --gpu h100 --out out --emit ptx --explain --tuned later.json | grep -c 'left out'
1

# What was measured of a product counts for it with a bias too, unless that was measured itself; not with a function, nor of more than 64 rows with another tensor.
$ sed 's/"D"\]}\]/"H"]}, {"op": "Add", "inputs": ["H", "bias"], "outputs": ["D"]}]/; s/"inputs": {/"inputs": {"bias": {"type": "bf16", "shape": [256]}, /' p.json >bias.json; adlgen compile bias.json --gpu h100 --out out --emit ptx --explain --dim M=64 --tuned choices.json | grep -o 'tuned: .*'
tuned: bm=64 bn=128, measured at M = 64 without vectors: 1.000 times as fast as the model's choice

$ sed 's/-> bf16/-> bf16, reads a vector/; s/"bn": 128/"bn": 64/' choices.json >vector.json; adlgen compile bias.json --gpu h100 --out out --emit ptx --explain --dim M=64 --tuned choices.json --tuned vector.json | grep -o 'tuned: .*'
tuned: bm=64 bn=64, measured at M = 64: 1.000 times as fast as the model's choice

$ sed 's/"Add", "inputs": \["H", "bias"\]/"Tanh", "inputs": ["H"]/' bias.json >tanh.json; adlgen compile tanh.json --gpu h100 --out out --emit ptx --explain --dim M=64 --tuned choices.json 2>/dev/null | grep -c 'tuned: '
0
[exit 1]

$ sed 's/"shape": \[256\]/"shape": ["M", 256]/' bias.json >residual.json; adlgen compile residual.json --gpu h100 --out out --emit ptx --explain --dim M=64 --tuned choices.json | grep -o 'tuned: .*'
tuned: bm=64 bn=128, measured at M = 64 without what its epilogue reads: 1.000 times as fast as the model's choice

$ sed 's/"m": 64, "from": 33, "to": 64/"m": 128, "from": 65, "to": 128/' choices.json >more.json; for g in bias residual; do adlgen compile $g.json --gpu h100 --out out --emit ptx --explain --dim M=128 --tuned more.json | grep -c 'tuned: '; done
1
0
[exit 1]

$ adlgen compile p.json --gpu h100 --out out --emit ptx --explain --no-tuned | grep -c tuned
0
[exit 1]

$ adlgen compile p.json --gpu h100 --out out --emit ptx --explain | grep -c tuned
0
[exit 1]

$ ADLGEN_TUNED=choices.json adlgen compile p.json --gpu h100 --out out --emit ptx --explain | grep -c tuned
1

$ mkdir -p $HOME/.local/share/adlgen/tuned; cp choices.json $HOME/.local/share/adlgen/tuned/h100.json; adlgen compile p.json --gpu h100 --out out --emit ptx --explain | grep -c tuned
1

$ adlgen run p.json --gpu h100 --on sim --dim M=40 --check
matmul: matmul_bf16_n256k512_64x128x64, grid 2 x 1 x 1, ...
output  type     error   max abs  limit  
D       bf16  1.66e-03  1.51e-02  4e-03  ok

$ adlgen run p.json --gpu h100 --on sim --dim M=40 --check --sms 1 --no-tuned
matmul: ..., grid 1 x 1 x 1, ...
output  type     error   max abs  limit  
D       bf16  1.66e-03  1.51e-02  4e-03  ok

$ rm -r $HOME/.local

# Files that cannot be used.
$ adlgen compile p.json --gpu h100 --out out --emit ptx --tuned none.json
error: cannot read none.json: No such file or directory
[exit 1]

$ adlgen compile p.json --gpu h100 --out out --emit ptx --tuned choices.json --no-tuned
error: --tuned and --no-tuned exclude each other
[exit 2]

$ printf '{"version": 1,\n "gpu": "h100", "sms": 132, "generation": 1,\n "entries": [{"product": "p", "m": 3}]}' >wrong.json; adlgen compile p.json --gpu h100 --out out --emit ptx --tuned wrong.json
wrong.json:3:14: error: missing key `sms`
   "entries": [{"product": "p", "m": 3}]}
               ^
[exit 1]

$ sed 's/"generation": 1/"generation": 99/' choices.json >old.json; adlgen compile p.json --gpu h100 --out out --emit ptx --tuned old.json --explain | grep tuned
tuned: old.json is left out: it was measured with kernels of generation 99, this program's are of 1

$ adlgen tune p.json --gpu h100 --dim M=64 --times times.json --out old.json
error: old.json cannot be added to: it was measured with kernels of generation 99, this program's are of 1
hint: remove it, or name another with --out
[exit 1]

$ adlgen compile p.json --gpu h800 --out out --emit ptx --tuned choices.json --explain | grep tuned
tuned: choices.json is left out: it is for h100

$ sed 's/"bn": 128/"bn": 100/' choices.json >illegal.json; adlgen compile p.json --gpu h100 --out out --emit ptx --tuned illegal.json --explain | grep tuned
  M = 64     tuned: bm=64 bn=100 is not legal here, so the model decides

$ printf '{"version": 1}' >times.json; adlgen tune p.json --gpu h100 --dim M=64 --times times.json
times.json:1:1: error: this is no result of adlgen tune
  {"version": 1}
  ^
hint: adlgen tune --result writes such files
[exit 1]

$ printf '{"version": 1,\n "products": [}' >times.json; adlgen tune p.json --gpu h100 --dim M=64 --times times.json
times.json:2:15: error: unexpected token near '}'
   "products": [}
                ^
hint: adlgen tune --result writes such files
[exit 1]

# An entry may name the walk, which no proposal varies.
$ sed 's/"bn": 128/"bn": 128, "group": 2/' choices.json >walk.json; adlgen compile p.json --gpu h100 --out walk --emit ir --dim M=64 --tuned walk.json --explain | grep -o 'tuned: bm.*128 raster=2'; grep -h 'bound raster' walk/h100/*128x64.ir
tuned: bm=64 bn=128 raster=2
bound raster: int = 2

$ adlgen compile p.json --gpu h100 --out usual --emit ir --dim M=64 --tuned choices.json >/dev/null; grep -h 'bound raster' usual/h100/*128x64.ir
bound raster: int = 8

# With M open the rows that were measured have a range of their own, walked as it says.
$ adlgen compile p.json --gpu h100 --out open --emit ir --tuned walk.json --explain | grep -o 'tile 64x128x64, guard.*M <= 64'; grep -h 'bound raster' open/h100/*64x128x64.ir
tile 64x128x64, guard: align(A) >= 16 && align(B) >= 16 && align(D) >= 16 && M <= 64
bound raster: int = 2

# No proposal is one that the passes refuse: slices of tiles take no turns, and what blocks of a split tile send one another has room beside the ring.
$ echo '{"name": "q", "inputs": {"A": {"type": "bf16", "shape": [16, 7168], "align": 16}, "B": {"type": "bf16", "shape": [7168, 576], "strides": [1, 7168], "align": 16}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["D"]}], "outputs": ["D"]}' >q.json; adlgen tune q.json --gpu h100 --list --top 9999 | grep 'slices' | grep -c 'pingpong'
0
[exit 1]

$ sed 's/\[16, 7168\]/[256, 7168]/; s/576/2112/' q.json >r.json; adlgen tune r.json --gpu h100 --list --top 9999 | grep -c 'bm=256 bn=176 split_k=2'
0
[exit 1]

# What is no product by tiles: proposals are what its template's lines try, each a kernel that the passes let be. No price orders them.
$ echo '{"name": "s", "inputs": {"x": {"type": "bf16", "shape": ["R", 320], "align": 16}}, "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attributes": {"axis": -1}}], "outputs": ["y"]}' >s.json

$ adlgen tune s.json --gpu h100 --dim R=33 --list --top 3
s R=33                                                   -  rows=4 cols=512 threads=128 blocks=1 again=0  (the model's choice)
                                                         -  split_k=1 threads=256
                                                         -  split_k=1 threads=512

$ adlgen tune s.json --gpu h100 --dim R=33 --list --top 3 --json --result r.json | validate tune
valid

$ python3 -c "import json; r = json.load(open('r.json')); p = r['products'][0]['proposals']; [q.update(us=9 - i, spread=0, thorough=True) or q.pop('message') for i, q in enumerate(p)]; json.dump(r, open('t.json', 'w'))"; adlgen tune s.json --gpu h100 --dim R=33 --times t.json --out rows.json --top 3 | tail -1; cat rows.json
1 choices are in rows.json
{"version": 2, "gpu": "h100", "sms": 132, "generation": 1, "entries": [
  {"operator": "row bf16[aB] -> bf16[aB], max_sum Sub Exp Div, #e9cdefc8", "sms": 132, "extents": [33, 320], "parameters": {"split_k": 1, "threads": 512}, "us": 7.0, "first_us": 9.0}]}

# Its rows are open: no guard asks for their number, so that what was measured of 33 answers. One of another length does not.
$ for c in 320 328; do sed "s/320/$c/" s.json | adlgen compile - --gpu h100 --out out --emit ptx --explain --tuned rows.json | grep 'tuned\|variant'; done
  tuned: split_k=1 threads=512: 1.286 times as fast as the model's choice, measured
  variant 1: template row, tile 4x512, guard: align(y) >= 16
  variant 2: template row, tile 4x512, guard: always
  variant 1: template row, tile 4x512, guard: align(y) >= 16
  variant 2: template row, tile 4x512, guard: always

$ adlgen run s.json --gpu h100 --dim R=33 --tuned rows.json --on sim --check | tail -1
y       bf16  1.70e-03  1.86e-04  4e-03  ok

# What its template no longer has, or the passes do not let be, is told and left out; version 1 has no such entries.
$ sed 's/"threads": [0-9]*/"threads": 33/' rows.json >odd.json; adlgen compile s.json --gpu h100 --out out --emit ptx --explain --tuned odd.json | grep tuned
  tuned: split_k=1 threads=33 is not legal here, so the model decides

$ sed 's/"version": 2/"version": 1/' rows.json >old.json; adlgen compile s.json --gpu h100 --out out --emit ptx --tuned old.json
old.json:2:3: error: missing key `product`
    {"operator": "row bf16[aB] -> bf16[aB], max_sum Sub Exp Div, #e9cdefc8", "sms": 132, "extents": [33, 320], "parameters": {"split_k": 1, "threads": 5...
    ^
[exit 1]

$ sed 's/"extents": .33, 320./"extents": [33, 0]/' rows.json >none.json; adlgen compile s.json --gpu h100 --out out --emit ptx --tuned none.json
none.json:2:104: error: an extent is at least 1
    {"operator": "row bf16[aB] -> bf16[aB], max_sum Sub Exp Div, #e9cdefc8", "sms": 132, "extents": [33, 0], "parameters": {"split_k": 1, "threads": 512...
                                                                                                         ^
hint: docs/tune.md describes the file
[exit 1]

# Points, a scan, a reduction, a transpose; attention, with each value of a parameter that no chooser knows.
$ for g in 'Softmax x' 'Exp x' 'CumSum x,a' 'ReduceMax x,b' 'Transpose x'; do set -- $g; ins=$(echo $2 | sed 's/,/", "/g'); echo "{\"name\": \"o\", \"inputs\": {\"x\": {\"type\": \"f32\", \"shape\": [64, 3000], \"align\": 16}}, \"constants\": {\"a\": {\"type\": \"s64\", \"shape\": [], \"data\": 1}, \"b\": {\"type\": \"s64\", \"shape\": [1], \"data\": [1]}}, \"nodes\": [{\"op\": \"$1\", \"inputs\": [\"$ins\"], \"outputs\": [\"y\"]}], \"outputs\": [\"y\"]}" >o.json; adlgen tune o.json --gpu a100 --list --json 2>/dev/null | python3 -c "import json, sys; [print('$1', p['product'], p['extents'], len(p['proposals']) > 3) for p in json.load(sys.stdin)['products']]"; done
Softmax row f32[aB] -> f32[aB], max_sum Sub Exp Div, #167c59fd [64, 3000] True
Exp elementwise f32[A] -> f32[A], Exp, #aa41fb00 [192000] True
CumSum scan f32[aB] -> f32[aB], sum, #221b810f [64, 3000] True
ReduceMax row f32[aB] -> f32[A], max, #94c0467c [64, 3000] True
Transpose elementwise f32[Ab] -> f32[aB], #3b32af5f [3000, 64] True

$ echo '{"name": "a", "inputs": {"q": {"type": "bf16", "shape": [1, 4, 2048, 128]}, "k": {"type": "bf16", "shape": [1, 4, 2048, 128]}, "v": {"type": "bf16", "shape": [1, 4, 2048, 128]}}, "nodes": [{"op": "Attention", "inputs": ["q", "k", "v"], "outputs": ["y"]}], "outputs": ["y"]}' >a.json; adlgen tune a.json --gpu h100 --list --top 12
a                                                        -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=8  (the model's choice)
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=0
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=1
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=2
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=3
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=4
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=5
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=6
                                                         -  rows=64 keys=128 stages=2 persistent=0 heads=4 cluster_n=1 backwards=0 queries=1 warps=0 blocks=1 skips=0 dynamic=0 lag=7
                                                         -  rows=64 keys=64 skips=0 cluster_n=1 persistent=0 dynamic=0 heads=4 queries=1 stages=2
                                                         -  rows=64 keys=32 cluster_n=1 persistent=0 heads=4 stages=1
                                                         -  rows=32 keys=32 cluster_n=1 persistent=0 heads=4 stages=1
