/* Row programs: whole rows are loaded, computed, reduced and stored in phases. What later phases need of a row's elements
 * stays in registers. */
#include "generator/kernel/row_program.h"
#include <math.h>

#define TINY       0x1p-64 /* whose reciprocal is far from the end of f32, and so is that of what is larger */
#define SHORT_BITS 16

/* every: one element of the tensor is for so many columns; 0: for each. */
static IrExpr *corner(StepScope *scope, IrValue *tensor, int64_t every, int64_t *extent)
{
  const RowTile *tile = scope->data;
  IrModule *module = scope->build->module;
  unsigned rank = scope->build->op->rank;
  IrExpr *at[FUSED_MAX_RANK + 1];
  int64_t stride;
  extent[0] = tile->rows;
  extent[1] = every ? row_groups(scope) : tile->cols;
  for (unsigned d = 0; d < rank; d++) {
    bool broadcast = ir_expr_is_int(tensor->type.strides[d], &stride) && stride == 0;
    at[d] = broadcast ? ir_int(module, 0) : tile->at[d];
    if (broadcast && d + 2 >= rank) extent[d + 2 - rank] = 1;
  }
  return ir_index_array(module, ir_value(module, tensor), rank, at);
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  int64_t extent[2];
  const Elementwise *points = row_of(scope->build->op)->points;
  if (points && points->places[input].n) return row_load_indexed(scope, input);
  IrExpr *access = corner(scope, scope->tensors[input], scope->build->op->inputs[input].every, extent);
  if (extent[0] == 1) extent[0] = scope_rows_loaded(scope, input, ((const RowTile *)scope->data)->rows);
  return scope_load_tile(scope, input, access, extent);
}

/* ---- tiles ---- */

static bool is_tile_of(const IrExpr *value, int64_t rows, int64_t cols)
{
  return value->kind == EXPR_VALUE && value->value->type.kind == TYPE_TILE &&
         ir_tile_extent(&value->value->type, 0) == rows && ir_tile_extent(&value->value->type, 1) == cols;
}

/* Of each row, or of all: one value for each group of columns. */
static bool is_of_groups(const StepScope *scope, const IrExpr *value)
{
  const RowTile *tile = scope->data;
  if (!row_of(scope->build->op)->group) return false;
  int64_t groups = row_groups(scope);
  return is_tile_of(value, tile->rows, groups) || is_tile_of(value, 1, groups);
}

/* What a group of columns has, for each of these. */
static IrExpr *spread_groups(StepScope *scope, IrExpr *value)
{
  const RowTile *tile = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *known = g_hash_table_lookup(tile->spread, value->value);
  if (known) return known;
  IrOp *op = ir_emit(&scope->builder, OP_SPREAD, 1, value);
  ir_attribute_set(op, ATTR_DIM, ir_int(module, 1));
  ir_attribute_set(op, ATTR_EVERY, ir_int(module, row_of(scope->build->op)->group));
  int64_t extent[2] = {ir_tile_extent(&value->value->type, 0), tile->cols};
  IrType type = ir_tile(module, value->value->type.element, 2, extent, NULL);
  known = ir_value(module, ir_result(op, "each", type));
  g_hash_table_insert(tile->spread, value->value, known);
  return known;
}

/* Values of groups meet values of elements. */
static IrExpr *fit_operand(StepScope *scope, const FusedStep *step, IrExpr *operand)
{
  bool narrow = row_step_is_narrow(scope->build->op, step);
  return !narrow && is_of_groups(scope, operand) ? spread_groups(scope, operand) : operand;
}

/* A value of each element, of each group of columns, or of each row, written out where it repeats: `cols` of a row. */
static IrExpr *spread(StepScope *scope, IrExpr *value, NumberType element, int64_t cols)
{
  const RowTile *tile = scope->data;
  IrModule *module = scope->build->module;
  IrType type = row_tile_wide(scope, element, cols);
  if (cols == tile->cols && is_of_groups(scope, value)) value = spread_groups(scope, value);
  if (is_tile_of(value, tile->rows, cols)) return value;
  if (element == NUMBER_BOOL) {
    IrExpr *blank = row_tile(scope, OP_SPLAT, type, "blank", ir_int(module, 0), NULL);
    return row_tile(scope, OP_OR, type, "spread", blank, value);
  }
  IrExpr *zero = number_class(element) == NUMBER_FLOAT ? ir_float(module, -0.0) : ir_int(module, 0);
  IrExpr *blank = row_tile(scope, OP_SPLAT, type, "blank", zero, NULL);
  return row_tile(scope, OP_ADD, type, "spread", blank, value); /* x + -0 is x */
}

