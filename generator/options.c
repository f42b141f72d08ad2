#include "generator/options.h"

Accumulate accumulate_parse(const char *text)
{
  if (!g_strcmp0(text, "fast")) return ACCUMULATE_FAST;
  return !g_strcmp0(text, "exact") ? ACCUMULATE_EXACT : ACCUMULATE_DEFAULT;
}
