/* Which ways to compute a matrix product are tried: what its templates say (`try`), in the order in which of equal ones
 * the later is taken. */
#include "generator/choose/gemm_facts.h"
#include "generator/choose/gemm_space.h"

typedef struct Trial {
  const GemmAsked *asked;
  const GemmSpace *space;
  GemmCandidate empty; /* nothing is said of the key */
  GArray *list;        /* PricedCandidate */
} Trial;

static GemmCandidate empty(bool group)
{
  unsigned n;
  const GemmAxis *axes = gemm_key_axes(&n);
  GemmCandidate tile = {.group = group};
  for (unsigned i = 0; i < n; i++)
    gemm_axis_set(&tile, &axes[i], axes[i].absent);
  return tile;
}

static GemmCandidate tile_of(const Trial *trial, const TryValues *values)
{
  GemmCandidate tile = trial->empty;
  for (unsigned i = 0; i < values->n; i++) {
    unsigned parameter = values->given[i];
    const GemmAxis *axis = trial->space->axis_of[parameter];
    if (axis)
      gemm_axis_set(&tile, axis, (unsigned)values->of[parameter]);
    else
      gemm_extra_set(trial->space, &tile, parameter, values->of[parameter]);
  }
  return tile;
}

static int64_t derive(const TryValues *values, unsigned parameter, void *data)
{
  const Trial *trial = data;
  const GemmAxis *axis = trial->space->axis_of[parameter];
  const GemmCandidate whole = gemm_candidate(trial->asked->problem, tile_of(trial, values), true);
  return axis ? gemm_axis_value(&whole, axis) : values->of[parameter];
}

static void take(const TryValues *values, void *data)
{
  const Trial *trial = data;
  gemm_candidate_append(trial->asked->problem, trial->list, tile_of(trial, values), trial->asked->m);
}

GArray *gemm_candidates(const Problem *problem, bool group, int64_t m, bool bounded)
{
  const GemmAsked asked = {problem, group, m, bounded};
  GArray *list = g_array_new(FALSE, FALSE, sizeof(PricedCandidate));
  g_autofree int64_t *facts = gemm_facts(&asked);
  bool dual = gemm_of(problem->op)->dual;
  for (unsigned i = 0; i < GEMM_TEMPLATES; i++) {
    Trial trial = {&asked, &problem->spaces->of[i], empty(group), list};
    const TryWalk walk = {facts, derive, take, &trial};
    if (trial.space->dual == dual) tries_walk(trial.space->tries, &walk);
  }
  return list;
}
