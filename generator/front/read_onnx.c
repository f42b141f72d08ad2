/* Reads an ONNX model into a graph builder: its graph, inputs, initializers and outputs. docs/graph.md says what becomes of
 * what. */
#include "generator/front/read_onnx.h"
#include "generator/front/onnx.h"
#include "generator/front/read.h"
#include <string.h>

#define DIM_KEY "adlgen.dim."

/* ---- dimensions ---- */

static bool is_word(const char *text)
{
  for (const char *at = text; *at; at++)
    if (!g_ascii_isalpha(*at) && *at != '_' && (at == text || !g_ascii_isdigit(*at))) return false;
  return *text != 0;
}

static void note_strange(const Symbolic *leaf, void *data)
{
  *(bool *)data |= leaf->kind != SYMBOLIC_SYMBOL || !is_word(leaf->name);
}

/* A name that a symbol can have. */
static const char *word_of(OnnxReader *reader, const char *text)
{
  g_autofree char *word = g_strdup_printf("%s%s", g_ascii_isdigit(*text) ? "_" : "", text);
  for (char *at = word; *at; at++)
    if (!g_ascii_isalnum(*at)) *at = '_';
  return arena_strdup(reader->arena, word);
}

/* A name, or what exporters write of names ("past + 1"); another text is a name of characters that names do not have. */
static const Symbolic *read_parameter(OnnxReader *reader, const char *text)
{
  bool strange = false;
  if (!is_word(text)) {
    const Symbolic *expression = symbolic_parse(reader->arena, text, NULL, NULL);
    if (expression) symbolic_visit(expression, note_strange, &strange);
    if (expression && !strange) return expression;
  }
  return symbolic_symbol(reader->arena, word_of(reader, text));
}

/* An extent that the model leaves open without a name gets that of its place. */
static const Symbolic *read_dimension(OnnxReader *reader, const char *tensor, unsigned i,
                                      const OnnxMessage *dimension)
{
  const char *parameter = onnx_text(dimension, ONNX_Dimension_dim_param);
  if (onnx_has(dimension, ONNX_Dimension_dim_value)) {
    int64_t value = onnx_integer(dimension, ONNX_Dimension_dim_value);
    Mark mark = onnx_mark(reader->source, dimension->at);
    if (value >= 0 && value <= SYMBOLIC_DIMENSION_MAX) return symbolic_constant(reader->arena, value);
    graph_builder_report(reader->builder, value < 0 ? ERROR_INPUT : ERROR_UNSUPPORTED, &mark,
                         value < 0 ? "out-of-range" : "too-large", NULL,
                         "an extent of %" G_GINT64_FORMAT " is not supported", value);
    return NULL;
  }
  if (*parameter) return read_parameter(reader, parameter);
  g_autofree char *name = g_strdup_printf("%s_%u", tensor, i);
  return symbolic_symbol(reader->arena, word_of(reader, name));
}

static bool read_shape(OnnxReader *reader, const char *name, const OnnxMessage *shape, GraphTensorSpec *spec)
{
  OnnxValues dims = onnx_values(shape, ONNX_Shape_dim);
  spec->shape_mark = onnx_mark(reader->source, shape->at);
  if (dims.n > GRAPH_MAX_RANK) {
    graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &spec->shape_mark, "rank", NULL,
                         "rank %u is not supported: the most is %d", dims.n, GRAPH_MAX_RANK);
    return false;
  }
  for (unsigned i = 0; i < dims.n; i++) {
    spec->extent_marks[i] = onnx_mark(reader->source, dims.items[i].message->at);
    spec->shape[i] = read_dimension(reader, name, i, dims.items[i].message);
    if (!spec->shape[i]) return false;
  }
  spec->rank = dims.n;
  return true;
}

/* ---- inputs ---- */

static const char *kind_of_type(const OnnxMessage *type)
{
  return !type                                          ? "of no type"
         : onnx_has(type, ONNX_Type_sequence_type)      ? "a sequence"
         : onnx_has(type, ONNX_Type_map_type)           ? "a map"
         : onnx_has(type, ONNX_Type_optional_type)      ? "optional"
         : onnx_has(type, ONNX_Type_sparse_tensor_type) ? "a sparse tensor"
                                                        : "no tensor";
}

