/* Reads an op description (JSON or YAML) into a graph builder: docs/graph.md is its reference. */
#include "generator/front/read_text.h"
#include "generator/front/onnx.h"
#include "generator/front/read.h"

/* Value of a required key, or NULL (reported). */
static Node *require(GraphBuilder *b, Node *mapping, const char *key)
{
  Node *value = node_require(mapping, key, graph_builder_error(b));
  graph_builder_note(b, value != NULL);
  return value;
}

/* An integer key within bounds; the default if it is absent. */
static int64_t bounded(GraphBuilder *b, Node *mapping, const char *key, int64_t min, int64_t max,
                       int64_t otherwise)
{
  Node *node = node_get(mapping, key);
  int64_t value;
  if (!node || !text_integer(b, node, &value)) return otherwise;
  if (value >= min && value <= max) return value;
  graph_builder_report(b, ERROR_INPUT, &node->mark, "out-of-range", NULL,
                       "`%s` must lie between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, key, min, max);
  return otherwise;
}

/* ---- dimensions ---- */

static void read_dim(GraphBuilder *b, const char *name, Mark mark, Node *node)
{
  static const char *const known[] = {"min", "max", "multiple", NULL};
  if (!text_is(b, node, NODE_MAPPING, "min, max, multiple")) return;
  GraphDimSpec dim = {.name = name, .name_mark = mark, .mark = node->mark};
  dim.min = bounded(b, node, "min", 0, SYMBOLIC_DIMENSION_MAX, 0);
  dim.max = bounded(b, node, "max", 0, SYMBOLIC_DIMENSION_MAX, SYMBOLIC_DIMENSION_MAX);
  dim.multiple = bounded(b, node, "multiple", 1, SYMBOLIC_DIMENSION_MAX, 1);
  text_finish(b, node, known);
  graph_builder_dim(b, &dim);
}

static void read_dims(GraphBuilder *b, Node *node)
{
  if (!node || !text_is(b, node, NODE_MAPPING, "symbol: {min, max, multiple}")) return;
  for (unsigned i = 0; i < node->n; i++)
    read_dim(b, node->keys[i], node->key_marks[i], node->items[i]);
}

/* ---- shapes ---- */

/* Reads a list of extents; n is GRAPH_RANK_UNKNOWN after a fault. */
static void read_extents(GraphBuilder *b, Node *node, const char *what, int64_t max, const Symbolic **extents,
                         unsigned *n)
{
  *n = GRAPH_RANK_UNKNOWN;
  if (!text_is(b, node, NODE_SEQUENCE, what)) return;
  if (node->n > GRAPH_MAX_RANK) {
    graph_builder_report(b, ERROR_UNSUPPORTED, &node->mark, "rank", NULL,
                         "rank %u is not supported: the most is %d", node->n, GRAPH_MAX_RANK);
    return;
  }
  bool ok = true;
  for (unsigned i = 0; i < node->n; i++)
    ok = (extents[i] = text_extent(b, node->items[i], max)) && ok;
  if (ok) *n = node->n;
}

/* ---- tensors ---- */

/* Type and shape, common to inputs and constants. */
static void read_type_and_shape(GraphBuilder *b, Node *node, GraphTensorSpec *spec)
{
  const char *name;
  Node *type = require(b, node, "type"), *shape = require(b, node, "shape");
  spec->rank = spec->n_strides = GRAPH_RANK_UNKNOWN;
  if (type && text_string(b, type, &name))
    spec->has_type = graph_builder_type(b, name, &type->mark, &spec->type, &spec->foreign);
  if (!shape) return;
  spec->shape_mark = shape->mark;
  read_extents(b, shape, "the shape", SYMBOLIC_DIMENSION_MAX, spec->shape, &spec->rank);
  for (unsigned i = 0; spec->rank != GRAPH_RANK_UNKNOWN && i < spec->rank; i++)
    spec->extent_marks[i] = shape->items[i]->mark;
}

static void read_input(GraphBuilder *b, const char *name, Mark mark, Node *node)
{
  static const char *const known[] = {"type", "shape", "strides", "align", NULL};
  GraphTensorSpec spec = {
      .name = name, .mark = mark, .rank = GRAPH_RANK_UNKNOWN, .n_strides = GRAPH_RANK_UNKNOWN};
  if (!text_is(b, node, NODE_MAPPING, "type, shape, strides, align")) {
    graph_builder_input(b, &spec);
    return;
  }
  int64_t value;
  read_type_and_shape(b, node, &spec);
  Node *align = node_get(node, "align"), *strides = node_get(node, "strides");
  if (align && text_integer(b, align, &value)) {
    spec.align = &value;
    spec.align_mark = align->mark;
  }
  if (strides && spec.has_type && spec.rank != GRAPH_RANK_UNKNOWN) {
    spec.strides_mark = strides->mark;
    read_extents(b, strides, "the strides", G_MAXINT64, spec.strides, &spec.n_strides);
  }
  graph_builder_input(b, &spec);
  text_finish(b, node, known);
}

/* ---- constants ---- */

static void read_file(GraphBuilder *b, Node *node, GraphTensor *tensor)
{
  const char *path;
  if (!text_string(b, node, &path)) return;
  if (*path)
    tensor->file = graph_builder_path(b, path);
  else
    graph_builder_report(b, ERROR_INPUT, &node->mark, "no-such-file", NULL, "the name of a file is missing");
}

static void read_constant(GraphBuilder *b, const char *name, Mark mark, Node *node)
{
  static const char *const known[] = {"type", "shape", "data", "file", NULL};
  GraphTensorSpec spec = {
      .name = name, .mark = mark, .rank = GRAPH_RANK_UNKNOWN, .n_strides = GRAPH_RANK_UNKNOWN};
  if (!text_is(b, node, NODE_MAPPING, "type, shape, data or file")) {
    graph_builder_constant(b, &spec);
    return;
  }
  read_type_and_shape(b, node, &spec);
  Node *data = node_get(node, "data"), *file = node_get(node, "file");
  text_finish(b, node, known);
  if (!data == !file)
    graph_builder_report(b, ERROR_INPUT, data ? &data->mark : &node->mark, "constant-data", NULL,
                         "constant `%s` needs either `data` or `file`", name);
  GraphTensor *tensor = graph_builder_constant(b, &spec);
  if (tensor && data && !file) text_data(b, data, tensor);
  if (tensor && file && !data) read_file(b, file, tensor);
}

static void read_tensors(GraphBuilder *b, Node *node, const char *what,
                         void (*read)(GraphBuilder *, const char *, Mark, Node *))
{
  if (!node || !text_is(b, node, NODE_MAPPING, what)) return;
  for (unsigned i = 0; i < node->n; i++)
    read(b, node->keys[i], node->key_marks[i], node->items[i]);
}

/* ---- values of attributes ---- */

static bool value_integer(const void *value, int64_t *result, GError **error)
{
  return node_integer((Node *)value, result, error);
}

static bool value_number(const void *value, double *result, GError **error)
{
  return node_number((Node *)value, result, error);
}

static bool value_string(const void *value, const char **result, GError **error)
{
  return node_string((Node *)value, result, error);
}

static bool value_list(const void *value, const char *what, unsigned *n, GError **error)
{
  *n = ((const Node *)value)->n;
  return node_kind_is((Node *)value, NODE_SEQUENCE, what, error);
}

static const void *value_item(const void *value, unsigned i)
{
  return ((const Node *)value)->items[i];
}

static bool value_is_number(const void *value)
{
  const Node *node = value;
  return node->kind == NODE_SCALAR && !node->quoted && g_ascii_isdigit(node->text[0]);
}

static Mark value_mark(const void *value)
{
  return ((const Node *)value)->mark;
}

static const GraphValueFormat format = {value_integer, value_number,    value_string, value_list,
                                        value_item,    value_is_number, value_mark};

/* ---- nodes ---- */

/* Names of tensors; NULL after a fault. */
static GraphNameSpec *read_names(GraphBuilder *b, Node *list, unsigned *n, Mark *mark)
{
  if (!list || !text_is(b, list, NODE_SEQUENCE, "names of tensors")) return NULL;
  *mark = list->mark;
  *n = list->n;
  GraphNameSpec *names = g_new0(GraphNameSpec, list->n + 1);
  for (unsigned i = 0; i < list->n; i++) {
    names[i].mark = list->items[i]->mark;
    if (!text_string(b, list->items[i], &names[i].name)) names[i].name = NULL;
  }
  return names;
}

static void read_nodes(GraphBuilder *b, Node *list);
static void read_outputs(GraphBuilder *b, Node *list);

/* NULL: the value is no graph. */
static const GraphBody *read_body(GraphBuilder *b, Node *node)
{
  static const char *const known[] = {"inputs", "constants", "nodes", "outputs", NULL};
  unsigned n = 0;
  Mark mark;
  if (node->kind != NODE_MAPPING) return NULL;
  graph_builder_open_body(b);
  Node *inputs = node_get(node, "inputs"), *nodes = node_get(node, "nodes"),
       *outputs = require(b, node, "outputs");
  g_autofree GraphNameSpec *names = read_names(b, inputs, &n, &mark);
  for (unsigned i = 0; names && i < n; i++)
    if (names[i].name) graph_builder_body_input(b, names[i].name, &names[i].mark);
  read_tensors(b, node_get(node, "constants"), "name: {type, shape, data or file}", read_constant);
  text_finish(b, node, known);
  read_nodes(b, nodes);
  read_outputs(b, outputs);
  return graph_builder_close_body(b);
}

static GraphAttributeSpec *read_attributes(GraphBuilder *b, Node *mapping, GraphNodeSpec *spec)
{
  spec->attributes_faulty = mapping && !text_is(b, mapping, NODE_MAPPING, "name: value");
  if (!mapping || spec->attributes_faulty) return NULL;
  GraphAttributeSpec *attributes = g_new0(GraphAttributeSpec, mapping->n + 1);
  for (unsigned i = 0; i < mapping->n; i++)
    attributes[i] = (GraphAttributeSpec){mapping->keys[i], mapping->key_marks[i], mapping->items[i],
                                         read_body(b, mapping->items[i])};
  spec->n_attributes = mapping->n;
  return attributes;
}

static void read_node(GraphBuilder *b, Node *node)
{
  static const char *const known[] = {"op",     "domain",  "opset",      "name",
                                      "inputs", "outputs", "attributes", NULL};
  if (!text_is(b, node, NODE_MAPPING, "op, inputs, outputs")) return;
  GraphNodeSpec spec = {.mark = node->mark, .domain = "", .name = ""};
  g_autofree GraphAttributeSpec *attributes = read_attributes(b, node_get(node, "attributes"), &spec);
  graph_builder_open_node(b);
  graph_builder_note(b, !spec.attributes_faulty);
  Node *op = require(b, node, "op"), *domain = node_get(node, "domain"), *name = node_get(node, "name");
  if (op && text_string(b, op, &spec.op)) spec.op_mark = op->mark;
  if (domain && !text_string(b, domain, &spec.domain)) spec.op = NULL;
  if (name) text_string(b, name, &spec.name);
  spec.opset = (unsigned)bounded(b, node, "opset", OPERATOR_OPSET_MIN, onnx_opset(), 0);
  g_autofree GraphNameSpec *inputs =
      read_names(b, require(b, node, "inputs"), &spec.n_inputs, &spec.inputs_mark);
  g_autofree GraphNameSpec *outputs =
      read_names(b, require(b, node, "outputs"), &spec.n_outputs, &spec.outputs_mark);
  text_finish(b, node, known);
  spec.inputs = inputs;
  spec.attributes = attributes;
  spec.outputs = outputs;
  graph_builder_close_node(b, &spec);
}

static void read_nodes(GraphBuilder *b, Node *list)
{
  if (!list || !text_is(b, list, NODE_SEQUENCE, "the nodes")) return;
  if (!list->n) graph_builder_report(b, ERROR_INPUT, &list->mark, "no-nodes", NULL, "the graph has no nodes");
  for (unsigned i = 0; i < list->n; i++)
    read_node(b, list->items[i]);
}

/* {OUTPUT: INPUT} */
static void read_sharing(GraphBuilder *b, Node *node)
{
  const char *input;
  if (!node || !text_is(b, node, NODE_MAPPING, "output: input")) return;
  for (unsigned i = 0; i < node->n; i++)
    if (text_string(b, node->items[i], &input))
      graph_builder_share(b, node->keys[i], input, &node->key_marks[i]);
}

static void read_outputs(GraphBuilder *b, Node *list)
{
  const char *name;
  if (!list || !text_is(b, list, NODE_SEQUENCE, "names of tensors")) return;
  if (!list->n)
    graph_builder_report(b, ERROR_INPUT, &list->mark, "no-outputs", NULL, "the graph has no outputs");
  for (unsigned i = 0; i < list->n; i++)
    if (text_string(b, list->items[i], &name)) graph_builder_output(b, name, &list->items[i]->mark);
}

/* ---- the whole ---- */

static void read_versions(GraphBuilder *b, Node *root)
{
  Node *version = node_get(root, "version"), *opset = node_get(root, "opset");
  int64_t value;
  if (version && text_integer(b, version, &value) && value != GRAPH_TEXT_VERSION)
    graph_builder_report(b, ERROR_UNSUPPORTED, &version->mark, "version", NULL,
                         "version %" G_GINT64_FORMAT
                         " of the format is not supported: this program reads version %d",
                         value, GRAPH_TEXT_VERSION);
  if (opset && text_integer(b, opset, &value)) graph_builder_opset(b, value, &opset->mark);
}

static void read_root(GraphBuilder *b, Node *root)
{
  static const char *const known[] = {"version", "name",  "opset",   "inputs",   "constants",
                                      "dims",    "nodes", "outputs", "in_place", NULL};
  const char *name;
  if (!text_is(b, root, NODE_MAPPING, "an op description")) return;
  Node *node = node_get(root, "name");
  if (node && text_string(b, node, &name)) graph_builder_name(b, name, &node->mark);
  read_versions(b, root);
  read_dims(b, node_get(root, "dims"));
  read_tensors(b, node_get(root, "inputs"), "name: {type, shape}", read_input);
  read_tensors(b, node_get(root, "constants"), "name: {type, shape, data or file}", read_constant);
  Node *nodes = require(b, root, "nodes"), *outputs = require(b, root, "outputs"),
       *sharing = node_get(root, "in_place");
  text_finish(b, root, known);
  read_nodes(b, nodes);
  read_outputs(b, outputs);
  read_sharing(b, sharing);
}

Graph *graph_read_text(Source *source, const GraphReading *reading, GError **error)
{
  GError *local = NULL; /* callers may not want to know why */
  g_autoptr(Document) document = document_parse(source, error);
  if (!document) return NULL;
  GraphBuilder *builder = graph_builder_new(source, &format, reading, &local);
  read_root(builder, document_root(document));
  Graph *graph = graph_builder_finish(builder);
  if (!graph) g_propagate_error(error, local);
  return graph;
}
