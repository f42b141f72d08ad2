/* Between row_program*.c only: the tile of rows that a kernel of a row program works on. */
#pragma once
#include "generator/fusion/steps_operations.h"
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"
#include "generator/program/row.h"

/* What a reduction computes of a row's elements on its way, for steps that ask for the same. */
typedef struct {
  IrExpr *below; /* x - its first result */
  IrExpr *power; /* e^below */
  bool part;     /* by row_power_of_part() */
} Kept;

typedef struct {
  int64_t rows, cols;             /* of a tile */
  IrExpr *at[FUSED_MAX_RANK + 1]; /* where the tile begins, by dim */
  IrExpr *columns, *number;       /* C, and as f32 */
  Kept *kept;                     /* by reduction */
  IrExpr *column;                 /* s32 tile [1, cols]: row_column() */
  const char *form;               /* how rows stay: the IR's `hold` */
  bool again;         /* distances from the mean, or exponentials, are computed in each phase, not kept */
  bool late;          /* elements at an index, and results of a row, come where they are used */
  bool passes;        /* they are read again in each phase, a chunk at a time */
  IrExpr **sums;      /* by output: of the block's rows so far; NULL: none */
  GHashTable *spread; /* IrValue of groups of columns -> IrExpr of elements */
} RowTile;

/* row_program_index.c. A tile of elements, or of one value a row. */
IrType row_tile_type(const StepScope *scope, NumberType element, bool per_row);
/* A tile of so many values a row. */
IrType row_tile_wide(const StepScope *scope, NumberType element, int64_t cols);
/* Groups of columns that have values of their own, in a tile. */
int64_t row_groups(const StepScope *scope);
/* b: NULL of one operand. */
IrExpr *row_tile(StepScope *scope, IrOpcode code, IrType type, const char *name, IrExpr *a, IrExpr *b);
/* Where elements lie in their row: s32 [1, cols]. */
IrExpr *row_column(StepScope *scope);
/* An index as a value: of elements [.., cols], or of rows. */
IrExpr *row_index_value(StepScope *scope, unsigned value);
/* An input of one value a row that is read at indices. */
IrExpr *row_load_indexed(StepScope *scope, unsigned input);

/* row_program_power.c. How good exponentials of the reduction's elements less their maximum have to be, which its sum is of. */
StepPrecision row_power_precision(const FusedOperator *op, const FusedReduction *reduction);
/* The step is such an exponential. */
bool row_is_power(const FusedOperator *op, const FusedReduction *reduction, const FusedStep *step);
/* The exponential of what is at most 0. */
IrExpr *row_power(StepScope *scope, StepPrecision precision, IrExpr *below);
/* The same, not of full precision, for shares of sums of such alone, in fewer operations. */
IrExpr *row_power_of_part(StepScope *scope, IrExpr *below);
/* Their sum, NaN where the maximum is no number. */
IrExpr *row_sum_of_parts(StepScope *scope, IrExpr *sum, IrExpr *maximum);
/* Such a power's share of that. */
IrExpr *row_share_of_part(StepScope *scope, IrExpr *power, IrExpr *sum);
/* A share of a sum of such, less 0 or 1, times a number of the row; NULL: the step is no such product. */
IrExpr *row_gradient_of_part(StepScope *scope, const FusedReduction *reduction, const FusedStep *step,
                             IrExpr *power);

/* row_program_order.c. Values of a row that later phases read are asked for beside its elements: none of them waits for memory then. */
void row_load_early(StepScope *scope);
/* The same of elements at an index, behind the first reduction. */
void row_load_places(StepScope *scope);
/* Of all that the steps read, one value a row. */
void row_load_all(StepScope *scope);
/* Steps of the last phase that a result a row alone waits for, beside results of elements; false: there are none. */
bool row_find_behind(const FusedOperator *op, unsigned phase, bool *behind);
