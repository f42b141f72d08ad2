/* A plan on a GPU: memory with margins around every tensor, machine code for the device, launches in order on
 * one stream. */
#include "cli/execute.h"
#include <string.h>

/* Bytes before and behind every tensor that no kernel may touch. */
#define MARGIN       256
#define MARGIN_VALUE 0xa5
#define POISON       0xff

typedef struct GpuRegion {
  const char *name;
  uint64_t allocation, address, bytes;
} GpuRegion;

typedef struct GpuRun {
  Execution *x;
  Device *device;
  ExecutionFaults *faults;
  GpuRegion *regions; /* as plan->tensors (empty for the workspace's), then the workspace */
  uint64_t *addresses;
  ResolvedLaunch **launches; /* as plan->launches */
  DeviceKernel **kernels;    /* as compiled->kernels; NULL where not launched */
  Arena *arena;
} GpuRun;

/* ---- memory ---- */

static bool make_region(GpuRun *run, GpuRegion *region, const char *name, uint64_t bytes, unsigned skew,
                        GError **error)
{
  uint64_t whole = MARGIN + skew + bytes + MARGIN;
  region->name = name;
  region->bytes = bytes;
  region->allocation = device_allocate(run->device, whole, error);
  if (!region->allocation) return false;
  region->address = region->allocation + MARGIN + skew;
  return device_fill(run->device, region->allocation, MARGIN_VALUE, whole, error) &&
         device_fill(run->device, region->address, POISON, bytes, error);
}

static bool make_memory(GpuRun *run, GError **error)
{
  Execution *x = run->x;
  unsigned n = x->plan->n_tensors;
  run->regions = arena_new_array(run->arena, GpuRegion, n + 1);
  run->addresses = arena_new_array(run->arena, uint64_t, n);
  if (!make_region(run, &run->regions[n], "the workspace", x->workspace_bytes, 0, error)) return false;
  for (unsigned i = 0; i < n; i++) {
    const ExecutionTensor *tensor = &x->tensors[i];
    if (!tensor->data) {
      run->addresses[i] = run->regions[n].address + tensor->resolved.offset;
      continue;
    }
    GpuRegion *region = &run->regions[i];
    if (!make_region(run, region, x->plan->tensors[i]->name, tensor->resolved.bytes, tensor->skew, error) ||
        !device_write(run->device, region->address, tensor->data, region->bytes, error))
      return false;
    run->addresses[i] = region->address;
  }
  return true;
}

static bool check_margin(GpuRun *run, const GpuRegion *region, uint64_t address, uint64_t bytes, bool before,
                         GError **error)
{
  g_autofree uint8_t *data = g_malloc(bytes);
  if (!device_read(run->device, data, address, bytes, error)) return false;
  for (uint64_t i = 0; i < bytes; i++) {
    if (data[i] == MARGIN_VALUE) continue;
    g_autofree char *text =
        before
            ? g_strdup_printf("a kernel wrote %" G_GUINT64_FORMAT " bytes before %s", bytes - i, region->name)
            : g_strdup_printf("a kernel wrote %" G_GUINT64_FORMAT " bytes behind %s", i + 1, region->name);
    g_string_append_printf(run->faults->text, "fault: bounds: %s\n", text);
    json_array_append_new(run->faults->list, json_pack("{s:s, s:s, s:s}", "kind", "bounds", "severity",
                                                       "error", "message", text));
    run->faults->n_errors++;
    break;
  }
  return true;
}

static bool read_back(GpuRun *run, GError **error)
{
  Execution *x = run->x;
  for (unsigned i = 0; i <= x->plan->n_tensors; i++) {
    const GpuRegion *region = &run->regions[i];
    if (!region->allocation) continue;
    if (!check_margin(run, region, region->allocation, region->address - region->allocation, true, error) ||
        !check_margin(run, region, region->address + region->bytes, MARGIN, false, error))
      return false;
    if (i < x->plan->n_tensors && x->plan->tensors[i]->kind == PLAN_OUTPUT &&
        !device_read(run->device, x->tensors[i].data, region->address, region->bytes, error))
      return false;
  }
  return true;
}

