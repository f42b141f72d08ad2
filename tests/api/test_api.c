/* The public API as a stranger's program sees it: linked against the shared library, with its header only. */
#include <adlgen/adlgen.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char gemm[] =
    "{name: product, inputs: {A: {type: bf16, shape: [M, 256]}, B: {type: bf16, shape: [256, 128]}},"
    " nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";

static adlgen_result *compile(const char *gpu_name, const char *text, const adlgen_options *options,
                              adlgen_error *error)
{
  adlgen_gpu *gpu = adlgen_gpu_load(gpu_name, error);
  adlgen_result *result = gpu ? adlgen_compile_text("graph", text, strlen(text), gpu, options, error) : NULL;
  adlgen_gpu_free(gpu);
  return result;
}

static void test_result(void **state)
{
  adlgen_error error = {0};
  adlgen_result *result = compile("h100", gemm, NULL, &error);
  assert_non_null(result);
  assert_int_equal(error.code, 0);
  assert_true(adlgen_result_kernel_count(result) >= 1);
  assert_non_null(strstr(adlgen_result_ptx(result, 0), adlgen_result_entry(result, 0)));
  assert_non_null(strstr(adlgen_result_plan(result), adlgen_result_name(result, 0)));
  assert_non_null(strstr(adlgen_result_ir(result, 0), "adlgen-ir"));
  assert_true(strlen(adlgen_result_explain(result)) > 0);
  assert_null(adlgen_result_cubin(result, 0, NULL));
  assert_null(adlgen_result_ptx(result, 1000));
  adlgen_result_free(result);
}

static void test_warnings(void **state)
{
  static const char text[] =
      "{\"inputs\": {\"A\": {\"type\": \"f32\", \"shape\": [8]}, \"B\": {\"type\": \"f32\", \"shape\": "
      "[8]}},\n"
      " \"nodes\": [{\"op\": \"Relu\", \"inputs\": [\"A\"], \"outputs\": [\"D\"]}], \"outputs\": [\"D\"]}";
  static const char warning[] = "graph:1:49: warning: no node reads the input `B`\n";
  adlgen_result *result = compile("h100", text, NULL, NULL);
  assert_memory_equal(adlgen_result_warnings(result), warning, strlen(warning));
  adlgen_result_free(result);
  result = compile("h100", gemm, NULL, NULL);
  assert_string_equal(adlgen_result_warnings(result), "");
  adlgen_result_free(result);
}

static void test_errors(void **state)
{
  adlgen_error error = {0};
  assert_null(compile("h10", gemm, NULL, &error));
  assert_int_equal(error.code, ADLGEN_ERROR_INPUT);
  assert_non_null(strstr(error.hint, "h100"));
  /* One error object may be used again. */
  assert_null(compile("h100", "{name: x,\n nodes: [{op: MatMull, inputs: [A], outputs: [D]}], outputs: [D]}",
                      NULL, &error));
  assert_int_equal(error.code, ADLGEN_ERROR_INPUT);
  assert_string_equal(error.file, "graph");
  assert_int_equal(error.line, 2);
  assert_null(compile("h100", "", NULL, &error));
  adlgen_error_clear(&error);
  assert_int_equal(error.code, 0);
  assert_null(error.message);
}

static void test_options(void **state)
{
  adlgen_error error = {0};
  const char *dims[] = {"M=64", NULL};
  adlgen_options options = {.size = sizeof options, .dims = dims};
  adlgen_result *bound = compile("a100", gemm, &options, &error);
  assert_non_null(bound);
  /* A program compiled with an older, shorter struct: the fields it lacks are not read. */
  options.size = offsetof(adlgen_options, dims);
  options.dims = (const char *const[]){"no assignment", NULL};
  adlgen_result *open = compile("a100", gemm, &options, &error);
  assert_non_null(open);
  options.size = sizeof options;
  assert_null(compile("a100", gemm, &options, &error));
  assert_int_equal(error.code, ADLGEN_ERROR_USAGE);
  options = (adlgen_options){.size = sizeof options, .assemble = 1, .ptxas = "/does/not/exist"};
  assert_null(compile("a100", gemm, &options, &error));
  assert_int_equal(error.code, ADLGEN_ERROR_MISSING_TOOL);
  adlgen_result_free(bound);
  adlgen_result_free(open);
  adlgen_error_clear(&error);
}

