/* Scores that lean (a slope times key - row beside each), that a constant multiplies or that a number a row is added to: a softmax is the same
 * without the number, so it is added once a row, behind the maximum, and the constant goes into the factor that exponents have anyway.
 *
 * A slope's column - row is taken apart: s + (first + column - row) slope is (s + column slope) + (first - row) slope, the second a number a
 * row, and the first one multiply-add an element by numbers that are the same for all tiles. Distances are exact in f32 up to 2^24, and so is
 * first - row. But s + column slope is rounded relative to column slope, up to a tile's extent times the slope, also where the distance is small
 * and s + distance slope would not be: beside a slope of 2 and a score near 1 some 1e-5 of the score, which weights of 16 bits do not show and a
 * log-sum-exp in f32 does (docs/attention.md). */
#include "ir/passes/lift_scores.h"
#include <float.h>
#include <math.h>

/* (columns + row) by: a sum of a number a column and a number a row, times a number. */
typedef struct {
  IrExpr *columns, *row, *by; /* by: NULL: 1 */
  IrExpr *thread;             /* of columns what a thread's have in common, if that is kept beside */
  bool minus;                 /* columns are subtracted */
} Lean;

typedef struct {
  IrRegion *scope, *region; /* of the role; of the softmax */
  bool apart;               /* what a thread's columns have in common is kept beside */
  IrModule *module;
} Lift;

static bool is_tile(const IrExpr *expr)
{
  return expr->kind == EXPR_VALUE && expr->value->type.kind == TYPE_TILE;
}

static bool is_single(const IrExpr *expr)
{
  return is_tile(expr) && ir_tile_elements(&expr->value->type) == 1;
}

static int64_t extent(const IrExpr *expr, unsigned dim)
{
  return ir_tile_extent(&expr->value->type, dim);
}

static bool is_row_value(const IrExpr *expr)
{
  return is_tile(expr) && expr->value->type.element == NUMBER_F32 && extent(expr, 1) == 1;
}

static bool is_column_value(const IrExpr *expr)
{
  return is_tile(expr) && expr->value->type.element == NUMBER_F32 && extent(expr, 0) == 1 &&
         extent(expr, 1) > 1;
}

static bool is_factor(const IrExpr *expr)
{
  return expr->kind == EXPR_FLOAT && expr->number > 0 && isfinite(expr->number);
}

static bool is_hidden(const IrExpr *expr)
{
  return expr->kind == EXPR_FLOAT && expr->number == -INFINITY;
}

/* What computes the value, in the softmax's region, for one reader. */
static IrOp *source_of(const Lift *lift, const IrExpr *expr)
{
  if (!is_tile(expr) || expr->value->variable) return NULL;
  IrOp *def = expr->value->def;
  bool only = def && def->parent == lift->region && ir_op_is_elementwise(def->code) &&
              ir_region_count_uses(lift->scope, expr->value, NULL) == 1;
  return only ? def : NULL;
}

static IrBuilder in_front_of(IrOp *op)
{
  IrBuilder builder = ir_builder_before(op);
  builder.mark = op->mark;
  return builder;
}

/* ---- constants ---- */

static bool is_normal(double number)
{
  return fabs(number) >= FLT_MIN && fabs(number) <= FLT_MAX;
}

/* x a b is x (a b), where a is a constant and b one, or a tile of one number. */
static void join_factors(const Lift *lift, IrOp *op)
{
  unsigned by = is_single(op->operands[0]) ? 0 : 1;
  IrExpr *factor = op->operands[by];
  IrOp *inner = source_of(lift, op->operands[1 - by]);
  if (!inner || inner->code != OP_MUL || inner->operands[1]->kind != EXPR_FLOAT) return;
  double number = inner->operands[1]->number;
  if (is_single(factor)) {
    IrBuilder builder = in_front_of(op);
    factor = ir_emit_value(&builder, OP_MUL, factor->value->type, "factor", 2, factor, inner->operands[1]);
  } else {
    bool known = factor->kind == EXPR_FLOAT;
    double both = known ? (float)(number * factor->number) : 0;
    if (!is_normal(both)) return;
    factor = ir_float(lift->module, both);
  }
  op->operands[by] = factor;
  op->operands[1 - by] = inner->operands[0];
  ir_op_remove(inner);
}

