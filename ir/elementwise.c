/* Scalar sub-kernels applied to tiles: `func erf(%x: f32) -> f32` called with a tile. Its scalars become
 * tiles of the arguments' shape, its infix expressions operations. */
#include "ir/instance.h"
#include <string.h>

static bool is_tile(const Frame *frame, const IrExpr *expr)
{
  return ir_expr_type(frame->instance->target, expr).kind == TYPE_TILE;
}

static bool operator_code(IrOperator op, IrOpcode *code)
{
  static const IrOpcode codes[OPERATOR_COUNT] = {
      [OPERATOR_NEG] = OP_NEG, [OPERATOR_NOT] = OP_NOT, [OPERATOR_LNOT] = OP_NOT, [OPERATOR_ADD] = OP_ADD,
      [OPERATOR_SUB] = OP_SUB, [OPERATOR_MUL] = OP_MUL, [OPERATOR_DIV] = OP_DIV,  [OPERATOR_MOD] = OP_REM,
      [OPERATOR_AND] = OP_AND, [OPERATOR_OR] = OP_OR,   [OPERATOR_XOR] = OP_XOR,  [OPERATOR_SHL] = OP_SHL,
      [OPERATOR_SHR] = OP_SHR, [OPERATOR_LT] = OP_LT,   [OPERATOR_LE] = OP_LE,    [OPERATOR_GT] = OP_GT,
      [OPERATOR_GE] = OP_GE,   [OPERATOR_EQ] = OP_EQ,   [OPERATOR_NE] = OP_NE,    [OPERATOR_LAND] = OP_AND,
      [OPERATOR_LOR] = OP_OR,
  };
  *code = codes[op];
  return true;
}

/* The operation that computes a node, if there is one. */
static bool node_code(const IrExpr *expr, IrOpcode *code)
{
  switch (expr->kind) {
  case EXPR_UNARY:
  case EXPR_BINARY: return operator_code(expr->operator_, code);
  case EXPR_SELECT: *code = OP_SELECT; return true;
  case EXPR_CALL:
    *code = !strcmp(expr->name, "min") ? OP_MIN : OP_MAX;
    return !strcmp(expr->name, "min") || !strcmp(expr->name, "max");
  default: return false;
  }
}

IrExpr *elementwise_expr(Frame *frame, IrBuilder *builder, IrExpr *expr, const Mark *mark)
{
  bool part = expr->kind == EXPR_INDEX && expr->items[0]->kind == EXPR_VALUE; /* of a register tile */
  if (!is_tile(frame, expr) || expr->kind == EXPR_VALUE || part) return expr;
  IrOpcode code;
  IrExpr *operands[3];
  if (!node_code(expr, &code) || expr->n > G_N_ELEMENTS(operands)) {
    instance_fail(frame, mark, "elementwise", NULL,
                  "this expression cannot be applied to the elements of a tile");
    return NULL;
  }
  for (unsigned i = 0; i < expr->n; i++)
    if (!(operands[i] = elementwise_expr(frame, builder, expr->items[i], mark))) return NULL;
  builder->mark = *mark;
  IrOp *op = ir_emit_array(builder, code, expr->n, operands);
  IrType type;
  if (!ir_infer_result(op, 0, &type)) {
    instance_fail(frame, mark, "elementwise", NULL, "the shapes of the tiles do not agree");
    return NULL;
  }
  return ir_value(frame->instance->module, ir_result(op, "t", type));
}

bool elementwise_result(Frame *frame, const IrOp *op, IrType *type)
{
  bool arithmetic = op->code >= OP_ADD && op->code <= OP_BITCAST;
  bool lifts = op->code == OP_VAR;
  for (unsigned i = 0; i < op->n_operands && !lifts; i++)
    lifts = is_tile(frame, op->operands[i]);
  if (!lifts) return true;
  if (!arithmetic && op->code != OP_VAR)
    return instance_fail(frame, &op->mark, "elementwise", "choose by element with `select`",
                         "`%s` cannot depend on the elements of a tile", ir_op_info(op->code)->name);
  NumberType element = type->kind == TYPE_PREDICATE ? NUMBER_BOOL : type->element;
  *type = *frame->shape;
  type->element = element;
  return true;
}
