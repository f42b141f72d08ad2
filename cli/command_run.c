/* adlgen run: compiles a graph, runs it on the simulator or on a GPU, compares it with its reference. */
#include "base/output.h"
#include "cli/accumulate_option.h"
#include "cli/assembler_option.h"
#include "cli/cli.h"
#include "cli/observe_options.h"
#include "cli/pass_log.h"
#include "cli/profile_table.h"
#include "cli/run_batch.h"
#include "cli/run_data_set.h"
#include "cli/tuned_option.h"
#include "execute/build.h"
#include "execute/data.h"
#include "execute/execute.h"
#include "execute/report.h"
#include "generator/front/census.h"
#include <math.h>
#include <string.h>

static const char *const places[] = {"sim", "gpu", "reference", NULL};

const Option run_options[] = {
    {.name = "gpu", .value = "GPU", .doc = "the GPU to compile for: a name or a YAML file"},
    {.name = "on",
     .value = "PLACE",
     .choices = places,
     .doc = "sim: the simulator, on the CPU; gpu: the GPU of this machine; reference: nothing is compiled"},
    {.name = "data",
     .value = "DIR",
     .doc = "inputs, and outputs to compare with: a test_data_set_0 of ONNX's; what inputs hold that are "
            "shapes or "
            "axes is compiled in, symbolic dimensions are those of the data"},
    {.name = "rtol",
     .value = "X",
     .doc = "with --data: |out - wanted| <= atol + rtol |wanted|; default: 1e-3"},
    {.name = "atol", .value = "X", .doc = "with --data: see --rtol; default: 1e-7"},
    {.name = "dim",
     .value = "NAME=VALUE",
     .repeated = true,
     .doc = "value of a symbolic dimension; it stays a run-time argument of the kernels"},
    {.name = "fixed", .doc = "compiles with the values of --dim as constants"},
    {.name = "input",
     .value = "NAME=FILE",
     .repeated = true,
     .doc = "data of an input (.safetensors, .npy or .pb); default: random"},
    {.name = "offset",
     .value = "NAME=BYTES",
     .repeated = true,
     .doc = "moves a tensor so many bytes off an aligned address"},
    {.name = "in-place",
     .value = "OUT=IN",
     .repeated = true,
     .doc = "puts an output into the memory of an input, as C += A B does"},
    {.name = "seed", .value = "N", .doc = "seed of random inputs; default: 0"},
    {.name = "set",
     .value = "PARAM=VALUE",
     .repeated = true,
     .list = true,
     .doc = "forces a template parameter"},
    {.name = "skip",
     .value = "PASS",
     .repeated = true,
     .doc = "leaves out an optional pass, or rewrite of fusion, for bisection"},
    {.name = "sms", .value = "N", .doc = "SMs that kernels may use at most; default: all of the GPU"},
    OPTION_ACCUMULATE,
    {.name = "out", .value = "DIR", .doc = "where inputs.safetensors and outputs.safetensors go"},
    {.name = "keep",
     .value = "DIR",
     .doc = "with --on sim: writes each launch there as PTX, launch file and data, for adlgen sim"},
    {.name = "check", .doc = "compares every output with the reference, computed in double precision"},
    {.name = "tolerance", .value = "X", .doc = "a limit of the error below those of the types"},
    {.name = "admit-wide",
     .doc = "with --check: takes results of which no limit proves anything (docs/numerics.md)"},
    {.name = "profile",
     .doc = "shows what each launch takes: on a GPU microseconds, on the simulator, which has no clock, "
            "warp-instructions"},
    {.name = "checkers",
     .value = "LIST",
     .doc = "of the simulator: all (the default), none, or names of faults separated by commas"},
    OPTIONS_OBSERVE,
    {.name = "batch",
     .value = "FILE",
     .doc = "instead of GRAPH: a run with --check for each line of JSON, in one process (docs/cli.md)"},
    {.name = "device", .value = "N", .doc = "number of the GPU to run on; default: 0"},
    OPTION_TUNED,
    OPTION_NO_TUNED,
    {.name = "ptxas", .value = "FILE", .doc = "the assembler to use; default: see adlgen doctor"},
    OPTION_ASSEMBLER,
    OPTION_NO_CACHE,
    {.name = NULL},
};

