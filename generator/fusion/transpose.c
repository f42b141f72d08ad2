/* Operators with their dimensions in another order.
 *
 * The product the other way round: D = A B and D^T = B^T A^T are the same numbers, so a kernel may take B's
 * columns for its rows and A's rows for its columns. */
#include "generator/fusion/fusion.h"
#include <string.h>

static void exchange(const Symbolic **strides, unsigned rank)
{
  const Symbolic *row = strides[rank - 2];
  strides[rank - 2] = strides[rank - 1];
  strides[rank - 1] = row;
}

const FusedOperator *fused_gemm_transposed(Arena *arena, const FusedOperator *op)
{
  FusedOperator *turned = arena_memdup(arena, op, sizeof *op);
  FusedGemm *gemm = &turned->gemm;
  const FusedGemm *from = &op->gemm;
  exchange(turned->dims, op->rank);
  turned->inputs = arena_memdup(arena, op->inputs, op->n_inputs * sizeof *op->inputs);
  turned->outputs = arena_memdup(arena, op->outputs, op->n_outputs * sizeof *op->outputs);
  for (unsigned i = 0; i < op->n_inputs; i++)
    exchange(turned->inputs[i].strides, op->rank);
  for (unsigned i = 0; i < op->n_outputs; i++)
    exchange(turned->outputs[i].strides, op->rank);
  gemm->m = from->n;
  gemm->n = from->m;
  gemm->a = from->b;
  gemm->b = from->a;
  for (unsigned i = 0; i < from->n_batch; i++) {
    gemm->a_batch[i] = from->b_batch[i];
    gemm->b_batch[i] = from->a_batch[i];
  }
  gemm->a_m = from->b_n;
  gemm->a_k = from->b_k;
  gemm->b_k = from->a_k;
  gemm->b_n = from->a_m;
  gemm->a_m_major = from->b_n_major;
  gemm->b_n_major = from->a_m_major;
  gemm->a_type = from->b_type;
  gemm->b_type = from->a_type;
  return turned;
}

/* ---- Elementwise operators ---- */

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

const FusedOperator *fused_elementwise_turned(Arena *arena, const FusedOperator *op)
{
  unsigned rows, columns;
  if (op->kind != FUSED_ELEMENTWISE || op->rank < 2 || op->rank > 3 || !find_faces(op, &rows, &columns))
    return NULL;
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
