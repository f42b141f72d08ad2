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
  return ir_value(module, ir_result(iota, "column", ir_tile(module, place->arithmetic, 2, extent, NULL)));
}

/* Index of each point along an axis of the program. */
static IrExpr *point_along(StepScope *scope, unsigned axis)
{
  const ElementPoint *place = scope->data;
  const FusedOperator *op = scope->build->op;
  const NumberType type = place->arithmetic;
  int dim = elementwise_of(op)->dims[axis];
  if (place->walked[axis])
    return element_tile(scope, OP_SPLAT, type, "walked",
                        type == NUMBER_S32 ? place->steps[axis] : place->walked[axis], NULL);
  if (dim < 0) return ir_int(scope->build->module, 0);
  IrExpr *at = type == NUMBER_S32 ? place->shorts[dim] : place->coordinates[dim];
  if (dim != (int)op->rank - 1 || place->vector == 1) return at;
  return element_wide(scope, OP_ADD, type, "at", columns(scope), at);
}

static bool is_number(const IrExpr *value, int64_t number)
{
  int64_t known;
  return ir_expr_is_int(value, &known) && known == number;
}

static IrExpr *combine(StepScope *scope, SymbolicKind kind, IrExpr *a, IrExpr *b)
{
  const ElementPoint *place = scope->data;
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
    if (forms[i].kind == kind)
      return element_wide(scope, forms[i].code, place->arithmetic, forms[i].name, a, b);
  return NULL;
}

static IrExpr *splat(StepScope *scope, IrExpr *number)
{
  const ElementPoint *place = scope->data;
  return element_tile(scope, OP_SPLAT, place->arithmetic, "index", number, NULL);
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
  if (number_first && b->kind != EXPR_VALUE) a = splat(scope, a);
  return combine(scope, expression->kind, number_first && commutes ? b : a, number_first && commutes ? a : b);
}

IrExpr *element_index_value(StepScope *scope, unsigned value)
{
  IrExpr *index = evaluate(scope, elementwise_of(scope->build->op)->values[value]);
  return index->kind == EXPR_VALUE ? index : splat(scope, index);
}

/* What is loaded, in the type of offsets. */
static IrExpr *loaded_index(StepScope *scope, const FusedOperand *operand)
{
  IrExpr *value = scope_operand(scope, operand);
  const NumberType arithmetic = ((const ElementPoint *)scope->data)->arithmetic;
  if (step_element(value, NUMBER_S64) == arithmetic) return value;
  return element_wide(scope, OP_CAST, arithmetic, "loaded", value, NULL);
}

