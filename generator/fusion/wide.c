/* Rewrite split_wide: Sum, Mean, Max and Min of many tensors, more than a thread has registers for: nodes of some of them each, which
 * take in what those before have made. That is kept as the arithmetic is done (f32 for bf16), not rounded. */
#include "generator/fusion/private.h"
#include <string.h>

#define FEW_OPERANDS 16

static bool is_wide(const GraphNode *node)
{
  switch ((unsigned)node->op->id) {
  case ONNX_Sum:
  case ONNX_Mean:
  case ONNX_Max:
  case ONNX_Min: return node->n_inputs > FEW_OPERANDS;
  default: return false;
  }
}

static GraphTensor *new_part(Fuser *fuser, const GraphTensor *result)
{
  Arena *arena = fuser->arena;
  GraphTensor *part = arena_new_object(arena, GraphTensor);
  NumberType type = program_compute(result->type);
  *part = (GraphTensor){.name = arena_printf(arena, "%s.part%u", result->name, fuser->tensors->len),
                        .kind = TENSOR_COMPUTED,
                        .index = fuser->tensors->len,
                        .type = type,
                        .rank = result->rank,
                        .align = number_bytes(type),
                        .mark = result->mark};
  memcpy(part->shape, result->shape, sizeof part->shape);
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned i = part->rank; i-- > 0;) {
    part->strides[i] = stride;
    stride = symbolic_mul(arena, stride, part->shape[i]);
  }
  g_ptr_array_add(fuser->tensors, part);
  return part;
}

static GraphNode *new_node(Fuser *fuser, GPtrArray *nodes, const GraphNode *wide, OperatorId op,
                           GraphTensor *result)
{
  GraphNode *node = arena_new_object(fuser->arena, GraphNode);
  *node = *wide;
  node->op = operator_of(op);
  node->n_inputs = 0;
  node->inputs = arena_new_array(fuser->arena, GraphTensor *, FEW_OPERANDS);
  node->outputs = arena_memdup(fuser->arena, &result, sizeof(GraphTensor *));
  result->producer = node;
  g_ptr_array_add(nodes, node);
  return node;
}

static void split(Fuser *fuser, GPtrArray *nodes, const GraphNode *wide)
{
  bool mean = wide->op->id == ONNX_Mean;
  OperatorId op = mean ? ONNX_Sum : wide->op->id;
  GraphTensor *part = NULL;
  for (unsigned next = 0; next < wide->n_inputs;) {
    unsigned taken = MIN(wide->n_inputs - next, FEW_OPERANDS - (part != NULL));
    bool last = next + taken == wide->n_inputs && !mean;
    GraphTensor *result = last ? wide->outputs[0] : new_part(fuser, wide->outputs[0]);
    GraphNode *node = new_node(fuser, nodes, wide, op, result);
    if (part) node->inputs[node->n_inputs++] = part;
    for (unsigned i = 0; i < taken; i++)
      node->inputs[node->n_inputs++] = wide->inputs[next++];
    part = result;
  }
  if (!mean) return;
  GraphNode *quotient = new_node(fuser, nodes, wide, ONNX_Div, wide->outputs[0]);
  quotient->inputs[quotient->n_inputs++] = part;
  quotient->inputs[quotient->n_inputs++] = fuser_new_number(fuser, part->type, wide->n_inputs);
}

void fusion_split_wide(Fuser *fuser)
{
  GPtrArray *live = fuser->live;
  g_autoptr(GPtrArray) nodes = g_ptr_array_new();
  for (unsigned i = 0; i < live->len; i++) {
    GraphNode *node = live->pdata[i];
    if (is_wide(node))
      split(fuser, nodes, node);
    else
      g_ptr_array_add(nodes, node);
  }
  g_ptr_array_set_size(live, 0);
  g_ptr_array_extend(live, nodes, NULL, NULL);
}
