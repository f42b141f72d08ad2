/* The exchange tiles of reductions, scans and sorts; private to choose_layouts. */
#pragma once
#include "ir/ir.h"

/* Declares one for an operation that combines along a dimension, where several warps have its rows. */
void place_exchange(IrFunction *kernel, IrOp *reduce);
