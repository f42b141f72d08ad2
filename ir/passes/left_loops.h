/* Loops that a condition in their body leaves. */
#pragma once
#include "ir/ir.h"

/* The counted or endless loop that an op stands in, or NULL. */
const IrOp *loop_around(const IrOp *op);
/* Does a `break_if` of its body leave the loop? */
bool loop_is_left(const IrOp *loop);
/* Counted loops that are left become endless ones that count for themselves: nobody takes their number of iterations for
 * granted, which write loops ahead, clear sums with their first product, or free slots behind their last. */
void open_left_loops(IrFunction *kernel);
