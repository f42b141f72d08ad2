/* store_partial, add_partial: sums of parts of a tile pass from block to block through global memory.
 *
 * A row of the parts holds the registers of all threads of the role, four of a thread together: thread t has
 * words 4 t .. 4 t + 3 of each run of 4 x threads words, so a warp moves whole lines, whatever the layout is.
 * Each thread reads what the thread of its index wrote in the other block.
 *
 * Flags are a warp's: its lanes write, meet, and lane 0 releases. The reader's lanes acquire, all of them, so
 * each sees what was released; they meet before lane 0 clears the flag, since a lane that still spins would
 * miss it. No other block looks at the flag any more.
 *
 * Where the number of parts is known (count), as many as a thread has registers for are on their way together,
 * and each lane waits for the flag of another: one after the other, every part would take as long as the
 * memory does to answer twice.
 *
 * A part that several blocks add up lies in a row for each share of its columns, with flags of its own: whoever
 * reads a share clears them. */
#include "ir/lower/lower.h"
#include <string.h>

#define VECTOR    4  /* registers of one access */
#define OTHERS    40 /* registers beside the tile and what is loaded; */
#define COPIES    60 /* and of threads that copy themselves, for the next tile too */
#define LANES     32
#define ADDRESSES 24 /* registers of several parts' addresses */

typedef struct {
  LowerTile *tile;
  LowerAddress sums; /* of the thread */
  IrExpr *flag;      /* of the warp */
  unsigned threads;
} Partial;

IrValue *lower_named_tensor(const Lower *lower, IrAttributeKey key)
{
  const IrExpr *name = ir_launch_get(lower->kernel, key);
  for (unsigned i = 0; name && name->name && i < lower->kernel->n_parameters; i++)
    if (!strcmp(lower->kernel->parameters[i]->name, name->name)) return lower->kernel->parameters[i];
  return NULL;
}

/* A row of it. */
static IrExpr *tensor_row(Lower *lower, IrAttributeKey key, IrExpr *row)
{
  IrValue *tensor = lower_named_tensor(lower, key);
  int64_t columns = 0;
  if (!tensor || tensor->type.kind != TYPE_TENSOR || tensor->type.rank != 2 ||
      number_bits(tensor->type.element) != 32 || !ir_expr_is_int(tensor->type.dims[1], &columns))
    return lower_fail(lower, ERROR_INPUT, "stream", NULL,
                      "the launch names no tensor of rows of 32-bit elements as `%s`",
                      ir_attribute_name(key));
  IrExpr *base = lower_scalar(lower, OP_ADDRESS, ir_scalar(NUMBER_U64), tensor->name, 1,
                              ir_value(lower->module, tensor));
  return lower_mad_wide(lower, row, lower_int(lower, columns * 4), base, NUMBER_U64);
}

/* Addresses in the row of a block. */
static bool find_row(Lower *lower, IrExpr *row, Partial *partial)
{
  IrExpr *lane = lower->lane, *warp = lower->role->role_warp;
  IrExpr *thread =
      lower_add(lower, NUMBER_S32, lower_mul(lower, NUMBER_S32, warp, lower_int(lower, LANES)), lane);
  IrExpr *sums = tensor_row(lower, ATTR_PARTS, row), *flags = tensor_row(lower, ATTR_FLAGS, row);
  if (lower->failed) return false;
  partial->sums.base = lower_mad_wide(lower, thread, lower_int(lower, 4 * VECTOR), sums, NUMBER_U64);
  partial->flag = lower_mad_wide(lower, warp, lower_int(lower, 4), flags, NUMBER_U64);
  return true;
}

