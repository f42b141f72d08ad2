/* Elementwise ops: one THREAD op a register; broadcasting by the layouts' correspondence. */
#include "ir/facts.h"
#include "ir/lower/lower.h"
#include <string.h>

bool lower_is_elementwise(IrOpcode code)
{
  return code >= OP_ADD && code <= OP_TANH;
}

static bool is_literal(const IrExpr *expr)
{
  return expr->kind == EXPR_INT || expr->kind == EXPR_FLOAT;
}

/* -1.0 and -inf are unary expressions when read from text. */
static const IrExpr *fold_sign(Lower *lower, const IrExpr *expr)
{
  if (expr->kind != EXPR_UNARY || expr->operator_ != OPERATOR_NEG || !is_literal(expr->items[0])) return expr;
  const IrExpr *x = expr->items[0];
  return x->kind == EXPR_INT ? lower_int(lower, -x->integer) : ir_float(lower->module, -x->number);
}

/* %x or %x[a .. b, c .. d]: the tile and where the part starts. */
static LowerTile *tile_operand(Lower *lower, const IrExpr *operand, unsigned *corner)
{
  const IrExpr *base = operand->kind == EXPR_INDEX ? operand->items[0] : operand;
  LowerTile *tile = base->kind == EXPR_VALUE ? g_hash_table_lookup(lower->tiles, base->value) : NULL;
  tile = lower_tile_read(lower, tile);
  if (!tile || base == operand) return tile;
  for (unsigned d = 0; d + 1 < operand->n && d < LAYOUT_MAX_DIMS; d++) {
    const IrExpr *range = operand->items[d + 1];
    int64_t low = -1;
    if (range->kind == EXPR_RANGE) lower_is_int(lower_s32(lower, range->items[0]), &low);
    if (low < 0 || low >= tile->layout->extent[d])
      lower_fail(lower, ERROR_INPUT, "sub-tile", "unroll the loop whose variable it takes",
                 "a part of a register tile starts at a constant inside it");
    corner[d] = (unsigned)MAX(low, 0);
  }
  return tile;
}

static LowerTile *spread_tile(Lower *lower, const IrExpr *operand, LowerTile *from, const unsigned *corner,
                              const Layout *layout)
{
  LowerTile *tile = lower_tile_new(lower, from->element, layout);
  const unsigned *map = operand->kind == EXPR_VALUE ? lower_correspondence(lower, from->layout, layout)
                                                    : lower_part_of(lower, from->layout, layout, corner);
  if (!map)
    lower_fail(lower, ERROR_INPUT, "layouts-disagree", "insert a convert",
               "'%s' in %s does not fit the layout %s", ir_expr_text(lower->module, operand),
               layout_text(lower->arena, from->layout), layout_text(lower->arena, layout));
  for (unsigned r = 0; r < tile->n; r++)
    tile->reg[r] = map ? from->reg[map[r]] : lower_int(lower, 0);
  for (unsigned r = 0; map && from->pair && r + 1 < tile->n; r += 2) {
    if (map[r] % 2 || map[r + 1] != map[r] + 1 || !from->pair[map[r] / 2]) continue;
    lower_make_pairs(lower, tile);
    tile->pair[r / 2] = from->pair[map[r] / 2];
  }
  return tile;
}

LowerTile *lower_spread_tile(Lower *lower, const IrExpr *operand, const Layout *layout, NumberType element)
{
  unsigned corner[LAYOUT_MAX_DIMS] = {0};
  LowerTile *from = tile_operand(lower, operand, corner);
  if (from) return spread_tile(lower, operand, from, corner, layout);
  LowerTile *tile = lower_tile_new(lower, element, layout);
  operand = fold_sign(lower, operand);
  IrExpr *x;
  if (is_literal(operand)) {
    x = lower_literal(lower, operand, element);
  } else {
    LowerScalar scalar = lower_expr(lower, operand);
    x = lower_as(lower, scalar, lower_register_type(element));
  }
  for (unsigned r = 0; r < tile->n; r++)
    tile->reg[r] = x;
  return tile;
}

IrExpr **lower_spread(Lower *lower, const IrExpr *operand, const Layout *layout, NumberType element)
{
  return lower_spread_tile(lower, operand, layout, element)->reg;
}

/* ---- One register ---- */

/* Registers of 32 bits that hold an 8- or 16-bit integer hold it extended, after any operation. */
static IrExpr *narrow(Lower *lower, IrExpr *x, NumberType element)
{
  if (number_class(element) == NUMBER_FLOAT || lower_register_type(element) != NUMBER_S32 ||
      element == NUMBER_S32)
    return x;
  unsigned bits = number_bits(element);
  if (number_class(element) == NUMBER_UNSIGNED)
    return lower_value(lower, OP_AND, ir_scalar(NUMBER_S32), "x", 2, x, lower_int(lower, (1 << bits) - 1));
  IrExpr *up = lower_value(lower, OP_SHL, ir_scalar(NUMBER_S32), "x", 2, x, lower_int(lower, 32 - bits));
  return lower_value(lower, OP_SHR, ir_scalar(NUMBER_S32), "x", 2, up, lower_int(lower, 32 - bits));
}