static void read_input_type(OnnxReader *reader, const OnnxMessage *input, GraphTensorSpec *spec)
{
  const OnnxMessage *type = onnx_message(input, ONNX_ValueInfo_type);
  const OnnxMessage *tensor = type ? onnx_message(type, ONNX_Type_tensor_type) : NULL;
  if (!tensor) {
    graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &spec->mark, "unsupported-type", NULL,
                         "input `%s` is %s, which is not supported", spec->name, kind_of_type(type));
    return;
  }
  Mark mark = onnx_mark(reader->source, tensor->at);
  spec->has_type = onnx_read_type(reader, onnx_integer(tensor, ONNX_TensorType_elem_type), &mark, spec);
  const OnnxMessage *shape = onnx_message(tensor, ONNX_TensorType_shape);
  if (shape)
    read_shape(reader, spec->name, shape, spec);
  else
    graph_builder_report(reader->builder, ERROR_UNSUPPORTED, &spec->mark, "unknown-rank", NULL,
                         "the model does not say how many dimensions input `%s` has", spec->name);
}

/* ---- what adlgen's own models say beside ONNX (cli/emit_onnx.c) ---- */

/* The value of a key of the metadata, "adlgen.align." and a name; NULL: there is none. */
static const OnnxMessage *metadata_of(const OnnxReader *reader, const char *kind, const char *name)
{
  OnnxValues entries = onnx_values(reader->model, ONNX_Model_metadata_props);
  g_autofree char *key = g_strconcat("adlgen.", kind, ".", name, NULL);
  for (unsigned i = 0; i < entries.n; i++)
    if (!strcmp(onnx_text(entries.items[i].message, ONNX_Entry_key), key)) return entries.items[i].message;
  return NULL;
}

/* Numbers with blanks between; false: it has others, or they are not so many. */
static bool read_numbers(OnnxReader *reader, const OnnxMessage *entry, int64_t *numbers, unsigned n)
{
  const char *at = onnx_text(entry, ONNX_Entry_value);
  bool ok = true;
  for (unsigned i = 0; ok && i < n; i++) {
    char *end = NULL;
    numbers[i] = g_ascii_strtoll(at, &end, 10);
    ok = end != at && (i + 1 < n ? *end == ' ' : !*end);
    at = end + (*end == ' ');
  }
  Mark mark = onnx_mark(reader->source, entry->at);
  if (!ok)
    graph_builder_report(reader->builder, ERROR_INPUT, &mark, "metadata", NULL,
                         "`%s` of the metadata needs %u numbers", onnx_text(entry, ONNX_Entry_key), n);
  return ok;
}

static void read_alignment(OnnxReader *reader, GraphTensorSpec *spec)
{
  const OnnxMessage *entry = metadata_of(reader, "align", spec->name);
  int64_t *align = arena_new_object(reader->arena, int64_t);
  if (!entry || !read_numbers(reader, entry, align, 1)) return;
  spec->align = align;
  spec->align_mark = onnx_mark(reader->source, entry->at);
}

static void read_facts(OnnxReader *reader, GHashTable *known)
{
  OnnxValues entries = onnx_values(reader->model, ONNX_Model_metadata_props);
  for (unsigned i = 0; i < entries.n; i++) {
    const OnnxMessage *entry = entries.items[i].message;
    const char *key = onnx_text(entry, ONNX_Entry_key);
    Mark mark = onnx_mark(reader->source, entry->at);
    int64_t numbers[3];
    if (!g_str_has_prefix(key, DIM_KEY) || !is_word(key + strlen(DIM_KEY)) ||
        !g_hash_table_add(known, (void *)(key + strlen(DIM_KEY))) || !read_numbers(reader, entry, numbers, 3))
      continue;
    const GraphDimSpec dim = {key + strlen(DIM_KEY), mark, mark, numbers[0], numbers[1], numbers[2]};
    bool legal = dim.min >= 0 && dim.min <= dim.max && dim.max <= SYMBOLIC_DIMENSION_MAX &&
                 dim.multiple >= 1 && dim.multiple <= SYMBOLIC_DIMENSION_MAX;
    if (legal)
      graph_builder_dim(reader->builder, &dim);
    else
      graph_builder_report(reader->builder, ERROR_INPUT, &mark, "metadata", NULL,
                           "`%s` of the metadata is no range", key);
  }
}

static void read_sharing(OnnxReader *reader, const char *output)
{
  const OnnxMessage *entry = metadata_of(reader, "in_place", output);
  if (!entry) return;
  Mark mark = onnx_mark(reader->source, entry->at);
  graph_builder_share(reader->builder, output, onnx_text(entry, ONNX_Entry_value), &mark);
}

