#include "plan/resolve.h"
#include <string.h>

/* What is being resolved, and what messages say of it. */
typedef struct Resolver {
  const Plan *plan;
  const PlanBindings *bindings;
  const char *what; /* launch or tensor */
} Resolver;

static bool out_of_range(const Resolver *r, const char *part, int64_t value, GError **error)
{
  error_set(error, ERROR_INPUT, NULL, "launch-size", "a smaller dimension fits",
            "%s: %s of %" G_GINT64_FORMAT " does not fit", r->what, part, value);
  return false;
}

static bool evaluate(const Resolver *r, const Symbolic *expression, const char *part, int64_t min,
                     int64_t max, int64_t *value, GError **error)
{
  *value = 0;
  if (!expression) return true;
  if (!plan_evaluate(r->plan, expression, r->bindings, value, error)) return false;
  return (*value >= min && *value <= max) || out_of_range(r, part, *value, error);
}

static bool evaluate_bytes(const Resolver *r, const Symbolic *expression, const char *part, uint64_t *value,
                           GError **error)
{
  int64_t number = 0;
  if (!evaluate(r, expression, part, 0, INT64_MAX, &number, error)) return false;
  *value = (uint64_t)number;
  return true;
}

/* ---- arguments ---- */

static bool resolve_scalar(const Resolver *r, const PlanArgument *argument, ResolvedArgument *out,
                           GError **error)
{
  int64_t value = 0, min = INT64_MIN, max = INT64_MAX;
  out->n_bytes = number_bytes(argument->type);
  if (number_class(argument->type) == NUMBER_FLOAT) {
    number_from_double(argument->type, argument->number, false, out->bytes);
    return true;
  }
  if (argument->type == NUMBER_S32) {
    min = INT32_MIN;
    max = INT32_MAX;
  } else if (argument->type == NUMBER_U32) {
    min = 0;
    max = UINT32_MAX;
  } else if (argument->type == NUMBER_U64) {
    min = 0;
  }
  if (!evaluate(r, argument->value, argument->name ? argument->name : "an argument", min, max, &value, error))
    return false;
  memcpy(out->bytes, &value, out->n_bytes); /* little-endian, as the device */
  return true;
}

static bool resolve_divisor(const Resolver *r, const PlanArgument *argument, ResolvedArgument *out,
                            GError **error)
{
  int64_t value = 0;
  uint32_t numbers[2];
  if (!evaluate(r, argument->value, "a divisor", 1, INT32_MAX, &value, error)) return false;
  plan_divisor((uint32_t)value, &numbers[0], &numbers[1]);
  memcpy(out->bytes, numbers, sizeof numbers);
  out->n_bytes = sizeof numbers;
  return true;
}

static bool resolve_map(const Resolver *r, const PlanArgument *argument, ResolvedArgument *out,
                        GError **error)
{
  const PlanTensorMap *map = &argument->map;
  for (unsigned i = 0; i < map->rank; i++) {
    int64_t side;
    if (!evaluate_bytes(r, map->dims[i], "a dimension of a tensor map", &out->dims[i], error) ||
        !evaluate(r, map->box[i], "the box of a tensor map", 1, PLAN_MAX_BOX, &side, error))
      return false;
    out->box[i] = (unsigned)side;
  }
  for (unsigned i = 0; i + 1 < map->rank; i++)
    if (!evaluate_bytes(r, map->strides[i], "a stride of a tensor map", &out->strides[i], error))
      return false;
  return evaluate_bytes(r, argument->offset, "an offset", &out->offset, error);
}

static bool resolve_argument(const Resolver *r, const PlanArgument *argument, ResolvedArgument *out,
                             GError **error)
{
  out->argument = argument;
  switch (argument->kind) {
  case PLAN_ARGUMENT_SCALAR: return resolve_scalar(r, argument, out, error);
  case PLAN_ARGUMENT_DIVISOR: return resolve_divisor(r, argument, out, error);
  case PLAN_ARGUMENT_TENSOR_MAP: return resolve_map(r, argument, out, error);
  case PLAN_ARGUMENT_POINTER: return evaluate_bytes(r, argument->offset, "an offset", &out->offset, error);
  }
  return true;
}

