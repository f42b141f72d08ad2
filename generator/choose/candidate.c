#include "generator/choose/candidate.h"
#include <string.h>

Candidate candidate_absent(const Space *space)
{
  Candidate candidate = {.space = space};
  for (unsigned i = 0; i < space->kind->n_axes; i++)
    candidate.values[i] = space->kind->axes[i].absent;
  return candidate;
}

/* -1: the template has no parameter of the name, or none that candidates have. */
static int slot_of(const Space *space, const char *name)
{
  const IrParameter *parameter = ir_parameter_find(space->head, name);
  return parameter ? space->slot_of[parameter - space->head->parameters] : -1;
}

int64_t candidate_int(const Candidate *candidate, const char *name)
{
  int slot = slot_of(candidate->space, name);
  return slot < 0 ? 0 : candidate_value(candidate, (unsigned)slot);
}

static void set_slot(Candidate *candidate, unsigned slot, int64_t value)
{
  candidate->values[slot] = (int)(value - candidate->space->base[slot]);
}

bool candidate_set(Candidate *candidate, const char *name, int64_t value)
{
  int slot = slot_of(candidate->space, name);
  if (slot >= 0) set_slot(candidate, (unsigned)slot, value);
  return slot >= 0;
}

Candidate candidate_of(const Space *space, const Choice *choice)
{
  Candidate candidate = candidate_absent(space);
  for (unsigned i = 0; i < space->n; i++) {
    if (!space->declared[i]) continue;
    int64_t otherwise = candidate_value(&candidate, i);
    set_slot(&candidate, i, choice_int(choice, space->declared[i]->name, otherwise));
  }
  return candidate;
}

/* Gives it what --set says of its key, but of parameters that are settled (NULL: of all). */
static void force(const Problem *problem, Candidate *candidate, const TryValues *settled)
{
  const Space *space = candidate->space;
  for (unsigned i = 0; i < space->n; i++) {
    if (!space->declared[i] || !space_has_key(space, i)) continue;
    unsigned value = (unsigned)candidate_value(candidate, i);
    bool tried = false;
    for (unsigned j = 0; settled && j < settled->n; j++)
      tried |= space->slot_of[settled->given[j]] == (int)i;
    if (!tried && choose_forced(problem, space->declared[i]->name, &value) &&
        space_may_set(space, space->declared[i]->name, value))
      set_slot(candidate, i, value);
  }
}

/* ---- what is tried ---- */

typedef struct Walk {
  const Space *space;
  const CandidateWalk *asked;
  Candidate absent;
  bool heeds; /* --set where values are tried */
} Walk;

static Candidate given(const Walk *walk, const TryValues *values)
{
  Candidate candidate = walk->absent;
  for (unsigned i = 0; i < values->n; i++) {
    unsigned parameter = values->given[i];
    set_slot(&candidate, (unsigned)walk->space->slot_of[parameter], values->of[parameter]);
  }
  return candidate;
}

static int64_t derive(const TryValues *values, unsigned parameter, void *data)
{
  const Walk *walk = data;
  int slot = walk->space->slot_of[parameter];
  if (slot < 0 || !walk->asked->derive) return values->of[parameter];
  const Candidate candidate = given(walk, values);
  return walk->asked->derive(&candidate, (unsigned)slot, walk->asked->data);
}

static bool forced(const char *name, int64_t *value, void *data)
{
  const Walk *walk = data;
  unsigned number = (unsigned)*value;
  bool asked = choose_forced(walk->asked->problem, name, &number) && space_may_set(walk->space, name, number);
  if (asked) *value = number;
  return asked;
}

static void take(const TryValues *values, void *data)
{
  const Walk *walk = data;
  Candidate candidate = given(walk, values);
  if (walk->heeds) force(walk->asked->problem, &candidate, values);
  walk->asked->take(&candidate, walk->asked->data);
}

static bool same_tried(const CandidateTried *a, const CandidateTried *b)
{
  bool same = a->n == b->n && !strcmp(a->template_name, b->template_name);
  for (unsigned i = 0; same && i < a->n; i++)
    same = !strcmp(a->parameters[i].name, b->parameters[i].name) &&
           a->parameters[i].value == b->parameters[i].value;
  return same;
}

