/* What comes before grouping: which nodes are needed, whether a kernel exists for each, and copies of
 * operands that an anchor cannot read where they lie (a matrix with no unit stride, rows that are not evenly
 * spaced). */
#include "generator/fusion/private.h"
#include "generator/program/space.h"
#include <string.h>

/* ---- what exists ---- */

static bool refuse_type(const GraphNode *node, NumberType type, GError **error)
{
  GString *list = g_string_new("kernels exist for ");
  const char *separator = "";
  for (unsigned i = 0; i < NUMBER_TYPE_COUNT; i++)
    if (node->op->generated >> i & 1) {
      g_string_append_printf(list, "%s%s", separator, number_name(i));
      separator = ", ";
    }
  error_add(error, ERROR_UNSUPPORTED, SEVERITY_ERROR, &node->mark, "unsupported-type", list->str,
            "%s of %s is not supported", node->op->name, number_name(type));
  g_string_free(list, TRUE);
  return false;
}

static bool check_types(const GraphNode *node, GError **error)
{
  unsigned main_input = node->op->id == ONNX_Where ? 1 : 0;
  NumberType type = node->inputs[main_input]->type, result = node->outputs[0]->type;
  if (!(node->op->generated >> type & 1)) return refuse_type(node, type, error);
  bool cast = node->op->type_rule == TYPE_RULE_CAST;
  if (cast && !(node->op->generated >> result & 1)) return refuse_type(node, result, error);
  return true;
}

/* Kernels count the elements of a tensor whose shape they know in 32 bits. */
static bool check_size(const GraphTensor *tensor, const Mark *mark, GError **error)
{
  int64_t all = 1, extent;
  for (unsigned i = 0; i < tensor->rank; i++) {
    if (!symbolic_is_constant(tensor->shape[i], &extent)) return true;
    if (extent <= 0) return true;
    if (all <= INT32_MAX) all *= MIN(extent, (int64_t)INT32_MAX + 1);
  }
  if (all <= INT32_MAX) return true;
  error_add(error, ERROR_UNSUPPORTED, SEVERITY_ERROR, mark, "too-many-elements", "divide it into parts",
            "`%s` has more than %d elements, which is not supported", tensor->name, INT32_MAX);
  return false;
}

static bool check_node(const GraphNode *node, GError **error)
{
  if (!check_types(node, error)) return false;
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] && !check_size(node->inputs[i], &node->input_marks[i], error)) return false;
  if (!check_size(node->outputs[0], &node->mark, error)) return false;
  return true;
}

/* ---- copies ---- */

GraphTensor *fuser_make_copy(Fuser *fuser, const GraphNode *reader, const GraphTensor *source,
                             const Symbolic *const *shape, unsigned rank, unsigned inner, unsigned multiple)
{
  Arena *arena = fuser->arena;
  GraphTensor *copy = arena_new_object(arena, GraphTensor);
  /* what is stored as tf32 is rounded to it; rows are computed in f32 */
  bool widens = source->type == NUMBER_TF32 && reader->op->class_ == OPERATOR_ROW;
  *copy = (GraphTensor){.name = arena_printf(arena, "%s.copy%u", source->name, fuser->tensors->len),
                        .kind = TENSOR_COMPUTED,
                        .index = fuser->tensors->len,
                        .type = widens ? NUMBER_F32 : source->type,
                        .rank = rank,
                        .align = number_bytes(source->type),
                        .mark = reader->mark};
  memcpy(copy->shape, shape, rank * sizeof *shape);
  const Symbolic *stride = rank ? shape[inner] : NULL, *step = symbolic_constant(arena, multiple);
  if (multiple > 1) {
    stride = symbolic_mul(arena, step, symbolic_ceil_div(arena, stride, step));
    copy->align = multiple * number_bytes(source->type);
  }
  if (rank) copy->strides[inner] = symbolic_constant(arena, 1);
  for (unsigned i = rank; i-- > 0;) {
    if (i == inner) continue;
    copy->strides[i] = stride;
    stride = symbolic_mul(arena, stride, shape[i]);
  }
  return copy;
}

