/* fold_constants: constants and copies through registers, algebraic identities, branches and loops that are
 * decided.
 *
 * needs  THREAD
 * gives  no op whose value is constant, no copy of a register that is not a variable, addresses as
 *        register + constant, no `if` on a constant, no loop of no or one iteration
 * breaks nothing; ops that lost their uses stay for remove_dead_code
 *
 * One walk in program order. A value that is no variable has one definition, which every use follows, so what
 * is known about it is put in place of its uses as they are met. Float arithmetic is folded only where it is
 * exact or rounds as the instruction does. */
#include "ir/passes/thread.h"
#include <string.h>

typedef struct Sum { /* value = base + offset, for addresses */
  IrValue *base;
  int64_t offset;
} Sum;

typedef struct Fold {
  IrModule *module;
  GHashTable *known;   /* IrValue* -> IrExpr*: a constant, or a value of the same type */
  GHashTable *sums;    /* IrValue* -> Sum* */
  GHashTable *written; /* variables written after their declaration */
} Fold;

static void fold_region(Fold *fold, IrRegion *region);

/* ---- Operands ---- */

static IrExpr *map_leaf(const IrExpr *leaf, void *data)
{
  Fold *fold = data;
  return leaf->kind == EXPR_VALUE ? g_hash_table_lookup(fold->known, leaf->value) : NULL;
}

static IrExpr *substitute(Fold *fold, IrExpr *expr)
{
  return ir_expr_map(fold->module, expr, map_leaf, fold);
}

/* %p or %p + c, %p known to be %base + d: %base + (c + d). */
static IrExpr *substitute_address(Fold *fold, IrExpr *expr)
{
  int64_t offset;
  IrValue *value = ir_address_base(expr, &offset);
  const Sum *sum = value != NULL ? g_hash_table_lookup(fold->sums, value) : NULL;
  if (sum == NULL) return expr;
  offset += sum->offset;
  if (offset < INT32_MIN || offset > INT32_MAX) return expr;
  IrExpr *base = ir_value(fold->module, sum->base);
  return offset == 0 ? base : ir_binary(fold->module, OPERATOR_ADD, base, ir_int(fold->module, offset));
}

/* What is stored tells how wide the store is: where a constant takes the place of a register of 64 bits, the attribute says
 * so. */
static void keep_width(Fold *fold, IrOp *op, const IrExpr *stored)
{
  bool store = op->code == OP_STORE_GLOBAL || op->code == OP_STORE_SHARED;
  if (!store || stored->kind != EXPR_VALUE || stored->value->type.kind != TYPE_SCALAR) return;
  NumberType type = stored->value->type.element;
  if (number_bits(type) == 64 && substitute(fold, (IrExpr *)stored)->kind == EXPR_INT)
    ir_attribute_set(op, ATTR_TYPE, ir_name(fold->module, number_name(type)));
}

static void substitute_op(Fold *fold, IrOp *op)
{
  bool writes_first = (ir_op_effects(op->code) & EFFECT_UPDATE) != 0;
  for (unsigned i = 0; i < op->n_operands; i++) {
    if (i == 0 && writes_first) continue;
    keep_width(fold, op, op->operands[i]);
    op->operands[i] = substitute(fold, op->operands[i]);
    if (ir_operand_is_address(op, i)) op->operands[i] = substitute_address(fold, op->operands[i]);
  }
  for (unsigned i = 0; i < op->n_attributes; i++) {
    IrAttribute *attribute = &op->attributes[i];
    if (attribute->value == NULL) continue;
    attribute->value = substitute(fold, attribute->value);
    if (attribute->key == ATTR_BARRIER) attribute->value = substitute_address(fold, attribute->value);
  }
}

/* ---- Integers ---- */

static int64_t wrap(NumberType type, int64_t value)
{
  unsigned unused = 64 - MIN(number_bits(type), 64u);
  uint64_t up = (uint64_t)value << unused;
  return number_class(type) == NUMBER_SIGNED ? (int64_t)up >> unused : (int64_t)(up >> unused);
}

static bool is_signed(NumberType type)
{
  return number_class(type) == NUMBER_SIGNED;
}

