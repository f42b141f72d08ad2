/* Slots that threads fill: a software pipeline in one role.
 *
 * A loop that fills and takes channels runs their fills ahead, as far as the smallest ring has slots but one, and one
 * block barrier an iteration orders both. Elsewhere a slot is filled, waited for and read. */
#include "ir/facts.h"
#include "ir/passes/split_roles.h"

/* All fills of a body for one channel bring one slot. */
static void emit_fills(Role *role, IrBuilder *builder, const IrRegion *body, const IrOp *channel,
                       IrExpr *cursor)
{
  for (const IrOp *op = body->first; op; op = op->next)
    if (op->code == OP_FILL && role_channel_of(role->split, op->operands[0]) == channel)
      role_emit_copy(role, builder, op, cursor);
}

/* Threads that fill slots themselves do it in the loop, or the region, that takes them. */
static void refuse_threads(Split *split, const IrOp *op)
{
  if (split->failed) return;
  split->failed = true;
  error_set(
      split->error, ERROR_UNSUPPORTED, &op->mark, "threads-copy",
      "state what is known of the tensors (`align 16`, `multiple 8`), so that TMA can fill the slots, or "
      "fill and take a channel in one loop",
      "threads copy what this fills or takes, and fill and take do not stand in the same loop, in turn");
}

/* Is the slot taken whenever the region runs: in it itself, or in what another channel's `take` there holds? */
static bool taken_in(const IrOp *take, const IrRegion *body)
{
  while (take->parent != body && take->parent->owner && take->parent->owner->code == OP_TAKE)
    take = take->parent->owner;
  return take->parent == body;
}

static const IrOp *filled_channel(const Role *role, const IrOp *op)
{
  return op && op->code == OP_FILL ? role_channel_of(role->split, op->operands[0]) : NULL;
}

/* The channels that a loop's body fills and takes, each once and with two slots at least: NULL if it fills none, or others. */
static GPtrArray *pipelined_channels(Role *role, const IrOp *loop)
{
  g_autoptr(GPtrArray) channels = g_ptr_array_new();
  const IrRegion *body = loop->regions[0];
  for (const IrOp *op = body->first; op; op = op->next) {
    const IrOp *channel = filled_channel(role, op);
    if (!channel || filled_channel(role, op->previous) == channel) continue;
    bool taken = false;
    for (const IrOp *before = op; before && !taken; before = before->previous)
      taken = before->code == OP_TAKE && role_channel_of(role->split, before->operands[0]) == channel;
    if (taken) return NULL; /* another slot of it */
    if (g_ptr_array_find(channels, (gpointer)channel, NULL)) continue;
    if (ir_attribute_int(channel, ATTR_SLOTS, 2) < 2) return NULL;
    g_ptr_array_add(channels, (gpointer)channel);
  }
  return channels->len ? g_steal_pointer(&channels) : NULL;
}

/* So many iterations ahead fills run: one slot of the smallest ring is being read. */
static int64_t iterations_ahead(const GPtrArray *channels)
{
  int64_t slots = G_MAXINT64;
  for (unsigned i = 0; i < channels->len; i++)
    slots = MIN(slots, ir_attribute_int(channels->pdata[i], ATTR_SLOTS, 2));
  return slots - 1;
}

/* A number that the places of fills are computed from, in the loop itself. */
static bool gives_place(const Role *role, const IrOp *op)
{
  if (op->code == OP_SET)
    return op->operands[0]->kind == EXPR_VALUE && op->operands[0]->value->type.kind == TYPE_SCALAR &&
           g_hash_table_contains(role->needed, op->operands[0]->value);
  return op->n_results == 1 && op->results[0]->type.kind == TYPE_SCALAR &&
         g_hash_table_contains(role->needed, op->results[0]);
}

