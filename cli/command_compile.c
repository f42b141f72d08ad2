/* adlgen compile: a graph, or pseudo-assembly, to files for one or several GPUs. */
#include "backends/c/emit.h"
#include "base/output.h"
#include "cli/assembler_option.h"
#include "cli/cli.h"
#include "cli/constants.h"
#include "cli/pass_log.h"
#include "cli/report.h"
#include "cli/reproducer.h"
#include "cli/tuned_option.h"
#include "execute/build.h"
#include "execute/keep_result.h"
#include "execute/program_key.h"
#include <string.h>

/* Everything one run of the command needs. */
typedef struct CompileRun {
  const Cli *cli;
  const Arguments *arguments;
  const char *const *emit;
  Source *source;
  Graph *graph;         /* NULL for pseudo-assembly */
  Assembler *assembler; /* NULL if nothing is assembled */
  PassLog *passes;
  Output *output;
  Build *build;
} CompileRun;

static const char *const default_emit[] = {"ir", "ptx", "cubin", NULL};

static bool emits(const CompileRun *run, const char *kind)
{
  return g_strv_contains(run->emit, kind);
}

/* ---- what is asked for ---- */

static bool is_ir(const Source *source)
{
  return g_str_has_suffix(source->name, ".ir") || g_str_has_prefix(source->text, "adlgen-ir");
}

static bool check_arguments(const CompileRun *run, GError **error)
{
  const Arguments *arguments = run->arguments;
  static const char *const required[] = {"gpu", "out"};
  for (unsigned i = 0; i < G_N_ELEMENTS(required); i++)
    if (!argument_flag(arguments, required[i])) {
      error_set(error, ERROR_USAGE, NULL, "missing-option", "adlgen compile --help lists its options",
                "adlgen compile needs --%s", required[i]);
      return false;
    }
  unsigned sms = 0, jobs = 0;
  if (!sms_of_options(arguments, &sms, error) || !tuned_check_options(arguments, error) ||
      !argument_positive(arguments, "jobs", &jobs, error))
    return false;
  for (const char *const *set = argument_values(arguments, "set"); *set; set++) {
    g_autofree char *name = NULL, *value = NULL;
    if (!argument_split("set", *set, &name, &value, error)) return false;
  }
  for (const char *const *pass = argument_values(arguments, "skip"); *pass; pass++)
    if (!pass_log_known("skip", *pass, error)) return false;
  const char *start = argument_value(arguments, "start-after");
  return !start || pass_log_known("start-after", start, error);
}

/* Options that mean nothing for the kind of file that was given are refused, not ignored. */
static bool check_kind(const CompileRun *run, GError **error)
{
  static const char *const of_graphs[] = {"dim", "set", "explain", "tuned", "no-tuned", NULL};
  static const char *const of_ir[] = {"start-after", NULL};
  bool ir = is_ir(run->source);
  for (const char *const *name = ir ? of_graphs : of_ir; *name; name++)
    if (argument_flag(run->arguments, *name)) {
      const char *hint = !strcmp(*name, "set")
                             ? "--set gives parameters of the kernels of a graph; in pseudo-assembly "
                               "write the value in place of the parameter"
                             : NULL;
      error_set(error, ERROR_USAGE, NULL, "wrong-option", hint, "--%s has no meaning for %s %s", *name,
                ir ? "pseudo-assembly" : "an op description", run->source->name);
      return false;
    }
  if (ir && emits(run, "c")) {
    error_set(error, ERROR_USAGE, NULL, "wrong-value", NULL,
              "--emit c needs an op description: %s has no plan", run->source->name);
    return false;
  }
  return true;
}

/* ---- generating ---- */

static bool prints(const CompileRun *run)
{
  return *argument_values(run->arguments, "print-after") != NULL;
}

