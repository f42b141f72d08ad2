#include "generator/choose/contest.h"
#include <stddef.h>

static double price_of(const Contest *contest, const void *contender)
{
  return *(const double *)(const void *)((const char *)contender + contest->price);
}

static bool *settled_of(const Contest *contest, void *contender)
{
  return (bool *)(void *)((char *)contender + contest->settled);
}

static void *best_of(const Contest *contest, GArray *list, void (*leads)(const void *contender, void *data))
{
  void *best = NULL;
  for (unsigned i = 0; i < list->len; i++) {
    void *next = list->data + (size_t)i * g_array_get_element_size(list);
    double price = price_of(contest, next);
    bool better = !best || price < price_of(contest, best) ||
                  (contest->tie > 0 && price <= price_of(contest, best) * contest->tie);
    if (better && leads) leads(next, contest->data);
    if (better) best = next;
  }
  return best;
}

void *contest_best(const Contest *contest, GArray *list)
{
  return best_of(contest, list, NULL);
}

/* The price without the passes is a bound: they refuse a contender, or make it dearer. */
void *contest_winner(const Contest *contest, GArray *list)
{
  void *best = contest_best(contest, list);
  for (; best && contest->settle && !*settled_of(contest, best); best = contest_best(contest, list))
    if (!(*settled_of(contest, best) = contest->settle(best, contest->data)))
      g_array_remove_index(list, (guint)(((char *)best - list->data) / g_array_get_element_size(list)));
  return best && contest->leads ? best_of(contest, list, contest->leads) : best;
}

/* ---- candidates by their values ---- */

typedef struct Entry {
  double price;
  bool settled;
  Candidate candidate;
} Entry;

typedef struct Run {
  const Problem *problem;
  const Trial *trial;
  GArray *list; /* Entry */
} Run;

static void take(const Candidate *candidate, void *data)
{
  const Run *run = data;
  Entry entry = {.candidate = *candidate};
  const Trial *trial = run->trial;
  /* what --set asks for is told by the condition that is against it */
  if (!choose_is_forced(run->problem) && !candidate_keeps(candidate, run->problem, NULL)) return;
  if (!trial->price || trial->price(&entry.candidate, &entry.price, trial->data))
    g_array_append_val(run->list, entry);
}

static bool settle(void *contender, void *data)
{
  const Run *run = data;
  return run->trial->settle(&((const Entry *)contender)->candidate, run->trial->data);
}

bool trial_winner(const Problem *problem, const Trial *trial, Candidate *winner)
{
  g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(Entry));
  Run run = {problem, trial, list};
  const CandidateWalk walk = {.facts = trial->facts, .take = take, .data = &run, .problem = problem};
  const Contest contest = {offsetof(Entry, price), offsetof(Entry, settled),
                           .settle = trial->settle ? settle : NULL, .data = &run};
  candidates_walk(spaces_of(problem->spaces, trial->template_name), &walk);
  const Entry *best = contest_winner(&contest, list);
  if (best) *winner = best->candidate;
  return best;
}

static void pass_over(const Candidate *candidate, void *data)
{
}

void trial_offer(const Problem *problem, const char *template_name, const int64_t *facts)
{
  const CandidateWalk walk = {.facts = facts, .take = pass_over, .problem = problem};
  if (problem->tried) candidates_walk(spaces_of(problem->spaces, template_name), &walk);
}

bool trial_first(const Problem *problem, const char *template_name, const int64_t *facts, Candidate *first,
                 GError **error)
{
  const Trial trial = {.template_name = template_name, .facts = facts};
  const FusedOperator *op = problem->op;
  if (trial_winner(problem, &trial, first)) return true;
  error_set(error, ERROR_UNSUPPORTED, &(op->anchor ? op->anchor : op->nodes[0])->mark, "none-tried", NULL,
            "the template `%s` tries nothing that this operator could be", template_name);
  return false;
}
