/* Control flow, roles, turns. */
#include "ir/lower/lower.h"

/* ---- Loops ---- */

static void note_loop(IrOp *op, void *data)
{
  if ((op->code == OP_FOR && !ir_attribute(op, ATTR_UNROLL)) || op->code == OP_LOOP) *(bool *)data = true;
}

static bool leaves(const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    if (op->code == OP_BREAK_IF) return true;
    for (unsigned i = 0; op->code == OP_IF && i < op->n_regions; i++)
      if (leaves(op->regions[i])) return true;
  }
  return false;
}

static bool has_inner_loop(const IrRegion *region)
{
  bool found = false;
  ir_region_visit((IrRegion *)region, note_loop, &found);
  return found;
}

static void bind_argument(Lower *lower, const IrValue *argument, IrExpr *x)
{
  g_hash_table_insert(lower->scalars, (gpointer)argument, x);
}

#define MAX_UNROLLED 1024 /* iterations; beyond it `unroll` stays a loop */

/* All iterations written out, the loop variable a constant; not where one may leave early. */
static bool unroll(Lower *lower, const IrOp *op, IrExpr *low, IrExpr *high, IrExpr *step)
{
  int64_t from, to, by;
  if (!lower_is_int(low, &from) || !lower_is_int(high, &to) || !lower_is_int(step, &by) || by <= 0 ||
      leaves(op->regions[0]))
    return false;
  for (int64_t i = from; i < to && !lower->failed; i += by) {
    bind_argument(lower, op->regions[0]->arguments[0], lower_int(lower, i));
    lower_region(lower, op->regions[0]);
  }
  return true;
}

static void loop_body(Lower *lower, const IrOp *op, IrOp *loop, const IrValue *argument)
{
  const IrRegion *staged = op->regions[0];
  IrRegion *region = ir_region_add(loop);
  lower_scope_open(lower, loop, region, !has_inner_loop(staged));
  if (argument) {
    IrType type = argument->type.kind == TYPE_SCALAR ? argument->type : ir_scalar(NUMBER_S32);
    IrValue *index = ir_argument_add(region, argument->name, type);
    index->id = lower->scope->depth;
    bind_argument(lower, argument, ir_value(lower->module, index));
  }
  lower_changes(lower, staged); /* values of the previous iteration */
  lower_region(lower, staged);
  lower_changes(lower, staged);
  lower_scope_close(lower);
}

void lower_for(Lower *lower, const IrOp *op)
{
  const IrValue *argument = op->regions[0]->arguments[0];
  NumberType type = argument->type.kind == TYPE_SCALAR ? argument->type.element : NUMBER_S32;
  IrExpr *bound[3] = {NULL, NULL, lower_int(lower, 1)};
  for (unsigned i = 0; i < op->n_operands; i++)
    bound[i] = lower_as(lower, lower_expr(lower, op->operands[i]), type);
  if (ir_attribute(op, ATTR_UNROLL) && unroll(lower, op, bound[0], bound[1], bound[2])) return;
  loop_body(lower, op, lower_emit(lower, OP_FOR, 3, bound[0], bound[1], bound[2]), argument);
}

void lower_loop(Lower *lower, const IrOp *op)
{
  loop_body(lower, op, lower_emit(lower, OP_LOOP, 0), NULL);
}

static void nested_region(Lower *lower, IrOp *owner, const IrRegion *staged)
{
  lower_scope_open(lower, owner, ir_region_add(owner), false);
  if (staged) lower_region(lower, staged);
  lower_scope_close(lower);
}

void lower_if(Lower *lower, const IrOp *op)
{
  IrExpr *condition = lower_condition(lower, op->operands[0]);
  int64_t constant;
  if (lower_is_int(condition, &constant)) {
    if (constant)
      lower_region(lower, op->regions[0]);
    else if (op->n_regions > 1)
      lower_region(lower, op->regions[1]);
    return;
  }
  IrOp *branch = lower_emit(lower, OP_IF, 1, condition);
  nested_region(lower, branch, op->regions[0]);
  if (op->n_regions > 1) nested_region(lower, branch, op->regions[1]);
}

/* ---- Roles ---- */

static IrExpr *minus(Lower *lower, IrExpr *x, unsigned constant)
{
  return lower_sub(lower, NUMBER_S32, x, lower_int(lower, constant));
}

