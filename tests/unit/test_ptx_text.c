/* Whole kernels: tests/backends/ptx/NAME.GPU.ptx is what NAME.ir becomes on that GPU, NAME.GPU.txt the error
 * it gives. A test is a pair of files; ADLGEN_UPDATE=1 writes what comes out. */
#include "backends/ptx/ptx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

static char *emit(const char *folder, const char *name, const char *gpu_name)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *file = g_strconcat(name, ".ir", NULL), *path = g_build_filename(folder, file, NULL),
                  *text = NULL;
  gsize length;
  g_autoptr(Gpu) gpu = gpu_load(gpu_name, &error);
  assert_true(g_file_get_contents(path, &text, &length, NULL));
  g_autoptr(Source) source = source_new(file, text, length);
  g_autoptr(IrModule) module = gpu != NULL ? ir_read(source, &error) : NULL;
  char *ptx = module != NULL && ir_verify(module, NULL, &error) ? ptx_emit(module, gpu, &error) : NULL;
  return ptx != NULL ? ptx : error_to_text(error, false);
}

static bool check_file(const char *folder, const char *file)
{
  g_auto(GStrv) parts = g_strsplit(file, ".", 3);
  g_autofree char *path = g_build_filename(folder, file, NULL), *expected = NULL;
  g_autofree char *got = emit(folder, parts[0], parts[1]);
  assert_true(g_file_get_contents(path, &expected, NULL, NULL));
  if (strcmp(got, expected) == 0) return true;
  if (g_getenv("ADLGEN_UPDATE") != NULL) return g_file_set_contents(path, got, -1, NULL);
  print_message("%s: now\n%s", file, got);
  return false;
}

static void test_files(void **state)
{
  const char *root = g_getenv("ADLGEN_SOURCE_ROOT");
  g_autofree char *folder = g_build_filename(root != NULL ? root : ".", "tests", "backends", "ptx", NULL);
  GDir *dir = g_dir_open(folder, 0, NULL);
  unsigned files = 0, wrong = 0;
  assert_non_null(dir);
  for (const char *file; (file = g_dir_read_name(dir)) != NULL;) {
    if (!g_str_has_suffix(file, ".ptx") && !g_str_has_suffix(file, ".txt")) continue;
    wrong += !check_file(folder, file);
    files++;
  }
  g_dir_close(dir);
  assert_true(files > 0);
  assert_int_equal(wrong, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