/* ---- launches ---- */

static bool resolve_grid(const Resolver *r, ResolvedLaunch *out, GError **error)
{
  for (unsigned i = 0; i < 3; i++) {
    int64_t value = 0;
    if (!evaluate(r, out->variant->grid[i], "a dimension of the grid", 0, INT32_MAX, &value, error))
      return false;
    out->grid[i] = (unsigned)value;
    out->empty |= value == 0;
  }
  return true;
}

ResolvedLaunch *plan_resolve(const Plan *plan, const PlanLaunch *launch, const PlanBindings *bindings,
                             Arena *arena, GError **error)
{
  Resolver r = {plan, bindings, launch->name};
  ResolvedLaunch *out = arena_new_object(arena, ResolvedLaunch);
  out->launch = launch;
  out->variant = plan_choose(plan, launch, bindings, error);
  if (!out->variant || !resolve_grid(&r, out, error)) return NULL;
  for (unsigned i = 0; i < launch->n_depends; i++)
    out->dependent |= launch->depends_on[i].dependent && out->variant->waits;
  out->zero = arena_new_array(arena, ResolvedRegion, launch->n_zero);
  for (unsigned i = 0; i < launch->n_zero; i++)
    if (!evaluate_bytes(&r, launch->zero[i].offset, "an offset", &out->zero[i].offset, error) ||
        !evaluate_bytes(&r, launch->zero[i].bytes, "a size", &out->zero[i].bytes, error))
      return NULL;
  /* Where there is nothing to do a divisor or a tensor map may well be of size 0. */
  if (out->empty) return out;
  out->arguments = arena_new_array(arena, ResolvedArgument, out->variant->n_arguments);
  for (unsigned i = 0; i < out->variant->n_arguments; i++)
    if (!resolve_argument(&r, &out->variant->arguments[i], &out->arguments[i], error)) return NULL;
  return out;
}

/* ---- tensors ---- */

bool plan_resolve_tensor(const Plan *plan, const PlanTensor *tensor, const PlanBindings *bindings,
                         ResolvedTensor *out, GError **error)
{
  Resolver r = {plan, bindings, tensor->name};
  *out = (ResolvedTensor){.tensor = tensor, .elements = 1};
  uint64_t last = 0;
  for (unsigned i = 0; i < tensor->rank; i++) {
    if (!evaluate(&r, tensor->shape[i], "a dimension", 0, SYMBOLIC_DIMENSION_MAX, &out->shape[i], error) ||
        !evaluate(&r, tensor->strides[i], "a stride", 0, INT64_MAX, &out->strides[i], error))
      return false;
    uint64_t steps = 0;
    if (__builtin_mul_overflow(out->elements, (uint64_t)out->shape[i], &out->elements) ||
        __builtin_mul_overflow((uint64_t)MAX(out->shape[i] - 1, 0), (uint64_t)out->strides[i], &steps) ||
        __builtin_add_overflow(last, steps, &last) || last > INT64_MAX / 16)
      return out_of_range(&r, "a dimension", out->shape[i], error);
  }
  out->bytes = out->elements ? number_bytes_of(tensor->type, last + 1) : 0;
  return tensor->kind != PLAN_WORKSPACE ||
         evaluate_bytes(&r, tensor->offset, "an offset", &out->offset, error);
}

bool plan_resolve_workspace(const Plan *plan, const PlanBindings *bindings, uint64_t *bytes, GError **error)
{
  Resolver r = {plan, bindings, "the workspace"};
  return evaluate_bytes(&r, plan->workspace_bytes, "a size", bytes, error);
}
