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

static IrExpr *emit(StepScope *scope, IrOpcode code, NumberType element, int64_t rows, int64_t columns,
                    IrExpr *a, IrExpr *b)
{
  return ir_emit_value(&scope->builder, code, tile_of(scope->build, element, rows, columns), "n", 2, a, b);
}

static IrExpr *counted(StepScope *scope, unsigned dim, int64_t extent, const char *name)
{
  IrType type = tile_of(scope->build, NUMBER_S32, dim ? 1 : extent, dim ? extent : 1);
  IrOp *iota = ir_emit(&scope->builder, OP_IOTA, 0);
  ir_attribute_set(iota, ATTR_DIM, ir_int(scope->build->module, dim));
  return ir_value(scope->build->module, ir_result(iota, name, type));
}

static IrExpr *widened(StepScope *scope, IrExpr *x)
{
  StepWriter writer = kernel_steps((KernelBuild *)scope->build, &scope->builder);
  return step_convert(&writer, x, NUMBER_S64);
}

/* Elements of rows as f32, of which the largest are picked; behind rows the least there are. Where nothing is picked nobody asks. */
static void write_values(KernelBuild *build)
{
  StepScope scope = {0};
  IrModule *module = build->module;
  unsigned input = top_of(build->op)->source.index;
  scope_open(&scope, build, "values");
  IrExpr *row = parameter(&scope, "row", ir_scalar(NUMBER_S32));
  int64_t extent[2] = {choice_int(build->choice, "rows", 1), choice_int(build->choice, "cols", 1)};
  scope_add_tensors(&scope);
  IrExpr *access = ir_index(module, ir_value(module, scope.tensors[input]), 2, row, ir_int(module, 0));
  StepWriter writer = kernel_steps(build, &scope.builder);
  IrExpr *x = step_convert(&writer, scope_load_tile(&scope, input, access, extent), NUMBER_F32);
  if (!choice_int(build->choice, "even", 0)) {
    IrExpr *columns = kernel_dim(build, top_of(build->op)->columns, "C", NUMBER_S32);
    IrExpr *inside =
        emit(&scope, OP_LT, NUMBER_BOOL, 1, extent[1], counted(&scope, 1, extent[1], "column"), columns);
    x = ir_emit_value(&scope.builder, OP_SELECT, tile_of(build, NUMBER_F32, extent[0], extent[1]), "x", 3,
                      inside, x, ir_float(module, -INFINITY));
  }
  scope_close(&scope, x);
}

/* Keys of the elements at places that were picked; of no place one behind all. */
static void write_found(KernelBuild *build)
{
  StepScope scope = {0};
  IrModule *module = build->module;
  const FusedTop *top = top_of(build->op);
  unsigned input = top->source.index;
  int64_t rows = choice_int(build->choice, "rows", 1),
          columns = MAX(1, choice_int(build->choice, "survivors", 1));
  IrType whole = tile_of(build, NUMBER_S32, rows, columns), key = whole;
  key.element = key_type(build);
  scope_open(&scope, build, "found");
  IrExpr *row = parameter(&scope, "row", ir_scalar(NUMBER_S32)), *place = parameter(&scope, "place", whole),
         *rank, *sign;
  scope_add_tensors(&scope);
  const IrValue *tensor = scope.tensors[input];
  IrExpr *at = emit(&scope, OP_ADD, NUMBER_S32, rows, 1, counted(&scope, 0, rows, "local"), row);
  IrExpr *known =
      emit(&scope, OP_LT, NUMBER_BOOL, rows, 1, at, kernel_dim(build, top->rows, "R", NUMBER_S32));
  IrExpr *found = emit(&scope, OP_GE, NUMBER_BOOL, rows, columns, place, ir_int(module, 0));
  IrExpr *ends = emit(&scope, OP_LT, NUMBER_BOOL, rows, columns, place,
                      kernel_dim(build, top->columns, "C", NUMBER_S32));
  found = emit(&scope, OP_AND, NUMBER_BOOL, rows, columns, found, ends);
  IrExpr *there = emit(&scope, OP_AND, NUMBER_BOOL, rows, columns, found, known);
  IrExpr *begin = emit(&scope, OP_MUL, NUMBER_S64, rows, 1, widened(&scope, at), tensor->type.strides[0]);
  IrExpr *further =
      emit(&scope, OP_MUL, NUMBER_S64, rows, columns, widened(&scope, place), tensor->type.strides[1]);
  IrExpr *offset = emit(&scope, OP_ADD, NUMBER_S64, rows, columns, further, begin);
  IrExpr *beside = widened(&scope, counted(&scope, 1, columns, "beside"));
  offset =
      emit(&scope, OP_SUB, NUMBER_S64, rows, columns, offset, beside); /* to which a gather adds its column */
  IrExpr *x = ir_emit_value(&scope.builder, OP_GATHER, tile_of(build, tensor->type.element, rows, columns),
                            tensor->name, 2, ir_value(module, (IrValue *)tensor), offset);
  ir_attribute_set(x->value->def, ATTR_WHERE, there);
  ir_attribute_set(x->value->def, ATTR_FILL, is_float(build) ? ir_float(module, 0) : ir_int(module, 0));
  ir_attribute_set(x->value->def, ATTR_ALIGNED, ir_int(module, 1));
  rank_elements(&scope, x, whole, &rank, &sign);
  IrOp *op = call(&scope, "order_key", key.element, 4, (IrExpr *[]){rank, sign, place, turn_of(build)});
  IrExpr *made = ir_value(module, ir_result(op, "key", key));
  IrExpr *last = ir_int(module, key.element == NUMBER_S64 ? INT64_MAX : INT32_MAX);
  scope_close(&scope, ir_emit_value(&scope.builder, OP_SELECT, key, "real", 3, found, made, last));
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
  write_values(build);
  write_found(build);
  write_epilogue(build);
  return true;
}
