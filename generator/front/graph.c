#include "generator/front/graph.h"
#include "generator/front/append.h"
#include "generator/front/private.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>

void graph_free(Graph *graph)
{
  if (!graph) return;
  g_clear_error(&graph->warnings);
  source_unref(graph->source);
  arena_free(graph->arena);
}

GraphTensor *graph_tensor_new(Graph *graph, const char *name, GraphTensorKind kind, Mark mark)
{
  GraphTensor *tensor = arena_new_object(graph->arena, GraphTensor);
  tensor->name = arena_strdup(graph->arena, name);
  tensor->kind = kind;
  tensor->type = TYPE_UNKNOWN;
  tensor->mark = mark;
  return tensor;
}

void graph_row_major(Arena *arena, GraphTensor *tensor)
{
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned i = tensor->rank; i-- > 0;) {
    tensor->strides[i] = stride;
    stride = symbolic_mul(arena, stride, tensor->shape[i]);
  }
}

void graph_know_integers(Arena *arena, GraphTensor *tensor)
{
  NumberClass class = tensor->type == TYPE_UNKNOWN ? NUMBER_FLOAT : number_class(tensor->type);
  if (class == NUMBER_FLOAT || !tensor->data || tensor->values || tensor->n_elements > KNOWN_INTEGERS_MAX)
    return;
  const Symbolic **values = arena_new_array(arena, const Symbolic *, tensor->n_elements + 1);
  for (size_t i = 0; i < tensor->n_elements; i++) {
    int64_t whole; /* the largest of s64 are no doubles */
    if (tensor->type == NUMBER_S64)
      whole = (int64_t)number_get_bits(tensor->type, tensor->data, i);
    else
      whole = (int64_t)number_read(tensor->type, tensor->data, i);
    values[i] = symbolic_constant(arena, whole);
  }
  tensor->values = values;
}

GraphTensor *graph_tensor(const Graph *graph, const char *name)
{
  for (unsigned i = 0; i < graph->n_tensors; i++)
    if (!strcmp(graph->tensors[i]->name, name)) return graph->tensors[i];
  return NULL;
}

void graph_collect_facts(Graph *graph)
{
  unsigned n = 0;
  SymbolicFact *facts = arena_new_array(graph->arena, SymbolicFact, graph->n_dims + graph->n_tensors);
  for (unsigned i = 0; i < graph->n_dims; i++)
    facts[n++] = (SymbolicFact){graph->dims[i].name, false, graph->dims[i].min, graph->dims[i].max,
                                graph->dims[i].multiple};
  for (unsigned i = 0; i < graph->n_tensors; i++)
    facts[n++] = (SymbolicFact){graph->tensors[i]->name, true, 0, 0, graph->tensors[i]->align};
  graph->facts = (SymbolicFacts){facts, n};
}

const Operator *graph_written_operator(const GraphNode *node)
{
  return node->written ? node->written : node->op;
}

const GraphAttribute *graph_attribute(const GraphNode *node, const char *name)
{
  int index = operator_attribute_index(node->op, name);
  if (index < 0) g_error("operator %s has no attribute %s", node->op->name, name);
  return &node->attributes[index];
}

const GraphAttribute *graph_attribute_find(const GraphNode *node, const char *name)
{
  int index = operator_attribute_index(node->op, name);
  return index < 0 ? NULL : &node->attributes[index];
}

bool graph_has_one_element(const GraphTensor *tensor)
{
  for (unsigned d = 0; d < tensor->rank; d++)
    if (!symbolic_equals(tensor->shape[d], 1)) return false;
  return true;
}

bool graph_scalar(const GraphTensor *tensor, double *value)
{
  if (tensor->kind != TENSOR_CONSTANT || !tensor->data || tensor->n_elements != 1) return false;
  *value = number_to_double(tensor->type, tensor->data);
  int64_t whole = 0; /* which not every double is */
  if (tensor->type == NUMBER_S64) memcpy(&whole, tensor->data, sizeof whole);
  return tensor->type != NUMBER_S64 || (*value < 0x1p63 && (int64_t)*value == whole);
}

bool graph_is_transposed(const GraphNode *product, unsigned operand)
{
  const GraphAttribute *turned = graph_attribute_find(product, operand ? "transB" : "transA");
  return turned && turned->integer;
}

/* How many rows a batch has where others are put, all its pages together. */
static int64_t appended_places(const GraphNode *node)
{
  const GraphTensor *table = append_table(node);
  int64_t rows, pages = 1;
  bool known = symbolic_is_constant(append_cache(node, 0)->shape[__builtin_ctz(node->axes)], &rows) &&
               (!table || symbolic_is_constant(table->shape[1], &pages));
  return known ? rows * pages : 0;
}

/* The fewest elements along a dimension of input 0 that the node's input `tensor` holds indices of. */
static int64_t indexed_by(const GraphNode *node, const GraphTensor *tensor)
{
  const GraphTensor *data = node->inputs[0];
  int64_t n = 0, least = 0, told = GRAPH_MAX_RANK;
  bool appends = node->op->id == ONNX_AppendRows;
  if (appends && node->inputs[APPEND_PLACES] == tensor)
    return appended_places(node); /* as of TensorScatter */
  if (appends && append_table(node) == tensor)
    return symbolic_is_constant(node->inputs[APPEND_CACHE]->shape[0], &n) ? n : 0;
  if (node->n_inputs < 2 || (node->inputs[1] != tensor && node->op->id != ONNX_TensorScatter)) return 0;
  switch ((unsigned)node->op->id) {
  case ONNX_TensorScatter:
    if (node->n_inputs < 3 || node->inputs[2] != tensor) return 0; /* else as the others */
    G_GNUC_FALLTHROUGH;
  case ONNX_Gather:
  case ONNX_GatherElements:
  case ONNX_Scatter:
  case ONNX_ScatterElements:
  case ONNX_ReverseSequence: symbolic_is_constant(data->shape[__builtin_ctz(node->axes)], &n); return n;
  case ONNX_ScatterND: symbolic_is_constant(tensor->shape[tensor->rank - 1], &told); G_GNUC_FALLTHROUGH;
  case ONNX_GatherND:
    for (unsigned d = 0; d < MIN(data->rank, told);
         d++) /* batches stand in front: bound by all that may be meant */
      if (symbolic_is_constant(data->shape[d], &n) && n > 0 && (!least || n < least)) least = n;
    return least;
  default: return 0;
  }
}

