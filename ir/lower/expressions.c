/* STAGED scalar expressions: dims, loop variables, special values, 32- and 64-bit integer arithmetic. */
#include "ir/facts.h"
#include "ir/lower/lower.h"
#include <string.h>

static LowerScalar scalar(IrExpr *x, NumberType type)
{
  return (LowerScalar){x, type};
}

static IrExpr *special(Lower *lower, const char *name)
{
  return lower_scalar(lower, OP_SPECIAL, ir_scalar(NUMBER_S32), name, 1, ir_name(lower->module, name));
}

IrExpr *lower_dim(Lower *lower, const char *name, NumberType *type)
{
  const IrDim *dim = ir_dim_find(lower->kernel, name);
  if (!dim) {
    *type = NUMBER_S32;
    return lower_fail(lower, ERROR_INPUT, "unknown-name", NULL, "'%s' is no dim of kernel '%s'", name,
                      lower->kernel->name);
  }
  *type = dim->type;
  return lower_scalar(lower, OP_PARAMETER, ir_scalar(dim->type), name, 1, ir_dim(lower->module, name));
}

/* One thread of the role or instance, always the same one: a lane of its first warp. */
IrExpr *lower_elected(Lower *lower)
{
  IrExpr *lane = gpu_has(lower->context->gpu, "elect")
                     ? lower_scalar(lower, OP_ELECT, ir_predicate(), "elected", 0)
                     : lower_compare(lower, OP_EQ, lower->lane, lower_int(lower, 0));
  if (lower->role->instance_warps <= 1) return lane;
  return lower_and(lower, lower_compare(lower, OP_EQ, lower->role->warp, lower_int(lower, 0)), lane);
}

/* ---- Lanes of a warp ---- */

static IrExpr *from_lane(Lower *lower, IrExpr *x, IrExpr *lane)
{
  IrExpr *other = lower_value(lower, OP_SHUFFLE, ir_scalar(NUMBER_S32), "other", 2, x, lane);
  ir_attribute_set(other->value->def, ATTR_MODE, ir_name(lower->module, "index"));
  return other;
}

/* Hillis and Steele's scan: each lane takes what lies 1, 2, 4 ... before it. */
static IrExpr *scan_lanes(Lower *lower, const IrOp *op)
{
  IrExpr *x = lower_s32(lower, op->operands[0]);
  const char *with = ir_attribute_is(op, ATTR_WITH, "sum") ? "sum" : "max";
  for (unsigned distance = 1; distance < WARP_LANES; distance *= 2) {
    IrExpr *lane = lower_sub(lower, NUMBER_S32, lower->lane, lower_int(lower, distance));
    IrExpr *other =
        from_lane(lower, x, lower_bits(lower, OP_AND, NUMBER_S32, lane, lower_int(lower, WARP_LANES - 1)));
    IrExpr *has = lower_compare(lower, OP_GE, lower->lane, lower_int(lower, distance));
    IrExpr *both = lower_combine(lower, with, NUMBER_S32, other, x);
    x = lower_scalar(lower, OP_SELECT, ir_scalar(NUMBER_S32), "x", 3, has, both, x);
  }
  return x;
}

void lower_lanes(Lower *lower, const IrOp *op)
{
  IrExpr *result = NULL;
  if (op->code == OP_SCAN_LANES) {
    result = scan_lanes(lower, op);
  } else if (op->code == OP_OF_LANE) {
    IrExpr *x = lower_s32(lower, op->operands[0]), *lane = lower_s32(lower, op->operands[1]);
    result =
        from_lane(lower, x, lower_bits(lower, OP_AND, NUMBER_S32, lane, lower_int(lower, WARP_LANES - 1)));
  } else {
    IrExpr *holds = lower_condition(lower, op->operands[0]);
    IrExpr *lanes = lower_value(lower, OP_VOTE, ir_scalar(NUMBER_S32), "lanes", 1, holds);
    ir_attribute_set(lanes->value->def, ATTR_MODE, ir_name(lower->module, "ballot"));
    result = lower_value(lower, OP_POPULATION, ir_scalar(NUMBER_S32), "count", 1, lanes);
  }
  lower_scalar_bind(lower, op->results[0], result);
}

