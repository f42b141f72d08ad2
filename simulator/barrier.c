/* Barriers of a block, of a cluster, and in shared memory (mbarrier); fences. */
#include "simulator/check.h"
#include "simulator/exec.h"
#include "simulator/race.h"
#include <string.h>

enum { BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR };

static unsigned exited_warps(const Block *b)
{
  return b->n_warps - b->live_warps;
}

static bool barrier_complete(Warp *w, const Inst *in, Barrier *b)
{
  unsigned missing = b->full ? exited_warps(w->block) * LANES : 0;
  if (!b->arrived || b->arrived + missing < b->expected) return false;
  if (missing && in)
    finding(w, in, 0, SIM_FAULT_BARRIER, 0, "%u warps have exited before a barrier of the whole block",
            missing / LANES);
  b->generation++;
  b->arrived = 0;
  b->last_popc = b->result_popc;
  b->last_and = b->result_and;
  b->last_or = b->result_or;
  b->last_undefined = b->undefined;
  b->result_popc = b->result_or = 0;
  b->result_and = 1;
  b->undefined = false;
  memset(b->partial, 0, sizeof b->partial);
  race_barrier(w->block, b);
  cluster_progress(w->block->cluster);
  return true;
}

/* A warp counts as a whole once all its lanes that have not exited have arrived; until then lane by lane. */
static void complete_warp(const Warp *w, Barrier *b)
{
  uint32_t *partial = &b->partial[w->id];
  if (!*partial || w->live & ~*partial) return;
  b->arrived += LANES - (uint32_t)__builtin_popcount(*partial);
  *partial = 0;
}

static void arrive(const Warp *w, Barrier *b, uint32_t mask)
{
  b->arrived += (uint32_t)__builtin_popcount(mask);
  b->partial[w->id] |= mask;
  complete_warp(w, b);
}

/* a[0] number, a[1] count, a[2] predicate of a reduction; d[0] its result */
static Step run_barrier(Warp *w, const Inst *in, uint32_t mask)
{
  unsigned lane = first_lane(mask);
  uint32_t id = lane_u32(w, in->a[0], lane);
  if (w->undefined) {
    check_value(w, in, in->a[0], mask, "the number of a barrier");
    check_value(w, in, in->a[1], mask, "the thread count of a barrier");
  }
  if (id > 15) {
    fault(w, in, lane, SIM_FAULT_OPERAND, 0, "barrier %u; there are 16", id);
    return STEP_STOP;
  }
  Barrier *b = &w->block->barriers[id];
  Group *g = current_group(w);
  if (g->resumed) { /* second run of a reduction: the result is there */
    uint32_t r = in->operation == BAR_POPC  ? b->last_popc
                 : in->operation == BAR_AND ? b->last_and
                                            : b->last_or;
    if (in->operation == BAR_POPC) {
      for_lanes(l, mask)((uint32_t *)operand(w, in->d[0]))[l] = r;
    } else {
      set_predicate(w, in->d[0], mask, r ? FULL : 0);
    }
    set_undefined(w, in->d[0], mask, b->last_undefined ? FULL : 0);
    return STEP_NEXT;
  }
  bool full = in->a[1] == OPERAND_NONE;
  uint32_t count = full ? w->block->n_warps * LANES : lane_u32(w, in->a[1], lane);
  if (!count || count % LANES)
    fault(w, in, lane, SIM_FAULT_BARRIER, 0,
          "the thread count %u is not a positive multiple of the warp size", count);
  if (b->arrived && b->expected != count)
    fault(w, in, lane, SIM_FAULT_BARRIER, 0,
          "barrier %u is used with %u threads, but others wait there for %u", id, count, b->expected);
  if (!b->arrived) b->result_and = 1;
  b->expected = count;
  b->full = full;
  if (in->a[2] != OPERAND_NONE) {
    uint32_t p = predicate(w, in->a[2]);
    if (in->negate) p = ~p;
    b->result_popc += (uint32_t)__builtin_popcount(p & mask);
    b->result_and &= (p & mask) == mask;
    b->result_or |= (p & mask) != 0;
    b->undefined |= (undefined_lanes(w, in->a[2]) & mask) != 0;
  }
  arrive(w, b, mask);
  if (b->arrived > b->expected)
    fault(w, in, lane, SIM_FAULT_BARRIER, 0, "%u threads at barrier %u, which counts %u", b->arrived, id,
          b->expected);
  race_barrier_arrive(w, in, lane, b, in->operation != BAR_ARRIVE);
  uint64_t generation = b->generation;
  bool done = barrier_complete(w, in, b);
  if (in->operation == BAR_ARRIVE) return STEP_NEXT;
  if (in->operation == BAR_SYNC)
    return done ? STEP_NEXT : wait_for(w, WAIT_BARRIER, w->block, id, generation, STEP_WAIT_NEXT);
  return wait_for(w, WAIT_BARRIER, w->block, id, generation, STEP_WAIT);
}

