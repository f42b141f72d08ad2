/* Elementwise kernels: inputs that are read at loaded or computed indices, and indices as values.
 *
 * What is the same for all elements of a group is computed once for it, in tiles [groups, 1]; what changes along a row (the
 * last dim) for each element, in tiles [groups, vector]. */
#include "generator/kernel/elementwise.h"

/* A tile with a column for each element of a group, or with one for all. */
static bool is_wide(const ElementPoint *place, const IrExpr *value)
{
  return value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE &&
         ir_tile_extent(&value->value->type, 1) == place->vector;
}

IrExpr *element_wide(StepScope *scope, IrOpcode code, NumberType element, const char *name, IrExpr *a,
                     IrExpr *b)
{
  const ElementPoint *place = scope->data;
  bool wide = is_wide(place, a) || (b && is_wide(place, b));
  int64_t extent[2] = {place->groups, wide ? place->vector : 1};
  IrType type = ir_tile(scope->build->module, element, 2, extent, NULL);
  return b ? ir_emit_value(&scope->builder, code, type, name, 2, a, b)
           : ir_emit_value(&scope->builder, code, type, name, 1, a);
}

/* 0 .. vector - 1 along a group. */
static IrExpr *columns(StepScope *scope)
{
  const ElementPoint *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t extent[2] = {place->groups, place->vector};
  IrOp *iota = ir_emit_array(&scope->builder, OP_IOTA, 0, NULL);
  ir_attribute_set(iota, ATTR_DIM, ir_int(module, 1));
  return ir_value(module, ir_result(iota, "column", ir_tile(module, NUMBER_S64, 2, extent, NULL)));
}

/* Index of each point along an axis of the program. */
static IrExpr *point_along(StepScope *scope, unsigned axis)
{
  const ElementPoint *place = scope->data;
  const FusedOperator *op = scope->build->op;
  int dim = elementwise_of(op)->dims[axis];
  if (place->walked[axis])
    return element_tile(scope, OP_SPLAT, NUMBER_S64, "walked", place->walked[axis], NULL);
  if (dim < 0) return ir_int(scope->build->module, 0);
  IrExpr *at = place->coordinates[dim];
  if (dim != (int)op->rank - 1 || place->vector == 1) return at;
  return element_wide(scope, OP_ADD, NUMBER_S64, "at", columns(scope), at);
}

static bool is_number(const IrExpr *value, int64_t number)
{
  int64_t known;
  return ir_expr_is_int(value, &known) && known == number;
}

static IrExpr *combine(StepScope *scope, SymbolicKind kind, IrExpr *a, IrExpr *b)
{
  static const struct {
    SymbolicKind kind;
    IrOpcode code;
    const char *name;
  } forms[] = {
      {SYMBOLIC_ADD, OP_ADD, "sum"},  {SYMBOLIC_MUL, OP_MUL, "product"}, {SYMBOLIC_DIV, OP_DIV, "quotient"},
      {SYMBOLIC_MOD, OP_REM, "rest"}, {SYMBOLIC_MIN, OP_MIN, "least"},   {SYMBOLIC_MAX, OP_MAX, "most"},
  };
  if (kind == SYMBOLIC_ADD && is_number(a, 0)) return b;
  if (kind == SYMBOLIC_ADD && is_number(b, 0)) return a;
  if (kind == SYMBOLIC_MUL && is_number(a, 1)) return b;
  if (kind == SYMBOLIC_MUL && is_number(b, 1)) return a;
  for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++)
    if (forms[i].kind == kind) return element_wide(scope, forms[i].code, NUMBER_S64, forms[i].name, a, b);
  return NULL;
}

/* An expression of axes as a tile; without any as a number or a dim of the kernel. */
static IrExpr *evaluate(StepScope *scope, const Symbolic *expression)
{
  const Program *program = scope->build->op->program;
  uint32_t axes = program_axes_in(program, expression);
  if (!axes) return kernel_dim(scope->build, expression, "index", NUMBER_S64);
  if (expression->kind == SYMBOLIC_SYMBOL) return point_along(scope, (unsigned)__builtin_ctz(axes));
  IrExpr *a = evaluate(scope, expression->a), *b = evaluate(scope, expression->b);
  bool number_first = a->kind != EXPR_VALUE; /* of commutative ones the tile comes first */
  bool commutes = expression->kind != SYMBOLIC_DIV && expression->kind != SYMBOLIC_MOD;
  if (number_first && b->kind != EXPR_VALUE) a = element_tile(scope, OP_SPLAT, NUMBER_S64, "index", a, NULL);
  return combine(scope, expression->kind, number_first && commutes ? b : a, number_first && commutes ? a : b);
}

IrExpr *element_index_value(StepScope *scope, unsigned value)
{
  IrExpr *index = evaluate(scope, elementwise_of(scope->build->op)->values[value]);
  return index->kind == EXPR_VALUE ? index : element_tile(scope, OP_SPLAT, NUMBER_S64, "index", index, NULL);
}

/* What is loaded, in the type of offsets. */
static IrExpr *loaded_index(StepScope *scope, const FusedOperand *operand)
{
  IrExpr *value = scope_operand(scope, operand);
  if (step_element(value, NUMBER_S64) == NUMBER_S64) return value;
  return element_wide(scope, OP_CAST, NUMBER_S64, "loaded", value, NULL);
}