/* ---- Types ---- */

static unsigned rank_of(NumberType type)
{
  switch (type) {
  case NUMBER_BOOL: return 0;
  case NUMBER_S32: return 1;
  case NUMBER_U32: return 2;
  case NUMBER_S64: return 3;
  case NUMBER_U64: return 4;
  case NUMBER_F32: return 5;
  case NUMBER_F64: return 6;
  default: return 1;
  }
}

IrExpr *lower_as(Lower *lower, LowerScalar from, NumberType type)
{
  if (from.x->kind == EXPR_INT && number_class(type) == NUMBER_FLOAT)
    return ir_float(lower->module, (double)from.x->integer);
  if (from.type == type || from.x->kind == EXPR_INT || from.x->kind == EXPR_FLOAT) return from.x;
  if (type == NUMBER_BOOL) return lower_compare(lower, OP_NE, from.x, lower_int(lower, 0));
  if (from.type == NUMBER_BOOL)
    return lower_scalar(lower, OP_SELECT, ir_scalar(type), "flag", 3, from.x, lower_int(lower, 1),
                        lower_int(lower, 0));
  if (number_bits(from.type) == number_bits(type) && number_class(type) != NUMBER_FLOAT &&
      number_class(from.type) != NUMBER_FLOAT)
    return from.x;
  return lower_scalar(lower, OP_CAST, ir_scalar(type), "converted", 1, from.x);
}

IrExpr *lower_s32(Lower *lower, const IrExpr *expr)
{
  LowerScalar value = lower_expr(lower, expr);
  return lower_as(lower, value, NUMBER_S32);
}

/* ---- Operators ---- */

/* Assemblers divide by constants as by any number, with a reciprocal in floating point, some 130 clocks
 * during which a block has nothing to fetch. For 0 <= a < 2^31 and 2^s < y < 2^(s + 1), m = floor(2^(32 + s)
 * / y) + 1 has 32 bits, and m y exceeds 2^(32 + s) by at most y, so a m / 2^(32 + s) exceeds a / y by less
 * than 1 / y: both have the same integer part. */
static IrExpr *quotient_by_constant(Lower *lower, IrExpr *a, uint64_t y, NumberType type)
{
  if (!(y & (y - 1))) return lower_shr(lower, NUMBER_S32, a, (unsigned)g_bit_nth_lsf((gulong)y, -1));
  unsigned s = g_bit_storage(y) - 1;
  uint64_t m = (UINT64_C(1) << (32 + s)) / y + 1;
  IrExpr *high =
      lower_scalar(lower, OP_MUL_HIGH, ir_scalar(NUMBER_U32), "high", 2, a, lower_int(lower, (int64_t)m));
  return lower_shr(lower, type, high, s); /* of 31 bits, with a sign or without */
}

IrExpr *lower_natural_division(Lower *lower, IrExpr *a, int64_t y, NumberType type, bool remainder)
{
  if (y == 1) return remainder ? lower_int(lower, 0) : a;
  if (remainder && !(y & (y - 1))) return lower_bits(lower, OP_AND, NUMBER_S32, a, lower_int(lower, y - 1));
  IrExpr *quotient = quotient_by_constant(lower, a, (uint64_t)y, type);
  if (!remainder) return quotient;
  return lower_sub(lower, NUMBER_S32, a, lower_mul(lower, NUMBER_S32, quotient, lower_int(lower, y)));
}

