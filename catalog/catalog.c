#include "catalog/catalog.h"
#include <string.h>

#define CATALOG_VERSION 1
#define MAX_VARIANTS    32 /* kernels of one graph that an entry can choose from */

static void fault(GError **error, const char *path, const char *where, const char *what)
{
  error_set(error, ERROR_INPUT, NULL, "catalog", NULL, "%s: %s%s%s", path, where ? where : "",
            where ? ": " : "", what);
}

/* ---- the matrix ---- */

/* The variables of one combination: name -> value. */
typedef json_t Binding;

/* Value of "var" or "var.field"; an object without a field stands for its "name". NULL if there is none. */
static json_t *lookup(const Binding *binding, const char *path)
{
  g_auto(GStrv) parts = g_strsplit(path, ".", 2);
  json_t *value = json_object_get(binding, parts[0]);
  if (!json_is_object(value)) return parts[1] ? NULL : value;
  return json_object_get(value, parts[1] ? parts[1] : "name");
}

static void append_value(GString *text, const json_t *value)
{
  if (json_is_string(value))
    g_string_append(text, json_string_value(value));
  else
    g_string_append_printf(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
}

/* Replaces each {variable} in a string; one that is not known stays as it is. */
static char *expand_text(const Binding *binding, const char *text)
{
  GString *out = g_string_new(NULL);
  while (*text) {
    const char *end = *text == '{' ? strchr(text, '}') : NULL;
    g_autofree char *path = end ? g_strndup(text + 1, (gsize)(end - text - 1)) : NULL;
    json_t *value = path ? lookup(binding, path) : NULL;
    if (json_is_string(value) || json_is_integer(value)) {
      append_value(out, value);
      text = end + 1;
    } else
      g_string_append_c(out, *text++);
  }
  return g_string_free(out, FALSE);
}

/* The value that a string which is nothing but one {variable} stands for; NULL for any other. */
static json_t *whole_value(const Binding *binding, const json_t *string)
{
  const char *text = json_string_value(string);
  size_t length = text ? strlen(text) : 0;
  if (length < 3 || text[0] != '{' || strchr(text, '}') != text + length - 1) return NULL;
  g_autofree char *path = g_strndup(text + 1, length - 2);
  return lookup(binding, path);
}

static json_t *expand(const Binding *binding, const json_t *value);

/* An element that stands for a list is replaced by its elements. */
static json_t *expand_array(const Binding *binding, const json_t *array)
{
  json_t *out = json_array();
  size_t i = 0;
  json_t *item = NULL;
  json_array_foreach((json_t *)array, i, item)
  {
    json_t *whole = whole_value(binding, item);
    json_t *expanded = expand(binding, item);
    if (json_is_array(whole)) {
      json_array_extend(out, expanded);
      json_decref(expanded);
    } else
      json_array_append_new(out, expanded);
  }
  return out;
}

/* The key "..." adds the members of the object it stands for. */
static json_t *expand_object(const Binding *binding, const json_t *object)
{
  json_t *out = json_object();
  const char *key = NULL;
  json_t *item = NULL;
  json_object_foreach((json_t *)object, key, item)
  {
    json_t *expanded = expand(binding, item);
    if (!strcmp(key, "...")) {
      json_object_update(out, expanded);
      json_decref(expanded);
      continue;
    }
    g_autofree char *name = expand_text(binding, key);
    json_object_set_new(out, name, expanded);
  }
  return out;
}

static json_t *expand(const Binding *binding, const json_t *value)
{
  if (json_is_object(value)) return expand_object(binding, value);
  if (json_is_array(value)) return expand_array(binding, value);
  if (!json_is_string(value)) return json_deep_copy(value);
  json_t *whole = whole_value(binding, value);
  if (whole && !json_is_string(whole)) return expand(binding, whole);
  g_autofree char *text = expand_text(binding, json_string_value(value));
  return json_string(text);
}

/* ---- reading ---- */

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

/* Those an entry names, else all. */
static uint64_t entry_gpus(const Catalog *catalog, const json_t *entry)
{
  const json_t *names = json_object_get(entry, "gpus");
  uint64_t mask = 0;
  size_t i = 0;
  json_t *name = NULL;
  json_array_foreach((json_t *)names, i, name) for (unsigned g = 0; catalog->gpus[g]; g++)
  {
    if (!g_strcmp0(json_string_value(name), catalog->gpus[g])) mask |= UINT64_C(1) << g;
  }
  return names ? mask : UINT64_MAX;
}

/* The list must name GPUs of the catalogue. */
static bool check_gpus(const Catalog *catalog, const char *path, const json_t *entry, const char *name,
                       GError **error)
{
  const json_t *names = json_object_get(entry, "gpus");
  size_t i = 0;
  json_t *gpu = NULL;
  bool ok = !names || json_array_size(names) > 0;
  json_array_foreach((json_t *)names, i, gpu)
  {
    ok = ok && json_is_string(gpu) &&
         g_strv_contains((const char *const *)catalog->gpus, json_string_value(gpu));
  }
  if (!ok) fault(error, path, name, "gpus must be a list of names that the catalogue's own list has");
  return ok;
}

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

static bool add_graph(Catalog *catalog, const char *path, const json_t *entry, const Binding *binding,
                      GError **error)
{
  g_autofree char *name = expand_text(binding, json_string_value(json_object_get(entry, "name")));
  for (const char *c = name; *c; c++)
    if (!g_ascii_isalnum(*c) && *c != '_') {
      fault(error, path, name, "a name has letters, digits and _ only");
      return false;
    }
  for (guint i = 0; i < catalog->graphs->len; i++)
    if (!strcmp(((CatalogGraph *)catalog->graphs->pdata[i])->name, name)) {
      fault(error, path, name, "two graphs have this name");
      return false;
    }
  json_t *graph = expand(binding, json_object_get(entry, "graph"));
  json_object_set_new(graph, "name", json_string(name));
  CatalogGraph *added = g_new0(CatalogGraph, 1);
  added->name = g_strdup(name);
  added->text = json_dumps(graph, JSON_INDENT(1));
  describe_graph(added, graph);
  size_t i = 0;
  json_t *variant = NULL;
  json_array_foreach(json_object_get(entry, "variants"), i, variant)
  {
    added->variants |= 1u << (json_integer_value(variant) - 1);
  }
  added->gpus = entry_gpus(catalog, entry);
  json_decref(graph);
  GStrvBuilder *sets = g_strv_builder_new();
  json_array_foreach(json_object_get(entry, "set"), i, variant)
  {
    g_autofree char *set = expand_text(binding, json_string_value(variant));
    g_strv_builder_add(sets, set);
  }
  added->sets = g_strv_builder_end(sets);
  g_strv_builder_unref(sets);
  g_ptr_array_add(catalog->graphs, added);
  return true;
}

/* Calls add_graph for every combination of the variables from the index-th on. */
static bool add_combinations(Catalog *catalog, const char *path, const json_t *entry, json_t *binding,
                             void *iterator, GError **error)
{
  json_t *variables = json_object_get(entry, "for");
  if (!iterator) return add_graph(catalog, path, entry, binding, error);
  const char *variable = json_object_iter_key(iterator);
  const json_t *values = json_object_iter_value(iterator);
  size_t i = 0;
  json_t *value = NULL;
  json_array_foreach((json_t *)values, i, value)
  {
    json_object_set(binding, variable, value);
    if (!add_combinations(catalog, path, entry, binding, json_object_iter_next(variables, iterator), error))
      return false;
  }
  return true;
}

static bool add_entry(Catalog *catalog, const char *path, const json_t *entry, GError **error)
{
  static const char *const known[] = {"name", "for", "graph", "gpus", "variants", "set", NULL};
  const char *key = NULL;
  json_t *value = NULL;
  if (!json_is_string(json_object_get(entry, "name")) || !json_is_object(json_object_get(entry, "graph"))) {
    fault(error, path, NULL, "an entry needs a name and a graph");
    return false;
  }
  const char *name = json_string_value(json_object_get(entry, "name"));
  json_object_foreach((json_t *)entry, key, value) if (!g_strv_contains(known, key))
  {
    fault(error, path, name, "an entry has name, for, graph, gpus, variants and set only");
    return false;
  }
  json_t *variables = json_object_get(entry, "for");
  json_object_foreach(variables, key, value) if (!json_is_array(value))
  {
    fault(error, path, name, "each variable of for needs a list of values");
    return false;
  }
  size_t i = 0;
  json_array_foreach(json_object_get(entry, "variants"), i, value)
  {
    if (json_integer_value(value) >= 1 && json_integer_value(value) <= MAX_VARIANTS) continue;
    fault(error, path, name, "variants are numbers from 1");
    return false;
  }
  json_array_foreach(json_object_get(entry, "set"), i, value)
  {
    if (json_is_string(value) && strchr(json_string_value(value), '=')) continue;
    fault(error, path, name, "set has texts such as \"bm=128\"");
    return false;
  }
  if (!check_gpus(catalog, path, entry, name, error)) return false;
  json_t *binding = json_object();
  bool ok = add_combinations(catalog, path, entry, binding, json_object_iter(variables), error);
  json_decref(binding);
  return ok;
}

static bool read_gpus(Catalog *catalog, const char *path, const json_t *root, GError **error)
{
  json_t *gpus = json_object_get(root, "gpus");
  size_t i = 0;
  json_t *name = NULL;
  catalog->gpus = g_new0(char *, json_array_size(gpus) + 1);
  json_array_foreach(gpus, i, name)
  {
    if (!json_is_string(name)) break;
    catalog->gpus[i] = g_strdup(json_string_value(name));
  }
  if (i > 0 && i <= 64 && i == json_array_size(gpus)) return true;
  fault(error, path, NULL, "\"gpus\" must be a list of 1 to 64 names");
  return false;
}

Catalog *catalog_read(const char *path, GError **error)
{
  json_error_t where;
  g_autoptr(Source) source = source_load(path, error);
  if (!source) return NULL;
  json_t *root = json_loadb(source->text, source->length, JSON_REJECT_DUPLICATES, &where);
  if (!root) {
    Mark mark = {source, (unsigned)where.line, (unsigned)where.column};
    error_set(error, ERROR_INPUT, &mark, "catalog", NULL, "%s", where.text);
    return NULL;
  }
  Catalog *catalog = g_new0(Catalog, 1);
  catalog->graphs = g_ptr_array_new_with_free_func(graph_destroy);
  bool ok = read_gpus(catalog, path, root, error);
  if (ok && json_integer_value(json_object_get(root, "version")) != CATALOG_VERSION) {
    fault(error, path, NULL, "\"version\" must be 1");
    ok = false;
  }
  size_t i = 0;
  json_t *entry = NULL;
  json_array_foreach(json_object_get(root, "entries"), i, entry) ok =
      ok && add_entry(catalog, path, entry, error);
  json_decref(root);
  if (ok) return catalog;
  catalog_free(catalog);
  return NULL;
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
  g_ptr_array_unref(catalog->graphs);
  g_free(catalog);
}
