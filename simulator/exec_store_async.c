/* st.async and red.async: a store to a peer that signals its mbarrier. */
#include "simulator/check.h"
#include "simulator/copy_data.h"
#include "simulator/place.h"
#include "simulator/race.h"
#include <string.h>

typedef struct StoreAsync {
  PendingOperation base;
  Place to;
  Block *barrier_block;
  uint32_t barrier_offset, bytes;
  uint32_t defined; /* a bit for each element */
  uint8_t data[16];
} StoreAsync;

static void land_store(PendingOperation *p)
{
  StoreAsync *s = (StoreAsync *)p;
  const CopyData *data = p->in->data;
  unsigned size = p->in->bytes;
  Place element = s->to;
  for (unsigned i = 0; i < s->bytes; i += size, element.at += size, element.offset += size) {
    uint64_t old = 0, v = 0;
    bool defined = s->defined >> (i / size) & 1;
    if (data->reduction >= 0) {
      memcpy(&old, element.at, size);
      memcpy(&v, s->data + i, size);
      v = atomic_value((PtxType)p->in->type, data->reduction, old, v, 0);
      memcpy(s->data + i, &v, size);
      defined &= memory_is_defined(&element, size);
    }
    memcpy(element.at, s->data + i, size);
    memory_define(&element, size, defined);
  }
  Mbarrier *m = mbarrier_find(p->warp, p->in, p->lane, s->barrier_block, s->barrier_offset);
  if (m) mbarrier_transactions(p->warp, p->in, m, s->barrier_block, -(int64_t)s->bytes);
  g_free(s);
}

static Step run_store_async(Warp *w, const Inst *in, uint32_t mask)
{
  const CopyData *data = in->data;
  unsigned total = in->bytes * in->n_list;
  if (w->undefined) {
    check_value(w, in, data->to, mask, "the destination of a store");
    check_value(w, in, data->barrier, mask, "the mbarrier of a store");
  }
  for_lanes(l, mask)
  {
    uint64_t to = copy_value(w, data->to, data->to_offset, data->to_wide, l);
    Place p = memory_place(w, in, l, SPACE_CLUSTER, to, total, ACCESS_WRITE);
    uint64_t at = copy_value(w, data->barrier, data->barrier_offset, data->barrier_wide, l);
    Place q = memory_place(w, in, l, SPACE_CLUSTER, at, 8, ACCESS_ATOMIC);
    if (!p.at || !q.block) continue;
    if (p.block != q.block)
      fault(w, in, l, SIM_FAULT_MBARRIER, at, "the mbarrier is not in the block that receives the data");
    Mbarrier *m = mbarrier_find(w, in, l, q.block, (uint32_t)q.offset);
    if (!m) continue;
    StoreAsync *s = g_new0(StoreAsync, 1);
    *s = (StoreAsync){{land_store, w, in, l}, p, q.block, (uint32_t)q.offset, total, 0, {0}};
    for (unsigned e = 0; e < in->n_list; e++) {
      uint64_t v = in->bytes == 8 ? lane_u64(w, in->list[e], l) : lane_u32(w, in->list[e], l);
      memcpy(s->data + e * in->bytes, &v, in->bytes);
      if (!(undefined_lanes(w, in->list[e]) >> l & 1)) s->defined |= 1u << e;
    }
    race_mbarrier_used(w, in, l, m);
    race_store_async(w, in, l, &p, total, q.block, m);
    async_submit(&s->base);
  }
  cluster_progress(w->block->cluster);
  return STEP_NEXT;
}

void decode_store_async(Decoder *d, int is_reduction)
{
  CopyData *data = copy_data_new(d);
  take(d, "weak");
  if (is_reduction) {
    if (!take(d, "relaxed") || !take(d, "cluster") || !take_reduction(d, &data->reduction)) {
      decode_wrong(d, ".relaxed.cluster or the reduction is missing");
      return;
    }
    d->in->negate = true; /* an atomic operation for the race checker */
  }
  take(d, "shared::cluster");
  if (!take(d, "mbarrier::complete_tx::bytes")) decode_wrong(d, "the completion mechanism is missing");
  take(d, "v2");
  take(d, "v4");
  PtxType type = need_type(d);
  d->in->type = (uint8_t)type;
  d->in->bytes = (uint8_t)ptx_type_bytes(type);
  data->to = take_copy_address(d, 0, &data->to_offset, &data->to_wide);
  const PtxOperand *items;
  unsigned n = elements(operand_at(d, 1), &items);
  uint32_t *list = new_list(d, n);
  for (unsigned i = 0; i < n; i++)
    list[i] = source(d, &items[i], type);
  data->barrier = take_copy_address(d, 2, &data->barrier_offset, &data->barrier_wide);
  d->in->run = run_store_async;
  d->in->flags |= INST_CUSTOM;
}
