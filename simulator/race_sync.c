/* Barriers, mbarriers, fences: what they make known. See race.h. */
#include "simulator/race_clock.h"
#include <string.h>

static void warp_synced(Clocks *k, unsigned agent)
{
  k->synced[agent] = clock_of(k, agent)->v[agent];
  k->copies_synced[agent] = clock_of(k, agent)->v[k->warps + agent];
}

static void release(Clocks *k, Warp *w, Clock *into)
{
  Clock *own = clock_of(k, agent_of(k, w));
  clock_join(k, into, own);
  own->v[agent_of(k, w)]++;
}

/* Barriers have numbers only: a warp that was not there the last time must know that time to be over, or it could have
 * been counted then. */
static void note_use(Clocks *k, Warp *w, const Inst *in, unsigned lane, unsigned id)
{
  BarrierUse *use = &k->uses[w->block->rank][id];
  const uint32_t *v = clock_of(k, agent_of(k, w))->v;
  const unsigned first = w->block->rank * k->per_block;
  if (w->id >= BLOCK_WARPS) return;
  for (unsigned i = 0; i < k->per_block && !(use->before >> w->id & 1); i++) {
    if (!(use->before >> i & 1) || v[first + i] >= use->before_at[i]) continue;
    fault_party(w, in, lane, SIM_FAULT_BARRIER, !w->block->cluster->run->ours, 0, NULL,
                "barrier %u was used by other warps, warp %u among them, and nothing orders that before: "
                "this arrival "
                "could have been counted there",
                id, i);
    break;
  }
  use->now |= 1u << w->id;
  use->now_at[w->id] = v[agent_of(k, w)];
}

static void end_use(BarrierUse *use)
{
  use->before = use->now;
  memcpy(use->before_at, use->now_at, sizeof use->before_at);
  use->now = 0;
}

void race_barrier_arrive(Warp *w, const Inst *in, unsigned lane, const Barrier *b, bool waits)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  unsigned id = (unsigned)(b - w->block->barriers);
  if (!b->full) note_use(k, w, in, lane, id);
  order_barrier(w);
  release(k, w, barrier_clock(k, w->block, id));
  warp_synced(k, agent_of(k, w));
  w->collectives++;
  if (waits) k->waiting[w->block->rank][id] |= 1ull << w->id;
}

void race_barrier(Block *block, const Barrier *b)
{
  Clocks *k = block->cluster->check;
  if (!k) return;
  unsigned id = (unsigned)(b - block->barriers);
  Clock *clock = barrier_clock(k, block, id);
  for (unsigned i = 0; i < block->n_warps; i++)
    if (k->waiting[block->rank][id] >> i & 1)
      clock_join(k, clock_of(k, block->rank * k->per_block + i), clock);
  k->waiting[block->rank][id] = 0;
  if (!b->full) end_use(&k->uses[block->rank][id]);
  clock_reset(k, clock);
}

/* relaxed: only what an earlier fence of the cluster's or a wider scope has released, and that the warp runs */
void race_cluster_arrive(Warp *w, bool relaxed)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  uint32_t *started = &k->cluster->v[agent_of(k, w)];
  *started = MAX(*started, 1);
  const Clock *fenced = relaxed ? order_fenced(k, w, SCOPE_CLUSTER) : NULL;
  if (fenced) clock_join(k, k->cluster, fenced);
  if (relaxed) return;
  release(k, w, k->cluster);
  warp_synced(k, agent_of(k, w));
  w->collectives++;
}

void race_cluster_barrier(Cluster *c)
{
  Clocks *k = c->check;
  if (!k) return;
  Clock *done = k->cluster_done;
  clock_reset(k, done);
  k->cluster_done = k->cluster;
  k->cluster = done;
}

void race_cluster_wait(Warp *w)
{
  Clocks *k = clocks_of(w);
  if (k) clock_join(k, clock_of(k, agent_of(k, w)), k->cluster_done);
}

static Clock *mbarrier_gathered(Clocks *k, Mbarrier *m)
{
  if (!m->check) m->check = g_malloc0(2 * k->stride);
  return mbarrier_clock(k, m, false);
}

