/* The option table. One row a command; --help, the man page and the completion are printed from it. */
#include "cli/accumulate_option.h"
#include "cli/assembler_option.h"
#include "cli/cli.h"
#include "cli/tuned_option.h"

static const char *const emit_choices[] = {"ir", "ptx", "cubin", "sass", "c", NULL};
static const char *const math_choices[] = {"precise", "fast", NULL};
const char *const accumulate_choices[] = {"exact", "fast", NULL};

#define OPTION_PTXAS                                                                                         \
  {                                                                                                          \
    .name = "ptxas", .value = "FILE", .doc = "the assembler to use; default: see adlgen doctor"              \
  }
#define OPTION_JOBS                                                                                          \
  {                                                                                                          \
    .name = "jobs", .value = "N", .doc = "threads to use; default: one per processor"                        \
  }
#define OPTIONS_END                                                                                          \
  {                                                                                                          \
    .name = NULL                                                                                             \
  }

static const Action gpus_actions[] = {
    {"show", "NAME|FILE.yaml", "everything known about one GPU, each fact with unit and source"},
    {"check", "FILE.yaml...", "reads descriptions strictly and reports every fault"},
    {"text", "NAME",
     "the file of a GPU or an architecture as it is written, or of targets, bounds, instructions"},
    {"rules", "", "every key that a description has, what it may be, and what it does"},
    {NULL},
};
static const Action templates_actions[] = {
    {"show", "NAME", "the text of one; also by the path that messages give, <embedded>/templates/NAME.ir"},
    {NULL},
};
static const Option no_options[] = {OPTIONS_END};

static const Option doctor_options[] = {OPTION_PTXAS, OPTIONS_END};

static const Option compile_options[] = {
    {.name = "gpu",
     .value = "GPU",
     .list = true,
     .repeated = true,
     .doc = "GPUs to compile for: names (adlgen gpus lists them) or YAML files, separated by commas"},
    {.name = "out", .value = "DIR", .doc = "where <gpu>/<kernel>.* and <gpu>/plan.json go"},
    {.name = "emit",
     .value = "KIND",
     .choices = emit_choices,
     .list = true,
     .repeated = true,
     .doc = "what to write besides plan.json; default: ir,ptx,cubin"},
    {.name = "set",
     .value = "PARAM=VALUE",
     .repeated = true,
     .list = true,
     .doc = "forces a template parameter, such as bm=64; one that cannot fit is refused"},
    {.name = "dim",
     .value = "NAME=VALUE",
     .repeated = true,
     .doc = "fixes a symbolic dimension of the graph"},
    {.name = "sms", .value = "N", .doc = "SMs that kernels may use at most; default: all of the GPU"},
    {.name = "math",
     .value = "MODE",
     .choices = math_choices,
     .doc = "precise (default), or fast: the hardware's approximations where they are quicker"},
    OPTION_ACCUMULATE,
    {.name = "print-after",
     .value = "PASS",
     .repeated = true,
     .doc =
         "writes <gpu>/<kernel>.NN-<pass>.ir after a pass of kernels, graph.NN-<pass>.txt after one of the "
         "graph's reading, <gpu>/graph.NN-<pass>.txt after a rewrite of fusion; all: after each"},
    {.name = "start-after",
     .value = "PASS",
     .doc = "FILE.ir goes on after this pass; default: the one its header names"},
    {.name = "skip",
     .value = "PASS",
     .repeated = true,
     .doc = "leaves out an optional pass, or rewrite of fusion, for bisection"},
    {.name = "time-passes", .doc = "shows how long each pass took"},
    {.name = "explain", .doc = "says which template, tile and path was chosen, what was rejected, and why"},
    OPTION_TUNED,
    OPTION_NO_TUNED,
    OPTION_PTXAS,
    OPTION_ASSEMBLER,
    OPTION_NO_CACHE,
    OPTION_JOBS,
    OPTIONS_END,
};

static const Action cache_actions[] = {
    {"show", "", "the folder, its entries and their size; the default"},
    {"path", "", "the folder alone"},
    {"clear", "", "removes every entry"},
    {NULL},
};

