/* Rows in order: the prologue makes keys of a row's elements, the epilogue elements and places of the first keys. */
#include "generator/program/top.h"
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"

#define CALL_MOST 5 /* operands of a call here, its name among them */

#define RANK_BITS 16 /* of a key of 32, above the place */

/* In a key an integer stands as it is, of 32 bits in the upper half. */
static bool is_float(const KernelBuild *build)
{
  return number_class(top_element(build->op)) == NUMBER_FLOAT;
}

static IrExpr *turn_of(const KernelBuild *build)
{
  return ir_int(build->module, top_of(build->op)->largest ? -1 : 0);
}

static IrOp *call(StepScope *scope, const char *name, NumberType type, unsigned n, IrExpr *const *arguments)
{
  IrModule *module = scope->build->module;
  IrExpr *operands[CALL_MOST] = {
      ir_symbol(module, arena_printf(module->arena, "%s_%s", name, number_name(type)))};
  for (unsigned i = 0; i < n; i++)
    operands[i + 1] = arguments[i];
  return ir_emit_array(&scope->builder, OP_CALL, n + 1, operands);
}

static IrType tile_of(const KernelBuild *build, NumberType element, int64_t rows, int64_t columns)
{
  int64_t extent[2] = {rows, columns};
  return ir_tile(build->module, element, 2, extent, NULL);
}

static NumberType key_type(const KernelBuild *build)
{
  return g_str_equal(choice_parameter(build->choice, "key")->text, number_name(NUMBER_S64)) ? NUMBER_S64
                                                                                            : NUMBER_S32;
}

static IrExpr *parameter(StepScope *scope, const char *name, IrType type)
{
  return ir_value(scope->build->module, ir_parameter_new(scope->function, name, type));
}

/* Of the elements as they were loaded: how they compare, and their signs. */
static void rank_elements(StepScope *scope, IrExpr *x, IrType whole, IrExpr **rank, IrExpr **sign)
{
  const KernelBuild *build = scope->build;
  IrModule *module = build->module;
  if (!is_float(build)) {
    StepWriter writer = kernel_steps((KernelBuild *)build, &scope->builder);
    *rank = step_convert(&writer, x, NUMBER_S32);
    if (key_type(build) == NUMBER_S32)
      *rank = ir_emit_value(&scope->builder, OP_SHL, whole, "high", 2, *rank, ir_int(module, RANK_BITS));
    *sign = ir_int(module, 0);
    return;
  }
  IrOp *op = call(scope, "order", top_element(build->op), 1, &x);
  *rank = ir_value(module, ir_result(op, "rank", whole));
  *sign = ir_value(module, ir_result(op, "sign", whole));
}

static void write_prologue(KernelBuild *build)
{
  StepScope scope = {0};
  IrModule *module = build->module;
  unsigned input = top_of(build->op)->source.index;
  scope_open(&scope, build, "prologue");
  IrExpr *row = parameter(&scope, "row", ir_scalar(NUMBER_S32)),
         *column = parameter(&scope, "column", ir_scalar(NUMBER_S32));
  int64_t extent[2] = {choice_int(build->choice, "rows", 1), choice_int(build->choice, "cols", 1)};
  IrType whole = tile_of(build, NUMBER_S32, extent[0], extent[1]), key = whole;
  key.element = key_type(build);
  scope_add_tensors(&scope);
  IrExpr *access = ir_index(module, ir_value(module, scope.tensors[input]), 2, row, column), *rank, *sign;
  rank_elements(&scope, scope_load_tile(&scope, input, access, extent), whole, &rank, &sign);
  IrType columns = tile_of(build, NUMBER_S32, 1, extent[1]);
  IrOp *iota = ir_emit(&scope.builder, OP_IOTA, 0);
  ir_attribute_set(iota, ATTR_DIM, ir_int(module, 1));
  IrExpr *local = ir_value(module, ir_result(iota, "local", columns));
  IrExpr *place = ir_emit_value(&scope.builder, OP_ADD, columns, "place", 2, local, column);
  IrOp *op = call(&scope, "order_key", key.element, 4, (IrExpr *[]){rank, sign, place, turn_of(build)});
  scope_close(&scope, ir_value(module, ir_result(op, "key", key)));
}

static void store(StepScope *scope, unsigned output, IrExpr *value, IrExpr *row)
{
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  StepWriter writer = kernel_steps(build, &scope->builder);
  IrValue *tensor = scope->tensors[build->op->n_inputs + output];
  IrExpr *access = ir_index(module, ir_value(module, tensor), 2, row, ir_int(module, 0));
  ir_emit(&scope->builder, OP_STORE, 2, access, step_convert(&writer, value, tensor->type.element));
}

static void write_epilogue(KernelBuild *build)
{
  StepScope scope = {0};
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  int64_t rows = choice_int(build->choice, "rows", 1), keep = choice_int(build->choice, "keep", 1);
  IrType part = tile_of(build, NUMBER_S32, rows, keep), element = part;
  element.element = top_element(op);
  scope_open(&scope, build, "epilogue");
  IrExpr *key = parameter(&scope, "key", tile_of(build, key_type(build), rows, keep)),
         *row = parameter(&scope, "row", ir_scalar(NUMBER_S32)), *parts[3], *value;
  scope_add_tensors(&scope);
  IrOp *apart = call(&scope, "order_parts", key_type(build), 2, (IrExpr *[]){key, turn_of(build)});
  static const char *const names[] = {"rank", "sign", "place"};
  for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++)
    parts[i] = ir_value(module, ir_result(apart, names[i], part));
  value = parts[0];
  if (!is_float(build) && key_type(build) == NUMBER_S32)
    value = ir_emit_value(&scope.builder, OP_SHR, part, "low", 2, value, ir_int(module, RANK_BITS));
  if (is_float(build)) {
    IrOp *made = call(&scope, "unorder", element.element, 2, parts);
    value = ir_value(module, ir_result(made, "value", element));
  }
  for (unsigned i = 0; i < op->n_outputs; i++)
    store(&scope, i, op->outputs[i].anchor_output ? parts[2] : value, row);
  scope_close(&scope, NULL);
}

bool kernel_write_top(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  const FusedTop *top = top_of(op);
  const Symbolic *dims[] = {top->rows, symbolic_constant(build->expressions, top->count)};
  kernel_bind_dim(build, "R", top->rows);
  kernel_bind_dim(build, "C", top->columns);
  for (unsigned i = 0; i < op->n_inputs; i++)
    build->inputs[i] =
        kernel_add_tensor(build, KERNEL_INPUT, i, op->inputs[i].tensor, 2, op->dims, op->inputs[i].strides);
  for (unsigned i = 0; i < op->n_outputs; i++)
    build->outputs[i] =
        kernel_add_tensor(build, KERNEL_OUTPUT, i, op->outputs[i].tensor, 2, dims, op->outputs[i].strides);
  write_prologue(build);
  write_epilogue(build);
  return true;
}
