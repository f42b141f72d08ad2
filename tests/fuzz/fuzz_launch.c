/* Any text as a launch file: refused with a message, or read and tried on a kernel with few instructions.
 * Files that it names are looked for in a folder that has none. */
#include "simulator/simulator.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char kernel[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n)\n{\n"
    ".reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];\n"
    "ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, %r1; st.global.u32 [%rd2], %r2; ret;\n}\n";

static void expect_error(bool ok, GError *error)
{
  g_assert(ok == !error);
  if (!error) return;
  g_free(error_to_text(error, false));
  json_decref(error_to_json(error));
  g_error_free(error);
}

/* Gigabytes are legal, but filling them is no test of the reader. */
static bool asks_for_much(const char *text, size_t size)
{
  size_t run = 0, longest = 0;
  for (size_t i = 0; i < size; i++) {
    run = g_ascii_isxdigit(text[i]) ? run + 1 : 0;
    longest = MAX(longest, run);
  }
  return longest > (g_strstr_len(text, (gssize)size, "random") ? 4 : 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (asks_for_much((const char *)data, size)) return 0;
  GError *error = NULL;
  g_autoptr(Source) text = source_new("/nowhere/fuzz.launch.json", (const char *)data, size);
  g_autoptr(SimLaunchFile) file = sim_launch_file_read(text, &error);
  expect_error(file, error);
  if (!file) return 0;
  g_autoptr(Source) source = source_new("add.ptx", kernel, strlen(kernel));
  g_autoptr(SimModule) module = sim_module_parse(source, NULL);
  SimOptions options;
  sim_options_default(&options);
  options.max_instructions = 500;
  options.timeout = 1;
  options.jobs = 1;
  SimResult result = {0};
  error = NULL;
  bool ok = sim_launch_file_run(file, module, NULL, &options, &result, &error);
  expect_error(ok, error);
  if (ok) sim_result_clear(&result);
  return 0;
}
