/* Races: two accesses to the same bytes that nothing orders, generic and async proxy told apart.
 *
 * Vector clocks over the agents of a cluster (W warps):
 *   w          generic accesses of warp w, counted in releases and proxy fences from 2 on; 1 is known of a
 *              warp that is known to have started
 *   W + w      cp.async writes of warp w, counted in groups
 *   2W + w     reads by products of the warpgroup that begins with warp w, in groups
 *   3W + w     reads by bulk stores of warp w, in operations
 *   4W + m     bulk loads that complete on mbarrier m, in its phases
 *   n - W + w  writes to global memory by bulk stores of warp w, in operations
 * A warp's clock says what has happened before its next instruction; its fenced clock says what of the
 * generic accesses has also been made visible to the async proxy by its author. Both travel with every
 * synchronisation.
 *
 * Shared memory: race.c. Global memory: race_global.c has the shadow and the rule, race_order.c how flags,
 * fences and atomics order blocks. Kernels that never synchronise through global memory run their clusters on
 * several threads, and any two accesses of different clusters to the same bytes are unordered. */
#pragma once
#include "simulator/copy.h"
#include "simulator/product.h"

void race_cluster_init(Cluster *c);
void race_cluster_free(Cluster *c);
void race_global_init(Session *session);
void race_global_free(Session *session);

void race_check_generic(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                        AccessKind kind, bool ordered);

/* An access through the generic proxy. ordered: atomic, volatile, acquire or release. */
static inline void race_access(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                               AccessKind kind, bool ordered)
{
  if (p->block ? p->block->check != NULL : p->buffer && p->buffer->check)
    race_check_generic(w, in, lane, p, bytes, kind, ordered);
}

/* Rows of 16 bytes in the own block's shared memory that the lanes from `lane` on read, one each, in an instruction of the
 * whole warp. */
void race_read_rows(Warp *w, const Inst *in, unsigned lane, const uint32_t *offsets, unsigned n);

/* The same for lanes from `lane` on whose bytes lie side by side in the own block's shared memory or in one
 * buffer: a weak read, or a write of which `same` (a bit per lane) leave what is there. */
void race_check_lanes(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                      unsigned lane_bytes, AccessKind kind, uint32_t same);

/* Launches: what a cluster's end and griddepcontrol.wait make known, and with what a launch begins. */
void race_launch_start(Run *run);
void race_launch_wait(Warp *w);
void race_cluster_end(Cluster *c);
void race_launch_free(Run *run);

void race_barrier_arrive(Warp *w, const Inst *in, unsigned lane, const Barrier *b, bool waits);
void race_barrier(Block *block, const Barrier *b);
void race_cluster_arrive(Warp *w, bool relaxed);
void race_cluster_barrier(Cluster *c);
void race_cluster_wait(Warp *w);
void race_mbarrier_arrive(Warp *w, const Inst *in, Block *b, Mbarrier *m, uint32_t lanes);
void race_mbarrier_initialised(Warp *w, Mbarrier *m);
void race_mbarrier_used(Warp *w, const Inst *in, unsigned lane, const Mbarrier *m);
void race_mbarrier_complete(Block *b, Mbarrier *m);
void race_mbarrier_wait(Warp *w, const Inst *in, Block *b, Mbarrier *m);
void race_warp_barrier(Warp *w);
void race_fence(Warp *w, const Inst *in, uint32_t mask);
void race_copy_issue(Warp *w, const Inst *in, unsigned lane, uint32_t to, unsigned bytes);
void race_copy_wait(Warp *w, uint32_t mask, uint32_t keep, bool all);
void race_copy_arrive(Warp *w, const Inst *in, unsigned lane);
void race_bulk_issue(BulkOperation *op);
void race_bulk_wait(Warp *w, uint32_t mask, uint32_t keep, bool source_only);
void race_async_global(BulkOperation *op, const Place *p, unsigned bytes, AccessKind kind);
void race_store_async(Warp *w, const Inst *in, unsigned lane, const Place *to, unsigned bytes, Block *b,
                      const Mbarrier *m);
/* n pieces of 16 bytes of shared memory, swizzled by width bytes (16: not). *home: the first piece of the operand, 0
 * before; gaps: its rows do not lie side by side */
void race_product_read(Warp *w, const Inst *in, const Product *p, uint32_t width, const uint32_t *offsets,
                       unsigned n, uint32_t *home, bool gaps);
void race_product_wait(Warp *w, uint32_t keep);
/* Is what the warp does next ordered behind the start of the block? Races are tracked. */
bool race_knows_start(const Warp *w, const Block *b);
/* A peer's shared memory is touched: the peer must not end before. */
void race_remote(Warp *w, const Inst *in, const Block *b);
void race_block_exit(Warp *last);
