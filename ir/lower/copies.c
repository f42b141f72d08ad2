/* Copies between tensors and shared tiles: per thread (async or through registers), in bulk and by TMA.
 *
 * Per thread, the tile is cut into chunks of `size` bytes along its contiguous dimension; consecutive threads
 * take consecutive chunks of a row, then of the next rows. Chunks outside the tensor become zeros. */
#include "ir/facts.h"
#include "ir/lower/lower.h"

/* ---- How threads share a tile ---- */

typedef struct Chunks {
  unsigned inner, outer; /* tile dimensions: contiguous one, the other */
  unsigned elements;     /* of a chunk */
  unsigned wide, high;   /* chunks a row, rows */
  unsigned threads;
  unsigned pass_wide, pass_high; /* threads side by side in a row, rows at once */
  unsigned passes;
  LowerMap map;
  bool whole; /* every pass is full */
} Chunks;

static unsigned power_below(unsigned value)
{
  unsigned power = 1;
  while (power * 2 <= value)
    power *= 2;
  return power;
}

#define LINE_BYTES                                                                                           \
  128 /* what neighbouring threads copy of a row, so that a thread's next chunk is at a constant */

/* A power of two of threads takes part, all of them in a tile of one row that is longer; a row that is no power of two of chunks,
 * or longer than a line, is walked in several passes. */
static void share(Lower *lower, const LowerShared *shared, unsigned bytes, Chunks *chunks)
{
  chunks->inner = lower_shared_inner(shared);
  chunks->outer = shared->rank == 2 ? 1 - chunks->inner : 0;
  chunks->elements = MAX(1, number_elements(shared->element, bytes));
  chunks->wide = shared->extent[chunks->inner] / chunks->elements;
  chunks->high = shared->rank == 2 ? shared->extent[chunks->outer] : 1;
  unsigned limit = lower->role->instance_warps * 32, threads = power_below(limit);
  chunks->pass_wide = MIN(threads, chunks->wide & -chunks->wide);
  if (chunks->high == 1 && chunks->wide > limit) chunks->pass_wide = limit;
  if (bytes >= 16 && chunks->high > 1) chunks->pass_wide = MIN(chunks->pass_wide, LINE_BYTES / bytes);
  chunks->pass_high = MIN(MAX(1, threads / chunks->pass_wide), power_below(chunks->high));
  chunks->threads = chunks->pass_wide * chunks->pass_high;
  unsigned columns = (chunks->wide + chunks->pass_wide - 1) / chunks->pass_wide;
  unsigned rows = (chunks->high + chunks->pass_high - 1) / chunks->pass_high;
  chunks->passes = columns * rows;
  chunks->whole = chunks->high % chunks->pass_high == 0;
  chunks->map = (LowerMap){0};
  lower_map_add(&chunks->map, SOURCE_THREAD, 1, chunks->pass_wide, limit, chunks->inner, chunks->elements);
  if (shared->rank == 2)
    lower_map_add(&chunks->map, SOURCE_THREAD, chunks->pass_wide, chunks->pass_high, limit, chunks->outer, 1);
}

/* Constant part of a pass's coordinates. */
static void pass_at(const Chunks *chunks, unsigned pass, unsigned *at)
{
  unsigned columns = (chunks->wide + chunks->pass_wide - 1) / chunks->pass_wide;
  at[0] = at[1] = 0;
  at[chunks->inner] = pass % columns * chunks->pass_wide * chunks->elements;
  if (chunks->high > 1) at[chunks->outer] = pass / columns * chunks->pass_high;
}

/* Threads of the role beyond those that share the tile, and rows beyond the tile's last. */
static IrExpr *takes_part(Lower *lower, const Chunks *chunks, const unsigned *at)
{
  IrExpr *part = NULL;
  if (chunks->threads < lower->role->instance_warps * 32)
    part = lower_compare(lower, OP_LT, lower->role->thread, lower_int(lower, chunks->threads));
  unsigned left = chunks->wide - at[chunks->inner] / chunks->elements; /* of the row */
  if (left < chunks->pass_wide)
    part = lower_and(lower, part, lower_compare(lower, OP_LT, lower->role->thread, lower_int(lower, left)));
  if (!chunks->whole && at[chunks->outer] + chunks->pass_high > chunks->high) {
    IrExpr *row = lower_map_coordinate(lower, &chunks->map, chunks->outer);
    part = lower_and(lower, part,
                     lower_compare(lower, OP_LT, row, lower_int(lower, chunks->high - at[chunks->outer])));
  }
  return part;
}

