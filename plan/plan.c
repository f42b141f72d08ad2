#include "plan/plan.h"
#include "plan/private.h"
#include <string.h>

const char *const plan_tensor_kinds[] = {"input", "constant", "output", "workspace", NULL};
const char *const plan_argument_kinds[] = {"pointer", "scalar", "tensormap", "divisor", NULL};
const char *const plan_map_modes[] = {"tiled", "im2col", NULL};
const char *const plan_interleaves[] = {"none", "16b", "32b", NULL};
const char *const plan_fills[] = {"zero", "nan", NULL};

/* ---- building ---- */

Plan *plan_new(const char *name, const char *gpu_name, const char *gpu_target, const char *gpu_hash)
{
  Arena *arena = arena_new();
  Plan *plan = arena_new_object(arena, Plan);
  *plan = (Plan){.arena = arena,
                 .name = arena_strdup(arena, name),
                 .gpu_name = arena_strdup(arena, gpu_name),
                 .gpu_target = arena_strdup(arena, gpu_target),
                 .gpu_hash = arena_strdup(arena, gpu_hash),
                 .workspace_bytes = symbolic_constant(arena, 0),
                 .names = g_hash_table_new(g_str_hash, g_str_equal)};
  return plan;
}

void plan_free(Plan *plan)
{
  if (!plan) return;
  g_hash_table_unref(plan->names);
  arena_free(plan->arena);
}

void plan_enter_tensor(Plan *plan, PlanTensor *tensor)
{
  tensor->index = plan->n_tensors;
  *plan_append(plan, plan->tensors, plan->n_tensors) = tensor;
  if (!g_hash_table_contains(plan->names, tensor->name))
    g_hash_table_insert(plan->names, (void *)tensor->name, tensor);
}

void *plan_grow(Plan *plan, void *array, unsigned n, size_t size)
{
  if (n & (n - 1)) return array; /* capacity is the next power of two */
  void *larger = arena_alloc(plan->arena, MAX(2 * n, 1) * size);
  if (n) memcpy(larger, array, n * size);
  return larger;
}

PlanSymbol *plan_add_symbol(Plan *plan, const char *name, int64_t min, int64_t max, int64_t multiple)
{
  PlanSymbol *symbol = plan_append(plan, plan->symbols, plan->n_symbols);
  *symbol = (PlanSymbol){arena_strdup(plan->arena, name), min, max, multiple};
  return symbol;
}

PlanTensor *plan_add_tensor(Plan *plan, PlanTensorKind kind, const char *name, NumberType type, unsigned rank,
                            const Symbolic *const *shape, const Symbolic *const *strides, unsigned align)
{
  PlanTensor *tensor = arena_new_object(plan->arena, PlanTensor);
  *tensor = (PlanTensor){.name = arena_strdup(plan->arena, name),
                         .kind = kind,
                         .type = type,
                         .rank = rank,
                         .align = MAX(align, (unsigned)number_bytes_of(type, 1))};
  if (rank > PLAN_MAX_RANK) g_error("plan: rank %u", rank);
  const Symbolic *stride = symbolic_constant(plan->arena, 1);
  for (unsigned i = rank; i-- > 0;) {
    tensor->shape[i] = shape[i];
    tensor->strides[i] = strides ? strides[i] : stride;
    stride = symbolic_mul(plan->arena, stride, shape[i]);
  }
  plan_enter_tensor(plan, tensor);
  return tensor;
}

