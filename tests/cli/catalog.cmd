# needs ptxas
# A small catalogue of its own: what check says about each kind of difference.
$ printf '%s' '{"version": 1, "gpus": ["a100", "h100", "h800"], "entries": [{"name": "{op}_{type}", "variants": [1], "for": {"op": [{"name": "exp", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f32"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op.op}", "inputs": ["X"], "outputs": ["Y"]}], "outputs": ["Y"]}}]}' >catalog.json

$ validate catalog <catalog.json
valid

$ adlgen catalog check | grep -c 'is missing'
6

$ adlgen catalog build
note: this is ptxas 13.0.88; resources.json was taken with none
a100: 2 kernels
h100: 2 kernels
h800: 2 kernels
built: 4 kernels, 3 of them as text, 4 assembled with ptxas 13.0.88

$ find generated -type f | sort
generated/a100.json
generated/a100/exp_f32.ptx
generated/a100/neg_f32.ptx
generated/h100-h800/exp_f32.ptx
generated/h100.json
generated/h800.json
generated/resources.json

$ adlgen catalog check
a100: 2 kernels
h100: 2 kernels
h800: 2 kernels
checked: 4 kernels, 3 of them as text, 4 assembled with ptxas 13.0.88

$ adlgen catalog check --json | validate catalog-report
valid

$ validate manifest <generated/h800.json; validate resources <generated/resources.json
valid
valid

$ (cd generated && sed -n 's/.*"file": "\([^"]*\)", "kept": true.*"sha256": "\([0-9a-f]*\)".*/\2  \1/p' a100.json h100.json | sha256sum -c)
a100/exp_f32.ptx: OK
a100/neg_f32.ptx: OK
h100-h800/exp_f32.ptx: OK

# A changed byte, a missing file, one too many.
$ sed -i '1s/.*/changed/' generated/a100/exp_f32.ptx; rm generated/h100-h800/exp_f32.ptx; touch generated/h100-h800/extra.ptx; adlgen catalog check
a100/exp_f32.ptx differs from line 1:
    - changed
    + .version 8.0
h100-h800/exp_f32.ptx is missing
h100-h800/extra.ptx belongs to no kernel of the catalogue
a100: 2 kernels
h100: 2 kernels
h800: 2 kernels
checked: 4 kernels, 3 of them as text, 4 assembled with ptxas 13.0.88, 3 problems
[exit 5]

$ adlgen catalog check --gpu a100 | head -3
error: ./generated/h100-h800/exp_f32.ptx: Failed to open file “./generated/h100-h800/exp_f32.ptx”: No such file or directory

$ adlgen catalog build >/dev/null && adlgen catalog check | tail -1
checked: 4 kernels, 3 of them as text, 4 assembled with ptxas 13.0.88

# Budgets only fall.
$ sed -i 's/"registers": [0-9]*/"registers": 1/' generated/resources.json; adlgen catalog check | grep -c 'more than its budget'
4

$ adlgen catalog build | tail -1
--accept builds nevertheless

$ adlgen catalog build >/dev/null
[exit 5]

$ adlgen catalog build --accept >/dev/null && adlgen catalog check | tail -1
checked: 4 kernels, 3 of them as text, 4 assembled with ptxas 13.0.88

$ sed -i 's/"registers": [0-9]*/"registers": 200/' generated/resources.json; adlgen catalog check | grep -c 'less than its budget'
4

# Another version of the assembler only reports.
$ sed -i 's/"registers": [0-9]*/"registers": 1/; s/"ptxas": "[0-9.]*"/"ptxas": "1.2.3"/' generated/resources.json; adlgen catalog check >out; echo $?; grep -c '^note:.*budget' out
0
4

# Faults of the list itself.
$ adlgen catalog check --gpu l40s
error: the catalogue has no GPU l40s
hint: it has a100, h100, h800
[exit 1]

