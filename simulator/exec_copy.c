/* cp.async, cp.async.bulk, cp.async.bulk.tensor, their groups; st.async; prefetches. */
#include "simulator/check.h"
#include "simulator/copy.h"
#include "simulator/exec.h"
#include "simulator/place.h"
#include "simulator/race.h"
#include <string.h>

/* Addresses and the like of one copy; lanes are read from slots at issue. */
typedef struct CopyData {
  uint32_t to, from, barrier, mask, size;
  int64_t to_offset, from_offset, barrier_offset;
  bool to_wide, from_wide, barrier_wide;
  CopyDirection direction;
  bool tensor;
  unsigned rank;
  int reduction;
  uint8_t element_type;
  Space to_space, from_space;
} CopyData;

static uint64_t value_of(const Warp *w, uint32_t id, int64_t offset, bool wide, unsigned lane)
{
  return wide ? lane_u64(w, id, lane) + (uint64_t)offset
              : (uint32_t)(lane_u32(w, id, lane) + (uint32_t)offset);
}

static uint32_t take_address(Decoder *d, unsigned i, int64_t *offset, bool *wide)
{
  return address(d, operand_at(d, i), offset, wide, NULL);
}

/* --- cp.async: per thread, 4 to 16 bytes, generic proxy --- */

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
  uint64_t shared = value_of(w, data->to, data->to_offset, data->to_wide, lane);
  if (data->to_wide && shared >> 32 == WINDOW_SHARED >> 32) shared -= WINDOW_SHARED;
  *to = (uint32_t)shared;
  *from = value_of(w, data->from, data->from_offset, data->from_wide, lane);
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

static CopyData *new_data(Decoder *d)
{
  CopyData *data = arena_new_object(d->kernel->arena, CopyData);
  data->barrier = data->mask = data->size = OPERAND_NONE;
  data->reduction = -1;
  d->in->data = data;
  d->in->flags |= INST_CUSTOM;
  return data;
}

void decode_copy(Decoder *d, int argument)
{
  Inst *in = d->in;
  CopyData *data = new_data(d);
  take(d, "shared");
  take(d, "shared::cta");
  take(d, "global");
  take_hints(d);
  data->to = take_address(d, 0, &data->to_offset, &data->to_wide);
  data->from = take_address(d, 1, &data->from_offset, &data->from_wide);
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

enum { GROUP_COMMIT, GROUP_WAIT, GROUP_WAIT_ALL };

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
    uint64_t address = value_of(w, data->barrier, data->barrier_offset, data->barrier_wide, l);
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
  CopyData *data = new_data(d);
  d->in->negate = take(d, "noinc");
  d->in->space = (uint8_t)take_space(d);
  take(d, "b64");
  Space space = d->in->space;
  data->barrier = address(d, operand_at(d, 0), &data->barrier_offset, &data->barrier_wide, &space);
  d->in->space = (uint8_t)space;
  d->in->run = run_copy_arrive;
}

/* --- bulk copies --- */

/* Resolves a range of shared memory once, so that landing needs no checks. */
static bool shared_range(Warp *w, const Inst *in, unsigned lane, Space space, uint64_t address,
                         uint64_t bytes, unsigned align, AccessKind kind, Block **block, uint32_t *offset)
{
  if (address >> 32 == WINDOW_SHARED >> 32) address -= WINDOW_SHARED; /* a generic address does as well */
  if (address & (align - 1)) {
    fault(w, in, lane, SIM_FAULT_ALIGNMENT, address, "shared address 0x%llx must be aligned to %u bytes",
          (unsigned long long)address, align);
    return false;
  }
  Place first = memory_place(w, in, lane, space, address, 1, kind);
  if (!first.at) return false;
  if (!first.block) {
    fault(w, in, lane, SIM_FAULT_OPERAND, address, "the address is not in shared memory");
    return false;
  }
  if (first.offset + bytes > first.block->shared_bytes) {
    fault(w, in, lane, SIM_FAULT_BOUNDS, address,
          "%llu bytes at shared address 0x%llx; the block's shared memory ends at 0x%llx",
          (unsigned long long)bytes, (unsigned long long)first.offset,
          (unsigned long long)first.block->shared_bytes);
    return false;
  }
  *block = first.block;
  *offset = (uint32_t)first.offset;
  return true;
}

