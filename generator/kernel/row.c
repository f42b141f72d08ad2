/* Kernels around a template of rows: prologue (loads and computes the row) and epilogue (computes and stores). */
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"

typedef struct {
  IrExpr *row, *column;
  int64_t rows, cols;
} Place;

static IrExpr *corner(StepScope *scope, IrValue *tensor, int64_t *extent)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *at[2] = {place->row, place->column};
  const int64_t whole[2] = {place->rows, place->cols};
  int64_t stride;
  for (unsigned d = 0; d < 2; d++) {
    bool repeats = ir_expr_is_int(tensor->type.strides[d], &stride) && stride == 0;
    if (repeats) at[d] = ir_int(module, 0);
    extent[d] = repeats ? 1 : whole[d];
  }
  return ir_index_array(module, ir_value(module, tensor), 2, at);
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  int64_t extent[2];
  IrExpr *access = corner(scope, scope->tensors[input], extent);
  if (extent[0] == 1) extent[0] = scope_rows_loaded(scope, input, ((const Place *)scope->data)->rows);
  return scope_load_tile(scope, input, access, extent);
}

static void open_place(StepScope *scope, Place *place)
{
  IrModule *module = scope->build->module;
  place->rows = choice_parameter(scope->build->choice, "rows")->integer;
  place->cols = choice_parameter(scope->build->choice, "cols")->integer;
  place->row = ir_value(module, ir_parameter_new(scope->function, "row", ir_scalar(NUMBER_S32)));
  place->column = ir_value(module, ir_parameter_new(scope->function, "column", ir_scalar(NUMBER_S32)));
  scope->load = load_input;
  scope->data = place;
}

/* A tile of a [rows, cols] shape: what the template computes on. */
static IrExpr *full_tile(StepScope *scope, IrExpr *value, NumberType element, int64_t cols)
{
  IrModule *module = scope->build->module;
  const Place *place = scope->data;
  int64_t extent[2] = {place->rows, cols};
  IrType type = ir_tile(module, element, 2, extent, NULL);
  bool full = value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE &&
              ir_tile_extent(&value->value->type, 0) == extent[0] &&
              ir_tile_extent(&value->value->type, 1) == extent[1];
  if (full) return value;
  IrExpr *zero = number_class(element) == NUMBER_FLOAT ? ir_float(module, -0.0) : ir_int(module, 0);
  IrExpr *blank = ir_emit_value(&scope->builder, OP_SPLAT, type, "blank", 1, zero);
  return ir_emit_value(&scope->builder, OP_ADD, type, "spread", 2, blank, value); /* x + -0 is x */
}

bool kernel_write_row_prologue(KernelBuild *build, const FusedOperand *source, NumberType compute,
                               bool in_front)
{
  StepScope scope = {0};
  Place place;
  scope_open(&scope, build, "prologue");
  open_place(&scope, &place);
  scope_add_tensors(&scope);
  if (!scope_write_steps(&scope, in_front)) return false;
  StepWriter writer = kernel_steps(build, &scope.builder);
  IrExpr *value = step_convert(&writer, scope_operand(&scope, source), compute);
  value = full_tile(&scope, value, compute, place.cols);
  scope_close(&scope, value);
  return true;
}

bool kernel_write_row_epilogue(KernelBuild *build, NumberType compute)
{
  StepScope scope = {0};
  Place place;
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  scope_open(&scope, build, "epilogue");
  int64_t rows = choice_parameter(build->choice, "rows")->integer;
  int64_t extent[2] = {rows, choice_parameter(build->choice, "cols")->integer};
  scope.anchors[0] =
      ir_value(module, ir_parameter_new(scope.function, "value", ir_tile(module, compute, 2, extent, NULL)));
  open_place(&scope, &place);
  scope_add_tensors(&scope);
  if (!scope_write_steps(&scope, false)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const FusedOutput *output = &op->outputs[i];
    IrValue *tensor = scope.tensors[op->n_inputs + i];
    int64_t shape[2];
    IrExpr *access = corner(&scope, tensor, shape);
    IrExpr *value = scope_operand(&scope, &output->value);
    bool per_row = shape[1] == 1;
    if (!per_row || value->kind != EXPR_VALUE)
      value = full_tile(&scope, value, step_element(value, scope_output_type(&scope, i)),
                        per_row ? 1 : place.cols);
    ir_emit(&scope.builder, OP_STORE, 2, access, scope_stored(&scope, i, value));
  }
  scope_close(&scope, NULL);
  return true;
}
