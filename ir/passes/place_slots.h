/* Layouts of the tiles of channels. */
#pragma once
#include "ir/ir.h"

/* Elements along the slot's dimension `inner` of which `run` is a multiple, and where a fill's piece of the slot begins and ends: a
 * swizzle of a piece that an engine brings is no wider. */
unsigned slot_run(const IrFunction *kernel, const IrOp *fill, unsigned inner, unsigned run);
/* Is the value, a product's left operand, computed element by element from what lies in the slot? */
bool slot_makes(const IrFunction *kernel, const IrExpr *operand, const IrOp *slot);
/* `ops`: IrOp*, all of the kernel, mechanisms chosen. Gives each tile that is filled its layout in shared memory. */
void place_slots(IrFunction *kernel, const GPtrArray *ops);
/* Gives what the threads of a role turn around on its way from a slot to another one its layout, and the mechanism that gets it. `ops`:
 * the role's. */
void place_turned(IrFunction *kernel, const GPtrArray *ops);
/* The registers from which a warpgroup MMA takes its left operand, in the order that its right one has in its slot. */
const Layout *place_left_operand(IrFunction *kernel, const IrOp *mma, unsigned warpgroups);
