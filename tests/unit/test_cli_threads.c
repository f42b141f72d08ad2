/* Kernels are made on several threads: what comes out does not depend on how many, nor on who is first. */
#include "base/parallel.h"
#include "generator/compile/compile.h"
#include "generator/front/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
    "{\"name\": \"chain\", \"inputs\": {\"x\": {\"type\": \"bf16\", \"shape\": [\"M\", 512], \"align\": 16},"
    " \"w\": {\"type\": \"bf16\", \"shape\": [512, 1024]}, \"v\": {\"type\": \"bf16\", \"shape\": [1024, "
    "512]}}, \"dims\": {\"M\": {\"min\": 1, \"max\": 8192}},"
    " \"nodes\": [{\"op\": \"MatMul\", \"inputs\": [\"x\", \"w\"], \"outputs\": [\"a\"]},"
    "             {\"op\": \"Softmax\", \"inputs\": [\"a\"], \"outputs\": [\"b\"]},"
    "             {\"op\": \"MatMul\", \"inputs\": [\"b\", \"v\"], \"outputs\": [\"y\"]}],"
    " \"outputs\": [\"y\"]}";

static CompileResult *compile(const CompileOptions *options, GError **error)
{
  g_autoptr(Source) source = source_new("chain.json", text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_load("h100", error);
  g_autoptr(Graph) graph = source && gpu ? graph_read(source, NULL, 0, error) : NULL;
  return graph ? generator_compile(graph, gpu, options, error) : NULL;
}

static void same_result(void **state)
{
  GError *error = NULL;
  g_autoptr(CompileResult) alone = compile(&(CompileOptions){.threads = 1}, &error);
  if (!alone) fail_msg("%s", error->message);
  g_autofree char *plan = plan_text(alone->plan);
  assert_true(alone->kernels->len > 10);
  for (unsigned round = 0; round < 3; round++) {
    g_autoptr(CompileResult) result = compile(&(CompileOptions){.threads = 8}, &error);
    if (!result) fail_msg("%s", error->message);
    g_autofree char *again = plan_text(result->plan);
    assert_string_equal(again, plan);
    assert_string_equal(result->explain, alone->explain);
    assert_int_equal(result->kernels->len, alone->kernels->len);
    for (unsigned i = 0; i < result->kernels->len; i++) {
      const CompiledKernel *a = alone->kernels->pdata[i], *b = result->kernels->pdata[i];
      assert_string_equal(a->name, b->name);
      assert_string_equal(a->text, b->text);
    }
  }
}

/* Of several faults the first kernel's is told. */
static void first_fault(void **state)
{
  static const char *const sets[] = {"bm=256", "bn=256", NULL}; /* more registers than a thread may have */
  g_autofree char *first = NULL;
  for (unsigned threads = 1; threads <= 8; threads += 7) {
    GError *error = NULL;
    g_autoptr(CompileResult) result = compile(&(CompileOptions){.threads = threads, .sets = sets}, &error);
    assert_null(result);
    if (first) assert_string_equal(error->message, first);
    g_free(first);
    first = g_strdup(error->message);
    g_error_free(error);
  }
}

static void count(unsigned i, void *data)
{
  atomic_fetch_add(&((atomic_uint *)data)[i], 1);
}

static void every_piece_once(void **state)
{
  static atomic_uint counts[1000];
  for (unsigned threads = 0; threads <= 16; threads += 4)
    parallel_for(G_N_ELEMENTS(counts) - 1, threads, count, counts);
  parallel_for(0, 4, count, counts);
  for (unsigned i = 0; i + 1 < G_N_ELEMENTS(counts); i++)
    assert_int_equal(counts[i], 5);
  assert_int_equal(counts[G_N_ELEMENTS(counts) - 1], 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_result), cmocka_unit_test(first_fault),
                                     cmocka_unit_test(every_piece_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