/* groups: the result has a value for each group of columns. */
static IrExpr *reduce_parts(StepScope *scope, const char *with, NumberType element, IrExpr *value,
                            bool groups)
{
  IrModule *module = scope->build->module;
  IrOp *op = ir_emit(&scope->builder, OP_REDUCE, 1, value);
  ir_attribute_set(op, ATTR_WITH, ir_name(module, with));
  ir_attribute_set(op, ATTR_DIM, ir_int(module, 1));
  if (groups) ir_attribute_set(op, ATTR_EVERY, ir_int(module, row_of(scope->build->op)->group));
  return ir_value(module, ir_result(op, with, row_tile_wide(scope, element, groups ? row_groups(scope) : 1)));
}

static IrExpr *reduce(StepScope *scope, const char *with, NumberType element, IrExpr *value)
{
  return reduce_parts(scope, with, element, value, false);
}

/* ---- reductions ---- */

static IrExpr *sum_of(StepScope *scope, IrExpr *value)
{
  return reduce(scope, "sum", value->value->type.element, value);
}

/* C in a type of floats. */
static IrExpr *number_in(StepScope *scope, NumberType element)
{
  const RowTile *tile = scope->data;
  if (element == NUMBER_F32 || tile->number->kind == EXPR_FLOAT) return tile->number;
  return row_tile(scope, OP_CAST, ir_scalar(element), "count", tile->columns, NULL);
}

/* By a power of two a product is as exact as the quotient. Beside sums of columns, where what a block computes takes as long as memory,
 * one rounding more does for a known number: a quotient is a dozen operations and a branch. */
static IrExpr *divided_by_number(StepScope *scope, const char *name, IrExpr *sum)
{
  const RowTile *tile = scope->data;
  int exponent;
  bool known = tile->number->kind == EXPR_FLOAT,
       product = known && (row_of(scope->build->op)->n_sums || frexp(tile->number->number, &exponent) == 0.5);
  NumberType element = sum->value->type.element;
  return row_tile(scope, product ? OP_MUL : OP_DIV, row_tile_type(scope, element, true), name, sum,
                  product ? ir_float(scope->build->module, 1 / tile->number->number)
                          : number_in(scope, element));
}

static IrExpr *mean_of(StepScope *scope, IrExpr *value)
{
  return divided_by_number(scope, "mean", sum_of(scope, value));
}

/* What a simple reduction is called in the language. */
static const char *name_of(ProgramReduction reduction)
{
  switch ((unsigned)reduction) {
  case REDUCTION_MAX: return "max";
  case REDUCTION_MIN: return "min";
  case REDUCTION_PROD: return "prod";
  default: return "sum";
  }
}

static void write_simple(StepScope *scope, const FusedReduction *reduction, IrExpr *value)
{
  scope->reduced[reduction->first] =
      reduce_parts(scope, name_of(reduction->reduction), reduction->compute, value, reduction->of_groups);
}

static void write_mean(StepScope *scope, const FusedReduction *reduction, IrExpr *value)
{
  IrModule *module = scope->build->module;
  IrExpr **mean = &scope->reduced[reduction->first];
  if (!reduction->of_groups) {
    *mean = mean_of(scope, value);
    return;
  }
  IrExpr *sum = reduce_parts(scope, "sum", reduction->compute, value, true);
  *mean = row_tile(scope, OP_DIV, row_tile_wide(scope, reduction->compute, row_groups(scope)), "mean", sum,
                   ir_float(module, (double)row_of(scope->build->op)->group));
}

/* A reduction of templates/reducers.ir, whose states of a row's chunks are merged: results one after the other, in f32 but
 * for places. */
static void reduce_with(StepScope *scope, const char *reducer, IrExpr *value, IrExpr *place, unsigned n,
                        IrExpr **results)
{
  IrModule *module = scope->build->module;
  IrOp *op = place ? ir_emit(&scope->builder, OP_REDUCE, 2, value, place)
                   : ir_emit(&scope->builder, OP_REDUCE, 1, value);
  ir_attribute_set(op, ATTR_WITH, ir_symbol(module, reducer));
  ir_attribute_set(op, ATTR_DIM, ir_int(module, 1));
  for (unsigned i = 0; i < n; i++) {
    NumberType type = place && i ? NUMBER_S32 : NUMBER_F32;
    results[i] = ir_value(module, ir_result(op, "state", row_tile_type(scope, type, true)));
  }
}

/* Largest or smallest, and the first place where it is. */
static void write_arg(StepScope *scope, const FusedReduction *reduction, IrExpr *value)
{
  bool max = reduction->reduction == REDUCTION_ARG_MAX;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  IrExpr *place = step_convert(&writer, scope_operand(scope, &reduction->place), NUMBER_S32);
  place = spread(scope, place, NUMBER_S32, ((const RowTile *)scope->data)->cols);
  reduce_with(scope, max ? "arg_max" : "arg_min", value, place, 2, &scope->reduced[reduction->first]);
}

