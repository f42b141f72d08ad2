# Help, version, and what derives from the option table.
$ adlgen
usage: adlgen COMMAND [OPTION]... [ARGUMENT]...

adlgen generates GPU kernels from a description of operators and one of a GPU.

commands:
  gpus                    lists the GPUs that are described, shows one, checks a file, prints one's text
  templates               lists the templates that kernels are made from, prints one
  ops                     lists the operators and the types that kernels can be generated for
  import                  reads a graph and prints it, or says what of it cannot run
  doctor                  shows the tools that were found, their versions, and every place tried
  compile                 compiles an op description, or pseudo-assembly, for one or several GPUs
  run                     compiles an op description, runs it on the simulator or the GPU, and checks the results
  bench                   measures kernels on the GPU beside competitors and the machine's ceilings
  tune                    measures proposals for each operator on the GPU and keeps the fastest for compile
  sim                     runs a PTX file on the CPU and reports its faults
  cache                   shows or empties the folder of compiled graphs and machine code
  catalog                 builds, checks or simulates the committed kernels under generated/

options:
  --version               prints the version
  --help                  shows this text; adlgen COMMAND --help that of a command

exit codes:
  0                       success
  1                       something that was named or written is wrong or unreadable
  2                       the command line itself
  3                       valid, but not supported
  4                       a tool, driver or GPU is missing
  5                       verification failed
  70                      an internal error
[exit 2]

$ adlgen --help
usage: adlgen COMMAND [OPTION]... [ARGUMENT]...

adlgen generates GPU kernels from a description of operators and one of a GPU.

commands:
  gpus                    lists the GPUs that are described, shows one, checks a file, prints one's text
  templates               lists the templates that kernels are made from, prints one
  ops                     lists the operators and the types that kernels can be generated for
  import                  reads a graph and prints it, or says what of it cannot run
  doctor                  shows the tools that were found, their versions, and every place tried
  compile                 compiles an op description, or pseudo-assembly, for one or several GPUs
  run                     compiles an op description, runs it on the simulator or the GPU, and checks the results
  bench                   measures kernels on the GPU beside competitors and the machine's ceilings
  tune                    measures proposals for each operator on the GPU and keeps the fastest for compile
  sim                     runs a PTX file on the CPU and reports its faults
  cache                   shows or empties the folder of compiled graphs and machine code
  catalog                 builds, checks or simulates the committed kernels under generated/

options:
  --version               prints the version
  --help                  shows this text; adlgen COMMAND --help that of a command

exit codes:
  0                       success
  1                       something that was named or written is wrong or unreadable
  2                       the command line itself
  3                       valid, but not supported
  4                       a tool, driver or GPU is missing
  5                       verification failed
  70                      an internal error

$ adlgen --version
adlgen 0.1.0

$ adlgen --version --json
{
  "version": 1,
  "adlgen": "0.1.0"
}

$ adlgen gpus --help
usage: adlgen gpus [show NAME|FILE.yaml | check FILE.yaml... | text NAME | rules] [OPTION]...

adlgen gpus lists the GPUs that are described, shows one, checks a file, prints one's text.

A description is a YAML file. Names are looked for in $ADLGEN_DATA_DIR, then $XDG_DATA_HOME/adlgen,
then among those built into the program. A word with a slash, or ending in .yaml, is a file.

actions:
  show NAME|FILE.yaml     everything known about one GPU, each fact with unit and source
  check FILE.yaml...      reads descriptions strictly and reports every fault
  text NAME               the file of a GPU or an architecture as it is written, or of targets, bounds, instructions
  rules                   every key that a description has, what it may be, and what it does

options:
  --json                  prints one JSON object on standard output; errors too
  --help                  shows this text

$ adlgen ops -h
usage: adlgen ops [OPTION]...

adlgen ops lists the operators and the types that kernels can be generated for.

options:
  --json                  prints one JSON object on standard output; errors too
  --help                  shows this text

$ adlgen doctor --help
usage: adlgen doctor [OPTION]...

adlgen doctor shows the tools that were found, their versions, and every place tried.

Exits with 4 if there is no assembler, without which compile can still write ir and ptx.

