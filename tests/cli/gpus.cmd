$ adlgen gpus
name            product                 arch    target  SMs  memory  bandwidth
a100            A100 SXM4 80 GB         sm_80   sm_80   108   80 GB  2039 GB/s
a100-pcie-80gb  A100 PCIe 80 GB         sm_80   sm_80   108   80 GB  1935 GB/s
a100-sxm-40gb   A100 SXM4 40 GB         sm_80   sm_80   108   40 GB  1555 GB/s
h100            H100 SXM5 80 GB         sm_90a  sm_90a  132   80 GB  3350 GB/s
h100-pcie       H100 PCIe 80 GB         sm_90a  sm_90a  114   80 GB  2039 GB/s
h20             H20 96 GB               sm_90a  sm_90a   78   96 GB  4000 GB/s
h200            H200 SXM5 141 GB        sm_90a  sm_90a  132  141 GB  4800 GB/s
h800            H800 SXM5 80 GB         sm_90a  sm_90a  132   80 GB  3350 GB/s
h800-pcie       H800 PCIe 80 GB         sm_90a  sm_90a  114   80 GB  2039 GB/s
l40s            L40S 48 GB              sm_89   sm_89   142   48 GB   864 GB/s
rtx4090         GeForce RTX 4090 24 GB  sm_89   sm_89   128   24 GB  1008 GB/s

$ adlgen gpus --json | validate gpus
valid

$ adlgen gpus show h10
error: unknown GPU `h10`
hint: did you mean `h100`?
[exit 1]

$ adlgen gpus show no/such/file.yaml
error: cannot read no/such/file.yaml: No such file or directory
[exit 1]

$ adlgen gpus show h800 | head -4
h800: H800 SXM5 80 GB
  arch sm_90a, target sm_90a, PTX 8.1, from <embedded>/adl/gpu/h800.yaml
  hash eefc632e4136e03c24fe17c84ec618b491b59e6df8d49611254b91eeb55703ee
  families copy_plain copy_async tma thread_fma warp_mma warpgroup_mma matrix_load matrix_store mbarrier register_reallocation cluster elect dependent_launch lane_reduce cache_hint

$ adlgen gpus show h800 --json | validate gpu
valid

$ adlgen gpus show a100 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["name"])'
a100

$ printf 'adl: 1\nname: mine\nproduct: My GPU\nextends: h800\nchip: {sm_count: 66}\n' >mine.yaml

$ adlgen gpus check mine.yaml
mine.yaml:5:18: error: `chip.sm_count` has no source
  chip: {sm_count: 66}
                   ^
hint: add `source: ...` to it or to a mapping around it, or `guess: true` if it is from memory
[exit 1]

$ adlgen gpus check mine.yaml $SRC/tests/errors/gpu/missing-name.yaml
mine.yaml:5:18: error: `chip.sm_count` has no source
  chip: {sm_count: 66}
                   ^
hint: add `source: ...` to it or to a mapping around it, or `guess: true` if it is from memory
$SRC/tests/errors/gpu/missing-name.yaml:1:1: error: missing key `name`
  adl: 1
  ^
hint: by which the GPU is called, and its output folder
[exit 1]

$ adlgen gpus check mine.yaml $SRC/tests/errors/gpu/missing-name.yaml --json | validate gpus-check
valid

$ adlgen gpus check missing.yaml
error: cannot read missing.yaml: No such file or directory
[exit 1]

$ adlgen gpus >/dev/full
error: cannot write to standard output: No space left on device
[exit 1]

$ printf 'adl: 1\nname: small\nextends: h100\nsource: "a test file"\nlimits: {shared_per_block: 64 KiB}\n' >small.yaml; adlgen compile $SRC/examples/linear.json --gpu small.yaml --out out --emit ptx | tail -1
files are under out: small/

$ sed '/^model:/d' $SRC/adl/arch/sm_80.yaml >bare.yaml; adlgen gpus check bare.yaml
bare.yaml:2:1: error: missing key `model`
  adl: 1
  ^
hint: whose fitted constants hold; known: h100, sm_80, sm_89, sm_90a
[exit 1]

$ adlgen gpus show a100 | grep -A4 '^cost model'
cost model sm_80, from <embedded>/adl/model/sm_80.yaml
  a guess: kernels of these instruction families were timed on an H100 SXM, not on a GPU of this compute capability
