#include "ir/passes/fills.h"

static void find_fill(IrOp *op, void *data)
{
  if (op->code == OP_FILL) *(bool *)data = true;
}

bool contains_fill(const IrOp *op)
{
  bool found = false;
  for (unsigned i = 0; i < op->n_regions; i++)
    ir_region_visit(op->regions[i], find_fill, &found);
  return found;
}

bool takes_slots(const IrOp *loop)
{
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next)
    if (op->code == OP_TAKE) return true;
  return false;
}

/* ---- what copying needs ---- */

static void need_leaf(const IrExpr *expr, void *needed)
{
  if (expr->kind == EXPR_VALUE) g_hash_table_add(needed, expr->value);
}

static void need_operands(const IrOp *op, GHashTable *needed)
{
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], need_leaf, needed);
}

static bool gives_needed(const IrOp *op, GHashTable *needed)
{
  if (op->code == OP_SET)
    return op->operands[0]->kind == EXPR_VALUE && g_hash_table_contains(needed, op->operands[0]->value);
  for (unsigned i = 0; i < op->n_results; i++)
    if (g_hash_table_contains(needed, op->results[i])) return true;
  return false;
}

/* From the last operation to the first: what is defined stands in front of its uses. true: the region holds a fill. */
static bool need_region(const IrRegion *region, GHashTable *needed)
{
  bool fills = false;
  for (const IrOp *op = region->last; op; op = op->previous) {
    bool inside = false;
    for (unsigned i = op->n_regions; i-- > 0;)
      inside = need_region(op->regions[i], needed) || inside;
    if (op->code == OP_FILL || inside || gives_needed(op, needed)) need_operands(op, needed);
    fills = fills || inside || op->code == OP_FILL;
  }
  return fills;
}

/* Twice, since a variable that a loop sets behind its use is needed from the second time on; until nothing is added. */
GHashTable *values_needed_by_fills(IrRegion *region)
{
  GHashTable *needed = g_hash_table_new(NULL, NULL);
  guint before;
  do {
    before = g_hash_table_size(needed);
    need_region(region, needed);
  } while (g_hash_table_size(needed) > before);
  return needed;
}

static bool is_scalar_only(const IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++)
    if (op->results[i]->type.kind != TYPE_SCALAR) return false;
  return op->n_results > 0 && !(ir_op_effects(op->code) & (EFFECT_READ | EFFECT_WRITE | EFFECT_SYNC));
}

/* Setting a variable, or loading a number, for such a value. */
static bool serves_fills(const IrOp *op, GHashTable *needed)
{
  if (op->code == OP_SET) return op->operands[0]->value->type.kind == TYPE_SCALAR && gives_needed(op, needed);
  return op->code == OP_LOAD && op->results[0]->type.kind == TYPE_SCALAR && gives_needed(op, needed);
}

bool producer_has(const IrOp *op, GHashTable *needed)
{
  return is_scalar_only(op) || serves_fills(op, needed);
}