static void write_merged(StepScope *scope, const FusedReduction *reduction, IrExpr *value)
{
  IrExpr **results = &scope->reduced[reduction->first], *moments[3]; /* count, mean, squares of distances */
  if (reduction->reduction == REDUCTION_MAX_SUM) {
    bool full = row_power_precision(scope->build->op, reduction) == STEP_FULL;
    reduce_with(scope, full ? "max_sum" : "max_sum_narrow", value, NULL, 2, results);
    return;
  }
  reduce_with(scope, "moments", value, NULL, G_N_ELEMENTS(moments), moments);
  results[0] = moments[1];
  results[1] = divided_by_number(scope, "variance", moments[2]);
}

/* The elements that a reduction takes, as f32: each time that they are asked for from what was loaded. */
static IrExpr *elements_of(StepScope *scope, const FusedReduction *reduction)
{
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  IrExpr *value = step_convert(&writer, scope_operand(scope, &reduction->source), reduction->compute);
  return spread(scope, value, reduction->compute, ((const RowTile *)scope->data)->cols);
}

/* Distances from the mean once more, from the elements as they were loaded, which take half the registers. The mean is
 * mean + variance * 0: the assembler, which cannot know that this is the mean, keeps no distances for it. */
static IrExpr *centred_again(StepScope *scope, const FusedReduction *reduction)
{
  IrExpr *const *moments = &scope->reduced[reduction->first];
  IrExpr *mean = ir_emit_value(&scope->builder, OP_FMA, row_tile_type(scope, NUMBER_F32, true), "mean", 3,
                               moments[1], ir_float(scope->build->module, 0.0), moments[0]);
  return row_tile(scope, OP_SUB, row_tile_type(scope, NUMBER_F32, false), "centred",
                  elements_of(scope, reduction), mean);
}

static void write_moments(StepScope *scope, const FusedReduction *reduction, IrExpr *value, Kept *kept)
{
  const RowTile *tile = scope->data;
  IrType whole = row_tile_type(scope, NUMBER_F32, false);
  IrExpr *mean = mean_of(scope, value);
  if (tile->again) value = elements_of(scope, reduction);
  kept->below = row_tile(scope, OP_SUB, whole, "centred", value, mean);
  IrExpr *square = row_tile(scope, OP_MUL, whole, "square", kept->below, kept->below);
  scope->reduced[reduction->first] = mean;
  scope->reduced[reduction->first + 1] = mean_of(scope, square);
}

/* As they were loaded elements take half the registers until the maximum is known, which is one of them. */
static bool is_short_source(const FusedOperator *op, const FusedReduction *reduction)
{
  return reduction->source.kind == OPERAND_INPUT &&
         step_precision(op->inputs[reduction->source.index].tensor->type) < STEP_FULL;
}

static void write_max_sum(StepScope *scope, const FusedReduction *reduction, IrExpr *value, Kept *kept)
{
  IrExpr *peak = reduce(scope, "max", NUMBER_F32, value);
  if (!((const RowTile *)scope->data)->late) row_load_places(scope);
  if (is_short_source(scope->build->op, reduction)) value = elements_of(scope, reduction);
  kept->below = row_tile(scope, OP_SUB, row_tile_type(scope, NUMBER_F32, false), "below", value, peak);
  StepPrecision precision = row_power_precision(scope->build->op, reduction);
  kept->part = precision < STEP_FULL;
  if (!kept->part)
    kept->power = row_power(scope, precision, kept->below);
  else
    kept->power = row_power_of_part(scope, kept->below);
  scope->reduced[reduction->first] = peak;
  IrExpr *sum = reduce(scope, "sum", NUMBER_F32, kept->power);
  scope->reduced[reduction->first + 1] = kept->part ? row_sum_of_parts(scope, sum, peak) : sum;
}

/* Exponentials once more, from the elements as they were loaded, in the phase behind their sum. As above the assembler does not know that they
 * are the same: a sum that is no number makes no number of them anyway. */
static void raise_again(StepScope *scope, unsigned phase)
{
  RowTile *tile = scope->data;
  const FusedOperator *op = scope->build->op;
  IrType one = row_tile_type(scope, NUMBER_F32, true), whole = row_tile_type(scope, NUMBER_F32, false);
  for (unsigned i = 0; i < row_of(op)->n_reductions && tile->again; i++) {
    const FusedReduction *reduction = &row_of(op)->reductions[i];
    Kept *kept = &tile->kept[i];
    if (reduction->phase + 1 != phase || !kept->part || !is_short_source(op, reduction)) continue;
    IrExpr *const *state = &scope->reduced[reduction->first];
    IrExpr *peak = ir_emit_value(&scope->builder, OP_FMA, one, "peak", 3, state[1],
                                 ir_float(scope->build->module, 0.0), state[0]);
    kept->below = row_tile(scope, OP_SUB, whole, "below", elements_of(scope, reduction), peak);
    kept->power = row_power_of_part(scope, kept->below);
  }
}

