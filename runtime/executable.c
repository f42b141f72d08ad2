#include "runtime/executable_private.h"
#include <string.h>

/* ---- kernels ---- */

static void note_needs(const Plan *plan, LoadedKernel *kernel)
{
  kernel->cluster = 1;
  for (unsigned i = 0; i < plan->n_launches; i++)
    for (unsigned j = 0; j < plan->launches[i]->n_variants; j++) {
      const PlanVariant *variant = plan->launches[i]->variants[j];
      const unsigned *cluster = variant->cluster;
      if (strcmp(variant->kernel, kernel->name)) continue;
      kernel->shared = MAX(kernel->shared, variant->shared);
      kernel->cluster = MAX(kernel->cluster, cluster[0] * cluster[1] * cluster[2]);
    }
}

static bool refuse_shared(const Executable *x, const LoadedKernel *kernel, GError **error)
{
  const DeviceFigures *figures = &x->context->figures;
  if (!figures->shared_per_block || kernel->shared <= figures->shared_per_block) return false;
  error_set(error, ERROR_UNSUPPORTED, NULL, "shared-memory", "a description of this GPU gives smaller tiles",
            "%s needs %u bytes of shared memory per block, this %s has %u", kernel->name, kernel->shared,
            figures->name, figures->shared_per_block);
  return true;
}

static void note_kernels(Executable *x, const ExecutableKernel *kernels, unsigned n)
{
  x->n_kernels = n;
  x->kernels = arena_new_array(x->arena, LoadedKernel, n);
  x->modules = arena_new_array(x->arena, void *, n);
  for (unsigned i = 0; i < n; i++) {
    LoadedKernel *kernel = &x->kernels[i];
    kernel->name = arena_strdup(x->arena, kernels[i].name);
    kernel->entry = arena_strdup(x->arena, kernels[i].entry);
    note_needs(x->plan, kernel);
  }
}

/* Under load_lock. */
static bool load_module(Executable *x, LoadedKernel *kernel, GBytes *cubin, GError **error)
{
  const Driver *driver = &x->context->driver;
  void *module = NULL, *function = NULL;
  int status = driver->module_load(&module, g_bytes_get_data(cubin, NULL));
  if (!status) status = driver->module_function(&function, module, kernel->entry);
  if (!status) status = driver->function_set(function, FUNCTION_MAX_DYNAMIC_SHARED, (int)kernel->shared);
  if (!status && kernel->cluster > PORTABLE_CLUSTER)
    status = driver->function_set(function, FUNCTION_NON_PORTABLE_CLUSTER, 1);
  if (!status) {
    x->modules[x->n_modules++] = module;
    atomic_store_explicit(&kernel->function, function, memory_order_release);
    return true;
  }
  if (module) driver->module_unload(module);
  g_autofree char *what =
      g_strdup_printf("cannot load %s with %u bytes of shared memory", kernel->name, kernel->shared);
  return driver_failed(driver, status, ERROR_VERIFY, "load-refused", what, error);
}

/* Machine code may take long to come: the lock is taken when it is there. */
void *executable_function(Executable *x, LoadedKernel *kernel, GError **error)
{
  void *function = atomic_load_explicit(&kernel->function, memory_order_acquire);
  if (function) return function;
  g_autoptr(GBytes) cubin = x->source.take(x->source.data, (unsigned)(kernel - x->kernels), error);
  if (!cubin) return NULL;
  g_mutex_lock(&x->load_lock);
  bool ok = atomic_load(&kernel->function) || load_module(x, kernel, cubin, error);
  g_mutex_unlock(&x->load_lock);
  return ok ? atomic_load(&kernel->function) : NULL;
}

bool executable_load(Executable *x, const bool *wanted, GError **error)
{
  bool pushed = false, ok = context_enter(x->context, &pushed, error);
  for (unsigned i = 0; ok && x->source.want && i < x->n_kernels; i++)
    if (!wanted || wanted[i]) x->source.want(x->source.data, i);
  for (unsigned i = 0; ok && i < x->n_kernels; i++)
    ok = (wanted && !wanted[i]) || executable_function(x, &x->kernels[i], error) != NULL;
  context_leave(x->context, pushed);
  return ok;
}

/* ---- expressions ---- */

