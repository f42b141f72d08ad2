/* What passes take of a GPU's resources by a rule of their own, which the generator, counting before there is
 * a kernel, must know too. (Parts of results in shared memory: ir/staging.h.) */
#pragma once
#include "adl/gpu.h"

/* Shared memory left to barriers and to what alignment loses. */
unsigned reserved_shared_bytes(const Gpu *gpu);
/* Bytes to which tiles in shared memory are aligned: where every mechanism of the GPU that reads or writes them wants
 * them to start, swizzled ones at the repetition of the widest pattern at least. */
unsigned shared_alignment(const Gpu *gpu, bool swizzled);
/* Of the ring in which a producer tells the tiles that it has found: its slots, and the numbers of a tile of groups of rows (is there one, its
 * group, first row, column of tiles, the group's end), which are aligned like tiles. */
#define WALK_SLOTS   2
#define WALK_NUMBERS 5
/* Rows of a warpgroup's product: those of the layout group.d. */
#define WARPGROUP_ROWS 64
/* Warpgroups that share a tile of so many rows, each with some of them. */
static inline unsigned warpgroups_of_rows(unsigned rows)
{
  return rows % (2 * WARPGROUP_ROWS) == 0 ? 2 : rows % (3 * WARPGROUP_ROWS) == 0 ? 3 : 1;
}

#define PRODUCT_WARPS_MOST 8 /* warps of a block that multiply */
/* Warps of a block that take the products of a tile with so many results: each about 64 x 64 of them, at least four
 * warps (choose_layouts divides the tile among them). */
static inline unsigned product_warps(unsigned results)
{
  return CLAMP(results / (64 * 64), 4u, PRODUCT_WARPS_MOST);
}

/* Clusters of so many blocks, one block an SM, that run at once on `sms` SMs; at least 1. Not every SM has
 * partners: where the description does not say how many clusters of more than two fit, a tenth is left out. A
 * persistent grid of more would begin its last clusters when the first are through with everything. */
unsigned resident_clusters(const Gpu *gpu, unsigned blocks, unsigned sms);

/* Blocks of a cluster that can send each other what they have and wait for it on mbarriers; 1: none can. */
unsigned exchanging_blocks(const Gpu *gpu);

/* Registers move between warpgroups in steps of so many; where they cannot, they are allocated so. */
unsigned handover_step(const Gpu *gpu);
unsigned handover_most(const Gpu *gpu);
unsigned handover_least(const Gpu *gpu); /* a producer's where the others need what it would have */
/* What a thread that only starts copies keeps, and what one that gets `left` may have of it: within what a
 * hand-over can set. */
unsigned producer_registers(const Gpu *gpu);
unsigned consumer_registers(const Gpu *gpu, unsigned left);
/* Can threads that have so many at entry come down to a producer's, and others up to more? A hand-over that can set
 * no more than a thread has at entry would take registers from those that multiply. */
bool may_hand_over(const Gpu *gpu, unsigned entry);

/* Blocks of so many threads that an SM takes at once, registers and shared memory apart. */
unsigned resident_blocks(const Gpu *gpu, unsigned threads);

/* Registers of a thread at entry, of blocks of so many of which `blocks` share an SM. */
unsigned entry_registers(const Gpu *gpu, unsigned threads, unsigned blocks);
/* Then of each of `receivers` threads of a block whose others only start copies and give back what they do
 * not need (budget_registers writes it down). */
unsigned granted_registers(const Gpu *gpu, unsigned threads, unsigned receivers, unsigned blocks);
/* The same where those others keep `kept` each, in place of what is enough for any. */
unsigned left_registers(const Gpu *gpu, unsigned threads, unsigned receivers, unsigned blocks, unsigned kept);