/* Sums of 8-bit floats: exact unless asked otherwise, with fast_math too. */
static void test_accumulation(void **state)
{
  static const char product[] = "{name: product, inputs: {A: {type: e4m3, shape: [64, 256]},"
                                " B: {type: e5m2, shape: [256, 128], strides: [1, 256]}},"
                                " nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";
  adlgen_error error = {0};
  const adlgen_options ways[] = {
      {.size = sizeof ways[0]},
      {.size = sizeof ways[0], .accumulate = ADLGEN_ACCUMULATE_EXACT},
      {.size = sizeof ways[0], .accumulate = ADLGEN_ACCUMULATE_EXACT, .fast_math = 1},
      {.size = sizeof ways[0], .fast_math = 1},
      {.size = sizeof ways[0], .accumulate = ADLGEN_ACCUMULATE_FAST},
      {.size = offsetof(adlgen_options, accumulate), .accumulate = ADLGEN_ACCUMULATE_FAST}};
  static const bool fast[] = {false, false, false, true, true, false};
  adlgen_result *exact = compile("h100", product, NULL, &error);
  assert_non_null(exact);
  for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    adlgen_result *result = compile("h100", product, &ways[i], &error);
    assert_non_null(result);
    bool same = !strcmp(adlgen_result_ptx(result, 0), adlgen_result_ptx(exact, 0));
    assert_int_equal(same, !fast[i]);
    adlgen_result_free(result);
  }
  adlgen_result_free(exact);
  adlgen_options wrong = {.size = sizeof wrong, .accumulate = 3};
  assert_null(compile("h100", product, &wrong, &error));
  assert_int_equal(error.code, ADLGEN_ERROR_USAGE);
  assert_string_equal(error.message, "there is no way to accumulate 3");
  adlgen_error_clear(&error);
}

static void *compile_in_thread(void *unused)
{
  char *texts = calloc(1, 1);
  for (int round = 0; round < 3; round++) {
    adlgen_result *result = compile("h100", gemm, NULL, NULL);
    size_t length = strlen(texts);
    const char *ptx = result ? adlgen_result_ptx(result, 0) : "";
    texts = realloc(texts, length + strlen(ptx) + 1);
    memcpy(texts + length, ptx, strlen(ptx) + 1);
    adlgen_result_free(result);
  }
  return texts;
}

static void test_threads(void **state)
{
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  void *texts[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, compile_in_thread, NULL), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], &texts[i]);
  assert_true(strlen(texts[0]) > 0);
  for (int i = 0; i < THREADS; i++) {
    assert_string_equal(texts[0], texts[i]);
    if (i) free(texts[i]);
  }
  free(texts[0]);
}

static void test_names(void **state)
{
  char **names = adlgen_gpu_names();
  int found = 0;
  for (char **name = names; *name; name++) {
    adlgen_gpu *gpu = adlgen_gpu_load(*name, NULL);
    assert_non_null(gpu);
    assert_string_equal(adlgen_gpu_name(gpu), *name);
    found += !strcmp(*name, "h100");
    adlgen_gpu_free(gpu);
  }
  assert_int_equal(found, 1);
  adlgen_names_free(names);
  adlgen_gpu_free(NULL);
  adlgen_result_free(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_result),  cmocka_unit_test(test_warnings),     cmocka_unit_test(test_errors),
      cmocka_unit_test(test_options), cmocka_unit_test(test_accumulation), cmocka_unit_test(test_threads),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
