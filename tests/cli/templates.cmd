# Templates and descriptions as text: what messages call <embedded>/...
$ adlgen templates | cut -c1-60 | head -3
template                about
attention               Attention: O[b, h] = softmax over ke
attention_decode        Attention of few queries over many k

$ adlgen templates --json | validate templates
valid

$ adlgen templates show gemm | head -2 | cut -c1-60
adlgen-ir 1 tile
; Matrix product: acc[m, n] = sum over k of A[g, m, k] * B[g

$ adlgen templates show '<embedded>/templates/row_scan.ir' | head -1
adlgen-ir 1 tile

$ adlgen templates show gemm --json | validate data-file
valid

$ adlgen templates show gemn
error: unknown template `gemn`
hint: did you mean `gemm`?
[exit 1]

$ adlgen templates show
error: adlgen templates show needs one NAME
hint: adlgen templates lists the names
[exit 2]

$ adlgen gpus text h100 | head -4
adl: 1
name: h100
product: H100 SXM5 80 GB
extends: sm_90a

$ adlgen gpus text '<embedded>/adl/arch/sm_80.yaml' | sed -n 2p
adl: 1

# Compute capability 8.0: warp MMAs with operands in registers, asynchronous copies by group.
$ adlgen gpus text targets --json | validate data-file
valid

$ adlgen gpus text h10
error: no description is called `h10`
hint: did you mean `h100`?
[exit 1]

$ printf 'adl: 1\nname: mine\nextends: h100\ntarget: sm_90\n' >mine.yaml; adlgen gpus check mine.yaml
mine.yaml:4:9: error: target sm_90 lacks what the description inherits: warpgroup_mma (<embedded>/adl/arch/sm_90a.yaml:105), register_reallocation (:198)
  target: sm_90
          ^
hint: `families: {warpgroup_mma: null, register_reallocation: null}` removes them; sm_90a has all that is listed
mine.yaml:4:9: error: target sm_90 has no tma.patch_map
hint: `false` says so; sm_90a, sm_100a, sm_100f, sm_101a, sm_101f, sm_103a, sm_103f, sm_110a, sm_110f, sm_120a, sm_120f, sm_121a, sm_121f may say `true`
<embedded>/adl/arch/sm_90a.yaml:76:16: note: tma.patch_map is given here, and inherited
      patch_map: true           # needs PTX 8.3
                 ^
<embedded>/adl/arch/sm_90a.yaml: `adlgen gpus text sm_90a` prints it
[exit 1]

$ adlgen compile $SRC/examples/mlp.json --gpu mine.yaml --out out
mine.yaml:4:9: error: target sm_90 lacks what the description inherits: warpgroup_mma (<embedded>/adl/arch/sm_90a.yaml:105), register_reallocation (:198)
  target: sm_90
          ^
hint: `families: {warpgroup_mma: null, register_reallocation: null}` removes them; sm_90a has all that is listed
mine.yaml:4:9: error: target sm_90 has no tma.patch_map
hint: `false` says so; sm_90a, sm_100a, sm_100f, sm_101a, sm_101f, sm_103a, sm_103f, sm_110a, sm_110f, sm_120a, sm_120f, sm_121a, sm_121f may say `true`
<embedded>/adl/arch/sm_90a.yaml:76:16: note: tma.patch_map is given here, and inherited
      patch_map: true           # needs PTX 8.3
                 ^
<embedded>/adl/arch/sm_90a.yaml: `adlgen gpus text sm_90a` prints it
[exit 1]

# A template is no kernel: what fills it in, and what --set is for.
$ adlgen templates show row_scan >row_scan.ir; adlgen compile row_scan.ir --gpu h100 --out out
row_scan.ir:4:7: error: parameter `rows` is not bound: this is a template
  param rows: int = 1 in 1 .. 65535
        ^
hint: the generator fills templates in: compile a graph, and --set gives parameters of its kernels; in a kernel of your own write the value and take the parameter out
[exit 1]

$ adlgen compile row_scan.ir --gpu h100 --set rows=1 --out out
error: --set has no meaning for pseudo-assembly row_scan.ir
hint: --set gives parameters of the kernels of a graph; in pseudo-assembly write the value in place of the parameter
[exit 2]