/* The same with 64 bits: 0 <= a < 2^63. */
static IrExpr *long_division(Lower *lower, IrExpr *a, int64_t y, bool remainder)
{
  IrType type = ir_scalar(NUMBER_U64);
  unsigned s = g_bit_storage((gulong)y) - 1;
  uint64_t m = (uint64_t)(((unsigned __int128)1 << (64 + s)) / (uint64_t)y) + 1;
  IrExpr *high = lower_scalar(lower, OP_MUL_HIGH, type, "high", 2, a, lower_int(lower, (int64_t)m));
  IrExpr *quotient = lower_shr(lower, NUMBER_S64, high, s);
  if (!remainder) return quotient;
  return lower_sub(lower, NUMBER_S64, a, lower_mul(lower, NUMBER_S64, quotient, lower_int(lower, y)));
}

bool lower_counts(const IrExpr *expr)
{
  const IrValue *value = expr->kind == EXPR_VALUE && !expr->value->variable ? expr->value : NULL;
  const IrOp *owner = value && value->argument_of ? value->argument_of->owner : NULL;
  if (owner && owner->code == OP_TILES) return true;
  if (value && value->def && (value->def->code == OP_CAST || value->def->code == OP_LET))
    return lower_counts(value->def->operands[0]);
  bool sums = expr->kind == EXPR_BINARY && expr->operator_ != OPERATOR_SUB;
  return sums ? lower_counts(expr->items[0]) && lower_counts(expr->items[1]) : ir_is_non_negative(expr);
}

static LowerScalar integer_division(Lower *lower, const IrExpr *expr, IrExpr *a, IrExpr *b, NumberType type)
{
  int64_t x, y;
  bool remainder = expr->operator_ == OPERATOR_MOD;
  if (lower_is_int(b, &y) && y == 0)
    return scalar(lower_fail(lower, ERROR_INPUT, "division-by-zero", NULL, "division by zero"), type);
  if (lower_is_int(a, &x) && lower_is_int(b, &y))
    return scalar(lower_int(lower, remainder ? x % y : x / y), type);
  if (lower_is_int(b, &y) && y == 1) return scalar(remainder ? lower_int(lower, 0) : a, type);
  if (lower_is_int(b, &y) && y > 0 && !(y & (y - 1)) && ir_is_non_negative(expr->items[0])) {
    if (remainder) return scalar(lower_bits(lower, OP_AND, type, a, lower_int(lower, y - 1)), type);
    return scalar(lower_shr(lower, type, a, (unsigned)g_bit_nth_lsf((gulong)y, -1)), type);
  }
  bool natural = ir_is_non_negative(expr->items[0]) && ir_is_non_negative(expr->items[1]);
  if (natural && type == NUMBER_S32 && lower_is_int(b, &y) && y <= INT32_MAX)
    return scalar(lower_natural_division(lower, a, y, NUMBER_U32, remainder), type);
  if (type == NUMBER_S64 && lower_is_int(b, &y) && y > 1 && (y & (y - 1)) && lower_counts(expr->items[0]))
    return scalar(long_division(lower, a, y, remainder), type);
  NumberType sign = natural && type == NUMBER_S32 ? NUMBER_U32 : type; /* without one it is quicker */
  return scalar(lower_scalar(lower, remainder ? OP_REM : OP_DIV, ir_scalar(sign),
                             remainder ? "rest" : "quotient", 2, a, b),
                type);
}

static IrOpcode opcode_of(IrOperator operator_)
{
  switch (operator_) {
  case OPERATOR_ADD: return OP_ADD;
  case OPERATOR_SUB: return OP_SUB;
  case OPERATOR_MUL: return OP_MUL;
  case OPERATOR_AND: return OP_AND;
  case OPERATOR_OR: return OP_OR;
  case OPERATOR_XOR: return OP_XOR;
  case OPERATOR_SHL: return OP_SHL;
  case OPERATOR_SHR: return OP_SHR;
  case OPERATOR_LT: return OP_LT;
  case OPERATOR_LE: return OP_LE;
  case OPERATOR_GT: return OP_GT;
  case OPERATOR_GE: return OP_GE;
  case OPERATOR_EQ: return OP_EQ;
  case OPERATOR_NE: return OP_NE;
  default: return IR_OPCODE_COUNT;
  }
}

