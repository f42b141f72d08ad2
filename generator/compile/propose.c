#include "generator/compile/propose.h"
#include "generator/choose/candidate.h"
#include "generator/choose/choose.h"
#include "generator/choose/tuned_operator.h"
#include "generator/compile/dry_run.h"
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

static bool same_key(const TunedEntry *a, const TunedEntry *b)
{
  if (a->n_extents != b->n_extents) return false;
  for (unsigned i = 0; i < a->n_extents; i++)
    if (a->extents[i] != b->extents[i]) return false;
  return !strcmp(a->product, b->product) && a->batches == b->batches && a->n == b->n && a->k == b->k &&
         a->m == b->m;
}

static bool is_listed(const Proposals *all, const TunedEntry *key)
{
  for (unsigned i = 0; i < all->products->len; i++)
    if (same_key(&((const ProductProposals *)all->products->pdata[i])->key, key)) return true;
  return false;
}

/* false: it is no product by tiles. */
static bool add_product(Proposals *all, const Problem *problem)
{
  ProductProposals product = {.name = arena_strdup(all->arena, problem->op->name)};
  if (!propose_product_key(problem, &product.key)) return false;
  if (is_listed(all, &product.key)) return true;
  product.proposals = propose_product(problem, &product.key);
  g_ptr_array_add(all->products, g_memdup2(&product, sizeof product));
  return true;
}

/* ---- any operator ---- */

/* What the variant has of its template's key, and nothing that another decides. */
static Proposal proposal_of_variant(Arena *arena, const Space *space, const Choice *choice)
{
  Proposal proposal = {0};
  const Candidate candidate = candidate_of(space, choice);
  for (unsigned i = 0; i < space->n && proposal.n_parameters < TUNED_MAX_PARAMETERS; i++) {
    const IrParameter *declared = space->declared[i];
    if (declared && space_has_key(space, i) && choice_parameter(choice, declared->name))
      proposal.parameters[proposal.n_parameters++] =
          (TunedParameter){arena_strdup(arena, declared->name), candidate_value(&candidate, i)};
  }
  return proposal;
}

static bool same_kernel(const Choice *a, const Choice *b)
{
  bool same = !strcmp(a->template_name, b->template_name) && a->n_parameters == b->n_parameters &&
              (a->guard == b->guard || (a->guard && b->guard && symbolic_same(a->guard, b->guard)));
  for (unsigned i = 0; same && i < a->n_parameters; i++)
    same = !strcmp(a->parameters[i].name, b->parameters[i].name) &&
           a->parameters[i].kind == b->parameters[i].kind &&
           (a->parameters[i].kind == EXPR_NAME ? !strcmp(a->parameters[i].text, b->parameters[i].text)
                                               : a->parameters[i].integer == b->parameters[i].integer);
  return same;
}

typedef struct Proposing { /* the ways to compute one operator */
  const Chooser *chooser;  /* with the model's choice */
  Problem *problem;
  DryRunner *runner;
  GArray *kernels;   /* Choice: what proposals came out as */
  GArray *proposals; /* Proposal */
} Proposing;

/* Each proposal has as many dry runs as a compilation, which will be asked for it alone. */
static bool choose_anew(const Proposing *proposing, const CandidateTried *tried, Choice *kernel)
{
  Problem *problem = proposing->problem;
  g_autoptr(DryRuns) dry = dry_runs_new(problem->op, problem->graph, compile_dry_run, proposing->runner);
  problem->dry = dry;
  bool chosen = tuned_operator_variant(proposing->chooser, tried->parameters, tried->n, kernel);
  problem->dry = NULL;
  return chosen;
}

/* What a template tries, where it is a kernel that was not proposed yet. */
static void add_tried(const Proposing *proposing, const CandidateTried *tried)
{
  Choice kernel;
  if (strcmp(tried->template_name, proposing->chooser->variants[0].template_name) ||
      !choose_anew(proposing, tried, &kernel))
    return;
  for (unsigned i = 0; i < proposing->kernels->len; i++)
    if (same_kernel(&g_array_index(proposing->kernels, Choice, i), &kernel)) return;
  g_array_append_val(proposing->kernels, kernel);
  Proposal proposal = {.n_parameters = tried->n};
  memcpy(proposal.parameters, tried->parameters, tried->n * sizeof *tried->parameters);
  g_array_append_val(proposing->proposals, proposal);
}

