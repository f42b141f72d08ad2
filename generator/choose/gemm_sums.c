/* In which precision products add up: what the graph and the options ask for, and what the GPU's products
 * keep.
 */
#include "generator/choose/gemm_candidate.h"

#define F32_BITS 24 /* significant bits */

static Accumulate accumulation(const Problem *problem)
{
  const CompileOptions *options = problem->options;
  const GraphAttribute *own = graph_attribute_find(problem->op->anchor, "accumulate");
  Accumulate asked = own ? accumulate_parse(own->text) : ACCUMULATE_DEFAULT;
  if (asked == ACCUMULATE_DEFAULT && options) asked = options->accumulate;
  if (asked == ACCUMULATE_DEFAULT) asked = options && options->fast_math ? ACCUMULATE_FAST : ACCUMULATE_EXACT;
  return asked;
}

bool gemm_sums_exactly(const Problem *problem)
{
  return number_is_small_float(gemm_of(problem->op)->a_type) && accumulation(problem) == ACCUMULATE_EXACT;
}

/* Sums of floats of 8 bits, where the product keeps fewer bits of them than f32 has, or nobody knows. */
bool gemm_promotes(const Problem *problem, bool warpgroups)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  const GpuProduct *product = gpu_product(problem->gpu, warpgroups ? "warpgroup_mma" : "warp_mma",
                                          gemm->a_type, gemm->b_type, gemm->acc_type);
  if (product && (gemm->scaled || (gemm->narrow && gemm->weights.depth)))
    return true; /* a block's sum is multiplied before it is added */
  return product && !(product->accumulator_bits >= F32_BITS) && gemm_sums_exactly(problem);
}
