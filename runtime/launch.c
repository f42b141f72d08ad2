/* One launch: a slot that remembers its arguments, or is filled with them, then the driver's launches. */
#include "plan/resolve.h"
#include "runtime/executable_private.h"
#include <string.h>

/* Of one call, those of repeats counted each time. */
#define MOST_LAUNCHES (1u << 24)

/* What the caller passes. */
typedef struct Call {
  const void *const *tensors;
  const int64_t *dims;
  void *workspace;
  uint64_t workspace_bytes;
} Call;

/* ---- slots ---- */

/* Slots a set of arguments may be in: two sets in turn do not drive each other out. */
#define WAYS 2

static bool is_filled_for(const Executable *x, const Slot *slot, const Call *call)
{
  return slot->valid && slot->workspace == call->workspace &&
         !memcmp(slot->tensors, call->tensors, x->n_tensors * sizeof *slot->tensors) &&
         !memcmp(slot->dims, call->dims, x->plan->n_symbols * sizeof *slot->dims);
}

static unsigned first_slot(const Executable *x, const Call *call)
{
  uint64_t mix = 0;
  for (unsigned i = 0; i < x->plan->n_symbols; i++)
    mix = (mix ^ (uint64_t)call->dims[i]) * 0x9e3779b97f4a7c15U;
  for (unsigned i = 0; i < x->n_tensors; i++)
    mix = (mix ^ (uint64_t)(uintptr_t)call->tensors[i]) * 0x9e3779b97f4a7c15U;
  return (unsigned)(mix >> 32) % EXECUTABLE_SLOTS;
}

static bool take(Slot *slot)
{
  return !atomic_flag_test_and_set_explicit(&slot->busy, memory_order_acquire);
}

static void release(Slot *slot)
{
  atomic_flag_clear_explicit(&slot->busy, memory_order_release);
}

/* A slot filled for the call if there is one, else the one of its ways that was filled longest ago. When
 * other threads hold both, any: they hold theirs for about a microsecond, or until a kernel is loaded. */
static Slot *take_slot(Executable *x, const Call *call)
{
  unsigned first = first_slot(x, call);
  Slot *best = NULL;
  for (unsigned i = 0; i < WAYS; i++) {
    Slot *slot = &x->slots[(first + i) % EXECUTABLE_SLOTS];
    if (!take(slot)) continue;
    bool found = is_filled_for(x, slot, call);
    if (best && !found && slot->age >= best->age) {
      release(slot);
      continue;
    }
    if (best) release(best);
    best = slot;
    if (found) return best;
  }
  for (unsigned i = WAYS; !best; i++) {
    Slot *slot = &x->slots[(first + i) % EXECUTABLE_SLOTS];
    if (take(slot))
      best = slot;
    else if (i % EXECUTABLE_SLOTS == 0)
      g_thread_yield();
  }
  return best;
}

/* ---- filling: addresses ---- */

/* What lies in another tensor's memory has its address. */
static bool check_shared(const Executable *x, const Slot *slot, GError **error)
{
  for (unsigned i = 0; i < x->n_tensors; i++) {
    const PlanTensor *tensor = x->plan->tensors[x->tensors[i]];
    if (!tensor->memory || slot->addresses[tensor->index] == slot->addresses[tensor->memory->index]) continue;
    error_set(error, ERROR_INPUT, NULL, "in-place", "pass the same address twice",
              "%s lies in the memory of %s, and is given at another address", tensor->name,
              tensor->memory->name);
    return false;
  }
  return true;
}

static bool refuse_address(const Slot *slot, const PlanTensor *tensor, GError **error)
{
  uint64_t address = slot->addresses[tensor->index];
  if (address) {
    error_set(error, ERROR_INPUT, NULL, "misaligned", "the description's `align` can be lowered",
              "%s lies at %#" G_GINT64_MODIFIER "x, which is not aligned to %u bytes", tensor->name, address,
              tensor->align);
    return false;
  }
  error_set(error, ERROR_INPUT, NULL, "no-address", NULL, "%s has no address", tensor->name);
  return false;
}

