#include "measure/suite.h"
#include "base/data.h"
#include "base/document.h"
#include <string.h>

#define HINT "docs/bench.md describes suites"

typedef struct Suite {
  const char *name; /* for messages */
  char *folder;     /* graphs named by file are relative to it */
  GRegex *only;
  GPtrArray *cases;
} Suite;

static bool refuse(const Node *node, const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, &node->mark, "bad-suite", HINT, "%s", what);
  return false;
}

/* ---- one entry ---- */

/* An object's messages point into the suite. */
static Source *graph_of(const Suite *suite, Node *entry, GError **error)
{
  Node *graph = node_require(entry, "graph", error);
  if (!graph) return NULL;
  if (graph->kind == NODE_SCALAR && graph->quoted) {
    g_autofree char *path = g_path_is_absolute(graph->text)
                                ? g_strdup(graph->text)
                                : g_build_filename(suite->folder, graph->text, NULL);
    return source_load(path, error);
  }
  Source *source = graph->kind == NODE_MAPPING ? node_object_source(graph) : NULL;
  if (!source) refuse(graph, "`graph` is to be an object or the name of a file", error);
  return source;
}

static bool read_constants(GStrvBuilder *names, Node *list, GError **error)
{
  if (!list) return true;
  if (!node_kind_is(list, NODE_SEQUENCE, "constants", error)) return false;
  for (unsigned i = 0; i < list->n; i++) {
    const char *name = NULL;
    if (!node_string(list->items[i], &name, error)) return false;
    g_strv_builder_add(names, name);
  }
  return true;
}

static bool add_case(Suite *suite, Source *source, Node *entry, GStrvBuilder *bindings, GError **error)
{
  g_auto(GStrv) list = g_strv_builder_end(bindings);
  g_autoptr(GStrvBuilder) names = g_strv_builder_new();
  Node *class_ = node_get(entry, "class");
  const char *title = NULL;
  if (class_ && !node_string(class_, &title, error)) return false;
  if (!read_constants(names, node_get(entry, "constants"), error)) return false;
  g_auto(GStrv) constants = g_strv_builder_end(names);
  g_autoptr(BenchCase) c =
      bench_case_new(source, title, (const char *const *)list, (const char *const *)constants, error);
  if (!c) return false;
  if (!suite->only || g_regex_match(suite->only, c->name, 0, NULL))
    g_ptr_array_add(suite->cases, g_steal_pointer(&c));
  return true;
}

static bool add_dims(GStrvBuilder *bindings, Node *dims, GError **error)
{
  for (unsigned i = 0; i < dims->n; i++) {
    int64_t value = 0;
    if (!node_integer(dims->items[i], &value, error)) return false;
    g_autofree char *text = g_strdup_printf("%s=%" G_GINT64_FORMAT, dims->keys[i], value);
    g_strv_builder_add(bindings, text);
  }
  return true;
}

/* Lists of objects, none of them empty. */
static bool check_dims(const Node *lists, GError **error)
{
  static const char what[] = "`dims` is to be a list of lists of objects";
  if (lists->kind != NODE_SEQUENCE) return refuse(lists, what, error);
  for (unsigned i = 0; i < lists->n; i++) {
    const Node *list = lists->items[i];
    if (list->kind != NODE_SEQUENCE || !list->n) return refuse(list, what, error);
    for (unsigned k = 0; k < list->n; k++)
      if (list->items[k]->kind != NODE_MAPPING) return refuse(list->items[k], what, error);
  }
  return true;
}

/* Every choice of one object out of each list: the number of the choice, digit by digit. */
static bool add_cases(Suite *suite, Source *source, Node *entry, GError **error)
{
  const Node *lists = node_get(entry, "dims");
  if (lists && !check_dims(lists, error)) return false;
  size_t n = 1;
  for (unsigned i = 0; lists && i < lists->n; i++)
    n *= lists->items[i]->n;
  for (size_t choice = 0; choice < n; choice++) {
    g_autoptr(GStrvBuilder) bindings = g_strv_builder_new();
    size_t rest = choice;
    for (unsigned i = lists ? lists->n : 0; i > 0; i--) {
      const Node *list = lists->items[i - 1];
      if (!add_dims(bindings, list->items[rest % list->n], error)) return false;
      rest /= list->n;
    }
    if (!add_case(suite, source, entry, bindings, error)) return false;
  }
  return true;
}

static bool read_entry(Suite *suite, Node *entry, GError **error)
{
  static const char *const known[] = {"class", "graph", "constants", "dims", NULL};
  if (entry->kind != NODE_MAPPING) return refuse(entry, "a case is to be an object", error);
  for (const char *const *key = known; *key; key++)
    node_get(entry, *key);
  if (!node_finish(entry, known, error)) return false;
  g_autoptr(Source) source = graph_of(suite, entry, error);
  return source && add_cases(suite, source, entry, error);
}

/* ---- the file ---- */

static Source *find_suite(const char *name_or_path, char **folder, GError **error)
{
  *folder = g_path_get_dirname(name_or_path);
  if (strchr(name_or_path, '/') || g_str_has_suffix(name_or_path, ".json"))
    return source_load(name_or_path, error);
  g_autofree char *path = g_strdup_printf("bench/suites/%s.json", name_or_path);
  if (data_exists(path)) return data_load(path, error);
  g_auto(GStrv) names = data_list("bench/suites");
  for (char **name = names; *name; name++)
    if (g_str_has_suffix(*name, ".json")) (*name)[strlen(*name) - strlen(".json")] = 0;
  g_autofree char *list = g_strjoinv(" ", names);
  error_set(error, ERROR_INPUT, NULL, "unknown-suite", "a path has a slash in it or ends in .json",
            "there is no suite %s; built in are: %s", name_or_path, list);
  return NULL;
}

static bool read_entries(Suite *suite, Node *root, GError **error)
{
  static const char *const known[] = {"version", "cases", NULL};
  int64_t version = 0;
  Node *number = root->kind == NODE_MAPPING ? node_get(root, "version") : NULL,
       *cases = number ? node_get(root, "cases") : NULL;
  if (!cases || cases->kind != NODE_SEQUENCE || !node_integer(number, &version, NULL) || version != 1)
    return refuse(root, "a suite is an object with \"version\": 1 and a list of cases", error);
  if (!node_finish(root, known, error)) return false;
  for (unsigned i = 0; i < cases->n; i++)
    if (!read_entry(suite, cases->items[i], error)) return false;
  if (suite->cases->len) return true;
  error_set(error, ERROR_INPUT, NULL, "no-case", NULL, "%s: no case matches", suite->name);
  return false;
}

GPtrArray *bench_suite_load(const char *name_or_path, const char *only, GError **error)
{
  g_autofree char *folder = NULL;
  g_autoptr(Source) source = find_suite(name_or_path, &folder, error);
  if (!source) return NULL;
  Suite suite = {.name = source->name, .folder = folder};
  GError *cause = NULL;
  suite.only = only ? g_regex_new(only, 0, 0, &cause) : NULL;
  if (cause) {
    error_set(error, ERROR_USAGE, NULL, "bad-pattern", NULL, "--only: %s", cause->message);
    g_error_free(cause);
    return NULL;
  }
  g_autoptr(Document) document = document_parse(source, error);
  suite.cases = g_ptr_array_new_with_free_func((GDestroyNotify)bench_case_free);
  bool ok = document && read_entries(&suite, document_root(document), error);
  g_clear_pointer(&suite.only, g_regex_unref);
  if (!ok) g_clear_pointer(&suite.cases, g_ptr_array_unref);
  return suite.cases;
}