/* Where an iteration does not exist, may its tile lie in front of the tensor? Behind it, or inside, no harm is done. */
static bool may_fall(const IrExpr *expr, const IrValue *index, bool negated)
{
  int64_t factor;
  if (expr->kind == EXPR_VALUE) return negated && expr->value == index;
  bool falls = false;
  for (unsigned i = 0; i < expr->n; i++) {
    bool other =
        expr->kind == EXPR_UNARY || (expr->kind == EXPR_BINARY && expr->operator_ == OPERATOR_SUB && i);
    const IrExpr *beside = expr->n == 2 ? expr->items[1 - i] : NULL;
    if (expr->kind == EXPR_BINARY && expr->operator_ == OPERATOR_MUL && ir_expr_is_int(beside, &factor))
      other = factor < 0;
    falls = falls || may_fall(expr->items[i], index, negated != other);
  }
  return falls;
}

/* Are only the slots of iterations that exist to be filled? So it is said of loops that end inside of a tensor, whose further rows would come for
 * nothing. */
static bool needs_guard(const Role *role, const IrRegion *body)
{
  if (ir_attribute_is(body->owner, ATTR_AHEAD, "guarded")) return true;
  for (const IrOp *op = body->first; op; op = op->next)
    if (op->code == OP_FILL ? may_fall(op->operands[1], body->arguments[0], false) : gives_place(role, op))
      return true;
  return false;
}

static void fill_ahead(Role *role, IrBuilder *builder, const IrRegion *body, const GPtrArray *channels,
                       IrExpr *const *cursors, IrExpr *exists)
{
  IrBuilder inner = *builder;
  if (needs_guard(role, body)) {
    inner = ir_builder_at_end(ir_region_add(ir_emit(builder, OP_IF, 1, exists)));
    inner.mark = builder->mark;
  }
  for (const IrOp *op = body->first; op; op = op->next)
    if (op->code != OP_FILL && gives_place(role, op)) role_copy_op(role, &inner, op);
  for (unsigned i = 0; i < channels->len; i++)
    emit_fills(role, &inner, body, channels->pdata[i], cursors[i]);
  for (unsigned i = 0; i < channels->len; i++)
    ir_emit(builder, OP_ADVANCE, 1, cursors[i]);
}

/* The body of a loop whose slots are filled ahead: what it takes lies under the reading cursors. */
static void copy_taking_body(Role *role, IrBuilder *builder, const IrRegion *body)
{
  const IrRegion *around = role->pipelined;
  role->pipelined = body;
  for (const IrOp *op = body->first; op; op = op->next)
    if (op->code != OP_FILL) op = role->copy(role, builder, op);
  role->pipelined = around;
}

/* A counted loop whose body fills and takes channels. Iterations beyond the end are filled too, unless they need a guard: their
 * coordinates lie outside the tensor, so they bring zeros without touching memory; every iteration closes
 * one group. */
