# A stand-in for the assembler, so that the output is the same everywhere.
$ mkdir -p cuda/bin && printf '#!/bin/sh\ncase $1 in --version) echo "V12.9.86";; *) echo "sm_90 '"'sm_80' 'sm_90a'"'";; esac\n' >cuda/bin/ptxas && chmod +x cuda/bin/ptxas

$ adlgen doctor --ptxas cuda/bin/ptxas | head -2
adlgen 0.1.0
ptxas  12.9.86, newest target sm_90a: $TMP/cuda/bin/ptxas (from --ptxas)

$ ADLGEN_PTXAS=cuda/bin/ptxas adlgen doctor | sed -n 2p
ptxas  12.9.86, newest target sm_90a: $TMP/cuda/bin/ptxas (from ADLGEN_PTXAS)

$ CUDA_HOME= CUDA_PATH=cuda ADLGEN_PTXAS= adlgen doctor | sed -n 2p
ptxas  12.9.86, newest target sm_90a: $TMP/cuda/bin/ptxas (from CUDA_PATH)

$ CUDA_HOME=cuda ADLGEN_PTXAS= adlgen doctor | sed -n 2p
ptxas  12.9.86, newest target sm_90a: $TMP/cuda/bin/ptxas (from CUDA_HOME)

$ adlgen doctor --ptxas cuda/bin/ptxas --json | validate doctor
valid

$ adlgen doctor --ptxas nothing/here | head -2
adlgen 0.1.0
ptxas  missing: --ptxas names nothing/here, which is not a program

$ adlgen doctor --ptxas nothing/here >/dev/null
[exit 4]

$ ADLGEN_PTXAS=nothing/here adlgen doctor | sed -n 2p
ptxas  missing: ADLGEN_PTXAS names nothing/here, which is not a program

$ adlgen doctor --ptxas nothing/here --json | validate doctor
valid

$ adlgen doctor --ptxas /bin/true | sed -n 2p
ptxas  missing: /bin/true (from --ptxas) does not answer --version like ptxas