void decode_barrier(Decoder *d, int always_aligned)
{
  static const char *const names[] = {"sync", "arrive", "red", NULL};
  static const char *const reductions[] = {"popc", "and", "or", NULL};
  Inst *in = d->in;
  int which = 0, reduction = -1;
  take(d, "cta");
  if (!take_one(d, names, &which)) decode_wrong(d, "sync, arrive or red is missing");
  bool aligned = take(d, "aligned") || always_aligned;
  if (which == 2 && !take_one(d, reductions, &reduction)) decode_wrong(d, "the reduction is missing");
  in->operation = (uint8_t)(which + MAX(reduction, 0));
  unsigned i = 0, n = operand_count(d);
  if (which == 2) {
    PtxType type = need_type(d);
    in->d[0] = destination_at(d, i++, type);
    n--;
  }
  in->a[0] = source_at(d, i++, TYPE_U32);
  if (i < n) in->a[1] = source_at(d, i++, TYPE_U32);
  if (which == 2) {
    in->a[2] = source_at(d, i, TYPE_PRED);
    in->negate = operand_at(d, i)->negated;
  }
  if (aligned) in->flags |= INST_ALIGNED;
  in->run = run_barrier;
}

/* --- cluster barrier --- */

static void cluster_complete(Cluster *c)
{
  ClusterBarrier *b = &c->barrier;
  if (!b->arrived || b->arrived < b->expected) return;
  b->arrived = 0;
  b->generation++;
  b->expected = 0;
  for (unsigned i = 0; i < c->n_blocks; i++)
    for (unsigned k = 0; k < c->blocks[i].n_warps; k++) {
      b->expected += (uint32_t)__builtin_popcount(c->blocks[i].warps[k].live);
      c->blocks[i].warps[k].cluster_pending = 0;
    }
  race_cluster_barrier(c);
  cluster_progress(c);
}

static Step run_cluster_barrier(Warp *w, const Inst *in, uint32_t mask)
{
  Cluster *c = w->block->cluster;
  ClusterBarrier *b = &c->barrier;
  unsigned lane = first_lane(mask);
  if (!in->operation) {
    if (w->cluster_arrived & mask)
      fault(w, in, lane, SIM_FAULT_CLUSTER, 0,
            "second arrival at the cluster barrier without a wait between");
    w->cluster_arrived |= mask;
    w->cluster_pending |= mask;
    race_cluster_arrive(w, in->negate);
    b->arrived += (uint32_t)__builtin_popcount(mask);
    cluster_complete(c);
    return STEP_NEXT;
  }
  if ((w->cluster_arrived & mask) != mask)
    fault(w, in, lane, SIM_FAULT_CLUSTER, 0, "wait at the cluster barrier without an arrival");
  if (w->cluster_pending & mask) return wait_for(w, WAIT_CLUSTER, NULL, 0, b->generation, STEP_WAIT);
  w->cluster_arrived &= ~mask;
  race_cluster_wait(w);
  return STEP_NEXT;
}