static LowerScalar logical(Lower *lower, const IrExpr *expr)
{
  IrExpr *a = lower_condition(lower, expr->items[0]), *b = lower_condition(lower, expr->items[1]);
  if (expr->operator_ == OPERATOR_LAND) return scalar(lower_and(lower, a, b), NUMBER_BOOL);
  int64_t x;
  if (lower_is_int(a, &x)) return scalar(x ? a : b, NUMBER_BOOL);
  if (lower_is_int(b, &x)) return scalar(x ? b : a, NUMBER_BOOL);
  return scalar(lower_scalar(lower, OP_OR, ir_predicate(), "either", 2, a, b), NUMBER_BOOL);
}

/* Bits, shifts, remainders and quotients that are rounded up are of integers. */
static LowerScalar not_of_floats(Lower *lower, const IrExpr *expr, NumberType type)
{
  return scalar(lower_fail(lower, ERROR_INPUT, "type",
                           "`cast` makes an integer of a number of floating point",
                           "'%s' is of integers, and one of its operands is %s",
                           ir_expr_text(lower->module, expr), number_name(type)),
                type);
}

static LowerScalar float_binary(Lower *lower, const IrExpr *expr, NumberType type, IrExpr *a, IrExpr *b)
{
  IrOpcode code;
  switch (expr->operator_) {
  case OPERATOR_ADD:
  case OPERATOR_SUB:
  case OPERATOR_MUL: code = opcode_of(expr->operator_); break;
  case OPERATOR_DIV: code = OP_DIV; break;
  default: return not_of_floats(lower, expr, type);
  }
  return scalar(lower_scalar(lower, code, ir_scalar(type), "value", 2, a, b), type);
}

static LowerScalar binary(Lower *lower, const IrExpr *expr)
{
  if (expr->operator_ == OPERATOR_LAND || expr->operator_ == OPERATOR_LOR) return logical(lower, expr);
  LowerScalar left = lower_expr(lower, expr->items[0]), right = lower_expr(lower, expr->items[1]);
  NumberType type = rank_of(left.type) >= rank_of(right.type) ? left.type : right.type;
  if (left.x->kind == EXPR_INT && right.type != NUMBER_BOOL)
    type = right.type;
  else if (right.x->kind == EXPR_INT && left.type != NUMBER_BOOL)
    type = left.type;
  if (type == NUMBER_BOOL) type = NUMBER_S32;
  IrExpr *a = lower_as(lower, left, type), *b = lower_as(lower, right, type);
  IrOpcode code = opcode_of(expr->operator_);
  int64_t y;
  if (code >= OP_LT && code <= OP_NE) return scalar(lower_compare(lower, code, a, b), NUMBER_BOOL);
  if (number_class(type) == NUMBER_FLOAT) return float_binary(lower, expr, type, a, b);
  switch (expr->operator_) {
  case OPERATOR_ADD: return scalar(lower_add(lower, type, a, b), type);
  case OPERATOR_SUB: return scalar(lower_sub(lower, type, a, b), type);
  case OPERATOR_MUL: return scalar(lower_mul(lower, type, a, b), type);
  case OPERATOR_DIV:
  case OPERATOR_MOD: return integer_division(lower, expr, a, b, type);
  case OPERATOR_SHL:
    if (lower_is_int(b, &y)) return scalar(lower_shl(lower, type, a, (unsigned)y), type);
    break;
  case OPERATOR_SHR:
    if (lower_is_int(b, &y)) return scalar(lower_shr(lower, type, a, (unsigned)y), type);
    break;
  default: return scalar(lower_bits(lower, code, type, a, b), type);
  }
  return scalar(lower_scalar(lower, code, ir_scalar(type), "shifted", 2, a, b), type);
}

