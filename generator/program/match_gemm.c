/* Matrix products: one contraction along one axis, or up to four of the same left operand, or two whose results are added. Free axes that only the
 * left operand has are rows, those that only the right one has columns, the others batches. */
#include "generator/program/bind.h"
#include "generator/program/division.h"
#include "generator/program/gemm.h"
#include "generator/program/match_groups.h"
#include <string.h>

#define WHOLE_VECTORS 16 /* elements: at least 16 bytes, whatever the type */
#define SCALED_STEP   32 /* elements: products of 8 bits take so many of k at once */

typedef struct {
  Binding *binding;
  FusedGemm *gemm;
  const Program *program;
  const ProgramNode *dot;
  unsigned a, b;           /* nodes that read the operands */
  ProgramScaled scaled[2]; /* where these are scaled by blocks */
  bool is_scaled;
  ProgramNarrow narrow; /* the right operand, where it is of fewer bits than the left one */
  bool is_narrow;
  bool summed; /* one contraction alone, of operands as they are, may be summed over batches too */
  int batch;   /* the axis of these */
  int m, n, k; /* axes; PROGRAM_NONE: there is none */
  const ProgramNode *lead; /* the contraction that the sum begins with; NULL: there is none */
  int sum, scaling; /* the nodes that add it, and that multiply it by a number, PROGRAM_NONE: none does */
  int columns; /* the node that multiplies the other one's sums, of narrow weights, by scales of columns */
  ProgramGroups groups;
} Product;

/* ---- one read an operand ---- */

/* Of a contraction whose right operand is a read that a contraction before it has, or its own left operand: that
 * read. Else PROGRAM_NONE. `taken`: by node, reads that contractions so far have. */
static int read_again(const Program *program, const ProgramNode *node, bool *taken)
{
  const ProgramValue *operands = node->operands;
  bool dot = node->kind == NODE_REDUCE && node->reduction == REDUCTION_DOT &&
             operands[0].kind == VALUE_NODE && operands[1].kind == VALUE_NODE;
  if (!dot) return PROGRAM_NONE;
  unsigned left = operands[0].node, right = operands[1].node;
  bool again = program->nodes[right].kind == NODE_READ && (taken[right] || right == left);
  taken[left] = taken[right] = true;
  return again ? (int)right : PROGRAM_NONE;
}

/* Such operands are read once more: kernels have a tensor for each, which may be one in memory. */
static const Program *reads_apart(const Program *program)
{
  unsigned more = 0;
  g_autofree bool *taken = g_new0(bool, program->n_nodes + 1);
  for (unsigned i = 0; i < program->n_nodes; i++)
    more += read_again(program, &program->nodes[i], taken) != PROGRAM_NONE;
  if (!more) return program;
  g_autofree unsigned *place = g_new0(unsigned, program->n_nodes + 1);
  Program *apart = arena_memdup(program->arena, program, sizeof *program);
  apart->nodes = arena_new_array(program->arena, ProgramNode, program->n_nodes + more);
  apart->n_nodes = 0;
  memset(taken, 0, program->n_nodes * sizeof *taken);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    int right = read_again(program, &program->nodes[i], taken);
    if (right != PROGRAM_NONE)
      apart->nodes[apart->n_nodes++] = program_moved(program, &program->nodes[right], place, program->arena);
    place[i] = apart->n_nodes++;
    apart->nodes[place[i]] = program_moved(program, &program->nodes[i], place, program->arena);
    if (right != PROGRAM_NONE) apart->nodes[place[i]].operands[1].node = place[i] - 1;
  }
  for (unsigned i = 0; i < apart->n_axes; i++)
    if (apart->axes[i].length != PROGRAM_NONE) apart->axes[i].length = (int)place[apart->axes[i].length];
  program_settle(apart);
  return apart;
}

/* ---- which ---- */

static bool is_read(const Program *program, const ProgramValue *value)
{
  return value->kind == VALUE_NODE && program->nodes[value->node].kind == NODE_READ;
}

/* Of an operand the node that reads it. */
static unsigned operand_of(const Product *at, const ProgramNode *dot, unsigned operand)
{
  if (at->is_narrow && operand == 1) return at->narrow.x;
  return at->is_scaled ? at->scaled[operand].x : dot->operands[operand].node;
}

