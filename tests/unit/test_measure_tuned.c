/* Files of measured choices: reading, writing, merging, which answers, and what the compiler makes of them.
 */
#include "generator/choose/tuned.h"
#include "generator/compile/compile.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define HEAD    "{\"version\": 1, \"gpu\": \"h100\", \"sms\": 132, \"generation\": 1, \"entries\": ["
#define PRODUCT "bf16 mk x bf16 nk + f32 -> bf16"

static Gpu *gpu_of(const char *name)
{
  GError *error = NULL;
  Gpu *gpu = gpu_load(name, &error);
  if (!gpu) fail_msg("%s", error->message);
  return gpu;
}

static TunedFile *read_text(const char *text, GError **error)
{
  g_autoptr(Source) source = source_new("choices.json", text, strlen(text));
  return tuned_file_read(source, error);
}

static TunedEntry entry(int64_t m, int64_t least, int64_t most, TunedParameter *parameters, unsigned bn)
{
  parameters[0] = (TunedParameter){"bm", 64};
  parameters[1] = (TunedParameter){"bn", bn};
  return (TunedEntry){.product = PRODUCT,
                      .batches = 1,
                      .n = 4096,
                      .k = 7168,
                      .sms = 132,
                      .m = m,
                      .least = least,
                      .most = most,
                      .us = 20,
                      .first_us = 22,
                      .parameters = parameters,
                      .n_parameters = 2};
}

static void writes_what_it_reads(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  g_autoptr(TunedFile) file = tuned_file_new(gpu);
  TunedParameter parameters[2];
  TunedEntry late = entry(128, 65, 128, parameters, 32);
  tuned_file_put(file, &late);
  TunedEntry early = entry(64, 33, 64, parameters, 64);
  tuned_file_put(file, &early);
  g_autofree char *text = tuned_file_text(file);
  assert_string_equal(
      text, HEAD "\n  {\"product\": \"" PRODUCT
                 "\", \"sms\": 132, \"batches\": 1, \"n\": 4096, \"k\": 7168, \"m\": 64, \"from\": 33, "
                 "\"to\": 64, \"parameters\": {\"bm\": 64, \"bn\": 64}, \"us\": 20.0, \"first_us\": 22.0},"
                 "\n  {\"product\": \"" PRODUCT
                 "\", \"sms\": 132, \"batches\": 1, \"n\": 4096, \"k\": 7168, \"m\": 128, \"from\": 65, "
                 "\"to\": 128, \"parameters\": {\"bm\": 64, \"bn\": 32}, \"us\": 20.0, \"first_us\": "
                 "22.0}]}\n");
  g_autoptr(TunedFile) again = read_text(text, NULL);
  assert_non_null(again);
  g_autofree char *second = tuned_file_text(again);
  assert_string_equal(second, text);
}

static void replaces_what_it_knows(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  g_autoptr(TunedFile) file = tuned_file_new(gpu);
  TunedParameter parameters[2];
  TunedEntry one = entry(64, 33, 64, parameters, 64);
  tuned_file_put(file, &one);
  one.parameters[1].value = 128;
  tuned_file_put(file, &one);
  assert_int_equal(tuned_file_count(file), 1);
  assert_int_equal(tuned_file_entry(file, 0)->parameters[1].value, 128);
  one.sms = 112;
  tuned_file_put(file, &one);
  assert_int_equal(tuned_file_count(file), 2);
}

static void names_every_fault(void **state)
{
  static const char *const wrong[][2] = {
      {"", "choices.json:1:1: error: the file holds no document"},
      {"[]", "choices.json:1:1: error: expected a mapping (a file of measured choices), found a list"},
      {"{\"version\": 3}", "choices.json:1:13: error: `version` must be from 1 to 2"},
      {"{\"version\": 1, \"gpu\": \"h100\"}", "choices.json:1:1: error: missing key `entries`"},
      {HEAD "{\"product\": \"p\", \"sms\": 0}]}",
       "choices.json:1:96: error: `sms` must be from 1 to 2147483647"},
      {HEAD "], \"more\": 1}", "choices.json:1:75: error: unknown key `more`"},
      {HEAD "{\"product\": \"p\", \"sms\": 1, \"batches\": 1, \"n\": 1, \"k\": 1, \"m\": 5, \"from\": 6, "
            "\"to\": 9, "
            "\"parameters\": {}, \"us\": 1, \"first_us\": 1}]}",
       "choices.json:1:145: error: `from` must be from 1 to 5"},
      {HEAD "{\"product\": \"p\", \"sms\": 1, \"batches\": 1, \"n\": 1, \"k\": 1, \"m\": 5, \"from\": 1, "
            "\"to\": 9, "
            "\"parameters\": {\"bm\": 1.5}, \"us\": 1, \"first_us\": 1}]}",
       "choices.json:1:178: error: expected an integer, found `1.5`"},
      {HEAD "{\"product\": \"p\", \"sms\": 1, \"batches\": 1, \"n\": 1, \"k\": 1, \"m\": 5, \"from\": 1, "
            "\"to\": 9, "
            "\"parameters\": {}, \"us\": 0, \"first_us\": 1}]}",
       "choices.json:1:181: error: `us` must be a time above 0, in microseconds"},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
    GError *error = NULL;
    g_autoptr(TunedFile) file = read_text(wrong[i][0], &error);
    assert_null(file);
    assert_int_equal(error->code, ERROR_INPUT);
    g_autofree char *text = error_to_text(error, false);
    *strchr(text, '\n') = 0;
    assert_string_equal(text, wrong[i][1]);
    g_error_free(error);
  }
}

