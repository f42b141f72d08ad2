/* adlgen sim: runs a PTX file on the CPU and reports its faults. */
#include "cli/cli.h"
#include "cli/observe_options.h"
#include "simulator/simulator.h"
#include <stdlib.h>
#include <string.h>

const Option sim_options[] = {
    {.name = "launch", .value = "FILE", .doc = "grid, arguments and buffers (LAUNCH.json)"},
    {.name = "print-launch",
     .doc = "prints a launch file to start from, made of what the kernel declares; runs nothing"},
    {.name = "entry", .value = "NAME", .doc = "with --print-launch: which entry of the PTX file"},
    {.name = "checkers",
     .value = "LIST",
     .doc = "all (the default), none, or names of faults separated by commas"},
    {.name = "schedules",
     .value = "N",
     .doc = "1: the default order; 2: also everything asynchronous as late as allowed; more: random orders"},
    {.name = "seed", .value = "N", .doc = "seed of the random orders"},
    {.name = "jobs", .value = "N", .doc = "threads to use; default: one per processor"},
    {.name = "gpu",
     .value = "GPU",
     .doc = "whose limits hold; it must be one that takes the PTX. Default: no GPU's"},
    {.name = "max-instructions",
     .value = "N",
     .doc = "stops after so many warp-instructions; default: 2 billion; 0: never"},
    {.name = "timeout", .value = "SECONDS", .doc = "stops after so many seconds"},
    OPTIONS_OBSERVE,
    {.name = "strict", .doc = "what is only a finding in other people's PTX is a fault"},
    {.name = "exact", .doc = "matrix products accumulate in double"},
    {.name = NULL},
};

static bool read_number(const Arguments *arguments, const char *option, double *value, GError **error)
{
  const char *text = argument_value(arguments, option);
  if (!text) return true;
  char *end;
  *value = g_ascii_strtod(text, &end);
  if (end != text && !*end && *value >= 0) return true;
  error_set(error, ERROR_USAGE, NULL, "bad-number", NULL, "--%s takes a number, not '%s'", option, text);
  return false;
}

static bool read_options(const Arguments *arguments, SimOptions *options, GError **error)
{
  const char *checkers = argument_value(arguments, "checkers");
  double limit = (double)options->max_instructions, seed = 0;
  sim_options_default(options);
  limit = (double)options->max_instructions;
  if (checkers && !sim_options_checkers(options, checkers, error)) return false;
  if (!argument_positive(arguments, "schedules", &options->schedules, error) ||
      !argument_positive(arguments, "jobs", &options->jobs, error) ||
      !read_number(arguments, "seed", &seed, error) ||
      !read_number(arguments, "max-instructions", &limit, error) ||
      !read_number(arguments, "timeout", &options->timeout, error))
    return false;
  options->seed = (uint64_t)seed;
  options->max_instructions = (uint64_t)limit;
  options->strict = argument_flag(arguments, "strict");
  if (argument_flag(arguments, "exact")) options->arithmetic = SIM_ARITHMETIC_EXACT;
  return observe_options(arguments, options, error);
}

static void print_result(const Cli *cli, const SimResult *result, const SimModule *module)
{
  if (cli->json) {
    cli_print_json(sim_result_to_json(result, module));
    return;
  }
  g_autofree char *text = sim_result_to_text(result, module);
  fputs(text, stdout);
  if (result->breaks) {
    g_autofree char *stops = sim_stops_to_text(result);
    fputs(stops, stdout);
  }
  if (result->counts) {
    g_autofree char *counts = sim_counts_to_text(result);
    fputs(counts, stdout);
  }
  printf("%llu warp-instructions in %.3f s, %u faults, %u findings\n",
         (unsigned long long)result->instructions, result->seconds, result->n_errors,
         result->n_faults - result->n_errors);
}

/* What cli_print_json() prints, but the file's own short lists on one line. */
static bool print_launch(const SimModule *module, const char *entry, GError **error)
{
  json_t *launch = sim_launch_template(module, entry, error);
  if (!launch) return false;
  const char *key = NULL;
  json_t *value = NULL;
  const char *separator = "{";
  json_object_foreach(launch, key, value)
  {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    printf("%s\"%s\": %s", separator, key, text);
    separator = ",\n ";
    free(text);
  }
  puts("}");
  json_decref(launch);
  return true;
}

/* A break in another file than the kernel's is a mistake. */
static bool breaks_fit(const Arguments *arguments, GError **error)
{
  g_autofree char *kernel = g_path_get_basename(argument_at(arguments, 0));
  for (const char *const *text = argument_values(arguments, "break"); *text; text++) {
    g_autofree char *file = NULL;
    unsigned line = 0;
    if (!sim_break_parse(*text, &file, &line, error)) return false;
    g_autofree char *name = file ? g_path_get_basename(file) : NULL;
    if (!name || !strcmp(name, kernel)) continue;
    error_set(error, ERROR_USAGE, NULL, "bad-break", NULL, "--break %s: the kernel is in %s", *text, kernel);
    return false;
  }
  return true;
}

bool command_sim(const Cli *cli, const Arguments *arguments, GError **error)
{
  SimOptions options = {0};
  const char *launch = argument_value(arguments, "launch"), *gpu_name = argument_value(arguments, "gpu");
  if (!read_options(arguments, &options, error) || !breaks_fit(arguments, error)) return false;
  g_autoptr(Source) source = source_load(argument_at(arguments, 0), error);
  if (!source) return false;
  g_autoptr(SimModule) module = sim_module_parse(source, error);
  if (!module) return false;
  if (argument_flag(arguments, "print-launch"))
    return print_launch(module, argument_value(arguments, "entry"), error);
  if (!launch) {
    error_set(error, ERROR_USAGE, NULL, "missing-option", "--print-launch prints one to start from",
              "--launch is missing");
    return false;
  }
  g_autoptr(Gpu) gpu = gpu_name ? gpu_load(gpu_name, error) : NULL;
  if (gpu_name && !gpu) return false;
  g_autoptr(SimLaunchFile) file = sim_launch_file_load(launch, error);
  SimResult result;
  if (!file || !sim_launch_file_run(file, module, gpu, &options, &result, error)) return false;
  print_result(cli, &result, module);
  if (result.n_errors) *cli->exit_code = ERROR_VERIFY;
  sim_result_clear(&result);
  return sim_launch_file_write_outputs(file, error);
}
