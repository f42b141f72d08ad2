# needs ptxas
$ cp $SRC/tests/cli/emitted/* .

$ adlgen compile gemm.json --gpu a100,h100 --out out --emit cubin,c >/dev/null

$ find out -type f | sed 's/matmul_add_[0-9a-z_]*/KERNEL/' | sort -u
out/a100/KERNEL.cubin
out/a100/gemm.c
out/a100/gemm.h
out/a100/plan.json
out/h100/KERNEL.cubin
out/h100/gemm.c
out/h100/gemm.h
out/h100/plan.json

$ od -A n -c -N 4 out/h100/*.cubin | head -1
 177   E   L   F

$ adlgen compile gemm.json --gpu a100,h100 --out json --json | validate compile
valid

$ cc -std=c11 -pedantic -Wall -Wextra -Werror -Wno-overlength-strings -I out/h100 main.c out/h100/gemm.c driver.c -o use && ./use | sed 's/matmul_add_[0-9a-z_]*/KERNEL/; s/\(grid\|dims\|box\|strides\|swizzle\|function\|module\) [-0-9 ]*[^,:]*/\1 .../g; s/: [0-9]*$/: .../; s/shared [0-9]*/shared .../; s/block [0-9 ]*/block .../' | sort -u
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

$ cc -std=c11 -pedantic -Wall -Wextra -Werror -I out/a100 main.c out/a100/gemm.c driver.c -o use && ./use | grep -c launch
2

$ if command -v nvdisasm || command -v cuobjdump; then adlgen compile gemm.json --gpu a100 --out sass --emit sass; fi >/dev/null
