/* Which ways to compute a matrix product are tried: what its templates say (`try`), in the order in which of equal ones
 * the later is taken. */
#include "generator/choose/gemm_facts.h"
#include "generator/choose/gemm_space.h"

typedef struct Trial {
  const GemmAsked *asked;
  GArray *list; /* PricedCandidate */
} Trial;

static int derive(const Candidate *candidate, unsigned slot, void *data)
{
  const GemmAsked *asked = ((const Trial *)data)->asked;
  return gemm_candidate(asked->problem, gemm_candidate_from(candidate, asked->warpgroups), true)
      .of.values[slot];
}

static void take(const Candidate *candidate, void *data)
{
  const Trial *trial = data;
  gemm_candidate_append(trial->asked->problem, trial->list,
                        gemm_candidate_from(candidate, trial->asked->warpgroups), trial->asked->m);
}

static void take_measured(const Candidate *candidate, void *data)
{
  const Trial *trial = data;
  gemm_candidate_append_measured(trial->asked->problem, trial->list,
                                 gemm_candidate_from(candidate, trial->asked->warpgroups), trial->asked->m);
}

static void walk_templates(const GemmAsked *asked, bool measured, GArray *list)
{
  g_autofree int64_t *facts = gemm_facts(asked);
  Trial trial = {asked, list};
  const CandidateWalk walk = {measured, facts, derive, measured ? take_measured : take, &trial};
  for (const char *const *name = gemm_templates(asked->problem); *name; name++)
    candidates_walk(spaces_of(asked->problem->spaces, *name), &walk);
}

GArray *gemm_candidates(const Problem *problem, bool warpgroups, int64_t m, bool bounded)
{
  const GemmAsked asked = {problem, warpgroups, m, bounded};
  GArray *list = g_array_new(FALSE, FALSE, sizeof(PricedCandidate));
  walk_templates(&asked, false, list);
  return list;
}

void gemm_candidates_measured(const Problem *problem, bool warpgroups, int64_t m, bool bounded, GArray *list)
{
  const GemmAsked asked = {problem, warpgroups, m, bounded};
  walk_templates(&asked, true, list);
}