/* x / a is x (1 / a), and factors are joined, up to what products are computed of. */
static void fold_factors(const Lift *lift, IrExpr *expr)
{
  if (!is_tile(expr) || expr->value->variable || !expr->value->def) return;
  IrOp *op = expr->value->def;
  if (op->parent != lift->region || !ir_op_is_elementwise(op->code) ||
      expr->value->type.element != NUMBER_F32)
    return;
  for (unsigned i = 0; i < op->n_operands; i++)
    fold_factors(lift, op->operands[i]);
  bool known = op->n_operands == 2 && op->operands[1]->kind == EXPR_FLOAT;
  double number = known ? op->operands[1]->number : 0;
  if (op->code == OP_DIV && known && is_normal(number) && is_normal(1 / number)) {
    IrBuilder builder = in_front_of(op);
    number = (float)(1 / number);
    IrExpr *by = ir_emit_value(&builder, OP_MUL, expr->value->type, expr->value->name, 2, op->operands[0],
                               ir_float(lift->module, number));
    ir_replace_uses(lift->scope, expr->value, by);
    ir_op_remove(op);
    op = by->value->def;
  }
  if (op->code == OP_MUL) join_factors(lift, op);
}

/* ---- slopes ---- */

/* What computes the value in the softmax's region, whoever reads it. */
static IrOp *definition(const Lift *lift, const IrExpr *expr)
{
  IrOp *def = is_tile(expr) && !expr->value->variable ? expr->value->def : NULL;
  return def && def->parent == lift->region ? def : NULL;
}

static bool is_counted(const IrExpr *expr)
{
  return is_tile(expr) && expr->value->def && expr->value->def->code == OP_IOTA && extent(expr, 1) > 1;
}

/* Columns that count from 0 (*first: NULL), or from a number on, as floats. */
static bool find_count(const Lift *lift, const IrExpr *columns, IrExpr **first)
{
  const IrOp *cast = definition(lift, columns);
  IrExpr *number = cast && cast->code == OP_CAST ? cast->operands[0] : NULL;
  *first = NULL;
  if (!number || is_counted(number)) return number;
  const IrOp *sum = definition(lift, number);
  if (!sum || sum->code != OP_ADD || sum->results[0]->type.element != NUMBER_S32) return false;
  unsigned counted = is_counted(sum->operands[0]) ? 0 : 1;
  *first = sum->operands[1 - counted];
  return is_counted(sum->operands[counted]) && (!is_tile(*first) || is_single(*first));
}

static bool find_sum(const Lift *lift, const IrExpr *expr, Lean *lean)
{
  IrOp *op = source_of(lift, expr);
  if (!op || (op->code != OP_ADD && op->code != OP_SUB)) return false;
  bool turned = is_column_value(op->operands[1]);
  IrExpr *columns = op->operands[turned], *row = op->operands[!turned], *first;
  if (!is_column_value(columns) || !is_row_value(row) || !find_count(lift, columns, &first)) return false;
  IrBuilder builder = in_front_of(op);
  if (op->code == OP_SUB && !turned)
    row = ir_emit_value(&builder, OP_NEG, row->value->type, "behind", 1, row);
  lean->minus = op->code == OP_SUB && turned;
  lean->columns = columns;
  lean->row = row;
  return true;
}

static bool find_lean(const Lift *lift, const IrExpr *expr, Lean *lean)
{
  *lean = (Lean){0};
  IrOp *op = source_of(lift, expr);
  if (!op || op->code != OP_MUL) return find_sum(lift, expr, lean);
  unsigned by = is_single(op->operands[0]) ? 0 : 1;
  if (!is_single(op->operands[by]) || !find_sum(lift, op->operands[1 - by], lean)) return false;
  lean->by = op->operands[by];
  return true;
}

static IrExpr *count_columns(const Lift *lift, IrBuilder *builder, const IrType *type, const char *scope)
{
  IrOp *iota = ir_emit(builder, OP_IOTA, 0);
  ir_attribute_set(iota, ATTR_DIM, ir_int(lift->module, 1));
  if (scope) ir_attribute_set(iota, ATTR_SCOPE, ir_name(lift->module, scope));
  return ir_value(lift->module, ir_result(iota, "column", *type));
}