/* ---- machine code ---- */

static bool resolve_launches(GpuRun *run, GError **error)
{
  const Plan *plan = run->x->plan;
  const PlanBindings bindings = {run->x->symbols, run->addresses};
  run->launches = arena_new_array(run->arena, ResolvedLaunch *, plan->n_launches);
  for (unsigned i = 0; i < plan->n_launches; i++) {
    run->launches[i] = plan_resolve(plan, plan->launches[i], &bindings, run->arena, error);
    if (!run->launches[i]) return false;
  }
  return true;
}

static unsigned kernel_index(const GpuRun *run, const PlanVariant *variant)
{
  unsigned index = 0;
  g_ptr_array_find(run->x->compiled->kernels, execution_kernel(run->x, variant), &index);
  return index;
}

/* The most dynamic shared memory each kernel is launched with; -1 for those that are not. */
static int64_t *shared_of_kernels(const GpuRun *run)
{
  unsigned n = run->x->compiled->kernels->len;
  int64_t *shared = arena_new_array(run->arena, int64_t, n);
  for (unsigned i = 0; i < n; i++)
    shared[i] = -1;
  for (unsigned i = 0; i < run->x->plan->n_launches; i++) {
    const ResolvedLaunch *launch = run->launches[i];
    if (launch->empty) continue;
    int64_t *most = &shared[kernel_index(run, launch->variant)];
    *most = MAX(*most, (int64_t)launch->variant->shared);
  }
  return shared;
}

static bool load_kernels(GpuRun *run, const AssemblyJob *jobs, unsigned n, const unsigned *kernel_of,
                         const int64_t *shared, GError **error)
{
  for (unsigned i = 0; i < n; i++) {
    const CompiledKernel *kernel = run->x->compiled->kernels->pdata[kernel_of[i]];
    if (jobs[i].error) {
      g_propagate_error(error, g_error_copy(jobs[i].error));
      return false;
    }
    run->kernels[kernel_of[i]] = device_load(run->device, kernel->name, jobs[i].result->cubin, kernel->entry,
                                             (unsigned)shared[kernel_of[i]], error);
    if (!run->kernels[kernel_of[i]]) return false;
  }
  return true;
}

static bool assemble_kernels(GpuRun *run, const Assembler *assembler, GError **error)
{
  const GPtrArray *kernels = run->x->compiled->kernels;
  const int64_t *shared = shared_of_kernels(run);
  AssemblyJob *jobs = arena_new_array(run->arena, AssemblyJob, kernels->len);
  unsigned *kernel_of = arena_new_array(run->arena, unsigned, kernels->len), n = 0;
  run->kernels = arena_new_array(run->arena, DeviceKernel *, kernels->len);
  g_autofree char *target = device_target(run->device, run->x->gpu->target, error);
  if (!target) return false;
  if (strcmp(target, run->x->gpu->target))
    g_string_append_printf(run->faults->notes, "kernels for %s (%s) are assembled for %s to run on %s\n",
                           run->x->gpu->name, run->x->gpu->target, target, device_name(run->device));
  for (unsigned i = 0; i < kernels->len; i++) {
    const CompiledKernel *kernel = kernels->pdata[i];
    if (shared[i] < 0) continue;
    kernel_of[n] = i;
    jobs[n++] = (AssemblyJob){kernel->name, kernel->ptx, target, NULL, NULL};
  }
  if (n) assembler_run_all(assembler, jobs, n, 0, NULL, NULL);
  bool ok = load_kernels(run, jobs, n, kernel_of, shared, error);
  for (unsigned i = 0; i < n; i++) {
    assembly_free(jobs[i].result);
    g_clear_error(&jobs[i].error);
  }
  return ok;
}

/* ---- launching ---- */

typedef struct ArgumentValue {
  DeviceTensorMap map;
  uint8_t bytes[8];
} ArgumentValue;