constant                    value  unit            run                                        follows                                                                                                  meaning
least_step                    180  cycles          suite-a 2026-11-21 (a guess here)          warpgroup_mma.issue, warpgroup_mma.tail, mbarrier.latency, latency.barrier_arrive, latency.barrier_wait  a step of 128 bytes of k at least: barrier, MMAs behind one another, release
copy_latency                 2200  cycles          a guess                                    tma.issue, tma.latency, latency.global_load                                                              from a copy's issue to its mbarrier, with all SMs copying from DRAM

$ adlgen gpus show h100 | grep -A1 '^cost model'
cost model h100, from <embedded>/adl/model/h100.yaml
  fitted on h100

$ printf 'adl: 1\nname: slower\nextends: h100\nmodel: ./model.yaml\n' >slower.yaml; printf 'adl: 1\nmodel: mine\nextends: h100\nguess: "a test"\nruns:\n  today: {date: 2026-11-22, source: "a test"}\nconstants:\n  fill: {value: 3000 cycles, run: today}\n  turn: {value: 1 cycles}\n' >model.yaml; adlgen gpus show slower.yaml | grep -E '^(cost model|  a guess|fill |turn |combine )'
cost model mine, from model.yaml
  a guess: a test
fill                         3000  cycles          today 2026-11-22                           latency.global_load, latency.block_barrier                                                               launch of a block, barriers, the first slots
turn                            1  cycles          a guess                                    warpgroup_mma.tail, latency.barrier_wait, latency.shared_store, matrix_store.latency                     between the last product of a tile and the first of the next
combine                      1536  cycles          shares 2026-11-23 (a guess here)           latency.peer_load, latency.cluster_barrier, cluster.latency                                              for a cluster to meet and add up a tile

$ adlgen gpus show slower.yaml --json | python3 -c 'import json, sys; print([c["value"] for c in json.load(sys.stdin)["model"]["constants"] if c["name"] in ("fill", "turn")])'
[3000.0, 1.0]

$ adlgen gpus rules | grep -E '^(rule|target|limits.warp_size|limits.shared_per_block|chip.power|families.thread_fma) '
rule                              may be                                                                          does           on what, or why
target                            text                                                                            drives         the line .target
limits.warp_size                  32                                                                              fixed          layouts, shuffles and masks are those of 32 lanes
limits.shared_per_block           48 KiB .. 256 KiB                                                               limits         tiles and the slots of their rings
chip.power                        5 W .. 10000 W                                                                  documentation  nothing is planned by it; chip.clock_tensor says what it costs
families.thread_fma               true                                                                            fixed          products of types that no other family takes are made of it

$ adlgen gpus rules --json | validate gpus-rules
valid

$ adlgen gpus rules h100
error: adlgen gpus rules takes no arguments
[exit 2]

$ adlgen gpus show a100 | grep -E '^(fact|limits.blocks_per_sm|chip.power) '
fact                                          value  unit         source
limits.blocks_per_sm                             32  blocks       drives
chip.power                                      400  W            documentation

$ printf 'adl: 1\nmodel: follows\nextends: h100\nguess: "a test"\nconstants:\n  fill: {value: 1500 cycles, grows_with: {latency.global_load: 500 cycles, latency.block_barrier: 20 cycles}}\n  all_copy: {value: 70 B/clk/SM, grows_with: {tma.throughput: 88 B/clk/SM}}\n  sums_load: {value: 5 cycles, shrinks_with: {throughput.l1: 100 B/clk/SM, throughput.shared: 50 B/clk/SM}}\n' >follows.yaml; printf 'adl: 1\nname: far\nextends: h100\nsource: "a test"\nmodel: ./follows.yaml\nlatency: {global_load: 1020 cycles, block_barrier: unknown}\nthroughput: {l1: 50 B/clk/SM, shared: 100 B/clk/SM}\nfamilies: {tma: {throughput: 44 B/clk/SM}}\n' >far.yaml; adlgen gpus show far.yaml | grep -E '^(fill|all_copy|sums_load) ' | cut -c1-120
all_copy                          35  B/clk/SM        a guess                                    tma.throughput         
fill                            3000  cycles          a guess                                    latency.global_load, la
sums_load                          5  cycles          a guess                                    1/throughput.l1, 1/thro
