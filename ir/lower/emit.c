/* Emission: scopes, value numbers, integer algebra, variables. */
#include "ir/lower/lower.h"
#include <string.h>

IrExpr *lower_fail(Lower *lower, ErrorCode code, const char *code_id, const char *hint, const char *format,
                   ...)
{
  if (!lower->failed) {
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *message = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    error_set(lower->error, code, &lower->mark, code_id, hint, "%s", message);
    lower->failed = true;
  }
  return ir_int(lower->module, 0);
}

/* ---- Scopes ---- */

#define KEY_OPERANDS 3

/* Identity of an operand: a constant's value, or a register and how often it was written. */
typedef struct KeyOperand {
  uint64_t kind, payload, index, version;
} KeyOperand;

typedef struct NumberKey {
  uint64_t code, type;
  KeyOperand operand[KEY_OPERANDS];
} NumberKey;

static guint key_hash(gconstpointer pointer)
{
  const uint64_t *words = pointer;
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (unsigned i = 0; i < sizeof(NumberKey) / sizeof *words; i++)
    hash = (hash ^ words[i]) * 0xff51afd7ed558ccdu, hash ^= hash >> 32;
  return (guint)hash;
}

static gboolean key_equal(gconstpointer a, gconstpointer b)
{
  return !memcmp(a, b, sizeof(NumberKey));
}

LowerScope *lower_scope_open(Lower *lower, IrOp *owner, IrRegion *region, bool leaf_loop)
{
  LowerScope *scope = arena_new_object(lower->arena, LowerScope);
  scope->parent = lower->scope;
  scope->region = region;
  scope->owner = owner;
  scope->leaf_loop = leaf_loop;
  scope->depth = lower->scope ? lower->scope->depth + 1 : 1;
  scope->numbers = g_hash_table_new(key_hash, key_equal);
  lower->scope = scope;
  return scope;
}

typedef struct LowerVariable {
  unsigned version; /* lower->clock at its last change */
  unsigned depth;   /* scope in which the present value came to be */
} LowerVariable;

static void variable_touch(Lower *lower, LowerVariable *variable)
{
  variable->version = ++lower->clock;
  variable->depth = lower->scope->depth;
}

/* What was written inside counts as written by the op that owns the region. */
void lower_scope_close(Lower *lower)
{
  LowerScope *scope = lower->scope;
  g_hash_table_unref(scope->numbers);
  lower->scope = scope->parent;
  if (!lower->scope) return;
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init(&iter, lower->variables);
  while (g_hash_table_iter_next(&iter, NULL, &value)) {
    LowerVariable *variable = value;
    if (variable->depth > lower->scope->depth) variable_touch(lower, variable);
  }
}

IrBuilder lower_builder(Lower *lower)
{
  IrBuilder builder = ir_builder_at_end(lower->scope->region);
  builder.mark = lower->mark;
  return builder;
}

/* ---- Ops in place ---- */

IrOp *lower_emit_array(Lower *lower, IrOpcode code, unsigned n, IrExpr *const *operands)
{
  IrBuilder builder = lower_builder(lower);
  return ir_emit_array(&builder, code, n, operands);
}

static void collect_operands(IrExpr **operands, unsigned n, va_list arguments)
{
  g_assert(n <= 8);
  for (unsigned i = 0; i < n; i++)
    operands[i] = va_arg(arguments, IrExpr *);
}

IrOp *lower_emit(Lower *lower, IrOpcode code, unsigned n, ...)
{
  IrExpr *operands[8];
  va_list arguments;
  va_start(arguments, n);
  collect_operands(operands, n, arguments);
  va_end(arguments);
  return lower_emit_array(lower, code, n, operands);
}

IrExpr *lower_result(Lower *lower, IrOp *op, const char *hint, IrType type)
{
  IrValue *value = ir_result(op, hint, type);
  value->id = lower->scope->depth;
  return ir_value(lower->module, value);
}

IrExpr *lower_value(Lower *lower, IrOpcode code, IrType type, const char *hint, unsigned n, ...)
{
  IrExpr *operands[8];
  va_list arguments;
  va_start(arguments, n);
  collect_operands(operands, n, arguments);
  va_end(arguments);
  return lower_result(lower, lower_emit_array(lower, code, n, operands), hint, type);
}

void lower_when(IrOp *op, IrExpr *predicate)
{
  int64_t constant;
  if (!predicate || (ir_expr_is_int(predicate, &constant) && constant)) return;
  ir_attribute_set(op, ATTR_WHEN, predicate);
}

/* ---- Value numbers ---- */

static LowerVariable *variable_of(Lower *lower, const IrExpr *expr)
{
  if (expr->kind == EXPR_INDEX) expr = expr->items[0];
  if (expr->kind != EXPR_VALUE || !expr->value->variable) return NULL;
  return g_hash_table_lookup(lower->variables, expr->value);
}

