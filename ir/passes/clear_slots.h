/* Rows of filled slots that become 0, as derive_waits places them. Changes the module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* Needs waits and turns in place: each `clear` stands behind the wait for its slot, or has one of its own, and knows the barrier where its
 * role meets; those in loops that begin behind the iteration which they are of are gone. */
void clear_slots(IrFunction *kernel);
/* Is the op a `clear` of the loop's first iteration alone? */
bool clears_first(const IrOp *op, const IrOp *loop);