void fuser_insert_copy(Fuser *fuser, const GraphNode *reader, GraphTensor *source, GraphTensor *copy,
                       const char *why)
{
  Arena *arena = fuser->arena;
  g_ptr_array_add(fuser->tensors, copy);
  GraphNode *node = arena_new_object(arena, GraphNode);
  *node = (GraphNode){
      .op = operator_of(ONNX_Identity), .name = "", .n_inputs = 1, .n_outputs = 1, .mark = reader->mark};
  node->inputs = arena_new_array(arena, GraphTensor *, 1);
  node->outputs = arena_new_array(arena, GraphTensor *, 1);
  node->inputs[0] = source;
  node->outputs[0] = copy;
  copy->producer = node;
  node->index = fuser->nodes->len;
  g_ptr_array_add(fuser->nodes, node);
  fuser_note(fuser, "`%s` is copied for %s: %s", source->name, reader->op->name, why);
}

/* `inner`: the dimension whose elements lie side by side in the copy. */
static GraphTensor *insert_copy(Fuser *fuser, const GraphNode *reader, GraphTensor *source,
                                const Symbolic *const *shape, unsigned rank, unsigned inner, const char *why)
{
  GraphTensor *copy = fuser_make_copy(fuser, reader, source, shape, rank, inner, 1);
  fuser_insert_copy(fuser, reader, source, copy, why);
  return copy;
}

/* One of the last two strides is 1 and no other is 0; an extent of 1 has whatever stride is needed. */
static bool has_unit_stride(const GraphTensor *tensor)
{
  unsigned from = tensor->rank > 2 ? tensor->rank - 2 : 0;
  bool unit = false;
  for (unsigned i = from; i < tensor->rank; i++) {
    bool single = symbolic_equals(tensor->shape[i], 1);
    if (!single && symbolic_equals(tensor->strides[i], 0)) return false;
    unit = unit || single || symbolic_equals(tensor->strides[i], 1);
  }
  return unit;
}

bool fuser_walks_rows(Fuser *fuser, const GraphTensor *tensor, const GraphNode *node)
{
  const GraphTensor *input = node->inputs[0];
  const Symbolic *strides[GRAPH_MAX_RANK];
  space_broadcast(fuser->arena, tensor, input->shape, input->rank, strides);
  for (unsigned part = 0; part < 2; part++) {
    Space space;
    const Symbolic *dims[GRAPH_MAX_RANK];
    unsigned n = 0;
    space_init(fuser->arena, &space, input->rank, input->shape, 1);
    for (unsigned i = 0; i < input->rank; i++)
      if ((node->axes >> i & 1) == part) {
        dims[n] = input->shape[i];
        space.strides[n++][0] = strides[i];
      }
    memcpy(space.dims, dims, n * sizeof *dims);
    space.rank = n;
    if (space_merge(fuser->arena, &space, 0, n) > 1) return false;
  }
  return true;
}

/* A scale or bias has dims among the rows. */
static bool reaches_rows(const GraphTensor *tensor, const GraphNode *node)
{
  unsigned lead = node->inputs[0]->rank - tensor->rank;
  for (unsigned i = 0; i < tensor->rank; i++)
    if (!(node->axes >> (lead + i) & 1) && !symbolic_equals(tensor->shape[i], 1)) return true;
  return false;
}

/* Memory in which the axes' elements lie side by side, row after row. */
static void lay_out_rows(Arena *arena, GraphTensor *tensor, uint32_t axes)
{
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned part = 2; part-- > 0;) /* first the axes, then all others */
    for (unsigned i = tensor->rank; i-- > 0;) {
      if ((axes >> i & 1) != part) continue;
      tensor->strides[i] = stride;
      stride = symbolic_mul(arena, stride, tensor->shape[i]);
    }
}

