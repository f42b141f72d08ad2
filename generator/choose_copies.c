/* Operands whose rows start at no multiples of 16 bytes: read where they lie, or copied to padded rows first?
 *
 * Read where they lie, threads copy a few bytes at a time and warps multiply; copied, the copy engine and
 * group products work as usual, behind a kernel that reads and writes the operand once. */
#include "generator/gemm_candidate.h"
#include <math.h>

/* Clocks between the end of one kernel and the first products of the next in its stream, about 2 us. */
#define NEXT_KERNEL 3500.0
/* Of the speed of device memory, what a kernel that copies element by element reaches. */
#define COPY_EFFICIENCY 0.6

/* The cheapest tile's clocks for m rows, or a negative number if there is none. In place, tiles are as those
 * of a variant that assumes nothing. */
static double best_clocks(const Chooser *chooser, bool in_place, int64_t m)
{
  bool bounded = choose_maximum(chooser, chooser->op->gemm.m) <= m;
  g_autoptr(GArray) list = gemm_candidates(chooser, !in_place, m, bounded);
  double best = -1;
  for (unsigned i = 0; i < list->len; i++) {
    PricedCandidate *priced = &g_array_index(list, PricedCandidate, i);
    if (in_place) {
      priced->candidate = gemm_candidate(chooser, priced->candidate, false);
      priced->cost = gemm_candidate_cost(chooser, &priced->candidate, m);
    }
    if (best < 0 || priced->cost.total < best) best = priced->cost.total;
  }
  return best;
}

static double elements(const Chooser *chooser, const GraphTensor *tensor)
{
  double n = 1;
  for (unsigned i = 0; i < tensor->rank; i++)
    n *= (double)choose_typical(chooser, tensor->shape[i]);
  return n;
}

/* Clocks of the kernels that copy. */
static double copy_clocks(const Chooser *chooser, const FusedCopies *copies)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  const Gpu *gpu = chooser->gpu;
  double clock = (gpu->clock_tensor_mhz > 0 ? gpu->clock_tensor_mhz : gpu->clock_boost_mhz) * 1e6, sum = 0;
  const unsigned operands[] = {gemm->a, gemm->b};
  const bool copied[] = {copies->a, copies->b};
  for (unsigned i = 0; i < 2; i++) {
    const GraphTensor *tensor = chooser->op->inputs[operands[i]].tensor;
    if (!copied[i]) continue;
    double bytes = 2 * elements(chooser, tensor) * number_bytes(tensor->type);
    sum += NEXT_KERNEL + bytes / (COPY_EFFICIENCY * gpu->memory_bandwidth) * clock;
  }
  return sum;
}

bool choose_copies_pay(Chooser *chooser, const FusedCopies *copies, const char **why)
{
  const FusedGemm *gemm = &chooser->op->gemm;
  chooser->turned = fused_gemm_transposed(chooser->arena, chooser->op);
  if (!gemm_group_possible(chooser) || !(chooser->gpu->memory_bandwidth > 0)) return false;
  int64_t m = MIN(choose_typical(chooser, gemm->m), choose_maximum(chooser, gemm->m));
  double group = best_clocks(chooser, false, m), made = copy_clocks(chooser, copies);
  chooser->turned = NULL;
  chooser->copy_bytes = copies->bytes;
  double direct = best_clocks(chooser, true, m);
  if (group < 0) return false;
  *why = arena_printf(chooser->arena,
                      "at M = %d copied about %.0f clocks (%.0f of them to copy), read in place %.0f", (int)m,
                      group + made, made, direct);
  return direct < 0 || group + made < direct;
}