/* What cp.reduce takes by the map's type; observed on the hardware, everything else ended as an illegal
 * instruction. The driver has no types of bits: they go by as unsigned integers. */
static bool reduction_fits(NumberType type, int operation)
{
  const unsigned bits = number_bits(type);
  const NumberClass class = number_class(type);
  if (bits == 8 || (bits == 16 && class != NUMBER_FLOAT)) return false;
  switch (operation) {
  case ATOM_ADD: return type != NUMBER_S64;
  case ATOM_MIN:
  case ATOM_MAX: return class != NUMBER_FLOAT || bits == 16;
  case ATOM_INC:
  case ATOM_DEC: return bits == 32 && (class == NUMBER_UNSIGNED || class == NUMBER_BITS);
  default: return class != NUMBER_FLOAT && type != NUMBER_S64;
  }
}

/* Limits of TMA copies observed on the hardware, which ends as an illegal instruction beyond them: the
 * first coordinate, the coordinates of a store, the types of a reduction. */
static bool tensor_fits(Warp *w, const Inst *in, unsigned l, const BulkOperation *op, uint64_t map)
{
  const NumberType type = (NumberType)op->map.type;
  if ((int64_t)op->coordinates[0] * number_bytes(type) % 16) {
    fault(w, in, l, SIM_FAULT_ALIGNMENT, map,
          "the box begins at element %d of its rows: not a multiple of 16 bytes", op->coordinates[0]);
    return false;
  }
  if (op->direction != COPY_SHARED_TO_GLOBAL) return true;
  for (unsigned i = 0; i < op->map.rank; i++)
    if (op->coordinates[i] < 0) {
      fault(w, in, l, SIM_FAULT_BOUNDS, map,
            "the box of a tensor store begins at %d of dimension %u: only loads may begin before the tensor",
            op->coordinates[i], i);
      return false;
    }
  if (tensormap_is_astray(&op->map, op->coordinates, w->block->cluster->n_blocks))
    fault_party(w, in, l, SIM_FAULT_BOUNDS, !w->block->cluster->run->ours, map, NULL,
                "the box of a tensor store lies far outside of the tensor: nothing is stored");
  if (op->reduction >= 0 && !reduction_fits(type, op->reduction)) {
    fault(w, in, l, SIM_FAULT_OPERAND, map, "no such reduction into a tensor of type %s", number_name(type));
    return false;
  }
  return true;
}

static bool issue_operands(Warp *w, const Inst *in, unsigned l, BulkOperation *op)
{
  const CopyData *data = in->data;
  uint64_t to = value_of(w, data->to, data->to_offset, data->to_wide, l);
  uint64_t from = value_of(w, data->from, data->from_offset, data->from_wide, l);
  if (data->tensor) {
    bool store = data->direction == COPY_SHARED_TO_GLOBAL;
    if (!tensormap_read(w, in, l, store ? to : from, data->rank, &op->map)) return false;
    for (unsigned i = 0; i < data->rank; i++)
      op->coordinates[i] = (int32_t)lane_u32(w, in->list[i], l);
    if (!tensor_fits(w, in, l, op, store ? to : from)) return false;
    op->bytes = tensormap_box_bytes(&op->map);
    op->extent = tensormap_shared_bytes(&op->map);
    if (op->reduction >= 0) op->element_type = (uint8_t)ptx_type_parse(number_name((NumberType)op->map.type));
    if (op->element_type == TYPE_NONE) op->element_type = TYPE_B32;
    if (op->element_type == TYPE_TF32) op->element_type = TYPE_F32; /* only loads know tf32 */
  } else {
    op->bytes = op->extent = lane_u32(w, data->size, l);
    if (op->bytes & 15 || (data->direction != COPY_SHARED_TO_SHARED &&
                           (data->direction == COPY_SHARED_TO_GLOBAL ? to : from) & 15)) {
      fault(w, in, l, SIM_FAULT_ALIGNMENT, from,
            "size and addresses of a bulk copy must be multiples of 16 bytes");
      return false;
    }
    op->global = data->direction == COPY_SHARED_TO_GLOBAL ? to : from;
  }
  unsigned align = data->tensor ? 128 : 16;
  if (data->direction != COPY_SHARED_TO_GLOBAL &&
      !shared_range(w, in, l, data->to_space, to, op->extent, align, ACCESS_WRITE, &op->to, &op->to_offset))
    return false;
  if (data->direction != COPY_GLOBAL_TO_SHARED &&
      !shared_range(w, in, l, SPACE_SHARED, from, op->extent, align, ACCESS_READ, &op->from,
                    &op->from_offset))
    return false;
  if (data->barrier != OPERAND_NONE) {
    uint64_t at = value_of(w, data->barrier, data->barrier_offset, data->barrier_wide, l);
    if (!shared_range(w, in, l, data->to_space, at, 8, 8, ACCESS_ATOMIC, &op->barrier_block,
                      &op->barrier_offset))
      return false;
    if (op->barrier_block != op->to && data->mask == OPERAND_NONE) {
      fault(w, in, l, SIM_FAULT_MBARRIER, at, "the mbarrier is not in the block that receives the data");
      return false;
    }
  }
  return true;
}