static const char *refuse_contraction(const Product *at, const ProgramNode *dot)
{
  const Program *program = at->program;
  if (dot->reduction != REDUCTION_DOT) return "its reduction is no contraction";
  if (__builtin_popcount(dot->axes) > (at->summed ? 2 : 1)) return "it contracts along several axes";
  for (unsigned i = 0; i < dot->n_operands; i++) {
    bool computed = at->is_scaled || (at->is_narrow && i == 1);
    if (!computed && !is_read(program, &dot->operands[i])) return "an operand is computed";
    unsigned operand = operand_of(at, dot, i);
    if ((program->varies[operand] & dot->axes) != dot->axes)
      return "an operand does not vary along the contracted axis";
    if (!bind_is_matrix(program, operand)) return "an operand's index is a sum of axes";
  }
  return NULL;
}

static bool same_place(const Program *program, unsigned x, unsigned y)
{
  const ProgramAccess *a = &program->nodes[x].access, *b = &program->nodes[y].access;
  const GraphTensor *s = a->tensor, *t = b->tensor;
  bool same = s->type == t->type && s->rank == t->rank;
  for (unsigned d = 0; same && d < s->rank; d++)
    same = symbolic_same(a->at[d].of_axes, b->at[d].of_axes) && symbolic_same(s->strides[d], t->strides[d]) &&
           symbolic_same(s->shape[d], t->shape[d]);
  return same;
}

/* The blocks of an operand's scales: `depth` along the contracted axis, `width` along the operand's own, `own`. */
static const char *read_blocks(const Program *program, const ProgramNode *dot, unsigned scale, int own,
                               int64_t *depth, int64_t *width)
{
  const ProgramAccess *access = &program->nodes[scale].access;
  uint32_t seen = 0;
  *width = 1;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    const Symbolic *index = access->at[d].of_axes;
    uint32_t axes = program_axes_in(program, index);
    int64_t size = 1;
    if (seen & axes) return "a scale's index repeats an axis";
    seen |= axes;
    if (program_is_quotient(index)) symbolic_is_constant(index->b, &size);
    if (axes == dot->axes)
      *depth = size;
    else if (own != PROGRAM_NONE && axes == 1u << own)
      *width = size;
    else if (size != 1)
      return "blocks of scales reach over batches";
  }
  if (!(seen & dot->axes)) return "an operand's scale does not vary along the contracted axis";
  if (*depth % SCALED_STEP) return "blocks of scales are no multiples of 32 along the contracted axis";
  return NULL;
}

/* Both operands are scaled by blocks: rows of A have scales of their own. */
static const char *refuse_scales(Product *at)
{
  const Program *program = at->program;
  FusedGemm *gemm = at->gemm;
  int64_t rows;
  const char *why = read_blocks(program, at->dot, at->scaled[0].scale, at->m, &gemm->a_depth, &rows);
  if (!why) why = read_blocks(program, at->dot, at->scaled[1].scale, at->n, &gemm->b_depth, &gemm->b_width);
  if (!why && rows != 1) why = "rows of the left operand share a scale";
  if (!why && gemm->b_width != 1 && gemm->b_width % SCALED_STEP)
    why = "blocks of scales are no multiples of 32 of the right operand's columns";
  for (unsigned i = 0; !why && i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_WRITE && program->nodes[i].combines)
      why = "results of operands that are scaled by blocks are reduced";
  return why;
}

/* Elements that share bytes lie along the contracted axis, and each row of them begins with a byte. */
static const char *refuse_packed(const Product *at)
{
  const Program *program = at->program;
  const ProgramAccess *access = &program->nodes[at->narrow.x].access;
  if (!number_is_packed(program->nodes[at->narrow.x].type)) return NULL;
  for (unsigned i = 0; i < program->n_axes; i++) {
    if (!(program->varies[at->narrow.x] >> i & 1)) continue;
    const Symbolic *stride = program_stride(program, access, i);
    if ((int)i == at->k && !symbolic_equals(stride, 1))
      return "weights that share bytes do not lie along the contracted axis";
    if ((int)i != at->k && !symbolic_divisible(stride, 2, program->facts))
      return "rows of weights that share bytes do not begin with a whole one";
  }
  return NULL;
}

/* Scales and zero points of narrow weights: of blocks of the contracted axis, or, zero points alone, of all of it. */
static const char *refuse_narrow(Product *at)
{
  const Program *program = at->program;
  GemmWeights *weights = &at->gemm->weights;
  const ProgramNarrow *narrow = &at->narrow;
  bool zero = narrow->difference != PROGRAM_NONE && narrow->zero.kind == VALUE_NODE;
  int64_t width = 1, depth = 0;
  const char *why = NULL;
  if (at->columns != PROGRAM_NONE)
    depth = weights->depth = GEMM_WHOLE_DEPTH;
  else if (narrow->scale != PROGRAM_NONE)
    why = read_blocks(program, at->dot, (unsigned)narrow->scale, at->n, &weights->depth, &width);
  if (why) return why;
  bool along = zero && program->varies[narrow->zero.node] & at->dot->axes;
  if (along) why = read_blocks(program, at->dot, narrow->zero.node, at->n, &depth, &width);
  if (!why && zero && depth != weights->depth) why = "scales and zero points have blocks of their own";
  if (!why && width != 1) why = "columns of the right operand share a scale";
  if (!why) why = refuse_packed(at);
  for (unsigned i = 0; !why && i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_WRITE && program->nodes[i].combines) why = "its results are reduced";
  return why ? why : at->m == PROGRAM_NONE || at->n == PROGRAM_NONE ? "it has one row, or one column" : NULL;
}

