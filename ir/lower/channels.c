/* Channels and barriers: cursors as two variables, barriers as shared addresses. */
#include "ir/lower/lower.h"
#include <string.h>

/* ---- Cursors ---- */

void lower_cursor(Lower *lower, IrOp *op)
{
  const IrOp *channel =
      op->operands[0]->kind == EXPR_SYMBOL ? ir_symbol_find(lower->kernel, op->operands[0]->name) : NULL;
  if (!channel || channel->code != OP_CHANNEL) {
    lower_fail(lower, ERROR_INPUT, "cursor", NULL, "a cursor is a place in a channel");
    return;
  }
  LowerCursor *cursor = arena_new_object(lower->arena, LowerCursor);
  cursor->slots = (unsigned)ir_attribute_int(channel, ATTR_SLOTS, 1);
  const IrExpr *slot = ir_attribute_value(op, ATTR_SLOT), *phase = ir_attribute_value(op, ATTR_PHASE);
  const char *name = op->results[0]->name;
  IrExpr *from = slot ? lower_s32(lower, slot) : lower_int(lower, 0);
  IrExpr *parity = phase ? lower_s32(lower, phase) : lower_int(lower, 0);
  cursor->slot =
      lower_variable(lower, arena_printf(lower->arena, "%s_slot", name), ir_scalar(NUMBER_S32), from);
  cursor->phase =
      lower_variable(lower, arena_printf(lower->arena, "%s_phase", name), ir_scalar(NUMBER_S32), parity);
  g_hash_table_insert(lower->cursors, op->results[0], cursor);
}

LowerCursor *lower_cursor_of(Lower *lower, const IrExpr *expr)
{
  LowerCursor *cursor = expr->kind == EXPR_VALUE ? g_hash_table_lookup(lower->cursors, expr->value) : NULL;
  if (!cursor)
    lower_fail(lower, ERROR_INPUT, "cursor", NULL, "'%s' is no cursor", ir_expr_text(lower->module, expr));
  return cursor;
}

/* A ring of one slot stays at 0, so its slot is a constant. */
IrExpr *lower_slot(Lower *lower, const IrExpr *index)
{
  if (index->kind != EXPR_VALUE || index->value->type.kind != TYPE_CURSOR) return lower_s32(lower, index);
  LowerCursor *cursor = lower_cursor_of(lower, index);
  if (!cursor || cursor->slots == 1) return lower_int(lower, 0);
  return ir_value(lower->module, cursor->slot);
}

void lower_advance(Lower *lower, IrOp *op)
{
  LowerCursor *cursor = lower_cursor_of(lower, op->operands[0]);
  if (!cursor) return;
  IrModule *module = lower->module;
  IrType type = ir_scalar(NUMBER_S32);
  IrExpr *slot = ir_value(module, cursor->slot), *phase = ir_value(module, cursor->phase);
  if (cursor->slots == 1) {
    lower_set(lower, phase, lower_value(lower, OP_XOR, type, "flipped", 2, phase, lower_int(lower, 1)));
    return;
  }
  IrExpr *next = lower_value(lower, OP_ADD, type, "next", 2, slot, lower_int(lower, 1));
  IrExpr *wraps =
      lower_value(lower, OP_EQ, ir_predicate(), "wraps", 2, next, lower_int(lower, cursor->slots));
  IrExpr *flipped = lower_value(lower, OP_XOR, type, "flipped", 2, phase, lower_int(lower, 1));
  lower_set(lower, slot, lower_value(lower, OP_SELECT, type, "slot", 3, wraps, lower_int(lower, 0), next));
  lower_set(lower, phase, lower_value(lower, OP_SELECT, type, "phase", 3, wraps, flipped, phase));
}

/* Slots that another instance uses: the phase flips once for each wrap. A constant number needs no division.
 */
