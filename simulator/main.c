/* adlgen-sim: the simulator by itself, for its tests. The program people use is `adlgen sim`. */
#include "simulator/simulator.h"
#include <stdlib.h>
#include <string.h>

static int complain(GError *error)
{
  error_print(error, stderr, false);
  int code = error_exit_code(error);
  g_error_free(error);
  return code;
}

static int run(const char *kernel, const char *launch, SimOptions *options, const char *gpu_name, bool json)
{
  GError *error = NULL;
  g_autoptr(Source) source = source_load(kernel, &error);
  if (!source) return complain(error);
  g_autoptr(SimModule) module = sim_module_parse(source, &error);
  if (!module) return complain(error);
  if (!launch) return sim_module_check(module, NULL, &error) ? 0 : complain(error);
  g_autoptr(Gpu) gpu = gpu_name ? gpu_load(gpu_name, &error) : NULL;
  if (error) return complain(error);
  g_autoptr(SimLaunchFile) file = sim_launch_file_load(launch, &error);
  SimResult result = {0};
  if (!file || !sim_launch_file_run(file, module, gpu, options, &result, &error)) return complain(error);
  if (json) {
    json_t *object = sim_result_to_json(&result, module);
    json_dumpf(object, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(object);
  } else {
    g_autofree char *text = sim_result_to_text(&result, module);
    fputs(text, stdout);
    printf("%llu warp-instructions in %.3f s, %u faults, %u findings\n",
           (unsigned long long)result.instructions, result.seconds, result.n_errors,
           result.n_faults - result.n_errors);
  }
  int code = result.n_errors ? ERROR_VERIFY : 0;
  sim_result_clear(&result);
  if (!sim_launch_file_write_outputs(file, &error)) return complain(error);
  return code;
}

int main(int argc, char **argv)
{
  SimOptions options;
  sim_options_default(&options);
  g_autofree char *launch = NULL, *checkers = NULL, *gpu = NULL;
  int schedules = 1, jobs = 0;
  gint64 seed = 0, limit = (gint64)options.max_instructions;
  gboolean json = FALSE, exact = FALSE;
  GOptionEntry entries[] = {{"launch", 0, 0, G_OPTION_ARG_FILENAME, &launch, "launch file", "FILE"},
                            {"checkers", 0, 0, G_OPTION_ARG_STRING, &checkers, "all, none or a list", "LIST"},
                            {"gpu", 0, 0, G_OPTION_ARG_STRING, &gpu, "GPU description", "NAME"},
                            {"schedules", 0, 0, G_OPTION_ARG_INT, &schedules, "schedules to try", "N"},
                            {"seed", 0, 0, G_OPTION_ARG_INT64, &seed, "seed", "N"},
                            {"jobs", 0, 0, G_OPTION_ARG_INT, &jobs, "threads", "N"},
                            {"max-instructions", 0, 0, G_OPTION_ARG_INT64, &limit, "limit", "N"},
                            {"timeout", 0, 0, G_OPTION_ARG_DOUBLE, &options.timeout, "limit", "S"},
                            {"exact", 0, 0, G_OPTION_ARG_NONE, &exact, "accumulate in double", NULL},
                            {"json", 0, 0, G_OPTION_ARG_NONE, &json, "JSON", NULL},
                            {NULL}};
  g_autoptr(GOptionContext) context = g_option_context_new("KERNEL.ptx");
  g_option_context_add_main_entries(context, entries, NULL);
  GError *error = NULL;
  if (!g_option_context_parse(context, &argc, &argv, &error) || argc != 2) {
    fprintf(stderr, "adlgen-sim: %s\n", error ? error->message : "one PTX file is needed");
    g_clear_error(&error);
    return ERROR_USAGE;
  }
  if (checkers && !sim_options_checkers(&options, checkers, &error)) return complain(error);
  options.schedules = (unsigned)MAX(schedules, 1);
  options.seed = (uint64_t)seed;
  options.jobs = (unsigned)MAX(jobs, 0);
  options.max_instructions = (uint64_t)limit;
  options.arithmetic = exact ? SIM_ARITHMETIC_EXACT : SIM_ARITHMETIC_HARDWARE;
  return run(argv[1], launch, &options, gpu, json);
}