/* One run. */
typedef struct Run {
  const Cli *cli;
  const Arguments *arguments;
  Source *source;
  Arena *arena;
  GraphBinding *bindings;
  unsigned n_bindings;
  Graph *graph; /* with every dimension bound: what data and reference are made from */
  Graph *plain; /* what is compiled, unless --fixed */
  Gpu *gpu;
  CompileResult *compiled;
  Execution *execution;
  ExecutionFaults *faults;
  RunData *data;
  RunComparison *comparisons; /* as graph->outputs; NULL without --check */
  RunDataSet set;             /* of --data */
  Output *output;             /* NULL without --out */
  Output *keep;               /* NULL without --keep */
  bool evaluates;             /* on the reference: nothing is compiled */
  unsigned seed;
  double tolerance; /* INFINITY without --tolerance */
} Run;

/* ---- what is asked for ---- */

static bool check_arguments(Run *run, GError **error)
{
  if (!argument_count(run->arguments)) {
    error_set(error, ERROR_USAGE, NULL, "missing-argument", NULL, "adlgen run needs one GRAPH");
    return false;
  }
  static const char *const required[] = {"on", "gpu"};
  const char *on = argument_value(run->arguments, "on");
  run->evaluates = on && !strcmp(on, "reference");
  for (unsigned i = 0; i < (run->evaluates ? 1 : G_N_ELEMENTS(required)); i++)
    if (!argument_flag(run->arguments, required[i])) {
      error_set(error, ERROR_USAGE, NULL, "missing-option", "adlgen run --help lists its options",
                "adlgen run needs --%s", required[i]);
      return false;
    }
  if (argument_flag(run->arguments, "keep") && strcmp(argument_value(run->arguments, "on"), "sim")) {
    error_set(error, ERROR_USAGE, NULL, "bad-option", NULL, "--keep is for --on sim");
    return false;
  }
  if (argument_flag(run->arguments, "profile") && run->evaluates) {
    error_set(error, ERROR_USAGE, NULL, "bad-option", NULL, "--profile is for --on sim and --on gpu");
    return false;
  }
  const char *text = argument_value(run->arguments, "tolerance");
  char *end = NULL;
  run->tolerance = text ? g_ascii_strtod(text, &end) : INFINITY;
  if (text && (end == text || *end || !(run->tolerance >= 0))) {
    error_set(error, ERROR_USAGE, NULL, "bad-number", NULL, "--tolerance takes a number, not `%s`", text);
    return false;
  }
  return argument_unsigned(run->arguments, "seed", &run->seed, error) &&
         run_data_set_of_options(run->arguments, &run->set, error);
}

static bool read_bindings(Run *run, GError **error)
{
  const char *const *dims = argument_values(run->arguments, "dim");
  run->n_bindings = g_strv_length((char **)dims);
  run->bindings = arena_new_array(run->arena, GraphBinding, run->n_bindings);
  for (unsigned i = 0; i < run->n_bindings; i++)
    if (!graph_binding_parse(run->arena, dims[i], &run->bindings[i], error)) return false;
  return true;
}

static bool all_bound(const Graph *graph, GError **error)
{
  bool ok = true;
  for (unsigned i = 0; i < graph->n_dims; i++) {
    const GraphDim *dim = &graph->dims[i];
    if (dim->min == dim->max) continue;
    g_autofree char *hint = g_strdup_printf("--dim %s=VALUE gives it one", dim->name);
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &dim->mark, "unbound-symbol", hint,
              "dimension %s has no value", dim->name);
    ok = false;
  }
  return ok;
}

static Accumulate accumulation(const Run *run)
{
  return accumulate_parse(argument_value(run->arguments, "accumulate"));
}

/* With every dimension bound, and as it is compiled where that may differ already. */
static bool read_graphs(Run *run, GError **error)
{
  run->source = source_load(argument_at(run->arguments, 0), error);
  if (!run->source || !run_data_set_load(&run->set, run->source, error)) return false;
  const GraphReading open = {.offers = run->set.offers, .n_offers = run->set.n_offers};
  if (run->set.data) {
    run->plain = graph_read_with(run->source, &open, error);
    if (!run->plain) return false;
    if (!run->n_bindings) run->bindings = data_set_bindings(run->set.data, run->plain, &run->n_bindings);
  }
  GraphReading bound = open;
  bound.bindings = run->bindings;
  bound.n_bindings = run->n_bindings;
  run->graph = graph_read_with(run->source, &bound, error);
  if (!run->graph || !all_bound(run->graph, error)) return false;
  cli_warn(run->cli, run->graph->warnings);
  return true;
}

