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
  k->fences = g_malloc0(k->warps * sizeof k->fences[0]);
  k->copies_synced = g_new0(uint32_t, k->warps);
  k->partial = g_malloc0(k->warps * sizeof k->partial[0]);
  k->n_partial = g_new0(unsigned, k->warps);
  k->barrier = g_malloc0((size_t)c->n_blocks * 16 * k->stride);
  k->waiting = g_malloc0(c->n_blocks * sizeof k->waiting[0]);
  k->uses = g_malloc0(c->n_blocks * sizeof k->uses[0]);
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
  g_free(k->fences);
  g_free(k->partial);
  g_free(k->n_partial);
  g_free(k->barrier);
  g_free(k->waiting);
  g_free(k->uses);
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

void race_read_rows(Warp *w, const Inst *in, unsigned lane, const uint32_t *offsets, unsigned n)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  const unsigned agent = agent_of(k, w);
  const Access a = {.warp = w,
                    .in = in,
                    .lane = lane,
                    .block = w->block,
                    .bytes = 16,
                    .kind = ACCESS_READ,
                    .agent = agent,
                    .clock = clock_of(k, agent)->v[agent]};
  for (unsigned i = 0; i < n; i++)
    check_mbarriers(w, in, lane + i, &(Place){.block = w->block, .offset = offsets[i]}, 16, ACCESS_READ);
  cells_read_rows(k, &a, offsets, n);
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
