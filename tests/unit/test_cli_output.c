#include "base/output.h"
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <utime.h>

#include <cmocka.h>

static char *make_folder(void)
{
  return g_dir_make_tmp("adlgen-test-XXXXXX", NULL);
}

static char *below(const char *folder, const char *name)
{
  return g_build_filename(folder, name, NULL);
}

static void put_file(const char *folder, const char *name, const char *text)
{
  g_autofree char *path = below(folder, name);
  assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void check_file(const char *folder, const char *name, const char *expected)
{
  g_autofree char *path = below(folder, name), *text = NULL;
  bool there = g_file_get_contents(path, &text, NULL, NULL);
  assert_int_equal(there, expected != NULL);
  if (there) assert_string_equal(text, expected);
}

static unsigned count_names(const char *folder)
{
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  unsigned n = 0;
  while (g_dir_read_name(dir))
    n++;
  return n;
}

static void test_new_folder_with_its_parents(void **state)
{
  g_autofree char *folder = make_folder(), *out = below(folder, "a/b/out");
  g_autoptr(Output) output = output_new(out, NULL);
  assert_true(output_write_text(output, "gpu/kernel.ptx", "text", NULL));
  g_autofree char *parent = below(folder, "a");
  assert_false(g_file_test(parent, G_FILE_TEST_EXISTS));
  assert_true(output_commit(output, NULL));
  check_file(out, "gpu/kernel.ptx", "text");
  remove_folder(folder);
}

static void test_abandoned(void **state)
{
  g_autofree char *folder = make_folder(), *out = below(folder, "out");
  Output *output = output_new(out, NULL);
  assert_true(output_write_text(output, "gpu/kernel.ptx", "text", NULL));
  output_free(output);
  assert_int_equal(count_names(folder), 0);
  remove_folder(folder);
}

static void test_old_files(void **state)
{
  g_autofree char *out = make_folder();
  put_file(out, "mine", "stays");
  put_file(out, "plan.json", "old");
  Output *output = output_new(out, NULL);
  assert_true(output_write_text(output, "plan.json", "new", NULL));
  check_file(out, "plan.json", "old");
  assert_true(output_commit(output, NULL));
  output_free(output);
  check_file(out, "plan.json", "new");
  check_file(out, "mine", "stays");
  assert_int_equal(count_names(out), 2);
  remove_folder(out);
}

static void test_same_files_stay(void **state)
{
  g_autofree char *out = make_folder(), *path = below(out, "gpu/plan.json");
  g_autofree char *gpu = below(out, "gpu");
  assert_int_equal(g_mkdir(gpu, 0755), 0);
  put_file(out, "gpu/plan.json", "same");
  GStatBuf before, after;
  assert_int_equal(g_utime(path, &(struct utimbuf){1000, 1000}), 0);
  assert_int_equal(g_stat(path, &before), 0);
  g_autoptr(Output) output = output_new(out, NULL);
  assert_true(output_write_text(output, "gpu/plan.json", "same", NULL));
  assert_true(output_write_text(output, "gpu/kernel.ptx", "new", NULL));
  assert_int_equal(g_stat(path, &after), 0);
  assert_int_equal(after.st_mtime, 1000);
  assert_true(output_commit(output, NULL));
  assert_int_equal(g_stat(path, &after), 0);
  assert_true(after.st_ino == before.st_ino && after.st_mtime > 1000);
  check_file(out, "gpu/plan.json", "same");
  check_file(out, "gpu/kernel.ptx", "new");
  remove_folder(out);
}

static void test_failure_undoes_everything(void **state)
{
  g_autofree char *out = make_folder(), *in_the_way = below(out, "gpu/z.ptx");
  put_file(out, "a", "old");
  assert_int_equal(g_mkdir_with_parents(in_the_way, 0755), 0);
  Output *output = output_new(out, NULL);
  assert_true(output_write_text(output, "a", "new", NULL));
  assert_true(output_write_text(output, "b/c", "new", NULL));
  assert_true(output_write_text(output, "gpu/z.ptx", "new", NULL));
  g_autoptr(GError) error = NULL;
  assert_false(output_commit(output, &error));
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
  output_free(output);
  check_file(out, "a", "old");
  check_file(out, "b/c", NULL);
  assert_int_equal(count_names(out), 2);
  remove_folder(out);
}

static void test_not_a_folder(void **state)
{
  g_autofree char *folder = make_folder(), *file = below(folder, "file"), *under = below(folder, "file/out");
  put_file(folder, "file", "text");
  g_autoptr(GError) error = NULL, below_error = NULL;
  assert_null(output_new(file, &error));
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
  assert_null(output_new(under, &below_error));
  assert_int_equal(error_exit_code(below_error), ERROR_INPUT);
  remove_folder(folder);
}

static void test_links_are_not_followed(void **state)
{
  g_autofree char *kept = make_folder(), *folder = make_folder(), *link = below(folder, "link");
  put_file(kept, "file", "text");
  g_autoptr(GFile) at = g_file_new_for_path(link);
  assert_true(g_file_make_symbolic_link(at, kept, NULL, NULL));
  remove_folder(folder);
  check_file(kept, "file", "text");
  remove_folder(kept);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_new_folder_with_its_parents),
      cmocka_unit_test(test_abandoned),
      cmocka_unit_test(test_old_files),
      cmocka_unit_test(test_same_files_stay),
      cmocka_unit_test(test_failure_undoes_everything),
      cmocka_unit_test(test_not_a_folder),
      cmocka_unit_test(test_links_are_not_followed),
  };
  return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