void lower_skip(Lower *lower, IrOp *op)
{
  LowerCursor *cursor = lower_cursor_of(lower, op->operands[0]);
  if (!cursor) return;
  IrModule *module = lower->module;
  IrType type = ir_scalar(NUMBER_S32);
  IrExpr *slot = ir_value(module, cursor->slot), *phase = ir_value(module, cursor->phase);
  IrExpr *extent = ir_binary(module, OPERATOR_SUB, op->operands[3], op->operands[2]);
  IrExpr *trips = ir_call(module, "ceil_div", 2, extent, op->operands[4]);
  IrExpr *by = lower_s32(lower, ir_binary(module, OPERATOR_MUL, op->operands[1], trips)), *wraps;
  IrExpr *slots = lower_int(lower, cursor->slots);
  int64_t n;
  if (lower_is_int(by, &n)) {
    IrExpr *sum =
        lower_value(lower, OP_ADD, type, "sum", 2, slot, lower_int(lower, n % (int64_t)cursor->slots));
    IrExpr *less = lower_value(lower, OP_SUB, type, "less", 2, sum, slots);
    IrExpr *over = lower_value(lower, OP_GE, ir_predicate(), "over", 2, sum, slots);
    lower_set(lower, slot, lower_value(lower, OP_SELECT, type, "slot", 3, over, less, sum));
    int64_t odd = n / (int64_t)cursor->slots & 1;
    wraps =
        lower_value(lower, OP_SELECT, type, "wraps", 3, over, lower_int(lower, !odd), lower_int(lower, odd));
  } else {
    IrExpr *sum = lower_value(lower, OP_ADD, type, "sum", 2, slot, by);
    lower_set(lower, slot, lower_value(lower, OP_REM, type, "slot", 2, sum, slots));
    wraps = lower_value(lower, OP_DIV, type, "wraps", 2, sum, slots);
    wraps = lower_value(lower, OP_AND, type, "odd", 2, wraps, lower_int(lower, 1));
  }
  lower_set(lower, phase, lower_value(lower, OP_XOR, type, "phase", 2, phase, wraps));
}

/* ---- Barriers ---- */

/* @ab.full[%w], @ab.empty[2], @b, @b[i] */
LowerAddress lower_barrier(Lower *lower, const IrExpr *expr)
{
  LowerAddress address = {lower_shared_start(lower), 0};
  const IrExpr *base = expr->kind == EXPR_INDEX ? expr->items[0] : expr;
  const IrExpr *symbol = base->kind == EXPR_FIELD ? base->items[0] : base;
  const IrOp *op = symbol->kind == EXPR_SYMBOL ? ir_symbol_find(lower->kernel, symbol->name) : NULL;
  bool full = base->kind == EXPR_FIELD && !strcmp(base->name, "full");
  bool empty = base->kind == EXPR_FIELD && !strcmp(base->name, "empty");
  if (op && op->code == OP_CHANNEL && (full || empty)) {
    address.offset = ir_attribute_int(op, full ? ATTR_FULL_AT : ATTR_EMPTY_AT, -1);
  } else if (op && op->code == OP_BARRIER && base->kind == EXPR_SYMBOL) {
    address.offset = ir_attribute_int(op, ATTR_AT, -1);
  } else {
    lower_fail(lower, ERROR_INPUT, "barrier", NULL, "'%s' is no barrier", ir_expr_text(lower->module, expr));
    return address;
  }
  if (address.offset < 0) {
    lower_fail(lower, ERROR_INPUT, "barrier", NULL, "the barriers of @%s have no place in shared memory",
               symbol->name);
    return address;
  }
  if (expr->kind != EXPR_INDEX) return address;
  IrExpr *slot = lower_slot(lower, expr->items[1]);
  int64_t constant;
  if (lower_is_int(slot, &constant))
    address.offset += 8 * constant;
  else
    address.base =
        lower_add(lower, NUMBER_U32, address.base, lower_mul(lower, NUMBER_S32, slot, lower_int(lower, 8)));
  return address;
}

static void init(Lower *lower, int64_t at, int64_t count, int64_t arrivals)
{
  if (at < 0 || count > lower->context->gpu->shared_per_block / 8) {
    lower_fail(lower, ERROR_INPUT, "barrier", NULL, "barriers to initialise have no place in shared memory");
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    LowerAddress address = {lower_shared_start(lower), at + 8 * i};
    lower_emit(lower, OP_BARRIER_INIT, 2, lower_address(lower, address), lower_int(lower, arrivals));
  }
}

