/* Elementwise kernels: the body decodes where each vector of outputs lies in every operand, computes, and
 * stores.
 *
 * A tile row is a group of `vector` outputs that follow one another in the innermost dimension. Its index is
 * taken apart into coordinates by division (by constants where the shape is known), and every operand gets
 * the element offset of its first element; an operand that is broadcast along the innermost dimension has one
 * element a group.
 *
 * Ragged rows are no multiple of `vector`: the last group of a row is shorter. Inputs are then read element
 * by element, whole groups stored as vectors, and the others element by element. */
#include "generator/kernel/elementwise.h"

static bool is_zero(const IrExpr *expr)
{
  int64_t value;
  return ir_expr_is_int(expr, &value) && value == 0;
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  ElementBody *body = scope->data;
  IrModule *module = scope->build->module;
  IrValue *tensor = scope->tensors[input];
  unsigned rank = scope->build->op->rank;
  if (elementwise_place(scope->build->op, input) || elementwise_scatters(scope->build->op, input))
    return element_load_indexed(scope, input);
  bool along = !is_zero(body->inputs[input].strides[rank - 1]);
  int64_t extent[2] = {body->place.groups, along ? body->place.vector : 1};
  IrExpr *offset = element_offset(scope, &body->inputs[input], scope->build->op->inputs[input].strides);
  IrExpr *value =
      ir_emit_value(&scope->builder, OP_GATHER, ir_tile(module, tensor->type.element, 2, extent, NULL),
                    tensor->name, 2, ir_value(module, tensor), offset);
  IrOp *op = value->value->def;
  bool ragged = along && body->place.ragged;
  ir_attribute_set(op, ATTR_WHERE, ragged ? body->place.elements : body->place.inside);
  bool single = ragged || choice_reads_single(scope->build->choice, input);
  if (along) ir_attribute_set(op, ATTR_ALIGNED, ir_int(module, single ? 1 : body->place.vector));
  return value;
}

/* Outputs, those that would fill the last groups of rows included. */
static const Symbolic *elements_of(const KernelBuild *build)
{
  const FusedOperator *op = build->op;
  Arena *arena = build->expressions;
  const Symbolic *total = symbolic_constant(arena, 1);
  for (unsigned d = 0; d < op->rank; d++) {
    const Symbolic *length = op->dims[d];
    if (build->choice->ragged && d == op->rank - 1) {
      const Symbolic *vector = symbolic_constant(arena, build->choice->vector);
      length = symbolic_mul(arena, symbolic_ceil_div(arena, length, vector), vector);
    }
    total = symbolic_mul(arena, total, length);
  }
  return total;
}

/* Divisions of 32 bits take a fifth of the instructions of those of 64: s32 if all indices are known to fit,
 * and what is divided by. */
static NumberType index_type(const KernelBuild *build)
{
  const Symbolic *total = elements_of(build);
  if (build->choice->narrow) return NUMBER_S32;
  int64_t least, most, block = choice_parameter(build->choice, "block")->integer;
  symbolic_range(total, &build->graph->facts, &least, &most);
  return most <= INT32_MAX - block ? NUMBER_S32 : NUMBER_S64;
}

static IrExpr *emit_mask(StepScope *scope, IrOpcode code, int64_t columns, const char *name, IrExpr *a,
                         IrExpr *b)
{
  const ElementPoint *place = scope->data;
  int64_t extent[2] = {place->groups, columns};
  IrType type = ir_tile(scope->build->module, NUMBER_BOOL, 2, extent, NULL);
  return ir_emit_value(&scope->builder, code, type, name, 2, a, b);
}

/* An extent in the type of indices; a dim of the kernel may have been declared for a stride, as wide as that. */
static IrExpr *extent_of(StepScope *scope, unsigned d)
{
  const ElementPoint *place = scope->data;
  KernelBuild *build = scope->build;
  IrExpr *extent = kernel_dim(build, build->op->dims[d], "extent", place->index);
  const IrDim *dim = extent->kind == EXPR_DIM ? ir_dim_find(build->kernel, extent->name) : NULL;
  if (!dim || dim->type == place->index) return extent;
  return ir_emit_value(&scope->builder, OP_CAST, ir_scalar(place->index), "extent", 1, extent);
}

