/* skip_steps: instances of a role skip the iterations of a pipelined loop whose product their rows do not count in.
 *
 * needs  STAGED, rings' slots in program order, the loop's products given stages and turns (overlap_products)
 * gives  where a product says of which iterations its instance's rows count, `mma ... where %j >= %from & %j < %to`, the loop from the first such
 *        to the last one, and in front of it and behind it a loop that only steps over the slots, in the instance's turn: derive_waits has it wait for
 *        them and let them go. One iteration is left where there are some and none counts, so all instances take as many turns
 * breaks nothing; loops of other forms keep all iterations, whose masks say the same
 *
 * So under a window, where every tile of rows begins and ends with keys that the rows of one warpgroup see and those of the next do not, each
 * warpgroup multiplies and weighs what its own rows see: it runs as many slots ahead of the others, and as many behind at the end. */
#include "ir/facts.h"
#include "ir/pass.h"

typedef struct {
  IrModule *module;
  IrOp *loop;
  const IrValue *index;
  IrExpr *from, *to; /* the iterations that count: no earlier than, earlier than */
  IrOp *product;     /* that says so */
} Steps;

static bool names_index(const IrExpr *expr, const IrValue *index)
{
  if (expr->kind == EXPR_VALUE && expr->value == index) return true;
  for (unsigned i = 0; i < expr->n; i++)
    if (names_index(expr->items[i], index)) return true;
  return false;
}

/* A side of the condition: the index beside a number that stands in front of the loop. */
static bool take_side(Steps *steps, const IrExpr *side)
{
  if (side->kind != EXPR_BINARY || (side->operator_ != OPERATOR_GE && side->operator_ != OPERATOR_LT))
    return false;
  const IrExpr *index = side->items[0];
  IrExpr *bound = side->items[1];
  if (index->kind != EXPR_VALUE || index->value != steps->index || names_index(bound, steps->index))
    return false;
  IrExpr **place = side->operator_ == OPERATOR_GE ? &steps->from : &steps->to;
  bool first = !*place;
  *place = bound;
  return first;
}

/* Does a product of the loop say of which iterations it counts? */
static bool take_condition(Steps *steps)
{
  for (IrOp *op = steps->loop->regions[0]->first; op; op = op->next) {
    const IrExpr *where = op->code == OP_MMA ? ir_attribute_value(op, ATTR_WHERE) : NULL;
    if (!where || where->kind != EXPR_BINARY || where->operator_ != OPERATOR_AND) continue;
    steps->product = op;
    return take_side(steps, where->items[0]) && take_side(steps, where->items[1]);
  }
  return false;
}

/* Rows of a cursor's slot that all instances clear together, in one of the first iterations. */
static void clone_clears(const Steps *steps, IrBuilder *builder, const IrValue *cursor, GHashTable *map)
{
  for (const IrOp *op = steps->loop->regions[0]->first; op; op = op->next) {
    const IrExpr *slot = op->code == OP_CLEAR ? ir_slot_cursor(op->operands[0]) : NULL;
    if (slot && slot->value == cursor) ir_attribute_remove(ir_op_clone(builder, op, map), ATTR_STAGE);
  }
}

/* A loop over slots that nobody reads: the turn comes first, so that nobody waits where slots are cleared for who waits for a turn. */
static void write_idle(const Steps *steps, IrBuilder *builder, IrExpr *from, IrExpr *to, bool in_front)
{
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  const IrValue *index = steps->index;
  IrOp *idle = ir_emit(builder, OP_FOR, 3, from, to, ir_int(steps->module, 1));
  IrRegion *region = ir_region_add(idle);
  IrValue *at = ir_argument_add(region, index->name, index->type);
  g_hash_table_insert(map, (gpointer)index, ir_value(steps->module, at));
  IrBuilder inner = ir_builder_at_end(region);
  bool turned = false;
  for (const IrOp *op = steps->loop->regions[0]->first; op; op = op->next) {
    if (op->code != OP_ADVANCE) continue;
    inner.mark = op->mark;
    if (in_front) clone_clears(steps, &inner, op->operands[0]->value, map);
    IrOp *step = ir_emit(&inner, OP_ADVANCE, 1, op->operands[0]);
    if (!turned) ir_attribute_set(step, ATTR_IN_TURN, ir_name(steps->module, "early"));
    turned = true;
  }
}

static void write_loops(const Steps *steps)
{
  IrModule *module = steps->module;
  IrExpr *low = steps->loop->operands[0], *high = steps->loop->operands[1], *one = ir_int(module, 1);
  IrBuilder before = ir_builder_before(steps->loop), after = ir_builder_after(steps->loop);
  before.mark = after.mark = steps->loop->mark;
  IrExpr *last = ir_binary(module, OPERATOR_SUB, high, one);
  IrExpr *from = ir_emit_value(&before, OP_LET, ir_scalar(NUMBER_S32), "begins", 1,
                               ir_call(module, "max", 2, low, ir_call(module, "min", 2, steps->from, last)));
  IrExpr *least = ir_binary(module, OPERATOR_ADD, from, one);
  IrExpr *to = ir_emit_value(&before, OP_LET, ir_scalar(NUMBER_S32), "stops", 1,
                             ir_call(module, "min", 2, high, ir_call(module, "max", 2, steps->to, least)));
  write_idle(steps, &before, low, from, true);
  write_idle(steps, &after, to, high, false);
  steps->loop->operands[0] = from;
  steps->loop->operands[1] = to;
  ir_attribute_remove(steps->product, ATTR_WHERE);
}

/* Everything that its operations have stages for, and steps of 1. */
static bool is_pipelined(const IrOp *loop)
{
  int64_t step;
  return loop->code == OP_FOR && ir_attribute(loop, ATTR_PIPELINED) &&
         (loop->n_operands < 3 || (ir_expr_is_int(loop->operands[2], &step) && step == 1));
}

static void skip_in(IrModule *module, const IrPassContext *context, const IrOp *role, IrRegion *region)
{
  for (IrOp *op = region->first, *next; op; op = next) {
    next = op->next;
    for (unsigned i = 0; i < op->n_regions; i++)
      skip_in(module, context, role, op->regions[i]);
    if (!is_pipelined(op)) continue;
    Steps steps = {.module = module, .loop = op, .index = op->regions[0]->arguments[0]};
    if (!take_condition(&steps)) continue;
    write_loops(&steps);
    ir_remark(context, "steps: an instance of role %s skips those in which none of its rows counts",
              role->symbol);
  }
}

bool pass_skip_steps(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE && ir_attribute_int(op, ATTR_INSTANCES, 1) > 1)
      skip_in(module, context, op, op->regions[0]);
  return true;
}
