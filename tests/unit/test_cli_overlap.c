/* A plan whose launches may overlap is simulated so: kernels that do not wait for their predecessor are
 * found. */
#include "cli/execute.h"
#include "generator/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
    "{\"name\": \"two\", \"inputs\": {\"x\": {\"type\": \"f32\", \"shape\": [4, 64]}},"
    " \"nodes\": [{\"op\": \"Softmax\", \"inputs\": [\"x\"], \"outputs\": [\"once\"]},"
    "             {\"op\": \"Softmax\", \"inputs\": [\"once\"], \"outputs\": [\"twice\"]}],"
    " \"outputs\": [\"twice\"]}";

/* Simulates the graph with its second launch depending on the first one in the given way. */
static ExecutionFaults *run(bool dependent, char *names[2])
{
  GError *error = NULL;
  g_autoptr(Source) source = source_new("two.json", text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_load("h100", &error);
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  if (!graph) fail_msg("%s", error->message);
  const CompileOptions options = {0};
  g_autoptr(CompileResult) compiled = generator_compile(graph, gpu, &options, &error);
  if (!compiled) fail_msg("%s", error->message);
  assert_int_equal(compiled->plan->n_launches, 2);
  PlanLaunch *second = compiled->plan->launches[1];
  assert_int_equal(second->n_depends, 1);
  second->depends_on[0].dependent = dependent;
  for (unsigned i = 0; i < 2; i++)
    names[i] = g_strdup(compiled->plan->launches[i]->name);
  g_autoptr(Execution) x = execution_new(compiled, gpu, NULL, 0, &error);
  if (!x) fail_msg("%s", error->message);
  float values[256];
  for (unsigned i = 0; i < 256; i++)
    values[i] = (float)i / 64;
  execution_scatter(execution_tensor(x, "x"), values);
  SimOptions simulate;
  sim_options_default(&simulate);
  ExecutionFaults *faults = execution_faults_new();
  if (!execution_simulate(x, &simulate, faults, &error)) fail_msg("%s", error->message);
  execution_gather(execution_tensor(x, "twice"), values);
  if (!dependent) assert_true(values[0] > 0 && values[0] < 1);
  return faults;
}

static void in_order(void **state)
{
  char *names[2];
  g_autoptr(ExecutionFaults) faults = run(false, names);
  assert_int_equal(faults->n_errors, 0);
  g_free(names[0]);
  g_free(names[1]);
}

static void overlapping(void **state)
{
  char *names[2];
  g_autoptr(ExecutionFaults) faults = run(true, names);
  unsigned races = 0;
  for (size_t i = 0; i < json_array_size(faults->list); i++) {
    const json_t *f = json_array_get(faults->list, i), *other = json_object_get(f, "other");
    if (strcmp(json_string_value(json_object_get(f, "kind")), "race")) continue;
    races++;
    /* early, the second reads before the first has written: the write is what meets the race */
    const char *one = json_string_value(json_object_get(f, "launch"));
    const char *two = json_string_value(json_object_get(other, "launch"));
    assert_true((!strcmp(one, names[1]) && !strcmp(two, names[0])) ||
                (!strcmp(one, names[0]) && !strcmp(two, names[1])));
  }
  assert_true(races > 0);
  g_free(names[0]);
  g_free(names[1]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(in_order), cmocka_unit_test(overlapping)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
