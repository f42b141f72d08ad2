# needs ptxas
# A small catalogue of its own: what check says about each kind of difference.
$ printf '%s' '{"version": 1, "gpus": ["a100", "h100", "h800"], "entries": [{"name": "{op}_{type}", "variants": [1], "for": {"op": [{"name": "exp", "op": "Exp"}, {"name": "neg", "op": "Neg"}], "type": ["f32"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["N"]}}, "nodes": [{"op": "{op.op}", "inputs": ["X"], "outputs": ["Y"]}], "outputs": ["Y"]}}]}' >catalog.json

$ validate catalog <catalog.json
valid

$ adlgen catalog check | grep -c 'is missing'
7

$ adlgen catalog build
note: this is ptxas 13.0.88; resources.json was taken with none
a100: 2 kernels
h100: 2 kernels
h800: 2 kernels
built: 7 files, 4 assembled with ptxas 13.0.88

$ find generated -type f | sort
generated/a100.json
generated/a100/exp_f32.ptx
generated/a100/neg_f32.ptx
generated/h100-h800/exp_f32.ptx
generated/h100-h800/neg_f32.ptx
generated/h100.json
generated/h800.json
generated/resources.json

$ adlgen catalog check
a100: 2 kernels
h100: 2 kernels
h800: 2 kernels
checked: 7 files, 4 assembled with ptxas 13.0.88

$ adlgen catalog check --json | validate catalog-report
valid

$ validate manifest <generated/h800.json; validate resources <generated/resources.json
valid
valid

$ (cd generated && sed -n 's/.*"file": "\([^"]*\)".*"sha256": "\([0-9a-f]*\)".*/\2  \1/p' a100.json h100.json | sha256sum -c)
a100/exp_f32.ptx: OK
a100/neg_f32.ptx: OK
h100-h800/exp_f32.ptx: OK
h100-h800/neg_f32.ptx: OK

# A changed byte, a missing file, one too many.
$ sed -i '1s/.*/changed/' generated/a100/exp_f32.ptx; rm generated/h100-h800/neg_f32.ptx; touch generated/h100-h800/extra.ptx; adlgen catalog check
a100/exp_f32.ptx differs from line 1:
    - changed
    + .version 8.0
h100-h800/neg_f32.ptx is missing
h100-h800/extra.ptx belongs to no kernel of the catalogue
a100: 2 kernels
h100: 2 kernels
h800: 2 kernels
checked: 7 files, 4 assembled with ptxas 13.0.88, 3 problems
[exit 5]

$ adlgen catalog check --gpu a100 | head -3
error: ./generated/h100-h800/neg_f32.ptx: Failed to open file “./generated/h100-h800/neg_f32.ptx”: No such file or directory

$ adlgen catalog build >/dev/null && adlgen catalog check | tail -1
checked: 7 files, 4 assembled with ptxas 13.0.88

# Budgets only fall.
$ sed -i 's/"registers": [0-9]*/"registers": 1/' generated/resources.json; adlgen catalog check | grep -c 'more than its budget'
4

$ adlgen catalog build | tail -1
--accept builds nevertheless

$ adlgen catalog build >/dev/null
[exit 5]

$ adlgen catalog build --accept >/dev/null && adlgen catalog check | tail -1
checked: 7 files, 4 assembled with ptxas 13.0.88

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
error: exp_f33 for a100: unknown type `f33`
error: neg_f33 for a100: unknown type `f33`
error: exp_f33 for h100: unknown type `f33`
error: neg_f33 for h100: unknown type `f33`
error: exp_f33 for h800: unknown type `f33`
error: neg_f33 for h800: unknown type `f33`
[exit 1]

$ mkdir other; sed 's/_{type}//; s/"f32"/"f32", "f16"/' catalog.json >other/catalog.json; adlgen catalog build --root other
error: other/catalog.json: exp: two graphs have this name
[exit 1]

$ mkdir broken; echo '{"version": 1,' >broken/catalog.json; adlgen catalog build --root broken
broken/catalog.json:2: error: string or '}' expected near end of file
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
