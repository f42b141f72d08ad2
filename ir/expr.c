/* Expressions: building with folding, comparison, mapping, evaluation. Immutable once made, so parts are
 * shared. */
#include "ir/calls.h"
#include <math.h>
#include <string.h>

/* ---- Functions an expression may call ---- */

static bool fold_ceil_div(int64_t a, int64_t b, int64_t *result)
{
  if (a < 0 || b <= 0) return false;
  *result = a / b + (a % b != 0);
  return true;
}

static bool fold_min(int64_t a, int64_t b, int64_t *result)
{
  *result = MIN(a, b);
  return true;
}

static bool fold_max(int64_t a, int64_t b, int64_t *result)
{
  *result = MAX(a, b);
  return true;
}

static bool fold_doubled(int64_t a, int64_t b, int64_t *result)
{
  if (a <= 0) return false;
  while (a < b && a <= INT64_MAX / 2)
    a *= 2;
  *result = a;
  return a >= b;
}

static const IrCallInfo calls[] = {
    {"ceil_div", 2, true, false, "a / b rounded up, for a >= 0 and b > 0", fold_ceil_div},
    {"min", 2, true, false, "the smaller", fold_min},
    {"max", 2, true, false, "the larger", fold_max},
    {"doubled", 2, true, false, "a > 0, doubled until it is at least b", fold_doubled, true},
    {"bits", 1, true, false, "bits of a number type"},
    {"bytes", 1, true, false, "bytes of a number type"},
    {"thread", 0, false, false, "thread of the block"},
    {"lane", 0, false, false, "lane of the warp"},
    {"warp", 0, false, false, "warp of the block"},
    {"role_warp", 0, false, false, "warp within its role"},
    {"instance", 0, false, false, "instance of the role"},
    {"block", 1, false, false, "block index along 0, 1, 2"},
    {"blocks", 1, false, false, "blocks along 0, 1, 2"},
    {"cluster_rank", 0, false, false, "block within its cluster"},
    {"cluster_size", 0, false, false, "blocks of the cluster"},
    {"elected", 0, false, false, "true in one thread of the role or instance"},
    {"operand_reach", 0, false, true, "mask of the shared addresses at which a product's operand may start"},
    {"operand_unit", 0, false, true, "bits by which such an address is shifted"},
    {"operand_panels", 1, false, true,
     "bytes from a panel of it to the next, for the word that has its start"},
    {"operand_rows", 2, false, true,
     "bytes from 8 rows of it to the next, and its swizzle's: the other word"},
};

const IrCallInfo *ir_call_info(const char *name)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(calls); i++)
    if (!strcmp(calls[i].name, name)) return &calls[i];
  return NULL;
}

const char *const *ir_call_names(void)
{
  static const char *const *names;
  if (g_once_init_enter(&names)) {
    const char **list = g_new0(const char *, G_N_ELEMENTS(calls) + 1);
    for (unsigned i = 0; i < G_N_ELEMENTS(calls); i++)
      list[i] = calls[i].name;
    g_once_init_leave(&names, (const char *const *)list);
  }
  return names;
}

/* ---- Leaves ---- */

static IrExpr *expr_new(IrModule *module, IrExprKind kind, unsigned n)
{
  IrExpr *expr = arena_new_object(module->arena, IrExpr);
  expr->kind = kind;
  expr->n = n;
  if (n) expr->items = arena_new_array(module->arena, IrExpr *, n);
  return expr;
}

static IrExpr *named(IrModule *module, IrExprKind kind, const char *name, unsigned n)
{
  IrExpr *expr = expr_new(module, kind, n);
  expr->name = arena_strdup(module->arena, name);
  return expr;
}

IrExpr *ir_int(IrModule *module, int64_t value)
{
  IrExpr *expr = expr_new(module, EXPR_INT, 0);
  expr->integer = value;
  return expr;
}

