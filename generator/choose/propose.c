#include "generator/choose/propose.h"
#include "generator/choose/gemm_space.h"
#include "generator/choose/tuned_gemm.h"
#include <string.h>

static bool same_parameters(const Proposal *a, const Proposal *b)
{
  if (a->n_parameters != b->n_parameters) return false;
  for (unsigned i = 0; i < a->n_parameters; i++)
    if (strcmp(a->parameters[i].name, b->parameters[i].name) ||
        a->parameters[i].value != b->parameters[i].value)
      return false;
  return true;
}

static Proposal proposal_of(const Problem *problem, const PricedCandidate *priced)
{
  Proposal proposal = {.clocks = priced->cost.total};
  proposal.n_parameters = candidate_describe(&priced->candidate.of, problem->arena, proposal.parameters);
  return proposal;
}

/* What copies could be in other order, too. */
static void turn(Problem *problem)
{
  if (!problem->turned) problem->turned = gemm_transposed(problem->arena, problem->op);
}

bool propose_product_key(const Problem *asked, TunedEntry *key)
{
  Problem problem = *asked;
  turn(&problem);
  if (!tuned_gemm_key(&problem, key) || !symbolic_is_constant(gemm_of(problem.op)->m, &key->m) ||
      key->m < 1 || key->n < 1 || key->k < 1 || key->batches < 1)
    return false;
  if (!gemm_warpgroups_possible(&problem) && !gemm_warp_possible(&problem)) return false;
  gemm_range(key->m, &key->least, &key->most);
  return true;
}

GArray *propose_product(const Problem *asked, const TunedEntry *key)
{
  Problem problem = *asked;
  turn(&problem);
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  chooser->problem = &problem;
  bool warpgroups = gemm_warpgroups_possible(&problem);
  GArray *proposals = g_array_new(FALSE, FALSE, sizeof(Proposal));
  PricedCandidate first = {.candidate = gemm_best_candidate(chooser, warpgroups, key->m, true)};
  first.cost = gemm_candidate_cost(&problem, &first.candidate, key->m);
  Proposal chosen = proposal_of(&problem, &first);
  g_array_append_val(proposals, chosen);
  g_autoptr(GArray) space = tuned_gemm_space(&problem, warpgroups, key->m, true);
  for (unsigned i = 0; i < space->len; i++) {
    Proposal proposal = proposal_of(&problem, &g_array_index(space, PricedCandidate, i));
    if (!same_parameters(&proposal, &chosen)) g_array_append_val(proposals, proposal);
  }
  return proposals;
}
