/* Operands of products that lie in registers and that no instruction takes from there. For choose_mechanisms. */
#pragma once
#include "ir/ir.h"

/* Is the operand a tile of registers that every product reads from a slot: a second one, or the first one transposed? */
bool operand_needs_slot(const IrOp *mma, unsigned operand);
/* Gives it a channel of its own, of so many slots: one of them is filled with it in front of the product, which stands in
 * the `take` of that slot from then on. Gives the fill. */
IrOp *operand_to_slot(IrOp *mma, unsigned operand, unsigned slots);