/* ---- inputs ---- */

static void note_symbol(const Symbolic *leaf, void *data)
{
  g_ptr_array_add(data, (void *)leaf->name);
}

/* Symbols that stand in expressions only must be declared. */
static void declare_symbols(OnnxReader *reader, const GraphTensorSpec *specs, unsigned n)
{
  g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GPtrArray) named = g_ptr_array_new();
  read_facts(reader, known);
  for (unsigned i = 0; i < n; i++)
    for (unsigned d = 0; specs[i].rank != GRAPH_RANK_UNKNOWN && d < specs[i].rank; d++)
      if (specs[i].shape[d]->kind == SYMBOLIC_SYMBOL)
        g_hash_table_add(known, (void *)specs[i].shape[d]->name);
      else
        symbolic_visit(specs[i].shape[d], note_symbol, named);
  for (unsigned i = 0; i < named->len; i++) {
    GraphDimSpec dim = {.name = named->pdata[i], .max = SYMBOLIC_DIMENSION_MAX, .multiple = 1};
    dim.mark = dim.name_mark = onnx_mark(reader->source, reader->source->text);
    if (g_hash_table_add(known, named->pdata[i])) graph_builder_dim(reader->builder, &dim);
  }
}

/* What an input says of itself has to be so of its default. */
static void check_default(OnnxReader *reader, const OnnxMessage *input, const OnnxMessage *constant)
{
  const OnnxMessage *type = onnx_message(input, ONNX_ValueInfo_type);
  const OnnxMessage *tensor = type ? onnx_message(type, ONNX_Type_tensor_type) : NULL;
  const OnnxMessage *shape = tensor ? onnx_message(tensor, ONNX_TensorType_shape) : NULL;
  if (!tensor) return;
  size_t n;
  const int64_t *extents = onnx_integers(reader->arena, constant, ONNX_Tensor_dims, &n);
  OnnxValues dims = shape ? onnx_values(shape, ONNX_Shape_dim) : (OnnxValues){0};
  int64_t declared = onnx_integer(tensor, ONNX_TensorType_elem_type);
  bool same =
      (!declared || declared == onnx_integer(constant, ONNX_Tensor_data_type)) && (!shape || dims.n == n);
  for (unsigned i = 0; same && i < dims.n; i++)
    same = !onnx_has(dims.items[i].message, ONNX_Dimension_dim_value) ||
           onnx_integer(dims.items[i].message, ONNX_Dimension_dim_value) == extents[i];
  Mark mark = onnx_mark(reader->source, input->at);
  if (!same)
    graph_builder_report(reader->builder, ERROR_INPUT, &mark, "shape-mismatch", NULL,
                         "input `%s` and the initializer of its name differ in type or shape",
                         onnx_text(input, ONNX_ValueInfo_name));
}

/* An input that is also an initializer has a default; adlgen takes it as a constant. */
static void read_inputs(OnnxReader *reader, const OnnxMessage *graph)
{
  OnnxValues inputs = onnx_values(graph, ONNX_Graph_input),
             constants = onnx_values(graph, ONNX_Graph_initializer);
  g_autoptr(GHashTable) given = g_hash_table_new(g_str_hash, g_str_equal);
  g_autofree GraphTensorSpec *specs = g_new0(GraphTensorSpec, inputs.n + 1);
  unsigned n = 0;
  for (unsigned i = 0; i < constants.n; i++)
    g_hash_table_insert(given, (void *)onnx_text(constants.items[i].message, ONNX_Tensor_name),
                        (void *)constants.items[i].message);
  for (unsigned i = 0; i < inputs.n; i++) {
    const OnnxMessage *input = inputs.items[i].message;
    const char *name = onnx_text(input, ONNX_ValueInfo_name);
    const OnnxMessage *constant = g_hash_table_lookup(given, name);
    if (constant) {
      check_default(reader, input, constant);
      continue;
    }
    GraphTensorSpec *spec = &specs[n++];
    *spec = (GraphTensorSpec){.name = name,
                              .mark = onnx_mark(reader->source, input->at),
                              .rank = GRAPH_RANK_UNKNOWN,
                              .n_strides = GRAPH_RANK_UNKNOWN};
    read_input_type(reader, input, spec);
    read_alignment(reader, spec);
  }
  declare_symbols(reader, specs, n);
  for (unsigned i = 0; i < n; i++)
    graph_builder_input(reader->builder, &specs[i]);
}

