/* Gradients of attention as their family sees them; for the family's own files, as attention.h is.
 *
 * Scores are computed again of queries and keys, weights of these and the log-sum-exp of each row. Dims are [batch, head of keys, which of
 * the heads of queries that share it, row, key, column of queries and keys, column of values, part]. Parts of what sums are along, of rows,
 * of the heads that share keys, or of keys, have sums of their own. */
#pragma once
#include "generator/program/attention.h"

enum {
  GRAD_BATCH,
  GRAD_HEAD,
  GRAD_GROUP,
  GRAD_ROW,
  GRAD_KEY,
  GRAD_DEPTH,
  GRAD_WIDTH,
  GRAD_PART,
  GRAD_DIMS,
};

/* Anchors: the product of queries and keys, which steps over scores take; weights times what their gradient is above its mean, which steps
 * behind a cap take; and the results. */
enum { GRAD_PRODUCT, GRAD_OF_SCORES, GRAD_OF_DEPTH, GRAD_OF_WIDTH };

/* Parts of rows are multiples of this: they begin with tiles, and with blocks of what changes with products. */
#define GRAD_ROWS_OF_PART 128

typedef struct FusedAttentionGrad {
  bool of_rows;                  /* of queries, else of keys or values */
  bool gives_depth, gives_width; /* it gives sums of columns of queries and keys; of values */
  bool of_changes;               /* what changes with products is read, not computed: there are no scores */
  NumberType type;               /* of operands */
  unsigned queries, key_matrix, values, grad, sums, delta, changes; /* of inputs[]; G_MAXUINT: not read */
  unsigned
      gives_changes; /* of outputs[]: what changes with products, keys by rows; G_MAXUINT: it stays in registers */
  const Symbolic *batches, *heads, *group, *rows, *keys, *depth, *width; /* of all parts */
  unsigned parts, divided; /* 1: none; the dim that parts are of, GRAD_GROUP, GRAD_ROW or GRAD_KEY */
  FusedOperand score;      /* GRAD_PRODUCT or a STEP: scores but for the scale */
  FusedOperand slope;      /* GRAD_OF_SCORES or a STEP: what changes with products */
  double scale;            /* multiplies scores */
  double factor;           /* multiplies the sums of GRAD_OF_DEPTH */
  bool causal;             /* key <= row + diagonal is seen, no other */
  const Symbolic *diagonal;
  AttentionBound bounds[ATTENTION_MOST_BOUNDS]; /* all others, none of them loaded */
  unsigned n_bounds;
} FusedAttentionGrad;

static inline const FusedAttentionGrad *attention_grad_of(const FusedOperator *op)
{
  return op->binding;
}

static inline const Symbolic *attention_grad_lowest(const FusedAttentionGrad *grad)
{
  return attention_bounds_lowest(grad->bounds, grad->n_bounds);
}
