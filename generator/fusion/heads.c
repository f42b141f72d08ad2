/* Rewrite group_heads: keys and values that are repeated for each of a group of heads are not.
 *
 *   K [.., heads / group, 1, keys, d] -> Expand, Tile or Concat -> Reshape [.., heads, keys, d]
 *
 * and V alike become a dimension of groups, which scores, weights and the result have and keys and values do not:
 *
 *   S [.., heads / group, group, rows, keys] = MatMul(Reshape(Q), K^T) ... O = Reshape(MatMul(P, V))
 *
 * Nothing is computed otherwise than before, whatever kernels the nodes then go into. */
#include "generator/fusion/attention.h"
#include <string.h>

typedef struct {
  AttentionPattern *at;
  unsigned dim;                 /* of heads among those of scores */
  const Symbolic *kept, *group; /* heads of keys and values; of each so many heads of queries */
  GHashTable *replaced;         /* tensor -> the same with a dimension for groups */
} Heads;

/* ---- what is repeated ---- */

static const GraphNode *producer_of(const Heads *heads, const GraphTensor *tensor, OperatorId op)
{
  const GraphNode *node = heads->at->producers[tensor->index];
  return node && node->op->id == op && node->outputs[0] == tensor ? node : NULL;
}

/* The node's input, whose dimension `dim` of 1 the node repeats, and no other; or NULL. */
static GraphTensor *unexpanded(const Heads *heads, const GraphTensor *tensor, unsigned dim)
{
  const GraphNode *node = heads->at->producers[tensor->index];
  bool repeats =
      node && (node->op->id == ONNX_Expand || node->op->id == ONNX_Tile || node->op->id == ONNX_Concat);
  GraphTensor *input = repeats ? node->inputs[0] : NULL;
  if (!input || input->rank != tensor->rank || !symbolic_equals(input->shape[dim], 1)) return NULL;
  for (unsigned d = 0; d < tensor->rank; d++)
    if (d != dim && !symbolic_same(input->shape[d], tensor->shape[d])) return NULL;
  for (unsigned i = 1; node->op->id == ONNX_Concat && i < node->n_inputs; i++)
    if (node->inputs[i] != input) return NULL;
  return input;
}

/* Keys or values [.., heads, x, y] as they were: [.., kept, 1, x, y]; NULL: they are not repeated, or otherwise. */
static GraphTensor *unrepeated(Heads *heads, const GraphTensor *tensor)
{
  if (tensor->rank < 3 || tensor->rank >= GRAPH_MAX_RANK) return NULL;
  unsigned dim = tensor->rank - 3;
  const GraphNode *reshape = producer_of(heads, tensor, ONNX_Reshape);
  const GraphTensor *whole = reshape ? reshape->inputs[0] : NULL;
  if (!whole || whole->rank != tensor->rank + 1) return NULL;
  for (unsigned d = 0; d < tensor->rank; d++)
    if (d != dim && !symbolic_same(tensor->shape[d], whole->shape[d > dim ? d + 1 : d])) return NULL;
  const Symbolic *kept = whole->shape[dim], *group = whole->shape[dim + 1];
  if (heads->kept && (!symbolic_same(kept, heads->kept) || !symbolic_same(group, heads->group))) return NULL;
  heads->dim = dim;
  heads->kept = kept;
  heads->group = group;
  return unexpanded(heads, whole, dim + 1);
}

bool attention_turns_matrix(const GraphNode *node)
{
  unsigned rank = node->inputs[0]->rank;
  for (unsigned d = 0; d + 2 < rank; d++)
    if (node->order[d] != d) return false;
  return rank >= 2 && node->order[rank - 1] == rank - 2;
}

void attention_turn_matrix(GraphNode *node)
{
  unsigned rank = node->inputs[0]->rank;
  for (unsigned d = 0; d < rank; d++)
    node->order[d] = d + 2 < rank ? d : d + 1 == rank ? d - 1 : d + 1;
}

/* ---- tensors and nodes ---- */

static void lay_out(Arena *arena, GraphTensor *tensor)
{
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned d = tensor->rank; d-- > 0;) {
    tensor->strides[d] = stride;
    stride = symbolic_mul(arena, stride, tensor->shape[d]);
  }
}

static GraphTensor *with_groups(Heads *heads, const GraphTensor *tensor, const Symbolic *kept,
                                const Symbolic *group, unsigned dim)
{
  Arena *arena = heads->at->fuser->arena;
  GraphTensor *grouped = arena_memdup(arena, tensor, sizeof *tensor);
  grouped->rank = tensor->rank + 1;
  grouped->shape[dim] = kept;
  grouped->shape[dim + 1] = group;
  for (unsigned d = dim + 1; d < tensor->rank; d++)
    grouped->shape[d + 1] = tensor->shape[d];
  lay_out(arena, grouped);
  return grouped;
}

static GraphTensor *as_new(Heads *heads, GraphTensor *tensor)
{
  Fuser *fuser = heads->at->fuser;
  tensor->name = arena_printf(fuser->arena, "%s.heads%u", tensor->name, fuser->tensors->len);
  tensor->kind = TENSOR_COMPUTED;
  tensor->is_output = false;
  tensor->align = (unsigned)number_bytes_of(tensor->type, 1);
  tensor->index = fuser->tensors->len;
  tensor->n_consumers = 1;
  g_ptr_array_add(fuser->tensors, tensor);
  return tensor;
}

