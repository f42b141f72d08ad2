# bench: what can be wrong before a GPU is needed.
$ adlgen bench
error: adlgen bench needs --gpu
hint: adlgen bench --help lists its options
[exit 2]

$ adlgen bench --gpu h100
error: adlgen bench takes a GRAPH or --suite
hint: adlgen bench --help lists its options
[exit 2]

$ adlgen bench $SRC/examples/gemm.json --suite mini --gpu h100
error: adlgen bench takes a GRAPH or --suite
hint: adlgen bench --help lists its options
[exit 2]

$ adlgen bench $SRC/examples/gemm.json --gpu h100
$SRC/examples/gemm.json:8:12: error: dimension M of gemm has no value
    "dims": {"M": {"min": 1, "max": 65536}},
             ^
hint: --dim M=VALUE binds it
[exit 1]

$ adlgen bench --suite nosuch --gpu h100
error: there is no suite nosuch; built in are: deepgemm elementwise epilogues gemm-batched gemm-bf16 gemm-fp8 gemm-layouts gemm-odd gemm-types gemm-unlisted gemm-warp mini peers plan-choice-fp8 plan-choice plan-drawn plan-fit plan-unlisted reductions rows
hint: a path has a slash in it or ends in .json
[exit 1]

$ adlgen bench --suite mini --only no-such-case --gpu h100
error: <embedded>/bench/suites/mini.json: no case matches
[exit 1]

$ adlgen bench --suite mini --gpu h100 --variant bm
error: --variant bm: what is not key=value
hint: NAME:key=value,... with the keys gpu, plan, sms, fixed, tuned, skip, or template parameters such as bm
[exit 2]

$ adlgen bench --suite mini --gpu h100 --variant old:plan=out,bm=64
error: --variant old:plan=out,bm=64: plan=DIR is compiled already, so nothing else can be set
hint: NAME:key=value,... with the keys gpu, plan, sms, fixed, tuned, skip, or template parameters such as bm
[exit 2]

$ adlgen bench --suite mini --gpu h100 --against cutlass
error: adlgen bench: --against cannot be "cutlass"
hint: one of: cublaslt, product, plugin:FILE
[exit 2]

$ adlgen bench --suite mini --gpu h100 --against cublaslt,plugin:
error: adlgen bench: --against cannot be "plugin:"
hint: one of: cublaslt, product, plugin:FILE
[exit 2]

$ adlgen bench --suite mini --gpu h100 --against cublaslt,plugin:none.so
error: plugin none.so: ./none.so: cannot open shared object file: No such file or directory
[exit 4]

$ printf 'x' >text.so

$ adlgen bench --suite mini --gpu h100 --against plugin:text.so
error: plugin text.so: ./text.so: file too short
[exit 4]

$ adlgen bench --suite mini --gpu h100 --against cublaslt --peer-variants '('
error: --peer-variants: Error while compiling regular expression ‘(’ at char 1: missing terminating )
[exit 2]

$ adlgen bench --suite mini --gpu h100 --mode hot
error: adlgen bench: --mode cannot be "hot"
hint: one of: cold, warm, sustained, dirty
[exit 2]

$ adlgen bench --suite mini --gpu h100 --seconds -1
error: --seconds takes a positive number, not `-1`
[exit 2]

$ printf '{"version": 1, "cases": [{"graph": 1}]}' >bad.json

$ adlgen bench --suite bad.json --gpu h100
error: bad.json: case 1: `graph` is to be an object or the name of a file
hint: docs/bench.md describes suites
[exit 1]

$ printf '{"version": 1, "cases": [{"graph": {}, "dim": []}]}' >key.json

$ adlgen bench --suite key.json --gpu h100
error: key.json: case 1: unknown key `dim`; known: class, graph, constants, dims
hint: docs/bench.md describes suites
[exit 1]

$ printf '{"version": 1,\n "cases": [' >cut.json

$ adlgen bench --suite cut.json --gpu h100
cut.json:2:11: error: ']' expected near end of file
   "cases": [
            ^
[exit 1]

$ adlgen bench --suite $SRC/examples/gemm.json --gpu h100
error: $SRC/examples/gemm.json: a suite is an object with "version": 1 and a list of cases
hint: docs/bench.md describes suites
[exit 1]
