/* What choosers ask about their problem, and how they build variants and guards. Below the dispatcher (choose.c). */
#include "generator/choose/problem.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define TYPICAL_EXTENT 4096 /* what a symbol without a bound counts as in the cost model */

Problem problem_of(const FusedOperator *op, const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                   Arena *arena)
{
  return (Problem){.op = op,
                   .turned = op->family->turned(arena, op),
                   .graph = graph,
                   .gpu = gpu,
                   .options = options,
                   .arena = arena};
}

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

/* Has the condition been asked for? */
static bool requires(const Symbolic *guard, const Symbolic *condition)
{
  if (!guard) return false;
  if (symbolic_same(guard, condition)) return true;
  return guard->kind == SYMBOLIC_AND && (requires(guard->a, condition) || requires(guard->b, condition));
}

static void require(const Problem *problem, Choice *choice, const Symbolic *condition)
{
  choice->guard =
      choice->guard ? symbolic_binary(problem->arena, SYMBOLIC_AND, choice->guard, condition) : condition;
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

bool choose_require_multiple(const Problem *problem, Choice *choice, const Symbolic *expression,
                             int64_t multiple)
{
  if (symbolic_divisible(expression, multiple, &problem->graph->facts)) return true;
  if (symbolic_is_constant(expression, NULL)) return false;
  for (unsigned i = 0; i < choice->n_assumptions; i++)
    if (symbolic_same(choice->assumptions[i].expression, expression) &&
        choice->assumptions[i].multiple % multiple == 0)
      return true;
  Assumption *assumption = assume(choice, expression);
  if (!assumption) return false;
  assumption->multiple = MAX(assumption->multiple, multiple);
  const Symbolic *rest =
      symbolic_binary(problem->arena, SYMBOLIC_MOD, expression, symbolic_constant(problem->arena, multiple));
  require(problem, choice,
          symbolic_binary(problem->arena, SYMBOLIC_EQ, rest, symbolic_constant(problem->arena, 0)));
  return true;
}

bool choose_require(const Problem *problem, Choice *choice, const Symbolic *condition)
{
  SymbolicTruth truth = symbolic_decide(condition, &problem->graph->facts);
  if (truth == SYMBOLIC_UNDECIDED && !requires(choice->guard, condition)) require(problem, choice, condition);
  return truth != SYMBOLIC_FALSE;
}

static bool require_bound(const Problem *problem, Choice *choice, const Symbolic *expression,
                          SymbolicKind kind, int64_t bound)
{
  const Symbolic *condition =
      symbolic_binary(problem->arena, kind, expression, symbolic_constant(problem->arena, bound));
  switch (symbolic_decide(condition, &problem->graph->facts)) {
  case SYMBOLIC_TRUE: return true;
  case SYMBOLIC_FALSE: return false;
  case SYMBOLIC_UNDECIDED: require(problem, choice, condition);
  }
  return true;
}

bool choose_require_at_most(const Problem *problem, Choice *choice, const Symbolic *expression,
                            int64_t maximum)
{
  if (!require_bound(problem, choice, expression, SYMBOLIC_LE, maximum)) return false;
  Assumption *assumption = assume(choice, expression);
  if (assumption) assumption->maximum = maximum;
  return true;
}

bool choose_require_at_least(const Problem *problem, Choice *choice, const Symbolic *expression,
                             int64_t minimum)
{
  return require_bound(problem, choice, expression, SYMBOLIC_GE, minimum);
}

/* The kernel may take it for granted. */
static void know_align(const Problem *problem, Choice *choice, const GraphTensor *tensor, unsigned align)
{
  if (choice_align(choice, tensor) >= align) return;
  ChoiceAlign *known = arena_new_object(problem->arena, ChoiceAlign);
  *known = (ChoiceAlign){tensor, align, choice->aligned};
  choice->aligned = known;
}

bool choose_require_align(const Problem *problem, Choice *choice, const GraphTensor *tensor, unsigned align)
{
  if (tensor->align >= align) return true;
  /* a view's address is that of the tensor, whose name it has, and what lies before it */
  if (tensor->begins && align > number_bytes_of(tensor->type, 1) &&
      !choose_require_multiple(problem, choice, tensor->begins, number_elements(tensor->type, align)))
    return false;
  const Symbolic *condition =
      symbolic_binary(problem->arena, SYMBOLIC_GE, symbolic_align(problem->arena, tensor->name),
                      symbolic_constant(problem->arena, align));
  switch (symbolic_decide(condition, &problem->graph->facts)) {
  case SYMBOLIC_TRUE: return true;
  case SYMBOLIC_FALSE:
  case SYMBOLIC_UNDECIDED:
    if (!requires(choice->guard, condition)) require(problem, choice, condition);
  }
  know_align(problem, choice, tensor, align);
  return true;
}

bool choose_reads_along(const FusedOperator *op, unsigned input)
{
  return !op->inputs[input].every && symbolic_equals(op->inputs[input].strides[op->rank - 1], 1);
}

bool choose_require_operands(const Problem *problem, Choice *choice,
                             bool (*may)(const FusedOperator *op, unsigned input), RequireOperand require,
                             void *data)
{
  const FusedOperator *op = problem->op;
  unsigned apart = 0, along = 0;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    const Choice before = *choice;
    bool may_be = i < op->n_inputs && may(op, i);
    along += may_be;
    if (require(problem, choice, i, data)) continue;
    if (!may_be || i >= CHAR_BIT * sizeof choice->single) return false;
    *choice = before;
    choice->single |= UINT64_C(1) << i;
    apart++;
  }
  return !apart || apart < along;
}

int64_t choose_maximum(const Problem *problem, const Symbolic *expression)
{
  int64_t least, most;
  symbolic_range(expression, &problem->graph->facts, &least, &most);
  return most;
}

static bool typical_leaf(const Symbolic *leaf, int64_t *value, void *data)
{
  const Problem *problem = data;
  int64_t least, most;
  symbolic_range(leaf, &problem->graph->facts, &least, &most);
  *value = CLAMP(TYPICAL_EXTENT, least, MAX(least, most));
  return true;
}

int64_t choose_typical(const Problem *problem, const Symbolic *expression)
{
  int64_t value;
  return symbolic_evaluate(expression, typical_leaf, (void *)problem, &value, NULL) ? value : TYPICAL_EXTENT;
}

bool choose_is_forced(const Problem *problem)
{
  return problem->options && problem->options->sets && *problem->options->sets && !problem->measured;
}

const char *choose_forced_text(const Problem *problem, const char *name)
{
  for (const char *const *set = problem->options ? problem->options->sets : NULL; set && *set; set++)
    if (g_str_has_prefix(*set, name) && (*set)[strlen(name)] == '=') return *set + strlen(name) + 1;
  return NULL;
}

bool choose_forced(const Problem *problem, const char *name, unsigned *value)
{
  for (const char *const *set = problem->options ? problem->options->sets : NULL; set && *set; set++) {
    if (!g_str_has_prefix(*set, name) || (*set)[strlen(name)] != '=') continue;
    int64_t number = strtoll(*set + strlen(name) + 1, NULL, 10);
    if (value && number >= 0 && number <= INT32_MAX) *value = (unsigned)number;
    return true;
  }
  return false;
}

unsigned choose_power_of_two(int64_t at_least, unsigned low, unsigned high)
{
  unsigned value = low;
  while (value < high && value < at_least)
    value *= 2;
  return value;
}