static CompileOptions compile_options(const CompileRun *run)
{
  const Arguments *arguments = run->arguments;
  /* passes that are watched run in order, on one thread */
  bool watched = prints(run) || argument_flag(arguments, "time-passes");
  CompileOptions options = {
      .fast_math = g_strcmp0(argument_value(arguments, "math"), "fast") == 0,
      .accumulate = accumulate_parse(argument_value(arguments, "accumulate")),
      .sets = argument_values(arguments, "set"),
      .skip = argument_values(arguments, "skip"),
      .drop_ir = !emits(run, "ir"),
      .drop_notes = !argument_flag(arguments, "explain"),
      .report = watched ? pass_log_report : NULL,
      .report_rewrite = prints(run) ? pass_log_report_rewrite : NULL,
      .data = run->passes,
  };
  sms_of_options(arguments, &options.sm_budget, NULL);
  argument_positive(arguments, "jobs", &options.threads, NULL);
  return options;
}

/* folder "": those of the graph as it is read, which is the same for all GPUs. */
static bool write_dumps(CompileRun *run, const char *folder, GError **error)
{
  g_autoptr(GPtrArray) dumps = pass_log_take_dumps(run->passes);
  for (guint i = 0; i < dumps->len; i++) {
    const PassDump *dump = dumps->pdata[i];
    g_autofree char *name = g_build_filename(folder, dump->file, NULL);
    if (!output_write_text(run->output, name, dump->text, error)) return false;
  }
  return true;
}

static bool check_distinct(const Build *build, const Gpu *gpu, GError **error)
{
  for (guint i = 0; i < build->gpus->len; i++) {
    const Gpu *other = build->gpus->pdata[i];
    if (strcmp(other->name, gpu->name)) continue;
    error_set(error, ERROR_USAGE, NULL, "repeated-gpu", "each GPU of a command needs a name of its own",
              "--gpu has %s twice (%s, %s)", gpu->name, other->file, gpu->file);
    return false;
  }
  return true;
}

/* Where the result may be kept. Passes that are watched run; which parameters of --set a kernel has nobody keeps. */
static bool find_key(const CompileRun *run, const Gpu *gpu, const CompileOptions *options,
                     char key[CACHE_KEY_LENGTH + 1])
{
  const ProgramInput input = {run->source,
                              gpu,
                              options,
                              argument_values(run->arguments, "dim"),
                              argument_values(run->arguments, "tuned"),
                              argument_flag(run->arguments, "no-tuned")};
  const char *kinds[] = {"compiled", "compiled, explained", "compiled with IR",
                         "compiled with IR, explained"};
  return run->assembler && run->assembler->cache && !options->report && !options->report_rewrite &&
         !*options->sets && program_key(kinds[2 * !options->drop_ir + !options->drop_notes], &input, key);
}

static CompileResult *compile_for(CompileRun *run, const Gpu *gpu, CompileOptions options, GError **error)
{
  g_autoptr(TunedDatabase) tuned = NULL;
  if (!tuned_of_options(run->arguments, gpu, &tuned, error)) return NULL;
  options.tuned = tuned;
  char key[CACHE_KEY_LENGTH + 1];
  json_t *files = find_key(run, gpu, &options, key) ? program_files(run->graph) : NULL;
  CompileResult *result = files ? result_recall(run->assembler->cache, key) : NULL;
  if (!result) {
    result = generator_compile(run->graph, gpu, &options, error);
    if (result && files) result_keep(run->assembler->cache, key, result, files);
  }
  json_decref(files);
  return result;
}

