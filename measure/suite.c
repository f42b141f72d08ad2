#include "measure/suite.h"
#include "base/data.h"
#include <string.h>

typedef struct Suite {
  const char *name; /* for messages */
  char *folder;     /* graphs named by file are relative to it */
  GRegex *only;
  GPtrArray *cases;
  unsigned entry; /* being read, from 1 */
} Suite;

static bool refuse(const Suite *suite, const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, NULL, "bad-suite", "docs/bench.md describes suites", "%s: case %u: %s",
            suite->name, suite->entry, what);
  return false;
}

/* ---- one entry ---- */

static Source *graph_of(const Suite *suite, const json_t *entry, GError **error)
{
  const json_t *graph = json_object_get(entry, "graph");
  if (json_is_string(graph)) {
    const char *file = json_string_value(graph);
    g_autofree char *path =
        g_path_is_absolute(file) ? g_strdup(file) : g_build_filename(suite->folder, file, NULL);
    return source_load(path, error);
  }
  if (!json_is_object(graph)) {
    refuse(suite, "`graph` is to be an object or the name of a file", error);
    return NULL;
  }
  g_autofree char *name = g_strdup_printf("%s, case %u", suite->name, suite->entry);
  char *text = json_dumps(graph, JSON_INDENT(1));
  Source *source = source_new(name, text, strlen(text));
  free(text);
  return source;
}

static bool add_case(Suite *suite, Source *source, const json_t *entry, GStrvBuilder *bindings,
                     GError **error)
{
  g_auto(GStrv) list = g_strv_builder_end(bindings);
  g_autoptr(GStrvBuilder) names = g_strv_builder_new();
  size_t i;
  json_t *constant;
  json_array_foreach(json_object_get(entry, "constants"), i, constant)
  {
    if (!json_is_string(constant)) return refuse(suite, "`constants` is to be a list of names", error);
    g_strv_builder_add(names, json_string_value(constant));
  }
  g_auto(GStrv) constants = g_strv_builder_end(names);
  g_autoptr(BenchCase) c = bench_case_new(source, json_string_value(json_object_get(entry, "class")),
                                          (const char *const *)list, (const char *const *)constants, error);
  if (!c) return false;
  if (!suite->only || g_regex_match(suite->only, c->name, 0, NULL))
    g_ptr_array_add(suite->cases, g_steal_pointer(&c));
  return true;
}

static bool add_dims(const Suite *suite, GStrvBuilder *bindings, const json_t *dims, GError **error)
{
  const char *name;
  json_t *value;
  if (!json_is_object(dims)) return refuse(suite, "`dims` is to be a list of lists of objects", error);
  json_object_foreach((json_t *)dims, name, value)
  {
    if (!json_is_integer(value)) return refuse(suite, "a dimension is to be a whole number", error);
    g_autofree char *text = g_strdup_printf("%s=%" JSON_INTEGER_FORMAT, name, json_integer_value(value));
    g_strv_builder_add(bindings, text);
  }
  return true;
}

/* Every choice of one object out of each list: the number of the choice, digit by digit. */
static bool add_cases(Suite *suite, Source *source, const json_t *entry, GError **error)
{
  const json_t *lists = json_object_get(entry, "dims");
  size_t n = 1, i;
  json_t *list;
  if (lists && !json_is_array(lists))
    return refuse(suite, "`dims` is to be a list of lists of objects", error);
  json_array_foreach(lists, i, list)
  {
    if (!json_array_size(list)) return refuse(suite, "`dims` is to be a list of lists of objects", error);
    n *= json_array_size(list);
  }
  for (size_t choice = 0; choice < n; choice++) {
    g_autoptr(GStrvBuilder) bindings = g_strv_builder_new();
    size_t rest = choice;
    for (i = json_array_size(lists); i > 0; i--) {
      list = json_array_get(lists, i - 1);
      if (!add_dims(suite, bindings, json_array_get(list, rest % json_array_size(list)), error)) return false;
      rest /= json_array_size(list);
    }
    if (!add_case(suite, source, entry, bindings, error)) return false;
  }
  return true;
}

static bool check_keys(const Suite *suite, const json_t *entry, GError **error)
{
  static const char *const known[] = {"class", "graph", "constants", "dims", NULL};
  const char *key;
  json_t *value;
  if (!json_is_object(entry)) return refuse(suite, "it is to be an object", error);
  json_object_foreach((json_t *)entry, key, value)
  {
    if (g_strv_contains(known, key)) continue;
    g_autofree char *what = g_strdup_printf("unknown key `%s`; known: class, graph, constants, dims", key);
    return refuse(suite, what, error);
  }
  return true;
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

static bool read_entries(Suite *suite, const json_t *root, GError **error)
{
  const json_t *cases = json_object_get(root, "cases");
  size_t i;
  json_t *entry;
  if (json_integer_value(json_object_get(root, "version")) != 1 || !json_is_array(cases)) {
    error_set(error, ERROR_INPUT, NULL, "bad-suite", "docs/bench.md describes suites",
              "%s: a suite is an object with \"version\": 1 and a list of cases", suite->name);
    return false;
  }
  json_array_foreach(cases, i, entry)
  {
    suite->entry = (unsigned)i + 1;
    if (!check_keys(suite, entry, error)) return false;
    g_autoptr(Source) source = graph_of(suite, entry, error);
    if (!source || !add_cases(suite, source, entry, error)) return false;
  }
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
  json_error_t fault;
  json_t *root = json_loadb(source->text, source->length, JSON_REJECT_DUPLICATES, &fault);
  bool ok = false;
  suite.cases = g_ptr_array_new_with_free_func((GDestroyNotify)bench_case_free);
  if (root) {
    ok = read_entries(&suite, root, error);
  } else {
    const Mark mark = {source, (unsigned)MAX(fault.line, 0), (unsigned)MAX(fault.column, 0)};
    error_set(error, ERROR_INPUT, &mark, "syntax", NULL, "%s", fault.text);
  }
  json_decref(root);
  g_clear_pointer(&suite.only, g_regex_unref);
  if (!ok) g_clear_pointer(&suite.cases, g_ptr_array_unref);
  return suite.cases;
}