/* NULL stands for a tensor without elements. */
static bool may_lack_address(const Executable *x, const Slot *slot, const PlanTensor *tensor)
{
  const PlanBindings bindings = {slot->dims, NULL};
  ResolvedTensor resolved;
  return plan_resolve_tensor(x->plan, tensor, &bindings, &resolved, NULL) && !resolved.bytes;
}

static bool fill_addresses(Executable *x, Slot *slot, const Call *call, GError **error)
{
  const ExpressionValues values = {slot->dims, NULL};
  for (unsigned i = 0; i < x->n_tensors; i++) {
    unsigned at = x->tensors[i];
    const PlanTensor *tensor = x->plan->tensors[at];
    uint64_t address = (uint64_t)(uintptr_t)call->tensors[i];
    slot->addresses[at] = address ? address : constants_address(x, at);
    bool good = slot->addresses[at] ? slot->addresses[at] % MAX(tensor->align, 1) == 0
                                    : may_lack_address(x, slot, tensor);
    if (!good) return refuse_address(slot, tensor, error);
  }
  uint64_t zeroed = 0;
  if (!check_shared(x, slot, error)) return false;
  if (!zeroed_block(x, call->workspace, &zeroed, error)) return false;
  for (unsigned i = 0; i < x->plan->n_tensors; i++) {
    int64_t offset = 0;
    if (!x->workspace_offsets[i]) continue;
    if (x->plan->tensors[i]->zero) {
      slot->addresses[i] = zeroed + x->zeroed_offsets[i];
      continue;
    }
    if (!expression_value(x->workspace_offsets[i], &values, 0, &offset)) {
      const PlanBindings bindings = {slot->dims, NULL};
      return plan_evaluate(x->plan, x->plan->tensors[i]->offset, &bindings, &offset, error);
    }
    slot->addresses[i] = (uint64_t)(uintptr_t)call->workspace + (uint64_t)offset;
  }
  return true;
}

static bool check_workspace(const Slot *slot, const Call *call, GError **error)
{
  uintptr_t address = (uintptr_t)call->workspace;
  if (slot->workspace_bytes <= call->workspace_bytes && (address || !slot->workspace_bytes) &&
      address % 256 == 0)
    return true;
  if (address % 256)
    error_set(error, ERROR_INPUT, NULL, "misaligned", NULL,
              "the workspace lies at %#" G_GINT64_MODIFIER "x, which is not aligned to 256 bytes",
              (uint64_t)address);
  else
    error_set(error, ERROR_INPUT, NULL, "small-workspace", NULL,
              "the workspace has %" G_GUINT64_FORMAT " bytes, these dimensions need %" G_GUINT64_FORMAT,
              address ? call->workspace_bytes : 0, slot->workspace_bytes);
  return false;
}

/* ---- filling: arguments ---- */

typedef struct Filling {
  Executable *x;
  Slot *slot;
  ExpressionValues values;
} Filling;

static bool value_between(const Filling *f, const Symbolic *expression, int64_t absent, int64_t min,
                          int64_t max, int64_t *value)
{
  return expression_value(expression, &f->values, absent, value) && *value >= min && *value <= max;
}

static bool fill_scalar(const Filling *f, const PlanArgument *argument, ParameterValue *out)
{
  int64_t value = 0, min = INT64_MIN, max = INT64_MAX;
  switch (argument->type) {
  case NUMBER_S32:
    min = INT32_MIN;
    max = INT32_MAX;
    break;
  case NUMBER_U32: max = UINT32_MAX; /* fall through */
  case NUMBER_U64: min = 0; break;
  default: break;
  }
  if (number_class(argument->type) == NUMBER_FLOAT) {
    number_from_double(argument->type, argument->number, false, (uint8_t *)out);
    return true;
  }
  if (!value_between(f, argument->value, 0, min, max, &value)) return false;
  memcpy(out, &value, sizeof value); /* little-endian, as the GPU */
  return true;
}

