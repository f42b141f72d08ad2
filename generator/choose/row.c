/* Row operators: short rows by a warp each, longer ones by a block, both in registers; any length online. */
#include "generator/program/row.h"
#include "generator/choose/reduction.h"
#include "generator/choose/row.h"
#include "generator/choose/row_program.h"

static const char *template_of(const FusedRow *row, bool online)
{
  switch (row->kind) {
  case ROW_SOFTMAX:
  case ROW_LOG_SOFTMAX: return online ? "softmax_online" : "softmax";
  case ROW_LAYER_NORM: return online ? "layer_norm_online" : "layer_norm";
  case ROW_RMS_NORM: return online ? "rms_norm_online" : "rms_norm";
  case ROW_REDUCE_SUM:
  case ROW_REDUCE_MEAN:
  case ROW_REDUCE_MAX:
  case ROW_REDUCE_MIN:
  case ROW_PROGRAM: break;
  }
  return "row_reduce";
}

static ProgramReduction reduction_of(const FusedRow *row)
{
  return row->kind == ROW_REDUCE_MAX   ? REDUCTION_MAX
         : row->kind == ROW_REDUCE_MIN ? REDUCTION_MIN
                                       : REDUCTION_SUM;
}

/* What the template takes beside rows, columns and threads. */
static void set_operator(const Problem *problem, Choice *choice)
{
  const FusedRow *row = row_of(problem->op);
  if (row->kind == ROW_SOFTMAX || row->kind == ROW_LOG_SOFTMAX) {
    const GraphTensor *result = problem->op->anchor->outputs[0];
    choice_set_int(choice, "log", row->kind == ROW_LOG_SOFTMAX);
    choice_set_name(choice, "power", number_bits(result->type) <= 16 ? "exp_negative_narrow" : "exp");
  }
  if (row->kind == ROW_LAYER_NORM || row->kind == ROW_RMS_NORM)
    choice_set_float(choice, "epsilon", row->epsilon);
  if (row->reduction) {
    choose_reduction(choice, reduction_of(row), row->compute);
    choice_set_int(choice, "mean", row->kind == ROW_REDUCE_MEAN);
  }
}

#define VECTOR_BYTES 16 /* of a thread's widest access */

bool choose_row_vectors(const Problem *problem, Choice *choice, const Symbolic *columns)
{
  const FusedOperator *op = problem->op;
  unsigned narrowest = 4;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    bool input = i < op->n_inputs;
    const GraphTensor *tensor = input ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
    const Symbolic *const *strides =
        input ? (const Symbolic *const *)op->inputs[i].strides : op->outputs[i - op->n_inputs].strides;
    strides += ROW_DIM(row_of(op));
    if (symbolic_equals(strides[1], 0)) continue;
    if (!symbolic_equals(strides[1], 1)) return false;
    unsigned vector = number_elements(tensor->type, VECTOR_BYTES);
    narrowest = MIN(narrowest, number_bytes(tensor->type));
    if (!choose_require_multiple(problem, choice, strides[0], vector) ||
        (row_of(op)->inner && !choose_require_multiple(problem, choice, strides[-1], vector)))
      return false;
    if (!choose_require_align(problem, choice, tensor, VECTOR_BYTES)) return false;
  }
  return choose_require_multiple(problem, choice, columns, VECTOR_BYTES / narrowest);
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
    const Symbolic *const *strides = (const Symbolic *const *)input->strides + first;
    unsigned vector = number_elements(input->tensor->type, VECTOR_BYTES);
    if (symbolic_equals(strides[0], 0)) continue;
    if (!choose_require_multiple(problem, choice, strides[1], vector) ||
        (first && !choose_require_multiple(problem, choice, strides[-1], vector)))
      return false;
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

static bool is_complete(const Chooser *chooser)
{
  return chooser->n == PLAN_MAX_VARIANTS || (chooser->n && !chooser->variants[chooser->n - 1].guard);
}

static bool add_across(Chooser *chooser, bool aligned)
{
  const Problem *problem = chooser->problem;
  const FusedRow *row = row_of(problem->op);
  unsigned run = choose_row_run(problem->op);
  if (is_complete(chooser)) return true;
  Choice *choice = choose_open(chooser, "row_reduce");
  if (aligned && !choose_row_runs(problem, choice)) return true;
  set_operator(problem, choice);
  if (row->inner) run = choose_power_of_two(choose_maximum(problem, row->inner), 1, run);
  return choose_row_block(chooser, choice, (RowAsked){choose_maximum(problem, row->columns), 0, run});
}

/* Rows of at most `columns`, aligned or not; columns 0 is the online template, for any length. */
static bool add_variant(Chooser *chooser, int64_t columns, bool aligned)
{
  const Problem *problem = chooser->problem;
  const FusedRow *row = row_of(problem->op);
  if (is_complete(chooser)) return true;
  Choice *choice = choose_open(chooser, template_of(row, columns == 0));
  if (aligned && !choose_row_vectors(problem, choice, row->columns)) return true;
  if (columns && !choose_require_at_most(problem, choice, row->columns, columns)) return true;
  set_operator(problem, choice);
  return choose_row_block(chooser, choice, (RowAsked){choose_maximum(problem, row->columns), columns, 0});
}

/* Of so many columns at most, aligned and not. */
static bool add_both(Chooser *chooser, int64_t columns)
{
  return add_variant(chooser, columns, true) && add_variant(chooser, columns, false);
}

/* Rows of a length that is known, longer than a warp keeps: templates round these up to powers of two, row programs do
 * not. */
static bool is_long(const Problem *problem)
{
  const FusedRow *row = row_of(problem->op);
  bool known = symbolic_is_constant(row->columns, NULL) && row->whole && !row->reduction;
  return known && choose_maximum(problem, row->columns) > problem->gpu->model->short_row;
}

static bool is_program(const Problem *problem)
{
  const FusedRow *row = row_of(problem->op);
  if (row->kind == ROW_PROGRAM || (row->whole && row_program_forced(problem) < ROW_FORMS)) return true;
  return is_long(problem) && (row_program_stays(problem) || row_program_shared(problem));
}

bool choose_row(Chooser *chooser)
{
  const CostModel *model = chooser->problem->gpu->model;
  const FusedRow *row = row_of(chooser->problem->op);
  if (is_program(chooser->problem)) return choose_row_program(chooser);
  if (row->reduction && choose_rows_lie_across(chooser->problem->op))
    return add_across(chooser, true) && add_across(chooser, false);
  bool known = symbolic_is_constant(row->columns, NULL);
  if (!row->reduction && !is_long(chooser->problem)) { /* what no block keeps is read twice */
    int64_t longest = choose_maximum(chooser->problem, row->columns);
    if (known && longest <= model->longest_row && !add_both(chooser, model->longest_row)) return false;
    if (!known && !(add_both(chooser, model->short_row) && add_both(chooser, model->long_row))) return false;
  }
  return add_both(chooser, 0);
}
