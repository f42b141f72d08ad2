/* Of the ways to compute a matrix product the cheapest, and what --explain shows of how it was found. Finalists are shown
 * to the real passes: the cheapest of the list until the cheapest is one that was shown. */
#include "generator/choose/contest.h"
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemm_variant.h"
#include <stddef.h>

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

typedef struct Rows { /* for which the list was priced */
  Chooser *chooser;
  int64_t m;
} Rows;

static void note_leader(const void *contender, void *data)
{
  const Rows *rows = data;
  note_cost(rows->chooser, contender, rows->m);
}

/* The passes may refuse it, or leave it fewer slots. */
static bool settle(void *contender, void *data)
{
  const Rows *rows = data;
  const Problem *problem = rows->chooser->problem;
  PricedCandidate *priced = contender;
  GemmCandidate within = gemm_candidate_within(problem, priced->candidate, rows->m);
  unsigned slots = within.stages;
  if (!gemm_settle(rows->chooser, &within)) return false;
  if (within.stages == slots) return true;
  priced->candidate.most_stages = within.stages;
  priced->candidate.stages = MIN(priced->candidate.stages, within.stages);
  priced->cost = gemm_candidate_cost_within(problem, &within, rows->m);
  return true;
}

/* Of equal ones the larger, which comes later. */
static Contest contest_of(Rows *rows)
{
  return (Contest){.price = offsetof(PricedCandidate, cost.total),
                   .settled = offsetof(PricedCandidate, settled),
                   .tie = 1.001,
                   .settle = settle,
                   .leads = rows->chooser->explain ? note_leader : NULL,
                   .data = rows};
}

GemmCandidate gemm_cheapest(Chooser *chooser, bool warpgroups, GArray *list, int64_t m)
{
  Rows rows = {chooser, m};
  const Contest contest = contest_of(&rows);
  const PricedCandidate *best = contest_winner(&contest, list);
  if (best) return best->candidate;
  return gemm_candidate(chooser->problem,
                        (GemmCandidate){.warpgroups = warpgroups,
                                        .bm = 64,
                                        .bn = 64,
                                        .pingpong = 1,
                                        .cluster_m = 1,
                                        .cluster_n = 1,
                                        .split_k = 1,
                                        .swapped = gemm_of(chooser->problem->op)->narrow,
                                        .most_stages = warpgroups ? LEAST_STAGES : 0},
                        true);
}

void gemm_settle_ahead(Chooser *chooser, GArray *const *lists, const int64_t *rows, unsigned n)
{
  const Problem *problem = chooser->problem;
  const CompileOptions *options = problem->options;
  if (!problem->dry || choose_is_forced(problem)) return;
  g_autofree Choice *choices = g_new0(Choice, n);
  Problem scratch = *problem;
  Rows any = {.chooser = chooser};
  const Contest contest = contest_of(&any);
  unsigned count = 0;
  scratch.arena = arena_new();
  for (unsigned i = 0; i < n; i++) {
    const PricedCandidate *best = contest_best(&contest, lists[i]);
    if (!best) continue;
    const GemmCandidate within = gemm_candidate_within(problem, best->candidate, rows[i]);
    count += gemm_variant_dry(&scratch, &choices[count], &within);
  }
  dry_run_ahead(problem->dry, choices, count, options ? options->threads : 0);
  arena_free(scratch.arena);
}

GemmCandidate gemm_best_candidate(Chooser *chooser, bool warpgroups, int64_t m, bool bounded)
{
  g_autoptr(GArray) list = gemm_candidates(chooser->problem, warpgroups, m, bounded);
  GemmCandidate chosen = gemm_cheapest(chooser, warpgroups, list, m);
  chosen.raster = list->len ? gemm_candidate_raster(chooser->problem, &chosen, m) : 0;
  return chosen;
}
