/* Several launches that write a result, or an intermediate tensor: the simulator knows which bytes have been written
 * through all of them, whether they overlap or follow each other. */
#include "execute/execute.h"
#include "generator/front/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* y is written by two kernels, the second of which copies what the first launch has left in the workspace. */
static const char text[] = "{\"name\": \"two\", \"inputs\": {\"x\": {\"type\": \"f32\", \"shape\": [8, 64]}, "
                           "\"z\": {\"type\": \"f32\", \"shape\": "
                           "[8, 96]}},"
                           " \"nodes\": [{\"op\": \"Softmax\", \"inputs\": [\"x\"], \"outputs\": [\"a\"]},"
                           "             {\"op\": \"Softmax\", \"inputs\": [\"z\"], \"outputs\": [\"b\"]},"
                           "             {\"op\": \"Concat\", \"inputs\": [\"a\", \"b\"], \"outputs\": "
                           "[\"y\"], \"attributes\": {\"axis\": 1}},"
                           "             {\"op\": \"Softmax\", \"inputs\": [\"a\"], \"outputs\": [\"c\"]}],"
                           " \"outputs\": [\"y\", \"c\"]}";

/* Takes the stores out of the kernels whose names begin so. */
static unsigned take_out_stores(const CompileResult *compiled, const char *kernels)
{
  unsigned n = 0;
  for (unsigned i = 0; i < compiled->kernels->len; i++) {
    CompiledKernel *kernel = compiled->kernels->pdata[i];
    if (!g_str_has_prefix(kernel->name, kernels)) continue;
    for (char *at = kernel->text; (at = strstr(at, "st.global")); n++) {
      char *line = at;
      while (line[-1] != '\n')
        line--;
      memset(line, ' ', strcspn(line, ";") + 1);
      at = line;
    }
  }
  return n;
}

/* The faults' messages, a line each. broken: kernels whose stores are taken out, NULL: none */
static char *simulate(const char *broken, const char *const *skip, unsigned schedules)
{
  GError *error = NULL;
  g_autoptr(Source) source = source_new("two.json", text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_load("h100", &error);
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  if (!graph) fail_msg("%s", error->message);
  const CompileOptions options = {.skip = skip};
  g_autoptr(CompileResult) compiled = generator_compile(graph, gpu, &options, &error);
  if (!compiled) fail_msg("%s", error->message);
  if (broken) assert_true(take_out_stores(compiled, broken) > 0);
  g_autoptr(Execution) x = execution_new(compiled, gpu, NULL, 0, &error);
  if (!x) fail_msg("%s", error->message);
  static const float zeros[8 * 96];
  execution_scatter(execution_tensor(x, "x"), zeros);
  execution_scatter(execution_tensor(x, "z"), zeros);
  SimOptions run;
  sim_options_default(&run);
  run.schedules = schedules;
  run.strict = true;
  g_autoptr(ExecutionFaults) faults = execution_faults_new();
  if (!execution_simulate(x, &run, faults, &error)) fail_msg("%s", error->message);
  GString *out = g_string_new(NULL);
  for (size_t i = 0; i < json_array_size(faults->list); i++) {
    const json_t *fault = json_array_get(faults->list, i);
    g_string_append_printf(out, "%s: %s\n", json_string_value(json_object_get(fault, "kind")),
                           json_string_value(json_object_get(fault, "message")));
  }
  assert_int_equal(faults->n_errors > 0, out->len > 0);
  return g_string_free(out, FALSE);
}

/* Rows of one shape would share a kernel. */
static const char *const beside[] = {"join_rows", NULL}, *const apart[] = {"join_rows", "overlap_launches",
                                                                           NULL};
static const char *const *const ways[] = {beside, apart};

static void all_is_written(void **state)
{
  for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
    g_autofree char *faults = simulate(NULL, ways[way], 3);
    assert_string_equal(faults, "");
  }
}

static void a_part_of_a_result_is_not(void **state)
{
  for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
    g_autofree char *faults = simulate("identity", ways[way], 2);
    assert_string_equal(
        faults, "undefined: 2048 of 5120 bytes of output 'y' are never written, the first is byte 0\n");
  }
}

static void what_a_later_launch_reads_is_not(void **state)
{
  for (unsigned way = 0; way < G_N_ELEMENTS(ways); way++) {
    g_autofree char *faults = simulate("softmax_f32_r8c64", ways[way], 1);
    assert_non_null(strstr(faults, "undefined: a value nobody has written is stored to buffer 'y'"));
  }
}

static void a_result_of_one_launch_is_not(void **state)
{
  g_autofree char *faults = simulate("softmax_f32_r8c64", apart, 1);
  assert_non_null(strstr(faults, "undefined: "));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_is_written),
      cmocka_unit_test(a_part_of_a_result_is_not),
      cmocka_unit_test(what_a_later_launch_reads_is_not),
      cmocka_unit_test(a_result_of_one_launch_is_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
