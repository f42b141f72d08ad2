#include "catalog/catalog.h"
#include "base/document.h"
#include "catalog/matrix.h"
#include "generator/choose/choose.h"
#include <string.h>

#define CATALOG_VERSION 1
#define MAX_VARIANTS    32 /* kernels of one graph that an entry can choose from */
#define MAX_GPUS        64
#define CODE            "catalog"
#define HINT            "docs/catalog.md describes catalog.json"

static bool refuse(const Node *node, const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, &node->mark, CODE, HINT, "%s", what);
  return false;
}

static void graph_destroy(void *memory)
{
  CatalogGraph *graph = memory;
  g_free(graph->name);
  g_free(graph->operators);
  g_free(graph->types);
  free(graph->text);
  g_strfreev(graph->sets);
  g_free(graph);
}

/* An entry as it is read: parts of the document, checked. */
typedef struct Entry {
  Node *name, *graph, *variables, *set; /* variables, set: NULL if it has none */
  unsigned variants;
  uint64_t gpus;
} Entry;

/* ---- one graph ---- */

/* What a graph computes and on which types, as words: "MatMul Relu", "bf16 f32". */
static void describe_graph(CatalogGraph *graph, const json_t *text)
{
  GString *operators = g_string_new(NULL), *types = g_string_new(NULL);
  const char *name = NULL;
  json_t *item = NULL;
  size_t i = 0;
  json_array_foreach(json_object_get(text, "nodes"), i, item)
  {
    const char *op = json_string_value(json_object_get(item, "op"));
    g_string_append_printf(operators, "%s%s", i ? " " : "", op ? op : "?");
  }
  json_object_foreach(json_object_get(text, "inputs"), name, item)
  {
    const char *type = json_string_value(json_object_get(item, "type"));
    g_string_append_printf(types, "%s%s", types->len ? " " : "", type ? type : "?");
  }
  graph->operators = g_string_free(operators, FALSE);
  graph->types = g_string_free(types, FALSE);
}

static char *read_name(const Catalog *catalog, const Entry *entry, const MatrixBinding *binding,
                       GError **error)
{
  g_autofree char *name = matrix_expand_text(binding, entry->name, error);
  for (const char *c = name; c && *c; c++)
    if (!g_ascii_isalnum(*c) && *c != '_') {
      g_autofree char *what = g_strdup_printf("a name has letters, digits and _ only, not `%s`", name);
      refuse(entry->name, what, error);
      return NULL;
    }
  const CatalogGraph *other = name ? catalog_graph(catalog, name) : NULL;
  if (!other) return g_steal_pointer(&name);
  error_set(error, ERROR_INPUT, &entry->name->mark, CODE, "a name with each variable of `for` in it",
            "two graphs are called %s", name);
  error_add(error, ERROR_INPUT, SEVERITY_NOTE, &other->mark, CODE, NULL, "the other one is here");
  return NULL;
}

/* Texts of `set` of one combination, each checked at its place. */
static GStrv read_sets(const Entry *entry, const MatrixBinding *binding, GError **error)
{
  unsigned n = entry->set ? entry->set->n : 0;
  g_auto(GStrv) sets = g_new0(char *, n + 1);
  for (unsigned i = 0; i < n; i++) {
    sets[i] = matrix_expand_text(binding, entry->set->items[i], error);
    if (!sets[i]) return NULL;
    if (choose_check_sets(&(CompileOptions){.sets = (const char *const *)sets}, error)) continue;
    if (error && *error) error_place(*error, &entry->set->items[i]->mark);
    return NULL;
  }
  return g_steal_pointer(&sets);
}