static bool no_rows(void *user, uint32_t offset, uint64_t global, unsigned bytes)
{
  return false;
}

static void mark_piece(void *user, uint32_t offset, uint64_t global, uint32_t valid, unsigned element)
{
  Block *b = user;
  define16(b->defined, offset, false);
}

static void mark_in_flux(BulkOperation *op)
{
  Cluster *c = op->base.warp->block->cluster;
  for (unsigned i = 0; i < c->n_blocks; i++) {
    Block *b = &c->blocks[i];
    if (op->mask ? !(op->mask >> i & 1) : b != op->to) continue;
    if (op->extent != op->bytes) { /* rows narrower than the swizzle: what lies between them stays as it is */
      tensormap_walk(&op->map, op->coordinates, op->to_offset, no_rows, mark_piece, b);
      continue;
    }
    Place p = {.block = b, .offset = op->to_offset, .defined = b->defined};
    memory_define(&p, (unsigned)op->extent, false);
  }
}

static void issue_bulk(Warp *w, const Inst *in, unsigned l)
{
  const CopyData *data = in->data;
  BulkOperation *op = g_new0(BulkOperation, 1);
  *op = (BulkOperation){.base = {bulk_land, w, in, l}, .direction = data->direction, .tensor = data->tensor};
  op->reduction = data->reduction;
  op->element_type = data->element_type;
  if (!issue_operands(w, in, l, op)) {
    g_free(op);
    return;
  }
  Cluster *c = w->block->cluster;
  if (data->mask != OPERAND_NONE) {
    op->mask = lane_u32(w, data->mask, l) & 0xffff;
    if (!op->mask || op->mask >> c->n_blocks) {
      fault(w, in, l, SIM_FAULT_CLUSTER, op->to_offset, "multicast mask 0x%x in a cluster of %u blocks",
            op->mask, c->n_blocks);
      g_free(op);
      return;
    }
  }
  race_bulk_issue(op);
  if (data->direction != COPY_SHARED_TO_GLOBAL) {
    mark_in_flux(op);
    async_submit(&op->base);
    return;
  }
  op->group = w->bulk_groups[l];
  SimLanding landing = c->run->landing;
  g_ptr_array_add(w->bulk, op);
  if (landing == SIM_LAND_EARLY || (landing == SIM_LAND_RANDOM && cluster_random(c) & 1))
    bulk_land(&op->base);
}