static bool generate_for(CompileRun *run, const char *gpu_name, CompileOptions options, GError **error)
{
  g_autoptr(Gpu) gpu = gpu_load(gpu_name, error);
  if (!gpu || !check_distinct(run->build, gpu, error)) return false;
  if (run->graph) {
    CompileResult *result = compile_for(run, gpu, options, error);
    if (!result) return false;
    if (!write_dumps(run, gpu->name, error)) {
      compile_result_free(result);
      return false;
    }
    build_add_result(run->build, g_steal_pointer(&gpu), result);
    return true;
  }
  const char *start_after = argument_value(run->arguments, "start-after");
  CompiledKernel *kernel = generator_compile_ir(run->source, gpu, start_after, &options, error);
  if (!kernel) return false;
  if (!write_dumps(run, gpu->name, error)) {
    compiled_kernel_free(kernel);
    return false;
  }
  build_add_kernel(run->build, g_steal_pointer(&gpu), kernel);
  return true;
}

static bool generate(CompileRun *run, GError **error)
{
  CompileOptions options = compile_options(run);
  g_autofree bool *used = g_new0(bool, g_strv_length((char **)options.sets) + 1);
  options.set_used = used;
  if (!is_ir(run->source)) {
    const GraphReading reading = {.report = prints(run) ? pass_log_report_reading : NULL,
                                  .data = run->passes};
    run->graph = build_graph_with(run->source, argument_values(run->arguments, "dim"), &reading, error);
    if (!run->graph || !write_dumps(run, "", error)) return false;
    cli_warn(run->cli, run->graph->warnings);
  }
  for (const char *const *name = argument_values(run->arguments, "gpu"); *name; name++)
    if (!generate_for(run, *name, options, error)) return false;
  return is_ir(run->source) || build_check_sets(options.sets, used, error);
}

/* ---- assembling ---- */

static bool find_assembler(CompileRun *run, GError **error)
{
  if (!emits(run, "cubin") && !emits(run, "sass") && !emits(run, "c")) return true;
  run->assembler = assembler_of_options(run->cli, run->arguments, error);
  return run->assembler != NULL;
}

static bool assemble(CompileRun *run, GError **error)
{
  if (!run->assembler) return true;
  unsigned jobs = 0;
  argument_positive(run->arguments, "jobs", &jobs, NULL);
  bool shows = run->cli->error_terminal && !run->cli->json;
  bool ok =
      build_assemble(run->build, run->assembler, jobs, shows ? report_progress : NULL, "assembling", error);
  assembler_report_cache(run->cli, run->assembler);
  return ok;
}

/* ---- writing ---- */

static bool write_kernel(CompileRun *run, const BuildKernel *kernel, GError **error)
{
  const CompiledKernel *compiled = kernel->kernel;
  g_autofree char *base = g_build_filename(kernel->gpu->name, compiled->name, NULL);
  if (emits(run, "ir")) {
    g_autofree char *name = g_strconcat(base, ".ir", NULL);
    if (!output_write_text(run->output, name, compiled->ir, error)) return false;
  }
  if (emits(run, compiled->backend->name)) {
    g_autofree char *name = g_strconcat(base, ".", compiled->backend->suffix, NULL);
    if (!output_write_text(run->output, name, compiled->text, error)) return false;
  }
  if (emits(run, "cubin")) {
    g_autofree char *name = g_strconcat(base, ".cubin", NULL);
    gsize size = 0;
    const void *bytes = g_bytes_get_data(kernel->assembly->cubin, &size);
    if (!output_write(run->output, name, bytes, size, error)) return false;
  }
  if (emits(run, "sass")) {
    g_autofree char *name = g_strconcat(base, ".sass", NULL);
    g_autofree char *text = assembler_disassemble(run->assembler, kernel->assembly->cubin, error);
    if (!text || !output_write_text(run->output, name, text, error)) return false;
  }
  return true;
}

/* The plan names only the files that lie beside it. */
static void name_files(const CompileRun *run, Plan *plan)
{
  for (unsigned i = 0; i < plan->n_launches; i++)
    for (unsigned j = 0; j < plan->launches[i]->n_variants; j++) {
      PlanVariant *variant = plan->launches[i]->variants[j];
      if (!emits(run, backends[0].name))
        variant->text = NULL; /* the default back end's, which wrote them all */
      variant->cubin = emits(run, "cubin") ? arena_printf(plan->arena, "%s.cubin", variant->kernel) : NULL;
    }
}

