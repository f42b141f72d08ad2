/* Races in global memory: the shadow and the rule. See race.h.
 *
 * Shadow memory exists where a kernel touches: a buffer is cut into pages; a page has a record per 4 bytes
 * for the last write and a list per 16 bytes for the reads since, both with masks of bytes, so that
 * neighbouring bytes of different owners are kept apart. A word whose bytes have different writers is split
 * into records of one byte. */
#include "simulator/race_clock.h"
#include <string.h>

#define PAGE_BYTES    1024
#define PAGE_WORDS    (PAGE_BYTES / 4)
#define GRANULE       16
#define PAGE_GRANULES (PAGE_BYTES / GRANULE)
#define MOST_READERS  8 /* remembered per granule beside the first; the oldest is forgotten */
#define SEVERAL_LANES LANES
#define SPLIT         FULL

/* Read.tag: agent, scope, and whether the path for data nobody writes was taken */
#define TAG_AGENT     0x0fffu
#define TAG_SCOPE     12
#define TAG_READ_ONLY 0x8000u

typedef struct Write {
  uint32_t owner; /* uid + 1 of the cluster, 0: none, SPLIT: see Page.split */
  uint32_t clock, pc;
  uint16_t agent;
  uint8_t lane;                 /* SEVERAL_LANES: bytes of different lanes */
  uint8_t bytes : 4, scope : 4; /* SCOPE_NONE: weak */
} Write;
G_STATIC_ASSERT(sizeof(Write) == 16);

typedef struct Read {
  uint32_t owner, clock, pc;
  uint16_t tag, mask;
  /* lanes of its warp that have read all of mask, each by itself, 0: not known; and the warp's collectives then */
  uint32_t lanes, read_at;
} Read;

typedef struct Reads {
  Read first, *more;
  uint32_t shared_pc;
  uint8_t n_more;
} Reads;

typedef struct Page {
  char lock;
  Write *writes; /* [PAGE_WORDS] */
  Reads *reads;  /* [PAGE_GRANULES] */
  Write **split; /* [PAGE_WORDS]: four records each */
  /* bytes of each granule that several clusters have read, of a kernel whose clusters nothing orders */
  uint16_t shared[PAGE_GRANULES];
} Page;

typedef struct Touch {
  Warp *warp;
  const Inst *in;
  const Buffer *buffer;
  const Clocks *clocks;
  const Clock *own;
  uint64_t offset; /* in the buffer, of what is looked at */
  uint32_t owner, clock, pc;
  uint32_t alone; /* the lane, as a bit, if one lane by itself touches the granule; else 0 */
  uint16_t agent;
  uint8_t lane, scope;
  AccessKind kind;
  bool async, read_only;
} Touch;

/* The other party of a pair. */
typedef struct Party {
  uint32_t owner, clock, pc;
  unsigned agent, scope, lane;
  bool writes, read_only;
} Party;

/* --- pages --- */

static uint64_t page_count(const Buffer *b)
{
  return b->bytes / PAGE_BYTES + 1;
}

static void each_buffer(const Session *s, void (*what)(Buffer *b))
{
  for (unsigned i = 0; i < s->memory->len; i++)
    what(s->memory->pdata[i]);
}

static void init_buffer(Buffer *b)
{
  if (b->data && !b->check) b->check = g_new0(Page *, page_count(b));
}

static void free_page(Page *p)
{
  for (unsigned i = 0; p->reads && i < PAGE_GRANULES; i++)
    g_free(p->reads[i].more);
  for (unsigned i = 0; p->split && i < PAGE_WORDS; i++)
    g_free(p->split[i]);
  g_free(p->writes);
  g_free(p->reads);
  g_free(p->split);
  g_free(p);
}

static void free_buffer(Buffer *b)
{
  Page **pages = b->check;
  for (uint64_t i = 0; pages && i < page_count(b); i++)
    if (pages[i]) free_page(pages[i]);
  g_clear_pointer(&b->check, g_free);
}

void race_global_init(Session *session)
{
  if (!session->track_races) return;
  each_buffer(session, init_buffer);
  order_session_init(session);
}

void race_global_free(Session *session)
{
  each_buffer(session, free_buffer);
  order_session_free(session);
}