static IrExpr *full_index(StepScope *scope, const ElementIndex *index)
{
  IrExpr *value = evaluate(scope, index->of_axes);
  if (index->loaded.kind != OPERAND_ABSENT) {
    IrExpr *loaded = loaded_index(scope, &index->loaded);
    value = combine(scope, SYMBOLIC_ADD, loaded, value);
  }
  return value->kind == EXPR_VALUE ? value : element_tile(scope, OP_SPLAT, NUMBER_S64, "index", value, NULL);
}

static IrExpr *and_inside(StepScope *scope, const ElementIndex *index, IrExpr *value, IrExpr *mask)
{
  IrModule *module = scope->build->module;
  IrExpr *extent = kernel_dim(scope->build, index->extent, "extent", NUMBER_S64);
  IrExpr *behind = element_wide(scope, OP_GE, NUMBER_BOOL, "begins", value, ir_int(module, 0));
  IrExpr *before = element_wide(scope, OP_LT, NUMBER_BOOL, "ends", value, extent);
  mask = element_wide(scope, OP_AND, NUMBER_BOOL, "inside", mask, behind);
  return element_wide(scope, OP_AND, NUMBER_BOOL, "inside", mask, before);
}

static IrExpr *fill_of(const StepScope *scope, unsigned input, double fill)
{
  const GraphTensor *tensor = scope->build->op->inputs[input].tensor;
  IrModule *module = scope->build->module;
  NumberType type = scope->tensors[input]->type.element;
  guint8 byte;
  if (type != tensor->type && number_is_small_float(tensor->type)) { /* bytes */
    number_from_double(tensor->type, fill, true, &byte);
    return ir_int(module, byte);
  }
  return number_class(type) == NUMBER_FLOAT ? ir_float(module, fill) : ir_int(module, (int64_t)fill);
}

/* Where the elements of a group lie that has places of its own, and which of them are inside (*mask). scatters: each element has
 * its own; along: the strides lead from element to element. */
static IrExpr *placed_offset(StepScope *scope, const ElementPlace *place, const FlatStrides *flat,
                             bool scatters, bool along, IrExpr **mask)
{
  const ElementBody *body = scope->data;
  const ElementPoint *point = &body->place;
  unsigned rank = scope->build->op->rank;
  IrExpr *offset = element_offset(scope, flat, rank);
  *mask = point->inside;
  if (point->more && (scatters || along || !is_wide(point, point->more)))
    *mask = element_wide(scope, OP_AND, NUMBER_BOOL, "more", point->more, point->inside);
  if (scatters && along && point->vector > 1) { /* the strides' own step from element to element */
    IrExpr *stride = flat->strides[rank - 1];
    offset = combine(scope, SYMBOLIC_ADD, combine(scope, SYMBOLIC_MUL, columns(scope), stride), offset);
  }
  for (unsigned i = 0; i < place->n; i++) {
    const ElementIndex *index = &place->indices[i];
    IrExpr *value = full_index(scope, index);
    if (index->extent) *mask = and_inside(scope, index, value, *mask);
    IrExpr *stride = kernel_dim(scope->build, index->stride, "stride", NUMBER_S64);
    offset = combine(scope, SYMBOLIC_ADD, combine(scope, SYMBOLIC_MUL, value, stride), offset);
  }
  /* gather and scatter add the column to the offset of its row */
  if (is_wide(point, offset) && point->vector > 1)
    offset = element_wide(scope, OP_SUB, NUMBER_S64, "offset", offset, columns(scope));
  return offset;
}

IrExpr *element_load_indexed(StepScope *scope, unsigned input)
{
  const ElementBody *body = scope->data;
  const ElementPoint *point = &body->place;
  const FusedOperator *op = scope->build->op;
  const ElementPlace *place = elementwise_place(op, input);
  IrModule *module = scope->build->module;
  IrValue *tensor = scope->tensors[input];
  bool scatters = elementwise_scatters(op, input),
       along = !symbolic_equals(op->inputs[input].strides[op->rank - 1], 0);
  IrExpr *mask, *offset = placed_offset(scope, place, &body->inputs[input], scatters, along, &mask);
  int64_t extent[2] = {point->groups, scatters || along ? point->vector : 1};
  IrExpr *loaded =
      ir_emit_value(&scope->builder, OP_GATHER, ir_tile(module, tensor->type.element, 2, extent, NULL),
                    tensor->name, 2, ir_value(module, tensor), offset);
  IrOp *gather = loaded->value->def;
  ir_attribute_set(gather, ATTR_WHERE, mask);
  ir_attribute_set(gather, ATTR_FILL, fill_of(scope, input, place->fill));
  if (extent[1] > 1) ir_attribute_set(gather, ATTR_ALIGNED, ir_int(module, scatters ? 1 : point->vector));
  return loaded;
}

void element_store_indexed(StepScope *scope, unsigned output, IrExpr *value)
{
  const ElementBody *body = scope->data;
  const FusedOperator *op = scope->build->op;
  bool scatters = elementwise_scatters(op, op->n_inputs + output),
       along = !symbolic_equals(op->outputs[output].strides[op->rank - 1], 0);
  IrModule *module = scope->build->module;
  IrExpr *mask, *offset = placed_offset(scope, elementwise_target(op, output), &body->outputs[output],
                                        scatters, along, &mask);
  IrOp *store = ir_emit(&scope->builder, OP_SCATTER, 3,
                        ir_value(module, scope->tensors[op->n_inputs + output]), offset, value);
  ir_attribute_set(store, ATTR_WHERE, mask);
  ir_attribute_set(store, ATTR_ALIGNED, ir_int(module, scatters ? 1 : body->place.vector));
}
