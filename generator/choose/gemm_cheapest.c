/* Of the ways to compute a matrix product the cheapest, and what --explain shows of how it was found. */
#include "generator/choose/gemm_candidate.h"

static void note_cost(Chooser *chooser, const PricedCandidate *priced, int64_t m)
{
  const GemmCandidate *candidate = &priced->candidate;
  const CostReport *cost = &priced->cost;
  bool swapped = candidate->swapped; /* of D the rows come first, whichever side of the product they are */
  choose_note(
      chooser,
      "M = %-6d tile %3ux%-3u%s split_k %u  step %5.0f (tensor %5.0f shared %5.0f copy %5.0f)  waves %3.0f"
      "  memory %8.0f  total %8.0f clocks",
      (int)m, swapped ? candidate->bn : candidate->bm, swapped ? candidate->bm : candidate->bn,
      swapped                   ? " swapped"
      : candidate->pingpong > 1 ? " ping-pong"
                                : "",
      MAX(MAX(candidate->split_k, candidate->stream_k), candidate->slices), cost->step, cost->tensor,
      cost->shared, cost->copy, cost->waves, cost->memory, cost->total);
}

/* Of equal ones the larger, which comes later. */
static bool is_better(const CostReport *cost, const CostReport *best)
{
  return cost->total <= best->total * 1.001;
}

GemmCandidate gemm_cheapest(Chooser *chooser, bool group, const GArray *list, int64_t m)
{
  const PricedCandidate *best = NULL;
  for (unsigned i = 0; i < list->len; i++) {
    const PricedCandidate *priced = &g_array_index(list, PricedCandidate, i);
    if (best && !is_better(&priced->cost, &best->cost)) continue;
    best = priced;
    note_cost(chooser, priced, m);
  }
  if (best) return best->candidate;
  return gemm_candidate(
      chooser->problem,
      (GemmCandidate){
          .group = group, .bm = 64, .bn = 64, .pingpong = 1, .cluster_m = 1, .cluster_n = 1, .split_k = 1},
      true);
}

GemmCandidate gemm_best_candidate(Chooser *chooser, bool group, int64_t m, bool bounded)
{
  g_autoptr(GArray) list = gemm_candidates(chooser->problem, group, m, bounded);
  GemmCandidate chosen = gemm_cheapest(chooser, group, list, m);
  chosen.raster = list->len ? gemm_candidate_raster(chooser->problem, &chosen, m) : 0;
  return chosen;
}