/* Further products have the same left operand, and right ones that lie as the first's. */
static const char *refuse_second(const Product *at, const ProgramNode *second)
{
  const Program *program = at->program;
  const ProgramNode *first = at->dot;
  const char *why = refuse_contraction(at, second);
  if (why) return why;
  bool same = second->axes == first->axes && second->compute == first->compute &&
              second->operands[0].node == first->operands[0].node;
  if (!same) return "it has contractions of different left operands";
  if (!same_place(program, first->operands[1].node, second->operands[1].node))
    return "the right operands of its contractions lie differently";
  return NULL;
}

/* Reads that divide their index are scales of the operands. */
static const char *refuse_quotients(const Product *at)
{
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool scale = at->is_scaled && (i == at->scaled[0].scale || i == at->scaled[1].scale);
    if (node->kind != NODE_READ || scale || (at->is_narrow && program_narrow_reads(&at->narrow, i))) continue;
    for (unsigned d = 0; d < node->access.tensor->rank; d++)
      if (program_is_quotient(node->access.at[d].of_axes)) return "indices are no sums of axes";
  }
  return NULL;
}

/* What the epilogue can reduce: so many neighbouring columns of each row, or so many rows of each column. */
static bool are_parts(const Product *at, const ProgramNode *write)
{
  const Program *program = at->program;
  int64_t size = 0;
  int along = PROGRAM_NONE;
  for (unsigned d = 0; d < write->access.tensor->rank; d++) {
    const Symbolic *index = write->access.at[d].of_axes;
    if (!program_is_quotient(index)) continue;
    unsigned axes = program_axes_in(program, index);
    if (along != PROGRAM_NONE || !axes) return false;
    along = __builtin_ctz(axes);
    symbolic_is_constant(index->b, &size);
  }
  if (along == PROGRAM_NONE || along == at->k) return false;
  return (along == at->n && size == REDUCED_COLUMNS) || (along == at->m && size == REDUCED_ROWS);
}

static const char *refuse_parts(const Product *at)
{
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_WRITE && program->nodes[i].combines &&
        !are_parts(at, &program->nodes[i]))
      return "parts of its results are not of as many columns, or rows, as an epilogue reduces";
  return NULL;
}

/* ---- two whose results are added ---- */

/* The contraction that a value is, or that it is times a number: `scaling` is then the node that multiplies. */
static const ProgramNode *contraction_of(const Program *program, const ProgramValue *value, int *scaling)
{
  *scaling = PROGRAM_NONE;
  if (value->kind != VALUE_NODE) return NULL;
  const ProgramNode *node = &program->nodes[value->node];
  if (node->kind == NODE_MAP && node->op == ONNX_Mul && node->operands[0].kind == VALUE_NODE &&
      node->operands[1].kind == VALUE_IMMEDIATE) {
    *scaling = (int)value->node;
    node = &program->nodes[node->operands[0].node];
  }
  return node->kind == NODE_REDUCE && node->reduction == REDUCTION_DOT ? node : NULL;
}

/* Of narrow weights the contraction whose sums, that the value is, scales of columns multiply: *columns is the node that does. */
static const ProgramNode *columns_of(const Program *program, const ProgramValue *value, int *columns)
{
  *columns = PROGRAM_NONE;
  const ProgramNode *node = value->kind == VALUE_NODE ? &program->nodes[value->node] : NULL;
  if (!node || node->kind != NODE_MAP || node->op != ONNX_Mul || node->compute != NUMBER_F32 ||
      node->operands[0].kind != VALUE_NODE || !is_read(program, &node->operands[1]))
    return NULL;
  ProgramNarrow narrow;
  const ProgramNode *dot = &program->nodes[node->operands[0].node];
  bool narrows = dot->kind == NODE_REDUCE && dot->reduction == REDUCTION_DOT &&
                 program_narrow_operand(program, dot, 1, &narrow) && narrow.scale == PROGRAM_NONE;
  if (!narrows) return NULL;
  *columns = (int)value->node;
  return dot;
}

