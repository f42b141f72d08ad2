/* The product the other way round: D = A B and D^T = B^T A^T are the same numbers, so a kernel may take B's
 * columns for its rows and A's rows for its columns. */
#include "generator/fusion.h"

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
