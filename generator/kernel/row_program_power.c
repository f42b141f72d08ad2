/* Row programs: how exactly exponentials of a row less its maximum are computed, by who sees what comes of them, and the
 * exponentials themselves. */
#include "generator/kernel/row_program.h"
#include <math.h>

typedef struct {
  const FusedOperator *op;
  const FusedReduction *reduction;
} Powers;

static bool is_step(const FusedOperand *operand, unsigned step)
{
  return operand->kind == OPERAND_STEP && operand->index == step;
}

static bool is_reduced(const FusedOperand *operand, unsigned index)
{
  return operand->kind == OPERAND_REDUCED && operand->index == index;
}

static bool is_maximum(const Powers *powers, const FusedOperand *operand)
{
  return is_reduced(operand, powers->reduction->first);
}

static bool is_sum(const Powers *powers, const FusedOperand *operand)
{
  return is_reduced(operand, powers->reduction->first + 1);
}

static bool same_operand(const FusedOperand *a, const FusedOperand *b)
{
  return a->kind == b->kind && a->index == b->index && a->kind != OPERAND_IMMEDIATE;
}

/* x - maximum of the reduction's elements. */
static bool is_below(const Powers *powers, const FusedStep *step)
{
  return step->op == ONNX_Sub && step->compute == NUMBER_F32 &&
         same_operand(&step->operands[0], &powers->reduction->source) &&
         is_maximum(powers, &step->operands[1]);
}

/* e^(x - maximum) of them. */
static bool is_power(const Powers *powers, const FusedStep *step)
{
  return step->op == ONNX_Exp && step->compute == NUMBER_F32 && step->operands[0].kind == OPERAND_STEP &&
         is_below(powers, &powers->op->steps[step->operands[0].index]);
}

/* 0 or 1 */
static bool is_flag(const Powers *powers, const FusedOperand *operand)
{
  if (operand->kind != OPERAND_STEP) return false;
  const FusedStep *step = &powers->op->steps[operand->index];
  return step->op == ONNX_Where && step->operands[1].kind == OPERAND_IMMEDIATE &&
         step->operands[2].kind == OPERAND_IMMEDIATE && step->operands[1].immediate == 1 &&
         step->operands[2].immediate == 0;
}

static StepPrecision shown_of_step(const Powers *powers, unsigned step, bool logarithm);

/* Whether a value of 8 bits is the one above or below is seen by who compares elements, so that near a tie every digit counts; with 16
 * bits it is one of many last places. */
static StepPrecision shown_of_type(NumberType type)
{
  return number_has_bytes(type, 2) ? step_precision(type) : STEP_FULL;
}

/* The step is as exact, relative to itself, as the value that it takes from `from`: a share less 1 is, as long as e^0 is 1 exactly, for
 * then the largest share's error is that of all others. */
static bool keeps(const Powers *powers, const FusedStep *step, unsigned from)
{
  const FusedOperand *x = step->operands;
  switch ((unsigned)step->op) {
  case ONNX_Neg: return true;
  case ONNX_Cast: return number_class(step->type) == NUMBER_FLOAT;
  case ONNX_Mul: return !is_step(&x[0], from) || !is_step(&x[1], from);
  case ONNX_Div: return is_step(&x[0], from) && !is_step(&x[1], from);
  case ONNX_Sub: return is_step(&x[0], from) && is_flag(powers, &x[1]);
  case ONNX_Where: return !is_step(&x[0], from);
  default: return false;
  }
}

/* What is still the logarithm of the sum, or that and the maximum; where this is infinite, something else. */
static bool keeps_logarithm(const Powers *powers, const FusedStep *step, unsigned from)
{
  const FusedOperand *x = step->operands;
  if (step->op == ONNX_Add)
    return is_maximum(powers, &x[0]) ? is_step(&x[1], from)
                                     : is_step(&x[0], from) && is_maximum(powers, &x[1]);
  bool other = is_maximum(powers, &x[1]) || (x[1].kind == OPERAND_IMMEDIATE && x[1].immediate == 0);
  return step->op == ONNX_Where && other && is_step(&x[2], from);
}

/* An element of the row, as it was loaded or less the maximum. */
static bool is_element(const Powers *powers, const FusedOperand *operand)
{
  const FusedOperand *source = &powers->reduction->source;
  if (operand->kind == OPERAND_INPUT)
    return source->kind == OPERAND_INPUT &&
           powers->op->inputs[operand->index].tensor == powers->op->inputs[source->index].tensor;
  return operand->kind == OPERAND_STEP && is_below(powers, &powers->op->steps[operand->index]);
}

