#include "ir/passes/product_phases.h"
#include "ir/facts.h"
#include "ir/mechanism.h"

/* ---- Products that several blocks take together ---- */

/* Each block counts those that have seen their own slots full, so that peers' are: a barrier a slot. Where one block issues for
 * all, the others' warps say with it that each of them is done with the sum that it has. */
static const IrOp *declare_meeting(IrModule *module, const IrOp *product, const IrOp *channel)
{
  IrFunction *kernel = product->parent->function;
  const char *name = arena_printf(module->arena, "%s_peers", channel->symbol);
  const IrOp *known = ir_symbol_find(kernel, name);
  if (known) return known;
  IrBuilder builder = ir_builder_before(kernel->body->first);
  builder.mark = channel->mark;
  IrOp *barrier = ir_emit(&builder, OP_BARRIER, 0);
  barrier->symbol = name;
  ir_attribute_set(barrier, ATTR_COUNT, ir_attribute_value(channel, ATTR_SLOTS));
  unsigned each = ir_product_is_led(product) ? MAX(1, ir_mechanism_of(product)->warps) : 1;
  ir_attribute_set(barrier, ATTR_ARRIVALS, ir_int(module, ir_product_blocks(product) * each));
  return barrier;
}

/* Has the region's product before this one waited for the same slots? */
static bool has_met(const IrOp *product, const IrExpr *barrier)
{
  for (const IrOp *op = product->previous; op; op = op->previous)
    if (op->code == OP_AWAIT && ir_expr_equal(op->operands[0], barrier)) return true;
  return false;
}

/* The barrier of the slot that an operand lies in; NULL: it lies in none, or the product meets there already. */
static IrExpr *meeting_of(IrModule *module, const IrOp *product, unsigned operand)
{
  const IrExpr *access = ir_untransposed(product->operands[operand]);
  IrOp *channel = NULL;
  if (!ir_slot_of(product->parent->function, access, &channel) || access->kind != EXPR_INDEX) return NULL;
  IrExpr *barrier = ir_index(module, ir_symbol(module, declare_meeting(module, product, channel)->symbol), 1,
                             access->items[1]);
  return has_met(product, barrier) ? NULL : barrier;
}

/* Nobody can wait at another block's barrier: a block that has seen its slot full arrives at those of all who read it, and these
 * wait at their own. Whoever frees the slot is slot_waits': at all of theirs too, but for what one block reads for all, which
 * each block frees for itself when it has seen the product's end. */
static void meet(IrModule *module, IrOp *product)
{
  bool led = ir_product_is_led(product);
  IrExpr *barriers[2];
  unsigned n = 0;
  for (unsigned i = 1; i <= 2; i++) {
    IrExpr *barrier = led || i == ir_product_divided(product) ? meeting_of(module, product, i) : NULL;
    if (barrier && !(n && ir_expr_equal(barriers[0], barrier))) barriers[n++] = barrier;
  }
  IrBuilder before = ir_builder_before(product);
  before.mark = product->mark;
  for (unsigned i = 0; i < n; i++) {
    IrOp *arrive = ir_emit(&before, OP_ARRIVE, 1, barriers[i]);
    ir_attribute_set(arrive, ATTR_BY, ir_name(module, led ? mechanism_issue_name(ISSUE_WARP) : "role"));
    ir_attribute_set(arrive, ATTR_PEER, led ? ir_int(module, PRODUCT_LEADER) : ir_name(module, "all"));
  }
  for (unsigned i = 0; i < n; i++) {
    IrOp *await = ir_emit(&before, OP_AWAIT, 1, barriers[i]);
    ir_attribute_set(await, ATTR_PARITY, ir_field(module, barriers[i]->items[1], "phase"));
  }
}

void products_meet(IrModule *module, IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next)
    if (op->code == OP_MMA) meet(module, op);
}

/* ---- Products that arrive at a barrier when they are done ---- */