static PlanArgument bind_argument(const Executable *x, const PlanArgument *argument)
{
  PlanArgument bound = *argument;
  bound.offset = expression_bind(x->plan, x->arena, argument->offset);
  bound.value = expression_bind(x->plan, x->arena, argument->value);
  if (argument->kind != PLAN_ARGUMENT_TENSOR_MAP) return bound;
  for (unsigned i = 0; i < argument->map.rank; i++) {
    bound.map.dims[i] = expression_bind(x->plan, x->arena, argument->map.dims[i]);
    bound.map.box[i] = expression_bind(x->plan, x->arena, argument->map.box[i]);
  }
  for (unsigned i = 0; i + 1 < argument->map.rank; i++)
    bound.map.strides[i] = expression_bind(x->plan, x->arena, argument->map.strides[i]);
  return bound;
}

static void bind_variant(const Executable *x, const PlanVariant *plan, LoadedVariant *variant)
{
  variant->plan = plan;
  for (unsigned i = 0; i < x->n_kernels && !variant->kernel; i++)
    if (!strcmp(x->kernels[i].name, plan->kernel)) variant->kernel = &x->kernels[i];
  variant->guard = expression_bind(x->plan, x->arena, plan->guard);
  for (unsigned i = 0; i < 3; i++)
    variant->grid[i] = expression_bind(x->plan, x->arena, plan->grid[i]);
  variant->n_arguments = plan->n_arguments;
  variant->arguments = arena_new_array(x->arena, PlanArgument, plan->n_arguments);
  for (unsigned i = 0; i < plan->n_arguments; i++)
    variant->arguments[i] = bind_argument(x, &plan->arguments[i]);
}

static void bind_launch(const Executable *x, const PlanLaunch *plan, LoadedLaunch *launch)
{
  launch->plan = plan;
  launch->variants = arena_new_array(x->arena, LoadedVariant, plan->n_variants);
  for (unsigned i = 0; i < plan->n_variants; i++)
    bind_variant(x, plan->variants[i], &launch->variants[i]);
  launch->zero = arena_new_array(x->arena, PlanRegion, plan->n_zero);
  for (unsigned i = 0; i < plan->n_zero; i++)
    launch->zero[i] = (PlanRegion){expression_bind(x->plan, x->arena, plan->zero[i].offset),
                                   expression_bind(x->plan, x->arena, plan->zero[i].bytes)};
  for (unsigned i = 0; i < plan->n_depends; i++)
    launch->dependent |= plan->depends_on[i].dependent;
}

static void bind_plan(Executable *x)
{
  const Plan *plan = x->plan;
  x->launches = arena_new_array(x->arena, LoadedLaunch, plan->n_launches);
  for (unsigned i = 0; i < plan->n_launches; i++)
    bind_launch(x, plan->launches[i], &x->launches[i]);
  x->workspace_bytes = expression_bind(plan, x->arena, plan->workspace_bytes);
  x->workspace_offsets = arena_new_array(x->arena, const Symbolic *, plan->n_tensors);
  x->constants = arena_new_array(x->arena, ConstantMemory *, plan->n_tensors);
  x->tensors = arena_new_array(x->arena, unsigned, plan->n_tensors);
  static const PlanTensorKind order[] = {PLAN_INPUT, PLAN_CONSTANT, PLAN_OUTPUT};
  for (unsigned kind = 0; kind < G_N_ELEMENTS(order); kind++)
    for (unsigned i = 0; i < plan->n_tensors; i++)
      if (plan->tensors[i]->kind == order[kind]) x->tensors[x->n_tensors++] = i;
  for (unsigned i = 0; i < plan->n_tensors; i++)
    if (plan->tensors[i]->kind == PLAN_WORKSPACE)
      x->workspace_offsets[i] = expression_bind(plan, x->arena, plan->tensors[i]->offset);
}

/* Is every kernel of the plan there, and does it fit on the GPU? */
static bool check_kernels(const Executable *x, GError **error)
{
  for (unsigned i = 0; i < x->plan->n_launches; i++)
    for (unsigned j = 0; j < x->plan->launches[i]->n_variants; j++) {
      const LoadedVariant *variant = &x->launches[i].variants[j];
      if (variant->kernel) continue;
      error_set(error, ERROR_INTERNAL, NULL, "no-kernel", NULL, "%s of the plan is not among its kernels",
                variant->plan->kernel);
      return false;
    }
  for (unsigned i = 0; i < x->n_kernels; i++)
    if (refuse_shared(x, &x->kernels[i], error)) return false;
  return true;
}

/* ---- slots ---- */

/* Zeroed memory of the arena aligned for tensor maps, which is more than an arena gives. */
static ParameterValue *new_values(Arena *arena, unsigned n)
{
  const size_t align = _Alignof(ParameterValue);
  uintptr_t memory = (uintptr_t)arena_alloc(arena, n * sizeof(ParameterValue) + align);
  return (ParameterValue *)((memory + align - 1) / align * align);
}

