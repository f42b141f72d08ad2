/* shorten_live_ranges: what is computed for one store is computed right before it.
 *
 * needs  THREAD
 * gives  the same operations, pure ones as late as the first operation that needs them
 * breaks nothing
 *
 * Lowering writes elementwise code tile operation by tile operation, so a chain of ten operations on a 128-register
 * accumulator would keep several such tiles alive. Here each straight-line stretch is rewritten in the order of demand:
 * operations with effects keep their places and pull their operand trees in front of themselves, depth first (the order
 * of Sethi and Ullman, "The generation of optimal code for arithmetic expressions", 1970, without its register counts).
 * Loads are not moved: their number in flight is what hides memory latency. Everything still pending goes in front of an
 * operation that synchronises, writes a variable or owns regions, so no value is read after it changed. */
#include "ir/pass.h"

typedef struct {
  GHashTable *pending; /* IrOp* that wait for a use */
  GPtrArray *order;    /* the same, oldest first; emitted ones stay in the array */
} Stretch;

static bool is_pure(const IrOp *op)
{
  return op->n_results && !op->n_regions && op->code != OP_VAR && !ir_op_effects(op->code);
}

static bool is_wall(const IrOp *op)
{
  return op->n_regions || op->code == OP_VAR ||
         (ir_op_effects(op->code) & (EFFECT_SYNC | EFFECT_UPDATE | EFFECT_CONTROL | EFFECT_DECLARE));
}

static void place_before(Stretch *stretch, IrOp *op, IrOp *before);

static void place_operand(Stretch *stretch, const IrExpr *expr, IrOp *before)
{
  if (expr->kind == EXPR_VALUE && expr->value->def && g_hash_table_contains(stretch->pending, expr->value->def))
    place_before(stretch, expr->value->def, before);
  for (unsigned i = 0; i < expr->n; i++)
    place_operand(stretch, expr->items[i], before);
}

static void place_operands(Stretch *stretch, const IrOp *op, IrOp *before)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    place_operand(stretch, op->operands[i], before);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value) place_operand(stretch, op->attributes[i].value, before);
}

static void place_before(Stretch *stretch, IrOp *op, IrOp *before)
{
  g_hash_table_remove(stretch->pending, op);
  place_operands(stretch, op, before);
  ir_op_move(op, before->parent, before);
}

static void place_all(Stretch *stretch, IrOp *before)
{
  for (unsigned i = 0; i < stretch->order->len; i++)
    if (g_hash_table_contains(stretch->pending, stretch->order->pdata[i]))
      place_before(stretch, stretch->order->pdata[i], before);
  g_ptr_array_set_size(stretch->order, 0);
}

static void reorder(IrRegion *region)
{
  g_autoptr(GHashTable) pending = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) order = g_ptr_array_new();
  Stretch stretch = {pending, order};
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_regions; i++)
      reorder(op->regions[i]);
    if (is_pure(op)) {
      g_hash_table_add(pending, op);
      g_ptr_array_add(order, op);
    } else if (is_wall(op)) {
      place_all(&stretch, op);
    } else {
      place_operands(&stretch, op, op);
    }
  }
  /* what no effect of this region needs keeps its place: outer regions may */
}

bool pass_shorten_live_ranges(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (kernel) reorder(kernel->body);
  return true;
}
