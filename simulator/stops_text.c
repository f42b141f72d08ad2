/* Stops for people: the same JSON, as tables. */
#include "simulator/simulator.h"
#include <string.h>

#define LANES_PER_LINE 8

static char *cell(const json_t *value)
{
  switch (json_typeof(value)) {
  case JSON_NULL: return g_strdup("?");
  case JSON_TRUE: return g_strdup("1");
  case JSON_FALSE: return g_strdup("0");
  case JSON_INTEGER: return g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
  case JSON_REAL: return g_strdup_printf("%.5g", json_real_value(value));
  case JSON_STRING: return g_strdup(json_string_value(value));
  default: break;
  }
  GString *packed = g_string_new(NULL);
  for (size_t i = 0; i < json_array_size(value); i++) {
    g_autofree char *part = cell(json_array_get(value, i));
    g_string_append_printf(packed, "%s%s", i ? "," : "", part);
  }
  return g_string_free(packed, FALSE);
}

static size_t widest(json_t *const *list, size_t n)
{
  size_t width = 1;
  for (size_t i = 0; i < n; i++) {
    g_autofree char *text = cell(list[i]);
    width = MAX(width, strlen(text));
  }
  return width;
}

static void print_lanes(GString *out, json_t *lanes)
{
  json_t *values[32];
  bool alike = true;
  for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
    values[i] = json_array_get(lanes, i);
    alike &= json_equal(values[i], values[0]) != 0;
  }
  if (alike) {
    g_autofree char *text = cell(values[0]);
    g_string_append_printf(out, " %s in all lanes\n", text);
    return;
  }
  int width = (int)widest(values, G_N_ELEMENTS(values));
  for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
    g_autofree char *text = cell(values[i]);
    if (i % LANES_PER_LINE == 0) g_string_append_printf(out, "\n    %2u:", i);
    g_string_append_printf(out, " %*s", width, text);
  }
  g_string_append_c(out, '\n');
}

static void print_registers(GString *out, const json_t *value)
{
  size_t i = 0;
  json_t *r = NULL;
  const char *note = json_object_get(value, "in_flight") ? " (a product in flight writes here)" : "";
  json_array_foreach(json_object_get(value, "registers"), i, r)
  {
    g_string_append_printf(out, "  %s %s%s:", json_string_value(json_object_get(r, "register")),
                           json_string_value(json_object_get(r, "type")), note);
    print_lanes(out, json_object_get(r, "lanes"));
  }
}

static size_t column_width(json_t *rows, size_t column)
{
  g_autofree char *number = g_strdup_printf("%zu", column);
  size_t r = 0, width = strlen(number);
  json_t *row = NULL;
  json_array_foreach(rows, r, row)
  {
    json_t *one = json_array_get(row, column);
    width = MAX(width, widest(&one, 1));
  }
  return width;
}

static void print_matrix(GString *out, const json_t *value)
{
  json_t *rows = json_object_get(value, "rows"), *row = NULL;
  size_t r = 0, columns = json_array_size(json_array_get(rows, 0));
  g_autofree size_t *width = g_new0(size_t, columns + 1);
  g_string_append_printf(out, "  %s%s\n       ", json_string_value(json_object_get(value, "watch")),
                         json_object_get(value, "in_flight") ? " (a product in flight writes here)" : "");
  for (size_t c = 0; c < columns; c++) {
    width[c] = column_width(rows, c);
    g_string_append_printf(out, " %*zu", (int)width[c], c);
  }
  g_string_append_c(out, '\n');
  json_array_foreach(rows, r, row)
  {
    g_string_append_printf(out, "   %3zu:", r);
    for (size_t c = 0; c < columns; c++) {
      g_autofree char *text = cell(json_array_get(row, c));
      g_string_append_printf(out, " %*s", (int)width[c], text);
    }
    g_string_append_c(out, '\n');
  }
}

static void print_stop(GString *out, const json_t *stop)
{
  const json_t *block = json_object_get(stop, "block");
  const char *launch = json_string_value(json_object_get(stop, "launch"));
  if (launch) g_string_append_printf(out, "%s: ", launch);
  g_string_append_printf(
      out, "%s:%d: hit %" JSON_INTEGER_FORMAT ": block (%d,%d,%d), warp %d, lanes %08x, before %s\n",
      json_string_value(json_object_get(stop, "file")),
      (int)json_integer_value(json_object_get(stop, "line")),
      json_integer_value(json_object_get(stop, "hit")), (int)json_integer_value(json_array_get(block, 0)),
      (int)json_integer_value(json_array_get(block, 1)), (int)json_integer_value(json_array_get(block, 2)),
      (int)json_integer_value(json_object_get(stop, "warp")),
      (unsigned)json_integer_value(json_object_get(stop, "lanes")),
      json_string_value(json_object_get(stop, "instruction")));
  size_t i = 0;
  json_t *value = NULL;
  json_array_foreach(json_object_get(stop, "values"), i, value) if (json_object_get(value, "registers"))
      print_registers(out, value);
  else print_matrix(out, value);
}

char *sim_stops_to_text(const SimResult *result)
{
  GString *out = g_string_new(NULL);
  size_t i = 0;
  json_t *item = NULL;
  json_array_foreach(result->stops, i, item) print_stop(out, item);
  json_array_foreach(result->breaks, i, item)
  {
    json_int_t hits = json_integer_value(json_object_get(item, "hits"));
    g_string_append_printf(out, "break %s: line %d, ", json_string_value(json_object_get(item, "break")),
                           (int)json_integer_value(json_object_get(item, "line")));
    if (hits)
      g_string_append_printf(out, "%" JSON_INTEGER_FORMAT " hits\n", hits);
    else
      g_string_append(out, "never reached\n");
  }
  return g_string_free(out, FALSE);
}
