/* Repeats: launches that are carried out several times, and the order that follows. */
#include "plan/private.h"
#include <string.h>

PlanRepeat *plan_add_repeat(Plan *plan, unsigned n, const char *counter, const Symbolic *count)
{
  PlanRepeat *repeat = plan_append(plan, plan->repeats, plan->n_repeats);
  *repeat = (PlanRepeat){arena_strdup(plan->arena, counter), count, plan->n_launches - n, n};
  return repeat;
}

const PlanRepeat *plan_repeat_of(const Plan *plan, unsigned launch)
{
  for (unsigned i = 0; i < plan->n_repeats; i++)
    if (launch - plan->repeats[i].first < plan->repeats[i].n) return &plan->repeats[i];
  return NULL;
}

PlanWalk plan_walk(const Plan *plan, const PlanBindings *bindings)
{
  PlanWalk walk = {.plan = plan, .bindings = *bindings};
  walk.bindings.counter = 0;
  return walk;
}

static bool enter(PlanWalk *walk, const PlanRepeat *repeat, GError **error)
{
  if (!plan_evaluate(walk->plan, repeat->count, &walk->bindings, &walk->count, error)) return false;
  if (walk->count < 0) {
    error_set(error, ERROR_INPUT, NULL, "repeat", NULL, "%s would be launched %" G_GINT64_FORMAT " times",
              walk->plan->launches[repeat->first]->name, walk->count);
    return false;
  }
  if (walk->count)
    walk->inside = repeat;
  else
    walk->next += repeat->n;
  return true;
}

bool plan_walk_next(PlanWalk *walk, const PlanLaunch **launch, GError **error)
{
  *launch = NULL;
  if (walk->inside && walk->next == walk->inside->first + walk->inside->n) {
    bool again = ++walk->bindings.counter < walk->count;
    if (again) walk->next = walk->inside->first;
    if (!again) walk->bindings.counter = 0;
    if (!again) walk->inside = NULL;
  }
  while (!walk->inside && walk->next < walk->plan->n_launches) {
    const PlanRepeat *repeat = plan_repeat_of(walk->plan, walk->next);
    if (!repeat) break;
    if (!enter(walk, repeat, error)) return false;
  }
  if (walk->next < walk->plan->n_launches) *launch = walk->plan->launches[walk->next++];
  return true;
}
