/* What fusion begins with: copies of the nodes that the graph needs; those no kernel exists for are reported. */
#include "generator/fusion/private.h"
#include <string.h>

/* ---- what exists ---- */

static bool refuse_type(const GraphNode *node, NumberType type, GError **error)
{
  const Operator *op = graph_written_operator(node);
  g_autofree char *hint = operator_kernels_text(op);
  error_add(error, ERROR_UNSUPPORTED, SEVERITY_ERROR, &node->mark, "unsupported-type", hint,
            "%s of %s is not supported", op->name, number_name(type));
  return false;
}

/* Integers by floats would be computed in floats, and which ones the description does not say. */
static bool refuse_power(const GraphNode *node, GError **error)
{
  error_add(error, ERROR_UNSUPPORTED, SEVERITY_ERROR, &node->mark, "unsupported-type",
            "insert a Cast of the base to f32 or f64, or of the exponent to s32 or s64",
            "Pow of %s by %s is not supported", number_name(node->inputs[0]->type),
            number_name(node->inputs[1]->type));
  return false;
}

static bool check_types(const GraphNode *node, GError **error)
{
  unsigned main_input = node->op->id == ONNX_Where ? 1 : 0;
  NumberType type = node->inputs[main_input]->type, result = node->outputs[0]->type;
  bool cast = node->op->type_rule == TYPE_RULE_CAST, stored = number_is_packed(type) || type == NUMBER_E8M0;
  if (!(node->op->generated >> type & 1) && !(stored && (cast || operator_keeps_order(node->op))))
    return refuse_type(node, type, error);
  if (cast && !(node->op->generated >> result & 1)) return refuse_type(node, result, error);
  if (node->op->id == ONNX_Pow && number_class(type) != NUMBER_FLOAT &&
      number_class(node->inputs[1]->type) == NUMBER_FLOAT)
    return refuse_power(node, error);
  for (unsigned i = 0; i < node->n_outputs && stored; i++) {
    if (!node->outputs[i]->is_output || node->outputs[i]->type != type) continue;
    error_add(error, ERROR_UNSUPPORTED, SEVERITY_ERROR, &node->mark, "unsupported-type", "cast it",
              "results of %s are not supported: `%s`", number_name(type), node->outputs[i]->name);
    return false;
  }
  return true;
}

/* Numbers that follow from symbols have no memory: kernels compute one of them, and take lists as shapes, pads and the like only. */
static bool check_known(const GraphNode *node, GError **error)
{
  static const OperatorId lists[] = {ONNX_Mask, ONNX_Tile, ONNX_Pad, ONNX_Trilu};
  if (node->op->class_ == OPERATOR_VIEW) return true;
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    if (node->op->id == lists[i]) return true;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input || input->kind != TENSOR_CONSTANT || !input->values || input->data || input->file) continue;
    if (node->op->class_ == OPERATOR_ELEMENTWISE && input->n_elements == 1) continue;
    error_add(error, ERROR_UNSUPPORTED, SEVERITY_ERROR, &node->mark, "symbolic-list",
              "bind the symbols: --dim", "%s of numbers that depend on symbols is not supported: `%s`",
              graph_written_operator(node)->name, input->name);
    return false;
  }
  return true;
}

/* ---- the nodes ---- */

/* Both come from one node of the description. */
static bool is_same_function(const GraphNode *a, const GraphNode *b)
{
  return a && a->written && a->written == b->written && a->mark.line == b->mark.line &&
         a->mark.column == b->mark.column;
}

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
bool fuser_open(Fuser *fuser, GError **error)
{
  const Graph *graph = fuser->graph;
  g_autofree bool *needed = g_new0(bool, graph->n_nodes + 1);
  const GraphNode *refused = NULL; /* one fault of a node is told once */
  bool ok = true;
  for (unsigned i = 0; i < graph->n_tensors; i++)
    g_ptr_array_add(fuser->tensors, graph->tensors[i]);
  for (unsigned i = graph->n_nodes; i-- > 0;)
    needed[i] = is_needed(graph->nodes[i], needed);
  for (unsigned i = 0; i < graph->n_nodes; i++) {
    if (!needed[i]) {
      fuser_note(fuser, "%s `%s` is not needed", graph->nodes[i]->op->name,
                 graph->nodes[i]->outputs[0]->name);
      continue;
    }
    if (is_same_function(refused, graph->nodes[i])) continue;
    if (!check_types(graph->nodes[i], error) || !check_known(graph->nodes[i], error)) {
      refused = graph->nodes[i];
      ok = false;
      continue;
    }
    GraphNode *node = arena_memdup(fuser->arena, graph->nodes[i], sizeof(GraphNode));
    node->inputs = arena_memdup(fuser->arena, node->inputs, node->n_inputs * sizeof(GraphTensor *));
    if (node->op->shape_rule == SHAPE_RULE_QUANTIZE) fuser_place_scales(fuser, node);
    g_ptr_array_add(fuser->live, node);
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

/* Rewrite drop_unread: what only a part of no elements was made of is not computed. */
void fusion_drop_unread(Fuser *fuser)
{
  GPtrArray *live = fuser->live;
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
