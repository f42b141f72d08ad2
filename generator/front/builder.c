/* A builder from its start to the finished graph; tensors. */
#include "generator/front/private.h"
#include <string.h>

void graph_builder_name(GraphBuilder *b, const char *name, const Mark *mark)
{
  if (!*name) graph_builder_report(b, ERROR_INPUT, mark, "bad-name", NULL, "the name is empty");
  b->graph->name = arena_strdup(b->graph->arena, name);
}

void graph_builder_opset(GraphBuilder *b, int64_t opset, const Mark *mark)
{
  g_autofree char *range = g_strdup_printf("adlgen reads opsets %d to %u", OPERATOR_OPSET_MIN, onnx_opset());
  if (opset < 1 || opset > onnx_opset())
    graph_builder_report(b, ERROR_INPUT, mark, "opset", range, "there is no opset %" G_GINT64_FORMAT, opset);
  else if (opset < OPERATOR_OPSET_MIN)
    graph_builder_report(b, ERROR_UNSUPPORTED, mark, "opset", range, "opset %d is not supported", (int)opset);
  else
    b->graph->opset = (unsigned)opset;
}

/* ---- tensors ---- */

/* Name, type and shape, common to inputs and constants. */
static GraphTensor *add_tensor(GraphBuilder *b, const GraphTensorSpec *spec, GraphTensorKind kind,
                               GPtrArray *list)
{
  if (!*spec->name)
    graph_builder_report(b, ERROR_INPUT, &spec->mark, "bad-name", NULL, "a tensor needs a name");
  GraphTensor *tensor = graph_tensor_new(b->graph, spec->name, kind, spec->mark);
  builder_define(b, tensor, list);
  tensor->foreign = spec->foreign;
  if (spec->rank != GRAPH_RANK_UNKNOWN) {
    tensor->rank = spec->rank;
    memcpy(tensor->shape, spec->shape, spec->rank * sizeof *spec->shape);
  }
  bool ok = spec->has_type && spec->rank != GRAPH_RANK_UNKNOWN;
  tensor->type = ok ? spec->type : TYPE_UNKNOWN;
  tensor->align = spec->has_type ? (unsigned)number_bytes_of(spec->type, 1) : 1;
  return tensor;
}

static void set_strides(GraphBuilder *b, const GraphTensorSpec *spec, GraphTensor *tensor)
{
  if (spec->n_strides == GRAPH_RANK_UNKNOWN || tensor->type == TYPE_UNKNOWN) return;
  if (spec->n_strides == tensor->rank)
    memcpy(tensor->strides, spec->strides, spec->n_strides * sizeof *spec->strides);
  else
    graph_builder_report(b, ERROR_INPUT, &spec->strides_mark, "rank", NULL,
                         "%u strides for a tensor of rank %u", spec->n_strides, tensor->rank);
}

static void set_align(GraphBuilder *b, const GraphTensorSpec *spec, GraphTensor *tensor)
{
  if (!spec->align) return;
  int64_t align = *spec->align, natural = tensor->align;
  if (align < 1 || align > 4096 || (align & (align - 1)))
    graph_builder_report(b, ERROR_INPUT, &spec->align_mark, "align", NULL,
                         "`align` must be a power of two between 1 and 4096");
  else if (align < natural)
    graph_builder_report(b, ERROR_INPUT, &spec->align_mark, "align", "elements must be naturally aligned",
                         "align %d is less than an element's %d bytes", (int)align, (int)natural);
  else
    tensor->align = (unsigned)align;
}

void graph_builder_input(GraphBuilder *b, const GraphTensorSpec *spec)
{
  GraphTensor *tensor = add_tensor(b, spec, TENSOR_INPUT, b->inputs);
  if (spec->rank != GRAPH_RANK_UNKNOWN) builder_declare_plain_symbols(b, tensor, spec->extent_marks);
  set_align(b, spec, tensor);
  set_strides(b, spec, tensor);
}