static Page *page_at(const Buffer *b, uint64_t offset)
{
  Page **at = (Page **)b->check + offset / PAGE_BYTES;
  Page *page = __atomic_load_n(at, __ATOMIC_ACQUIRE);
  if (page) return page;
  Page *fresh = g_new0(Page, 1), *none = NULL;
  if (__atomic_compare_exchange_n(at, &none, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
  g_free(fresh);
  return none;
}

static void lock_page(const Session *s, Page *page)
{
  while (s->threads && __atomic_test_and_set(&page->lock, __ATOMIC_ACQUIRE))
    while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED))
      g_thread_yield();
}

static void unlock_page(const Session *s, Page *page)
{
  if (s->threads) __atomic_clear(&page->lock, __ATOMIC_RELEASE);
}

/* --- the rule --- */

static const Run *run_of(const Session *s, uint32_t owner)
{
  unsigned i = s->n_runs;
  while (--i && owner - 1 < s->runs[i].first_uid)
    ;
  return &s->runs[i];
}

/* Its warp, counted in the cluster; FULL: a bulk load, which belongs to an mbarrier. */
static unsigned warp_of(const Run *run, unsigned agent)
{
  unsigned blocks = run->cluster[0] * run->cluster[1] * run->cluster[2];
  unsigned warps = blocks * (unsigned)((run->threads + LANES - 1) / LANES);
  if (agent < 4 * warps) return agent % warps;
  agent -= 4 * warps;
  return agent < blocks * BLOCK_OBJECTS ? FULL : agent - blocks * BLOCK_OBJECTS;
}

static void describe(const Touch *t, const Run *run, const Party *o, FaultParty *party)
{
  unsigned per_block = (unsigned)((run->threads + LANES - 1) / LANES), warp = warp_of(run, o->agent);
  uint64_t index = o->owner - 1 - run->first_uid, rank = warp == FULL ? 0 : warp / per_block;
  *party =
      (FaultParty){.run = run, .in = &run->kernel->code[o->pc], .warp = warp == FULL ? 0 : warp % per_block};
  for (unsigned i = 0; i < 3; i++) {
    uint64_t n = run->grid[i] / run->cluster[i];
    party->block[i] = (unsigned)(index % n * run->cluster[i] + rank % run->cluster[i]);
    index /= n;
    rank /= run->cluster[i];
  }
}

static void report(const Touch *t, const Party *o, SimFaultKind kind, bool is_finding, const char *why)
{
  const Run *own = t->warp->block->cluster->run, *run = run_of(own->session, o->owner);
  unsigned per_block = t->clocks->per_block, warp = warp_of(run, o->agent);
  FaultParty party;
  describe(t, run, o, &party);
  bool same = o->owner == t->owner, block = warp != FULL && warp / per_block == t->warp->block->rank;
  bool other_generic = same ? o->agent < t->clocks->warps : o->agent < 4 * t->clocks->warps;
  const char *who = run != own             ? "another launch"
                    : !same                ? "another block"
                    : !block               ? "another block of the cluster"
                    : o->agent == t->agent ? "another lane of the warp"
                                           : "the same block";
  fault_party(t->warp, t->in, t->lane % LANES, kind, is_finding, t->buffer->address + t->offset, &party,
              "%s%s of byte %llu of buffer '%s', and a %s%s by %s: %s", t->async ? "bulk " : "",
              t->kind == ACCESS_READ ? "read" : "write", (unsigned long long)t->offset, t->buffer->name,
              other_generic ? "" : "bulk ", o->writes ? "write" : "read", who, why);
}

/* Two strong accesses are no race if the scope of each includes the other. */
static bool scopes_meet(const Touch *t, const Party *o)
{
  unsigned least = MIN(t->scope, o->scope);
  if (!least || least == SCOPE_GPU) return least;
  if (o->owner != t->owner) return false;
  const Run *run = t->warp->block->cluster->run;
  return least == SCOPE_CLUSTER || warp_of(run, o->agent) / t->clocks->per_block == t->warp->block->rank;
}

/* Accesses by lanes of one warp, in program order; lanes that touch the same need bar.warp.sync. */
static void check_lanes(const Touch *t, const Party *o)
{
  if (o->writes && o->clock == t->clock && o->lane < LANES && o->lane != t->lane)
    report(t, o, SIM_FAULT_RACE, t->kind == ACCESS_SAME, "no bar.warp.sync between them");
}