void lower_enter_role(Lower *lower, LowerRole *role, unsigned first, unsigned warps, unsigned instances)
{
  instances = MAX(1, instances);
  *role = (LowerRole){
      .first = first, .warps = warps, .instances = instances, .instance_warps = warps / instances};
  role->whole_block = instances == 1 && warps == lower->block_warps;
  role->thread = minus(lower, lower->thread, first * 32);
  role->role_warp = role->warp = minus(lower, lower->warp, first);
  role->instance = lower_int(lower, 0);
  if (instances > 1) {
    unsigned each = role->instance_warps;
    bool power = each && !(each & (each - 1));
    IrExpr *size = lower_int(lower, each);
    role->instance =
        power ? lower_shr(lower, NUMBER_S32, role->role_warp, (unsigned)g_bit_nth_lsf(each, -1))
              : lower_scalar(lower, OP_DIV, ir_scalar(NUMBER_S32), "instance", 2, role->role_warp, size);
    IrExpr *before = lower_mul(lower, NUMBER_S32, role->instance, size);
    role->warp = lower_sub(lower, NUMBER_S32, role->role_warp, before);
    role->thread = lower_sub(lower, NUMBER_S32, role->thread,
                             lower_mul(lower, NUMBER_S32, before, lower_int(lower, 32)));
  }
  lower->role = role;
}

static bool role_warps(const IrOp *op, unsigned *first, unsigned *last)
{
  const IrExpr *range = ir_attribute_value(op, ATTR_WARPS);
  int64_t low, high;
  if (!range || range->kind != EXPR_RANGE || !ir_expr_is_int(range->items[0], &low) ||
      !ir_expr_is_int(range->items[1], &high) || low < 0 || high <= low)
    return false;
  *first = (unsigned)low;
  *last = (unsigned)high;
  return true;
}

/* What the role's registers differ by from what every thread has at entry. */
static void hand_over(Lower *lower, const IrOp *op)
{
  int64_t wanted = ir_attribute_int(op, ATTR_REGISTERS, 0), entry = 0;
  if (!wanted || !gpu_has(lower->context->gpu, "register_reallocation")) return;
  const IrExpr *launch = ir_launch_get(lower->kernel, ATTR_ENTRY_REGISTERS);
  if (!launch || !ir_expr_is_int(launch, &entry)) {
    unsigned share = lower->context->gpu->registers_per_sm / (lower->block_warps * 32) / 8 * 8;
    entry = MIN(share, lower->context->gpu->registers_per_thread);
  }
  if (wanted == entry) return;
  IrOp *registers = lower_emit(lower, OP_REGISTERS, 1, lower_int(lower, wanted));
  ir_attribute_set(registers, ATTR_MODE, ir_name(lower->module, wanted > entry ? "up" : "down"));
}

static IrExpr *turn_barrier(Lower *lower, const IrOp *turn, IrExpr *instance)
{
  const IrExpr *ids = ir_attribute_value(turn, ATTR_IDS);
  int64_t n = ir_attribute_int(turn, ATTR_INSTANCES, 1), first = 0, at;
  if (!ids || ids->kind != EXPR_LIST || ids->n < n)
    return lower_fail(lower, ERROR_INPUT, "turn-barriers", NULL, "turn @%s has no named barriers",
                      turn->symbol);
  for (unsigned i = 0; i < ids->n; i++) { /* consecutive, so that one addition finds an instance's */
    if (!ir_expr_is_int(ids->items[i], &at)) return lower_int(lower, 0);
    if (i == 0) first = at;
    if (at != first + (int64_t)i)
      return lower_fail(lower, ERROR_UNSUPPORTED, "turn-barriers", NULL,
                        "named barriers of turn @%s must be consecutive", turn->symbol);
  }
  return lower_add(lower, NUMBER_S32, instance, lower_int(lower, first));
}

static void turn_sync(Lower *lower, IrOpcode code, IrExpr *id)
{
  IrOp *op = lower_emit(lower, code, 0);
  ir_attribute_set(op, ATTR_ID, id);
  ir_attribute_set(op, ATTR_THREADS, lower_int(lower, 2 * (int64_t)lower->role->instance_warps * 32));
}

/* A turn is a named barrier an instance: the holder of the turn arrives there, the instance waits. */
void lower_turn(Lower *lower, const IrOp *op)
{
  const IrOp *turn =
      op->operands[0]->kind == EXPR_SYMBOL ? ir_symbol_find(lower->kernel, op->operands[0]->name) : NULL;
  if (!turn || turn->code != OP_TURN) {
    lower_fail(lower, ERROR_INPUT, "turn", NULL, "the first operand is no turn");
    return;
  }
  IrExpr *instance = lower_s32(lower, op->operands[1]);
  if (op->code == OP_TURN_PASS) { /* to the next one */
    int64_t n = ir_attribute_int(turn, ATTR_INSTANCES, 1);
    IrExpr *next = lower_add(lower, NUMBER_S32, instance, lower_int(lower, 1));
    IrExpr *wraps = lower_compare(lower, OP_EQ, next, lower_int(lower, n));
    instance =
        lower_scalar(lower, OP_SELECT, ir_scalar(NUMBER_S32), "next", 3, wraps, lower_int(lower, 0), next);
    turn_sync(lower, OP_SYNC_ARRIVE, turn_barrier(lower, turn, instance));
    return;
  }
  turn_sync(lower, OP_SYNC, turn_barrier(lower, turn, instance));
}

