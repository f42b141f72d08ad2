/* Operands whose rows start at no multiples of 16 bytes: read where they lie, or copied to padded rows first?
 *
 * Read where they lie, threads copy a few bytes at a time and warps multiply; copied, TMA and
 * warpgroup MMAs work as usual, behind a kernel that reads and writes the operand once. Very few rows are a
 * third case: sums along k read B once, as it lies, each lane a few bytes and enough of them on their way.
 * Where the number of rows is known at launch only they are variants in front of those that take the copies,
 * and the copies have one in front that launches nothing. */
#include "generator/choose/choose.h"
#include "generator/choose/direct.h"
#include "generator/choose/dots.h"
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/gemv.h"

/* ---- Very few rows ---- */

static const unsigned sums_rows[] = {1, 4, MOST_SUMS}; /* rows of A that there are kernels for */

static bool add_sums(Chooser *chooser, const FusedOperator *direct, unsigned rows)
{
  const CostModel *model = chooser->problem->gpu->model;
  const FusedGemm *gemm = gemm_of(direct);
  Choice *choice = choose_open(chooser, "gemv_few");
  if (!choose_require_at_most(chooser->problem, choice, gemm->m, rows)) return true;
  unsigned share = direct_sums_share(chooser->problem, rows),
           vector = direct_vector(chooser->problem, direct);
  choice->direct = direct;
  choice_set_int(choice, "deep", cost_sums_deep(model, vector, share, rows));
  choice_set_own(choice, "blocks", model->sums_blocks);
  choice->alone = true;
  choice->stages = 1;
  return gemv_choose(chooser, choice, gemm, (GemvAsked){rows, vector, share}, true);
}

bool choose_few_rows(Chooser *chooser)
{
  bool odd = false;
  const FusedOperator *direct = direct_operator(chooser->problem, &odd);
  if (!direct || !odd || !direct_sums_take(gemm_of(direct))) return true;
  int64_t most = choose_maximum(chooser->problem, gemm_of(direct)->m);
  unsigned vector = direct_vector(chooser->problem, direct), element = number_bytes(gemm_of(direct)->a_type);
  for (unsigned i = 0; i < G_N_ELEMENTS(sums_rows); i++) {
    int64_t rows = MIN(most, sums_rows[i]);
    if (symbolic_is_constant(gemm_of(direct)->m, NULL) && rows < most) continue;
    if (rows <= gemm_rows_taken(chooser)) continue;
    double sums = direct_sums_clocks(chooser->problem, rows, vector),
           others = direct_others_clocks(chooser->problem, rows, odd, vector * element);
    choose_note(chooser, "M = %-6d sums along k of operands as they lie: %.0f clocks, else %.0f", (int)rows,
                sums, others);
    if (others >= 0 && others < sums) return true;
    if (!add_sums(chooser, direct, sums_rows[i])) return false;
    if (rows == most) return true;
  }
  return true;
}