static bool add_graph(Catalog *catalog, const Entry *entry, const MatrixBinding *binding, GError **error)
{
  g_autofree char *name = read_name(catalog, entry, binding, error);
  g_auto(GStrv) sets = name ? read_sets(entry, binding, error) : NULL;
  json_t *text = sets ? matrix_expand(binding, entry->graph, error) : NULL;
  if (!text) return false;
  json_object_set_new(text, "name", json_string(name));
  CatalogGraph *added = g_new0(CatalogGraph, 1);
  added->mark = entry->graph->mark;
  added->name = g_steal_pointer(&name);
  added->text = json_dumps(text, JSON_INDENT(1));
  describe_graph(added, text);
  json_decref(text);
  added->variants = entry->variants;
  added->gpus = entry->gpus;
  added->sets = g_steal_pointer(&sets);
  g_ptr_array_add(catalog->graphs, added);
  return true;
}

/* Calls add_graph for every combination of the variables from the index-th on. */
static bool add_combinations(Catalog *catalog, const Entry *entry, MatrixBinding *binding, GError **error)
{
  const Node *variables = entry->variables;
  if (!variables || binding->n == variables->n) return add_graph(catalog, entry, binding, error);
  unsigned at = binding->n++;
  const Node *values = variables->items[at];
  bool ok = true;
  for (unsigned i = 0; ok && i < values->n; i++) {
    binding->names[at] = variables->keys[at];
    binding->values[at] = values->items[i];
    ok = add_combinations(catalog, entry, binding, error);
  }
  binding->n--;
  return ok;
}

/* ---- one entry ---- */

static bool read_variables(Entry *entry, Node *node, GError **error)
{
  if (!(entry->variables = node_get(node, "for"))) return true;
  if (!node_kind_is(entry->variables, NODE_MAPPING, "of variables and their values", error)) return false;
  if (entry->variables->n > MATRIX_MAX_VARIABLES)
    return refuse(entry->variables, "an entry has up to 16 variables", error);
  for (unsigned i = 0; i < entry->variables->n; i++) {
    const Node *values = entry->variables->items[i];
    if (values->kind != NODE_SEQUENCE || !values->n)
      return refuse(values, "a variable of `for` needs a list of values", error);
  }
  return true;
}

static bool read_variants(Entry *entry, Node *node, GError **error)
{
  Node *list = node_get(node, "variants");
  if (!list) return true;
  if (!node_kind_is(list, NODE_SEQUENCE, "of numbers from 1", error)) return false;
  for (unsigned i = 0; i < list->n; i++) {
    int64_t variant = 0;
    if (!node_integer(list->items[i], &variant, error)) return false;
    if (variant < 1 || variant > MAX_VARIANTS)
      return refuse(list->items[i], "a variant is a number from 1 to 32", error);
    entry->variants |= 1u << (variant - 1);
  }
  return true;
}

static bool read_set(Entry *entry, Node *node, GError **error)
{
  if (!(entry->set = node_get(node, "set"))) return true;
  if (!node_kind_is(entry->set, NODE_SEQUENCE, "of texts such as \"bm=128\"", error)) return false;
  const char *text = NULL;
  for (unsigned i = 0; i < entry->set->n; i++)
    if (!node_string(entry->set->items[i], &text, error)) return false;
  return true;
}

/* GPUs that an entry names, else all. */
static bool read_entry_gpus(const Catalog *catalog, Entry *entry, Node *node, GError **error)
{
  Node *list = node_get(node, "gpus");
  entry->gpus = UINT64_MAX;
  if (!list) return true;
  if (!node_kind_is(list, NODE_SEQUENCE, "of GPUs of the catalogue", error)) return false;
  if (!list->n) return refuse(list, "an entry needs a GPU", error);
  entry->gpus = 0;
  for (unsigned i = 0; i < list->n; i++) {
    const char *name = NULL;
    if (!node_string(list->items[i], &name, error)) return false;
    unsigned g = 0;
    while (catalog->gpus[g] && strcmp(catalog->gpus[g], name) != 0)
      g++;
    if (!catalog->gpus[g]) {
      g_autofree char *all = g_strjoinv(", ", catalog->gpus);
      g_autofree char *hint = g_strdup_printf("its list has %s", all);
      error_set(error, ERROR_INPUT, &list->items[i]->mark, CODE, hint, "the catalogue has no GPU %s", name);
      return false;
    }
    entry->gpus |= UINT64_C(1) << g;
  }
  return true;
}

