#include "runtime/assembly_queue.h"
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A stand-in for the assembler, beside which files lie: texts that say "slow" add a line to `began` and end
 * when there is `go`. */
static const char fake_tool[] =
    "#!/bin/sh\n"
    "here=$(dirname \"$0\")\n"
    "case \"$1\" in\n"
    "--version) echo 'release 12.9, V12.9.86';;\n"
    "--help) echo \"'sm_90a'\";;\n"
    "*) if grep -q bad kernel.ptx; then echo 'ptxas kernel.ptx, line 1; error   : no'; exit 255; fi\n"
    "   if grep -q slow kernel.ptx; then\n"
    "     echo began >> \"$here/began\"\n"
    "     until test -e \"$here/go\"; do sleep 0.01; done\n"
    "   fi\n"
    "   cp kernel.ptx kernel.cubin;;\n"
    "esac\n";

typedef struct Tool {
  char *folder, *path;
  Assembler *assembler;
} Tool;

static Tool make_tool(void)
{
  GError *error = NULL;
  Tool tool = {.folder = g_dir_make_tmp("adlgen-test-XXXXXX", NULL)};
  tool.path = g_build_filename(tool.folder, "ptxas", NULL);
  assert_true(g_file_set_contents(tool.path, fake_tool, -1, NULL));
  assert_int_equal(g_chmod(tool.path, 0755), 0);
  tool.assembler = assembler_find(tool.path, NULL, &error);
  assert_non_null(tool.assembler);
  return tool;
}

static void remove_tool(Tool *tool)
{
  static const char *const files[] = {"ptxas", "began", "go"};
  for (unsigned i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *path = g_build_filename(tool->folder, files[i], NULL);
    g_remove(path);
  }
  assert_int_equal(g_rmdir(tool->folder), 0);
  assembler_free(tool->assembler);
  g_free(tool->folder);
  g_free(tool->path);
}

/* Slow texts that have been begun. */
static unsigned count_begun(const Tool *tool)
{
  g_autofree char *path = g_build_filename(tool->folder, "began", NULL), *text = NULL;
  if (!g_file_get_contents(path, &text, NULL, NULL)) return 0;
  unsigned n = 0;
  for (const char *c = text; *c; c++)
    n += *c == '\n';
  return n;
}

static void let_go(const Tool *tool)
{
  g_autofree char *path = g_build_filename(tool->folder, "go", NULL);
  assert_true(g_file_set_contents(path, "", 0, NULL));
}

#define PATIENCE 30000 /* milliseconds, before a test that would never end fails */

static bool wait_for_begun(const Tool *tool, unsigned n)
{
  for (unsigned i = 0; i < PATIENCE && count_begun(tool) < n; i++)
    g_usleep(1000);
  return count_begun(tool) == n;
}

static bool wait_for_assembled(AssemblyQueue *queue, unsigned n)
{
  for (unsigned i = 0; i < PATIENCE && assembly_queue_assembled(queue) < n; i++)
    g_usleep(1000);
  return assembly_queue_assembled(queue) == n;
}

static void expect_code(AssemblyQueue *queue, unsigned kernel, const char *text)
{
  GError *error = NULL;
  g_autoptr(GBytes) code = assembly_queue_take(queue, kernel, &error);
  assert_non_null(code);
  gsize size;
  const char *data = g_bytes_get_data(code, &size);
  assert_int_equal(size, strlen(text));
  assert_memory_equal(data, text, size);
}

/* What is wanted does not wait for what is assembled ahead; and only what is wanted takes that place. */
static void test_wanted_has_threads(void **state)
{
  Tool tool = make_tool();
  AssemblyQueue *queue = assembly_queue_new(tool.assembler, "sm_90a", 2);
  assembly_queue_add(queue, "a", "slow a", NULL);
  assembly_queue_add(queue, "b", "slow b", NULL);
  assembly_queue_add(queue, "c", "c", NULL);
  assembly_queue_start(queue, NULL, NULL, NULL);
  assert_true(wait_for_begun(&tool, 1));
  assembly_queue_want(queue, 2);
  assert_true(wait_for_assembled(queue, 1));
  expect_code(queue, 2, "c");
  assert_int_equal(count_begun(&tool), 1);
  let_go(&tool);
  expect_code(queue, 0, "slow a");
  expect_code(queue, 1, "slow b");
  assert_true(wait_for_assembled(queue, 3));
  assembly_queue_free(queue);
  remove_tool(&tool);
}

/* Whoever takes what nobody has begun assembles it himself; a kernel whose code is there costs nothing. */
static void test_take(void **state)
{
  Tool tool = make_tool();
  g_autoptr(GBytes) known = g_bytes_new_static("known", 5);
  AssemblyQueue *queue = assembly_queue_new(tool.assembler, "sm_90a", 1);
  assembly_queue_add(queue, "a", "a", NULL);
  assembly_queue_add(queue, "b", NULL, known);
  assembly_queue_add(queue, "c", "bad", NULL);
  expect_code(queue, 1, "known");
  expect_code(queue, 0, "a");
  expect_code(queue, 0, "a");
  assert_int_equal(assembly_queue_assembled(queue), 1);
  for (unsigned i = 0; i < 2; i++) { /* the error stays */
    g_autoptr(GError) error = NULL;
    assert_null(assembly_queue_take(queue, 2, &error));
    if (!strstr(error->message, "line 1; error   : no")) fail_msg("%s", error->message);
  }
  assembly_queue_free(queue);
  remove_tool(&tool);
}

/* Freeing stops what runs. */
static void test_stop(void **state)
{
  Tool tool = make_tool();
  AssemblyQueue *queue = assembly_queue_new(tool.assembler, "sm_90a", 4);
  for (unsigned i = 0; i < 6; i++)
    assembly_queue_add(queue, "a", "slow", NULL);
  assembly_queue_start(queue, NULL, NULL, NULL);
  assert_true(wait_for_begun(&tool, 2));
  assembly_queue_free(queue);
  assert_int_equal(count_begun(&tool), 2);
  remove_tool(&tool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wanted_has_threads),
      cmocka_unit_test(test_take),
      cmocka_unit_test(test_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