static void init_declared(IrOp *op, void *data)
{
  Lower *lower = data;
  if (op->code == OP_BARRIER) {
    int64_t count = 1;
    const IrExpr *n = ir_attribute_value(op, ATTR_COUNT);
    if (n) ir_expr_is_int(n, &count);
    init(lower, ir_attribute_int(op, ATTR_AT, -1), count, ir_attribute_int(op, ATTR_ARRIVALS, 1));
  }
  if (op->code != OP_CHANNEL) return;
  int64_t slots = ir_attribute_int(op, ATTR_SLOTS, 1);
  if (ir_attribute(op, ATTR_FULL_ARRIVALS))
    init(lower, ir_attribute_int(op, ATTR_FULL_AT, -1), slots, ir_attribute_int(op, ATTR_FULL_ARRIVALS, 1));
  if (ir_attribute(op, ATTR_EMPTY_ARRIVALS))
    init(lower, ir_attribute_int(op, ATTR_EMPTY_AT, -1), slots, ir_attribute_int(op, ATTR_EMPTY_ARRIVALS, 1));
}

/* One thread initialises; the fence makes it known to TMA and the cluster. */
void lower_init_barriers(Lower *lower, IrOp *op)
{
  lower_shared_start(lower);
  IrExpr *one = lower_compare(lower, OP_EQ, lower->thread, lower_int(lower, 0));
  IrOp *branch = lower_emit(lower, OP_IF, 1, one);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  ir_region_visit(lower->kernel->body, init_declared, lower);
  lower_emit(lower, OP_FENCE, 1, ir_name(lower->module, "barrier_init"));
  lower_scope_close(lower);
}

void lower_await(Lower *lower, IrOp *op)
{
  IrExpr *address = lower_address(lower, lower_barrier(lower, op->operands[0]));
  lower_emit(lower, OP_BARRIER_WAIT, 2, address, lower_s32(lower, ir_attribute_value(op, ATTR_PARITY)));
}

void lower_expect(Lower *lower, IrOp *op)
{
  IrExpr *address = lower_address(lower, lower_barrier(lower, op->operands[0]));
  lower_emit(lower, OP_BARRIER_EXPECT, 2, address, lower_s32(lower, ir_attribute_value(op, ATTR_BYTES)));
}

/* Which thread does an op that one does for many; NULL: every one. Divisors of the warp's index that are no
 * power of two do not occur: a warpgroup has four. */
static IrExpr *performer(Lower *lower, const IrOp *op)
{
  const IrExpr *by = ir_attribute_value(op, ATTR_BY);
  if (!by || by->kind != EXPR_NAME || !strcmp(by->name, "thread")) return NULL;
  IrExpr *lane = lower_compare(lower, OP_EQ, lower->lane, lower_int(lower, 0));
  if (!strcmp(by->name, "warp") || !strcmp(by->name, "lane")) return lane;
  IrExpr *warp = lower->role->warp;
  if (!strcmp(by->name, "warpgroup"))
    warp = lower_bits(lower, OP_AND, NUMBER_S32, warp, lower_int(lower, 3));
  else if (strcmp(by->name, "role"))
    lower_fail(lower, ERROR_INPUT, "by", NULL, "by takes thread, lane, warp, warpgroup or role, not %s",
               by->name);
  return lower_and(lower, lower_compare(lower, OP_EQ, warp, lower_int(lower, 0)), lane);
}

/* Is the lane's number that of a block in this block's row or column of the cluster? */
static IrExpr *in_line(Lower *lower, int64_t across)
{
  IrExpr *rank = lower_s32(lower, ir_call(lower->module, "cluster_rank", 0)),
         *width = lower_int(lower, across);
  IrType type = ir_scalar(NUMBER_S32);
  IrExpr *row = lower_value(lower, OP_DIV, type, "row", 2, rank, width);
  IrExpr *column = lower_value(lower, OP_REM, type, "column", 2, rank, width);
  IrExpr *beside =
      lower_compare(lower, OP_EQ, lower_value(lower, OP_DIV, type, "row", 2, lower->lane, width), row);
  IrExpr *below =
      lower_compare(lower, OP_EQ, lower_value(lower, OP_REM, type, "column", 2, lower->lane, width), column);
  return lower_value(lower, OP_OR, ir_predicate(), "in_line", 2, beside, below);
}

