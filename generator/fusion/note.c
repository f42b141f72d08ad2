/* What fusion did and refused, for `--explain`: in a file of its own, since every part of fusion uses it and the
 * driver uses every part. */
#include "generator/fusion/private.h"
#include <stdarg.h>

void fuser_note(Fuser *fuser, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  const char *by = fuser->rewrite ? fuser->rewrite->name : NULL;
  g_ptr_array_add(fuser->notes, arena_printf(fuser->arena, "%s%s%s", by ? by : "", by ? ": " : "", text));
}
