/* Rewrite repeat_constants: what is computed of constants alone, and repeats along who reads it, is computed there.
 *
 *   Mul(x, Add(w, 1))        w: [D], x: [S, D]        becomes        Mul(x, Add(w, 1)), both of [S, D]
 *
 * as exporters write norms whose scale is 1 + w. An operation an element, of what has been loaded, costs less than a launch each run;
 * and w may still be another at the next one, which would not be so if the graph's reader computed it. */
#include "generator/fusion/attention.h"

#define MOST_DEEP 3

/* Of one operation or none. */
static bool is_cheap(const GraphNode *node)
{
  switch ((unsigned)node->op->id) {
  case ONNX_Add:
  case ONNX_Sub:
  case ONNX_Mul:
  case ONNX_Neg:
  case ONNX_Cast:
  case ONNX_Identity: return true;
  default: return false;
  }
}

static GraphNode *producer(const AttentionPattern *at, const GraphTensor *tensor)
{
  GraphNode *node = tensor ? at->producers[tensor->index] : NULL;
  return node && node->n_outputs == 1 && node->outputs[0] == tensor ? node : NULL;
}

static bool is_of_constants(const AttentionPattern *at, const GraphNode *node, unsigned deep)
{
  if (!node || !deep || !is_cheap(node) || node->outputs[0]->is_output) return false;
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    bool constant = input && input->kind == TENSOR_CONSTANT && !input->values;
    if (!constant && !is_of_constants(at, producer(at, input), deep - 1)) return false;
  }
  return true;
}

/* The node's result in the reader's shape, by nodes in front of the reader. */
static GraphTensor *repeated(const AttentionPattern *at, const GraphNode *node, const GraphNode *reader)
{
  Fuser *fuser = at->fuser;
  const GraphTensor *own = node->outputs[0], *like = reader->outputs[0];
  const char *name = arena_printf(fuser->arena, "%s.repeated%u", own->name, fuser->tensors->len);
  GraphTensor *result = fuser_new_tensor(fuser, name, own->type, node->mark, like->shape, like->rank);
  GraphNode *again = arena_memdup(fuser->arena, node, sizeof *node);
  again->inputs = arena_memdup(fuser->arena, node->inputs, node->n_inputs * sizeof *node->inputs);
  again->outputs = arena_memdup(fuser->arena, &result, sizeof result);
  again->loop = reader->loop;
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i]->kind != TENSOR_CONSTANT)
      again->inputs[i] = repeated(at, producer(at, node->inputs[i]), reader);
  result->producer = again;
  result->n_consumers = 1;
  fuser_insert_before(fuser, reader, again);
  return result;
}

static void repeat(AttentionPattern *at)
{
  Fuser *fuser = at->fuser;
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(fuser->live, NULL, NULL);
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    bool plain = node->op->class_ == OPERATOR_ELEMENTWISE && node->op->shape_rule == SHAPE_RULE_BROADCAST;
    if (!plain || is_of_constants(at, node, MOST_DEEP)) continue;
    for (unsigned j = 0; j < node->n_inputs; j++) {
      const GraphTensor *input = node->inputs[j];
      GraphNode *of = producer(at, input);
      if (!of || graph_same_shape(input, node->outputs[0]) || !is_of_constants(at, of, MOST_DEEP)) continue;
      node->inputs = arena_memdup(fuser->arena, node->inputs, node->n_inputs * sizeof *node->inputs);
      node->inputs[j] = repeated(at, of, node);
      fuser_note(fuser, "`%s` is computed where `%s` is", input->name, node->outputs[0]->name);
    }
  }
}

void fusion_repeat_constants(Fuser *fuser)
{
  attention_visit_nodes(fuser, repeat);
  fusion_drop_unread(fuser);
}
