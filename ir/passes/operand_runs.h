/* Registers in which a warp MMA takes its left operand. */
#pragma once
#include "ir/ir.h"

/* The fragments of the operand's type, k in the order in which instructions take it, or, where both operands can have
 * another, in one in which elements of 4 bits come in whole words. */
const Layout *operand_fragments(const IrFunction *kernel, const IrOp *mma, unsigned warps_m,
                                unsigned warps_n);