/* ---- Async ---- */

static void copy_async(Lower *lower, IrOp *op, const LowerShared *shared, unsigned bytes)
{
  Chunks chunks;
  LowerAccess access;
  share(lower, shared, bytes, &chunks);
  if (!lower_access_open(lower, op->operands[1], &chunks.map, shared->rank, shared->extent, &access)) return;
  for (unsigned pass = 0; pass < chunks.passes && !lower->failed; pass++) {
    unsigned at[LAYOUT_MAX_DIMS] = {0};
    pass_at(&chunks, pass, at);
    LowerAddress to = lower_shared_at(lower, shared, &chunks.map, at),
                 from = lower_access_at(lower, &access, at);
    IrExpr *inside = lower_access_inside(lower, &access, at), *part = takes_part(lower, &chunks, at);
    IrExpr *valid = NULL;
    if (inside) /* no byte is read where none is valid, so the address need not be legal */
      valid = lower_scalar(lower, OP_SELECT, ir_scalar(NUMBER_S32), "valid", 3, inside,
                           lower_int(lower, bytes), lower_int(lower, 0));
    IrOp *copy = lower_emit(lower, OP_COPY_ASYNC, 2, lower_address(lower, to), lower_address(lower, from));
    ir_attribute_set(copy, ATTR_BYTES, lower_int(lower, bytes));
    if (valid) ir_attribute_set(copy, ATTR_VALID, valid);
    if (ir_attribute(op, ATTR_CACHE)) ir_attribute_set(copy, ATTR_CACHE, ir_attribute_value(op, ATTR_CACHE));
    lower_when(copy, part);
  }
}

/* ---- Plain ---- */

/* All loads first, so that they are in flight together. Elements that share bytes travel as bytes. */
static void copy_plain(Lower *lower, IrOp *op, const LowerShared *shared, unsigned bytes)
{
  Chunks chunks;
  LowerAccess access;
  share(lower, shared, bytes, &chunks);
  if (!lower_access_open(lower, op->operands[1], &chunks.map, shared->rank, shared->extent, &access)) return;
  unsigned vector = MIN(chunks.elements, lower_shared_vector(shared, chunks.inner));
  const unsigned each = number_is_packed(shared->element) ? number_elements(shared->element, 1) : 1,
                 moved = chunks.elements / each;
  LowerTile tile = {.element = each > 1 ? NUMBER_U8 : shared->element, .n = chunks.passes * moved};
  tile.reg = arena_new_array(lower->arena, IrExpr *, tile.n);
  unsigned *reg = arena_new_array(lower->arena, unsigned, tile.n);
  for (unsigned i = 0; i < tile.n; i++)
    reg[i] = i;
  for (unsigned pass = 0; pass < chunks.passes && !lower->failed; pass++) {
    unsigned at[LAYOUT_MAX_DIMS] = {0};
    pass_at(&chunks, pass, at);
    IrExpr *inside = lower_access_inside(lower, &access, at);
    IrExpr *when = lower_and(lower, inside, takes_part(lower, &chunks, at));
    lower_load_vector(lower, OP_LOAD_GLOBAL, lower_access_at(lower, &access, at), &tile, reg + pass * moved,
                      moved, when, NULL, ir_attribute_value(op, ATTR_CACHE));
  }
  for (unsigned pass = 0; pass < chunks.passes && !lower->failed; pass++) {
    unsigned at[LAYOUT_MAX_DIMS] = {0};
    pass_at(&chunks, pass, at);
    IrExpr *part = takes_part(lower, &chunks, at);
    for (unsigned e = 0; e < moved; e += vector / each) {
      LowerAddress to = lower_shared_at(lower, shared, &chunks.map, at);
      lower_store_vector(lower, OP_STORE_SHARED, to, &tile, reg + pass * moved + e, vector / each, part,
                         NULL);
      at[chunks.inner] += vector;
    }
  }
}

