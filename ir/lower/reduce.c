/* Reductions along one dimension: within a thread's registers, then across lanes, then across warps; and of
 * blocks of rows, one warp's, straight to memory.
 *
 * The order is fixed, so results are the same from run to run; after each stage all who took part have the
 * result. Registers are combined pairwise, which keeps both the error and the chain of dependent operations
 * short. */
#include "ir/lower/lower.h"
#include <string.h>

typedef struct Reduction {
  IrOp *op;
  const char *with;
  unsigned dim;
  LowerTile *from, *to;
} Reduction;

/* Pairwise: ((a b) (c d)) ... */
static IrExpr *combine_all(Lower *lower, const Reduction *reduction, IrExpr **x, unsigned n)
{
  for (; n > 1 && !lower->failed; n = (n + 1) / 2)
    for (unsigned i = 0; i < (n + 1) / 2; i++)
      x[i] = 2 * i + 1 < n
                 ? lower_combine(lower, reduction->with, reduction->from->element, x[2 * i], x[2 * i + 1])
                 : x[2 * i];
  return x[0];
}

static void within_thread(Lower *lower, const Reduction *reduction)
{
  LowerTile *from = reduction->from, *to = reduction->to;
  const unsigned *map = lower_correspondence(lower, to->layout, from->layout);
  if (!map) {
    lower_fail(lower, ERROR_INPUT, "layouts-disagree", NULL,
               "the result of reduce must have the slice of its operand's layout");
    return;
  }
  IrExpr **x = arena_new_array(lower->arena, IrExpr *, from->n);
  for (unsigned r = 0; r < to->n; r++) {
    unsigned n = 0;
    for (unsigned i = 0; i < from->n; i++)
      if (map[i] == r) x[n++] = from->reg[i];
    if (n == 1 && (x[0]->kind == EXPR_INT || x[0]->kind == EXPR_FLOAT))
      x[0] = lower_value(lower, OP_MOVE, ir_scalar(lower_register_type(from->element)), "constant", 1, x[0]);
    to->reg[r] = combine_all(lower, reduction, x, n);
  }
}

/* Butterfly over the lane bits that move along the reduced dimension by less than `limit`. */
static void across_lanes(Lower *lower, const Reduction *reduction, unsigned limit)
{
  const Layout *layout = reduction->from->layout;
  LowerTile *to = reduction->to;
  unsigned divisor = 1;
  IrType type = ir_scalar(lower_register_type(to->element));
  for (unsigned i = 0; i < layout->n; i++) {
    const LayoutMode *mode = &layout->modes[i];
    if (mode->place != PLACE_LANE) continue;
    bool along = mode->dim == (int)reduction->dim && mode->step < limit;
    for (unsigned bit = 1; along && bit < mode->size; bit *= 2)
      for (unsigned r = 0; r < to->n; r++) {
        IrExpr *other = lower_value(lower, OP_SHUFFLE, type, "other", 2, to->reg[r],
                                    lower_int(lower, (int64_t)divisor * bit));
        ir_attribute_set(other->value->def, ATTR_MODE, ir_name(lower->module, "xor"));
        to->reg[r] = lower_combine(lower, reduction->with, to->element, to->reg[r], other);
      }
    divisor *= mode->size;
  }
}

/* Digits of lane or warp that move along the reduced dimension are `along`, the others stay. */
static LowerMap split_map(const Layout *layout, unsigned dim, bool along, LayoutPlace place)
{
  LowerMap all = lower_map_of(layout), map = {0};
  LowerSource source = place == PLACE_LANE ? SOURCE_LANE : SOURCE_WARP;
  for (unsigned i = 0; i < all.n; i++)
    if (all.digit[i].source == source && (all.digit[i].step[dim] != 0) == along)
      map.digit[map.n++] = all.digit[i];
  return map;
}

static unsigned warps_along(const Layout *layout, unsigned dim)
{
  unsigned warps = 1;
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_WARP && layout->modes[i].dim == (int)dim)
      warps *= layout->modes[i].size;
  return warps;
}

/* Number of this warp among those it shares rows with. */
static IrExpr *warp_number(Lower *lower, const Layout *layout, unsigned dim)
{
  LowerMap map = split_map(layout, dim, true, PLACE_WARP);
  unsigned weight[LOWER_MAX_DIGITS], next = 1;
  for (unsigned i = 0; i < map.n; i++) {
    weight[i] = next;
    next *= map.digit[i].size;
  }
  return lower_weighted_sum(lower, &map, weight);
}