/* Columns count from 0, in floats: where they begin goes to the rows. */
static void count_from_zero(const Lift *lift, Lean *lean, IrOp *before)
{
  IrExpr *first;
  if (!find_count(lift, lean->columns, &first)) return;
  IrBuilder builder = in_front_of(before);
  const IrType *counts = &lean->columns->value->type;
  if (lift->apart) lean->thread = count_columns(lift, &builder, counts, "thread");
  lean->columns = count_columns(lift, &builder, counts, lift->apart ? "register" : NULL);
  if (!first) return;
  IrType type = lean->row->value->type, whole = type;
  whole.element = NUMBER_S32;
  if (!is_tile(first)) first = ir_emit_value(&builder, OP_SPLAT, whole, "first", 1, first);
  IrType number = first->value->type;
  number.element = NUMBER_F32;
  first = ir_emit_value(&builder, OP_CAST, number, "first", 1, first);
  lean->row = lean->minus ? ir_emit_value(&builder, OP_SUB, type, "distance", 2, lean->row, first)
                          : ir_emit_value(&builder, OP_ADD, type, "distance", 2, first, lean->row);
}

static void add_more(LiftedScores *scores, IrBuilder *builder, IrExpr *more)
{
  IrExpr *sum = scores->more;
  if (!sum) {
    scores->more = more;
    return;
  }
  const IrType *type = &(is_single(sum) ? more : sum)->value->type;
  scores->more = ir_emit_value(builder, OP_ADD, *type, "more", 2, sum, more);
}

/* scores + lean */
static void add_lean(const Lift *lift, LiftedScores *scores, Lean *lean, IrOp *sum)
{
  IrBuilder builder = in_front_of(sum);
  count_from_zero(lift, lean, sum);
  IrExpr *row = lean->row, *by = lean->by;
  if (by) row = ir_emit_value(&builder, OP_MUL, row->value->type, "more", 2, row, by);
  add_more(scores, &builder, row);
  double sign = lean->minus ? -1 : 1, factor = sign / scores->times;
  if (lean->thread) {
    IrExpr *slope = by ? by : ir_float(lift->module, sign);
    if (by && sign < 0) slope = ir_emit_value(&builder, OP_NEG, by->value->type, "slope", 1, by);
    scores->beside =
        ir_emit_value(&builder, OP_MUL, lean->thread->value->type, "beside", 2, lean->thread, slope);
  }
  if (!by)
    by = ir_float(lift->module, factor);
  else if (factor != 1)
    by = ir_emit_value(&builder, OP_MUL, by->value->type, "slope", 2, by, ir_float(lift->module, factor));
  scores->core = ir_emit_value(&builder, OP_FMA, sum->results[0]->type, sum->results[0]->name, 3,
                               lean->columns, by, scores->core);
}

/* ---- scores ---- */

static LiftedScores lift_out(const Lift *lift, IrExpr *expr, IrOp *op);

static LiftedScores as_they_are(IrExpr *expr)
{
  return (LiftedScores){expr, 1, NULL, NULL};
}

static LiftedScores lift_operand(const Lift *lift, IrExpr *expr)
{
  IrOp *op = source_of(lift, expr);
  return op ? lift_out(lift, expr, op) : as_they_are(expr);
}

static LiftedScores lift_sum(const Lift *lift, IrExpr *expr, IrOp *op)
{
  for (unsigned i = 0; i < 2; i++) {
    Lean lean;
    IrExpr *other = op->operands[i];
    bool row = is_row_value(other), leans = !row && find_lean(lift, other, &lean);
    if (!row && !leans) continue;
    LiftedScores scores = lift_operand(lift, op->operands[1 - i]);
    if (leans && scores.beside) return as_they_are(expr);
    IrBuilder builder = in_front_of(op);
    if (row)
      add_more(&scores, &builder, other);
    else
      add_lean(lift, &scores, &lean, op);
    return scores;
  }
  return as_they_are(expr);
}

static LiftedScores lift_product(const Lift *lift, IrExpr *expr, IrOp *op)
{
  const IrExpr *factor = op->operands[1];
  if (!is_factor(factor)) return as_they_are(expr);
  LiftedScores scores = lift_operand(lift, op->operands[0]);
  IrBuilder builder = in_front_of(op);
  if (scores.more)
    scores.more = ir_emit_value(&builder, OP_MUL, scores.more->value->type, "more", 2, scores.more,
                                ir_float(lift->module, factor->number));
  if (scores.beside)
    scores.beside = ir_emit_value(&builder, OP_MUL, scores.beside->value->type, "beside", 2, scores.beside,
                                  ir_float(lift->module, factor->number));
  scores.times *= factor->number;
  return scores;
}