/* ---- Bulk ---- */

/* Does a row of the tile lie in one piece? */
static bool rows_are_pieces(const LowerShared *shared, unsigned inner)
{
  unsigned at[LAYOUT_MAX_DIMS] = {0};
  if (number_is_packed(shared->element)) return false;
  unsigned bytes = number_bytes(shared->element);
  int64_t start = lower_shared_offset(shared, at);
  for (unsigned row = 0; row < (shared->rank == 2 ? shared->extent[1 - inner] : 1); row++) {
    if (shared->rank == 2) at[1 - inner] = row;
    int64_t first = start + lower_shared_linear(shared, at);
    for (unsigned i = 0; i < shared->extent[inner]; i++) {
      at[inner] = i;
      if (lower_shared_offset(shared, at) != first + (int64_t)i * bytes) return false;
    }
    at[inner] = 0;
  }
  return true;
}

static void copy_bulk_load(Lower *lower, IrOp *op, const LowerShared *shared)
{
  const IrExpr *barrier = ir_attribute_value(op, ATTR_BARRIER);
  unsigned inner = lower_shared_inner(shared), rows = shared->rank == 2 ? shared->extent[1 - inner] : 1,
           bytes = (unsigned)number_bytes_of(shared->element, shared->extent[inner]);
  if (!barrier || !rows_are_pieces(shared, inner)) {
    lower_fail(lower, ERROR_INPUT, "bulk-copy", NULL,
               "a bulk copy needs a barrier, and rows that lie in one piece in shared memory");
    return;
  }
  LowerAccess access;
  if (!lower_access_open(lower, op->operands[1], NULL, shared->rank, shared->extent, &access)) return;
  IrExpr *full = lower_address_register(lower, lower_barrier(lower, barrier), NUMBER_U32);
  for (unsigned row = 0; row < rows && !lower->failed; row++) {
    unsigned at[LAYOUT_MAX_DIMS] = {0};
    if (shared->rank == 2) at[1 - inner] = row;
    LowerAddress to = {shared->base, shared->offset + lower_shared_linear(shared, at)};
    IrExpr *operands[3] = {lower_address(lower, to),
                           lower_address(lower, lower_access_at(lower, &access, at)),
                           lower_int(lower, bytes)};
    IrOp *copy = lower_emit_array(lower, OP_COPY_BULK_LOAD, 3, operands);
    ir_attribute_set(copy, ATTR_BARRIER, full);
    if (ir_attribute(op, ATTR_CACHE)) ir_attribute_set(copy, ATTR_CACHE, ir_attribute_value(op, ATTR_CACHE));
  }
}

/* ---- TMA ---- */

typedef struct Boxes {
  const IrOp *map;
  const IrExpr *corner; /* T[i, j] */
  const IrType *tensor;
  unsigned rank, tile_rank, lead;
  unsigned order[IR_MAX_RANK]; /* engine dimension, innermost first -> tensor dimension */
  unsigned box[IR_MAX_RANK];   /* by tensor dimension */
} Boxes;