/* One barrier for all of a kernel's, at which each warp that issues makes an arrival. */
static void declare_barrier(ProductPhases *phases, const IrOp *product)
{
  if (phases->barrier) return;
  IrModule *module = product->parent->function->module;
  IrRegion *body = product->parent->function->body;
  IrBuilder builder = ir_builder_before(body->first);
  builder.mark = product->mark;
  IrOp *barrier = ir_emit(&builder, OP_BARRIER, 0);
  barrier->symbol = ir_symbol_unique(product->parent->function, "products");
  ir_attribute_set(barrier, ATTR_COUNT, ir_int(module, 1));
  ir_attribute_set(barrier, ATTR_ARRIVALS, ir_int(module, MAX(1, ir_mechanism_of(product)->warps)));
  phases->barrier = barrier->symbol;
}

/* The phase that a role waits for next: it turns from wait to wait. */
static IrExpr *phase_of(ProductPhases *phases, const IrOp *product)
{
  if (phases->phase) return phases->phase;
  IrModule *module = product->parent->function->module;
  const IrOp *role = product->parent->owner;
  while (role && role->code != OP_ROLE)
    role = role->parent->owner;
  IrBuilder builder =
      ir_builder_before(role ? role->regions[0]->first : product->parent->function->body->first);
  builder.mark = product->mark;
  IrOp *op = ir_emit(&builder, OP_VAR, 1, ir_int(module, 0));
  IrValue *phase = ir_result(op, "phase", ir_scalar(NUMBER_S32));
  phase->variable = true;
  return phases->phase = ir_value(module, phase);
}

static bool arrives(const IrOp *op)
{
  return op && ir_completes(op, COMPLETES_BARRIER_PHASE);
}

/* What one block does for all: products up to the end of their group, and in front of them the await of the others' slots. */
static void lead(IrModule *module, IrOp *last)
{
  IrOp *first = last;
  while (arrives(first->previous))
    first = first->previous;
  while (first->previous && first->previous->code == OP_AWAIT)
    first = first->previous;
  IrBuilder builder = ir_builder_before(first);
  builder.mark = last->mark;
  IrExpr *leads =
      ir_binary(module, OPERATOR_EQ, ir_call(module, "cluster_rank", 0), ir_int(module, PRODUCT_LEADER));
  IrRegion *region = ir_region_add(ir_emit(&builder, OP_IF, 1, leads));
  for (IrOp *op = first, *next; op; op = next) {
    next = op == last ? NULL : op->next;
    ir_op_move(op, region, NULL);
  }
}

/* Products that follow one another are waited for together, in their own iteration: what stands behind them, the
 * slot's release first, finds them done. */
void products_wait(IrModule *module, IrRegion *region, ProductPhases *phases)
{
  for (IrOp *op = region->first; op; op = op->next) {
    bool closed = op->next && op->next->code == OP_COMMIT && ir_attribute(op->next, ATTR_BARRIER);
    if (!arrives(op) || arrives(op->next) || closed) continue;
    declare_barrier(phases, op);
    IrExpr *phase = phase_of(phases, op);
    IrExpr *barrier = ir_index(module, ir_symbol(module, phases->barrier), 1, ir_int(module, 0));
    IrBuilder after = ir_builder_after(op);
    after.mark = op->mark;
    IrOp *commit = ir_emit(&after, OP_COMMIT, 1, ir_name(module, "products"));
    ir_attribute_set(commit, ATTR_BARRIER, barrier);
    ir_attribute_set(commit, ATTR_BY, ir_name(module, mechanism_issue_name(ISSUE_WARP)));
    IrOp *await = ir_emit(&after, OP_AWAIT, 1, barrier);
    ir_attribute_set(await, ATTR_PARITY, phase);
    bool led = ir_product_is_led(op);
    op = ir_emit(&after, OP_SET, 2, phase, ir_binary(module, OPERATOR_XOR, phase, ir_int(module, 1)));
    if (!led) continue;
    ir_attribute_set(commit, ATTR_PEER, ir_name(module, "all"));
    lead(module, commit);
  }
}
