#include "cli/cli.h"
#include <stdarg.h>
#include <string.h>

#define GAP "  "

struct Table {
  unsigned columns;
  bool *right;
  GPtrArray *rows; /* char **; row 0 is the header */
};

static void row_free(void *row)
{
  g_strfreev(row);
}

Table *table_new(const char *const *headers)
{
  Table *table = g_new0(Table, 1);
  table->columns = g_strv_length((char **)headers);
  table->right = g_new0(bool, table->columns);
  table->rows = g_ptr_array_new_with_free_func(row_free);
  char **row = g_new0(char *, table->columns + 1);
  for (unsigned i = 0; i < table->columns; i++) {
    table->right[i] = headers[i][0] == '>';
    row[i] = g_strdup(headers[i] + table->right[i]);
  }
  g_ptr_array_add(table->rows, row);
  return table;
}

void table_free(Table *table)
{
  if (!table) return;
  g_ptr_array_unref(table->rows);
  g_free(table->right);
  g_free(table);
}

void table_row(Table *table, ...)
{
  char **row = g_new0(char *, table->columns + 1);
  va_list cells;
  va_start(cells, table);
  for (unsigned i = 0; i < table->columns; i++) {
    const char *cell = va_arg(cells, const char *);
    g_assert(cell);
    row[i] = g_strdup(cell);
  }
  va_end(cells);
  g_ptr_array_add(table->rows, row);
}

static void append_cell(GString *text, const char *cell, size_t width, bool right, bool last)
{
  size_t pad = width - (size_t)g_utf8_strlen(cell, -1);
  if (right) g_string_append_printf(text, "%*s", (int)pad, "");
  g_string_append(text, cell);
  if (!right && !last) g_string_append_printf(text, "%*s", (int)pad, "");
}

char *table_text(const Table *table, bool colour)
{
  g_autofree size_t *width = g_new0(size_t, table->columns);
  for (guint r = 0; r < table->rows->len; r++)
    for (unsigned i = 0; i < table->columns; i++) {
      size_t length = (size_t)g_utf8_strlen(((char **)table->rows->pdata[r])[i], -1);
      width[i] = MAX(width[i], length);
    }
  GString *text = g_string_new(NULL);
  for (guint r = 0; r < table->rows->len; r++) {
    char **row = table->rows->pdata[r];
    if (colour && r == 0) g_string_append(text, "\033[1m");
    for (unsigned i = 0; i < table->columns; i++) {
      if (i) g_string_append(text, GAP);
      append_cell(text, row[i], width[i], table->right[i], i + 1 == table->columns);
    }
    if (colour && r == 0) g_string_append(text, "\033[0m");
    g_string_append_c(text, '\n');
  }
  return g_string_free(text, FALSE);
}

void table_print(const Table *table, const Cli *cli)
{
  g_autofree char *text = table_text(table, cli->colour);
  fputs(text, stdout);
}

void cli_print_json(json_t *object)
{
  char *text = json_dumps(object, JSON_INDENT(2));
  puts(text);
  free(text);
  json_decref(object);
}
