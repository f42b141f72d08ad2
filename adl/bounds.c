/* Each value against its row of adl/bounds.yaml. What adlgen has built in and could not honour otherwise is
 * refused here, and what no GPU has, with the reason the row gives. Needs: all sections read without a fault.
 */
#include "adl/build.h"
#include "adl/quantity.h"
#include "base/data.h"
#include <string.h>

#define TABLE "adl/bounds.yaml"

typedef struct {
  Build *build;
  Node *root;
} Bounds;

static Node *member(Node *map, const char *key)
{
  return map && map->kind == NODE_MAPPING ? node_get(map, key) : NULL;
}

/* A number of the table: with a unit, or, as counts are, without one. */
static double bound_number(Bounds *bounds, Node *node, const char *unit)
{
  double number = FACT_UNKNOWN;
  char *end = NULL;
  if (node->kind == NODE_SCALAR) number = g_ascii_strtod(node->text, &end);
  if (end && end != node->text && !*end) return number;
  number = FACT_UNKNOWN;
  quantity_read(node, unit, &number, &bounds->build->error);
  return number;
}

static const char *reason(Node *row)
{
  Node *why = member(row, "why");
  return why && why->kind == NODE_SCALAR ? why->text : NULL;
}

/* ---- what is built in ---- */

static char *item_text(const Entry *entry, unsigned i)
{
  return entry->texts ? g_strdup(entry->texts[i]) : quantity_text(entry->numbers[i], entry->unit);
}

