/* Parts of rows: a block takes one part of a row, or of so many neighbouring rows that lie side by side, in chunks. */
#include "generator/program/parts.h"
#include "generator/choose/choose.h"
#include "generator/choose/reduction.h"
#include "generator/choose/row.h"

#define VECTOR_BYTES 16 /* of a thread's widest access */

static bool is_along(const FusedInput *input, unsigned dim)
{
  return symbolic_equals(input->strides[dim], 1) || symbolic_equals(input->strides[dim], 0);
}

/* Rows are neighbours in memory, and elements of a row are not. */
static bool lies_across(const FusedOperator *op)
{
  bool across = op->n_inputs > 0;
  for (unsigned i = 0; i < op->n_inputs; i++)
    across &= is_along(&op->inputs[i], 0) && !symbolic_equals(op->inputs[i].strides[1], 1);
  return across && !symbolic_equals(op->inputs[0].strides[0], 0);
}

/* Accesses of VECTOR_BYTES along dim `along`: every part begins at a whole vector. */
static bool require_vectors(const Problem *problem, Choice *choice, unsigned along)
{
  const FusedOperator *op = problem->op;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const FusedInput *input = &op->inputs[i];
    unsigned vector = number_elements(input->tensor->type, VECTOR_BYTES);
    if (symbolic_equals(input->strides[along], 0)) continue;
    if (!symbolic_equals(input->strides[along], 1)) return false;
    if (!choose_require_multiple(problem, choice, input->strides[1 - along], vector) ||
        !choose_require_align(problem, choice, input->tensor, VECTOR_BYTES))
      return false;
    if (along && (!choose_require_multiple(problem, choice, parts_of(op)->width, vector) ||
                  !choose_require_multiple(problem, choice, parts_of(op)->columns, vector)))
      return false;
  }
  return true;
}

static bool add_variant(Chooser *chooser, bool across, bool aligned)
{
  const Problem *problem = chooser->problem;
  const FusedParts *parts = parts_of(problem->op);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  Choice *choice = choose_open(chooser, "row_parts");
  if (aligned && !require_vectors(problem, choice, across ? 0 : 1)) return true;
  choose_reduction(choice, parts->reduction, parts->compute);
  return choose_row_block(
      chooser, choice,
      (RowAsked){choose_maximum(problem, parts->width), across ? choose_row_run(problem->op) : 0});
}

const SpaceKind *space_kind_parts(void)
{
  return &row_block_kind;
}

bool choose_parts(Chooser *chooser)
{
  bool across = lies_across(chooser->problem->op);
  return add_variant(chooser, across, true) && add_variant(chooser, across, false);
}
