#include "base/data.h"
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void write_file(const char *root, const char *relative, const char *text)
{
  g_autofree char *path = g_build_filename(root, relative, NULL);
  g_autofree char *folder = g_path_get_dirname(path);
  assert_int_equal(g_mkdir_with_parents(folder, 0700), 0);
  assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void remove_tree(const char *root)
{
  g_autoptr(GDir) folder = g_dir_open(root, 0, NULL);
  const char *name;
  while (folder && (name = g_dir_read_name(folder))) {
    g_autofree char *path = g_build_filename(root, name, NULL);
    if (g_file_test(path, G_FILE_TEST_IS_DIR))
      remove_tree(path);
    else
      g_unlink(path);
  }
  g_rmdir(root);
}

static int setup(void **state)
{
  char *root = g_dir_make_tmp("dataXXXXXX", NULL);
  *state = root;
  g_autofree char *own = g_build_filename(root, "own", NULL);
  g_autofree char *xdg = g_build_filename(root, "xdg", NULL);
  g_setenv("ADLGEN_DATA_DIR", own, TRUE);
  g_setenv("XDG_DATA_HOME", xdg, TRUE);
  return 0;
}

static int teardown(void **state)
{
  remove_tree(*state);
  g_free(*state);
  g_unsetenv("ADLGEN_DATA_DIR");
  g_unsetenv("XDG_DATA_HOME");
  return 0;
}

static void expect(const char *relative, const char *text)
{
  g_autoptr(Source) source = data_load(relative, NULL);
  assert_non_null(source);
  assert_string_equal(source->text, text);
}

static void test_order_of_places(void **state)
{
  g_autoptr(GError) error = NULL;
  assert_null(data_load("adl/gpu/none.yaml", &error));
  assert_string_equal(error->message, "no data file `adl/gpu/none.yaml`");
  write_file(*state, "xdg/adlgen/adl/gpu/none.yaml", "user");
  expect("adl/gpu/none.yaml", "user");
  write_file(*state, "own/adl/gpu/none.yaml", "own");
  expect("adl/gpu/none.yaml", "own");
  assert_true(data_exists("adl/gpu/none.yaml"));
}

static void test_embedded(void **state)
{
  g_auto(GStrv) names = data_list("adl/arch");
  assert_true(g_strv_length(names) > 0);
  g_autofree char *path = g_strconcat("adl/arch/", names[0], NULL);
  g_autoptr(Source) source = data_load(path, NULL);
  assert_true(g_str_has_prefix(source->name, "<embedded>/adl/arch/"));
  assert_int_equal(source->length, strlen(source->text));
}

static void test_list(void **state)
{
  write_file(*state, "own/adl/arch/zzz.yaml", "x");
  write_file(*state, "xdg/adlgen/adl/arch/000.yaml", "x");
  g_auto(GStrv) names = data_list("adl/arch");
  unsigned n = g_strv_length(names);
  assert_string_equal(names[0], "000.yaml");
  assert_string_equal(names[n - 1], "zzz.yaml");
  g_auto(GStrv) nothing = data_list("no/such/folder");
  assert_null(nothing[0]);
}

static void test_paths_stay_inside(void **state)
{
  write_file(*state, "secret", "x");
  assert_null(data_load("../secret", NULL));
  assert_null(data_load("/etc/passwd", NULL));
  assert_null(data_load("", NULL));
  assert_false(data_exists("adl/../../secret"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_order_of_places, setup, teardown),
      cmocka_unit_test_setup_teardown(test_embedded, setup, teardown),
      cmocka_unit_test_setup_teardown(test_list, setup, teardown),
      cmocka_unit_test_setup_teardown(test_paths_stay_inside, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