/* The model's choice with every other value of a parameter that no chooser knows: measuring decides. */
static void add_extras(const Proposing *proposing, const Space *space)
{
  const Proposal first = g_array_index(proposing->proposals, Proposal, 0);
  for (unsigned slot = space->kind->n_axes; slot < space->n; slot++) {
    const IrDomain *domain = space->declared[slot]->domain;
    int64_t values = domain->values ? domain->n : (domain->most - domain->least) / domain->step + 1;
    CandidateTried tried = {.template_name = space->template_name, .n = first.n_parameters};
    memcpy(tried.parameters, first.parameters, sizeof tried.parameters);
    TunedParameter *extra = NULL;
    for (unsigned i = 0; i < tried.n; i++)
      if (!strcmp(tried.parameters[i].name, space->declared[slot]->name)) extra = &tried.parameters[i];
    for (int64_t v = 0; extra && v < values && v <= CANDIDATE_MOST; v++) {
      extra->value = domain->values ? domain->values[v] : domain->least + v * domain->step;
      add_tried(proposing, &tried);
    }
  }
}

/* false: none of the model's choices has parameters that tell kernels apart. `tried` gets what its template tries. */
static bool choose_first(Chooser *chooser, Problem *problem, DryRunner *runner, CandidateList *tried)
{
  GError *error = NULL;
  g_autoptr(DryRuns) dry = dry_runs_new(problem->op, problem->graph, compile_dry_run, runner);
  chooser->problem = problem;
  chooser->error = &error;
  problem->tried = tried;
  problem->dry = dry;
  bool chosen = choose_by_model(chooser) && chooser->n;
  problem->tried = NULL;
  problem->dry = NULL;
  g_clear_error(&error);
  return chosen && spaces_of(problem->spaces, chooser->variants[0].template_name);
}

static void add_operator(Proposals *all, Problem *problem, DryRunner *runner)
{
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  ProductProposals product = {.name = arena_strdup(all->arena, problem->op->name)};
  g_autoptr(GArray) tried = g_array_new(FALSE, FALSE, sizeof(CandidateTried)),
                    kernels = g_array_new(FALSE, FALSE, sizeof(Choice)),
                    proposals = g_array_new(FALSE, FALSE, sizeof(Proposal));
  CandidateList list = {all->arena, tried};
  if (!choose_first(chooser, problem, runner, &list) || !tuned_operator_key(problem, &product.key, NULL) ||
      is_listed(all, &product.key))
    return;
  const Space *space = spaces_of(problem->spaces, chooser->variants[0].template_name);
  Proposal first = proposal_of_variant(all->arena, space, &chooser->variants[0]);
  g_array_append_val(proposals, first);
  g_array_append_val(kernels, chooser->variants[0]);
  const Proposing proposing = {chooser, problem, runner, kernels, proposals};
  add_extras(&proposing, space);
  for (unsigned i = 0; i < tried->len; i++)
    add_tried(&proposing, &g_array_index(tried, CandidateTried, i));
  if (proposals->len < 2) return;
  product.proposals = g_array_ref(proposals);
  g_ptr_array_add(all->products, g_memdup2(&product, sizeof product));
}

Proposals *generator_propose(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                             GError **error)
{
  g_autoptr(KernelLibraries) libraries = kernel_libraries_read(options && options->fast_math, error);
  if (!libraries) return NULL;
  DryRunner runner = {gpu, options, libraries, NULL};
  g_autoptr(Spaces) spaces = NULL;
  g_autoptr(Fusion) fusion = choose_fusion_dry(graph, gpu, options, compile_dry_run, &runner, &spaces, error);
  if (!fusion) return NULL;
  Proposals *all = g_new0(Proposals, 1);
  all->arena = arena_new();
  all->products = g_ptr_array_new_with_free_func(product_free);
  for (unsigned i = 0; i < fusion->n; i++) {
    const FusedOperator *op = fusion->operators[i];
    Problem problem = problem_of(op, graph, gpu, options, all->arena);
    problem.spaces = spaces;
    if (!op->family->ranges || !add_product(all, &problem)) add_operator(all, &problem, &runner);
  }
  return all;
}
