/* The matrix product of a case alone: what its kernel would take without what is fused to it. */
#include "measure/bench.h"
#include <string.h>

static bool refuse(const BenchCase *c, const char *what, GError **error)
{
  error_set(error, ERROR_UNSUPPORTED, NULL, "no-product", NULL, "%s: %s", c->name, what);
  return false;
}

static const GraphNode *find_product(const Graph *graph, unsigned *n)
{
  const GraphNode *found = NULL;
  for (unsigned i = *n = 0; i < graph->n_nodes; i++) {
    if (graph->nodes[i]->op->class_ != OPERATOR_GEMM) continue;
    found = graph->nodes[i];
    ++*n;
  }
  return found;
}

static json_t *expressions_json(const Symbolic *const *list, unsigned n, GHashTable *symbols)
{
  json_t *json = json_array();
  for (unsigned i = 0; i < n; i++) {
    int64_t value;
    g_autofree char *text = symbolic_text(list[i]);
    bool constant = symbolic_is_constant(list[i], &value);
    json_array_append_new(json, constant ? json_integer(value) : json_string(text));
    g_auto(GStrv) words = g_regex_split_simple("[^A-Za-z0-9_]+", text, 0, 0);
    for (char **word = words; !constant && *word; word++)
      g_hash_table_add(symbols, g_strdup(*word));
  }
  return json;
}

static json_t *tensor_json(const GraphTensor *tensor, GHashTable *symbols)
{
  return json_pack("{s:s, s:o, s:o, s:i}", "type", number_name(tensor->type), "shape",
                   expressions_json(tensor->shape, tensor->rank, symbols), "strides",
                   expressions_json(tensor->strides, tensor->rank, symbols), "align", (int)tensor->align);
}

static json_t *attributes_json(const GraphNode *node)
{
  json_t *json = json_object();
  for (unsigned i = 0; i < node->op->n_attributes; i++) {
    const char *name = node->op->attributes[i].name;
    const GraphAttribute *attribute = &node->attributes[i];
    if (!attribute->given) continue;
    if (!strcmp(name, "transA") || !strcmp(name, "transB"))
      json_object_set_new(json, name, json_integer(attribute->integer));
    else if (attribute->text)
      json_object_set_new(json, name, json_string(attribute->text));
  }
  return json;
}

/* Limits of the dimensions that are left. */
static json_t *dims_json(const Graph *graph, GHashTable *symbols)
{
  json_t *json = json_object();
  for (unsigned i = 0; i < graph->n_dims; i++) {
    const GraphDim *dim = &graph->dims[i];
    if (!g_hash_table_contains(symbols, dim->name) || !dim->declared) continue;
    json_object_set_new(json, dim->name,
                        json_pack("{s:I, s:I, s:I}", "min", (json_int_t)dim->min, "max", (json_int_t)dim->max,
                                  "multiple", (json_int_t)dim->multiple));
  }
  return json;
}

/* A graph of the node and nothing else. */
static Source *text_of(const BenchCase *c, const Graph *graph, const GraphNode *node, GHashTable *symbols)
{
  json_t *inputs = json_object();
  for (unsigned i = 0; i < 2; i++)
    json_object_set_new(inputs, node->inputs[i]->name, tensor_json(node->inputs[i], symbols));
  const char *result = node->outputs[0]->name;
  json_t *json =
      json_pack("{s:s, s:i, s:o, s:o, s:[{s:s, s:[s, s], s:[s], s:o}], s:[s]}", "name", "product", "opset",
                (int)graph->opset, "inputs", inputs, "dims", dims_json(graph, symbols), "nodes", "op",
                node->op->name, "inputs", node->inputs[0]->name, node->inputs[1]->name, "outputs", result,
                "attributes", attributes_json(node), "outputs", result);
  g_autofree char *name = g_strdup_printf("the product of %s", c->name);
  char *text = json_dumps(json, JSON_INDENT(1));
  Source *source = source_new(name, text, strlen(text));
  free(text);
  json_decref(json);
  return source;
}

/* Bindings ("NAME=VALUE") or names of those that are left. */
static char **pick(const GraphBinding *bindings, unsigned n, GHashTable *symbols, bool values)
{
  g_autoptr(GStrvBuilder) list = g_strv_builder_new();
  for (unsigned i = 0; i < n; i++) {
    if (!g_hash_table_contains(symbols, bindings[i].name)) continue;
    g_autofree char *text = values
                                ? g_strdup_printf("%s=%" G_GINT64_FORMAT, bindings[i].name, bindings[i].value)
                                : g_strdup(bindings[i].name);
    g_strv_builder_add(list, text);
  }
  return g_strv_builder_end(list);
}

BenchCase *bench_case_product(const BenchCase *c, GError **error)
{
  unsigned n;
  g_autoptr(Graph) graph = graph_read(c->source, NULL, 0, error);
  const GraphNode *node = graph ? find_product(graph, &n) : NULL;
  if (!graph) return NULL;
  if (n != 1 || graph->n_nodes == 1) {
    refuse(c, "it is not one matrix product with something behind it", error);
    return NULL;
  }
  for (unsigned i = 0; i < 2; i++)
    if (node->inputs[i]->kind == TENSOR_COMPUTED || node->inputs[0] == node->inputs[1]) {
      refuse(c, "its product does not multiply two inputs of the graph", error);
      return NULL;
    }
  g_autoptr(GHashTable) symbols = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(Source) source = text_of(c, graph, node, symbols);
  g_auto(GStrv) bindings = pick(c->bindings, c->n_bindings, symbols, true);
  g_auto(GStrv) constants = pick(c->constants, c->n_constants, symbols, false);
  BenchCase *product =
      bench_case_new(source, c->class_, (const char *const *)bindings, (const char *const *)constants, error);
  if (product) product->accumulate = c->accumulate;
  return product;
}