static char *value_text(const Entry *entry)
{
  if (entry->kind == RULE_FLAG) return g_strdup(entry->number != 0 ? "true" : "false");
  if (entry->text) return g_strdup(entry->text);
  if (!entry->texts && !entry->numbers) return quantity_text(entry->number, entry->unit);
  g_autoptr(GString) text = g_string_new("[");
  for (unsigned i = 0; i < entry->n; i++) {
    g_autofree char *item = item_text(entry, i);
    g_string_append_printf(text, "%s%s", i ? ", " : "", item);
  }
  g_string_append_c(text, ']');
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static bool entry_has(const Entry *entry, const Entry *list, unsigned i)
{
  for (unsigned k = 0; k < entry->n; k++)
    if (list->texts ? !strcmp(entry->texts[k], list->texts[i]) : entry->numbers[k] == list->numbers[i])
      return true;
  return false;
}

/* The first item that the entry lacks; list->n if it has all. */
static unsigned first_missing(const Entry *entry, const Entry *list)
{
  unsigned i = 0;
  while (i < list->n && entry_has(entry, list, i))
    i++;
  return i;
}

static bool equal(const Entry *entry, const Entry *built_in)
{
  if (entry->text) return !strcmp(entry->text, built_in->text);
  if (!entry->texts && !entry->numbers) return entry->number == built_in->number;
  return entry->n == built_in->n && first_missing(entry, built_in) == built_in->n;
}

static void check_is(Bounds *bounds, Node *row, const Entry *entry)
{
  Entry built_in = {.kind = entry->kind, .unit = entry->unit};
  if (!build_value(bounds->build, entry->rule, member(row, "is"), &built_in) || equal(entry, &built_in))
    return;
  g_autofree char *own = value_text(entry), *needed = value_text(&built_in);
  build_error(bounds->build, &entry->mark, "not-honoured", reason(row),
              "%s is %s, but adlgen can work with %s only", entry->path, own, needed);
}

static void check_has(Bounds *bounds, Node *row, const Entry *entry)
{
  Entry needed = {.kind = entry->kind, .unit = entry->unit};
  if (!build_value(bounds->build, entry->rule, member(row, "has"), &needed)) return;
  unsigned i = first_missing(entry, &needed);
  if (i == needed.n) return;
  g_autofree char *item = item_text(&needed, i);
  build_error(bounds->build, &entry->mark, "not-honoured", reason(row),
              "%s lacks %s, which adlgen cannot do without", entry->path, item);
}

static void check_among(Bounds *bounds, Node *row, const Entry *entry)
{
  Entry known = {.kind = entry->kind, .unit = entry->unit};
  if (!build_value(bounds->build, entry->rule, member(row, "among"), &known)) return;
  unsigned i = first_missing(&known, entry);
  if (i == entry->n) return;
  g_autofree char *item = item_text(entry, i), *all = value_text(&known);
  build_error(bounds->build, &entry->mark, "not-honoured", reason(row),
              "%s lists %s, but adlgen knows %s only", entry->path, item, all);
}

/* ---- what is plausible ---- */

/* false: it is out of its range. */
static bool check_range(Bounds *bounds, Node *row, const Entry *entry)
{
  Node *from = member(row, "from"), *to = member(row, "to"), *otherwise = member(row, "or");
  double least = from ? bound_number(bounds, from, entry->unit) : FACT_UNKNOWN;
  double most = to ? bound_number(bounds, to, entry->unit) : FACT_UNKNOWN;
  unsigned n = entry->numbers ? entry->n : 1;
  for (unsigned i = 0; i < n; i++) {
    double value = entry->numbers ? entry->numbers[i] : entry->number;
    if (otherwise && value == bound_number(bounds, otherwise, entry->unit)) continue;
    bool low = value<least, high = value> most; /* false where there is no bound */
    if (!low && !high) continue;
    g_autofree char *own = quantity_text(value, entry->unit);
    g_autofree char *bound = quantity_text(low ? least : most, entry->unit);
    build_error(bounds->build, &entry->mark, "out-of-range", reason(row), "%s (%s) is %s than %s",
                entry->path, own, low ? "less" : "more", bound);
    return false;
  }
  return true;
}

/* A range for the value's share of one SM, or of one SM and clock: a wrong unit shows there whatever the
 * size. */
static void check_share(Bounds *bounds, Node *row, const Entry *entry, const char *key, bool per_clock)
{
  Node *range = member(row, key);
  const Entry *sms = build_entry(bounds->build, "chip.sm_count");
  const Entry *clock = build_entry(bounds->build, "chip.clock_boost");
  if (!range || !sms || !clock || range->kind != NODE_SEQUENCE || range->n != 2) return;
  const char *unit = per_clock ? "B/clk/SM" : entry->unit;
  double share = entry->number / sms->number / (per_clock ? clock->number * 1e6 : 1);
  double least = bound_number(bounds, range->items[0], unit),
         most = bound_number(bounds, range->items[1], unit);
  if (!(share < least) && !(share > most)) return;
  const Entry *taking_part[] = {entry, sms, per_clock ? clock : NULL};
  const Entry *shown = build_culprit(bounds->build, taking_part, G_N_ELEMENTS(taking_part));
  g_autofree char *own = quantity_text(entry->number, entry->unit);
  g_autofree char *bound = quantity_text(share < least ? least : most, unit);
  build_error(bounds->build, &shown->mark, "out-of-range", reason(row), "%s (%s) is %.3g %s%s, %s than %s",
              entry->path, own, share, unit, per_clock ? "" : " for each SM", share < least ? "less" : "more",
              bound);
  if (shown != entry) build_given(bounds->build, entry);
}

static void check_entry(Bounds *bounds, Entry *entry)
{
  Node *row = bounds_row(bounds->root, entry->rule->section, entry->rule->key);
  const char *what = NULL;
  entry->effect = bounds_effect(row, &what);
  if (!row || entry->unknown) return;
  if (member(row, "is")) check_is(bounds, row, entry);
  if (member(row, "has")) check_has(bounds, row, entry);
  if (member(row, "among")) check_among(bounds, row, entry);
  if (!check_range(bounds, row, entry)) return;
  check_share(bounds, row, entry, "per_sm", false);
  check_share(bounds, row, entry, "per_clock", true);
}

void build_bounds(Build *build)
{
  g_autoptr(Source) source = data_load(TABLE, &build->error);
  g_autoptr(Document) document = source ? document_parse(source, &build->error) : NULL;
  if (!document) return;
  Bounds bounds = {.build = build, .root = document_root(document)};
  for (guint i = 0; i < build->private->entries->len; i++)
    check_entry(&bounds, build->private->entries->pdata[i]);
}
