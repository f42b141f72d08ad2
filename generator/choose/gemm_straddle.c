#include "generator/choose/gemm_straddle.h"

/* Every row of a box then touches one sector more, in two lines. */
static bool straddles(const Gpu *gpu, const Symbolic *leading, NumberType type)
{
  int64_t stride;
  return symbolic_is_constant(leading, &stride) &&
         stride * number_bits(type) % (CHAR_BIT * gpu->global_sector) != 0;
}

bool gemm_a_straddles(const Gpu *gpu, const FusedGemm *gemm)
{
  return straddles(gpu, gemm->a_m_major ? gemm->a_k : gemm->a_m, gemm_stored(gemm, false));
}

bool gemm_b_straddles(const Gpu *gpu, const FusedGemm *gemm)
{
  return straddles(gpu, gemm->b_n_major ? gemm->b_k : gemm->b_n, gemm_stored(gemm, true));
}

static unsigned begins(const Symbolic *leading, NumberType type)
{
  int64_t stride;
  unsigned bytes = WHOLE_LINES;
  if (!symbolic_is_constant(leading, &stride)) return bytes;
  while (stride * number_bits(type) % (CHAR_BIT * bytes) != 0)
    bytes /= 2;
  return bytes;
}

unsigned gemm_a_lines(const FusedGemm *gemm)
{
  return begins(gemm->a_m_major ? gemm->a_k : gemm->a_m, gemm_stored(gemm, false));
}

unsigned gemm_b_lines(const FusedGemm *gemm)
{
  return begins(gemm->b_n_major ? gemm->b_k : gemm->b_n, gemm_stored(gemm, true));
}

bool gemm_out_straddles(const Gpu *gpu, const FusedOperator *op)
{
  int64_t stride;
  if (!op->n_outputs || op->outputs[0].reduced || !op->outputs[0].strides[op->rank - 2]) return false;
  if (!symbolic_is_constant(op->outputs[0].strides[op->rank - 2], &stride)) return false;
  unsigned sector = CHAR_BIT * gpu->global_sector;
  return stride * number_bits(op->outputs[0].tensor->type) % sector == sector / 2;
}