unsigned lower_depth(Lower *lower, const IrExpr *expr)
{
  LowerVariable *variable = variable_of(lower, expr);
  if (variable) return variable->depth;
  if (expr->kind == EXPR_VALUE) return expr->value->id;
  unsigned depth = 1;
  for (unsigned i = 0; i < expr->n; i++)
    depth = MAX(depth, lower_depth(lower, expr->items[i]));
  return depth;
}

static KeyOperand key_operand(Lower *lower, const IrExpr *expr)
{
  KeyOperand key = {.kind = 1u + expr->kind};
  const LowerVariable *variable = variable_of(lower, expr);
  if (variable) key.version = variable->version;
  switch (expr->kind) {
  case EXPR_INT: key.payload = (uint64_t)expr->integer; break;
  case EXPR_FLOAT: memcpy(&key.payload, &expr->number, sizeof expr->number); break;
  case EXPR_VALUE: key.payload = (uintptr_t)expr->value; break;
  case EXPR_INDEX:
    key.payload = (uintptr_t)expr->items[0]->value;
    key.index = (uint64_t)expr->items[1]->integer;
    break;
  case EXPR_SYMBOL:
  case EXPR_DIM:
  case EXPR_NAME: key.payload = (uintptr_t)g_intern_string(expr->name); break;
  case EXPR_CALL: key.payload = (uintptr_t)g_intern_string(ir_expr_text(lower->module, expr)); break;
  default: key.payload = (uintptr_t)expr; break;
  }
  return key;
}

/* What depends on nothing but the launch stands at the kernel's start. */
static bool is_given(IrOpcode code)
{
  return code == OP_PARAMETER || code == OP_ADDRESS || code == OP_SPECIAL;
}

static LowerScope *outermost(Lower *lower, IrOp **before)
{
  LowerScope *home = lower->scope;
  *before = NULL;
  for (; home->parent; home = home->parent)
    *before = home->owner;
  return home;
}

/* The outermost scope that `depth` allows by leaving innermost loops; the present one if it leaves none. */
static LowerScope *home_of(Lower *lower, unsigned depth, IrOp **before)
{
  LowerScope *home = lower->scope;
  *before = NULL;
  for (LowerScope *scope = lower->scope; scope->parent && depth <= scope->parent->depth;
       scope = scope->parent) {
    if (scope->leaf_loop) {
      home = scope->parent;
      *before = scope->owner;
    }
    if (scope->owner && scope->owner->code != OP_IF && !scope->leaf_loop) break;
  }
  return home;
}

IrExpr *lower_scalar(Lower *lower, IrOpcode code, IrType type, const char *hint, unsigned n, ...)
{
  IrExpr *operands[8];
  va_list arguments;
  va_start(arguments, n);
  collect_operands(operands, n, arguments);
  va_end(arguments);
  NumberKey key = {.code = code, .type = (uint64_t)type.kind << 32 | type.element};
  unsigned depth = 1;
  g_assert(n <= KEY_OPERANDS);
  for (unsigned i = 0; i < n; i++) {
    key.operand[i] = key_operand(lower, operands[i]);
    depth = MAX(depth, lower_depth(lower, operands[i]));
  }
  for (LowerScope *scope = lower->scope; scope; scope = scope->parent) {
    IrExpr *found = g_hash_table_lookup(scope->numbers, &key);
    if (found) return found;
  }
  IrOp *before;
  LowerScope *home = is_given(code) ? outermost(lower, &before) : home_of(lower, depth, &before);
  IrBuilder builder = before ? ir_builder_before(before) : ir_builder_at_end(home->region);
  builder.mark = lower->mark;
  IrValue *value = ir_result(ir_emit_array(&builder, code, n, operands), hint, type);
  value->id = home->depth;
  IrExpr *expr = ir_value(lower->module, value);
  g_hash_table_insert(home->numbers, arena_memdup(lower->arena, &key, sizeof key), expr);
  return expr;
}

/* ---- Integer algebra ---- */

bool lower_is_int(const IrExpr *expr, int64_t *value)
{
  return ir_expr_is_int(expr, value);
}

IrExpr *lower_int(Lower *lower, int64_t value)
{
  return ir_int(lower->module, value);
}

static bool is_power_of_two(int64_t value)
{
  return value > 0 && !(value & (value - 1));
}

static unsigned log2_of(int64_t value)
{
  return (unsigned)g_bit_nth_lsf((gulong)value, -1);
}