/* Is it the sum of two contractions of unlike left operands? The one that a number multiplies leads, else the second, but none of narrow weights. */
static bool find_sum(Product *at)
{
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i], *dots[2];
    int scaling[2], columns[2] = {PROGRAM_NONE, PROGRAM_NONE};
    if (node->kind != NODE_MAP || node->op != ONNX_Add) continue;
    for (unsigned j = 0; j < 2; j++) {
      dots[j] = contraction_of(program, &node->operands[j], &scaling[j]);
      if (!dots[j]) dots[j] = columns_of(program, &node->operands[j], &columns[j]);
    }
    if (!dots[0] || !dots[1] || dots[0] == dots[1] || dots[0]->axes == dots[1]->axes) continue;
    ProgramNarrow narrow;
    bool last = program_narrow_operand(program, dots[1], 1, &narrow);
    unsigned leading = scaling[1] == PROGRAM_NONE && (last || scaling[0] != PROGRAM_NONE) ? 0 : 1;
    if (scaling[1 - leading] != PROGRAM_NONE || columns[leading] != PROGRAM_NONE) return false;
    at->lead = dots[leading];
    at->dot = dots[1 - leading];
    at->sum = (int)i;
    at->scaling = scaling[leading];
    at->columns = columns[1 - leading];
    return true;
  }
  return false;
}

/* Of the leading contraction an operand: it lies as the other's does, whose ring it shares, but beside narrow weights. */
static const char *refuse_leading(const Product *at, unsigned operand)
{
  const Program *program = at->program;
  unsigned own = operand_of(at, at->dot, operand), leads = at->lead->operands[operand].node;
  int along = operand ? at->n : at->m, k = __builtin_ctz(at->lead->axes);
  if (symbolic_equals(program->axes[at->k].extent, 1) || symbolic_equals(program->axes[k].extent, 1))
    return "one of its two contractions has one element";
  NumberType wanted = program->nodes[at->is_narrow ? at->dot->operands[0].node : own].type;
  if (program->nodes[leads].type != wanted) return "its two contractions have other types";
  if (along == PROGRAM_NONE || !(program->varies[leads] >> along & 1))
    return "its two contractions have other rows or columns";
  if ((program->varies[leads] & ~at->lead->axes) & ~(program->varies[own] & ~at->dot->axes))
    return "its two contractions have other batches";
  const ProgramAccess *first = &program->nodes[own].access, *second = &program->nodes[leads].access;
  const Symbolic *deep = program_stride(program, first, (unsigned)at->k),
                 *lead_deep = program_stride(program, second, (unsigned)k);
  bool along_k = symbolic_equals(at->is_narrow ? lead_deep : deep, 1);
  /* one row, or one column: elements may be side by side in both dimensions */
  bool alike = symbolic_equals(program_stride(program, first, (unsigned)along), 1) ==
               symbolic_equals(program_stride(program, second, (unsigned)along), 1);
  if (along_k != symbolic_equals(lead_deep, 1) || (!at->is_narrow && !alike))
    return "the operands of its two contractions lie differently";
  const Symbolic *beside = along_k ? lead_deep : program_stride(program, second, (unsigned)along);
  return symbolic_equals(beside, 1) ? NULL : "elements of an operand lie side by side in no dimension";
}

/* Two contractions whose results are added, in one accumulator. */
static const char *refuse_sum(Product *at)
{
  const Program *program = at->program;
  const char *why = refuse_contraction(at, at->lead);
  at->is_narrow = program_narrow_operand(program, at->dot, 1, &at->narrow);
  if (!why) why = refuse_contraction(at, at->dot);
  if (why) return why;
  if (at->dot->compute != NUMBER_F32 || at->lead->compute != NUMBER_F32 ||
      number_is_small_float(program->nodes[at->dot->operands[0].node].type))
    return "sums of two contractions are of floats of 16 and 32 bits";
  at->k = __builtin_ctz(at->dot->axes);
  unsigned a = operand_of(at, at->dot, 0), b = operand_of(at, at->dot, 1);
  at->m = bind_own_axis(program, a, b, at->dot->axes);
  at->n = bind_own_axis(program, b, a, at->dot->axes);
  if (at->columns != PROGRAM_NONE) {
    at->narrow.product = at->columns;
    at->narrow.scale = (int)program->nodes[at->columns].operands[1].node;
    if (program->varies[at->narrow.scale] & ~(1u << at->n)) return "scales of weights are not of columns";
  }
  why = refuse_leading(at, 0);
  return why ? why : refuse_leading(at, 1);
}