static Step run_bulk(Warp *w, const Inst *in, uint32_t mask)
{
  const CopyData *data = in->data;
  if (w->undefined) {
    check_value(w, in, data->to, mask, "the destination of a bulk copy");
    check_value(w, in, data->from, mask, "the source of a bulk copy");
    check_value(w, in, data->size, mask, "the size of a bulk copy");
    check_value(w, in, data->barrier, mask, "the mbarrier of a bulk copy");
    check_value(w, in, data->mask, mask, "the multicast mask of a bulk copy");
    for (unsigned i = 0; i < in->n_list; i++)
      check_value(w, in, in->list[i], mask, "a coordinate");
  }
  for_lanes(l, mask) issue_bulk(w, in, l);
  cluster_progress(w->block->cluster);
  return STEP_NEXT;
}

static void decode_direction(Decoder *d, CopyData *data)
{
  static const char *const tos[] = {"shared::cluster", "shared::cta", "global", NULL};
  const char *const *parts = d->source->parts;
  int first = -1, second = -1;
  for (unsigned i = 1; i < d->source->n_parts; i++)
    for (int k = 0; tos[k]; k++)
      if (strcmp(parts[i], tos[k]) == 0) {
        d->taken |= 1ull << i;
        if (first < 0)
          first = k;
        else if (second < 0)
          second = k;
      }
  if (first < 0 || second < 0 || (first == 2 && second == 2)) {
    decode_wrong(d, "source and destination space are missing");
    return;
  }
  data->direction = first == 2    ? COPY_SHARED_TO_GLOBAL
                    : second == 2 ? COPY_GLOBAL_TO_SHARED
                                  : COPY_SHARED_TO_SHARED;
  data->to_space = SPACE_CLUSTER;
}

static void decode_tensor_address(Decoder *d, CopyData *data, unsigned i, uint32_t *base, int64_t *offset,
                                  bool *wide)
{
  const PtxOperand *o = operand_at(d, i);
  *base = address(d, o, offset, wide, NULL);
  /* the map is named by a generic address; a parameter's own address is in the parameter window */
  if (o->kind != OPERAND_ADDRESS || o->n < 2 || o->items[1].kind != OPERAND_VECTOR) {
    decode_wrong(d, "[map, {coordinates}] is expected");
    return;
  }
  const PtxOperand *vector = &o->items[1];
  if (vector->n != data->rank) {
    decode_wrong(d, "%u coordinates in %u dimensions", vector->n, data->rank);
    return;
  }
  const PtxOperand *map = &o->items[0];
  if (map->kind == OPERAND_SYMBOL && map->symbol->kind == SYMBOL_VARIABLE &&
      map->symbol->space == SPACE_PARAM)
    *base = constant(d, WINDOW_PARAM + map->symbol->offset + (uint64_t)map->value, 8);
  uint32_t *list = new_list(d, data->rank);
  for (unsigned k = 0; k < data->rank; k++)
    list[k] = source(d, &vector->items[k], TYPE_S32);
}

static const char *const reductions[] = {"add", "min", "max", "and", "or", "xor", "inc", "dec", NULL};
static const int reduction_operation[] = {ATOM_ADD, ATOM_MIN, ATOM_MAX, ATOM_AND,
                                          ATOM_OR,  ATOM_XOR, ATOM_INC, ATOM_DEC};

static void decode_completion(Decoder *d, CopyData *data, unsigned i)
{
  bool by_barrier = take(d, "mbarrier::complete_tx::bytes");
  bool by_group = take(d, "bulk_group");
  if (by_barrier == by_group || by_group != (data->direction == COPY_SHARED_TO_GLOBAL)) {
    decode_wrong(d, "completion by mbarrier::complete_tx::bytes or bulk_group does not fit");
    return;
  }
  bool multicast = take(d, "multicast::cluster");
  take_hints(d);
  if (by_barrier) data->barrier = take_address(d, i++, &data->barrier_offset, &data->barrier_wide);
  if (multicast) data->mask = source_wide(d, operand_at(d, i++), TYPE_B16, &(unsigned){0});
}