static bool fold_shift(IrOpcode code, NumberType type, int64_t a, int64_t b, int64_t *result)
{
  int64_t width = number_bits(type), amount = b < 0 || b > width ? width : b;
  if (code == OP_SHL)
    *result = amount >= 64 ? 0 : (int64_t)((uint64_t)a << amount);
  else if (is_signed(type))
    *result = a >> MIN(amount, 63);
  else
    *result = amount >= 64 ? 0 : (int64_t)((uint64_t)wrap(type, a) >> amount);
  return true;
}

static bool fold_division(IrOpcode code, NumberType type, int64_t a, int64_t b, int64_t *result)
{
  if (b == 0 || (is_signed(type) && b == -1)) return false;
  if (is_signed(type))
    *result = code == OP_DIV ? a / b : a % b;
  else
    *result = (int64_t)(code == OP_DIV ? (uint64_t)a / (uint64_t)b : (uint64_t)a % (uint64_t)b);
  return true;
}

static bool less(NumberType type, int64_t a, int64_t b)
{
  return is_signed(type) ? a < b : (uint64_t)a < (uint64_t)b;
}

static bool fold_comparison(IrOpcode code, NumberType type, int64_t a, int64_t b, int64_t *result)
{
  switch (code) {
  case OP_LT: *result = less(type, a, b); return true;
  case OP_LE: *result = !less(type, b, a); return true;
  case OP_GT: *result = less(type, b, a); return true;
  case OP_GE: *result = !less(type, a, b); return true;
  case OP_EQ: *result = a == b; return true;
  case OP_NE: *result = a != b; return true;
  default: return false;
  }
}

/* a and b wrapped to the type; the result is wrapped by the caller. */
static bool fold_binary(IrOpcode code, NumberType type, int64_t a, int64_t b, int64_t *result)
{
  switch (code) {
  case OP_ADD: *result = (int64_t)((uint64_t)a + (uint64_t)b); return true;
  case OP_SUB: *result = (int64_t)((uint64_t)a - (uint64_t)b); return true;
  case OP_MUL: *result = (int64_t)((uint64_t)a * (uint64_t)b); return true;
  case OP_MIN: *result = less(type, a, b) ? a : b; return true;
  case OP_MAX: *result = less(type, a, b) ? b : a; return true;
  case OP_AND: *result = a & b; return true;
  case OP_OR: *result = a | b; return true;
  case OP_XOR: *result = a ^ b; return true;
  case OP_SHL:
  case OP_SHR: return fold_shift(code, type, a, b, result);
  case OP_DIV:
  case OP_REM: return fold_division(code, type, a, b, result);
  default: return fold_comparison(code, type, a, b, result);
  }
}

/* Number type in which an op computes: its first register operand's, else its result's. */
static NumberType computing_type(const IrOp *op)
{
  bool shift = op->code == OP_SHL || op->code == OP_SHR;
  for (unsigned i = 0; i < op->n_operands && !(shift && i == 1); i++) {
    const IrExpr *operand = op->operands[i];
    const IrValue *value = operand->kind == EXPR_VALUE ? operand->value
                           : operand->kind == EXPR_INDEX && operand->items[0]->value
                               ? operand->items[0]->value
                               : NULL;
    if (value != NULL) return value->type.kind == TYPE_PREDICATE ? NUMBER_BOOL : value->type.element;
  }
  const IrType *type = &op->results[0]->type;
  return type->kind == TYPE_PREDICATE ? NUMBER_BOOL : type->element;
}

static bool is_integer(NumberType type)
{
  return number_class(type) != NUMBER_FLOAT;
}

