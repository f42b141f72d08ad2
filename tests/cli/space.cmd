# A parameter that nobody knew: the template of products declares and uses it, and no line of C is changed. --set, tune, files of measured choices and kernels' names go by its declaration.
$ mkdir -p data/templates; sed -e '/^param epilogue/a param twice: int = 0 in 0 .. 1 if $split_k == 1 \&\& $slices == 1' -e 's/^key .*/& twice/' -e '0,/^          mma %acc += @ab.a \* @ab.b$/s//&\n          when $twice == 1 {\n            %more: tile<$tc>[$bm, $bn] = add %acc, 0\n            set %acc <- %more\n          }/' $SRC/templates/gemm.ir >data/templates/gemm.ir; diff $SRC/templates/gemm.ir data/templates/gemm.ir | grep -c '^>'
6

$ echo '{"name": "p", "inputs": {"A": {"type": "bf16", "shape": [4096, 4096], "align": 16}, "B": {"type": "bf16", "shape": [4096, 4096], "align": 16}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["D"]}], "outputs": ["D"]}' >p.json; ADLGEN_DATA_DIR=data adlgen compile p.json --gpu h100 --no-tuned --set twice=2 --emit ptx --out out
error: --set twice=2: twice is from 0 to 1
[exit 1]

$ ADLGEN_DATA_DIR=data adlgen compile p.json --gpu h100 --no-tuned --set twice=1 --set split_k=2 --emit ptx --out out
data/templates/gemm.ir:53:7: error: parameter `twice` is 0 where `$split_k == 1 && $slices == 1` does not hold, not 1
  param twice: int = 0 in 0 .. 1 if $split_k == 1 && $slices == 1
        ^
hint: asked for: --set twice=1 --set split_k=2
[exit 3]

$ ADLGEN_DATA_DIR=data adlgen compile p.json --gpu h100 --no-tuned --set twice=1 --emit ptx --out out --explain | grep -o 'twice = 1 by --set\|^matmul[^ ]*'
matmul_bf16_m4096n4096k4096_128x256x64_twice1
matmul_bf16_m4096n4096k4096_128x256x32_twice1
matmul
twice = 1 by --set

