#include "generator/choose/gemv.h"
#include "ir/resources.h"

#define FACTS            "generator/choose/gemv_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem, const GemvAsked *asked
#define FACT_LOCALS      const FusedGemm *gemm = gemm_of(problem->op)
#include "generator/choose/fact_table.h"

static const Axis axes[] = {{"bm"}, {"bn"}, {"bk"}, {"threads"}, {"rows"}, {"split_k"}};
const SpaceKind gemv_kind = {"gemv_rows gemv_columns gemv_few gemv_split",
                             facts,
                             axes,
                             G_N_ELEMENTS(axes),
                             G_N_ELEMENTS(axes),
                             NULL,
                             false,
                             problem_fact,
                             tried_facts};

int64_t *gemv_facts(const Problem *problem, const GemvAsked *asked)
{
  return fact_values(problem, asked);
}

void gemv_finish(Chooser *chooser, Choice *choice, const FusedGemm *gemm, const Candidate *tile, bool swapped)
{
  Arena *arena = chooser->problem->arena;
  candidate_carry(tile, choice, NULL, NULL);
  choice_set_name(choice, "ta", number_name(swapped ? gemm->b_type : gemm->a_type));
  choice_set_name(choice, "tb", number_name(swapped ? gemm->a_type : gemm->b_type));
  choice_set_name(choice, "tc", number_name(gemm->acc_type));
  choice_set_own(choice, "swapped", swapped);
  int64_t rows = choice_int(choice, "rows", candidate_int(tile, swapped ? "bn" : "bm")),
          columns = candidate_int(tile, swapped ? "bm" : "bn"), split_k = choice_int(choice, "split_k", 0);
  choice->tile_text =
      arena_printf(arena, "%dx%dx%d", (int)rows, (int)columns, (int)candidate_int(tile, "bk"));
  choice->suffix = arena_printf(arena, "%s%s%s_sums", choice->tile_text,
                                split_k ? arena_printf(arena, "_split%d", (int)split_k) : "",
                                candidate_words(tile, arena));
  chooser->n++;
}

bool gemv_choose(Chooser *chooser, Choice *choice, const FusedGemm *gemm, GemvAsked asked, bool swapped)
{
  g_autofree int64_t *values = fact_values(chooser->problem, &asked);
  Candidate tile;
  if (!trial_first(chooser->problem, choice->template_name, values, &tile, chooser->error)) return false;
  gemv_finish(chooser, choice, gemm, &tile, swapped);
  return true;
}
