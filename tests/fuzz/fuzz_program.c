/* Any text as a fused operator's program: refused with a message or accepted, printed so that it reads back, and taken
 * by a family or by none. */
#include "generator/fusion/fusion.h"
#include "generator/program/family.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(const char *text)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(Arena) arena = arena_new();
  g_autoptr(Source) source = source_new("printed", text, strlen(text));
  const Program *program = program_read(arena, source, &error);
  g_assert(program);
  g_autofree char *again = program_print(program);
  g_assert(!strcmp(text, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  g_autoptr(Arena) arena = arena_new();
  g_autoptr(Source) source = source_new("fuzz", (const char *)data, size);
  g_autoptr(GError) error = NULL, refusal = NULL;
  const Program *program = program_read(arena, source, &error);
  g_assert(!program == (error != NULL));
  if (!program) {
    g_free(error_to_text(error, false));
    return 0;
  }
  g_autofree char *text = program_print(program);
  read_back(text);
  FusedOperator *fused = family_match(program, &refusal);
  g_assert(!fused == (refusal != NULL));
  if (!fused) return 0;
  fused->name = program->name;
  g_free(fused_dump(fused));
  return 0;
}
