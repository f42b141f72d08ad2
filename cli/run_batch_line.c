#include "cli/run_batch_line.h"
#include <string.h>

#define CODE "bad-batch"
#define HINT "docs/cli.md describes the lines of a batch"

static bool refuse(const Node *node, const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, &node->mark, CODE, HINT, "%s", what);
  return false;
}

bool batch_line_place(const BatchLine *line, const Node *node, GError **error)
{
  if (error && *error && (node || line->words)) error_place(*error, node ? &node->mark : &line->words->mark);
  return false;
}

/* ---- values ---- */

static bool take_text(Node *words, const char *key, const char **value, GError **error)
{
  Node *node = node_get(words, key);
  return !node || node_string(node, value, error);
}

static bool take_flag(Node *words, const char *key, bool *value, GError **error)
{
  Node *node = node_get(words, key);
  return !node || node_boolean(node, value, error);
}

static bool take_count(Node *words, const char *key, int64_t most, int64_t *value, GError **error)
{
  Node *node = node_get(words, key);
  if (!node) return true;
  if (!node_integer(node, value, error)) return false;
  if (*value >= 0 && *value <= most) return true;
  g_autofree char *what = g_strdup_printf("`%s` is from 0 to %" G_GINT64_FORMAT, key, most);
  return refuse(node, what, error);
}

static bool take_texts(Node *words, const char *key, Node **list, GError **error)
{
  *list = node_get(words, key);
  if (!*list) return true;
  if (!node_kind_is(*list, NODE_SEQUENCE, "of texts", error)) return false;
  const char *text = NULL;
  for (unsigned i = 0; i < (*list)->n; i++)
    if (!node_string((*list)->items[i], &text, error)) return false;
  return true;
}

static bool take_graph(BatchLine *line, GError **error)
{
  line->graph = node_require(line->words, "graph", error);
  if (!line->graph) return false;
  if (line->graph->kind == NODE_MAPPING || (line->graph->kind == NODE_SCALAR && line->graph->quoted))
    return true;
  return refuse(line->graph, "`graph` is to be an object or the name of a file", error);
}

static bool take_gpu(BatchLine *line, GError **error)
{
  Node *node = node_require(line->words, "gpu", error);
  return node && node_string(node, &line->gpu, error);
}

static bool take_dims(BatchLine *line, GError **error)
{
  bool fixed = false;
  line->dims = node_get(line->words, "dims");
  if (!take_flag(line->words, "fixed", &fixed, error)) return false;
  if (!line->dims) return true;
  if (!node_kind_is(line->dims, NODE_MAPPING, "of dimensions and their values", error)) return false;
  line->bindings = g_new0(GraphBinding, line->dims->n + 1);
  for (unsigned i = 0; i < line->dims->n; i++) {
    GraphBinding *binding = &line->bindings[line->n_bindings++];
    binding->name = line->dims->keys[i];
    if (!node_integer(line->dims->items[i], &binding->value, error)) return false;
  }
  line->n_constants = fixed ? line->n_bindings : 0;
  return true;
}

static bool take_accumulate(BatchLine *line, GError **error)
{
  const char *text = NULL;
  if (!take_text(line->words, "accumulate", &text, error)) return false;
  if (text && accumulate_parse(text) == ACCUMULATE_DEFAULT)
    return refuse(node_get(line->words, "accumulate"), "`accumulate` is exact or fast", error);
  line->accumulate = accumulate_parse(text);
  return true;
}

/* ---- the line ---- */

static bool take_all(BatchLine *line, GError **error)
{
  static const char *const known[] = {"label",    "graph",      "gpu",        "dims",     "set",
                                      "offset",   "skew",       "sms",        "seed",     "fixed",
                                      "in_place", "accumulate", "admit_wide", "checkers", NULL};
  Node *words = line->words;
  if (words->kind != NODE_MAPPING) return refuse(words, "a line of a batch is to be an object", error);
  int64_t sms = 0, skew = 0, seed = 0;
  if (!take_text(words, "label", &line->label, error)) return false;
  for (const char *const *key = known; *key; key++)
    node_get(words, *key);
  bool ok = node_finish(words, known, error) && take_graph(line, error) && take_gpu(line, error) &&
            take_dims(line, error) && take_texts(words, "set", &line->set, error) &&
            take_texts(words, "offset", &line->offset, error) &&
            take_texts(words, "in_place", &line->in_place, error) && take_accumulate(line, error) &&
            take_count(words, "sms", G_MAXINT32, &sms, error) &&
            take_count(words, "skew", G_MAXINT32, &skew, error) &&
            take_count(words, "seed", G_MAXINT64, &seed, error) &&
            take_flag(words, "admit_wide", &line->admit_wide, error) &&
            take_text(words, "checkers", &line->checkers, error);
  line->sms = (unsigned)sms;
  line->skew = (unsigned)skew;
  line->seed = (uint64_t)seed;
  return ok;
}

bool batch_line_read(BatchLine *line, const Source *file, const char *text, unsigned number, GError **error)
{
  memset(line, 0, sizeof *line);
  g_autoptr(GString) padded = g_string_sized_new(number + strlen(text));
  for (unsigned i = 1; i < number; i++)
    g_string_append_c(padded, '\n'); /* so that places are those of the file */
  g_string_append(padded, text);
  g_autoptr(Source) source = source_new(file->name, padded->str, padded->len);
  line->document = document_parse_json(source, error);
  if (!line->document) return false;
  line->words = document_root(line->document);
  return take_all(line, error);
}

void batch_line_clear(BatchLine *line)
{
  g_clear_pointer(&line->document, document_free);
  g_clear_pointer(&line->bindings, g_free);
}

static void put(GString *key, const char *text)
{
  g_string_append_printf(key, "%zu:%s,", strlen(text), text);
}

char *batch_line_key(const BatchLine *line)
{
  GString *key = g_string_new(NULL);
  g_autoptr(Source) graph = line->graph->kind == NODE_MAPPING ? node_object_source(line->graph) : NULL;
  put(key, graph ? graph->text + strspn(graph->text, " \n") : line->graph->text);
  put(key, line->gpu);
  g_string_append_printf(key, "%u %d %u", line->sms, (int)line->accumulate, line->set ? line->set->n : 0);
  for (unsigned i = 0; line->set && i < line->set->n; i++)
    put(key, line->set->items[i]->text);
  for (unsigned i = 0; i < line->n_constants; i++) {
    put(key, line->bindings[i].name);
    g_string_append_printf(key, "%" G_GINT64_FORMAT, line->bindings[i].value);
  }
  return g_string_free(key, FALSE);
}

Source *batch_line_graph(const BatchLine *line, GError **error)
{
  if (line->graph->kind == NODE_MAPPING) return node_object_source(line->graph);
  Source *source = source_load(line->graph->text, error);
  if (!source) batch_line_place(line, line->graph, error);
  return source;
}