static void write_reduction(StepScope *scope, unsigned i)
{
  RowTile *tile = scope->data;
  const FusedReduction *reduction = &row_of(scope->build->op)->reductions[i];
  scope->builder.mark = reduction->node ? reduction->node->mark : (Mark){0};
  IrExpr *value = elements_of(scope, reduction);
  bool pair = reduction->reduction == REDUCTION_MOMENTS || reduction->reduction == REDUCTION_MAX_SUM;
  if (tile->passes && pair) {
    write_merged(scope, reduction, value);
    return;
  }
  switch (reduction->reduction) {
  case REDUCTION_MEAN: write_mean(scope, reduction, value); return;
  case REDUCTION_MOMENTS: write_moments(scope, reduction, value, &tile->kept[i]); return;
  case REDUCTION_MAX_SUM: write_max_sum(scope, reduction, value, &tile->kept[i]); return;
  case REDUCTION_ARG_MAX:
  case REDUCTION_ARG_MIN: write_arg(scope, reduction, value); return;
  case REDUCTION_SUM:
  case REDUCTION_MAX:
  case REDUCTION_MIN:
  case REDUCTION_PROD:
  case REDUCTION_DOT:
  case REDUCTION_LARGEST: /* gives rows: only a scan does */
  case REDUCTION_SMALLEST:
  case REDUCTION_BEGINS:
  case REDUCTION_LENGTHS:
  case REDUCTION_FIRST_OF:
  case REDUCTION_COUNT_OF:
  case REDUCTION_TALLY:
  case REDUCTION_TALLY_MAGNITUDES:
  case REDUCTION_TAKEN:
  case REDUCTION_PLACES:
  case REDUCTION_ENDS_OF:
  case REDUCTION_SOURCE_OF:
  case REDUCTION_COUNT: write_simple(scope, reduction, value); return;
  }
}

/* ---- steps ---- */

static bool same_operand(const FusedOperand *a, const FusedOperand *b)
{
  return a->kind == b->kind && a->index == b->index && a->kind != OPERAND_IMMEDIATE;
}

/* What a reduction has computed on its way; NULL: the step is written. */
static IrExpr *kept_value(StepScope *scope, const FusedStep *step)
{
  const RowTile *tile = scope->data;
  const FusedOperator *op = scope->build->op;
  for (unsigned i = 0; i < row_of(op)->n_reductions; i++) {
    const FusedReduction *reduction = &row_of(op)->reductions[i];
    const FusedOperand first = {OPERAND_REDUCED, reduction->first, 0, reduction->compute};
    const Kept *kept = &tile->kept[i];
    bool power = reduction->reduction == REDUCTION_MAX_SUM && row_is_power(op, reduction, step);
    if (tile->passes && power)
      return row_power(scope, row_power_precision(op, reduction), scope_operand(scope, &step->operands[0]));
    if (step->compute != NUMBER_F32 || !kept->below) continue;
    if (step->op == ONNX_Sub && same_operand(&step->operands[0], &reduction->source) &&
        same_operand(&step->operands[1], &first))
      return tile->again && reduction->reduction == REDUCTION_MOMENTS ? centred_again(scope, reduction)
                                                                      : kept->below;
    if (power && kept->power && scope->step_values[step->operands[0].index] == kept->below)
      return kept->power;
  }
  return NULL;
}

static bool uses_step(const FusedOperand *operand, unsigned step)
{
  return operand->kind == OPERAND_STEP && operand->index == step;
}

static bool is_short_float(NumberType type)
{
  return number_class(type) == NUMBER_FLOAT && number_bits(type) <= SHORT_BITS;
}

/* Of the step's values nobody sees more than 16 bits. */
static bool shows_few_bits(const FusedOperator *op, unsigned step)
{
  const FusedRow *row = row_of(op);
  for (unsigned i = 0; i < row->n_reductions; i++)
    if (uses_step(&row->reductions[i].source, step) || uses_step(&row->reductions[i].place, step))
      return false;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (uses_step(&op->outputs[i].value, step) && !is_short_float(op->outputs[i].tensor->type)) return false;
  for (unsigned i = 0; i < op->n_steps; i++)
    for (unsigned j = 0; j < op->steps[i].n_operands; j++)
      if (uses_step(&op->steps[i].operands[j], step) &&
          (op->steps[i].op != ONNX_Cast || !is_short_float(op->steps[i].type)))
        return false;
  return true;
}

/* x / y of elements by what a row or a group of columns has, as x y' with y' = 1 / y; both are scaled first where 1 / y has no
 * f32. */
