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

static void finish(Chooser *chooser, Choice *choice, unsigned rows, unsigned columns, unsigned threads)
{
  const FusedParts *parts = parts_of(chooser->problem->op);
  choice_set_int(choice, "rows", rows);
  choice_set_int(choice, "cols", columns);
  choice_set_int(choice, "threads", threads);
  choose_reduction(choice, parts->reduction, parts->compute);
  choice->tile_text = arena_printf(chooser->problem->arena, "%ux%u", rows, columns);
  choice->suffix = choice->tile_text;
  choice->stages = 1;
  chooser->n++;
}

static void add_variant(Chooser *chooser, bool across, bool aligned)
{
  const Problem *problem = chooser->problem;
  const CostModel *model = problem->gpu->model;
  const FusedOperator *op = problem->op;
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return;
  Choice *choice = choose_open(chooser, "row_parts");
  if (aligned && !require_vectors(problem, choice, across ? 0 : 1)) return;
  unsigned lanes = problem->gpu->warp_size;
  int64_t longest = choose_maximum(problem, parts_of(op)->width);
  if (across) {
    unsigned rows = choose_row_run(op);
    finish(chooser, choice, rows, choose_power_of_two(longest, lanes, model->across_chunk * lanes / rows),
           model->across_threads);
    return;
  }
  unsigned chunk = choose_power_of_two(longest, model->row_warps * lanes, model->online_chunk);
  finish(chooser, choice, 1, chunk,
         CLAMP(chunk / model->online_elements, model->online_least, model->online_most));
}

const SpaceKind *space_kind_parts(void)
{
  return NULL;
}

bool choose_parts(Chooser *chooser)
{
  bool across = lies_across(chooser->problem->op);
  add_variant(chooser, across, true);
  add_variant(chooser, across, false);
  return true;
}
