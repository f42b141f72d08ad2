/* Between row_program*.c only: the tile of rows that a kernel of a row program works on. */
#pragma once
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"
#include "generator/program/row.h"

/* What a reduction computes of a row's elements on its way, for steps that ask for the same. */
typedef struct {
  IrExpr *below; /* x - its first result */
  IrExpr *power; /* e^below */
} Kept;

typedef struct {
  int64_t rows, cols;             /* of a tile */
  IrExpr *at[FUSED_MAX_RANK + 1]; /* where the tile begins, by dim */
  IrExpr *columns, *number;       /* C, and as f32 */
  Kept *kept;                     /* by reduction */
  IrExpr *column;                 /* s32 tile [1, cols]: row_column() */
  const char *form;               /* how rows stay: the IR's `hold` */
  bool again;                     /* distances from the mean are computed in each phase, not kept */
  bool passes;                    /* they are read again in each phase, a chunk at a time */
  IrExpr **sums;                  /* by output: of the block's rows so far; NULL: none */
  GHashTable *spread;             /* IrValue of groups of columns -> IrExpr of elements */
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
