/* Rewrite reduce_products: reductions of a product's result: its kernel leaves one value for each row and REDUCED_COLUMNS columns, or
 * for each column and REDUCED_ROWS rows, the "parts", and a row kernel reduces these, so that nobody reads
 * the result again.
 *
 * Parts, not atomics: nobody has to initialise anything, sums too are taken in an order of their own, and the
 * result does not depend on who comes first. They have four bytes for each REDUCED_COLUMNS results, or each
 * REDUCED_ROWS. Over all
 * axes a second row kernel follows, since one block would read all parts.
 *
 * Where who reads R reads Y again and has the same rows, as norms and scales of rows do, one row kernel does all of it and reads Y once: that is
 * left to join_rows.
 *
 *   Y = product   R = ReduceMax(Abs(Y), last axis)    becomes
 *   Y, P = product with max(|y|) of each part         R = ReduceMax(P, last axis) */
#include "generator/fusion/private.h"
#include <string.h>

#define FEW_PARTS 8192 /* which one block reads in a few microseconds */

typedef struct {
  Fuser *fuser;
  Group *row, *product;
  GraphNode *anchor; /* of the row group */
  GPtrArray *before; /* its elementwise nodes in front of the anchor */
} Reduction;

static GraphNode *producer_of(const Fuser *fuser, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < fuser->nodes->len; i++) {
    GraphNode *node = fuser->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j] == tensor) return node;
  }
  return NULL;
}

/* What the nodes of the row group read from elsewhere is one product's result and inputs of the graph. */
static bool reads_one_product(Reduction *reduction, const GraphNode *node)
{
  const Fuser *fuser = reduction->fuser;
  unsigned n = node == reduction->anchor ? 1 : node->n_inputs;
  for (unsigned i = 0; i < n; i++) {
    const GraphNode *producer = node->inputs[i] ? producer_of(fuser, node->inputs[i]) : NULL;
    if (node->inputs[i] && (fuser_is_view(node->inputs[i]) || node->inputs[i]->n_parts)) return false;
    Group *group = producer ? fuser->group_of[producer->index] : NULL;
    if (!producer || group == reduction->row) continue;
    if (!group_is_product(group) || (reduction->product && reduction->product != group) ||
        !graph_same_shape(node->inputs[i], reduction->anchor->inputs[0]))
      return false;
    reduction->product = group;
  }
  return true;
}

/* How many elements a reduction takes together; 0: known at launch only. */
static int64_t reduced_count(const GraphNode *anchor)
{
  const GraphTensor *source = anchor->inputs[0];
  int64_t count = 1, extent;
  for (unsigned i = 0; i < source->rank; i++) {
    if (!(anchor->axes >> i & 1)) continue;
    if (!symbolic_is_constant(source->shape[i], &extent)) return 0;
    count *= extent;
  }
  return count;
}

/* Of each column. */
static bool is_by_rows(const GraphNode *anchor)
{
  return anchor->inputs[0]->rank == 2 && anchor->axes == 1;
}

/* A mean is a sum of parts, divided behind the last: by a number that must be known here. */
static bool is_wanted(const GraphNode *anchor)
{
  const GraphTensor *source = anchor->inputs[0];
  if (source->rank < 2) return false;
  uint32_t all = (1u << source->rank) - 1;
  bool kind = anchor->op->id == ONNX_ReduceMax || anchor->op->id == ONNX_ReduceMin ||
              anchor->op->id == ONNX_ReduceSum ||
              (anchor->op->id == ONNX_ReduceMean && reduced_count(anchor) > 0);
  bool last = anchor->axes == 1u << (source->rank - 1);
  return kind && (anchor->axes == all || last || is_by_rows(anchor));
}

/* Rows and columns of a product with room for one more step. */
static bool fits_product(const Reduction *reduction)
{
  const Group *product = reduction->product;
  const GraphNode *anchor = product->anchor;
  if (product->nodes->len + reduction->before->len + 1 >= reduction->fuser->max_steps) return false;
  if (anchor->inputs[0]->rank < 2 || anchor->inputs[1]->rank < 2) return false;
  return graph_same_shape(anchor->outputs[0], reduction->anchor->inputs[0]);
}

/* ---- who reads the result again ---- */

/* Both groups read a tensor of the anchor's rows. */
static bool share_rows(const Group *row, const Group *other)
{
  for (unsigned i = 0; i < row->nodes->len; i++) {
    const GraphNode *node = row->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (node->inputs[j] && graph_same_shape(node->inputs[j], row->anchor->inputs[0]) &&
          group_reads(other, node->inputs[j]))
        return true;
  }
  return false;
}

/* Some reader of what the group gives has the rows too, and one kernel computes both. */
static bool is_joined_later(Fuser *fuser, Group *row)
{
  for (unsigned i = 0; i < row->nodes->len; i++) {
    const GraphNode *node = row->nodes->pdata[i];
    const GPtrArray *readers = node->outputs[0] ? fuser->readers[node->outputs[0]->index] : NULL;
    for (unsigned j = 0; readers && j < readers->len; j++) {
      Group *other = fuser_group(fuser, readers->pdata[j]);
      if (other && other != row && share_rows(row, other) && fuser_joins_rows(fuser, row, other)) return true;
    }
  }
  return false;
}

static bool find_reduction(Reduction *reduction)
{
  GPtrArray *nodes = reduction->row->nodes;
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (node->index > reduction->anchor->index) continue;
    if (!reads_one_product(reduction, node)) return false;
    if (node != reduction->anchor) g_ptr_array_add(reduction->before, node);
  }
  return reduction->product && fits_product(reduction);
}

/* ---- New tensors and nodes ---- */

/* The source's shape with another extent of dimension `dim`, in the type that products and reductions are
 * computed in. */
