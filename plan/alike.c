/* Launches that differ in their tensors only, as those of a network's equal layers do: plan.json writes the first of them whole
 * and of the others which tensors stand in the place of which (docs/plan.md, `like`). */
#include "plan/private.h"
#include <string.h>

typedef struct Pairing {
  const PlanLaunch *from, *to;
  const Plan *plan;
  GHashTable *tensors; /* of `from` -> of `to`: const PlanTensor * */
} Pairing;

static bool pair(const Pairing *p, const PlanTensor *from, const PlanTensor *to)
{
  if (!from || !to) return from == to;
  const PlanTensor *known = g_hash_table_lookup(p->tensors, from);
  if (!known) g_hash_table_insert(p->tensors, (void *)from, (void *)to);
  return !known || known == to;
}

static bool same_text(const char *a, const char *b)
{
  return !g_strcmp0(a, b);
}

/* Alike in all but the tensors whose alignment is asked for. */
static bool same_expression(const Pairing *p, const Symbolic *a, const Symbolic *b)
{
  if (!a || !b) return a == b;
  if (a->kind != b->kind) return false;
  if (a->kind == SYMBOLIC_CONSTANT) return a->value == b->value;
  if (a->kind == SYMBOLIC_SYMBOL) return same_text(a->name, b->name);
  if (a->kind == SYMBOLIC_ALIGN) return pair(p, plan_tensor(p->plan, a->name), plan_tensor(p->plan, b->name));
  return same_expression(p, a->a, b->a) && same_expression(p, a->b, b->b);
}

static bool same_expressions(const Pairing *p, const Symbolic *const *a, const Symbolic *const *b, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    if (!same_expression(p, a[i], b[i])) return false;
  return true;
}

static bool same_map(const Pairing *p, const PlanTensorMap *a, const PlanTensorMap *b)
{
  return a->mode == b->mode && a->rank == b->rank && a->element == b->element && a->swizzle == b->swizzle &&
         a->interleave == b->interleave && a->fill == b->fill && a->l2_promotion == b->l2_promotion &&
         !memcmp(a->element_strides, b->element_strides, sizeof a->element_strides) &&
         same_expressions(p, a->dims, b->dims, a->rank) && same_expressions(p, a->box, b->box, a->rank) &&
         same_expressions(p, a->strides, b->strides, a->rank ? a->rank - 1 : 0);
}

static bool same_argument(const Pairing *p, const PlanArgument *a, const PlanArgument *b)
{
  /* a number may be no number: its bits are compared */
  return a->kind == b->kind && a->type == b->type && same_text(a->name, b->name) &&
         !memcmp(&a->number, &b->number, sizeof a->number) && pair(p, a->tensor, b->tensor) &&
         same_expression(p, a->offset, b->offset) && same_expression(p, a->value, b->value) &&
         (a->kind != PLAN_ARGUMENT_TENSOR_MAP || same_map(p, &a->map, &b->map));
}

static bool same_variant(const Pairing *p, const PlanVariant *a, const PlanVariant *b)
{
  if (!same_text(a->kernel, b->kernel) || !same_text(a->entry, b->entry) || !same_text(a->text, b->text) ||
      !same_text(a->cubin, b->cubin) || !same_text(a->note, b->note) || a->n_arguments != b->n_arguments ||
      a->shared != b->shared || a->waits != b->waits || a->together != b->together ||
      memcmp(a->block, b->block, sizeof a->block) || memcmp(a->cluster, b->cluster, sizeof a->cluster) ||
      !same_expressions(p, a->grid, b->grid, 3))
    return false;
  for (unsigned i = 0; i < a->n_arguments; i++)
    if (!same_argument(p, &a->arguments[i], &b->arguments[i])) return false;
  return same_expression(p, a->guard, b->guard); /* last: its tensors are paired by the arguments */
}

GHashTable *plan_pair_launches(const Plan *plan, const PlanLaunch *from, const PlanLaunch *to)
{
  if (from->n_variants != to->n_variants) return NULL;
  g_autoptr(GHashTable) tensors = g_hash_table_new(NULL, NULL);
  const Pairing p = {from, to, plan, tensors};
  for (unsigned i = 0; i < from->n_variants; i++)
    if (!same_variant(&p, from->variants[i], to->variants[i])) return NULL;
  return g_steal_pointer(&tensors);
}

unsigned plan_like(const Plan *plan, const PlanLaunch *launch, GHashTable *firsts, GHashTable **tensors)
{
  *tensors = NULL;
  if (!launch->n_variants) return launch->index;
  g_autofree char *key = g_strdup_printf("%u %s %s", launch->n_variants, launch->variants[0]->kernel,
                                         launch->variants[launch->n_variants - 1]->kernel);
  GPtrArray *list = g_hash_table_lookup(firsts, key);
  for (unsigned i = 0; list && i < list->len; i++) {
    const PlanLaunch *first = list->pdata[i];
    if ((*tensors = plan_pair_launches(plan, first, launch))) return first->index;
  }
  if (!list) {
    list = g_ptr_array_new();
    g_hash_table_insert(firsts, g_steal_pointer(&key), list);
  }
  g_ptr_array_add(list, (void *)launch);
  return launch->index;
}

/* ---- the other way ---- */

typedef struct Renaming {
  Plan *plan;
  GHashTable *tensors;
} Renaming;

static const PlanTensor *renamed(const Renaming *r, const PlanTensor *tensor)
{
  const PlanTensor *other = tensor ? g_hash_table_lookup(r->tensors, tensor) : NULL;
  return other ? other : tensor;
}

static const Symbolic *rename_leaf(const Symbolic *leaf, void *data)
{
  const Renaming *r = data;
  if (leaf->kind != SYMBOLIC_ALIGN) return NULL;
  const PlanTensor *tensor = plan_tensor(r->plan, leaf->name), *other = renamed(r, tensor);
  return other == tensor ? NULL : symbolic_align(r->plan->arena, other->name);
}

void plan_copy_variants(Plan *plan, PlanLaunch *to, const PlanLaunch *from, GHashTable *tensors)
{
  Renaming r = {plan, tensors};
  for (unsigned i = 0; i < from->n_variants; i++) {
    PlanVariant *variant = arena_memdup(plan->arena, from->variants[i], sizeof *variant);
    *plan_append(plan, to->variants, to->n_variants) = variant;
    if (variant->guard) variant->guard = symbolic_substitute(plan->arena, variant->guard, rename_leaf, &r);
    if (!variant->n_arguments) continue;
    variant->arguments =
        arena_memdup(plan->arena, variant->arguments, variant->n_arguments * sizeof *variant->arguments);
    for (unsigned j = 0; j < variant->n_arguments; j++)
      variant->arguments[j].tensor = renamed(&r, variant->arguments[j].tensor);
  }
}
