/* Truth values of places: what is computed of rows' and columns' numbers and constants alone is in many registers the same for all threads.
 * It is known then: what it selects against is never computed. And a bound that is a multiple of a vector's elements lies between vectors:
 * one comparison says it of all elements of a vector. */
#include "ir/facts.h"
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

#define UNIT_MOST 64 /* elements that one comparison tells of at most */

/* The part of an integer tile, or a scalar, that its coordinates say. What they do not say is a multiple of *unit, which may become less. */
static bool place_at(const Lower *lower, const IrExpr *expr, const unsigned *at, unsigned depth,
                     int64_t *place, unsigned *unit)
{
  const IrValue *tile = expr->kind == EXPR_VALUE && expr->value->type.kind == TYPE_TILE ? expr->value : NULL;
  if (!tile) {
    *unit = MIN(*unit, ir_known_multiple(lower->kernel, expr, *unit));
    return *unit > 1;
  }
  if (tile->variable || !tile->def || tile->type.element != NUMBER_S32 || !depth) return false;
  if (tile->def->code == OP_IOTA) {
    *place += at[ir_attribute_int(tile->def, ATTR_DIM, 0)];
    return true;
  }
  return tile->def->code == OP_ADD && place_at(lower, tile->def->operands[0], at, depth - 1, place, unit) &&
         place_at(lower, tile->def->operands[1], at, depth - 1, place, unit);
}

bool lower_same_truth(const Lower *lower, const IrOp *op, const Layout *layout, unsigned reg, unsigned other)
{
  unsigned warps = layout_size(layout, PLACE_WARP), lanes = layout_size(layout, PLACE_LANE);
  if ((op->code != OP_LT && op->code != OP_GE) || op->n_operands != 2) return false;
  for (unsigned thread = 0; thread < warps * lanes; thread++) {
    const unsigned regs[] = {reg, other};
    int64_t places[2] = {0};
    unsigned unit = UNIT_MOST, bound[LAYOUT_MAX_DIMS] = {0};
    for (unsigned i = 0; i < 2; i++) {
      unsigned at[LAYOUT_MAX_DIMS] = {0};
      int64_t none = 0;
      layout_at(layout, 0, thread / lanes, thread % lanes, regs[i], at);
      if (!place_at(lower, op->operands[0], at, KNOWN_DEPTH, &places[i], &unit) ||
          !place_at(lower, op->operands[1], bound, 0, &none, &unit))
        return false;
    }
    if (places[0] / unit != places[1] / unit) return false;
  }
  return true;
}
