/* What tune makes of times: winners, failures, the file of choices, the figures of plan choice. The clock is
 * this test's; the kernels are compiled. */
#include "measure/tune.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
    "{name: p, inputs: {A: {type: bf16, shape: [M, K]}, B: {type: bf16, shape: [K, N], "
    "strides: [1, K]}}, nodes: [{op: MatMul, inputs: [A, B], outputs: [D]}], outputs: [D]}";

/* Times by the place in the list of proposals. */
typedef struct Fake {
  double us[4];      /* of the first ones; 100 for all others; 0: it fails */
  unsigned rough;    /* from this place on nothing is measured thoroughly */
  unsigned n_builds; /* seen */
  char *texts[4];    /* "bm=64 bn=32": what the first ones are */
} Fake;

static bool measure(void *data, const TuneWork *work, TuneTime *times, GError **error)
{
  Fake *fake = data;
  for (unsigned i = 0; i < work->n; i++) {
    fake->n_builds += work->builds && work->builds[i];
    double us = i < G_N_ELEMENTS(fake->us) ? fake->us[i] : 100;
    times[i].thorough = i < fake->rough;
    times[i].us = us > 0 ? us : NAN;
    if (!(us > 0)) times[i].message = g_strdup("wrong");
    const Proposal *p = &g_array_index(work->product->proposals, Proposal, i);
    const TunedEntry entry = {.parameters = (TunedParameter *)p->parameters, .n_parameters = p->n_parameters};
    if (i < G_N_ELEMENTS(fake->texts)) {
      g_free(fake->texts[i]);
      fake->texts[i] = tuned_parameters_text(&entry);
    }
  }
  return true;
}

typedef struct Outcome {
  json_t *result;
  TunedFile *file;
  Gpu *gpu;
  BenchCase *c;
} Outcome;

static double least_gain; /* of the next session */
static unsigned kinds;

static Outcome tune(TuneClock clock, unsigned top, const char *m, unsigned sms)
{
  GError *error = NULL;
  Outcome outcome = {.gpu = gpu_load("h100", &error)};
  g_autoptr(Source) source = source_new("p", text, strlen(text));
  g_autofree char *rows = g_strconcat("M=", m, NULL);
  const char *dims[] = {rows, "N=4096", "K=7168", NULL};
  outcome.c = bench_case_new(source, NULL, dims, NULL, &error);
  assert_non_null(outcome.gpu);
  assert_non_null(outcome.c);
  outcome.file = tuned_file_new(outcome.gpu);
  const TuneSession session = {.description = outcome.gpu,
                               .cases = &outcome.c,
                               .n_cases = 1,
                               .top = top,
                               .kinds = kinds,
                               .sms = sms,
                               .gain = least_gain,
                               .threads = 1,
                               .clock = clock};
  outcome.result = tune_run(&session, outcome.file, &error);
  if (!outcome.result) fail_msg("%s", error->message);
  return outcome;
}

static void outcome_clear(Outcome *outcome, Fake *fake)
{
  json_decref(outcome->result);
  tuned_file_free(outcome->file);
  bench_case_free(outcome->c);
  gpu_free(outcome->gpu);
  for (unsigned i = 0; fake && i < G_N_ELEMENTS(fake->texts); i++)
    g_free(fake->texts[i]);
}

static int winner(const Outcome *outcome)
{
  const json_t *product = json_array_get(json_object_get(outcome->result, "products"), 0);
  return (int)json_integer_value(json_object_get(product, "winner"));
}

static void keeps_the_fastest(void **state)
{
  Fake fake = {.us = {20, 22, 16, 19}, .rough = 4};
  Outcome outcome = tune((TuneClock){.measure = measure, .data = &fake}, 5, "64", 0);
  assert_int_equal(winner(&outcome), 2);
  assert_int_equal(tuned_file_count(outcome.file), 1);
  const TunedEntry *entry = tuned_file_entry(outcome.file, 0);
  g_autofree char *parameters = tuned_parameters_text(entry);
  assert_string_equal(parameters, fake.texts[2]);
  assert_string_equal(entry->product, "bf16 mk x bf16 nk + f32 -> bf16");
  assert_true(entry->us == 16 && entry->first_us == 20);
  assert_true(entry->m == 64 && entry->least == 33 && entry->most == 64 && entry->sms == 132);
  outcome_clear(&outcome, &fake);
}

