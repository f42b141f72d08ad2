#include "generator/choose/choose.h"
#include "generator/choose/candidate.h"
#include "generator/program/family.h"
#include <stdlib.h>
#include <string.h>

/* A tile that is asked for with a parameter which another template has is not meant for this one. */
static bool means_another(const Problem *problem, const Choice *choice)
{
  unsigned value = 0;
  if (choice->apart) choose_forced(problem, choice->apart, &value);
  return value && !choice_int(choice, choice->apart, 0);
}

/* Once, however many variants there are. */
static void note_forced(Chooser *chooser, const Choice *choice, const char *name, const char *value)
{
  for (const Choice *other = chooser->variants; other < choice; other++) {
    const ChoiceParameter *parameter = choice_parameter(other, name);
    if (!means_another(chooser->problem, other) && parameter && !g_strcmp0(parameter->text, value)) return;
  }
  choose_note(chooser, "%s = %s by --set", name, value);
}

/* Was it heeded where the template's values were tried? Then it has the value that is asked for, or cannot have it. */
static bool is_settled(const Problem *problem, const Choice *choice, const ChoiceParameter *parameter)
{
  const Space *space = spaces_of(problem->spaces, choice->template_name);
  return space && !space->kind->late && space_is_key(space, parameter->name);
}

/* Words, such as the form of rows, are checked before; numbers by what the variant's own template declares. */
static bool may_set(const Problem *problem, const Choice *choice, const ChoiceParameter *parameter,
                    const char *value)
{
  const Space *space = spaces_of(problem->spaces, choice->template_name);
  return parameter->kind == EXPR_NAME || space_may_set(space, parameter->name, strtoll(value, NULL, 10));
}

/* false: the variant keeps the value that it has. */
static bool force(Chooser *chooser, const Choice *choice, ChoiceParameter *parameter, const char *value)
{
  int64_t number = strtoll(value, NULL, 10);
  bool other = parameter->integer != number;
  if (!may_set(chooser->problem, choice, parameter, value) ||
      (other && is_settled(chooser->problem, choice, parameter))) {
    if (other)
      choose_note(chooser, "variant %u keeps %s = %" G_GINT64_FORMAT ": it cannot have what --set asks for",
                  (unsigned)(choice - chooser->variants) + 1, parameter->name, parameter->integer);
    return false;
  }
  parameter->integer = number;
  parameter->number = strtod(value, NULL);
  parameter->text = arena_strdup(chooser->problem->arena, value);
  note_forced(chooser, choice, parameter->name, value);
  return true;
}

/* --set name=value: overrides a template parameter in every variant that has it and may have the value. */
static void apply_sets(Chooser *chooser, Choice *choice)
{
  const CompileOptions *options = chooser->problem->options;
  if (means_another(chooser->problem, choice)) return;
  for (unsigned s = 0; options && options->sets && options->sets[s]; s++) {
    const char *set = options->sets[s], *equals = strchr(set, '=');
    if (!equals) continue;
    g_autofree char *name = g_strndup(set, (gsize)(equals - set));
    ChoiceParameter *parameter = (ChoiceParameter *)choice_parameter(choice, name);
    if (parameter && force(chooser, choice, parameter, equals + 1) && options->set_used)
      options->set_used[s] = true;
  }
}

/* What people are shown is what is generated. */
static void describe_forced(const Problem *problem, Choice *choice)
{
  const ChoiceParameter *bm = choice_parameter(choice, "bm"), *bn = choice_parameter(choice, "bn"),
                        *bk = choice_parameter(choice, "bk"), *stages = choice_parameter(choice, "stages");
  if (!problem->options || !problem->options->sets || !*problem->options->sets || !bm || !bn || !bk) return;
  bool swapped = choice_int(choice, "swapped", 0) != 0;
  choice->tile_text = arena_printf(problem->arena, "%dx%dx%d", (int)(swapped ? bn : bm)->integer,
                                   (int)(swapped ? bm : bn)->integer, (int)bk->integer);
  const Space *space = spaces_of(problem->spaces, choice->template_name);
  choice->suffix = choice->tile_text;
  if (space) {
    const Candidate candidate = candidate_of(space, choice);
    choice->suffix = arena_printf(problem->arena, "%s%s", choice->tile_text,
                                  candidate_further_words(&candidate, problem->arena));
  }
  if (stages) choice->stages = (unsigned)stages->integer;
}

