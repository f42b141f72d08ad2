# Limits of tensor stores, as recorded on an H100 (tests/recordings): what sim says beyond them. `try` changes kernel and launch.
$ cp $SRC/tests/simulator/edge.* .; echo 'sed "$1" edge.ptx >k.ptx; sed "$2" edge.launch.json >l.json; adlgen sim k.ptx --launch l.json | sed "s/in [0-9.]* s/in .../"' >try; sh try
17 warp-instructions in ..., 0 faults, 0 findings

# Rows of 24 bytes that are 32 apart: eight bytes beyond each row are written; in our own kernels that is a fault.
$ sh try "" 's/\[32, 8\], "str/[24, 8], "str/'
k.ptx:24:3: finding: bounds: the box ends with the tensor's row, but a tensor store writes whole 16 bytes: 8 bytes beyond the row, whose 24 bytes are no multiple of 16
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 0 faults, 1 findings

$ sh try '1i // adlgen' 's/\[32, 8\], "str/[24, 8], "str/'
k.ptx:25:3: fault: bounds: the box ends with the tensor's row, but a tensor store writes whole 16 bytes: 8 bytes beyond the row, whose 24 bytes are no multiple of 16
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings

# A box that begins before the tensor: in its rows, in another dimension; one at no multiple of 16 bytes.
$ sh try 's/%r1, \[x\];/%r1, [x]; sub.u32 %r1, %r1, 16;/'
k.ptx:24:3: fault: bounds: the box of a tensor store begins at -16 of dimension 0: only loads may begin before the tensor
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0
18 warp-instructions in ..., 1 faults, 0 findings

$ sh try 's/%r2, \[y\];/%r2, [y]; sub.u32 %r2, %r2, 1;/'
k.ptx:24:3: fault: bounds: the box of a tensor store begins at -1 of dimension 1: only loads may begin before the tensor
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0
18 warp-instructions in ..., 1 faults, 0 findings

$ sh try 's/%r1, \[x\];/%r1, [x]; add.u32 %r1, %r1, 8;/'
k.ptx:24:3: fault: alignment: the box begins at element 8 of its rows: not a multiple of 16 bytes
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0
18 warp-instructions in ..., 1 faults, 0 findings

# Reductions by the tensor's type.
$ for c in or.s64 add.s64 min.s64 inc.s32 inc.u32 min.f32 add.tf32 xor.b32; do echo $c; sh try "s/cp.async.bulk.tensor.2d.global.shared::cta/cp.reduce.async.bulk.tensor.2d.global.shared::cta.${c%.*}/" "s/u8/${c#*.}/; s/\[32, 8\]/[4, 8]/g"; done
or.s64
k.ptx:24:3: fault: operand: no such reduction into a tensor of type s64
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.or.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings
add.s64
k.ptx:24:3: fault: operand: no such reduction into a tensor of type s64
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings
min.s64
17 warp-instructions in ..., 0 faults, 0 findings
inc.s32
k.ptx:24:3: fault: operand: no such reduction into a tensor of type s32
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.inc.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings
inc.u32
17 warp-instructions in ..., 0 faults, 0 findings
min.f32
k.ptx:24:3: fault: operand: no such reduction into a tensor of type f32
  cp.reduce.async.bulk.tensor.2d.global.shared::cta.min.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings
add.tf32
17 warp-instructions in ..., 0 faults, 0 findings
xor.b32
17 warp-instructions in ..., 0 faults, 0 findings

# ftz belongs to f32 and tf32.
$ sed 's/"box"/"ftz": true, "box"/' edge.launch.json >l.json; adlgen sim edge.ptx --launch l.json
l.json:4:95: error: only tensor maps of f32 and tf32 have ftz
   "tensormaps": {"t": {"buffer": "out", "type": "u8", "dims": [32, 8], "strides": [32], "ftz": true, "box": [32, 8]}}}
                                                                                                ^
[exit 1]

$ sed 's/"box"/"ftz": 1, "box"/' edge.launch.json >l.json; adlgen sim edge.ptx --launch l.json
l.json:4:95: error: expected true or false, found `1`
   "tensormaps": {"t": {"buffer": "out", "type": "u8", "dims": [32, 8], "strides": [32], "ftz": 1, "box": [32, 8]}}}
                                                                                                ^
[exit 1]

# A box that begins inside is cut at the tensor's end; one wholly outside is no fault behind another box of its cluster, and
# worth knowing where there is none: in our own kernels a fault.
$ sh try "" 's/\[32, 8\], "str/[32, 5], "str/'
17 warp-instructions in ..., 0 faults, 0 findings

$ sh try '/cp.async.bulk.tensor/{p;s/%r2}/%r6}/}; s/mov.b64 %m, map;/& add.u32 %r6, %r2, 4;/' 's/\[32, 8\]/[32, 4]/g'
19 warp-instructions in ..., 0 faults, 0 findings

$ sh try "" 's/{"u32": 0}\]/{"u32": 8}]/'
k.ptx:24:3: finding: bounds: the box of a tensor store begins at 8 of dimension 1, which has 8, and behind no other box: nothing is stored
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 0 faults, 1 findings

$ sh try '1i // adlgen' 's/{"u32": 0}\]/{"u32": 8}]/'
k.ptx:25:3: fault: bounds: the box of a tensor store begins at 8 of dimension 1, which has 8, and behind no other box: nothing is stored
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings

# Bytes of an output that nobody writes: a finding, with strict rules a fault; launches may be said to write it in part, or whole.
$ sed 's/"zero"}}/"none"}}, "outputs": {"out": "out.bin"}/; s/\[32, 8\], "str/[32, 5], "str/' edge.launch.json >l.json; adlgen sim edge.ptx --launch l.json | sed "s/in [0-9.]* s/in .../"
edge.ptx:6:17: finding: undefined: 352 of 512 bytes of output 'out' are never written, the first is byte 160
  ret, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 0 faults, 1 findings

$ adlgen sim edge.ptx --launch l.json --strict | sed "s/in [0-9.]* s/in .../"
edge.ptx:6:17: fault: undefined: 352 of 512 bytes of output 'out' are never written, the first is byte 160
  ret, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings

$ sed 's/"none"/"none", "written": "part"/' l.json >part.json; adlgen sim edge.ptx --launch part.json --strict | sed "s/in [0-9.]* s/in .../"
17 warp-instructions in ..., 0 faults, 0 findings

$ sed 's/"none"/"none", "written": "whole"/; s/"outputs".*/"outputs": {},/' l.json >whole.json; adlgen sim edge.ptx --launch whole.json | sed "s/in [0-9.]* s/in .../"
edge.ptx:6:17: fault: undefined: 352 of 512 bytes of output 'out' are never written, the first is byte 160
  ret, block (0,0,0), warp 0, lane 0
17 warp-instructions in ..., 1 faults, 0 findings

$ sed 's/"none"/"none", "written": "most"/' l.json >most.json; adlgen sim edge.ptx --launch most.json
most.json:3:63: error: 'most' is not known; known: whole, part
   "buffers": {"out": {"bytes": 512, "fill": "none", "written": "most"}}, "outputs": {"out": "out.bin"},
                                                                ^
[exit 1]

# What other lanes of the warp have written is stored without a barrier of the warp between.
$ sh try '/bar.sync/d'
k.ptx:23:3: fault: race: bulk store read of shared 0x400 (mem) and write: another lane of the same warp, without bar.warp.sync between
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group, block (0,0,0), warp 0, lane 0; other party: line 17, block (0,0,0), warp 0; 60 times
16 warp-instructions in ..., 1 faults, 0 findings
