/* Keys and values of 8 bits: an operand of two products that is a view of what a node of their group widens (DequantizeLinear or
 * Cast) is read as it was before, and what its scale multiplies is the product's result, or what it is a product of. */
#include "generator/program/build_private.h"

static bool is_widening(const GraphNode *node)
{
  bool widens = node->op->id == ONNX_DequantizeLinear || node->op->id == ONNX_Cast;
  NumberType from = widens ? node->inputs[0]->type : NUMBER_BOOL;
  return widens && number_has_bytes(from, 1) && from != NUMBER_BOOL && from != NUMBER_E8M0 &&
         number_has_bytes(node->outputs[0]->type, 2);
}

static bool shows(const GraphNode *product, unsigned operand, const GraphNode *node)
{
  return product->inputs[operand]->index == node->outputs[0]->index;
}

bool program_is_widener(const ProgramBuilder *at, const GraphNode *node)
{
  return at->second && is_widening(node) &&
         (shows(at->anchor, 1, node) || shows(at->second, 1, node) || shows(at->anchor, 0, node));
}

const GraphNode *program_widener_of(const ProgramBuilder *at, const GraphTensor *tensor)
{
  for (unsigned i = 0; at->second && i < at->group->n; i++) {
    const GraphNode *node = at->group->nodes[i];
    if (is_widening(node) && node->outputs[0]->index == tensor->index) return node;
  }
  return NULL;
}

/* Where the view's point lies along each dimension of what was widened; false: along dimension *lacks no index of the view says it. */
static bool find_indices(Arena *arena, const GraphTensor *widened, const ProgramAccess *access,
                         const Symbolic **index, uint32_t *lacks)
{
  *lacks = 0;
  for (unsigned d = 0; d < widened->rank; d++) {
    index[d] = symbolic_constant(arena, 0);
    if (!program_index_along(widened, d, access, widened->shape[d], &index[d])) *lacks |= 1u << d;
  }
  return !*lacks;
}

static bool same_order(const GraphTensor *x, const GraphTensor *y)
{
  bool same = x->rank == y->rank;
  for (unsigned d = 0; same && d < x->rank; d++)
    same = symbolic_equals(x->shape[d], 1) || symbolic_same(x->strides[d], y->strides[d]);
  return same;
}

/* The same elements of what was widened. */
static GraphTensor *view_before(Arena *arena, const GraphTensor *view, const GraphTensor *x)
{
  GraphTensor *before = arena_memdup(arena, x, sizeof *x);
  before->rank = view->rank;
  for (unsigned d = 0; d < view->rank; d++) {
    before->shape[d] = view->shape[d];
    before->strides[d] = view->strides[d];
  }
  return before;
}

static const GraphTensor *scale_of(const GraphNode *node)
{
  return node->op->id == ONNX_DequantizeLinear ? node->inputs[1] : NULL;
}

bool program_shows_widened(Arena *arena, const GraphNode *node, const GraphNode *product, bool gathered,
                           bool weighed)
{
  const GraphTensor *view = product->inputs[1], *widened = node->outputs[0], *scale = scale_of(node);
  const Symbolic *index[GRAPH_MAX_RANK];
  ProgramAccess access = {.tensor = view};
  uint32_t lacks;
  double none;
  unsigned contracted = view->rank - (graph_is_transposed(product, 1) ? 1 : 2);
  if (!is_widening(node) || view->rank < 2 || (view->begins && !symbolic_equals(view->begins, 0)))
    return false;
  bool zero =
      scale && node->n_inputs > 2 && node->inputs[2] && number_class(node->inputs[0]->type) != NUMBER_FLOAT;
  if (zero && (!graph_scalar(node->inputs[2], &none) || none != 0)) return false;
  for (unsigned d = 0; d < view->rank; d++) /* 1 along what is contracted */
    access.at[d] = (ProgramIndex){symbolic_constant(arena, d == contracted), PROGRAM_NONE};
  bool all = find_indices(arena, widened, &access, index, &lacks);
  if (!all && (gathered || !same_order(widened, node->inputs[0]))) return false;
  for (unsigned d = 0; scale && d < scale->rank; d++) {
    unsigned of = widened->rank - scale->rank + d;
    bool varies = !symbolic_equals(scale->shape[d], 1);
    if (varies && (lacks >> of & 1 || (!weighed && symbolic_equals(index[of], 1)))) return false;
  }
  return true;
}

bool program_shows_widened_queries(Arena *arena, const GraphNode *node, const GraphNode *product)
{
  const GraphTensor *view = product->inputs[0];
  const Symbolic *index[GRAPH_MAX_RANK];
  ProgramAccess access = {.tensor = view};
  uint32_t lacks;
  bool whole = is_widening(node) && node->op->id == ONNX_Cast && view->rank >= 2 &&
               (!view->begins || symbolic_equals(view->begins, 0)) && !graph_is_transposed(product, 0);
  for (unsigned d = 0; whole && d < view->rank; d++) /* 1 along what is contracted */
    access.at[d] = (ProgramIndex){symbolic_constant(arena, d + 1 == view->rank), PROGRAM_NONE};
  return whole && (find_indices(arena, node->outputs[0], &access, index, &lacks) ||
                   same_order(node->outputs[0], node->inputs[0]));
}

ProgramAccess program_access_widened(Arena *arena, const GraphNode *node, const ProgramAccess *access)
{
  const GraphTensor *x = node->inputs[0];
  const Symbolic *index[GRAPH_MAX_RANK];
  uint32_t lacks;
  if (!find_indices(arena, node->outputs[0], access, index, &lacks)) {
    ProgramAccess before = *access;
    before.tensor = view_before(arena, access->tensor, x);
    return before;
  }
  ProgramAccess before = {.tensor = x};
  for (unsigned d = 0; d < x->rank; d++)
    before.at[d] = (ProgramIndex){index[d], PROGRAM_NONE};
  return before;
}

ProgramValue program_read_widened(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access)
{
  const GraphTensor *x = node->inputs[0];
  ProgramAccess before = program_access_widened(at->program->arena, node, access);
  const GraphNode *gather = program_pages_of(at, x);
  return gather && before.tensor == x ? program_read_page(at, gather, &before)
                                      : program_add_read(at, node, before);
}

ProgramValue program_widened_scale(ProgramBuilder *at, const GraphNode *node, const ProgramAccess *access,
                                   bool along)
{
  const GraphTensor *scale = scale_of(node), *widened = node->outputs[0];
  const ProgramValue none = {.kind = VALUE_ABSENT};
  const Symbolic *index[GRAPH_MAX_RANK];
  uint32_t lacks, axes = 0;
  double value;
  if (!scale) return none;
  if (graph_scalar(scale, &value)) return along ? none : program_immediate(value, scale->type);
  find_indices(at->program->arena, widened, access, index, &lacks);
  ProgramAccess of_scale = {.tensor = scale};
  for (unsigned d = 0; d < scale->rank; d++) {
    bool still = symbolic_equals(scale->shape[d], 1);
    const Symbolic *of =
        still ? symbolic_constant(at->program->arena, 0) : index[widened->rank - scale->rank + d];
    of_scale.at[d] = (ProgramIndex){of, PROGRAM_NONE};
    axes |= program_axes_in(at->program, of);
  }
  if ((axes >> at->k & 1) != along) return none;
  return program_add_read(at, node, of_scale); /* its own, also where keys have the same */
}