static IrExpr *full_index(StepScope *scope, const ElementIndex *index)
{
  IrExpr *value = evaluate(scope, index->of_axes);
  if (index->loaded.kind != OPERAND_ABSENT) {
    IrExpr *loaded = loaded_index(scope, &index->loaded);
    value = combine(scope, SYMBOLIC_ADD, loaded, value);
  }
  return value->kind == EXPR_VALUE ? value : splat(scope, value);
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

/* ---- offsets ---- */

typedef struct {
  const FusedOperator *op;
  const SymbolicFacts *facts; /* of symbols and axes */
  int64_t least, most;        /* of what was added up; INT64_MIN, INT64_MAX: nobody knows */
} Reach;

static int64_t add_bounded(int64_t a, int64_t b, int64_t none)
{
  int64_t sum;
  return a == none || b == none || __builtin_add_overflow(a, b, &sum) ? none : sum;
}

/* `times` is not negative. */
static void reach(Reach *to, const Symbolic *index, const Symbolic *times)
{
  int64_t least, most, stride;
  symbolic_range(index, to->facts, &least, &most);
  bool known = symbolic_is_constant(times, &stride) && stride >= 0 && least > INT32_MIN && most < INT32_MAX &&
               stride < INT32_MAX;
  to->least = add_bounded(to->least, known ? least * stride : INT64_MIN, INT64_MIN);
  to->most = add_bounded(to->most, known ? most * stride : INT64_MAX, INT64_MAX);
}

/* ---- indices that are sums of axes ---- */

/* An index, or an offset: what it grows by along each dim of the operator, along each axis that is walked, and the rest. */
typedef struct {
  const Symbolic *of_dims[FUSED_MAX_RANK + 1], *of_axes[PROGRAM_MAX_AXES], *rest;
} Affine;

static const Symbolic *axes_at_origin(const Symbolic *leaf, void *data)
{
  const KernelBuild *build = data;
  return program_axes_in(build->op->program, leaf) ? symbolic_constant(build->expressions, 0) : NULL;
}

/* May factors be symbols, and what is loaded counted in 32 bits? Of what points walk through: other kernels have few accesses. */
static bool may_be_symbols(const StepScope *scope)
{
  return elementwise_of(scope->build->op) && elementwise_of(scope->build->op)->n_walks;
}

static bool is_factor(const StepScope *scope, const Symbolic *factor)
{
  return factor && (may_be_symbols(scope) || symbolic_is_constant(factor, NULL));
}

static Affine affine_zero(const StepScope *scope)
{
  Affine zero;
  zero.rest = symbolic_constant(scope->build->expressions, 0);
  for (unsigned d = 0; d < G_N_ELEMENTS(zero.of_dims); d++)
    zero.of_dims[d] = zero.rest;
  for (unsigned axis = 0; axis < G_N_ELEMENTS(zero.of_axes); axis++)
    zero.of_axes[axis] = zero.rest;
  return zero;
}

static void add_times(const StepScope *scope, const Symbolic **sum, const Symbolic *factor,
                      const Symbolic *times)
{
  Arena *arena = scope->build->expressions;
  *sum = symbolic_add(arena, *sum, symbolic_mul(arena, factor, times));
}

/* Adds so many times the expression; false: it is no such sum. */
static bool add_affine(const StepScope *scope, Affine *sum, const Symbolic *expression, const Symbolic *times)
{
  KernelBuild *build = scope->build;
  const FusedOperator *op = build->op;
  const Program *program = op->program;
  const ElementPoint *point = scope->data;
  uint32_t axes = program_axes_in(program, expression);
  for (unsigned axis = 0; axis < program->n_axes; axis++) {
    if (!(axes >> axis & 1)) continue;
    const Symbolic *step = program_step(program, build->expressions, expression, axis);
    int dim = elementwise_of(op)->dims[axis];
    if (!is_factor(scope, step)) return false;
    if (point->walked[axis])
      add_times(scope, &sum->of_axes[axis], step, times);
    else if (dim >= 0)
      add_times(scope, &sum->of_dims[dim], step, times);
  }
  const Symbolic *first = symbolic_substitute(build->expressions, expression, axes_at_origin, build);
  if (!is_factor(scope, first)) return false;
  add_times(scope, &sum->rest, first, times);
  return true;
}

static bool is_nothing(const Symbolic *factor)
{
  return symbolic_equals(factor, 0);
}

/* A factor in the arithmetic of indices; a dim of the kernel may have been declared wider. */
static IrExpr *number_of(StepScope *scope, const Symbolic *factor)
{
  const ElementPoint *point = scope->data;
  IrExpr *number = kernel_dim(scope->build, factor, "step", NUMBER_S64);
  if (number->kind != EXPR_DIM || ir_dim_find(scope->build->kernel, number->name)->type == point->arithmetic)
    return number;
  return ir_emit_value(&scope->builder, OP_CAST, ir_scalar(point->arithmetic), "step", 1, number);
}

/* Of the first element of a group, in front of all loops: [groups, 1]; NULL: 0. */
static IrExpr *affine_first(StepScope *scope, const Affine *sum)
{
  const ElementPoint *point = scope->data;
  IrExpr *first = NULL;
  for (unsigned d = 0; d < scope->build->op->rank; d++) {
    if (is_nothing(sum->of_dims[d])) continue;
    IrExpr *at = point->arithmetic == NUMBER_S32 ? point->shorts[d] : point->coordinates[d];
    IrExpr *term = combine(scope, SYMBOLIC_MUL, at, number_of(scope, sum->of_dims[d]));
    first = first ? combine(scope, SYMBOLIC_ADD, first, term) : term;
  }
  return first;
}

/* What an element, and the steps of loops, add to it: numbers once loops are written out. negative: less that; `more` besides; `columns_less`: less so
 * many for each column. */
static IrExpr *affine_rest(StepScope *scope, const Affine *sum, bool negative, const Symbolic *more,
                           int64_t columns_less)
{
  const ElementPoint *point = scope->data;
  const FusedOperator *op = scope->build->op;
  Arena *arena = scope->build->expressions;
  IrModule *module = scope->build->module;
  const Symbolic *sign = symbolic_constant(arena, negative ? -1 : 1),
                 *whole = symbolic_mul(arena, sign, sum->rest),
                 *along =
                     symbolic_sub(arena, sum->of_dims[op->rank - 1], symbolic_constant(arena, columns_less));
  IrExpr *rest = number_of(scope, more ? symbolic_add(arena, whole, more) : whole);
  for (unsigned axis = 0; axis < op->program->n_axes; axis++) {
    IrExpr *step = point->arithmetic == NUMBER_S32 ? point->steps[axis] : point->walked[axis];
    if (is_nothing(sum->of_axes[axis])) continue;
    step = ir_binary(module, OPERATOR_MUL, step,
                     number_of(scope, symbolic_mul(arena, sign, sum->of_axes[axis])));
    rest = ir_binary(module, OPERATOR_ADD, step, rest);
  }
  if (point->vector == 1 || is_nothing(along)) return rest;
  return combine(
      scope, SYMBOLIC_ADD,
      combine(scope, SYMBOLIC_MUL, columns(scope), number_of(scope, symbolic_mul(arena, sign, along))), rest);
}

/* *mask of what is inside along a dimension, by comparing what is in front of loops with what is constant in them. */
static void affine_inside(StepScope *scope, const Affine *index, const Symbolic *extent, IrExpr **narrow,
                          IrExpr **wide)
{
  const ElementPoint *point = scope->data;
  IrExpr *first = affine_first(scope, index);
  if (!first) first = splat(scope, ir_int(scope->build->module, 0));
  IrExpr *begins =
      element_wide(scope, OP_GE, NUMBER_BOOL, "begins", first, affine_rest(scope, index, true, NULL, 0));
  IrExpr *ends =
      element_wide(scope, OP_LT, NUMBER_BOOL, "ends", first, affine_rest(scope, index, true, extent, 0));
  IrExpr *inside = element_wide(scope, OP_AND, NUMBER_BOOL, "inside", begins, ends);
  IrExpr **mask = is_wide(point, inside) ? wide : narrow;
  *mask = *mask ? element_wide(scope, OP_AND, NUMBER_BOOL, "inside", *mask, inside) : inside;
}

/* The offset of all indices, and whether each is such a sum. */
static bool add_offset(const StepScope *scope, const ElementPlace *place, const Symbolic *const *strides,
                       Affine *sum)
{
  const Symbolic *one = symbolic_constant(scope->build->expressions, 1);
  for (unsigned d = 0; d < scope->build->op->rank; d++) {
    if (!is_factor(scope, strides[d])) return false;
    sum->of_dims[d] = strides[d];
  }
  for (unsigned i = 0; place && i < place->n; i++) {
    const ElementIndex *index = &place->indices[i];
    Affine alone = affine_zero(scope);
    if (index->loaded.kind != OPERAND_ABSENT || (index->extent && !is_factor(scope, index->extent)) ||
        !is_factor(scope, index->stride) || !add_affine(scope, sum, index->of_axes, index->stride) ||
        !add_affine(scope, &alone, index->of_axes, one))
      return false;
  }
  return true;
}

/* Has it so few elements that 32 bits hold the place of each, wherever indices lead that are never outside? */
static bool is_short_tensor(const StepScope *scope, const GraphTensor *tensor)
{
  Arena *arena = scope->build->expressions;
  const Symbolic *span = symbolic_constant(arena, 0);
  int64_t n;
  if (!tensor) return false;
  for (unsigned d = 0; d < tensor->rank; d++)
    span = symbolic_add(arena, span, symbolic_mul(arena, tensor->shape[d], tensor->strides[d]));
  return symbolic_is_constant(span, &n) && n < INT32_MAX;
}

/* Do 32 bits hold whatever is computed of an operand's indices? All numbers are known, and what is loaded of them has 32 bits and is inside of known
 * extents where it counts; or they are sums, and the variant's guard has said so of the tensor that is read. */
static bool are_short(StepScope *scope, const ElementPlace *place, const Symbolic *const *strides,
                      const GraphTensor *read)
{
  const FusedOperator *op = scope->build->op;
  const Program *program = op->program;
  const SymbolicFacts *known = &scope->build->graph->facts;
  SymbolicFact facts[PROGRAM_MAX_AXES + 1];
  const ElementPoint *point = scope->data;
  const Symbolic *one = symbolic_constant(scope->build->expressions, 1);
  int64_t least, most;
  if (point->index != NUMBER_S32) return false;
  Affine sum = affine_zero(scope);
  if (read && scope->build->choice->narrow_inputs && add_offset(scope, place, strides, &sum)) return true;
  for (unsigned i = 0; i < program->n_axes; i++) {
    symbolic_range(program->axes[i].extent, known, &least, &most);
    facts[i] = (SymbolicFact){.name = program->axes[i].name, .max = MAX(most, 1) - 1, .multiple = 1};
  }
  const SymbolicFacts axes = {facts, program->n_axes};
  Reach all = {op, &axes, 0, 0};
  for (unsigned d = 0; d < op->rank; d++)
    reach(&all, symbolic_sub(scope->build->expressions, op->dims[d], one), strides[d]);
  for (unsigned i = 0; place && i < place->n; i++) {
    const ElementIndex *index = &place->indices[i];
    if (index->extent && !symbolic_is_constant(index->extent, NULL)) return false;
    if (index->loaded.kind != OPERAND_ABSENT) {
      if (!may_be_symbols(scope) || index->loaded.type != NUMBER_S32) return false;
      if (!index->extent && !is_short_tensor(scope, read)) return false;
      if (index->extent)
        reach(&all, symbolic_sub(scope->build->expressions, index->extent, one), index->stride);
    }
    reach(&all, index->of_axes, one); /* itself, and times its stride */
    reach(&all, index->of_axes, index->stride);
  }
  return all.least > INT32_MIN && all.most < INT32_MAX;
}

/* placed_offset() where all indices are such sums: false if they are not. What is alike for all elements and steps is
 * computed once, so that accesses differ by constants. */
static bool affine_offset(StepScope *scope, const ElementPlace *place, const Symbolic *const *strides,
                          bool wide_mask, IrExpr **mask, IrExpr **offset)
{
  const FusedOperator *op = scope->build->op;
  const ElementPoint *point = scope->data;
  Affine sum = affine_zero(scope);
  IrExpr *narrow = NULL, *wide = NULL;
  if (!add_offset(scope, place, strides, &sum)) return false;
  for (unsigned i = 0; place && i < place->n; i++) {
    Affine alone = affine_zero(scope);
    const ElementIndex *index = &place->indices[i];
    if (!index->extent) continue;
    add_affine(scope, &alone, index->of_axes, symbolic_constant(scope->build->expressions, 1));
    affine_inside(scope, &alone, index->extent, &narrow, &wide);
  }
  *mask = narrow ? element_wide(scope, OP_AND, NUMBER_BOOL, "inside", point->inside, narrow) : point->inside;
  if (point->more && (wide_mask || !is_wide(point, point->more)))
    *mask = element_wide(scope, OP_AND, NUMBER_BOOL, "more", *mask, point->more);
  if (wide) *mask = element_wide(scope, OP_AND, NUMBER_BOOL, "inside", wide, *mask);
  IrExpr *first = affine_first(scope, &sum),
         *rest = affine_rest(scope, &sum, false, NULL, is_nothing(sum.of_dims[op->rank - 1]) ? 0 : 1);
  *offset = first                      ? combine(scope, SYMBOLIC_ADD, first, rest)
            : rest->kind == EXPR_VALUE ? rest
                                       : splat(scope, rest);
  return true;
}

/* Where the elements of a group lie that has places of its own, and which of them are inside (*mask). scatters: each element has
 * its own; along: the strides lead from element to element. */
static IrExpr *placed_offset(StepScope *scope, const ElementPlace *place, const FlatStrides *flat,
                             const Symbolic *const *strides, bool scatters, bool along, IrExpr **mask)
{
  const ElementBody *body = scope->data;
  const ElementPoint *point = &body->place;
  unsigned rank = scope->build->op->rank;
  IrExpr *offset;
  if (affine_offset(scope, place, strides, scatters || along, mask, &offset)) return offset;
  offset = element_offset(scope, flat, strides);
  *mask = point->inside;
  if (point->more && (scatters || along || !is_wide(point, point->more)))
    *mask = element_wide(scope, OP_AND, NUMBER_BOOL, "more", point->more, point->inside);
  if (scatters && along && point->vector > 1) { /* the strides' own step from element to element */
    IrExpr *stride = flat->strides[rank - 1];
    offset = combine(scope, SYMBOLIC_ADD, combine(scope, SYMBOLIC_MUL, columns(scope), stride), offset);
  }
  for (unsigned i = 0; place && i < place->n; i++) {
    const ElementIndex *index = &place->indices[i];
    IrExpr *value = full_index(scope, index);
    if (index->extent) *mask = and_inside(scope, index, value, *mask);
    IrExpr *stride = kernel_dim(scope->build, index->stride, "stride", NUMBER_S64);
    offset = combine(scope, SYMBOLIC_ADD, combine(scope, SYMBOLIC_MUL, value, stride), offset);
  }
  /* gather and scatter add the column to the offset of its row */
  if (is_wide(point, offset) && point->vector > 1)
    offset = element_wide(scope, OP_SUB, point->arithmetic, "offset", offset, columns(scope));
  return offset;
}

IrExpr *element_load_indexed(StepScope *scope, unsigned input)
{
  ElementBody *body = scope->data;
  ElementPoint *point = &body->place;
  const FusedOperator *op = scope->build->op;
  const ElementPlace *place = elementwise_place(op, input);
  IrModule *module = scope->build->module;
  IrValue *tensor = scope->tensors[input];
  bool scatters = elementwise_scatters(op, input),
       along = !symbolic_equals(op->inputs[input].strides[op->rank - 1], 0);
  const NumberType outside = point->arithmetic; /* of an index that this input is part of */
  point->arithmetic =
      are_short(scope, place, op->inputs[input].strides, op->inputs[input].tensor) ? NUMBER_S32 : NUMBER_S64;
  IrExpr *mask, *offset = placed_offset(scope, place, &body->inputs[input], op->inputs[input].strides,
                                        scatters, along, &mask);
  point->arithmetic = outside;
  int64_t extent[2] = {point->groups, scatters || along ? point->vector : 1};
  IrExpr *loaded =
      ir_emit_value(&scope->builder, OP_GATHER, ir_tile(module, tensor->type.element, 2, extent, NULL),
                    tensor->name, 2, ir_value(module, tensor), offset);
  IrOp *gather = loaded->value->def;
  ir_attribute_set(gather, ATTR_WHERE, mask);
  if (place) ir_attribute_set(gather, ATTR_FILL, fill_of(scope, input, place->fill));
  if (extent[1] > 1) ir_attribute_set(gather, ATTR_ALIGNED, ir_int(module, scatters ? 1 : point->vector));
  return loaded;
}

void element_store_indexed(StepScope *scope, unsigned output, IrExpr *value)
{
  ElementBody *body = scope->data;
  const FusedOperator *op = scope->build->op;
  const ElementPlace *target = elementwise_target(op, output);
  bool scatters = elementwise_scatters(op, op->n_inputs + output),
       along = !symbolic_equals(op->outputs[output].strides[op->rank - 1], 0);
  IrModule *module = scope->build->module;
  body->place.arithmetic =
      are_short(scope, target, op->outputs[output].strides, NULL) ? NUMBER_S32 : NUMBER_S64;
  IrExpr *mask, *offset = placed_offset(scope, target, &body->outputs[output], op->outputs[output].strides,
                                        scatters, along, &mask);
  body->place.arithmetic = NUMBER_S64;
  IrOp *store = ir_emit(&scope->builder, OP_SCATTER, 3,
                        ir_value(module, scope->tensors[op->n_inputs + output]), offset, value);
  ir_attribute_set(store, ATTR_WHERE, mask);
  ir_attribute_set(store, ATTR_ALIGNED, ir_int(module, scatters ? 1 : body->place.vector));
}
