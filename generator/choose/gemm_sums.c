/* In which precision products add up: what the graph and the options ask for, and what the GPU's products
 * keep.
 */
#include "generator/choose/gemm_candidate.h"

#define F32_BITS 24 /* significant bits */

static Accumulate accumulation(const Chooser *chooser)
{
  const CompileOptions *options = chooser->options;
  const GraphAttribute *own = graph_attribute_find(chooser->op->anchor, "accumulate");
  Accumulate asked = own ? accumulate_parse(own->text) : ACCUMULATE_DEFAULT;
  if (asked == ACCUMULATE_DEFAULT && options) asked = options->accumulate;
  if (asked == ACCUMULATE_DEFAULT) asked = options && options->fast_math ? ACCUMULATE_FAST : ACCUMULATE_EXACT;
  return asked;
}

bool gemm_sums_exactly(const Chooser *chooser)
{
  return number_is_small_float(chooser->op->gemm.a_type) && accumulation(chooser) == ACCUMULATE_EXACT;
}

/* Sums of floats of 8 bits, where the product keeps fewer bits of them than f32 has, or nobody knows. */
bool gemm_promotes(const Chooser *chooser, bool group)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const GpuProduct *product = gpu_product(chooser->gpu, group ? "warpgroup_mma" : "warp_mma", gemm->a_type,
                                          gemm->b_type, gemm->acc_type);
  return product && !(product->accumulator_bits >= F32_BITS) && gemm_sums_exactly(chooser);
}
