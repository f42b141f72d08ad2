/* Runs launches on the simulator, many in one process: lines "FILE.ptx LAUNCH.json" from standard input.
 * Prints a line of "ok" or what is wrong for each; the outputs go where the launch files say. */
#include "simulator/simulator.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *explain(GError *error)
{
  char *text = g_strdup(error->message);
  g_error_free(error);
  return text;
}

/* NULL if all is well, else what is wrong; g_free. */
static char *run(const char *ptx, const char *launch, const Gpu *gpu, const SimOptions *options)
{
  GError *error = NULL;
  g_autoptr(Source) source = source_load(ptx, &error);
  if (!source) return explain(error);
  g_autoptr(SimModule) module = sim_module_parse(source, &error);
  if (!module) return explain(error);
  g_autoptr(SimLaunchFile) file = sim_launch_file_load(launch, &error);
  if (!file) return explain(error);
  SimResult result = {0};
  if (!sim_run(module, sim_launch_file_launch(file), gpu, options, &result, &error)) return explain(error);
  char *text = NULL;
  for (unsigned i = 0; i < result.n_faults && !text; i++)
    if (!result.faults[i].finding)
      text = g_strdup_printf("fault %s at line %u: %s", sim_fault_name(result.faults[i].kind),
                             result.faults[i].line, result.faults[i].message);
  sim_result_clear(&result);
  if (!text && !sim_launch_file_write_outputs(file, &error)) text = explain(error);
  return text;
}

int main(int argc, char **argv)
{
  if (argc != 4) {
    fprintf(stderr, "usage: %s GPU CHECKERS SCHEDULES <LIST\n", argv[0]);
    return 2;
  }
  GError *error = NULL;
  g_autoptr(Gpu) gpu = gpu_load(argv[1], &error);
  SimOptions options;
  sim_options_default(&options);
  options.jobs = 1;
  options.timeout = 300;
  options.schedules = (unsigned)strtoul(argv[3], NULL, 10);
  if (!gpu || !sim_options_checkers(&options, argv[2], &error)) {
    fprintf(stderr, "%s\n", error->message);
    return 2;
  }
  char line[4096];
  while (fgets(line, sizeof line, stdin)) {
    g_auto(GStrv) words = g_strsplit(g_strstrip(line), " ", 2);
    if (g_strv_length(words) != 2) continue;
    g_autofree char *wrong = run(words[0], words[1], gpu, &options);
    puts(wrong ? g_strdelimit(wrong, "\n", ' ') : "ok");
    fflush(stdout);
  }
  return 0;
}
