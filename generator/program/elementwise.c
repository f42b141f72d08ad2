/* Elementwise operators: what they tell others, and one with the dimensions that it reads and writes along last. They bind
 * nothing of their own. */
#include "generator/program/family.h"
#include <string.h>

void visit_elementwise(const FusedOperator *op, const BindingVisitor *visitor)
{
}

void describe_elementwise(const FusedOperator *op, GString *text)
{
}

unsigned types_elementwise(const FusedOperator *op, NumberType *types)
{
  if (op->n_inputs) types[0] = op->inputs[0].tensor->type;
  return op->n_inputs ? 1 : 0;
}

/* Those that are known. */
unsigned extents_elementwise(const FusedOperator *op, FamilyExtent *extents)
{
  unsigned n = 0;
  for (unsigned d = 0; d < op->rank; d++)
    if (symbolic_is_constant(op->dims[d], NULL)) {
      extents[n] = (FamilyExtent){n ? "x" : "n", op->dims[d]};
      n++;
    }
  return n;
}

/* The dimension along which a tensor is contiguous; the rank if there is none. */
static unsigned unit_dimension(const Symbolic *const *strides, unsigned rank)
{
  for (unsigned d = rank; d-- > 0;)
    if (symbolic_equals(strides[d], 1)) return d;
  return rank;
}

/* Along which the outputs are contiguous, and another along which some input is. */
static bool find_faces(const FusedOperator *op, unsigned *rows, unsigned *columns)
{
  *rows = *columns = op->rank;
  for (unsigned i = 0; i < op->n_outputs; i++) {
    unsigned along = unit_dimension(op->outputs[i].strides, op->rank);
    if (along == op->rank || (i && along != *columns) || op->outputs[i].tensor->type == NUMBER_BOOL)
      return false;
    *columns = along;
  }
  for (unsigned i = 0; i < op->n_inputs; i++) {
    unsigned along = unit_dimension(op->inputs[i].strides, op->rank);
    if (op->inputs[i].tensor->type == NUMBER_BOOL) return false;
    bool turned = along != op->rank && along != *columns &&
                  !symbolic_equals(op->inputs[i].strides[*columns], 0) && *rows == op->rank;
    if (turned) *rows = along;
  }
  return op->n_outputs && *rows != op->rank;
}

static const Symbolic **reordered(Arena *arena, const Symbolic *const *list, unsigned rank, unsigned rows,
                                  unsigned columns)
{
  const Symbolic **order = arena_new_array(arena, const Symbolic *, FUSED_MAX_RANK + 1);
  unsigned n = 0;
  for (unsigned d = 0; d < rank; d++)
    if (d != rows && d != columns) order[n++] = list[d];
  order[n++] = list[rows];
  order[n] = list[columns];
  return order;
}

/* Outputs that are contiguous along one dimension and some input along another: with these two last, the outputs' the
 * very last. There is none with more than one dimension besides, or truth values. */
const FusedOperator *turned_elementwise(Arena *arena, const FusedOperator *op)
{
  unsigned rows, columns;
  if (op->rank < 2 || op->rank > 3 || !find_faces(op, &rows, &columns)) return NULL;
  FusedOperator *turned = arena_memdup(arena, op, sizeof *op);
  size_t bytes = op->rank * sizeof *op->dims;
  memcpy(turned->dims, reordered(arena, op->dims, op->rank, rows, columns), bytes);
  turned->inputs = arena_memdup(arena, op->inputs, op->n_inputs * sizeof *op->inputs);
  turned->outputs = arena_memdup(arena, op->outputs, op->n_outputs * sizeof *op->outputs);
  for (unsigned i = 0; i < op->n_inputs; i++)
    memcpy(turned->inputs[i].strides, reordered(arena, op->inputs[i].strides, op->rank, rows, columns),
           bytes);
  for (unsigned i = 0; i < op->n_outputs; i++)
    memcpy(turned->outputs[i].strides, reordered(arena, op->outputs[i].strides, op->rank, rows, columns),
           bytes);
  return turned;
}
