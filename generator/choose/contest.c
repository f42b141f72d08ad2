#include "generator/choose/contest.h"

static Contender *contender_at(GArray *list, unsigned i)
{
  return (Contender *)(void *)(list->data + (size_t)i * g_array_get_element_size(list));
}

static Contender *best_of(const Contest *contest, GArray *list,
                          void (*leads)(const Contender *contender, void *data))
{
  Contender *best = NULL;
  for (unsigned i = 0; i < list->len; i++) {
    Contender *next = contender_at(list, i);
    bool better = !best || next->price < best->price || next->price <= best->price * contest->tie;
    if (better && leads) leads(next, contest->data);
    if (better) best = next;
  }
  return best;
}

Contender *contest_best(const Contest *contest, GArray *list)
{
  return best_of(contest, list, NULL);
}

/* The price without the passes is a bound: they refuse a contender, or make it dearer. */
Contender *contest_winner(const Contest *contest, GArray *list)
{
  Contender *best = contest_best(contest, list);
  for (; best && contest->settle && !best->settled; best = contest_best(contest, list))
    if (!(best->settled = contest->settle(best, contest->data)))
      g_array_remove_index(list, (guint)(((char *)best - list->data) / g_array_get_element_size(list)));
  return contest->leads ? best_of(contest, list, contest->leads) : best;
}

/* ---- candidates by their values ---- */

typedef struct Entry {
  Contender contender;
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
  if (candidate->space->kind->late) candidate_force(run->problem, &entry.candidate);
  if (run->trial->price) entry.contender.price = run->trial->price(&entry.candidate, run->trial->data);
  if (entry.contender.price >= 0) g_array_append_val(run->list, entry);
}

static bool settle(Contender *contender, void *data)
{
  const Run *run = data;
  return run->trial->settle(&((Entry *)(void *)contender)->candidate, run->trial->data);
}

bool trial_winner(const Problem *problem, const Trial *trial, Candidate *winner)
{
  g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(Entry));
  Run run = {problem, trial, list};
  const CandidateWalk walk = {.facts = trial->facts, .take = take, .data = &run, .problem = problem};
  const Contest contest = {.settle = trial->settle ? settle : NULL, .data = &run};
  candidates_walk(spaces_of(problem->spaces, trial->template_name), &walk);
  const Entry *best = (const Entry *)(void *)contest_winner(&contest, list);
  if (best) *winner = best->candidate;
  return best;
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