/* Which elements of a group exist that begins at `at` of a row. */
static void find_elements(StepScope *scope, IrExpr *at)
{
  IrModule *module = scope->build->module;
  const FusedOperator *op = scope->build->op;
  ElementPoint *place = scope->data;
  int64_t extent[2] = {place->groups, place->vector};
  IrExpr *length = extent_of(scope, op->rank - 1);
  IrType columns = ir_tile(module, place->index, 2, extent, NULL);
  IrOp *iota = ir_emit_array(&scope->builder, OP_IOTA, 0, NULL);
  ir_attribute_set(iota, ATTR_DIM, ir_int(module, 1));
  IrExpr *column = ir_value(module, ir_result(iota, "column", columns));
  column = ir_emit_value(&scope->builder, OP_ADD, columns, "column", 2, column, at);
  IrExpr *last = element_tile(scope, OP_ADD, place->index, "last", at, ir_int(module, place->vector - 1));
  IrExpr *fits = emit_mask(scope, OP_LT, 1, "fits", last, length);
  IrExpr *ends = emit_mask(scope, OP_GE, 1, "ends", last, length);
  place->whole = emit_mask(scope, OP_AND, 1, "whole", place->inside, fits);
  place->elements = emit_mask(scope, OP_LT, place->vector, "exists", column, length);
  place->elements = emit_mask(scope, OP_AND, place->vector, "exists", place->elements, place->inside);
  place->rest = emit_mask(scope, OP_AND, place->vector, "rest", place->elements, ends);
}

/* Groups along a row. */
static IrExpr *groups_of(const ElementPoint *place, IrModule *module, IrExpr *length)
{
  IrExpr *vector = ir_int(module, place->vector);
  return place->ragged ? ir_call(module, "ceil_div", 2, length, vector)
                       : ir_binary(module, OPERATOR_DIV, length, vector);
}

/* What is left of the groups' indices: of 64 bits that of the block's first group, one number, and in `rest` what each group adds to it,
 * 32 bits: a thread divides 64 bits once for all of its groups, by each extent. */
typedef struct {
  IrExpr *block; /* NULL: `rest` is all of it */
  IrExpr *rest;
} Digits;

/* 0, 1, ... of a block's groups, in 32 bits. */
static IrExpr *short_groups(StepScope *scope)
{
  const ElementPoint *place = scope->data;
  IrModule *module = scope->build->module;
  int64_t extent[2] = {place->groups, 1};
  IrOp *iota = ir_emit_array(&scope->builder, OP_IOTA, 0, NULL);
  ir_attribute_set(iota, ATTR_DIM, ir_int(module, 0));
  return ir_value(module, ir_result(iota, "group", ir_tile(module, NUMBER_S32, 2, extent, NULL)));
}

/* The index along dim d, which has so many groups or elements; what is left counts rows of them. */
static IrExpr *take_digit(StepScope *scope, Digits *digits, unsigned d, IrExpr *count)
{
  KernelBuild *build = scope->build;
  const ElementPoint *place = scope->data;
  IrModule *module = build->module;
  if (!digits->block) {
    IrExpr *at = element_tile(scope, OP_REM, place->index, "at", digits->rest, count);
    digits->rest = element_tile(scope, OP_DIV, place->index, "rest", digits->rest, count);
    return at;
  }
  int64_t least, most;
  symbolic_range(build->op->dims[d], &build->graph->facts, &least, &most);
  NumberType type = most <= INT32_MAX - place->groups ? NUMBER_S32 : NUMBER_U32; /* of the sum */
  IrType wide = ir_scalar(NUMBER_S64);
  IrExpr *first = ir_emit_value(&scope->builder, OP_LET, wide, "first", 1,
                                ir_binary(module, OPERATOR_MOD, digits->block, count));
  digits->block = ir_emit_value(&scope->builder, OP_LET, wide, "rows", 1,
                                ir_binary(module, OPERATOR_DIV, digits->block, count));
  first = ir_emit_value(&scope->builder, OP_CAST, ir_scalar(type), "first", 1, first);
  if (ir_expr_type(build->kernel, count).element != type && !ir_expr_is_int(count, &least))
    count = ir_emit_value(&scope->builder, OP_CAST, ir_scalar(type), "count", 1, count);
  IrExpr *rest = digits->rest;
  if (type != NUMBER_S32) rest = element_tile(scope, OP_CAST, type, "rest", rest, NULL);
  rest = element_tile(scope, OP_ADD, type, "rest", rest, first);
  IrExpr *at = element_tile(scope, OP_REM, type, "at", rest, count);
  digits->rest = element_tile(scope, OP_DIV, type, "rest", rest, count);
  if (type != NUMBER_S32) digits->rest = element_tile(scope, OP_CAST, NUMBER_S32, "rest", digits->rest, NULL);
  return element_tile(scope, OP_CAST, NUMBER_S64, "at", at, NULL);
}

/* The index along the outermost dim. */
static IrExpr *last_digit(StepScope *scope, const Digits *digits)
{
  if (!digits->block) return digits->rest;
  IrExpr *rest = element_tile(scope, OP_CAST, NUMBER_S64, "rest", digits->rest, NULL);
  return element_tile(scope, OP_ADD, NUMBER_S64, "at", rest, digits->block);
}