/* Of the key alone: the rest follows. */
static void list_tried(const TryValues *values, void *data)
{
  const Walk *walk = data;
  const Space *space = walk->space;
  const CandidateList *list = walk->asked->problem->tried;
  CandidateTried tried = {.template_name = arena_strdup(list->arena, space->template_name)};
  for (unsigned i = 0; i < values->n && tried.n < TUNED_MAX_PARAMETERS; i++) {
    const IrParameter *parameter = &space->head->parameters[values->given[i]];
    if (space_is_key(space, parameter->name))
      tried.parameters[tried.n++] =
          (TunedParameter){arena_strdup(list->arena, parameter->name), values->of[values->given[i]]};
  }
  for (unsigned i = 0; i < list->tried->len; i++)
    if (same_tried(&tried, &g_array_index(list->tried, CandidateTried, i))) return;
  g_array_append_val(list->tried, tried);
}

void candidates_walk(const Space *space, const CandidateWalk *asked)
{
  if (!space) return;
  Walk walk = {space, asked, candidate_absent(space), asked->problem && !space->kind->late};
  const TryWalk tries = {asked->measured, asked->facts, derive, walk.heeds ? forced : NULL, take, &walk};
  tries_walk(space->tries, &tries);
  for (unsigned measured = 0; asked->problem && asked->problem->tried && measured < 2; measured++) {
    const TryWalk listed = {measured, asked->facts, derive, NULL, list_tried, &walk};
    tries_walk(space->tries, &listed);
  }
}

/* ---- what the template admits ---- */

/* What a template's default stands for is not said again by a candidate: 0 and 1 are one. */
static int64_t value_of(const Candidate *candidate, unsigned slot)
{
  const Space *space = candidate->space;
  int64_t value = candidate_value(candidate, slot), otherwise;
  if (slot >= space->kind->n_axes) return value;
  int absent = space->kind->axes[slot].absent;
  bool silent = value == absent && ir_expr_is_int(space->declared[slot]->value, &otherwise);
  return silent && absent <= 1 && otherwise <= 1 ? otherwise : value;
}

typedef struct Asked { /* by a condition */
  const Candidate *candidate;
  const Problem *problem; /* of which facts are */
} Asked;

static bool lookup(const IrExpr *leaf, int64_t *value, void *data)
{
  const Asked *asked = data;
  const Space *space = asked->candidate->space;
  bool parameter = leaf->kind == EXPR_PARAMETER;
  int slot = parameter ? slot_of(space, leaf->name) : -1,
      fact = parameter ? -1 : space_fact(space->kind, leaf);
  if (slot >= 0) *value = value_of(asked->candidate, (unsigned)slot);
  if (fact >= 0) *value = space->kind->fact(asked->problem, (unsigned)fact);
  return slot >= 0 || fact >= 0;
}

/* Where a condition does not hold, or hangs on what is not known yet, only the default may stand. */
static bool keeps_condition(const Asked *asked, const IrParameter *parameter, int64_t value)
{
  int64_t holds, otherwise;
  if (!parameter->condition || (ir_expr_is_int(parameter->value, &otherwise) && value == otherwise))
    return true;
  return ir_expr_evaluate(parameter->condition, lookup, (void *)asked, &holds) && holds;
}

static bool admits(const Asked *asked, const IrParameter *parameter, int64_t value)
{
  return ir_domain_has(parameter->domain, value) && keeps_condition(asked, parameter, value);
}

typedef bool (*ValueCheck)(const Asked *asked, const IrParameter *parameter, int64_t value);

/* The first parameter of the key whose value fails the check, or NULL. */
static const IrParameter *first_failing(const Asked *asked, ValueCheck passes, int64_t *value)
{
  const Candidate *candidate = asked->candidate;
  const Space *space = candidate->space;
  for (unsigned i = 0; i < space->n; i++) {
    if (!space->declared[i] || !space_has_key(space, i)) continue;
    *value = value_of(candidate, i);
    if (!passes(asked, space->declared[i], *value)) return space->declared[i];
  }
  return NULL;
}

/* What nobody asked for, and what was asked for is against, has its default. */
static void drop_refused(const Problem *problem, Candidate *candidate)
{
  const Space *space = candidate->space;
  const Asked asked = {candidate, problem};
  for (unsigned i = 0; i < space->n; i++) {
    const IrParameter *declared = space->declared[i];
    int64_t otherwise;
    if (declared && space_has_key(space, i) && ir_expr_is_int(declared->value, &otherwise) &&
        !choose_forced(problem, declared->name, NULL) &&
        !keeps_condition(&asked, declared, value_of(candidate, i)))
      set_slot(candidate, i, otherwise);
  }
}

