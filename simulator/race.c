/* See race.h. */
#include "simulator/race_cells.h"
#include "simulator/race_clock.h"
#include <string.h>

void clock_join(const Clocks *k, Clock *into, const Clock *from)
{
  into->foreign = knowledge_join(into->foreign, from->foreign);
  for (unsigned i = 0; i < k->length; i++)
    into->v[i] = MAX(into->v[i], from->v[i]);
}

Clock *clock_new(const Clocks *k)
{
  return g_malloc0(k->stride);
}

void clock_reset(const Clocks *k, Clock *c)
{
  knowledge_unref(c->foreign);
  memset(c, 0, k->stride);
}

void clock_free(Clock *c)
{
  if (c) knowledge_unref(c->foreign);
  g_free(c);
}

static unsigned mbarrier_agent(const Clocks *k, const Block *b, const Mbarrier *m)
{
  return 4 * k->warps + b->rank * BLOCK_OBJECTS + m->index % BLOCK_OBJECTS;
}

void race_cluster_init(Cluster *c)
{
  if (!c->run->track_races) return;
  Clocks *k = g_new0(Clocks, 1);
  k->uid = c->run->first_uid + (uint32_t)c->index;
  k->per_block = c->blocks[0].n_warps;
  k->warps = c->n_blocks * k->per_block;
  k->n = 5 * k->warps + c->n_blocks * BLOCK_OBJECTS;
  k->length = 2 * k->n + k->warps;
  k->stride = (sizeof(Clock) + k->length * sizeof(uint32_t) + 7) / 8 * 8;
  k->warp = g_malloc0(k->warps * k->stride);
  for (unsigned i = 0; i < k->warps; i++) {
    clock_of(k, i)->v[i] = 2;
    clock_of(k, i)->foreign = knowledge_ref(c->run->known_at_start);
  }
  k->synced = g_new0(uint32_t, k->warps);
  k->copies_synced = g_new0(uint32_t, k->warps);
  k->partial = g_malloc0(k->warps * sizeof k->partial[0]);
  k->n_partial = g_new0(unsigned, k->warps);
  k->barrier = g_malloc0((size_t)c->n_blocks * 16 * k->stride);
  k->waiting = g_malloc0(c->n_blocks * sizeof k->waiting[0]);
  k->remote = g_new0(uint32_t, (size_t)c->n_blocks * k->n);
  k->remote_pc = g_new0(uint16_t, (size_t)c->n_blocks * k->n);
  k->cluster = clock_new(k);
  k->cluster_done = clock_new(k);
  k->locations = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)clock_free);
  k->stores = g_new0(GArray *, k->warps);
  c->check = k;
  order_init(c);
  for (unsigned i = 0; i < c->n_blocks; i++)
    c->blocks[i].check = cells_new(c->blocks[i].shared_bytes);
}

static Clock *barrier_clock(Clocks *k, const Block *block, unsigned id)
{
  return (Clock *)(k->barrier + ((size_t)block->rank * 16 + id) * k->stride);
}

/* m->check: clock being gathered, then the clock of the phase completed last */
static Clock *mbarrier_clock(const Clocks *k, const Mbarrier *m, bool completed)
{
  return (Clock *)((uint8_t *)m->check + (completed ? k->stride : 0));
}

static void mbarrier_free(const Clocks *k, Mbarrier *m)
{
  if (!m->check) return;
  clock_reset(k, mbarrier_clock(k, m, false));
  clock_reset(k, mbarrier_clock(k, m, true));
  g_free(m->check);
}

void race_cluster_free(Cluster *c)
{
  Clocks *k = c->check;
  if (!k) return;
  order_free(c);
  for (unsigned i = 0; i < c->n_blocks; i++) {
    cells_free(c->blocks[i].check, c->blocks[i].shared_bytes);
    for (unsigned m = 0; m < c->blocks[i].mbarriers->len; m++)
      mbarrier_free(k, &g_array_index(c->blocks[i].mbarriers, Mbarrier, m));
    for (unsigned id = 0; id < 16; id++)
      clock_reset(k, barrier_clock(k, &c->blocks[i], id));
  }
  for (unsigned i = 0; i < k->warps; i++) {
    clock_reset(k, clock_of(k, i));
    if (k->stores[i]) g_array_free(k->stores[i], TRUE);
  }
  g_free(k->stores);
  g_free(k->warp);
  g_free(k->synced);
  g_free(k->copies_synced);
  g_free(k->partial);
  g_free(k->n_partial);
  g_free(k->barrier);
  g_free(k->waiting);
  g_free(k->remote);
  g_free(k->remote_pc);
  clock_free(k->cluster);
  clock_free(k->cluster_done);
  g_hash_table_destroy(k->locations);
  g_free(k);
}

