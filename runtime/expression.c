/* A plan's expressions with names replaced by positions, so that evaluating one looks nothing up. */
#include "runtime/executable_private.h"
#include <string.h>

#define MAX_ALIGN 4096 /* the largest value of align() */

static void bind_leaf(const Symbolic *leaf, void *data)
{
  const Plan *plan = data;
  Symbolic *own = (Symbolic *)leaf; /* of the copy */
  if (leaf->kind == SYMBOLIC_ALIGN) {
    own->value = plan_tensor(plan, leaf->name)->index;
    return;
  }
  for (unsigned i = 0; i < plan->n_symbols; i++)
    if (!strcmp(plan->symbols[i].name, leaf->name)) own->value = i;
  for (unsigned i = 0; i < plan->n_repeats; i++)
    if (!strcmp(plan->repeats[i].counter, leaf->name)) own->value = plan->n_symbols;
}

const Symbolic *expression_bind(const Plan *plan, Arena *arena, const Symbolic *expression)
{
  const Symbolic *copy = symbolic_copy(arena, expression);
  if (copy) symbolic_visit(copy, bind_leaf, (void *)plan);
  return copy;
}

static bool leaf_value(const Symbolic *leaf, int64_t *value, void *data)
{
  const ExpressionValues *values = data;
  if (leaf->kind == SYMBOLIC_SYMBOL) {
    *value = values->symbols[leaf->value];
    return true;
  }
  if (!values->addresses) return false;
  uint64_t address = values->addresses[leaf->value], align = address & -address;
  *value = !address || align > MAX_ALIGN ? MAX_ALIGN : (int64_t)align;
  return true;
}

bool expression_value(const Symbolic *expression, const ExpressionValues *values, int64_t absent,
                      int64_t *value)
{
  *value = absent;
  return !expression || symbolic_evaluate(expression, leaf_value, (void *)values, value, NULL);
}