/* ---- the whole ---- */

static void read_opset(OnnxReader *reader)
{
  OnnxValues imports = onnx_values(reader->model, ONNX_Model_opset_import);
  for (unsigned i = 0; i < imports.n; i++) {
    const OnnxMessage *import = imports.items[i].message;
    const char *domain = onnx_text(import, ONNX_Opset_domain);
    Mark mark = onnx_mark(reader->source, import->at);
    if (*domain && strcmp(domain, "ai.onnx")) continue;
    reader->opset = onnx_integer(import, ONNX_Opset_version);
    graph_builder_opset(reader->builder, reader->opset, &mark);
  }
}

static void read_functions(OnnxReader *reader)
{
  OnnxValues functions = onnx_values(reader->model, ONNX_Model_functions);
  for (unsigned i = 0; i < functions.n; i++) {
    const OnnxMessage *function = functions.items[i].message;
    char *key =
        g_strjoin("\n", onnx_text(function, ONNX_Function_domain), onnx_text(function, ONNX_Function_name),
                  onnx_text(function, ONNX_Function_overload), NULL);
    g_hash_table_insert(reader->functions, key, (void *)function);
  }
}

/* What the model says of an output: symbols and extents below 0, which exporters write for any, leave it open. */
static void read_claim(OnnxReader *reader, const OnnxMessage *output, const char *of, Mark at)
{
  const OnnxMessage *type = onnx_message(output, ONNX_ValueInfo_type);
  const OnnxMessage *tensor = type ? onnx_message(type, ONNX_Type_tensor_type) : NULL;
  const OnnxMessage *shape = tensor ? onnx_message(tensor, ONNX_TensorType_shape) : NULL;
  if (!type) return;
  OnnxValues dims = shape ? onnx_values(shape, ONNX_Shape_dim) : (OnnxValues){0};
  int64_t number = tensor ? onnx_integer(tensor, ONNX_TensorType_elem_type) : 0;
  int64_t *extents = arena_new_array(reader->arena, int64_t, dims.n);
  for (unsigned i = 0; i < dims.n; i++) {
    const OnnxMessage *dimension = dims.items[i].message;
    extents[i] = onnx_has(dimension, ONNX_Dimension_dim_value)
                     ? onnx_integer(dimension, ONNX_Dimension_dim_value)
                     : -1;
  }
  graph_builder_claim(reader->builder, &(GraphClaim){.name = onnx_text(output, ONNX_ValueInfo_name),
                                                     .tensor = of,
                                                     .mark = at,
                                                     .kind = tensor ? NULL : kind_of_type(type),
                                                     .type = (unsigned)CLAMP(number, 0, G_MAXINT),
                                                     .rank = shape ? dims.n : GRAPH_RANK_UNKNOWN,
                                                     .extents = extents});
}

/* Under another name: a tensor that no node gives may be an output all the same, and one of a node twice. */
static const char *read_copy(OnnxReader *reader, const char *name, Mark at)
{
  g_autofree char *wanted = g_strdup_printf("%s.output", name);
  const GraphNameSpec in = {name, at}, out = {graph_builder_free_name(reader->builder, wanted), at};
  graph_builder_open_node(reader->builder);
  graph_builder_close_node(reader->builder, &(GraphNodeSpec){.mark = at,
                                                             .op = "Identity",
                                                             .domain = "",
                                                             .name = "",
                                                             .op_mark = at,
                                                             .inputs = &in,
                                                             .outputs = &out,
                                                             .n_inputs = 1,
                                                             .n_outputs = 1,
                                                             .inputs_mark = at,
                                                             .outputs_mark = at});
  return out.name;
}

/* taken: names of what is no output by itself */
static void read_output(OnnxReader *reader, const OnnxMessage *output, GHashTable *taken)
{
  const char *name = onnx_text(output, ONNX_ValueInfo_name);
  Mark at = onnx_mark(reader->source, output->at);
  const char *tensor = g_hash_table_add(taken, (void *)name) ? name : read_copy(reader, name, at);
  graph_builder_output(reader->builder, tensor, &at);
  read_claim(reader, output, tensor, at);
  read_sharing(reader, tensor);
}