$ sed 's/"f32"/"f33"/' catalog.json >wrong.json; mkdir wrong; mv wrong.json wrong/catalog.json; adlgen catalog check --root wrong
wrong/catalog.json:1:206: error: exp_f33 for a100: unknown type `f33`
  ...", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f33"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op...
                                                                                ^
catalog.json (exp_f33):4:12: note: unknown type `f33`
     "type": "f33",
             ^
hint: did you mean `f32`?
wrong/catalog.json:1:206: error: neg_f33 for a100: unknown type `f33`
  ...", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f33"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op...
                                                                                ^
catalog.json (neg_f33):4:12: note: unknown type `f33`
     "type": "f33",
             ^
hint: did you mean `f32`?
wrong/catalog.json:1:206: error: exp_f33 for h100: unknown type `f33`
  ...", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f33"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op...
                                                                                ^
catalog.json (exp_f33):4:12: note: unknown type `f33`
     "type": "f33",
             ^
hint: did you mean `f32`?
wrong/catalog.json:1:206: error: neg_f33 for h100: unknown type `f33`
  ...", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f33"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op...
                                                                                ^
catalog.json (neg_f33):4:12: note: unknown type `f33`
     "type": "f33",
             ^
hint: did you mean `f32`?
wrong/catalog.json:1:206: error: exp_f33 for h800: unknown type `f33`
  ...", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f33"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op...
                                                                                ^
catalog.json (exp_f33):4:12: note: unknown type `f33`
     "type": "f33",
             ^
hint: did you mean `f32`?
wrong/catalog.json:1:206: error: neg_f33 for h800: unknown type `f33`
  ...", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f33"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op...
                                                                                ^
catalog.json (neg_f33):4:12: note: unknown type `f33`
     "type": "f33",
             ^
hint: did you mean `f32`?
[exit 1]