/* The lanes that differ only along the reduced dimension hold the same by now: one of each writes. */
static IrExpr *lane_owner(Lower *lower, const Layout *layout, unsigned dim)
{
  IrExpr *owner = lower_map_owner(lower, layout);
  LowerMap map = split_map(layout, dim, true, PLACE_LANE);
  unsigned weight[LOWER_MAX_DIGITS];
  for (unsigned i = 0; i < map.n; i++)
    weight[i] = map.digit[i].divisor; /* the lane's bits in place: 0 where all digits are */
  if (!map.n) return owner;
  return lower_and(lower, owner,
                   lower_compare(lower, OP_EQ, lower_weighted_sum(lower, &map, weight), lower_int(lower, 0)));
}

/* Exchange tile [warps, rows]: each warp writes its row of partial results, all read all and combine in
 * order. */
static void across_warps(Lower *lower, const Reduction *reduction)
{
  const Layout *layout = reduction->from->layout;
  LowerTile *to = reduction->to;
  unsigned warps = warps_along(layout, reduction->dim), keep = 1 - reduction->dim;
  if (warps == 1) return;
  LowerShared exchange;
  const IrExpr *symbol = ir_attribute_value(reduction->op, ATTR_EXCHANGE);
  if (!symbol || !lower_shared_operand(lower, symbol, &exchange)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "a reduction across warps needs an exchange tile");
    return;
  }
  unsigned rows = layout->rank == 2 ? layout->extent[keep] : 1, bytes = number_bytes(exchange.element);
  if ((uint64_t)warps * rows * bytes > layout_bytes(exchange.layout, exchange.element)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "the exchange tile is smaller than %u warps x %u rows",
               warps, rows);
    return;
  }
  LowerMap map = lower_map_of(to->layout);
  IrExpr *row = layout->rank == 2 ? lower_map_coordinate(lower, &map, keep) : lower_int(lower, 0);
  IrExpr *column =
      lower_add(lower, NUMBER_U32, exchange.base, lower_mul(lower, NUMBER_S32, row, lower_int(lower, bytes)));
  IrExpr *number = warp_number(lower, layout, reduction->dim);
  IrExpr *mine = lower_add(lower, NUMBER_U32, column,
                           lower_mul(lower, NUMBER_S32, number, lower_int(lower, (int64_t)rows * bytes)));
  const unsigned *at = lower_registers(lower, to->layout);
  IrExpr *owner = lane_owner(lower, layout, reduction->dim);
  lower_block_barrier(lower, reduction->op); /* readers of the previous exchange are done */
  for (unsigned r = 0; r < to->n; r++) {
    unsigned offset = layout->rank == 2 ? at[(size_t)r * LAYOUT_MAX_DIMS + keep] * bytes : 0;
    lower_store_vector(lower, OP_STORE_SHARED, (LowerAddress){mine, exchange.offset + offset}, to, &r, 1,
                       owner, NULL);
  }
  lower_block_barrier(lower, reduction->op);
  IrExpr **x = arena_new_array(lower->arena, IrExpr *, warps);
  for (unsigned r = 0; r < to->n; r++) {
    unsigned offset = layout->rank == 2 ? at[(size_t)r * LAYOUT_MAX_DIMS + keep] * bytes : 0;
    LowerTile part = {.element = to->element, .n = 1};
    for (unsigned w = 0; w < warps; w++) {
      unsigned zero = 0;
      part.reg = &x[w];
      LowerAddress address = {column, exchange.offset + offset + (int64_t)w * rows * bytes};
      lower_load_vector(lower, OP_LOAD_SHARED, address, &part, &zero, 1, NULL, NULL, NULL);
    }
    to->reg[r] = combine_all(lower, reduction, x, warps);
  }
}

void lower_reduce(Lower *lower, IrOp *op)
{
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH);
  if (op->n_operands != 1 || op->n_results != 1 || !with || with->kind != EXPR_NAME) {
    lower_fail(lower, ERROR_UNSUPPORTED, "reduce", NULL, "reduce of tuples is not supported");
    return;
  }
  if (ir_attribute_is(op, ATTR_SCOPE, "cluster")) {
    lower_fail(lower, ERROR_UNSUPPORTED, "reduce", NULL, "reduce across a cluster is not supported");
    return;
  }
  IrValue *result = op->results[0];
  Reduction reduction = {.op = op, .with = with->name, .dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0)};
  reduction.from = lower_tile(lower, op->operands[0]);
  if (!reduction.from) return;
  reduction.to = lower_tile_new(lower, result->type.element, result->type.layout);
  within_thread(lower, &reduction);
  if (!lower->failed) across_lanes(lower, &reduction, G_MAXUINT);
  if (!lower->failed) across_warps(lower, &reduction);
  lower_tile_bind(lower, result, reduction.to);
}