/* The value of an op all of whose operands are integer constants. */
static bool fold_integer(const IrOp *op, int64_t *result)
{
  int64_t x[3];
  NumberType type = computing_type(op), to = op->results[0]->type.element;
  bool comparison = op->code >= OP_LT && op->code <= OP_NE;
  if (op->n_operands == 0 || op->n_operands > 3 || !is_integer(to)) return false;
  for (unsigned i = 0; i < op->n_operands; i++)
    if (!ir_expr_is_int(op->operands[i], &x[i])) return false;
  if (comparison) return fold_binary(op->code, NUMBER_S64, x[0], x[1], result); /* of plain numbers */
  switch (op->code) {
  case OP_MOVE:
  case OP_LET: *result = x[0]; return true;
  case OP_CAST:
    *result = to == NUMBER_BOOL ? x[0] != 0 : x[0];
    return ir_attribute(op, ATTR_SATURATE) == NULL;
  case OP_NEG: *result = (int64_t)(0 - (uint64_t)x[0]); return true;
  case OP_NOT: *result = to == NUMBER_BOOL ? !x[0] : ~x[0]; return true;
  case OP_SELECT: *result = x[0] ? x[1] : x[2]; return true;
  case OP_MUL_WIDE: *result = x[0] * x[1]; return ABS(x[0]) <= INT32_MAX && ABS(x[1]) <= INT32_MAX;
  case OP_MAD_WIDE:
    *result = x[0] * x[1] + x[2];
    return ABS(x[0]) <= INT32_MAX && ABS(x[1]) <= INT32_MAX && ABS(x[2]) <= INT64_MAX / 4;
  case OP_FMA: *result = (int64_t)((uint64_t)x[0] * (uint64_t)x[1] + (uint64_t)x[2]); return true;
  default:
    return op->n_operands == 2 && fold_binary(op->code, type, wrap(type, x[0]), wrap(type, x[1]), result);
  }
}

/* ---- Floats: f32 arithmetic whose result is rounded once, as the instruction does ---- */

static bool float_constant(const IrExpr *expr, float *value)
{
  if (expr->kind != EXPR_FLOAT && expr->kind != EXPR_INT) return false;
  *value = expr->kind == EXPR_FLOAT ? (float)expr->number : (float)expr->integer;
  return true;
}

static bool fold_float(const IrOp *op, float *result)
{
  float x[3] = {0};
  if (op->results[0]->type.element != NUMBER_F32 || op->n_operands == 0 || op->n_operands > 3) return false;
  if (op->n_attributes > 0 || op->results[0]->type.kind != TYPE_SCALAR) return false;
  for (unsigned i = 0; i < op->n_operands; i++)
    if (!float_constant(op->operands[i], &x[i])) return false;
  switch (op->code) {
  case OP_MOVE:
  case OP_LET: *result = x[0]; return true;
  case OP_ADD: *result = x[0] + x[1]; return !isnan(*result);
  case OP_SUB: *result = x[0] - x[1]; return !isnan(*result);
  case OP_MUL: *result = x[0] * x[1]; return !isnan(*result);
  case OP_FMA: *result = fmaf(x[0], x[1], x[2]); return !isnan(*result);
  case OP_NEG: *result = -x[0]; return true;
  case OP_ABS: *result = fabsf(x[0]); return true;
  case OP_CAST: *result = x[0]; return op->operands[0]->kind == EXPR_INT;
  default: return false;
  }
}

/* ---- Identities ---- */

static bool operand_is(const IrOp *op, unsigned i, int64_t number)
{
  int64_t value;
  if (i >= op->n_operands) return false;
  if (op->operands[i]->kind == EXPR_FLOAT) return op->operands[i]->number == (double)number;
  return ir_expr_is_int(op->operands[i], &value) && value == number;
}

/* Which operand an integer op equals, or -1; -2 if it is 0. */
static int integer_identity(const IrOp *op)
{
  NumberType type = op->results[0]->type.element;
  int64_t ones = type == NUMBER_BOOL ? 1 : wrap(type, -1);
  bool a0 = operand_is(op, 0, 0), b0 = operand_is(op, 1, 0), a1 = operand_is(op, 0, 1),
       b1 = operand_is(op, 1, 1);
  switch (op->code) {
  case OP_ADD:
  case OP_OR:
  case OP_XOR: return b0 ? 0 : a0 ? 1 : -1;
  case OP_SUB:
  case OP_SHL:
  case OP_SHR: return b0 ? 0 : -1;
  case OP_MUL: return a0 || b0 ? -2 : b1 ? 0 : a1 ? 1 : -1;
  case OP_DIV: return b1 ? 0 : -1;
  case OP_REM: return b1 ? -2 : -1;
  case OP_AND: return a0 || b0 ? -2 : operand_is(op, 1, ones) ? 0 : operand_is(op, 0, ones) ? 1 : -1;
  case OP_MUL_WIDE: return a0 || b0 ? -2 : -1;
  case OP_FMA:
  case OP_MAD_WIDE: return a0 || b0 ? 2 : -1;
  default: return -1;
  }
}