static void refuses_two_of_a_key(void **state)
{
  g_autoptr(GString) text = g_string_new(HEAD);
  for (unsigned i = 0; i < 2; i++)
    g_string_append_printf(
        text,
        "%s\n{\"product\": \"p\", \"sms\": 1, \"batches\": 1, \"n\": 1, \"k\": 1, \"m\": 5, "
        "\"from\": 1, \"to\": 9, \"parameters\": {}, \"us\": 1, \"first_us\": 1}",
        i ? "," : "");
  g_string_append(text, "]}");
  GError *error = NULL;
  assert_null(read_text(text->str, &error));
  g_autofree char *message = error_to_text(error, false);
  assert_true(g_str_has_prefix(message, "choices.json:3:1: error: an earlier entry has the same product"));
  g_error_free(error);
}

static void leaves_out_what_is_stale(void **state)
{
  g_autoptr(Gpu) h100 = gpu_of("h100");
  static const char *const stale[][2] = {
      {"{\"version\": 1, \"gpu\": \"a100\", \"sms\": 108, \"generation\": 1, \"entries\": []}",
       "tuned: f is left out: it is for a100"},
      {"{\"version\": 1, \"gpu\": \"h100\", \"sms\": 114, \"generation\": 1, \"entries\": []}",
       "tuned: f is left out: it was measured on 114 SMs, h100 is described with 132"},
      {"{\"version\": 1, \"gpu\": \"h100\", \"sms\": 132, \"generation\": 99, \"entries\": []}",
       "tuned: f is left out: it was measured with kernels of generation 99, this program's are of 1"},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(stale); i++) {
    g_autoptr(TunedDatabase) database = tuned_database_new();
    tuned_database_add(database, read_text(stale[i][0], NULL), "f", h100);
    assert_string_equal(tuned_database_notes(database)[0], stale[i][1]);
    assert_null(tuned_database_notes(database)[1]);
  }
}

static TunedDatabase *database_of(const Gpu *gpu, const TunedEntry *entries, unsigned n)
{
  TunedDatabase *database = tuned_database_new();
  TunedFile *file = tuned_file_new(gpu);
  for (unsigned i = 0; i < n; i++)
    tuned_file_put(file, &entries[i]);
  tuned_database_add(database, file, "f", gpu);
  return database;
}

static void nearest_answers(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  TunedParameter one[2], two[2], three[2], own[2];
  const TunedEntry entries[] = {entry(1, 1, 32, one, 16), entry(16, 1, 32, two, 32),
                                entry(64, 33, 64, three, 64)};
  g_autoptr(TunedDatabase) database = database_of(gpu, entries, 3);
  TunedEntry wanted = entry(0, 0, 0, own, 0);
  static const int64_t cases[][2] = {{1, 16}, {3, 16}, {5, 32}, {32, 32}, {33, 64}, {64, 64}};
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    wanted.m = cases[i][0];
    const TunedEntry *found = tuned_database_find(database, &wanted);
    assert_non_null(found);
    assert_int_equal(found->parameters[1].value, cases[i][1]);
  }
  wanted.m = 65;
  assert_null(tuned_database_find(database, &wanted));
  wanted.m = 64;
  wanted.sms = 112;
  assert_null(tuned_database_find(database, &wanted));
  wanted.sms = 132;
  wanted.k++;
  assert_null(tuned_database_find(database, &wanted));
  wanted.k--;
  wanted.product = "another";
  assert_null(tuned_database_find(database, &wanted));
}

static void first_file_answers(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  TunedParameter one[2], two[2];
  TunedEntry mine = entry(64, 33, 64, one, 128), theirs = entry(48, 33, 64, two, 32);
  g_autoptr(TunedDatabase) database = database_of(gpu, &mine, 1);
  TunedFile *second = tuned_file_new(gpu);
  tuned_file_put(second, &theirs);
  tuned_database_add(database, second, "second", gpu);
  theirs.m = 48; /* nearer in the second file, but the first has an answer */
  assert_int_equal(tuned_database_find(database, &theirs)->parameters[1].value, 128);
}

/* ---- what the compiler makes of them ---- */