/* x of the value `x + constant`, and the constant. */
static bool is_sum(const IrExpr *expr, IrExpr **x, int64_t *constant)
{
  if (expr->kind != EXPR_VALUE || expr->value->variable || !expr->value->def) return false;
  const IrOp *def = expr->value->def;
  if (def->code != OP_ADD || def->n_operands != 2 || def->operands[1]->kind != EXPR_INT) return false;
  const IrExpr *inner = def->operands[0];
  if (inner->kind != EXPR_VALUE || inner->value->variable) return false;
  *x = def->operands[0];
  *constant = def->operands[1]->integer;
  return true;
}

IrExpr *lower_add(Lower *lower, NumberType type, IrExpr *a, IrExpr *b)
{
  int64_t x, y, z;
  IrExpr *inner;
  if (lower_is_int(a, &x) && lower_is_int(b, &y)) return lower_int(lower, x + y);
  if (lower_is_int(a, &x)) return lower_add(lower, type, b, a);
  if (lower_is_int(b, &y) && y == 0) return a;
  if (lower_is_int(b, &y) && is_sum(a, &inner, &z))
    return lower_add(lower, type, inner, lower_int(lower, y + z));
  return lower_scalar(lower, OP_ADD, ir_scalar(type), "sum", 2, a, b);
}

IrExpr *lower_sub(Lower *lower, NumberType type, IrExpr *a, IrExpr *b)
{
  int64_t y;
  if (lower_is_int(b, &y)) return lower_add(lower, type, a, lower_int(lower, -y));
  if (a->kind == EXPR_VALUE && ir_expr_equal(a, b) && !a->value->variable) return lower_int(lower, 0);
  return lower_scalar(lower, OP_SUB, ir_scalar(type), "difference", 2, a, b);
}

IrExpr *lower_shl(Lower *lower, NumberType type, IrExpr *a, unsigned bits)
{
  int64_t x;
  if (!bits) return a;
  if (lower_is_int(a, &x)) return lower_int(lower, (int64_t)((uint64_t)x << bits));
  return lower_scalar(lower, OP_SHL, ir_scalar(type), "scaled", 2, a, lower_int(lower, bits));
}

IrExpr *lower_shr(Lower *lower, NumberType type, IrExpr *a, unsigned bits)
{
  int64_t x;
  if (!bits) return a;
  if (lower_is_int(a, &x)) return lower_int(lower, x >> bits);
  return lower_scalar(lower, OP_SHR, ir_scalar(type), "high", 2, a, lower_int(lower, bits));
}

IrExpr *lower_mul(Lower *lower, NumberType type, IrExpr *a, IrExpr *b)
{
  int64_t x, y;
  if (lower_is_int(a, &x) && lower_is_int(b, &y)) return lower_int(lower, x * y);
  if (lower_is_int(a, &x)) return lower_mul(lower, type, b, a);
  if (lower_is_int(b, &y)) {
    if (y == 0) return b;
    if (y == 1) return a;
    if (is_power_of_two(y)) return lower_shl(lower, type, a, log2_of(y));
  }
  return lower_scalar(lower, OP_MUL, ir_scalar(type), "product", 2, a, b);
}

IrExpr *lower_bits(Lower *lower, IrOpcode code, NumberType type, IrExpr *a, IrExpr *b)
{
  int64_t x, y;
  bool constant_a = lower_is_int(a, &x), constant_b = lower_is_int(b, &y);
  if (constant_a && constant_b)
    return lower_int(lower, code == OP_AND ? (x & y) : code == OP_OR ? (x | y) : (x ^ y));
  if (constant_a) return lower_bits(lower, code, type, b, a);
  if (constant_b && y == 0) return code == OP_AND ? b : a;
  return lower_scalar(lower, code, ir_scalar(type), "bits", 2, a, b);
}

/* A quotient by a constant is unsigned, as the upper half of the product that gives it. It stays below 2^31;
 * by a factor below zero, the stride of a tensor that is read backwards, it has to be multiplied as a signed
 * number. */
static IrExpr *signed_for(Lower *lower, IrExpr *a, int64_t factor)
{
  bool quotient = a->kind == EXPR_VALUE && a->value->type.element == NUMBER_U32;
  if (factor >= 0 || !quotient) return a;
  return lower_scalar(lower, OP_BITCAST, ir_scalar(NUMBER_S32), "signed", 1, a);
}

IrExpr *lower_mul_wide(Lower *lower, IrExpr *a, IrExpr *b)
{
  int64_t x, y;
  if (lower_is_int(a, &x) && lower_is_int(b, &y)) return lower_int(lower, x * y);
  if (lower_is_int(a, &x)) return lower_mul_wide(lower, b, a);
  if (lower_is_int(b, &y) && y == 0) return b;
  if (lower_is_int(b, &y)) a = signed_for(lower, a, y);
  return lower_scalar(lower, OP_MUL_WIDE, ir_scalar(NUMBER_S64), "wide", 2, a, b);
}