static bool fill_divisor(const Filling *f, const PlanArgument *argument, ParameterValue *out)
{
  int64_t value = 0;
  uint32_t numbers[2];
  if (!value_between(f, argument->value, 0, 1, INT32_MAX, &value)) return false;
  plan_divisor((uint32_t)value, &numbers[0], &numbers[1]);
  memcpy(out, numbers, sizeof numbers);
  return true;
}

static bool make_box(const Filling *f, const PlanArgument *argument, uint64_t address, DeviceBox *box)
{
  const PlanTensorMap *map = &argument->map;
  int64_t value = 0;
  memset(box, 0, sizeof *box); /* padding too: boxes are compared as bytes */
  box->element = map->element;
  box->rank = map->rank;
  box->address = address;
  box->swizzle = map->swizzle;
  box->interleave = (unsigned)map->interleave * 16;
  box->l2_promotion = map->l2_promotion;
  box->fill_nan = map->fill == PLAN_FILL_NAN;
  memcpy(box->element_strides, map->element_strides, sizeof box->element_strides);
  for (unsigned i = 0; i < map->rank; i++) {
    if (!value_between(f, map->dims[i], 0, 0, INT64_MAX, &value)) return false;
    box->dims[i] = (uint64_t)value;
    if (!value_between(f, map->box[i], 0, 1, PLAN_MAX_BOX, &value)) return false;
    box->box[i] = (uint32_t)value;
  }
  for (unsigned i = 0; i + 1 < map->rank; i++) {
    if (!value_between(f, map->strides[i], 0, 0, INT64_MAX, &value)) return false;
    box->strides[i] = (uint64_t)value;
  }
  return true;
}

/* Encodes only what differs from the map that is there. */
static bool fill_map(const Filling *f, const PlanArgument *argument, uint64_t address, DeviceBox *last,
                     ParameterValue *out, GError **error)
{
  const Driver *driver = &f->x->context->driver;
  DeviceBox box;
  if (argument->map.mode != PLAN_MAP_TILED) {
    error_set(error, ERROR_UNSUPPORTED, NULL, "im2col", NULL,
              "im2col tensor maps, which %s needs, cannot be launched",
              argument->name ? argument->name : argument->tensor->name);
    return false;
  }
  if (!make_box(f, argument, address, &box)) return false;
  uint64_t encoded = last->address;
  last->address = address;
  bool same = last->rank && !memcmp(last, &box, sizeof box);
  if (same && encoded == address) return true;
  bool replaced = same && driver->replace_address &&
                  driver->replace_address(out, (void *)(uintptr_t)address) == DRIVER_SUCCESS;
  memcpy(last, &box, sizeof box);
  if (replaced) return true;
  if (driver_encode(driver, argument->name ? argument->name : argument->tensor->name, &box, out, error))
    return true;
  last->rank = 0;
  return false;
}

static bool fill_argument(const Filling *f, const PlanArgument *argument, SlotLaunch *out, unsigned i,
                          GError **error)
{
  if (argument->kind == PLAN_ARGUMENT_SCALAR) return fill_scalar(f, argument, &out->values[i]);
  if (argument->kind == PLAN_ARGUMENT_DIVISOR) return fill_divisor(f, argument, &out->values[i]);
  int64_t offset = 0;
  if (!value_between(f, argument->offset, 0, 0, INT64_MAX, &offset)) return false;
  uint64_t address = f->slot->addresses[argument->tensor->index] + (uint64_t)offset;
  if (argument->kind == PLAN_ARGUMENT_TENSOR_MAP)
    return fill_map(f, argument, address, &out->boxes[i], &out->values[i], error);
  memcpy(&out->values[i], &address, sizeof address);
  return true;
}

/* ---- filling: launches ---- */