/* For any of the plan's launches from `first` up to below `end`. */
static void make_slot_launch(const Executable *x, Arena *arena, unsigned first, unsigned end,
                             SlotLaunch *launch)
{
  unsigned most = 0, zero = 0;
  for (unsigned i = first; i < end; i++) {
    zero = MAX(zero, x->launches[i].plan->n_zero);
    for (unsigned j = 0; j < x->launches[i].plan->n_variants; j++)
      most = MAX(most, x->launches[i].variants[j].n_arguments);
  }
  launch->values = new_values(arena, most);
  launch->parameters = arena_new_array(arena, void *, most + 1);
  for (unsigned i = 0; i < most; i++)
    launch->parameters[i] = &launch->values[i];
  launch->boxes = arena_new_array(arena, DeviceBox, most);
  launch->zero_offset = arena_new_array(arena, uint64_t, zero);
  launch->zero_bytes = arena_new_array(arena, uint64_t, zero);
}

/* Which launch of the plan each will be follows from the counts of repeats: any fits each. */
void executable_make_room(const Executable *x, Slot *slot, unsigned n)
{
  if (n <= slot->room) return;
  if (slot->memory) arena_free(slot->memory);
  slot->memory = arena_new();
  slot->launches = arena_new_array(slot->memory, SlotLaunch, n);
  slot->room = n;
  for (unsigned i = 0; i < n; i++)
    make_slot_launch(x, slot->memory, 0, x->plan->n_launches, &slot->launches[i]);
}

static void make_slots(Executable *x)
{
  for (unsigned i = 0; i < EXECUTABLE_SLOTS; i++) {
    Slot *slot = &x->slots[i];
    atomic_flag_clear(&slot->busy);
    slot->tensors = arena_new_array(x->arena, const void *, x->n_tensors);
    slot->dims = arena_new_array(x->arena, int64_t, x->plan->n_symbols + 1);
    slot->addresses = arena_new_array(x->arena, uint64_t, x->plan->n_tensors);
    if (x->plan->n_repeats) continue; /* when it is filled */
    slot->room = x->plan->n_launches;
    slot->launches = arena_new_array(x->arena, SlotLaunch, slot->room);
    for (unsigned j = 0; j < slot->room; j++)
      make_slot_launch(x, x->arena, j, j + 1, &slot->launches[j]);
  }
}

/* ---- the door ---- */

Executable *executable_new(Plan *plan, Context *context, const ExecutableKernel *kernels, unsigned n_kernels,
                           const KernelSource *source, GError **error)
{
  Executable *x = g_new0(Executable, 1);
  x->plan = plan;
  x->context = context;
  x->source = *source;
  x->arena = arena_new();
  g_mutex_init(&x->load_lock);
  note_kernels(x, kernels, n_kernels);
  bind_plan(x);
  make_slots(x);
  if (check_kernels(x, error) && zeroed_init(x, error)) return x;
  x->plan = NULL; /* the caller keeps it */
  executable_free(x);
  return NULL;
}

void executable_free(Executable *x)
{
  if (!x) return;
  const Driver *driver = &x->context->driver;
  bool pushed = false;
  /* A context that is gone has taken its modules and memory along. */
  if (context_enter(x->context, &pushed, NULL)) {
    for (unsigned i = 0; i < x->n_modules; i++)
      driver->module_unload(x->modules[i]);
    constants_clear(x);
    zeroed_clear(x);
    context_leave(x->context, pushed);
  }
  context_close(x->context);
  if (x->zeroed) {
    g_array_unref(x->zeroed);
    g_mutex_clear(&x->zeroed_lock);
  }
  g_mutex_clear(&x->load_lock);
  for (unsigned i = 0; i < EXECUTABLE_SLOTS; i++)
    if (x->slots[i].memory) arena_free(x->slots[i].memory);
  plan_free(x->plan);
  arena_free(x->arena);
  g_free(x);
}

const Plan *executable_plan(const Executable *x)
{
  return x->plan;
}

unsigned executable_tensor_count(const Executable *x)
{
  return x->n_tensors;
}

const PlanTensor *executable_tensor(const Executable *x, unsigned i)
{
  return i < x->n_tensors ? x->plan->tensors[x->tensors[i]] : NULL;
}

bool executable_workspace(const Executable *x, const int64_t *dims, uint64_t *bytes, GError **error)
{
  const PlanBindings bindings = {dims, NULL};
  int64_t value = 0;
  if (!plan_check_bindings(x->plan, &bindings, error) ||
      !plan_evaluate(x->plan, x->plan->workspace_bytes, &bindings, &value, error))
    return false;
  *bytes = (uint64_t)value;
  return true;
}