static const Graph *compiled_graph(const Run *run)
{
  return argument_flag(run->arguments, "fixed") ? run->graph : run->plain;
}

static bool compile(Run *run, GError **error)
{
  bool fixed = argument_flag(run->arguments, "fixed");
  if (!fixed && !run->plain) run->plain = graph_read(run->source, NULL, 0, error);
  run->gpu = fixed || run->plain ? gpu_load(argument_value(run->arguments, "gpu"), error) : NULL;
  if (!run->gpu) return false;
  g_autoptr(TunedDatabase) tuned = NULL;
  CompileOptions options = {.drop_ir = true,
                            .drop_notes = true,
                            .sets = argument_values(run->arguments, "set"),
                            .skip = argument_values(run->arguments, "skip"),
                            .accumulate = accumulation(run)};
  for (const char *const *pass = options.skip; *pass; pass++)
    if (!pass_log_known("skip", *pass, error)) return false;
  if (!sms_of_options(run->arguments, &options.sm_budget, error) ||
      !tuned_of_options(run->arguments, run->gpu, &tuned, error))
    return false;
  options.tuned = tuned;
  g_autofree bool *used = g_new0(bool, g_strv_length((char **)options.sets) + 1);
  options.set_used = used;
  run->compiled = generator_compile(compiled_graph(run), run->gpu, &options, error);
  return run->compiled && build_check_sets(options.sets, used, error);
}

static bool apply_offsets(Run *run, GError **error)
{
  for (const char *const *text = argument_values(run->arguments, "offset"); *text; text++) {
    g_autofree char *name = NULL, *value = NULL;
    if (!argument_split("offset", *text, &name, &value, error)) return false;
    ExecutionTensor *tensor = execution_tensor(run->execution, name);
    char *end = NULL;
    guint64 bytes = g_ascii_strtoull(value, &end, 10);
    if (!*value || *end || bytes > 4096) {
      error_set(error, ERROR_USAGE, NULL, "bad-number", NULL, "--offset %s takes 0 to 4096 bytes, not `%s`",
                name, value);
      return false;
    }
    if (!tensor || !tensor->data) {
      error_set(error, ERROR_INPUT, NULL, "unknown-tensor", NULL,
                "--offset: %s is no input, constant or output", name);
      return false;
    }
    if (bytes % tensor->resolved.tensor->align) {
      error_set(error, ERROR_INPUT, NULL, "offset-align", "the description's `align` can be lowered",
                "--offset: the description promises that %s is aligned to %u bytes", name,
                tensor->resolved.tensor->align);
      return false;
    }
    tensor->skew = (unsigned)bytes;
  }
  return true;
}

static bool apply_sharing(Run *run, GError **error)
{
  for (const char *const *text = argument_values(run->arguments, "in-place"); *text; text++) {
    g_autofree char *output = NULL, *input = NULL;
    if (!argument_split("in-place", *text, &output, &input, error) ||
        !execution_share(run->execution, output, input, error))
      return false;
  }
  return true;
}

/* Paths by inputs' names. */
static GHashTable *input_files(const Arguments *arguments, GError **error)
{
  g_autoptr(GHashTable) files = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  for (const char *const *text = argument_values(arguments, "input"); *text; text++) {
    char *name = NULL, *path = NULL;
    if (!argument_split("input", *text, &name, &path, error)) return NULL;
    g_hash_table_insert(files, name, path);
  }
  return g_steal_pointer(&files);
}

static bool prepare(Run *run, GError **error)
{
  const char *folder = argument_value(run->arguments, "out");
  if (folder && !(run->output = output_new(folder, error))) return false;
  g_autoptr(GHashTable) files =
      run->set.data ? data_set_files(run->set.data, run->graph, error) : input_files(run->arguments, error);
  if (!files) return false;
  if (run->evaluates) {
    run->data = run_data_new(run->graph, files, run->seed, error);
    return run->data != NULL;
  }
  const char *keep = argument_value(run->arguments, "keep");
  if (keep && !(run->keep = output_new(keep, error))) return false;
  run->execution = execution_new(run->compiled, run->gpu, run->bindings, run->n_bindings, error);
  if (run->execution) run->execution->keep = run->keep;
  if (run->execution) run->execution->profile = argument_flag(run->arguments, "profile");
  run->data = run->execution && apply_offsets(run, error) && apply_sharing(run, error)
                  ? run_data_new(run->graph, files, run->seed, error)
                  : NULL;
  return run->data && run_data_put_inputs(run->data, compiled_graph(run), run->execution, error);
}

