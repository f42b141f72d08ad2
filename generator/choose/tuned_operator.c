#include "generator/choose/tuned_operator.h"
#include "generator/choose/candidate.h"
#include "generator/choose/choose.h"
#include <string.h>

/* ---- the key ---- */

#define NAMED_NODES 8 /* of what it computes, in the text; all of them are in its digits */
#define DIGITS      8

/* Extents: of the dims, then what else the family counts. */
typedef struct Extents {
  const Symbolic *of[TUNED_MAX_EXTENTS];
  unsigned n;
} Extents;

static bool has_extent(const Extents *extents, const Symbolic *extent)
{
  for (unsigned i = 0; i < extents->n; i++)
    if (symbolic_same(extents->of[i], extent)) return true;
  return false;
}

static Extents extents_of(const FusedOperator *op)
{
  FamilyExtent counted[FAMILY_MOST_EXTENTS];
  Extents extents = {.n = op->rank};
  for (unsigned i = 0; i < op->rank; i++)
    extents.of[i] = op->dims[i];
  unsigned n = op->family->extents(op, counted);
  for (unsigned i = 0; i < n && extents.n < TUNED_MAX_EXTENTS; i++)
    if (!has_extent(&extents, counted[i].extent)) extents.of[extents.n++] = counted[i].extent;
  return extents;
}

/* "f16[ab]": the dims along which it varies; one with a stride of 1 is a capital. */
static void put_tensor(GString *text, const GraphTensor *tensor, const Symbolic *const *strides,
                       unsigned rank)
{
  g_string_append_printf(text, " %s[", number_name(tensor->type));
  for (unsigned d = 0; d < rank; d++)
    if (strides[d] && !symbolic_equals(strides[d], 0))
      g_string_append_c(text, (char)((symbolic_equals(strides[d], 1) ? 'A' : 'a') + (char)d));
  g_string_append_c(text, ']');
}

static const char *node_name(const ProgramNode *node)
{
  switch (node->kind) {
  case NODE_MAP: return operator_of(node->op)->name;
  case NODE_REDUCE:
  case NODE_SCAN: return program_reduction_name(node->reduction);
  case NODE_READ:
  case NODE_INDEX:
  case NODE_WRITE: break;
  }
  return NULL;
}

typedef struct
    Digits { /* of what names do not tell: what its family bound, but for extents, which the key has */
  GString *text;
  const Extents *extents;
} Digits;

static void digit_number(int64_t number, void *data)
{
  g_string_append_printf(((Digits *)data)->text, "%" G_GINT64_FORMAT " ", number);
}

static void digit_real(double number, void *data)
{
} /* no kernel is the faster for it */

static void digit_expression(const Symbolic *expression, void *data)
{
  const Digits *digits = data;
  int64_t value;
  if (expression && has_extent(digits->extents, expression)) return;
  bool known = expression && symbolic_is_constant(expression, &value);
  g_string_append(digits->text, !expression ? "none " : known ? "" : "open ");
  if (known) digit_number(value, data);
}

static void digit_operand(const FusedOperand *operand, void *data)
{
  digit_number(operand->kind, data);
  digit_number(operand->index, data);
}

static void put_digits(GString *text, const FusedOperator *op, const Extents *extents)
{
  g_autoptr(GString) all = g_string_new(NULL);
  Digits digits = {all, extents};
  const BindingVisitor visitor = {digit_number, digit_real, digit_expression, digit_operand, &digits};
  op->family->visit(op, &visitor);
  for (unsigned i = 0; i < op->program->n_nodes; i++) {
    const ProgramNode *node = &op->program->nodes[i];
    g_string_append_printf(all, "%d %s %s ", node->kind, node_name(node) ? node_name(node) : "",
                           number_name(node->type));
  }
  g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, all->str, -1);
  g_string_append_printf(text, ", #%.*s", DIGITS, sum);
}

/* "row f16[aB] -> f16[aB], Mul max_sum Sub Exp Div, #01234567". */
static const char *describe(const FusedOperator *op, Arena *arena, const Extents *extents)
{
  g_autoptr(GString) text = g_string_new(op->family->name);
  for (unsigned i = 0; i < op->n_inputs; i++)
    put_tensor(text, op->inputs[i].tensor, (const Symbolic *const *)op->inputs[i].strides, op->rank);
  g_string_append(text, " ->");
  for (unsigned i = 0; i < op->n_outputs; i++)
    put_tensor(text, op->outputs[i].tensor, (const Symbolic *const *)op->outputs[i].strides, op->rank);
  unsigned named = 0;
  for (unsigned i = 0; i < op->program->n_nodes && named < NAMED_NODES; i++) {
    const char *name = node_name(&op->program->nodes[i]);
    if (name) g_string_append_printf(text, "%s%s", named++ ? " " : ", ", name);
  }
  put_digits(text, op, extents);
  return arena_strdup(arena, text->str);
}

