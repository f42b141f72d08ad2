/* See race.h. */
#include "simulator/race.h"
#include <string.h>

#define READERS       6
#define BLOCK_OBJECTS 64 /* mbarriers per block with a clock of their own; more share */

enum { FLAG_ATOMIC = 1 };

typedef struct Reader {
  uint16_t agent, pc; /* pc: index of the instruction, saturated */
  uint32_t clock;
} Reader;

/* What is known of four bytes of shared memory. */
typedef struct Cell {
  uint32_t clock; /* of the last write */
  uint16_t agent, pc;
  uint8_t bytes, flags; /* bytes the last write covered, 0: none yet */
  uint8_t n_readers;
  uint8_t unused;
  uint32_t lanes; /* that made the last write, if a warp did by itself */
  Reader readers[READERS];
} Cell;
G_STATIC_ASSERT(sizeof(Cell) == 64);

/* A lane arrives for its warp without bar.warp.sync before: the other lanes' latest writes are not released.
 * A clock value names one release, so whoever knows a writer up to exactly this clock knows it through this
 * release. */
#define PARTIAL_RELEASES 16
typedef struct PartialRelease {
  uint32_t clock, synced,
      excluded; /* synced: what the warp wrote from this clock on concerns each lane alone */
} PartialRelease;

typedef struct Clocks {
  uint32_t *synced; /* per warp: its clock at the last barrier of the whole warp */
  PartialRelease (*partial)[PARTIAL_RELEASES];
  unsigned *n_partial;
  unsigned warps, per_block, n; /* warps of the cluster, of a block, components */
  uint32_t *warp;               /* [warps][2 n]: clock, then fenced clock */
  uint32_t *barrier;            /* [blocks][16][2 n] */
  uint64_t (*waiting)[16];      /* per block and barrier: warps that will wake */
  uint32_t *cluster, *cluster_done;
  uint32_t
      *remote; /* [blocks][n]: what of other blocks has touched the block's memory; its end must come after */
  uint16_t *remote_pc;
  GHashTable *locations; /* clocks of memory words used for synchronisation */
} Clocks;

static inline Clocks *clocks_of(const Warp *w)
{
  return w->block->cluster->check;
}

static inline unsigned agent_of(const Clocks *k, const Warp *w)
{
  return w->block->rank * k->per_block + w->id;
}

static inline uint32_t *clock_of(const Clocks *k, unsigned warp)
{
  return k->warp + (size_t)warp * 2 * k->n;
}

static void join(const Clocks *k, uint32_t *into, const uint32_t *from)
{
  for (unsigned i = 0; i < 2 * k->n; i++)
    into[i] = MAX(into[i], from[i]);
}

static unsigned mbarrier_agent(const Clocks *k, const Block *b, const Mbarrier *m)
{
  return 4 * k->warps + b->rank * BLOCK_OBJECTS + m->index % BLOCK_OBJECTS;
}

void race_cluster_init(Cluster *c)
{
  if (!c->run->track_races) return;
  Clocks *k = g_new0(Clocks, 1);
  k->per_block = c->blocks[0].n_warps;
  k->warps = c->n_blocks * k->per_block;
  k->n = 4 * k->warps + c->n_blocks * BLOCK_OBJECTS;
  k->warp = g_new0(uint32_t, (size_t)k->warps * 2 * k->n);
  for (unsigned i = 0; i < k->warps; i++)
    clock_of(k, i)[i] = 1;
  k->synced = g_new0(uint32_t, k->warps);
  k->partial = g_malloc0(k->warps * sizeof k->partial[0]);
  k->n_partial = g_new0(unsigned, k->warps);
  k->barrier = g_new0(uint32_t, (size_t)c->n_blocks * 16 * 2 * k->n);
  k->waiting = g_malloc0(c->n_blocks * sizeof k->waiting[0]);
  k->remote = g_new0(uint32_t, (size_t)c->n_blocks * k->n);
  k->remote_pc = g_new0(uint16_t, (size_t)c->n_blocks * k->n);
  k->cluster = g_new0(uint32_t, 2 * k->n);
  k->cluster_done = g_new0(uint32_t, 2 * k->n);
  k->locations = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  c->check = k;
  for (unsigned i = 0; i < c->n_blocks; i++)
    c->blocks[i].check = g_new0(Cell, c->blocks[i].shared_bytes / 4 + 8);
}

