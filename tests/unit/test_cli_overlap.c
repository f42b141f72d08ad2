/* A plan whose launches overlap is simulated so, as on a stream: what the generator makes keeps its order,
 * and a kernel whose wait is taken out is found, whichever of its waits it is. */
#include "execute/execute.h"
#include "generator/front/graph.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define WAIT    "griddepcontrol.wait;"
#define COLUMNS 4480 /* tiles for most of the SMs: fewer start alone */

/* Three kernels: the second fills its ring with weights before it waits, the third has nothing to do with the
 * first but through the second. */
static const char text[] =
    "{\"name\": \"three\", \"inputs\": {\"x\": {\"type\": \"bf16\", \"shape\": [\"M\", 64], \"align\": 16},"
    "             \"w\": {\"type\": \"bf16\", \"shape\": [64, 4480], \"align\": 16}},"
    " \"dims\": {\"M\": {\"min\": 0, \"max\": 64}},"
    " \"nodes\": [{\"op\": \"Softmax\", \"inputs\": [\"x\"], \"outputs\": [\"first\"]},"
    "             {\"op\": \"MatMul\", \"inputs\": [\"first\", \"w\"], \"outputs\": [\"second\"]},"
    "             {\"op\": \"Softmax\", \"inputs\": [\"second\"], \"outputs\": [\"third\"]}],"
    " \"outputs\": [\"third\"]}";

typedef struct {
  unsigned launch, wait; /* which wait of which launch's kernel is taken out: from 1; 0 none */
  const char *skip[2];
  unsigned schedules;
  uint64_t seed;
  int64_t rows;
} Run;

/* Blanks the nth wait of a kernel; the simulator must then see what the hardware would. */
static void take_out_wait(const CompileResult *compiled, const Run *run)
{
  const PlanLaunch *launch = compiled->plan->launches[run->launch];
  for (unsigned i = 0; i < compiled->kernels->len; i++) {
    CompiledKernel *kernel = compiled->kernels->pdata[i];
    char *at = kernel->text;
    bool mine = false;
    for (unsigned v = 0; v < launch->n_variants; v++)
      mine |= !strcmp(launch->variants[v]->kernel, kernel->name);
    for (unsigned n = 0; mine && n < run->wait && (at = strstr(n ? at + 1 : at, WAIT)); n++)
      if (n + 1 == run->wait) memset(at, ' ', strlen(WAIT));
  }
}

static ExecutionFaults *simulate(const Run *run, unsigned dependent[3])
{
  GError *error = NULL;
  g_autoptr(Source) source = source_new("three.json", text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_load("h100", &error);
  const GraphBinding rows = {"M", run->rows};
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  if (!graph) fail_msg("%s", error->message);
  const CompileOptions options = {.skip = run->skip};
  g_autoptr(CompileResult) compiled = generator_compile(graph, gpu, &options, &error);
  if (!compiled) fail_msg("%s", error->message);
  assert_int_equal(compiled->plan->n_launches, 3);
  for (unsigned i = 0; i < 3; i++) {
    const PlanLaunch *launch = compiled->plan->launches[i];
    assert_int_equal(launch->n_depends, i > 0);
    dependent[i] = launch->n_depends && launch->depends_on[0].dependent;
  }
  if (run->wait) take_out_wait(compiled, run);
  g_autoptr(Execution) x = execution_new(compiled, gpu, &rows, 1, &error);
  if (!x) fail_msg("%s", error->message);
  static uint16_t in[64 * 64], weights[64 * COLUMNS], out[64 * COLUMNS];
  for (unsigned i = 0; i < G_N_ELEMENTS(in); i++)
    in[i] = (uint16_t)(0x3F80 + i % 16 * 8); /* 1 to 2 */
  for (unsigned i = 0; i < G_N_ELEMENTS(weights); i++)
    weights[i] = i % COLUMNS == 7 ? 0x4080 : 0; /* 4: rows of `first` add up to 1, so `second` is 4 there */
  execution_scatter(execution_tensor(x, "x"), in);
  execution_scatter(execution_tensor(x, "w"), weights);
  SimOptions options_of_run;
  sim_options_default(&options_of_run);
  options_of_run.schedules = run->schedules;
  options_of_run.seed = run->seed;
  ExecutionFaults *faults = execution_faults_new();
  if (!execution_simulate(x, &options_of_run, faults, &error)) fail_msg("%s", error->message);
  execution_gather(execution_tensor(x, "third"), out);
  for (unsigned i = 0; !faults->n_errors && i < (unsigned)run->rows * COLUMNS; i++) {
    union {
      uint32_t bits;
      float value;
    } y = {(uint32_t)out[i] << 16};
    float right = i % COLUMNS == 7 ? 0.012043F : 0.00022057F; /* e^4 / (e^4 + 4479), 1 / (e^4 + 4479) */
    assert_true(fabsf(y.value - right) < 0.02F * right);
  }
  return faults;
}

/* The extremes and random schedules. */
static void overlapping(void **state)
{
  for (unsigned seed = 1; seed <= 2; seed++) {
    const Run run = {.schedules = 6, .seed = seed, .rows = 33};
    unsigned dependent[3];
    g_autoptr(ExecutionFaults) faults = simulate(&run, dependent);
    assert_int_equal(faults->n_errors, 0);
    assert_false(dependent[0]);
    assert_true(dependent[1] && dependent[2]);
  }
}

static void one_after_the_other(void **state)
{
  const Run run = {.schedules = 1, .rows = 5, .skip = {"overlap_launches"}};
  unsigned dependent[3];
  g_autoptr(ExecutionFaults) faults = simulate(&run, dependent);
  assert_int_equal(faults->n_errors, 0);
  assert_false(dependent[1] || dependent[2]);
}

static void nothing_to_do(void **state)
{
  const Run run = {.schedules = 1, .rows = 0};
  unsigned dependent[3];
  g_autoptr(ExecutionFaults) faults = simulate(&run, dependent);
  assert_int_equal(faults->n_errors, 0);
}

/* Taken out: the wait of the product's producer, then that of the last kernel. */
static void without_a_wait(void **state)
{
  static const char *const names[] = {"first", "second", "third"};
  for (unsigned launch = 1; launch <= 2; launch++) {
    const Run run = {.launch = launch, .wait = 1, .schedules = 3, .rows = 33};
    unsigned dependent[3], races = 0;
    g_autoptr(ExecutionFaults) faults = simulate(&run, dependent);
    for (size_t i = 0; i < json_array_size(faults->list); i++) {
      const json_t *f = json_array_get(faults->list, i);
      g_autofree char *report = json_dumps(f, 0);
      if (strcmp(json_string_value(json_object_get(f, "kind")), "race")) continue;
      races += strstr(report, names[launch - 1]) != NULL;
    }
    assert_true(races > 0);
  }
}

/* The product's consumers start behind barriers that its producer completes once it has waited; and the first
 * launch follows nothing. */
static void needless_waits(void **state)
{
  const Run runs[] = {{.launch = 1, .wait = 2, .schedules = 4, .rows = 33},
                      {.launch = 0, .wait = 1, .schedules = 4, .rows = 33}};
  for (unsigned i = 0; i < G_N_ELEMENTS(runs); i++) {
    unsigned dependent[3];
    g_autoptr(ExecutionFaults) faults = simulate(&runs[i], dependent);
    assert_int_equal(faults->n_errors, 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(overlapping), cmocka_unit_test(one_after_the_other),
                                     cmocka_unit_test(nothing_to_do), cmocka_unit_test(without_a_wait),
                                     cmocka_unit_test(needless_waits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