/* What widens narrow weights is the template's. */
static void widen_inside(const Product *at)
{
  if (at->is_narrow && at->narrow.difference != PROGRAM_NONE)
    at->binding->inside[at->narrow.difference] = true;
  if (at->is_narrow && at->narrow.product != PROGRAM_NONE) at->binding->inside[at->narrow.product] = true;
}

/* The sum is what the epilogue gets. */
static bool take_sum(Product *at)
{
  Binding *binding = at->binding;
  binding->near = true;
  binding->why = refuse_sum(at);
  if (binding->why) return false;
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (&program->nodes[i] == at->dot || &program->nodes[i] == at->lead || (int)i == at->scaling)
      binding->inside[i] = true;
  bind_anchor(binding, (ProgramValue){VALUE_NODE, (unsigned)at->sum, 0, 0, at->dot->compute}, 0, 0,
              at->dot->compute);
  at->a = operand_of(at, at->dot, 0);
  at->b = operand_of(at, at->dot, 1);
  widen_inside(at);
  binding->why = refuse_quotients(at);
  if (!binding->why) binding->why = refuse_parts(at);
  if (!binding->why && at->is_narrow) binding->why = refuse_narrow(at);
  return !binding->why;
}

/* Of two contracted axes the one along which an operand's elements lie side by side is k. */
static void find_batch(Product *at)
{
  const Program *program = at->program;
  if (__builtin_popcount(at->dot->axes) == 1) return;
  int other = __builtin_ctz(at->dot->axes & (at->dot->axes - 1));
  bool along = symbolic_equals(program_stride(program, &program->nodes[at->a].access, (unsigned)at->k), 1) ||
               symbolic_equals(program_stride(program, &program->nodes[at->b].access, (unsigned)at->k), 1);
  at->batch = along ? other : at->k;
  at->k = along ? at->k : other;
}

static bool find_products(Product *at)
{
  Binding *binding = at->binding;
  const Program *program = at->program;
  int place;
  unsigned found = 0, n = bind_count(program, NODE_REDUCE, &place) - at->groups.reductions;
  if (!n || n > GEMM_MOST_PRODUCTS) {
    binding->why = n ? "there are several reductions" : "there is no contraction";
    return false;
  }
  if (n == 2 && find_sum(at)) return take_sum(at);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE || binding->inside[i]) continue;
    binding->near |= node->reduction == REDUCTION_DOT;
    at->is_scaled = node->reduction == REDUCTION_DOT &&
                    program_scaled_operand(program, node, 0, &at->scaled[0]) &&
                    program_scaled_operand(program, node, 1, &at->scaled[1]);
    at->is_narrow = node->reduction == REDUCTION_DOT && !at->is_scaled &&
                    program_narrow_operand(program, node, 1, &at->narrow);
    at->summed = n == 1 && !at->is_scaled && !at->is_narrow && !at->groups.kind;
    if ((at->is_scaled || at->is_narrow) && (found || n > 1))
      binding->why = "one of two contractions is of operands that are scaled by blocks";
    else
      binding->why = found ? refuse_second(at, node) : refuse_contraction(at, node);
    if (binding->why) return false;
    if (!found) at->dot = node;
    bind_anchor(binding, (ProgramValue){VALUE_NODE, i, 0, 0, node->compute}, found++, 0, node->compute);
  }
  at->a = at->is_scaled ? at->scaled[0].x : at->dot->operands[0].node;
  at->b = operand_of(at, at->dot, 1);
  at->k = __builtin_ctz(at->dot->axes);
  find_batch(at);
  at->m = bind_own_axis(program, at->a, at->b, at->dot->axes);
  at->n = bind_own_axis(program, at->b, at->a, at->dot->axes);
  if (at->batch != PROGRAM_NONE && (at->m == PROGRAM_NONE || at->n == PROGRAM_NONE)) {
    binding->why = "a product that is summed over batches has one row, or one column";
    return false;
  }
  for (unsigned i = 0; at->is_scaled && i < 2; i++)
    binding->inside[at->scaled[i].product] = true;
  widen_inside(at);
  binding->why = refuse_quotients(at);
  if (!binding->why) binding->why = refuse_parts(at);
  if (!binding->why && at->is_scaled) binding->why = refuse_scales(at);
  if (!binding->why && at->is_narrow) binding->why = refuse_narrow(at);
  return !binding->why;
}