void race_mbarrier_free(Mbarrier *m)
{
  g_free(m->check);
}

void race_cluster_free(Cluster *c)
{
  Clocks *k = c->check;
  if (!k) return;
  for (unsigned i = 0; i < c->n_blocks; i++) {
    g_free(c->blocks[i].check);
    for (unsigned m = 0; m < c->blocks[i].mbarriers->len; m++)
      race_mbarrier_free(&g_array_index(c->blocks[i].mbarriers, Mbarrier, m));
  }
  g_free(k->warp);
  g_free(k->synced);
  g_free(k->partial);
  g_free(k->n_partial);
  g_free(k->barrier);
  g_free(k->waiting);
  g_free(k->remote);
  g_free(k->remote_pc);
  g_free(k->cluster);
  g_free(k->cluster_done);
  g_hash_table_destroy(k->locations);
  g_free(k);
}

/* --- one access to shared memory --- */

typedef enum { PROXY_GENERIC, PROXY_ASYNC } Proxy;

typedef struct Access {
  Warp *warp; /* who issues it */
  const Inst *in;
  unsigned lane;
  Block *block;
  uint32_t offset, bytes;
  AccessKind kind;
  Proxy proxy;
  unsigned agent;
  uint32_t clock;
} Access;

static const Inst *instruction_at(const Warp *w, uint16_t pc)
{
  const Kernel *k = w->block->cluster->run->kernel;
  return pc < k->n_code ? &k->code[pc] : NULL;
}

static uint16_t index_of(const Warp *w, const Inst *in)
{
  size_t i = (size_t)(in - w->block->cluster->run->kernel->code);
  return (uint16_t)MIN(i, 65535);
}

static const Warp *author(const Clocks *k, const Access *a, unsigned agent)
{
  if (agent >= 4 * k->warps) return NULL;
  const Cluster *c = a->warp->block->cluster;
  agent %= k->warps;
  return &c->blocks[agent / k->per_block].warps[agent % k->per_block];
}

static const char *agent_name(const Clocks *k, unsigned agent)
{
  static const char *const names[] = {"", "cp.async ", "wgmma ", "bulk store "};
  return agent >= 4 * k->warps ? "bulk load " : names[agent / k->warps];
}

static void report(const Clocks *k, const Access *a, SimFaultKind kind, bool is_finding, unsigned agent,
                   uint16_t pc, bool other_writes, const char *why)
{
  const char *what = a->kind == ACCESS_READ ? "read" : "write";
  const char *other = other_writes ? "write" : "read";
  uint32_t address = a->offset;
  if (is_finding) {
    const Inst *in = instruction_at(a->warp, pc);
    finding(a->warp, a->in, a->lane, kind, address, "%s%s of shared 0x%x and %s%s at line %u: %s",
            agent_name(k, a->agent), what, address, agent_name(k, agent), other,
            in ? in->source->mark.line : 0, why);
    return;
  }
  fault_other(a->warp, a->in, a->lane, kind, address, instruction_at(a->warp, pc), author(k, a, agent),
              "%s%s of shared 0x%x and %s%s: %s", agent_name(k, a->agent), what, address,
              agent_name(k, agent), other, why);
}

/* Was a write of this lane left out by the release through which its warp is known? */
static bool left_out(const Clocks *k, unsigned agent, uint32_t known, uint32_t clock, uint32_t lanes)
{
  for (unsigned i = 0; i < MIN(k->n_partial[agent], PARTIAL_RELEASES); i++) {
    const PartialRelease *p = &k->partial[agent][i];
    if (p->clock == known) return clock >= p->synced && lanes & p->excluded;
  }
  return false;
}

/* Has the access (agent, clock) happened before a, and if proxies differ, been fenced? */
static void check_order(const Clocks *k, const Access *a, unsigned agent, uint32_t clock, uint16_t pc,
                        bool other_writes)
{
  const uint32_t *v = clock_of(k, agent_of(k, a->warp));
  if (agent == a->agent && a->proxy == PROXY_ASYNC && a->kind == ACCESS_READ && !other_writes) return;
  bool same = a->kind == ACCESS_SAME && other_writes;
  if (clock > v[agent]) {
    report(k, a, SIM_FAULT_RACE, same, agent, pc, other_writes, "nothing orders them");
    return;
  }
  bool generic = agent < 2 * k->warps; /* cp.async that is not bulk goes through the generic proxy, too */
  if (a->proxy == PROXY_GENERIC || !generic || clock <= v[k->n + agent]) return;
  if (other_writes)
    report(k, a, SIM_FAULT_PROXY, false, agent, pc, true,
           "the writer has not executed fence.proxy.async between its write and the synchronisation");
  else
    report(k, a, SIM_FAULT_PROXY_WAR, !a->warp->block->cluster->run->ours, agent, pc, false,
           "no fence.proxy.async between the read and the refill");
}

