/* What copies into slots are in, and what they are computed from. */
#pragma once
#include "ir/ir.h"

bool contains_fill(const IrOp *op); /* in its regions */
bool takes_slots(const IrOp *loop); /* in its body itself */
/* Does what only fills slots enter the op's regions: do they hold a fill, or leave a loop around one? */
bool producer_enters(const IrOp *op);

/* Values (IrValue *, a set; g_hash_table_unref) that the places of fills, and the loops and conditions around them,
 * are computed from. */
GHashTable *values_needed_by_fills(IrRegion *region);
/* Does a role that only fills slots have the operation? Plain arithmetic on numbers, what else such values need,
 * and what leaves the loops around fills. */
bool producer_has(const IrOp *op, GHashTable *needed);
/* Why an engine that moves pieces of memory cannot bring a fill's tile row by row; NULL if it can. It reads what it is
 * told, so nothing of the tile may lie outside of the tensor. tiles: the walk, or NULL. */
const char *fill_pieces_refusal(const IrFunction *kernel, const IrOp *tiles, const IrOp *fill,
                                const struct Mechanism *engine);
/* Does one of these fills, or puts, write the slot's tile? */
bool slot_is_filled(const IrFunction *kernel, const GPtrArray *ops, const IrOp *slot);
/* A slot is full when all of its tiles have come: an error where none, or a fill and a put, bring one of them. */
bool slots_check_filled(const IrFunction *kernel, const GPtrArray *channels, const GPtrArray *fills,
                        const GPtrArray *puts, GError **error);
/* Each fill of a slot is taken once: an error where a region that does both takes a channel more or less often than it fills it. */
bool slots_check_taken(const IrFunction *kernel, const GPtrArray *channels, GError **error);
