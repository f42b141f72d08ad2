/* The report of a bad kernel is the same whatever the number of threads, and so are the outputs of a good
 * one. */
#include "simulator/simulator.h"
#include "simulator/sparse_copy.h"
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on
#include <string.h>

#define BLOCKS 64

#define HEAD                                                                                                 \
  ".version 8.0\n.target sm_80\n.address_size 64\n"                                                          \
  ".visible .entry k(.param .u64 a)\n{\n"                                                                    \
  "  .reg .pred %p<3>;\n  .reg .b32 %r<10>;\n  .reg .b64 %rd<6>;\n"                                          \
  "  ld.param.u64 %rd1, [a];\n  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %tid.x;\n"                            \
  "  shl.b32 %r3, %r1, 5;\n  add.u32 %r3, %r3, %r2;\n  mul.wide.u32 %rd2, %r3, 4;\n"                         \
  "  add.u64 %rd3, %rd1, %rd2;\n"

/* Every block reads what its neighbour writes; blocks from 40 on also write behind the end of the buffer. */
static const char bad[] =
    HEAD "  ld.global.u32 %r4, [%rd3];\n"
         "  xor.b32 %r5, %r3, 32;\n  mul.wide.u32 %rd4, %r5, 4;\n  add.u64 %rd4, %rd1, %rd4;\n"
         "  add.u32 %r4, %r4, 1;\n  st.global.u32 [%rd4], %r4;\n"
         "  setp.ge.u32 %p1, %r1, 40;\n  add.u64 %rd5, %rd3, 8192;\n  @%p1 st.global.u32 [%rd5], %r4;\n"
         "  ret;\n}\n";

static const char good[] = HEAD
    "  ld.global.u32 %r4, [%rd3];\n  mad.lo.u32 %r4, %r4, 3, %r1;\n  st.global.u32 [%rd3], %r4;\n  ret;\n}\n";

static uint32_t memory[BLOCKS * 32];

static char *run(const char *text, unsigned jobs)
{
  g_autoptr(Source) source = source_new("k.ptx", text, strlen(text));
  GError *error = NULL;
  g_autoptr(SimModule) module = sim_module_parse(source, &error);
  if (!module) fail_msg("%s", error->message);
  for (unsigned i = 0; i < BLOCKS * 32; i++)
    memory[i] = i;
  SimBuffer buffer = {.name = "a", .data = memory, .bytes = sizeof memory};
  SimArgument argument = {.kind = SIM_ARG_BUFFER};
  SimLaunch launch = {.grid = {BLOCKS, 1, 1}, .block = {32, 1, 1}, .buffers = &buffer, .n_buffers = 1};
  launch.arguments = &argument;
  launch.n_arguments = 1;
  SimOptions options;
  SimResult result;
  sim_options_default(&options);
  options.jobs = jobs;
  if (!sim_run(module, &launch, NULL, &options, &result, &error)) fail_msg("%s", error->message);
  char *report = sim_result_to_text(&result, module);
  if (result.n_errors != (text == bad ? 3 : 0)) fail_msg("%u faults: %s", result.n_errors, report);
  sim_result_clear(&result);
  return report;
}

static void test_report(void **unused)
{
  g_autofree char *one = run(bad, 1);
  uint32_t outputs[BLOCKS * 32];
  memcpy(outputs, memory, sizeof outputs);
  assert_non_null(strstr(one, "bounds"));
  assert_non_null(strstr(one, "race"));
  for (unsigned i = 0; i < 20; i++) {
    g_autofree char *several = run(bad, 2 + i % 3);
    assert_string_equal(several, one);
    assert_memory_equal(memory, outputs, sizeof outputs);
  }
}

static void test_outputs(void **unused)
{
  for (unsigned jobs = 1; jobs <= 4; jobs++) {
    g_autofree char *report = run(good, jobs);
    assert_string_equal(report, "");
    for (unsigned i = 0; i < BLOCKS * 32; i++)
      assert_int_equal(memory[i], 3 * i + i / 32);
  }
}

/* Pieces that were zero, that are zero still, and a last one that is no whole page. */
static void test_copy(void **unused)
{
  enum { BYTES = 5 * 4096 + 7 };
  g_autofree uint8_t *data = g_malloc0(BYTES), *want = NULL;
  for (unsigned i = 0; i < BYTES; i++)
    if (i / 4096 != 1 && i / 4096 != 3) data[i] = (uint8_t)(i * 7 + 1);
  want = g_memdup2(data, BYTES);
  SparseCopy *copy = sparse_copy_new(data, BYTES);
  sparse_copy_restore(copy, data);
  assert_memory_equal(data, want, BYTES);
  for (unsigned i = 0; i < BYTES; i++)
    if (i / 4096 != 3) data[i] ^= 0x5a;
  sparse_copy_restore(copy, data);
  assert_memory_equal(data, want, BYTES);
  sparse_copy_free(copy);
  copy = sparse_copy_new(NULL, 0);
  sparse_copy_restore(copy, NULL);
  sparse_copy_free(copy);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_report), cmocka_unit_test(test_outputs),
                                     cmocka_unit_test(test_copy)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