static bool open_partial(Lower *lower, const IrOp *op, const IrExpr *slot, Partial *partial)
{
  const LowerRole *role = lower->role;
  partial->tile = lower_tile(lower, op->operands[0]);
  if (!partial->tile) return false;
  if (partial->tile->n % VECTOR || number_bits(partial->tile->element) != 32) {
    lower_fail(lower, ERROR_UNSUPPORTED, "stream", NULL,
               "a part of a tile has %u registers of %u bits a thread; it is left four of 32 bits at a time",
               partial->tile->n, number_bits(partial->tile->element));
    return false;
  }
  partial->threads = role->warps * LANES;
  return find_row(lower, lower_s32(lower, slot), partial);
}

static LowerAddress run_at(const Partial *partial, unsigned reg)
{
  return (LowerAddress){partial->sums.base, (int64_t)reg * 4 * partial->threads};
}

static void set_flag(Lower *lower, const Partial *partial, IrOpcode code, int64_t value)
{
  LowerAddress address = {partial->flag, 0};
  IrExpr *one = lower_compare(lower, OP_EQ, lower->lane, lower_int(lower, 0));
  IrExpr *number = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_U32), "signal", 1, lower_int(lower, value));
  IrOp *op = lower_emit(lower, code, 2, lower_address(lower, address), number);
  lower_when(op, one);
}

/* ---- Shares ---- */

/* Bytes from one row of the tensor that the launch names to the next. */
static int64_t row_bytes(Lower *lower, IrAttributeKey key)
{
  const IrValue *tensor = lower_named_tensor(lower, key);
  int64_t columns = 0;
  if (tensor) ir_expr_is_int(tensor->type.dims[1], &columns);
  return columns * 4;
}

/* A share lies in its row as its reader's tile does. Who reads it waits for it alone: lane i releases share i. */
static void store_shares(Lower *lower, const Partial *partial, const IrType *type, unsigned shares)
{
  unsigned extent[LAYOUT_MAX_DIMS] = {(unsigned)ir_tile_extent(type, 0),
                                      (unsigned)ir_tile_extent(type, 1) / shares};
  LowerTile *tile = partial->tile;
  const Layout *layout = layout_part(lower->arena, tile->layout, extent);
  unsigned n = layout ? layout_registers(layout) : 0, reg[VECTOR];
  for (unsigned share = 0; share < shares && !lower->failed; share++) {
    unsigned corner[LAYOUT_MAX_DIMS] = {0, share * extent[1]};
    const unsigned *map =
        layout && n % VECTOR == 0 ? lower_part_of(lower, tile->layout, layout, corner) : NULL;
    if (!map) {
      lower_fail(lower, ERROR_UNSUPPORTED, "stream", NULL,
                 "threads hold no vectors of %u elements of a share of %u columns", VECTOR, extent[1]);
      return;
    }
    LowerAddress row = partial->sums;
    row.offset += share * row_bytes(lower, ATTR_PARTS);
    for (unsigned r = 0; r < n; r += VECTOR) {
      for (unsigned i = 0; i < VECTOR; i++)
        reg[i] = map[r + i];
      LowerAddress address = {row.base, row.offset + (int64_t)r * 4 * partial->threads};
      lower_store_vector(lower, OP_STORE_GLOBAL, address, tile, reg, VECTOR, NULL, NULL);
    }
  }
  lower_emit(lower, OP_SYNC_WARP, 0);
  IrExpr *own = lower_compare(lower, OP_LT, lower->lane, lower_int(lower, shares));
  LowerAddress flag = {lower_mad_wide(lower, lower->lane, lower_int(lower, row_bytes(lower, ATTR_FLAGS)),
                                      partial->flag, NUMBER_U64),
                       0};
  IrExpr *one = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_U32), "signal", 1, lower_int(lower, 1));
  lower_when(lower_emit(lower, OP_FLAG_RELEASE, 2, lower_address(lower, flag), one), own);
}