static bool may_leave_range(IrOpcode code)
{
  return code == OP_ADD || code == OP_SUB || code == OP_MUL || code == OP_FMA || code == OP_NEG ||
         code == OP_NOT || code == OP_SHL || code == OP_DIV || code == OP_ABS;
}

static IrExpr *emit_register_op(Lower *lower, const IrOp *op, IrOpcode code, NumberType element,
                                const char *hint, IrExpr *const *operands, unsigned n)
{
  IrType type = element == NUMBER_BOOL ? ir_predicate() : ir_scalar(lower_register_type(element));
  IrOp *copy = lower_emit_array(lower, code, n, operands);
  for (unsigned i = 0; i < op->n_attributes; i++)
    ir_attribute_set(copy, op->attributes[i].key, op->attributes[i].value);
  return lower_result(lower, copy, hint, type);
}

/* a - b * trunc(a / b) */
static IrExpr *float_remainder(Lower *lower, NumberType element, IrExpr *const *x)
{
  IrType type = ir_scalar(lower_register_type(element));
  IrExpr *quotient = lower_value(lower, OP_DIV, type, "quotient", 2, x[0], x[1]);
  IrExpr *whole = lower_value(lower, OP_TRUNC, type, "whole", 1, quotient);
  IrExpr *negative = lower_value(lower, OP_NEG, type, "negative", 1, whole);
  return lower_value(lower, OP_FMA, type, "rest", 3, negative, x[1], x[0]);
}

/* Elements of a tile, or a number, are known not to be negative: indices of points are not. */
static bool is_natural(const IrExpr *expr)
{
  const IrOp *def = expr->kind == EXPR_VALUE && !expr->value->variable ? expr->value->def : NULL;
  if (!def || expr->value->type.kind != TYPE_TILE) return lower_counts(expr);
  switch ((unsigned)def->code) {
  case OP_IOTA: return true;
  case OP_ADD:
  case OP_MUL:
  case OP_DIV: return is_natural(def->operands[0]) && is_natural(def->operands[1]);
  case OP_REM:
  case OP_SPLAT:
  case OP_CAST: return is_natural(def->operands[0]);
  default: return false;
  }
}

/* Of an index that is taken apart. */
static bool divides_natural(const IrOp *op, NumberType element, IrExpr *const *operands, int64_t *by)
{
  bool divides = (op->code == OP_DIV || op->code == OP_REM) && element == NUMBER_S32;
  return divides && operands[0]->kind == EXPR_VALUE && ir_expr_is_int(operands[1], by) && *by > 0 &&
         *by <= INT32_MAX && op->results[0]->type.kind == TYPE_TILE && is_natural(op->operands[0]);
}

static IrExpr *compute(Lower *lower, const IrOp *op, NumberType element, NumberType source, IrExpr **operands)
{
  int64_t by;
  if (divides_natural(op, element, operands, &by))
    return lower_natural_division(lower, operands[0], by, NUMBER_S32, op->code == OP_REM);
  const char *hint = op->results[0]->name;
  if (op->code == OP_REM && number_class(element) == NUMBER_FLOAT)
    return float_remainder(lower, element, operands);
  if (op->code == OP_SELECT && operands[0]->kind == EXPR_INT) return operands[operands[0]->integer ? 1 : 2];
  for (unsigned i = 0; op->code == OP_AND && element == NUMBER_BOOL && i < 2; i++)
    if (operands[i]->kind == EXPR_INT) return operands[operands[i]->integer ? 1 - i : i];
  bool all_constant = true;
  for (unsigned i = 0; i < op->n_operands; i++)
    all_constant &= is_literal(operands[i]);
  if (all_constant) { /* PTX instructions want a register among their operands */
    unsigned last = op->code == OP_SELECT ? 1 : 0;
    NumberType type = op->code == OP_SELECT ? element : source;
    if (type == NUMBER_BOOL) type = NUMBER_S32;
    operands[last] =
        lower_value(lower, OP_MOVE, ir_scalar(lower_register_type(type)), "constant", 1, operands[last]);
  }
  IrExpr *x = emit_register_op(lower, op, op->code, element, hint, operands, op->n_operands);
  return may_leave_range(op->code) ? narrow(lower, x, element) : x;
}

/* Element type of the operands: what comparisons compare. */
static NumberType source_type(Lower *lower, const IrOp *op)
{
  const IrType *result = &op->results[0]->type;
  bool compares = op->code >= OP_LT && op->code <= OP_NE;
  NumberType element = result->kind == TYPE_PREDICATE ? NUMBER_BOOL : result->element;
  if (!compares) return element;
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType type = ir_expr_type(lower->kernel, op->operands[i]);
    if (type.kind == TYPE_TILE || type.kind == TYPE_SCALAR) return type.element;
    if (type.kind == TYPE_PREDICATE) return NUMBER_BOOL;
  }
  return op->operands[0]->kind == EXPR_FLOAT ? NUMBER_F32 : NUMBER_S32;
}

