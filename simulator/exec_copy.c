/* cp.async: copies of a thread, 4 to 16 bytes, generic proxy; their groups and arrivals. */
#include "simulator/check.h"
#include "simulator/copy_data.h"
#include "simulator/place.h"
#include "simulator/race.h"
#include <string.h>

struct AsyncCopy {
  const Inst *in;
  uint32_t mask;
  uint32_t group[LANES];
  uint32_t to[LANES];
  uint64_t from[LANES];
  uint8_t bytes[LANES]; /* read; the rest is zero */
  uint32_t sequence;
};

GArray *async_copies_new(void)
{
  return g_array_new(FALSE, FALSE, sizeof(AsyncCopy));
}

/* The plain copy: the whole source is there. */
static bool copy_whole(Warp *w, const AsyncCopy *c, unsigned l, const Place *to)
{
  const Run *run = w->block->cluster->run;
  const unsigned bytes = c->in->bytes;
  Buffer *b = memory_buffer(run, c->from[l]);
  uint64_t offset = b ? c->from[l] - b->address : 0;
  if (c->bytes[l] != bytes || !b || offset >= b->bytes || b->bytes - offset < bytes) return false;
  Place p = {.at = b->data + offset, .buffer = b, .offset = offset, .defined = b->defined};
  race_access(w, c->in, l, &p, bytes, ACCESS_READ, false);
  if (bytes == 16)
    memcpy(to->at, p.at, 16);
  else
    memcpy(to->at, p.at, bytes);
  memory_define_as(to, &p, bytes);
  return true;
}

static void copy_lane(Warp *w, const AsyncCopy *c, unsigned l)
{
  const Inst *in = c->in;
  uint8_t data[16] = {0};
  Place from = {0}, q = place_at(w, in, l, SPACE_SHARED, c->to[l], in->bytes, ACCESS_WRITE);
  if (q.at && copy_whole(w, c, l, &q)) return;
  if (c->bytes[l]) {
    Place p = memory_place(w, in, l, SPACE_GLOBAL, c->from[l], 1, ACCESS_READ);
    if (!p.at) return;
    if (p.buffer->bytes - p.offset < c->bytes[l]) {
      memory_place(w, in, l, SPACE_GLOBAL, c->from[l], c->bytes[l], ACCESS_READ);
      return;
    }
    race_access(w, in, l, &p, c->bytes[l], ACCESS_READ, false);
    memcpy(data, p.at, c->bytes[l]);
    from = p;
  }
  if (!q.at) return;
  memcpy(q.at, data, in->bytes);
  memory_define(&q, in->bytes, true);
  if (c->bytes[l]) memory_define_as(&q, &from, c->bytes[l]);
}

/* lands what the lanes have issued in groups before the latest `keep` */
static void land_copies(Warp *w, uint32_t mask, uint32_t keep, bool uncommitted)
{
  unsigned out = 0;
  for (unsigned i = 0; i < w->copies->len; i++) {
    AsyncCopy *c = &g_array_index(w->copies, AsyncCopy, i);
    for_lanes(l, c->mask & mask)
    {
      if (!uncommitted && c->group[l] + keep >= w->copy_groups[l]) continue;
      copy_lane(w, c, l);
      c->mask &= ~(1u << l);
    }
    if (!c->mask) continue;
    if (out != i) g_array_index(w->copies, AsyncCopy, out) = *c;
    out++;
  }
  g_array_set_size(w->copies, out);
}

void copy_addresses(const Warp *w, const Inst *in, unsigned lane, uint32_t *to, uint64_t *from,
                    unsigned *bytes)
{
  const CopyData *data = in->data;
  uint64_t shared = copy_value(w, data->to, data->to_offset, data->to_wide, lane);
  if (data->to_wide && shared >> 32 == WINDOW_SHARED >> 32) shared -= WINDOW_SHARED;
  *to = (uint32_t)shared;
  *from = copy_value(w, data->from, data->from_offset, data->from_wide, lane);
  *bytes = in->bytes;
  if (data->size == OPERAND_NONE) return;
  *bytes =
      in->negate ? (predicate(w, data->size) >> lane & 1 ? 0 : in->bytes) : lane_u32(w, data->size, lane);
}

