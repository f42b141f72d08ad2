#include "measure/bench.h"

void bench_note(BenchNote *note, void *data, const char *format, ...)
{
  va_list arguments;
  if (!note) return;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  note(text, data);
}