static GraphTensor *parts_tensor(Fuser *fuser, const GraphNode *anchor, unsigned dim, const Symbolic *extent)
{
  Arena *arena = fuser->arena;
  const GraphTensor *source = anchor->inputs[0];
  GraphTensor *tensor = arena_new_object(arena, GraphTensor);
  *tensor = (GraphTensor){.name = arena_printf(arena, "%s.parts%u", source->name, fuser->tensors->len),
                          .kind = TENSOR_COMPUTED,
                          .index = fuser->tensors->len,
                          .type = program_compute(source->type),
                          .rank = source->rank,
                          .align = 16,
                          .mark = anchor->mark};
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned i = source->rank; i-- > 0;) {
    tensor->shape[i] = i == dim ? extent : source->shape[i];
    tensor->strides[i] = stride;
    stride = symbolic_mul(arena, stride, tensor->shape[i]);
  }
  return tensor;
}

/* A reduction like the anchor's, along dimension `dim`; a mean's sum. It joins no group yet. */
static GraphNode *make_node(Fuser *fuser, const GraphNode *anchor, unsigned dim, GraphTensor *input,
                            GraphTensor *output)
{
  GraphNode *node = arena_memdup(fuser->arena, anchor, sizeof *anchor);
  if (anchor->op->id == ONNX_ReduceMean) node->op = operator_of(ONNX_ReduceSum);
  node->name = "";
  node->inputs = arena_new_array(fuser->arena, GraphTensor *, 1);
  node->outputs = arena_new_array(fuser->arena, GraphTensor *, 1);
  node->inputs[0] = input;
  node->outputs[0] = output;
  node->n_inputs = node->n_outputs = 1;
  node->axes = 1u << dim;
  node->index = fuser->nodes->len;
  output->producer = node;
  return node;
}

static void add_node(Fuser *fuser, Group *group, GraphNode *node)
{
  g_ptr_array_add(fuser->tensors, node->outputs[0]);
  fuser_add_node(fuser, node);
  fuser_join(fuser, group, node);
}

static bool are_few(const GraphTensor *parts)
{
  int64_t extent, all = 1;
  for (unsigned i = 0; i < parts->rank; i++) {
    if (!symbolic_is_constant(parts->shape[i], &extent) || extent > FEW_PARTS) return false;
    all = MIN(all * MAX(1, extent), FEW_PARTS + 1);
  }
  return all <= FEW_PARTS;
}

/* Over all axes a second row kernel follows where the parts are many. */
static void add_rows(Fuser *fuser, GraphNode *anchor, unsigned last)
{
  GraphTensor *parts = anchor->inputs[0];
  GraphTensor *rows = parts_tensor(fuser, anchor, last, symbolic_constant(fuser->arena, 1));
  Group *group = arena_new_object(fuser->arena, Group);
  GraphNode *node = make_node(fuser, anchor, last, parts, rows);
  *group = (Group){.anchor = node, .nodes = g_ptr_array_new()};
  g_ptr_array_add(fuser->groups, group);
  add_node(fuser, group, node);
  anchor->inputs[0] = rows;
}

static void divide_reduction(Reduction *reduction)
{
  Fuser *fuser = reduction->fuser;
  Arena *arena = fuser->arena;
  GraphNode *anchor = reduction->anchor;
  GraphTensor *source = anchor->inputs[0];
  const char *name = anchor->op->name;
  bool by_rows = is_by_rows(anchor);
  unsigned last = source->rank - 1, dim = by_rows ? 0 : last,
           width = by_rows ? REDUCED_ROWS : REDUCED_COLUMNS;
  const Symbolic *count = symbolic_ceil_div(arena, source->shape[dim], symbolic_constant(arena, width));
  GraphTensor *parts = parts_tensor(fuser, anchor, dim, count);
  GraphNode *node = make_node(fuser, anchor, dim, source, parts);
  if (!fuser_takes_reduction(fuser, reduction->product, reduction->before, node,
                             arena_printf(arena, "%s of `%s`", name, source->name)))
    return;
  if (anchor->op->id == ONNX_ReduceMean) {
    reduction->row->mean_of = reduced_count(anchor);
    anchor->op = operator_of(ONNX_ReduceSum);
  }
  for (unsigned i = 0; i < reduction->before->len; i++) {
    GraphNode *before = reduction->before->pdata[i];
    g_ptr_array_remove(reduction->row->nodes, before);
    fuser_join(fuser, reduction->product, before);
  }
  add_node(fuser, reduction->product, node);
  fuser_sort(reduction->product->nodes);
  anchor->inputs[0] = parts;
  fuser_note(fuser, "%s of `%s`: the product's kernel reduces each %u %s, a row kernel the rest", name,
             source->name, width, by_rows ? "rows" : "columns");
  if (!by_rows && (anchor->axes & 1u) && !are_few(parts)) add_rows(fuser, anchor, last);
}

void fusion_reduce_products(Fuser *fuser)
{
  g_autoptr(GPtrArray) wanted = g_ptr_array_new();
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *group = fuser->groups->pdata[i];
    if (group->absorbed || !group_is_row(group) || !is_wanted(group->anchor)) continue;
    if (!reduced_count(group->anchor) || !is_joined_later(fuser, group)) g_ptr_array_add(wanted, group);
  }
  fuser_unindex(fuser); /* nodes and tensors join */
  for (unsigned i = 0; i < wanted->len; i++) {
    Group *group = wanted->pdata[i];
    g_autoptr(GPtrArray) before = g_ptr_array_new();
    Reduction reduction = {.fuser = fuser, .row = group, .anchor = group->anchor, .before = before};
    if (find_reduction(&reduction)) divide_reduction(&reduction);
  }
  fuser_index(fuser);
}
