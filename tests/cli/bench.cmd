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
error: there is no suite nosuch; built in are: attention-backward attention-cache attention-decode attention-eight attention-mixed attention-prefill deepgemm elementwise epilogues fp8-blocks fused gemm-batched gemm-bf16 gemm-fp8 gemm-layouts gemm-odd gemm-types gemm-unlisted gemm-warp index large losses mini narrow-weights peers plan-choice-fp8 plan-choice plan-drawn plan-fit plan-unlisted reductions rows
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
bad.json:1:36: error: `graph` is to be an object or the name of a file
  {"version": 1, "cases": [{"graph": 1}]}
                                     ^
hint: docs/bench.md describes suites
[exit 1]

$ printf '{"version": 1, "cases": [{"graph": {}, "dim": []}]}' >key.json

$ adlgen bench --suite key.json --gpu h100
key.json:1:40: error: unknown key `dim`
  {"version": 1, "cases": [{"graph": {}, "dim": []}]}
                                         ^
hint: did you mean `dims`? Known keys: class, graph, constants, dims
[exit 1]

# What is wrong in a case's own graph, and in what it binds, is shown where the suite has it.
$ printf '%s\n' '{"version": 1, "cases": [' '{"graph": {"name": "x", "inputs": {"A": {"type": "bf15", "shape": ["M"]}},' '"nodes": [{"op": "Relu", "inputs": ["A"], "outputs": ["D"]}], "outputs": ["D"]},' '"dims": [[{"M": 1}]]}]}' >typo.json

$ adlgen bench --suite typo.json --gpu h100
typo.json:2:50: error: unknown type `bf15`
            {"name": "x", "inputs": {"A": {"type": "bf15", "shape": ["M"]}},
                                                   ^
hint: did you mean `bf16`?
[exit 1]

$ sed 's/bf15/bf16/; s/"M": 1/"M": "a"/' typo.json >text.json; adlgen bench --suite text.json --gpu h100
text.json:4:17: error: expected an integer, found the string "a"
  "dims": [[{"M": "a"}]]}]}
                  ^
[exit 1]

$ sed 's/bf15/bf16/; s/\[\[{"M": 1}\]\]/[{"M": 1}]/' typo.json >flat.json; adlgen bench --suite flat.json --gpu h100
flat.json:4:10: error: `dims` is to be a list of lists of objects
  "dims": [{"M": 1}]}]}
           ^
hint: docs/bench.md describes suites
[exit 1]

$ printf '{"version": 1,\n "cases": [' >cut.json

$ adlgen bench --suite cut.json --gpu h100
cut.json:2:12: error: the file ends where a value is expected
   "cases": [
             ^
[exit 1]

$ adlgen bench --suite $SRC/examples/gemm.json --gpu h100
$SRC/examples/gemm.json:1:1: error: a suite is an object with "version": 1 and a list of cases
  {
  ^
hint: docs/bench.md describes suites
[exit 1]