/* The maximum less an element of the row. */
static bool is_short_of(const Powers *powers, const FusedOperand *operand)
{
  const FusedStep *step = operand->kind == OPERAND_STEP ? &powers->op->steps[operand->index] : NULL;
  return step && step->op == ONNX_Sub && is_maximum(powers, &step->operands[0]) &&
         is_element(powers, &step->operands[1]);
}

/* A loss or its negative: the logarithm of the sum, and the maximum less an element of the row. Neither is negative, so that their errors
 * do not grow against the loss. */
static bool is_loss(const Powers *powers, const FusedStep *step, unsigned from)
{
  const FusedOperand *x = step->operands;
  if (step->op == ONNX_Add) return is_step(&x[0], from) && is_short_of(powers, &x[1]);
  if (step->op != ONNX_Sub) return false;
  return is_step(&x[0], from) ? is_element(powers, &x[1]) : is_step(&x[1], from) && is_element(powers, &x[0]);
}

static StepPrecision shown_of_user(const Powers *powers, unsigned user, unsigned step, bool logarithm)
{
  const FusedStep *next = &powers->op->steps[user];
  if (logarithm) {
    if (is_loss(powers, next, step)) return shown_of_step(powers, user, false);
    return keeps_logarithm(powers, next, step) ? shown_of_step(powers, user, true) : STEP_FULL;
  }
  return keeps(powers, next, step) ? shown_of_step(powers, user, false) : STEP_FULL;
}

/* Of whom a step's value is seen, directly or behind others; `logarithm`: it is one, whose error counts against what it is later. */
static StepPrecision shown_of_step(const Powers *powers, unsigned step, bool logarithm)
{
  const FusedOperator *op = powers->op;
  const FusedRow *row = row_of(op);
  StepPrecision most = STEP_BRIEF;
  if (!logarithm && step_precision(op->steps[step].type) < STEP_FULL)
    return shown_of_type(op->steps[step].type);
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (is_step(&op->outputs[i].value, step))
      most = MAX(most, logarithm ? STEP_FULL : shown_of_type(op->outputs[i].tensor->type));
  for (unsigned i = 0; i < row->n_reductions; i++)
    if (is_step(&row->reductions[i].source, step) || is_step(&row->reductions[i].place, step))
      return STEP_FULL;
  for (unsigned i = step + 1; i < op->n_steps && most < STEP_FULL; i++)
    for (unsigned j = 0; j < op->steps[i].n_operands; j++)
      if (is_step(&op->steps[i].operands[j], step))
        most = MAX(most, shown_of_user(powers, i, step, logarithm));
  return most;
}

/* Who reads the sum: an exponential's share of it, or its logarithm. */
static StepPrecision shown_of_sum(const Powers *powers, unsigned reader)
{
  const FusedStep *step = &powers->op->steps[reader];
  const FusedOperand *x = step->operands;
  if (step->op == ONNX_Log) return shown_of_step(powers, reader, true);
  bool share = step->op == ONNX_Div && x[0].kind == OPERAND_STEP && is_sum(powers, &x[1]) &&
               is_power(powers, &powers->op->steps[x[0].index]);
  return share ? shown_of_step(powers, reader, false) : STEP_FULL;
}

/* An exponential is asked for as a share of the sum alone. */
static bool is_shared(const Powers *powers, unsigned power)
{
  const FusedOperator *op = powers->op;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (is_step(&op->outputs[i].value, power)) return false;
  for (unsigned i = 0; i < op->n_steps; i++)
    for (unsigned j = 0; j < op->steps[i].n_operands; j++)
      if (is_step(&op->steps[i].operands[j], power) &&
          (j || op->steps[i].op != ONNX_Div || !is_sum(powers, &op->steps[i].operands[1])))
        return false;
  return true;
}

StepPrecision row_power_precision(const FusedOperator *op, const FusedReduction *reduction)
{
  Powers powers = {op, reduction};
  StepPrecision most = STEP_BRIEF;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (is_sum(&powers, &op->outputs[i].value)) return STEP_FULL;
  for (unsigned i = 0; i < op->n_steps && most < STEP_FULL; i++) {
    if (is_power(&powers, &op->steps[i]) && !is_shared(&powers, i)) return STEP_FULL;
    for (unsigned j = 0; j < op->steps[i].n_operands; j++)
      if (is_sum(&powers, &op->steps[i].operands[j])) most = MAX(most, shown_of_sum(&powers, i));
  }
  return most;
}

bool row_is_power(const FusedOperator *op, const FusedReduction *reduction, const FusedStep *step)
{
  Powers powers = {op, reduction};
  return is_power(&powers, step);
}

/* ---- what is written ---- */

