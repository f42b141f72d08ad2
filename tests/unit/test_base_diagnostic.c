#include "base/diagnostic.h"
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char *text_of(const char *source_text, unsigned line, unsigned column)
{
  g_autoptr(Source) source = source_new("gpu.yaml", source_text, strlen(source_text));
  Mark mark = {source, line, column};
  g_autoptr(GError) error = NULL;
  error_set(&error, ERROR_INPUT, &mark, "test", NULL, "wrong");
  return error_to_text(error, false);
}

static void check_text(const char *source, unsigned line, unsigned column, const char *expected)
{
  g_autofree char *text = text_of(source, line, column);
  assert_string_equal(text, expected);
}

static void test_caret(void **state)
{
  check_text("a: 1\nb: 2\n", 2, 4, "gpu.yaml:2:4: error: wrong\n  b: 2\n     ^\n");
  check_text("a: 1", 1, 5, "gpu.yaml:1:5: error: wrong\n  a: 1\n      ^\n");
  check_text("\ta: 1\r\n", 1, 2, "gpu.yaml:1:2: error: wrong\n  \ta: 1\n  \t^\n");
  check_text("\xc3\xa4\xc3\xa4: x\n", 1, 5, "gpu.yaml:1:5: error: wrong\n  \xc3\xa4\xc3\xa4: x\n      ^\n");
  check_text("\xff\xff: x\n", 1, 5, "gpu.yaml:1:5: error: wrong\n  ??: x\n      ^\n");
}

static void test_places_that_do_not_exist(void **state)
{
  check_text("a\n", 0, 0, "gpu.yaml: error: wrong\n");
  check_text("a\n", 1, 0, "gpu.yaml:1: error: wrong\n  a\n");
  check_text("a\n", 9, 1, "gpu.yaml:9:1: error: wrong\n");
}

static void test_long_line_is_cut(void **state)
{
  g_autofree char *line = g_strnfill(5000, 'x');
  line[3000 - 1] = '!';
  g_autofree char *text = text_of(line, 1, 3000);
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  assert_true(strlen(lines[1]) < 200);
  assert_int_equal(lines[1][strlen(lines[2]) - 1], '!'); /* the caret stands under the place */
}

static void test_several_diagnostics(void **state)
{
  g_autoptr(GError) error = NULL;
  error_add(&error, ERROR_UNSUPPORTED, SEVERITY_ERROR, NULL, "one", "try 2", "first %d", 1);
  error_add(&error, ERROR_INPUT, SEVERITY_NOTE, NULL, "two", NULL, "second");
  assert_int_equal(error_diagnostics(error)->len, 2);
  assert_int_equal(error_exit_code(error), 3);
  assert_string_equal(error->message, "first 1");
  g_autoptr(GError) copy = g_error_copy(error);
  g_clear_error(&error);
  g_autofree char *text = error_to_text(copy, false);
  assert_string_equal(text, "error: first 1\nhint: try 2\nnote: second\n");
  json_t *json = error_to_json(copy);
  g_autofree char *dump = json_dumps(json, JSON_COMPACT);
  json_decref(json);
  assert_string_equal(dump, "{\"version\":1,\"errors\":["
                            "{\"severity\":\"error\",\"file\":null,\"line\":null,\"column\":null,"
                            "\"message\":\"first 1\",\"hint\":\"try 2\",\"code\":\"one\"},"
                            "{\"severity\":\"note\",\"file\":null,\"line\":null,\"column\":null,"
                            "\"message\":\"second\",\"hint\":null,\"code\":\"two\"}]}");
}

static void test_endless_faults(void **state)
{
  g_autoptr(GError) error = NULL;
  for (unsigned i = 0; i < 100000; i++)
    error_add(&error, ERROR_INPUT, SEVERITY_ERROR, NULL, "x", "hint", "fault %u", i);
  const GPtrArray *diagnostics = error_diagnostics(error);
  assert_true(diagnostics->len < 1000);
  assert_string_equal(((Diagnostic *)diagnostics->pdata[diagnostics->len - 1])->message, "and more");
}

static void test_foreign_errors(void **state)
{
  g_autoptr(GError) error = g_error_new(G_FILE_ERROR, G_FILE_ERROR_NOENT, "not there");
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
  assert_null(error_diagnostics(error));
  g_autofree char *text = error_to_text(error, false);
  assert_string_equal(text, "error: not there\n");
  error_add(&error, ERROR_INPUT, SEVERITY_NOTE, NULL, "more", NULL, "more");
  assert_int_equal(error_diagnostics(error)->len, 2);
  g_autoptr(GError) option = g_error_new(G_OPTION_ERROR, G_OPTION_ERROR_FAILED, "no such option");
  assert_int_equal(error_exit_code(option), ERROR_USAGE);
}

static void test_ignored_errors(void **state)
{
  error_set(NULL, ERROR_INPUT, NULL, "x", NULL, "nobody listens");
}

static void test_source_load(void **state)
{
  g_autoptr(GError) error = NULL;
  assert_null(source_load("/does/not/exist", &error));
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
  assert_string_equal(error->message, "cannot read /does/not/exist: No such file or directory");
  g_clear_error(&error);
  assert_null(source_load("/", &error));
  assert_int_equal(error_exit_code(error), ERROR_INPUT);
  g_autofree char *path = NULL;
  int file = g_file_open_tmp("sourceXXXXXX", &path, NULL);
  g_close(file, NULL);
  g_file_set_contents(path, "a\0b", 3, NULL);
  g_autoptr(Source) source = source_load(path, NULL);
  g_unlink(path);
  assert_int_equal(source->length, 3);
  assert_memory_equal(source->text, "a\0b", 4);
}

static void test_nearest_name(void **state)
{
  const char *const names[] = {"sm_count", "warp_size", "named_barriers", "l2_bytes", NULL};
  assert_string_equal(nearest_name("sm_conut", names), "sm_count");
  assert_string_equal(nearest_name("warpsize", names), "warp_size");
  assert_string_equal(nearest_name("Named_Barriers", names), "named_barriers");
  assert_null(nearest_name("temperature", names));
  assert_null(nearest_name("x", (const char *const[]){NULL}));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_caret),
      cmocka_unit_test(test_places_that_do_not_exist),
      cmocka_unit_test(test_long_line_is_cut),
      cmocka_unit_test(test_several_diagnostics),
      cmocka_unit_test(test_endless_faults),
      cmocka_unit_test(test_foreign_errors),
      cmocka_unit_test(test_ignored_errors),
      cmocka_unit_test(test_source_load),
      cmocka_unit_test(test_nearest_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
