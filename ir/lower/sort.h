/* Sorting, private to its files in ir/lower/. */
#pragma once
#include "ir/lower/lower.h"
#include "ir/sorting.h"

/* The first `keep` of the elements that a warp has, so many registers of each lane, in order: places count in registers
 * first, then in lanes, and lanes beyond the last place have what those in front have. `more`, as the result lies: joins it. */
IrExpr **lower_sort_warp(Lower *lower, IrOp *op, NumberType element, IrExpr **x, unsigned registers,
                         unsigned keep, IrExpr **more);
/* sort_bounded.c */
void lower_sort_bounded(Lower *lower, IrOp *op, const SortingBound *bound, LowerTile *from, LowerTile *more);