static const Action catalog_actions[] = {
    {"build", "", "writes generated/ anew from catalog.json"},
    {"check", "",
     "generates aside, compares every byte, assembles every kernel; fails on a difference or a cost"},
    {"simulate", "",
     "runs every distinct kernel on the simulator at sizes around its tile, with all checkers, against "
     "double "
     "precision"},
    {"show", "KERNEL", "prints a kernel's text, whether it is committed as text or as a checksum"},
    {"diff", "REV", "which kernels differ from those of a git revision, with what ptxas says of both"},
    {NULL},
};
static const Option catalog_options[] = {
    {.name = "gpu",
     .value = "GPU",
     .list = true,
     .repeated = true,
     .doc = "only these GPUs of the catalogue"},
    {.name = "root", .value = "DIR", .doc = "folder that holds catalog.json and generated/; default: here"},
    {.name = "accept", .doc = "build: lets resource budgets rise"},
    {.name = "kernel",
     .value = "NAME",
     .list = true,
     .repeated = true,
     .doc = "simulate: only these kernels, by their names in the manifest"},
    {.name = "dim",
     .value = "NAME=VALUE",
     .repeated = true,
     .doc = "simulate: this size instead of those that are chosen; shows the whole report"},
    {.name = "skew",
     .value = "BYTES",
     .doc = "simulate: moves every tensor so many bytes off an aligned address, as --dim"},
    {.name = "cases",
     .value = "N",
     .doc = "simulate: at most so many cases of a kernel, the one of several tiles among them; default: all"},
    {.name = "edited", .doc = "simulate: runs also files that were changed by hand"},
    {.name = "counts",
     .doc = "simulate: also shows what each kernel's memory accesses cost at its largest size"},
    {.name = "list", .doc = "simulate: prints the cases, runs none"},
    {.name = "schedules", .value = "N", .doc = "simulate: as in adlgen sim; default: 2"},
    {.name = "timeout", .value = "SECONDS", .doc = "simulate: a case may take so long; default: 60"},
    {.name = "seed", .value = "N", .doc = "simulate: seed of inputs and random orders; default: 0"},
    OPTION_PTXAS,
    OPTION_JOBS,
    OPTIONS_END,
};

static const char *const import_choices[] = {"graph", "onnx", NULL};

static const Option import_options[] = {
    {.name = "report", .doc = "counts the nodes of each operator, those that adlgen lacks first"},
    {.name = "dim", .value = "NAME=VALUE", .repeated = true, .doc = "binds a symbolic dimension"},
    {.name = "emit",
     .value = "KIND",
     .choices = import_choices,
     .doc = "graph: writes the graph as it was read, functions expanded and shapes evaluated, as graph.json; "
            "onnx: as "
            "model.onnx"},
    {.name = "out", .value = "DIR", .doc = "the folder that --emit writes to"},
    {.name = "print-after",
     .value = "PASS",
     .repeated = true,
     .doc = "prints the graph as it is after a pass of its reading (read, infer, expand; all: after each), "
            "whether or not a later one refuses it"},
    OPTIONS_END,
};