static LiftedScores lift_masked(const Lift *lift, IrExpr *expr, IrOp *op)
{
  if (!is_hidden(op->operands[2])) return as_they_are(expr);
  LiftedScores scores = lift_operand(lift, op->operands[1]);
  if (scores.core == op->operands[1]) return as_they_are(expr);
  IrBuilder builder = in_front_of(op);
  scores.core = ir_emit_value(&builder, OP_SELECT, op->results[0]->type, op->results[0]->name, 3,
                              op->operands[0], scores.core, op->operands[2]);
  return scores;
}

static LiftedScores lift_out(const Lift *lift, IrExpr *expr, IrOp *op)
{
  switch ((unsigned)op->code) {
  case OP_ADD: return lift_sum(lift, expr, op);
  case OP_MUL: return lift_product(lift, expr, op);
  case OP_SELECT: return lift_masked(lift, expr, op);
  default: return as_they_are(expr);
  }
}

/* The maximum of rows that reads the scores, if nothing else does beside the difference. */
static IrOp *find_maximum(const Lift *lift, const IrOp *difference, const IrExpr *scores)
{
  if (scores->value->variable || ir_region_count_uses(lift->scope, scores->value, NULL) != 2) return NULL;
  for (IrOp *op = difference->previous; op; op = op->previous)
    if (op->code == OP_REDUCE && op->n_operands == 1 && ir_op_uses(op, scores->value))
      return ir_attribute_is(op, ATTR_WITH, "max") && ir_attribute_int(op, ATTR_DIM, 0) == 1 ? op : NULL;
  return NULL;
}

/* What the maximum of scores is, of that of their cores and what is beside. */
static void put_back(const Lift *lift, IrOp *maximum, const LiftedScores *scores)
{
  const IrValue *high = maximum->results[0];
  IrExpr *of_core = ir_value(lift->module, (IrValue *)high), *whole = of_core, *core = scores->core;
  IrExpr *times = scores->times != 1 ? ir_float(lift->module, scores->times) : NULL;
  IrBuilder builder = ir_builder_after(maximum), before = in_front_of(maximum);
  builder.mark = maximum->mark;
  if (scores->beside) {
    core = times ? ir_emit_value(&before, OP_FMA, core->value->type, "score", 3, core, times, scores->beside)
                 : ir_emit_value(&before, OP_ADD, core->value->type, "score", 2, core, scores->beside);
    times = NULL;
  }
  if (times && scores->more)
    whole = ir_emit_value(&builder, OP_FMA, high->type, high->name, 3, whole, times, scores->more);
  else if (scores->more)
    whole = ir_emit_value(&builder, OP_ADD, high->type, high->name, 2, whole, scores->more);
  else if (times)
    whole = ir_emit_value(&builder, OP_MUL, high->type, high->name, 2, whole, times);
  ir_replace_uses(lift->scope, high, whole);
  if (whole != of_core) whole->value->def->operands[0] = of_core;
  maximum->operands[0] = core;
}

static void remove_unread(const Lift *lift, IrExpr *expr)
{
  IrOp *op = is_tile(expr) && !expr->value->variable ? expr->value->def : NULL;
  if (!op || op->parent != lift->region || !ir_op_is_elementwise(op->code) ||
      ir_region_count_uses(lift->scope, expr->value, NULL))
    return;
  IrExpr *operands[3] = {0};
  unsigned n = MIN(op->n_operands, G_N_ELEMENTS(operands));
  for (unsigned i = 0; i < n; i++)
    operands[i] = op->operands[i];
  ir_op_remove(op);
  for (unsigned i = 0; i < n; i++)
    remove_unread(lift, operands[i]);
}

LiftedScores ir_lift_scores(IrRegion *scope, IrOp *difference, bool apart)
{
  IrExpr *scores = difference->operands[0];
  const Lift lift = {scope, difference->parent, apart, scope->function->module};
  IrOp *maximum = find_maximum(&lift, difference, scores), *op = maximum ? scores->value->def : NULL;
  if (!op || op->parent != difference->parent || !ir_op_is_elementwise(op->code) ||
      scores->value->type.rank != 2)
    return as_they_are(scores);
  fold_factors(&lift, scores);
  op = maximum->operands[0]->value->def; /* what it has become */
  scores = difference->operands[0];
  LiftedScores lifted = lift_out(&lift, scores, op);
  if (lifted.core == scores) return lifted;
  put_back(&lift, maximum, &lifted);
  difference->operands[0] = lifted.core;
  remove_unread(&lift, scores);
  return lifted;
}
