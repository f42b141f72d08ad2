/* Matrix products as their family sees them. For the family's own files: its matcher, what chooses among its templates,
 * what writes its kernels. All others ask the operator, its program, or its family (family.h). */
#pragma once
#include "generator/program/family.h"

/* What is subtracted of narrow weights. */
typedef enum {
  GEMM_NO_ZERO,
  GEMM_ZERO_TENSOR,
  GEMM_ZERO_NUMBER,
} GemmZero;

/* Which rows, or which part of k, are whose, as an input tells: as GraphGroups (generator/front/groups.h). */
typedef enum {
  GEMM_WHOLE, /* all rows are of one product */
  GEMM_ENDS,
  GEMM_INDEX,
  GEMM_COUNTS,
  GEMM_DEPTHS, /* each has a part of k, and a result */
} GemmGroups;

typedef struct GemmWeights {
  NumberType type;
  bool left; /* they are the left operand, of a transposed operator */
  int64_t depth;
  unsigned scale, zero;                 /* inputs[]; what there is none of is the activations' */
  const Symbolic *scale_row, *zero_row; /* strides along the weights' rows or columns that are not k, */
  const Symbolic *scale_k, *zero_k;     /* and from block to block along k */
  GemmZero has_zero;
  int64_t number;
} GemmWeights;

/* Elements along k of a block, where there is one for all: scales of columns that multiply sums before another product's are added.
 * More of k is several blocks, which read the same scales: their stride along k is 0. */
#define GEMM_WHOLE_DEPTH (1 << 30)

#define GEMM_MOST_PRODUCTS 4 /* as gates of a recurrent cell */

/* A second product whose sums the accumulator begins with: (a b) factor, along an axis of its own that is contracted; rows, columns and batches
 * are the same. Its operands lie as the other's do, beside narrow weights anyhow. */
typedef struct GemmLead {
  unsigned a, b; /* inputs[] */
  const Symbolic *k;
  const Symbolic *a_batch[FUSED_MAX_RANK], *b_batch[FUSED_MAX_RANK];
  const Symbolic *a_m, *a_k, *b_k, *b_n;
  double factor;
} GemmLead;

typedef struct FusedGemm {
  const Symbolic *m, *n, *k;
  unsigned n_batch;  /* leading iteration dims */
  unsigned a, b;     /* inputs[] of A and B */
  unsigned products; /* with the same A: ANCHOR operands of index 0, 1, ... */
  unsigned
      more[GEMM_MOST_PRODUCTS - 1]; /* inputs[] of their other operands, which lie as B does (in a transposed
                                            operator as A) */
  const Symbolic *a_batch[FUSED_MAX_RANK], *b_batch[FUSED_MAX_RANK];
  const Symbolic *a_m, *a_k, *b_k, *b_n; /* strides in elements; of each pair one is the constant 1 */
  const Symbolic *summed, *a_summed,
      *b_summed;  /* batches over which it is summed, and how far apart they lie; NULL: none */
  bool a_m_major; /* a_m is 1 (and a_k is the leading dimension) */
  bool b_n_major; /* b_n is 1 (and b_k is the leading dimension) */
  NumberType a_type, b_type, acc_type; /* acc: f32, f64 or s32 */
  /* Operands are scaled by blocks: inputs[] of the scales, whose strides along the result's dims stand there, and those
   * along k; elements along k, and rows of A or columns of B, that share one. */
  bool scaled;
  unsigned a_scale, b_scale;
  const Symbolic *a_scale_k, *b_scale_k;
  int64_t a_depth, b_depth, b_width;
  /* The right operand (in a transposed operator the left one) is of 8 bits or 4: a_type and b_type are the other's, to which it is
   * widened. `depth`: elements along k that share a scale and zero point; 0: the whole of k does, and the scale is a step. */
  bool narrow;
  GemmWeights weights;
  const GemmLead *lead; /* NULL: there is none */
  GemmGroups
      groups;     /* not GEMM_WHOLE: the one batch dim is of groups, m (of DEPTHS k) the most that one has */
  unsigned sizes; /* groups: inputs[] of what tells rows; of GEMM_INDEX along m, else along the batch */
  int64_t align;  /* groups: each begins at a multiple of so many rows, or elements along k */
} FusedGemm;

static inline const FusedGemm *gemm_of(const FusedOperator *op)
{
  return op->binding;
}

/* Bytes of what is left of a group along k that are multiplied at once: what a product of matrices takes of each row. */
#define GEMM_TAIL 32

/* Elements of a leading product's k that are multiplied at once where it does not share the other's slots, beside narrow weights:
 * as many as a kernel has, so far as they are few. 0: it has no steps of its own. */
int64_t gemm_lead_step(const FusedGemm *gemm);

/* Blocks of as many elements with scales of their own are no such columns. */
static inline bool gemm_scales_columns(const GemmWeights *weights)
{
  return weights->depth == GEMM_WHOLE_DEPTH && symbolic_equals(weights->scale_k, 0);
}

/* Groups of rows, of which tiles are cut where they end. */
static inline bool gemm_groups_rows(const FusedGemm *gemm)
{
  return gemm->groups != GEMM_WHOLE && gemm->groups != GEMM_DEPTHS;
}

/* One product of several with the same A. */
static inline bool gemm_has_several(const FusedGemm *gemm)
{
  return gemm->products > 1;
}

/* Is it the right operand of one of them? */
static inline bool gemm_is_more(const FusedGemm *gemm, unsigned input)
{
  for (unsigned i = 1; i < gemm->products; i++)
    if (gemm->more[i - 1] == input) return true;
  return false;
}

/* Is the input an operand of a product? */
static inline bool gemm_reads(const FusedGemm *gemm, unsigned input)
{
  const GemmLead *lead = gemm->lead;
  return input == gemm->a || input == gemm->b || gemm_is_more(gemm, input) ||
         (lead && (input == lead->a || input == lead->b));
}

/* Do narrow weights have scales of blocks, of a type that registers hold, and no tensor of zero points? */
static inline bool gemm_scales_plain(const FusedOperator *op)
{
  const GemmWeights *weights = &gemm_of(op)->weights;
  return gemm_of(op)->narrow && weights->depth && weights->has_zero != GEMM_ZERO_TENSOR &&
         op->inputs[weights->scale].tensor->type != NUMBER_E8M0;
}

/* What an operand's elements are in memory. */
static inline NumberType gemm_stored(const FusedGemm *gemm, bool of_b)
{
  if (gemm->narrow && gemm->weights.left != of_b) return gemm->weights.type;
  return of_b ? gemm->b_type : gemm->a_type;
}

/* The operator with another binding, which lives in `arena` as the new operator does. *gemm may be changed. */
FusedOperator *gemm_copy(Arena *arena, const FusedOperator *op, FusedGemm **gemm);
/* A product as its transpose: rows and columns change places in dims and strides, and A and B their roles: D = A B and
 * D^T = B^T A^T are the same numbers. Lives in `arena` and shares what it points to with `op`, which must outlive it. */
const FusedOperator *gemm_transposed(Arena *arena, const FusedOperator *op);
