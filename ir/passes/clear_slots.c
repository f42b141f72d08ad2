#include "ir/passes/clear_slots.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/ring_barriers.h"

typedef struct {
  IrFunction *kernel;
  IrOp *role;
  int64_t id; /* of the barrier where the role meets; -1: nobody has asked for it */
} Clears;

/* Is it of one iteration of the loop that it stands in, and of which? */
static bool is_of_iteration(const IrOp *clear, const IrOp *loop, int64_t *iteration)
{
  const IrExpr *condition = clear->operands[2];
  return loop && loop->code == OP_FOR && condition->kind == EXPR_BINARY &&
         condition->operator_ == OPERATOR_EQ && condition->items[0]->kind == EXPR_VALUE &&
         condition->items[0]->value->argument_of == loop->regions[0] &&
         ir_expr_is_int(condition->items[1], iteration);
}

bool clears_first(const IrOp *op, const IrOp *loop)
{
  int64_t iteration, first;
  return op->code == OP_CLEAR && is_of_iteration(op, loop, &iteration) &&
         ir_expr_is_int(loop->operands[0], &first) && first == iteration;
}

/* A number that the loop begins with, or one more than what is not negative: no less than. */
static bool begins_at(const IrOp *loop, int64_t *first)
{
  const IrExpr *low = loop->operands[0];
  if (ir_expr_is_int(low, first)) return true;
  return low->kind == EXPR_BINARY && low->operator_ == OPERATOR_ADD && ir_is_non_negative(low->items[0]) &&
         ir_expr_is_int(low->items[1], first);
}

/* Does the loop around it begin behind the iteration that it is of? */
static bool is_over(const IrOp *clear)
{
  int64_t iteration, first;
  const IrOp *loop = clear->parent->owner;
  return is_of_iteration(clear, loop, &iteration) && begins_at(loop, &first) && first > iteration;
}

static void find_cursor(const IrExpr *expr, void *data)
{
  const IrExpr **cursor = data;
  const IrExpr *slot = expr->kind == EXPR_INDEX ? ir_slot_cursor(expr) : NULL;
  if (slot && slot->value == cursor[0]->value) cursor[1] = slot;
}

static bool steps(const IrOp *op, const IrValue *cursor)
{
  bool found = ir_steps_cursor(op, cursor);
  for (unsigned i = 0; i < op->n_regions; i++)
    for (const IrOp *inner = op->regions[i]->first; inner; inner = inner->next)
      found |= steps(inner, cursor);
  return found;
}

/* What reads the slot in the same region while the cursor is there; NULL: that comes in another iteration. */
static IrOp *reader_of(const IrOp *clear, const IrExpr *cursor)
{
  for (IrOp *op = clear->next; op && !steps(op, cursor->value); op = op->next) {
    const IrExpr *found[2] = {cursor, NULL};
    for (unsigned i = 0; (op->code == OP_MMA || op->code == OP_GET) && i < op->n_operands; i++)
      ir_expr_visit(op->operands[i], find_cursor, found);
    if (found[1]) return op;
  }
  return NULL;
}

/* Where nobody reads the slot in this iteration it is waited for here, if there are such rows. */
static void wait_here(const Clears *clears, IrOp *clear, const IrOp *ring, IrExpr *cursor)
{
  IrModule *module = clears->kernel->module;
  IrType tile = ir_expr_type(clears->kernel, clear->operands[0]);
  IrBuilder builder = ir_builder_before(clear);
  builder.mark = clear->mark;
  IrOp *some =
      ir_emit(&builder, OP_IF, 1,
              ir_binary(module, OPERATOR_LT, clear->operands[1], ir_int(module, ir_tile_extent(&tile, 0))));
  IrRegion *inside = ir_region_add(some);
  IrBuilder inner = ir_builder_at_end(inside);
  inner.mark = clear->mark;
  IrOp *await = ir_emit(&inner, OP_AWAIT, 1, ring_barrier(module, ring, "full", cursor));
  ir_attribute_set(await, ATTR_PARITY, ir_field(module, cursor, "phase"));
  ir_op_move(clear, inside, NULL);
}

/* All threads of the role, of every instance. */
static void name_meeting(Clears *clears, IrOp *clear)
{
  IrModule *module = clears->kernel->module;
  unsigned threads = ir_role_warps(clears->role) * WARP_LANES;
  if (threads == ir_launch_threads(clears->kernel)) return;
  if (clears->id < 0) clears->id = named_barrier_free(clears->kernel);
  ir_attribute_set(clear, ATTR_ID, ir_int(module, clears->id));
  ir_attribute_set(clear, ATTR_THREADS, ir_int(module, threads));
}

static void settle(Clears *clears, IrOp *clear)
{
  IrOp *ring = NULL;
  IrExpr *cursor = ir_slot_cursor(clear->operands[0]);
  if (is_over(clear)) {
    ir_op_remove(clear);
    return;
  }
  name_meeting(clears, clear);
  IrOp *reader = cursor ? reader_of(clear, cursor) : NULL;
  ir_slot_of(clears->kernel, clear->operands[0], &ring);
  if (reader) {
    while (reader->previous->code == OP_FENCE)
      reader = reader->previous;
    ir_op_move(clear, clear->parent, reader);
  } else if (cursor && ring && ir_attribute(ring, ATTR_FULL_ARRIVALS)) {
    wait_here(clears, clear, ring, cursor);
  }
}

static void find_clear(IrOp *op, void *data)
{
  if (op->code == OP_CLEAR) g_ptr_array_add(data, op);
}

void clear_slots(IrFunction *kernel)
{
  for (IrOp *role = kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    g_autoptr(GPtrArray) found = g_ptr_array_new();
    Clears clears = {kernel, role, -1};
    ir_region_visit(role->regions[0], find_clear, found);
    for (unsigned i = 0; i < found->len; i++)
      settle(&clears, found->pdata[i]);
  }
}