static NumberType operand_type(const IrOp *op, unsigned i, NumberType source)
{
  if (op->code == OP_SELECT && i == 0) return NUMBER_BOOL;
  if ((op->code == OP_SHL || op->code == OP_SHR) && i == 1) return NUMBER_S32;
  return source;
}

static void scalar_elementwise(Lower *lower, IrOp *op)
{
  const IrType *type = &op->results[0]->type;
  NumberType element = type->kind == TYPE_PREDICATE ? NUMBER_BOOL : type->element;
  NumberType source = source_type(lower, op);
  IrExpr *operands[3];
  for (unsigned i = 0; i < op->n_operands; i++) {
    const IrExpr *operand = fold_sign(lower, op->operands[i]);
    NumberType want = operand_type(op, i, source);
    if (is_literal(operand))
      operands[i] = lower_literal(lower, operand, want);
    else
      operands[i] = lower_as(lower, lower_expr(lower, operand), lower_register_type(want));
  }
  lower_scalar_bind(lower, op->results[0], compute(lower, op, element, source, operands));
}

/* Two neighbours of the other operand, in one word; of a row or column, or a number, twice the same. */
static IrExpr *word_of_two(Lower *lower, LowerTile *tile, unsigned r)
{
  IrExpr *low = tile->reg[r], *high = tile->reg[r + 1];
  if (is_literal(low)) {
    uint16_t bits = 0;
    number_from_double(tile->element, low->kind == EXPR_FLOAT ? low->number : (double)low->integer, false,
                       &bits);
    return lower_value(lower, OP_MOVE, ir_scalar(NUMBER_B32), "both", 1,
                       lower_int(lower, (int64_t)(bits | (uint32_t)bits << 16)));
  }
  if (low != high) return lower_pair(lower, tile, r, r + 1);
  return lower_scalar(lower, OP_PACK, ir_scalar(NUMBER_B32), "both", 2, low, low);
}

static IrOpcode code_of_pairs(IrOpcode code)
{
  return code == OP_SUB ? OP_SUB_PAIR : code == OP_MUL ? OP_MUL_PAIR : OP_FMA_PAIR;
}

/* From elements of which only pairs exist (widen_pairs) two at once are subtracted, or two are multiplied, to which two others may be added. */
static LowerTile *compute_pairs(Lower *lower, const IrOp *op)
{
  const IrType *type = &op->results[0]->type;
  const IrExpr *operand = op->operands[0];
  bool paired = op->code == OP_SUB || op->code == OP_MUL || op->code == OP_FMA;
  LowerTile *from =
      paired && operand->kind == EXPR_VALUE ? g_hash_table_lookup(lower->tiles, operand->value) : NULL;
  bool pairs = from && from->packed && !from->array && number_has_bytes(type->element, 2) &&
               layout_equal(from->layout, type->layout);
  if (!pairs) return NULL;
  LowerTile *tile = lower_tile_new(lower, type->element, type->layout);
  bool three = op->n_operands > 2;
  LowerTile *other = lower_spread_tile(lower, op->operands[1], type->layout, type->element),
            *third = three ? lower_spread_tile(lower, op->operands[2], type->layout, type->element) : NULL;
  lower_make_pairs(lower, tile);
  tile->packed = true;
  for (unsigned i = 0; i < tile->n / 2 && !lower->failed; i++) {
    IrExpr *by = word_of_two(lower, other, 2 * i);
    tile->pair[i] =
        lower_value(lower, code_of_pairs(op->code), ir_scalar(NUMBER_B32),
                    op->code == OP_SUB ? "less" : "times", three ? 3 : 2, from->pair[i], by,
                    three ? third->packed ? third->pair[i] : word_of_two(lower, third, 2 * i) : NULL);
    ir_attribute_set(tile->pair[i]->value->def, ATTR_TYPE,
                     ir_name(lower->module, number_name(type->element)));
  }
  return tile;
}

/* A place as what neighbouring elements share, of two parts at most, and a constant. */
typedef struct {
  IrExpr *base, *more; /* more: NULL: it is all in `base` */
  int64_t constant;
} Place;

static const IrOp *sum_of(const IrExpr *x)
{
  const IrOp *def = x->kind == EXPR_VALUE && !x->value->variable ? x->value->def : NULL;
  return def && def->code == OP_ADD && !def->n_attributes ? def : NULL;
}

static Place split_place(IrExpr *x)
{
  Place place = {x, NULL, 0};
  const IrOp *sum = sum_of(x);
  if (sum && !ir_expr_is_int(sum->operands[1], &place.constant)) {
    place = (Place){sum->operands[0], sum->operands[1], 0};
    sum = sum_of(place.base);
  }
  if (sum && ir_expr_is_int(sum->operands[1], &place.constant)) place.base = sum->operands[0];
  return place;
}

