/* Reads an op description (JSON or YAML) into a graph: docs/graph.md is its reference. Faults are collected,
 * so that one run shows them all; what follows from an earlier fault only is not reported. */
#include "base/document.h"
#include "generator/front/private.h"
#include <string.h>

void reader_report(Reader *reader, ErrorCode code, const Mark *mark, const char *id, const char *hint,
                   const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  reader->failed = true;
  error_add(reader->error, code, SEVERITY_ERROR, mark, id, hint, "%s", message);
}

/* "did you mean `x`?" for the nearest of a NULL-terminated list, else otherwise (which may be NULL); g_free.
 */
char *reader_suggest(const char *name, const char *const *candidates, const char *otherwise)
{
  const char *near = nearest_name(name, candidates);
  return near ? g_strdup_printf("did you mean `%s`?", near) : g_strdup(otherwise);
}

bool reader_finish(Reader *reader, Node *mapping, const char *const *known)
{
  bool ok = node_finish(mapping, known, reader->error);
  if (!ok) reader->failed = true;
  return ok;
}

bool reader_string(Reader *reader, Node *node, const char **value)
{
  bool ok = node_string(node, value, reader->error);
  if (!ok) reader->failed = true;
  return ok;
}

bool reader_integer(Reader *reader, Node *node, int64_t *value)
{
  bool ok = node_integer(node, value, reader->error);
  if (!ok) reader->failed = true;
  return ok;
}

bool reader_is(Reader *reader, Node *node, NodeKind kind, const char *what)
{
  bool ok = node_kind_is(node, kind, what, reader->error);
  if (!ok) reader->failed = true;
  return ok;
}

/* Value of a required key, or NULL (reported). */
Node *reader_require(Reader *reader, Node *mapping, const char *key)
{
  Node *value = node_require(mapping, key, reader->error);
  if (!value) reader->failed = true;
  return value;
}

