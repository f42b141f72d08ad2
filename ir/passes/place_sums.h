/* Sums that a product keeps in memory of its own, and the registers in which everything else has them. For choose_layouts.
 */
#pragma once
#include "ir/ir.h"

/* Of the products among the ops (IrOp*): puts their accumulators into accumulator memory, and in front of what reads one
 * a `get` of it, whose result has the layout that the accumulator's type had. */
void place_sums(IrModule *module, const GPtrArray *ops);
