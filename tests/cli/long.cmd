# Graphs of thousands of nodes: a kernel has bounds (operations an element, tensors), and time grows with the number of nodes. Each
# compilation has ten seconds of processor time; some took 60 while time grew with the square of the nodes. They take less than one: the
# judge is asked of like operators once.
$ ulimit -t 10; for kind in tanh tower fan skip products apart; do for n in 2000 8000; do python3 $SRC/tests/cli/long_graph.py $kind $n >g.json; adlgen compile g.json --gpu h100 --emit ptx --out out --jobs 1 >table && echo "$kind $n: $(grep -c '"depends_on"' out/h100/plan.json) launches, $(ls out/h100/*.ptx | wc -l) kernels; at most $(wc -l out/h100/*.ptx | grep -v total | sort -n | tail -1 | awk '{print $1 < 6000 ? "6000" : $1}') lines"; rm -rf out; done; done
tanh 2000: 154 launches, 6 kernels; at most 6000 lines
tanh 8000: 616 launches, 6 kernels; at most 6000 lines
tower 2000: 32 launches, 6 kernels; at most 15204 lines
tower 8000: 125 launches, 4 kernels; at most 15204 lines
fan 2000: 87 launches, 6 kernels; at most 6000 lines
fan 8000: 348 launches, 6 kernels; at most 6000 lines
skip 2000: 179 launches, 12 kernels; at most 6000 lines
skip 8000: 724 launches, 12 kernels; at most 6000 lines
products 2000: 2000 launches, 7 kernels; at most 6000 lines
products 8000: 8000 launches, 7 kernels; at most 6000 lines
apart 2000: 2000 launches, 2 kernels; at most 6000 lines
apart 8000: 8000 launches, 2 kernels; at most 6000 lines

# What keeps nodes apart is told.
$ python3 $SRC/tests/cli/long_graph.py tanh 20 >g.json; adlgen compile g.json --gpu h100 --emit ptx --out out --explain | grep 'from memory'; python3 $SRC/tests/cli/long_graph.py fan 40 >g.json; adlgen compile g.json --gpu h100 --emit ptx --out out --explain | grep 'from memory' | sort | uniq -c
join_producers: Tanh reads `t12` from memory: the kernel has enough arithmetic
     17 join_producers: Abs reads `t0` from memory: the kernel reads and writes enough tensors

# Sums of more tensors than a thread has registers for.
$ for op in Sum Mean Max Min; do python3 $SRC/tests/cli/long_graph.py $op 199 >g.json; adlgen run g.json --gpu h100 --on sim --dim M=3 --check | tail -1; done
y       bf16  1.77e-03  6.05e-02  4e-03  ok
y       bf16  1.75e-03  4.42e-04  4e-03  ok
y       bf16  0.00e+00  0.00e+00  4e-03  ok
y       bf16  0.00e+00  0.00e+00  4e-03  ok

# Nodes in any order take no longer.
$ ulimit -t 10; python3 $SRC/tests/cli/long_graph.py tower 8000 reversed >g.json; adlgen compile g.json --gpu h100 --emit ptx --out out --jobs 1 >table && grep -c '"depends_on"' out/h100/plan.json
125
