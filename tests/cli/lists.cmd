# Lists that nobody means - where sequences end, tables of pages, slots - are a fault on the simulator; kernels clamp or skip what is in them.
$ echo '{"inputs": {"kc": {"type": "f16", "shape": [3, 4, 2, 8]}, "k": {"type": "f16", "shape": [4, 2, 8]}}, "constants": {"s": {"type": "s32", "shape": [4], "data": [SLOTS]}}, "nodes": [{"op": "AppendRows", "domain": "adlgen", "inputs": ["s", "kc", "k"], "outputs": ["kn"]}], "outputs": ["kn"], "in_place": {"kn": "kc"}}' > append.json

$ for slots in '11, -1, -7, 0' '3, 12, 0, 1'; do sed "s/SLOTS/$slots/" append.json | adlgen run - --gpu a100 --on sim --check > found || echo exit $?; grep -v warp found; done
output  type     error   max abs  limit  
kn      f16   0.00e+00  0.00e+00  1e-03  ok
exit 5
fault: operand: element 1 of `s`, where rows go, is 12; the cache has slots for 12 rows
1 faults

$ sed "s/SLOTS/3, 12, 0, 1/" append.json | adlgen run - --gpu a100 --on sim --check --checkers bounds,undefined,race > found || echo exit $?; grep -v warp found
output  type     error   max abs  limit  
kn      f16   0.00e+00  0.00e+00  1e-03  ok

# Random begins leave room for the rows behind them, also in pages; of a cache that is too short there are none.
$ echo '{"inputs": {"at": {"type": "s64", "shape": [9]}, "c": {"type": "f16", "shape": [9, CAPACITY, 16]}, "r": {"type": "f16", "shape": [9, 2, 16]}}, "nodes": [{"op": "AppendRows", "domain": "adlgen", "inputs": ["at", "c", "r"], "outputs": ["y"], "attributes": {"places": "begins"}}], "outputs": ["y"], "in_place": {"y": "c"}}' > begins.json

$ for capacity in 1 2 3 8; do sed "s/CAPACITY/$capacity/" begins.json | adlgen run - --gpu a100 --on sim --check > found || echo exit $?; grep '^fault\|  ok' found; done
exit 5
fault: operand: element 0 of `at`, where rows go, is 0; the cache has 1 rows
y       f16   0.00e+00  0.00e+00  1e-03  ok
y       f16   0.00e+00  0.00e+00  1e-03  ok
y       f16   0.00e+00  0.00e+00  1e-03  ok

$ sed 's/"c": {"type": "f16", "shape": \[9, CAPACITY/"t": {"type": "s32", "shape": [9, 3]}, "c": {"type": "f16", "shape": [40, 4/; s/"r"\], "outp/"r", "", "", "t"], "outp/' begins.json | adlgen run - --gpu a100 --on sim --check | grep '^fault\|  ok'
y       f16   0.00e+00  0.00e+00  1e-03  ok

$ echo '{"inputs": {"q": {"type": "bf16", "shape": [5, 2, 64]}, "k": {"type": "bf16", "shape": [6, 16, 1, 64]}, "v": {"type": "bf16", "shape": [6, 16, 1, 64]}}, "constants": {"ends": {"type": "s32", "shape": [3], "data": [ENDS]}, "n": {"type": "s32", "shape": [2], "data": [KEYS]}, "table": {"type": "s32", "shape": [2, 2], "data": [[PAGES]]}}, "nodes": [{"op": "VarlenAttention", "domain": "adlgen", "inputs": ["q", "k", "v", "ends", "", "n", "table"], "outputs": ["y"], "attributes": {"is_causal": 1}}], "outputs": ["y"]}' > varlen.json

$ for ends in '0, 3, 2' '1, 3, 5' '0, 3, 6'; do sed "s/ENDS/$ends/; s/KEYS/17, 16/; s/PAGES/0, 1], [2, 3/" varlen.json | adlgen run - --gpu a100 --on sim --check > found || echo exit $?; grep -v warp found; done
exit 5
fault: operand: element 2 of `ends`, where sequences end, is 2, below the one in front, 3
1 faults
exit 5
fault: operand: element 0 of `ends`, where sequences end, is 1; they begin at 0
1 faults
exit 5
fault: operand: element 2 of `ends`, where sequences end, is 6; there are 5 rows
1 faults

$ sed "s/ENDS/0, 3, 5/; s/KEYS/32, 33/; s/PAGES/0, 1], [2, 3/" varlen.json | adlgen run - --gpu a100 --on sim --check > found || echo exit $?; grep -v warp found
exit 5
fault: operand: element 1 of `n`, how many keys a sequence has, is 33; there is room for 32
1 faults

$ sed "s/ENDS/0, 3, 5/; s/KEYS/17, 16/; s/PAGES/5, 6], [-6, 9/" varlen.json | adlgen run - --gpu a100 --on sim --check > found || echo exit $?; grep -v warp found
exit 5
fault: operand: element 1 of `table`, a table of pages, is 6; the cache has 6 pages
1 faults

# Pages behind a sequence's last key may have any number, and negative ones count from the end.
$ sed "s/ENDS/0, 3, 5/; s/KEYS/17, 16/; s/PAGES/5, -6], [0, 99/" varlen.json | adlgen run - --gpu a100 --on sim --check > found || echo exit $?; grep -v warp found
output  type     error   max abs  limit  
y       bf16  2.00e-03  2.98e-03  4e-03  ok

# What is not given is drawn so that it is right.
$ sed 's/}, "constants": {/, /; s/, "data": [^}]*}/}/g' varlen.json | adlgen run - --gpu a100 --on sim --check > found || echo exit $?; grep -v warp found
output  type     error   max abs  limit  
y       bf16  1.18e-03  3.49e-03  4e-03  ok
