/* Scans as their family sees them; for the family's own files, as gemm.h is. */
#pragma once
#include "generator/program/family.h"

typedef struct FusedScan {
  bool exclusive, reverse;
  const Symbolic *rows, *columns; /* dims[0], dims[1]: it runs along the columns */
  FusedOperand source;            /* an element: INPUT or a STEP in front */
  NumberType compute;             /* type of the arithmetic */
} FusedScan;

static inline const FusedScan *scan_of(const FusedOperator *op)
{
  return op->binding;
}
