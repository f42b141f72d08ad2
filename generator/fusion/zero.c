/* Rewrite expand_zero_points: Zero points of MatMulInteger: (A - a) (B - b) = A B - b R - a C, where R are the sums along k of A - a and
 * C those of B, in integers that wrap. The node becomes a product of what is stored, sums by row kernels, and
 * elementwise nodes that join the product's epilogue. a is one number or one for each row of A, b one or one
 * for each column of B (graph_infer.c). */
#include "generator/fusion/private.h"
#include <string.h>

typedef struct {
  Fuser *fuser;
  GPtrArray *nodes;    /* the new list */
  GraphTensor *result; /* of the node: what is made on the way is named after it */
  Mark mark;
} Expansion;

static GraphTensor *new_tensor(Expansion *at, const char *what, unsigned rank, const Symbolic *const *shape)
{
  Arena *arena = at->fuser->arena;
  GraphTensor *tensor = arena_new_object(arena, GraphTensor);
  *tensor =
      (GraphTensor){.name = arena_printf(arena, "%s.%s%u", at->result->name, what, at->fuser->tensors->len),
                    .kind = TENSOR_COMPUTED,
                    .index = at->fuser->tensors->len,
                    .type = NUMBER_S32,
                    .rank = rank,
                    .align = number_bytes(NUMBER_S32),
                    .mark = at->mark};
  const Symbolic *stride = symbolic_constant(arena, 1);
  for (unsigned i = rank; i-- > 0;) {
    tensor->shape[i] = shape[i];
    tensor->strides[i] = stride;
    stride = symbolic_mul(arena, stride, shape[i]);
  }
  g_ptr_array_add(at->fuser->tensors, tensor);
  return tensor;
}

/* A node of two inputs or, where b is NULL, one. */
static GraphNode *new_node(Expansion *at, OperatorId op, GraphTensor *a, GraphTensor *b, GraphTensor *result)
{
  Arena *arena = at->fuser->arena;
  const Operator *row = operator_of(op);
  GraphNode *node = arena_new_object(arena, GraphNode);
  *node = (GraphNode){.op = row, .name = "", .n_inputs = b ? 2 : 1, .n_outputs = 1, .mark = at->mark};
  node->inputs = arena_new_array(arena, GraphTensor *, 2);
  node->outputs = arena_new_array(arena, GraphTensor *, 1);
  node->attributes = arena_new_array(arena, GraphAttribute, row->n_attributes + 1);
  node->inputs[0] = a;
  node->inputs[1] = b;
  node->outputs[0] = result;
  result->producer = node;
  g_ptr_array_add(at->nodes, node);
  return node;
}

static bool is_one(const GraphTensor *tensor)
{
  for (unsigned i = 0; i < tensor->rank; i++)
    if (!symbolic_equals(tensor->shape[i], 1)) return false;
  return true;
}

/* One number for each row of a matrix, along its rows. */
static GraphTensor *as_column(Expansion *at, GraphTensor *zero)
{
  if (zero->rank != 1 || is_one(zero)) return zero;
  GraphTensor *view =
      arena_memdup(at->fuser->arena, zero, sizeof *zero); /* kernels know it by index and name */
  view->rank = 2;
  view->shape[1] = symbolic_constant(at->fuser->arena, 1);
  view->strides[1] = symbolic_constant(at->fuser->arena, 0);
  return view;
}

/* The sums of a tensor over one dimension, which becomes 1 or, for the products of a vector, is left out. */
static GraphTensor *sum_along(Expansion *at, GraphTensor *tensor, unsigned dimension, bool keep)
{
  const Symbolic *shape[GRAPH_MAX_RANK];
  unsigned rank = 0;
  for (unsigned i = 0; i < tensor->rank; i++)
    if (i != dimension)
      shape[rank++] = tensor->shape[i];
    else if (keep)
      shape[rank++] = symbolic_constant(at->fuser->arena, 1);
  GraphTensor *sums = new_tensor(at, "sums", rank, shape);
  GraphNode *node = new_node(at, ONNX_ReduceSum, tensor, NULL, sums);
  node->axes = 1u << dimension;
  node->keepdims = keep;
  return sums;
}

static GraphTensor *in_s32(Expansion *at, GraphTensor *tensor, GraphTensor *less)
{
  GraphTensor *result = new_tensor(at, "wide", tensor->rank, tensor->shape);
  if (less) {
    new_node(at, ONNX_Sub, tensor, less, result);
    return result;
  }
  GraphNode *cast = new_node(at, ONNX_Cast, tensor, NULL, result);
  for (unsigned i = 0; i < cast->op->n_attributes; i++) /* saturate, to; round_mode is a text */
    cast->attributes[i].integer = strcmp(cast->op->attributes[i].name, "to") ? 1 : NUMBER_S32;
  return result;
}

/* value - factor sums; the last one is the node's own result. */
static GraphTensor *take_off(Expansion *at, GraphTensor *value, GraphTensor *sums, GraphTensor *factor,
                             bool last)
{
  GraphTensor *result = at->result;
  GraphTensor *part = new_tensor(at, "part", result->rank, result->shape);
  new_node(at, ONNX_Mul, sums, factor, part);
  if (!last) result = new_tensor(at, "rest", result->rank, result->shape);
  new_node(at, ONNX_Sub, value, part, result);
  return result;
}

static void expand(Expansion *at, GraphNode *product)
{
  GraphTensor *a = product->inputs[0], *b = product->inputs[1], *result = at->result;
  GraphTensor *a_zero = product->inputs[2], *b_zero = product->n_inputs > 3 ? product->inputs[3] : NULL;
  bool vector = b->rank == 1; /* the result then has no columns */
  GraphTensor *a_column = a_zero ? as_column(at, a_zero) : NULL;
  GraphTensor *rows = b_zero ? sum_along(at, in_s32(at, a, a_column), a->rank - 1, !vector) : NULL;
  /* of a vector A the result has no rows: a dimension in their place would be taken for a batch */
  bool keep = a->rank > 1;
  GraphTensor *columns = a_zero ? sum_along(at, in_s32(at, b, NULL), vector ? 0 : b->rank - 2, keep) : NULL;
  GraphTensor *raw = new_tensor(at, "raw", result->rank, result->shape);
  GraphTensor **inputs = arena_memdup(at->fuser->arena, product->inputs, 2 * sizeof *inputs);
  product->inputs = inputs;
  product->n_inputs = 2;
  product->outputs = arena_memdup(at->fuser->arena, &raw, sizeof(GraphTensor *));
  raw->producer = product;
  g_ptr_array_add(at->nodes, product);
  if (rows) raw = take_off(at, raw, rows, b_zero, !columns);
  if (columns) take_off(at, raw, columns, vector ? a_zero : a_column, true);
}

void fusion_expand_zero_points(Fuser *fuser)
{
  GPtrArray *live = fuser->live;
  g_autoptr(GPtrArray) nodes = g_ptr_array_new();
  for (unsigned i = 0; i < live->len; i++) {
    GraphNode *node = live->pdata[i];
    bool zero = false;
    for (unsigned j = 2; node->op->id == ONNX_MatMulInteger && j < node->n_inputs; j++)
      zero = zero || node->inputs[j];
    if (zero)
      expand(&(Expansion){fuser, nodes, node->outputs[0], node->mark}, node);
    else
      g_ptr_array_add(nodes, node);
  }
  g_ptr_array_set_size(live, 0);
  g_ptr_array_extend(live, nodes, NULL, NULL);
}
