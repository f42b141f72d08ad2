/* A profile by kernel, and its picture. */
#include "measure/chart.h"
#include "measure/kernel_times.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static json_t *example(void)
{
  return json_pack("{s:f, s:[{s:s, s:s, s:f}, {s:s, s:s, s:f}, {s:s, s:s, s:f}]}", "us", 9.0, "launches",
                   "launch", "norm", "kernel", "norm_4096", "us", 1.5, "launch", "a<b>", "kernel", "gemm_64",
                   "us", 5.0, "launch", "norm_1", "kernel", "norm_4096", "us", 2.5);
}

static void test_kernels(void **state)
{
  json_t *profile = example();
  g_autoptr(GPtrArray) kernels = bench_profile_kernels(json_object_get(profile, "launches"), "us");
  assert_int_equal(kernels->len, 2);
  const BenchKernelTime *first = kernels->pdata[0], *second = kernels->pdata[1];
  assert_string_equal(first->kernel, "gemm_64");
  assert_string_equal(second->kernel, "norm_4096");
  assert_int_equal(second->launches, 2);
  assert_true(second->amount == 4.0);
  json_decref(profile);
}

static unsigned count(const char *text, const char *part)
{
  unsigned n = 0;
  for (const char *at = text; (at = strstr(at, part)); at++)
    n++;
  return n;
}

static void test_picture(void **state)
{
  json_t *profile = example();
  g_autofree char *svg = bench_chart_profile(profile, "net S=1");
  assert_non_null(strstr(svg, "net S=1: 9.0 us in one graph; 9.0 us with an event"));
  assert_non_null(strstr(svg, "4.0 us, 44.4 %, 2 launches"));
  assert_non_null(strstr(svg, "a&lt;b&gt;: 5.00 us"));
  assert_int_equal(count(svg, "<title>"), 3);
  assert_int_equal(count(svg, "<rect"), 1 + 2 + 3); /* page, kernels, launches */
  json_decref(profile);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kernels),
      cmocka_unit_test(test_picture),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