static void copy_row_operands(Fuser *fuser, GraphNode *node)
{
  GraphTensor *input = node->inputs[0];
  bool norm = node->op->shape_rule == SHAPE_RULE_NORM;
  if (!fuser_walks_rows(fuser, input, node)) {
    GraphTensor *copy = fuser_make_copy(fuser, node, input, input->shape, input->rank, input->rank - 1, 1);
    lay_out_rows(fuser->arena, copy, node->axes);
    fuser_insert_copy(fuser, node, input, copy, "its rows are not evenly spaced");
    node->inputs[0] = copy;
  }
  for (unsigned i = 1; norm && i < node->n_inputs; i++) {
    GraphTensor *tensor = node->inputs[i];
    if (!tensor || fuser_walks_rows(fuser, tensor, node)) continue;
    /* A scale becomes one row, unless it varies along the rows as well. */
    unsigned columns = (unsigned)__builtin_popcount(node->axes);
    unsigned rank = !reaches_rows(tensor, node) ? columns : input->rank;
    node->inputs[i] = insert_copy(fuser, node, tensor, input->shape + (input->rank - rank), rank, rank - 1,
                                  "its rows are not evenly spaced");
  }
}

/* A result as large as its operand whose rows are not evenly spaced, because the axes are not the last: it is
 * made where they are, and a copy brings it to its place. Returns that, or NULL. */
static GraphNode *move_row_result(Fuser *fuser, GraphNode *node)
{
  GraphTensor *result = node->outputs[0];
  Arena *arena = fuser->arena;
  if (node->op->shape_rule == SHAPE_RULE_REDUCE || fuser_walks_rows(fuser, result, node)) return NULL;
  GraphTensor *rows = fuser_make_copy(fuser, node, result, result->shape, result->rank, result->rank - 1, 1);
  lay_out_rows(arena, rows, node->axes);
  rows->producer = node;
  g_ptr_array_add(fuser->tensors, rows);
  node->outputs = arena_memdup(arena, node->outputs, node->n_outputs * sizeof(GraphTensor *));
  node->outputs[0] = rows;
  GraphNode *copy = arena_new_object(arena, GraphNode);
  *copy = (GraphNode){
      .op = operator_of(ONNX_Identity), .name = "", .n_inputs = 1, .n_outputs = 1, .mark = node->mark};
  copy->inputs = arena_memdup(arena, &rows, sizeof(GraphTensor *));
  copy->outputs = arena_memdup(arena, &result, sizeof(GraphTensor *));
  fuser_note(fuser, "`%s` of %s is copied to its place: its rows are not evenly spaced", result->name,
             node->op->name);
  return copy;
}

/* The operand's dimension along k. */
static unsigned inner_dimension(const GraphNode *node, unsigned operand)
{
  const GraphTensor *tensor = node->inputs[operand];
  bool transposed =
      node->op->id == ONNX_Gemm && graph_attribute(node, operand ? "transB" : "transA")->integer;
  if (tensor->rank == 1) return 0;
  return tensor->rank - ((operand == 0) == transposed ? 2 : 1);
}

/* Elements of the operand lie side by side along k. */
static bool lies_along_k(const GraphNode *node, unsigned operand)
{
  const GraphTensor *tensor = node->inputs[operand];
  unsigned k = inner_dimension(node, operand);
  return symbolic_equals(tensor->strides[k], 1) || symbolic_equals(tensor->shape[k], 1);
}

/* Does some kernel read the operands as they lie? */
static bool is_readable(const Fuser *fuser, const GraphNode *node)
{
  const FusionOptions *options = fuser->options;
  NumberType a = node->inputs[0]->type, b = node->inputs[1]->type;
  unsigned across = (lies_along_k(node, 0) ? 0 : 1) | (lies_along_k(node, 1) ? 0 : 2);
  if (!across) return true;
  if (!options || !options->reads_across) return !number_is_small_float(a);
  return options->reads_across(a, b, node->outputs[0]->type, across, options->data);
}

/* With k innermost, in rows of whole 16 bytes. */
static void copy_along_k(Fuser *fuser, GraphNode *node, unsigned operand, const char *why)
{
  GraphTensor *tensor = node->inputs[operand];
  GraphTensor *copy = fuser_make_copy(fuser, node, tensor, tensor->shape, tensor->rank,
                                      inner_dimension(node, operand), 16 / number_bytes(tensor->type));
  fuser_insert_copy(fuser, node, tensor, copy, why);
  node->inputs[operand] = copy;
}