/* ---- running ---- */

static bool run_on_simulator(Run *run, GError **error)
{
  SimOptions options;
  sim_options_default(&options);
  options.seed = run->seed;
  options.strict = true; /* these are our own kernels */
  if (!observe_options(run->arguments, &options, error)) return false;
  const char *checkers = argument_value(run->arguments, "checkers");
  if (checkers && !sim_options_checkers(&options, checkers, error)) return false;
  if (options.checkers >> SIM_FAULT_OPERAND & 1) run_data_check_lists(run->data, run->faults);
  return execution_simulate(run->execution, &options, run->faults, error);
}

static bool run_on_gpu(Run *run, GError **error)
{
  unsigned number = 0;
  if (!argument_unsigned(run->arguments, "device", &number, error)) return false;
  g_autoptr(Assembler) assembler = assembler_of_options(run->cli, run->arguments, error);
  g_autoptr(Device) device = assembler ? device_open(number, error) : NULL;
  bool ok = device && execution_run(run->execution, device, assembler, run->faults, error);
  assembler_report_cache(run->cli, assembler);
  return ok;
}

/* ---- results ---- */

static void print_outputs(const Run *run)
{
  static const char *const headers[] = {"output", "type", ">error", ">max abs", ">limit", "", NULL};
  g_autoptr(Table) table = table_new(headers);
  for (unsigned i = 0; i < run->graph->n_outputs; i++) {
    const GraphTensor *tensor = run->graph->outputs[i];
    const Comparison *c = &run->comparisons[i].whole;
    const char *status = run_comparison_status(&run->comparisons[i]);
    g_autofree char *error = g_strdup_printf("%.2e", c->error), *abs = g_strdup_printf("%.2e", c->max_abs);
    g_autofree char *limit = c->limit > 0 ? g_strdup_printf("%.0e", c->limit) : g_strdup("exact");
    g_autofree char *shown =
        run_comparison_passes(&run->comparisons[i]) ? g_strdup(status) : g_ascii_strup(status, -1);
    table_row(table, tensor->name, number_name(tensor->type), error, abs, limit, shown, NULL);
  }
  table_print(table, run->cli);
  for (unsigned i = 0; i < run->graph->n_outputs; i++) {
    g_autofree char *reason = run_comparison_reason(run->graph->outputs[i], &run->comparisons[i]);
    if (reason) fputs(reason, stdout);
  }
}

static json_t *outputs_json(const Run *run)
{
  json_t *outputs = json_array();
  for (unsigned i = 0; i < run->graph->n_outputs; i++)
    json_array_append_new(
        outputs, run_comparison_json(run->graph->outputs[i], run->comparisons ? &run->comparisons[i] : NULL));
  return outputs;
}

static bool is_on_gpu(const Run *run)
{
  return !strcmp(argument_value(run->arguments, "on"), "gpu");
}

static json_t *profile_json(const Run *run)
{
  const ExecutionFaults *faults = run->faults;
  if (!is_on_gpu(run))
    return json_pack("{s:s, s:O}", "unit", "warp_instructions", "launches", faults->launches);
  return json_pack("{s:s, s:f, s:O}", "unit", "us", "us", faults->us, "launches", faults->launches);
}

static void print_profile(const Run *run)
{
  const json_t *launches = run->faults->launches;
  const ProfileMeasure *measure = is_on_gpu(run) ? &profile_times : &profile_instructions;
  double sum = profile_sum(launches, measure);
  profile_print_launches(run->cli, launches, measure);
  if (is_on_gpu(run))
    printf("%zu launches, %.2f us in one graph, %.2f us with an event in front of each\n\n",
           json_array_size(launches), run->faults->us, sum);
  else
    printf("%zu launches, %.0f warp-instructions\n\n", json_array_size(launches), sum);
  profile_print_kernels(run->cli, launches, measure);
}

