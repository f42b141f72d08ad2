/* Types of expressions and of results that the operands determine. */
#include "ir/ir.h"
#include <string.h>

static IrType none(void)
{
  return (IrType){.kind = TYPE_NONE};
}

/* x + 64 into x and 64, 128 + x + 64 into x and 192; NULL: nothing but a constant. */
static const IrExpr *split_constant(const IrExpr *expr, int64_t *constant)
{
  *constant = 0;
  while (expr->kind == EXPR_BINARY && (expr->operator_ == OPERATOR_ADD || expr->operator_ == OPERATOR_SUB)) {
    const IrExpr *a = expr->items[0], *b = expr->items[1];
    bool add = expr->operator_ == OPERATOR_ADD;
    if (add && a->kind == EXPR_INT) {
      const IrExpr *exchange = a;
      a = b;
      b = exchange;
    }
    int64_t sum;
    if (b->kind != EXPR_INT || (add ? __builtin_add_overflow(*constant, b->integer, &sum)
                                    : __builtin_sub_overflow(*constant, b->integer, &sum)))
      return expr;
    *constant = sum;
    expr = a;
  }
  int64_t sum;
  if (expr->kind != EXPR_INT || __builtin_add_overflow(*constant, expr->integer, &sum)) return expr;
  *constant = sum;
  return NULL;
}

bool ir_range_extent(const IrExpr *range, int64_t *extent)
{
  if (range->kind != EXPR_RANGE) return false;
  int64_t low, high;
  const IrExpr *a = split_constant(range->items[0], &low), *b = split_constant(range->items[1], &high);
  if (!a != !b || (a && !ir_expr_equal(a, b))) return false;
  return !__builtin_sub_overflow(high, low, extent);
}

bool ir_is_several(const IrExpr *expr)
{
  return expr->kind == EXPR_VALUE && expr->value->def && ir_attribute(expr->value->def, ATTR_COUNT) &&
         expr->value->def->code == OP_VAR;
}

static IrType type_of_index(const IrFunction *function, const IrExpr *expr)
{
  const IrExpr *base = expr->items[0];
  IrType type = ir_expr_type(function, base);
  if (base->kind == EXPR_FIELD && expr->n == 2 && expr->items[1]->kind != EXPR_RANGE) return type;
  if (type.kind == TYPE_TENSOR || (ir_is_several(base) && expr->n == 2)) return type;
  if (type.kind == TYPE_SCALAR && expr->n == 2) {
    int64_t count = 1;
    if (expr->items[1]->kind == EXPR_RANGE && !ir_range_extent(expr->items[1], &count)) return none();
    type.count = count > 0 && count <= type.count ? (unsigned)count : 1;
    return type;
  }
  if (type.kind != TYPE_TILE || type.rank != expr->n - 1) return none();
  for (unsigned i = 0; i < type.rank; i++) {
    int64_t extent = 1;
    const IrExpr *index = expr->items[i + 1];
    bool constant = index->kind != EXPR_RANGE || ir_range_extent(index, &extent);
    if (!constant && !function->module->n_parameters) return none();
    type.dims[i] = constant ? ir_int(function->module, extent) /* else of a template: known when bound */
                            : ir_binary(function->module, OPERATOR_SUB, index->items[1], index->items[0]);
  }
  type.layout = NULL;
  return type;
}

static IrType type_of_field(const IrFunction *function, const IrExpr *expr)
{
  const IrExpr *base = expr->items[0];
  if (base->kind == EXPR_SYMBOL) {
    const IrOp *channel = ir_symbol_find(function, base->name);
    const IrOp *slot = channel && channel->code == OP_CHANNEL ? ir_slot_find(channel, expr->name) : NULL;
    return slot && slot->declared ? *slot->declared : none();
  }
  if (base->kind == EXPR_VALUE && base->value->type.kind == TYPE_CURSOR) return ir_scalar(NUMBER_S32);
  return none();
}