/* Group index -> coordinates, those first whose neighbours are the next group's; the last dim counts groups of `vector`. */
static void decode(StepScope *scope, IrExpr *tile)
{
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  ElementPoint *place = scope->data;
  int64_t extent[2] = {place->groups, 1}, constant;
  IrOp *iota = ir_emit_array(&scope->builder, OP_IOTA, 0, NULL);
  ir_attribute_set(iota, ATTR_DIM, ir_int(module, 0));
  IrExpr *group = ir_value(module, ir_result(iota, "group", ir_tile(module, place->index, 2, extent, NULL)));
  if (place->index == NUMBER_S64) /* before it is multiplied: groups of one element may be more than 2^31 */
    tile = ir_emit_value(&scope->builder, OP_CAST, ir_scalar(NUMBER_S64), "tile", 1, tile);
  IrExpr *start = ir_binary(module, OPERATOR_MUL, tile, ir_int(module, place->groups));
  IrExpr *rest = element_tile(scope, OP_ADD, place->index, "index", group, start);
  IrExpr *total = ir_binary(module, OPERATOR_DIV, ir_dim(module, "TOTAL"), ir_int(module, place->vector));
  if (!ir_dim_find(build->kernel, "TOTAL")) {
    int64_t count = 0;
    symbolic_is_constant(g_hash_table_lookup(build->dims, "TOTAL"), &count);
    total = ir_int(module, count / place->vector);
  }
  if (place->index == NUMBER_S32 && !ir_expr_is_int(total, &constant))
    total = ir_emit_value(&scope->builder, OP_CAST, ir_scalar(NUMBER_S32), "total", 1, total);
  place->inside = element_tile(scope, OP_LT, NUMBER_BOOL, "inside", rest, total);
  if (place->vector == 1 && op->rank > 1 && !elementwise_is_upright(op))
    place->linear =
        place->index == NUMBER_S64 ? rest : element_tile(scope, OP_CAST, NUMBER_S64, "linear", rest, NULL);
  Digits digits = {.rest = rest};
  if (place->index == NUMBER_S64) {
    digits.block = ir_emit_value(&scope->builder, OP_LET, ir_scalar(NUMBER_S64), "start", 1, start);
    digits.rest = short_groups(scope);
  }
  for (unsigned i = op->rank; i-- > 0;) {
    bool exchanged = elementwise_is_upright(op) && i + 2 >= op->rank;
    unsigned d = exchanged ? 2 * op->rank - 3 - i : i;
    bool innermost = d == op->rank - 1;
    IrExpr *count = extent_of(scope, d);
    if (innermost) count = groups_of(place, module, count);
    IrExpr *at = i ? take_digit(scope, &digits, d, count) : last_digit(scope, &digits);
    if (innermost && place->vector > 1)
      at = element_tile(scope, OP_MUL, place->index, "at", at, ir_int(module, place->vector));
    if (innermost && place->ragged) find_elements(scope, at);
    if (place->index == NUMBER_S32) place->shorts[d] = at;
    place->coordinates[d] =
        place->index == NUMBER_S64 ? at : element_tile(scope, OP_CAST, NUMBER_S64, "at", at, NULL);
  }
}

/* A value that is constant along the vector, written out: as the sum with nothing, or, of types that threads do not
 * compute with, chosen of twice the same. */
static IrExpr *spread_value(StepScope *scope, IrExpr *value, IrType type)
{
  IrModule *module = scope->build->module;
  bool truth = type.element == NUMBER_BOOL, floats = number_class(type.element) == NUMBER_FLOAT;
  if (number_is_small_float(type.element)) {
    IrType condition = type;
    condition.element = NUMBER_BOOL;
    IrExpr *always = ir_emit_value(&scope->builder, OP_SPLAT, condition, "always", 1, ir_int(module, 1));
    return ir_emit_value(&scope->builder, OP_SELECT, type, "spread", 3, always, value, value);
  }
  IrExpr *zero = floats ? ir_float(module, -0.0) : ir_int(module, 0);
  IrExpr *blank = ir_emit_value(&scope->builder, OP_SPLAT, type, "blank", 1, zero);
  return ir_emit_value(&scope->builder, truth ? OP_OR : OP_ADD, type, "spread", 2, blank, value);
}