static void note_reader(const Clocks *k, Cell *cell, const Access *a)
{
  const uint32_t *v = clock_of(k, agent_of(k, a->warp));
  unsigned out = 0;
  for (unsigned i = 0; i < cell->n_readers; i++) {
    Reader *r = &cell->readers[i];
    /* what happened before this read need not be remembered beside it, unless a fence is still owed */
    bool covered = r->agent == a->agent ||
                   (r->clock <= v[r->agent] && (r->agent >= k->warps || a->agent >= 2 * k->warps));
    if (!covered) cell->readers[out++] = *r;
  }
  if (out == READERS) memmove(cell->readers, cell->readers + 1, --out * sizeof(Reader));
  cell->readers[out++] = (Reader){(uint16_t)a->agent, index_of(a->warp, a->in), a->clock};
  cell->n_readers = (uint8_t)out;
}

static void touch_cell(const Clocks *k, Cell *cell, const Access *a, uint8_t bytes, bool atomic)
{
  if (cell->bytes & bytes && !(atomic && cell->flags & FLAG_ATOMIC)) {
    check_order(k, a, cell->agent, cell->clock, cell->pc, true);
    const uint32_t known = clock_of(k, agent_of(k, a->warp))[cell->agent];
    if (cell->agent < k->warps && cell->agent != agent_of(k, a->warp) && cell->clock <= known &&
        left_out(k, cell->agent, known, cell->clock, cell->lanes))
      report(k, a, SIM_FAULT_RACE, false, cell->agent, cell->pc, true,
             "the writer's warp was released by another lane's arrival, without bar.warp.sync before it");
    /* lanes of one warp: ordered by barriers only, not by standing in one instruction after the other */
    if (cell->agent == a->agent && a->agent < k->warps && cell->clock == a->clock &&
        cell->lanes & ~(1u << a->lane))
      report(k, a, SIM_FAULT_RACE, a->kind == ACCESS_SAME, cell->agent, cell->pc, true,
             "another lane of the same warp, without bar.warp.sync between");
  }
  if (a->kind == ACCESS_READ) {
    note_reader(k, cell, a);
    return;
  }
  for (unsigned i = 0; i < cell->n_readers; i++)
    check_order(k, a, cell->readers[i].agent, cell->readers[i].clock, cell->readers[i].pc, false);
  *cell =
      (Cell){.clock = a->clock, .agent = (uint16_t)a->agent, .pc = index_of(a->warp, a->in), .bytes = bytes};
  cell->lanes = 1u << a->lane;
  if (atomic) cell->flags = FLAG_ATOMIC;
}

static void touch(const Clocks *k, const Access *a, bool atomic)
{
  Cell *cells = a->block->check;
  uint32_t at = a->offset, end = a->offset + a->bytes;
  while (at < end) {
    uint32_t next = MIN((at & ~3u) + 4, end);
    uint8_t bytes = (uint8_t)(((1u << (next - at)) - 1) << (at & 3));
    touch_cell(k, &cells[at >> 2], a, bytes, atomic);
    at = next;
  }
}

/* --- global memory: only between clusters of kernels that never synchronise through it --- */

typedef struct GlobalCell {
  uint32_t writer, reader; /* cluster + 1; reader FULL: several */
  uint16_t write_pc, read_pc;
} GlobalCell;

void race_global_init(Run *run)
{
  if (!run->track_races || run->kernel->global_order) return;
  for (unsigned i = 0; i < run->n_buffers + run->n_variables; i++) {
    Buffer *b = i < run->n_buffers ? &run->buffers[i] : &run->variables[i - run->n_buffers];
    if (b->data) b->check = g_new0(GlobalCell, b->bytes / 4 + 2);
  }
}

void race_global_free(Run *run)
{
  for (unsigned i = 0; i < run->n_buffers + run->n_variables; i++) {
    Buffer *b = i < run->n_buffers ? &run->buffers[i] : &run->variables[i - run->n_buffers];
    g_clear_pointer(&b->check, g_free);
  }
}

