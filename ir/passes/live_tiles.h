/* Registers that the tiles of a region take before it is lowered: an estimate for what divides registers among roles. */
#pragma once
#include "ir/ir.h"

/* 32-bit registers a thread of the tiles that are alive at once, at most; what is used in a loop and defined in front of
 * it lives to the loop's end. */
unsigned live_tile_registers(const IrRegion *region);
