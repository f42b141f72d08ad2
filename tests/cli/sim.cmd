# What sim prints and refuses.
$ cp $SRC/examples/sim/*.ptx $SRC/examples/sim/*.json .; sed '/ld.shared/i bar.sync 0;' reverse.ptx >good.ptx; adlgen sim good.ptx --launch reverse.launch.json | sed 's/in [0-9.]* s/in .../'
64 warp-instructions in ..., 0 faults, 0 findings

$ adlgen sim good.ptx --launch reverse.launch.json --schedules 4 --json | validate sim
valid

# The limit of instructions is kept to one.
$ adlgen sim good.ptx --launch reverse.launch.json --jobs 1 --max-instructions 20 >out; echo $?; sed 's/in [0-9.]* s/in .../' out
5
good.ptx:23:3: fault: limit: the limit of 20 warp-instructions is reached: the kernel may never end
  ld.shared.f32, block (0,0,0), warp 0, lane 0
21 warp-instructions in ..., 1 faults, 0 findings

# The planted fault: no barrier between stores and loads of other threads.
$ adlgen sim reverse.ptx --launch reverse.launch.json --checkers race --jobs 1 >out; echo $?; sed 's/in [0-9.]* s/in .../' out
5
reverse.ptx:19:3: fault: race: write of shared 0x100 (tile+256) and read: nothing orders them
  st.shared.f32, block (0,0,0), warp 2, lane 0; other party: line 22, block (0,0,0), warp 1; 64 times
reverse.ptx:22:3: fault: race: read of shared 0xfc (tile+252) and write: nothing orders them
  ld.shared.f32, block (0,0,0), warp 2, lane 0; other party: line 19, block (0,0,0), warp 1; 64 times
60 warp-instructions in ..., 2 faults, 0 findings

$ adlgen sim reverse.ptx --launch reverse.launch.json --json >faults.json; echo $?; validate sim <faults.json
5
valid

# Breaks: registers of the instruction, of a chosen warp, of every stop.
$ adlgen sim good.ptx --launch reverse.launch.json --break good.ptx:23 | sed 's/in [0-9.]* s/in .../'
good.ptx:23: hit 1: block (0,0,0), warp 3, lanes ffffffff, before ld.shared.f32
  %f2 f32: ? in all lanes
  %r5 b32:
     0: 0x7c 0x78 0x74 0x70 0x6c 0x68 0x64 0x60
     8: 0x5c 0x58 0x54 0x50 0x4c 0x48 0x44 0x40
    16: 0x3c 0x38 0x34 0x30 0x2c 0x28 0x24 0x20
    24: 0x1c 0x18 0x14 0x10  0xc  0x8  0x4  0x0
break good.ptx:23: line 23, 1 hits
64 warp-instructions in ..., 0 faults, 0 findings

$ adlgen sim good.ptx --launch reverse.launch.json --break 23 --warp 0:2 --hits 0 --watch %r1 --watch %r4,%r5:u32 | grep -v warp-instr
good.ptx:23: hit 1: block (0,0,0), warp 2, lanes ffffffff, before ld.shared.f32
  %r1 b32:
     0: 0x40 0x41 0x42 0x43 0x44 0x45 0x46 0x47
     8: 0x48 0x49 0x4a 0x4b 0x4c 0x4d 0x4e 0x4f
    16: 0x50 0x51 0x52 0x53 0x54 0x55 0x56 0x57
    24: 0x58 0x59 0x5a 0x5b 0x5c 0x5d 0x5e 0x5f
  %r4 u32:
     0: 63 62 61 60 59 58 57 56
     8: 55 54 53 52 51 50 49 48
    16: 47 46 45 44 43 42 41 40
    24: 39 38 37 36 35 34 33 32
  %r5 u32:
     0: 252 248 244 240 236 232 228 224
     8: 220 216 212 208 204 200 196 192
    16: 188 184 180 176 172 168 164 160
    24: 156 152 148 144 140 136 132 128
break 23: line 23, 1 hits

$ adlgen sim good.ptx --launch reverse.launch.json --break 23 --warp 1,0,0:0 | grep break
break 23: line 23, never reached

$ adlgen sim good.ptx --launch reverse.launch.json --break 22 --watch %f2 --watch %r5:f16 --watch global:to:1x3:f32 --watch shared:%r3+4:2x2:f32:pitch16 --watch shared:100000:1x2:u8 | grep -v warp-instr
good.ptx:22: hit 1: block (0,0,0), warp 0, lanes ffffffff, before bar.sync
  %f2 f32: ? in all lanes
  %r5 f16:
     0: 3.0279e-05,0 3.0041e-05,0 2.9802e-05,0 2.9564e-05,0 2.9325e-05,0 2.9087e-05,0 2.8849e-05,0  2.861e-05,0
     8: 2.8372e-05,0 2.8133e-05,0 2.7895e-05,0 2.7657e-05,0 2.7418e-05,0  2.718e-05,0 2.6941e-05,0 2.6703e-05,0
    16: 2.6464e-05,0 2.6226e-05,0 2.5988e-05,0 2.5749e-05,0 2.5511e-05,0 2.5272e-05,0 2.5034e-05,0 2.4796e-05,0
    24: 2.4557e-05,0 2.4319e-05,0  2.408e-05,0 2.3842e-05,0 2.3603e-05,0 2.3365e-05,0 2.3127e-05,0 2.2888e-05,0
  global:to:1x3:f32
        0 1 2
     0: ? ? ?
  shared:%r3+4:2x2:f32:pitch16
               0        1
     0: -0.92466 -0.15364
     1:   2.5441 -0.59541
  shared:100000:1x2:u8
          0   1
     0: out out
break 22: line 22, 1 hits

# Fragments as matrices: a product of what the operands show is what the accumulator shows.
$ adlgen sim mma.ptx --launch mma.launch.json --break 50 --watch fragment:m16k16:bf16:%a0..%a3 --watch fragment:k16n8:bf16:%b0,%b1 --watch fragment:m16n8:f32:%d0..%d3 --watch shared:0:16x16:bf16 --watch global:b:16x8:bf16 --json >stops.json; validate sim <stops.json
valid

$ python3 -c 'import json; a, b, d, a2, b2 = [v["rows"] for v in json.load(open("stops.json"))["stops"][0]["values"]]; print(a == a2, b == b2, max(abs(sum(x * y[j] for x, y in zip(a[i], b)) - d[i][j]) for i in range(16) for j in range(8)) < 1e-5)'
True True True

$ adlgen sim mma.ptx --launch mma.launch.json --break 50 --watch fragment:k16n8:bf16:%b0,%b1 | head -4
mma.ptx:50: hit 1: block (0,0,0), warp 0, lanes ffffffff, before st.global.v2.f32
  fragment:k16n8:bf16:%b0,%b1
               0        1        2         3         4        5         6         7
     0:  0.19336 -0.57812 0.075684    1.3516   -1.9531   1.7109   0.98828      2.75

# Bank conflicts.
$ adlgen sim mma.ptx --launch mma.launch.json --counts --gpu a100 | grep -v warp-instr
       line  instruction                                     executions  wavefronts   least     sectors   least
         21  cp.async.cg.shared.global                                1        4.00    4.00       16.00   16.00
         25  cp.async.ca.shared.global                                1        2.00    2.00        8.00    8.00
         33  ldmatrix.sync.aligned.m8n8.x4.shared.b16                 1        8.00    4.00           -       -  bank-conflict
         35  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16           1        2.00    2.00           -       -
      50-51  st.global.v2.f32                                         2           -       -        8.00    8.00
in all: 16 wavefronts, least 12; 40 sectors, least 40

$ adlgen sim mma.ptx --launch mma.launch.json --counts --gpu a100 --json | validate sim
valid

$ adlgen sim mma.ptx --launch mma.launch.json --counts
error: counting needs a GPU, whose description has its banks and sectors
hint: name a GPU
[exit 2]

# What cannot be.
$ adlgen sim mma.ptx --launch mma.launch.json --break other.ptx:3
error: --break other.ptx:3: the kernel is in mma.ptx
[exit 2]

$ adlgen sim mma.ptx --launch mma.launch.json --break 3000
error: --break 3000: mma has no instruction at or behind line 3000
[exit 2]

$ adlgen sim mma.ptx --launch mma.launch.json --break here
error: --break here: no line
hint: such as kernel.ptx:120
[exit 2]

$ adlgen sim mma.ptx --launch mma.launch.json --break 50 --warp 3
error: --warp 3: no block and warp
hint: BLOCK:WARP, such as 0:3, or 1,2,0:3 for block (1,2,0)
[exit 2]

$ adlgen sim mma.ptx --launch mma.launch.json --watch %r1
error: --watch says nothing without --break
hint: such as --break kernel.ptx:120
[exit 2]

$ for what in %r99 %r1..%a3 %r1:f12 %rd1:f64:3 %d0:u64 fragment:m16n8:f32:%d0 fragment:m8n8:f32:%d0 fragment:m16n8:f64:%d0 fragment:m16n8 shared:x:2x2:f32 shared:0:2x2 shared:0:4x128:bf16:swizzle128 shared:0:2x2:f32:swizzle16 global:q:2x2:f32 global:a:2x2:f32:swizzle32 r1; do adlgen sim mma.ptx --launch mma.launch.json --break 50 --watch $what; done
error: --watch %r99: mma uses no register %r99
error: --watch %r1..%a3: %r1..%a3 is no range of registers
error: --watch %r1:f12: unknown type 'f12'
hint: f32, f16, bf16, e4m3, s32, u8 and the like
error: --watch %rd1:f64:3: more than registers and a type
error: --watch %d0:u64: %d0 is of type f32, which holds no u64
error: --watch fragment:m16n8:f32:%d0: 1 registers; a 16 x 8 fragment of f32 has 4
error: --watch fragment:m8n8:f32:%d0: unknown shape 'm8n8'
hint: m16nN is an accumulator, m16kN a left operand, kNn8 a right one
error: --watch fragment:m16n8:f64:%d0: no fragment of this shape has elements of type f64
error: --watch fragment:m16n8: a fragment has shape, type and registers
hint: fragment:m16n8:f32:%f0..%f3
error: --watch shared:x:2x2:f32: no shared address
hint: a number such as 0x400, or a register
error: --watch shared:0:2x2: rows x columns (at most 65536 elements) and a type are needed
hint: such as shared:0x400:64x64:bf16:swizzle128
error: --watch shared:0:4x128:bf16:swizzle128: a row of 256 bytes is wider than the swizzle
error: --watch shared:0:2x2:f32:swizzle16: unknown 'swizzle16'
hint: pitchBYTES, and of shared memory swizzle32, swizzle64 or swizzle128
error: --watch global:q:2x2:f32: no buffer 'q'
hint: there are a, b, d
error: --watch global:a:2x2:f32:swizzle32: unknown 'swizzle32'
hint: pitchBYTES, and of shared memory swizzle32, swizzle64 or swizzle128
error: --watch r1: nothing that can be watched
hint: %REGISTER, fragment:..., shared:... or global:...; docs/simulator.md
[exit 2]

$ adlgen sim mma.ptx
error: --launch is missing
hint: --print-launch prints one to start from
[exit 2]

$ adlgen sim
error: adlgen sim needs KERNEL.ptx
[exit 2]

$ adlgen sim nothing.ptx --launch mma.launch.json
error: cannot read nothing.ptx: No such file or directory
[exit 1]

$ adlgen sim mma.ptx --launch nothing.json
error: cannot read nothing.json: No such file or directory
[exit 1]

$ adlgen sim mma.ptx --launch nothing.json --json | validate errors
valid

$ adlgen sim mma.launch.json --launch mma.launch.json
mma.launch.json:1:1: error: a name is expected here
  {"version": 1, "grid": [1], "block": [32], "args": [{"buffer": "a"}, {"buffer": "b"}, {"buffer": "d"}],
  ^
[exit 1]

$ adlgen sim mma.ptx --launch mma.ptx
mma.ptx: error: this is PTX, not JSON or YAML
hint: adlgen sim KERNEL.ptx runs it
[exit 1]

$ adlgen sim mma.ptx --launch reverse.launch.json
mma.ptx:6:17: error: the launch does not fit 'mma': 2 arguments for 3 parameters
  .visible .entry mma(.param .u64 a, .param .u64 b, .param .u64 d)
                  ^
[exit 1]

$ adlgen sim mma.ptx --launch mma.launch.json --schedules many
error: adlgen sim: --schedules needs a whole number, not "many"
[exit 2]

$ adlgen sim mma.ptx --launch mma.launch.json --gpu v100
error: unknown GPU `v100`
hint: did you mean `a100`?
[exit 1]

$ adlgen sim mma.ptx mma.ptx --launch mma.launch.json
error: adlgen sim: unexpected argument mma.ptx
[exit 2]

# A launch file to start from.
$ adlgen sim reverse.ptx --print-launch
{"version": 1,
 "entry": "reverse",
 "grid": [1, 1, 1],
 "block": [128, 1, 1],
 "args": [{"buffer": "from"}, {"buffer": "to"}],
 "buffers": {"from": {"type": "f32", "shape": [4096], "fill": "random"}, "to": {"type": "f32", "shape": [4096], "fill": "random"}}}

$ adlgen sim reverse.ptx --print-launch >first.json; adlgen sim good.ptx --launch first.json | sed 's/in [0-9.]* s/in .../'
64 warp-instructions in ..., 0 faults, 0 findings

$ adlgen catalog show gemm_bf16_nt --gpu h100 --root $SRC >nt.ptx; adlgen sim nt.ptx --print-launch | grep -o '"tensormap": "[^"]*"'
"tensormap": "arg_map_out_a"
"tensormap": "arg_map_A"
"tensormap": "arg_map_A_edge"
"tensormap": "arg_map_B"
"tensormap": "arg_map_B_edge"

$ adlgen sim reverse.ptx --print-launch --entry other
reverse.ptx:1:1: error: there is no entry 'other'
  // Reverses 128 numbers within a block through shared memory. The barrier between the stores and the loads is missing.
  ^
hint: entries: reverse
[exit 1]

$ cat reverse.ptx mma.ptx | sed '/^[.]version/d; /^[.]target/d; /^[.]address/d' >both; (sed -n '/^[.]version/,/^[.]address/p' mma.ptx; cat both) >both.ptx; adlgen sim both.ptx --print-launch
both.ptx:1:1: error: there are several entries; --entry names one
  .version 8.0
  ^
hint: entries: mma reverse
[exit 1]

$ adlgen sim both.ptx --print-launch --entry mma | head -2
{"version": 1,
 "entry": "mma",

# A number that its type cannot hold, and a block deeper than a GPU takes, are refused; a negative number means its bits.
$ for n in 4294967296 -2147483649 -1; do sed "s/\"args\": \[/&{\"u32\": $n}, /" reverse.launch.json >u32.json; adlgen sim reverse.ptx --launch u32.json 2>&1 | grep -o 'error.*'; done; sed 's/"block": \[[^]]*\]/"block": [1, 1, 65]/' reverse.launch.json >deep.json; adlgen sim reverse.ptx --launch deep.json 2>&1 | grep -o 'error.*'
error: 4294967296 does not fit u32
error: -2147483649 does not fit u32
error: the launch does not fit 'reverse': 3 arguments for 2 parameters
error: the launch does not fit 'reverse': 65 threads in one dimension

# PTX for a newer GPU than the one that is named.
$ adlgen sim $SRC/tests/simulator/group.ptx --launch $SRC/tests/simulator/group.launch.json --gpu a100 2>&1 | grep -o 'error.*'
error: the launch does not fit 'group': it is for sm_90a; a100 takes sm_80

# docs/simulator.md shows what is printed.
$ (adlgen sim reverse.ptx --launch reverse.launch.json --jobs 1; adlgen sim mma.ptx --launch mma.launch.json --counts --gpu a100; adlgen sim mma.ptx --launch mma.launch.json --break mma.ptx:50 --watch %r13:u32 --watch shared:%r2+512:4x8:bf16 --watch fragment:m16n8:f32:%d0..%d3 | head -15) | sed 's/in [0-9.]* s/in .../' | grep -v '^37 ' >shown; wc -l <shown; grep -vxFf $SRC/docs/simulator.md shown
29
[exit 1]

$ adlgen sim --help | sed -n '1,9p; /^examples/,$p'
usage: adlgen sim KERNEL.ptx [OPTION]...

adlgen sim runs a PTX file on the CPU and reports its faults.

Without a fault it exits with 0, with faults with 5; with 3 if there is an instruction it does not
know, before anything runs. docs/simulator.md describes launch files, reports and what --watch
takes.

options:
examples:
  adlgen sim kernel.ptx --print-launch >launch.json
  adlgen sim kernel.ptx --launch launch.json --schedules 4
  adlgen sim kernel.ptx --launch launch.json --gpu GPU --counts
  adlgen sim kernel.ptx --launch launch.json --break kernel.ptx:120 --watch %r5 \
      --watch fragment:m16n8:f32:%f0..%f3 --watch shared:0x400:64x64:bf16:swizzle128

# A tile that TMA has swizzled reads as the tensor does; an accumulator of wgmma, while it is written and after.
$ cp $SRC/tests/simulator/group.ptx $SRC/tests/simulator/group.launch.json .; at() { grep -n "$1" group.ptx | head -1 | cut -d: -f1; }; adlgen sim group.ptx --launch group.launch.json --break $(at commit_group) --break $(at 'add.u32 %r14') --warp 0:1 --watch shared:%r12:64x64:bf16:swizzle128 --watch shared:%r12+8192:16x64:bf16:swizzle128 --watch global:a:50x64:bf16:pitch640 --watch fragment:m16n16:f32:%d0..%d7 --json >group.json; validate sim <group.json
valid

$ python3 -c 'import json; s = json.load(open("group.json"))["stops"]; t, b, g, d = [v["rows"] for v in s[1]["values"]]; print([v["watch"][:8] for v in s[0]["values"] if "in_flight" in v], "in_flight" in s[1]["values"][3]); print(t[:50] == g, max(abs(sum(x * y for x, y in zip(t[16 + i], b[j])) - d[i][j]) for i in range(16) for j in range(16)) < 1e-4)'
['fragment'] False
True True

# Blocks take over the memory of blocks that have ended: what these left there is no value, neither in shared memory nor in registers.
$ printf '%s\n' .version\ 8.0 .target\ sm_80 .address_size\ 64 '.visible .entry left(.param .u64 out) {' '.reg .b32 %r<6>;' '.reg .b64 %d<3>;' '.reg .pred %p;' '.shared .align 4 .b8 s[128];' 'mov.u32 %r0, %tid.x;' 'mov.u32 %r1, %ctaid.x;' 'mov.u32 %r2, s;' 'mad.lo.u32 %r2, %r0, 4, %r2;' 'ld.param.u64 %d0, [out];' 'mad.lo.u32 %r5, %r1, 64, %r0;' 'mul.wide.u32 %d1, %r5, 4;' 'add.u64 %d0, %d0, %d1;' 'setp.ge.u32 %p, %r1, 40;' '@%p bra READ;' 'st.shared.u32 [%r2], %r0;' 'mov.u32 %r4, 7;' 'READ: ld.shared.u32 %r3, [%r2];' 'st.global.u32 [%d0], %r3;' 'st.global.u32 [%d0+128], %r4;' 'ret;' '}' > left.ptx; echo '{"version": 1, "entry": "left", "grid": [60], "block": [32], "args": [{"buffer": "out"}], "buffers": {"out": {"type": "u32", "shape": [3840], "fill": "none"}}}' > left.json

$ for jobs in 1 2; do adlgen sim left.ptx --launch left.json --jobs $jobs | grep -o 'ptx.*undefined\|[0-9]* times\|[0-9]* faults'; adlgen sim left.ptx --launch left.json --jobs $jobs --checkers none | grep -o '[0-9]* faults'; done
ptx:22:1: fault: undefined
640 times
ptx:23:1: fault: undefined
640 times
2 faults
0 faults
ptx:22:1: fault: undefined
640 times
ptx:23:1: fault: undefined
640 times
2 faults
0 faults
