/* Parts of rows as their family sees them; for the family's own files, as gemm.h is. */
#pragma once
#include "generator/program/family.h"

typedef struct FusedParts {
  ProgramReduction reduction;     /* SUM, MAX or MIN */
  const Symbolic *rows, *columns; /* dims[0], dims[1] */
  const Symbolic *width;          /* columns that are one part; the row's last may have fewer */
  FusedOperand source;            /* an element: INPUT or STEP */
  NumberType compute;             /* type of the arithmetic */
} FusedParts;

static inline const FusedParts *parts_of(const FusedOperator *op)
{
  return op->binding;
}