/* The value or constant an op is the same as, or NULL. */
static IrExpr *identity(Fold *fold, const IrOp *op)
{
  NumberType type = op->results[0]->type.element;
  int which = -1;
  if (op->code == OP_MOVE || op->code == OP_LET)
    which = 0;
  else if (op->code == OP_SELECT && operand_is(op, 0, 1))
    which = 1;
  else if (op->code == OP_SELECT && operand_is(op, 0, 0))
    which = 2;
  else if (op->code == OP_CAST && op->n_attributes == 0)
    which = 0; /* if the types are the same: checked below */
  else if (is_integer(type))
    which = integer_identity(op);
  else if (op->code == OP_MUL && operand_is(op, 1, 1))
    which = 0; /* x * 1.0; x + 0.0 is not x for -0.0 */
  if (which == -2) return ir_int(fold->module, 0);
  if (which < 0) return NULL;
  IrExpr *same = op->operands[which];
  if (same->kind == EXPR_INT || same->kind == EXPR_FLOAT) return op->code == OP_CAST ? NULL : same;
  if (same->kind != EXPR_VALUE || same->value->variable) return NULL;
  return ir_type_equal(&same->value->type, &op->results[0]->type) ? same : NULL;
}

/* Remembers add and sub of a constant, for addresses. */
static void note_sum(Fold *fold, const IrOp *op)
{
  int64_t offset;
  const IrExpr *a = op->n_operands == 2 ? op->operands[0] : NULL;
  if ((op->code != OP_ADD && op->code != OP_SUB) || !is_integer(op->results[0]->type.element)) return;
  if (!ir_expr_is_int(op->operands[1], &offset) || a->kind != EXPR_VALUE || a->value->variable) return;
  if (number_bits(a->value->type.element) < 32 || ABS(offset) > INT32_MAX) return;
  const Sum *before = g_hash_table_lookup(fold->sums, a->value);
  Sum *sum = arena_new_object(fold->module->arena, Sum);
  sum->base = before != NULL ? before->base : a->value;
  sum->offset = (op->code == OP_ADD ? offset : -offset) + (before != NULL ? before->offset : 0);
  g_hash_table_insert(fold->sums, op->results[0], sum);
}

/* add(add(x, c), d) becomes add(x, c + d). */
static void merge_sum(Fold *fold, IrOp *op)
{
  const Sum *sum = g_hash_table_lookup(fold->sums, op->results[0]);
  if (sum == NULL || ABS(sum->offset) > INT32_MAX) return;
  if (op->operands[0]->value == sum->base && op->code == OP_ADD) return;
  if (!ir_type_equal(&sum->base->type, &op->results[0]->type)) return;
  op->code = OP_ADD;
  op->operands[0] = ir_value(fold->module, sum->base);
  op->operands[1] = ir_int(fold->module, sum->offset);
}

/* ---- Ops ---- */

static bool is_pure(const IrOp *op)
{
  return op->n_results == 1 && op->n_regions == 0 && ir_op_effects(op->code) == EFFECT_NONE &&
         op->code != OP_VAR && ir_attribute(op, ATTR_WHEN) == NULL && op->results[0]->type.count <= 1 &&
         !op->results[0]->variable;
}

/* What an op's value is known to be, or NULL. */
static IrExpr *fold_value(Fold *fold, const IrOp *op)
{
  int64_t integer;
  float number;
  IrValue *result = op->results[0];
  if (op->code == OP_VAR) {
    bool constant =
        op->n_operands == 1 && (op->operands[0]->kind == EXPR_INT || op->operands[0]->kind == EXPR_FLOAT);
    bool once = result->type.count <= 1 && !g_hash_table_contains(fold->written, result);
    return constant && once && ir_attribute(op, ATTR_WHEN) == NULL ? op->operands[0] : NULL;
  }
  if (!is_pure(op)) return NULL;
  /* A number alone is of 32 bits to a store that takes its type from its operand. */
  unsigned bits = number_bits(result->type.element);
  if (op->code == OP_MOVE && op->operands[0]->kind != EXPR_VALUE && (bits == 8 || bits == 16)) return NULL;
  if (fold_integer(op, &integer)) return ir_int(fold->module, wrap(result->type.element, integer));
  if (fold_float(op, &number)) return ir_float(fold->module, number);
  /* a constant of the encoding is one, whatever it is */
  if (op->code == OP_MOVE && op->operands[0]->kind == EXPR_CALL) return op->operands[0];
  return identity(fold, op);
}

