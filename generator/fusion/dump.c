/* A fusion as text, for tests and --explain. */
#include "generator/fusion/fusion.h"

char *fusion_dump(const Fusion *fusion)
{
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < fusion->n; i++) {
    g_autofree char *operator_ = fused_dump(fusion->operators[i]);
    g_string_append(text, operator_);
  }
  for (unsigned i = 0; i < fusion->n_notes; i++)
    g_string_append_printf(text, "note: %s\n", fusion->notes[i]);
  return g_string_free(text, FALSE);
}
