/* Passes on text: every tests/ir/passes/PASS/NAME.ir holds a module, the line "; ---- after", and the module
 * that the pass makes of it, as printed; a header line `gpu NAME` says for which GPU. A test is a file;
 * ADLGEN_UPDATE=1 writes what comes out into it. */
#include "ir/mechanism.h"
#include "ir/pass.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#define SEPARATOR "; ---- after\n"

static char *pass_folder(const char *pass)
{
  const char *root = g_getenv("ADLGEN_SOURCE_ROOT");
  return g_build_filename(root != NULL ? root : ".", "tests", "ir", "passes", pass, NULL);
}

static char *run_pass(const char *path, const char *text, gsize length, const IrPass *pass)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Source) source = source_new(path, text, length);
  g_autoptr(IrModule) module = ir_read(source, &error);
  /* passes count by the constants of some GPU where the text names none */
  const char *name = module != NULL && module->gpu != NULL ? module->gpu : "h100";
  g_autoptr(Gpu) gpu = module != NULL ? gpu_load(name, &error) : NULL;
  IrPassContext context = {.gpu = gpu};
  Mechanism rows[MECHANISM_COUNT];
  mechanisms_read(gpu, rows);
  if (module != NULL) {
    module->mechanisms = rows;
    module->n_mechanisms = MECHANISM_COUNT;
  }
  bool done = module != NULL && error == NULL && ir_verify(module, NULL, &error) &&
              pass->run(module, &context, &error) && ir_verify(module, pass->name, &error);
  if (done) return ir_print(module);
  g_autofree char *message = error_to_text(error, false);
  fail_msg("%s: %s", path, message);
  return NULL;
}

static bool check_file(const char *path, const IrPass *pass)
{
  g_autofree char *text = NULL;
  gsize length;
  assert_true(g_file_get_contents(path, &text, &length, NULL));
  const char *separator = strstr(text, SEPARATOR);
  gsize before = separator != NULL ? (gsize)(separator - text) : length;
  const char *expected = separator != NULL ? separator + strlen(SEPARATOR) : "";
  g_autofree char *after = run_pass(path, text, before, pass);
  if (strcmp(after, expected) == 0) return true;
  if (g_getenv("ADLGEN_UPDATE") != NULL) {
    g_autofree char *updated = g_strdup_printf("%.*s" SEPARATOR "%s", (int)before, text, after);
    return g_file_set_contents(path, updated, -1, NULL);
  }
  print_message("%s: the pass gives\n%s", path, after);
  return false;
}

static void check_pass(const char *name)
{
  unsigned n, files = 0, wrong = 0;
  const IrPass *passes = ir_pass_list(&n), *pass = NULL;
  for (unsigned i = 0; i < n; i++)
    if (strcmp(passes[i].name, name) == 0) pass = &passes[i];
  assert_non_null(pass);
  g_autofree char *folder = pass_folder(name);
  GDir *dir = g_dir_open(folder, 0, NULL);
  assert_non_null(dir);
  for (const char *file; (file = g_dir_read_name(dir)) != NULL;) {
    g_autofree char *path = g_build_filename(folder, file, NULL);
    if (!g_str_has_suffix(file, ".ir")) continue;
    wrong += !check_file(path, pass);
    files++;
  }
  g_dir_close(dir);
  assert_true(files > 0);
  assert_int_equal(wrong, 0);
}

static void test_choose_mechanisms(void **state)
{
  check_pass("choose_mechanisms");
}

static void test_choose_layouts(void **state)
{
  check_pass("choose_layouts");
}

static void test_split_roles(void **state)
{
  check_pass("split_roles");
}

static void test_load_ahead(void **state)
{
  check_pass("load_ahead");
}

static void test_overlap_launches(void **state)
{
  check_pass("overlap_launches");
}

static void test_split_instances(void **state)
{
  check_pass("split_instances");
}

static void test_load_operands(void **state)
{
  check_pass("load_operands");
}

static void test_combine_streams(void **state)
{
  check_pass("combine_streams");
}

static void test_combine_blocks(void **state)
{
  check_pass("combine_blocks");
}

static void test_place_rows(void **state)
{
  check_pass("place_rows");
}

static void test_divide_reductions(void **state)
{
  check_pass("divide_reductions");
}

static void test_reduce_clusters(void **state)
{
  check_pass("reduce_clusters");
}

static void test_overlap_products(void **state)
{
  check_pass("overlap_products");
}

static void test_overlap_widening(void **state)
{
  check_pass("overlap_widening");
}

static void test_split_loops(void **state)
{
  check_pass("split_loops");
}

static void test_write_pipelines(void **state)
{
  check_pass("write_pipelines");
}