static bool same_base(const Place *a, const Place *b)
{
  return a->base && ir_expr_equal(a->base, b->base) && !a->more == !b->more &&
         (!a->more || ir_expr_equal(a->more, b->more));
}

typedef struct {
  Place place;
  IrExpr *from, *less; /* from less what neighbours share */
} Difference;

/* base + c is `from` where c is from - base, which neighbouring elements share: no sum is computed for each. Wrapped or not. */
static void compare_with_constant(Lower *lower, const IrOp *op, NumberType source, IrExpr **x,
                                  Difference *last)
{
  const IrType type = ir_scalar(NUMBER_S32);
  if ((op->code != OP_EQ && op->code != OP_NE) || source != NUMBER_S32 || !sum_of(x[0])) return;
  if (x[1]->kind != EXPR_VALUE) return;
  Place place = split_place(x[0]);
  if (!last->less || !ir_expr_equal(last->from, x[1]) || !same_base(&last->place, &place)) {
    IrExpr *less = lower_value(lower, OP_SUB, type, "less", 2, x[1], place.base);
    if (place.more) less = lower_value(lower, OP_SUB, type, "less", 2, less, place.more);
    *last = (Difference){place, x[1], less};
  }
  x[0] = last->less;
  x[1] = lower_int(lower, place.constant);
}

#define NEIGHBOURS                                                                                           \
  4 /* registers of a thread in a block of 8 x 8 of each of two rows, whose columns may have a number in common */

/* A register of those in front that is computed of the same; r: none. */
static unsigned computed_alike(IrExpr **const *operands, unsigned n, unsigned r)
{
  for (unsigned other = r; other-- > 0 && r - other <= NEIGHBOURS;) {
    bool same = true;
    for (unsigned i = 0; i < n && same; i++)
      same = operands[i][other] == operands[i][r];
    if (same) return other;
  }
  return r;
}

void lower_elementwise(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  g_assert(op->n_operands <= 3);
  if (result->type.kind != TYPE_TILE) {
    scalar_elementwise(lower, op);
    return;
  }
  LowerTile *pairs = compute_pairs(lower, op);
  if (pairs) {
    lower_tile_bind(lower, result, pairs);
    return;
  }
  NumberType source = source_type(lower, op);
  LowerTile *tile = lower_tile_new(lower, result->type.element, result->type.layout);
  IrExpr **operands[3];
  for (unsigned i = 0; i < op->n_operands; i++)
    operands[i] = lower_spread(lower, op->operands[i], tile->layout, operand_type(op, i, source));
  Difference difference = {.less = NULL};
  for (unsigned r = 0; r < tile->n && !lower->failed; r++) {
    IrExpr *x[3];
    for (unsigned i = 0; i < op->n_operands; i++)
      x[i] = operands[i][r];
    compare_with_constant(lower, op, source, x, &difference);
    bool truth;
    if (lower_known_truth(lower, op, tile->layout, r, &truth))
      tile->reg[r] = lower_int(lower, truth);
    else if (r && lower_same_truth(lower, op, tile->layout, r, r - 1))
      tile->reg[r] = tile->reg[r - 1];
    else if (computed_alike(operands, op->n_operands, r) < r)
      tile->reg[r] = tile->reg[computed_alike(operands, op->n_operands, r)];
    else
      tile->reg[r] = compute(lower, op, tile->element, source, x);
  }
  lower_tile_bind(lower, result, tile);
}

void lower_some(Lower *lower, const IrOp *op)
{
  unsigned corner[LAYOUT_MAX_DIMS] = {0};
  LowerTile *tile = tile_operand(lower, op->operands[0], corner);
  IrExpr *any = tile->reg[0];
  for (unsigned r = 1; r < tile->n; r++)
    any = lower_value(lower, OP_OR, ir_predicate(), "any", 2, any, tile->reg[r]);
  IrExpr *vote = lower_value(lower, OP_VOTE, ir_predicate(), "any", 1, any);
  ir_attribute_set(vote->value->def, ATTR_MODE, ir_name(lower->module, "any"));
  lower_scalar_bind(lower, op->results[0], vote);
}

/* ---- Casts ---- */

static bool is_pair_type(NumberType type)
{
  return type == NUMBER_F16 || type == NUMBER_BF16;
}

