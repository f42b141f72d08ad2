/* Row programs: where elements and rows lie, as values, and inputs of one value a row that are read at indices. */
#include "generator/kernel/row_program.h"

IrType row_tile_wide(const StepScope *scope, NumberType element, int64_t cols)
{
  const RowTile *tile = scope->data;
  int64_t extent[2] = {tile->rows, cols};
  return ir_tile(scope->build->module, element, 2, extent, NULL);
}

IrType row_tile_type(const StepScope *scope, NumberType element, bool per_row)
{
  return row_tile_wide(scope, element, per_row ? 1 : ((const RowTile *)scope->data)->cols);
}

int64_t row_groups(const StepScope *scope)
{
  const RowTile *tile = scope->data;
  return tile->cols / row_of(scope->build->op)->group;
}

IrExpr *row_tile(StepScope *scope, IrOpcode code, IrType type, const char *name, IrExpr *a, IrExpr *b)
{
  return b ? ir_emit_value(&scope->builder, code, type, name, 2, a, b)
           : ir_emit_value(&scope->builder, code, type, name, 1, a);
}

static IrExpr *count(StepScope *scope, unsigned dim, int64_t rows, int64_t cols, const char *name)
{
  IrModule *module = scope->build->module;
  int64_t extent[2] = {rows, cols};
  IrOp *iota = ir_emit_array(&scope->builder, OP_IOTA, 0, NULL);
  ir_attribute_set(iota, ATTR_DIM, ir_int(module, dim));
  return ir_value(module, ir_result(iota, name, ir_tile(module, NUMBER_S32, 2, extent, NULL)));
}

IrExpr *row_column(StepScope *scope)
{
  RowTile *tile = scope->data;
  if (!tile->column) tile->column = count(scope, 1, 1, tile->cols, "column");
  return tile->column;
}

/* ---- expressions of axes ---- */

/* A number, or a tile as wide as its operands: [rows or 1, cols or 1]. */
static IrExpr *combined(StepScope *scope, IrOpcode code, NumberType element, const char *name, IrExpr *a,
                        IrExpr *b)
{
  IrModule *module = scope->build->module;
  int64_t extent[2] = {1, 1};
  IrExpr *const operands[] = {a, b};
  bool tiles = false;
  for (unsigned i = 0; i < G_N_ELEMENTS(operands); i++) {
    if (operands[i]->kind != EXPR_VALUE || operands[i]->value->type.kind != TYPE_TILE) continue;
    tiles = true;
    for (unsigned d = 0; d < 2; d++)
      extent[d] = MAX(extent[d], ir_tile_extent(&operands[i]->value->type, d));
  }
  IrType type = tiles ? ir_tile(module, element, 2, extent, NULL) : ir_scalar(element);
  return row_tile(scope, code, type, name, a, b);
}

/* The row that a tile's value belongs to, along a dim. */
static IrExpr *row_along(StepScope *scope, unsigned dim)
{
  const RowTile *tile = scope->data;
  bool last = dim + 2 == scope->build->op->rank;
  if (!last || tile->rows == 1) return tile->at[dim];
  return combined(scope, OP_ADD, NUMBER_S32, "row", count(scope, 0, tile->rows, 1, "place"), tile->at[dim]);
}

static IrExpr *along(StepScope *scope, unsigned axis)
{
  const FusedOperator *op = scope->build->op;
  int dim = row_of(op)->points->dims[axis];
  if (dim < 0) return ir_int(scope->build->module, 0);
  return dim + 1 == (int)op->rank ? row_column(scope) : row_along(scope, (unsigned)dim);
}

static IrOpcode code_of(SymbolicKind kind)
{
  switch ((unsigned)kind) {
  case SYMBOLIC_MUL: return OP_MUL;
  case SYMBOLIC_DIV: return OP_DIV;
  case SYMBOLIC_MOD: return OP_REM;
  case SYMBOLIC_MIN: return OP_MIN;
  case SYMBOLIC_MAX: return OP_MAX;
  default: return OP_ADD;
  }
}

static IrExpr *evaluate(StepScope *scope, const Symbolic *expression)
{
  const FusedOperator *op = scope->build->op;
  uint32_t axes = program_axes_in(op->program, expression);
  if (!axes) return kernel_dim(scope->build, expression, "index", NUMBER_S32);
  if (row_of(op)->column && symbolic_same(expression, row_of(op)->column)) return row_column(scope);
  if (expression->kind == SYMBOLIC_SYMBOL) return along(scope, (unsigned)__builtin_ctz(axes));
  IrExpr *a = evaluate(scope, expression->a), *b = evaluate(scope, expression->b);
  bool commutes = expression->kind != SYMBOLIC_DIV && expression->kind != SYMBOLIC_MOD;
  bool turned = commutes && a->kind != EXPR_VALUE; /* a tile comes first */
  return combined(scope, code_of(expression->kind), NUMBER_S32, "index", turned ? b : a, turned ? a : b);
}