/* The wider of two scalar types; floats win over integers. */
static IrType join(IrType a, IrType b)
{
  if (a.kind == TYPE_NONE) return b;
  if (b.kind == TYPE_NONE || a.kind == TYPE_TILE) return a;
  if (b.kind == TYPE_TILE) return b;
  bool a_float = number_class(a.element) == NUMBER_FLOAT, b_float = number_class(b.element) == NUMBER_FLOAT;
  if (a_float != b_float) return a_float ? a : b;
  return number_bits(b.element) > number_bits(a.element) ? b : a;
}

static IrType type_of_operator(const IrFunction *function, const IrExpr *expr)
{
  IrType type = ir_expr_type(function, expr->items[0]);
  if (expr->kind == EXPR_BINARY) type = join(type, ir_expr_type(function, expr->items[1]));
  bool truth = expr->operator_ == OPERATOR_LNOT || (expr->operator_ >= OPERATOR_LT);
  if (!truth) return type;
  if (type.kind == TYPE_PREDICATE) return type;
  if (type.kind != TYPE_TILE) return ir_scalar(NUMBER_BOOL);
  type.element = NUMBER_BOOL;
  return type;
}

static IrType type_of_call(const IrFunction *function, const IrExpr *expr)
{
  if (!strcmp(expr->name, "elected")) return ir_scalar(NUMBER_BOOL);
  IrType type = none();
  for (unsigned i = 0; i < expr->n && expr->n == 2; i++)
    type = join(type, ir_expr_type(function, expr->items[i]));
  return type.kind == TYPE_NONE ? ir_scalar(NUMBER_S32) : type;
}

static IrType exchange(const IrFunction *function, IrType type)
{
  if (type.kind != TYPE_TILE || type.rank != 2) return none();
  IrExpr *first = type.dims[0];
  type.dims[0] = type.dims[1];
  type.dims[1] = first;
  if (type.layout) type.layout = layout_transposed(function->module->arena, type.layout);
  return type;
}

IrType ir_expr_type(const IrFunction *function, const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_VALUE: return expr->value->type;
  case EXPR_DIM: {
    const IrDim *dim = ir_dim_find(function, expr->name);
    return ir_scalar(dim ? dim->type : NUMBER_S32);
  }
  case EXPR_SYMBOL: {
    const IrOp *op = ir_symbol_find(function, expr->name);
    return op && op->declared ? *op->declared : none();
  }
  case EXPR_UNARY:
  case EXPR_BINARY: return type_of_operator(function, expr);
  case EXPR_SELECT:
    return join(ir_expr_type(function, expr->items[1]), ir_expr_type(function, expr->items[2]));
  case EXPR_CALL: return type_of_call(function, expr);
  case EXPR_FIELD: return type_of_field(function, expr);
  case EXPR_INDEX: return type_of_index(function, expr);
  case EXPR_TRANSPOSED: return exchange(function, ir_expr_type(function, expr->items[0]));
  default: return none();
  }
}

/* ---- Results that the operands determine ---- */

static bool is_one(const IrExpr *expr)
{
  return expr->kind == EXPR_INT && expr->integer == 1;
}

bool ir_broadcast(const IrType *a, const IrType *b, IrType *shape)
{
  if (a->kind != TYPE_TILE || b->kind != TYPE_TILE || a->rank != b->rank) return false;
  *shape = *a;
  bool from_b = false, from_a = false;
  for (unsigned i = 0; i < a->rank; i++) {
    if (ir_expr_equal(a->dims[i], b->dims[i])) continue;
    if (is_one(a->dims[i])) {
      shape->dims[i] = b->dims[i];
      from_b = true;
    } else if (is_one(b->dims[i])) {
      from_a = true;
    } else {
      return false;
    }
  }
  if (from_b) shape->layout = from_a ? NULL : b->layout;
  return true;
}

static bool is_comparison(IrOpcode code)
{
  return code >= OP_LT && code <= OP_NE;
}

/* Elementwise ops whose result has the operands' element type; select's condition does not count. */
static bool keeps_type(IrOpcode code)
{
  return (code >= OP_ADD && code <= OP_SHR) || (code >= OP_SELECT && code <= OP_TANH) || code == OP_MOVE ||
         code == OP_SHUFFLE || code == OP_MUL_HIGH || code == OP_PERMUTE || code == OP_SHIFT_IN;
}