static void store_outputs(StepScope *scope)
{
  ElementBody *body = scope->data;
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    IrValue *tensor = scope->tensors[op->n_inputs + i];
    IrExpr *value = scope_operand(scope, &op->outputs[i].value);
    int64_t extent[2] = {body->place.groups, body->place.vector};
    NumberType element = step_element(value, scope_output_type(scope, i));
    bool full = value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE &&
                ir_tile_extent(&value->value->type, 1) == extent[1];
    if (!full) value = spread_value(scope, value, ir_tile(module, element, 2, extent, NULL));
    value = scope_stored(scope, i, value);
    if (elementwise_target(op, i) || elementwise_scatters(op, op->n_inputs + i)) {
      element_store_indexed(scope, i, value);
      continue;
    }
    IrExpr *offset = element_offset(scope, &body->outputs[i], op->outputs[i].strides);
    IrOp *store = ir_emit(&scope->builder, OP_SCATTER, 3, ir_value(module, tensor), offset, value);
    ir_attribute_set(store, ATTR_WHERE, body->place.ragged ? body->place.whole : body->place.inside);
    ir_attribute_set(store, ATTR_ALIGNED, ir_int(module, body->place.vector));
    if (!body->place.ragged) continue;
    store = ir_emit(&scope->builder, OP_SCATTER, 3, ir_value(module, tensor), offset, value);
    ir_attribute_set(store, ATTR_WHERE, body->place.rest);
    ir_attribute_set(store, ATTR_ALIGNED, ir_int(module, 1));
  }
}

/* A tensor that is reached by offsets: flat, as long as the iteration space (gather and scatter check no
 * bounds). */
static IrValue *add_flat(KernelBuild *build, const char *side, unsigned position, const GraphTensor *tensor,
                         const Symbolic *const *strides, const Symbolic *total, FlatStrides *flat)
{
  const Symbolic *one = symbolic_constant(build->expressions, 1);
  IrValue *value = kernel_add_tensor(build, side, position, tensor, 1, &total, &one);
  for (unsigned d = 0; d < build->op->rank; d++)
    flat->strides[d] = kernel_dim(
        build, strides[d], arena_printf(build->module->arena, "%s_stride%u", value->name, d), NUMBER_S64);
  return value;
}

static unsigned walks_of(const FusedOperator *op)
{
  return elementwise_of(op) ? elementwise_of(op)->n_walks : 0;
}

/* A block's elements are whole vectors; --set may say otherwise. */
static bool check_block(const KernelBuild *build)
{
  int64_t block = choice_parameter(build->choice, "block")->integer;
  if (block % build->choice->vector == 0) return true;
  error_set(build->error, ERROR_UNSUPPORTED, &build->op->nodes[0]->mark, "block",
            "another `block` or `vector`", "blocks of %d elements are no whole vectors of %u", (int)block,
            build->choice->vector);
  return false;
}

static bool write_flat(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  IrModule *module = build->module;
  if (!check_block(build)) return false;
  const Symbolic *total = elements_of(build);
  kernel_bind_dim(build, "TOTAL", total);
  if (!ir_dim_find(build->kernel, "TOTAL")) g_hash_table_insert(build->dims, "TOTAL", (gpointer)total);
  ElementBody body = {.inputs = arena_new_array(module->arena, FlatStrides, op->n_inputs + 1),
                      .outputs = arena_new_array(module->arena, FlatStrides, op->n_outputs + 1)};
  body.place.vector = build->choice->vector;
  body.place.ragged = build->choice->ragged;
  body.place.index = index_type(build);
  body.place.arithmetic = NUMBER_S64;
  body.place.groups = choice_parameter(build->choice, "block")->integer / body.place.vector;
  for (unsigned i = 0; i < op->n_inputs; i++)
    build->inputs[i] =
        add_flat(build, KERNEL_INPUT, i, op->inputs[i].tensor, op->inputs[i].strides, total, &body.inputs[i]);
  for (unsigned i = 0; i < op->n_outputs; i++)
    build->outputs[i] = add_flat(build, KERNEL_OUTPUT, i, op->outputs[i].tensor, op->outputs[i].strides,
                                 total, &body.outputs[i]);
  StepScope scope = {0};
  scope_open(&scope, build, "body");
  IrExpr *tile = ir_value(module, ir_parameter_new(scope.function, "tile", ir_scalar(NUMBER_S32)));
  scope.load = load_input;
  scope.index = element_index_value;
  scope.data = &body;
  scope_add_tensors(&scope);
  decode(&scope, tile);
  if (!(walks_of(op) ? element_write_walks(&scope) : scope_write_steps(&scope, false))) return false;
  store_outputs(&scope);
  scope_close(&scope, NULL);
  return true;
}

bool kernel_write_elementwise(KernelBuild *build)
{
  bool tiles = g_str_equal(build->choice->template_name, "transpose");
  if (tiles) build->op = build->op->family->turned(build->module->arena, build->op);
  return tiles ? kernel_write_transpose(build) : write_flat(build);
}

bool kernel_write_walk(KernelBuild *build)
{
  return write_flat(build);
}