void decode_bulk(Decoder *d, int is_reduction)
{
  CopyData *data = new_data(d);
  int operation;
  decode_direction(d, data);
  if (is_reduction) {
    if (!take_one(d, reductions, &operation)) decode_wrong(d, "the reduction is missing");
    data->reduction = d->failed ? 0 : reduction_operation[operation];
    take(d, "noftz");
    data->element_type = (uint8_t)need_type(d);
    d->kernel->global_order = true;
  }
  data->to = take_address(d, 0, &data->to_offset, &data->to_wide);
  data->from = take_address(d, 1, &data->from_offset, &data->from_wide);
  data->size = source_at(d, 2, TYPE_U32);
  decode_completion(d, data, 3);
  d->in->run = run_bulk;
}

void decode_bulk_tensor(Decoder *d, int is_reduction)
{
  static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d", NULL};
  CopyData *data = new_data(d);
  int rank = 0, operation = 0;
  data->tensor = true;
  if (!take_one(d, ranks, &rank)) decode_wrong(d, "the number of dimensions is missing");
  data->rank = (unsigned)rank + 1;
  take(d, "tile");
  decode_direction(d, data);
  if (d->failed) return;
  if (is_reduction) {
    if (!take_one(d, reductions, &operation)) decode_wrong(d, "the reduction is missing");
    data->reduction = reduction_operation[operation];
    d->kernel->global_order = true;
  }
  bool store = data->direction == COPY_SHARED_TO_GLOBAL;
  if (store) {
    decode_tensor_address(d, data, 0, &data->to, &data->to_offset, &data->to_wide);
    data->from = take_address(d, 1, &data->from_offset, &data->from_wide);
  } else {
    data->to = take_address(d, 0, &data->to_offset, &data->to_wide);
    decode_tensor_address(d, data, 1, &data->from, &data->from_offset, &data->from_wide);
  }
  decode_completion(d, data, 2);
  d->in->run = run_bulk;
}

static Step run_bulk_group(Warp *w, const Inst *in, uint32_t mask)
{
  if (in->operation == GROUP_COMMIT) {
    for_lanes(l, mask) w->bulk_groups[l]++;
  } else {
    bulk_wait(w, mask, (uint32_t)in->immediate);
    race_bulk_wait(w, mask, (uint32_t)in->immediate, in->negate);
  }
  return STEP_NEXT;
}

void decode_bulk_group(Decoder *d, int operation)
{
  d->in->operation = (uint8_t)operation;
  d->in->negate = take(d, "read");
  if (operation == GROUP_WAIT) d->in->immediate = immediate_at(d, 0);
  d->in->run = run_bulk_group;
  d->in->flags |= INST_CUSTOM;
}

/* --- st.async: a store to a peer that signals its mbarrier --- */

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
    uint64_t to = value_of(w, data->to, data->to_offset, data->to_wide, l);
    Place p = memory_place(w, in, l, SPACE_CLUSTER, to, total, ACCESS_WRITE);
    uint64_t at = value_of(w, data->barrier, data->barrier_offset, data->barrier_wide, l);
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
  CopyData *data = new_data(d);
  int operation;
  take(d, "weak");
  if (is_reduction) {
    if (!take(d, "relaxed") || !take(d, "cluster") || !take_one(d, reductions, &operation)) {
      decode_wrong(d, ".relaxed.cluster or the reduction is missing");
      return;
    }
    data->reduction = reduction_operation[operation];
    d->in->negate = true; /* an atomic operation for the race checker */
  }
  take(d, "shared::cluster");
  if (!take(d, "mbarrier::complete_tx::bytes")) decode_wrong(d, "the completion mechanism is missing");
  take(d, "v2");
  take(d, "v4");
  PtxType type = need_type(d);
  d->in->type = (uint8_t)type;
  d->in->bytes = (uint8_t)ptx_type_bytes(type);
  data->to = take_address(d, 0, &data->to_offset, &data->to_wide);
  const PtxOperand *items;
  unsigned n = elements(operand_at(d, 1), &items);
  uint32_t *list = new_list(d, n);
  for (unsigned i = 0; i < n; i++)
    list[i] = source(d, &items[i], type);
  data->barrier = take_address(d, 2, &data->barrier_offset, &data->barrier_wide);
  d->in->run = run_store_async;
  d->in->flags |= INST_CUSTOM;
}
