# needs ptxas
# The committed kernels on the simulator: sizes around their tiles, planted faults, what is printed.
$ printf '%s' '{"version": 1, "gpus": ["a100", "h100", "h800"], "entries": [{"name": "softmax_{type}_any", "variants": [1, 6], "for": {"type": ["bf16"]}, "graph": {"inputs": {"X": {"type": "{type}", "shape": ["M", "N"]}}, "dims": {"M": {}, "N": {"multiple": 16}}, "nodes": [{"op": "Softmax", "inputs": ["X"], "outputs": ["Y"]}], "outputs": ["Y"]}}]}' >catalog.json; adlgen catalog build >/dev/null

$ adlgen catalog simulate --list --kernel softmax_bf16_any.1 --gpu h100,h800
h100 softmax_bf16_any.1: M=1 N=16
h100 softmax_bf16_any.1: M=1 N=16 skew=16
h100 softmax_bf16_any.1: M=7 N=16
h100 softmax_bf16_any.1: M=8 N=16
h100 softmax_bf16_any.1: M=9 N=16
h100 softmax_bf16_any.1: M=9 N=16 skew=16
h100 softmax_bf16_any.1: M=13 N=16
h100 softmax_bf16_any.1: M=1 N=240
h100 softmax_bf16_any.1: M=1 N=256
h100 softmax_bf16_any.1: M=32 N=16
h100 softmax_bf16_any.1: M=17 N=256

$ adlgen catalog simulate --list --kernel softmax_bf16_any.6 --gpu a100
a100 softmax_bf16_any.6: M=1 N=4080
a100 softmax_bf16_any.6: M=1 N=4096
a100 softmax_bf16_any.6: M=1 N=4096 skew=16
a100 softmax_bf16_any.6: M=2 N=4096
a100 softmax_bf16_any.6: M=3 N=4096
a100 softmax_bf16_any.6: M=32 N=4096

$ adlgen catalog simulate --list --cases 3 --kernel softmax_bf16_any.6 --gpu a100
a100 softmax_bf16_any.6: M=1 N=4096
a100 softmax_bf16_any.6: M=1 N=4096 skew=16
a100 softmax_bf16_any.6: M=32 N=4096

$ adlgen catalog simulate --list --cases 1
a100 softmax_bf16_any.1: M=17 N=256
a100 softmax_bf16_any.6: M=1 N=4096
h100 softmax_bf16_any.1: M=17 N=256
h100 softmax_bf16_any.6: M=32 N=4096

$ adlgen catalog simulate --cases 0
error: adlgen catalog: --cases needs a whole number of at least 1
[exit 2]

$ adlgen catalog simulate
4 kernels: 34 passed, 0 failed

$ adlgen catalog simulate --json | validate catalog-simulate
valid

$ adlgen catalog simulate --kernel softmax_bf16_any.1 --gpu a100 --dim M=2 --dim N=32 --skew 16 --schedules 4 --seed 3
1 kernels: 1 passed, 0 failed

# A barrier less: files that were edited run only if asked for.
$ mkdir long; cd long; printf '%s' '{"version": 1, "gpus": ["a100"], "entries": [{"name": "softmax_long", "graph": {"inputs": {"X": {"type": "bf16", "shape": ["M", "N"]}}, "dims": {"M": {}, "N": {"min": 8200, "multiple": 8}}, "nodes": [{"op": "Softmax", "inputs": ["X"], "outputs": ["Y"]}], "outputs": ["Y"]}}]}' >catalog.json; adlgen catalog build >/dev/null; f=$(ls generated/a100/*.ptx | head -1); awk '/bar.sync/ && ++n == 2 {next} {print}' $f >edited && mv edited $f; adlgen catalog simulate --gpu a100 --kernel $(basename $f .ptx)
FAILED a100 softmax_long.1: the compiler emits another text now; adlgen catalog check shows the difference; again: adlgen catalog simulate --gpu a100 --kernel softmax_long.1
1 kernels: 0 passed, 1 failed
[exit 5]

$ cd long; adlgen catalog simulate --gpu a100 --kernel $(basename $(ls generated/a100/*.ptx | head -1) .ptx) --edited --jobs 1 >out; echo $?; sed 's/at line.*//' out
5
FAILED a100 softmax_long.1 M=1 N=8200: race 
FAILED a100 softmax_long.1 M=1 N=8200 skew=16: race 
FAILED a100 softmax_long.1 M=1 N=12272: race 
5 cases were left out: after 3 failures a kernel's further cases are not run
1 kernels: 0 passed, 3 failed

$ cd long; adlgen catalog simulate --gpu a100 --kernel $(basename $(ls generated/a100/*.ptx | head -1) .ptx) --edited --json | validate catalog-simulate
valid

# A wrong result without a fault.
$ adlgen catalog build >/dev/null; sed -i 's/add.rn.f32/sub.rn.f32/' generated/a100/softmax_bf16_any.1.ptx; adlgen catalog simulate --gpu a100 --kernel softmax_bf16_any.1 --edited --dim N=32
FAILED a100 softmax_bf16_any.1 M=1 N=32: output Y: error 1.62e+01, limit 4e-03, 0 misplaced, 32 outliers; again: adlgen catalog simulate --gpu a100 --kernel softmax_bf16_any.1 --dim M=1 --dim N=32 --edited
Y: element 10 is -0.91796875, its reference 0.0542804652; 32 elements are further off than roundings explain
1 kernels: 0 passed, 1 failed
[exit 5]

$ adlgen catalog simulate --kernel softmax
error: the catalogue has no kernel softmax
hint: the manifests generated/*.json list them
[exit 1]

$ adlgen catalog simulate --kernel softmax_bf16_any.1 --gpu a100 --dim N=8
FAILED a100 softmax_bf16_any.1: the compiler emits another text now; adlgen catalog check shows the difference; again: adlgen catalog simulate --gpu a100 --kernel softmax_bf16_any.1
1 kernels: 0 passed, 1 failed
[exit 5]

$ adlgen catalog simulate --kernel softmax_bf16_any.1 --gpu a100 --dim N
error: `N` does not give a dimension
hint: write a symbol, `=` and a number, such as M=4096
[exit 2]