/* One value a row. */
static IrExpr *per_row(StepScope *scope, IrExpr *value, NumberType element)
{
  const RowTile *tile = scope->data;
  IrModule *module = scope->build->module;
  IrType type = row_tile_type(scope, element, true);
  bool whole = value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE &&
               ir_tile_extent(&value->value->type, 0) == tile->rows;
  if (whole) return value;
  return row_tile(scope, OP_ADD, type, "spread",
                  row_tile(scope, OP_SPLAT, type, "blank", ir_int(module, 0), NULL), value);
}

IrExpr *row_index_value(StepScope *scope, unsigned value)
{
  const RowTile *tile = scope->data;
  IrExpr *index = evaluate(scope, row_of(scope->build->op)->points->values[value]);
  bool wide = index->kind == EXPR_VALUE && index->value->type.kind == TYPE_TILE &&
              ir_tile_extent(&index->value->type, 1) == tile->cols;
  return wide ? index : per_row(scope, index, NUMBER_S32);
}

/* ---- what is read at indices ---- */

static IrExpr *widened(StepScope *scope, IrExpr *value)
{
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  return step_convert(&writer, per_row(scope, value, NUMBER_S32), NUMBER_S64);
}

static IrExpr *full_index(StepScope *scope, const ElementIndex *index)
{
  IrExpr *value = widened(scope, evaluate(scope, index->of_axes));
  if (index->loaded.kind == OPERAND_ABSENT) return value;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  IrExpr *loaded = step_convert(&writer, scope_operand(scope, &index->loaded), NUMBER_S64);
  return combined(scope, OP_ADD, NUMBER_S64, "index", loaded, value);
}

static IrExpr *both(StepScope *scope, IrExpr *a, IrExpr *b)
{
  return a ? combined(scope, OP_AND, NUMBER_BOOL, "inside", a, b) : b;
}

/* Rows of the tile that there are. */
static IrExpr *rows_inside(StepScope *scope)
{
  const FusedOperator *op = scope->build->op;
  const RowTile *tile = scope->data;
  unsigned last = op->rank - 2;
  IrExpr *extent = kernel_dim(scope->build, op->dims[last], "extent", NUMBER_S32);
  if (tile->rows == 1) return NULL;
  return combined(scope, OP_LT, NUMBER_BOOL, "exists", row_along(scope, last), extent);
}

IrExpr *row_load_indexed(StepScope *scope, unsigned input)
{
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  const ElementPlace *place = &row_of(op)->points->places[input];
  IrValue *tensor = scope->tensors[input];
  IrExpr *mask = rows_inside(scope), *offset = widened(scope, ir_int(module, 0));
  for (unsigned d = 0; d + 1 < op->rank; d++) {
    IrExpr *stride = tensor->type.strides[d];
    int64_t constant;
    if (ir_expr_is_int(stride, &constant) && constant == 0) continue;
    IrExpr *step = combined(scope, OP_MUL, NUMBER_S64, "step", widened(scope, row_along(scope, d)), stride);
    offset = combined(scope, OP_ADD, NUMBER_S64, "offset", offset, step);
  }
  for (unsigned i = 0; i < place->n; i++) {
    const ElementIndex *index = &place->indices[i];
    IrExpr *value = full_index(scope, index);
    if (index->extent) {
      IrExpr *extent = kernel_dim(build, index->extent, "extent", NUMBER_S64);
      mask = both(scope, mask, combined(scope, OP_GE, NUMBER_BOOL, "begins", value, ir_int(module, 0)));
      mask = both(scope, mask, combined(scope, OP_LT, NUMBER_BOOL, "ends", value, extent));
    }
    IrExpr *stride = kernel_dim(build, index->stride, "stride", NUMBER_S64);
    IrExpr *step = combined(scope, OP_MUL, NUMBER_S64, "step", value, stride);
    offset = combined(scope, OP_ADD, NUMBER_S64, "offset", offset, step);
  }
  IrExpr *loaded = ir_emit_value(&scope->builder, OP_GATHER, row_tile_type(scope, tensor->type.element, true),
                                 tensor->name, 2, ir_value(module, tensor), offset);
  bool is_float = number_class(tensor->type.element) == NUMBER_FLOAT;
  if (mask) ir_attribute_set(loaded->value->def, ATTR_WHERE, mask);
  ir_attribute_set(loaded->value->def, ATTR_FILL,
                   is_float ? ir_float(module, place->fill) : ir_int(module, (int64_t)place->fill));
  return loaded;
}