static void touch_global(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                         AccessKind kind)
{
  GlobalCell *cells = p->buffer->check;
  uint32_t self = (uint32_t)w->block->cluster->index + 1;
  uint16_t pc = index_of(w, in);
  for (uint64_t i = p->offset >> 2; i <= (p->offset + bytes - 1) >> 2; i++) {
    GlobalCell *c = &cells[i];
    uint32_t writer = __atomic_load_n(&c->writer, __ATOMIC_RELAXED);
    uint32_t reader = __atomic_load_n(&c->reader, __ATOMIC_RELAXED);
    bool writes = kind != ACCESS_READ;
    /* parts of one word may belong to different blocks: told apart only for whole words */
    bool whole = bytes >= 4;
    if (whole && writer && writer != self && kind == ACCESS_SAME)
      finding(w, in, lane, SIM_FAULT_RACE, p->buffer->address + i * 4,
              "two blocks write the same value to byte %llu of buffer '%s'", (unsigned long long)i * 4,
              p->buffer->name);
    else if (whole && writer && writer != self && kind != ACCESS_ATOMIC)
      fault_other(w, in, lane, SIM_FAULT_RACE, p->buffer->address + i * 4, instruction_at(w, c->write_pc),
                  NULL, "%s of byte %llu of buffer '%s', which another block writes",
                  writes ? "write" : "read", (unsigned long long)i * 4, p->buffer->name);
    else if (whole && writes && reader && reader != self)
      fault_other(w, in, lane, SIM_FAULT_RACE, p->buffer->address + i * 4, instruction_at(w, c->read_pc),
                  NULL, "write of byte %llu of buffer '%s', which another block reads",
                  (unsigned long long)i * 4, p->buffer->name);
    if (writes && whole) {
      __atomic_store_n(&c->writer, self, __ATOMIC_RELAXED);
      c->write_pc = pc;
    } else if (!writes && reader != self) {
      __atomic_store_n(&c->reader, reader ? FULL : self, __ATOMIC_RELAXED);
      c->read_pc = pc;
    }
  }
}

static void synchronise_location(Clocks *k, Warp *w, const Place *p, AccessKind kind)
{
  void *key = p->at;
  uint32_t *clock = g_hash_table_lookup(k->locations, key), *v = clock_of(k, agent_of(k, w));
  if (kind != ACCESS_WRITE && clock) join(k, v, clock);
  if (kind == ACCESS_READ) return;
  if (!clock) {
    clock = g_new0(uint32_t, 2 * k->n);
    g_hash_table_insert(k->locations, key, clock);
  }
  join(k, clock, v);
  v[agent_of(k, w)]++;
}

void race_check_generic(Warp *w, const Inst *in, unsigned lane, const Place *p, unsigned bytes,
                        AccessKind kind, bool ordered)
{
  Clocks *k = clocks_of(w);
  if (!p->block) {
    touch_global(w, in, lane, p, bytes, kind);
    return;
  }
  unsigned agent = agent_of(k, w);
  Access a = {
      .warp = w, .in = in, .lane = lane, .block = p->block, .offset = (uint32_t)p->offset, .bytes = bytes};
  a.kind = kind;
  a.agent = agent;
  a.clock = clock_of(k, agent)[agent];
  if (p->block != w->block) race_remote(w, in, p->block);
  if (ordered && !in->synchronises) synchronise_location(k, w, p, kind);
  touch(k, &a, ordered);
}

/* --- synchronisation --- */

static void warp_synced(Clocks *k, unsigned agent)
{
  k->synced[agent] = clock_of(k, agent)[agent];
}

static void release(Clocks *k, Warp *w, uint32_t *into)
{
  uint32_t *v = clock_of(k, agent_of(k, w));
  join(k, into, v);
  v[agent_of(k, w)]++;
}

static uint32_t *barrier_clock(Clocks *k, const Block *block, unsigned id)
{
  return k->barrier + ((size_t)block->rank * 16 + id) * 2 * k->n;
}

void race_barrier_arrive(Warp *w, const Barrier *b, bool waits)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  unsigned id = (unsigned)(b - w->block->barriers);
  release(k, w, barrier_clock(k, w->block, id));
  warp_synced(k, agent_of(k, w));
  if (waits) k->waiting[w->block->rank][id] |= 1ull << w->id;
}

