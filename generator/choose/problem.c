/* What choosers ask about their problem, and how they build variants and guards. Below the dispatcher (choose.c). */
#include "generator/choose/choose.h"
#include <stdlib.h>
#include <string.h>

#define TYPICAL_EXTENT 4096 /* what a symbol without a bound counts as in the cost model */

void choose_note(Chooser *chooser, const char *format, ...)
{
  if (!chooser->explain) return;
  va_list arguments;
  va_start(arguments, format);
  g_string_append(chooser->explain, "  ");
  g_string_append_vprintf(chooser->explain, format, arguments);
  g_string_append_c(chooser->explain, '\n');
  va_end(arguments);
}

Choice *choose_open(Chooser *chooser, const char *template_name)
{
  g_assert(chooser->n < PLAN_MAX_VARIANTS);
  Choice *choice = &chooser->variants[chooser->n];
  *choice = (Choice){.template_name = template_name};
  return choice;
}

static void require(Chooser *chooser, Choice *choice, const Symbolic *condition)
{
  choice->guard =
      choice->guard ? symbolic_binary(chooser->arena, SYMBOLIC_AND, choice->guard, condition) : condition;
}

static Assumption *assume(Choice *choice, const Symbolic *expression)
{
  for (unsigned i = 0; i < choice->n_assumptions; i++)
    if (symbolic_same(choice->assumptions[i].expression, expression)) return &choice->assumptions[i];
  if (choice->n_assumptions == CHOICE_MAX_ASSUMPTIONS) return NULL;
  Assumption *assumption = &choice->assumptions[choice->n_assumptions++];
  *assumption = (Assumption){.expression = expression, .multiple = 1};
  return assumption;
}

bool choose_require_multiple(Chooser *chooser, Choice *choice, const Symbolic *expression, int64_t multiple)
{
  if (symbolic_divisible(expression, multiple, &chooser->graph->facts)) return true;
  if (symbolic_is_constant(expression, NULL)) return false;
  for (unsigned i = 0; i < choice->n_assumptions; i++)
    if (symbolic_same(choice->assumptions[i].expression, expression) &&
        choice->assumptions[i].multiple % multiple == 0)
      return true;
  Assumption *assumption = assume(choice, expression);
  if (!assumption) return false;
  assumption->multiple = MAX(assumption->multiple, multiple);
  const Symbolic *rest =
      symbolic_binary(chooser->arena, SYMBOLIC_MOD, expression, symbolic_constant(chooser->arena, multiple));
  require(chooser, choice,
          symbolic_binary(chooser->arena, SYMBOLIC_EQ, rest, symbolic_constant(chooser->arena, 0)));
  return true;
}

static bool require_bound(Chooser *chooser, Choice *choice, const Symbolic *expression, SymbolicKind kind,
                          int64_t bound)
{
  const Symbolic *condition =
      symbolic_binary(chooser->arena, kind, expression, symbolic_constant(chooser->arena, bound));
  switch (symbolic_decide(condition, &chooser->graph->facts)) {
  case SYMBOLIC_TRUE: return true;
  case SYMBOLIC_FALSE: return false;
  case SYMBOLIC_UNDECIDED: require(chooser, choice, condition);
  }
  return true;
}

bool choose_require_at_most(Chooser *chooser, Choice *choice, const Symbolic *expression, int64_t maximum)
{
  if (!require_bound(chooser, choice, expression, SYMBOLIC_LE, maximum)) return false;
  Assumption *assumption = assume(choice, expression);
  if (assumption) assumption->maximum = maximum;
  return true;
}

bool choose_require_at_least(Chooser *chooser, Choice *choice, const Symbolic *expression, int64_t minimum)
{
  return require_bound(chooser, choice, expression, SYMBOLIC_GE, minimum);
}

bool choose_require_align(Chooser *chooser, Choice *choice, const GraphTensor *tensor, unsigned align)
{
  choice->align = align;
  if (tensor->align >= align) return true;
  /* a view's address is that of the tensor, whose name it has, and what lies before it */
  unsigned element = number_bytes(tensor->type);
  if (tensor->begins && align > element &&
      !choose_require_multiple(chooser, choice, tensor->begins, align / element))
    return false;
  const Symbolic *condition =
      symbolic_binary(chooser->arena, SYMBOLIC_GE, symbolic_align(chooser->arena, tensor->name),
                      symbolic_constant(chooser->arena, align));
  switch (symbolic_decide(condition, &chooser->graph->facts)) {
  case SYMBOLIC_TRUE: return true;
  case SYMBOLIC_FALSE:
  case SYMBOLIC_UNDECIDED: require(chooser, choice, condition);
  }
  return true;
}

int64_t choose_maximum(const Chooser *chooser, const Symbolic *expression)
{
  int64_t least, most;
  symbolic_range(expression, &chooser->graph->facts, &least, &most);
  return most;
}

static bool typical_leaf(const Symbolic *leaf, int64_t *value, void *data)
{
  const Chooser *chooser = data;
  int64_t least, most;
  symbolic_range(leaf, &chooser->graph->facts, &least, &most);
  *value = CLAMP(TYPICAL_EXTENT, least, MAX(least, most));
  return true;
}

int64_t choose_typical(const Chooser *chooser, const Symbolic *expression)
{
  int64_t value;
  return symbolic_evaluate(expression, typical_leaf, (void *)chooser, &value, NULL) ? value : TYPICAL_EXTENT;
}

bool choose_is_forced(const Chooser *chooser)
{
  return chooser->options && chooser->options->sets && *chooser->options->sets;
}

bool choose_forced(const Chooser *chooser, const char *name, unsigned *value)
{
  for (const char *const *set = chooser->options ? chooser->options->sets : NULL; set && *set; set++) {
    if (!g_str_has_prefix(*set, name) || (*set)[strlen(name)] != '=') continue;
    int64_t number = strtoll(*set + strlen(name) + 1, NULL, 10);
    if (value && number >= 0 && number <= UINT16_MAX) *value = (unsigned)number;
    return true;
  }
  return false;
}