static void copy_pipelined_loop(Role *role, IrBuilder *builder, const IrOp *loop, const GPtrArray *channels)
{
  Split *split = role->split;
  IrModule *module = split->module;
  int64_t ahead = iterations_ahead(channels);
  const IrRegion *body = loop->regions[0];
  IrValue *index = body->arguments[0];
  IrExpr *low = role_rewrite(role, loop->operands[0]), *high = role_rewrite(role, loop->operands[1]);
  IrExpr *step = loop->n_operands > 2 ? role_rewrite(role, loop->operands[2]) : ir_int(module, 1);
  IrExpr **write = arena_new_array(module->arena, IrExpr *, channels->len),
         **read = arena_new_array(module->arena, IrExpr *, channels->len);
  builder->mark = loop->mark;
  for (unsigned i = 0; i < channels->len; i++) {
    const IrOp *channel = channels->pdata[i];
    write[i] = role_cursor_new(split, builder, channel->symbol, "write");
    read[i] = role_cursor_new(split, builder, channel->symbol, "read");
  }
  IrOp *prologue = ir_emit(builder, OP_FOR, 3, ir_int(module, 0), ir_int(module, ahead), ir_int(module, 1));
  IrRegion *region = ir_region_add(prologue);
  IrExpr *early = ir_value(module, ir_argument_add(region, "early", ir_scalar(NUMBER_S32)));
  early = ir_binary(module, OPERATOR_ADD, low, ir_binary(module, OPERATOR_MUL, early, step));
  g_hash_table_insert(role->map, index, early);
  IrBuilder inner = ir_builder_at_end(region);
  inner.mark = loop->mark;
  fill_ahead(role, &inner, body, channels, write, ir_binary(module, OPERATOR_LT, early, high));

  builder->mark = loop->mark;
  IrOp *steady = ir_emit(builder, OP_FOR, 3, low, high, step);
  region = ir_region_add(steady);
  IrExpr *at = ir_value(module, ir_argument_add(region, index->name, index->type));
  inner = ir_builder_at_end(region);
  inner.mark = loop->mark;
  ir_emit(&inner, OP_SYNC, 0);
  IrExpr *later =
      ir_binary(module, OPERATOR_ADD, at, ir_binary(module, OPERATOR_MUL, step, ir_int(module, ahead)));
  g_hash_table_insert(role->map, index, later);
  fill_ahead(role, &inner, body, channels, write, ir_binary(module, OPERATOR_LT, later, high));
  g_hash_table_insert(role->map, index, at);
  for (unsigned i = 0; i < channels->len; i++)
    g_hash_table_insert(role->cursors, (gpointer)((IrOp *)channels->pdata[i])->symbol, read[i]);
  copy_taking_body(role, &inner, body);
  for (unsigned i = 0; i < channels->len; i++) {
    ir_emit(&inner, OP_ADVANCE, 1, read[i]);
    g_hash_table_remove(role->cursors, ((IrOp *)channels->pdata[i])->symbol);
  }
  ir_emit(builder, OP_SYNC, 0); /* the rings are free again for whatever follows */
}

const IrOp *role_fill_here(Role *role, IrBuilder *builder, const IrOp *fill)
{
  Split *split = role->split;
  const IrOp *channel = role_channel_of(split, fill->operands[0]), *last = fill;
  if (g_hash_table_contains(role->cursors, channel->symbol)) refuse_threads(split, fill);
  builder->mark = fill->mark;
  IrExpr *cursor = role_cursor_new(split, builder, channel->symbol, "slot");
  for (const IrOp *op = fill; op && op->code == OP_FILL && role_channel_of(split, op->operands[0]) == channel;
       op = op->next) {
    role_emit_copy(role, builder, op, cursor);
    last = op;
  }
  g_hash_table_insert(role->cursors, (gpointer)channel->symbol, cursor);
  g_hash_table_insert(role->filled, (gpointer)channel->symbol, fill->parent);
  return last;
}

void role_take_filled(Role *role, IrBuilder *builder, const IrOp *take)
{
  const char *channel = take->operands[0]->name;
  const IrRegion *filled = g_hash_table_lookup(role->filled, channel);
  bool ahead = !filled && role->pipelined && taken_in(take, role->pipelined);
  if (!g_hash_table_contains(role->cursors, channel) || (!ahead && !(filled && taken_in(take, filled)))) {
    refuse_threads(role->split, take);
    return;
  }
  builder->mark = take->mark;
  for (const IrOp *op = take->regions[0]->first; op; op = op->next)
    op = role->copy(role, builder, op);
  if (!filled) return;
  g_hash_table_remove(role->cursors, channel);
  g_hash_table_remove(role->filled, channel);
}

bool role_copy_filling_loop(Role *role, IrBuilder *builder, const IrOp *loop)
{
  g_autoptr(GPtrArray) channels = pipelined_channels(role, loop);
  if (channels) copy_pipelined_loop(role, builder, loop, channels);
  return channels != NULL;
}
