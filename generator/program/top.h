/* Rows in order as their family sees them; for the family's own files, as gemm.h is. */
#pragma once
#include "generator/program/family.h"

typedef struct FusedTop {
  bool largest;                   /* from the largest element on */
  int64_t count;                  /* elements that are stored of a row */
  const Symbolic *rows, *columns; /* dims[0], dims[1]: rows are along the columns */
  FusedOperand source;            /* an INPUT */
} FusedTop;

static inline const FusedTop *top_of(const FusedOperator *op)
{
  return op->binding;
}

/* Type of an element. */
static inline NumberType top_element(const FusedOperator *op)
{
  NumberType type = op->inputs[top_of(op)->source.index].tensor->type;
  return type == NUMBER_TF32 ? NUMBER_F32 : type;
}
