/* Asynchronous agents: cp.async, st.async, bulk copies, products. See race.h. */
#include "simulator/race_cells.h"
#include "simulator/race_clock.h"

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
  cells_read_rows(k, &a, offsets, n);
}

void race_product_wait(Warp *w, uint32_t keep)
{
  Clocks *k = clocks_of(w);
  if (!k || w->product_groups < keep) return;
  uint32_t *v = clock_of(k, agent_of(k, w))->v + 2 * k->warps + (agent_of(k, w) & ~3u);
  *v = MAX(*v, w->product_groups - keep);
}
