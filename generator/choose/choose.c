#include "generator/choose/choose.h"
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
  for (const Choice *other = chooser->variants; other < choice; other++)
    if (!means_another(chooser->problem, other) && choice_parameter(other, name)) return;
  choose_note(chooser, "%s = %s by --set", name, value);
}

/* Was it heeded where the template's values were tried? Then it has the value that is asked for, or cannot have it. */
static bool is_settled(const Problem *problem, const Choice *choice, const ChoiceParameter *parameter)
{
  const Space *space = spaces_of(problem->spaces, choice->template_name);
  return space && !space->kind->late && space_is_key(space, parameter->name);
}

/* --set name=value: overrides a template parameter in every variant that has it. */
static void apply_sets(Chooser *chooser, Choice *choice)
{
  if (means_another(chooser->problem, choice)) return;
  for (const char *const *set = chooser->problem->options ? chooser->problem->options->sets : NULL;
       set && *set; set++) {
    const char *equals = strchr(*set, '=');
    if (!equals) continue;
    for (unsigned i = 0; i < choice->n_parameters; i++) {
      ChoiceParameter *parameter = &choice->parameters[i];
      if (strlen(parameter->name) != (size_t)(equals - *set) ||
          strncmp(parameter->name, *set, (size_t)(equals - *set)))
        continue;
      if (is_settled(chooser->problem, choice, parameter) &&
          parameter->integer != strtoll(equals + 1, NULL, 10))
        continue;
      parameter->integer = strtoll(equals + 1, NULL, 10);
      parameter->number = strtod(equals + 1, NULL);
      parameter->text = arena_strdup(chooser->problem->arena, equals + 1);
      if (chooser->problem->options->set_used)
        chooser->problem->options->set_used[set - chooser->problem->options->sets] = true;
      note_forced(chooser, choice, parameter->name, equals + 1);
    }
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

/* 8-bit floats that the GPU does not convert are bytes, which steps compute with integers; copies need nothing. */
static bool takes_bytes(const Chooser *chooser)
{
  const FusedOperator *op = chooser->problem->op;
  if (fused_is_copy(op) || converts_small_floats(chooser->problem->gpu)) return false;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (number_is_small_float(op->inputs[i].tensor->type)) return true;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (number_is_small_float(op->outputs[i].tensor->type)) return true;
  for (unsigned i = 0; i < op->n_steps; i++)
    if (number_is_small_float(op->steps[i].type)) return true;
  return false;
}

/* Products take them by instructions alone. */
static bool check_products(Chooser *chooser)
{
  const FusedOperator *op = chooser->problem->op;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const GraphTensor *tensor = op->inputs[i].tensor;
    if (!number_is_small_float(tensor->type) || !fused_is_contracted(op, i) || fused_is_widened(op, i))
      continue;
    const GraphNode *node = op->anchor ? op->anchor : op->nodes[0];
    error_set(chooser->error, ERROR_UNSUPPORTED, &node->mark, "unsupported-type",
              "if the GPU has them, list their shapes; else convert to f16 or bf16 beforehand, or use s8",
              "%s's description lists no product of %s, the type of `%s` (%s)", chooser->problem->gpu->name,
              number_name(tensor->type), tensor->name, chooser->problem->gpu->file);
    return false;
  }
  return true;
}

static bool (*const choosers[FAMILY_COUNT])(Chooser *chooser) = {
#define FAMILY(name, ...) choose_##name,
#include "generator/program/families.def"
#undef FAMILY
};

bool choose_variants(Chooser *chooser)
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
    describe_forced(chooser->problem, choice);
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