/* The engine's innermost dimension is the tensor's contiguous one; the others keep their order. */
static bool open_boxes(Lower *lower, IrOp *op, const IrExpr *corner, unsigned tile_rank, Boxes *boxes)
{
  const IrExpr *symbol = ir_attribute_value(op, ATTR_MAP);
  boxes->map = symbol && symbol->kind == EXPR_SYMBOL ? ir_symbol_find(lower->kernel, symbol->name) : NULL;
  if (!boxes->map || boxes->map->code != OP_MAP || corner->kind != EXPR_INDEX) {
    lower_fail(lower, ERROR_INPUT, "tensor-copy", NULL, "a TMA copy needs a map and a corner of its tensor");
    return false;
  }
  if (!ir_map_is_tiled(boxes->map)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "im2col", NULL,
               "copies by an im2col map, as @%s is, have no lowering", boxes->map->symbol);
    return false;
  }
  boxes->corner = corner;
  boxes->tensor = &corner->items[0]->value->type;
  boxes->rank = boxes->tensor->rank;
  boxes->tile_rank = tile_rank;
  boxes->lead = boxes->rank - tile_rank;
  const IrExpr *box = ir_attribute_value(boxes->map, ATTR_BOX);
  unsigned inner = boxes->rank - 1, n = 0;
  int64_t stride, extent;
  for (unsigned d = 0; d < boxes->rank; d++) {
    if (boxes->tensor->strides[d] && ir_expr_is_int(boxes->tensor->strides[d], &stride) && stride == 1)
      inner = d;
    if (!box || box->kind != EXPR_LIST || box->n != boxes->rank || !ir_expr_is_int(box->items[d], &extent) ||
        extent < 1) {
      lower_fail(lower, ERROR_INPUT, "tensor-copy", NULL,
                 "the box of @%s needs an extent for each dimension of its tensor", boxes->map->symbol);
      return false;
    }
    boxes->box[d] = (unsigned)extent;
  }
  boxes->order[n++] = inner;
  for (unsigned d = boxes->rank; d-- > 0;)
    if (d != inner) boxes->order[n++] = d;
  return true;
}

/* Coordinates, innermost first, of the box at an offset within the tile. */
static void box_coordinates(Lower *lower, const Boxes *boxes, const unsigned *at, IrExpr **out)
{
  for (unsigned i = 0; i < boxes->rank; i++) {
    unsigned d = boxes->order[i];
    IrExpr *corner = lower_s32(lower, boxes->corner->items[d + 1]);
    unsigned offset = d >= boxes->lead ? at[d - boxes->lead] : 0;
    out[i] = lower_add(lower, NUMBER_S32, corner, lower_int(lower, offset));
    if (i == 0 && number_is_packed(boxes->tensor->element)) /* the engine counts bytes */
      out[i] = lower_shr(lower, NUMBER_S32, out[i], 1);
  }
}

/* Next box of the tile; false after the last. */
static bool next_box(const Boxes *boxes, const LowerShared *shared, unsigned *at)
{
  for (unsigned i = 0; i < boxes->rank; i++) {
    unsigned d = boxes->order[i];
    if (d < boxes->lead) continue;
    unsigned t = d - boxes->lead;
    at[t] += boxes->box[d];
    if (at[t] < shared->extent[t]) return true;
    at[t] = 0;
  }
  return false;
}

static LowerAddress box_address(const LowerShared *shared, const unsigned *at)
{
  return (LowerAddress){shared->base, shared->offset + lower_shared_linear(shared, at)};
}

/* Is the box at an offset within the tile among those that the copy moves (`boxes`: dimension, count)? NULL: all are. */
static IrExpr *box_exists(Lower *lower, const IrOp *op, const Boxes *boxes, const unsigned *at)
{
  const IrExpr *inside = ir_attribute_value(op, ATTR_BOXES);
  int64_t along = 0;
  if (!inside) return NULL;
  ir_expr_is_int(inside->items[0], &along);
  IrExpr *number = ir_int(lower->module, at[along] / boxes->box[boxes->lead + (unsigned)along]);
  return lower_condition(lower, ir_binary(lower->module, OPERATOR_LT, number, inside->items[1]));
}

