/* Any text as PTX: refused with a message, or read, decoded and, if it is small, run with few instructions.
 */
#include "simulator/simulator.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every message is made, as a user would see it. */
static void expect_error(bool ok, GError *error)
{
  g_assert(ok == !error);
  if (!error) return;
  g_free(error_to_text(error, false));
  json_decref(error_to_json(error));
  g_error_free(error);
}

static void run(const SimModule *module)
{
  uint32_t memory[64] = {0};
  SimBuffer buffer = {.name = "m", .data = memory, .bytes = sizeof memory};
  SimArgument arguments[2] = {{.kind = SIM_ARG_BUFFER}, {.kind = SIM_ARG_BUFFER, .offset = 64}};
  SimLaunch launch = {.grid = {2, 1, 1}, .block = {40, 1, 1}, .cluster = {1, 1, 1}, .shared = 256};
  launch.buffers = &buffer;
  launch.n_buffers = 1;
  launch.arguments = arguments;
  SimOptions options;
  sim_options_default(&options);
  options.max_instructions = 2000;
  options.timeout = 1;
  options.jobs = 1;
  for (launch.n_arguments = 0; launch.n_arguments < 3; launch.n_arguments++) {
    SimResult result = {0};
    GError *error = NULL;
    bool ok = sim_run(module, &launch, NULL, &options, &result, &error);
    expect_error(ok, error);
    if (!ok) continue;
    g_free(sim_result_to_text(&result, module));
    json_decref(sim_result_to_json(&result, module));
    sim_result_clear(&result);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  g_autoptr(Source) source = source_new("fuzz.ptx", (const char *)data, size);
  GError *error = NULL;
  g_autoptr(SimModule) module = sim_module_parse(source, &error);
  expect_error(module, error);
  if (!module) return 0;
  error = NULL;
  bool known = sim_module_check(module, NULL, &error);
  expect_error(known, error);
  if (known) run(module);
  return 0;
}
