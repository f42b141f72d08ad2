/* Races in shared memory: the shadow and the rule. See race.h.
 *
 * A cell stands for a row of 16 bytes as long as whoever touches it touches all of it, which is what matrix
 * instructions, copies and warps that access memory side by side do. A row that is touched in part is split
 * into cells of four bytes, until it is written as a whole again. Rows are looked at without a report; if
 * something may be wrong with one, it is split, and the cells decide. */
#include "simulator/race_cells.h"
#include <string.h>

#define READERS    5
#define ROW        16
#define PAGE_BYTES 1024
#define PAGE_ROWS  (PAGE_BYTES / ROW)

enum { FLAG_ATOMIC = 1 };

typedef struct Reader {
  uint16_t agent, pc; /* pc: index of the instruction, saturated */
  uint32_t clock;
} Reader;

typedef struct Cell {
  uint32_t clock; /* of the last write */
  uint16_t agent, pc;
  uint8_t bytes, flags; /* bytes of each word that the last write covered, 0: none yet */
  uint8_t n_readers;
  uint8_t lane_bytes; /* of a row: as in Access */
  uint32_t lanes;     /* that made the last write, if a warp did by itself; of a row: of its first word */
  /* lanes of the latest reader's warp that have read, of a row: its first word, and the others by read_bytes
   */
  uint32_t read_lanes;
  uint32_t read_bytes : 8, read_at : 24; /* read_at: the warp's collectives then */
  Reader readers[READERS];
} Cell;
G_STATIC_ASSERT(sizeof(Cell) == 64);

struct CellPage {
  uint64_t split; /* bit per row: its words count */
  Cell *words;    /* [4 * PAGE_ROWS], made when the first row is split */
  Cell rows[PAGE_ROWS];
};
G_STATIC_ASSERT(PAGE_ROWS == 64);

static uint64_t page_count(uint64_t shared_bytes)
{
  return shared_bytes / PAGE_BYTES + 1;
}

CellPage **cells_new(uint64_t shared_bytes)
{
  return g_new0(CellPage *, page_count(shared_bytes));
}

void cells_free(CellPage **pages, uint64_t shared_bytes)
{
  for (uint64_t i = 0; i < page_count(shared_bytes); i++) {
    if (pages[i]) g_free(pages[i]->words);
    g_free(pages[i]);
  }
  g_free(pages);
}

/* --- reports --- */

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
    finding(a->warp, a->in, a->lane, kind, address, "%s%s of %s and %s%s at line %u: %s",
            agent_name(k, a->agent), what, shared_name(a->block, address).text, agent_name(k, agent), other,
            in ? in->source->mark.line : 0, why);
    return;
  }
  fault_other(a->warp, a->in, a->lane, kind, address, instruction_at(a->warp, pc), author(k, a, agent),
              "%s%s of %s and %s%s: %s", agent_name(k, a->agent), what, shared_name(a->block, address).text,
              agent_name(k, agent), other, why);
}