/* Moves a region's ops to before `op`, which goes; returns the first that is to be looked at. */
static IrOp *splice(IrOp *op, IrRegion *region)
{
  IrOp *next = op->next, *first = region != NULL ? region->first : NULL;
  while (region != NULL && region->first != NULL)
    ir_op_move(region->first, op->parent, op);
  ir_op_remove(op);
  return first != NULL ? first : next;
}

static bool region_breaks(const IrRegion *region)
{
  for (const IrOp *op = region->first; op != NULL; op = op->next) {
    if (op->code == OP_BREAK_IF) return true;
    for (unsigned i = 0; i < op->n_regions && op->code == OP_IF; i++)
      if (region_breaks(op->regions[i])) return true;
  }
  return false;
}

/* A loop of constant bounds: gone if it never runs, unwrapped if it runs once. true if *next was set. */
static bool fold_loop(Fold *fold, IrOp *op, IrOp **next)
{
  int64_t low, high, step = 1;
  if (!ir_expr_is_int(op->operands[0], &low) || !ir_expr_is_int(op->operands[1], &high)) return false;
  if (op->n_operands > 2 && !ir_expr_is_int(op->operands[2], &step)) return false;
  if (low >= high) {
    *next = splice(op, NULL);
    return true;
  }
  if (step <= 0 || high - low > step || region_breaks(op->regions[0])) return false;
  g_hash_table_insert(fold->known, op->regions[0]->arguments[0], ir_int(fold->module, low));
  *next = splice(op, op->regions[0]);
  return true;
}

/* Folds control flow that is decided; true if the op is gone and *next is where to go on. */
static bool fold_control(Fold *fold, IrOp *op, IrOp **next)
{
  int64_t truth;
  const IrExpr *when = ir_attribute_value(op, ATTR_WHEN);
  if (when != NULL && ir_expr_is_int(when, &truth)) {
    if (truth) {
      ir_attribute_remove(op, ATTR_WHEN);
    } else if (op->n_results == 0) {
      *next = splice(op, NULL);
      return true;
    }
  }
  if (op->code == OP_IF && ir_expr_is_int(op->operands[0], &truth)) {
    *next = splice(op, truth ? op->regions[0] : op->n_regions > 1 ? op->regions[1] : NULL);
    return true;
  }
  if (op->code == OP_BREAK_IF && ir_expr_is_int(op->operands[0], &truth) && !truth) {
    *next = splice(op, NULL);
    return true;
  }
  return op->code == OP_FOR && fold_loop(fold, op, next);
}

static IrOp *fold_op(Fold *fold, IrOp *op)
{
  IrOp *next = op->next;
  substitute_op(fold, op);
  if (fold_control(fold, op, &next)) return next;
  for (unsigned i = 0; i < op->n_regions; i++)
    fold_region(fold, op->regions[i]);
  if (op->n_results == 1) {
    IrExpr *value = fold_value(fold, op);
    if (value != NULL) {
      g_hash_table_insert(fold->known, op->results[0], value);
      ir_op_remove(op);
    } else if (is_pure(op)) {
      note_sum(fold, op);
      merge_sum(fold, op);
    }
  }
  return next;
}

static void fold_region(Fold *fold, IrRegion *region)
{
  for (IrOp *op = region->first; op != NULL;)
    op = fold_op(fold, op);
}

bool pass_fold_constants(IrModule *module, const IrPassContext *context, GError **error)
{
  for (unsigned i = 0; i < module->n_functions; i++) {
    g_autoptr(GHashTable) known = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) sums = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) written = ir_written_variables(module->functions[i]->body);
    Fold fold = {.module = module, .known = known, .sums = sums, .written = written};
    fold_region(&fold, module->functions[i]->body);
  }
  return true;
}