void lower_store_partial(Lower *lower, IrOp *op)
{
  Partial partial = {0};
  unsigned shares = (unsigned)ir_attribute_int(op, ATTR_COUNT, 1);
  if (!open_partial(lower, op, op->operands[1], &partial)) return;
  if (shares > 1) {
    store_shares(lower, &partial, &op->operands[0]->value->type, shares);
    return;
  }
  unsigned reg[VECTOR];
  for (unsigned r = 0; r < partial.tile->n; r += VECTOR) {
    for (unsigned i = 0; i < VECTOR; i++)
      reg[i] = r + i;
    lower_store_vector(lower, OP_STORE_GLOBAL, run_at(&partial, r), partial.tile, reg, VECTOR, NULL, NULL);
  }
  lower_emit(lower, OP_SYNC_WARP, 0);
  set_flag(lower, &partial, OP_FLAG_RELEASE, 1);
}

/* Registers that its role was handed; 0: none were, and its threads copy too. */
static unsigned handed_over(const IrOp *op)
{
  const IrRegion *region = op->parent;
  while (region->owner && region->owner->code != OP_ROLE)
    region = region->owner->parent;
  return region->owner ? (unsigned)ir_attribute_int(region->owner, ATTR_REGISTERS, 0) : 0;
}

/* Registers that loads fill before the first addition, which waits for the memory: as many as are free. */
static unsigned loads_in_flight(Lower *lower, unsigned handed, unsigned tile)
{
  unsigned share = lower->context->gpu->registers_per_sm / (lower->block_warps * 32);
  unsigned most = handed ? handed : MIN(share, lower->context->gpu->registers_per_thread);
  unsigned others = OTHERS + (handed ? 0 : COPIES);
  unsigned free = most > tile + others ? most - tile - others : 0;
  return MAX(8 * VECTOR, free / VECTOR * VECTOR);
}

/* Loads of a run first, then its additions. */
static void add_run(Lower *lower, const Partial *partial, unsigned first, unsigned last)
{
  LowerTile *tile = partial->tile;
  LowerTile *other = lower_tile_new(lower, tile->element, tile->layout);
  unsigned reg[VECTOR];
  for (unsigned r = first; r < last; r += VECTOR) {
    for (unsigned i = 0; i < VECTOR; i++)
      reg[i] = r + i;
    lower_load_vector(lower, OP_LOAD_GLOBAL, run_at(partial, r), other, reg, VECTOR, NULL, NULL, NULL);
  }
  for (unsigned r = first; r < last; r++)
    lower_set(lower, tile->reg[r],
              lower_value(lower, OP_ADD, ir_scalar(tile->element), "sum", 2, tile->reg[r], other->reg[r]));
}

/* ---- Several parts ---- */

/* The row of part i: `step` blocks behind the one before. */
static IrExpr *row_of(Lower *lower, IrExpr *first, IrExpr *step, IrExpr *i)
{
  return lower_add(lower, NUMBER_S32, first, lower_mul(lower, NUMBER_S32, i, step));
}

/* Loads of `together` parts from `part` on, then their additions, in order. */
static void add_together(Lower *lower, const Partial *parts, unsigned together)
{
  LowerTile *tile = parts->tile, **others = g_newa(LowerTile *, together);
  unsigned reg[VECTOR];
  for (unsigned p = 0; p < together; p++) {
    others[p] = lower_tile_new(lower, tile->element, tile->layout);
    for (unsigned r = 0; r < tile->n; r += VECTOR) {
      for (unsigned i = 0; i < VECTOR; i++)
        reg[i] = r + i;
      lower_load_vector(lower, OP_LOAD_GLOBAL, run_at(&parts[p], r), others[p], reg, VECTOR, NULL, NULL,
                        NULL);
    }
  }
  for (unsigned p = 0; p < together; p++)
    for (unsigned r = 0; r < tile->n; r++)
      lower_set(
          lower, tile->reg[r],
          lower_value(lower, OP_ADD, ir_scalar(tile->element), "sum", 2, tile->reg[r], others[p]->reg[r]));
}

/* Each lane waits for the flag of one part in turn, as many together as a warp has lanes. `mine`: the addresses of
 * those that a lane waits for. */
