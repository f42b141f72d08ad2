/* Who reads slots of a ring waits for them and frees them (derive_waits). Changes the module; not thread-safe for one module. */
#pragma once
#include "ir/ir.h"

/* A role that reads slots of a ring, and waits for them and frees them as slot_waits says. */
typedef struct {
  IrRegion *role;
  const IrOp *ring;
} SlotReader;

/* In every role, for each ring with mbarriers of which it reads slots and at whose barriers the text does not wait itself: an
 * await in front of what reads a slot first, and in front of the step to the next slot an arrival, or where a cursor trails
 * the reader's, in front of that one's steps. Who arrives, and where, the channel says (`by peer cluster_n relaxed`).
 * readers: appends who they are (SlotReader). */
void slot_waits(IrFunction *kernel, GArray *readers);
/* Where threads load what the engine has filled, a fence: it fills the slot again. It stands in front of the arrival that frees the slot, wherever
 * waits have moved that, not behind the loads: a product that is issued next would wait until they have arrived. */
void slot_fence_releases(const GArray *readers);
/* The same fence, behind loads of operands that products take from registers. */
void slot_fence_operands(IrRegion *region);