/* Bits of e2m1 take their place in f32, whose exponents begin lower by a factor that is multiplied away again. */
static IrExpr *widen_e2m1(Lower *lower, IrExpr *x)
{
  const IrType whole = ir_scalar(NUMBER_S32), single = ir_scalar(NUMBER_F32);
  IrExpr *magnitude = lower_value(lower, OP_AND, whole, "magnitude", 2, x, lower_int(lower, 7)),
         *sign = lower_value(lower, OP_AND, whole, "sign", 2, x, lower_int(lower, 8));
  magnitude = lower_value(lower, OP_SHL, whole, "magnitude", 2, magnitude, lower_int(lower, 22));
  sign = lower_value(lower, OP_SHL, whole, "sign", 2, sign, lower_int(lower, 28));
  IrExpr *bits = lower_value(lower, OP_OR, whole, "bits", 2, magnitude, sign);
  IrExpr *small = lower_value(lower, OP_BITCAST, single, "small", 1, bits);
  return lower_value(lower, OP_MUL, single, "x", 2, small, ir_float(lower->module, 0x1p126));
}

/* An exponent of f32 as it stands; 2^-127 has none, and 0xff is NaN: both have the highest bit of a fraction. */
static IrExpr *widen_e8m0(Lower *lower, IrExpr *x)
{
  const IrType whole = ir_scalar(NUMBER_S32);
  IrExpr *next = lower_value(lower, OP_ADD, whole, "next", 2, x, lower_int(lower, 1));
  next = lower_value(lower, OP_AND, whole, "next", 2, next, lower_int(lower, 0xff));
  IrExpr *edge = lower_value(lower, OP_LT, ir_predicate(), "edge", 2, next, lower_int(lower, 2));
  IrExpr *half =
      lower_value(lower, OP_SELECT, whole, "half", 3, edge, lower_int(lower, 0x400000), lower_int(lower, 0));
  IrExpr *exponent = lower_value(lower, OP_SHL, whole, "exponent", 2, x, lower_int(lower, 23));
  IrExpr *bits = lower_value(lower, OP_OR, whole, "bits", 2, exponent, half);
  return lower_value(lower, OP_BITCAST, ir_scalar(NUMBER_F32), "x", 1, bits);
}

IrExpr *lower_cast_register(Lower *lower, IrExpr *x, NumberType from, NumberType to, const IrOp *op)
{
  if (from == NUMBER_E2M1 || from == NUMBER_E8M0) {
    if (is_literal(x)) x = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_S32), "constant", 1, x);
    x = from == NUMBER_E2M1 ? widen_e2m1(lower, x) : widen_e8m0(lower, x);
    from = NUMBER_F32;
  }
  NumberType source = lower_register_type(from), target = to == NUMBER_TF32 ? to : lower_register_type(to);
  bool from_float = number_class(from) == NUMBER_FLOAT, to_float = number_class(to) == NUMBER_FLOAT;
  bool saturate = op && ir_attribute(op, ATTR_SATURATE);
  if (from == to && !(op && op->code == OP_BITCAST)) return x;
  if (to == NUMBER_F32 && from == NUMBER_TF32) return x;
  if (is_literal(x)) {
    IrType type = from == NUMBER_BOOL ? ir_scalar(NUMBER_S32) : ir_scalar(source);
    if (from == NUMBER_BOOL) source = NUMBER_S32;
    x = lower_value(lower, OP_MOVE, type, "constant", 1, x);
  }
  bool narrow_integer = !to_float && to != NUMBER_BOOL && number_bits(to) < 32;
  /* through the narrow type, which the conversion saturates to; a float out of range always does */
  if (narrow_integer && (saturate || from_float)) {
    IrExpr *small = lower_value(lower, OP_CAST, ir_scalar(to), "small", 1, x);
    ir_attribute_set(small->value->def, ATTR_SATURATE, NULL);
    if (op && ir_attribute(op, ATTR_ROUND))
      ir_attribute_set(small->value->def, ATTR_ROUND, ir_attribute_value(op, ATTR_ROUND));
    return lower_value(lower, OP_CAST, ir_scalar(NUMBER_S32), "x", 1, small);
  }
  if (!from_float && source == target && from != NUMBER_BOOL && to != NUMBER_BOOL && !saturate)
    return narrow(lower, x, to);
  IrType type = to == NUMBER_BOOL ? ir_predicate() : ir_scalar(target);
  IrExpr *y = lower_value(lower, OP_CAST, type, "x", 1, x);
  IrOp *cast = y->value->def;
  if (op && from_float && ir_attribute(op, ATTR_ROUND))
    ir_attribute_set(cast, ATTR_ROUND, ir_attribute_value(op, ATTR_ROUND));
  if (saturate && (to_float ? from_float && number_bits(to) <= 16 : true))
    ir_attribute_set(cast, ATTR_SATURATE, NULL);
  if (to == NUMBER_TF32) return lower_value(lower, OP_BITCAST, ir_scalar(NUMBER_F32), "x", 1, y);
  return narrow_integer ? narrow(lower, y, to) : y;
}

