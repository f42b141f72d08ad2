/* Bank conflicts and sectors: every access of counts.ptx says in a comment what one execution should cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "simulator/simulator.h"

typedef struct Expected {
  unsigned wavefronts, least_wavefronts, sectors, least_sectors;
} Expected;

/* "// 4/4 16/16", "// 4/4": the first pair is of shared memory unless the access is global or generic. */
static bool read_expected(const char *line, Expected *e)
{
  *e = (Expected){0};
  const char *comment = strstr(line, "; // ");
  if (!comment) {
    comment = strstr(line, "// ");
    if (!comment || comment - line < 40) return false;
    comment -= 2;
  }
  unsigned first, first_least, second, second_least;
  int n = sscanf(comment + 5, "%u/%u %u/%u", &first, &first_least, &second, &second_least);
  if (n < 2) return false;
  bool shared = strstr(line, "shared") != NULL;
  if (shared) {
    e->wavefronts = first;
    e->least_wavefronts = first_least;
  } else {
    e->sectors = first;
    e->least_sectors = first_least;
  }
  if (n == 4) {
    e->sectors = second;
    e->least_sectors = second_least;
  }
  return true;
}

static void run(SimResult *result, bool counts, const char *gpu_name, GError **error)
{
  g_autoptr(Source) source = source_load(TEST_FOLDER "/counts.ptx", error);
  assert_non_null(source);
  g_autoptr(SimModule) module = sim_module_parse(source, error);
  assert_non_null(module);
  g_autoptr(SimLaunchFile) launch = sim_launch_file_load(TEST_FOLDER "/counts.launch.json", error);
  assert_non_null(launch);
  g_autoptr(Gpu) gpu = gpu_name ? gpu_load(gpu_name, error) : NULL;
  SimOptions options;
  sim_options_default(&options);
  options.counts = counts;
  options.schedules = 3; /* counted once nevertheless */
  bool ok = sim_run(module, sim_launch_file_launch(launch), gpu, &options, result, error);
  assert_int_equal(ok, *error == NULL);
}

static const SimCount *count_of(const SimResult *result, unsigned line)
{
  for (unsigned i = 0; i < result->n_counts; i++)
    if (result->counts[i].line == line) return &result->counts[i];
  return NULL;
}

static void every_access(void **state)
{
  SimResult result;
  GError *error = NULL;
  run(&result, true, "h100", &error);
  assert_null(error);
  g_autofree char *text = NULL;
  assert_true(g_file_get_contents(TEST_FOLDER "/counts.ptx", &text, NULL, NULL));
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  unsigned expected_lines = 0;
  for (unsigned i = 0; lines[i]; i++) {
    Expected e;
    const SimCount *c = count_of(&result, i + 1);
    if (!read_expected(lines[i], &e)) {
      assert_null(c);
      continue;
    }
    expected_lines++;
    assert_non_null(c);
    if (c->wavefronts != e.wavefronts * c->executions ||
        c->least_wavefronts != e.least_wavefronts * c->executions ||
        c->sectors != e.sectors * c->executions || c->least_sectors != e.least_sectors * c->executions)
      fail_msg("line %u: %s\n  %g/%g wavefronts, %g/%g sectors", i + 1, lines[i],
               (double)c->wavefronts / (double)c->executions,
               (double)c->least_wavefronts / (double)c->executions,
               (double)c->sectors / (double)c->executions, (double)c->least_sectors / (double)c->executions);
  }
  assert_int_equal(expected_lines, 28);
  assert_int_equal(result.n_counts, 28);
  assert_int_equal(count_of(&result, 25)->executions, 16);
  assert_int_equal(result.n_errors, 0);
  sim_result_clear(&result);
}

/* What costs more than it must is a finding, once per instruction. */
static void findings(void **state)
{
  SimResult result;
  GError *error = NULL;
  run(&result, true, "h100", &error);
  assert_null(error);
  unsigned banks = 0, sectors = 0;
  for (unsigned i = 0; i < result.n_faults; i++) {
    assert_true(result.faults[i].finding);
    banks += result.faults[i].kind == SIM_FAULT_BANK;
    sectors += result.faults[i].kind == SIM_FAULT_SECTOR;
  }
  assert_int_equal(banks, 10);
  assert_int_equal(sectors, 4);
  assert_int_equal(result.n_faults, 14);
  sim_result_clear(&result);
}

static void without(void **state)
{
  SimResult result;
  GError *error = NULL;
  run(&result, false, "h100", &error);
  assert_null(error);
  assert_int_equal(result.n_counts, 0);
  assert_int_equal(result.n_faults, 0);
  sim_result_clear(&result);
  run(&result, true, NULL, &error);
  assert_non_null(error);
  assert_string_equal(error->message, "counting needs a GPU, whose description has its banks and sectors");
  g_error_free(error);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_access),
      cmocka_unit_test(findings),
      cmocka_unit_test(without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
