#include "runtime/assembler.h"
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A stand-in for the tool: prints what a release prints, and refuses texts that say "bad". */
static const char fake_tool[] =
    "#!/bin/sh\n"
    "case \"$1\" in\n"
    "--version) echo 'release 12.9, V12.9.86';;\n"
    "--help) echo \"'compute_80','sm_80','sm_100','sm_90','sm_90a','sm_80'\";;\n"
    "*) if test $3 = sm_120; then echo \"ptxas fatal   : Value 'sm_120' is not defined\"; exit 1; fi\n"
    "   if grep -q bad kernel.ptx; then echo 'ptxas kernel.ptx, line 1; error   : no'; exit 255; fi\n"
    "   echo \"ptxas info    : Compiling entry function 'k' for 'sm_90a'\"\n"
    "   echo 'ptxas info    : Used 8 registers, used 0 barriers'\n"
    "   cp kernel.ptx kernel.cubin;;\n"
    "esac\n";

static char *make_tool(char **folder)
{
  *folder = g_dir_make_tmp("adlgen-test-XXXXXX", NULL);
  char *path = g_build_filename(*folder, "ptxas", NULL);
  assert_true(g_file_set_contents(path, fake_tool, -1, NULL));
  assert_int_equal(g_chmod(path, 0755), 0);
  return path;
}

static void remove_tool(const char *folder, const char *path)
{
  g_remove(path);
  g_rmdir(folder);
}

static Assembly *empty_assembly(void)
{
  Assembly *assembly = g_new0(Assembly, 1);
  assembly->entries = g_ptr_array_new_with_free_func(NULL);
  assembly->findings = g_ptr_array_new_with_free_func(g_free);
  return assembly;
}

static void test_log(void **state)
{
  static const char log[] =
      "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine it.\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_90a'\n"
      "ptxas info    : Function properties for second\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 4 registers, used 0 barriers\n"
      "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
      "ptxas info    : Function properties for first\n"
      "    256 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 10 registers, used 1 barriers, 256 bytes cumulative stack size, 16 bytes smem, "
      "360 bytes cmem[0]\n";
  g_autoptr(Assembly) assembly = empty_assembly();
  assembly_read_log(assembly, log);
  assert_int_equal(assembly->entries->len, 2);
  const AssembledEntry *first = assembly_entry(assembly, "first");
  assert_ptr_equal(first, assembly->entries->pdata[0]);
  assert_int_equal(first->registers, 10);
  assert_int_equal(first->barriers, 1);
  assert_int_equal(first->stack, 256);
  assert_int_equal(first->spill_stores, 8);
  assert_int_equal(first->spill_loads, 12);
  assert_int_equal(first->shared, 16);
  assert_int_equal(first->constant, 360);
  assert_int_equal(assembly_entry(assembly, "second")->registers, 4);
  assert_null(assembly_entry(assembly, "third"));
  assert_int_equal(assembly->findings->len, 2);
  assert_string_equal(assembly->findings->pdata[0],
                      "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine it.");
  assert_string_equal(assembly->findings->pdata[1], "first: spills, 8 bytes stored, 12 bytes loaded");
  for (guint i = 0; i < assembly->entries->len; i++) {
    AssembledEntry *entry = assembly->entries->pdata[i];
    g_free(entry->name);
    g_free(entry);
  }
}

static void test_tool(void **state)
{
  g_autofree char *folder = NULL;
  g_autofree char *path = make_tool(&folder);
  g_autoptr(GError) error = NULL;
  g_autoptr(Assembler) assembler = assembler_find(path, NULL, &error);
  assert_null(error);
  assert_string_equal(assembler->version, "12.9.86");
  assert_string_equal(assembler->origin, "--ptxas");
  assert_null(assembler_newest_target(assembler)); /* it was not asked */
  g_autoptr(Assembler) asked = assembler_search(path, NULL, &error);
  assert_null(error);
  assert_string_equal(assembler_newest_target(asked), "sm_100");
  assert_int_equal(g_strv_length(asked->targets), 4);

  AssemblyJob jobs[] = {{"one", "good", "sm_90a", NULL, NULL},
                        {"two", "bad", "sm_90a", NULL, NULL},
                        {"three", "good", "sm_120", NULL, NULL}};
  assert_int_equal(assembler_run_all(assembler, jobs, 3, 2, NULL, NULL), 2);
  assert_null(jobs[0].error);
  assert_int_equal(assembly_entry(jobs[0].result, "k")->registers, 8);
  assert_int_equal(g_bytes_get_size(jobs[0].result->cubin), 4);
  assert_int_equal(error_exit_code(jobs[1].error), ERROR_INTERNAL);
  assert_non_null(strstr(jobs[1].error->message, "line 1; error   : no"));
  assert_int_equal(error_exit_code(jobs[2].error), ERROR_MISSING_TOOL);
  assert_non_null(strstr(jobs[2].error->message, "its newest target is sm_100"));
  for (unsigned i = 0; i < 3; i++) {
    assembly_free(jobs[i].result);
    g_clear_error(&jobs[i].error);
  }
  remove_tool(folder, path);
}

static void test_named_tool_is_not_replaced(void **state)
{
  g_autoptr(GError) error = NULL;
  assert_null(assembler_find("/does/not/exist", NULL, &error));
  assert_int_equal(error_exit_code(error), ERROR_MISSING_TOOL);
  assert_string_equal(error->message, "--ptxas names /does/not/exist, which is not a program");
}

static void test_something_else(void **state)
{
  g_autoptr(GError) error = NULL;
  assert_null(assembler_find("/bin/true", NULL, &error));
  assert_int_equal(error_exit_code(error), ERROR_MISSING_TOOL);
}

static void test_private_copy(void **state)
{
  g_autofree char *folder = NULL;
  g_autofree char *path = make_tool(&folder);
  g_autofree char *bin = g_build_filename(folder, ".deps", "wheel", "nvidia", "nvcc", "bin", NULL);
  g_autofree char *copy = g_build_filename(bin, "ptxas", NULL);
  g_autofree char *near = g_build_filename(folder, "build", "cli", NULL);
  assert_int_equal(g_mkdir_with_parents(bin, 0755), 0);
  assert_int_equal(g_rename(path, copy), 0);
  g_autoptr(Assembler) assembler = assembler_search(NULL, near, NULL);
  const AssemblerPlace *last = assembler->tried->pdata[assembler->tried->len - 1];
  assert_string_equal(last->origin, "private copy");
  assert_string_equal(last->path, copy);
  assert_true(last->found);
  g_remove(copy);
  for (unsigned i = 0; i < 5; i++) {
    g_rmdir(bin);
    char *parent = g_path_get_dirname(bin);
    g_free(bin);
    bin = parent;
  }
  g_rmdir(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_log),
      cmocka_unit_test(test_tool),
      cmocka_unit_test(test_named_tool_is_not_replaced),
      cmocka_unit_test(test_something_else),
      cmocka_unit_test(test_private_copy),
  };
  return cmocka_run_group_tests_name("assembler", tests, NULL, NULL);
}
