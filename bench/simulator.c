/* The simulator's speed on one core:
 *   simulator CASES.json [--json] [--runs N] [--only NAME] [--checkers on|off]
 *
 * Runs kernels that adlgen makes of the listed graphs, with all checkers and the matrix units' own
 * accumulator widths, and with no checkers and products in f32. Prints warp-instructions and, for products,
 * floating-point operations per second of processor time: the fastest of the runs, since on a busy machine
 * the others measure the neighbours. Reading and decoding the PTX is part of the time. */
#include "base/diagnostic.h"
#include "execute/data.h"
#include "execute/execute.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct Case {
  const char *name, *gpu;
  double flops; /* of all its products; 0: none */
  char *graph;
} Case;

typedef struct Mode {
  const char *name, *checkers;
  SimArithmetic arithmetic;
} Mode;

static const Mode modes[] = {{"on", "all", SIM_ARITHMETIC_HARDWARE}, {"off", "none", SIM_ARITHMETIC_FAST}};

typedef struct Measurement {
  uint64_t instructions;
  double seconds;
} Measurement;

/* What is asked for. */
typedef struct Choice {
  char *only, *mode; /* NULL: all */
  gint runs;
  gboolean json;
} Choice;

static double processor_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool run_once(const Case *c, const Mode *mode, Measurement *best, GError **error)
{
  g_autoptr(Source) source = source_new(c->name, c->graph, strlen(c->graph));
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, error);
  g_autoptr(Gpu) gpu = graph ? gpu_load(c->gpu, error) : NULL;
  CompileOptions compile = {0};
  g_autoptr(CompileResult) compiled = gpu ? generator_compile(graph, gpu, &compile, error) : NULL;
  g_autoptr(Execution) execution = compiled ? execution_new(compiled, gpu, NULL, 0, error) : NULL;
  g_autoptr(RunData) data = execution ? run_data_new(graph, NULL, 0, error) : NULL;
  if (!data || !run_data_put_inputs(data, graph, execution, error)) return false;
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

static bool run_case(const Case *c, const Choice *choice, json_t *list, GError **error)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(modes); i++) {
    Measurement best = {0};
    if (choice->mode && strcmp(choice->mode, modes[i].name)) continue;
    for (gint k = 0; k < choice->runs; k++)
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
      json_pack("{s:i, s:O, s:I}", "version", 1, "kernels", list, "peak_kib", (json_int_t)usage.ru_maxrss);
  g_autofree char *text = json_dumps(all, JSON_INDENT(2));
  puts(text);
  json_decref(all);
}

static bool run_cases(json_t *cases, const Choice *choice, json_t *list, GError **error)
{
  size_t i = 0;
  json_t *item = NULL;
  json_array_foreach(cases, i, item)
  {
    Case c = {0};
    json_t *graph = NULL;
    if (json_unpack(item, "{s:s, s:s, s:F, s:o}", "name", &c.name, "gpu", &c.gpu, "flops", &c.flops, "graph",
                    &graph)) {
      error_set(error, ERROR_INPUT, NULL, "bad-case", NULL, "case %zu needs name, gpu, flops, graph", i + 1);
      return false;
    }
    if (choice->only && strcmp(choice->only, c.name)) continue;
    c.graph = json_dumps(graph, 0);
    bool ok = run_case(&c, choice, list, error);
    free(c.graph);
    if (!ok) return false;
  }
  return true;
}

static bool run_file(const char *path, const Choice *choice, GError **error)
{
  json_error_t where;
  json_t *cases = json_load_file(path, 0, &where);
  if (!cases) {
    error_set(error, ERROR_INPUT, NULL, "bad-json", NULL, "%s:%d: %s", path, where.line, where.text);
    return false;
  }
  json_t *list = choice->json ? json_array() : NULL;
  if (!list) puts("kernel          gpu   checkers instructions   seconds million inst/s  GFLOP/s");
  bool ok = run_cases(cases, choice, list, error);
  if (ok && list) print_json(list);
  json_decref(list);
  json_decref(cases);
  return ok;
}

int main(int argc, char **argv)
{
  Choice choice = {.runs = 3};
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &choice.json, "prints one JSON object", NULL},
      {"runs", 0, 0, G_OPTION_ARG_INT, &choice.runs, "of which the fastest counts; default: 3", "N"},
      {"only", 0, 0, G_OPTION_ARG_STRING, &choice.only, "one kernel", "NAME"},
      {"checkers", 0, 0, G_OPTION_ARG_STRING, &choice.mode, "on or off; default: both", "MODE"},
      {NULL}};
  GError *error = NULL;
  GOptionContext *context = g_option_context_new("CASES.json");
  g_option_context_add_main_entries(context, entries, NULL);
  bool parsed = g_option_context_parse(context, &argc, &argv, &error);
  g_option_context_free(context);
  if (!parsed || argc != 2) {
    fprintf(stderr, "%s\n",
            parsed ? "usage: simulator CASES.json [--json] [--runs N] [--only NAME] [--checkers on|off]"
                   : error->message);
    g_clear_error(&error);
    return ERROR_USAGE;
  }
  choice.runs = MAX(choice.runs, 1);
  bool ok = run_file(argv[1], &choice, &error);
  g_free(choice.only);
  g_free(choice.mode);
  if (ok) return 0;
  int code = error_exit_code(error);
  error_print(error, stderr, false);
  g_error_free(error);
  return code;
}
