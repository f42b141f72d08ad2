#include "generator/choose/propose.h"
#include "generator/choose/choose.h"
#include "generator/choose/gemm_space.h"
#include "generator/choose/tuned_gemm.h"
#include <string.h>

static void product_free(void *product)
{
  g_array_unref(((ProductProposals *)product)->proposals);
  g_free(product);
}

void proposals_free(Proposals *proposals)
{
  if (!proposals) return;
  g_ptr_array_unref(proposals->products);
  arena_free(proposals->arena);
  g_free(proposals);
}

static Proposal proposal_of(const Problem *problem, const PricedCandidate *priced)
{
  Proposal proposal = {.clocks = priced->cost.total};
  proposal.n_parameters = candidate_describe(&priced->candidate.of, problem->arena, proposal.parameters);
  return proposal;
}

static bool same_parameters(const Proposal *a, const Proposal *b)
{
  if (a->n_parameters != b->n_parameters) return false;
  for (unsigned i = 0; i < a->n_parameters; i++)
    if (strcmp(a->parameters[i].name, b->parameters[i].name) ||
        a->parameters[i].value != b->parameters[i].value)
      return false;
  return true;
}

static bool same_key(const TunedEntry *a, const TunedEntry *b)
{
  return !strcmp(a->product, b->product) && a->batches == b->batches && a->n == b->n && a->k == b->k &&
         a->m == b->m;
}

static void add_product(Proposals *all, Chooser *chooser)
{
  ProductProposals product = {.name = arena_strdup(all->arena, chooser->problem->op->name)};
  if (!tuned_gemm_key(chooser->problem, &product.key) ||
      !symbolic_is_constant(gemm_of(chooser->problem->op)->m, &product.key.m) || product.key.m < 1 ||
      product.key.n < 1 || product.key.k < 1 || product.key.batches < 1)
    return;
  for (unsigned i = 0; i < all->products->len; i++)
    if (same_key(&((ProductProposals *)all->products->pdata[i])->key, &product.key)) return;
  bool group = gemm_group_possible(chooser->problem);
  if (!group && !gemm_warp_possible(chooser->problem)) return;
  gemm_range(product.key.m, &product.key.least, &product.key.most);
  product.proposals = g_array_new(FALSE, FALSE, sizeof(Proposal));
  PricedCandidate first = {.candidate = gemm_best_candidate(chooser, group, product.key.m, true)};
  first.cost = gemm_candidate_cost(chooser->problem, &first.candidate, product.key.m);
  Proposal chosen = proposal_of(chooser->problem, &first);
  g_array_append_val(product.proposals, chosen);
  g_autoptr(GArray) space = tuned_gemm_space(chooser->problem, group, product.key.m, true);
  for (unsigned i = 0; i < space->len; i++) {
    Proposal proposal = proposal_of(chooser->problem, &g_array_index(space, PricedCandidate, i));
    if (!same_parameters(&proposal, &chosen)) g_array_append_val(product.proposals, proposal);
  }
  g_ptr_array_add(all->products, g_memdup2(&product, sizeof product));
}

Proposals *generator_propose(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                             GError **error)
{
  g_autoptr(Spaces) spaces = NULL;
  g_autoptr(Fusion) fusion = choose_fusion(graph, gpu, options, &spaces, error);
  if (!fusion) return NULL;
  Proposals *all = g_new0(Proposals, 1);
  all->arena = arena_new();
  all->products = g_ptr_array_new_with_free_func(product_free);
  for (unsigned i = 0; i < fusion->n; i++) {
    if (!fusion->operators[i]->family->measured) continue;
    Problem problem = problem_of(fusion->operators[i], graph, gpu, options, all->arena);
    problem.spaces = spaces;
    if (!problem.turned) problem.turned = gemm_transposed(all->arena, problem.op);
    g_autofree Chooser *chooser = g_new0(Chooser, 1);
    chooser->problem = &problem;
    add_product(all, chooser);
  }
  return all;
}