/* An integer key within bounds; the default if it is absent. */
static int64_t bounded(Reader *reader, Node *mapping, const char *key, int64_t min, int64_t max,
                       int64_t otherwise)
{
  Node *node = node_get(mapping, key);
  int64_t value;
  if (!node || !reader_integer(reader, node, &value)) return otherwise;
  if (value >= min && value <= max) return value;
  reader_report(reader, ERROR_INPUT, &node->mark, "out-of-range", NULL,
                "`%s` must lie between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, key, min, max);
  return otherwise;
}

/* ---- symbols ---- */

static bool is_symbol_name(const char *name)
{
  static const char *const reserved[] = {"ceil_div", "min", "max", "align"};
  for (unsigned i = 0; i < G_N_ELEMENTS(reserved); i++)
    if (!strcmp(name, reserved[i])) return false;
  for (const char *at = name; *at; at++)
    if (!g_ascii_isalpha(*at) && *at != '_' && (at == name || !g_ascii_isdigit(*at))) return false;
  return *name && strlen(name) <= 64;
}

static GraphDim *find_dim(Reader *reader, const char *name)
{
  for (unsigned i = 0; i < reader->dims->len; i++) {
    GraphDim *dim = &g_array_index(reader->dims, GraphDim, i);
    if (!strcmp(dim->name, name)) return dim;
  }
  return NULL;
}

static GraphDim *add_dim(Reader *reader, const char *name, Mark mark)
{
  GraphDim dim = {.name = arena_strdup(reader->graph->arena, name),
                  .max = SYMBOLIC_DIMENSION_MAX,
                  .multiple = 1,
                  .mark = mark};
  g_array_append_val(reader->dims, dim);
  return &g_array_index(reader->dims, GraphDim, reader->dims->len - 1);
}

static void read_dim(Reader *reader, const char *name, Mark mark, Node *node)
{
  static const char *const known[] = {"min", "max", "multiple", NULL};
  if (!is_symbol_name(name))
    reader_report(reader, ERROR_INPUT, &mark, "bad-name",
                  "letters, digits and `_`, not starting with a digit",
                  "`%s` cannot be the name of a dimension", name);
  if (!reader_is(reader, node, NODE_MAPPING, "min, max, multiple")) return;
  GraphDim *dim = add_dim(reader, name, mark);
  dim->declared = true;
  dim->min = bounded(reader, node, "min", 0, SYMBOLIC_DIMENSION_MAX, 0);
  dim->max = bounded(reader, node, "max", 0, SYMBOLIC_DIMENSION_MAX, SYMBOLIC_DIMENSION_MAX);
  dim->multiple = bounded(reader, node, "multiple", 1, SYMBOLIC_DIMENSION_MAX, 1);
  reader_finish(reader, node, known);
  if (dim->min > dim->max)
    reader_report(reader, ERROR_INPUT, &node->mark, "empty-range", NULL,
                  "dimension `%s` has min %" G_GINT64_FORMAT " above max %" G_GINT64_FORMAT, name, dim->min,
                  dim->max);
  else if (dim->max / dim->multiple < (dim->min + dim->multiple - 1) / dim->multiple)
    reader_report(reader, ERROR_INPUT, &node->mark, "empty-range", NULL,
                  "no multiple of %" G_GINT64_FORMAT " lies between min %" G_GINT64_FORMAT
                  " and max %" G_GINT64_FORMAT,
                  dim->multiple, dim->min, dim->max);
}

static void read_dims(Reader *reader, Node *node)
{
  if (!node || !reader_is(reader, node, NODE_MAPPING, "symbol: {min, max, multiple}")) return;
  for (unsigned i = 0; i < node->n; i++)
    read_dim(reader, node->keys[i], node->key_marks[i], node->items[i]);
}

static char *dim_names(Reader *reader)
{
  GString *names = g_string_new(NULL);
  for (unsigned i = 0; i < reader->dims->len; i++)
    g_string_append_printf(names, "%s%s", i ? ", " : "", g_array_index(reader->dims, GraphDim, i).name);
  return g_string_free(names, FALSE);
}

/* Bindings hold for symbols known from `dims` or from shapes, so they come after both. */
static void bind_dims(Reader *reader)
{
  for (unsigned i = 0; i < reader->n_bindings; i++) {
    const GraphBinding *binding = &reader->bindings[i];
    GraphDim *dim = find_dim(reader, binding->name);
    if (!dim) {
      g_autofree char *names = dim_names(reader);
      g_autofree char *hint = g_strdup_printf("its symbols: %s", *names ? names : "none");
      reader_report(reader, ERROR_INPUT, NULL, "unknown-symbol", hint, "the graph has no dimension `%s`",
                    binding->name);
    } else if (dim->bound && dim->min != binding->value) {
      reader_report(reader, ERROR_INPUT, NULL, "bound-twice", NULL, "dimension `%s` is given two values",
                    binding->name);
    } else if (binding->value < dim->min || binding->value > dim->max || binding->value % dim->multiple) {
      reader_report(reader, ERROR_INPUT, &dim->mark, "out-of-range", NULL,
                    "%s=%" G_GINT64_FORMAT " is not a multiple of %" G_GINT64_FORMAT
                    " between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                    binding->name, binding->value, dim->multiple, dim->min, dim->max);
    } else {
      dim->bound = true;
      dim->min = dim->max = binding->value;
      dim->multiple = 1;
    }
  }
}

static const Symbolic *bound_value(const Symbolic *leaf, void *data)
{
  Reader *reader = data;
  const GraphDim *dim = leaf->kind == SYMBOLIC_SYMBOL ? find_dim(reader, leaf->name) : NULL;
  return dim && dim->min == dim->max ? symbolic_constant(reader->graph->arena, dim->min) : NULL;
}

/* ---- shapes ---- */

/* One entry of a shape or of strides: a number or an expression. NULL: reported. */
static const Symbolic *read_extent(Reader *reader, Node *node, int64_t max)
{
  Arena *arena = reader->graph->arena;
  if (node->kind == NODE_SCALAR && !node->quoted &&
      (g_ascii_isdigit(node->text[0]) || node->text[0] == '-') &&
      strspn(node->text + 1, "0123456789xXabcdefABCDEF") == strlen(node->text + 1)) {
    int64_t value;
    if (!reader_integer(reader, node, &value)) return NULL;
    if (value >= 0 && value <= max) return symbolic_constant(arena, value);
    if (value < 0)
      reader_report(reader, ERROR_INPUT, &node->mark, "out-of-range", NULL,
                    "%" G_GINT64_FORMAT " is negative", value);
    else
      reader_report(reader, ERROR_UNSUPPORTED, &node->mark, "too-large", NULL,
                    "a dimension of %" G_GINT64_FORMAT " is not supported: the most is %" G_GINT64_FORMAT,
                    value, max);
    return NULL;
  }
  const char *text;
  if (!reader_string(reader, node, &text)) return NULL;
  Mark mark = node->mark;
  mark.column += node->quoted;
  const Symbolic *extent = symbolic_parse(arena, text, &mark, reader->error);
  if (!extent) reader->failed = true;
  return extent;
}

/* Reads a list of extents; n is G_MAXUINT after a fault. */
static void read_extents(Reader *reader, Node *node, const char *what, int64_t max, const Symbolic **extents,
                         unsigned *n)
{
  *n = G_MAXUINT;
  if (!reader_is(reader, node, NODE_SEQUENCE, what)) return;
  if (node->n > GRAPH_MAX_RANK) {
    reader_report(reader, ERROR_UNSUPPORTED, &node->mark, "rank", NULL,
                  "rank %u is not supported: the most is %d", node->n, GRAPH_MAX_RANK);
    return;
  }
  bool ok = true;
  for (unsigned i = 0; i < node->n; i++)
    ok = (extents[i] = read_extent(reader, node->items[i], max)) && ok;
  if (ok) *n = node->n;
}

/* A symbol that stands alone as a dimension of an input needs no declaration. */
static void declare_plain_symbols(Reader *reader, const GraphTensor *tensor, Node *shape)
{
  for (unsigned i = 0; i < tensor->rank; i++) {
    const Symbolic *extent = tensor->shape[i];
    if (extent->kind != SYMBOLIC_SYMBOL || find_dim(reader, extent->name)) continue;
    if (is_symbol_name(extent->name))
      add_dim(reader, extent->name, shape->items[i]->mark);
    else
      reader_report(reader, ERROR_INPUT, &shape->items[i]->mark, "bad-name",
                    "letters, digits and `_`, not starting with a digit",
                    "`%s` cannot be the name of a dimension", extent->name);
  }
}

/* ---- tensors ---- */

bool reader_type(Reader *reader, Node *node, NumberType *type)
{
  static const char *const ours[] = {"f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2",
                                     "s8",  "u8",  "s32",  "s64", "bool", NULL};
  const char *name;
  if (!reader_string(reader, node, &name)) return false;
  bool parsed = number_parse(name, type);
  for (unsigned i = 0; parsed && ours[i]; i++)
    if (!strcmp(number_name(*type), ours[i])) return true;
  g_autofree char *all = g_strjoinv(", ", (char **)ours);
  g_autofree char *list = g_strdup_printf("types: %s", all);
  g_autofree char *hint = reader_suggest(name, ours, list);
  if (onnx_type_parse(name))
    reader_report(reader, ERROR_UNSUPPORTED, &node->mark, "unsupported-type", list,
                  "type `%s` is not supported", name);
  else
    reader_report(reader, ERROR_INPUT, &node->mark, "unknown-type", hint, "unknown type `%s`", name);
  return false;
}

void reader_define(Reader *reader, GraphTensor *tensor, GPtrArray *list)
{
  g_ptr_array_add(list, tensor);
  GraphTensor *earlier = g_hash_table_lookup(reader->tensors, tensor->name);
  if (!earlier) {
    g_hash_table_insert(reader->tensors, (void *)tensor->name, tensor);
    return;
  }
  reader_report(reader, ERROR_INPUT, &tensor->mark, "defined-twice", "give each tensor a name of its own",
                "tensor `%s` is defined a second time", tensor->name);
  error_add(reader->error, ERROR_INPUT, SEVERITY_NOTE, &earlier->mark, "defined-twice", NULL,
            "first defined here");
}

/* Type and shape, common to inputs and constants. false after a fault. */
static bool read_type_and_shape(Reader *reader, Node *node, GraphTensor *tensor)
{
  Node *type = reader_require(reader, node, "type"), *shape = reader_require(reader, node, "shape");
  bool ok = type && reader_type(reader, type, &tensor->type);
  if (type && !ok && type->kind == NODE_SCALAR) tensor->foreign = onnx_type_parse(type->text);
  unsigned rank = G_MAXUINT;
  if (shape) read_extents(reader, shape, "the shape", SYMBOLIC_DIMENSION_MAX, tensor->shape, &rank);
  if (rank == G_MAXUINT) return false;
  tensor->rank = rank;
  if (tensor->kind == TENSOR_INPUT) declare_plain_symbols(reader, tensor, shape);
  return ok;
}

static void read_strides(Reader *reader, Node *node, GraphTensor *tensor)
{
  unsigned n;
  const Symbolic *strides[GRAPH_MAX_RANK];
  read_extents(reader, node, "the strides", G_MAXINT64, strides, &n);
  if (n == G_MAXUINT) return;
  if (n == tensor->rank)
    memcpy(tensor->strides, strides, n * sizeof *strides);
  else
    reader_report(reader, ERROR_INPUT, &node->mark, "rank", NULL, "%u strides for a tensor of rank %u", n,
                  tensor->rank);
}

static void read_align(Reader *reader, Node *input, GraphTensor *tensor)
{
  Node *node = node_get(input, "align");
  int64_t align, natural = tensor->type == TYPE_UNKNOWN ? 1 : number_bytes(tensor->type);
  tensor->align = (unsigned)natural;
  if (!node || !reader_integer(reader, node, &align)) return;
  if (align < 1 || align > 4096 || (align & (align - 1)))
    reader_report(reader, ERROR_INPUT, &node->mark, "align", NULL,
                  "`align` must be a power of two between 1 and 4096");
  else if (align < natural)
    reader_report(reader, ERROR_INPUT, &node->mark, "align", "elements must be naturally aligned",
                  "align %d is less than an element's %d bytes", (int)align, (int)natural);
  else
    tensor->align = (unsigned)align;
}

static void read_input(Reader *reader, const char *name, Mark mark, Node *node)
{
  static const char *const known[] = {"type", "shape", "strides", "align", NULL};
  GraphTensor *tensor = graph_tensor_new(reader->graph, name, TENSOR_INPUT, mark);
  reader_define(reader, tensor, reader->inputs);
  if (!reader_is(reader, node, NODE_MAPPING, "type, shape, strides, align")) return;
  bool ok = read_type_and_shape(reader, node, tensor);
  read_align(reader, node, tensor);
  Node *strides = node_get(node, "strides");
  if (strides && ok) read_strides(reader, strides, tensor);
  reader_finish(reader, node, known);
  if (!ok) tensor->type = TYPE_UNKNOWN;
}

/* ---- constants ---- */

static bool count_elements(Reader *reader, GraphTensor *tensor, Node *shape)
{
  int64_t extent;
  size_t n = 1;
  for (unsigned i = 0; i < tensor->rank; i++) {
    if (!symbolic_is_constant(tensor->shape[i], &extent)) {
      reader_report(reader, ERROR_INPUT, &shape->items[i]->mark, "symbol", NULL,
                    "the shape of a constant is made of numbers");
      return false;
    }
    if (__builtin_mul_overflow(n, (size_t)extent, &n) || n > (size_t)1 << 40) {
      reader_report(reader, ERROR_INPUT, &shape->mark, "too-large", NULL,
                    "a constant of more than 2^40 elements");
      return false;
    }
  }
  tensor->n_elements = n;
  return true;
}

static void read_file(Reader *reader, Node *node, GraphTensor *tensor)
{
  const char *path;
  if (!reader_string(reader, node, &path)) return;
  if (!*path) {
    reader_report(reader, ERROR_INPUT, &node->mark, "no-such-file", NULL, "the name of a file is missing");
    return;
  }
  g_autofree char *folder = g_path_get_dirname(reader->graph->source->name);
  bool joined = !g_path_is_absolute(path) && strcmp(folder, ".");
  g_autofree char *full = joined ? g_build_filename(folder, path, NULL) : g_strdup(path);
  tensor->file = arena_strdup(reader->graph->arena, full);
}

static void read_constant(Reader *reader, const char *name, Mark mark, Node *node)
{
  static const char *const known[] = {"type", "shape", "data", "file", NULL};
  GraphTensor *tensor = graph_tensor_new(reader->graph, name, TENSOR_CONSTANT, mark);
  reader_define(reader, tensor, reader->constants);
  if (!reader_is(reader, node, NODE_MAPPING, "type, shape, data or file")) return;
  bool ok = read_type_and_shape(reader, node, tensor);
  Node *data = node_get(node, "data"), *file = node_get(node, "file"), *shape = node_get(node, "shape");
  reader_finish(reader, node, known);
  tensor->align = ok ? number_bytes(tensor->type) : 1;
  if (!data == !file)
    reader_report(reader, ERROR_INPUT, data ? &data->mark : &node->mark, "constant-data", NULL,
                  "constant `%s` needs either `data` or `file`", name);
  ok = ok && count_elements(reader, tensor, shape);
  if (ok && data && !file) reader_data(reader, data, tensor);
  if (ok && file && !data) read_file(reader, file, tensor);
  if (!ok) tensor->type = TYPE_UNKNOWN;
}

static void read_tensors(Reader *reader, Node *node, const char *what,
                         void (*read)(Reader *, const char *, Mark, Node *))
{
  if (!node || !reader_is(reader, node, NODE_MAPPING, what)) return;
  for (unsigned i = 0; i < node->n; i++) {
    if (!*node->keys[i])
      reader_report(reader, ERROR_INPUT, &node->key_marks[i], "bad-name", NULL, "a tensor needs a name");
    read(reader, node->keys[i], node->key_marks[i], node->items[i]);
  }
}

const char **reader_tensor_names(Reader *reader)
{
  GPtrArray *names = g_ptr_array_new();
  GPtrArray *const lists[] = {reader->inputs, reader->constants, reader->computed};
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    for (unsigned j = 0; j < lists[i]->len; j++)
      g_ptr_array_add(names, (void *)((GraphTensor *)lists[i]->pdata[j])->name);
  g_ptr_array_add(names, NULL);
  return (const char **)g_ptr_array_free(names, FALSE);
}

/* ---- the whole ---- */

static void note_use(const Symbolic *leaf, void *data)
{
  GHashTable *used = data;
  g_hash_table_add(used, (void *)leaf->name);
}

static void check_uses(Reader *reader, const Symbolic **list, const GraphTensor *tensor, GHashTable *used)
{
  for (unsigned i = 0; i < tensor->rank; i++) {
    g_autoptr(GHashTable) here = g_hash_table_new(g_str_hash, g_str_equal);
    if (!list[i]) continue;
    symbolic_visit(list[i], note_use, here);
    GHashTableIter iterator;
    gpointer name;
    g_hash_table_iter_init(&iterator, here);
    while (g_hash_table_iter_next(&iterator, &name, NULL)) {
      g_hash_table_add(used, name);
      if (find_dim(reader, name)) continue;
      reader_report(reader, ERROR_INPUT, &tensor->mark, "undefined-symbol",
                    "declare it under `dims`, or let it stand alone as a dimension",
                    "symbol `%s` in the shape of `%s` is not defined", (char *)name, tensor->name);
    }
  }
}

/* Every symbol that a shape uses is defined, and every declared one is used. */
static void check_symbols(Reader *reader)
{
  g_autoptr(GHashTable) used = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < reader->inputs->len; i++) {
    GraphTensor *tensor = reader->inputs->pdata[i];
    check_uses(reader, tensor->shape, tensor, used);
    check_uses(reader, tensor->strides, tensor, used);
  }
  for (unsigned i = 0; i < reader->dims->len; i++) {
    const GraphDim *dim = &g_array_index(reader->dims, GraphDim, i);
    if (dim->declared && !g_hash_table_contains(used, dim->name))
      reader_report(reader, ERROR_INPUT, &dim->mark, "unused-symbol", "remove it, or use it in a shape",
                    "no input's shape uses dimension `%s`", dim->name);
  }
}

static void append_leaf(const Symbolic *leaf, void *data)
{
  g_ptr_array_add(data, (void *)leaf->name);
}

/* Order of appearance: kernels take their symbols in it. */
static void order_dims(Reader *reader)
{
  g_autoptr(GArray) ordered = g_array_new(FALSE, TRUE, sizeof(GraphDim));
  for (unsigned i = 0; i < reader->inputs->len; i++) {
    const GraphTensor *tensor = reader->inputs->pdata[i];
    for (unsigned j = 0; j < 2 * tensor->rank; j++) {
      const Symbolic *extent = j < tensor->rank ? tensor->shape[j] : tensor->strides[j - tensor->rank];
      GPtrArray *leaves = g_ptr_array_new();
      if (extent) symbolic_visit(extent, append_leaf, leaves);
      for (unsigned k = 0; k < leaves->len; k++) {
        const GraphDim *dim = find_dim(reader, leaves->pdata[k]);
        bool seen = !dim;
        for (unsigned l = 0; l < ordered->len; l++)
          seen = seen || !strcmp(g_array_index(ordered, GraphDim, l).name, dim->name);
        if (!seen) g_array_append_val(ordered, *dim);
      }
      g_ptr_array_unref(leaves);
    }
  }
  g_array_set_size(reader->dims, 0);
  g_array_append_vals(reader->dims, ordered->data, ordered->len);
}

/* Bound symbols become numbers; absent strides row-major. */
static void settle_shapes(Reader *reader, GPtrArray *list)
{
  Arena *arena = reader->graph->arena;
  for (unsigned i = 0; i < list->len; i++) {
    GraphTensor *tensor = list->pdata[i];
    bool strided = tensor->rank && tensor->strides[0];
    for (unsigned j = 0; j < tensor->rank; j++) {
      tensor->shape[j] = symbolic_substitute(arena, tensor->shape[j], bound_value, reader);
      if (strided) tensor->strides[j] = symbolic_substitute(arena, tensor->strides[j], bound_value, reader);
    }
    if (!strided) graph_row_major(arena, tensor);
  }
}

static void read_opset(Reader *reader, Node *root)
{
  Node *version = node_get(root, "version"), *opset = node_get(root, "opset");
  int64_t value;
  if (version && reader_integer(reader, version, &value) && value != GRAPH_TEXT_VERSION)
    reader_report(reader, ERROR_UNSUPPORTED, &version->mark, "version", NULL,
                  "version %" G_GINT64_FORMAT
                  " of the format is not supported: this program reads version %d",
                  value, GRAPH_TEXT_VERSION);
  reader->graph->opset = OPERATOR_OPSET_DEFAULT;
  if (!opset || !reader_integer(reader, opset, &value)) return;
  g_autofree char *range = g_strdup_printf("adlgen reads opsets %d to %u", OPERATOR_OPSET_MIN, onnx_opset());
  if (value < 1 || value > onnx_opset())
    reader_report(reader, ERROR_INPUT, &opset->mark, "opset", range, "there is no opset %" G_GINT64_FORMAT,
                  value);
  else if (value < OPERATOR_OPSET_MIN)
    reader_report(reader, ERROR_UNSUPPORTED, &opset->mark, "opset", range, "opset %d is not supported",
                  (int)value);
  else
    reader->graph->opset = (unsigned)value;
}

static void read_root(Reader *reader, Node *root)
{
  static const char *const known[] = {"version", "name",  "opset",   "inputs", "constants",
                                      "dims",    "nodes", "outputs", NULL};
  const char *name = "graph";
  if (!reader_is(reader, root, NODE_MAPPING, "an op description")) return;
  Node *node = node_get(root, "name");
  if (node) reader_string(reader, node, &name);
  if (!*name) reader_report(reader, ERROR_INPUT, &node->mark, "bad-name", NULL, "the name is empty");
  reader->graph->name = arena_strdup(reader->graph->arena, name);
  read_opset(reader, root);
  read_dims(reader, node_get(root, "dims"));
  read_tensors(reader, node_get(root, "inputs"), "name: {type, shape}", read_input);
  read_tensors(reader, node_get(root, "constants"), "name: {type, shape, data or file}", read_constant);
  Node *nodes = reader_require(reader, root, "nodes"), *outputs = reader_require(reader, root, "outputs");
  reader_finish(reader, root, known);
  check_symbols(reader);
  bind_dims(reader);
  settle_shapes(reader, reader->inputs);
  settle_shapes(reader, reader->constants);
  if (nodes) reader_nodes(reader, nodes);
  if (outputs) reader_outputs(reader, outputs);
}

static void *take_list(Reader *reader, GPtrArray *list, unsigned *n)
{
  *n = list->len;
  return arena_memdup(reader->graph->arena, list->pdata, list->len * sizeof(void *));
}

/* Moves what was read into the graph. */
static void settle(Reader *reader)
{
  Graph *graph = reader->graph;
  order_dims(reader);
  graph->n_dims = reader->dims->len;
  graph->dims = arena_memdup(graph->arena, reader->dims->data, graph->n_dims * sizeof(GraphDim));
  graph->inputs = take_list(reader, reader->inputs, &graph->n_inputs);
  graph->constants = take_list(reader, reader->constants, &graph->n_constants);
  graph->nodes = take_list(reader, reader->nodes, &graph->n_nodes);
  graph->outputs = take_list(reader, reader->outputs, &graph->n_outputs);
  g_autoptr(GPtrArray) all = g_ptr_array_new();
  g_ptr_array_extend(all, reader->inputs, NULL, NULL);
  g_ptr_array_extend(all, reader->constants, NULL, NULL);
  for (unsigned i = 0; i < graph->n_nodes; i++)
    for (unsigned j = 0; j < graph->nodes[i]->n_outputs; j++)
      if (graph->nodes[i]->outputs[j]) g_ptr_array_add(all, graph->nodes[i]->outputs[j]);
  graph->tensors = take_list(reader, all, &graph->n_tensors);
  for (unsigned i = 0; i < graph->n_tensors; i++)
    graph->tensors[i]->index = i;
}

static Graph *graph_new(Source *source)
{
  Arena *arena = arena_new();
  Graph *graph = arena_new_object(arena, Graph);
  graph->arena = arena;
  graph->source = source_ref(source);
  return graph;
}

Graph *graph_read(Source *source, const GraphBinding *bindings, unsigned n_bindings, GError **error)
{
  GError *local = NULL; /* callers may not want to know why */
  if (document_is_foreign(source, 0, error)) return NULL;
  g_autoptr(Document) document = document_parse(source, error);
  if (!document) return NULL;
  Graph *graph = graph_new(source);
  Reader reader = {.graph = graph, .bindings = bindings, .n_bindings = n_bindings, .error = &local};
  reader.tensors = g_hash_table_new(g_str_hash, g_str_equal);
  reader.dims = g_array_new(FALSE, TRUE, sizeof(GraphDim));
  GPtrArray **const lists[] = {&reader.inputs, &reader.constants, &reader.computed,
                               &reader.nodes,  &reader.outputs,   &reader.unsupported};
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    *lists[i] = g_ptr_array_new();
  read_root(&reader, document_root(document));
  settle(&reader);
  graph_collect_facts(graph); /* of what is declared: whether a dimension can be divided */
  /* Inference over what is well-formed, so that its faults show in the same run. */
  bool ok = graph_infer(graph, &local);
  reader_check_types(&reader);
  ok = ok && !reader.failed;
  if (ok) graph_collect_facts(graph);
  if (ok) graph_warn_of_unused(graph);
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    g_ptr_array_unref(*lists[i]);
  g_array_unref(reader.dims);
  g_hash_table_unref(reader.tensors);
  if (ok) return graph;
  graph_free(graph);
  g_propagate_error(error, local);
  return NULL;
}
