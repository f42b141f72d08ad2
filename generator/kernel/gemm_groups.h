/* Products of groups of rows: who orders their tiles, and which rows of a tile are stored. */
#pragma once
#include "generator/kernel/kernel.h"

/* The template's tiles are ordered by the scheduler of groups.ir that reads the sizes: once the tensors are there. */
void groups_schedule(KernelBuild *build, int64_t bm, int64_t bn);
/* Which of the tile's `rows` from `row` on are of its group, as a tile of one column, or, where they are its columns (`dim` 1), of one row:
 * `end` is the row behind its last. `sizes` is the tensor that tells the groups, `group` the tile's. */
IrExpr *groups_rows(IrBuilder *builder, const FusedOperator *op, IrExpr *sizes, IrExpr *group, IrExpr *row,
                    IrExpr *end, unsigned dim, int64_t rows);
