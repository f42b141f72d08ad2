#include "adl/quantity.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Memory sizes are binary or decimal as written; bandwidths are decimal, as data sheets give them. Ordered
 * from small to large within a base unit. `shown`: quantity_text may choose it. */
static const struct {
  const char *base, *name;
  double factor;
  bool shown;
} units[] = {
    {"B", "B", 1, true},
    {"B", "KB", 1e3, false},
    {"B", "KiB", 1024, true},
    {"B", "MB", 1e6, false},
    {"B", "MiB", 1024.0 * 1024, true},
    {"B", "GB", 1e9, true},
    {"B", "GiB", 1024.0 * 1024 * 1024, true},
    {"MHz", "MHz", 1, true},
    {"MHz", "GHz", 1e3, false},
    {"B/s", "B/s", 1, true},
    {"B/s", "MB/s", 1e6, false},
    {"B/s", "GB/s", 1e9, true},
    {"B/s", "TB/s", 1e12, false},
    {"FLOP/s", "FLOP/s", 1, true},
    {"FLOP/s", "GFLOP/s", 1e9, false},
    {"FLOP/s", "TFLOP/s", 1e12, true},
    {"FLOP/s", "TOP/s", 1e12, false}, /* integer products count the same way */
    {"FLOP/s", "PFLOP/s", 1e15, false},
    {"cycles", "cycles", 1, true},
    {"cycles", "cycle", 1, false},
    {"W", "W", 1, true},
    {"FLOP/clk/SM", "FLOP/clk/SM", 1, true},
    {"FLOP/clk/SM", "OP/clk/SM", 1, false},
    {"op/clk/SM", "op/clk/SM", 1, true},
    {"B/clk/SM", "B/clk/SM", 1, true},
    {"B/clk", "B/clk", 1, true},
    {"results/clk/SM", "results/clk/SM", 1, true},
};

bool quantity_is_count(const char *unit)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(units); i++)
    if (!strcmp(units[i].base, unit)) return false;
  return true;
}

/* NULL-terminated names of the units of a base; the strings are static. */
static const char **spellings(const char *base)
{
  const char **names = g_new0(const char *, G_N_ELEMENTS(units) + 1);
  unsigned n = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(units); i++)
    if (!strcmp(units[i].base, base)) names[n++] = units[i].name;
  return names;
}

char *quantity_spellings(const char *unit)
{
  if (quantity_is_count(unit)) return NULL;
  g_autofree const char **names = spellings(unit);
  return g_strjoinv(", ", (char **)names);
}

static bool read_count(Node *node, const char *unit, double *value, GError **error)
{
  int64_t count;
  if (!node_integer(node, &count, error)) return false;
  if (count < 0 || count > G_MAXUINT32) {
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "out-of-range", NULL,
              "%s cannot be a number of %s", node->text, unit);
    return false;
  }
  *value = (double)count;
  return true;
}

static bool wrong_unit(Node *node, const char *base, const char *suffix, GError **error)
{
  g_autofree const char **names = spellings(base);
  g_autofree char *list = g_strjoinv(", ", (char **)names);
  const char *near = *suffix ? nearest_name(suffix, names) : NULL;
  g_autofree char *hint = near ? g_strdup_printf("did you mean `%s`? Units here: %s", near, list)
                               : g_strdup_printf("units here: %s", list);
  if (*suffix)
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "wrong-unit", hint,
              "`%.60s` has the wrong unit", node->text);
  else
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "wrong-unit", hint, "`%.60s` needs a unit",
              node->text);
  return false;
}

bool quantity_read(Node *node, const char *unit, double *value, GError **error)
{
  if (quantity_is_count(unit)) return read_count(node, unit, value, error);
  const char *text = node->kind == NODE_SCALAR ? node->text : "";
  size_t digits = strspn(text, "0123456789.");
  char *end = NULL;
  double number = g_ascii_strtod(text, &end);
  if (!digits || end == text || !isfinite(number)) {
    g_autofree char *list = quantity_spellings(unit);
    g_autofree char *hint = g_strdup_printf("a number and one of the units %s", list);
    if (node->kind == NODE_SCALAR)
      error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "wrong-type", hint,
                "expected a quantity in %s, found `%.60s`", unit, text);
    else
      error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "wrong-type", hint,
                "expected a quantity in %s, found %s", unit,
                node->kind == NODE_MAPPING ? "a mapping" : "a list");
    return false;
  }
  const char *suffix = end;
  while (*suffix == ' ')
    suffix++;
  for (unsigned i = 0; i < G_N_ELEMENTS(units); i++)
    if (!strcmp(units[i].base, unit) && !strcmp(units[i].name, suffix)) {
      *value = number * units[i].factor;
      if (isfinite(*value)) return true;
      error_add(error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, "out-of-range", NULL, "`%.60s` is too large",
                text);
      return false;
    }
  return wrong_unit(node, unit, suffix, error);
}

char *quantity_text(double value, const char *unit)
{
  const char *best_name = unit;
  double best_factor = 1;
  /* Past the smallest unit, four significant digits must say all: 40 MiB, but 41943041 B. */
  for (unsigned i = 0; i < G_N_ELEMENTS(units) && value != 0; i++) {
    if (strcmp(units[i].base, unit) || !units[i].shown) continue;
    double scaled = value / units[i].factor, rounded = round(scaled * 100) / 100;
    if (scaled < 1 || fabs(rounded - scaled) > 1e-9 * scaled || units[i].factor < best_factor) continue;
    best_name = units[i].name;
    best_factor = units[i].factor;
  }
  return g_strdup_printf("%.10g %s", value / best_factor, best_name);
}
