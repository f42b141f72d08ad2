/* Fills from tensors that become values: a tile is loaded, and a slot filled with it. For choose_mechanisms. */
#pragma once
#include "ir/ir.h"

/* Does each fill of the channel stand in front of the `take` of its slot, in one region and in turn? */
bool channel_in_turn(const IrFunction *kernel, const IrOp *channel);
/* Gives the fill with the loaded value that takes the place of a fill from a tensor. */
IrOp *fill_with_loaded(IrOp *fill);
