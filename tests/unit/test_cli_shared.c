/* Variants that differ in their ranges of rows alone launch one kernel, and that kernel knows no more of the
 * rows than every one of its guards says. */
#include "generator/compile/compile.h"
#include "generator/front/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static CompileResult *compile(const char *rows, const char *const *sets)
{
  GError *error = NULL;
  g_autofree char *text = g_strdup_printf(
      "{\"name\": \"shared\", \"inputs\": {\"x\": {\"type\": \"bf16\", \"shape\": [\"M\", 4096], \"align\": "
      "16}, \"w\": {\"type\": \"bf16\", \"shape\": [4096, 11008], \"align\": 16}}, \"dims\": {\"M\": %s},"
      " \"nodes\": [{\"op\": \"MatMul\", \"inputs\": [\"x\", \"w\"], \"outputs\": [\"y\"]}], \"outputs\": "
      "[\"y\"]}",
      rows);
  g_autoptr(Source) source = source_new("shared.json", text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_load("h100", &error);
  g_autoptr(Graph) graph = source && gpu ? graph_read(source, NULL, 0, &error) : NULL;
  const CompileOptions options = {.sets = sets};
  CompileResult *result = graph ? generator_compile(graph, gpu, &options, &error) : NULL;
  if (!result) fail_msg("%s", error->message);
  return result;
}

/* The number behind the last `before` of a text, or `otherwise`. */
static int64_t number_after(const char *text, const char *before, int64_t otherwise)
{
  const char *at = text ? g_strrstr(text, before) : NULL;
  return at ? g_ascii_strtoll(at + strlen(before), NULL, 10) : otherwise;
}

static const CompiledKernel *kernel_of(const CompileResult *result, const PlanVariant *variant)
{
  for (unsigned i = 0; i < result->kernels->len; i++) {
    const CompiledKernel *kernel = result->kernels->pdata[i];
    if (!strcmp(kernel->name, variant->kernel)) return kernel;
  }
  fail_msg("no kernel %s", variant->kernel);
  return NULL;
}

/* No guard of a kernel lets more rows through than the kernel was made for. */
static void check_bounds(const CompileResult *result, int64_t most)
{
  const PlanLaunch *launch = result->plan->launches[0];
  for (unsigned i = 0; i < launch->n_variants; i++) {
    const PlanVariant *variant = launch->variants[i];
    const char *text = kernel_of(result, variant)->ir;
    g_autofree char *guard = variant->guard ? symbolic_text(variant->guard) : g_strdup("");
    const char *head = strstr(text, "\n    dims ");
    assert_non_null(head); /* of rows alone: all else is constant */
    g_autofree char *dims = g_strndup(head + 1, strcspn(head + 1, "\n"));
    int64_t known = number_after(dims, "maximum ", INT64_MAX);
    int64_t let_through = number_after(guard, "M <= ", most);
    assert_in_range(let_through, 1, known);
  }
}

static void check_distinct(const CompileResult *result)
{
  for (unsigned i = 0; i < result->kernels->len; i++)
    for (unsigned j = 0; j < i; j++) {
      const CompiledKernel *a = result->kernels->pdata[i], *b = result->kernels->pdata[j];
      g_auto(GStrv) parts = g_strsplit(a->text, a->name, -1);
      g_autofree char *renamed = g_strjoinv(b->name, parts);
      if (!strcmp(renamed, b->text)) fail_msg("%s and %s are one kernel", a->name, b->name);
    }
}

/* Whatever tiles the model gives the ranges. */
static void ranges(void **state)
{
  g_autoptr(CompileResult) result = compile("{\"min\": 1, \"max\": 65536}", NULL);
  check_bounds(result, 65536);
  check_distinct(result);
}

/* One tile for all: what is left are its forms for few rows and for many. */
static void one_tile(void **state)
{
  const char *const sets[] = {"bm=128",      "bn=128",    "bk=64",      "stages=4",   "cluster_m=1",
                              "cluster_n=1", "split_k=1", "pingpong=1", "stream_k=1", "stream_steps=1",
                              "raster=8",    "blocks=1",  "swapped=0",  NULL};
  g_autoptr(CompileResult) result = compile("{\"min\": 1, \"max\": 65536}", sets);
  const PlanLaunch *launch = result->plan->launches[0];
  unsigned with_guard = launch->n_variants - 1, kernels = result->kernels->len - 1;
  check_bounds(result, 65536);
  check_distinct(result);
  assert_true(with_guard > 4);
  assert_true(kernels <= 4);
  assert_non_null(strstr(result->explain, ", kernel of variant "));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranges), cmocka_unit_test(one_tile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