IrExpr *ir_float(IrModule *module, double value)
{
  IrExpr *expr = expr_new(module, EXPR_FLOAT, 0);
  expr->number = value;
  return expr;
}

IrExpr *ir_value(IrModule *module, IrValue *value)
{
  IrExpr *expr = expr_new(module, EXPR_VALUE, 0);
  expr->value = value;
  return expr;
}

IrExpr *ir_symbol(IrModule *module, const char *name)
{
  return named(module, EXPR_SYMBOL, name, 0);
}

IrExpr *ir_dim(IrModule *module, const char *name)
{
  return named(module, EXPR_DIM, name, 0);
}

IrExpr *ir_name(IrModule *module, const char *name)
{
  return named(module, EXPR_NAME, name, 0);
}

IrExpr *ir_parameter(IrModule *module, const char *name)
{
  return named(module, EXPR_PARAMETER, name, 0);
}

/* ---- Folding ---- */

static bool is_int(const IrExpr *expr, int64_t value)
{
  return expr->kind == EXPR_INT && expr->integer == value;
}

/* 0 * x may become 0 only where x cannot be NaN or infinite. */
static bool is_integer_leaf(const IrExpr *expr)
{
  if (expr->kind == EXPR_VALUE) {
    const IrType *type = &expr->value->type;
    return type->kind == TYPE_SCALAR && !type->element_parameter &&
           number_class(type->element) != NUMBER_FLOAT;
  }
  return expr->kind == EXPR_INT || (expr->kind == EXPR_CALL && expr->n == 0);
}

bool ir_fold_binary(IrOperator op, int64_t a, int64_t b, int64_t *result)
{
  switch (op) {
  case OPERATOR_ADD: return !__builtin_add_overflow(a, b, result);
  case OPERATOR_SUB: return !__builtin_sub_overflow(a, b, result);
  case OPERATOR_MUL: return !__builtin_mul_overflow(a, b, result);
  case OPERATOR_DIV:
  case OPERATOR_MOD:
    if (!b || (a == INT64_MIN && b == -1)) return false;
    *result = op == OPERATOR_DIV ? a / b : a % b;
    return true;
  case OPERATOR_AND: *result = a & b; return true;
  case OPERATOR_OR: *result = a | b; return true;
  case OPERATOR_XOR: *result = a ^ b; return true;
  case OPERATOR_SHL:
    if (b < 0 || b > 62 || a < 0 || a > (INT64_MAX >> b)) return false;
    *result = a << b;
    return true;
  case OPERATOR_SHR:
    if (b < 0 || b > 63) return false;
    *result = a >> b;
    return true;
  case OPERATOR_LT: *result = a < b; return true;
  case OPERATOR_LE: *result = a <= b; return true;
  case OPERATOR_GT: *result = a > b; return true;
  case OPERATOR_GE: *result = a >= b; return true;
  case OPERATOR_EQ: *result = a == b; return true;
  case OPERATOR_NE: *result = a != b; return true;
  case OPERATOR_LAND: *result = a && b; return true;
  case OPERATOR_LOR: *result = a || b; return true;
  default: return false;
  }
}

bool ir_fold_unary(IrOperator op, int64_t x, int64_t *result)
{
  switch (op) {
  case OPERATOR_NEG: return !__builtin_sub_overflow((int64_t)0, x, result);
  case OPERATOR_NOT: *result = ~x; return true;
  case OPERATOR_LNOT: *result = !x; return true;
  default: return false;
  }
}

static bool fold_call(const char *name, IrExpr *const *arguments, unsigned n, int64_t *result)
{
  if (n == 1 && arguments[0]->kind == EXPR_NAME) {
    NumberType type;
    if (!number_parse(arguments[0]->name, &type)) return false;
    if (!strcmp(name, "bits")) *result = number_bits(type);
    if (!strcmp(name, "bytes")) *result = (int64_t)number_bytes_of(type, 1);
    return !strcmp(name, "bits") || !strcmp(name, "bytes");
  }
  if (n != 2 || arguments[0]->kind != EXPR_INT || arguments[1]->kind != EXPR_INT) return false;
  const IrCallInfo *info = ir_call_info(name);
  return info && info->fold && info->fold(arguments[0]->integer, arguments[1]->integer, result);
}