static void copy_tensor_load(Lower *lower, IrOp *op, const LowerShared *shared)
{
  Boxes boxes;
  if (!open_boxes(lower, op, op->operands[1], shared->rank, &boxes)) return;
  const IrExpr *barrier = ir_attribute_value(op, ATTR_BARRIER),
               *mask = ir_attribute_value(op, ATTR_MULTICAST);
  if (!barrier) {
    lower_fail(lower, ERROR_INPUT, "tensor-copy", NULL, "a tensor load needs a barrier");
    return;
  }
  IrExpr *full = lower_address_register(lower, lower_barrier(lower, barrier), NUMBER_U32);
  IrExpr *blocks = mask ? lower_s32(lower, mask) : NULL;
  const IrExpr *edge = ir_attribute_value(op, ATTR_EDGE); /* condition, map */
  IrExpr *beyond = edge ? lower_condition(lower, edge->items[0]) : NULL;
  IrExpr *within = edge ? lower_not(lower, beyond) : NULL; /* in front of the copies that it guards */
  unsigned at[LAYOUT_MAX_DIMS] = {0};
  do {
    IrExpr *operands[2 + IR_MAX_RANK] = {lower_address(lower, box_address(shared, at)),
                                         ir_attribute_value(op, ATTR_MAP)};
    box_coordinates(lower, &boxes, at, operands + 2);
    IrExpr *exists = box_exists(lower, op, &boxes, at);
    for (unsigned i = 0; i < (edge ? 2 : 1); i++) { /* the tensor's last box has a map of its own */
      if (i) operands[1] = edge->items[1];
      IrOp *copy = lower_emit_array(lower, OP_COPY_TENSOR_LOAD, 2 + boxes.rank, operands);
      ir_attribute_set(copy, ATTR_BARRIER, full);
      if (blocks) ir_attribute_set(copy, ATTR_MULTICAST, blocks);
      if (ir_attribute(op, ATTR_CACHE))
        ir_attribute_set(copy, ATTR_CACHE, ir_attribute_value(op, ATTR_CACHE));
      if (edge) lower_when(copy, i ? beyond : within);
      if (exists) lower_when(copy, exists);
    }
  } while (next_box(&boxes, shared, at));
}

static void copy_tensor_store(Lower *lower, IrOp *op, const LowerShared *shared)
{
  Boxes boxes;
  if (!open_boxes(lower, op, op->operands[0], shared->rank, &boxes)) return;
  unsigned at[LAYOUT_MAX_DIMS] = {0};
  do {
    IrExpr *operands[2 + IR_MAX_RANK] = {ir_attribute_value(op, ATTR_MAP)};
    box_coordinates(lower, &boxes, at, operands + 1);
    operands[1 + boxes.rank] = lower_address(lower, box_address(shared, at));
    IrExpr *exists = box_exists(lower, op, &boxes, at);
    IrOp *copy = lower_emit_array(lower, OP_COPY_TENSOR_STORE, 2 + boxes.rank, operands);
    if (ir_attribute(op, ATTR_CACHE)) ir_attribute_set(copy, ATTR_CACHE, ir_attribute_value(op, ATTR_CACHE));
    if (ir_attribute(op, ATTR_REDUCE))
      ir_attribute_set(copy, ATTR_REDUCE, ir_attribute_value(op, ATTR_REDUCE));
    if (exists) lower_when(copy, exists);
  } while (next_box(&boxes, shared, at));
}

void lower_copy(Lower *lower, IrOp *op)
{
  bool store = !lower_is_shared(lower, op->operands[0]);
  LowerShared shared;
  if (!lower_shared_operand(lower, op->operands[store ? 1 : 0], &shared) || shared.rank < 1 ||
      shared.rank > 2) {
    lower_fail(lower, ERROR_INPUT, "copy", NULL,
               "a copy moves a tile of rank 1 or 2 between a tensor and shared memory");
    return;
  }
  if (ir_is_engine_copy(op)) {
    if (store)
      copy_tensor_store(lower, op, &shared);
    else if (!ir_attribute(op, ATTR_MAP))
      copy_bulk_load(lower, op, &shared);
    else
      copy_tensor_load(lower, op, &shared);
    return;
  }
  unsigned element = (unsigned)number_bytes_of(shared.element, 1),
           bytes = (unsigned)ir_attribute_int(op, ATTR_SIZE, element);
  unsigned inner = lower_shared_inner(&shared);
  while (bytes > element && (number_bytes_of(shared.element, shared.extent[inner]) % bytes ||
                             number_bytes_of(shared.element, lower_shared_vector(&shared, inner)) < bytes))
    bytes /= 2;
  if (store) {
    lower_fail(lower, ERROR_UNSUPPORTED, "copy", "get the tile and store it",
               "only TMA copies shared memory out");
  } else if (ir_is_grouped_copy(op) && mechanism_size(ir_mechanism_of(op), bytes) == bytes && bytes >= 4) {
    copy_async(lower, op, &shared, bytes);
  } else {
    copy_plain(lower, op, &shared, bytes);
  }
}