static Step run_copy(Warp *w, const Inst *in, uint32_t mask)
{
  const CopyData *data = in->data;
  AsyncCopy c = {.in = in, .mask = mask};
  if (w->undefined) {
    check_value(w, in, data->to, mask, "the destination address of a copy");
    check_value(w, in, data->from, mask, "the source address of a copy");
    check_value(w, in, data->size, mask, "the source size of a copy");
  }
  for_lanes(l, mask)
  {
    unsigned bytes;
    copy_addresses(w, in, l, &c.to[l], &c.from[l], &bytes);
    c.group[l] = w->copy_groups[l];
    if (bytes > in->bytes) {
      fault(w, in, l, SIM_FAULT_OPERAND, c.from[l], "a source size of %u bytes; the copy has %u", bytes,
            in->bytes);
      bytes = in->bytes;
    }
    c.bytes[l] = (uint8_t)bytes;
    if (c.from[l] & (in->bytes - 1u))
      fault(w, in, l, SIM_FAULT_ALIGNMENT, c.from[l], "the source of a %u-byte copy is not aligned",
            in->bytes);
    race_copy_issue(w, in, l, c.to[l], in->bytes);
  }
  Cluster *cluster = w->block->cluster;
  SimLanding landing = cluster->run->landing;
  if (landing == SIM_LAND_EARLY || (landing == SIM_LAND_RANDOM && cluster_random(cluster) & 1)) {
    for_lanes(l, mask) copy_lane(w, &c, l);
  } else {
    /* its bytes are in flux until it lands */
    for_lanes(l, mask)
    {
      Place q = memory_place(w, in, l, SPACE_SHARED, c.to[l], in->bytes, ACCESS_WRITE);
      if (q.at) memory_define(&q, in->bytes, false);
    }
    g_array_append_val(w->copies, c);
  }
  return STEP_NEXT;
}

void decode_copy(Decoder *d, int argument)
{
  Inst *in = d->in;
  CopyData *data = copy_data_new(d);
  take(d, "shared");
  take(d, "shared::cta");
  take(d, "global");
  take_hints(d);
  data->to = take_copy_address(d, 0, &data->to_offset, &data->to_wide);
  data->from = take_copy_address(d, 1, &data->from_offset, &data->from_wide);
  int64_t bytes = immediate_at(d, 2);
  if (bytes != 4 && bytes != 8 && bytes != 16) decode_wrong(d, "a size of %lld bytes", (long long)bytes);
  in->bytes = (uint8_t)bytes;
  bool hint = strstr(d->source->text, "cache_hint") != NULL;
  if (operand_count(d) > (hint ? 4u : 3u)) {
    const PtxOperand *o = operand_at(d, 3);
    in->negate = o->kind == OPERAND_REGISTER && o->symbol->type == TYPE_PRED;
    data->size = source(d, o, in->negate ? TYPE_PRED : TYPE_U32);
  }
  in->run = run_copy;
}

static Step run_copy_group(Warp *w, const Inst *in, uint32_t mask)
{
  if (in->operation == GROUP_COMMIT) {
    for_lanes(l, mask) w->copy_groups[l]++;
    return STEP_NEXT;
  }
  land_copies(w, mask, (uint32_t)in->immediate, in->operation == GROUP_WAIT_ALL);
  race_copy_wait(w, mask, (uint32_t)in->immediate, in->operation == GROUP_WAIT_ALL);
  return STEP_NEXT;
}

void decode_copy_group(Decoder *d, int operation)
{
  d->in->operation = (uint8_t)operation;
  if (operation == GROUP_WAIT) d->in->immediate = immediate_at(d, 0);
  d->in->run = run_copy_group;
  d->in->flags |= INST_CUSTOM;
}

typedef struct CopyArrival {
  PendingOperation base;
  Block *block;
  uint32_t offset;
} CopyArrival;

static void land_arrival(PendingOperation *p)
{
  CopyArrival *a = (CopyArrival *)p;
  land_copies(p->warp, 1u << p->lane, 0, true);
  Mbarrier *m = mbarrier_find(p->warp, p->in, p->lane, a->block, a->offset);
  race_copy_arrive(p->warp, p->in, p->lane);
  if (m) mbarrier_arrive(p->warp, p->in, m, a->block, 1, 1u << p->lane);
  g_free(a);
}

static Step run_copy_arrive(Warp *w, const Inst *in, uint32_t mask)
{
  const CopyData *data = in->data;
  for_lanes(l, mask)
  {
    uint64_t address = copy_value(w, data->barrier, data->barrier_offset, data->barrier_wide, l);
    Place p = memory_place(w, in, l, (Space)in->space, address, 8, ACCESS_ATOMIC);
    if (!p.block) continue;
    Mbarrier *m = mbarrier_find(w, in, l, p.block, (uint32_t)p.offset);
    if (m) race_mbarrier_used(w, in, l, m);
    if (m && !in->negate) m->pending++; /* without .noinc the arrival pays for itself */
    CopyArrival *a = g_new0(CopyArrival, 1);
    *a = (CopyArrival){{land_arrival, w, in, l}, p.block, (uint32_t)p.offset};
    async_submit(&a->base);
  }
  return STEP_NEXT;
}

void decode_copy_arrive(Decoder *d, int argument)
{
  CopyData *data = copy_data_new(d);
  d->in->negate = take(d, "noinc");
  d->in->space = (uint8_t)take_space(d);
  take(d, "b64");
  Space space = d->in->space;
  data->barrier = address(d, operand_at(d, 0), &data->barrier_offset, &data->barrier_wide, &space);
  d->in->space = (uint8_t)space;
  d->in->run = run_copy_arrive;
}
