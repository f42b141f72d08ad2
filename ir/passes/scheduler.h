/* Tile loops whose order a sub-kernel gives. */
#pragma once
#include "ir/ir.h"

/* The sub-kernel that a tile loop is walked by, or NULL: raster and linear are no sub-kernels. */
const IrFunction *scheduler_of(const IrModule *module, const IrOp *tiles);
/* The tile loop names a scheduler that there is; a sub-kernel writes nothing, and reads nothing that the kernel
 * writes: every role asks its own copy, at another time. */
bool scheduler_check(const IrModule *module, const IrOp *tiles, GError **error);
/* Do the lanes of a warp look for the tile together? Then all of them have to ask. */
bool scheduler_asks_lanes(const IrFunction *scheduler);
/* Takes the sub-kernel out of a module whose roles have it written out. */
void scheduler_forget(IrModule *module, const IrOp *tiles);
/* Opens the walk in front of the builder's place: a block takes the tiles of its index, of its index plus the
 * number of blocks, and so on, until the sub-kernel says that there is none. arguments: of the sub-kernel behind the
 * index. `coordinates` gets one expression a result behind the first. Gives the builder inside the loop; the caller
 * writes the tile there and then calls scheduler_close() with it. *total: a variable that has the sub-kernel's last result behind the loop, which
 * is how many tiles there are; NULL: not asked for. */
IrBuilder scheduler_open(IrBuilder *builder, const IrFunction *scheduler, IrExpr *const *arguments,
                         IrExpr **coordinates, IrExpr **index, IrExpr **total);
void scheduler_close(IrBuilder *inner, IrExpr *index);
