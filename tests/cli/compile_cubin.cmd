# needs ptxas
$ cp $SRC/tests/cli/emitted/* .

$ adlgen compile gemm.json --gpu a100,h100 --out out --emit cubin,c >/dev/null

$ find out -type f | sed 's/matmul_add_[0-9a-z_]*/KERNEL/' | sort -u
out/a100/KERNEL.cubin
out/a100/gemm_a100.c
out/a100/gemm_a100.h
out/a100/plan.json
out/h100/KERNEL.cubin
out/h100/gemm_h100.c
out/h100/gemm_h100.h
out/h100/plan.json

# Of two GPUs in one program; the headers in C++ too, where there is a compiler for it.
$ for gpu in a100 h100; do cc -std=c11 -pedantic -Wall -Wextra -Werror -Wno-overlength-strings -I out/$gpu -c out/$gpu/gemm_$gpu.c; done; cc -std=c11 -c driver.c; cc -std=c99 -pedantic -Wall -Wextra -Werror -I out/a100 -I out/h100 two.c gemm_a100.o gemm_h100.o driver.o -o two && ./two | grep status
status 0 0
status 1 1

$ if command -v c++ >/dev/null; then c++ -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I out/a100 -I out/h100 -c two.c -o two.o && c++ two.o gemm_a100.o gemm_h100.o driver.o -o twice && ./twice | grep status; else ./two | grep status; fi
status 0 0
status 1 1

$ cc -std=c99 -I out/h100 -c out/h100/gemm_h100.c 2>&1 | grep -o 'gemm_h100.c is C11: .*standard' | sort -u
gemm_h100.c is C11: compile it as C, with -std=c11 or a newer standard

$ od -A n -c -N 4 out/h100/*.cubin | head -1
 177   E   L   F

$ adlgen compile gemm.json --gpu a100,h100 --out json --json | validate compile
valid

$ cc -std=c11 -pedantic -Wall -Wextra -Werror -Wno-overlength-strings -I out/h100 main.c out/h100/gemm_h100.c driver.c -o use && ./use | sed 's/matmul_add_[0-9a-z_]*/KERNEL/; s/\(grid\|dims\|box\|strides\|swizzle\|function\|module\) [-0-9 ]*[^,:]*/\1 .../g; s/: [0-9]*$/: .../; s/shared [0-9]*/shared .../; s/block [0-9 ]*/block .../' | sort -u
aligned: workspace 0
an address between elements: workspace 0
attribute 8 of function ...: ...
function ...: KERNEL
launch function ...: grid ..., block ..., shared ...
load module ...: a cubin
not aligned: workspace 0
nothing to do: workspace 0
out of range: workspace 0
status -1
status -2
status 0
tensor map: type 9, address 10000, dims ..., strides ..., box ..., interleave 0, swizzle ..., l2 3, fill 0
tensor map: type 9, address 20000, dims ..., strides ..., box ..., interleave 0, swizzle ..., l2 3, fill 0
tensor map: type 9, address 40000, dims ..., strides ..., box ..., interleave 0, swizzle ..., l2 3, fill 0
unload module ...

$ sed s/h100/a100/g main.c >small.c; cc -std=c11 -pedantic -Wall -Wextra -Werror -Wno-overlength-strings -I out/a100 small.c out/a100/gemm_a100.c driver.c -o use && ./use | grep -c launch
2

$ if command -v nvdisasm || command -v cuobjdump; then adlgen compile gemm.json --gpu a100 --out sass --emit sass; fi >/dev/null

# A graph without any launch, as one of nothing has: no warnings either.
$ echo '{"name": "none", "inputs": {"x": {"type": "f32", "shape": [0, 3]}}, "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]}' >none.json; adlgen compile none.json --gpu h100 --out none --emit c >/dev/null; cc -std=c11 -pedantic -Wall -Wextra -Werror -c none/h100/none_h100.c && echo compiled
compiled
