/* Lines of PTX in columns: guard, mnemonic, operands. Long register lists go on in the operand column. */
#include "backends/ptx/internal.h"
#include <stdarg.h>
#include <string.h>

#define GUARD_COLUMN    4
#define MNEMONIC_COLUMN 12
#define OPERAND_COLUMN  36
#define LONG_MNEMONIC   48
#define LAST_COLUMN     110

static void pad(GString *out, gsize line_start, gsize column)
{
  static const char spaces[] = "                                                "; /* as many as any column */
  G_STATIC_ASSERT(sizeof spaces > LONG_MNEMONIC && LONG_MNEMONIC > OPERAND_COLUMN);
  gsize wanted = line_start + column;
  if (out->len < wanted) text_put(out, spaces, wanted - out->len);
}

/* Appends the operands, broken after a comma where the line would become too long. */
static void append_operands(GString *out, gsize line_start, const char *operands)
{
  gsize indent = MIN(out->len - line_start, OPERAND_COLUMN);
  for (gsize left = strlen(operands); left > 0;) {
    gsize room = LAST_COLUMN - MIN(out->len - line_start, (gsize)LAST_COLUMN - 20);
    gsize length = left;
    if (length > room) {
      gsize cut = room;
      while (cut > 0 && !(operands[cut] == ' ' && operands[cut - 1] == ','))
        cut--;
      if (cut > 0) length = cut;
    }
    text_put(out, operands, length);
    for (operands += length, left -= length; *operands == ' '; left--)
      operands++;
    if (left == 0) break;
    text_put(out, "\n", 1);
    line_start = out->len;
    pad(out, line_start, indent);
  }
}

void text_line(GString *out, const char *guard, const char *instruction)
{
  gsize start = out->len;
  pad(out, start, GUARD_COLUMN);
  if (*instruction == '@') { /* guarded by the row itself */
    const char *end = strchr(instruction, ' ');
    text_put(out, instruction, (size_t)(end - instruction));
    instruction = end + 1;
  } else {
    text_put(out, guard, strlen(guard));
  }
  if (out->len - start > GUARD_COLUMN) text_put(out, " ", 1);
  pad(out, start, MNEMONIC_COLUMN);
  const char *space = strchr(instruction, ' ');
  if (space == NULL) {
    text_put(out, instruction, strlen(instruction));
  } else {
    text_put(out, instruction, (size_t)(space - instruction));
    if (out->len - start > LONG_MNEMONIC && out->len - start + strlen(space) > LAST_COLUMN) {
      text_put(out, "\n", 1); /* the operands get lines of their own */
      start = out->len;
    } else {
      text_put(out, " ", 1);
    }
    pad(out, start, OPERAND_COLUMN);
    append_operands(out, start, space + 1);
  }
  text_put(out, "\n", 1);
}

void text_label(GString *out, const char *label, const char *comment)
{
  gsize start = out->len;
  g_string_append_printf(out, "%s:", label);
  if (comment != NULL) {
    pad(out, start, OPERAND_COLUMN);
    g_string_append_printf(out, "// %s", comment);
  }
  g_string_append_c(out, '\n');
}

void text_comment(GString *out, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_string_append(out, "    // ");
  g_string_append_vprintf(out, format, arguments);
  g_string_append_c(out, '\n');
  va_end(arguments);
}
