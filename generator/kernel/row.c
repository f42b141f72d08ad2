/* Row kernels: prologue (loads and computes the row) and epilogue (computes and stores) around a row
 * template. */
#include "generator/program/row.h"
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"

typedef struct {
  IrExpr *row, *column;
  int64_t rows, cols;
  bool groups; /* of rows: tensors have a dim for these in front */
} Place;

/* Rows in groups: a tile's rows are of one group, so that a group has whole tiles, the last of which ends beyond it. How many
 * rows a group has no tensor says that repeats along them. */
static void find_group(const StepScope *scope, IrExpr **group, IrExpr **row)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *rows = ir_int(module, place->rows);
  IrExpr *inner = kernel_dim(scope->build, row_of(scope->build->op)->inner, "extent", NUMBER_S32);
  IrExpr *tiles = ir_call(module, "ceil_div", 2, inner, rows);
  IrExpr *span = ir_binary(module, OPERATOR_MUL, tiles, rows);
  *group = ir_binary(module, OPERATOR_DIV, place->row, span);
  *row = ir_binary(module, OPERATOR_MOD, place->row, span);
}

static IrExpr *corner(StepScope *scope, IrValue *tensor, int64_t *extent)
{
  const Place *place = scope->data;
  IrModule *module = scope->build->module;
  unsigned first = place->groups, rank = first + 2;
  IrExpr *at[3] = {place->row, place->row, place->column};
  const int64_t whole[3] = {1, place->rows, place->cols};
  int64_t stride;
  at[first] = place->row;
  at[first + 1] = place->column;
  if (first) find_group(scope, &at[0], &at[1]);
  for (unsigned d = 0; d < rank; d++) {
    bool repeats = ir_expr_is_int(tensor->type.strides[d], &stride) && stride == 0;
    if (repeats) at[d] = ir_int(module, 0);
    if (d >= first) extent[d - first] = repeats ? 1 : whole[d - first + 1];
  }
  return first ? ir_index(module, ir_value(module, tensor), 3, at[0], at[1], at[2])
               : ir_index(module, ir_value(module, tensor), 2, at[0], at[1]);
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  int64_t extent[2];
  IrExpr *access = corner(scope, scope->tensors[input], extent);
  return scope_load_tile(scope, input, access, extent);
}

static void open_place(StepScope *scope, Place *place, bool groups)
{
  IrModule *module = scope->build->module;
  place->rows = choice_parameter(scope->build->choice, "rows")->integer;
  place->cols = choice_parameter(scope->build->choice, "cols")->integer;
  place->row = ir_value(module, ir_parameter_new(scope->function, "row", ir_scalar(NUMBER_S32)));
  place->column = ir_value(module, ir_parameter_new(scope->function, "column", ir_scalar(NUMBER_S32)));
  place->groups = groups;
  scope->load = load_input;
  scope->data = place;
}

/* A tile of the full [rows, cols] shape: what the template computes on. */
static IrExpr *full_tile(StepScope *scope, IrExpr *value, NumberType element)
{
  IrModule *module = scope->build->module;
  const Place *place = scope->data;
  int64_t extent[2] = {place->rows, place->cols};
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
                               bool in_front, bool groups)
{
  StepScope scope = {0};
  Place place;
  scope_open(&scope, build, "prologue");
  open_place(&scope, &place, groups);
  scope_add_tensors(&scope);
  if (!scope_write_steps(&scope, in_front)) return false;
  StepWriter writer = kernel_steps(build, &scope.builder);
  IrExpr *value = step_convert(&writer, scope_operand(&scope, source), compute);
  value = full_tile(&scope, value, compute);
  scope_close(&scope, value);
  return true;
}

bool kernel_write_row_epilogue(KernelBuild *build, NumberType compute, bool per_row, bool moments,
                               bool groups)
{
  StepScope scope = {0};
  Place place;
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  scope_open(&scope, build, "epilogue");
  int64_t rows = choice_parameter(build->choice, "rows")->integer;
  int64_t extent[2] = {rows, per_row ? 1 : choice_parameter(build->choice, "cols")->integer};
  IrExpr *anchors[3] = {0};
  anchors[0] =
      ir_value(module, ir_parameter_new(scope.function, "value", ir_tile(module, compute, 2, extent, NULL)));
  if (moments) {
    int64_t one[2] = {rows, 1};
    anchors[1] =
        ir_value(module, ir_parameter_new(scope.function, "mean", ir_tile(module, NUMBER_F32, 2, one, NULL)));
    anchors[2] = ir_value(
        module, ir_parameter_new(scope.function, "scale", ir_tile(module, NUMBER_F32, 2, one, NULL)));
  }
  scope.anchor = anchors[0];
  open_place(&scope, &place, groups);
  scope_add_tensors(&scope);
  if (!scope_write_steps(&scope, false)) return false;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const FusedOutput *output = &op->outputs[i];
    IrValue *tensor = scope.tensors[op->n_inputs + i];
    int64_t shape[2];
    IrExpr *access = corner(&scope, tensor, shape);
    IrExpr *value = output->value.kind == OPERAND_ANCHOR ? anchors[output->anchor_output]
                                                         : scope_operand(&scope, &output->value);
    if (shape[1] != 1) value = full_tile(&scope, value, step_element(value, compute));
    ir_emit(&scope.builder, OP_STORE, 2, access, scope_stored(&scope, i, value));
  }
  scope_close(&scope, NULL);
  return true;
}

/* Rows with those beyond the end of each group. */
static const Symbolic *whole_tiles(const KernelBuild *build)
{
  const FusedRow *row = row_of(build->op);
  Arena *arena = build->module->arena;
  if (!row->inner) return row->rows;
  const Symbolic *rows = symbolic_constant(arena, choice_parameter(build->choice, "rows")->integer);
  const Symbolic *tiles = symbolic_mul(arena, build->op->dims[0], symbolic_ceil_div(arena, row->inner, rows));
  return symbolic_mul(arena, tiles, rows);
}

bool kernel_write_row(KernelBuild *build)
{
  if (g_str_equal(build->choice->template_name, "row")) {
    const FusedOperator *whole = row_of(build->op)->whole;
    if (whole) build->op = whole;
    return kernel_write_row_program(build);
  }
  const FusedRow *row = row_of(build->op);
  NumberType compute = row->kind == ROW_REDUCE_MEAN ? NUMBER_F32 : row->compute;
  bool groups = row->inner != NULL;
  kernel_bind_dim(build, "R", whole_tiles(build));
  kernel_bind_dim(build, "C", row->columns);
  kernel_add_operands(build, 0);
  return kernel_write_row_prologue(build, &row->source, row->compute, true, groups) &&
         kernel_write_row_epilogue(build, compute, row->reduction, row->kind == ROW_LAYER_NORM, groups);
}
