/* Keys in order as their family sees them; for the family's own files, as gemm.h is. */
#pragma once
#include "generator/program/family.h"

typedef enum { ORDER_PLACES, ORDER_ENDS, ORDER_SOURCES, ORDER_TALLIES, ORDER_RESULTS } OrderResult;

typedef struct FusedOrder {
  bool tallies;    /* keys of each part are counted, and that is all */
  bool known;      /* that has been done */
  bool magnitudes; /* keys are bits of floats' magnitudes, from `shift` on, less what an input says */
  bool based;      /* there is such an input */
  bool above;      /* larger ones count as the last */
  bool taken;      /* those above 0, and some at 0, have places */
  int64_t shift;
  const Symbolic *tokens, *each; /* keys [tokens, each] */
  const Symbolic *strides[2];    /* of these */
  const Symbolic *elements;      /* tokens times each */
  const Symbolic *parts;         /* of so many elements as `part` says; 1: of all */
  const Symbolic *rows;          /* that elements are put in */
  int64_t bins, align, part;
  int output[ORDER_RESULTS]; /* PROGRAM_NONE: it is not wanted */
} FusedOrder;

static inline const FusedOrder *order_of(const FusedOperator *op)
{
  return op->binding;
}
