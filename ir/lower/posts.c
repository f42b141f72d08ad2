/* claim: one atomic operation on the launch's counter, which starts again behind the last claim of a launch.
 *
 * post, await_posts: what a block has stored in tensors of the workspace is seen by another one.
 *
 * A row of the flags belongs to a place: one for each pair of a warp that posts and a warp that waits, so that nobody
 * clears a flag which another warp still looks for; of instances, which have places of their own, the warps of one. The warp's lanes store, meet, and release the flags of all warps that
 * may wait, a lane each. The lanes of a warp that waits each look for the flags of some pairs of place and warp, and meet
 * before these are cleared and before any of them reads: each then sees what was stored before it was released.
 *
 * post_step, await_step: a barrier of the whole grid, whose arrivals and waits are apart. A word of the flags counts posts, one of each
 * block, whose threads meet in front of it, over all steps; whoever waits for a step waits until all have posted the steps before. The last post of the last step sets it to 0
 * again, when nobody waits any more. What threads stored is read by the engine too: both sides say so to it. */
#include "ir/lower/lower.h"

#define LANES 32

static IrExpr *flag_base(Lower *lower, int64_t *row_bytes)
{
  IrValue *tensor = lower_named_tensor(lower, ATTR_FLAGS);
  unsigned warps = lower->role->instance_warps;
  int64_t columns = 0;
  bool flags = tensor && tensor->type.kind == TYPE_TENSOR && tensor->type.rank == 2 &&
               number_bits(tensor->type.element) == 32 && ir_expr_is_int(tensor->type.dims[1], &columns);
  if (!flags)
    return lower_fail(lower, ERROR_INPUT, "post", "launch ... flags F, of 32 bits",
                      "the launch names no tensor with a flag for each pair of %u warps in a row", warps);
  if (columns < (int64_t)warps * warps || warps > LANES)
    return lower_fail(lower, ERROR_UNSUPPORTED, "post", "a tile of fewer rows, which fewer warps share",
                      "`%s` has %d flags in a row; a pair of %u warps each needs %u", tensor->name,
                      (int)columns, warps, warps * warps);
  *row_bytes = columns * 4;
  return lower_scalar(lower, OP_ADDRESS, ir_scalar(NUMBER_U64), tensor->name, 1,
                      ir_value(lower->module, tensor));
}

static IrExpr *flag_value(Lower *lower, int64_t value)
{
  return lower_value(lower, OP_MOVE, ir_scalar(NUMBER_U32), "signal", 1, lower_int(lower, value));
}

void lower_claim(Lower *lower, IrOp *op)
{
  IrValue *tensor = lower_named_tensor(lower, ATTR_FLAGS);
  if (!tensor || tensor->type.kind != TYPE_TENSOR || number_bits(tensor->type.element) != 32) {
    lower_fail(lower, ERROR_INPUT, "claim", "launch ... flags F, of 32 bits", "the launch names no counter");
    return;
  }
  int64_t rows = 1, words = 0; /* the counter is the first word of the last row */
  ir_expr_is_int(tensor->type.dims[0], &rows);
  ir_expr_is_int(tensor->type.strides[0], &words);
  IrExpr *counter = lower_scalar(lower, OP_ADDRESS, ir_scalar(NUMBER_U64), tensor->name, 1,
                                 ir_value(lower->module, tensor));
  IrExpr *last = lower_sub(lower, NUMBER_S32, lower_s32(lower, op->operands[0]), lower_int(lower, 1));
  IrExpr *most = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_S32), "most", 1, last);
  g_hash_table_insert(lower->scalars, op->results[0],
                      lower_value(lower, OP_NEXT_GLOBAL, ir_scalar(NUMBER_S32), "claimed", 2,
                                  lower_address(lower, (LowerAddress){counter, (rows - 1) * words * 4}),
                                  most));
}

void lower_post(Lower *lower, IrOp *op)
{
  int64_t bytes;
  unsigned warps = lower->role->instance_warps;
  IrExpr *base = flag_base(lower, &bytes);
  if (lower->failed) return;
  IrExpr *row =
      lower_mad_wide(lower, lower_s32(lower, op->operands[0]), lower_int(lower, bytes), base, NUMBER_U64);
  IrExpr *flag =
      lower_add(lower, NUMBER_S32, lower_mul(lower, NUMBER_S32, lower->role->warp, lower_int(lower, warps)),
                lower->lane);
  LowerAddress address = {lower_mad_wide(lower, flag, lower_int(lower, 4), row, NUMBER_U64), 0};
  IrExpr *mine = lower_compare(lower, OP_LT, lower->lane, lower_int(lower, warps));
  lower_emit(lower, OP_SYNC_WARP, 0);
  lower_when(lower_emit(lower, OP_FLAG_RELEASE, 2, lower_address(lower, address), flag_value(lower, 1)),
             mine);
}

