/* Tile schedulers written out: which tile a block works on, and which next. */
#pragma once
#include "ir/ir.h"

#define SCHEDULE_MAX_DIMS IR_MAX_RANK

typedef struct Schedule {
  int64_t raster;  /* rows of the last dimension but one that are walked together, so that the tiles which run
                      at the same time share operands in the L2 cache */
  bool persistent; /* the block steps through tile indices by the number of blocks; else it has the one tile
                      of its index */
  int64_t cluster; /* so many rows of tiles that the blocks of a cluster take together, */
  int64_t across;  /* and so many columns: the block of rank r has row r / across, column r % across of them;
                      the last may lie outside the grid */
  bool shared;     /* all blocks of a cluster (so many as `cluster`) take the same tile instead */
  int64_t pingpong; /* instances of the role that take the block's tiles in turn; 1: it takes all */
} Schedule;

/* Opens the walk over a grid of tiles and returns a builder inside it; `coordinates` gets one expression per
 * extent. extents are outermost first; dimensions before the last two go slowest. */
IrBuilder schedule_open(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents, unsigned n,
                        IrExpr **coordinates);
/* An extent of the grid that clusters walk: in steps of their rows or columns. */
IrExpr *schedule_in_clusters(IrModule *module, IrExpr *extent, int64_t cluster);
/* A persistent walk whose next tile is told: the block begins with the tile of its index, and goes on with what `index` is
 * set to at the end of the loop's body, until that is *total or more. The tile at hand has a name of its own. */
IrBuilder schedule_open_dynamic(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents,
                                unsigned n, IrExpr **coordinates, IrExpr **index, IrExpr **total);
/* A persistent walk, one block at a time, whose last tiles are divided by k steps instead of whole:
 * "stream-K" for at most the last two waves (Osama et al., PPoPP 2023), so that most tiles need no addition
 * of parts. `steps`: of a tile. range[0] and [1] get the first and last k step (half open) that the block
 * takes of the tile at hand, range[2] the block that begins the tile: blocks range[2] .. block(0) have the
 * steps before range[0], one part each, in order.
 *
 * A block takes its streamed parts from the last backwards: the one it does not end comes first, so that the
 * block which does finds it there. Only a block's last part, which ends a tile, waits, and only for blocks of
 * lower index, whose parts lie before anything those wait for: no set of blocks can wait for each other, and
 * none waits for a block that starts after it. */
IrBuilder schedule_open_streamed(IrBuilder *builder, const Schedule *schedule, IrExpr *const *extents,
                                 unsigned n, IrExpr *steps, IrExpr **coordinates, IrExpr **range);