/* Two 8-bit elements in the low half of a word. */
static IrExpr *join_bytes(Lower *lower, const LowerTile *tile, unsigned r)
{
  IrExpr *low = tile->reg[r], *high = tile->reg[r + 1];
  if (number_is_small_float(tile->element))
    return lower_value(lower, OP_PACK, ir_scalar(NUMBER_B16), "pair", 2, low, high);
  return lower_value(lower, OP_PERMUTE, ir_scalar(NUMBER_S32), "pair", 3, low, high,
                     lower_int(lower, 0x7740));
}

/* Two neighbours of 4 bits. */
static IrExpr *join_quarters(Lower *lower, const LowerTile *tile, unsigned r)
{
  IrExpr *high = lower_value(lower, OP_SHL, ir_scalar(NUMBER_S32), "high", 2, tile->reg[r + 1],
                             lower_int(lower, 4)),
         *low =
             lower_value(lower, OP_AND, ir_scalar(NUMBER_S32), "low", 2, tile->reg[r], lower_int(lower, 15));
  return lower_value(lower, OP_OR, ir_scalar(NUMBER_S32), "pair", 2, high, low);
}

/* The tile that a cast widens as it lies: of 8 bits or 4, to pairs of 16. NULL: it does not. */
static LowerTile *narrow_source(Lower *lower, const IrOp *op, const LowerTile *tile)
{
  const IrExpr *operand = op->operands[0];
  LowerTile *from = operand->kind == EXPR_VALUE ? g_hash_table_lookup(lower->tiles, operand->value) : NULL;
  bool narrow = from && !from->packed && number_bits(from->element) <= 8 && from->element != NUMBER_BOOL &&
                from->element != NUMBER_E8M0 && is_pair_type(tile->element) && tile->n % 2 == 0 &&
                layout_equal(from->layout, tile->layout);
  return narrow ? from : NULL;
}

void lower_set_widening(const Lower *lower, IrOp *widen, NumberType from, NumberType into)
{
  ir_attribute_set(widen, ATTR_TYPE, ir_name(lower->module, number_name(from)));
  if (into != NUMBER_F16) ir_attribute_set(widen, ATTR_INTO, ir_name(lower->module, number_name(into)));
}

/* Words of four bytes as they were read: one conversion gives two of the tile's. false: they were not all read so. */
static bool widen_quads(Lower *lower, const IrOp *op, LowerTile *tile)
{
  const LowerTile *from = narrow_source(lower, op, tile);
  bool quads = from && from->quads;
  for (unsigned i = 0; quads && i < tile->n / 4; i++)
    quads = from->quads[i] != NULL;
  if (!quads) return false;
  lower_make_pairs(lower, tile);
  tile->packed = true;
  for (unsigned i = 0; i < tile->n / 2; i += 2) {
    IrOp *widen = lower_emit(lower, OP_WIDEN_QUAD, 1, from->quads[i / 2]);
    lower_set_widening(lower, widen, from->element, tile->element);
    tile->pair[i] = lower_result(lower, widen, "pair", ir_scalar(NUMBER_B32));
    tile->pair[i + 1] = lower_result(lower, widen, "pair", ir_scalar(NUMBER_B32));
  }
  return true;
}

/* Pairs of elements of 8 bits or 4, as they were read or, of a product's operand, put together: one conversion gives a product's
 * word, and where no instruction converts one float of 8 bits any two are. NULL: the tile is none of these. */
static IrExpr **loaded_pairs(Lower *lower, const IrOp *op, const LowerTile *tile)
{
  LowerTile *from = narrow_source(lower, op, tile);
  if (!from) return NULL;
  bool alone = number_is_small_float(from->element) && !gpu_converts_float8(lower->context->gpu);
  bool joins = alone || layout_is_left_operand(tile->layout, tile->element);
  for (unsigned i = 0; !joins && i < tile->n / 2; i++)
    if (!from->loaded || !from->loaded[i]) return NULL;
  IrExpr **pairs = arena_new_array(lower->arena, IrExpr *, tile->n / 2);
  for (unsigned i = 0; i < tile->n / 2; i++)
    if (from->loaded && from->loaded[i])
      pairs[i] = from->loaded[i];
    else
      pairs[i] = number_is_packed(from->element) ? join_quarters(lower, from, 2 * i)
                                                 : join_bytes(lower, from, 2 * i);
  return pairs;
}

/* Elements at a bit of both halves of a word. f16's fraction has room for two of them, and a fourth is had of both, so that the upper ones need no
 * shift. */
static IrExpr *widen_apart(Lower *lower, IrExpr *word, unsigned bit, bool twice)
{
  bool higher = bit & 4 && twice;
  IrExpr *shift = lower_int(lower, (int64_t)(higher ? bit - 4 : bit));
  IrExpr *pair = lower_value(lower, OP_WIDEN_APART, ir_scalar(NUMBER_B32), "pair", 2, word, shift);
  if (higher) ir_attribute_set(pair->value->def, ATTR_HIGHER, NULL);
  return pair;
}