static bool choose(const Filling *f, const LoadedLaunch *launch, const LoadedVariant **chosen)
{
  for (unsigned i = 0; i < launch->plan->n_variants; i++) {
    int64_t holds = 1;
    if (!expression_value(launch->variants[i].guard, &f->values, 1, &holds)) return false;
    if (!holds) continue;
    *chosen = &launch->variants[i];
    return true;
  }
  return false;
}

/* Machine code of a kernel is missing: what other launches lack is begun with at the same time. */
static void want_kernels(const Filling *f)
{
  Executable *x = f->x;
  for (unsigned i = 0; x->source.want && i < x->plan->n_launches; i++) {
    const LoadedVariant *variant = NULL;
    if (choose(f, &x->launches[i], &variant) && !atomic_load(&variant->kernel->function))
      x->source.want(x->source.data, (unsigned)(variant->kernel - x->kernels));
  }
}

static bool fill_zero(const Filling *f, const LoadedLaunch *launch, SlotLaunch *out)
{
  for (unsigned i = 0; i < launch->plan->n_zero; i++) {
    int64_t offset = 0, bytes = 0;
    if (!value_between(f, launch->zero[i].offset, 0, 0, INT64_MAX, &offset) ||
        !value_between(f, launch->zero[i].bytes, 0, 0, INT64_MAX, &bytes))
      return false;
    out->zero_offset[i] = (uint64_t)offset;
    out->zero_bytes[i] = (uint64_t)bytes;
  }
  return true;
}

static void fill_attributes(const LoadedLaunch *launch, bool follows, SlotLaunch *out)
{
  const unsigned *cluster = out->variant->plan->cluster;
  const int allowed = 1;
  LaunchConfig config = {.attributes = out->attributes};
  if (cluster[0] * cluster[1] * cluster[2] > 1)
    launch_add_attribute(&config, LAUNCH_CLUSTER_DIMENSION, cluster, 3 * sizeof *cluster);
  if (launch->dependent && out->variant->plan->waits && follows && !launch->plan->n_zero)
    launch_add_attribute(&config, LAUNCH_PROGRAMMATIC_SERIALIZATION, &allowed, sizeof allowed);
  if (out->variant->plan->together)
    launch_add_attribute(&config, LAUNCH_COOPERATIVE, &allowed, sizeof allowed);
  out->n_attributes = config.n_attributes;
}

/* follows: the launch before this one is the plan's, not something else on the caller's stream. */
static bool fill_launch(const Filling *f, const LoadedLaunch *launch, bool follows, SlotLaunch *out,
                        GError **error)
{
  const LoadedVariant *variant = NULL;
  if (!choose(f, launch, &variant) || !fill_zero(f, launch, out)) return false;
  if (variant != out->variant)
    for (unsigned i = 0; i < variant->n_arguments; i++)
      out->boxes[i].rank = 0; /* of another argument */
  out->variant = variant;
  out->empty = false;
  for (unsigned i = 0; i < 3; i++) {
    int64_t blocks = 0;
    if (!value_between(f, variant->grid[i], 1, 0, INT32_MAX, &blocks)) return false;
    out->grid[i] = (unsigned)blocks;
    out->empty |= !blocks;
  }
  /* Where there is nothing to do a divisor or a tensor map may well be of size 0. */
  if (out->empty) return true;
  if (!atomic_load_explicit(&variant->kernel->function, memory_order_acquire)) {
    want_kernels(f);
    if (!executable_function(f->x, variant->kernel, error)) return false;
  }
  fill_attributes(launch, follows, out);
  for (unsigned i = 0; i < variant->n_arguments; i++)
    if (!fill_argument(f, &variant->arguments[i], out, i, error)) return false;
  return true;
}

/* An expression had no value, or one that does not fit: the plan's own evaluation words it. */
static void explain(const Filling *f, unsigned launch, GError **error)
{
  if (!error || *error) return;
  g_autoptr(Arena) arena = arena_new();
  const PlanBindings bindings = {f->slot->dims, f->slot->addresses, f->slot->dims[f->x->plan->n_symbols]};
  if (plan_resolve(f->x->plan, f->x->plan->launches[launch], &bindings, arena, error))
    error_set(error, ERROR_INTERNAL, NULL, "launch-size", NULL, "%s: an argument has no value",
              f->x->plan->launches[launch]->name);
}