static GBytes *cubin_of(const char *kernel, void *data)
{
  const void *const *context = data;
  const BuildKernel *built = build_kernel(context[0], context[1], kernel);
  return built ? built->assembly->cubin : NULL;
}

static bool write_c(CompileRun *run, const Gpu *gpu, const Plan *plan, GError **error)
{
  const void *context[] = {run->build, gpu};
  g_autofree char *stem = emit_c_prefix(plan);
  g_autofree char *header = emit_c_header(plan), *source = emit_c_source(plan, cubin_of, context);
  g_autofree char *header_name = g_strdup_printf("%s/%s.h", gpu->name, stem);
  g_autofree char *source_name = g_strdup_printf("%s/%s.c", gpu->name, stem);
  return output_write_text(run->output, header_name, header, error) &&
         output_write_text(run->output, source_name, source, error);
}

/* Data of constants go beside the plan that names their file. */
static bool write_all(CompileRun *run, GError **error)
{
  for (guint i = 0; i < run->build->kernels->len; i++)
    if (!write_kernel(run, run->build->kernels->pdata[i], error)) return false;
  for (guint i = 0; i < run->build->results->len; i++) {
    const Gpu *gpu = run->build->gpus->pdata[i];
    const CompileResult *result = run->build->results->pdata[i];
    if (!constants_write(run->graph, result->plan, run->output, gpu->name, error)) return false;
    if (emits(run, "c") && !write_c(run, gpu, result->plan, error)) return false;
    name_files(run, result->plan);
    g_autofree char *name = g_build_filename(gpu->name, "plan.json", NULL);
    g_autofree char *text = plan_text(result->plan);
    if (!output_write_text(run->output, name, text, error)) return false;
  }
  return output_commit(run->output, error);
}

/* ---- the command ---- */

static void report_all(const CompileRun *run)
{
  const Arguments *arguments = run->arguments;
  const char *folder = argument_value(arguments, "out");
  bool explain = argument_flag(arguments, "explain"), times = argument_flag(arguments, "time-passes");
  if (run->cli->json) {
    json_t *object = report_json(run->build, folder, explain);
    if (times) json_object_set_new(object, "passes", pass_log_json(run->passes));
    cli_add_warnings(object, run->graph ? run->graph->warnings : NULL);
    cli_print_json(object);
    return;
  }
  report_print(run->build, run->cli, folder, explain);
  if (times) pass_log_print(run->passes, run->cli);
}

static bool run_compile(CompileRun *run, GError **error)
{
  if (!check_arguments(run, error)) return false;
  run->passes = pass_log_new(argument_values(run->arguments, "print-after"), error);
  if (!run->passes) return false;
  run->source = source_load(argument_at(run->arguments, 0), error);
  if (!run->source || !check_kind(run, error)) return false;
  run->output = output_new(argument_value(run->arguments, "out"), error);
  if (!run->output || !find_assembler(run, error)) return false;
  run->build = build_new();
  return generate(run, error) && assemble(run, error) && write_all(run, error);
}

bool command_compile(const Cli *cli, const Arguments *arguments, GError **error)
{
  CompileRun run = {.cli = cli, .arguments = arguments};
  run.emit = argument_flag(arguments, "emit") ? argument_values(arguments, "emit") : default_emit;
  GError *fault = NULL;
  bool ok = run_compile(&run, &fault);
  if (ok)
    report_all(&run);
  else {
    if (error_exit_code(fault) == ERROR_INTERNAL) reproducer_write(run.source, run.build, cli, &fault);
    g_propagate_error(error, fault);
  }
  build_free(run.build);
  graph_free(run.graph);
  output_free(run.output);
  pass_log_free(run.passes);
  assembler_free(run.assembler);
  source_unref(run.source);
  return ok;
}
