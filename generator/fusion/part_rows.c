/* Rewrite part_rows: what is computed of rows has the dimensions of their parts from the start, where it is then seen in
 * parts, and reductions keep the dimension that their result is given back. So nodes of rows and of their parts stand at the
 * same points, and one kernel may compute both:
 *
 *   y = Norm(x)   p = Reshape(y, [R, C / 128, 128])   m = ReduceMax(Abs(p), 2)   q = Div(p, Unsqueeze(Mul(m, c), 2))
 *
 * becomes a norm along the last two dimensions of x seen in parts, a maximum that is [R, C / 128, 1], and no view between.
 * Who else reads y reads it in its own shape. What a product's kernel computes stays as it is. */
#include "generator/fusion/private.h"
#include <string.h>

#define MOST_DEEP 20 /* nodes that a view goes up through */

typedef struct {
  Fuser *fuser;
  GPtrArray *live;
  GraphNode **producers;      /* by tensor index, of live nodes */
  const GraphTensor *seen;    /* that is seen in another shape */
  const Symbolic *parts, *of; /* its last dimension becomes two; NULL: it gets one of 1 behind it */
  GHashTable *nodes, *lifted; /* what stands at the new points: nodes, and tensors with what they become */
  bool has_rows;              /* a row operator is among them */
} Parting;

static bool keeps_order(const GraphNode *node)
{
  OperatorId op = node->op->id;
  return op == ONNX_Reshape || op == ONNX_Flatten || op == ONNX_Squeeze || op == ONNX_Unsqueeze;
}

static GraphNode *producer_of(const Parting *at, const GraphTensor *tensor)
{
  return fuser_computes(at->producers, tensor);
}

/* ---- what may stand at other points ---- */

static bool is_reduction(const GraphNode *node)
{
  switch ((unsigned)node->op->id) {
  case ONNX_ReduceSum:
  case ONNX_ReduceMean:
  case ONNX_ReduceMax:
  case ONNX_ReduceMin:
  case ONNX_ReduceProd: return true;
  default: return false;
  }
}

static bool is_norm(const GraphNode *node)
{
  OperatorId op = node->op->id;
  return op == ONNX_LayerNormalization || op == ONNX_RMSNormalization || op == ONNX_Softmax ||
         op == ONNX_LogSoftmax;
}

static bool reduces_last(const GraphNode *node)
{
  unsigned rank = node->inputs[0]->rank;
  return rank && node->axes == 1u << (rank - 1);
}

/* As long as the rows, or one value of each. */
static bool has_columns(const Parting *at, const GraphTensor *tensor)
{
  if (!tensor->rank || tensor->rank == GRAPH_MAX_RANK) return false;
  const Symbolic *last = tensor->shape[tensor->rank - 1];
  return !at->parts || symbolic_equals(last, 1) || symbolic_same(last, at->seen->shape[at->seen->rank - 1]);
}

static bool is_of_product(const Parting *at, const GraphTensor *tensor, unsigned deep)
{
  const GraphNode *node = producer_of(at, tensor);
  bool found = node && node->op->class_ == OPERATOR_GEMM;
  for (unsigned i = 0; node && deep && node->op->class_ == OPERATOR_ELEMENTWISE && i < node->n_inputs; i++)
    found |= is_of_product(at, node->inputs[i], deep - 1);
  return found;
}

static bool may_stand(const Parting *at, const GraphNode *node)
{
  const GraphTensor *result = node->outputs[0];
  switch (node->op->class_) {
  case OPERATOR_ELEMENTWISE:
    for (unsigned i = 1; node->op->shape_rule == SHAPE_RULE_QUANTIZE && i < node->n_inputs; i++)
      if (node->inputs[i] && !graph_has_one_element(node->inputs[i])) return false;
    return node->n_outputs == 1 && has_columns(at, result) && !is_of_product(at, result, MOST_DEEP);
  case OPERATOR_ROW:
    if (!reduces_last(node)) return false;
    if (!at->parts) return is_reduction(node) && !node->keepdims && has_columns(at, result);
    return (is_norm(node) || (is_reduction(node) && node->keepdims)) && has_columns(at, node->inputs[0]) &&
           has_columns(at, result);
  case OPERATOR_GEMM:
  case OPERATOR_INDEX:
  case OPERATOR_SEQUENCES:
  case OPERATOR_LOOP:
  case OPERATOR_FUNCTION:
  case OPERATOR_VIEW: break;
  }
  return false;
}