static bool add_entry(Catalog *catalog, Node *node, GError **error)
{
  static const char *const known[] = {"name", "for", "graph", "gpus", "variants", "set", NULL};
  Entry entry = {0};
  const char *name = NULL;
  if (!node_kind_is(node, NODE_MAPPING, "an entry", error)) return false;
  for (const char *const *key = known; *key; key++)
    node_get(node, *key);
  if (!node_finish(node, known, error)) return false;
  entry.name = node_require(node, "name", error);
  entry.graph = entry.name ? node_require(node, "graph", error) : NULL;
  if (!entry.graph || !node_string(entry.name, &name, error)) return false;
  if (!node_kind_is(entry.graph, NODE_MAPPING, "a graph", error)) return false;
  if (!read_variables(&entry, node, error) || !read_variants(&entry, node, error) ||
      !read_set(&entry, node, error) || !read_entry_gpus(catalog, &entry, node, error))
    return false;
  MatrixBinding binding = {0};
  return add_combinations(catalog, &entry, &binding, error);
}

/* ---- the file ---- */

static bool read_gpus(Catalog *catalog, Node *root, GError **error)
{
  Node *list = node_require(root, "gpus", error);
  if (!list || !node_kind_is(list, NODE_SEQUENCE, "of GPUs", error)) return false;
  if (!list->n || list->n > MAX_GPUS) return refuse(list, "a catalogue has 1 to 64 GPUs", error);
  catalog->gpus = g_new0(char *, list->n + 1);
  catalog->gpu_marks = g_new0(Mark, list->n);
  for (unsigned i = 0; i < list->n; i++) {
    const char *name = NULL;
    if (!node_string(list->items[i], &name, error)) return false;
    if (g_strv_contains((const char *const *)catalog->gpus, name))
      return refuse(list->items[i], "a GPU stands in the list twice", error);
    catalog->gpus[i] = g_strdup(name);
    catalog->gpu_marks[i] = list->items[i]->mark;
  }
  return true;
}

static bool read_root(Catalog *catalog, Node *root, GError **error)
{
  static const char *const known[] = {"version", "gpus", "entries", NULL};
  int64_t version = 0;
  if (!node_kind_is(root, NODE_MAPPING, "with version, gpus and entries", error)) return false;
  for (const char *const *key = known; *key; key++)
    node_get(root, *key);
  if (!node_finish(root, known, error)) return false;
  Node *number = node_require(root, "version", error);
  if (!number || !node_integer(number, &version, error)) return false;
  if (version != CATALOG_VERSION) return refuse(number, "the version of a catalogue is 1", error);
  if (!read_gpus(catalog, root, error)) return false;
  Node *entries = node_require(root, "entries", error);
  bool ok = entries && node_kind_is(entries, NODE_SEQUENCE, "of entries", error);
  for (unsigned i = 0; ok && i < entries->n; i++)
    ok = add_entry(catalog, entries->items[i], error);
  return ok;
}

Catalog *catalog_read(const char *path, GError **error)
{
  g_autoptr(Catalog) catalog = g_new0(Catalog, 1);
  catalog->graphs = g_ptr_array_new_with_free_func(graph_destroy);
  catalog->source = source_load(path, error);
  g_autoptr(Document) document = catalog->source ? document_parse_json(catalog->source, error) : NULL;
  return document && read_root(catalog, document_root(document), error) ? g_steal_pointer(&catalog) : NULL;
}

const CatalogGraph *catalog_graph(const Catalog *catalog, const char *name)
{
  for (guint i = 0; i < catalog->graphs->len; i++) {
    const CatalogGraph *graph = catalog->graphs->pdata[i];
    if (!strcmp(graph->name, name)) return graph;
  }
  return NULL;
}

void catalog_free(Catalog *catalog)
{
  if (!catalog) return;
  g_strfreev(catalog->gpus);
  g_free(catalog->gpu_marks);
  source_unref(catalog->source);
  g_ptr_array_unref(catalog->graphs);
  g_free(catalog);
}