PlanTensor *plan_share_tensor(Plan *plan, const char *name, NumberType type, int64_t rows, int64_t columns)
{
  PlanTensor *tensor = plan_tensor(plan, name);
  int64_t most[2] = {rows, columns}, known;
  for (unsigned i = 0; tensor && i < 2; i++)
    if (symbolic_is_constant(tensor->shape[i], &known)) most[i] = MAX(most[i], known);
  if (!tensor) {
    tensor = arena_new_object(plan->arena, PlanTensor);
    *tensor = (PlanTensor){.name = arena_strdup(plan->arena, name), .kind = PLAN_WORKSPACE, .rank = 2};
    plan_enter_tensor(plan, tensor);
  }
  tensor->type = type;
  for (unsigned i = 0; i < 2; i++)
    tensor->shape[i] = symbolic_constant(plan->arena, most[i]);
  tensor->strides[0] = tensor->shape[1];
  tensor->strides[1] = symbolic_constant(plan->arena, 1);
  return tensor;
}

PlanTensor *plan_tensor(const Plan *plan, const char *name)
{
  return g_hash_table_lookup(plan->names, name);
}

PlanLaunch *plan_add_launch(Plan *plan, const char *name)
{
  PlanLaunch *launch = arena_new_object(plan->arena, PlanLaunch);
  *launch = (PlanLaunch){.name = arena_strdup(plan->arena, name), .index = plan->n_launches};
  *plan_append(plan, plan->launches, plan->n_launches) = launch;
  return launch;
}

PlanVariant *plan_add_variant(Plan *plan, PlanLaunch *launch, const char *kernel, const char *entry)
{
  PlanVariant *variant = arena_new_object(plan->arena, PlanVariant);
  *variant = (PlanVariant){.kernel = arena_strdup(plan->arena, kernel),
                           .entry = arena_strdup(plan->arena, entry),
                           .block = {1, 1, 1},
                           .cluster = {1, 1, 1}};
  for (unsigned i = 0; i < 3; i++)
    variant->grid[i] = symbolic_constant(plan->arena, 1);
  *plan_append(plan, launch->variants, launch->n_variants) = variant;
  return variant;
}

PlanVariant *plan_add_variant_before(Plan *plan, PlanLaunch *launch, const PlanVariant *like)
{
  PlanVariant *variant = arena_memdup(plan->arena, like, sizeof *like);
  *plan_append(plan, launch->variants, launch->n_variants) = variant;
  for (unsigned i = launch->n_variants; i-- > 1;)
    launch->variants[i] = launch->variants[i - 1];
  launch->variants[0] = variant;
  return variant;
}

static PlanArgument *add_argument(Plan *plan, PlanVariant *variant, PlanArgumentKind kind, const char *name)
{
  PlanArgument *argument = plan_append(plan, variant->arguments, variant->n_arguments);
  *argument = (PlanArgument){.kind = kind, .name = arena_strdup(plan->arena, name)};
  return argument;
}

PlanArgument *plan_add_pointer(Plan *plan, PlanVariant *variant, const char *name, const PlanTensor *tensor,
                               const Symbolic *offset)
{
  PlanArgument *argument = add_argument(plan, variant, PLAN_ARGUMENT_POINTER, name);
  argument->tensor = tensor;
  argument->offset = offset;
  return argument;
}

PlanArgument *plan_add_scalar(Plan *plan, PlanVariant *variant, const char *name, NumberType type,
                              const Symbolic *value)
{
  PlanArgument *argument = add_argument(plan, variant, PLAN_ARGUMENT_SCALAR, name);
  argument->type = type;
  argument->value = value;
  return argument;
}

PlanArgument *plan_add_number(Plan *plan, PlanVariant *variant, const char *name, NumberType type,
                              double number)
{
  PlanArgument *argument = add_argument(plan, variant, PLAN_ARGUMENT_SCALAR, name);
  argument->type = type;
  argument->number = number;
  return argument;
}

PlanArgument *plan_add_tensor_map(Plan *plan, PlanVariant *variant, const char *name,
                                  const PlanTensor *tensor, const Symbolic *offset)
{
  PlanArgument *argument = add_argument(plan, variant, PLAN_ARGUMENT_TENSOR_MAP, name);
  argument->tensor = tensor;
  argument->offset = offset;
  return argument;
}

