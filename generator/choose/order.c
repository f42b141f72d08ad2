/* Keys in order: how many elements a block takes at a time. */
#include "generator/program/order.h"
#include "generator/choose/choose.h"
#include "generator/choose/contest.h"
#include "generator/choose/verdict.h"

#define LEAST_SLOTS 32 /* a warp's lanes have one each */

#define FACTS            "generator/choose/order_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem
#define FACT_LOCALS      const FusedOrder *order = order_of(problem->op)
#include "generator/choose/fact_table.h"

const SpaceKind *space_kind_order(void)
{
  static const Axis axes[] = {{"chunk"}, {"threads"}};
  static const SpaceKind kind = SPACE_KIND("order", axes, NULL, false);
  return &kind;
}

/* What is taken of it is known where it was expanded; nobody asks for its price. */
void judge_order(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
}

bool choose_order(Chooser *chooser)
{
  const Problem *problem = chooser->problem;
  const FusedOrder *order = order_of(problem->op);
  Candidate form;
  g_autofree int64_t *values = fact_values(problem);
  if (!trial_first(problem, "order", values, &form, NULL)) {
    error_set(chooser->error, ERROR_UNSUPPORTED, &problem->op->anchor->mark, "keys", NULL,
              "no block puts these keys in order");
    return false;
  }
  Choice *choice = choose_open(chooser, "order");
  candidate_carry(&form, choice, NULL, NULL);
  choice_set_name(choice, "index", number_name(problem->op->inputs[0].tensor->type));
  int64_t slots = LEAST_SLOTS;
  while (slots < order->bins)
    slots *= 2;
  choice_set_int(choice, "bins", order->bins);
  choice_set_int(choice, "slots", slots);
  choice_set_int(choice, "align", order->align);
  choice_set_int(choice, "part", order->part);
  choice_set_int(choice, "tallies", order->tallies);
  choice_set_int(choice, "known", order->known);
  choice_set_int(choice, "places", order->output[ORDER_PLACES] != PROGRAM_NONE);
  choice_set_int(choice, "sources", order->output[ORDER_SOURCES] != PROGRAM_NONE);
  choice_set_int(choice, "dense",
                 symbolic_equals(order->strides[1], 1) && symbolic_same(order->strides[0], order->each));
  choice->tile_text = arena_printf(problem->arena, "%d", (int)candidate_int(&form, "chunk"));
  choice->suffix =
      arena_printf(problem->arena, "%s%s", choice->tile_text, candidate_words(&form, problem->arena));
  choice->stages = 1;
  chooser->n++;
  return true;
}
