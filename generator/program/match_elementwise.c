/* Elementwise kernels: every value belongs to the point whose elements are read for it. */
#include "generator/program/bind.h"
#include "generator/program/elementwise.h"

/* A matrix that lies column by column and is stored so is walked so too: its contiguous dimension goes last.
 */
static void walk_along_memory(const FusedOperator *fused, Space *space)
{
  unsigned last = space->rank, result = fused->n_inputs; /* the first output follows the inputs */
  for (unsigned d = 0; d < space->rank; d++)
    if (symbolic_equals(space->strides[d][result], 1) && symbolic_equals(space->strides[d][0], 1)) last = d;
  if (!fused->n_inputs || last + 1 >= space->rank || symbolic_equals(space->dims[last], 1)) return;
  const Symbolic *dim = space->dims[last], **strides = space->strides[last];
  for (unsigned d = last; d + 1 < space->rank; d++) {
    space->dims[d] = space->dims[d + 1];
    space->strides[d] = space->strides[d + 1];
  }
  space->dims[space->rank - 1] = dim;
  space->strides[space->rank - 1] = strides;
}

static bool bind(Binding *binding)
{
  const Program *program = binding->program;
  int first, axes[PROGRAM_MAX_AXES];
  if (bind_count(program, NODE_REDUCE, &first)) {
    binding->why = "there is a reduction";
    return false;
  }
  binding->near = true;
  if (!bind_count(program, NODE_WRITE, &first)) {
    binding->why = "nothing is written";
    return false;
  }
  Space space;
  for (unsigned i = 0; i < program->n_axes; i++)
    axes[i] = (int)i;
  Elementwise *points;
  if (!bind_lists(binding) || !bind_points(binding, &points)) return false;
  binding->fused->binding = points;
  if (!bind_space(binding, &space, axes, program->n_axes)) return false;
  walk_along_memory(binding->fused, &space);
  if (!space_merge(program->arena, &space, 0, space.rank)) space_insert(program->arena, &space, 0);
  bind_take_points(binding, &space);
  bind_point_dims(binding, &space, points);
  return true;
}

FamilyMatch match_elementwise(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.points = true, .scatters = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.why;
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}
