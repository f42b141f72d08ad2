# What compile writes and refuses, without the assembler.
$ cp $SRC/tests/cli/emitted/gemm.json .

$ adlgen compile gemm.json --gpu a100,h100 --out out --emit ir,ptx | sed -n '1s/  */ /gp; /files/p'
kernel GPU template tile stages roles threads registers shared spills size
files are under out: a100/ h100/

$ find out -type f | sed 's/matmul_add_[0-9a-z_]*/KERNEL/' | sort -u
out/a100/KERNEL.ir
out/a100/KERNEL.ptx
out/a100/plan.json
out/h100/KERNEL.ir
out/h100/KERNEL.ptx
out/h100/plan.json

$ grep -h -c '^.visible .entry' out/*/*.ptx | sort -u
1

$ adlgen compile - --gpu h100 --out piped --emit ptx <gemm.json >/dev/null && diff -r piped/h100 out/h100 | grep -v '\.ir$' | head

$ adlgen compile gemm.json --gpu h100 --out again --emit ir,ptx --jobs 1 >/dev/null && diff -r again/h100 out/h100

$ adlgen compile gemm.json --gpu h100,a100 --out json --emit ptx --json --explain --time-passes | validate compile
valid

$ adlgen compile gemm.json --gpu h100 --out fixed --emit ptx --dim M=4096 >/dev/null && grep -c '"symbols": \[\]' fixed/h100/plan.json
1

# Dumps: they go back in and give the same PTX. Three passes of ten here: test `dumps go back in` takes those of other kernels.
$ adlgen compile gemm.json --gpu a100,h100 --out dumps --emit ptx --print-after all >/dev/null

$ for dump in dumps/*/*.[0-9][037]-*.ir; do gpu=$(basename $(dirname $dump)); kernel=$(basename $dump .ir); kernel=${kernel%.*}; adlgen compile $dump --gpu $gpu --out back --emit ptx >/dev/null || echo "refused: $dump"; cmp back/$gpu/$kernel.ptx dumps/$gpu/$kernel.ptx; rm -r back; done

$ ls dumps/h100 | grep -c 'split_roles.ir$'
17

# Refusals.
$ adlgen compile missing.json --gpu h100 --out new
error: cannot read missing.json: No such file or directory
[exit 1]

$ adlgen compile gemm.json --gpu h101 --out new
error: unknown GPU `h101`
hint: did you mean `h100`?
[exit 1]

$ adlgen compile gemm.json --gpu h100,h100 --out new
error: --gpu has h100 twice (<embedded>/adl/gpu/h100.yaml, <embedded>/adl/gpu/h100.yaml)
hint: each GPU of a command needs a name of its own
[exit 2]

$ adlgen compile gemm.json --gpu h100 --out gemm.json
error: cannot write gemm.json: Not a directory
[exit 1]

$ adlgen compile gemm.json --gpu h100 --out new --dim Q=3
error: the graph has no dimension `Q`
hint: its symbols: M
[exit 1]

$ adlgen compile gemm.json --gpu h100 --out new --dim M=x
error: `M=x` does not give a dimension
hint: write a symbol, `=` and a number, such as M=4096
[exit 2]

$ adlgen compile gemm.json --gpu h100 --out new --set nonsense=3 --emit ptx
error: --set nonsense=3: no kernel of this graph has such a parameter, or may have that value
hint: adlgen compile --explain names the templates
[exit 1]

$ adlgen compile gemm.json --gpu h100 --out new --start-after lower
error: --start-after has no meaning for an op description gemm.json
[exit 2]

$ cp $(ls dumps/h100/*.01-*.ir | head -1) dump.ir; adlgen compile dump.ir --gpu h100 --out new --explain
error: --explain has no meaning for pseudo-assembly dump.ir
[exit 2]

$ adlgen compile dump.ir --gpu h100 --out new --emit c --ptxas nothing/here
error: --emit c needs an op description: dump.ir has no plan
[exit 2]

$ adlgen compile dump.ir --gpu h100 --out resumed --emit ptx --start-after lowered
error: --start-after: there is no pass lowered
hint: did you mean lower?
[exit 2]

$ adlgen compile gemm.json --gpu h100 --out new --skip lower --emit ptx
error: pass lower cannot be skipped: later passes need it
[exit 1]

$ sed 's/MatMul/MatMull/' gemm.json >wrong.json; adlgen compile wrong.json --gpu h100 --out new
wrong.json:10:12: error: unknown operator `MatMull`
      {"op": "MatMull", "inputs": ["A", "B"], "outputs": ["product"]},
             ^
hint: did you mean `MatMul`?
[exit 1]

$ adlgen compile wrong.json --gpu h100 --out new --json | validate errors
valid

$ adlgen compile gemm.json --gpu h100 --out new --ptxas nothing/here
error: --ptxas names nothing/here, which is not a program
[exit 4]

# None of these has left anything.
$ ls new
ls: cannot access 'new': No such file or directory
[exit 2]

$ cp -r out before; adlgen compile wrong.json --gpu h100 --out out; diff -r out before
wrong.json:10:12: error: unknown operator `MatMull`
      {"op": "MatMull", "inputs": ["A", "B"], "outputs": ["product"]},
             ^
hint: did you mean `MatMul`?

$ ls -A
again
before
dump.ir
dumps
fixed
gemm.json
json
out
piped
wrong.json
