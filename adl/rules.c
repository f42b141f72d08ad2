/* What each rule of the schema does: what adl/bounds.yaml says of it beside its bounds, for `gpus rules`, for the
 * facts of a description and for docs/adl.md. */
#include "adl/build.h"
#include "base/data.h"
#include <string.h>

#define TABLE "adl/bounds.yaml"

/* The words of the table, in its order. `fixed` is what a row with `is` or `has` says where it has none of them. */
static const char *const effects[] = {"drives",    "limits",        "prices", "checks",
                                      "simulates", "documentation", "ignored"};
#define FIXED "fixed"

static Node *member(Node *map, const char *key)
{
  return map && map->kind == NODE_MAPPING ? node_get(map, key) : NULL;
}

Node *bounds_row(Node *root, const char *section, const char *key)
{
  if (!*section) return member(root, key);
  const Section *known = schema_section(section);
  Node *row = member(member(root, section), key);
  return row || !known || !known->is_family ? row : member(member(root, "family"), key);
}

static const char *scalar(Node *row, const char *key)
{
  Node *node = member(row, key);
  return node && node->kind == NODE_SCALAR ? node->text : NULL;
}

const char *bounds_effect(Node *row, const char **what)
{
  const char *effect = NULL;
  unsigned n = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(effects); i++)
    if (member(row, effects[i])) {
      effect = effects[i];
      *what = scalar(row, effects[i]);
      n++;
    }
  if (!n && (member(row, "is") || member(row, "has"))) {
    effect = FIXED;
    *what = scalar(row, "why");
    n++;
  }
  return n == 1 && *what ? effect : NULL;
}

/* ---- the list ---- */

static char *one_value(Node *node)
{
  if (!node) return NULL;
  if (node->kind == NODE_SCALAR) return g_strdup(node->text);
  g_autoptr(GString) text = g_string_new("[");
  for (unsigned i = 0; node->kind == NODE_SEQUENCE && i < node->n; i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "",
                           node->items[i]->kind == NODE_SCALAR ? node->items[i]->text : "");
  g_string_append_c(text, ']');
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* "32", "at least [mma.a]", "1 .. 64". NULL: anything. */
static char *values_text(Node *row)
{
  g_autofree char *is = one_value(member(row, "is")), *has = one_value(member(row, "has")),
                  *among = one_value(member(row, "among")), *from = one_value(member(row, "from")),
                  *to = one_value(member(row, "to"));
  if (is) return g_steal_pointer(&is);
  if (has) return g_strdup_printf("at least %s", has);
  if (among) return g_strdup_printf("some of %s", among);
  if (from && to) return g_strdup_printf("%s .. %s", from, to);
  return to ? g_strdup_printf("up to %s", to) : g_steal_pointer(&from);
}

static void add_rule(json_t *rules, const char *path, char *form, unsigned flags, Node *row, const char *doc)
{
  const char *what = NULL, *effect = bounds_effect(row, &what);
  g_autofree char *values = values_text(row), *owned = form;
  json_array_append_new(rules, json_pack("{s:s, s:s, s:b, s:b, s:s?, s:s?, s:s?, s:s}", "path", path, "form",
                                         owned, "required", (int)((flags & RULE_REQUIRED) != 0),
                                         "may_be_unknown", (int)((flags & RULE_MAY_BE_UNKNOWN) != 0),
                                         "effect", effect, "what", what, "values", values, "meaning", doc));
}

/* A family is a rule of its own: that it is listed. Those that must be are fixed. */
static void add_family(json_t *rules, Node *root, const Section *section)
{
  g_autofree char *path = g_strconcat("families.", section->name, NULL);
  add_rule(rules, path, g_strdup("a mapping"), section->required ? RULE_REQUIRED : 0,
           member(member(root, section->name), "listed"), section->doc);
}

json_t *gpu_rules(GError **error)
{
  g_autoptr(Source) source = data_load(TABLE, error);
  g_autoptr(Document) document = source ? document_parse(source, error) : NULL;
  if (!document) return NULL;
  Node *root = document_root(document);
  json_t *rules = json_array();
  for (unsigned i = 0; i < schema_n_sections; i++) {
    const Section *section = &schema_sections[i];
    if (section->is_family) add_family(rules, root, section);
    for (unsigned j = 0; j < schema_n_rules; j++) {
      const Rule *rule = &schema_rules[j];
      if (strcmp(rule->section, section->name)) continue;
      g_autofree char *path =
          *rule->section ? g_strconcat(rule->section, ".", rule->key, NULL) : g_strdup(rule->key);
      add_rule(rules, path, schema_form(rule), rule->flags, bounds_row(root, rule->section, rule->key),
               rule->doc);
    }
  }
  return rules;
}

/* ---- docs/adl.md ---- */

static void append_row(GString *text, Node *root, const Rule *rule)
{
  const char *what = NULL, *effect = bounds_effect(bounds_row(root, rule->section, rule->key), &what);
  g_autofree char *form = schema_form(rule);
  g_string_append_printf(text, "| `%s` | %s | %s | %s%s%s | %s |\n", rule->key, form,
                         !(rule->flags & RULE_REQUIRED)      ? "no"
                         : rule->flags & RULE_MAY_BE_UNKNOWN ? "yes, or `unknown`"
                                                             : "yes",
                         effect ? effect : "", effect ? ": " : "", effect ? what : "", rule->doc);
}

char *schema_to_markdown(GError **error)
{
  g_autoptr(Source) source = data_load(TABLE, error);
  g_autoptr(Document) document = source ? document_parse(source, error) : NULL;
  if (!document) return NULL;
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < schema_n_sections; i++) {
    const Section *section = &schema_sections[i];
    g_string_append_printf(text,
                           "\n#### %s%s%s\n\n%s%s.\n\n| key | value | needed | does | meaning |\n"
                           "|---|---|---|---|---|\n",
                           section->is_family ? "families." : "", section->name,
                           *section->name ? "" : "Top level", section->doc,
                           section->of_product ? " (of a product)" : "");
    for (unsigned j = 0; j < schema_n_rules; j++)
      if (!strcmp(schema_rules[j].section, section->name))
        append_row(text, document_root(document), &schema_rules[j]);
  }
  return g_string_free(text, FALSE);
}