/* Address of the flag that the lane looks for in a round; beyond the last pair the last one once more. */
static LowerAddress flag_of(Lower *lower, IrExpr *first, IrExpr *last, unsigned round, IrExpr *base,
                            int64_t bytes)
{
  IrExpr *warps = lower_int(lower, lower->role->instance_warps);
  IrExpr *pair = lower_add(lower, NUMBER_S32, lower->lane, lower_int(lower, round * LANES));
  pair = lower_value(lower, OP_MIN, ir_scalar(NUMBER_S32), "pair", 2, pair, last);
  IrExpr *place = lower_value(lower, OP_DIV, ir_scalar(NUMBER_S32), "place", 2, pair, warps);
  IrExpr *poster = lower_sub(lower, NUMBER_S32, pair, lower_mul(lower, NUMBER_S32, place, warps));
  IrExpr *row = lower_mad_wide(lower, lower_add(lower, NUMBER_S32, first, place), lower_int(lower, bytes),
                               base, NUMBER_U64);
  IrExpr *flag = lower_add(lower, NUMBER_S32, lower_mul(lower, NUMBER_S32, poster, warps), lower->role->warp);
  return (LowerAddress){lower_mad_wide(lower, flag, lower_int(lower, 4), row, NUMBER_U64), 0};
}

void lower_await_posts(Lower *lower, IrOp *op)
{
  int64_t bytes, most = ir_attribute_int(op, ATTR_COUNT, 1);
  unsigned warps = lower->role->instance_warps;
  unsigned rounds = (unsigned)((most * warps + LANES - 1) / LANES);
  IrExpr *base = flag_base(lower, &bytes);
  if (lower->failed) return;
  IrExpr *first = lower_s32(lower, op->operands[0]), *end = lower_s32(lower, op->operands[1]);
  IrExpr *pairs =
      lower_mul(lower, NUMBER_S32, lower_sub(lower, NUMBER_S32, end, first), lower_int(lower, warps));
  IrExpr *last = lower_sub(lower, NUMBER_S32, pairs, lower_int(lower, 1));
  g_autofree LowerAddress *flags = g_new(LowerAddress, rounds);
  for (unsigned i = 0; i < rounds; i++) {
    flags[i] = flag_of(lower, first, last, i, base, bytes);
    lower_emit(lower, OP_FLAG_ACQUIRE, 2, lower_address(lower, flags[i]), lower_int(lower, 1));
  }
  lower_emit(lower, OP_SYNC_WARP, 0);
  for (unsigned i = 0; i < rounds; i++) {
    IrExpr *pair = lower_add(lower, NUMBER_S32, lower->lane, lower_int(lower, i * LANES));
    IrExpr *mine = lower_compare(lower, OP_LE, pair, last);
    lower_when(lower_emit(lower, OP_STORE_GLOBAL, 2, lower_address(lower, flags[i]), flag_value(lower, 0)),
               mine);
  }
}

/* Address of the launch's counter of steps. */
static IrExpr *step_counter(Lower *lower)
{
  IrValue *tensor = lower_named_tensor(lower, ATTR_FLAGS);
  if (!tensor || tensor->type.kind != TYPE_TENSOR || number_bits(tensor->type.element) != 32)
    return lower_fail(lower, ERROR_INPUT, "post_step", "launch ... flags F, of 32 bits",
                      "the launch names no counter of steps");
  return lower_address(lower, (LowerAddress){lower_scalar(lower, OP_ADDRESS, ir_scalar(NUMBER_U64),
                                                          tensor->name, 1, ir_value(lower->module, tensor)),
                                             0});
}

/* Where the engine copies, what threads have stored is made known to it, and it waits for what they know. */
static void fence_engine(Lower *lower)
{
  if (gpu_has(lower->context->gpu, "tma"))
    lower_emit(lower, OP_FENCE, 1, ir_name(lower->module, "async_global"));
}

static IrExpr *blocks_of_grid(Lower *lower)
{
  return lower_scalar(lower, OP_SPECIAL, ir_scalar(NUMBER_S32), "blocks", 1,
                      ir_name(lower->module, "blocks_x"));
}

void lower_post_step(Lower *lower, IrOp *op)
{
  IrExpr *counter = step_counter(lower);
  if (lower->role->instances > 1)
    lower_fail(lower, ERROR_UNSUPPORTED, "post_step", "a tile of one warpgroup",
               "a block posts a step once, not each of %u instances of a role", lower->role->instances);
  if (lower->failed) return;
  IrExpr *all = lower_mul(lower, NUMBER_S32, lower_s32(lower, op->operands[1]), blocks_of_grid(lower)),
         *last = lower_sub(lower, NUMBER_S32, all, lower_int(lower, 1)),
         *first = lower_compare(lower, OP_EQ, lower->role->thread, lower_int(lower, 0));
  fence_engine(lower);
  lower_block_barrier(lower, op);
  last = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_S32), "last", 1, last);
  lower_when(lower_emit(lower, OP_POST_GLOBAL, 2, counter, last), first);
}

void lower_await_step(Lower *lower, IrOp *op)
{
  IrExpr *counter = step_counter(lower);
  if (lower->failed) return;
  IrExpr *before = lower_mul(lower, NUMBER_S32, lower_s32(lower, op->operands[0]), blocks_of_grid(lower));
  before = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_S32), "before", 1, before);
  lower_emit(lower, OP_COUNT_ACQUIRE, 2, counter, before);
  fence_engine(lower);
}