static bool count_elements(GraphBuilder *b, const GraphTensorSpec *spec, GraphTensor *tensor)
{
  int64_t extent;
  size_t n = 1;
  for (unsigned i = 0; i < tensor->rank; i++) {
    if (!symbolic_is_constant(tensor->shape[i], &extent)) {
      graph_builder_report(b, ERROR_INPUT, &spec->extent_marks[i], "symbol", NULL,
                           "the shape of a constant is made of numbers");
      return false;
    }
    if (__builtin_mul_overflow(n, (size_t)extent, &n) || n > (size_t)1 << 40) {
      graph_builder_report(b, ERROR_INPUT, &spec->shape_mark, "too-large", NULL,
                           "a constant of more than 2^40 elements");
      return false;
    }
  }
  tensor->n_elements = n;
  return true;
}

GraphTensor *graph_builder_constant(GraphBuilder *b, const GraphTensorSpec *spec)
{
  GraphTensor *tensor = add_tensor(b, spec, TENSOR_CONSTANT, b->body ? b->body->constants : b->constants);
  if (tensor->type == TYPE_UNKNOWN) return NULL;
  if (count_elements(b, spec, tensor)) return tensor;
  tensor->type = TYPE_UNKNOWN;
  return NULL;
}

const char *graph_builder_path(GraphBuilder *b, const char *path)
{
  g_autofree char *folder = g_path_get_dirname(b->graph->source->name);
  bool joined = !g_path_is_absolute(path) && strcmp(folder, ".");
  g_autofree char *full = joined ? g_build_filename(folder, path, NULL) : g_strdup(path);
  return arena_strdup(b->graph->arena, full);
}

/* ---- the whole ---- */

GraphBuilder *graph_builder_new(Source *source, const GraphValueFormat *format, const GraphReading *reading,
                                GError **error)
{
  Arena *arena = arena_new();
  GraphBuilder *b = g_new0(GraphBuilder, 1);
  b->graph = arena_new_object(arena, Graph);
  b->graph->arena = arena;
  b->graph->source = source_ref(source);
  b->graph->name = "graph";
  b->graph->opset = OPERATOR_OPSET_DEFAULT;
  b->format = format;
  b->reading = *reading;
  b->error = error;
  b->tensors = g_hash_table_new(g_str_hash, g_str_equal);
  b->refused = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  b->numbers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  b->dims = g_array_new(FALSE, TRUE, sizeof(GraphDim));
  b->wanted = g_array_new(FALSE, TRUE, sizeof(BuilderOutput));
  b->sharing = g_array_new(FALSE, TRUE, sizeof(BuilderSharing));
  b->claims = g_array_new(FALSE, TRUE, sizeof(GraphClaim));
  GPtrArray **const lists[] = {&b->inputs, &b->constants, &b->computed,   &b->outputs,
                               &b->nodes,  &b->expanded,  &b->unsupported};
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    *lists[i] = g_ptr_array_new();
  b->bodies = g_ptr_array_new_with_free_func(builder_free_body);
  builder_open_nodes(&b->read);
  return b;
}

static void builder_free(GraphBuilder *b)
{
  GPtrArray *const lists[] = {b->inputs, b->constants, b->computed,    b->outputs,
                              b->nodes,  b->expanded,  b->unsupported, b->bodies};
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    g_ptr_array_unref(lists[i]);
  g_array_unref(b->dims);
  builder_free_nodes(&b->read);
  g_array_unref(b->wanted);
  g_array_unref(b->sharing);
  g_array_unref(b->claims);
  g_hash_table_unref(b->tensors);
  g_hash_table_unref(b->refused);
  g_hash_table_unref(b->numbers);
  g_free(b);
}

static void *take_list(GraphBuilder *b, GPtrArray *list, unsigned *n)
{
  *n = list->len;
  return arena_memdup(b->graph->arena, list->pdata, list->len * sizeof(void *));
}

/* Nodes and tensors as the graph has them from now on. */
static void take_nodes(GraphBuilder *b, GPtrArray *nodes)
{
  Graph *graph = b->graph;
  graph->constants = take_list(b, b->constants, &graph->n_constants);
  graph->nodes = take_list(b, nodes, &graph->n_nodes);
  g_autoptr(GPtrArray) all = g_ptr_array_new();
  g_ptr_array_extend(all, b->inputs, NULL, NULL);
  g_ptr_array_extend(all, b->constants, NULL, NULL);
  for (unsigned i = 0; i < graph->n_nodes; i++)
    for (unsigned j = 0; j < graph->nodes[i]->n_outputs; j++)
      if (graph->nodes[i]->outputs[j]) g_ptr_array_add(all, graph->nodes[i]->outputs[j]);
  graph->tensors = take_list(b, all, &graph->n_tensors);
  for (unsigned i = 0; i < graph->n_tensors; i++)
    graph->tensors[i]->index = i;
}