bool tuned_operator_key(const Problem *problem, TunedEntry *key, bool *open)
{
  const Extents extents = extents_of(problem->op);
  unsigned budget = problem->options ? problem->options->sm_budget : 0;
  *key = (TunedEntry){.sms = budget ? budget : problem->gpu->sm_count, .n_extents = extents.n};
  key->extents = arena_new_array(problem->arena, int64_t, extents.n);
  for (unsigned i = 0; i < extents.n; i++) {
    bool known = symbolic_is_constant(extents.of[i], &key->extents[i]);
    if (open) open[i] = !known;
    if (!known && !open) return false;
    if (!known) key->extents[i] = choose_typical(problem, extents.of[i]);
    if (key->extents[i] < 1) return false;
  }
  key->product = describe(problem->op, problem->arena, &extents);
  return extents.n > 0;
}

/* ---- what becomes of an entry ---- */

/* The problem with the parameters asked for, as by --set. */
static Problem problem_with(const Problem *problem, const TunedParameter *parameters, unsigned n)
{
  Arena *arena = problem->arena;
  CompileOptions *options = arena_new_object(arena, CompileOptions);
  if (problem->options) *options = *problem->options;
  const char **sets = arena_new_array(arena, const char *, n + 1);
  for (unsigned i = 0; i < n; i++)
    sets[i] = arena_printf(arena, "%s=%" G_GINT64_FORMAT, parameters[i].name, parameters[i].value);
  options->sets = sets;
  options->set_used = NULL;
  options->tuned = NULL;
  Problem asked = *problem;
  asked.options = options;
  asked.measured = true;
  return asked;
}

static bool has_values(const Problem *problem, const Choice *choice, const TunedParameter *parameters,
                       unsigned n)
{
  const Space *space = spaces_of(problem->spaces, choice->template_name);
  if (!space) return false;
  const Candidate candidate = candidate_of(space, choice);
  for (unsigned i = 0; i < n; i++)
    if (!space_is_key(space, parameters[i].name) ||
        candidate_int(&candidate, parameters[i].name) != parameters[i].value)
      return false;
  return candidate_has(&candidate, problem);
}

/* All of them: no rule of the family's has seen the values. */
static bool passes_let(const Problem *problem, const Choice *choice)
{
  Choice exact = *choice;
  exact.exact = true;
  const DrySummary *summary = problem->dry ? dry_run(problem->dry, &exact) : NULL;
  return !summary || summary->legal;
}

bool tuned_operator_variant(const Chooser *chooser, const TunedParameter *parameters, unsigned n,
                            Choice *first)
{
  const Problem problem = problem_with(chooser->problem, parameters, n);
  g_autofree Chooser *asked = g_new0(Chooser, 1);
  GError *error = NULL;
  asked->problem = &problem;
  asked->error = &error;
  bool chosen = choose_by_model(asked) && asked->n;
  g_clear_error(&error);
  if (!chosen || !has_values(&problem, &asked->variants[0], parameters, n) ||
      !passes_let(&problem, &asked->variants[0]))
    return false;
  *first = asked->variants[0];
  return true;
}

/* Does a condition ask for more than addresses? */
static bool asks_sizes(const Symbolic *condition)
{
  if (!condition || condition->kind == SYMBOLIC_CONSTANT || condition->kind == SYMBOLIC_ALIGN) return false;
  return condition->kind == SYMBOLIC_SYMBOL || asks_sizes(condition->a) || asks_sizes(condition->b);
}

/* Variants for sizes of their own would all get what was measured at one. */
static bool serves_open(const Chooser *chooser)
{
  for (unsigned i = 0; i < chooser->n; i++)
    if (asks_sizes(chooser->variants[i].guard)) return false;
  return true;
}

static bool same_guard(const Symbolic *a, const Symbolic *b)
{
  return a && b && symbolic_same(a, b);
}

/* In front of the model's, or in place of its first where that is for the same operands; the others remain for theirs. */
static bool put_first(Chooser *chooser, const Choice *first)
{
  bool replaces = !first->guard || same_guard(first->guard, chooser->variants[0].guard);
  if (!replaces && chooser->n == PLAN_MAX_VARIANTS) return false;
  if (!replaces)
    memmove(&chooser->variants[1], &chooser->variants[0], chooser->n++ * sizeof *chooser->variants);
  chooser->variants[0] = *first;
  if (!first->guard) chooser->n = 1;
  return true;
}

void tuned_operator_take(Chooser *chooser)
{
  const CompileOptions *options = chooser->problem->options;
  TunedEntry key;
  bool open[TUNED_MAX_EXTENTS] = {false};
  Choice first;
  if (!options || !options->tuned || (options->sets && *options->sets) ||
      !tuned_operator_key(chooser->problem, &key, serves_open(chooser) ? open : NULL))
    return;
  const TunedEntry *entry = tuned_database_find_operator(options->tuned, &key, open);
  if (!entry) return;
  g_autofree char *text = tuned_parameters_text(entry);
  if (tuned_operator_variant(chooser, entry->parameters, entry->n_parameters, &first) &&
      put_first(chooser, &first))
    choose_note(chooser, "tuned: %s: %.3f times as fast as the model's choice, measured", text,
                entry->first_us / entry->us);
  else
    choose_note(chooser, "tuned: %s is not legal here, so the model decides", text);
}