static void keeps_the_model_in_doubt(void **state)
{
  Fake fake = {.us = {16.05, 22, 16, 19}, .rough = 4};
  Outcome outcome = tune((TuneClock){.measure = measure, .data = &fake}, 5, "64", 0);
  assert_int_equal(winner(&outcome), 0);
  outcome_clear(&outcome, &fake);
}

static void passes_over_wrong_and_rough_ones(void **state)
{
  Fake fake = {.us = {20, 0, 19, 10},
               .rough = 3}; /* the second is wrong, the fourth measured once, shortly */
  Outcome outcome = tune((TuneClock){.measure = measure, .data = &fake}, 5, "64", 0);
  assert_int_equal(winner(&outcome), 2);
  Fake first_fails = {.us = {0, 30, 20, 25}, .rough = 4};
  Outcome second = tune((TuneClock){.measure = measure, .data = &first_fails}, 5, "64", 0);
  assert_int_equal(winner(&second), 2);
  assert_true(tuned_file_entry(second.file, 0)->first_us == 20);
  Fake all_fail = {.us = {0}, .rough = 1};
  Outcome third = tune((TuneClock){.measure = measure, .data = &all_fail}, 1, "64", 0);
  assert_int_equal(tuned_file_count(third.file), 0);
  outcome_clear(&outcome, &fake);
  outcome_clear(&second, &first_fails);
  outcome_clear(&third, &all_fail);
}

static void compiles_what_it_measures(void **state)
{
  Fake fake = {.us = {20, 22, 16, 19}, .rough = 4};
  Outcome outcome = tune((TuneClock){.wants_builds = true, .measure = measure, .data = &fake}, 4, "64", 0);
  assert_int_equal(fake.n_builds, 4);
  outcome_clear(&outcome, &fake);
}

/* The kernel of each proposal is the proposal's, not the model's. */
static bool look(void *data, const TuneWork *work, TuneTime *times, GError **error)
{
  unsigned *n = data;
  for (unsigned i = 0; i < work->n; i++) {
    const Proposal *p = &g_array_index(work->product->proposals, Proposal, i);
    assert_non_null(work->builds[i]);
    json_t *facts = bench_build_facts(work->builds[i]);
    const char *kernel =
        json_string_value(json_object_get(json_array_get(json_object_get(facts, "kernels"), 0), "name"));
    g_autofree char *tile =
        g_strdup_printf("_%dx%dx", (int)p->parameters[0].value, (int)p->parameters[1].value);
    assert_non_null(strstr(kernel, tile));
    times[i].us = 1;
    *n += 1;
  }
  return true;
}

static void builds_are_the_proposals(void **state)
{
  unsigned n = 0;
  Outcome outcome = tune((TuneClock){.wants_builds = true, .measure = look, .data = &n}, 6, "64", 0);
  assert_int_equal(n, 6);
  outcome_clear(&outcome, NULL);
}

static void says_how_good_the_choice_was(void **state)
{
  Fake fake = {.us = {20, 18, 16, 17}, .rough = 4};
  Outcome outcome = tune((TuneClock){.measure = measure, .data = &fake}, 0, "64", 0);
  const json_t *choice = json_object_get(outcome.result, "choice");
  assert_int_equal(json_integer_value(json_object_get(choice, "products")), 1);
  assert_true(fabs(json_number_value(json_object_get(choice, "first")) - 0.8) < 1e-9);
  assert_true(fabs(json_number_value(json_object_get(choice, "best_of_8")) - 1) < 1e-9);
  /* what was measured can be measured again */
  Outcome again = tune(tune_recorded_clock(outcome.result), 0, "64", 0);
  assert_true(
      json_equal(json_object_get(again.result, "products"), json_object_get(outcome.result, "products")));
  Outcome other = tune(tune_recorded_clock(outcome.result), 0, "128", 0);
  assert_int_equal(tuned_file_count(other.file), 0);
  assert_null(json_object_get(json_object_get(other.result, "choice"), "first"));
  outcome_clear(&outcome, &fake);
  outcome_clear(&again, NULL);
  outcome_clear(&other, NULL);
}

