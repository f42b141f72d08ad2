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
  gsize at = out->len, wanted = line_start + column;
  if (at >= wanted) return;
  g_string_set_size(out, wanted);
  memset(out->str + at, ' ', wanted - at);
}

/* Appends the operands, broken after a comma where the line would become too long. */
static void append_operands(GString *out, gsize line_start, const char *operands)
{
  gsize indent = MIN(out->len - line_start, OPERAND_COLUMN);
  while (*operands != '\0') {
    gsize room = LAST_COLUMN - MIN(out->len - line_start, (gsize)LAST_COLUMN - 20);
    gsize length = strlen(operands);
    if (length > room) {
      gsize cut = room;
      while (cut > 0 && !(operands[cut] == ' ' && operands[cut - 1] == ','))
        cut--;
      if (cut > 0) length = cut;
    }
    g_string_append_len(out, operands, (gssize)length);
    operands += length;
    while (*operands == ' ')
      operands++;
    if (*operands == '\0') break;
    g_string_append_c(out, '\n');
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
    g_string_append_len(out, instruction, end - instruction);
    instruction = end + 1;
  } else {
    g_string_append(out, guard);
  }
  if (out->len - start > GUARD_COLUMN) g_string_append_c(out, ' ');
  pad(out, start, MNEMONIC_COLUMN);
  const char *space = strchr(instruction, ' ');
  if (space == NULL) {
    g_string_append(out, instruction);
  } else {
    g_string_append_len(out, instruction, space - instruction);
    if (out->len - start > LONG_MNEMONIC && out->len - start + strlen(space) > LAST_COLUMN) {
      g_string_append_c(out, '\n'); /* the operands get lines of their own */
      start = out->len;
    } else {
      g_string_append_c(out, ' ');
    }
    pad(out, start, OPERAND_COLUMN);
    append_operands(out, start, space + 1);
  }
  g_string_append_c(out, '\n');
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