void candidate_force(const Problem *problem, Candidate *candidate)
{
  force(problem, candidate, NULL);
  drop_refused(problem, candidate);
}

bool candidate_has(const Candidate *candidate, const Problem *problem)
{
  const Asked asked = {candidate, problem};
  int64_t value;
  return !first_failing(&asked, admits, &value);
}

bool candidate_keeps(const Candidate *candidate, const Problem *problem, GError **error)
{
  const Asked asked = {candidate, problem};
  int64_t value, otherwise = 0;
  const IrParameter *failing = first_failing(&asked, keeps_condition, &value);
  if (!failing) return true;
  ir_expr_is_int(failing->value, &otherwise);
  ir_parameter_refuse(failing, otherwise, value, error);
  return false;
}

/* ---- variants ---- */

void candidate_carry(const Candidate *candidate, Choice *choice,
                     bool (*carries)(const Candidate *candidate, unsigned slot, const void *data),
                     const void *data)
{
  const Space *space = candidate->space;
  for (unsigned i = 0; i < space->n; i++) {
    const IrParameter *declared = space->declared[i];
    if (!declared || (carries && !carries(candidate, i, data))) continue;
    int64_t value = MAX(candidate_value(candidate, i), declared->domain ? declared->domain->least : 0);
    (declared->outside ? choice_set_own : choice_set_int)(choice, declared->name, value);
  }
}

const char *candidate_further_words(const Candidate *candidate, Arena *arena)
{
  const Space *space = candidate->space;
  const char *words = "";
  for (unsigned i = space->kind->n_axes; i < space->n; i++)
    if (candidate->values[i])
      words =
          arena_printf(arena, "%s_%s%d", words, space->declared[i]->name, (int)candidate_value(candidate, i));
  return words;
}

const char *candidate_words(const Candidate *candidate, Arena *arena)
{
  const Space *space = candidate->space;
  const char *words = "";
  for (unsigned i = 0; i < space->kind->n_keys; i++) {
    const char *word = space->kind->axes[i].word;
    int64_t value = candidate_value(candidate, i);
    if (!word || !*word || value <= 1) continue;
    g_auto(GStrv) parts = g_strsplit(word, "%u", 2);
    words =
        parts[1] ? arena_printf(arena, "_%s%d", parts[0], (int)value) : arena_printf(arena, "_%s", parts[0]);
  }
  return arena_printf(arena, "%s%s", words, candidate_further_words(candidate, arena));
}

/* ---- files of measured choices ---- */

static bool is_said(const Candidate *candidate, unsigned slot)
{
  const SpaceKind *kind = candidate->space->kind;
  int absent = slot < kind->n_axes ? kind->axes[slot].absent : 0;
  return space_has_key(candidate->space, slot) && candidate->values[slot] != absent;
}

unsigned candidate_describe(const Candidate *candidate, Arena *arena,
                            TunedParameter parameters[TUNED_MAX_PARAMETERS])
{
  const Space *space = candidate->space;
  unsigned n = 0;
  for (unsigned i = 0; i < space->n; i++) {
    if (!is_said(candidate, i)) continue;
    const char *name = i < space->kind->n_axes ? space->kind->axes[i].name : space->declared[i]->name;
    parameters[n++] = (TunedParameter){arena_strdup(arena, name), candidate_value(candidate, i)};
  }
  return n;
}

/* Of a parameter that choosing has an axis for, declared or not, or of a further one; -1: none. */
static int stored_slot(const Space *space, const char *name, const char *also)
{
  for (unsigned i = 0; i < space->kind->n_axes; i++)
    if (!strcmp(space->kind->axes[i].name, name))
      return space_has_key(space, i) || !strcmp(name, also) ? (int)i : -1;
  return slot_of(space, name);
}

bool candidate_read(Candidate *candidate, const TunedEntry *entry, const char *also)
{
  const Space *space = candidate->space;
  for (unsigned i = 0; i < entry->n_parameters; i++) {
    const TunedParameter *parameter = &entry->parameters[i];
    int slot = stored_slot(space, parameter->name, also);
    if (slot < 0 || parameter->value < 0 || parameter->value > CANDIDATE_MOST) return false;
    bool further = (unsigned)slot >= space->kind->n_axes;
    if (further && !ir_domain_has(space->declared[slot]->domain, parameter->value)) return false;
    set_slot(candidate, (unsigned)slot, parameter->value);
  }
  return true;
}
