# bench report: the page and the charts of committed results.
$ mkdir -p bench/results docs

$ adlgen bench report
error: ./bench/results holds no results
hint: adlgen bench --out FILE writes one
[exit 1]

$ printf '{"version": 1, "date": "2026-01-02", "gpu": "h100", "machine": {"name": "A GPU", "sms": 2, "driver": "1.2"}, "versions": {"ptxas": "13.0", "cublaslt": "1.2.2"}, "method": {"rounds": 3}, "ceilings": {"read": 2e12, "copy": 1e12, "warp_mma": {"bf16": 5e14}, "warpgroup_mma": {}}, "classes": [{"class": "c <1>", "mode": "cold", "cases": 1, "roof_fraction": 0.5, "peer_ratio": 0.8, "worst_ratio": 0.8, "worst_case": "p M=1"}, {"class": "rows", "mode": "cold", "cases": 1, "roof_fraction": 0.9}], "cases": [{"name": "p M=1 <a>", "bytes": 1e6, "flops": 1e9, "failures": [{"candidate": "bm=3", "message": "no"}], "candidates": [{"name": "adlgen", "kind": "adlgen"}, {"name": "cublaslt#0", "kind": "cublaslt"}], "modes": {"cold": {"times": [{"candidate": "adlgen", "us": 10, "spread": 0.01, "ratio": 1, "roof_fraction": 0.5}, {"candidate": "cublaslt#0", "us": 8, "ratio": 0.8}]}}}, {"name": "row R=9", "bytes": 1e6, "flops": 0, "failures": [], "candidates": [{"name": "adlgen", "kind": "adlgen"}], "modes": {"cold": {"times": [{"candidate": "adlgen", "us": 5, "spread": 0.02, "ratio": 1, "roof_fraction": 0.9}]}}}]}' >bench/results/one.json

$ adlgen bench report

$ adlgen bench report --json | tr -d ' \n'; echo
{"version":1,"files":["./docs/performance-one-bars.svg","./docs/performance-one-roofline.svg","./docs/performance.md"]}

$ sed 's/^/  /' docs/performance.md
  # Performance
  
  Written by `adlgen bench report` from the results under `bench/results`; [bench.md](bench.md) describes the method.
  Ratios were taken in one run each, interleaved; absolute times are for orientation. roof is max(bytes / read ceiling,
  FLOP / tensor ceiling) + 3 us; above 1 means that outputs were still in L2 when the kernel ended.
  
  A line a class; above 1 the kernels of adlgen are the faster ones. Of peers the fastest kernel counts, timed in the same run;
  where there is none, the roof.
  
  | class | GPU | compared | cases | geometric mean | worst | date |
  |---|---|---|---|---|---|---|
  | [c <1>](#one) | h100 | best of cublaslt / ours, cold | 1 | 0.800 | 0.800 | 2026-01-02 |
  | [rows](#one) | h100 | roof / ours, cold | 1 | 0.900 |  | 2026-01-02 |
  
  ## one
  
  2026-01-02 on one A GPU (2 SMs, driver 1.2), for `h100`; ptxas 13.0, cuBLASLt 1.2.2 (workspace 32 MiB); 3 rounds. From `bench/results/one.json`.
  
  Ceilings of that run: read 2000 GB/s, copy 1000 GB/s, warp_mma bf16 500 TFLOP/s.
  
  | class | mode | cases | roof / time | best peer / ours | worst | worst case |
  |---|---|---|---|---|---|---|
  | c <1> | cold | 1 | 0.500 | 0.800 | 0.800 | p M=1 |
  | rows | cold | 1 | 0.900 | | | |
  
  ![best peer's time over ours](performance-one-bars.svg)
  
  ![roofline](performance-one-roofline.svg)
  
  | case | mode | us | rate | spread | roof / time | best peer, us | peer / ours |
  |---|---|---|---|---|---|---|---|
  | p M=1 <a> | cold | 10.00 | 100.0 TFLOP/s | 1.0 % | 0.500 | 8.00 (cublaslt#0) | 0.800 |
  | row R=9 | cold | 5.00 | 200 GB/s | 2.0 % | 0.900 |  | |
  
  Not measured: p M=1 <a>, bm=3: no

# Performance
# Performance
# Performance
$ ls docs
performance-one-bars.svg
performance-one-roofline.svg
performance.md

$ grep -c '<rect' docs/performance-one-bars.svg
3

$ grep -o 'p M=1 &lt;a&gt;: .* TFLOP/s' docs/performance-one-roofline.svg
p M=1 &lt;a&gt;: 125.0 TFLOP/s
p M=1 &lt;a&gt;: 100.0 TFLOP/s

# Peers of libraries stand beside each other in a table of their own.
$ printf '{"version": 1, "date": "2026-01-02", "gpu": "h100", "machine": {"name": "A GPU", "sms": 2, "driver": "1.2"}, "versions": {"ptxas": "13.0", "cublaslt": "1.2.3", "plugins": [{"name": "peer", "library": "Peers 1.0"}, {"name": "none", "library": "None"}]}, "method": {"rounds": 3}, "ceilings": {"read": 2e12, "copy": 1e12, "warp_mma": {}, "warpgroup_mma": {}}, "classes": [], "cases": [{"name": "p M=1", "bytes": 1e6, "flops": 1e9, "failures": [], "candidates": [{"name": "adlgen", "kind": "adlgen"}, {"name": "cublaslt#0", "kind": "cublaslt"}, {"name": "cublaslt#4", "kind": "cublaslt"}, {"name": "peer:fast", "kind": "plugin"}, {"name": "copy", "kind": "floor"}], "modes": {"dirty": {"times": [{"candidate": "adlgen", "us": 10, "spread": 0.01, "ratio": 1, "roof_fraction": 0.5}, {"candidate": "cublaslt#0", "us": 8, "ratio": 0.8}, {"candidate": "cublaslt#4", "us": 7.5, "ratio": 0.75}, {"candidate": "peer:fast", "us": 7, "ratio": 0.7}, {"candidate": "copy", "us": 1, "ratio": 0.1}]}}}]}' >bench/results/one.json

$ adlgen bench report

$ sed -n '/^## /,$s/^/  /p' docs/performance.md
  ## one
  
  2026-01-02 on one A GPU (2 SMs, driver 1.2), for `h100`; ptxas 13.0, cuBLASLt 1.2.3 (workspace 32 MiB), peer (Peers 1.0), none (None); 3 rounds. From `bench/results/one.json`.
  
  Ceilings of that run: read 2000 GB/s, copy 1000 GB/s.
  
  | class | mode | cases | roof / time | best peer / ours | worst | worst case |
  |---|---|---|---|---|---|---|
  
  | case | mode | us | rate | spread | roof / time | best peer, us | peer / ours |
  |---|---|---|---|---|---|---|---|
  | p M=1 | dirty | 10.00 | 100.0 TFLOP/s | 1.0 % | 0.500 | 7.00 (peer:fast) | 0.700 |
  
  Each peer's fastest, us, and its time over ours:
  
  | case | mode | ours | cublaslt | / ours | peer | / ours | none | / ours |
  |---|---|---|---|---|---|---|---|---|
  | p M=1 | dirty | 10.00 | 7.50 (#4) | 0.750 | 7.00 (fast) | 0.700 | | |

$ printf 'x' >bench/results/two.json

$ adlgen bench report
error: ./bench/results/two.json is no result of adlgen bench: '[' or '{' expected near 'x'
[exit 1]