void decode_cluster_barrier(Decoder *d, int argument)
{
  static const char *const names[] = {"arrive", "wait", NULL};
  static const char *const orders[] = {"release", "relaxed", "acquire", NULL};
  int which = 0;
  if (!take_one(d, names, &which)) decode_wrong(d, "arrive or wait is missing");
  int order = 0;
  take_one(d, orders, &order);
  d->in->negate = order == 1; /* relaxed: arrives without releasing */
  d->in->operation = (uint8_t)which;
  if (take(d, "aligned")) d->in->flags |= INST_ALIGNED;
  d->in->run = run_cluster_barrier;
}

/* What is still expected may be of copies in flight, which are reported; what came too much is wrong. */
static void mbarrier_block_exit(Warp *last)
{
  const Block *b = last->block;
  for (unsigned i = 0; i < b->mbarriers->len; i++) {
    const Mbarrier *m = &g_array_index(b->mbarriers, Mbarrier, i);
    if (m->live && m->transactions < 0)
      fault(last, m->initialised, 0, SIM_FAULT_MBARRIER, m->offset,
            "the block ends, and %lld bytes came to the mbarrier at %s that no expect_tx announced",
            (long long)-m->transactions, shared_name(b, m->offset).text);
  }
}

void barrier_thread_exit(Warp *w, uint32_t lanes)
{
  Cluster *c = w->block->cluster;
  ClusterBarrier *cb = &c->barrier;
  cb->expected -= (uint32_t)__builtin_popcount(lanes & ~w->cluster_pending);
  cluster_progress(c);
  cluster_complete(c);
  Block *b = w->block;
  b->live_warps -= !w->live;
  for (unsigned i = 0; i < 16; i++) {
    complete_warp(w, &b->barriers[i]);
    barrier_complete(w, NULL, &b->barriers[i]);
  }
  if (w->live) return;
  if (b->live_warps) return;
  mbarrier_block_exit(w);
  race_block_exit(w);
  async_block_exit(b);
  launch_triggered(b);
  c->live_blocks--;
}

/* --- mbarrier --- */

static uint64_t mbarrier_word(const Mbarrier *m)
{
  return 0x6d62617272696572ull ^ m->offset; /* opaque to the kernel; overwritten means broken */
}

Mbarrier *mbarrier_find(Warp *w, const Inst *in, unsigned lane, Block *b, uint32_t offset)
{
  for (unsigned i = 0; i < b->mbarriers->len; i++) {
    Mbarrier *m = &g_array_index(b->mbarriers, Mbarrier, i);
    if (m->offset != offset || !m->live) continue;
    uint64_t word;
    memcpy(&word, b->shared + offset, 8);
    if (word == mbarrier_word(m)) return m;
    fault(w, in, lane, SIM_FAULT_MBARRIER, offset, "the mbarrier at %s has been overwritten by other data",
          shared_name(b, offset).text);
    word = mbarrier_word(m);
    memcpy(b->shared + offset, &word, 8);
    return m;
  }
  fault(w, in, lane, SIM_FAULT_MBARRIER, offset, "there is no initialised mbarrier at %s",
        shared_name(b, offset).text);
  return NULL;
}

void mbarrier_ordinary_access(Warp *w, const Inst *in, unsigned lane, const Block *b, uint64_t offset,
                              unsigned bytes, AccessKind kind)
{
  for (unsigned i = 0; i < b->mbarriers->len; i++) {
    const Mbarrier *m = &g_array_index(b->mbarriers, Mbarrier, i);
    if (!m->live || offset >= m->offset + 8ull || offset + bytes <= m->offset) continue;
    fault_other(w, in, lane, SIM_FAULT_MBARRIER, offset, m->initialised, NULL,
                "%s of the mbarrier at %s: only mbarrier instructions may touch one that is alive",
                kind == ACCESS_READ ? "read" : "write", shared_name(b, m->offset).text);
    return;
  }
}