$ mkdir other; sed 's/_{type}//; s/"f32"/"f32", "f16"/' catalog.json >other/catalog.json; adlgen catalog build --root other
other/catalog.json:1:71: error: two graphs are called exp
  {"version": 1, "gpus": ["a100", "h100", "h800"], "entries": [{"name": "{op}", "variants": [1], "for": {"op": [{"name": "exp", "op": "Exp"}, {"name": "...
                                                                        ^
hint: a name with each variable of `for` in it
other/catalog.json:1:206: note: the other one is here
  ...: "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f32", "f16"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op...
                                                                                ^
[exit 1]

$ mkdir broken; echo '{"version": 1,' >broken/catalog.json; adlgen catalog build --root broken
broken/catalog.json:2:1: error: the file ends where a key is expected
[exit 1]

$ adlgen catalog build --root nowhere
error: cannot read nowhere/catalog.json: No such file or directory
[exit 1]

$ ls -A wrong other broken
broken:
catalog.json

other:
catalog.json

wrong:
catalog.json

# A text that is kept as a checksum is printed by `show`; `diff` tells what changed since a revision.
$ mkdir kinds; printf '%s' '{"version": 1, "gpus": ["a100", "h100", "h800"], "entries": [{"name": "{op}_{type}", "variants": [1], "for": {"op": [{"name": "exp", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f32", "bf16"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op.op}", "inputs": ["X"], "outputs": ["Y"]}], "outputs": ["Y"]}}]}' >kinds/catalog.json; adlgen catalog build --root kinds | tail -1; find kinds/generated -name '*.ptx' | sort
built: 8 kernels, 5 of them as text, 8 assembled with ptxas 13.0.88
kinds/generated/a100/exp_bf16.ptx
kinds/generated/a100/exp_f32.ptx
kinds/generated/a100/neg_f32.ptx
kinds/generated/h100-h800/exp_bf16.ptx
kinds/generated/h100-h800/exp_f32.ptx

$ adlgen catalog show neg_bf16 --gpu h100 --root kinds | sha256sum | cut -d' ' -f1 | xargs -I{} grep -c '"neg_bf16".*"kept": false.*{}' kinds/generated/h100.json
1

$ adlgen catalog show exp_f32 --root kinds | cmp - kinds/generated/a100/exp_f32.ptx; adlgen catalog show exp_f32 --root kinds --json | validate catalog-show
note: this is the kernel of a100; h100, h800: another text
valid

$ adlgen catalog show neg_bf61 --root kinds
error: the catalogue has no kernel neg_bf61
hint: did you mean neg_bf16?
[exit 1]

$ adlgen catalog show --root kinds
error: adlgen catalog show: the kernel's name is missing
[exit 2]

$ sed -i 's/\("kernel": "neg_bf16".*"sha256": "\)......../\100000000/' kinds/generated/h100.json; adlgen catalog check --root kinds --gpu h100 | cut -c1-80; adlgen catalog show neg_bf16 --gpu h100 --root kinds >text
h100-h800/neg_bf16.ptx has another checksum; adlgen catalog show neg_bf16 --gpu 
h100.json differs from line 4:
    -   {"kernel": "neg_bf16", "graph": "neg_bf16", "entry": "neg_bf16_v8", "tar
    +   {"kernel": "neg_bf16", "graph": "neg_bf16", "entry": "neg_bf16_v8", "tar
h100: 4 kernels
checked: 8 kernels, 5 of them as text, 4 assembled with ptxas 13.0.88, 2 problem
note: the committed checksum is another one: the compiler emits this text now

$ adlgen catalog simulate --root kinds --gpu h100 --kernel neg_bf16
FAILED h100 neg_bf16: the compiler emits another text now; adlgen catalog check shows the difference; again: adlgen catalog simulate --gpu h100 --kernel neg_bf16
1 kernels: 0 passed, 1 failed
[exit 5]

$ adlgen catalog check --root kinds --gpu a100 | tail -1; adlgen catalog build --root kinds | tail -1; adlgen catalog simulate --root kinds --gpu h100 --kernel neg_bf16 --dim N=64
checked: 9 kernels, 5 of them as text, 4 assembled with ptxas 13.0.88, 2 problems
built: 8 kernels, 5 of them as text, 8 assembled with ptxas 13.0.88
1 kernels: 1 passed, 0 failed

$ cd kinds; git init -q; git add .; git -c user.name=a -c user.email=a@b commit -q -m all; sed -i 's/"Neg"/"Abs"/; s/"neg"/"abs"/' catalog.json; adlgen catalog build >/dev/null; adlgen catalog diff HEAD
GPUs       kernel    change   registers  spill bytes  cubin bytes      text
a100       abs_bf16  added           27            0         4392  checksum
a100       abs_f32   added           20            0         3880      text
h100-h800  abs_bf16  added           19            0         5120  checksum
h100-h800  abs_f32   added           20            0         4480  checksum
a100       neg_bf16  removed         27            0         4392  checksum
a100       neg_f32   removed         20            0         3880    +0 -73
h100-h800  neg_bf16  removed         19            0         5120  checksum
h100-h800  neg_f32   removed         20            0         4480  checksum
since HEAD: 0 changed, 4 added, 4 removed, 0 renamed; 6 as before

$ cd kinds; sed -i 's/"Abs"/"Neg"/; s/"abs"/"neg"/; s/\["N"\]/[4096]/' catalog.json; adlgen catalog build --accept >/dev/null; adlgen catalog diff HEAD --gpu a100; adlgen catalog diff HEAD --json | validate catalog-diff
GPUs  kernel    change   registers  spill bytes  cubin bytes       text
a100  exp_bf16  changed         48            0         9640  +191 -199
a100  exp_f32   changed   34 -> 32            0         6568   +98 -106
a100  neg_bf16  changed   27 -> 20            0         4392   checksum
a100  neg_f32   changed   20 -> 19            0         3880    +26 -34
since HEAD: 4 changed, 0 added, 0 removed, 0 renamed; 0 as before
valid

$ cd kinds; adlgen catalog diff no-such-revision
error: git knows no revision no-such-revision in ./generated
[exit 1]