static LowerScalar unary(Lower *lower, const IrExpr *expr)
{
  if (expr->operator_ == OPERATOR_LNOT)
    return scalar(lower_not(lower, lower_condition(lower, expr->items[0])), NUMBER_BOOL);
  LowerScalar value = lower_expr(lower, expr->items[0]);
  int64_t x;
  if (expr->operator_ == OPERATOR_NEG) {
    if (lower_is_int(value.x, &x)) return scalar(lower_int(lower, -x), value.type);
    if (value.x->kind == EXPR_FLOAT) return scalar(ir_float(lower->module, -value.x->number), value.type);
    return scalar(lower_scalar(lower, OP_NEG, ir_scalar(value.type), "negative", 1, value.x), value.type);
  }
  if (lower_is_int(value.x, &x)) return scalar(lower_int(lower, ~x), value.type);
  if (number_class(value.type) == NUMBER_FLOAT) return not_of_floats(lower, expr, value.type);
  return scalar(lower_scalar(lower, OP_NOT, ir_scalar(value.type), "inverse", 1, value.x), value.type);
}

static LowerScalar select_(Lower *lower, const IrExpr *expr)
{
  IrExpr *condition = lower_condition(lower, expr->items[0]);
  LowerScalar a = lower_expr(lower, expr->items[1]), b = lower_expr(lower, expr->items[2]);
  int64_t x;
  if (lower_is_int(condition, &x)) return x ? a : b;
  NumberType type = rank_of(a.type) >= rank_of(b.type) ? a.type : b.type;
  if (type == NUMBER_BOOL) type = NUMBER_S32;
  return scalar(lower_scalar(lower, OP_SELECT, ir_scalar(type), "chosen", 3, condition,
                             lower_as(lower, a, type), lower_as(lower, b, type)),
                type);
}

/* ---- Calls ---- */

static LowerScalar extremum(Lower *lower, const IrExpr *expr, IrOpcode code)
{
  LowerScalar left = lower_expr(lower, expr->items[0]), right = lower_expr(lower, expr->items[1]);
  NumberType type = left.x->kind == EXPR_INT                    ? right.type
                    : right.x->kind == EXPR_INT                 ? left.type
                    : rank_of(left.type) >= rank_of(right.type) ? left.type
                                                                : right.type;
  IrExpr *a = lower_as(lower, left, type), *b = lower_as(lower, right, type);
  int64_t x, y;
  if (lower_is_int(a, &x) && lower_is_int(b, &y))
    return scalar(lower_int(lower, code == OP_MIN ? MIN(x, y) : MAX(x, y)), type);
  return scalar(lower_scalar(lower, code, ir_scalar(type), expr->name, 2, a, b), type);
}

static LowerScalar ceil_div(Lower *lower, const IrExpr *expr)
{
  IrModule *module = lower->module;
  IrExpr *one_less = ir_binary(module, OPERATOR_SUB, expr->items[1], ir_int(module, 1));
  IrExpr *sum = ir_binary(module, OPERATOR_ADD, expr->items[0], one_less);
  int64_t divisor; /* the dividend is non-negative by the function's contract */
  if (ir_expr_is_int(expr->items[1], &divisor) && divisor > 0 && !(divisor & (divisor - 1))) {
    LowerScalar value = lower_expr(lower, sum);
    if (number_class(value.type) == NUMBER_FLOAT) return not_of_floats(lower, expr, value.type);
    return scalar(lower_shr(lower, value.type, value.x, (unsigned)g_bit_nth_lsf((gulong)divisor, -1)),
                  value.type);
  }
  LowerScalar value = lower_expr(lower, ir_binary(module, OPERATOR_DIV, sum, expr->items[1]));
  return number_class(value.type) == NUMBER_FLOAT ? not_of_floats(lower, expr, value.type) : value;
}

static LowerScalar indexed_special(Lower *lower, const IrExpr *expr, const char *stem)
{
  int64_t axis = 0;
  if (expr->n) ir_expr_is_int(expr->items[0], &axis);
  if (axis < 0 || axis > 2)
    return scalar(lower_fail(lower, ERROR_INPUT, "axis", NULL, "%s() takes 0, 1 or 2", expr->name),
                  NUMBER_S32);
  return scalar(special(lower, arena_printf(lower->arena, "%s_%c", stem, "xyz"[axis])), NUMBER_S32);
}