bool clock_left_out(const Clocks *k, unsigned agent, uint32_t known, uint32_t clock, uint32_t lanes)
{
  for (unsigned i = 0; i < MIN(k->n_partial[agent], PARTIAL_RELEASES); i++) {
    const PartialRelease *p = &k->partial[agent][i];
    if (p->clock == known) return clock >= p->synced && lanes & p->excluded;
  }
  return false;
}

/* --- accesses to memory --- */

/* Strong accesses to words of shared memory, by the rules of race_order.c. An access to a peer's word needs
 * the scope of the cluster to order anything. */
static void synchronise_location(Clocks *k, Warp *w, const Inst *in, unsigned lane, const Place *p,
                                 AccessKind kind)
{
  void *key = p->at;
  MemoryScope scope = p->block == w->block ? SCOPE_BLOCK : SCOPE_CLUSTER;
  if ((MemoryScope)in->scope < scope) return;
  Clock *clock = g_hash_table_lookup(k->locations, key), *own = clock_of(k, agent_of(k, w));
  if (clock && (kind == ACCESS_READ || (kind == ACCESS_ATOMIC && in->d[0] != OPERAND_NONE))) {
    if (in->order == ORDER_ACQUIRE || in->order == ORDER_BOTH)
      clock_join(k, own, clock);
    else
      order_met(k, w, clock);
  }
  if (kind == ACCESS_READ) return;
  bool releases = in->order == ORDER_RELEASE || in->order == ORDER_BOTH;
  const Clock *what = releases ? own : order_fenced(k, w, scope);
  if (clock && kind != ACCESS_ATOMIC) clock_reset(k, clock);
  if (!what) return;
  if (!clock) {
    clock = clock_new(k);
    g_hash_table_insert(k->locations, key, clock);
  }
  clock_join(k, clock, what);
  clock_partial(k, w, what->v[agent_of(k, w)], 1u << lane);
  if (releases) own->v[agent_of(k, w)]++;
}

static inline void check_mbarriers(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                                   AccessKind kind)
{
  if (p->offset < p->block->mbarrier_end && p->offset + bytes > p->block->mbarrier_begin)
    mbarrier_ordinary_access(w, in, lane, p->block, p->offset, bytes, kind);
}

void race_check_generic(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                        AccessKind kind, bool ordered)
{
  Clocks *k = clocks_of(w);
  if (!p->block) {
    global_access(w, in, lane, bytes, p, bytes, kind);
    if (ordered && w->block->cluster->run->session->ordered) order_access(w, in, lane, p, kind);
    return;
  }
  unsigned agent = agent_of(k, w);
  Access a = {
      .warp = w, .in = in, .lane = lane, .block = p->block, .offset = (uint32_t)p->offset, .bytes = bytes};
  a.kind = kind;
  a.agent = agent;
  a.clock = clock_of(k, agent)->v[agent];
  if (p->block != w->block) race_remote(w, in, p->block);
  if (!in->synchronises) check_mbarriers(w, in, lane, p, bytes, kind);
  if (ordered && !in->synchronises) synchronise_location(k, w, in, lane, p, kind);
  cells_touch(k, &a, ordered);
}

void race_check_lanes(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                      unsigned lane_bytes, AccessKind kind, uint32_t same)
{
  Clocks *k = clocks_of(w);
  unsigned agent = agent_of(k, w);
  if (!p->block) {
    global_access(w, in, lane, lane_bytes, p, bytes, kind);
    return;
  }
  Access a = {.warp = w,
              .in = in,
              .lane = lane,
              .lane_bytes = lane_bytes,
              .same = same,
              .block = p->block,
              .offset = (uint32_t)p->offset,
              .bytes = bytes,
              .kind = kind,
              .agent = agent,
              .clock = clock_of(k, agent)->v[agent]};
  check_mbarriers(w, in, lane, p, bytes, kind);
  cells_touch(k, &a, false);
}

/* --- synchronisation --- */

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

void race_barrier_arrive(Warp *w, const Barrier *b, bool waits)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  unsigned id = (unsigned)(b - w->block->barriers);
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

void clock_partial(Clocks *k, const Warp *w, uint32_t clock, uint32_t lanes)
{
  unsigned agent = agent_of(k, w);
  uint32_t excluded = w->live & ~lanes;
  for (unsigned i = 0; i < MIN(k->n_partial[agent], PARTIAL_RELEASES); i++) {
    PartialRelease *p = &k->partial[agent][i];
    if (p->clock != clock) continue;
    p->excluded &= excluded; /* several lanes released at this clock */
    return;
  }
  if (excluded)
    k->partial[agent][k->n_partial[agent]++ % PARTIAL_RELEASES] =
        (PartialRelease){clock, k->synced[agent], excluded};
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
  if (in->operation) v[agent]++;
}

void race_warp_barrier(Warp *w)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  clock_of(k, agent_of(k, w))->v[agent_of(k, w)]++;
  warp_synced(k, agent_of(k, w));
}

