/* Where points read, and what they know of where they lie: indices that strides do not tell. */
#include "generator/program/bind.h"
#include "generator/program/elementwise.h"

static unsigned count_indices(const Binding *binding, const ProgramAccess *access)
{
  unsigned n = 0;
  for (unsigned d = 0; d < access->tensor->rank; d++)
    n += !bind_is_plain(binding, access, d);
  return n;
}

static bool has_indices(const Binding *binding)
{
  const Program *program = binding->program;
  if (binding->walked) return true;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool placed = node->kind == NODE_READ || bind_scatters(binding, node);
    if (node->kind == NODE_INDEX || (placed && count_indices(binding, &node->access))) return true;
  }
  return false;
}

static bool bind_place(Binding *binding, const ProgramAccess *access, ElementPlace *place)
{
  const Program *program = binding->program;
  place->fill = access->fill;
  place->indices = arena_new_array(program->arena, ElementIndex, access->tensor->rank + 1);
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    if (bind_is_plain(binding, access, d)) continue;
    const ProgramIndex *at = &access->at[d];
    ElementIndex index = {.of_axes = at->of_axes, .stride = access->tensor->strides[d]};
    if (access->outside != OUTSIDE_NEVER) index.extent = access->tensor->shape[d];
    if (at->node != PROGRAM_NONE) {
      ProgramValue loaded = {VALUE_NODE, (unsigned)at->node, 0, 0, program->nodes[at->node].type};
      if (!bind_operand(binding, loaded, false, &index.loaded)) return false;
    }
    binding->marked |= program_axes_in(program, index.of_axes);
    place->indices[place->n++] = index;
  }
  return true;
}

bool bind_points(Binding *binding, Elementwise **points)
{
  const Program *program = binding->program;
  FusedOperator *fused = binding->fused;
  *points = NULL;
  if (!has_indices(binding)) return true;
  Elementwise *elementwise = arena_new_object(program->arena, Elementwise);
  elementwise->places = arena_new_array(program->arena, ElementPlace, fused->n_inputs + fused->n_outputs + 1);
  elementwise->values = arena_new_array(program->arena, const Symbolic *, program->n_nodes);
  ElementPlace *written = elementwise->places + fused->n_inputs;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_INDEX) {
      bool column = binding->column && symbolic_same(node->index, binding->column);
      if (!column) binding->marked |= program_axes_in(program, node->index);
      elementwise->values[elementwise->n_values++] = node->index;
    } else if (node->kind == NODE_READ &&
               !bind_place(binding, &node->access, &elementwise->places[binding->places[i]])) {
      return false;
    } else if (node->kind == NODE_WRITE) {
      if (bind_scatters(binding, node) && !bind_place(binding, &node->access, written)) return false;
      written++;
    }
  }
  *points = elementwise;
  return true;
}

void bind_point_dims(const Binding *binding, const Space *space, Elementwise *elementwise)
{
  unsigned place = binding->fused->n_inputs + binding->fused->n_outputs;
  for (unsigned axis = 0; elementwise && axis < PROGRAM_MAX_AXES; axis++) {
    elementwise->dims[axis] = -1;
    if (!(binding->marked >> axis & 1)) continue;
    for (unsigned d = 0; d < space->rank; d++)
      if (symbolic_equals(space->strides[d][place], 1)) elementwise->dims[axis] = (int)d;
    place++;
  }
}
