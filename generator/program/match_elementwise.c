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

/* ---- indices that strides do not tell ---- */

static unsigned count_indices(const Program *program, const ProgramAccess *access)
{
  unsigned n = 0;
  for (unsigned d = 0; d < access->tensor->rank; d++)
    n += !bind_is_plain(program, access, d);
  return n;
}

static bool has_indices(const Program *program)
{
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_INDEX || (node->kind == NODE_READ && count_indices(program, &node->access)))
      return true;
  }
  return false;
}

static bool bind_place(Binding *binding, const ProgramAccess *access, ElementPlace *place)
{
  const Program *program = binding->program;
  place->fill = access->fill;
  place->indices = arena_new_array(program->arena, ElementIndex, access->tensor->rank + 1);
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    if (bind_is_plain(program, access, d)) continue;
    const ProgramIndex *at = &access->at[d];
    ElementIndex index = {.of_axes = at->of_axes, .stride = access->tensor->strides[d]};
    if (access->outside == OUTSIDE_FILL) index.extent = access->tensor->shape[d];
    if (at->node != PROGRAM_NONE) {
      ProgramValue loaded = {VALUE_NODE, (unsigned)at->node, 0, 0, program->nodes[at->node].type};
      if (!bind_operand(binding, loaded, false, &index.loaded)) return false;
    }
    binding->marked |= program_axes_in(program, index.of_axes);
    place->indices[place->n++] = index;
  }
  return true;
}

/* What the operator reads and computes besides what strides tell; marks the axes that occur. */
static bool bind_indices(Binding *binding)
{
  const Program *program = binding->program;
  FusedOperator *fused = binding->fused;
  if (!has_indices(program)) return true;
  Elementwise *elementwise = arena_new_object(program->arena, Elementwise);
  elementwise->places = arena_new_array(program->arena, ElementPlace, fused->n_inputs + 1);
  elementwise->values = arena_new_array(program->arena, const Symbolic *, program->n_nodes);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_INDEX) {
      binding->marked |= program_axes_in(program, node->index);
      elementwise->values[elementwise->n_values++] = node->index;
    } else if (node->kind == NODE_READ &&
               !bind_place(binding, &node->access, &elementwise->places[binding->places[i]])) {
      return false;
    }
  }
  fused->binding = elementwise;
  return true;
}

/* The dim of each marked axis: by the operand that walks along it alone. */
static void find_dims(const Binding *binding, const Space *space)
{
  Elementwise *elementwise = (Elementwise *)binding->fused->binding;
  unsigned place = binding->fused->n_inputs + binding->fused->n_outputs;
  for (unsigned axis = 0; elementwise && axis < PROGRAM_MAX_AXES; axis++) {
    elementwise->dims[axis] = -1;
    if (!(binding->marked >> axis & 1)) continue;
    for (unsigned d = 0; d < space->rank; d++)
      if (symbolic_equals(space->strides[d][place], 1)) elementwise->dims[axis] = (int)d;
    place++;
  }
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
  if (!bind_lists(binding) || !bind_indices(binding) || !bind_space(binding, &space, axes, program->n_axes))
    return false;
  for (unsigned i = 0; i < binding->fused->n_outputs; i++)
    if (binding->fused->outputs[i].reduced) {
      binding->why = "parts of its values are combined";
      return false;
    }
  walk_along_memory(binding->fused, &space);
  if (!space_merge(program->arena, &space, 0, space.rank)) space_insert(program->arena, &space, 0);
  bind_take_space(binding, &space);
  find_dims(binding, &space);
  return true;
}

FamilyMatch match_elementwise(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.points = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.why;
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}
