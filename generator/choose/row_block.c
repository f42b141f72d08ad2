/* Rows that a block takes so many of, a chunk at a time: how many of each, and its threads, as their templates say. */
#include "generator/choose/contest.h"
#include "generator/choose/row.h"

#define FACTS            "generator/choose/row_block_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem, const RowAsked *asked
#define FACT_LOCALS
#include "generator/choose/fact_table.h"

static const Axis axes[] = {{"rows", 1}, {"cols", 1}, {"threads", 1}, {"ahead", 1}, {"blocks", 1}};
const SpaceKind row_block_kind = {.templates = "row_parts row_scan",
                                  .facts = facts,
                                  .axes = axes,
                                  .n_axes = G_N_ELEMENTS(axes),
                                  .n_keys = G_N_ELEMENTS(axes),
                                  .fact = problem_fact,
                                  .tried = tried_facts};

bool choose_row_block(Chooser *chooser, Choice *choice, RowAsked asked)
{
  Arena *arena = chooser->problem->arena;
  g_autofree int64_t *values = fact_values(chooser->problem, &asked);
  Candidate block;
  if (!trial_first(chooser->problem, choice->template_name, values, &block, chooser->error)) return false;
  candidate_carry(&block, choice, NULL, NULL);
  choice->tile_text =
      arena_printf(arena, "%dx%d", (int)candidate_int(&block, "rows"), (int)candidate_int(&block, "cols"));
  choice->suffix = arena_printf(arena, "%s%s", choice->tile_text, candidate_words(&block, arena));
  choice->stages = 1;
  chooser->n++;
  return true;
}
