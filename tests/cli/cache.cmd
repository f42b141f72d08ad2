# A stand-in for the assembler that counts how often it is started.
$ printf '#!/bin/sh\necho run >>"$HOME/runs"\ncase $1 in --version) echo "V13.0.1";; --help) echo "'"'sm_80' 'sm_90a'"'";; *) echo "machine code of $3" >kernel.cubin;; esac\n' >ptxas && chmod +x ptxas

$ printf '{name: add, inputs: {a: {type: f32, shape: [N]}, b: {type: f32, shape: [N]}}, nodes: [{op: Add, inputs: [a, b], outputs: [c]}], outputs: [c]}' >add.yaml

$ adlgen cache | sed "s,$HOME,HOME,"
HOME/.cache/adlgen: 0 entries, 0.0 MiB of at most 1024 MiB

# Two questions to the tool, and a run for each kernel.
$ adlgen compile add.yaml --gpu h100 --out one --ptxas ./ptxas >/dev/null && wc -l <$HOME/runs && ls one/h100/*.cubin
3
one/h100/add_f32_v1.cubin
one/h100/add_f32_v4.cubin

# The second time nothing is started, and the result is the same.
$ rm $HOME/runs; adlgen compile add.yaml --gpu h100 --out two --ptxas ./ptxas >/dev/null && diff -r one two && test ! -e $HOME/runs && echo same, nothing was started
same, nothing was started

$ adlgen compile add.yaml --gpu h100 --out two --ptxas ./ptxas --no-cache >/dev/null && wc -l <$HOME/runs
3

# Another version is another assembler.
$ rm $HOME/runs; sed -i s/13.0.1/13.0.2/ ptxas && adlgen compile add.yaml --gpu h100 --out two --ptxas ./ptxas >/dev/null && wc -l <$HOME/runs
3

# Entries that were cut off or altered are made anew.
$ rm $HOME/runs; truncate -s -1 $HOME/.cache/adlgen/*/*.entry; adlgen compile add.yaml --gpu h100 --out two --ptxas ./ptxas >/dev/null && diff -r one two && wc -l <$HOME/runs
3

$ rm $HOME/runs; for file in $HOME/.cache/adlgen/*/*.entry; do printf '\001' | dd of=$file bs=1 seek=115 conv=notrunc 2>/dev/null; done; adlgen compile add.yaml --gpu h100 --out two --ptxas ./ptxas >/dev/null && diff -r one two && wc -l <$HOME/runs
3

# Two processes at once.
$ adlgen cache clear >/dev/null; adlgen compile add.yaml --gpu h100,a100 --out three --ptxas ./ptxas >/dev/null & adlgen compile add.yaml --gpu h100,a100 --out four --ptxas ./ptxas >/dev/null; wait; diff -r three four && echo same
same

$ adlgen cache --json | validate cache
valid

$ adlgen cache path | sed "s,$HOME,HOME,"
HOME/.cache/adlgen

$ ADLGEN_CACHE_DIR=elsewhere ADLGEN_CACHE_LIMIT=5 adlgen cache
elsewhere: 0 entries, 0.0 MiB of at most 5 MiB

$ adlgen cache clear | sed 's/[0-9]* bytes/N bytes/'
removed 7 entries, N bytes

$ adlgen cache | sed "s,$HOME,HOME,"
HOME/.cache/adlgen: 0 entries, 0.0 MiB of at most 1024 MiB

$ env -u HOME adlgen cache
error: no cache: neither ADLGEN_CACHE_DIR, XDG_CACHE_HOME nor HOME names a folder
hint: set one of them
[exit 1]

# Where the cache cannot be written, it is done without.
$ touch file; ADLGEN_CACHE_DIR=file/cache adlgen compile add.yaml --gpu h100 --out five --ptxas ./ptxas >/dev/null && diff -r one five && echo same
warning: the cache is not used: cannot make file/cache/...: Not a directory
same

# A limit that is no number is said.
$ ADLGEN_CACHE_LIMIT=abc adlgen cache path >/dev/null
warning: ADLGEN_CACHE_LIMIT=abc is no number of MiB from 1 on; the cache keeps to 1024 MiB

$ ADLGEN_CACHE_LIMIT=0 adlgen compile add.yaml --gpu h100 --out two --ptxas ./ptxas >/dev/null
warning: ADLGEN_CACHE_LIMIT=0 is no number of MiB from 1 on; the cache keeps to 1024 MiB

$ ADLGEN_CACHE_LIMIT=2 adlgen cache | sed 's/.*of at/at/'
at most 2 MiB