static void mbarrier_complete(Warp *w, Mbarrier *m, Block *b)
{
  if (m->pending || m->transactions) return;
  m->phase++;
  m->pending = m->count;
  race_mbarrier_complete(b, m);
  cluster_progress(b->cluster);
}

void mbarrier_arrive(Warp *w, const Inst *in, Mbarrier *m, Block *b, uint32_t count, uint32_t lanes)
{
  if (count > m->pending) {
    fault(w, in, 0, SIM_FAULT_MBARRIER, m->offset,
          "%u arrivals at the mbarrier at %s, which expects %u more in this phase (count %u)", count,
          shared_name(b, m->offset).text, m->pending, m->count);
    count = m->pending;
  }
  if (m->phase > m->observed)
    finding(w, in, 0, SIM_FAULT_MBARRIER, m->offset,
            "arrival at the mbarrier at %s, although nobody has seen its last phase complete",
            shared_name(b, m->offset).text);
  race_mbarrier_arrive(w, in, b, m, lanes);
  m->pending -= count;
  m->last_arrival = w;
  mbarrier_complete(w, m, b);
}

void mbarrier_transactions(Warp *w, const Inst *in, Mbarrier *m, Block *b, int64_t bytes)
{
  m->transactions += bytes;
  if (m->transactions > 0xfffff || m->transactions < -0xfffff)
    fault(w, in, 0, SIM_FAULT_MBARRIER, m->offset, "more than 2^20 - 1 bytes pending at the mbarrier at %s",
          shared_name(b, m->offset).text);
  mbarrier_complete(w, m, b);
}

static void mbarrier_expect(Warp *w, const Inst *in, unsigned lane, Mbarrier *m, Block *b, uint32_t bytes)
{
  if (b != w->block && !m->pending)
    fault(w, in, lane, SIM_FAULT_MBARRIER, m->offset, "expect_tx after the last arrival of the phase");
  m->transactions += bytes;
  if (m->transactions > 0xfffff)
    fault(w, in, lane, SIM_FAULT_MBARRIER, m->offset,
          "more than 2^20 - 1 bytes expected at the mbarrier at %s", shared_name(b, m->offset).text);
  mbarrier_complete(w, m, b);
}

static bool lane_mbarrier(Warp *w, const Inst *in, unsigned lane, Block **block, uint32_t *offset)
{
  uint64_t address = in->wide ? lane_u64(w, in->a[0], lane) + (uint64_t)in->immediate
                              : (uint32_t)(lane_u32(w, in->a[0], lane) + (uint32_t)in->immediate);
  Place p = memory_place(w, in, lane, (Space)in->space, address, 8, ACCESS_ATOMIC);
  if (!p.at) return false;
  if (!p.block) {
    fault(w, in, lane, SIM_FAULT_MBARRIER, address, "an mbarrier must be in shared memory");
    return false;
  }
  *block = p.block;
  *offset = (uint32_t)p.offset;
  return true;
}

enum { MB_INIT, MB_INVAL, MB_ARRIVE, MB_DROP, MB_EXPECT, MB_COMPLETE, MB_TEST, MB_TRY, MB_PENDING };