IrExpr *lower_mad_wide(Lower *lower, IrExpr *a, IrExpr *b, IrExpr *c, NumberType type)
{
  int64_t x, y;
  if (lower_is_int(a, &x) && lower_is_int(b, &y)) return lower_add(lower, type, c, lower_int(lower, x * y));
  if (lower_is_int(a, &x)) return lower_mad_wide(lower, b, a, c, type);
  if (lower_is_int(b, &y) && y == 0) return c;
  if (lower_is_int(b, &y)) a = signed_for(lower, a, y);
  return lower_scalar(lower, OP_MAD_WIDE, ir_scalar(type), "at", 3, a, b, c);
}

IrExpr *lower_compare(Lower *lower, IrOpcode code, IrExpr *a, IrExpr *b)
{
  int64_t x, y;
  if (lower_is_int(a, &x) && lower_is_int(b, &y)) {
    bool truth = code == OP_LT   ? x < y
                 : code == OP_LE ? x <= y
                 : code == OP_GT ? x > y
                 : code == OP_GE ? x >= y
                 : code == OP_EQ ? x == y
                                 : x != y;
    return lower_int(lower, truth);
  }
  if (lower_is_int(a, &x)) { /* constants stand on the right */
    IrOpcode mirrored = code == OP_LT   ? OP_GT
                        : code == OP_LE ? OP_GE
                        : code == OP_GT ? OP_LT
                        : code == OP_GE ? OP_LE
                                        : code;
    return lower_scalar(lower, mirrored, ir_predicate(), "is", 2, b, a);
  }
  return lower_scalar(lower, code, ir_predicate(), "is", 2, a, b);
}

IrExpr *lower_and(Lower *lower, IrExpr *a, IrExpr *b)
{
  int64_t x;
  if (!a || (lower_is_int(a, &x) && x)) return b;
  if (!b || (lower_is_int(b, &x) && x)) return a;
  if (lower_is_int(a, &x)) return a;
  if (lower_is_int(b, &x)) return b;
  return lower_scalar(lower, OP_AND, ir_predicate(), "both", 2, a, b);
}

IrExpr *lower_not(Lower *lower, IrExpr *a)
{
  int64_t x;
  if (!a) return lower_int(lower, 0);
  if (lower_is_int(a, &x)) return lower_int(lower, !x);
  return lower_scalar(lower, OP_NOT, ir_predicate(), "not", 1, a);
}

/* ---- Variables ---- */

IrValue *lower_variable(Lower *lower, const char *hint, IrType type, IrExpr *initial)
{
  IrOp *op = initial ? lower_emit(lower, OP_VAR, 1, initial) : lower_emit(lower, OP_VAR, 0);
  IrValue *value = ir_result(op, hint, type);
  value->variable = true;
  value->id = lower->scope->depth;
  LowerVariable *variable = arena_new_object(lower->arena, LowerVariable);
  variable_touch(lower, variable);
  g_hash_table_insert(lower->variables, value, variable);
  return value;
}

void lower_set(Lower *lower, IrExpr *target, IrExpr *value)
{
  if (ir_expr_equal(target, value)) return;
  lower_emit(lower, OP_SET, 2, target, value);
  LowerVariable *variable = variable_of(lower, target);
  if (variable) variable_touch(lower, variable);
}

static void touch_value(Lower *lower, IrExpr *expr)
{
  LowerVariable *variable = expr ? variable_of(lower, expr) : NULL;
  if (variable) variable_touch(lower, variable);
}

static void touch_written(IrOp *op, void *data)
{
  Lower *lower = data;
  if (!(ir_op_effects(op->code) & EFFECT_UPDATE) || !op->n_operands) return;
  const IrExpr *target = op->operands[0];
  if (target->kind == EXPR_INDEX) target = target->items[0];
  if (target->kind != EXPR_VALUE) return;
  touch_value(lower, g_hash_table_lookup(lower->scalars, target->value));
  LowerCursor *cursor = g_hash_table_lookup(lower->cursors, target->value);
  if (cursor) {
    touch_value(lower, ir_value(lower->module, cursor->slot));
    touch_value(lower, ir_value(lower->module, cursor->phase));
  }
  LowerTile *tile = g_hash_table_lookup(lower->tiles, target->value);
  for (unsigned i = 0; tile && i < (tile->packed ? lower_tile_words(tile) : tile->n); i++)
    touch_value(lower, tile->packed ? tile->pair[i] : tile->reg[i]);
}

void lower_changes(Lower *lower, const IrRegion *staged)
{
  ir_region_visit((IrRegion *)staged, touch_written, lower);
}
