/* A budget of SMs: no launch of any variant has more blocks, whatever the sizes and the kind of kernel, and
 * the plan says so. What is computed under a budget is tests/run/sms.json's. */
#include "generator/compile/compile.h"
#include "plan/resolve.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *const graphs[] = {
    "{name: open, inputs: {A: {type: bf16, shape: [M, K]}, B: {type: bf16, shape: [K, N]}}, nodes: [{op: "
    "MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
    "{name: half_open, inputs: {A: {type: bf16, shape: [M, 7168]}, B: {type: bf16, shape: [7168, 576]}}, "
    "nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
    "{name: thin, inputs: {A: {type: bf16, shape: [8, 7168]}, B: {type: bf16, shape: [7168, 20000]}, C: "
    "{type: "
    "f32, shape: [M, 4]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}, {op: Relu, inputs: [C], "
    "outputs: "
    "[E]}], outputs: [D, E]}",
    "{name: batched, inputs: {A: {type: f16, shape: [B, 4, M, 64]}, B: {type: f16, shape: [B, 4, 64, 512]}}, "
    "nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
    "{name: rows, inputs: {x: {type: f32, shape: [M, N]}}, nodes: [{op: Softmax, inputs: [x], outputs: "
    "[y]}], "
    "outputs: [y]}",
    "{name: sums, inputs: {x: {type: f32, shape: [M, 40]}}, constants: {axes: {type: s64, shape: [1], data: "
    "[-1]}}, nodes: [{op: ReduceSum, inputs: [x, axes], outputs: [y]}], outputs: [y]}",
    "{name: points, inputs: {x: {type: f32, shape: [M, N]}}, nodes: [{op: Relu, inputs: [x], outputs: [y]}], "
    "outputs: [y]}",
};

static int64_t most_blocks(const Plan *plan, int64_t value)
{
  g_autoptr(Arena) arena = arena_new();
  int64_t symbols[4];
  uint64_t *addresses = arena_new_array(arena, uint64_t, plan->n_tensors);
  int64_t most = 0;
  for (unsigned i = 0; i < plan->n_symbols; i++)
    symbols[i] = !strcmp(plan->symbols[i].name, "M") ? value : 2048;
  for (unsigned i = 0; i < plan->n_tensors; i++)
    addresses[i] = 4096;
  const PlanBindings bindings = {symbols, addresses};
  for (unsigned i = 0; i < plan->n_launches; i++) {
    GError *error = NULL;
    const ResolvedLaunch *launch = plan_resolve(plan, plan->launches[i], &bindings, arena, &error);
    if (!launch) fail_msg("%s", error->message);
    most = MAX(most, (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2]);
  }
  return most;
}

static void check(const char *text, const char *gpu_name, unsigned sms)
{
  static const int64_t rows[] = {1, 8, 33, 64, 100, 128, 200, 256, 500, 1000, 2048, 3000, 20000};
  GError *error = NULL;
  g_autoptr(Source) source = source_new("graph", text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_load(gpu_name, &error);
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  const CompileOptions options = {.sm_budget = sms};
  g_autoptr(CompileResult) result = graph ? generator_compile(graph, gpu, &options, &error) : NULL;
  if (!result) fail_msg("%s", error->message);
  assert_int_equal(result->plan->sms, sms);
  g_autofree char *plan_json = plan_text(result->plan);
  g_autoptr(Source) written = source_new("plan.json", plan_json, strlen(plan_json));
  g_autoptr(Plan) again = plan_read(written, &error);
  if (!again) fail_msg("%s", error->message);
  assert_int_equal(again->sms, sms);
  int64_t most = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
    int64_t blocks = most_blocks(again, rows[i]);
    if (sms && blocks > sms)
      fail_msg("%s, %s, M = %d: %d blocks on %u SMs", graph->name, gpu_name, (int)rows[i], (int)blocks, sms);
    most = MAX(most, blocks);
  }
  if (sms) assert_true(most * 10 >= sms * 9); /* and uses them: clusters may strand a few */
}

static void keeps_to_the_budget(void **state)
{
  static const unsigned budgets[] = {1, 7, 20, 112};
  for (unsigned i = 0; i < G_N_ELEMENTS(graphs); i++)
    for (unsigned j = 0; j < G_N_ELEMENTS(budgets); j++)
      for (unsigned k = 0; k < 2; k++)
        check(graphs[i], k ? "a100" : "h100", budgets[j] > 108 && k ? 96 : budgets[j]);
}

/* Without a budget nothing is said of it. */
static void says_nothing_without(void **state)
{
  check(graphs[0], "h100", 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_to_the_budget),
      cmocka_unit_test(says_nothing_without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