static void mbarrier_init(Warp *w, const Inst *in, unsigned lane, Block *b, uint32_t offset, uint32_t count)
{
  if (!count || count > 0xfffff)
    fault(w, in, lane, SIM_FAULT_MBARRIER, offset, "an mbarrier with a count of %u", count);
  Mbarrier *m = NULL;
  for (unsigned i = 0; i < b->mbarriers->len && !m; i++)
    if (g_array_index(b->mbarriers, Mbarrier, i).offset == offset)
      m = &g_array_index(b->mbarriers, Mbarrier, i);
  if (m && m->live && memcmp(b->shared + offset, &(uint64_t){mbarrier_word(m)}, 8) == 0)
    fault_other(w, in, lane, SIM_FAULT_MBARRIER, offset, m->initialised, w,
                "the mbarrier at %s is initialised while it is alive", shared_name(b, offset).text);
  if (!m) {
    g_array_set_size(b->mbarriers, b->mbarriers->len + 1);
    m = &g_array_index(b->mbarriers, Mbarrier, b->mbarriers->len - 1);
    m->index = b->mbarriers->len - 1;
  }
  b->mbarrier_begin = b->mbarrier_end ? MIN(b->mbarrier_begin, offset) : offset;
  b->mbarrier_end = MAX(b->mbarrier_end, offset + 8ull);
  uint64_t base = m->phase + (m->phase & 1); /* phases go on counting, so that clocks never run back */
  *m = (Mbarrier){.offset = offset,
                  .count = count,
                  .pending = count,
                  .live = true,
                  .initialised = in,
                  .index = m->index,
                  .phase = base,
                  .observed = base,
                  .check = m->check};
  uint64_t word = mbarrier_word(m);
  memcpy(b->shared + offset, &word, 8);
  Place p = {.at = b->shared + offset, .block = b, .offset = offset, .defined = b->defined};
  race_access(w, in, lane, &p, 8, ACCESS_WRITE, false);
  race_mbarrier_initialised(w, m);
  memory_define(&p, 8, true);
}

/* Lanes that arrive at the same mbarrier as this one in the same instruction. */
static uint32_t same_barrier(const Warp *w, const Inst *in, uint32_t mask, unsigned lane)
{
  uint32_t same = 0;
  for_lanes(l, mask)
  {
    bool equal = in->wide ? lane_u64(w, in->a[0], l) == lane_u64(w, in->a[0], lane)
                          : lane_u32(w, in->a[0], l) == lane_u32(w, in->a[0], lane);
    same |= (uint32_t)equal << l;
  }
  return same;
}

static Step run_mbarrier(Warp *w, const Inst *in, uint32_t mask)
{
  if (w->undefined) {
    check_value(w, in, in->a[0], mask, "the address of an mbarrier");
    check_value(w, in, in->a[1], mask, "a count or a number of bytes");
  }
  for_lanes(l, mask)
  {
    Block *b;
    uint32_t offset;
    if (!lane_mbarrier(w, in, l, &b, &offset)) continue;
    uint32_t value = in->a[1] == OPERAND_NONE ? 1 : lane_u32(w, in->a[1], l);
    if (in->operation == MB_INIT) {
      mbarrier_init(w, in, l, b, offset, value);
      continue;
    }
    Mbarrier *m = mbarrier_find(w, in, l, b, offset);
    if (!m) continue;
    race_remote(w, in, b);
    race_mbarrier_used(w, in, l, m);
    Place p = {.at = b->shared + offset, .block = b, .offset = offset, .defined = b->defined};
    race_access(w, in, l, &p, 8, ACCESS_ATOMIC, true);
    uint64_t state = m->phase << 20 | m->pending;
    switch (in->operation) {
    case MB_INVAL: m->live = false; break;
    case MB_ARRIVE:
    case MB_DROP:
      if (in->negate) mbarrier_expect(w, in, l, m, b, value);
      if (in->operation == MB_DROP) m->count -= MIN(m->count, in->negate ? 1 : value);
      mbarrier_arrive(w, in, m, b, in->negate ? 1 : value, same_barrier(w, in, mask, l));
      break;
    case MB_EXPECT: mbarrier_expect(w, in, l, m, b, value); break;
    default: mbarrier_transactions(w, in, m, b, -(int64_t)value); break;
    }
    if (in->d[0] != OPERAND_NONE) ((uint64_t *)operand(w, in->d[0]))[l] = state;
  }
  return STEP_NEXT;
}

