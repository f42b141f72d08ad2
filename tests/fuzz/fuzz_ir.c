/* Any text as IR: refused with a message, or read, verified, instantiated and printed; what is printed reads
 * back and prints the same. */
#include "ir/ir.h"
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

static void instantiate(IrModule *module)
{
  GError *error = NULL;
  bool ok = ir_instantiate(module, NULL, &error);
  expect_error(ok, error);
  if (!ok) return;
  g_free(ir_print(module));
  error = NULL;
  ok = ir_verify(module, NULL, &error);
  expect_error(ok, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  g_autoptr(Source) source = source_new("fuzz.ir", (const char *)data, size);
  GError *error = NULL;
  g_autoptr(IrModule) module = ir_read(source, &error);
  expect_error(module, error);
  if (!module) return 0;
  error = NULL;
  bool legal = ir_verify(module, NULL, &error);
  expect_error(legal, error);

  g_autofree char *text = ir_print(module);
  g_autoptr(Source) printed = source_new("printed.ir", text, strlen(text));
  error = NULL;
  g_autoptr(IrModule) again = ir_read(printed, &error);
  if (!again) g_error("what was printed does not read back: %s\n%s", error->message, text);
  g_autofree char *twice = ir_print(again);
  if (strcmp(text, twice)) g_error("printing is not stable:\n%s\n%s", text, twice);

  g_autoptr(IrModule) copy = ir_module_clone(module);
  g_autofree char *copied = ir_print(copy);
  g_assert_cmpstr(text, ==, copied);
  if (legal) instantiate(copy);
  return 0;
}