static void print_result(const Run *run)
{
  if (run->cli->json) {
    json_t *object =
        json_pack("{s:i, s:s?, s:s, s:o, s:o, s:O}", "version", 1, "gpu", run->gpu ? run->gpu->name : NULL,
                  "on", argument_value(run->arguments, "on"), "scales", run_data_scales(run->data), "outputs",
                  outputs_json(run), "faults", run->faults->list);
    if (json_array_size(run->faults->counts)) json_object_set(object, "counts", run->faults->counts);
    if (argument_flag(run->arguments, "profile")) json_object_set_new(object, "profile", profile_json(run));
    if (*argument_values(run->arguments, "break")) {
      json_object_set(object, "breaks", run->faults->breaks);
      json_object_set(object, "stops", run->faults->stops);
    }
    if (run->set.data) json_object_set_new(object, "data", run_data_set_json(&run->set, run->graph));
    cli_add_warnings(object, run->graph->warnings);
    cli_print_json(object);
    return;
  }
  fputs(run->faults->notes->str, stdout);
  fputs(run->faults->text->str, stdout);
  fputs(run->faults->tables->str, stdout);
  if (argument_flag(run->arguments, "profile")) print_profile(run);
  if (run->comparisons) print_outputs(run);
  run_data_set_print(&run->set, run->cli, run->graph);
  if (run->faults->n_errors) printf("%u faults\n", run->faults->n_errors);
}

static bool is_wrong(const Run *run)
{
  bool wrong = run->faults->n_errors > 0;
  wrong |= !run_data_set_passes(&run->set);
  for (unsigned i = 0; run->comparisons && i < run->graph->n_outputs; i++)
    wrong |= !run_comparison_passes(&run->comparisons[i]);
  return wrong;
}

/* ---- the command ---- */

static bool carry_out(Run *run, GError **error)
{
  if (run->evaluates) return run_data_take_reference(run->data, error);
  bool simulates = !strcmp(argument_value(run->arguments, "on"), "sim");
  return (simulates ? run_on_simulator(run, error) : run_on_gpu(run, error)) &&
         run_data_take_outputs(run->data, run->execution, error);
}

static bool run_all(Run *run, GError **error)
{
  if (!check_arguments(run, error) || !read_bindings(run, error) || !read_graphs(run, error) ||
      (!run->evaluates && !compile(run, error)) || !prepare(run, error) || !carry_out(run, error))
    return false;
  if (run->set.data && !run->faults->n_errors) run_data_set_compare(&run->set, run->data, run->arena);
  /* Outputs behind a fault mean nothing. */
  if (argument_flag(run->arguments, "check") && !run->faults->n_errors) {
    const RunCheck check = {.fast = accumulation(run) == ACCUMULATE_FAST,
                            .tolerance = run->tolerance,
                            .admit_wide = argument_flag(run->arguments, "admit-wide")};
    run->comparisons = run_data_check(run->data, &check, run->arena, error);
    if (!run->comparisons) return false;
  }
  if (run->keep && !output_commit(run->keep, error)) return false;
  return !run->output || (run_data_write(run->data, run->output, error) && output_commit(run->output, error));
}

static bool run_many(const Cli *cli, const Arguments *arguments, GError **error)
{
  unsigned n_failed = 0;
  if (argument_count(arguments) || !argument_flag(arguments, "on")) {
    error_set(error, ERROR_USAGE, NULL, "missing-option", "adlgen run --help lists its options",
              "adlgen run --batch takes no GRAPH and needs --on");
    return false;
  }
  if (!run_batch(cli, arguments, &n_failed, error)) return false;
  if (n_failed) *cli->exit_code = ERROR_VERIFY;
  return true;
}

bool command_run(const Cli *cli, const Arguments *arguments, GError **error)
{
  if (argument_flag(arguments, "batch")) return run_many(cli, arguments, error);
  Run run = {.cli = cli, .arguments = arguments, .arena = arena_new(), .faults = execution_faults_new()};
  bool ok = run_all(&run, error);
  if (ok) {
    print_result(&run);
    if (is_wrong(&run)) *cli->exit_code = ERROR_VERIFY;
  }
  output_free(run.output);
  output_free(run.keep);
  execution_faults_free(run.faults);
  run_data_free(run.data);
  run_data_set_clear(&run.set);
  execution_free(run.execution);
  compile_result_free(run.compiled);
  gpu_free(run.gpu);
  graph_free(run.plain);
  graph_free(run.graph);
  source_unref(run.source);
  arena_free(run.arena);
  return ok;
}