static char *explain_product(const TunedDatabase *database, const char *type, const char *m, unsigned n,
                             unsigned sms)
{
  g_autofree char *text = g_strdup_printf(
      "{name: p, inputs: {A: {type: %s, shape: [%s, 7168]}, B: {type: %s, shape: [7168, %u], strides: "
      "[1, 7168]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}",
      type, m, type, n);
  g_autoptr(Source) source = source_new("p", text, strlen(text));
  g_autoptr(Gpu) gpu = gpu_of("h100");
  GError *error = NULL;
  g_autoptr(Graph) graph = graph_read(source, NULL, 0, &error);
  const CompileOptions options = {.tuned = database, .sm_budget = sms};
  g_autoptr(CompileResult) result = graph ? generator_compile(graph, gpu, &options, &error) : NULL;
  if (!result) fail_msg("%s", error->message);
  return g_strdup(result->explain);
}

static char *explain(const TunedDatabase *database, const char *m, unsigned sms)
{
  return explain_product(database, "bf16", m, 4096, sms);
}

static void compiler_takes_the_choice(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  TunedParameter one[2], two[2];
  /* neither is what the model takes */
  const TunedEntry entries[] = {entry(64, 33, 64, one, 256), entry(200, 129, 256, two, 32)};
  g_autoptr(TunedDatabase) database = database_of(gpu, entries, 2);
  g_autofree char *fixed = explain(database, "64", 0), *plain = explain(NULL, "64", 0);
  assert_non_null(strstr(fixed, "variant 1: template gemm, tile 64x256x64"));
  assert_non_null(strstr(fixed, "tuned: bm=64 bn=256, measured at M = 64: 1.100 times as fast"));
  assert_null(strstr(plain, "variant 1: template gemm, tile 64x256x64"));
  assert_null(strstr(plain, "tuned"));
  g_autofree char *open = explain(database, "M", 0);
  const char *small = strstr(open, "tile 64x256x64, guard: ");
  assert_non_null(small);
  assert_true(strstr(small, "M <= 64") < strchr(small, '\n'));
  const char *middle = strstr(open, "tile 64x32x64, guard: ");
  assert_non_null(middle);
  assert_true(strstr(middle, "M <= 256") < strchr(middle, '\n'));
  /* a choice for all SMs says nothing of fewer */
  g_autofree char *fewer = explain(database, "64", 100);
  assert_null(strstr(fewer, "tuned"));
}

static void choices_hold_for_types_of_one_speed(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  TunedParameter one[2];
  const TunedEntry entries[] = {entry(64, 33, 64, one, 256)};
  g_autoptr(TunedDatabase) database = database_of(gpu, entries, 1);
  g_autofree char *half = explain_product(database, "f16", "64", 4096, 0),
                  *word = explain_product(database, "tf32", "64", 4096, 0);
  assert_non_null(strstr(half, "tuned: bm=64 bn=256, measured at M = 64: 1.100 times as fast"));
  assert_null(strstr(word, "tuned"));
}

/* Odd multiples of 8 columns are no candidates of the model's, and legal only as whole tiles of N. */
static void narrow_steps_may_be_chosen(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  TunedParameter one[2], two[2];
  TunedEntry entries[] = {entry(64, 33, 64, one, 72), entry(64, 33, 64, two, 72)};
  entries[0].n = 576;
  g_autoptr(TunedDatabase) database = database_of(gpu, entries, 2);
  g_autofree char *whole = explain_product(database, "bf16", "64", 576, 0),
                  *part = explain_product(database, "bf16", "64", 4096, 0);
  assert_non_null(strstr(whole, "tuned: bm=64 bn=72, measured at M = 64"));
  assert_non_null(strstr(whole, "variant 1: template gemm, tile 64x72x64"));
  assert_non_null(strstr(part, "tuned: bm=64 bn=72 is not legal here, so the model decides"));
}

static void compiler_ignores_what_is_illegal(void **state)
{
  g_autoptr(Gpu) gpu = gpu_of("h100");
  TunedParameter one[2], two[2];
  TunedEntry entries[] = {entry(64, 33, 64, one, 100), entry(128, 65, 128, two, 64)};
  entries[1].parameters[0].name = "no_such_parameter";
  g_autoptr(TunedDatabase) database = database_of(gpu, entries, 2);
  g_autofree char *tile = explain(database, "64", 0), *plain = explain(NULL, "64", 0);
  assert_non_null(strstr(tile, "tuned: bm=64 bn=100 is not legal here, so the model decides"));
  assert_string_equal(strstr(tile, "variant 1"), strstr(plain, "variant 1"));
  g_autofree char *name = explain(database, "128", 0);
  assert_non_null(strstr(name, "tuned: no_such_parameter=64 bn=64 is not legal here"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_what_it_reads),
      cmocka_unit_test(replaces_what_it_knows),
      cmocka_unit_test(names_every_fault),
      cmocka_unit_test(refuses_two_of_a_key),
      cmocka_unit_test(leaves_out_what_is_stale),
      cmocka_unit_test(nearest_answers),
      cmocka_unit_test(first_file_answers),
      cmocka_unit_test(compiler_takes_the_choice),
      cmocka_unit_test(choices_hold_for_types_of_one_speed),
      cmocka_unit_test(narrow_steps_may_be_chosen),
      cmocka_unit_test(compiler_ignores_what_is_illegal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