/* --- cp.async --- */

void race_copy_issue(Warp *w, const Inst *in, unsigned lane, uint32_t to, unsigned bytes)
{
  Clocks *k = clocks_of(w);
  if (!k || to + bytes > w->block->shared_bytes) return;
  Access a = {.warp = w,
              .in = in,
              .lane = lane,
              .block = w->block,
              .offset = to,
              .bytes = bytes,
              .kind = ACCESS_WRITE};
  a.agent = k->warps + agent_of(k, w);
  a.clock = w->copy_groups[lane] + 1;
  cells_touch(k, &a, false);
}

void race_copy_wait(Warp *w, uint32_t mask, uint32_t keep, bool all)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  uint32_t *v = clock_of(k, agent_of(k, w))->v + k->warps + agent_of(k, w);
  uint32_t committed = FULL;
  for_lanes(l, mask) committed = MIN(committed, w->copy_groups[l]);
  uint32_t done = all ? committed + 1 : committed > keep ? committed - keep : 0;
  *v = MAX(*v, done);
}

static void note_remote(Clocks *k, const Block *b, unsigned agent, uint32_t clock, uint16_t pc)
{
  size_t i = (size_t)b->rank * k->n + agent;
  k->remote[i] = MAX(k->remote[i], clock);
  k->remote_pc[i] = pc;
}

/* A store to shared memory that is known through the next phase of an mbarrier, as bulk loads are. */
void race_store_async(Warp *w, const Inst *in, unsigned lane, const Place *to, unsigned bytes, Block *b,
                      const Mbarrier *m)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  Access a = {.warp = w, .in = in, .lane = lane, .block = to->block, .offset = (uint32_t)to->offset};
  a.bytes = bytes;
  a.kind = in->negate ? ACCESS_ATOMIC : ACCESS_WRITE; /* red.async */
  a.agent = mbarrier_agent(k, b, m);
  a.clock = (uint32_t)m->phase + 1;
  cells_touch(k, &a, in->negate);
  note_remote(k, b, a.agent, a.clock, index_of(w, in));
}

void race_copy_arrive(Warp *w, const Inst *in, unsigned lane)
{
  race_copy_wait(w, 1u << lane, 0, true);
}

/* --- the start and the end of a block --- */

bool race_knows_start(const Warp *w, const Block *b)
{
  const Clocks *k = clocks_of(w);
  const uint32_t *v = clock_of(k, agent_of(k, w))->v;
  for (unsigned i = 0; i < k->per_block; i++)
    if (v[b->rank * k->per_block + i]) return true;
  return false;
}

void race_remote(Warp *w, const Inst *in, const Block *b)
{
  Clocks *k = clocks_of(w);
  if (!k || b == w->block) return;
  unsigned agent = agent_of(k, w);
  note_remote(k, b, agent, clock_of(k, agent)->v[agent], index_of(w, in));
}

void race_block_exit(Warp *last)
{
  Clocks *k = clocks_of(last);
  const Block *b = last->block;
  if (!k) return;
  g_autoptr(Clock) whole = clock_new(k);
  const uint32_t *end = whole->v;
  for (unsigned i = 0; i < k->per_block; i++)
    clock_join(k, whole, clock_of(k, b->rank * k->per_block + i));
  for (unsigned agent = 0; agent < k->n; agent++) {
    size_t i = (size_t)b->rank * k->n + agent;
    if (k->remote[i] <= end[agent]) continue;
    const Inst *in = instruction_at(last, k->remote_pc[i]);
    if (!in) continue;
    if (agent >= 4 * k->warps)
      fault(last, in, 0, SIM_FAULT_BULK, 0, "the block ends without having waited for the data of this copy");
    else
      fault(last, in, 0, SIM_FAULT_CLUSTER, 0,
            "a block may end before this access to its shared memory by a peer: nothing orders them");
  }
}

/* --- bulk copies --- */

/* mbarrier.init goes through the generic proxy, the signal of a copy does not. */
static void check_initialised(const BulkOperation *op, Mbarrier *m)
{
  Warp *w = op->base.warp;
  if (m->fenced) return;
  m->fenced = true;
  static const char why[] = "no fence.mbarrier_init or fence.proxy.async by the thread that initialised the "
                            "mbarrier at %s%s, which this copy signals";
  if (w->block->cluster->run->ours) {
    fault_other(w, op->base.in, op->base.lane, SIM_FAULT_PROXY, m->offset, m->initialised, m->initialiser,
                why, shared_name(m->initialiser->block, m->offset).text, "");
    return;
  }
  g_autofree char *where = g_strdup_printf(" (line %u)", m->initialised->source->mark.line);
  finding(w, op->base.in, op->base.lane, SIM_FAULT_PROXY, m->offset, why,
          shared_name(m->initialiser->block, m->offset).text, where);
}

