/* Parts of rows: a block takes one part of a row, or of so many neighbouring rows that lie side by side, in chunks. */
#include "generator/program/parts.h"
#include "generator/choose/choose.h"
#include "generator/choose/reduction.h"
#include "generator/choose/row.h"

#define VECTOR_BYTES 16 /* of a thread's widest access */
#define WIDE_BLOCKS  3  /* of such rows that an SM has at least */

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

/* So many rows, known ones, that a block's threads have one vector of each element of a row: all SMs have blocks of them; 0: they have
 * not, or a tile is not filled. Registers are for loads of one tensor. */
static unsigned wide_run(const Problem *problem)
{
  const FusedParts *parts = parts_of(problem->op);
  unsigned run = problem->gpu->model->across_parts * choose_row_run(problem->op);
  int64_t rows, columns, width;
  if (problem->op->n_inputs != 1 || problem->op->n_steps > 1) return 0;
  if (!symbolic_is_constant(parts->rows, &rows) || !symbolic_is_constant(parts->columns, &columns) ||
      !symbolic_is_constant(parts->width, &width) || width <= 0 || rows < run)
    return 0;
  int64_t blocks = (rows + run - 1) / run * ((columns + width - 1) / width);
  return blocks >= (int64_t)WIDE_BLOCKS * problem->gpu->sm_count ? run : 0;
}

static bool add_variant(Chooser *chooser, bool across, bool aligned)
{
  const Problem *problem = chooser->problem;
  const FusedParts *parts = parts_of(problem->op);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  Choice *choice = choose_open(chooser, "row_parts");
  if (aligned && !require_vectors(problem, choice, across ? 0 : 1)) return true;
  choose_reduction(choice, parts->reduction, parts->compute);
  unsigned wide = across && aligned ? wide_run(problem) : 0;
  RowAsked asked = {.columns = choose_maximum(problem, parts->width),
                    .run = across ? choose_row_run(problem->op) : 0};
  if (wide) {
    asked.run = wide;
    asked.vector = number_elements(problem->op->inputs[0].tensor->type, VECTOR_BYTES);
  }
  return choose_row_block(chooser, choice, asked);
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
