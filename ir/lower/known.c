/* Truth values of places: what is computed of rows' and columns' numbers and constants alone is in many registers the same for all threads.
 * It is known then: what it selects against is never computed. */
#include "ir/lower/lower.h"

#define KNOWN_DEPTH 4 /* operations behind one another that are looked through */

static bool value_at(const IrExpr *expr, const unsigned *at, unsigned depth, int64_t *value);

static bool combined_at(const IrOp *op, const unsigned *at, unsigned depth, int64_t *value)
{
  int64_t a, b;
  if (op->n_operands != 2 || !value_at(op->operands[0], at, depth, &a) ||
      !value_at(op->operands[1], at, depth, &b))
    return false;
  switch ((unsigned)op->code) {
  case OP_ADD: *value = a + b; return true;
  case OP_SUB: *value = a - b; return true;
  case OP_REM: *value = b > 0 && a >= 0 ? a % b : 0; return b > 0 && a >= 0;
  case OP_LT: *value = a < b; return true;
  case OP_LE: *value = a <= b; return true;
  case OP_GT: *value = a > b; return true;
  case OP_GE: *value = a >= b; return true;
  default: return false;
  }
}

/* What an integer tile, or a constant, is at coordinates; false: they do not say. */
static bool value_at(const IrExpr *expr, const unsigned *at, unsigned depth, int64_t *value)
{
  if (expr->kind == EXPR_INT) {
    *value = expr->integer;
    return *value > INT32_MIN / 2 && *value < INT32_MAX / 2; /* sums of a few do not wrap */
  }
  const IrValue *tile = expr->kind == EXPR_VALUE ? expr->value : NULL;
  if (!tile || tile->variable || !tile->def || tile->type.kind != TYPE_TILE || !depth) return false;
  if (tile->def->code == OP_IOTA) {
    *value = at[ir_attribute_int(tile->def, ATTR_DIM, 0)];
    return tile->type.element == NUMBER_S32;
  }
  bool integers = tile->type.element == NUMBER_S32 || tile->type.element == NUMBER_BOOL;
  return integers && combined_at(tile->def, at, depth - 1, value);
}

bool lower_known_truth(const IrOp *op, const Layout *layout, unsigned reg, bool *truth)
{
  unsigned warps = layout_size(layout, PLACE_WARP), lanes = layout_size(layout, PLACE_LANE);
  int64_t first = 0, value = 0;
  if (op->code < OP_LT || op->code > OP_GE) return false;
  for (unsigned warp = 0; warp < warps; warp++) {
    for (unsigned lane = 0; lane < lanes; lane++) {
      unsigned at[LAYOUT_MAX_DIMS] = {0};
      layout_at(layout, 0, warp, lane, reg, at);
      if (!combined_at(op, at, KNOWN_DEPTH, &value)) return false;
      if (!warp && !lane) first = value;
      if (value != first) return false;
    }
  }
  *truth = first;
  return true;
}