static IrExpr *times_reciprocal(StepScope *scope, const FusedStep *step)
{
  IrModule *module = scope->build->module;
  IrExpr *by = scope_operand(scope, &step->operands[1]), *x = scope_operand(scope, &step->operands[0]);
  if (by->kind != EXPR_VALUE || by->value->type.kind != TYPE_TILE || by->value->type.element != NUMBER_F32)
    return NULL;
  IrType type = by->value->type, flags = type, whole = row_tile_type(scope, NUMBER_F32, false);
  flags.element = NUMBER_BOOL;
  IrExpr *size = row_tile(scope, OP_ABS, type, "size", by, NULL);
  IrExpr *tiny = row_tile(scope, OP_LT, flags, "tiny", size, ir_float(module, TINY));
  IrExpr *up = ir_emit_value(&scope->builder, OP_SELECT, type, "up", 3, tiny, ir_float(module, 1 / TINY),
                             ir_float(module, 1));
  IrExpr *inverse =
      row_tile(scope, OP_RCP, type, "inverse", row_tile(scope, OP_MUL, type, "scaled", by, up), NULL);
  IrExpr *scaled = row_tile(scope, OP_MUL, whole, "scaled", x, fit_operand(scope, step, up));
  return row_tile(scope, OP_MUL, whole, "share", scaled, fit_operand(scope, step, inverse));
}

/* A quotient of elements by one number a row or group, where a product with its reciprocal is exact enough: as part of an
 * operator, or of few bits. */
static IrExpr *quotient(StepScope *scope, unsigned i)
{
  const FusedOperator *op = scope->build->op;
  const FusedStep *step = &op->steps[i];
  if (step->op != ONNX_Div || step->compute != NUMBER_F32 || row_step_is_per_row(op, step) || !op->n_outputs)
    return NULL;
  const FusedOperand *x = &step->operands[0], *y = &step->operands[1];
  for (unsigned j = 0; j < row_of(op)->n_reductions; j++) {
    const Kept *kept = &((const RowTile *)scope->data)->kept[j];
    if (kept->part && x->kind == OPERAND_STEP && scope->step_values[x->index] == kept->power)
      return row_share_of_part(scope, kept->power, scope_operand(scope, y));
  }
  if (step->node && step->node->op->class_ == OPERATOR_ROW && y->kind == OPERAND_REDUCED) {
    IrExpr *inverse = row_tile(scope, OP_RCP, row_tile_type(scope, NUMBER_F32, true), "inverse",
                               scope_operand(scope, y), NULL);
    return row_tile(scope, OP_MUL, row_tile_type(scope, NUMBER_F32, false), "share", scope_operand(scope, x),
                    inverse);
  }
  bool wide = x->kind == OPERAND_STEP && !row_step_is_narrow(op, &op->steps[x->index]) &&
              op->steps[x->index].compute == NUMBER_F32 && !row_step_is_narrow(op, step);
  bool one = y->kind == OPERAND_REDUCED ||
             (y->kind == OPERAND_STEP && row_step_is_narrow(op, &op->steps[y->index]) &&
              op->steps[y->index].compute == NUMBER_F32);
  return wide && one && shows_few_bits(op, i) ? times_reciprocal(scope, step) : NULL;
}

/* NULL: the step is not the gradient of a loss. */
static IrExpr *gradient(StepScope *scope, const FusedStep *step)
{
  const FusedRow *row = row_of(scope->build->op);
  IrExpr *value = NULL;
  for (unsigned i = 0; i < row->n_reductions && !value; i++) {
    const Kept *kept = &((const RowTile *)scope->data)->kept[i];
    if (kept->part) value = row_gradient_of_part(scope, &row->reductions[i], step, kept->power);
  }
  return value;
}

static bool write_step(StepScope *scope, unsigned i)
{
  const FusedStep *step = &scope->build->op->steps[i];
  IrExpr *value = kept_value(scope, step);
  if (!value) value = gradient(scope, step);
  if (!value) value = quotient(scope, i);
  if (!value) return scope_write_step(scope, i);
  scope->step_values[i] = value;
  return true;
}

/* The row's part of sums of columns, which leave behind the block's last row. */
static void add_to_sums(StepScope *scope, unsigned i)
{
  const RowTile *tile = scope->data;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  IrExpr *value = scope_operand(scope, &scope->build->op->outputs[i].value), *sum = tile->sums[i];
  value = spread(scope, step_convert(&writer, value, NUMBER_F32), NUMBER_F32, tile->cols);
  IrType type = row_tile_type(scope, NUMBER_F32, false);
  ir_emit(&scope->builder, OP_SET, 2, sum, row_tile(scope, OP_ADD, type, "sum", sum, value));
}