IrExpr *ir_unary(IrModule *module, IrOperator op, IrExpr *x)
{
  int64_t folded;
  if (x->kind == EXPR_INT && ir_fold_unary(op, x->integer, &folded)) return ir_int(module, folded);
  if (x->kind == EXPR_FLOAT && op == OPERATOR_NEG) return ir_float(module, -x->number);
  if (x->kind == EXPR_UNARY && x->operator_ == op && op != OPERATOR_LNOT) return x->items[0];
  IrExpr *expr = expr_new(module, EXPR_UNARY, 1);
  expr->operator_ = op;
  expr->items[0] = x;
  return expr;
}

/* x + 0, x * 1 and the like. */
static IrExpr *fold_identity(IrModule *module, IrOperator op, IrExpr *a, IrExpr *b)
{
  switch (op) {
  case OPERATOR_ADD:
    if (is_int(a, 0)) return b;
    return is_int(b, 0) ? a : NULL;
  case OPERATOR_SUB:
  case OPERATOR_OR:
  case OPERATOR_XOR:
  case OPERATOR_SHL:
  case OPERATOR_SHR: return is_int(b, 0) ? a : NULL;
  case OPERATOR_MUL:
    if (is_int(a, 1)) return b;
    if (is_int(b, 1)) return a;
    if (is_int(a, 0) && is_integer_leaf(b)) return a;
    return is_int(b, 0) && is_integer_leaf(a) ? b : NULL;
  case OPERATOR_DIV: return is_int(b, 1) ? a : NULL;
  case OPERATOR_MOD: return is_int(b, 1) && is_integer_leaf(a) ? ir_int(module, 0) : NULL;
  case OPERATOR_LAND: /* the known side decides, or goes */
    if (a->kind == EXPR_INT) return a->integer ? b : a;
    return b->kind == EXPR_INT ? (b->integer ? a : b) : NULL;
  case OPERATOR_LOR:
    if (a->kind == EXPR_INT) return a->integer ? ir_int(module, 1) : b;
    return b->kind == EXPR_INT ? (b->integer ? ir_int(module, 1) : a) : NULL;
  default: return NULL;
  }
}

IrExpr *ir_binary(IrModule *module, IrOperator op, IrExpr *a, IrExpr *b)
{
  int64_t folded;
  if (a->kind == EXPR_INT && b->kind == EXPR_INT && ir_fold_binary(op, a->integer, b->integer, &folded))
    return ir_int(module, folded);
  if (a->kind == EXPR_NAME && b->kind == EXPR_NAME && (op == OPERATOR_EQ || op == OPERATOR_NE))
    return ir_int(module, !strcmp(a->name, b->name) == (op == OPERATOR_EQ));
  if (a->kind == EXPR_FLOAT && b->kind == EXPR_FLOAT && op == OPERATOR_MUL)
    return ir_float(module, a->number * b->number);
  IrExpr *same = fold_identity(module, op, a, b);
  if (same) return same;
  IrExpr *expr = expr_new(module, EXPR_BINARY, 2);
  expr->operator_ = op;
  expr->items[0] = a;
  expr->items[1] = b;
  return expr;
}

IrExpr *ir_select(IrModule *module, IrExpr *condition, IrExpr *a, IrExpr *b)
{
  if (condition->kind == EXPR_INT) return condition->integer ? a : b;
  IrExpr *expr = expr_new(module, EXPR_SELECT, 3);
  expr->items[0] = condition;
  expr->items[1] = a;
  expr->items[2] = b;
  return expr;
}

