/* The simulator's speed on one core: simulator [--json] [--runs N] [--only NAME]
 *
 * Runs kernels made by adlgen, with all checkers and the matrix units' own accumulator widths, and with no
 * checkers and products in f32. Prints warp-instructions and, for products, floating-point operations per
 * second of processor time: the fastest of the runs, since on a busy machine the others measure the
 * neighbours. Reading and decoding the PTX is part of the time. */
#include "base/diagnostic.h"
#include "cli/execute.h"
#include "cli/run_data.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct Case {
  const char *name, *gpu, *graph;
  double flops; /* of all its products; 0: none */
} Case;

#define GEMM(type, m, n, k)                                                                                  \
  "{'name': 'gemm', 'inputs': {'A': {'type': '" type "', 'shape': [" #m ", " #k "]}, 'B': {'type': '" type   \
  "', 'shape': [" #k ", " #n "]}}, 'nodes': [{'op': 'MatMul', 'inputs': ['A', 'B'], 'outputs': ['C']}], "    \
  "'outputs': ['C']}"
#define ROWS(op, m, n)                                                                                       \
  "{'name': 'rows', 'inputs': {'X': {'type': 'bf16', 'shape': [" #m ", " #n "]}}, 'nodes': [{'op': '" op     \
  "', 'inputs': ['X'], 'outputs': ['Y']}], 'outputs': ['Y']}"

static const Case cases[] = {
    {"mma-gemm", "a100", GEMM("bf16", 256, 512, 1024), 2.0 * 256 * 512 * 1024},
    {"wgmma-gemm", "h100", GEMM("bf16", 256, 512, 1024), 2.0 * 256 * 512 * 1024},
    {"wgmma-gemm-f16", "h100", GEMM("f16", 256, 512, 1024), 2.0 * 256 * 512 * 1024},
    {"elementwise", "h100", ROWS("Gelu", 512, 2048), 0},
    {"softmax", "h100", ROWS("Softmax", 256, 4096), 0},
};

typedef struct Mode {
  const char *name, *checkers;
  SimArithmetic arithmetic;
} Mode;

static const Mode modes[] = {{"on", "all", SIM_ARITHMETIC_HARDWARE}, {"off", "none", SIM_ARITHMETIC_FAST}};

typedef struct Measurement {
  uint64_t instructions;
  double seconds;
} Measurement;

static double processor_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool run_once(const Case *c, const Mode *mode, Measurement *best, GError **error)
{
  g_autofree char *text = g_strdelimit(g_strdup(c->graph), "'", '"');
  g_autoptr(Source) source = source_new(c->name, text, strlen(text));
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, error);
  g_autoptr(Gpu) gpu = graph ? gpu_load(c->gpu, error) : NULL;
  CompileOptions compile = {0};
  g_autoptr(CompileResult) compiled = gpu ? generator_compile(graph, gpu, &compile, error) : NULL;
  g_autoptr(Execution) execution = compiled ? execution_new(compiled, gpu, NULL, 0, error) : NULL;
  const char *const none[] = {NULL};
  g_autoptr(RunData) data = execution ? run_data_new(graph, none, 0, error) : NULL;
  if (!data) return false;
  run_data_put_inputs(data, execution);
  SimOptions options;
  sim_options_default(&options);
  options.strict = true;
  options.jobs = 1;
  options.arithmetic = mode->arithmetic;
  if (!sim_options_checkers(&options, mode->checkers, error)) return false;
  g_autoptr(ExecutionFaults) faults = execution_faults_new();
  double start = processor_seconds();
  if (!execution_simulate(execution, &options, faults, error)) return false;
  double seconds = processor_seconds() - start;
  if (faults->n_errors) {
    error_set(error, ERROR_VERIFY, NULL, "faults", NULL, "%s: %s", c->name, faults->text->str);
    return false;
  }
  if (!best->instructions || seconds < best->seconds)
    *best = (Measurement){.instructions = faults->instructions, .seconds = seconds};
  return true;
}

static void print_text(const Case *c, const Mode *mode, const Measurement *m)
{
  printf("%-15s %-5s %-8s %12llu %9.3f %14.2f", c->name, c->gpu, mode->name,
         (unsigned long long)m->instructions, m->seconds, (double)m->instructions / m->seconds * 1e-6);
  if (c->flops > 0)
    printf(" %9.2f\n", c->flops / m->seconds * 1e-9);
  else
    printf(" %9s\n", "-");
  fflush(stdout);
}

static json_t *measurement_json(const Case *c, const Mode *mode, const Measurement *m)
{
  return json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:o}", "kernel", c->name, "gpu", c->gpu, "checkers",
                   mode->name, "warp_instructions", (json_int_t)m->instructions, "processor_seconds",
                   m->seconds, "warp_instructions_per_second", (double)m->instructions / m->seconds,
                   "flops_per_second", c->flops > 0 ? json_real(c->flops / m->seconds) : json_null());
}

static bool run_case(const Case *c, unsigned runs, json_t *list, GError **error)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) {
    Measurement best = {0};
    for (unsigned k = 0; k < runs; k++)
      if (!run_once(c, &modes[i], &best, error)) return false;
    if (list)
      json_array_append_new(list, measurement_json(c, &modes[i], &best));
    else
      print_text(c, &modes[i], &best);
  }
  return true;
}

static void print_json(json_t *list)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  json_t *all =
      json_pack("{s:i, s:o, s:I}", "version", 1, "kernels", list, "peak_kib", (json_int_t)usage.ru_maxrss);
  g_autofree char *text = json_dumps(all, JSON_INDENT(2));
  puts(text);
  json_decref(all);
}

int main(int argc, char **argv)
{
  gboolean json = FALSE;
  gint runs = 3;
  g_autofree char *only = NULL;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "prints one JSON object", NULL},
      {"runs", 0, 0, G_OPTION_ARG_INT, &runs, "of which the fastest counts; default: 3", "N"},
      {"only", 0, 0, G_OPTION_ARG_STRING, &only, "one kernel", "NAME"},
      {NULL}};
  GError *error = NULL;
  GOptionContext *context = g_option_context_new(NULL);
  g_option_context_add_main_entries(context, entries, NULL);
  bool parsed = g_option_context_parse(context, &argc, &argv, &error);
  g_option_context_free(context);
  if (!parsed) {
    fprintf(stderr, "%s\n", error->message);
    g_error_free(error);
    return ERROR_USAGE;
  }
  json_t *list = json ? json_array() : NULL;
  if (!json) puts("kernel          gpu   checkers instructions   seconds million inst/s  GFLOP/s");
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    if (only && strcmp(only, cases[i].name)) continue;
    if (run_case(&cases[i], (unsigned)MAX(runs, 1), list, &error)) continue;
    int code = error_exit_code(error);
    error_print(error, stderr, false);
    g_error_free(error);
    return code;
  }
  if (json) print_json(list);
  return 0;
}