/* Nearly always all lanes wait for the same: then one stands for all. */
static bool same_wait(const Warp *w, const Inst *in, uint32_t mask)
{
  unsigned first = first_lane(mask);
  for_lanes(l, mask)
  {
    if (in->wide ? lane_u64(w, in->a[0], l) != lane_u64(w, in->a[0], first)
                 : lane_u32(w, in->a[0], l) != lane_u32(w, in->a[0], first))
      return false;
    if (in->negate ? lane_u32(w, in->a[1], l) != lane_u32(w, in->a[1], first)
                   : lane_u64(w, in->a[1], l) != lane_u64(w, in->a[1], first))
      return false;
  }
  return true;
}

static Step run_mbarrier_wait(Warp *w, const Inst *in, uint32_t mask)
{
  Cluster *c = w->block->cluster;
  if (w->undefined) {
    check_value(w, in, in->a[0], mask, "the address of an mbarrier");
    check_value(w, in, in->a[1], mask, "the phase that is waited for");
  }
  uint32_t done = 0;
  Block *block = NULL;
  uint32_t at = 0;
  uint64_t phase = 0;
  uint32_t lanes = same_wait(w, in, mask) ? mask & -mask : mask;
  for_lanes(l, lanes)
  {
    Block *b;
    uint32_t offset;
    if (!lane_mbarrier(w, in, l, &b, &offset)) {
      done |= 1u << l;
      continue;
    }
    Mbarrier *m = mbarrier_find(w, in, l, b, offset);
    if (!m) {
      done |= 1u << l; /* reported; go on */
      continue;
    }
    race_mbarrier_used(w, in, l, m);
    if (b != w->block) fault(w, in, l, SIM_FAULT_MBARRIER, offset, "waiting on the mbarrier of a peer block");
    uint64_t v = in->negate ? lane_u32(w, in->a[1], l) & 1 : lane_u64(w, in->a[1], l) >> 20;
    bool over = in->negate ? (m->phase & 1) != v : m->phase > v;
    if (over) {
      done |= 1u << l;
      m->observed = m->phase;
      race_mbarrier_wait(w, in, b, m);
    } else if (!block) {
      block = b;
      at = offset;
      phase = m->phase;
    }
  }
  if (done && lanes != mask) done = mask;
  Group *g = current_group(w);
  bool spurious =
      c->run->schedule > 1 && !g->resumed && in->operation == MB_TRY && cluster_random(c) % 8 == 0;
  /* the first attempt fails at once, so that a kernel that ignores the answer is not saved by a wait it never
   * made */
  uint32_t here = g->pc + 1;
  bool first = in->operation == MB_TRY && !done && g->tried != here;
  g->tried = first ? here : 0;
  if (!done && in->operation == MB_TRY && !spurious && !first)
    return wait_for(w, WAIT_MBARRIER, block, at, phase, STEP_WAIT);
  set_predicate(w, in->d[0], mask, done);
  return done || spurious || first ? STEP_NEXT : poll_again(w, in);
}

static Step run_pending_count(Warp *w, const Inst *in, uint32_t mask)
{
  for_lanes(l, mask)((uint32_t *)operand(w, in->d[0]))[l] = (uint32_t)lane_u64(w, in->a[0], l) & 0xfffff;
  return STEP_NEXT;
}

static void mbarrier_address(Decoder *d, unsigned i)
{
  bool wide;
  Space space = d->in->space;
  d->in->a[0] = address(d, operand_at(d, i), &d->in->immediate, &wide, &space);
  d->in->wide = wide;
  d->in->space = (uint8_t)space;
}