/* A node in front of another one, or behind it. */
static void add_node(Heads *heads, OperatorId op, GraphTensor *from, GraphTensor *to, const GraphNode *beside,
                     bool behind)
{
  Fuser *fuser = heads->at->fuser;
  guint place = 0;
  GraphNode *node = fuser_copy_node(fuser, beside, from, to);
  node->op = operator_of(op);
  to->producer = node;
  if (op == ONNX_Transpose) attention_turn_matrix(node);
  g_ptr_array_find(fuser->live, beside, &place);
  g_ptr_array_insert(fuser->live, (gint)(place + behind), node);
}

/* What scores are computed with: an operand with heads gets a dimension for groups. */
static GraphTensor *grouped_input(Heads *heads, GraphTensor *tensor, const GraphNode *reader)
{
  GraphTensor *grouped = g_hash_table_lookup(heads->replaced, tensor);
  if (grouped || tensor->rank < 3) return grouped ? grouped : tensor;
  unsigned dim = tensor->rank - 3;
  const Symbolic *one = symbolic_constant(heads->at->fuser->arena, 1);
  bool repeats = symbolic_equals(tensor->shape[dim], 1);
  grouped = as_new(
      heads, with_groups(heads, tensor, repeats ? one : heads->kept, repeats ? one : heads->group, dim));
  add_node(heads, ONNX_Reshape, tensor, grouped, reader, false);
  g_hash_table_insert(heads->replaced, tensor, grouped);
  return grouped;
}

/* The node's result has a dimension for groups; nobody outside of the pattern reads it. */
static void group_result(Heads *heads, GraphNode *node)
{
  Fuser *fuser = heads->at->fuser;
  GraphTensor *result = node->outputs[0],
              *grouped = with_groups(heads, result, heads->kept, heads->group, heads->dim);
  node->outputs = arena_memdup(fuser->arena, &grouped, sizeof grouped);
  node->n_outputs = 1;
  grouped->producer = node;
  fuser->tensors->pdata[result->index] = grouped;
  g_hash_table_insert(heads->replaced, result, grouped);
}

/* ---- the whole ---- */

static void group_step(Heads *heads, GraphNode *node)
{
  bool place = node->op->id == ONNX_Mask; /* its other inputs are numbers */
  for (unsigned i = 0; i < (place ? 1 : node->n_inputs); i++)
    if (node->inputs[i]) node->inputs[i] = grouped_input(heads, node->inputs[i], node);
  if (node->op->class_ == OPERATOR_ROW || node->op->id == ONNX_IndexAlong) node->axes <<= 1;
  group_result(heads, node);
}

static void group_products(Heads *heads, GraphTensor *keys, bool turned, GraphTensor *values)
{
  AttentionPattern *at = heads->at;
  if (turned) {
    GraphTensor *k = as_new(heads, arena_memdup(at->fuser->arena, keys, sizeof *keys));
    unsigned last = k->rank - 1;
    const Symbolic *depth = k->shape[last];
    k->shape[last] = k->shape[last - 1];
    k->shape[last - 1] = depth;
    lay_out(at->fuser->arena, k);
    add_node(heads, ONNX_Transpose, keys, k, at->first, false);
    keys = k;
  }
  at->first->inputs[1] = keys;
  at->first->inputs[0] = grouped_input(heads, at->first->inputs[0], at->first);
  at->second->inputs[1] = values;
  group_result(heads, at->first);
}

/* What leaves the pattern has its own shape again. */
static void restore_heads(Heads *heads, GraphNode *node)
{
  GraphTensor *result = node->outputs[0];
  GraphTensor *grouped = as_new(heads, with_groups(heads, result, heads->kept, heads->group, heads->dim));
  node->inputs[0] = g_hash_table_lookup(heads->replaced, node->inputs[0]);
  node->outputs = arena_memdup(heads->at->fuser->arena, &grouped, sizeof grouped);
  grouped->producer = node;
  add_node(heads, ONNX_Reshape, grouped, fuser_own_tensor(heads->at->fuser, result), node, true);
}

static void group_heads(AttentionPattern *at)
{
  g_autoptr(GHashTable) replaced = g_hash_table_new(NULL, NULL);
  Heads heads = {.at = at, .replaced = replaced};
  if (!attention_collect(at) || at->first->outputs[0]->rank < 4 ||
      at->first->outputs[0]->rank >= GRAPH_MAX_RANK)
    return;
  const GraphTensor *right = at->first->inputs[1];
  const GraphNode *turn = producer_of(&heads, right, ONNX_Transpose);
  bool turned = turn && attention_turns_matrix(turn);
  GraphTensor *keys = unrepeated(&heads, turned ? turn->inputs[0] : right),
              *values = keys ? unrepeated(&heads, at->second->inputs[1]) : NULL;
  if (!values || heads.dim + 3 != at->first->outputs[0]->rank) return;
  fuser_note(at->fuser, "`%s` and `%s` are not repeated for groups of heads", keys->name, values->name);
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->fuser->live, NULL, NULL);
  group_products(&heads, keys, turned, values);
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (g_hash_table_contains(at->inside, node) && node != at->first && node != at->second && node != at->sum)
      group_step(&heads, node);
  }
  restore_heads(&heads, at->second);
  if (!at->sum) return;
  at->sum->axes <<= 1;
  restore_heads(&heads, at->sum);
}

void fusion_group_heads(Fuser *fuser)
{
  fusion_drop_unread(fuser); /* Casts that nobody reads any more would count as readers of scores */
  attention_visit(fuser, group_heads);
  fusion_drop_unread(fuser); /* what repeated them */
}