/* Has the access (agent, clock) happened before a, and if proxies differ, been fenced? */
static void check_order(const Clocks *k, const Access *a, unsigned agent, uint32_t clock, uint16_t pc,
                        bool other_writes)
{
  const uint32_t *v = clock_of(k, agent_of(k, a->warp))->v;
  if (agent == a->agent && a->proxy == PROXY_ASYNC && a->kind == ACCESS_READ && !other_writes) return;
  bool same = a->kind == ACCESS_SAME && other_writes;
  if (clock > v[agent]) {
    const Inst *other = instruction_at(a->warp, pc);
    const Run *run = a->warp->block->cluster->run;
    if (other && agent < k->warps && a->agent < k->warps)
      same |= other_writes ? a->kind == ACCESS_READ && begins_swap_loop(run, a->in, other)
                           : begins_swap_loop(run, other, a->in);
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

/* --- cells --- */

#define COLLECTIVES(a) ((a)->warp->collectives & 0xffffff)

/* Lanes that read by themselves: what the whole warp executes together comes after all its reads. */
static void note_lanes(const Clocks *k, Cell *cell, const Access *a, unsigned lane, bool is_row)
{
  bool alone = a->agent < k->warps && !(a->in->flags & (INST_ALIGNED | INST_MEMBERS));
  bool more = cell->n_readers && cell->readers[cell->n_readers - 1].agent == a->agent &&
              cell->read_at == COLLECTIVES(a);
  uint32_t before = more && !is_row ? cell->read_lanes : 0;
  cell->read_lanes = before | (alone ? 1u << lane : 0);
  cell->read_bytes = MIN(a->lane_bytes, ROW);
  cell->read_at = COLLECTIVES(a);
}

/* Have other lanes of the writing warp just read this? lane_bytes: of a row that is written side by side */
static bool read_by_others(const Clocks *k, const Cell *cell, const Access *a, unsigned lane, bool is_row)
{
  if (!cell->n_readers || cell->readers[cell->n_readers - 1].agent != a->agent || a->agent >= k->warps ||
      cell->read_at != COLLECTIVES(a) || !cell->read_lanes)
    return false;
  return cell->read_lanes & ~(1u << lane) || (is_row && cell->read_bytes != MIN(a->lane_bytes, ROW));
}

/* A lane's wait for its cp.async says nothing to the other lanes. */
static bool copied_by_others(const Clocks *k, const Cell *cell, const Access *a, unsigned lane)
{
  return a->agent < k->warps && cell->agent == k->warps + a->agent &&
         cell->clock > k->copies_synced[a->agent] && cell->lanes & ~(1u << lane);
}

/* Has another lane of the warp whose lane issues a bulk copy written this, with no barrier of the warp since? */
static bool left_by_lanes(const Clocks *k, const Cell *cell, const Access *a)
{
  const unsigned self = agent_of(k, a->warp);
  return a->agent >= 3 * k->warps && cell->agent == self && cell->clock >= lanes_since(k, self);
}

static void note_reader(const Clocks *k, const uint32_t *v, Cell *cell, const Access *a)
{
  const Reader self = {(uint16_t)a->agent, index_of(a->warp, a->in), a->clock};
  unsigned out = 0;
  for (unsigned i = 0; i < cell->n_readers; i++) {
    Reader *r = &cell->readers[i];
    /* what happened before this read need not be remembered beside it, unless a fence is still owed */
    bool covered = r->agent == a->agent ||
                   (r->clock <= v[r->agent] && (r->agent >= k->warps || a->agent >= 2 * k->warps));
    if (!covered) cell->readers[out++] = *r;
  }
  if (out == READERS) memmove(cell->readers, cell->readers + 1, --out * sizeof(Reader));
  cell->readers[out++] = self;
  cell->n_readers = (uint8_t)out;
}

static void note_writer(Cell *cell, const Access *a, unsigned lane, uint8_t bytes, bool atomic)
{
  cell->clock = a->clock;
  cell->agent = (uint16_t)a->agent;
  cell->pc = index_of(a->warp, a->in);
  cell->bytes = bytes;
  cell->flags = atomic ? FLAG_ATOMIC : 0;
  cell->n_readers = 0;
  cell->lane_bytes = (uint8_t)MIN(a->lane_bytes, ROW);
  cell->lanes = 1u << lane;
}

static void touch_cell(const Clocks *k, Cell *cell, const Access *a, uint8_t bytes, bool atomic)
{
  const uint32_t *v = clock_of(k, agent_of(k, a->warp))->v;
  if (cell->bytes & bytes && !(atomic && cell->flags & FLAG_ATOMIC)) {
    check_order(k, a, cell->agent, cell->clock, cell->pc, true);
    const uint32_t known = v[cell->agent];
    if (cell->agent < k->warps && cell->agent != agent_of(k, a->warp) && cell->clock <= known &&
        clock_left_out(k, cell->agent, known, cell->clock, cell->lanes))
      report(k, a, SIM_FAULT_RACE, false, cell->agent, cell->pc, true,
             "the writer's warp was released by another lane's arrival, without bar.warp.sync before it");
    /* lanes of one warp: ordered by barriers only, not by standing in one instruction after the other */
    if (cell->agent == a->agent && a->agent < k->warps && cell->clock == a->clock &&
        cell->lanes & ~(1u << a->lane)) {
      /* lanes of one store to one place: exactly one of them takes effect, which foreign code may rely on */
      bool one = a->kind == ACCESS_WRITE && cell->pc == index_of(a->warp, a->in) &&
                 !a->warp->block->cluster->run->ours;
      report(k, a, SIM_FAULT_RACE, one || a->kind == ACCESS_SAME, cell->agent, cell->pc, true,
             "another lane of the same warp, without bar.warp.sync between");
    }
  }
  if (cell->bytes & bytes && left_by_lanes(k, cell, a) && cell->lanes & ~(1u << a->lane))
    report(k, a, SIM_FAULT_RACE, false, cell->agent, cell->pc, true,
           "another lane of the same warp, without bar.warp.sync between");
  if (cell->bytes & bytes && copied_by_others(k, cell, a, a->lane) && cell->clock <= v[cell->agent])
    report(k, a, SIM_FAULT_RACE, false, cell->agent, cell->pc, true,
           "another lane has made and awaited it, without bar.warp.sync between");
  if (a->kind == ACCESS_READ) {
    if (!atomic) note_lanes(k, cell, a, a->lane, false);
    note_reader(k, v, cell, a);
    return;
  }
  if (!atomic && read_by_others(k, cell, a, a->lane, false))
    report(k, a, SIM_FAULT_RACE, a->kind == ACCESS_SAME || !a->warp->block->cluster->run->ours, a->agent,
           cell->readers[cell->n_readers - 1].pc, false,
           "another lane of the same warp, without bar.warp.sync between");
  for (unsigned i = 0; i < cell->n_readers; i++) {
    const Inst *reader = instruction_at(a->warp, cell->readers[i].pc);
    if (atomic && reader && reader->scope && cell->readers[i].agent < k->warps) continue; /* both strong */
    check_order(k, a, cell->readers[i].agent, cell->readers[i].clock, cell->readers[i].pc, false);
  }
  note_writer(cell, a, a->lane, bytes, atomic);
}

/* --- rows --- */

static bool is_ordered(const Clocks *k, const uint32_t *v, const Access *a, unsigned agent, uint32_t clock)
{
  if (clock > v[agent]) return false;
  return a->proxy == PROXY_GENERIC || agent >= 2 * k->warps || clock <= v[k->n + agent];
}

/* false: the row must be looked at word by word. lane: of its first byte */
static bool touch_row(const Clocks *k, Cell *row, const Access *a, unsigned lane, bool atomic)
{
  const unsigned self = agent_of(k, a->warp);
  const uint32_t *v = clock_of(k, self)->v;
  if (row->bytes) {
    if (atomic || !is_ordered(k, v, a, row->agent, row->clock)) return false;
    bool other_lanes = row->lanes != 1u << lane || row->lane_bytes != MIN(a->lane_bytes, ROW);
    if (row->agent == a->agent && a->agent < k->warps && row->clock == a->clock && other_lanes) return false;
    if (row->agent < k->warps && row->agent != self && k->n_partial[row->agent]) return false;
  }
  if (row->bytes && (copied_by_others(k, row, a, lane) || left_by_lanes(k, row, a))) return false;
  if (a->kind == ACCESS_READ) {
    if (!atomic) note_lanes(k, row, a, lane, true);
    note_reader(k, v, row, a);
    return true;
  }
  if (!atomic && read_by_others(k, row, a, lane, true)) return false;
  for (unsigned i = 0; i < row->n_readers; i++)
    if (!is_ordered(k, v, a, row->readers[i].agent, row->readers[i].clock)) return false;
  note_writer(row, a, lane, 15, atomic);
  return true;
}

static void split_row(CellPage *page, unsigned row)
{
  if (!page->words) page->words = g_new0(Cell, 4 * PAGE_ROWS);
  const Cell *from = &page->rows[row];
  for (unsigned i = 0; i < 4; i++) {
    Cell *word = &page->words[4 * row + i];
    *word = *from;
    if (from->lane_bytes) word->lanes = from->lanes << 4 * i / from->lane_bytes;
    if (from->read_bytes) word->read_lanes = from->read_lanes << 4 * i / from->read_bytes;
  }
  page->split |= 1ull << row;
}

/* The access to the bytes of one word by the lane they belong to. */
static void touch_word(const Clocks *k, CellPage *page, const Access *whole, uint32_t at, uint32_t end,
                       bool atomic)
{
  Access a = *whole;
  uint8_t bytes = (uint8_t)(((1u << (end - at)) - 1) << (at & 3));
  if (whole->lane_bytes) {
    unsigned lane = (at - whole->offset) / whole->lane_bytes;
    a.lane += lane;
    a.offset += lane * whole->lane_bytes;
    if (a.kind == ACCESS_WRITE && whole->same >> a.lane & 1) a.kind = ACCESS_SAME;
  }
  touch_cell(k, &page->words[(at & (PAGE_BYTES - 1)) >> 2], &a, bytes, atomic);
}

/* After a write of all its words. */
static void join_row(CellPage *page, const Access *a, unsigned row, unsigned lane, bool atomic)
{
  note_writer(&page->rows[row], a, lane, 15, atomic);
  page->split &= ~(1ull << row);
}

void cells_touch(const Clocks *k, const Access *a, bool atomic)
{
  CellPage **pages = a->block->check;
  for (uint32_t at = a->offset, end = a->offset + a->bytes; at < end;) {
    CellPage **slot = &pages[at / PAGE_BYTES];
    if (!*slot) *slot = g_new0(CellPage, 1);
    unsigned row = at % PAGE_BYTES / ROW, lane = a->lane;
    uint32_t stop = MIN((at & ~(ROW - 1u)) + ROW, end);
    bool whole = stop - at == ROW, split = (*slot)->split >> row & 1;
    if (a->lane_bytes) lane += (at - a->offset) / a->lane_bytes;
    if (whole && !split && touch_row(k, &(*slot)->rows[row], a, lane, atomic)) {
      at = stop;
      continue;
    }
    if (!split) split_row(*slot, row);
    while (at < stop) {
      uint32_t next = MIN((at & ~3u) + 4, stop);
      touch_word(k, *slot, a, at, next, atomic);
      at = next;
    }
    if (whole && a->kind != ACCESS_READ) join_row(*slot, a, row, lane, atomic);
  }
}

/* The clock up to which what an agent did is ordered before the access, whatever lanes did it. What is later may be, too:
 * touch_row knows. */
static uint32_t ordered_up_to(const Clocks *k, const Access *a, const uint32_t *v, unsigned agent)
{
  const unsigned self = agent_of(k, a->warp);
  if (agent < k->warps && agent != self && k->n_partial[agent]) return 0;
  if (a->proxy == PROXY_ASYNC) return agent >= 2 * k->warps ? v[agent] : MIN(v[agent], v[k->n + agent]);
  if (agent == self) return a->clock - 1;
  return agent == k->warps + self ? MIN(v[agent], k->copies_synced[self]) : v[agent];
}

/* As touch_row of each, with what is the same for all asked once: operands are what a kernel reads most. */
void cells_read_rows(const Clocks *k, const Access *a, const uint32_t *offsets, unsigned n)
{
  const unsigned step = a->agent < k->warps;
  CellPage **pages = a->block->check;
  const uint32_t *v = clock_of(k, agent_of(k, a->warp))->v, collectives = COLLECTIVES(a);
  const Reader reader = {(uint16_t)a->agent, index_of(a->warp, a->in), a->clock};
  unsigned agent = UINT_MAX;
  uint32_t known = 0;
  for (unsigned i = 0; i < n; i++) {
    CellPage *page = pages[offsets[i] / PAGE_BYTES];
    unsigned at = offsets[i] % PAGE_BYTES / ROW;
    Cell *row = page ? &page->rows[at] : NULL;
    bool plain = row && !(page->split >> at & 1);
    if (plain && row->bytes) {
      if (row->agent != agent) known = ordered_up_to(k, a, v, agent = row->agent);
      plain = row->clock <= known;
    }
    if (!plain) {
      Access one = *a;
      one.offset = offsets[i];
      one.bytes = ROW;
      one.lane += i * step;
      cells_touch(k, &one, false);
      continue;
    }
    row->read_lanes = 0;
    row->read_bytes = 0;
    row->read_at = collectives;
    if (!row->n_readers || (row->n_readers == 1 && row->readers[0].agent == a->agent)) {
      row->readers[0] = reader;
      row->n_readers = 1;
    } else {
      note_reader(k, v, row, a);
    }
  }
}

const Inst *cells_writer(const Warp *w, const Block *b, uint32_t offset, unsigned *agent)
{
  CellPage *const *pages = b->check;
  const CellPage *page = pages[offset / PAGE_BYTES];
  if (!page) return NULL;
  unsigned row = offset % PAGE_BYTES / ROW;
  const Cell *cell = page->split >> row & 1 ? &page->words[offset % PAGE_BYTES / 4] : &page->rows[row];
  *agent = cell->agent;
  return cell->bytes ? instruction_at(w, cell->pc) : NULL;
}
