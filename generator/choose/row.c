/* How operands of kernels of rows lie, and what programs of rows ask of those that read them. */
#include "generator/choose/row.h"
#include "generator/choose/row_program.h"
#include "generator/program/row.h"

#define VECTOR_BYTES 16 /* of a thread's widest access */

/* Rows start aligned. *data: bytes of the narrowest type. */
static bool require_operand(const Problem *problem, Choice *choice, unsigned i, void *data)
{
  const FusedOperator *op = problem->op;
  bool input = i < op->n_inputs;
  unsigned *narrowest = data;
  const GraphTensor *tensor = input ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
  const Symbolic *const *strides =
      input ? (const Symbolic *const *)op->inputs[i].strides : op->outputs[i - op->n_inputs].strides;
  if (symbolic_equals(strides[1], 0)) return true;
  if (!symbolic_equals(strides[1], 1) ||
      !choose_require_multiple(problem, choice, strides[0], number_elements(tensor->type, VECTOR_BYTES)) ||
      !choose_require_align(problem, choice, tensor, VECTOR_BYTES))
    return false;
  *narrowest = MIN(*narrowest, number_bytes(tensor->type));
  return true;
}

bool choose_row_vectors(const Problem *problem, Choice *choice, const Symbolic *columns)
{
  unsigned narrowest = 4;
  return choose_require_operands(problem, choice, choose_reads_along, require_operand, &narrowest) &&
         choose_require_multiple(problem, choice, columns, VECTOR_BYTES / narrowest);
}

/* ---- Reductions across memory: elements of a row lie apart, those of a column side by side ---- */

#define RUN_BYTES 128 /* of neighbouring rows that a block takes */

bool choose_rows_lie_across(const FusedOperator *op)
{
  bool across = op->n_inputs > 0;
  unsigned first = op->rank - 2; /* rows and columns are the last two dims */
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const Symbolic *const *strides = (const Symbolic *const *)op->inputs[i].strides + first;
    bool repeated = symbolic_equals(strides[0], 0);
    across &= repeated || (symbolic_equals(strides[0], 1) && !symbolic_equals(strides[1], 1));
  }
  return across && !symbolic_equals(op->inputs[0].strides[first], 0);
}

bool choose_row_runs(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  unsigned first = op->rank - 2;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const FusedInput *input = &op->inputs[i];
    unsigned vector = number_elements(input->tensor->type, VECTOR_BYTES);
    if (symbolic_equals(input->strides[first], 0)) continue;
    for (unsigned d = 0; d < op->rank; d++)
      if (d != first && !choose_require_multiple(problem, choice, input->strides[d], vector)) return false;
    choose_require_align(problem, choice, input->tensor, VECTOR_BYTES);
  }
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!choose_require_align(problem, choice, op->outputs[i].tensor, VECTOR_BYTES)) return false;
  return true;
}

unsigned choose_row_run(const FusedOperator *op)
{
  return RUN_BYTES / MIN(4, number_bytes(op->inputs[0].tensor->type));
}

/* ---- Programs of rows ---- */

bool row_program_streams(const FusedOperator *op)
{
  if (!row_of(op)->reduction || row_of(op)->n_reductions != 1) return false;
  ProgramReduction reduction = row_of(op)->reductions[0].reduction;
  return reduction == REDUCTION_SUM || reduction == REDUCTION_MEAN || reduction == REDUCTION_MAX ||
         reduction == REDUCTION_MIN || reduction == REDUCTION_PROD;
}

#define MANY_REDUCTIONS 2 /* whose kernels the counts of live values know well */
#define MANY_STEPS      24

bool row_program_is_heavy(const FusedOperator *op)
{
  return row_of(op)->n_reductions > MANY_REDUCTIONS || op->n_steps > MANY_STEPS || row_of(op)->n_sums;
}
