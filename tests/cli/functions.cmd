# Functions as exporters write them: Gelu of many nodes in its variants, squares and cubes by Pow, heads of which a part is turned. What is none of these is
# left, and says nothing.
$ python3 $SRC/tests/cli/functions.py; for g in erf tanh fast other third powers; do adlgen compile $g.json --gpu h100 --emit ir --out o --explain | grep read_functions; adlgen run $g.json --gpu h100 --on sim --dim M=3 --check | tail -1; done
read_functions: `y` is Gelu of `x`
y       f16   1.78e-04  4.83e-04  1e-03  ok
read_functions: `y` is Gelu of `x`
read_functions: `c` is `x` times itself
y       bf16  1.54e-03  3.76e-03  4e-03  ok
read_functions: `y` is Gelu of `x`
y       f32   4.55e-08  1.42e-07  5e-06  ok
read_functions: `c` is `x` times itself
y       f16   1.90e-04  4.59e-04  1e-03  ok
y       f16   1.77e-04  2.48e-04  1e-03  ok
read_functions: `a` is `x` times itself
read_functions: `b` is `x` times itself
y       f16   1.99e-04  9.93e-03  1e-03  ok

$ adlgen run turn.json --gpu h100 --on sim --dim B=2 --dim S=3 --check | sed 's/, grid.*//'
mul_mul_sub_mul_more: mul_mul_sub_mul_more_bf16_n8_v8
output  type     error   max abs  limit  
y       bf16  1.06e-03  7.40e-03  4e-03  ok

$ adlgen compile turn.json --gpu h100 --emit ir --out o --explain | grep -c 'is written in 3 parts'
1
