/* Rewrite space_rows: row operators take rows that are evenly spaced: operands and results that are not so are copied. */
#include "generator/fusion/private.h"
#include "generator/program/space.h"
#include <string.h>

/* `inner`: the dimension whose elements lie side by side in the copy. */
static GraphTensor *insert_copy(Fuser *fuser, const GraphNode *reader, GraphTensor *source,
                                const Symbolic *const *shape, unsigned rank, unsigned inner, const char *why)
{
  GraphTensor *copy = fuser_make_copy(fuser, reader, source, shape, rank, inner, 1);
  fuser_insert_copy(fuser, reader, source, copy, why);
  return copy;
}

/* How many steps it takes to go from row to row (part 0), and along a row (1): one each where they are evenly spaced. */
static void count_steps(Fuser *fuser, const GraphTensor *tensor, const GraphNode *node, unsigned steps[2])
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
    steps[part] = space_merge(fuser->arena, &space, 0, n);
  }
}

bool fuser_walks_rows(Fuser *fuser, const GraphTensor *tensor, const GraphNode *node)
{
  unsigned steps[2];
  count_steps(fuser, tensor, node, steps);
  return steps[0] <= 1 && steps[1] <= 1;
}

/* Reductions and softmax take rows in groups: within each they are evenly spaced, and so are these. */
static bool walks_groups(Fuser *fuser, const GraphTensor *tensor, const GraphNode *node)
{
  bool takes = node->op->shape_rule == SHAPE_RULE_REDUCE || node->op->id == ONNX_Softmax ||
               node->op->id == ONNX_LogSoftmax;
  unsigned steps[2];
  count_steps(fuser, tensor, node, steps);
  return takes && steps[0] <= 2 && steps[1] <= 1;
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

static void copy_rows(Fuser *fuser, GraphNode *node)
{
  GraphTensor *input = node->inputs[0];
  bool norm = node->op->shape_rule == SHAPE_RULE_NORM;
  if (!fuser_walks_rows(fuser, input, node) && !walks_groups(fuser, input, node)) {
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
static GraphNode *move_result(Fuser *fuser, GraphNode *node)
{
  GraphTensor *result = node->outputs[0];
  Arena *arena = fuser->arena;
  if (node->op->shape_rule == SHAPE_RULE_REDUCE || fuser_walks_rows(fuser, result, node) ||
      walks_groups(fuser, result, node))
    return NULL;
  GraphTensor *rows = fuser_make_copy(fuser, node, result, result->shape, result->rank, result->rank - 1, 1);
  lay_out_rows(arena, rows, node->axes);
  rows->producer = node;
  g_ptr_array_add(fuser->tensors, rows);
  node->outputs = arena_memdup(arena, node->outputs, node->n_outputs * sizeof(GraphTensor *));
  node->outputs[0] = rows;
  fuser_note(fuser, "`%s` of %s is copied to its place: its rows are not evenly spaced", result->name,
             node->op->name);
  return fuser_copy_node(fuser, node, rows, result);
}

bool fusion_space_rows(Fuser *fuser, unsigned place)
{
  GraphNode *node = fuser->live->pdata[place];
  if (node->op->class_ != OPERATOR_ROW) return false;
  copy_rows(fuser, node);
  GraphNode *after = move_result(fuser, node);
  if (after) g_ptr_array_insert(fuser->live, (gint)place + 1, after);
  return false;
}