static void test_fuse_exponents(void **state)
{
  check_pass("fuse_exponents");
}

static void test_skip_maxima(void **state)
{
  check_pass("skip_maxima");
}

static void test_skip_steps(void **state)
{
  check_pass("skip_steps");
}

static void test_skip_idle(void **state)
{
  check_pass("skip_idle");
}

static void test_skip_rescales(void **state)
{
  check_pass("skip_rescales");
}

static void test_defer_sums(void **state)
{
  check_pass("defer_sums");
}

static void test_stage_stores(void **state)
{
  check_pass("stage_stores");
}

static void test_write_tile_pipelines(void **state)
{
  check_pass("write_tile_pipelines");
}

static void test_defer_stores(void **state)
{
  check_pass("defer_stores");
}

static void test_widen_accesses(void **state)
{
  check_pass("widen_accesses");
}

static void test_hoist_loads(void **state)
{
  check_pass("hoist_loads");
}

static void test_derive_barriers(void **state)
{
  check_pass("derive_barriers");
}

static void test_derive_waits(void **state)
{
  check_pass("derive_waits");
}

static void test_overlap_sums(void **state)
{
  check_pass("overlap_sums");
}

static void test_pipeline_fragments(void **state)
{
  check_pass("pipeline_fragments");
}

static void test_overlap_tiles(void **state)
{
  check_pass("overlap_tiles");
}

static void test_clip_copies(void **state)
{
  check_pass("clip_copies");
}

static void test_spread_loads(void **state)
{
  check_pass("spread_loads");
}

static void test_allocate_resources(void **state)
{
  check_pass("allocate_resources");
}

static void test_budget_registers(void **state)
{
  check_pass("budget_registers");
}

static void test_induce_addresses(void **state)
{
  check_pass("induce_addresses");
}

static void test_fold_constants(void **state)
{
  check_pass("fold_constants");
}

static void test_remove_dead_code(void **state)
{
  check_pass("remove_dead_code");
}

static void test_shorten_live_ranges(void **state)
{
  check_pass("shorten_live_ranges");
}

static void test_join_loads(void **state)
{
  check_pass("join_loads");
}

static void test_lead_loads(void **state)
{
  check_pass("lead_loads");
}

static void test_pace_results(void **state)
{
  check_pass("pace_results");
}

static void test_lower(void **state)
{
  check_pass("lower");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choose_mechanisms),
      cmocka_unit_test(test_choose_layouts),
      cmocka_unit_test(test_split_roles),
      cmocka_unit_test(test_split_instances),
      cmocka_unit_test(test_load_operands),
      cmocka_unit_test(test_overlap_launches),
      cmocka_unit_test(test_derive_waits),
      cmocka_unit_test(test_overlap_sums),
      cmocka_unit_test(test_pipeline_fragments),
      cmocka_unit_test(test_overlap_tiles),
      cmocka_unit_test(test_combine_blocks),
      cmocka_unit_test(test_combine_streams),
      cmocka_unit_test(test_place_rows),
      cmocka_unit_test(test_divide_reductions),
      cmocka_unit_test(test_reduce_clusters),
      cmocka_unit_test(test_overlap_products),
      cmocka_unit_test(test_overlap_widening),
      cmocka_unit_test(test_write_pipelines),
      cmocka_unit_test(test_split_loops),
      cmocka_unit_test(test_fuse_exponents),
      cmocka_unit_test(test_defer_sums),
      cmocka_unit_test(test_skip_maxima),
      cmocka_unit_test(test_skip_rescales),
      cmocka_unit_test(test_stage_stores),
      cmocka_unit_test(test_defer_stores),
      cmocka_unit_test(test_write_tile_pipelines),
      cmocka_unit_test(test_widen_accesses),
      cmocka_unit_test(test_hoist_loads),
      cmocka_unit_test(test_allocate_resources),
      cmocka_unit_test(test_budget_registers),
      cmocka_unit_test(test_lower),
      cmocka_unit_test(test_induce_addresses),
      cmocka_unit_test(test_fold_constants),
      cmocka_unit_test(test_remove_dead_code),
      cmocka_unit_test(test_shorten_live_ranges),
      cmocka_unit_test(test_join_loads),
      cmocka_unit_test(test_lead_loads),
      cmocka_unit_test(test_pace_results),
      cmocka_unit_test(test_clip_copies),
      cmocka_unit_test(test_spread_loads),
      cmocka_unit_test(test_derive_barriers),
      cmocka_unit_test(test_load_ahead),
      cmocka_unit_test(test_skip_steps),
      cmocka_unit_test(test_skip_idle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