static void copy_matrix_operands(Fuser *fuser, GraphNode *node)
{
  for (unsigned i = 0; i < 2; i++)
    if (!has_unit_stride(node->inputs[i])) copy_along_k(fuser, node, i, "no stride of its matrices is 1");
  /* A is the one that may stay: its rows are what a product takes through registers */
  for (unsigned i = 2; i-- > 0 && !is_readable(fuser, node);)
    if (!lies_along_k(node, i)) copy_along_k(fuser, node, i, "its elements do not lie side by side along k");
}

/* ---- the nodes ---- */

/* An output of the graph, or read by a node that is needed. */
static bool is_needed(const GraphNode *node, const bool *needed)
{
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphTensor *output = node->outputs[i];
    if (!output) continue;
    if (output->is_output) return true;
    for (unsigned j = 0; j < output->n_consumers; j++)
      if (needed[output->consumers[j]->index]) return true;
  }
  return false;
}

/* Copies of the nodes that are needed, in order; reports those no kernel exists for. */
static bool collect_live(Fuser *fuser, GPtrArray *live, GError **error)
{
  const Graph *graph = fuser->graph;
  g_autofree bool *needed = g_new0(bool, graph->n_nodes + 1);
  bool ok = true;
  for (unsigned i = graph->n_nodes; i-- > 0;)
    needed[i] = is_needed(graph->nodes[i], needed);
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    if (!needed[i]) {
      fuser_note(fuser, "%s `%s` is not needed", graph->nodes[i]->op->name,
                 graph->nodes[i]->outputs[0]->name);
      continue;
    }
    if (!check_node(graph->nodes[i], error)) {
      ok = false;
      continue;
    }
    GraphNode *node = arena_memdup(fuser->arena, graph->nodes[i], sizeof(GraphNode));
    node->inputs = arena_memdup(fuser->arena, node->inputs, node->n_inputs * sizeof(GraphTensor *));
    if (node->op->shape_rule == SHAPE_RULE_QUANTIZE) ok = fuser_place_scales(fuser, node, error) && ok;
    g_ptr_array_add(live, node);
  }
  return ok;
}

static void mark_read(const GraphNode *node, bool *read)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input) continue;
    read[input->index] = true;
    for (unsigned j = 0; j < input->n_parts; j++)
      read[input->parts[j]->index] = true;
  }
}

/* What only a part of no elements was made of is not computed. */
static void drop_unread(const Fuser *fuser, GPtrArray *live)
{
  g_autofree bool *read = g_new0(bool, fuser->tensors->len + 1);
  for (guint i = live->len; i-- > 0;) {
    const GraphNode *node = live->pdata[i];
    bool needed = false;
    for (unsigned j = 0; j < node->n_outputs; j++)
      needed = needed || (node->outputs[j] && (node->outputs[j]->is_output || read[node->outputs[j]->index]));
    if (needed)
      mark_read(node, read);
    else
      g_ptr_array_remove_index(live, i);
  }
}

bool fuser_prepare(Fuser *fuser, GError **error)
{
  g_autoptr(GPtrArray) live = g_ptr_array_new();
  for (unsigned i = 0; i < fuser->graph->n_tensors; i++)
    g_ptr_array_add(fuser->tensors, fuser->graph->tensors[i]);
  if (!collect_live(fuser, live, error)) return false;
  fuser_expand_zero_points(fuser, live);
  fuser_split_wide(fuser, live);
  if (!fuser->none) fuser_take_scales(fuser, live);
  fuser_make_views(fuser, live);
  drop_unread(fuser, live);
  for (unsigned i = 0; i < live->len; i++) {
    GraphNode *node = live->pdata[i], *after = NULL;
    if (node->op->class_ == OPERATOR_ROW) {
      copy_row_operands(fuser, node);
      after = move_row_result(fuser, node);
    }
    if (node->op->class_ == OPERATOR_GEMM) {
      copy_matrix_operands(fuser, node);
      if (!fuser->none) fuser_align_operands(fuser, live, node);
    }
    node->index = fuser->nodes->len;
    g_ptr_array_add(fuser->nodes, node);
    if (!after) continue;
    after->index = fuser->nodes->len;
    g_ptr_array_add(fuser->nodes, after);
  }
  return true;
}
