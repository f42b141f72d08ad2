/* Rewrite slice_gathers: a Gather of one known index, or of known ones in steps, is a Slice, which costs no kernel: so exporters take queries, keys and
 * values out of one tensor.
 *
 *   q = Gather(x, 0, axis)        becomes        q = Reshape(Slice(x, 0 .. 1 along axis))
 *
 * Only where the indices are known to lie in the tensor: a Gather gives 0 for others. */
#include "generator/fusion/private.h"

/* Indices first, first + step, ..., n of them. */
typedef struct {
  int64_t first, step;
  unsigned n;
} Steps;

static bool element(const GraphTensor *list, size_t i, int64_t *value)
{
  if (list->values) return symbolic_is_constant(list->values[i], value);
  if (!list->data) return false;
  *value = (int64_t)number_read(list->type, list->data, i);
  return true;
}

/* Of the Gather's list, where it counts in steps within what the dimension is known to have. */
static bool read_steps(const GraphTensor *list, int64_t extent, Steps *steps)
{
  if (list->kind != TENSOR_CONSTANT || !list->n_elements || (int64_t)list->n_elements > extent) return false;
  *steps = (Steps){.step = 1, .n = (unsigned)list->n_elements};
  for (unsigned i = 0; i < steps->n; i++) {
    int64_t index;
    if (!element(list, i, &index) || index < -extent || index >= extent) return false;
    if (index < 0) index += extent;
    if (i == 0) steps->first = index;
    if (i == 1) steps->step = index - steps->first;
    if (index != steps->first + i * steps->step) return false;
  }
  return steps->step > 0; /* backwards it would be copied all the same */
}

static void become_slice(Fuser *fuser, GraphNode *node, unsigned axis, const Steps *steps)
{
  Arena *arena = fuser->arena;
  const GraphTensor *x = node->inputs[0];
  const Symbolic **firsts = arena_new_array(arena, const Symbolic *, GRAPH_MAX_RANK);
  for (unsigned d = 0; d < x->rank; d++) {
    firsts[d] = symbolic_constant(arena, d == axis ? steps->first : 0);
    node->steps[d] = d == axis ? steps->step : 1;
  }
  node->op = operator_of(ONNX_Slice);
  node->onnx = NULL;
  node->written = NULL;
  node->attributes = arena_new_array(arena, GraphAttribute, node->op->n_attributes + 1);
  node->firsts = firsts;
  node->axes = 0;
  node->n_inputs = 1;
}

/* The node is not the graph's, and gives another tensor than before, which this one reads. */
static GraphNode *reshape_behind(Fuser *fuser, GraphNode *node, unsigned axis, unsigned n)
{
  Arena *arena = fuser->arena;
  const GraphTensor *x = node->inputs[0];
  GraphTensor *result = node->outputs[0];
  const Symbolic *shape[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < x->rank; d++)
    shape[d] = d == axis ? symbolic_constant(arena, n) : x->shape[d];
  GraphTensor *part =
      fuser_new_tensor(fuser, arena_printf(arena, "%s.slice%u", result->name, fuser->tensors->len),
                       result->type, node->mark, shape, x->rank);
  GraphNode *reshape = fuser_copy_node(fuser, node, part, result);
  reshape->op = operator_of(ONNX_Reshape);
  reshape->loop = node->loop;
  reshape->attributes = arena_new_array(arena, GraphAttribute, reshape->op->n_attributes + 1);
  node->outputs = arena_memdup(arena, &part, sizeof(GraphTensor *));
  part->producer = node;
  return reshape;
}

void fusion_slice_gathers(Fuser *fuser)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_sized_new(fuser->live->len);
  for (unsigned i = 0; i < fuser->live->len; i++) {
    GraphNode *node = fuser->live->pdata[i], *behind = NULL;
    int64_t extent;
    Steps steps;
    unsigned axis = node->op->id == ONNX_Gather ? (unsigned)__builtin_ctz(node->axes) : 0;
    bool known = node->op->id == ONNX_Gather && symbolic_is_constant(node->inputs[0]->shape[axis], &extent) &&
                 read_steps(node->inputs[1], extent, &steps);
    if (known) {
      fuser_note(fuser, "`%s` is a part of `%s`", node->outputs[0]->name, node->inputs[0]->name);
      if (node->inputs[1]->rank != 1) behind = reshape_behind(fuser, node, axis, steps.n);
      become_slice(fuser, node, axis, &steps);
    }
    g_ptr_array_add(nodes, node);
    if (behind) g_ptr_array_add(nodes, behind);
  }
  g_ptr_array_set_size(fuser->live, 0);
  g_ptr_array_extend(fuser->live, nodes, NULL, NULL);
}