/* But for its operands nothing varies along what is contracted. */
static bool ends_contraction(const Product *at)
{
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    bool operand = i == at->a || i == at->b;
    for (unsigned j = 0; at->lead && j < 2; j++)
      operand |= i == at->lead->operands[j].node;
    for (unsigned j = 0; at->is_scaled && j < 2; j++)
      operand |= i == at->scaled[j].product || i == at->scaled[j].scale;
    operand |= at->is_narrow && (program_narrow_reads(&at->narrow, i) || (int)i == at->narrow.difference ||
                                 (int)i == at->narrow.product);
    for (unsigned j = 0; j < program->n_nodes && !operand; j++)
      operand = program->nodes[j].kind == NODE_REDUCE && program->nodes[j].operands[1].node == i;
    uint32_t contracted = at->dot->axes | (at->lead ? at->lead->axes : 0);
    if (!operand && program->varies[i] & contracted) return false;
  }
  return true;
}

/* ---- strides ---- */

/* A single row has any leading dimension: its own where rows begin at whole vectors, as those of a padded
 * copy do, else the one of a dense matrix. */
static const Symbolic *leading_dimension(const Program *program, const Symbolic *own, const Symbolic *extent)
{
  bool usable = !symbolic_equals(own, 0) && symbolic_divisible(own, WHOLE_VECTORS, program->facts);
  return usable ? own : extent;
}

/* Of each pair one stride is the constant 1; an extent of 1 takes what is needed. */
static void settle_pair(const Program *program, const Symbolic **outer, const Symbolic **inner,
                        const Symbolic *outer_extent, const Symbolic *inner_extent, bool *outer_is_unit)
{
  bool unit = symbolic_equals(*inner, 1);
  if (!unit && symbolic_equals(inner_extent, 1) && !symbolic_equals(*outer, 1)) {
    *inner = symbolic_constant(program->arena, 1);
    unit = true;
  }
  *outer_is_unit = !unit;
  if (!unit && !symbolic_equals(*outer, 1))
    *outer = symbolic_constant(program->arena, 1); /* its extent is 1 */
  if (unit && symbolic_equals(outer_extent, 1)) *outer = leading_dimension(program, *outer, inner_extent);
  if (!unit && symbolic_equals(inner_extent, 1)) *inner = leading_dimension(program, *inner, outer_extent);
}

/* Elements lie side by side along one of the pair, or there is one. */
static bool lies_along_memory(const Symbolic *outer, const Symbolic *inner, const Symbolic *outer_extent,
                              const Symbolic *inner_extent)
{
  return symbolic_equals(outer, 1) || symbolic_equals(inner, 1) || symbolic_equals(outer_extent, 1) ||
         symbolic_equals(inner_extent, 1);
}

/* The last batch dim may become rows: B does not move along it, and A's rows keep a unit stride. */
static bool rows_take_batch(const Space *space, const FusedGemm *gemm, unsigned m)
{
  bool b_stays = symbolic_equals(space->strides[m - 1][gemm->b], 0);
  return b_stays && (!symbolic_equals(space->dims[m], 1) || symbolic_equals(gemm->a_k, 1));
}

/* Batches of a row at most each are so many rows, though nobody knows whether there is one: they step as the batches do. */
static bool is_row_at_most(const Program *program, const Space *space, const FusedGemm *gemm, unsigned m)
{
  int64_t least = 0, most = INT64_MAX;
  if (program->facts) symbolic_range(space->dims[m], program->facts, &least, &most);
  return least >= 0 && most <= 1 && symbolic_equals(space->strides[m - 1][gemm->b], 0) &&
         symbolic_equals(gemm->a_k, 1);
}