/* 8-bit floats that the GPU does not convert are bytes, which steps compute with integers; copies need nothing. */
static bool takes_bytes(const Chooser *chooser)
{
  const FusedOperator *op = chooser->problem->op;
  if (fused_is_copy(op) || gpu_converts_float8(chooser->problem->gpu)) return false;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (number_is_small_float(op->inputs[i].tensor->type)) return true;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (number_is_small_float(op->outputs[i].tensor->type)) return true;
  for (unsigned i = 0; i < op->n_steps; i++)
    if (number_is_small_float(op->steps[i].type)) return true;
  return false;
}

/* Do products take operands of these types, by instructions or widened on the way? What a softmax gives nobody rounds to 8 bits without
 * instructions. */
static bool multiplies(const Problem *problem, NumberType a, NumberType b)
{
  return !fused_takes_weights(problem->op) && gpu_product(problem->gpu, "warp_mma", a, b, NUMBER_F32);
}

static bool is_byte_operand(const FusedOperator *op, unsigned input)
{
  return number_is_small_float(op->inputs[input].tensor->type) && fused_is_contracted(op, input) &&
         !fused_is_widened(op, input);
}

/* Operands that no product takes are refused. */
static bool check_products(Chooser *chooser)
{
  const FusedOperator *op = chooser->problem->op;
  for (unsigned i = 0; i < op->n_inputs; i++)
    for (unsigned j = 0; j < op->n_inputs && is_byte_operand(op, i); j++) {
      const GraphTensor *a = op->inputs[i].tensor, *b = op->inputs[j].tensor;
      if (!is_byte_operand(op, j) || multiplies(chooser->problem, a->type, b->type)) continue;
      const GraphNode *node = op->anchor ? op->anchor : op->nodes[0];
      error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "unsupported-type",
                "if the GPU has them, list their shapes; else convert to f16 or bf16 beforehand, or use s8",
                "%s's description lists no product of %s, the type of `%s` (%s)", chooser->problem->gpu->name,
                number_name(a->type), a->name, chooser->problem->gpu->file);
      return false;
    }
  return true;
}

static bool (*const choosers[FAMILY_COUNT])(Chooser *chooser) = {
#define FAMILY(name, ...) choose_##name,
#include "generator/program/families.def"
#undef FAMILY
};

/* What --set asks for may be against a condition of its template; what is tried was held against these. */
static bool keeps_conditions(Chooser *chooser, const Choice *choice)
{
  const Space *space = spaces_of(chooser->problem->spaces, choice->template_name);
  if (!space || means_another(chooser->problem, choice)) return true;
  const Candidate candidate = candidate_of(space, choice);
  return candidate_keeps(&candidate, chooser->problem, chooser->error);
}

bool choose_by_model(Chooser *chooser)
{
  chooser->n = 0;
  bool bytes = takes_bytes(chooser);
  if (bytes && !check_products(chooser)) return false;
  const Family *family = chooser->problem->op->family;
  if (!choosers[family->index](chooser)) return false;
  for (unsigned i = 0; i < chooser->n; i++) {
    Choice *choice = &chooser->variants[i];
    g_assert(family_has_template(family, choice->template_name));
    choice->bytes = bytes;
    apply_sets(chooser, choice);
    if (chooser->complete && !chooser->complete(chooser, choice)) return false;
    if (!keeps_conditions(chooser, choice)) return false;
    describe_forced(chooser->problem, choice);
    if (!choice->guard) chooser->n = i + 1; /* what follows could never be taken */
  }
  return true;
}