static IrExpr *with_items(IrModule *module, IrExprKind kind, const char *name, unsigned n,
                          IrExpr *const *items)
{
  IrExpr *expr = expr_new(module, kind, n);
  if (name) expr->name = arena_strdup(module->arena, name);
  if (n) memcpy(expr->items, items, n * sizeof *items);
  return expr;
}

IrExpr *ir_call_array(IrModule *module, const char *name, unsigned n, IrExpr *const *arguments)
{
  int64_t folded;
  if (fold_call(name, arguments, n, &folded)) return ir_int(module, folded);
  if (n == 2 && !strcmp(name, "ceil_div") && is_int(arguments[1], 1)) return arguments[0];
  return with_items(module, EXPR_CALL, name, n, arguments);
}

#define MAX_CALL_ARGUMENTS 16

IrExpr *ir_call(IrModule *module, const char *name, unsigned n, ...)
{
  g_assert(n <= MAX_CALL_ARGUMENTS);
  IrExpr *arguments[MAX_CALL_ARGUMENTS];
  va_list list;
  va_start(list, n);
  for (unsigned i = 0; i < n; i++)
    arguments[i] = va_arg(list, IrExpr *);
  va_end(list);
  return ir_call_array(module, name, n, arguments);
}

IrExpr *ir_field(IrModule *module, IrExpr *base, const char *name)
{
  return with_items(module, EXPR_FIELD, name, 1, &base);
}

IrExpr *ir_index_array(IrModule *module, IrExpr *base, unsigned n, IrExpr *const *indices)
{
  int64_t at;
  bool picks = base->kind == EXPR_LIST && n == 1 && ir_expr_is_int(indices[0], &at);
  if (picks && at >= 0 && at < base->n) return base->items[at];
  IrExpr *expr = expr_new(module, EXPR_INDEX, n + 1);
  expr->items[0] = base;
  if (n) memcpy(expr->items + 1, indices, n * sizeof *indices);
  return expr;
}

IrExpr *ir_index(IrModule *module, IrExpr *base, unsigned n, ...)
{
  g_assert(n <= MAX_CALL_ARGUMENTS);
  IrExpr *indices[MAX_CALL_ARGUMENTS];
  va_list list;
  va_start(list, n);
  for (unsigned i = 0; i < n; i++)
    indices[i] = va_arg(list, IrExpr *);
  va_end(list);
  return ir_index_array(module, base, n, indices);
}

IrExpr *ir_range(IrModule *module, IrExpr *low, IrExpr *high)
{
  IrExpr *ends[] = {low, high};
  return with_items(module, EXPR_RANGE, NULL, 2, ends);
}

IrExpr *ir_list(IrModule *module, unsigned n, IrExpr **items)
{
  return with_items(module, EXPR_LIST, NULL, n, items);
}

IrExpr *ir_transposed(IrModule *module, IrExpr *x)
{
  if (x->kind == EXPR_TRANSPOSED) return x->items[0];
  return with_items(module, EXPR_TRANSPOSED, NULL, 1, &x);
}

/* ---- Asking ---- */

bool ir_expr_is_int(const IrExpr *expr, int64_t *value)
{
  if (!expr || expr->kind != EXPR_INT) return false;
  if (value) *value = expr->integer;
  return true;
}

bool ir_expr_equal(const IrExpr *a, const IrExpr *b)
{
  if (a == b) return true;
  if (a->kind != b->kind || a->n != b->n) return false;
  switch (a->kind) {
  case EXPR_INT: return a->integer == b->integer;
  case EXPR_FLOAT: return !memcmp(&a->number, &b->number, sizeof a->number);
  case EXPR_VALUE: return a->value == b->value;
  case EXPR_UNARY:
  case EXPR_BINARY:
    if (a->operator_ != b->operator_) return false;
    break;
  default:
    if (g_strcmp0(a->name, b->name)) return false;
  }
  for (unsigned i = 0; i < a->n; i++)
    if (!ir_expr_equal(a->items[i], b->items[i])) return false;
  return true;
}

