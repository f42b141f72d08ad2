/* cp.async.bulk, cp.async.bulk.tensor and their reductions; groups of bulk copies. Landing: async.c. */
#include "simulator/check.h"
#include "simulator/copy_data.h"
#include "simulator/place.h"
#include "simulator/race.h"
#include <string.h>

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
  if (op->reduction >= 0 && !reduction_fits(type, op->reduction)) {
    fault(w, in, l, SIM_FAULT_OPERAND, map, "no such reduction into a tensor of type %s", number_name(type));
    return false;
  }
  return true;
}

static bool issue_operands(Warp *w, const Inst *in, unsigned l, BulkOperation *op)
{
  const CopyData *data = in->data;
  uint64_t to = copy_value(w, data->to, data->to_offset, data->to_wide, l);
  uint64_t from = copy_value(w, data->from, data->from_offset, data->from_wide, l);
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
    uint64_t at = copy_value(w, data->barrier, data->barrier_offset, data->barrier_wide, l);
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
  if (op->tensor) store_edge_note(op);
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
  if (by_barrier) data->barrier = take_copy_address(d, i++, &data->barrier_offset, &data->barrier_wide);
  if (multicast) data->mask = source_wide(d, operand_at(d, i++), TYPE_B16, &(unsigned){0});
}

void decode_bulk(Decoder *d, int is_reduction)
{
  CopyData *data = copy_data_new(d);
  decode_direction(d, data);
  if (is_reduction) {
    data->reduction = 0;
    if (!take_reduction(d, &data->reduction)) decode_wrong(d, "the reduction is missing");
    take(d, "noftz");
    data->element_type = (uint8_t)need_type(d);
    d->kernel->global_order = true;
  }
  data->to = take_copy_address(d, 0, &data->to_offset, &data->to_wide);
  data->from = take_copy_address(d, 1, &data->from_offset, &data->from_wide);
  data->size = source_at(d, 2, TYPE_U32);
  decode_completion(d, data, 3);
  d->in->run = run_bulk;
}

void decode_bulk_tensor(Decoder *d, int is_reduction)
{
  static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d", NULL};
  CopyData *data = copy_data_new(d);
  int rank = 0;
  data->tensor = true;
  if (!take_one(d, ranks, &rank)) decode_wrong(d, "the number of dimensions is missing");
  data->rank = (unsigned)rank + 1;
  take(d, "tile");
  decode_direction(d, data);
  if (d->failed) return;
  if (is_reduction) {
    data->reduction = 0;
    if (!take_reduction(d, &data->reduction)) decode_wrong(d, "the reduction is missing");
    d->kernel->global_order = true;
  }
  bool store = data->direction == COPY_SHARED_TO_GLOBAL;
  if (store) {
    decode_tensor_address(d, data, 0, &data->to, &data->to_offset, &data->to_wide);
    data->from = take_copy_address(d, 1, &data->from_offset, &data->from_wide);
  } else {
    data->to = take_copy_address(d, 0, &data->to_offset, &data->to_wide);
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