static void store_output(StepScope *scope, unsigned i)
{
  const FusedOperator *op = scope->build->op;
  if (op->outputs[i].reduced) {
    add_to_sums(scope, i);
    return;
  }
  IrValue *tensor = scope->tensors[op->n_inputs + i];
  int64_t extent[2];
  IrExpr *access = corner(scope, tensor, op->outputs[i].every, extent),
         *value = scope_operand(scope, &op->outputs[i].value);
  bool along = value->kind == EXPR_VALUE && ir_tile_extent(&value->value->type, 1) > 1; /* even if C is 1 */
  bool per_row = extent[1] == 1 && !along;
  int64_t cols = op->outputs[i].every ? extent[1] : per_row ? 1 : ((const RowTile *)scope->data)->cols;
  value = spread(scope, value, step_element(value, scope_output_type(scope, i)), cols);
  ir_emit(&scope->builder, OP_STORE, 2, access, scope_stored(scope, i, value));
}

/* ---- the whole ---- */

#define FEW_RESULTS                                                                                          \
  4 /* of a phase, which are stored at its end; more would keep all their registers until then */

static unsigned count_results(const FusedOperator *op, unsigned phase)
{
  unsigned n = 0;
  for (unsigned i = 0; i < op->n_outputs; i++)
    n += row_of(op)->output_phases[i] == phase;
  return n;
}

/* Outputs that the step computes. */
static void store_results(StepScope *scope, unsigned step, unsigned phase)
{
  const FusedOperator *op = scope->build->op;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const FusedOperand *value = &op->outputs[i].value;
    if (value->kind == OPERAND_STEP && value->index == step && row_of(op)->output_phases[i] == phase)
      store_output(scope, i);
  }
}

#define FEW_REDUCTIONS                                                                                       \
  2 /* of a phase, which are written at its end; the elements of more would wait together */

/* Are the phase's reductions written where their elements are computed? */
static bool reduces_early(const FusedOperator *op, unsigned phase)
{
  unsigned n = 0;
  for (unsigned i = 0; i < row_of(op)->n_reductions; i++)
    n += row_of(op)->reductions[i].phase == phase;
  return n > FEW_REDUCTIONS;
}

/* Reductions of what the step computes; those that need a place too wait for all steps. */
static bool is_early(const FusedOperator *op, const FusedReduction *reduction)
{
  return reduction->source.kind == OPERAND_STEP && reduction->place.kind == OPERAND_ABSENT &&
         reduces_early(op, reduction->phase) &&
         row_of(op)->step_phases[reduction->source.index] == reduction->phase;
}

static void reduce_step(StepScope *scope, unsigned step)
{
  const FusedOperator *op = scope->build->op;
  for (unsigned i = 0; i < row_of(op)->n_reductions; i++) {
    const FusedReduction *reduction = &row_of(op)->reductions[i];
    if (is_early(op, reduction) && reduction->source.index == step) write_reduction(scope, i);
  }
}

/* Steps and results of a phase; `late`: those of `behind` alone, else all others. */
static bool write_results(StepScope *scope, unsigned phase, const bool *behind, bool late)
{
  const FusedOperator *op = scope->build->op;
  bool many = count_results(op, phase) > FEW_RESULTS;
  for (unsigned i = 0; i < op->n_steps; i++) {
    if (row_of(op)->step_phases[i] != phase || behind[i] != late) continue;
    if (!write_step(scope, i)) return false;
    if (many) store_results(scope, i, phase);
    reduce_step(scope, i);
  }
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const FusedOperand *value = &op->outputs[i].value;
    bool of_step = value->kind == OPERAND_STEP,
         stored = many && of_step && row_of(op)->step_phases[value->index] == phase;
    if (row_of(op)->output_phases[i] == phase && !stored && (of_step && behind[value->index]) == late)
      store_output(scope, i);
  }
  return true;
}

static bool write_phase(StepScope *scope, unsigned phase)
{
  const FusedOperator *op = scope->build->op;
  g_autofree bool *behind = g_new0(bool, op->n_steps + 1);
  raise_again(scope, phase);
  const RowTile *tile = scope->data;
  bool some = !tile->passes && !tile->late && row_find_behind(op, phase, behind);
  if (some) row_load_all(scope);
  if (!write_results(scope, phase, behind, false) || (some && !write_results(scope, phase, behind, true)))
    return false;
  if (!phase) row_load_early(scope);
  for (unsigned i = 0; i < row_of(op)->n_reductions; i++)
    if (row_of(op)->reductions[i].phase == phase && !is_early(op, &row_of(op)->reductions[i]))
      write_reduction(scope, i);
  return true;
}

static void find_columns(StepScope *scope)
{
  RowTile *tile = scope->data;
  KernelBuild *build = scope->build;
  int64_t constant;
  const Symbolic *columns = row_of(build->op)->columns;
  tile->columns = kernel_dim(build, columns, "C", NUMBER_S32);
  bool known = ir_expr_is_int(tile->columns, &constant) && constant > 1;
  if (!known && ir_expr_is_int(tile->columns, &constant)) tile->form = "registers";
  if (!known) /* a tile of one column is what a row is reduced to, so those of the row have the name of another */
    tile->columns = kernel_named_dim(build, columns, "C", NUMBER_S32);
  tile->number = known ? ir_float(build->module, (double)constant)
                       : row_tile(scope, OP_CAST, ir_scalar(NUMBER_F32), "count", tile->columns, NULL);
  if (known) tile->cols = constant;
  tile->passes = g_str_equal(tile->form, "passes");
}