static bool await_flags(Lower *lower, const Partial *partial, IrExpr *first, IrExpr *step, unsigned count,
                        LowerAddress *mine)
{
  for (unsigned done = 0; done < count; done += LANES) {
    Partial own = *partial;
    IrExpr *last = lower_int(lower, MIN(LANES, count - done) - 1);
    IrExpr *part = lower_value(lower, OP_MIN, ir_scalar(NUMBER_S32), "part", 2, lower->lane, last);
    part = lower_add(lower, NUMBER_S32, part, lower_int(lower, done));
    if (!find_row(lower, row_of(lower, first, step, part), &own)) return false;
    mine[done / LANES] = (LowerAddress){own.flag, 0};
    lower_emit(lower, OP_FLAG_ACQUIRE, 2, lower_address(lower, mine[done / LANES]), lower_int(lower, 1));
  }
  lower_emit(lower, OP_SYNC_WARP, 0);
  return true;
}

static void clear_flags(Lower *lower, unsigned count, const LowerAddress *mine)
{
  lower_emit(lower, OP_SYNC_WARP, 0);
  for (unsigned done = 0; done < count; done += LANES) {
    IrExpr *last = lower_int(lower, MIN(LANES, count - done) - 1);
    IrExpr *waited = lower_compare(lower, OP_LE, lower->lane, last);
    IrExpr *zero = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_U32), "signal", 1, lower_int(lower, 0));
    lower_when(lower_emit(lower, OP_STORE_GLOBAL, 2, lower_address(lower, mine[done / LANES]), zero), waited);
  }
}

/* As many parts together as there are registers for; a tile that leaves no room for a whole part is added in
 * runs. */
static void add_several(Lower *lower, const IrOp *op, unsigned count)
{
  Partial partial = {0};
  if (!open_partial(lower, op, op->operands[1], &partial)) return;
  IrExpr *first = lower_s32(lower, op->operands[1]), *step = lower_s32(lower, op->operands[2]);
  unsigned n = partial.tile->n, run = loads_in_flight(lower, handed_over(op), n) - ADDRESSES;
  unsigned most = MAX(1, run / n);
  Partial *parts = g_newa(Partial, most);
  g_autofree LowerAddress *mine = g_new(LowerAddress, count / LANES + 1);
  if (!await_flags(lower, &partial, first, step, count, mine)) return;
  for (unsigned p = 0; p < count; p += most) {
    unsigned together = MIN(most, count - p);
    for (unsigned i = 0; i < together; i++) {
      parts[i] = partial;
      if (!find_row(lower, row_of(lower, first, step, lower_int(lower, p + i)), &parts[i])) return;
    }
    if (run >= n) add_together(lower, parts, together);
    for (unsigned r = 0; run < n && r < n; r += run)
      add_run(lower, parts, r, MIN(r + run, n));
  }
  clear_flags(lower, count, mine);
}

void lower_add_partial(Lower *lower, IrOp *op)
{
  Partial partial = {0};
  int64_t count = ir_attribute_int(op, ATTR_COUNT, 1);
  if (count > 1) {
    add_several(lower, op, (unsigned)count);
    return;
  }
  if (!open_partial(lower, op, op->operands[1], &partial)) return;
  LowerAddress flag = {partial.flag, 0};
  lower_emit(lower, OP_FLAG_ACQUIRE, 2, lower_address(lower, flag), lower_int(lower, 1));
  unsigned handed = handed_over(op), run = loads_in_flight(lower, handed, partial.tile->n);
  for (unsigned r = 0; r < partial.tile->n; r += run) {
    /* the assembler would load all at once and spill what the walk keeps (found with ptxas) */
    if (r && !handed) lower_emit(lower, OP_FENCE, 1, ir_name(lower->module, "schedule"));
    add_run(lower, &partial, r, MIN(r + run, partial.tile->n));
  }
  lower_emit(lower, OP_SYNC_WARP, 0);
  set_flag(lower, &partial, OP_STORE_GLOBAL, 0);
}