static LowerScalar call(Lower *lower, const IrExpr *expr)
{
  const char *name = expr->name;
  if (!strcmp(name, "min")) return extremum(lower, expr, OP_MIN);
  if (!strcmp(name, "max")) return extremum(lower, expr, OP_MAX);
  if (!strcmp(name, "ceil_div")) return ceil_div(lower, expr);
  if (!strcmp(name, "thread")) return scalar(lower->thread, NUMBER_S32);
  if (!strcmp(name, "lane")) return scalar(lower->lane, NUMBER_S32);
  if (!strcmp(name, "warp")) return scalar(lower->warp, NUMBER_S32);
  if (!strcmp(name, "role_warp")) return scalar(lower->role->role_warp, NUMBER_S32);
  if (!strcmp(name, "instance")) return scalar(lower->role->instance, NUMBER_S32);
  if (!strcmp(name, "elected")) return scalar(lower_elected(lower), NUMBER_BOOL);
  if (!strcmp(name, "block")) return indexed_special(lower, expr, "block");
  if (!strcmp(name, "blocks")) return indexed_special(lower, expr, "blocks");
  if (!strcmp(name, "cluster_rank") || !strcmp(name, "cluster_size"))
    return scalar(special(lower, name), NUMBER_S32);
  return scalar(lower_fail(lower, ERROR_INPUT, "unknown-function", NULL,
                           "no function '%s' in scalar expressions", name),
                NUMBER_S32);
}

/* ---- Leaves ---- */

static LowerScalar value(Lower *lower, const IrExpr *expr)
{
  IrExpr *x = g_hash_table_lookup(lower->scalars, expr->value);
  const IrType *type = &expr->value->type;
  NumberType element = type->kind == TYPE_PREDICATE ? NUMBER_BOOL : type->element;
  if (!x) {
    x = lower_fail(lower, ERROR_INPUT, "not-scalar", NULL, "%%%s is no scalar", expr->value->name);
    element = NUMBER_S32;
  }
  return scalar(x, element);
}

static LowerScalar field(Lower *lower, const IrExpr *expr)
{
  LowerCursor *cursor = lower_cursor_of(lower, expr->items[0]);
  if (!cursor) return scalar(lower_int(lower, 0), NUMBER_S32);
  return scalar(ir_value(lower->module, !strcmp(expr->name, "slot") ? cursor->slot : cursor->phase),
                NUMBER_S32);
}

LowerScalar lower_expr(Lower *lower, const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_INT: {
    bool wide = expr->integer > G_MAXINT32 || expr->integer < G_MININT32;
    return scalar((IrExpr *)expr, wide ? NUMBER_S64 : NUMBER_S32);
  }
  case EXPR_FLOAT: return scalar((IrExpr *)expr, NUMBER_F32);
  case EXPR_VALUE: return value(lower, expr);
  case EXPR_DIM: {
    NumberType type;
    IrExpr *x = lower_dim(lower, expr->name, &type);
    return scalar(x, type);
  }
  case EXPR_UNARY: return unary(lower, expr);
  case EXPR_BINARY: return binary(lower, expr);
  case EXPR_SELECT: return select_(lower, expr);
  case EXPR_CALL: return call(lower, expr);
  case EXPR_FIELD: return field(lower, expr);
  default:
    return scalar(lower_fail(lower, ERROR_INPUT, "not-scalar", NULL, "'%s' is no scalar expression",
                             ir_expr_text(lower->module, expr)),
                  NUMBER_S32);
  }
}

IrExpr *lower_condition(Lower *lower, const IrExpr *expr)
{
  LowerScalar value = lower_expr(lower, expr);
  if (value.x->kind == EXPR_INT) return lower_int(lower, value.x->integer != 0);
  return lower_as(lower, value, NUMBER_BOOL);
}
