/* Races: two accesses to the same bytes that nothing orders. */
#pragma once
#include "simulator/copy.h"
#include "simulator/product.h"

static inline void race_access(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                               AccessKind kind, bool ordered)
{
}

static inline void race_barrier_arrive(Warp *w, Barrier *b)
{
}
static inline void race_barrier(Block *block, Barrier *b)
{
}
static inline void race_cluster_arrive(Warp *w)
{
}
static inline void race_cluster_barrier(Cluster *c)
{
}
static inline void race_cluster_wait(Warp *w)
{
}
static inline void race_mbarrier_arrive(Warp *w, const Inst *in, Block *b, Mbarrier *m)
{
}
static inline void race_mbarrier_complete(Block *b, Mbarrier *m)
{
}
static inline void race_mbarrier_wait(Warp *w, const Inst *in, Block *b, Mbarrier *m)
{
}
static inline void race_fence(Warp *w, const Inst *in, uint32_t mask)
{
}
static inline void race_copy_issue(Warp *w, const Inst *in, unsigned lane, uint32_t to, unsigned bytes)
{
}
static inline void race_copy_commit(Warp *w, uint32_t mask)
{
}
static inline void race_copy_wait(Warp *w, uint32_t mask, uint32_t keep, bool all)
{
}
static inline void race_copy_arrive(Warp *w, const Inst *in, unsigned lane)
{
}
static inline void race_bulk_issue(BulkOperation *op)
{
}
static inline void race_bulk_commit(Warp *w, uint32_t mask)
{
}
static inline void race_bulk_wait(Warp *w, uint32_t mask, uint32_t keep, bool read)
{
}
static inline void race_async_global(BulkOperation *op, const Place *p, unsigned bytes, AccessKind kind)
{
}
static inline void race_async_complete(BulkOperation *op, Block *b, Mbarrier *m)
{
}
static inline void race_product_issue(Warp *w, const Inst *in, Product *p)
{
}
static inline void race_product_read(Warp *w, const Inst *in, const Product *p, uint32_t address)
{
}
static inline void race_product_wait(Warp *w, uint32_t keep)
{
}
static inline void race_cluster_init(Cluster *c)
{
}
static inline void race_cluster_free(Cluster *c)
{
}
