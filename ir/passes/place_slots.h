/* Layouts of the tiles of channels. */
#pragma once
#include "ir/ir.h"

/* `ops`: IrOp*, all of the kernel, mechanisms chosen. Gives each tile that is filled its layout in shared memory. */
void place_slots(IrFunction *kernel, const GPtrArray *ops);