const GraphPass graph_passes[GRAPH_PASS_COUNT] = {
    {"read", "nodes as they are written, behind those whose results they read"},
    {"infer", "types and shapes are known, and integers that follow from shapes and constants"},
    {"expand", "functions are what they are defined by, what is known is constants, and nothing is left that "
               "these replace"},
};

static void report(const GraphBuilder *b, GraphPassNumber pass)
{
  if (b->reading.report) b->reading.report(pass, b->graph, b->reading.data);
}

/* Moves what was read into the graph. */
static void settle(GraphBuilder *b)
{
  Graph *graph = b->graph;
  builder_order_dims(b);
  graph->n_dims = b->dims->len;
  graph->dims = arena_memdup(graph->arena, b->dims->data, graph->n_dims * sizeof(GraphDim));
  graph->inputs = take_list(b, b->inputs, &graph->n_inputs);
  graph->outputs = take_list(b, b->outputs, &graph->n_outputs);
  take_nodes(b, b->nodes);
}

/* Not what the description has, or a constant stands in its place. */
static bool is_replaced(const GraphNode *node)
{
  const GraphTensor *output = node->outputs[0];
  return node->written || (output && (output->values || output->data));
}

/* What was offered served those who had to know; from here on it is an input like any other, and what follows from it is
 * computed. */
static void forget_offers(GPtrArray *tensors)
{
  for (unsigned i = 0; i < tensors->len; i++) {
    GraphTensor *tensor = tensors->pdata[i];
    if (!tensor->offered) continue;
    tensor->values = NULL;
    tensor->data = NULL;
  }
}

static bool reads_gone(const GraphNode *node, const bool *gone)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphNode *producer = node->inputs[i] ? node->inputs[i]->producer : NULL;
    if (producer && gone[producer->index]) return true;
  }
  return false;
}

/* Nodes of the graph with what functions are defined by in their place. Of these nodes only those stay that something
 * needs; what nothing needs and reads them goes with them. */
static void take_expanded(GraphBuilder *b)
{
  builder_index(b, b->expanded);
  g_autofree bool *live = graph_find_live((GraphNode **)b->expanded->pdata, b->expanded->len);
  g_autofree bool *gone = g_new0(bool, b->expanded->len + 1);
  for (unsigned i = 0; i < b->expanded->len; i++)
    gone[i] = !live[i] && (is_replaced(b->expanded->pdata[i]) || reads_gone(b->expanded->pdata[i], gone));
  for (unsigned i = b->expanded->len; i-- > 0;)
    if (gone[i]) g_ptr_array_remove_index(b->expanded, i);
  builder_index(b, b->expanded);
  forget_offers(b->inputs);
  forget_offers(b->computed);
  for (unsigned i = b->constants->len; i-- > b->n_written;)
    if (!((GraphTensor *)b->constants->pdata[i])->n_consumers) g_ptr_array_remove_index(b->constants, i);
  take_nodes(b, b->expanded);
}

Graph *graph_builder_finish(GraphBuilder *b)
{
  Graph *graph = b->graph;
  builder_settle_dims(b);
  builder_link_bodies(b);
  builder_link(b);
  settle(b);
  graph_collect_facts(graph); /* of what is declared: whether a dimension can be divided */
  report(b, GRAPH_PASS_READ);
  /* Inference over what is well-formed, so that its faults show in the same run. */
  bool ok = builder_infer(b);
  builder_check_types(b);
  builder_check_claims(b);
  ok = ok && !b->failed;
  if (ok) {
    report(b, GRAPH_PASS_INFER);
    graph_warn_of_unused(graph); /* of what is written */
    take_expanded(b);
    graph_collect_facts(graph);
    report(b, GRAPH_PASS_EXPAND);
  }
  builder_free(b);
  if (ok) return graph;
  graph_free(graph);
  return NULL;
}