void race_barrier(Block *block, const Barrier *b)
{
  Clocks *k = block->cluster->check;
  if (!k) return;
  unsigned id = (unsigned)(b - block->barriers);
  uint32_t *clock = barrier_clock(k, block, id);
  for (unsigned i = 0; i < block->n_warps; i++)
    if (k->waiting[block->rank][id] >> i & 1) join(k, clock_of(k, block->rank * k->per_block + i), clock);
  k->waiting[block->rank][id] = 0;
  memset(clock, 0, 2 * k->n * sizeof(uint32_t));
}

void race_cluster_arrive(Warp *w)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  release(k, w, k->cluster);
  warp_synced(k, agent_of(k, w));
}

void race_cluster_barrier(Cluster *c)
{
  Clocks *k = c->check;
  if (!k) return;
  memcpy(k->cluster_done, k->cluster, 2 * k->n * sizeof(uint32_t));
  memset(k->cluster, 0, 2 * k->n * sizeof(uint32_t));
}

void race_cluster_wait(Warp *w)
{
  Clocks *k = clocks_of(w);
  if (k) join(k, clock_of(k, agent_of(k, w)), k->cluster_done);
}

/* m->check: clock being gathered, then the clock of the phase completed last */
static uint32_t *mbarrier_clock(Clocks *k, Mbarrier *m)
{
  if (!m->check) m->check = g_new0(uint32_t, 4 * k->n);
  return m->check;
}

void race_mbarrier_arrive(Warp *w, const Inst *in, Block *b, Mbarrier *m, uint32_t lanes)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  unsigned agent = agent_of(k, w);
  /* lanes that arrive one after the other at one barrier add up */
  bool more = m->partial_warp == w && m->partial_phase == m->phase;
  m->partial_lanes = lanes | (more ? m->partial_lanes : 0);
  m->partial_warp = w;
  m->partial_phase = m->phase;
  uint32_t excluded = w->live & ~m->partial_lanes, clock = clock_of(k, agent)[agent];
  release(k, w, mbarrier_clock(k, m));
  if (excluded)
    k->partial[agent][k->n_partial[agent]++ % PARTIAL_RELEASES] =
        (PartialRelease){clock, k->synced[agent], excluded};
}

void race_mbarrier_initialised(Warp *w, Mbarrier *m)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  m->initialiser = w;
  m->initialised_at = clock_of(k, agent_of(k, w))[agent_of(k, w)];
}

/* Whoever uses it must know that it has been initialised. */
void race_mbarrier_used(Warp *w, const Inst *in, unsigned lane, const Mbarrier *m)
{
  Clocks *k = clocks_of(w);
  if (!k || !m->initialiser || clock_of(k, agent_of(k, w))[agent_of(k, m->initialiser)] >= m->initialised_at)
    return;
  fault_other(w, in, lane, SIM_FAULT_RACE, m->offset, m->initialised, m->initialiser,
              "the mbarrier at shared 0x%x is used, and nothing orders that after its initialisation",
              m->offset);
}

void race_mbarrier_complete(Block *b, Mbarrier *m)
{
  Clocks *k = b->cluster->check;
  if (!k) return;
  uint32_t *gathered = mbarrier_clock(k, m), *done = gathered + 2 * k->n;
  gathered[mbarrier_agent(k, b, m)] =
      (uint32_t)m->phase; /* already the next: bulk loads of the phase are done */
  memcpy(done, gathered, 2 * k->n * sizeof(uint32_t));
  memset(gathered, 0, 2 * k->n * sizeof(uint32_t));
}

void race_mbarrier_wait(Warp *w, const Inst *in, Block *b, Mbarrier *m)
{
  Clocks *k = clocks_of(w);
  if (k) join(k, clock_of(k, agent_of(k, w)), mbarrier_clock(k, m) + 2 * k->n);
}

void race_fence(Warp *w, const Inst *in, uint32_t mask)
{
  Clocks *k = clocks_of(w);
  if (!k || !(in->operation & 1)) return;
  unsigned agent = agent_of(k, w);
  uint32_t *v = clock_of(k, agent);
  v[k->n + agent] = v[agent]++;
  v[k->n + k->warps + agent] = v[k->warps + agent];
}

void race_warp_barrier(Warp *w)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  clock_of(k, agent_of(k, w))[agent_of(k, w)]++;
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
  touch(k, &a, false);
}

