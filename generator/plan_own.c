/* Copies every expression of a plan into its arena. What builds a plan takes extents and guards from graph,
 * fusion and kernels, and expressions share their operands: after this the plan needs none of those. */
#include "generator/plan_private.h"

static const Symbolic *own(Arena *arena, const Symbolic *expression)
{
  if (!expression) return NULL;
  Symbolic *copy = arena_memdup(arena, expression, sizeof *expression);
  copy->name = arena_strdup(arena, expression->name);
  copy->a = own(arena, expression->a);
  copy->b = own(arena, expression->b);
  return copy;
}

static void own_list(Arena *arena, const Symbolic **list, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    list[i] = own(arena, list[i]);
}

static void own_variant(Arena *arena, PlanVariant *variant)
{
  variant->guard = own(arena, variant->guard);
  own_list(arena, variant->grid, 3);
  for (unsigned i = 0; i < variant->n_arguments; i++) {
    PlanArgument *argument = &variant->arguments[i];
    argument->offset = own(arena, argument->offset);
    argument->value = own(arena, argument->value);
    own_list(arena, argument->map.dims, G_N_ELEMENTS(argument->map.dims));
    own_list(arena, argument->map.strides, G_N_ELEMENTS(argument->map.strides));
  }
}

static void own_launch(Arena *arena, PlanLaunch *launch)
{
  for (unsigned i = 0; i < launch->n_variants; i++)
    own_variant(arena, launch->variants[i]);
  for (unsigned i = 0; i < launch->n_zero; i++) {
    launch->zero[i].offset = own(arena, launch->zero[i].offset);
    launch->zero[i].bytes = own(arena, launch->zero[i].bytes);
  }
}

void plan_own_expressions(Plan *plan)
{
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    PlanTensor *tensor = plan->tensors[i];
    own_list(plan->arena, tensor->shape, tensor->rank);
    own_list(plan->arena, tensor->strides, tensor->rank);
    tensor->offset = own(plan->arena, tensor->offset);
  }
  for (unsigned i = 0; i < plan->n_launches; i++)
    own_launch(plan->arena, plan->launches[i]);
  plan->workspace_bytes = own(plan->arena, plan->workspace_bytes);
}
