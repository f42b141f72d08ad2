/* Few results of a long k: each is a sum of its own, to which all threads of a cluster's blocks add.
 *
 * A tile of warpgroup MMAs has 64 rows. Of 1 x 4 results it would be mostly zeros, in too few blocks to ask
 * for what memory can deliver; and what the blocks have of it has to be added up. Sums of threads instead
 * (template gemv_split) are added across lanes, warps and the blocks of a cluster. */
#include "generator/choose/dots.h"
#include "generator/choose/cost.h"
#include "generator/choose/direct.h"
#include "ir/resources.h"

static const unsigned thread_counts[] = {128, 256, 512}, splits[] = {1, 2, 4, 8}, heights[] = {1, 2, 4};
static const int64_t row_limits[] = {1, 4, 16, 64};

/* How a kernel shares the work. `wide`: the sums' rows are the result's columns (operands swapped (swap-AB)). */
typedef struct Dots {
  unsigned threads, split_k, bm, deep, vector;
  bool wide;
  double clocks;
} Dots;

static CostDots shape_of(const Problem *problem, const FusedGemm *gemm, int64_t m, const Dots *dots)
{
  int64_t n = MAX(1, choose_typical(problem, gemm->n));
  return (CostDots){.rows = dots->wide ? n : m,
                    .columns = dots->wide ? m : n,
                    .k = MAX(1, choose_typical(problem, gemm->k)),
                    .bytes = number_bytes(gemm->a_type),
                    .vector = dots->vector,
                    .threads = dots->threads,
                    .split_k = dots->split_k,
                    .bm = dots->bm,
                    .rows_across = dots->wide ? gemm->b_n_major : gemm->a_m_major,
                    .columns_across = dots->wide ? gemm->a_m_major : gemm->b_n_major};
}

/* The cheapest; false: there are too many results, rows of an operand across k that other blocks would read
 * all of, or k is not known. */
static bool best_dots(const Problem *problem, const FusedGemm *gemm, int64_t m, unsigned vector, Dots *best)
{
  const Gpu *gpu = problem->gpu;
  const CostModel *model = gpu->model;
  int64_t n, k;
  if (!symbolic_is_constant(gemm->n, &n) || !symbolic_is_constant(gemm->k, &k) || n < 1 || k < 1)
    return false;
  if (m * n > model->dots_results) return false;
  if ((gemm->a_m_major && m > model->dots_across) || (gemm->b_n_major && n > model->dots_across))
    return false;
  Dots dots = {.vector = vector, .wide = n >= m};
  best->clocks = -1;
  for (unsigned t = 0; t < G_N_ELEMENTS(thread_counts); t++)
    for (unsigned s = 0; s < G_N_ELEMENTS(splits); s++)
      for (unsigned h = 0; h < G_N_ELEMENTS(heights); h++) {
        dots.threads = thread_counts[t];
        dots.split_k = splits[s];
        dots.bm = heights[h];
        if (dots.split_k > exchanging_blocks(gpu)) continue;
        if (dots.bm > (dots.wide ? n : m) || dots.threads > gpu->threads_per_block) continue;
        CostDots shape = shape_of(problem, gemm, m, &dots);
        dots.deep = cost_dots_deep(gpu->model, &shape);
        dots.clocks = cost_dots(gpu, &shape);
        if (best->clocks < 0 || dots.clocks < best->clocks) *best = dots;
      }
  return best->clocks >= 0;
}

double choose_dots_clocks(const Problem *problem, int64_t m, unsigned vector)
{
  const FusedGemm *gemm = gemm_of(problem->op);
  Dots best;
  if (gemm->a_m_major || gemm->b_n_major) vector = 1;
  return best_dots(problem, gemm, m, vector, &best) ? best.clocks : -1;
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
  unsigned depth = dots->threads * dots->vector;
  if (odd) choice->direct = direct;
  choice_set_name(choice, "ta", number_name(dots->wide ? gemm->b_type : gemm->a_type));
  choice_set_name(choice, "tb", number_name(dots->wide ? gemm->a_type : gemm->b_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  choice_set_int(choice, "bm", dots->bm);
  choice_set_int(choice, "bn", 1);
  choice_set_int(choice, "bk", depth);
  choice_set_int(choice, "deep", dots->deep);
  choice_set_int(choice, "split_k", dots->split_k);
  choice_set_int(choice, "threads", dots->threads);
  choice_set_own(choice, "swapped", dots->wide);
  choice->alone = true;
  choice->stages = 1;
  choice->tile_text = arena_printf(chooser->problem->arena, "%ux%ux%u", dots->wide ? 1 : dots->bm,
                                   dots->wide ? dots->bm : 1, depth);
  choice->suffix = arena_printf(chooser->problem->arena, "%s_split%u_sums", choice->tile_text, dots->split_k);
  chooser->n++;
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
    if (!best_dots(chooser->problem, gemm, rows, vector, &dots)) return;
    double others = direct_others_clocks(chooser->problem, rows, odd, vector * element);
    double warps = odd ? direct_sums_clocks_of(chooser->problem, direct, rows) : -1;
    if (warps >= 0 && (others < 0 || warps < others)) others = warps;
    choose_note(chooser, "M = %-6d a sum for each result: %.0f clocks, else %.0f", (int)rows, dots.clocks,
                others);
    if (others >= 0 && chooser->problem->gpu->model->dots_worth * others < dots.clocks) return;
    if (!add_dots(chooser, direct, odd, row_limits[i], &dots) || rows == most) return;
  }
}