void race_bulk_issue(BulkOperation *op)
{
  Warp *w = op->base.warp;
  Clocks *k = clocks_of(w);
  if (!k) return;
  Access a = {.warp = w,
              .in = op->base.in,
              .lane = op->base.lane,
              .bytes = (uint32_t)op->extent,
              .proxy = PROXY_ASYNC};
  op->id = ++w->bulk_sequence;
  if (op->direction == COPY_SHARED_TO_GLOBAL) {
    GArray **stores = &k->stores[agent_of(k, w)];
    if (!*stores) *stores = g_array_new(FALSE, FALSE, sizeof(StoreGroup));
    StoreGroup s = {op->id, w->bulk_groups[a.lane], a.lane};
    g_array_append_val(*stores, s);
  }
  if (op->direction != COPY_GLOBAL_TO_SHARED) {
    a.block = op->from;
    a.offset = op->from_offset;
    a.kind = ACCESS_READ;
    a.agent = 3 * k->warps + agent_of(k, w);
    a.clock = (uint32_t)op->id;
    cells_touch(k, &a, false);
  }
  if (op->direction == COPY_SHARED_TO_GLOBAL) return;
  Cluster *c = w->block->cluster;
  a.kind = ACCESS_WRITE;
  a.offset = op->to_offset;
  for (unsigned i = 0; i < c->n_blocks; i++) {
    Block *b = &c->blocks[i];
    if (op->mask ? !(op->mask >> i & 1) : b != op->to) continue;
    if (op->mask && b != w->block) memory_peer(w, a.in, a.lane, b, op->to_offset, ACCESS_WRITE);
    Mbarrier *m =
        mbarrier_find(w, op->base.in, op->base.lane, op->mask ? b : op->barrier_block, op->barrier_offset);
    if (!m) continue;
    race_mbarrier_used(w, op->base.in, op->base.lane, m);
    check_initialised(op, m);
    layout_loaded(b, op);
    a.block = b;
    a.agent = mbarrier_agent(k, op->mask ? b : op->barrier_block, m);
    a.clock = (uint32_t)m->phase + 1;
    op->agent = a.agent;
    op->agent_clock = a.clock;
    cells_touch(k, &a, false);
    note_remote(k, b, a.agent, a.clock, index_of(w, a.in));
  }
}

/* The oldest store that is still unfinished bounds what is done; its source is free before its writes are. */
void race_bulk_wait(Warp *w, uint32_t mask, uint32_t keep, bool source_only)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  unsigned agent = agent_of(k, w);
  uint64_t done = w->bulk_sequence, written = done;
  for (unsigned i = 0; i < w->bulk->len; i++) {
    const BulkOperation *op = g_ptr_array_index(w->bulk, i);
    done = MIN(done, op->id - 1);
  }
  uint32_t *v = clock_of(k, agent)->v;
  v[3 * k->warps + agent] = MAX(v[3 * k->warps + agent], (uint32_t)done);
  GArray *stores = k->stores[agent];
  if (source_only || !stores) return;
  unsigned left = 0;
  for (unsigned i = 0; i < stores->len; i++) {
    StoreGroup s = g_array_index(stores, StoreGroup, i);
    if (mask >> s.lane & 1 && s.group + keep < w->bulk_groups[s.lane]) continue;
    written = MIN(written, s.id - 1);
    g_array_index(stores, StoreGroup, left++) = s;
  }
  g_array_set_size(stores, left);
  uint32_t *end = &v[bulk_write_agent(k, agent)];
  *end = MAX(*end, (uint32_t)written);
}

void race_async_global(BulkOperation *op, const Place *p, unsigned bytes, AccessKind kind)
{
  if (p->buffer && p->buffer->check) global_bulk(op, p, bytes, kind);
}

/* --- products --- */

void race_product_read(Warp *w, const Inst *in, const Product *p, uint32_t width, const uint32_t *offsets,
                       unsigned n, uint32_t *home, bool gaps)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  if (n) layout_product(w, in, width, offsets, n, home, gaps);
  Access a = {.warp = w, .in = in, .block = w->block, .bytes = 16, .kind = ACCESS_READ};
  a.proxy = PROXY_ASYNC;
  a.agent = 2 * k->warps + (agent_of(k, w) & ~3u);
  a.clock = p->group + 1;
  for (unsigned i = 0; i < n; i++) {
    a.offset = offsets[i];
    cells_touch(k, &a, false);
  }
}

void race_product_wait(Warp *w, uint32_t keep)
{
  Clocks *k = clocks_of(w);
  if (!k || w->product_groups < keep) return;
  uint32_t *v = clock_of(k, agent_of(k, w))->v + 2 * k->warps + (agent_of(k, w) & ~3u);
  *v = MAX(*v, w->product_groups - keep);
}