/* How many launches the plan comes to with the slot's dims. */
static bool count_launches(const Filling *f, unsigned *n, GError **error)
{
  const Plan *plan = f->x->plan;
  const PlanBindings bindings = {f->slot->dims, f->slot->addresses};
  int64_t count = 0;
  *n = plan->n_launches;
  for (unsigned i = 0; i < plan->n_repeats; i++) {
    if (!plan_evaluate(plan, plan->repeats[i].count, &bindings, &count, error)) return false;
    if (count >= 0 && count <= MOST_LAUNCHES / plan->repeats[i].n && *n <= MOST_LAUNCHES) {
      *n += ((unsigned)count - 1) * plan->repeats[i].n;
      continue;
    }
    error_set(error, ERROR_INPUT, NULL, "repeat", NULL, "%s would be launched %" G_GINT64_FORMAT " times",
              plan->launches[plan->repeats[i].first]->name, count);
    return false;
  }
  return true;
}

static bool fill_launches(Filling *f, GError **error)
{
  const Plan *plan = f->x->plan;
  const PlanBindings bindings = {f->slot->dims, f->slot->addresses};
  PlanWalk walk = plan_walk(plan, &bindings);
  bool follows = false;
  f->values.addresses = f->slot->addresses;
  if (!count_launches(f, &f->slot->n_launches, error)) return false;
  executable_make_room(f->x, f->slot, f->slot->n_launches);
  for (unsigned i = 0; i < f->slot->n_launches; i++) {
    SlotLaunch *launch = &f->slot->launches[i];
    const PlanLaunch *planned = NULL;
    if (!plan_walk_next(&walk, &planned, error)) return false;
    launch->loaded = &f->x->launches[planned->index];
    f->slot->dims[plan->n_symbols] = walk.bindings.counter;
    if (!fill_launch(f, launch->loaded, follows, launch, error)) {
      explain(f, planned->index, error);
      return false;
    }
    follows = !launch->empty;
  }
  return true;
}

static bool fill(Executable *x, Slot *slot, const Call *call, GError **error)
{
  Filling filling = {x, slot, {slot->dims, NULL}};
  const PlanBindings bindings = {call->dims, NULL};
  int64_t workspace = 0;
  slot->valid = false;
  slot->dims[x->plan->n_symbols] = 0; /* outside of repeats */
  slot->age = atomic_fetch_add_explicit(&x->fills, 1, memory_order_relaxed) + 1;
  memcpy(slot->tensors, call->tensors, x->n_tensors * sizeof *slot->tensors);
  memcpy(slot->dims, call->dims, x->plan->n_symbols * sizeof *slot->dims);
  slot->workspace = call->workspace;
  if (!plan_check_bindings(x->plan, &bindings, error)) return false;
  if (!expression_value(x->workspace_bytes, &filling.values, 0, &workspace))
    return plan_evaluate(x->plan, x->plan->workspace_bytes, &bindings, &workspace, error);
  slot->workspace_bytes = (uint64_t)workspace;
  if (!check_workspace(slot, call, error) || !fill_addresses(x, slot, call, error) ||
      !fill_launches(&filling, error))
    return false;
  slot->valid = true;
  return true;
}

/* ---- queueing ---- */

static bool launch_failed(const Executable *x, const SlotLaunch *launch, int status, GError **error)
{
  const PlanVariant *plan = launch->variant->plan;
  g_autofree char *what = g_strdup_printf(
      "cannot launch %s: grid %u x %u x %u, block %u x %u x %u, cluster of %u, %u bytes of shared memory",
      plan->kernel, launch->grid[0], launch->grid[1], launch->grid[2], plan->block[0], plan->block[1],
      plan->block[2], plan->cluster[0] * plan->cluster[1] * plan->cluster[2], plan->shared);
  return driver_failed(&x->context->driver, status, ERROR_VERIFY, "launch-refused", what, error);
}