# Every value that its condition admits is proposed beside the model's choice.
$ ADLGEN_DATA_DIR=data adlgen tune p.json --gpu h100 --list --top 4 | sed 's/  *[0-9]* clocks//'
p  bm=128 bn=256  (the model's choice)
  bm=128 bn=256 twice=1
  bm=128 bn=256 swapped=1
  bm=128 bn=256 swapped=1 twice=1

# One that was measured is chosen, and names its kernel.
$ echo '{"version": 1, "gpu": "h100", "sms": 132, "generation": 1, "entries": [{"product": "bf16 mk x bf16 kn + f32 -> bf16", "sms": 132, "batches": 1, "n": 4096, "k": 4096, "m": 4096, "from": 4096, "to": 4096, "parameters": {"bm": 256, "bn": 128, "twice": 1}, "us": 3.5, "first_us": 3.5}]}' >measured.json; ADLGEN_DATA_DIR=data adlgen compile p.json --gpu h100 --tuned measured.json --emit ptx --out out | awk '/256x128/ {print $1}'
matmul_bf16_m4096n4096k4096_256x128x64_twice1

# A `try` line that names it, and the model considers it unasked: of equal prices the later is taken.
$ sed -i '0,/^  pingpong in 1 .. 2.*/s//&\n  twice in 0 .. 1 if $twice == 0 || $split_k == 1 \&\& n >= 4096/' data/templates/gemm.ir; ADLGEN_DATA_DIR=data adlgen compile p.json --gpu h100 --no-tuned --emit ptx --out out | awk '/matmul/ {print $1}'
matmul_bf16_m4096n4096k4096_128x256x64_twice1
matmul_bf16_m4096n4096k4096_128x256x32_any

# Words that no fact has, and what is tried outside of a domain.
$ sed 's/n >= 4096/nn >= 4096/' data/templates/gemm.ir >wrong.ir; mkdir -p wrong/templates; mv wrong.ir wrong/templates/gemm.ir; ADLGEN_DATA_DIR=wrong adlgen compile p.json --gpu h100 --emit ptx --out out
wrong/templates/gemm.ir:82:54: error: `nn` is neither a fact that choosing knows nor a word of the lines above
    twice in 0 .. 1 if $twice == 0 || $split_k == 1 && nn >= 4096
                                                       ^
hint: did you mean `n`?
[exit 1]

$ sed -i 's/nn >= 4096/model.slices >= 4096/' wrong/templates/gemm.ir; ADLGEN_DATA_DIR=wrong adlgen compile p.json --gpu h100 --emit ptx --out out
wrong/templates/gemm.ir:82:54: error: `model.slices` is neither a fact that choosing knows nor a word of the lines above
    twice in 0 .. 1 if $twice == 0 || $split_k == 1 && model.slices >= 4096
                                                       ^
[exit 1]

$ sed -i 's/model.slices >= 4096/n >= 4096/; s/twice in 0 .. 1/twice in 0 .. 2/' wrong/templates/gemm.ir; ADLGEN_DATA_DIR=wrong adlgen compile p.json --gpu h100 --emit ptx --out out
wrong/templates/gemm.ir:82:17: error: `twice` is from 0 to 1, not 2
    twice in 0 .. 2 if $twice == 0 || $split_k == 1 && n >= 4096
                  ^
[exit 1]

# What follows from a tile is asked behind the lines that give it.
$ mkdir -p early/templates; sed '0,/^  if warpgroups$/s//  if warpgroups \&\& 512 % $bk == 0/' data/templates/gemm.ir >early/templates/gemm.ir; ADLGEN_DATA_DIR=early adlgen compile p.json --gpu h100 --no-tuned --emit ptx --out out
early/templates/gemm.ir:65:26: error: `$bk` follows from parameters that are tried, and no line up to here gives `bm`
    if warpgroups && 512 % $bk == 0
                           ^
[exit 1]

# A condition may ask for facts of the product, too; a word that is none is told.
$ for fact in 'n >= 4096' 'n < 4096' 'batchd'; do mkdir -p asks/templates; sed "s/^\\(param twice.*\\) if .*/\\1 if $fact \\&\\& \$slices == 1/; s/^  twice in 0.*//" data/templates/gemm.ir >asks/templates/gemm.ir; ADLGEN_DATA_DIR=asks adlgen compile p.json --gpu h100 --no-tuned --set twice=1 --emit ptx --out out 2>&1 | grep -o '^matmul.*twice1\|.*error.*\|hint.*'; done
matmul_bf16_m4096n4096k4096_128x256x64_twice1
matmul_bf16_m4096n4096k4096_128x256x32_twice1
asks/templates/gemm.ir:53:7: error: parameter `twice` is 0 where `n < 4096 && $slices == 1` does not hold, not 1
hint: asked for: --set twice=1
asks/templates/gemm.ir:53:35: error: `batchd` is no fact that choosing knows
hint: did you mean `batched`?

# What the blocks say is what is enumerated.
$ sed -i 's/bn in 16 .. 256 step 16/bn in 16 .. 96 step 16/' data/templates/gemm.ir; ADLGEN_DATA_DIR=data adlgen tune p.json --gpu h100 --list --top 9999 | grep -o 'bn=[0-9]*' | sort -u | tr '\n' ' '
bn=16 bn=32 bn=48 bn=64 bn=80 bn=96 

# What choosing takes for a key is one in the template.
$ sed -i "s/^key bm bn pingpong/key bk bm bn pingpong/" data/templates/gemm.ir; ADLGEN_DATA_DIR=data adlgen compile p.json --gpu h100 --emit ptx --out out
data/templates/gemm.ir:32:7: error: `bk` follows from other parameters, but the template's key has it
  param bk: int = 64 in 1 .. 65535
        ^
hint: choosing has a table of axes for each family (of products generator/choose/gemm_axes.def): there it is one of the key, or not
[exit 3]

# Attention's tiles are its template's, too: the first that fits of what is tried, and --set of any parameter of its key.
$ echo '{"name": "a", "opset": 24, "inputs": {"q": {"type": "bf16", "shape": [1, 4, 4096, 128]}, "k": {"type": "bf16", "shape": [1, 4, 4096, 128]}, "v": {"type": "bf16", "shape": [1, 4, 4096, 128]}}, "nodes": [{"op": "Attention", "inputs": ["q", "k", "v"], "outputs": ["y"]}], "outputs": ["y"]}' >a.json; adlgen templates show attention | sed 's/^  rows, keys in .*/  rows, keys in [[128, 96], [64, 48]]/; s/^  stages in .*/  stages in [7, 3]/' >own.ir; mkdir -p own/templates; mv own.ir own/templates/attention.ir; ADLGEN_DATA_DIR=own adlgen compile a.json --gpu h100 --emit ptx --out out --explain | grep -o 'template attention, tile.*'
template attention, tile 128x96, guard: align(q) >= 16 && align(k) >= 16 && align(v) >= 16 && align(y) >= 16
template attention, tile 128x96, guard: always

$ adlgen compile a.json --gpu h100 --set backwards=1 --emit ptx --out out --explain | grep 'by --set'
  backwards = 1 by --set

$ adlgen compile a.json --gpu h100 --set cluster_n=1 --emit ptx --out out --explain | grep 'by --set'
  cluster_n = 1 by --set

# A condition may ask for the operator's facts here, too, but not for those of what is tried.
$ for fact in causal even anyone; do mkdir -p asked/templates; sed "/^param backwards/s/\$/ if $fact/" own/templates/attention.ir >asked/templates/attention.ir; for masked in 0 1; do sed "s/\"outputs\": \[\"y\"\]}\]/\"outputs\": [\"y\"], \"attributes\": {\"is_causal\": $masked}}]/" a.json | ADLGEN_DATA_DIR=asked adlgen compile - --gpu h100 --set backwards=1 --emit ptx --out out 2>&1 | awk '/^attention|error|hint/ {print $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12}'; done; done
asked/templates/attention.ir:59:7: error: parameter `backwards` is 0 where `causal` does not hold, not
hint: asked for: --set backwards=1       
attention_bf16_b1h4g1m4096t4096d128e128_128x96_long h100 attention 128x96 3 4 producer + 8 consumer 384 -
attention_bf16_b1h4g1m4096t4096d128e128_128x96_any h100 attention 128x96 3 8 all 256 - 180224 - -
asked/templates/attention.ir:59:39: error: `even` is a fact of what is tried, which a
hint: ask for the fact in its `try` lines   
asked/templates/attention.ir:59:39: error: `even` is a fact of what is tried, which a
hint: ask for the fact in its `try` lines   
asked/templates/attention.ir:59:39: error: `anyone` is no fact that choosing knows   
asked/templates/attention.ir:59:39: error: `anyone` is no fact that choosing knows   

# And so for rows and points: of those that are tried, what a condition is against is left out; what --set asks for is told.
$ adlgen templates show elementwise >own.ir; mkdir -p asked/templates; rm asked/templates/*; sed 's/^axis vectors.*64/& if copies/' own.ir >asked/templates/elementwise.ir; for op in Exp Identity; do echo "{\"name\": \"e\", \"inputs\": {\"x\": {\"type\": \"f32\", \"shape\": [65536, 1024], \"align\": 16}}, \"nodes\": [{\"op\": \"$op\", \"inputs\": [\"x\"], \"outputs\": [\"y\"]}], \"outputs\": [\"y\"]}" >e.json; for data in none asked; do ADLGEN_DATA_DIR=$data adlgen compile e.json --gpu h100 --emit ptx --out out --explain | grep -o 'variant 1: template.*'; done; ADLGEN_DATA_DIR=asked adlgen compile e.json --gpu h100 --set vectors=2 --emit ptx --out out 2>&1 | grep -o 'error.*\|^[a-z]*_f32[^ ]*' | head -1; done
variant 1: template elementwise, tile 2048, guard: align(y) >= 16
variant 1: template elementwise, tile 1024, guard: align(y) >= 16
error: parameter `vectors` is 1 where `copies` does not hold, not 2
variant 1: template elementwise, tile 2048, guard: align(y) >= 16
variant 1: template elementwise, tile 2048, guard: align(y) >= 16
identity_f32_n67108864_v4

$ sed -i 's/^  if !any/  if !anyone/' own/templates/attention.ir; ADLGEN_DATA_DIR=own adlgen compile a.json --gpu h100 --emit ptx --out out
own/templates/attention.ir:121:7: error: `anyone` is neither a fact that choosing knows nor a word of the lines above
    if !anyone && !eight
        ^
[exit 1]

# A parameter that nobody knew of attention: three lines of the template, none of C.
$ adlgen templates show attention | sed -e '/^param epilogue/a param twice: int = 0 in 0 .. 1 if $backwards == 0' -e 's/^key .*/& twice/' -e 's/persistent $persistent raster 1 /persistent $persistent raster 1 + $twice /' >own.ir; mv own.ir own/templates/attention.ir; for set in twice=0 twice=1; do ADLGEN_DATA_DIR=own adlgen compile a.json --gpu h100 --set rows=64 --set $set --emit ptx --out out | awk '/^attention/ {print $1}'; done
attention_bf16_b1h4g1m4096t4096d128e128_64x128_pairs
attention_bf16_b1h4g1m4096t4096d128e128_64x32_any
attention_bf16_b1h4g1m4096t4096d128e128_64x128_pairs_twice1
attention_bf16_b1h4g1m4096t4096d128e128_64x32_any_twice1

# So do kernels of points, of rows and of sums along k: what is set stands where it is tried, so that the lines behind it go by it.
$ echo '{"name": "e", "inputs": {"x": {"type": "f32", "shape": [4096, 1000]}}, "nodes": [{"op": "Exp", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' >e.json; for set in threads=128 vector=2; do adlgen compile e.json --gpu h100 --set $set --emit ptx --out out --explain | grep -o 'variant .: template.*'; done
variant 1: template elementwise, tile 1024, guard: align(x) >= 16 && align(y) >= 16
variant 2: template elementwise, tile 512, guard: always
variant 1: template elementwise, tile 1024, guard: align(x) >= 8 && align(y) >= 8
variant 2: template elementwise, tile 1024, guard: always

$ adlgen compile e.json --gpu h100 --set vector=8 --emit ptx --out out
error: --set vector=8: no kernel of this graph has such a parameter, or may have that value
hint: adlgen compile --explain names the templates
[exit 1]

$ echo '{"name": "s", "inputs": {"x": {"type": "f32", "shape": [64, 20000]}}, "constants": {"d": {"type": "s64", "shape": [], "data": [1]}}, "nodes": [{"op": "CumSum", "inputs": ["x", "d"], "outputs": ["y"]}], "outputs": ["y"]}' >s.json; adlgen compile s.json --gpu h100 --set cols=1024 --emit ptx --out out --explain | grep -o 'template.*'
template  tile    stages  roles  threads  registers  shared  spills  size
template row_scan, tile 1x1024, guard: align(x) >= 16 && align(y) >= 16
template row_scan, tile 1x1024, guard: always

$ for name in elementwise row_scan; do adlgen templates show $name | sed -e '/^param \(body\|epilogue\)/a param calm: int = 0 in 0 .. 1' -e 's/^key .*/& calm/' -e 's/launch threads $threads/& min_blocks 1 + $calm/' >own/templates/$name.ir; done; for graph in e s; do ADLGEN_DATA_DIR=own adlgen compile $graph.json --gpu h100 --set calm=1 --emit ptx --out out | awk '/_calm/ {print $1}'; done
exp_f32_n4096000_v4_calm1
exp_f32_n4096000_v1_calm1
cumsum_f32_r64c20000_1x4096_calm1
cumsum_f32_r64c20000_1x4096_calm1_2

$ sed -i 's/^  threads = .*/  threads = 100 * nobody/' own/templates/row_scan.ir; ADLGEN_DATA_DIR=own adlgen compile s.json --gpu h100 --emit ptx --out out
own/templates/row_scan.ir:22:19: error: `nobody` is neither a fact that choosing knows nor a word of the lines above
    threads = 100 * nobody
                    ^
[exit 1]

$ adlgen templates show row_scan | sed 's/^  if !across .*/  if across/' >own/templates/row_scan.ir; ADLGEN_DATA_DIR=own adlgen compile s.json --gpu h100 --emit ptx --out out
s.json:1:144: error: the template `row_scan` tries nothing that this operator could be
  {"name": "s", "inputs": {"x": {"type": "f32", "shape": [64, 20000]}}, "constants": {"d": {"type": "s64", "shape": [], "data": [1]}}, "nodes": [{"op": ...
                                                                                                                                                 ^
[exit 3]

# And of rows: two lines of the template.
$ rm -rf asked/templates/*; adlgen templates show row | sed -e '/^axis slots/a axis twice: int = 0 in 0 .. 1 if columns >= 64' -e 's/^key .*/& twice/' >asked/templates/row.ir; echo '{"name": "s", "inputs": {"x": {"type": "f32", "shape": ["R", 320], "align": 16}}, "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' >s.json; ADLGEN_DATA_DIR=asked adlgen compile s.json --gpu h100 --no-tuned --set twice=1 --emit ptx --out out | awk '/^softmax/ {print $1}'; ADLGEN_DATA_DIR=asked adlgen tune s.json --gpu h100 --dim R=33 --list --top 2 | grep -o 'twice=1'; sed 's/320/48/' s.json | ADLGEN_DATA_DIR=asked adlgen compile - --gpu h100 --no-tuned --set twice=1 --emit ptx --out out 2>&1 | grep error
softmax_f32_c320_4x512_twice1
softmax_f32_c320_4x512_twice1_2
twice=1
asked/templates/row.ir:14:6: error: parameter `twice` is 0 where `columns >= 64` does not hold, not 1

# Rows: what is computed goes into the template's `tiles`, wherever it stands.
$ echo '{"name": "r", "inputs": {"x": {"type": "f32", "shape": [1000, 4096]}}, "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' >r.json; mkdir -p rows/templates; sed -e 's/^key .*/param twice: int = 0 in 0 .. 1\n& twice/' -e 's/^kernel .*/&\n  when $twice == 1 {\n    %twice: s32 = let 2\n  }/' $SRC/templates/row.ir >rows/templates/row.ir; ADLGEN_DATA_DIR=rows adlgen compile r.json --gpu h100 --set twice=1 --emit ptx --out out | grep -o '^softmax[^ ]*'
softmax_f32_r1000c4096_1x4096_twice1
softmax_f32_r1000c4096_1x4096_twice1_2

$ sed -i '/^  tiles /,/^  }/d' rows/templates/row.ir; ADLGEN_DATA_DIR=rows adlgen compile r.json --gpu h100 --emit ptx --out out
rows/templates/row.ir:67:8: error: the kernel of a row program is written into its `tiles`, and it has none
  kernel row() dims R: s32, C: s32 launch threads $threads min_blocks $blocks {
         ^
hint: tiles %r in linear(R) { }
[exit 1]