void race_mbarrier_arrive(Warp *w, const Inst *in, Block *b, Mbarrier *m, uint32_t lanes)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  unsigned agent = agent_of(k, w);
  if (in->order == ORDER_RELAXED) {
    const Clock *fenced = order_fenced(k, w, SCOPE_BLOCK);
    if (fenced) clock_join(k, mbarrier_gathered(k, m), fenced);
    return;
  }
  /* lanes that arrive one after the other at one barrier add up */
  bool more = m->partial_warp == w && m->partial_phase == m->phase;
  m->partial_lanes = lanes | (more ? m->partial_lanes : 0);
  m->partial_warp = w;
  m->partial_phase = m->phase;
  uint32_t clock = clock_of(k, agent)->v[agent];
  release(k, w, mbarrier_gathered(k, m));
  clock_partial(k, w, clock, m->partial_lanes);
}

void race_mbarrier_initialised(Warp *w, Mbarrier *m)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  m->initialiser = w;
  m->initialised_at = clock_of(k, agent_of(k, w))->v[agent_of(k, w)];
}

/* Whoever uses it must know that it has been initialised. */
void race_mbarrier_used(Warp *w, const Inst *in, unsigned lane, const Mbarrier *m)
{
  Clocks *k = clocks_of(w);
  if (!k || !m->initialiser ||
      clock_of(k, agent_of(k, w))->v[agent_of(k, m->initialiser)] >= m->initialised_at)
    return;
  fault_other(w, in, lane, SIM_FAULT_RACE, m->offset, m->initialised, m->initialiser,
              "the mbarrier at %s is used, and nothing orders that after its initialisation",
              shared_name(m->initialiser->block, m->offset).text);
}

void race_mbarrier_complete(Block *b, Mbarrier *m)
{
  Clocks *k = b->cluster->check;
  if (!k) return;
  Clock *gathered = mbarrier_gathered(k, m), *done = mbarrier_clock(k, m, true);
  gathered->v[mbarrier_agent(k, b, m)] =
      (uint32_t)m->phase; /* already the next: bulk loads of the phase are done */
  clock_reset(k, done);
  memcpy(done, gathered, k->stride);
  memset(gathered, 0, k->stride);
}

void race_mbarrier_wait(Warp *w, const Inst *in, Block *b, Mbarrier *m)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  mbarrier_gathered(k, m);
  w->collectives++; /* its lanes may have arrived one by one */
  const Clock *done = mbarrier_clock(k, m, true);
  unsigned own = agent_of(k, w);
  k->copies_synced[own] = MAX(k->copies_synced[own], done->v[k->warps + own]);
  if (in->order == ORDER_RELAXED)
    order_met(k, w, done);
  else
    clock_join(k, clock_of(k, agent_of(k, w)), done);
  /* copies of the warp's own lanes that arrived there (cp.async.mbarrier.arrive) are known to all who wait */
  const unsigned agent = agent_of(k, w);
  k->copies_synced[agent] = MAX(k->copies_synced[agent], done->v[k->warps + agent]);
}

void race_fence(Warp *w, const Inst *in, uint32_t mask)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  if (in->order != ORDER_WEAK) order_fence(w, in, mask);
  unsigned agent = agent_of(k, w);
  Clock *own = clock_of(k, agent);
  uint32_t *v = own->v;
  if (in->operation & 2) order_proxy_fence(k, own);
  if (in->operation & 1) {
    v[k->n + agent] = v[agent];
    v[k->n + k->warps + agent] = v[k->warps + agent];
    /* The memory model asks for a fence anywhere on the way from one access to the other: behind the barrier,
     * in the thread that reads, does as well. Ours keep to the author's side, where it is certain on all
     * paths.
     */
    for (unsigned i = 0; i < k->n && !w->block->cluster->run->ours; i++)
      v[k->n + i] = MAX(v[k->n + i], v[i]);
  }
  if (!in->operation) return;
  if (in->order == ORDER_WEAK) k->fences[agent][0] = lanes_since(k, agent);
  v[agent]++;
  if (in->order == ORDER_WEAK) k->fences[agent][1] = v[agent];
}

void race_warp_barrier(Warp *w)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  clock_of(k, agent_of(k, w))->v[agent_of(k, w)]++;
  warp_synced(k, agent_of(k, w));
}