/* Those of a launch that does not start before what stands in front of it, whatever that is, has ended. */
static unsigned attributes_alone(const SlotLaunch *launch, LaunchAttribute *attributes)
{
  unsigned n = 0;
  for (unsigned i = 0; i < launch->n_attributes; i++)
    if (launch->attributes[i].id != LAUNCH_PROGRAMMATIC_SERIALIZATION)
      attributes[n++] = launch->attributes[i];
  return n;
}

/* alone: whether or not it may overlap with the one before it, it does not. */
static bool queue_launch(const Executable *x, const LoadedLaunch *loaded, SlotLaunch *launch, void *workspace,
                         void *stream, bool alone, GError **error)
{
  LaunchAttribute attributes[G_N_ELEMENTS(launch->attributes)];
  const Driver *driver = &x->context->driver;
  for (unsigned i = 0; i < loaded->plan->n_zero; i++) {
    uint64_t address = (uint64_t)(uintptr_t)workspace + launch->zero_offset[i];
    if (launch->zero_bytes[i] &&
        !driver_check(driver, driver->fill(address, 0, launch->zero_bytes[i], stream),
                      "cannot clear the workspace", error))
      return false;
  }
  if (launch->empty) return true;
  const PlanVariant *plan = launch->variant->plan;
  LaunchConfig config = {.shared = plan->shared,
                         .stream = stream,
                         .attributes = launch->attributes,
                         .n_attributes = launch->n_attributes};
  if (alone) {
    config.attributes = attributes;
    config.n_attributes = attributes_alone(launch, attributes);
  }
  memcpy(config.grid, launch->grid, sizeof config.grid);
  memcpy(config.block, plan->block, sizeof config.block);
  void *function = atomic_load_explicit(&launch->variant->kernel->function, memory_order_relaxed);
  int status = driver->launch(&config, function, launch->parameters, NULL);
  return status == DRIVER_SUCCESS || launch_failed(x, launch, status, error);
}

static bool queue(const Executable *x, Slot *slot, void *stream, const ExecutableObserver *observer,
                  GError **error)
{
  bool ok = true;
  for (unsigned i = 0; ok && i < slot->n_launches; i++) {
    const LoadedLaunch *loaded = slot->launches[i].loaded;
    bool seen = observer && !slot->launches[i].empty;
    ok = (!seen || observer->before(loaded->plan->index, observer->data, error)) &&
         queue_launch(x, loaded, &slot->launches[i], slot->workspace, stream, seen, error);
  }
  return ok;
}

bool executable_launch_observed(Executable *x, void *stream, const void *const *tensors, const int64_t *dims,
                                void *workspace, uint64_t workspace_bytes, const ExecutableObserver *observer,
                                GError **error)
{
  static const int64_t no_dims[1];
  if ((!dims && x->plan->n_symbols) || !tensors) {
    error_set(error, ERROR_INPUT, NULL, "no-arguments", NULL, "%s needs %u tensors and %u dimensions",
              x->plan->name, x->n_tensors, x->plan->n_symbols);
    return false;
  }
  const Call call = {tensors, dims ? dims : no_dims, workspace, workspace_bytes};
  bool pushed = false;
  if (!context_enter(x->context, &pushed, error)) return false;
  Slot *slot = take_slot(x, &call);
  bool ok = (is_filled_for(x, slot, &call) && slot->workspace_bytes <= workspace_bytes) ||
            fill(x, slot, &call, error);
  ok = ok && queue(x, slot, stream, observer, error);
  release(slot);
  context_leave(x->context, pushed);
  return ok;
}

bool executable_launch(Executable *x, void *stream, const void *const *tensors, const int64_t *dims,
                       void *workspace, uint64_t workspace_bytes, GError **error)
{
  return executable_launch_observed(x, stream, tensors, dims, workspace, workspace_bytes, NULL, error);
}
