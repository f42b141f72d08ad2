/* Truth values of places: what is computed of rows' and columns' numbers and constants alone is in many registers the same for all threads.
 * It is known then: what it selects against is never computed. And a bound that is a multiple of a vector's elements lies between vectors:
 * one comparison says it of all elements of a vector. */
#include "ir/facts.h"
#include "ir/lower/lower.h"

#define KNOWN_DEPTH 4 /* operations behind one another that are looked through */

typedef struct {
  int64_t least, most;
} Range;

static bool range_of(const Lower *lower, const IrExpr *expr, bool loops, Range *range);

/* Of a loop between constants. */
static bool count_range(const IrValue *value, Range *range)
{
  const IrOp *loop = value->argument_of ? value->argument_of->owner : NULL;
  int64_t low, high, step = 1;
  if (!loop || loop->code != OP_FOR || !ir_expr_is_int(loop->operands[0], &low) ||
      !ir_expr_is_int(loop->operands[1], &high))
    return false;
  if (loop->n_operands > 2 && !ir_expr_is_int(loop->operands[2], &step)) return false;
  if (step < 1 || high <= low) return false;
  *range = (Range){low, low + (high - 1 - low) / step * step};
  return true;
}

static bool value_range(const Lower *lower, const IrValue *value, bool loops, Range *range)
{
  if (value->argument_of) return loops && count_range(value, range);
  const IrOp *def = value->variable ? NULL : value->def;
  if (!def || def->code != OP_LET) return false;
  int64_t below = ir_attribute_int(def, ATTR_BELOW, 0);
  *range = (Range){0, below - 1};
  return below > 0 || range_of(lower, def->operands[0], loops, range);
}

static bool binary_range(const Lower *lower, const IrExpr *expr, bool loops, Range *range)
{
  Range a, b;
  if (!range_of(lower, expr->items[0], loops, &a) || !range_of(lower, expr->items[1], loops, &b))
    return false;
  switch ((unsigned)expr->operator_) {
  case OPERATOR_ADD: *range = (Range){a.least + b.least, a.most + b.most}; return true;
  case OPERATOR_SUB: *range = (Range){a.least - b.most, a.most - b.least}; return true;
  case OPERATOR_MUL:
    *range = (Range){a.least * b.least, a.most * b.most};
    return a.least >= 0 && b.least >= 0;
  default: return false;
  }
}

static bool range_of(const Lower *lower, const IrExpr *expr, bool loops, Range *range)
{
  const IrExpr *cluster = ir_launch_get(lower->kernel, ATTR_CLUSTER);
  int64_t blocks;
  bool known = false;
  *range = (Range){0};
  if (expr->kind == EXPR_INT) {
    *range = (Range){expr->integer, expr->integer};
    known = true;
  }
  if (expr->kind == EXPR_VALUE) known = value_range(lower, expr->value, loops, range);
  if (expr->kind == EXPR_BINARY) known = binary_range(lower, expr, loops, range);
  if (expr->kind == EXPR_CALL && g_str_equal(expr->name, "cluster_rank")) {
    known = cluster && ir_expr_is_int(cluster, &blocks) && blocks > 0;
    range->most = known ? blocks - 1 : 0;
  }
  return known && range->least > INT32_MIN / 2 && range->most < INT32_MAX / 2; /* sums of a few do not wrap */
}

bool lower_known_range(const Lower *lower, const IrExpr *expr, int64_t *least, int64_t *most)
{
  Range range;
  bool known = range_of(lower, expr, false, &range);
  *least = range.least;
  *most = range.most;
  return known;
}

bool lower_counted_range(const Lower *lower, const IrExpr *expr, int64_t *least, int64_t *most)
{
  Range range;
  bool known = range_of(lower, expr, true, &range);
  *least = range.least;
  *most = range.most;
  return known;
}

typedef struct {
  const Lower *lower;
  bool found;
} Negative;

static void find_negative(const IrExpr *expr, void *data)
{
  Negative *negative = data;
  int64_t least, most;
  if (expr->kind == EXPR_VALUE && lower_known_range(negative->lower, expr, &least, &most))
    negative->found |= least < 0;
}

bool lower_from_below(const Lower *lower, const IrExpr *expr)
{
  Negative negative = {.lower = lower};
  ir_expr_visit(expr, find_negative, &negative);
  return negative.found;
}

static bool range_at(const Lower *lower, const IrExpr *expr, const unsigned *at, unsigned depth,
                     Range *range);

/* What a comparison is: false where it depends. */
static bool truth_of(bool yes, bool no, Range *range)
{
  *range = (Range){yes, yes};
  return yes || no;
}

static bool combined_at(const Lower *lower, const IrOp *op, const unsigned *at, unsigned depth, Range *range)
{
  Range a, b;
  if (op->n_operands != 2 || !range_at(lower, op->operands[0], at, depth, &a) ||
      !range_at(lower, op->operands[1], at, depth, &b))
    return false;
  bool fixed = a.least == a.most && b.least == b.most;
  switch ((unsigned)op->code) {
  case OP_ADD: *range = (Range){a.least + b.least, a.most + b.most}; return true;
  case OP_SUB: *range = (Range){a.least - b.most, a.most - b.least}; return true;
  case OP_REM:
    if (!fixed || b.least <= 0 || a.least < 0) return false;
    *range = (Range){a.least % b.least, a.least % b.least};
    return true;
  case OP_LT: return truth_of(a.most < b.least, a.least >= b.most, range);
  case OP_LE: return truth_of(a.most <= b.least, a.least > b.most, range);
  case OP_GT: return truth_of(a.least > b.most, a.most <= b.least, range);
  case OP_GE: return truth_of(a.least >= b.most, a.most < b.least, range);
  default: return false;
  }
}

/* What an integer tile, or a number, is at coordinates; false: they do not say. */
static bool range_at(const Lower *lower, const IrExpr *expr, const unsigned *at, unsigned depth, Range *range)
{
  const IrValue *tile = expr->kind == EXPR_VALUE && expr->value->type.kind == TYPE_TILE ? expr->value : NULL;
  if (!tile) return range_of(lower, expr, false, range);
  if (tile->variable || !tile->def || !depth) return false;
  if (tile->def->code == OP_IOTA) {
    int64_t place = at[ir_attribute_int(tile->def, ATTR_DIM, 0)];
    *range = (Range){place, place};
    return tile->type.element == NUMBER_S32;
  }
  bool integers = tile->type.element == NUMBER_S32 || tile->type.element == NUMBER_BOOL;
  return integers && combined_at(lower, tile->def, at, depth - 1, range);
}

bool lower_known_truth(const Lower *lower, const IrOp *op, const Layout *layout, unsigned reg, bool *truth)
{
  unsigned warps = layout_size(layout, PLACE_WARP), lanes = layout_size(layout, PLACE_LANE);
  Range first = {0}, value = {0};
  if (op->code < OP_LT || op->code > OP_GE) return false;
  for (unsigned warp = 0; warp < warps; warp++) {
    for (unsigned lane = 0; lane < lanes; lane++) {
      unsigned at[LAYOUT_MAX_DIMS] = {0};
      layout_at(layout, 0, warp, lane, reg, at);
      if (!combined_at(lower, op, at, KNOWN_DEPTH, &value)) return false;
      if (!warp && !lane) first = value;
      if (value.least != first.least) return false;
    }
  }
  *truth = first.least;
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