static bool infer_elementwise(const IrOp *op, IrType *type)
{
  const IrFunction *function = op->parent->function;
  IrType found = none();
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType operand = ir_expr_type(function, op->operands[i]);
    if (operand.kind == TYPE_NONE) continue;
    if (op->code == OP_SELECT && i == 0 && operand.kind != TYPE_TILE) continue;
    if (op->code == OP_SHUFFLE && i > 0) break;
    if (found.kind == TYPE_TILE && operand.kind == TYPE_TILE) {
      IrType shape;
      if (!ir_broadcast(&found, &operand, &shape)) return false;
      shape.element = op->code == OP_SELECT && i == 1 ? operand.element : found.element;
      found = shape;
    } else if (found.kind == TYPE_NONE || operand.kind == TYPE_TILE) {
      found = operand;
    }
  }
  if (found.kind == TYPE_NONE) return false;
  if (is_comparison(op->code)) {
    bool threads = function->module->level == IR_THREAD;
    if (found.kind == TYPE_TILE)
      found.element = NUMBER_BOOL;
    else
      found = threads ? ir_predicate() : ir_scalar(NUMBER_BOOL);
  } else if (!keeps_type(op->code)) {
    return false;
  }
  *type = found;
  return true;
}

/* Of `scan` the first result is as its operand, the second as `reduce` would have it. */
static bool infer_reduction(const IrOp *op, unsigned result, IrType *type)
{
  int64_t dim = ir_attribute_int(op, ATTR_DIM, -1);
  if (op->code == OP_SCAN && result < 2 && op->n_operands == 1) {
    *type = ir_expr_type(op->parent->function, op->operands[0]);
    if (result == 0) return type->kind == TYPE_TILE;
    result = 0;
  }
  if (result >= op->n_operands) return false;
  *type = ir_expr_type(op->parent->function, op->operands[result]);
  if (type->kind != TYPE_TILE || dim < 0 || dim >= type->rank) return false;
  IrModule *module = op->parent->function->module;
  const IrAttribute *every = ir_attribute(op, ATTR_EVERY);
  type->dims[dim] =
      every ? ir_binary(module, OPERATOR_DIV, type->dims[dim], every->value) : ir_int(module, 1);
  if (every) type->layout = NULL;
  if (type->layout && type->rank == 2)
    type->layout = layout_slice(op->parent->function->module->arena, type->layout, dim == 0 ? 1 : 0);
  return true;
}

/* As the operand of the same number. */
static bool infer_as_operand(const IrOp *op, unsigned result, IrType *type)
{
  if (result >= op->n_operands) return false;
  *type = ir_expr_type(op->parent->function, op->operands[result]);
  return type->kind == TYPE_TILE;
}

bool ir_infer_result(const IrOp *op, unsigned result, IrType *type)
{
  if (op->code == OP_COUNT) return infer_as_operand(op, result, type);
  if (op->code == OP_REDUCE || op->code == OP_SCAN) return infer_reduction(op, result, type);
  if (op->code == OP_CURSOR) {
    *type = (IrType){.kind = TYPE_CURSOR, .count = 1};
    return true;
  }
  if (op->code == OP_ELECT) {
    *type = ir_predicate();
    return true;
  }
  if (op->code == OP_SCAN_LANES || op->code == OP_COUNT_LANES || op->code == OP_OF_LANE) {
    *type = ir_scalar(NUMBER_S32);
    return result == 0;
  }
  if (result > 0 || !op->n_operands) return false;
  if (op->code == OP_LET) {
    *type = ir_expr_type(op->parent->function, op->operands[0]);
    if (type->kind == TYPE_NONE && op->operands[0]->kind != EXPR_FLOAT) *type = ir_scalar(NUMBER_S32);
    return type->kind == TYPE_SCALAR || type->kind == TYPE_PREDICATE;
  }
  return infer_elementwise(op, type);
}