void ir_expr_visit(const IrExpr *expr, void (*visit)(const IrExpr *, void *), void *data)
{
  visit(expr, data);
  for (unsigned i = 0; i < expr->n; i++)
    ir_expr_visit(expr->items[i], visit, data);
}

/* The same node over other children, folded again. */
static IrExpr *rebuild(IrModule *module, const IrExpr *expr, IrExpr **items)
{
  switch (expr->kind) {
  case EXPR_UNARY: return ir_unary(module, expr->operator_, items[0]);
  case EXPR_BINARY: return ir_binary(module, expr->operator_, items[0], items[1]);
  case EXPR_SELECT: return ir_select(module, items[0], items[1], items[2]);
  case EXPR_CALL: return ir_call_array(module, expr->name, expr->n, items);
  case EXPR_FIELD: return ir_field(module, items[0], expr->name);
  case EXPR_INDEX: return ir_index_array(module, items[0], expr->n - 1, items + 1);
  case EXPR_RANGE: return ir_range(module, items[0], items[1]);
  case EXPR_LIST: return ir_list(module, expr->n, items);
  case EXPR_TRANSPOSED: return ir_transposed(module, items[0]);
  default: g_assert_not_reached();
  }
}

IrExpr *ir_expr_map(IrModule *module, const IrExpr *expr, IrExprMap map, void *data)
{
  switch (expr->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_NAME: return (IrExpr *)expr;
  case EXPR_VALUE:
  case EXPR_SYMBOL:
  case EXPR_DIM:
  case EXPR_PARAMETER: {
    IrExpr *other = map(expr, data);
    return other ? other : (IrExpr *)expr;
  }
  default: break;
  }
  IrExpr *few[8], **items = expr->n <= G_N_ELEMENTS(few) ? few : g_new(IrExpr *, expr->n);
  bool changed = false;
  for (unsigned i = 0; i < expr->n; i++) {
    items[i] = ir_expr_map(module, expr->items[i], map, data);
    changed |= items[i] != expr->items[i];
  }
  IrExpr *result = changed ? rebuild(module, expr, items) : (IrExpr *)expr;
  if (!result->mark.source) result->mark = expr->mark;
  if (items != few) g_free(items);
  return result;
}

static bool evaluate_call(const IrExpr *expr, IrExprLookup lookup, void *data, int64_t *value)
{
  const IrCallInfo *info = ir_call_info(expr->name);
  int64_t a, b;
  if (!info || !info->fold) return lookup && lookup(expr, value, data);
  return ir_expr_evaluate(expr->items[0], lookup, data, &a) &&
         ir_expr_evaluate(expr->items[1], lookup, data, &b) && info->fold(a, b, value);
}

bool ir_expr_evaluate(const IrExpr *expr, IrExprLookup lookup, void *data, int64_t *value)
{
  int64_t a, b;
  switch (expr->kind) {
  case EXPR_INT: *value = expr->integer; return true;
  case EXPR_UNARY:
    return ir_expr_evaluate(expr->items[0], lookup, data, &a) && ir_fold_unary(expr->operator_, a, value);
  case EXPR_BINARY:
    return ir_expr_evaluate(expr->items[0], lookup, data, &a) &&
           ir_expr_evaluate(expr->items[1], lookup, data, &b) && ir_fold_binary(expr->operator_, a, b, value);
  case EXPR_SELECT:
    return ir_expr_evaluate(expr->items[0], lookup, data, &a) &&
           ir_expr_evaluate(expr->items[a ? 1 : 2], lookup, data, value);
  case EXPR_CALL: return evaluate_call(expr, lookup, data, value);
  case EXPR_VALUE:
  case EXPR_DIM:
  case EXPR_PARAMETER:
  case EXPR_FIELD:
  case EXPR_SYMBOL: return lookup && lookup(expr, value, data);
  default: return false;
  }
}
