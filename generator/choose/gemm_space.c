#include "generator/choose/gemm_space.h"
#include "generator/choose/choose.h"
#include "generator/choose/gemm_facts.h"
#include "generator/choose/gemv.h"
#include <stddef.h>

static const Axis axes[] = {
#define GEMM_AXIS(name, absent, carried, tile, word) {#name, absent, GEMM_##carried, tile, word},
#include "generator/choose/gemm_axes.def"
};

enum { /* how many rows are the key's */
#define GEMM_KEYS_ONLY
#define GEMM_AXIS(name, ...) KEY_##name,
#include "generator/choose/gemm_axes.def"
       KEYS
};

/* Values have names here (GemmCandidate), and their slots there. */
G_STATIC_ASSERT(offsetof(GemmCandidate, bm) == offsetof(GemmCandidate, of.values));
G_STATIC_ASSERT(offsetof(GemmCandidate, extra) == offsetof(GemmCandidate, of.values[G_N_ELEMENTS(axes)]));
G_STATIC_ASSERT(offsetof(GemmCandidate, bk) == offsetof(GemmCandidate, of.values[KEYS]));
G_STATIC_ASSERT(KEYS + GEMM_EXTRAS < TUNED_MAX_PARAMETERS); /* an entry names them all, and the walk */

const SpaceKind *space_kind_gemm(void)
{
  static const SpaceKind kind = {"gemm gemm_blocks gemm_dual gemm_dual_swapped gemm_narrow",
                                 gemm_fact_names,
                                 axes,
                                 G_N_ELEMENTS(axes),
                                 KEYS,
                                 &gemv_kind,
                                 .late = true,
                                 .fact = gemm_problem_fact,
                                 .tried = gemm_facts_tried};
  return &kind;
}

const char *const *gemm_templates(const Problem *problem)
{
  static const char *const one[] = {"gemm", NULL}, *const blocks[] = {"gemm_blocks", NULL},
                           *const narrow[] = {"gemm_narrow", NULL},
                           *const two[] = {"gemm_dual", "gemm_dual_swapped", NULL},
                           *const more[] = {"gemm_dual", NULL};
  if (gemm_of(problem->op)->scaled) return blocks;
  if (gemm_of(problem->op)->narrow) return narrow;
  if (gemm_of(problem->op)->products > 2) return more;
  return gemm_has_several(gemm_of(problem->op)) ? two : one;
}

GemmCandidate gemm_candidate_absent(bool warpgroups)
{
  GemmCandidate candidate = {.warpgroups = warpgroups};
  for (unsigned i = 0; i < G_N_ELEMENTS(axes); i++)
    candidate.of.values[i] = axes[i].absent;
  return candidate;
}

GemmCandidate gemm_candidate_from(const Candidate *general, bool warpgroups)
{
  GemmCandidate candidate = {.of = *general};
  candidate.warpgroups = warpgroups && !candidate.by_warps;
  return candidate;
}

GemmCandidate gemm_candidate_of(const Problem *problem, const Choice *choice)
{
  const Space *space = spaces_of(problem->spaces, choice->template_name);
  GemmCandidate candidate = gemm_candidate_absent(choice->warpgroups);
  bool tile = space && space->kind == space_kind_gemm();
  if (tile) candidate.of = candidate_of(space, choice);
  for (unsigned i = 0; !tile && i < G_N_ELEMENTS(axes); i++) /* kernels that sum along k have other axes */
    candidate.of.values[i] = (int)choice_int(choice, axes[i].name, axes[i].absent);
  return candidate;
}

bool gemm_tile_forced(const Problem *problem)
{
  const Space *space = spaces_of(problem->spaces, "gemm");
  bool forced = false, sums = choose_forced(problem, "deep", NULL);
  if (problem->measured) return false; /* what was measured names parameters of its own template */
  for (unsigned i = 0; i < G_N_ELEMENTS(axes); i++)
    forced |= axes[i].tile && choose_forced(problem, axes[i].name, NULL);
  for (unsigned i = G_N_ELEMENTS(axes); space && i < space->n; i++)
    forced |= choose_forced(problem, space->declared[i]->name, NULL);
  return forced && !sums;
}