static IrExpr *called(StepScope *scope, const char *function, IrExpr *x)
{
  IrModule *module = scope->build->module;
  IrOp *call = ir_emit(&scope->builder, OP_CALL, 2, ir_symbol(module, function), x);
  return ir_value(module, ir_result(call, "power", row_tile_type(scope, NUMBER_F32, false)));
}

IrExpr *row_power(StepScope *scope, StepPrecision precision, IrExpr *below)
{
  static const char *const names[] = {"exp_negative_brief", "exp_negative_narrow", "exp_negative"};
  return called(scope, names[precision], below);
}

/* By the hardware's approximation, good to 2^-22 and 1 at 0 exactly: three operations an element, of which a scheduler has the third beside
 * others, where polynomials take eight. The maximum is taken off first: nothing cancels, however large it is. */
IrExpr *row_power_of_part(StepScope *scope, IrExpr *below)
{
  IrType whole = row_tile_type(scope, NUMBER_F32, false);
  IrExpr *exponent =
      row_tile(scope, OP_MUL, whole, "exponent", below, ir_float(scope->build->module, M_LOG2E));
  IrExpr *power = row_tile(scope, OP_EXP2, whole, "power", exponent, NULL);
  ir_attribute_set(power->value->def, ATTR_FAST, NULL);
  return power;
}

IrExpr *row_sum_of_parts(StepScope *scope, IrExpr *sum, IrExpr *maximum)
{
  IrType one = row_tile_type(scope, NUMBER_F32, true);
  return row_tile(scope, OP_ADD, one, "sum", sum, row_tile(scope, OP_SUB, one, "none", maximum, maximum));
}

IrExpr *row_share_of_part(StepScope *scope, IrExpr *power, IrExpr *sum)
{
  IrExpr *inverse = row_tile(scope, OP_RCP, row_tile_type(scope, NUMBER_F32, true), "inverse", sum, NULL);
  return row_tile(scope, OP_MUL, row_tile_type(scope, NUMBER_F32, false), "share", power, inverse);
}

/* ---- a share less 0 or 1, times a number of the row: a loss's gradient ---- */

typedef struct {
  const FusedStep *share, *flag;
  const FusedOperand *times;
} Gradient;

static bool find_gradient(const FusedOperator *op, const FusedReduction *reduction, const FusedStep *step,
                          Gradient *found)
{
  Powers powers = {op, reduction};
  if (step->op != ONNX_Mul || step->compute != NUMBER_F32) return false;
  for (unsigned i = 0; i < 2; i++) {
    const FusedOperand *x = &step->operands[i], *times = &step->operands[1 - i];
    const FusedStep *less = x->kind == OPERAND_STEP ? &op->steps[x->index] : NULL;
    if (!less || less->op != ONNX_Sub || !is_flag(&powers, &less->operands[1])) continue;
    if (less->operands[0].kind != OPERAND_STEP) continue;
    bool narrow = times->kind == OPERAND_STEP && row_step_is_per_row(op, &op->steps[times->index]);
    narrow |= times->kind == OPERAND_INPUT && !op->inputs[times->index].every &&
              symbolic_equals(op->inputs[times->index].strides[op->rank - 1], 0);
    *found = (Gradient){&op->steps[less->operands[0].index], &op->steps[less->operands[1].index], times};
    const FusedOperand *y = found->share->operands;
    if (narrow && found->share->op == ONNX_Div && y[0].kind == OPERAND_STEP && is_sum(&powers, &y[1]) &&
        is_power(&powers, &op->steps[y[0].index]))
      return true;
  }
  return false;
}

IrExpr *row_gradient_of_part(StepScope *scope, const FusedReduction *reduction, const FusedStep *step,
                             IrExpr *power)
{
  Gradient gradient;
  if (!find_gradient(scope->build->op, reduction, step, &gradient)) return NULL;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  IrType one = row_tile_type(scope, NUMBER_F32, true), whole = row_tile_type(scope, NUMBER_F32, false);
  IrExpr *times = step_convert(&writer, scope_operand(scope, gradient.times), NUMBER_F32),
         *sum = scope->reduced[reduction->first + 1],
         *inverse = row_tile(scope, OP_RCP, one, "inverse", sum, NULL),
         *flag = scope_operand(scope, &gradient.flag->operands[0]);
  inverse = row_tile(scope, OP_MUL, one, "inverse", inverse, times);
  IrExpr *one_less = row_tile(scope, OP_NEG, one, "less", times, NULL),
         *less = ir_emit_value(&scope->builder, OP_SELECT, whole, "less", 3, flag, one_less,
                               ir_float(scope->build->module, 0.0));
  return ir_emit_value(&scope->builder, OP_FMA, whole, "gradient", 3, power, inverse, less);
}