/* Rows that do not merge have a coordinate a dim; tiles are along the last of them. */
static void find_rows(StepScope *scope, IrExpr *index)
{
  RowTile *tile = scope->data;
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  IrExpr *rows = ir_int(module, tile->rows), *rest = index;
  for (unsigned d = op->rank - 1; d-- > 0;) {
    IrExpr *at = rest;
    if (d) {
      IrExpr *count = kernel_dim(build, op->dims[d], "extent", NUMBER_S32);
      if (d + 2 == op->rank && tile->rows > 1) count = ir_call(module, "ceil_div", 2, count, rows);
      at = row_tile(scope, OP_REM, ir_scalar(NUMBER_S32), "at", rest, count);
      rest = row_tile(scope, OP_DIV, ir_scalar(NUMBER_S32), "rest", rest, count);
    }
    bool last = d + 2 == op->rank;
    tile->at[d] = last && tile->rows > 1 ? ir_binary(module, OPERATOR_MUL, at, rows) : at;
  }
  tile->at[op->rank - 1] = ir_int(module, 0);
}

/* Rows as the grid counts them: of each run along the last dim of rows whole tiles. */
static const Symbolic *counted_rows(const KernelBuild *build, int64_t rows)
{
  const FusedOperator *op = build->op;
  Arena *arena = build->expressions;
  if (op->rank == 2 || rows == 1) return row_of(op)->rows;
  const Symbolic *tile = symbolic_constant(arena, rows), *last = op->dims[op->rank - 2];
  const Symbolic *count = symbolic_mul(arena, symbolic_ceil_div(arena, last, tile), tile);
  for (unsigned d = 0; d + 2 < op->rank; d++)
    count = symbolic_mul(arena, count, op->dims[d]);
  return count;
}

typedef struct {
  IrModule *module;
  int64_t cols, groups;
  IrExpr *row, *parts; /* as many columns: a dim, which may be that of the rows too; and groups of them */
} Widening;

static void widen_results(IrOp *op, void *data)
{
  const Widening *widening = data;
  for (unsigned i = 0; i < op->n_results; i++) {
    IrType *type = &op->results[i]->type;
    if (type->kind != TYPE_TILE) continue;
    int64_t extent = ir_tile_extent(type, 1);
    if (extent == widening->cols) type->dims[1] = widening->row;
    if (widening->parts && extent == widening->groups) type->dims[1] = widening->parts;
  }
}

/* Tiles become as wide as the row, and place_rows makes of them what the form says. */
static void hold_rows(KernelBuild *build, IrOp *tiles, const RowTile *tile)
{
  static const struct {
    const char *form, *parameter;
    IrAttributeKey key;
  } parameters[] = {{"passes", "chunk", ATTR_CHUNK},
                    {"shared", "slots", ATTR_SLOTS},
                    {"shared", "split_k", ATTR_SPLIT_K},
                    {"cluster", "split_k", ATTR_SPLIT_K}};
  IrModule *module = build->module;
  int64_t group = row_of(build->op)->group;
  Widening widening = {module, tile->cols, group ? tile->cols / group : 0, tile->columns, NULL};
  if (group) widening.parts = ir_call(module, "ceil_div", 2, tile->columns, ir_int(module, group));
  ir_attribute_set(tiles, ATTR_ROW, tile->columns);
  ir_attribute_set(tiles, ATTR_HOLD, ir_name(module, tile->form));
  for (unsigned i = 0; i < G_N_ELEMENTS(parameters); i++)
    if (g_str_equal(tile->form, parameters[i].form) &&
        choice_parameter(build->choice, parameters[i].parameter))
      ir_attribute_set(tiles, parameters[i].key,
                       ir_int(module, choice_int(build->choice, parameters[i].parameter, 1)));
  if (tile->columns->kind == EXPR_DIM) ir_region_visit(tiles->regions[0], widen_results, &widening);
}

/* ---- sums of columns ---- */

static int64_t summed_rows(const FusedOperator *op)
{
  int64_t width = 1;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].reduced) width = op->outputs[i].width;
  return width;
}