/* The nodes that a tensor is computed by, as far as they may stand at the new points. */
static void collect(Parting *at, const GraphTensor *tensor, unsigned deep)
{
  GraphNode *node = producer_of(at, tensor);
  if (!node || !deep || g_hash_table_contains(at->nodes, node) || !may_stand(at, node)) return;
  bool row = node->op->class_ == OPERATOR_ROW;
  g_hash_table_add(at->nodes, node);
  at->has_rows |= row;
  for (unsigned i = 0; (at->parts || !row) && i < node->n_inputs; i++)
    collect(at, node->inputs[i], deep - 1);
}

/* ---- is it worth it? ---- */

/* Elementwise nodes lead from the tensor to a reduction of its parts, or (`at` has rows) there are any. */
static bool is_reduced(const Parting *at, const GraphTensor *tensor, unsigned deep)
{
  bool found = false;
  for (unsigned i = 0; deep && i < at->live->len && !found; i++) {
    const GraphNode *node = at->live->pdata[i];
    bool reads = false;
    for (unsigned j = 0; j < node->n_inputs; j++)
      reads |= node->inputs[j] == tensor;
    if (reads && node->op->class_ == OPERATOR_ROW)
      found = is_reduction(node) && node->axes == 1u << (tensor->rank - 1);
    if (reads && node->op->class_ == OPERATOR_ELEMENTWISE)
      found = at->has_rows ||
              (graph_same_shape(node->outputs[0], tensor) && is_reduced(at, node->outputs[0], deep - 1));
  }
  return found;
}

/* The node gives the last dimension of what it reads as two, or one of 1 behind it. */
static bool find_parts(Parting *at, const GraphNode *node)
{
  const GraphTensor *from = node->inputs[0], *to = node->outputs[0];
  unsigned last = from->rank - 1;
  int64_t extent;
  if (!from->rank || to->rank != from->rank + 1) return false;
  for (unsigned d = 0; d < last; d++)
    if (!symbolic_same(from->shape[d], to->shape[d])) return false;
  if (!symbolic_is_constant(to->shape[last + 1], &extent)) return false;
  bool whole = symbolic_same(from->shape[last], to->shape[last]);
  if (extent == 1 ? !whole : extent < 1) return false;
  at->seen = from;
  at->parts = extent == 1 ? NULL : to->shape[last];
  at->of = to->shape[last + 1];
  return true;
}

static bool is_wanted(Parting *at, const GraphNode *node)
{
  GraphNode *producer = producer_of(at, node->inputs[0]);
  bool computes =
      producer && (producer->op->class_ == OPERATOR_ELEMENTWISE || producer->op->class_ == OPERATOR_ROW);
  if (!computes || !find_parts(at, node)) return false;
  g_hash_table_remove_all(at->nodes);
  g_hash_table_remove_all(at->lifted);
  at->has_rows = false;
  collect(at, node->inputs[0], MOST_DEEP);
  if (!g_hash_table_contains(at->nodes, producer)) return false;
  return at->parts ? is_reduced(at, node->outputs[0], MOST_DEEP) : at->has_rows;
}

/* ---- the new points ---- */

static GraphTensor *with_parts(Parting *at, const GraphTensor *tensor)
{
  Arena *arena = at->fuser->arena;
  const Symbolic *shape[GRAPH_MAX_RANK];
  unsigned last = tensor->rank - 1;
  bool divides = at->parts && !symbolic_equals(tensor->shape[last], 1);
  memcpy(shape, tensor->shape, sizeof shape);
  shape[last] = divides ? at->parts : tensor->shape[last];
  shape[last + 1] = divides ? at->of : symbolic_constant(arena, 1);
  GraphTensor *lifted =
      fuser_new_tensor(at->fuser, arena_printf(arena, "%s.parts%u", tensor->name, at->fuser->tensors->len),
                       tensor->type, tensor->mark, shape, tensor->rank + 1);
  g_hash_table_insert(at->lifted, (void *)tensor, lifted);
  return lifted;
}

