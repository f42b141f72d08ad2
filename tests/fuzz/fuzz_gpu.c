/* Any text as a GPU description: refused with a message or accepted, never more than that. */
#include "adl/gpu.h"
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  g_autoptr(Source) source = source_new("fuzz.yaml", (const char *)data, size);
  g_autoptr(GError) error = NULL;
  g_autoptr(Gpu) gpu = gpu_parse(source, &error);
  g_assert(!gpu == (error != NULL));
  if (!gpu) {
    g_autofree char *text = error_to_text(error, false);
    g_assert(text);
    json_decref(error_to_json(error));
    return 0;
  }
  g_autofree char *text = gpu_to_text(gpu);
  g_assert(text);
  json_decref(gpu_to_json(gpu));
  return 0;
}