const Command commands[] = {
    {.name = "gpus",
     .arguments = "[show NAME|FILE.yaml | check FILE.yaml... | text NAME | rules]",
     .actions = gpus_actions,
     .options = no_options,
     .run = command_gpus,
     .doc = "lists the GPUs that are described, shows one, checks a file, prints one's text",
     .details =
         "A description is a YAML file. Names are looked for in $ADLGEN_DATA_DIR, then "
         "$XDG_DATA_HOME/adlgen, "
         "then among those built into the program. A word with a slash, or ending in .yaml, is a file."},
    {.name = "templates",
     .arguments = "[show NAME]",
     .actions = templates_actions,
     .options = no_options,
     .run = command_templates,
     .doc = "lists the templates that kernels are made from, prints one",
     .details = "Names are looked for in $ADLGEN_DATA_DIR/templates, then $XDG_DATA_HOME/adlgen/templates, "
                "then among "
                "those built into the program, which messages call <embedded>/templates/NAME.ir."},
    {.name = "ops",
     .arguments = "",
     .options = no_options,
     .run = command_ops,
     .doc = "lists the operators and the types that kernels can be generated for"},
    {.name = "import",
     .arguments = "GRAPH",
     .least = 1,
     .most = 1,
     .options = import_options,
     .run = command_import,
     .doc = "reads a graph and prints it, or says what of it cannot run",
     .details =
         "GRAPH is an ONNX model, a JSON or a YAML file, or - for standard input. Nothing is compiled. With "
         "--report a "
         "graph that is refused has a table of its operators too; the exit code is that of the first fault."},
    {.name = "doctor",
     .arguments = "",
     .options = doctor_options,
     .run = command_doctor,
     .doc = "shows the tools that were found, their versions, and every place tried",
     .details = "Exits with 4 if there is no assembler, without which compile can still write ir and ptx."},
    {.name = "compile",
     .arguments = "GRAPH|FILE.ir",
     .least = 1,
     .most = 1,
     .options = compile_options,
     .run = command_compile,
     .doc = "compiles an op description, or pseudo-assembly, for one or several GPUs",
     .details = "GRAPH is an ONNX model, a JSON or YAML file, or - for standard input. DIR gets, for each "
                "GPU, a folder "
                "with plan.json "
                "(all that a program needs to launch the kernels) and a file per kernel and kind. On any "
                "error DIR is "
                "as it was before."},
    {.name = "run",
     .arguments = "GRAPH",
     .least = 0,
     .most = 1,
     .options = run_options,
     .run = command_run,
     .doc = "compiles an op description, runs it on the simulator or the GPU, and checks the results",
     .details = "Limits of the error, ||out - reference|| / ||reference||: f64 1e-13, f32 5e-6 (2.5e-9 k, if "
                "that is more, with products of 16-bit floats; 2e-3 with tf32 or 8-bit floats), f16 1e-3, "
                "bf16 4e-3, e4m3 4e-2, e5m2 8e-2, integers exact. Exits with 5 if an output is "
                "beyond its limit, or if a fault was found."},
    {.name = "bench",
     .arguments = "GRAPH | --suite SUITE | report",
     .least = 0,
     .most = 1,
     .options = bench_options,
     .run = command_bench,
     .doc = "measures kernels on the GPU beside competitors and the machine's ceilings",
     .details =
         "Candidates are timed in turn in one process: the plan's own choice (adlgen), each --variant, each "
         "peer, "
         "and as floors a copy of as many bytes and an empty kernel of the same shape. Columns: roof is "
         "(max(bytes / read ceiling, FLOP / tensor ceiling) + 3 us) / time; `/ ours` is the candidate's time "
         "over that of the first, so above 1 ours is the faster. Exits with 5 if a result is wrong. report "
         "writes docs/performance.md and its charts from bench/results."},
    {.name = "tune",
     .arguments = "GRAPH | --suite SUITE",
     .least = 0,
     .most = 1,
     .options = tune_options,
     .run = command_tune,
     .doc = "measures proposals for each operator on the GPU and keeps the fastest for compile",
     .details =
         "For each operator that can be computed in several ways (products, attention, rows, elementwise, "
         "scans) the proposals are compiled, checked and timed in turn, clean-cold as bench does. The "
         "winners go to a file of measured choices, which compile, run and bench consult before "
         "the "
         "cost model; docs/tune.md describes it. Columns: `gain` is the time of the model's choice over the "
         "best.",
     .examples = "  adlgen tune graph.json --gpu GPU --dim M=4096\n"
                 "  adlgen tune --suite gemm-bf16 --gpu GPU --top 32 --budget 600 --out choices.json\n"
                 "  adlgen compile graph.json --gpu GPU --out out --tuned choices.json --explain\n"},
    {.name = "sim",
     .arguments = "KERNEL.ptx",
     .least = 1,
     .most = 1,
     .options = sim_options,
     .run = command_sim,
     .doc = "runs a PTX file on the CPU and reports its faults",
     .details =
         "Without a fault it exits with 0, with faults with 5; with 3 if there is an instruction it does "
         "not know, before anything runs. docs/simulator.md describes launch files, reports and what "
         "--watch takes.",
     .examples = "  adlgen sim kernel.ptx --print-launch >launch.json\n"
                 "  adlgen sim kernel.ptx --launch launch.json --schedules 4\n"
                 "  adlgen sim kernel.ptx --launch launch.json --gpu GPU --counts\n"
                 "  adlgen sim kernel.ptx --launch launch.json --break kernel.ptx:120 --watch %r5 \\\n"
                 "      --watch fragment:m16n8:f32:%f0..%f3 --watch shared:0x400:64x64:bf16:swizzle128\n"},
    {.name = "cache",
     .arguments = "[show | path | clear]",
     .actions = cache_actions,
     .options = no_options,
     .run = command_cache,
     .doc = "shows or empties the folder of compiled graphs and machine code",
     .details = "The folder is $ADLGEN_CACHE_DIR, else $XDG_CACHE_HOME/adlgen, else $HOME/.cache/adlgen. It "
                "keeps at most "
                "$ADLGEN_CACHE_LIMIT MiB (1024): what was used longest ago goes first."},
    {.name = "catalog",
     .arguments = "build|check|simulate|show KERNEL|diff REV",
     .actions = catalog_actions,
     .action_required = true,
     .options = catalog_options,
     .run = command_catalog,
     .doc = "builds, checks or simulates the committed kernels under generated/"},
    {.name = NULL},
};