/* Names of inputs and initializers, and of what Constant nodes give. */
static void note_given(const OnnxMessage *graph, GHashTable *given)
{
  OnnxValues inputs = onnx_values(graph, ONNX_Graph_input), nodes = onnx_values(graph, ONNX_Graph_node),
             constants = onnx_values(graph, ONNX_Graph_initializer);
  for (unsigned i = 0; i < inputs.n; i++)
    g_hash_table_add(given, (void *)onnx_text(inputs.items[i].message, ONNX_ValueInfo_name));
  for (unsigned i = 0; i < constants.n; i++)
    g_hash_table_add(given, (void *)onnx_text(constants.items[i].message, ONNX_Tensor_name));
  for (unsigned i = 0; i < nodes.n; i++)
    if (!strcmp(onnx_text(nodes.items[i].message, ONNX_Node_op_type), "Constant"))
      g_hash_table_add(given, (void *)onnx_text(nodes.items[i].message, ONNX_Node_output));
}

static void read_graph(OnnxReader *reader, const OnnxMessage *graph)
{
  GraphBuilder *b = reader->builder;
  OnnxValues constants = onnx_values(graph, ONNX_Graph_initializer),
             outputs = onnx_values(graph, ONNX_Graph_output);
  Mark mark = onnx_mark(reader->source, graph->at);
  if (!onnx_check_size(reader, graph)) return;
  if (*onnx_text(graph, ONNX_Graph_name)) graph_builder_name(b, onnx_text(graph, ONNX_Graph_name), &mark);
  read_inputs(reader, graph);
  for (unsigned i = 0; i < constants.n; i++)
    onnx_read_tensor(reader, onnx_text(constants.items[i].message, ONNX_Tensor_name),
                     constants.items[i].message);
  if (onnx_has(graph, ONNX_Graph_sparse_initializer))
    graph_builder_report(b, ERROR_UNSUPPORTED, &mark, "sparse", NULL,
                         "sparse initializers are not supported");
  onnx_read_nodes(reader, onnx_values(graph, ONNX_Graph_node), NULL);
  if (!outputs.n) graph_builder_report(b, ERROR_INPUT, &mark, "no-outputs", NULL, "the graph has no outputs");
  g_autoptr(GHashTable) given = g_hash_table_new(g_str_hash, g_str_equal);
  note_given(graph, given);
  for (unsigned i = 0; i < outputs.n; i++)
    read_output(reader, outputs.items[i].message, given);
}

/* The first messages of a file, the table of functions, and a builder. */
static OnnxReader reader_new(Source *source, const GraphReading *reading, GHashTable *functions,
                             GError **error)
{
  GraphBuilder *builder = graph_builder_new(source, &onnx_value_format, reading, error);
  graph_builder_trust(builder);
  return (OnnxReader){
      .builder = builder, .source = source, .arena = graph_builder_arena(builder), .functions = functions};
}

Graph *graph_read_tensor(Source *source, GError **error)
{
  GError *local = NULL;
  g_autoptr(Arena) arena = arena_new();
  source->describe = NULL;
  const OnnxMessage *tensor = onnx_message_read(arena, source, ONNX_MESSAGE_Tensor, error);
  if (!tensor) return NULL;
  OnnxReader reader = reader_new(source, &(GraphReading){0}, NULL, &local);
  const char *name = onnx_text(tensor, ONNX_Tensor_name);
  onnx_read_tensor(&reader, *name ? name : "tensor", tensor);
  Graph *graph = graph_builder_finish(reader.builder);
  if (!graph) g_propagate_error(error, local);
  return graph;
}

Graph *graph_read_onnx(Source *source, const GraphReading *reading, GError **error)
{
  GError *local = NULL;
  g_autoptr(Arena) arena = arena_new();
  source->describe = onnx_describe;
  const OnnxMessage *model = onnx_message_read(arena, source, ONNX_MESSAGE_Model, error);
  if (!model) return NULL;
  g_autoptr(GHashTable) functions = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  OnnxReader reader = reader_new(source, reading, functions, &local);
  GraphBuilder *builder = reader.builder;
  reader.model = model;
  read_opset(&reader);
  read_functions(&reader);
  const OnnxMessage *graph_message = onnx_message(model, ONNX_Model_graph);
  if (graph_message) {
    read_graph(&reader, graph_message);
  } else {
    Mark mark = onnx_mark(source, source->text);
    graph_builder_report(builder, ERROR_INPUT, &mark, "onnx", NULL, "the model has no graph");
  }
  Graph *graph = graph_builder_finish(builder);
  if (!graph) g_propagate_error(error, local);
  return graph;
}
