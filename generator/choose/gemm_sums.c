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

/* Of many columns scales multiply weights of 4 bits, which are then what DequantizeLinear gives: of the type of the product, or powers
 * of two. Else sums of a block, which take registers, and an addition of each, once for each block. */
bool gemm_rounds_weights(const Problem *problem, const GemmCandidate *tile)
{
  const FusedOperator *op = gemm_candidate_operator(problem, tile);
  const FusedGemm *gemm = gemm_of(op);
  if (!gemm->narrow || !gemm->weights.depth || !number_is_packed(gemm->weights.type)) return false;
  NumberType scale = op->inputs[gemm->weights.scale].tensor->type, wide = gemm->b_type;
  return tile->bn >= problem->gpu->model->rounded_columns &&
         (scale == wide || (scale == NUMBER_E8M0 && wide == NUMBER_BF16));
}

/* Sums of floats of 8 bits, where the product keeps fewer bits of them than f32 has, or nobody knows. */
bool gemm_promotes(const Problem *problem, const GemmCandidate *tile, bool warpgroups)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  const GpuProduct *product = gpu_product(problem->gpu, warpgroups ? "warpgroup_mma" : "warp_mma",
                                          gemm->a_type, gemm->b_type, gemm->acc_type);
  /* a block's sum is multiplied before it is added; of rounded weights it is not, which where warps multiply was not timed */
  bool apart = gemm->narrow && gemm->weights.depth && !(warpgroups && gemm_rounds_weights(problem, tile));
  if (product && (gemm->scaled || apart)) return true;
  return product && !(product->accumulator_bits >= F32_BITS) && gemm_sums_exactly(problem);
}
