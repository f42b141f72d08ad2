/* Row programs: when values of a row are asked for, and which of its results are computed last. */
#include "generator/kernel/row_program.h"

static bool is_of_row(const FusedOperator *op, unsigned input)
{
  bool varies = !symbolic_equals(op->inputs[input].strides[0], 0);
  return varies && symbolic_equals(op->inputs[input].strides[op->rank - 1], 0) && !op->inputs[input].every;
}

static bool is_placed(const FusedOperator *op, unsigned input)
{
  const Elementwise *points = row_of(op)->points;
  return points && points->places[input].n;
}

static void load(StepScope *scope, unsigned input)
{
  const FusedOperand operand = {OPERAND_INPUT, input, 0, scope->build->op->inputs[input].tensor->type};
  scope_operand(scope, &operand);
}

void row_load_early(StepScope *scope)
{
  const FusedOperator *op = scope->build->op;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (is_of_row(op, i) && !is_placed(op, i)) load(scope, i);
}

/* The graph, or a step in front of all reductions, says it. */
static bool is_known_first(const FusedOperator *op, const FusedOperand *operand)
{
  if (operand->kind == OPERAND_STEP) return !row_of(op)->step_phases[operand->index];
  return operand->kind != OPERAND_REDUCED;
}

/* They are in L2 once a row's elements have come, and so has the index, which loads of the row would wait for if it were asked for in front of them. No
 * result waits for them behind the last reduction. */
void row_load_places(StepScope *scope)
{
  const FusedOperator *op = scope->build->op;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    bool known = is_placed(op, i);
    for (unsigned j = 0; known && j < row_of(op)->points->places[i].n; j++)
      known = is_known_first(op, &row_of(op)->points->places[i].indices[j].loaded);
    if (known) load(scope, i);
  }
}

void row_load_all(StepScope *scope)
{
  row_load_early(scope);
  row_load_places(scope);
}

/* ---- what waits ---- */

static void keep(const FusedOperator *op, const FusedOperand *operand, bool *behind)
{
  const Elementwise *points = row_of(op)->points;
  if (operand->kind == OPERAND_INPUT && is_placed(op, operand->index))
    for (unsigned i = 0; i < points->places[operand->index].n; i++)
      keep(op, &points->places[operand->index].indices[i].loaded, behind);
  if (operand->kind != OPERAND_STEP || !behind[operand->index]) return;
  behind[operand->index] = false;
  for (unsigned i = 0; i < op->steps[operand->index].n_operands; i++)
    keep(op, &op->steps[operand->index].operands[i], behind);
}

static bool reads_late(const FusedOperator *op, unsigned step)
{
  for (unsigned i = 0; i < op->steps[step].n_operands; i++) {
    const FusedOperand *operand = &op->steps[step].operands[i];
    if (operand->kind != OPERAND_INPUT) continue;
    for (unsigned j = 0; is_placed(op, operand->index) && j < row_of(op)->points->places[operand->index].n;
         j++)
      if (!is_known_first(op, &row_of(op)->points->places[operand->index].indices[j].loaded)) return true;
  }
  return false;
}

/* A loss is forty operations of each thread, which would wait in front of its stores and take registers beside the row's elements. */
bool row_find_behind(const FusedOperator *op, unsigned phase, bool *behind)
{
  const FusedRow *row = row_of(op);
  bool some = false, wide = false;
  if (phase + 1 != row->n_phases || !phase || row->n_sums) return false;
  for (unsigned i = 0; i < op->n_steps; i++)
    behind[i] = row->step_phases[i] == phase && row_step_is_per_row(op, &op->steps[i]) && !reads_late(op, i);
  for (unsigned i = 0; i < op->n_steps; i++)
    if (!behind[i])
      for (unsigned j = 0; j < op->steps[i].n_operands; j++)
        keep(op, &op->steps[i].operands[j], behind);
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const FusedOperand *value = &op->outputs[i].value;
    bool waits = value->kind == OPERAND_STEP && behind[value->index];
    some |= waits;
    wide |= value->kind == OPERAND_STEP && !row_step_is_per_row(op, &op->steps[value->index]);
  }
  if (!some || !wide) memset(behind, 0, op->n_steps * sizeof *behind);
  return some && wide;
}