static bool settle(const Product *at, Space *space)
{
  const Program *program = at->program;
  Arena *arena = program->arena;
  FusedGemm *gemm = at->gemm;
  unsigned batches = space->rank - 2;
  gemm->a_m = space->strides[batches][gemm->a];
  gemm->b_n = space->strides[batches + 1][gemm->b];
  gemm->a_k = program_stride(program, &program->nodes[at->a].access, (unsigned)at->k);
  gemm->b_k = program_stride(program, &program->nodes[at->b].access, (unsigned)at->k);
  gemm->k = program->axes[at->k].extent;
  if (at->batch != PROGRAM_NONE) {
    gemm->summed = program->axes[at->batch].extent;
    gemm->a_summed = program_stride(program, &program->nodes[at->a].access, (unsigned)at->batch);
    gemm->b_summed = program_stride(program, &program->nodes[at->b].access, (unsigned)at->batch);
  }
  gemm->n_batch = at->groups.kind ? batches : space_merge(arena, space, 0, batches);
  /* Batches that B does not have are more rows, where everything walks on evenly. B has stride 0 along M. */
  unsigned m = gemm->n_batch;
  if (m && !at->groups.kind && is_row_at_most(program, space, gemm, m)) {
    space_absorb(arena, space, m - 1);
    gemm->n_batch--;
  } else if (m && !at->groups.kind && rows_take_batch(space, gemm, m) &&
             space_merge(arena, space, m - 1, m + 1) == 1) {
    gemm->n_batch--;
  }
  if (gemm->n_batch < m) gemm->a_m = space->strides[gemm->n_batch][gemm->a];
  gemm->m = space->dims[gemm->n_batch];
  gemm->n = space->dims[gemm->n_batch + 1];
  for (unsigned i = 0; i < gemm->n_batch; i++) {
    gemm->a_batch[i] = space->strides[i][gemm->a];
    gemm->b_batch[i] = space->strides[i][gemm->b];
  }
  if (!lies_along_memory(gemm->a_m, gemm->a_k, gemm->m, gemm->k) ||
      !lies_along_memory(gemm->b_k, gemm->b_n, gemm->k, gemm->n)) {
    at->binding->why = "elements of an operand lie side by side in no dimension";
    return false;
  }
  settle_pair(program, &gemm->a_m, &gemm->a_k, gemm->m, gemm->k, &gemm->a_m_major);
  bool k_is_unit;
  settle_pair(program, &gemm->b_k, &gemm->b_n, gemm->k, gemm->n, &k_is_unit);
  gemm->b_n_major = !k_is_unit;
  return true;
}

/* The leading contraction, behind settle(), which says what rows, columns and batches are. */
static bool settle_lead(const Product *at, const Space *space)
{
  if (!at->lead) return true;
  const Program *program = at->program;
  FusedGemm *gemm = at->gemm;
  GemmLead *lead = arena_new_object(program->arena, GemmLead);
  unsigned a = at->lead->operands[0].node, b = at->lead->operands[1].node,
           k = (unsigned)__builtin_ctz(at->lead->axes);
  lead->a = at->binding->places[a];
  lead->b = at->binding->places[b];
  lead->k = program->axes[k].extent;
  for (unsigned i = 0; i < gemm->n_batch; i++) {
    lead->a_batch[i] = space->strides[i][lead->a];
    lead->b_batch[i] = space->strides[i][lead->b];
  }
  lead->a_m = space->strides[gemm->n_batch][lead->a];
  lead->b_n = space->strides[gemm->n_batch + 1][lead->b];
  lead->a_k = program_stride(program, &program->nodes[a].access, k);
  lead->b_k = program_stride(program, &program->nodes[b].access, k);
  lead->factor = at->scaling == PROGRAM_NONE ? 1 : program->nodes[at->scaling].operands[1].immediate;
  gemm->lead = lead;
  /* batches that have become rows are those of both */
  bool rows = symbolic_equals(space->strides[gemm->n_batch][lead->b], 0);
  if (!rows) at->binding->why = "the right operands of its two contractions lie differently";
  return rows;
}

/* What there is none of is named after the activations, which nobody reads in its place. */
static void bind_weights(const Product *at)
{
  const Program *program = at->program;
  const ProgramNarrow *narrow = &at->narrow;
  FusedGemm *gemm = at->gemm;
  GemmWeights *weights = &gemm->weights;
  const Symbolic *none = symbolic_constant(program->arena, 0);
  gemm->narrow = true;
  weights->type = gemm->b_type;
  gemm->b_type = gemm->a_type;
  weights->scale = weights->zero = gemm->a;
  weights->scale_row = weights->scale_k = weights->zero_row = weights->zero_k = none;
  if (narrow->scale != PROGRAM_NONE) {
    weights->scale = at->binding->places[narrow->scale];
    weights->scale_row = bind_stride(program, (unsigned)narrow->scale, (unsigned)at->n);
    weights->scale_k = bind_stride(program, (unsigned)narrow->scale, (unsigned)at->k);
  }
  if (narrow->difference == PROGRAM_NONE) return;
  weights->has_zero = narrow->zero.kind == VALUE_NODE ? GEMM_ZERO_TENSOR : GEMM_ZERO_NUMBER;
  weights->number = narrow->zero.kind == VALUE_NODE ? 0 : (int64_t)narrow->zero.immediate;
  if (narrow->zero.kind != VALUE_NODE) return;
  weights->zero = at->binding->places[narrow->zero.node];
  weights->zero_row = bind_stride(program, narrow->zero.node, (unsigned)at->n);
  weights->zero_k = bind_stride(program, narrow->zero.node, (unsigned)at->k);
}

