/* Keys in order: how many elements a block takes at a time. */
#include "generator/program/order.h"
#include "generator/choose/choose.h"
#include "generator/choose/contest.h"
#include "generator/choose/dry_run.h"
#include "generator/choose/verdict.h"

#define LEAST_SLOTS  32 /* a warp's lanes have one each */
#define VECTOR_BYTES 16 /* of a thread's widest access */

#define FACTS            "generator/choose/order_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem
#define FACT_LOCALS      const FusedOrder *order = order_of(problem->op)
#include "generator/choose/fact_table.h"

const SpaceKind *space_kind_order(void)
{
  static const Axis axes[] = {{"chunk"}, {"threads"}};
  static const SpaceKind kind = SPACE_KIND("order take", axes, NULL, false);
  return &kind;
}

/* What is taken of it is known where it was expanded; nobody asks for its price. */
void judge_order(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
}

/* A power of two, so many at least. */
static int64_t slots_of(int64_t most)
{
  int64_t slots = LEAST_SLOTS;
  while (slots < most)
    slots *= 2;
  return slots;
}

static void set_form(const Problem *problem, const Candidate *form, Choice *choice)
{
  const FusedOrder *order = order_of(problem->op);
  candidate_carry(form, choice, NULL, NULL);
  choice_set_name(choice, "index", number_name(problem->op->inputs[0].tensor->type));
  choice_set_int(choice, "part", order->part);
  choice_set_int(choice, "shift", order->shift);
  choice_set_int(choice, "places", order->output[ORDER_PLACES] != PROGRAM_NONE);
  choice_set_int(choice, "sources", order->output[ORDER_SOURCES] != PROGRAM_NONE);
  if (!order->taken) {
    choice_set_int(choice, "bins", order->bins);
    choice_set_int(choice, "slots", slots_of(order->bins));
    choice_set_int(choice, "align", order->align);
    choice_set_int(choice, "tallies", order->tallies);
    choice_set_int(choice, "known", order->known);
    choice_set_int(choice, "magnitudes", order->magnitudes);
    choice_set_int(choice, "based", order->based);
    choice_set_int(choice, "above", order->above);
    choice_set_int(choice, "dense",
                   symbolic_equals(order->strides[1], 1) && symbolic_same(order->strides[0], order->each));
  } else {
    choice_set_int(choice, "slots", slots_of(choose_maximum(problem, order->parts)));
  }
  choice->tile_text = arena_printf(problem->arena, "%d", (int)candidate_int(form, "chunk"));
  choice->suffix =
      arena_printf(problem->arena, "%s%s", choice->tile_text, candidate_words(form, problem->arena));
  choice->stages = 1;
}

typedef struct {
  const Problem *problem;
  Choice open, *choice; /* as it was opened; to be set */
} Order;

static void take_form(const Order *order, const Candidate *form)
{
  *order->choice = order->open;
  set_form(order->problem, form, order->choice);
}

/* Counters of many warps may want more shared memory than a block has. */
static bool settle(const Candidate *form, void *data)
{
  const Order *order = data;
  take_form(order, form);
  const DrySummary *summary = order->problem->dry ? dry_run(order->problem->dry, order->choice) : NULL;
  return !summary || summary->legal;
}

/* Keys and places start where whole vectors of them do. */
static bool require_vectors(const Problem *problem, Choice *choice)
{
  const FusedOperator *op = problem->op;
  int place = order_of(op)->output[ORDER_PLACES];
  return choose_require_align(problem, choice, op->inputs[0].tensor, VECTOR_BYTES) &&
         (place == PROGRAM_NONE ||
          choose_require_align(problem, choice, op->outputs[place].tensor, VECTOR_BYTES));
}

/* aligned: accesses of whole vectors. false: no block puts these keys in order. */
static bool add_form(Chooser *chooser, bool aligned)
{
  const Problem *problem = chooser->problem;
  const char *template = order_of(problem->op)->taken ? "take" : "order";
  Candidate form;
  g_autofree int64_t *values = fact_values(problem);
  Choice *choice = choose_open(chooser, template);
  if (aligned && !require_vectors(problem, choice)) return true;
  Order order = {problem, *choice, choice};
  const Trial trial = {.template_name = template, .facts = values, .settle = settle, .data = &order};
  if (!trial_winner(problem, &trial, &form)) return false;
  take_form(&order, &form);
  chooser->n++;
  return true;
}

/* Floats lie side by side in threads; keys, in warps: a thread has one of each warp's. */
bool choose_order(Chooser *chooser)
{
  bool vectors = order_of(chooser->problem->op)->magnitudes, ok = !vectors || add_form(chooser, true);
  if (ok && (!chooser->n || chooser->variants[0].guard)) ok = add_form(chooser, false);
  if (!ok)
    error_set(chooser->error, ERROR_UNSUPPORTED, &chooser->problem->op->anchor->mark, "keys", NULL,
              "no block puts these keys in order");
  return ok;
}
