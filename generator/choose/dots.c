/* Few results of a long k: each is a sum of its own, to which all threads of a cluster's blocks add.
 *
 * A tile of warpgroup MMAs has 64 rows. Of 1 x 4 results it would be mostly zeros, in too few blocks to ask
 * for what memory can deliver; and what the blocks have of it has to be added up. Sums of threads instead
 * (template gemv_split) are added across lanes, warps and the blocks of a cluster. */
#include "generator/choose/dots.h"
#include "generator/choose/cost.h"
#include "generator/choose/direct.h"
#include "generator/choose/gemv.h"

static const int64_t row_limits[] = {1, 4, 16, 64};

/* How a kernel shares the work. `wide`: the sums' rows are the result's columns (operands swapped (swap-AB)). */
typedef struct Dots {
  const Problem *problem;
  const FusedGemm *gemm;
  int64_t m;
  unsigned vector;
  bool wide;
  Candidate tile;
} Dots;

static CostDots shape_of(const Dots *dots, const Candidate *tile)
{
  const FusedGemm *gemm = dots->gemm;
  int64_t n = MAX(1, choose_typical(dots->problem, gemm->n));
  return (CostDots){.rows = dots->wide ? n : dots->m,
                    .columns = dots->wide ? dots->m : n,
                    .k = MAX(1, choose_typical(dots->problem, gemm->k)),
                    .bytes = number_bytes(gemm->a_type),
                    .vector = dots->vector,
                    .threads = (unsigned)candidate_int(tile, "threads"),
                    .split_k = (unsigned)candidate_int(tile, "split_k"),
                    .bm = (unsigned)candidate_int(tile, "bm"),
                    .rows_across = dots->wide ? gemm->b_n_major : gemm->a_m_major,
                    .columns_across = dots->wide ? gemm->a_m_major : gemm->b_n_major};
}

static bool price(Candidate *tile, double *clocks, void *data)
{
  const Dots *dots = data;
  CostDots shape = shape_of(dots, tile);
  *clocks = cost_dots(dots->problem->gpu, &shape);
  return true;
}

/* Clocks of the cheapest; a negative number: there are too many results, rows of an operand across k that other blocks
 * would read all of, or k is not known. */
static double best_dots(const Problem *problem, const FusedGemm *gemm, int64_t m, unsigned vector, Dots *best)
{
  const CostModel *model = problem->gpu->model;
  int64_t n, k;
  if (!symbolic_is_constant(gemm->n, &n) || !symbolic_is_constant(gemm->k, &k) || n < 1 || k < 1) return -1;
  if (m * n > model->dots_results) return -1;
  if ((gemm->a_m_major && m > model->dots_across) || (gemm->b_n_major && n > model->dots_across)) return -1;
  *best = (Dots){problem, gemm, m, vector, n >= m, {0}};
  const GemvAsked asked = {.m = MAX(m, n), .vector = vector};
  g_autofree int64_t *facts = gemv_facts(problem, &asked);
  const Trial trial = {.template_name = "gemv_split", .facts = facts, .price = price, .data = best};
  double clocks = -1;
  if (trial_winner(problem, &trial, &best->tile)) price(&best->tile, &clocks, best);
  return clocks;
}

double choose_dots_clocks(const Problem *problem, int64_t m, unsigned vector)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  Dots best;
  if (gemm->a_m_major || gemm->b_n_major) vector = 1;
  return best_dots(problem, gemm, m, vector, &best);
}

/* Vectors of 16 bytes where strides allow it and a guard can ask for the rest. */
static bool require_vector(const Problem *problem, Choice *choice, const FusedOperator *op, unsigned vector)
{
  const FusedGemm *gemm = gemm_of(op);
  unsigned bytes = vector * number_bytes(gemm->a_type);
  return choose_require_align(problem, choice, op->inputs[gemm->a].tensor, bytes) &&
         choose_require_align(problem, choice, op->inputs[gemm->b].tensor, bytes);
}

static bool add_dots(Chooser *chooser, const FusedOperator *direct, bool odd, int64_t rows, const Dots *dots)
{
  const FusedGemm *gemm = gemm_of(direct);
  Choice *choice = choose_open(chooser, "gemv_split");
  if (!choose_require_at_most(chooser->problem, choice, gemm->m, rows)) return false;
  if (!odd && !require_vector(chooser->problem, choice, direct, dots->vector)) return false;
  const CostDots shape = shape_of(dots, &dots->tile);
  if (odd) choice->direct = direct;
  choice_set_int(choice, "deep", cost_dots_deep(chooser->problem->gpu->model, &shape));
  choice->alone = true;
  choice->stages = 1;
  gemv_finish(chooser, choice, gemm, &dots->tile, dots->wide);
  return true;
}

void choose_dots(Chooser *chooser)
{
  bool odd = false;
  const FusedOperator *direct = direct_operator(chooser->problem, &odd);
  if (!direct) return;
  const FusedGemm *gemm = gemm_of(direct);
  int64_t most = choose_maximum(chooser->problem, gemm->m);
  bool across = gemm->a_m_major || gemm->b_n_major;
  unsigned element = number_bytes(gemm->a_type),
           vector = odd || across ? direct_vector(chooser->problem, direct) : 16 / element;
  for (unsigned i = 0; i < G_N_ELEMENTS(row_limits); i++) {
    int64_t rows = MIN(most, row_limits[i]);
    Dots dots;
    if (symbolic_is_constant(gemm->m, NULL) && rows < most) continue;
    double clocks = best_dots(chooser->problem, gemm, rows, vector, &dots);
    if (clocks < 0) return;
    double others = direct_others_clocks(chooser->problem, rows, odd, vector * element);
    double warps = odd ? direct_sums_clocks_of(chooser->problem, direct, rows) : -1;
    if (warps >= 0 && (others < 0 || warps < others)) others = warps;
    choose_note(chooser, "M = %-6d a sum for each result: %.0f clocks, else %.0f", (int)rows, clocks, others);
    if (others >= 0 && chooser->problem->gpu->model->dots_worth * others < clocks) return;
    if (!add_dots(chooser, direct, odd, row_limits[i], &dots) || rows == most) return;
  }
}