static void bind_operands(const Product *at)
{
  const Program *program = at->program;
  FusedGemm *gemm = at->gemm;
  gemm->products = 1;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE || node == at->dot || node == at->lead || node->reduction != REDUCTION_DOT)
      continue;
    gemm->more[gemm->products++ - 1] = at->binding->places[node->operands[1].node];
  }
  gemm->a = at->binding->places[at->a];
  gemm->b = at->binding->places[at->b];
  gemm->a_type = program->nodes[at->a].type;
  gemm->b_type = program->nodes[at->b].type;
  gemm->acc_type = at->dot->compute;
  if (at->is_narrow) bind_weights(at);
  if (!at->is_scaled) return;
  gemm->scaled = true;
  gemm->a_scale = at->binding->places[at->scaled[0].scale];
  gemm->b_scale = at->binding->places[at->scaled[1].scale];
  gemm->a_scale_k = bind_stride(program, at->scaled[0].scale, (unsigned)at->k);
  gemm->b_scale_k = bind_stride(program, at->scaled[1].scale, (unsigned)at->k);
}

/* Of groups along k one product of operands as they are, or scaled by blocks. */
static const char *refuse_depths(const Product *at)
{
  bool alone = !at->is_narrow && !at->lead && bind_count(at->program, NODE_REDUCE, &(int){0}) == 1;
  return at->groups.kind == GEMM_DEPTHS && !alone ? "several products, or narrow weights, of groups along k"
                                                  : NULL;
}

/* As many tiles as there may be: 16 x 16 of a result, of a vector each element. Rows and columns that are not known are one. */
static bool fits_grid(Binding *binding, const Space *space)
{
  Arena *arena = binding->program->arena;
  const Symbolic *m = space->dims[space->rank - 2], *n = space->dims[space->rank - 1];
  int64_t rows = 1, columns = 1;
  symbolic_is_constant(m, &rows);
  symbolic_is_constant(n, &columns);
  bool vector = MIN(rows, columns) <= 16;
  int64_t most = vector ? MAX(rows, columns) : (rows + 15) / 16 * ((columns + 15) / 16);
  const Symbolic *tiles = symbolic_constant(arena, most);
  for (unsigned d = 0; d + 2 < space->rank; d++)
    tiles = symbolic_mul(arena, tiles, space->dims[d]);
  return bind_fits(binding, tiles);
}

static bool bind(Binding *binding)
{
  const Program *program = binding->program;
  FusedGemm *gemm = arena_new_object(program->arena, FusedGemm);
  Product at = {.binding = binding,
                .gemm = gemm,
                .program = program,
                .batch = PROGRAM_NONE,
                .sum = PROGRAM_NONE,
                .scaling = PROGRAM_NONE,
                .columns = PROGRAM_NONE};
  int axes[PROGRAM_MAX_AXES + 2];
  unsigned n = 0;
  if (!bind_groups(binding, &at.groups) || !find_products(&at) || !bind_lists(binding)) return false;
  if (at.groups.kind == GEMM_ENDS && at.k == at.groups.rows) at.groups.kind = GEMM_DEPTHS;
  if (at.groups.kind && at.groups.kind != GEMM_DEPTHS && at.m != at.groups.rows) {
    binding->why = "rows of groups are not those of the left operand";
    return false;
  }
  if (at.groups.kind && !bind_groups_fit(binding, &at.groups)) return false;
  binding->why = refuse_depths(&at);
  if (binding->why) return false;
  if (!ends_contraction(&at)) {
    binding->why = "other values vary along the contracted axis";
    return false;
  }
  binding->fused->anchor = at.dot->source;
  binding->fused->binding = gemm;
  bind_operands(&at);
  for (int i = 0; i < (int)program->n_axes; i++)
    if (i != at.m && i != at.n && i != at.k && i != at.batch && !(at.lead && at.lead->axes >> i & 1) &&
        !(at.groups.kind && i == at.groups.walked))
      axes[n++] = i;
  axes[n++] = at.m;
  axes[n++] = at.n;
  Space space;
  if (!bind_space(binding, &space, axes, n)) return false;
  if (at.groups.kind && (n != 3 || axes[0] != at.groups.axis)) {
    binding->why = "a product of groups of rows has batches";
    return false;
  }
  if (!settle(&at, &space) || !settle_lead(&at, &space)) return false;
  if (gemm->summed && gemm->n_batch) {
    binding->why = "a product that is summed over batches has others";
    return false;
  }
  if (at.groups.kind) bind_groups_take(binding, &at.groups, &space, gemm);
  return fits_grid(binding, &space) && bind_take_space(binding, &space);
}

FamilyMatch match_gemm(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.combines = true, .blocks = true};
  fused->program = program = reads_apart(program);
  binding.groups = true;
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.why;
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}