void race_copy_wait(Warp *w, uint32_t mask, uint32_t keep, bool all)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  uint32_t *v = clock_of(k, agent_of(k, w)) + k->warps + agent_of(k, w);
  uint32_t committed = FULL;
  for_lanes(l, mask) committed = MIN(committed, w->copy_groups[l]);
  uint32_t done = all ? committed + 1 : committed > keep ? committed - keep : 0;
  *v = MAX(*v, done);
}

void race_copy_arrive(Warp *w, const Inst *in, unsigned lane)
{
  race_copy_wait(w, 1u << lane, 0, true);
}

/* --- the end of a block --- */

static void note_remote(Clocks *k, const Block *b, unsigned agent, uint32_t clock, uint16_t pc)
{
  size_t i = (size_t)b->rank * k->n + agent;
  k->remote[i] = MAX(k->remote[i], clock);
  k->remote_pc[i] = pc;
}

void race_remote(Warp *w, const Inst *in, const Block *b)
{
  Clocks *k = clocks_of(w);
  if (!k || b == w->block) return;
  unsigned agent = agent_of(k, w);
  note_remote(k, b, agent, clock_of(k, agent)[agent], index_of(w, in));
}

void race_block_exit(Warp *last)
{
  Clocks *k = clocks_of(last);
  const Block *b = last->block;
  if (!k) return;
  g_autofree uint32_t *end = g_new0(uint32_t, 2 * k->n);
  for (unsigned i = 0; i < k->per_block; i++)
    join(k, end, clock_of(k, b->rank * k->per_block + i));
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
  if (op->direction != COPY_GLOBAL_TO_SHARED) {
    a.block = op->from;
    a.offset = op->from_offset;
    a.kind = ACCESS_READ;
    a.agent = 3 * k->warps + agent_of(k, w);
    a.clock = (uint32_t)op->id;
    touch(k, &a, false);
  }
  if (op->direction == COPY_SHARED_TO_GLOBAL) return;
  Cluster *c = w->block->cluster;
  a.kind = ACCESS_WRITE;
  a.offset = op->to_offset;
  for (unsigned i = 0; i < c->n_blocks; i++) {
    Block *b = &c->blocks[i];
    if (op->mask ? !(op->mask >> i & 1) : b != op->to) continue;
    Mbarrier *m =
        mbarrier_find(w, op->base.in, op->base.lane, op->mask ? b : op->barrier_block, op->barrier_offset);
    if (!m) continue;
    a.block = b;
    a.agent = mbarrier_agent(k, op->mask ? b : op->barrier_block, m);
    a.clock = (uint32_t)m->phase + 1;
    touch(k, &a, false);
    note_remote(k, b, a.agent, a.clock, index_of(w, a.in));
  }
}

/* The oldest store that is still unfinished bounds what is done. */
void race_bulk_wait(Warp *w)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  uint64_t done = w->bulk_sequence;
  for (unsigned i = 0; i < w->bulk->len; i++) {
    const BulkOperation *op = g_ptr_array_index(w->bulk, i);
    done = MIN(done, op->id - 1);
  }
  uint32_t *v = clock_of(k, agent_of(k, w)) + 3 * k->warps + agent_of(k, w);
  *v = MAX(*v, (uint32_t)done);
}

void race_async_global(BulkOperation *op, const Place *p, unsigned bytes, AccessKind kind)
{
  if (p->buffer && p->buffer->check) touch_global(op->base.warp, op->base.in, op->base.lane, p, bytes, kind);
}

/* --- products --- */

void race_product_read(Warp *w, const Inst *in, const Product *p, uint32_t offset)
{
  Clocks *k = clocks_of(w);
  if (!k) return;
  Access a = {.warp = w, .in = in, .block = w->block, .offset = offset, .bytes = 16, .kind = ACCESS_READ};
  a.proxy = PROXY_ASYNC;
  a.agent = 2 * k->warps + (agent_of(k, w) & ~3u);
  a.clock = p->group + 1;
  touch(k, &a, false);
}

void race_product_wait(Warp *w, uint32_t keep)
{
  Clocks *k = clocks_of(w);
  if (!k || w->product_groups < keep) return;
  uint32_t *v = clock_of(k, agent_of(k, w)) + 2 * k->warps + (agent_of(k, w) & ~3u);
  *v = MAX(*v, w->product_groups - keep);
}
