/* Parts of rows: the prologue of a row kernel, and an epilogue that stores one value for each row and part. */
#include "generator/program/parts.h"
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"

static bool write_epilogue(KernelBuild *build)
{
  StepScope scope = {0};
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  scope_open(&scope, build, "epilogue");
  int64_t extent[2] = {choice_int(build->choice, "rows", 1), 1};
  IrType type = ir_tile(module, parts_of(op)->compute, 2, extent, NULL);
  IrExpr *value = ir_value(module, ir_parameter_new(scope.function, "value", type));
  IrExpr *row = ir_value(module, ir_parameter_new(scope.function, "row", ir_scalar(NUMBER_S32)));
  IrExpr *part = ir_value(module, ir_parameter_new(scope.function, "part", ir_scalar(NUMBER_S32)));
  scope_add_tensors(&scope);
  IrValue *tensor = scope.tensors[op->n_inputs];
  StepWriter writer = kernel_steps(build, &scope.builder);
  IrExpr *access = ir_index(module, ir_value(module, tensor), 2, row, part);
  ir_emit(&scope.builder, OP_STORE, 2, access, step_convert(&writer, value, tensor->type.element));
  scope_close(&scope, NULL);
  return true;
}

bool kernel_write_parts(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  const FusedParts *parts = parts_of(op);
  kernel_bind_dim(build, "R", parts->rows);
  kernel_bind_dim(build, "C", parts->columns);
  kernel_bind_dim(build, "Q", parts->width);
  for (unsigned i = 0; i < op->n_inputs; i++)
    build->inputs[i] =
        kernel_add_tensor(build, KERNEL_INPUT, i, op->inputs[i].tensor, 2, op->dims, op->inputs[i].strides);
  const Symbolic *dims[] = {parts->rows, symbolic_ceil_div(build->expressions, parts->columns, parts->width)};
  build->outputs[0] =
      kernel_add_tensor(build, KERNEL_OUTPUT, 0, op->outputs[0].tensor, 2, dims, op->outputs[0].strides);
  return kernel_write_row_prologue(build, &parts->source, parts->compute, false) && write_epilogue(build);
}
