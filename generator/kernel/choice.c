/* How one variant is generated: its parameters. */
#include "generator/kernel/kernel.h"

static ChoiceParameter *choice_add(Choice *choice, const char *name, IrExprKind kind)
{
  g_assert(choice->n_parameters < CHOICE_MAX_PARAMETERS);
  ChoiceParameter *parameter = &choice->parameters[choice->n_parameters++];
  parameter->name = name;
  parameter->kind = kind;
  return parameter;
}

void choice_set_int(Choice *choice, const char *name, int64_t value)
{
  choice_add(choice, name, EXPR_INT)->integer = value;
}

void choice_set_own(Choice *choice, const char *name, int64_t value)
{
  ChoiceParameter *parameter = choice_add(choice, name, EXPR_INT);
  parameter->integer = value;
  parameter->own = true;
}

void choice_set_float(Choice *choice, const char *name, double value)
{
  choice_add(choice, name, EXPR_FLOAT)->number = value;
}

void choice_set_name(Choice *choice, const char *name, const char *value)
{
  choice_add(choice, name, EXPR_NAME)->text = value;
}

void choice_set_own_name(Choice *choice, const char *name, const char *value)
{
  ChoiceParameter *parameter = choice_add(choice, name, EXPR_NAME);
  parameter->text = value;
  parameter->own = true;
}

const ChoiceParameter *choice_parameter(const Choice *choice, const char *name)
{
  for (unsigned i = 0; i < choice->n_parameters; i++)
    if (g_str_equal(choice->parameters[i].name, name)) return &choice->parameters[i];
  return NULL;
}

int64_t choice_int(const Choice *choice, const char *name, int64_t otherwise)
{
  const ChoiceParameter *parameter = choice_parameter(choice, name);
  return parameter ? parameter->integer : otherwise;
}

unsigned choice_align(const Choice *choice, const GraphTensor *tensor)
{
  for (const ChoiceAlign *known = choice->aligned; known; known = known->next)
    if (known->tensor == tensor) return MAX(tensor->align, known->align);
  return tensor->align;
}