/* ---- Rows that become one and are stored ---- */

/* The registers of `from`, those in rows from `rows` on replaced by what such rows count as. The thread's
 * rows are few: each is compared once. */
static void replace_outside(Lower *lower, const IrOp *op, const IrExpr *corner, LowerTile *from)
{
  const IrExpr *rows = ir_attribute_value(op, ATTR_ROWS);
  IrExpr *fill = lower_fill_of(lower, op);
  if (!rows || !fill) return;
  LowerMap map = lower_map_of(from->layout);
  IrExpr *first =
      lower_add(lower, NUMBER_S32, lower_map_coordinate(lower, &map, 0), lower_s32(lower, corner));
  IrExpr *bound = lower_s32(lower, rows), *count_as = lower_literal(lower, fill, from->element);
  const unsigned *at = lower_registers(lower, from->layout);
  IrType type = ir_scalar(lower_register_type(from->element));
  for (unsigned r = 0; r < from->n; r++) {
    IrExpr *limit = lower_sub(lower, NUMBER_S32, bound, lower_int(lower, at[(size_t)r * LAYOUT_MAX_DIMS]));
    IrExpr *inside = lower_compare(lower, OP_LT, first, limit);
    from->reg[r] = lower_value(lower, OP_SELECT, type, "x", 3, inside, from->reg[r], count_as);
  }
}

static bool combine_rows(Lower *lower, const Reduction *reduction, unsigned every)
{
  LowerTile *from = reduction->from, *to = reduction->to;
  const unsigned *at = lower_registers(lower, from->layout);
  IrExpr **x = arena_new_array(lower->arena, IrExpr *, from->n);
  unsigned *target = arena_new_array(lower->arena, unsigned, from->n);
  for (unsigned i = 0; i < from->n; i++) {
    const unsigned *here = at + (size_t)i * LAYOUT_MAX_DIMS;
    target[i] = lower_register_at(lower, to->layout, here[0] / every, here[1]);
    if (target[i] >= to->n) return false;
  }
  for (unsigned r = 0; r < to->n; r++) {
    unsigned n = 0;
    for (unsigned i = 0; i < from->n; i++)
      if (target[i] == r) x[n++] = from->reg[i];
    if (!n) return false;
    to->reg[r] = combine_all(lower, reduction, x, n);
  }
  across_lanes(lower, reduction, every);
  return true;
}

/* No warp waits for another: the rows of a value have to be of one warp, as the blocks of 16 of products are.
 */
static bool is_of_one_warp(const Layout *layout, unsigned every)
{
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_WARP && layout->modes[i].dim == 0 && layout->modes[i].step < every)
      return false;
  return true;
}

void lower_store_reduced(Lower *lower, IrOp *op)
{
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH), *corner = op->operands[0];
  unsigned every = (unsigned)ir_attribute_int(op, ATTR_EVERY, 1);
  LowerTile *tile = lower_tile(lower, op->operands[1]);
  if (!tile) return;
  const Layout *layout = is_of_one_warp(tile->layout, every) && with->kind == EXPR_NAME
                             ? layout_every(lower->arena, tile->layout, every)
                             : NULL;
  if (!layout || corner->kind != EXPR_INDEX || corner->n < 3) {
    lower_fail(lower, ERROR_UNSUPPORTED, "reduction", NULL,
               "store_reduced: %u rows of this tile are not one warp's", every);
    return;
  }
  LowerTile *from = lower_tile_new(lower, tile->element, tile->layout);
  memcpy(from->reg, tile->reg, tile->n * sizeof *tile->reg);
  Reduction reduction = {.op = op, .with = with->name, .from = from};
  reduction.to = lower_tile_new(lower, tile->element, layout);
  IrExpr *moved = arena_memdup(lower->arena, corner, sizeof *corner);
  moved->items = arena_memdup(lower->arena, corner->items, corner->n * sizeof *corner->items);
  IrExpr **row = &moved->items[corner->n - 2];
  replace_outside(lower, op, *row, from);
  *row = ir_binary(lower->module, OPERATOR_DIV, *row, ir_int(lower->module, every));
  if (!lower->failed && combine_rows(lower, &reduction, every))
    lower_store_tile(lower, op, moved, reduction.to);
  else if (!lower->failed)
    lower_fail(lower, ERROR_INTERNAL, "reduction", NULL, "store_reduced: registers without a place");
}