/* A block's rows, one after the other: what follows is written for each. */
static IrExpr *open_sums(StepScope *scope, IrExpr *part)
{
  RowTile *tile = scope->data;
  KernelBuild *build = scope->build;
  IrModule *module = build->module;
  const FusedOperator *op = build->op;
  IrExpr *width = ir_int(module, summed_rows(op)),
         *rows = kernel_dim(build, row_of(op)->rows, "N", NUMBER_S32);
  tile->sums = arena_new_array(module->arena, IrExpr *, op->n_outputs);
  for (unsigned i = 0; i < op->n_outputs; i++) {
    tile->sums[i] = NULL;
    if (!op->outputs[i].reduced) continue;
    IrExpr *zero = ir_float(module, 0);
    tile->sums[i] =
        ir_emit_value(&scope->builder, OP_VAR, row_tile_type(scope, NUMBER_F32, false), "sums", 1, zero);
    tile->sums[i]->value->variable = true;
  }
  IrExpr *first = ir_binary(module, OPERATOR_MUL, part, width),
         *end = ir_binary(module, OPERATOR_ADD, first, width);
  IrOp *loop =
      ir_emit(&scope->builder, OP_FOR, 3, first, ir_call(module, "min", 2, rows, end), ir_int(module, 1));
  IrRegion *region = ir_region_add(loop);
  scope->builder = ir_builder_at_end(region);
  return ir_value(module, ir_argument_add(region, "row", ir_scalar(NUMBER_S32)));
}

static void store_sums(StepScope *scope, IrRegion *region, IrExpr *part)
{
  const RowTile *tile = scope->data;
  IrModule *module = scope->build->module;
  const FusedOperator *op = scope->build->op;
  scope->builder = ir_builder_at_end(region);
  for (unsigned i = 0; i < op->n_outputs; i++) {
    if (!op->outputs[i].reduced) continue;
    IrExpr *at[2] = {part, ir_int(module, 0)};
    IrExpr *access = ir_index_array(module, ir_value(module, scope->tensors[op->n_inputs + i]), 2, at);
    ir_emit(&scope->builder, OP_STORE, 2, access, tile->sums[i]);
  }
}

/* Rows of a block, where it takes several, become one. */
static const Symbolic *counted_blocks(const KernelBuild *build, int64_t rows)
{
  const FusedOperator *op = build->op;
  const Symbolic *width = symbolic_constant(build->expressions, summed_rows(op));
  return row_of(op)->n_sums ? symbolic_ceil_div(build->expressions, row_of(op)->rows, width)
                            : counted_rows(build, rows);
}

/* The loop over rows that the template has for the program's operations; NULL and an error: it has none. */
static IrOp *find_tiles(KernelBuild *build)
{
  IrOp *tiles = build->kernel->body->first;
  while (tiles && tiles->code != OP_TILES)
    tiles = tiles->next;
  if (!tiles)
    error_set(build->error, ERROR_INPUT, &build->kernel->mark, "no-tiles", "tiles %r in linear(R) { }",
              "the kernel of a row program is written into its `tiles`, and it has none");
  return tiles;
}

bool kernel_write_row(KernelBuild *build)
{
  const FusedOperator *op = build->op;
  IrModule *module = build->module;
  RowTile tile = {.rows = choice_parameter(build->choice, "rows")->integer,
                  .cols = choice_parameter(build->choice, "cols")->integer,
                  .kept = arena_new_array(module->arena, Kept, row_of(op)->n_reductions),
                  .again = choice_int(build->choice, "again", 0) != 0,
                  .late = choice_int(build->choice, "late", 0) != 0,
                  .form = choice_parameter(build->choice, "hold")->text};
  bool whole = g_str_equal(tile.form, "registers") || g_str_equal(tile.form, "shared");
  if (row_of(op)->n_sums && (tile.rows != 1 || !whole || choice_int(build->choice, "split_k", 1) > 1)) {
    error_set(build->error, ERROR_UNSUPPORTED, &op->program->nodes[0].mark, "row-form", "--skip sum_rows",
              "a block that keeps sums of columns has its rows whole, one by one, in registers or in shared "
              "memory");
    return false;
  }
  g_autoptr(GHashTable) each = g_hash_table_new(NULL, NULL);
  tile.spread = each;
  IrOp *tiles = find_tiles(build);
  if (!tiles) return false;
  kernel_bind_dim(build, "R", counted_blocks(build, tile.rows));
  kernel_bind_dim(build, "C", row_of(op)->columns);
  kernel_add_operands(build, 0);
  StepScope scope = {.load = load_input, .index = row_index_value, .fit = fit_operand, .data = &tile};
  scope_open_region(&scope, build, tiles->regions[0]);
  scope.reduced = arena_new_array(module->arena, IrExpr *, 2 * row_of(op)->n_reductions);
  IrExpr *index = ir_value(module, tiles->regions[0]->arguments[0]), *part = index;
  find_columns(&scope);
  if (row_of(op)->n_sums) index = open_sums(&scope, part);
  find_rows(&scope, index);
  for (unsigned phase = 0; phase < row_of(op)->n_phases; phase++)
    if (!write_phase(&scope, phase)) return false;
  if (row_of(op)->n_sums) store_sums(&scope, tiles->regions[0], part);
  hold_rows(build, tiles, &tile);
  return true;
}