/* Each thread that is here, one block after the other. */
static void arrive_one_by_one(Lower *lower, const IrOp *op, LowerAddress barrier, int64_t blocks)
{
  if (ir_attribute(op, ATTR_CLUSTER_N)) {
    lower_fail(lower, ERROR_UNSUPPORTED, "arrive", NULL,
               "arriving at the peers of a row and column is one warp's, warpgroup's or role's");
    return;
  }
  IrExpr *address = lower_address_register(lower, barrier, NUMBER_U32);
  for (int64_t block = 0; block < blocks; block++) {
    IrOp *arrive = lower_emit(lower, OP_BARRIER_ARRIVE, 1, address);
    ir_attribute_set(arrive, ATTR_PEER, lower_int(lower, block));
    if (ir_attribute(op, ATTR_RELAXED)) ir_attribute_set(arrive, ATTR_RELAXED, NULL);
  }
}

/* At all blocks of the cluster, or of the own row and column: lane i of the performing warp arrives at block
 * i. */
static void arrive_at_all(Lower *lower, IrOp *op, LowerAddress barrier)
{
  const IrExpr *by = ir_attribute_value(op, ATTR_BY);
  int64_t blocks = 1;
  const IrExpr *cluster = ir_launch_get(lower->kernel, ATTR_CLUSTER);
  if (cluster) ir_expr_is_int(cluster, &blocks);
  if (!by || by->kind != EXPR_NAME || !strcmp(by->name, "thread")) {
    arrive_one_by_one(lower, op, barrier, blocks);
    return;
  }
  IrExpr *when = lower_compare(lower, OP_LT, lower->lane, lower_int(lower, blocks));
  int64_t across = ir_attribute_int(op, ATTR_CLUSTER_N, 0);
  if (across) when = lower_and(lower, when, in_line(lower, across));
  IrExpr *warp = lower->role->warp;
  if (!strcmp(by->name, "warpgroup")) warp = lower_bits(lower, OP_AND, NUMBER_S32, warp, lower_int(lower, 3));
  if (!strcmp(by->name, "warpgroup") || !strcmp(by->name, "role"))
    when = lower_and(lower, when, lower_compare(lower, OP_EQ, warp, lower_int(lower, 0)));
  IrOp *arrive = lower_emit(lower, OP_BARRIER_ARRIVE, 1, lower_address_register(lower, barrier, NUMBER_U32));
  ir_attribute_set(arrive, ATTR_PEER, lower->lane);
  if (ir_attribute(op, ATTR_RELAXED)) ir_attribute_set(arrive, ATTR_RELAXED, NULL);
  lower_when(arrive, when);
}

void lower_arrive(Lower *lower, IrOp *op)
{
  LowerAddress barrier = lower_barrier(lower, op->operands[0]);
  const IrExpr *peer = ir_attribute_value(op, ATTR_PEER);
  if (peer && peer->kind == EXPR_NAME) {
    arrive_at_all(lower, op, barrier);
    return;
  }
  IrExpr *where = peer ? lower_s32(lower, peer) : NULL, *when = performer(lower, op);
  IrExpr *address = peer ? lower_address_register(lower, barrier, NUMBER_U32) : lower_address(lower, barrier);
  const IrExpr *count = ir_attribute_value(op, ATTR_COUNT);
  IrExpr *arrivals = count ? lower_s32(lower, count) : NULL;
  IrOp *arrive = lower_emit(lower, OP_BARRIER_ARRIVE, 1, address);
  if (where) ir_attribute_set(arrive, ATTR_PEER, where);
  if (where && ir_attribute(op, ATTR_RELAXED)) ir_attribute_set(arrive, ATTR_RELAXED, NULL);
  if (arrivals) ir_attribute_set(arrive, ATTR_COUNT, arrivals);
  lower_when(arrive, when);
}
