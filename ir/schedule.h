/* Tile schedulers written out: which tile a block works on, and which next. */
#pragma once
#include "ir/ir.h"

#define SCHEDULE_MAX_DIMS IR_MAX_RANK

/* Opens the walk over a grid of tiles and returns a builder inside it; `coordinates` gets one expression per
 * extent. extents are outermost first; the last two are rastered in groups of `group` rows of the last but
 * one, so that the tiles which run at the same time share operands in the second-level cache; dimensions
 * before them go slowest. persistent: the block steps through tile indices by the number of blocks; else it
 * has the one tile of its index. cluster: so many blocks step together and take tiles below one another, the
 * block of rank r the r-th; the last of them may lie outside the grid. shared: all of them take the same tile
 * instead. */
IrBuilder schedule_open(IrBuilder *builder, IrExpr *const *extents, unsigned n, int64_t group,
                        bool persistent, int64_t cluster, bool shared, IrExpr **coordinates);
/* Extents of the grid that clusters walk: rows in steps of `cluster`. */
IrExpr *schedule_cluster_rows(IrModule *module, IrExpr *rows, int64_t cluster);