static void check(const Touch *t, const Party *o)
{
  const Clocks *k = t->clocks;
  const Run *run = t->warp->block->cluster->run;
  bool same = o->owner == t->owner;
  if (((t->read_only && o->writes) || (o->read_only && t->kind != ACCESS_READ)) &&
      run == run_of(run->session, o->owner)) {
    report(t, o, SIM_FAULT_RACE, false,
           "the read-only path (.nc) is for data that no thread of the grid writes");
    return;
  }
  if (scopes_meet(t, o)) return;
  if (same && o->agent == t->agent && o->agent < k->warps) {
    check_lanes(t, o);
    return;
  }
  const Snapshot *s = same ? NULL : knowledge_of(t->own->foreign, o->owner - 1);
  if (s == SNAPSHOT_ALL) return;
  uint32_t known = same ? t->own->v[o->agent] : s ? s->v[o->agent] : 0;
  if (o->clock > known) {
    const char *why = t->scope && o->scope ? "their scopes do not include each other" : "nothing orders them";
    const Inst *other = &run_of(run->session, o->owner)->kernel->code[o->pc];
    bool seed = o->writes ? t->kind == ACCESS_READ && begins_swap_loop(run, t->in, other)
                          : begins_swap_loop(run, other, t->in);
    report(t, o, SIM_FAULT_RACE, seed || (t->kind == ACCESS_SAME && o->writes && !o->scope), why);
    return;
  }
  if (!o->writes || o->agent >= (same ? k->warps : s->warps)) return;
  uint32_t lane = o->lane < LANES ? 1u << o->lane : 0;
  bool left_out =
      same ? clock_left_out(k, o->agent, known, o->clock, lane)
           : s->excluded & lane && s->agent == o->agent && s->clock == known && o->clock >= s->synced;
  if (left_out)
    report(t, o, SIM_FAULT_RACE, false,
           "the writer's warp was released by another lane, without bar.warp.sync before it");
  uint32_t fenced = same ? t->own->v[global_fence(k, o->agent)] : s->v[s->length - s->warps + o->agent];
  if (t->async && o->clock > fenced)
    report(t, o, SIM_FAULT_PROXY, false,
           "no fence.proxy.async stands between the write and the synchronisation, or behind it");
}

/* --- writes --- */

static void check_write(Touch *t, const Write *r)
{
  const Party o = {.owner = r->owner,
                   .clock = r->clock,
                   .pc = r->pc,
                   .agent = r->agent,
                   .scope = r->scope,
                   .lane = r->lane,
                   .writes = true};
  check(t, &o);
}

static void check_word(Touch *t, const Page *page, unsigned word, uint8_t bytes)
{
  const Write *r = &page->writes[word];
  if (r->owner != SPLIT) {
    if (r->bytes & bytes) check_write(t, r);
    return;
  }
  for (unsigned i = 0; i < 4; i++)
    if (bytes >> i & 1 && page->split[word][i].owner) check_write(t, &page->split[word][i]);
}

static Write record_of(const Touch *t, uint8_t bytes)
{
  return (Write){.owner = t->owner,
                 .clock = t->clock,
                 .pc = t->pc,
                 .agent = t->agent,
                 .lane = t->lane,
                 .bytes = bytes & 15,
                 .scope = t->scope & 15};
}

static void split_word(Page *page, unsigned word)
{
  Write *r = &page->writes[word];
  if (!page->split) page->split = g_new0(Write *, PAGE_WORDS);
  Write *bytes = page->split[word] = g_new0(Write, 4);
  for (unsigned i = 0; i < 4; i++)
    if (r->bytes >> i & 1) bytes[i] = *r;
  r->owner = SPLIT;
}

static void note_write(const Touch *t, Page *page, unsigned word, uint8_t bytes)
{
  Write *r = &page->writes[word];
  bool covered = r->owner == SPLIT ? bytes == 15 : !(r->bytes & ~bytes);
  if (covered) {
    if (r->owner == SPLIT) g_clear_pointer(&page->split[word], g_free);
    *r = record_of(t, bytes);
    return;
  }
  if (r->owner == t->owner && r->agent == t->agent && r->clock == t->clock && r->scope == t->scope) {
    if (r->lane != t->lane) r->lane = SEVERAL_LANES;
    r->bytes |= bytes & 15;
    return;
  }
  if (r->owner != SPLIT) split_word(page, word);
  for (unsigned i = 0; i < 4; i++)
    if (bytes >> i & 1) page->split[word][i] = record_of(t, 1);
}

/* --- reads --- */