static void keeps_what_gains(void **state)
{
  Fake fake = {.us = {20, 22, 16, 19}, .rough = 4};
  for (unsigned i = 0; i < 2; i++) {
    least_gain = i ? 1.26 : 1.24;
    Outcome outcome = tune((TuneClock){.measure = measure, .data = &fake}, 5, "64", 0);
    least_gain = 0;
    assert_int_equal(tuned_file_count(outcome.file), !i);
    outcome_clear(&outcome, NULL);
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(fake.texts); i++)
    g_free(fake.texts[i]);
}

static unsigned parameter(const json_t *proposal, const char *name)
{
  return (unsigned)json_integer_value(json_object_get(json_object_get(proposal, "parameters"), name));
}

/* Two that differ in columns, and in how many blocks share a tile, are of one kind. */
static void takes_one_of_each_kind(void **state)
{
  Fake fake = {.us = {20, 22, 16, 19}, .rough = 4};
  kinds = 1;
  Outcome outcome = tune((TuneClock){.measure = measure, .data = &fake}, 0, "64", 0);
  kinds = 0;
  Outcome all = tune((TuneClock){.measure = measure, .data = &fake}, 0, "64", 0);
  const json_t *some = json_object_get(json_array_get(json_object_get(outcome.result, "products"), 0),
                                       "proposals"),
               *whole =
                   json_object_get(json_array_get(json_object_get(all.result, "products"), 0), "proposals");
  static const char *const of_kind[] = {"bm", "swapped", "pingpong", "cluster_m", "cluster_n", "blocks"};
  bool shared = false;
  assert_true(json_array_size(some) > 4 && json_array_size(some) < json_array_size(whole) / 2);
  assert_true(json_equal(json_array_get(some, 0), json_array_get(whole, 0)));
  for (size_t i = 0; i < json_array_size(some); i++)
    for (size_t j = 0; j < i; j++) {
      const json_t *a = json_array_get(some, i), *b = json_array_get(some, j);
      bool differs = false;
      for (unsigned p = 0; p < G_N_ELEMENTS(of_kind); p++)
        differs |= parameter(a, of_kind[p]) != parameter(b, of_kind[p]);
      bool split = parameter(a, "split_k") > 1 || parameter(b, "split_k") > 1 || parameter(a, "slices") > 1 ||
                   parameter(b, "slices") > 1;
      shared |= split;
      assert_true(differs || split || parameter(a, "stream_k") > 1 || parameter(b, "stream_k") > 1);
    }
  assert_true(shared);
  outcome_clear(&outcome, NULL);
  outcome_clear(&all, &fake);
}

static void files_choices_by_budget(void **state)
{
  Fake fake = {.us = {20, 22, 16, 19}, .rough = 4};
  Outcome outcome = tune((TuneClock){.measure = measure, .data = &fake}, 5, "64", 112);
  assert_int_equal(tuned_file_entry(outcome.file, 0)->sms, 112);
  outcome_clear(&outcome, &fake);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_the_fastest),
      cmocka_unit_test(keeps_the_model_in_doubt),
      cmocka_unit_test(passes_over_wrong_and_rough_ones),
      cmocka_unit_test(compiles_what_it_measures),
      cmocka_unit_test(builds_are_the_proposals),
      cmocka_unit_test(says_how_good_the_choice_was),
      cmocka_unit_test(keeps_what_gains),
      cmocka_unit_test(takes_one_of_each_kind),
      cmocka_unit_test(files_choices_by_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