void graph_note_indices(const GraphNode *node)
{
  for (unsigned i = 1; i < node->n_inputs; i++) {
    GraphTensor *input = node->inputs[i];
    int64_t n = input ? indexed_by(node, input) : 0;
    if (n > 0 && (!input->indexed || n < input->indexed)) input->indexed = n;
  }
}

int64_t graph_indexed_elements(const GraphTensor *tensor)
{
  int64_t least = tensor->indexed;
  for (unsigned i = 0; i < tensor->n_consumers; i++) {
    const GraphNode *node = tensor->consumers[i];
    int64_t n = indexed_by(node, tensor);
    bool same = node->op->class_ == OPERATOR_VIEW || node->op->id == ONNX_Cast;
    if (!n && same && node->inputs[0] == tensor && node->outputs[0])
      n = graph_indexed_elements(node->outputs[0]);
    if (n > 0 && (!least || n < least)) least = n;
  }
  return least;
}

bool graph_binding_parse(Arena *arena, const char *text, GraphBinding *binding, GError **error)
{
  const char *sign = strchr(text, '=');
  char *end = NULL;
  errno = 0;
  int64_t value = sign && g_ascii_isdigit(sign[1]) ? g_ascii_strtoll(sign + 1, &end, 10) : 0;
  if (!end || *end || errno || sign == text || value > SYMBOLIC_DIMENSION_MAX) {
    error_set(error, ERROR_USAGE, NULL, "dimension", "write a symbol, `=` and a number, such as M=4096",
              "`%s` does not give a dimension", text);
    return false;
  }
  *binding = (GraphBinding){arena_strndup(arena, text, (size_t)(sign - text)), value};
  return true;
}

/* ---- text ---- */

char *graph_shape_text(const Symbolic *const *shape, unsigned rank)
{
  GString *text = g_string_new("[");
  for (unsigned i = 0; i < rank; i++) {
    g_autofree char *item = symbolic_text(shape[i]);
    g_string_append_printf(text, "%s%s", i ? ", " : "", item);
  }
  g_string_append_c(text, ']');
  return g_string_free(text, FALSE);
}

bool graph_is_row_major(const GraphTensor *tensor)
{
  g_autoptr(Arena) arena = arena_new();
  GraphTensor copy = *tensor;
  graph_row_major(arena, &copy);
  for (unsigned i = 0; i < tensor->rank; i++)
    if (!symbolic_same(copy.strides[i], tensor->strides[i])) return false;
  return true;
}

/* Type of a matrix product's first operand, before dequantisation. */
static NumberType product_type(const GraphNode *node)
{
  const GraphTensor *operand = node->inputs[0];
  const GraphNode *producer = operand->producer;
  if (operand->blocks) return operand->blocks->x->type;
  bool dequantised = producer && producer->op->id == ONNX_DequantizeLinear;
  return dequantised ? producer->inputs[0]->type : operand->type;
}

bool graph_has_coarse_products(const Graph *graph)
{
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    const GraphNode *node = graph->nodes[i];
    if (node->op->class_ != OPERATOR_GEMM) continue;
    NumberType type = product_type(node);
    if (type == NUMBER_TF32 || number_is_small_float(type)) return true;
  }
  return false;
}

bool graph_rounds_weights(const Graph *graph)
{
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    const GraphAttribute *weights = graph_attribute_find(graph->nodes[i], "weights");
    if (weights && !strcmp(weights->text, "e4m3")) return true;
  }
  return false;
}

bool graph_has_fast_sums(const Graph *graph, bool by_default)
{
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    const GraphNode *node = graph->nodes[i];
    if (node->op->class_ != OPERATOR_GEMM || !number_is_small_float(product_type(node))) continue;
    const GraphAttribute *accumulate = graph_attribute_find(node, "accumulate");
    bool says = accumulate && strcmp(accumulate->text, "default") != 0;
    if (says ? !strcmp(accumulate->text, "fast") : by_default) return true;
  }
  return false;
}

static bool no_lookup(const Symbolic *leaf, int64_t *value, void *data)
{
  return false;
}

int64_t graph_longest_sum(const Graph *graph, SymbolicLookup lookup, void *data)
{
  int64_t longest = 0, k;
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    const GraphNode *node = graph->nodes[i];
    if (node->op->class_ != OPERATOR_GEMM || !number_has_bytes(product_type(node), 2)) continue;
    const GraphTensor *a = node->inputs[0];
    const GraphAttribute *across = graph_attribute_find(node, "transA");
    unsigned from_last = across && across->integer ? 2 : 1;
    if (a->rank < from_last) continue;
    const Symbolic *sum = a->shape[a->rank - from_last];
    if (symbolic_evaluate(sum, lookup ? lookup : no_lookup, data, &k, NULL)) longest = MAX(longest, k);
  }
  return longest;
}

bool graph_same_shape(const GraphTensor *a, const GraphTensor *b)
{
  if (a->rank != b->rank) return false;
  for (unsigned i = 0; i < a->rank; i++)
    if (!symbolic_same(a->shape[i], b->shape[i])) return false;
  return true;
}