static Party reader(const Read *r)
{
  return (Party){.owner = r->owner,
                 .clock = r->clock,
                 .pc = r->pc,
                 .agent = r->tag & TAG_AGENT,
                 .scope = r->tag >> TAG_SCOPE & 3,
                 .lane = SEVERAL_LANES,
                 .read_only = r->tag & TAG_READ_ONLY};
}

/* Lanes of the writing warp that have just read this, each by itself: only a barrier of the warp orders them before. */
static void check_reading_lanes(Touch *t, const Read *r, uint16_t mask, const Party *o)
{
  if (r->owner != t->owner || o->agent != t->agent || r->mask != mask || !t->alone ||
      !(r->lanes & ~t->alone) || r->read_at != t->warp->collectives || scopes_meet(t, o))
    return;
  report(t, o, SIM_FAULT_RACE, t->kind == ACCESS_SAME || !t->warp->block->cluster->run->ours,
         "without bar.warp.sync between");
}

/* A write ends what was read before: whoever is ordered after it is ordered after its readers. */
static void check_reads(Touch *t, Page *page, unsigned granule, uint16_t mask)
{
  Reads *reads = &page->reads[granule];
  uint16_t *shared = &page->shared[granule];
  if (*shared & mask) {
    const Party o = {.owner = t->owner == 1 ? 2 : 1, .pc = reads->shared_pc, .lane = SEVERAL_LANES};
    report(t, &o, SIM_FAULT_RACE, false, "nothing orders them");
    *shared &= (uint16_t)~mask;
  }
  for (unsigned i = 0; i <= reads->n_more; i++) {
    Read *r = i ? &reads->more[i - 1] : &reads->first;
    if (!(r->mask & mask)) continue;
    const Party o = reader(r);
    check(t, &o);
    check_reading_lanes(t, r, mask, &o);
    r->mask &= (uint16_t)~mask;
  }
}

/* Need a read that happened before this one not be remembered beside it? */
static bool superseded(const Touch *t, const Read *r, uint16_t tag, uint16_t mask)
{
  if (r->mask & ~mask || (r->tag & ~tag & TAG_READ_ONLY)) return false;
  if (r->owner == t->owner) return r->clock <= t->own->v[r->tag & TAG_AGENT];
  const Snapshot *s = knowledge_of(t->own->foreign, r->owner - 1);
  return s && (s == SNAPSHOT_ALL || r->clock <= s->v[r->tag & TAG_AGENT]);
}

static void note_read(const Touch *t, Page *page, unsigned granule, uint16_t mask)
{
  Reads *reads = &page->reads[granule];
  uint16_t tag = (uint16_t)(t->agent | (unsigned)t->scope << TAG_SCOPE | (t->read_only ? TAG_READ_ONLY : 0));
  bool ordered = t->warp->block->cluster->run->session->ordered;
  Read *room = NULL;
  mask &= (uint16_t)~page->shared[granule];
  for (unsigned i = 0; i <= reads->n_more && mask; i++) {
    Read *r = i ? &reads->more[i - 1] : &reads->first;
    if (r->mask && r->owner != t->owner && !ordered) {
      uint16_t both = r->mask & mask;
      page->shared[granule] |= both;
      reads->shared_pc = t->pc;
      r->mask ^= both;
      mask ^= both;
    }
    if (r->owner == t->owner && r->tag == tag && r->clock == t->clock) {
      bool more = r->mask == mask && r->lanes && r->read_at == t->warp->collectives;
      r->lanes = r->mask & ~mask || !t->alone ? 0 : t->alone | (more ? r->lanes : 0);
      r->read_at = t->warp->collectives;
      r->mask |= mask;
      return;
    }
    if (!room && (!r->mask || superseded(t, r, tag, mask))) room = r;
  }
  if (!mask) return;
  if (!room && reads->n_more < MOST_READERS) {
    reads->more = g_renew(Read, reads->more, reads->n_more + 1);
    room = &reads->more[reads->n_more++];
  }
  if (!room) {
    memmove(reads->more, reads->more + 1, (MOST_READERS - 1) * sizeof(Read));
    room = &reads->more[MOST_READERS - 1];
  }
  *room = (Read){t->owner, t->clock, t->pc, tag, mask, t->alone, t->warp->collectives};
}

/* --- an access --- */

