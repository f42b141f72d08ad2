/* What comes before grouping: which nodes are needed, whether a kernel exists for each, and copies of
 * operands that an anchor cannot read where they lie (a matrix with no unit stride, rows that are not evenly
 * spaced). */
#include "generator/fusion/private.h"
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

/* Does some kernel read the operands as they lie? All do along k. *why: if not. */
static bool is_readable(Fuser *fuser, GraphNode *node, const char **why)
{
  if (lies_along_k(node, 0) && lies_along_k(node, 1)) return true;
  const Program *program = fuser_program(fuser, node, node->outputs[0]);
  ProgramVerdict verdict = fuser_judge_all(fuser, &program, 1, false);
  *why = verdict.why;
  return verdict.taken;
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
  const char *why = NULL;
  for (unsigned i = 2; i-- > 0 && !is_readable(fuser, node, &why);)
    if (!lies_along_k(node, i)) copy_along_k(fuser, node, i, why);
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
      fuser_copy_rows(fuser, node);
      after = fuser_move_rows(fuser, node);
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
