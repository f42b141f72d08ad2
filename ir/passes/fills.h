/* What copies into slots are in, and what they are computed from. */
#pragma once
#include "ir/ir.h"

bool contains_fill(const IrOp *op); /* in its regions */
bool takes_slots(const IrOp *loop); /* in its body itself */

/* Values (IrValue *, a set; g_hash_table_unref) that the places of fills, and the loops and conditions around them,
 * are computed from. */
GHashTable *values_needed_by_fills(IrRegion *region);
/* Does a role that only fills slots have the operation? Plain arithmetic on numbers, and what else such values need. */
bool producer_has(const IrOp *op, GHashTable *needed);
