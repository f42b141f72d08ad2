/* What passes say of their work, for `--explain`: in a file of its own, since every pass uses it and the pass list
 * uses every pass. */
#include "ir/pass.h"
#include <stdarg.h>

void ir_remark(const IrPassContext *context, const char *format, ...)
{
  if (!context->remarks) return;
  va_list arguments;
  va_start(arguments, format);
  g_string_append_vprintf(context->remarks, format, arguments);
  va_end(arguments);
  g_string_append_c(context->remarks, '\n');
}