/* The selector that brings a byte to both halves of a word. */
static IrExpr *picked_twice(Lower *lower, IrExpr *picked)
{
  int64_t byte;
  if (ir_expr_is_int(picked, &byte))
    return lower_int(lower, LOWER_FIRST_TWICE + (byte - LOWER_FIRST_BYTE) * LOWER_NEXT_TWICE);
  IrExpr *spread = lower_mul(lower, NUMBER_S32, picked, lower_int(lower, LOWER_NEXT_TWICE));
  return lower_add(lower, NUMBER_S32, spread,
                   lower_int(lower, LOWER_FIRST_TWICE - LOWER_FIRST_BYTE * LOWER_NEXT_TWICE));
}

static void widen_pairs(Lower *lower, LowerTile *tile, IrExpr *const *loaded, IrExpr *picked,
                        const unsigned *bits, NumberType from, bool quarter)
{
  const IrType word = ir_scalar(NUMBER_B32);
  bool twice = from != NUMBER_E2M1 && (tile->element == NUMBER_F16 || quarter);
  lower_make_pairs(lower, tile);
  tile->packed = true;
  bool doubled = picked && !bits && quarter;
  if (doubled) picked = picked_twice(lower, picked);
  for (unsigned i = 0; i < tile->n / 2; i++) {
    if (bits)
      tile->pair[i] = widen_apart(lower, loaded[i], bits[i], twice);
    else if (picked)
      tile->pair[i] = lower_value(lower, OP_WIDEN_NIBBLES, word, "pair", 2, loaded[i], picked);
    else
      tile->pair[i] = lower_value(lower, OP_WIDEN_PAIR, word, "pair", 1, loaded[i]);
    IrOp *widen = tile->pair[i]->value->def;
    lower_set_widening(lower, widen, from, tile->element);
    if (doubled) ir_attribute_set(widen, ATTR_HIGHER, NULL);
    if (quarter) ir_attribute_set(widen, ATTR_QUARTER, ir_int(lower->module, 1));
  }
}

/* Of a word with elements of 4 bits, which byte a thread's two are in, or which bit of its halves; NULL: they are wider. */
static IrExpr *picked_byte(Lower *lower, const IrOp *op, NumberType from, const unsigned **bits)
{
  *bits = NULL;
  if (!number_is_packed(from)) return NULL;
  const LowerTile *tile = g_hash_table_lookup(lower->tiles, op->operands[0]->value);
  *bits = tile->bits;
  return tile->picked ? tile->picked : lower_int(lower, LOWER_FIRST_BYTE);
}

/* Two registers of f32 become one of two halves, or of two 8-bit floats. */
static void cast_pairs(Lower *lower, LowerTile *tile, IrExpr **from, const IrOp *op)
{
  bool halves = number_has_bytes(tile->element, 2);
  if (halves)
    lower_make_pairs(lower, tile);
  else
    tile->twin = arena_new_array(lower->arena, IrExpr *, tile->n / 2);
  IrExpr **words = halves ? tile->pair : tile->twin;
  IrType word = ir_scalar(halves ? NUMBER_B32 : NUMBER_B16);
  for (unsigned r = 0; r + 1 < tile->n; r += 2) {
    IrExpr *low = from[r], *high = from[r + 1];
    if (is_literal(low)) low = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_F32), "constant", 1, low);
    if (is_literal(high)) high = lower_value(lower, OP_MOVE, ir_scalar(NUMBER_F32), "constant", 1, high);
    IrExpr *pair = lower_value(lower, OP_CAST_PAIR, word, "pair", 2, low, high);
    ir_attribute_set(pair->value->def, ATTR_TYPE, ir_name(lower->module, number_name(tile->element)));
    if (ir_attribute(op, ATTR_SATURATE)) ir_attribute_set(pair->value->def, ATTR_SATURATE, NULL);
    IrOp *unpack = lower_emit(lower, OP_UNPACK, 1, pair);
    words[r / 2] = pair;
    tile->reg[r] = lower_result(lower, unpack, "x", ir_scalar(tile->element));
    tile->reg[r + 1] = lower_result(lower, unpack, "x", ir_scalar(tile->element));
  }
  if (tile->n % 2)
    tile->reg[tile->n - 1] = lower_cast_register(lower, from[tile->n - 1], NUMBER_F32, tile->element, op);
}

static IrExpr *bitcast_register(Lower *lower, IrExpr *x, NumberType to)
{
  return lower_value(lower, OP_BITCAST, ir_scalar(lower_register_type(to)), "x", 1, x);
}

static NumberType cast_source(Lower *lower, const IrOp *op)
{
  IrType type = ir_expr_type(lower->kernel, op->operands[0]);
  if (type.kind == TYPE_PREDICATE) return NUMBER_BOOL;
  if (type.kind == TYPE_TILE) return type.element;
  return lower_expr(lower, op->operands[0]).type;
}

