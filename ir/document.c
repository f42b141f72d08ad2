#include "ir/document.h"
#include "ir/format.h"
#include <string.h>

static void append_levels(GString *out, unsigned levels)
{
  static const char *const names[] = {"tile", "staged", "thread"};
  bool first = true;
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
    if (!(levels & 1u << i)) continue;
    g_string_append_printf(out, "%s%s", first ? "" : " ", names[i]);
    first = false;
  }
}

/* `|` would end a table's cell. */
static void append_cell(GString *out, const char *text)
{
  for (; *text; text++)
    g_string_append_printf(out, *text == '|' ? "\\|" : "%c", *text);
}

/* The operands as a statement has them: `x <- y`, `[z, ...]` for a list. */
static void append_form(GString *out, const IrOpInfo *info, const OpFormat *format)
{
  static const char *const letters = "abcdefgh";
  unsigned next = 0;
  GString *form = g_string_new(NULL);
  if (info->results) g_string_append(form, info->results > 0 ? "%r = " : "[%r, ...] = ");
  g_string_append(form, info->name);
  for (unsigned i = 0; i < format->n_items; i++) {
    const FormatItem *item = &format->items[i];
    if (item->kind != FORMAT_LITERAL || strcmp(item->text, ",")) g_string_append_c(form, ' ');
    switch (item->kind) {
    case FORMAT_EXPR:
    case FORMAT_POSTFIX: g_string_append_c(form, letters[next++]); break;
    case FORMAT_OPTIONAL: g_string_append_printf(form, "[%c]", letters[next++]); break;
    case FORMAT_LIST: g_string_append_printf(form, "[%c, ...]", letters[next++]); break;
    case FORMAT_CALL: g_string_append(form, "f(a, ...)"); break;
    case FORMAT_SYMBOL: g_string_append(form, "@s"); break;
    case FORMAT_TYPED_SYMBOL: g_string_append(form, "@s: TYPE"); break;
    case FORMAT_ARGUMENTS: g_string_append(form, "%i"); break;
    case FORMAT_DEFAULTED: g_string_append_printf(form, "[%s %c]", item->text, letters[next++]); break;
    case FORMAT_LITERAL: g_string_append(form, item->text); break;
    case FORMAT_NAME:
    case FORMAT_EXPR_OR_NAME: {
      g_autofree char *words = g_strjoinv("|", (char **)item->names);
      g_string_append_printf(form, item->kind == FORMAT_NAME ? "%s" : "a|%s", words);
      break;
    }
    }
  }
  if (format->regions_max) g_string_append(form, " { ... }");
  if (format->regions_max > 1) g_string_append(form, " [else { ... }]");
  append_cell(out, form->str);
  g_string_free(form, TRUE);
}

static void append_row(GString *out, IrOpcode code)
{
  const IrOpInfo *info = ir_op_info(code);
  const OpFormat *format = op_format(code);
  g_string_append(out, "| `");
  append_form(out, info, format);
  g_string_append(out, "` | ");
  append_levels(out, info->levels);
  g_string_append(out, " | ");
  append_cell(out, info->attributes);
  g_string_append(out, " | ");
  append_cell(out, info->doc);
  g_string_append(out, " |\n");
}

char *ir_opcode_document(void)
{
  GString *out =
      g_string_new("## Opcodes\n\n"
                   "Printed from `ir/opcodes.def` by `ir-tool opcodes`. `!` marks an attribute that is "
                   "required; every THREAD operation also takes\n`when`.\n\n"
                   "| statement | levels | attributes | meaning |\n|---|---|---|---|\n");
  for (unsigned i = 0; i < IR_OPCODE_COUNT; i++)
    append_row(out, (IrOpcode)i);
  static const char *const kinds[] = {"flag", "int",      "expression",   "keyword", "expression or keyword",
                                      "list", "keywords", "range or list"};
  g_string_append(out, "\n## Attributes\n\n| keyword | value | meaning |\n|---|---|---|\n");
  for (unsigned i = 0; i < IR_ATTRIBUTE_COUNT; i++) {
    g_string_append_printf(out, "| `%s` | %s | ", ir_attribute_name((IrAttributeKey)i),
                           kinds[attribute_kind((IrAttributeKey)i)]);
    append_cell(out, ir_attribute_doc((IrAttributeKey)i));
    g_string_append(out, " |\n");
  }
  return g_string_free(out, FALSE);
}
