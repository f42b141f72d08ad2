#include "generator/choose/choose.h"
#include "generator/program/family.h"
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

/* Two products have a template of their own for exchanged operands: a tile that is asked for with these is
 * not meant for the other one. */
static bool means_another(const Chooser *chooser, const Choice *choice)
{
  unsigned swapped = 0;
  choose_forced(chooser, "swapped", &swapped);
  bool dual = chooser->op->kind == FUSED_GEMM && chooser->op->gemm.dual;
  return dual && swapped && !choice_int(choice, "swapped", 0);
}

/* Once, however many variants there are. */
static void note_forced(Chooser *chooser, const Choice *choice, const char *name, const char *value)
{
  for (const Choice *other = chooser->variants; other < choice; other++)
    if (!means_another(chooser, other) && choice_parameter(other, name)) return;
  choose_note(chooser, "%s = %s by --set", name, value);
}

/* --set name=value: overrides a template parameter in every variant that has it. */
static void apply_sets(Chooser *chooser, Choice *choice)
{
  if (means_another(chooser, choice)) return;
  for (const char *const *set = chooser->options ? chooser->options->sets : NULL; set && *set; set++) {
    const char *equals = strchr(*set, '=');
    if (!equals) continue;
    for (unsigned i = 0; i < choice->n_parameters; i++) {
      ChoiceParameter *parameter = &choice->parameters[i];
      if (strlen(parameter->name) != (size_t)(equals - *set) ||
          strncmp(parameter->name, *set, (size_t)(equals - *set)))
        continue;
      parameter->integer = strtoll(equals + 1, NULL, 10);
      parameter->number = strtod(equals + 1, NULL);
      parameter->text = arena_strdup(chooser->arena, equals + 1);
      if (chooser->options->set_used) chooser->options->set_used[set - chooser->options->sets] = true;
      note_forced(chooser, choice, parameter->name, equals + 1);
    }
  }
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

/* Whoever asks for streams need not know what excludes them; who asks for both is told by the passes. */
static void make_room_for_streams(Chooser *chooser, Choice *choice)
{
  static const char *const others[] = {"alternate", "cluster", "across", "split"};
  const ChoiceParameter *stream = choice_parameter(choice, "stream");
  if (!stream || stream->integer <= 1) return;
  for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
    ChoiceParameter *other = (ChoiceParameter *)choice_parameter(choice, others[i]);
    if (other && !choose_forced(chooser, others[i], NULL)) other->integer = 1;
  }
}

/* What people are shown is what is generated. */
static void describe_forced(Chooser *chooser, Choice *choice)
{
  const ChoiceParameter *bm = choice_parameter(choice, "bm"), *bn = choice_parameter(choice, "bn"),
                        *bk = choice_parameter(choice, "bk"), *stages = choice_parameter(choice, "stages");
  if (!chooser->options || !chooser->options->sets || !*chooser->options->sets || !bm || !bn || !bk) return;
  bool swapped = choice_int(choice, "swapped", 0) != 0;
  choice->tile_text = arena_printf(chooser->arena, "%dx%dx%d", (int)(swapped ? bn : bm)->integer,
                                   (int)(swapped ? bm : bn)->integer, (int)bk->integer);
  choice->suffix = choice->tile_text;
  if (stages) choice->stages = (unsigned)stages->integer;
}

/* Conversions of 8-bit floats come with the products that take them. */
static bool converts_small_floats(const Gpu *gpu)
{
  for (unsigned i = 0; i < gpu->n_products; i++)
    if (number_is_small_float(gpu->products[i].a)) return true;
  return false;
}

/* Copies of 8-bit floats need nothing; all else converts them. */
static bool check_small_floats(Chooser *chooser)
{
  const FusedOperator *op = chooser->op;
  bool copies = op->kind == FUSED_ELEMENTWISE && !op->n_steps, small = false;
  if (copies || converts_small_floats(chooser->gpu)) return true;
  const GraphTensor *culprit = NULL;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs && !small; i++) {
    culprit = i < op->n_inputs ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
    small = number_is_small_float(culprit->type);
  }
  for (unsigned i = 0; i < op->n_steps && !small; i++)
    small = number_is_small_float((culprit = op->steps[i].node->outputs[0])->type);
  if (!small) return true;
  const GraphNode *node = op->anchor ? op->anchor : op->nodes[0];
  error_set(
      chooser->error, ERROR_UNSUPPORTED, &node->mark, "unsupported-type",
      "conversions come with products of 8-bit floats: if the GPU has them, list their shapes; else convert "
      "to f16 or bf16 beforehand, or use s8",
      "%s's description lists no conversion of %s, the type of `%s` (%s)", chooser->gpu->name,
      number_name(culprit->type), culprit->name, chooser->gpu->file);
  return false;
}

static bool (*const choosers[FUSED_KIND_COUNT])(Chooser *chooser) = {
#define FAMILY(kind, name, ...) [FUSED_##kind] = choose_##name,
#include "generator/program/families.def"
#undef FAMILY
};

bool choose_variants(Chooser *chooser)
{
  chooser->n = 0;
  if (!check_small_floats(chooser)) return false;
  if (chooser->op->kind == FUSED_GEMM && !fused_is_reduced(chooser->op))
    chooser->turned = fused_gemm_transposed(chooser->arena, chooser->op);
  if (!choosers[chooser->op->kind](chooser)) return false;
  for (unsigned i = 0; i < chooser->n; i++) {
    Choice *choice = &chooser->variants[i];
    g_assert(family_has_template(family_of(chooser->op->kind), choice->template_name));
    apply_sets(chooser, choice);
    make_room_for_streams(chooser, choice);
    if (chooser->op->kind == FUSED_GEMM && !choose_gemm_complete(chooser, choice)) return false;
    describe_forced(chooser, choice);
    if (!choice->guard) chooser->n = i + 1; /* what follows could never be taken */
  }
  choose_shared_kernels(chooser);
  for (unsigned i = 0; i < chooser->n; i++) {
    const Choice *choice = &chooser->variants[i];
    g_autofree char *guard = choice->guard ? symbolic_text(choice->guard) : g_strdup("always");
    g_autofree char *shared =
        choice->kernel_of < i ? g_strdup_printf(", kernel of variant %u", choice->kernel_of + 1) : NULL;
    choose_note(chooser, "variant %u: template %s, tile %s, guard: %s%s", i + 1, choice->template_name,
                choice->tile_text, guard, shared ? shared : "");
  }
  return true;
}