options:
  --ptxas FILE            the assembler to use; default: see adlgen doctor
  --json                  prints one JSON object on standard output; errors too
  --help                  shows this text

$ adlgen compile --help
usage: adlgen compile GRAPH|FILE.ir [OPTION]...

adlgen compile compiles an op description, or pseudo-assembly, for one or several GPUs.

GRAPH is an ONNX model, a JSON or YAML file, or - for standard input. DIR gets, for each GPU, a
folder with plan.json (all that a program needs to launch the kernels) and a file per kernel and
kind. On any error DIR is as it was before.

options:
  --gpu GPU,...           GPUs to compile for: names (adlgen gpus lists them) or YAML files, separated by commas
  --out DIR               where <gpu>/<kernel>.* and <gpu>/plan.json go
  --emit KIND,...         what to write besides plan.json; default: ir,ptx,cubin (ir | ptx | cubin | sass | c)
  --set PARAM=VALUE,...   forces a template parameter, such as bm=64; one that cannot fit is refused
  --dim NAME=VALUE        fixes a symbolic dimension of the graph
  --sms N                 SMs that kernels may use at most; default: all of the GPU
  --math MODE             precise (default), or fast: the hardware's approximations where they are quicker (precise | fast)
  --accumulate MODE       sums of products of 8-bit floats, where the graph does not say: exact (default; partial sums are added in f32), or fast (default of --math fast): as the tensor cores keep them (exact | fast)
  --print-after PASS      writes <gpu>/<kernel>.NN-<pass>.ir after a pass of kernels, graph.NN-<pass>.txt after one of the graph's reading, <gpu>/graph.NN-<pass>.txt after a rewrite of fusion; all: after each
  --start-after PASS      FILE.ir goes on after this pass; default: the one its header names
  --skip PASS             leaves out an optional pass, or rewrite of fusion, for bisection
  --time-passes           shows how long each pass took
  --explain               says which template, tile and path was chosen, what was rejected, and why
  --tuned FILE            measured choices that come before those found elsewhere (docs/tune.md)
  --no-tuned              the cost model decides alone, whatever was measured
  --ptxas FILE            the assembler to use; default: see adlgen doctor
  --assembler NAME        ptxas (default), or nvjitlink: a library, which gives other code (ptxas | nvjitlink)
  --no-cache              assembles anew what the cache has, and keeps nothing there
  --jobs N                threads to use; default: one per processor
  --json                  prints one JSON object on standard output; errors too
  --help                  shows this text

$ adlgen catalog --help
usage: adlgen catalog build|check|simulate|show KERNEL|diff REV [OPTION]...

adlgen catalog builds, checks or simulates the committed kernels under generated/.

actions:
  build                   writes generated/ anew from catalog.json
  check                   generates aside, compares every byte, assembles every kernel; fails on a difference or a cost
  simulate                runs every distinct kernel on the simulator at sizes around its tile, with all checkers, against double precision
  show KERNEL             prints a kernel's text, whether it is committed as text or as a checksum
  diff REV                which kernels differ from those of a git revision, with what ptxas says of both

options:
  --gpu GPU,...           only these GPUs of the catalogue
  --root DIR              folder that holds catalog.json and generated/; default: here
  --accept                build: lets resource budgets rise
  --kernel NAME,...       simulate: only these kernels, by their names in the manifest
  --dim NAME=VALUE        simulate: this size instead of those that are chosen; shows the whole report
  --skew BYTES            simulate: moves every tensor so many bytes off an aligned address, as --dim
  --cases N               simulate: at most so many cases of a kernel, the one of several tiles among them; default: all
  --edited                simulate: runs also files that were changed by hand
  --counts                simulate: also shows what each kernel's memory accesses cost at its largest size
  --list                  simulate: prints the cases, runs none
  --schedules N           simulate: as in adlgen sim; default: 2
  --timeout SECONDS       simulate: a case may take so long; default: 60
  --seed N                simulate: seed of inputs and random orders; default: 0
  --ptxas FILE            the assembler to use; default: see adlgen doctor
  --jobs N                threads to use; default: one per processor
  --json                  prints one JSON object on standard output; errors too
  --help                  shows this text
