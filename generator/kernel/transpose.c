/* Elementwise kernels whose tensors are not all contiguous along one dimension: the body works on tiles of
 * the two dimensions along which they are (turned_elementwise). */
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"

typedef struct {
  IrExpr *at[3]; /* where the tile starts: batch, row, column */
  int64_t extent[2];
} Place;

/* A broadcast dimension has extent 1 and is read at 0. */
static IrExpr *corner(StepScope *scope, IrValue *tensor, int64_t *extent)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *at[3];
  int64_t stride;
  for (unsigned d = 0; d < 3; d++) {
    bool broadcast = ir_expr_is_int(tensor->type.strides[d], &stride) && stride == 0;
    at[d] = broadcast ? ir_int(module, 0) : place->at[d];
    if (d) extent[d - 1] = broadcast ? 1 : place->extent[d - 1];
  }
  return ir_index_array(module, ir_value(module, tensor), 3, at);
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  int64_t extent[2];
  IrExpr *access = corner(scope, scope->tensors[input], extent);
  return scope_load_tile(scope, input, access, extent);
}

/* What does not vary along one of the dimensions, written out. */
static IrExpr *whole_tile(StepScope *scope, IrExpr *value, NumberType element)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  bool whole = value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE &&
               ir_tile_extent(&value->value->type, 0) == place->extent[0] &&
               ir_tile_extent(&value->value->type, 1) == place->extent[1];
  if (whole) return value;
  IrType type = ir_tile(module, element, 2, place->extent, NULL);
  IrExpr *zero = number_class(element) == NUMBER_FLOAT ? ir_float(module, -0.0) : ir_int(module, 0);
  IrExpr *blank = ir_emit_value(&scope->builder, OP_SPLAT, type, "blank", 1, zero);
  return ir_emit_value(&scope->builder, OP_ADD, type, "spread", 2, blank, value); /* x + -0 is x */
}

static void store_outputs(StepScope *scope)
{
  KernelBuild *build = scope->build;
  const FusedOperator *op = build->op;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    IrValue *tensor = scope->tensors[op->n_inputs + i];
    IrExpr *value = scope_operand(scope, &op->outputs[i].value);
    value = whole_tile(scope, value, step_element(value, scope_output_type(scope, i)));
    int64_t extent[2];
    IrExpr *access = corner(scope, tensor, extent);
    ir_emit(&scope->builder, OP_STORE, 2, access, scope_stored(scope, i, value));
  }
}

bool kernel_write_transpose(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  IrModule *module = build->module;
  bool batches = op->rank == 3;
  kernel_bind_dim(build, "G", batches ? op->dims[0] : symbolic_constant(build->expressions, 1));
  kernel_bind_dim(build, "M", op->dims[op->rank - 2]);
  kernel_bind_dim(build, "N", op->dims[op->rank - 1]);
  kernel_add_operands(build, batches ? 0 : 1);
  StepScope scope = {0};
  Place place = {.extent = {choice_int(build->choice, "bm", 0), choice_int(build->choice, "bn", 0)}};
  static const char *const names[3] = {"batch", "row", "column"};
  scope_open(&scope, build, "body");
  for (unsigned d = 0; d < 3; d++)
    place.at[d] = ir_value(module, ir_parameter_new(scope.function, names[d], ir_scalar(NUMBER_S32)));
  scope.load = load_input;
  scope.data = &place;
  scope_add_tensors(&scope);
  if (!scope_write_steps(&scope, false)) return false;
  store_outputs(&scope);
  scope_close(&scope, NULL);
  return true;
}
