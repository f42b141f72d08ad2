# Rows that begin inside of a sector of memory: blocks in pairs share copies, and less is fetched at a miss.
$ echo '{"name": "rows", "inputs": {"A": {"type": "bf16", "shape": ["M", 4104]}, "B": {"type": "bf16", "shape": [4104, 4096], "strides": [1, 4104]}}, "nodes": [{"op": "MatMul", "inputs": ["A", "B"], "outputs": ["D"]}], "outputs": ["D"]}' > rows.json

$ echo "import json; [print(v['kernel'], v['cluster'], *sorted(set((a['tensor'], a['l2_promotion']) for a in v['arguments'] if 'l2_promotion' in a))) for v in json.load(open('out/h100/plan.json'))['launches'][0]['variants']]" > show.py

$ adlgen compile rows.json --gpu h100 --no-tuned --dim M=4096 --emit ir --out out >log && python3 show.py
matmul_bf16_m4096n4096k4104_128x256x64 [2, 1, 1] ('A', 128) ('B', 128) ('D', 256)
matmul_bf16_m4096n4096k4104_128x256x32_any [1, 1, 1]

# At multiples of a sector, but inside of lines, pairs still gain; at whole lines nothing of that is needed.
$ sed 's/4104/4112/g' rows.json | adlgen compile - --gpu h100 --no-tuned --dim M=4096 --emit ir --out out >log && python3 show.py
matmul_bf16_m4096n4096k4112_128x256x64 [2, 1, 1] ('A', 256) ('B', 256) ('D', 256)
matmul_bf16_m4096n4096k4112_128x256x32_any [1, 1, 1]

$ sed 's/4104/4160/g' rows.json | adlgen compile - --gpu h100 --no-tuned --dim M=4096 --emit ir --out out >log && python3 show.py
matmul_bf16_m4096n4096k4160_128x256x64 [1, 1, 1] ('A', 256) ('B', 256) ('D', 256)
matmul_bf16_m4096n4096k4160_128x256x32_any [1, 1, 1]