/* Most reads of most kernels: of data that many read and nobody writes. */
static bool read_by_all(const Page *page, unsigned granule, uint16_t mask)
{
  if (__atomic_load_n(&page->writes, __ATOMIC_ACQUIRE)) return false;
  return (__atomic_load_n(&page->shared[granule], __ATOMIC_RELAXED) & mask) == mask;
}

/* Bytes of one granule. */
static void touch_granule(Touch *t, unsigned bytes, unsigned lane_bytes)
{
  const Session *session = t->warp->block->cluster->run->session;
  unsigned in_page = (unsigned)(t->offset % PAGE_BYTES), granule = in_page / GRANULE, at = in_page % GRANULE;
  uint16_t mask = (uint16_t)(((1u << bytes) - 1) << at);
  Page *page = page_at(t->buffer, t->offset);
  bool writes = t->kind != ACCESS_READ;
  bool together = t->async || t->in->flags & (INST_ALIGNED | INST_MEMBERS) || bytes > lane_bytes;
  t->alone = together || t->lane >= LANES ? 0 : 1u << t->lane;
  if (!writes && read_by_all(page, granule, mask)) return;
  lock_page(session, page);
  if (writes && !page->writes) __atomic_store_n(&page->writes, g_new0(Write, PAGE_WORDS), __ATOMIC_RELEASE);
  if (!writes && !page->reads) __atomic_store_n(&page->reads, g_new0(Reads, PAGE_GRANULES), __ATOMIC_RELEASE);
  uint64_t first = t->offset;
  uint8_t first_lane = t->lane;
  for (unsigned b = at & ~3u; page->writes && b < at + bytes; b += 4) {
    uint8_t in_word = mask >> b & 15;
    unsigned word = granule * (GRANULE / 4) + b / 4;
    t->offset = first + MAX(b, at) - at;
    if (t->lane < LANES) t->lane = (uint8_t)(first_lane + (MAX(b, at) - at) / lane_bytes);
    if (page->writes[word].owner) check_word(t, page, word, in_word);
    if (writes) note_write(t, page, word, in_word);
  }
  t->offset = first;
  t->lane = first_lane;
  if (writes && page->reads)
    check_reads(t, page, granule, mask);
  else if (!writes)
    note_read(t, page, granule, mask);
  unlock_page(session, page);
}

static void touch_range(Touch *t, const Place *p, uint64_t bytes, unsigned lane_bytes)
{
  uint8_t lane = t->lane;
  for (uint64_t done = 0; done < bytes;) {
    t->offset = p->offset + done;
    unsigned n = (unsigned)MIN(GRANULE - t->offset % GRANULE, bytes - done);
    if (lane < LANES) t->lane = (uint8_t)(lane + done / lane_bytes);
    touch_granule(t, n, lane_bytes);
    done += n;
  }
}

void global_access(Warp *w, const Inst *in, unsigned lane, unsigned lane_bytes, const Place *p,
                   uint64_t bytes, AccessKind kind)
{
  const Clocks *k = clocks_of(w);
  unsigned agent = agent_of(k, w);
  Touch t = {.warp = w,
             .in = in,
             .buffer = p->buffer,
             .clocks = k,
             .own = clock_of(k, agent),
             .owner = k->uid + 1,
             .agent = (uint16_t)agent,
             .lane = (uint8_t)lane,
             .scope = in->scope,
             .kind = kind,
             .read_only = in->read_only};
  t.clock = t.own->v[agent];
  t.pc = (uint32_t)(in - w->block->cluster->run->kernel->code);
  touch_range(&t, p, bytes, lane_bytes);
}

void global_bulk(BulkOperation *op, const Place *p, uint64_t bytes, AccessKind kind)
{
  Warp *w = op->base.warp;
  const Clocks *k = clocks_of(w);
  unsigned agent = agent_of(k, w);
  bool loads = kind == ACCESS_READ;
  Touch t = {.warp = w,
             .in = op->base.in,
             .buffer = p->buffer,
             .clocks = k,
             .own = clock_of(k, agent),
             .owner = k->uid + 1,
             .agent = (uint16_t)(loads ? op->agent : bulk_write_agent(k, agent)),
             .clock = loads ? op->agent_clock : (uint32_t)op->id,
             .lane = SEVERAL_LANES,
             .scope = kind == ACCESS_ATOMIC ? SCOPE_GPU : SCOPE_NONE,
             .kind = kind,
             .async = true};
  t.pc = (uint32_t)(t.in - w->block->cluster->run->kernel->code);
  touch_range(&t, p, bytes, GRANULE);
}