static bool make_argument(GpuRun *run, const ResolvedArgument *resolved, ArgumentValue *value, void **address,
                          GError **error)
{
  const PlanArgument *argument = resolved->argument;
  *address = value->bytes;
  uint64_t place = argument->tensor ? run->addresses[argument->tensor->index] + resolved->offset : 0;
  if (argument->kind == PLAN_ARGUMENT_POINTER) {
    memcpy(value->bytes, &place, sizeof place);
    return true;
  }
  if (argument->kind != PLAN_ARGUMENT_TENSOR_MAP) {
    memcpy(value->bytes, resolved->bytes, sizeof value->bytes);
    return true;
  }
  const PlanTensorMap *map = &argument->map;
  DeviceBox box = {.element = map->element,
                   .rank = map->rank,
                   .address = place,
                   .swizzle = map->swizzle,
                   .interleave = (unsigned)map->interleave * 16,
                   .l2_promotion = map->l2_promotion,
                   .fill_nan = map->fill == PLAN_FILL_NAN};
  memcpy(box.dims, resolved->dims, sizeof box.dims);
  memcpy(box.strides, resolved->strides, sizeof box.strides);
  memcpy(box.box, map->box, sizeof box.box);
  memcpy(box.element_strides, map->element_strides, sizeof box.element_strides);
  *address = &value->map;
  return device_encode(run->device, argument->name ? argument->name : argument->tensor->name, &box,
                       &value->map, error);
}

static bool launch_kernel(GpuRun *run, const ResolvedLaunch *resolved, ArgumentValue *values, GError **error)
{
  const PlanVariant *variant = resolved->variant;
  g_autofree void **addresses = g_new0(void *, variant->n_arguments + 1);
  DeviceLaunch launch = {.shared = variant->shared, .dependent = resolved->dependent, .arguments = addresses};
  memcpy(launch.grid, resolved->grid, sizeof launch.grid);
  memcpy(launch.block, variant->block, sizeof launch.block);
  memcpy(launch.cluster, variant->cluster, sizeof launch.cluster);
  for (unsigned i = 0; i < variant->n_arguments; i++)
    if (!make_argument(run, &resolved->arguments[i], &values[i], &addresses[i], error)) return false;
  g_string_append_printf(run->faults->notes, "%s: %s, grid %u x %u x %u\n", resolved->launch->name,
                         variant->kernel, resolved->grid[0], resolved->grid[1], resolved->grid[2]);
  return device_launch(run->device, run->kernels[kernel_index(run, variant)], &launch, error);
}

static bool launch_one(GpuRun *run, const ResolvedLaunch *resolved, GError **error)
{
  uint64_t workspace = run->regions[run->x->plan->n_tensors].address;
  for (unsigned i = 0; i < resolved->launch->n_zero; i++)
    if (!device_fill(run->device, workspace + resolved->zero[i].offset, 0, resolved->zero[i].bytes, error))
      return false;
  if (resolved->empty) return true;
  /* Tensor maps need more alignment than an allocation has. */
  ArgumentValue *values = g_aligned_alloc0(resolved->variant->n_arguments + 1, sizeof *values, 64);
  bool ok = launch_kernel(run, resolved, values, error);
  g_aligned_free(values);
  return ok;
}

static bool launch_all(GpuRun *run, GError **error)
{
  for (unsigned i = 0; i < run->x->plan->n_launches; i++)
    if (!launch_one(run, run->launches[i], error)) return false;
  return device_wait(run->device, error);
}

static void run_clear(GpuRun *run)
{
  for (unsigned i = 0; run->kernels && i < run->x->compiled->kernels->len; i++)
    device_unload(run->kernels[i]);
  for (unsigned i = 0; run->regions && i <= run->x->plan->n_tensors; i++)
    device_release(run->device, run->regions[i].allocation);
  arena_free(run->arena);
}

bool execution_run(Execution *x, Device *device, const Assembler *assembler, ExecutionFaults *faults,
                   GError **error)
{
  GpuRun run = {.x = x, .device = device, .faults = faults, .arena = arena_new()};
  bool ok = make_memory(&run, error) && resolve_launches(&run, error) &&
            assemble_kernels(&run, assembler, error) && launch_all(&run, error) && read_back(&run, error);
  run_clear(&run);
  return ok;
}