void lower_cast(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  NumberType from = cast_source(lower, op);
  bool bits = op->code == OP_BITCAST;
  if (result->type.kind != TYPE_TILE) {
    NumberType to = result->type.kind == TYPE_PREDICATE ? NUMBER_BOOL : result->type.element;
    IrExpr *x = lower_expr(lower, op->operands[0]).x;
    x = bits ? bitcast_register(lower, x, to) : lower_cast_register(lower, x, from, to, op);
    lower_scalar_bind(lower, result, x);
    return;
  }
  LowerTile *tile = lower_tile_new(lower, result->type.element, result->type.layout);
  bool quarter = ir_attribute_int(op, ATTR_QUARTER, 0) == 1;
  bool quarters = tile->element == NUMBER_BF16 && (from == NUMBER_S4 || from == NUMBER_U4);
  bool widened = !bits && widen_quads(lower, op, tile);
  IrExpr **loaded = bits || widened ? NULL : loaded_pairs(lower, op, tile);
  if (loaded) {
    const unsigned *at;
    IrExpr *picked = picked_byte(lower, op, from, &at);
    widen_pairs(lower, tile, loaded, picked, at, from, quarter && quarters);
    quarter &= !quarters;
  }
  if (quarter)
    lower_fail(lower, ERROR_UNSUPPORTED, "quarter", NULL,
               "fourths are had of a product's operand of 4-bit integers only");
  if (widened || loaded || lower->failed) {
    lower_tile_bind(lower, result, tile);
    return;
  }
  IrExpr **x = lower_spread(lower, op->operands[0], tile->layout, from);
  /* 8-bit floats that need not saturate have no conversion of two */
  bool small = number_is_small_float(tile->element) && ir_attribute(op, ATTR_SATURATE);
  bool paired = is_pair_type(tile->element) || small;
  bool pairs = !bits && paired && lower_register_type(from) == NUMBER_F32 && tile->n > 1;
  if (pairs) cast_pairs(lower, tile, x, op);
  for (unsigned r = 0; r < tile->n && !pairs; r++)
    tile->reg[r] = bits ? bitcast_register(lower, x[r], tile->element)
                        : lower_cast_register(lower, x[r], from, tile->element, op);
  lower_tile_bind(lower, result, tile);
}

/* ---- Tiles from nothing ---- */

void lower_splat(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  LowerTile *tile = lower_spread_tile(lower, op->operands[0], result->type.layout, result->type.element);
  lower_tile_bind(lower, result, tile);
}

void lower_iota(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  LowerTile *tile = lower_tile_new(lower, result->type.element, result->type.layout);
  unsigned dim = (unsigned)ir_attribute_int(op, ATTR_DIM, 0);
  LowerMap map = lower_map_of(tile->layout);
  IrExpr *thread = lower_map_coordinate(lower, &map, dim);
  const unsigned *at = lower_registers(lower, tile->layout);
  bool floats = tile->element == NUMBER_F32, own = ir_attribute_is(op, ATTR_SCOPE, "thread"),
       rest = ir_attribute_is(op, ATTR_SCOPE, "register");
  if (floats) thread = lower_as(lower, (LowerScalar){thread, NUMBER_S32}, NUMBER_F32); /* once a thread */
  for (unsigned r = 0; r < tile->n; r++) {
    unsigned more = own ? 0 : at[(size_t)r * LAYOUT_MAX_DIMS + dim];
    if (floats && rest) {
      tile->reg[r] = ir_float(lower->module, more);
      continue;
    }
    if (floats) {
      tile->reg[r] = more ? lower_value(lower, OP_ADD, ir_scalar(NUMBER_F32), "count", 2, thread,
                                        ir_float(lower->module, more))
                          : thread;
      continue;
    }
    IrExpr *x = lower_add(lower, NUMBER_S32, thread, lower_int(lower, more));
    LowerScalar scalar = {x, NUMBER_S32};
    tile->reg[r] = lower_as(lower, scalar, lower_register_type(tile->element));
  }
  lower_tile_bind(lower, result, tile);
}

/* ---- Combining ---- */

IrExpr *lower_combine(Lower *lower, const char *with, NumberType element, IrExpr *a, IrExpr *b)
{
  static const struct {
    const char *name;
    IrOpcode code;
  } table[] = {{"sum", OP_ADD}, {"prod", OP_MUL}, {"max", OP_MAX}, {"min", OP_MIN}};
  for (unsigned i = 0; i < G_N_ELEMENTS(table); i++) {
    if (strcmp(with, table[i].name)) continue;
    IrExpr *x = lower_value(lower, table[i].code, ir_scalar(lower_register_type(element)), with, 2, a, b);
    bool extremum = table[i].code == OP_MAX || table[i].code == OP_MIN;
    if (extremum && number_class(element) == NUMBER_FLOAT) ir_attribute_set(x->value->def, ATTR_NAN, NULL);
    return extremum ? x : narrow(lower, x, element);
  }
  return lower_fail(lower, ERROR_UNSUPPORTED, "reduction", NULL, "reduce with %s is not supported", with);
}
