/* Copies every expression of a plan into its arena. What builds a plan takes extents and guards from graph,
 * fusion and kernels, and expressions share their operands: after this the plan needs none of those. */
#include "plan/private.h"

static void own_list(Arena *arena, const Symbolic **list, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    list[i] = symbolic_copy(arena, list[i]);
}

static void own_variant(Arena *arena, PlanVariant *variant)
{
  variant->guard = symbolic_copy(arena, variant->guard);
  own_list(arena, variant->grid, 3);
  for (unsigned i = 0; i < variant->n_arguments; i++) {
    PlanArgument *argument = &variant->arguments[i];
    argument->offset = symbolic_copy(arena, argument->offset);
    argument->value = symbolic_copy(arena, argument->value);
    own_list(arena, argument->map.box, G_N_ELEMENTS(argument->map.box));
    own_list(arena, argument->map.dims, G_N_ELEMENTS(argument->map.dims));
    own_list(arena, argument->map.strides, G_N_ELEMENTS(argument->map.strides));
  }
}

void plan_own_launch(Plan *plan, PlanLaunch *launch)
{
  Arena *arena = plan->arena;
  for (unsigned i = 0; i < launch->n_variants; i++)
    own_variant(arena, launch->variants[i]);
  for (unsigned i = 0; i < launch->n_zero; i++) {
    launch->zero[i].offset = symbolic_copy(arena, launch->zero[i].offset);
    launch->zero[i].bytes = symbolic_copy(arena, launch->zero[i].bytes);
  }
}

void plan_own_expressions(Plan *plan)
{
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    PlanTensor *tensor = plan->tensors[i];
    own_list(plan->arena, tensor->shape, tensor->rank);
    own_list(plan->arena, tensor->strides, tensor->rank);
    tensor->offset = symbolic_copy(plan->arena, tensor->offset);
  }
  for (unsigned i = 0; i < plan->n_launches; i++)
    plan_own_launch(plan, plan->launches[i]);
  for (unsigned i = 0; i < plan->n_repeats; i++)
    plan->repeats[i].count = symbolic_copy(plan->arena, plan->repeats[i].count);
  plan->workspace_bytes = symbolic_copy(plan->arena, plan->workspace_bytes);
}