static void collect_turns(IrOp *op, void *data)
{
  if (op->code != OP_TURN_WAIT || op->operands[0]->kind != EXPR_SYMBOL) return;
  GPtrArray *turns = data;
  for (unsigned i = 0; i < turns->len; i++)
    if (ir_expr_equal(turns->pdata[i], op->operands[0])) return;
  g_ptr_array_add(turns, op->operands[0]);
}

/* The first turn is instance 0's: the last instance gives it at the start. */
static void first_turns(Lower *lower, const IrOp *role)
{
  g_autoptr(GPtrArray) turns = g_ptr_array_new();
  ir_region_visit(role->regions[0], collect_turns, turns);
  for (unsigned i = 0; i < turns->len; i++) {
    const IrOp *turn = ir_symbol_find(lower->kernel, ((IrExpr *)turns->pdata[i])->name);
    if (!turn || turn->code != OP_TURN) continue;
    IrExpr *last =
        lower_compare(lower, OP_EQ, lower->role->instance, lower_int(lower, lower->role->instances - 1));
    IrOp *branch = lower_emit(lower, OP_IF, 1, last);
    lower_scope_open(lower, branch, ir_region_add(branch), false);
    turn_sync(lower, OP_SYNC_ARRIVE, turn_barrier(lower, turn, lower_int(lower, 0)));
    lower_scope_close(lower);
  }
}

static void role_body(Lower *lower, const IrOp *op, unsigned first, unsigned last)
{
  LowerRole role, *outer = lower->role;
  lower->mark = op->mark;
  hand_over(lower, op);
  lower_enter_role(lower, &role, first, last - first, (unsigned)ir_attribute_int(op, ATTR_INSTANCES, 1));
  first_turns(lower, op);
  lower_region(lower, op->regions[0]);
  lower->role = outer;
}

/* Warps in [first, last), or NULL for all that are left; those below `taken` are not here any more. */
static IrExpr *in_role(Lower *lower, unsigned first, unsigned last, unsigned taken)
{
  IrExpr *inside = NULL;
  if (first > taken) inside = lower_compare(lower, OP_GE, lower->warp, lower_int(lower, first));
  if (last < lower->block_warps)
    inside = lower_and(lower, inside, lower_compare(lower, OP_LT, lower->warp, lower_int(lower, last)));
  return inside;
}

/* Roles that follow one another become a chain of if ... else if, so that nothing one role computes has to
 * live through another. */
const IrOp *lower_roles(Lower *lower, const IrOp *op)
{
  unsigned opened = 0, first, last, below = 0;
  uint64_t seen = 0; /* warps that have had a role */
  const IrOp *taken = op;
  for (; op && op->code == OP_ROLE && !lower->failed; op = op->next) {
    lower->mark = op->mark;
    taken = op;
    if (!role_warps(op, &first, &last) || last > lower->block_warps) {
      lower_fail(lower, ERROR_INPUT, "role-warps", NULL, "role @%s needs warps a .. b within the block's %u",
                 op->symbol, lower->block_warps);
      break;
    }
    uint64_t warps = (last < 64 ? (uint64_t)1 << last : 0) - ((uint64_t)1 << first);
    if (seen & warps) { /* these warps have more than one role: the next comes after this one */
      taken = op->previous;
      break;
    }
    seen |= warps;
    IrExpr *inside = in_role(lower, first, last, below);
    if (!inside) {
      role_body(lower, op, first, last);
      break; /* nobody is left for further roles */
    }
    IrOp *branch = lower_emit(lower, OP_IF, 1, inside);
    lower_scope_open(lower, branch, ir_region_add(branch), false);
    role_body(lower, op, first, last);
    lower_scope_close(lower);
    if (first <= below) below = MAX(below, last);
    if (op->next && op->next->code == OP_ROLE) {
      lower_scope_open(lower, branch, ir_region_add(branch), false);
      opened++;
    }
  }
  while (opened--)
    lower_scope_close(lower);
  return taken;
}
