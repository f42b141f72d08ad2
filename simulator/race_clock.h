/* The clocks of a cluster, shared by the files of the race checker; race.h says what they count. */
#pragma once
#include "simulator/knowledge.h"
#include "simulator/race.h"

#define BLOCK_OBJECTS    64 /* mbarriers per block with a clock of their own; more share */
#define PARTIAL_RELEASES 16

/* What is known to have happened: components of the own cluster, then what is visible to the async proxy in
 * shared memory, then (warps only) in global memory; and of other clusters. */
typedef struct Clock {
  Knowledge *foreign;
  uint32_t v[];
} Clock;

/* A lane arrives for its warp without bar.warp.sync before: the other lanes' latest writes are not released.
 * A clock value names one release, so whoever knows a writer up to exactly this clock knows it through this
 * release. */
typedef struct PartialRelease {
  uint32_t clock, synced,
      excluded; /* synced: what the warp wrote from this clock on concerns each lane alone */
} PartialRelease;

/* How a warp orders global memory, scope by scope (index: MemoryScope - 1). */
typedef struct WarpOrder {
  Clock *released[3];    /* its clock at its last fence of at least this scope */
  Knowledge *pending[3]; /* what relaxed reads have met: known after a fence of at least this scope */
  Clock *met;            /* what relaxed waits at mbarriers have met */
  Knowledge *exchanged;  /* what relaxed atomics with a result have met: a barrier of the block will do */
} WarpOrder;

typedef struct StoreGroup {
  uint64_t id; /* of the operation */
  uint32_t group, lane;
} StoreGroup;

#define BLOCK_WARPS 32

/* Who has met at a barrier of a part of the block: bits and clocks of warps of the block, the last time and now. */
typedef struct BarrierUse {
  uint32_t before, now;
  uint32_t before_at[BLOCK_WARPS], now_at[BLOCK_WARPS];
} BarrierUse;

typedef struct Clocks {
  uint32_t uid;            /* of the cluster, among all launches that may overlap */
  uint32_t *synced;        /* per warp: its clock at the last barrier of the whole warp */
  uint32_t (*fences)[2];   /* per warp: its clock before and behind its latest proxy fences in a row */
  uint32_t *copies_synced; /* per warp: what it knew then of its cp.async */
  PartialRelease (*partial)[PARTIAL_RELEASES];
  unsigned *n_partial;
  unsigned warps, per_block; /* warps of the cluster, of a block */
  unsigned n, length;        /* components, words of a clock */
  size_t stride;             /* bytes of a clock */
  uint8_t *warp;             /* [warps] clocks */
  uint8_t *barrier;          /* [blocks][16] clocks */
  uint64_t (*waiting)[16];   /* per block and barrier: warps that will wake */
  BarrierUse (*uses)[16];    /* per block and barrier */
  Clock *cluster, *cluster_done;
  uint32_t
      *remote; /* [blocks][n]: what of other blocks has touched the block's memory; its end must come after */
  uint16_t *remote_pc;
  GHashTable *locations; /* clocks of words of shared memory used for synchronisation */
  WarpOrder *orders;     /* per warp */
  GArray **stores;       /* per warp: StoreGroup of bulk stores whose writes nobody has waited for */
} Clocks;

static inline Clocks *clocks_of(const Warp *w)
{
  return w->block->cluster->check;
}

static inline unsigned agent_of(const Clocks *k, const Warp *w)
{
  return w->block->rank * k->per_block + w->id;
}

static inline Clock *clock_of(const Clocks *k, unsigned warp)
{
  return (Clock *)(k->warp + warp * k->stride);
}

static inline unsigned bulk_write_agent(const Clocks *k, unsigned warp)
{
  return k->n - k->warps + warp;
}

/* The end of the wait for a writer is told by its component here, if the async proxy is to see it, too. */
static inline unsigned global_fence(const Clocks *k, unsigned warp)
{
  return 2 * k->n + warp;
}

static inline unsigned mbarrier_agent(const Clocks *k, const Block *b, const Mbarrier *m)
{
  return 4 * k->warps + b->rank * BLOCK_OBJECTS + m->index % BLOCK_OBJECTS;
}

static inline Clock *barrier_clock(Clocks *k, const Block *block, unsigned id)
{
  return (Clock *)(k->barrier + ((size_t)block->rank * 16 + id) * k->stride);
}

/* m->check: clock being gathered, then the clock of the phase completed last */
static inline Clock *mbarrier_clock(const Clocks *k, const Mbarrier *m, bool completed)
{
  return (Clock *)((uint8_t *)m->check + (completed ? k->stride : 0));
}

/* The end of block `b` must come after what `agent` did at `clock`. */
static inline void note_remote(Clocks *k, const Block *b, unsigned agent, uint32_t clock, uint16_t pc)
{
  size_t i = (size_t)b->rank * k->n + agent;
  k->remote[i] = MAX(k->remote[i], clock);
  k->remote_pc[i] = pc;
}

/* The warp's clock when its lanes last did more than proxy fences: what they write from then on concerns each alone. */
static inline uint32_t lanes_since(const Clocks *k, unsigned agent)
{
  uint32_t now = clock_of(k, agent)->v[agent];
  return k->fences[agent][1] == now ? k->fences[agent][0] : now;
}

/* race.c */
void clock_join(const Clocks *k, Clock *into, const Clock *from);
Clock *clock_new(const Clocks *k);
void clock_reset(const Clocks *k, Clock *c);
void clock_free(Clock *c);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Clock, clock_free)
/* Lanes whose latest writes a release by `lanes` of the warp leaves out, and from which clock on. */
void clock_partial(Clocks *k, const Warp *w, uint32_t clock, uint32_t lanes);

/* Was a write of these lanes left out by the release through which its warp is known up to `known`? */
bool clock_left_out(const Clocks *k, unsigned agent, uint32_t known, uint32_t clock, uint32_t lanes);

/* race_order.c: synchronisation through global memory */
void order_init(Cluster *c);
void order_free(Cluster *c);
void order_access(Warp *w, const Inst *in, unsigned lane, const Place *p, AccessKind kind);
void order_fence(Warp *w, const Inst *in, uint32_t mask);
/* A relaxed wait: known after the next fence. */
void order_met(const Clocks *k, const Warp *w, const Clock *what);
/* The clock that a relaxed arrival publishes: of the last fence of the scope, NULL: none. */
const Clock *order_fenced(const Clocks *k, const Warp *w, MemoryScope scope);
void order_barrier(Warp *w); /* the warp arrives at a barrier of its block */
void order_proxy_fence(const Clocks *k, Clock *own);
void order_session_init(Session *session);
void order_session_free(Session *session);

/* race_global.c */
typedef enum { PROXY_GENERIC, PROXY_ASYNC } Proxy;
void global_access(Warp *w, const Inst *in, unsigned lane, unsigned lane_bytes, const Place *p,
                   uint64_t bytes, AccessKind kind);
void global_bulk(BulkOperation *op, const Place *p, uint64_t bytes, AccessKind kind);
