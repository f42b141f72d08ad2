/* Blocks of a cluster that take neighbouring tiles: which of them need the same part of a tensor, and copies
 * that bring it to all of those at once. For split_roles. Pure functions on the kernel's IR; not thread-safe
 * for one module. */
#pragma once
#include "ir/pass.h"

typedef struct Cluster {
  IrModule *module;
  const IrFunction *kernel;
  int64_t blocks;                        /* 1: no cluster */
  int64_t across;                        /* columns of their tiles; blocks / across are their rows */
  bool shared_tile;                      /* they take the same tile, each a part of k */
  const IrValue *tile_row, *tile_column; /* the coordinates in which they differ */
} Cluster;

/* Blocks for which a fill is the same: `count` of them, of which this is the one at `place`; `mask` has a bit
 * for each rank. */
typedef struct ClusterSharers {
  int64_t count;
  IrExpr *place, *mask;
} ClusterSharers;

/* Would a cluster of so many rows and columns of tiles have some that are known not to exist? Of a tensor
 * with one row or column nothing names the coordinate any more, so a block beyond stores where another does.
 */
bool cluster_beyond_tiles(const IrOp *tiles, int64_t rows, int64_t columns);
/* Why there can be no clusters of so many rows and columns of tiles, whatever their blocks have in common; NULL: there
 * can. */
const char *cluster_refusal(const IrPassContext *context, const IrOp *tiles, int64_t rows, int64_t columns);
/* Of blocks that share a tile: an error where all of them write the same place. */
bool cluster_check_stores(const IrFunction *kernel, const IrOp *tiles, GError **error);
/* Can one copy of each fill reach several blocks? */
bool cluster_copies_reach(const GPtrArray *fills);
/* Do blocks copy into each other's slots? */
bool cluster_shares_slots(const Cluster *cluster);
/* Then a block shares fills with those of its row and of its column, and none with the others. */
bool cluster_in_two_dimensions(const Cluster *cluster);
/* The dimension along which the blocks divide a fill that is the same for several, who are in *sharers; -1:
 * each copies it whole. Parts begin on a panel of the swizzle, or after 8 rows. */
int cluster_shared_dim(const Cluster *cluster, const IrOp *fill, ClusterSharers *sharers);
/* Cuts a copy to the block's part along dim, which goes to the same place in all sharers. */
void cluster_share_copy(const Cluster *cluster, IrOp *copy, const IrOp *slot, unsigned dim,
                        const ClusterSharers *sharers);
