/* Rows as their family sees them; for the family's own files, as gemm.h is. */
#pragma once
#include "generator/program/elementwise.h"

/* A reduction of rows: it ends its phase, the steps of later ones use its results. */
typedef struct FusedReduction {
  ProgramReduction reduction;
  const GraphNode *node; /* where it came from; NULL in a program that was read from text */
  FusedOperand source;
  FusedOperand place; /* of arg_max and arg_min: what tells where an element lies; else ABSENT */
  NumberType compute;
  unsigned first; /* its first result's OPERAND_REDUCED index */
  unsigned phase;
  bool of_groups; /* it leaves a value of each FusedRow.group columns, not of the row */
} FusedReduction;

typedef struct FusedRow {
  bool reduction;                 /* one phase, and then values of whole rows alone come out */
  const Symbolic *rows, *columns; /* how many there are of each; the last dim is the columns' */
  FusedReduction *reductions;
  unsigned n_reductions, n_phases;
  unsigned n_sums;         /* outputs that are sums of columns: a block takes rows one after the other */
  unsigned *step_phases;   /* in which a step is computed: as late as its users allow */
  unsigned *output_phases; /* in which an output is stored: as early as its value is there */
  uint32_t axes;           /* of the program, that are columns */
  int64_t group; /* columns that lie side by side and have values of their own, as scales have; 0: none do */
  uint32_t group_axes; /* of the program, along which such a value does not vary */
  const Elementwise
      *points;            /* what is read at indices, one value a row, and indices as values; NULL: nothing */
  const Symbolic *column; /* where an element lies in its row */
} FusedRow;

static inline const FusedRow *row_of(const FusedOperator *op)
{
  return op->binding;
}

/* The step's value is one a row. */
static inline bool row_step_is_per_row(const FusedOperator *op, const FusedStep *step)
{
  return !(op->program->varies[step->at] & row_of(op)->axes);
}

/* Is the place of an extreme one of its results? */
static inline bool row_finds_places(const FusedOperator *op)
{
  const FusedRow *row = row_of(op);
  bool places = false;
  for (unsigned i = 0; i < row->n_reductions; i++)
    places |= row->reductions[i].reduction == REDUCTION_ARG_MAX ||
              row->reductions[i].reduction == REDUCTION_ARG_MIN;
  return places;
}

/* The same, or one of each group of columns. */
static inline bool row_step_is_narrow(const FusedOperator *op, const FusedStep *step)
{
  const FusedRow *row = row_of(op);
  return !(op->program->varies[step->at] & (row->group ? row->group_axes : row->axes));
}