/* A node that shows one in the other's shape, at a place among the live ones. */
static void add_view(Parting *at, GraphTensor *from, GraphTensor *to, const GraphNode *for_, guint place)
{
  GraphNode *view = fuser_copy_node(at->fuser, for_, from, to);
  view->op = operator_of(ONNX_Reshape);
  view->attributes = arena_new_array(at->fuser->arena, GraphAttribute, view->op->n_attributes + 1);
  to->producer = view;
  g_ptr_array_insert(at->live, (gint)place, view);
}

static void lift_inputs(Parting *at, GraphNode *node, guint *place)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    GraphTensor *input = node->inputs[i];
    if (!input || graph_has_one_element(input)) continue;
    GraphTensor *lifted = g_hash_table_lookup(at->lifted, input);
    if (!lifted) {
      lifted = with_parts(at, input);
      add_view(at, input, lifted, node, (*place)++);
    }
    node->inputs[i] = lifted;
  }
}

static void lift(Parting *at, GraphNode *node, guint place)
{
  Arena *arena = at->fuser->arena;
  bool row = node->op->class_ == OPERATOR_ROW;
  unsigned rank = node->inputs[0]->rank;
  node->outputs = arena_memdup(arena, node->outputs, node->n_outputs * sizeof(GraphTensor *));
  if (at->parts || !row) lift_inputs(at, node, &place);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    GraphTensor *output = node->outputs[i];
    if (!output) continue;
    node->outputs[i] = with_parts(at, output);
    node->outputs[i]->producer = node;
    add_view(at, node->outputs[i], output, node, ++place);
  }
  if (row && at->parts) node->axes = 3u << (rank - 1);
  if (row) node->keepdims = true;
}

/* The node reads another tensor, or goes where that has its result's shape. */
static void show(Parting *at, GraphNode *node, GraphTensor *tensor)
{
  GraphTensor *result = node->outputs[0];
  node->inputs[0] = tensor;
  if (result->is_output) return;
  fuser_replace_input(at->fuser, result, tensor);
  g_ptr_array_remove(at->live, node);
}

static void lift_all(Parting *at, GraphNode *node)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->live, NULL, NULL);
  const char *name = node->inputs[0]->name;
  for (unsigned i = 0; i < nodes->len; i++) {
    guint place;
    if (!g_hash_table_contains(at->nodes, nodes->pdata[i])) continue;
    g_ptr_array_find(at->live, nodes->pdata[i], &place);
    lift(at, nodes->pdata[i], place);
  }
  fuser_note(at->fuser, at->parts ? "`%s` is computed in parts of its rows" : "`%s` keeps a dimension", name);
  show(at, node, g_hash_table_lookup(at->lifted, node->inputs[0]));
  g_free(at->producers);
  at->producers = fuser_live_producers(at->fuser);
}

/* A tensor of the same shape that the node goes back to, or stays at; NULL: there is none. */
static GraphTensor *original(const Parting *at, const GraphNode *node)
{
  GraphTensor *tensor = node->inputs[0];
  while (!graph_same_shape(tensor, node->outputs[0])) {
    const GraphNode *producer = producer_of(at, tensor);
    if (!producer || !keeps_order(producer)) return NULL;
    tensor = producer->inputs[0];
  }
  return tensor;
}

void fusion_part_rows(Fuser *fuser)
{
  g_autoptr(GHashTable) nodes = g_hash_table_new(NULL, NULL), lifted = g_hash_table_new(NULL, NULL);
  Parting at = {.fuser = fuser, .live = fuser->live, .nodes = nodes, .lifted = lifted};
  g_autoptr(GPtrArray) all = g_ptr_array_copy(fuser->live, NULL, NULL);
  bool changed = false;
  at.producers = fuser_live_producers(fuser);
  for (unsigned i = 0; i < all->len; i++) {
    GraphNode *node = all->pdata[i];
    if (!keeps_order(node) || node->outputs[0]->is_output) continue;
    GraphTensor *tensor = original(&at, node);
    bool wanted = !tensor && is_wanted(&at, node);
    if (tensor) show(&at, node, tensor);
    if (wanted) lift_all(&at, node);
    changed |= tensor || wanted;
  }
  g_free(at.producers);
  if (changed) fusion_drop_unread(fuser);
}
