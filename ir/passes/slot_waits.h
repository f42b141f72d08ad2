/* Who reads slots of a ring waits for them and frees them (derive_waits). Changes the module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* In every role, for each ring with mbarriers of which it reads slots and at whose barriers the text does not wait itself: an
 * await in front of what reads a slot first, and in front of the step to the next slot an arrival, or where a cursor trails
 * the reader's, in front of that one's steps. Who arrives, and where, the channel says (`by peer cluster_n relaxed`).
 * Where threads load what the engine has filled, a fence behind the loads: it fills the slot again. */
void slot_waits(IrFunction *kernel);
/* The same fence behind loads of operands that products take from registers. */
void slot_fence_operands(IrRegion *region);