PlanArgument *plan_add_divisor(Plan *plan, PlanVariant *variant, const char *name, const Symbolic *value)
{
  PlanArgument *argument = add_argument(plan, variant, PLAN_ARGUMENT_DIVISOR, name);
  argument->value = value;
  return argument;
}

void plan_add_dependency(Plan *plan, PlanLaunch *launch, const PlanLaunch *on, bool dependent)
{
  PlanEdge *edge = plan_append(plan, launch->depends_on, launch->n_depends);
  *edge = (PlanEdge){on->index, dependent};
}

void plan_add_zero(Plan *plan, PlanLaunch *launch, const Symbolic *offset, const Symbolic *bytes)
{
  PlanRegion *region = plan_append(plan, launch->zero, launch->n_zero);
  *region = (PlanRegion){offset, bytes};
}

void plan_divisor(uint32_t d, uint32_t *multiplier, uint32_t *shift)
{
  *shift = 0;
  while (((uint64_t)1 << *shift) < d)
    ++*shift;
  *multiplier = (uint32_t)(((((uint64_t)1 << *shift) - d) << 32) / d + 1);
}

/* ---- evaluation ---- */

typedef struct {
  const Plan *plan;
  const PlanBindings *bindings;
} Lookup;

static bool look_up(const Symbolic *leaf, int64_t *value, void *data)
{
  const Lookup *lookup = data;
  if (leaf->kind == SYMBOLIC_SYMBOL) {
    for (unsigned i = 0; lookup->bindings->symbols && i < lookup->plan->n_symbols; i++)
      if (!strcmp(lookup->plan->symbols[i].name, leaf->name)) {
        *value = lookup->bindings->symbols[i];
        return true;
      }
    for (unsigned i = 0; i < lookup->plan->n_repeats; i++)
      if (!strcmp(lookup->plan->repeats[i].counter, leaf->name)) {
        *value = lookup->bindings->counter;
        return true;
      }
    return false;
  }
  const PlanTensor *tensor = plan_tensor(lookup->plan, leaf->name);
  if (!tensor || !lookup->bindings->addresses) return false;
  uint64_t address = lookup->bindings->addresses[tensor->index];
  uint64_t align = address & -address;
  *value = !address || align > 4096 ? 4096 : (int64_t)align;
  return true;
}

bool plan_evaluate(const Plan *plan, const Symbolic *expression, const PlanBindings *bindings, int64_t *value,
                   GError **error)
{
  Lookup lookup = {plan, bindings};
  return symbolic_evaluate(expression, look_up, &lookup, value, error);
}

bool plan_check_bindings(const Plan *plan, const PlanBindings *bindings, GError **error)
{
  for (unsigned i = 0; i < plan->n_symbols; i++) {
    const PlanSymbol *symbol = &plan->symbols[i];
    int64_t value = bindings->symbols[i];
    if (value >= symbol->min && value <= symbol->max && value % symbol->multiple == 0) continue;
    error_set(error, ERROR_INPUT, NULL, "out-of-range", NULL,
              "%s=%" G_GINT64_FORMAT " is not a multiple of %" G_GINT64_FORMAT " between %" G_GINT64_FORMAT
              " and %" G_GINT64_FORMAT,
              symbol->name, value, symbol->multiple, symbol->min, symbol->max);
    return false;
  }
  return true;
}

const PlanVariant *plan_choose(const Plan *plan, const PlanLaunch *launch, const PlanBindings *bindings,
                               GError **error)
{
  for (unsigned i = 0; i < launch->n_variants; i++) {
    const PlanVariant *variant = launch->variants[i];
    int64_t holds = 1;
    if (variant->guard && !plan_evaluate(plan, variant->guard, bindings, &holds, error)) return NULL;
    if (holds) return variant;
  }
  error_set(error, ERROR_INPUT, NULL, "no-variant", NULL, "no variant of %s takes these sizes", launch->name);
  return NULL;
}
