#include "ir/passes/pipelines.h"

int64_t pipeline_stage(const IrOp *op)
{
  return ir_attribute_int(op, ATTR_STAGE, NO_STAGE);
}

bool pipeline_refuse(const IrOp *op, const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, &op->mark, "pipelined", NULL, "this loop cannot be pipelined: %s", what);
  return false;
}

IrExpr *pipeline_step(const IrOp *loop)
{
  return loop->n_operands > 2 ? loop->operands[2] : ir_int(loop->parent->function->module, 1);
}

IrExpr *pipeline_last(const IrOp *loop)
{
  IrModule *module = loop->parent->function->module;
  IrExpr *low = loop->operands[0], *high = loop->operands[1], *step = pipeline_step(loop);
  int64_t one;
  IrExpr *end = ir_binary(module, OPERATOR_SUB, high, ir_int(module, 1));
  if (ir_expr_is_int(step, &one) && one == 1) return end;
  IrExpr *steps = ir_binary(module, OPERATOR_DIV, ir_binary(module, OPERATOR_SUB, end, low), step);
  return ir_binary(module, OPERATOR_ADD, low, ir_binary(module, OPERATOR_MUL, steps, step));
}