void decode_mbarrier(Decoder *d, int argument)
{
  static const char *const names[] = {"init",        "inval",     "arrive",   "arrive_drop",   "expect_tx",
                                      "complete_tx", "test_wait", "try_wait", "pending_count", NULL};
  Inst *in = d->in;
  int which = -1;
  for (int i = 0; names[i]; i++)
    if (d->source->n_parts > 1 && strcmp(d->source->parts[1], names[i]) == 0) which = i;
  if (which < 0) {
    decode_wrong(d, "unknown mbarrier operation");
    return;
  }
  d->taken |= 2;
  in->operation = (uint8_t)which;
  in->synchronises = true;
  take_order(d, ORDER_BOTH);
  in->space = (uint8_t)take_space(d);
  take(d, "b64");
  in->run = run_mbarrier;
  unsigned n = operand_count(d);
  switch (which) {
  case MB_PENDING:
    in->d[0] = destination_at(d, 0, TYPE_U32);
    in->a[0] = source_at(d, 1, TYPE_B64);
    in->run = run_pending_count;
    return;
  case MB_TEST:
  case MB_TRY:
    in->negate = take(d, "parity");
    in->d[0] = destination_at(d, 0, TYPE_PRED);
    mbarrier_address(d, 1);
    in->a[1] = source_at(d, 2, in->negate ? TYPE_U32 : TYPE_B64);
    if (n > 3) source_at(d, 3, TYPE_U32);
    in->run = run_mbarrier_wait;
    return;
  case MB_ARRIVE:
  case MB_DROP: {
    in->negate = take(d, "expect_tx");
    take(d, "noComplete");
    unsigned i = 0;
    if (operand_at(d, 0)->kind != OPERAND_ADDRESS) {
      if (operand_at(d, 0)->kind != OPERAND_SINK) in->d[0] = destination_at(d, 0, TYPE_B64);
      i++;
    }
    mbarrier_address(d, i);
    if (n > i + 1) in->a[1] = source_at(d, i + 1, TYPE_U32);
    if (in->negate && n <= i + 1) decode_wrong(d, "the byte count is missing");
    return;
  }
  default:
    mbarrier_address(d, 0);
    if (which != MB_INVAL) in->a[1] = source_at(d, 1, TYPE_U32);
    return;
  }
}

/* --- fences --- */

/* Makes the mbarriers that the warp has initialised visible to copies. in->wide: fence.mbarrier_init */
static void fence_mbarriers(Warp *w, const Inst *in)
{
  if (!in->wide && !(in->operation & 1)) return;
  GArray *all = w->block->mbarriers;
  for (unsigned i = 0; i < all->len; i++) {
    Mbarrier *m = &g_array_index(all, Mbarrier, i);
    if (m->initialiser == w) m->fenced = true;
  }
}

static Step run_fence(Warp *w, const Inst *in, uint32_t mask)
{
  fence_mbarriers(w, in);
  race_fence(w, in, mask);
  return STEP_NEXT;
}

/* operation: 1 = a proxy fence for shared memory, 2 = for global, 3 = both; 0: others */
void decode_fence(Decoder *d, int argument)
{
  bool proxy = take(d, "proxy");
  if (proxy && take(d, "async"))
    d->in->operation = 3;
  else if (proxy && take(d, "async::generic"))
    d->in->operation = 0;
  take_order(d, strcmp(d->source->parts[0], "membar") == 0 ? ORDER_BOTH : ORDER_WEAK);
  d->in->wide = take(d, "mbarrier_init");
  static const char *const known[] = {"alias",
                                      "tensormap::generic",
                                      "generic",
                                      "sync_restrict::shared::cluster",
                                      "sync_restrict::shared::cta",
                                      NULL};
  while (take_one(d, known, NULL))
    ;
  static const char *const spaces[] = {"shared::cta", "shared::cluster", "global", NULL};
  int which;
  if (d->in->operation == 3 && take_one(d, spaces, &which)) d->in->operation = which == 2 ? 2 : 1;
  for (unsigned i = 0; i < operand_count(d); i++) {
    int64_t offset;
    bool wide;
    if (operand_at(d, i)->kind == OPERAND_ADDRESS) address(d, operand_at(d, i), &offset, &wide, NULL);
  }
  d->in->run = run_fence;
}
