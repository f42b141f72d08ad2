/* Rows as their family sees them; for the family's own files, as gemm.h is. */
#pragma once
#include "generator/program/family.h"

typedef enum {
  ROW_SOFTMAX,
  ROW_LOG_SOFTMAX,
  ROW_LAYER_NORM, /* (x - mean) / sqrt(variance + epsilon); scale and bias are epilogue steps */
  ROW_RMS_NORM,   /* x / sqrt(mean(x^2) + epsilon); scale is an epilogue step */
  ROW_REDUCE_SUM,
  ROW_REDUCE_MEAN,
  ROW_REDUCE_MAX,
  ROW_REDUCE_MIN,
} RowKind;

typedef struct FusedRow {
  RowKind kind;
  bool reduction;                 /* one value a row comes out */
  double epsilon;                 /* normalisations */
  const Symbolic *rows, *columns; /* dims[0], dims[1] */
  FusedOperand source;            /* what the anchor reads: INPUT or a prologue STEP */
  NumberType compute;             /* type of the arithmetic */
} FusedRow;

static inline const FusedRow *row_of(const FusedOperator *op)
{
  return op->binding;
}
