#include "generator/program/space.h"

void space_broadcast(Arena *arena, const GraphTensor *tensor, const Symbolic *const *dims, unsigned rank,
                     const Symbolic **strides)
{
  const Symbolic *zero = symbolic_constant(arena, 0);
  for (unsigned i = 0; i < rank; i++) {
    unsigned from_last = rank - i;
    strides[i] = zero;
    if (from_last > tensor->rank || symbolic_equals(dims[i], 1)) continue;
    unsigned own = tensor->rank - from_last;
    if (!symbolic_equals(tensor->shape[own], 1)) strides[i] = tensor->strides[own];
  }
}

void space_init(Arena *arena, Space *space, unsigned rank, const Symbolic *const *dims, unsigned n_operands)
{
  *space = (Space){.rank = rank, .n_operands = n_operands};
  for (unsigned i = 0; i < rank; i++) {
    space->dims[i] = dims[i];
    space->strides[i] = arena_new_array(arena, const Symbolic *, n_operands);
  }
}

static void remove_dim(Space *space, unsigned at)
{
  for (unsigned i = at; i + 1 < space->rank; i++) {
    space->dims[i] = space->dims[i + 1];
    space->strides[i] = space->strides[i + 1];
  }
  space->rank--;
}

/* Every operand walks dim `at` as if it continued dim `at + 1`. */
static bool continues(Arena *arena, const Space *space, unsigned at)
{
  for (unsigned i = 0; i < space->n_operands; i++) {
    const Symbolic *step = symbolic_mul(arena, space->strides[at + 1][i], space->dims[at + 1]);
    if (!symbolic_same(space->strides[at][i], step)) return false;
  }
  return true;
}

unsigned space_merge(Arena *arena, Space *space, unsigned first, unsigned last)
{
  for (unsigned i = first; i < last;)
    if (symbolic_equals(space->dims[i], 1)) {
      remove_dim(space, i);
      last--;
    } else {
      i++;
    }
  for (unsigned i = first; i + 1 < last;)
    if (continues(arena, space, i)) {
      space->dims[i + 1] = symbolic_mul(arena, space->dims[i], space->dims[i + 1]);
      remove_dim(space, i);
      last--;
    } else {
      i++;
    }
  return last - first;
}

void space_absorb(Arena *arena, Space *space, unsigned at)
{
  space->dims[at] = symbolic_mul(arena, space->dims[at], space->dims[at + 1]);
  remove_dim(space, at + 1);
}

void space_insert(Arena *arena, Space *space, unsigned at)
{
  for (unsigned i = space->rank; i > at; i--) {
    space->dims[i] = space->dims[i - 1];
    space->strides[i] = space->strides[i - 1];
  }
  space->dims[at] = symbolic_constant(arena, 1);
  space->strides[at] = arena_new_array(arena, const Symbolic *, space->n_operands);
  for (unsigned i = 0; i < space->n_operands; i++)
    space->strides[at][i] = symbolic_constant(arena, 0);
  space->rank++;
}
