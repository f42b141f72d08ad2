/* A plan on a GPU: memory with margins around every tensor, then one launch of the whole by the runtime. */
#include "execute/execute.h"
#include "execute/jit.h"
#include "runtime/profile.h"
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
  Loaded *loaded;
  const void **arguments; /* as executable_tensor() counts them */
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
    if (tensor->place != i) continue;
    GpuRegion *region = &run->regions[i];
    if (!make_region(run, region, x->plan->tensors[i]->name, tensor->resolved.bytes, tensor->skew, error) ||
        !device_write(run->device, region->address, tensor->data, region->bytes, error))
      return false;
    run->addresses[i] = region->address;
  }
  for (unsigned i = 0; i < n; i++)
    if (x->tensors[i].place != i) {
      run->regions[i] = run->regions[x->tensors[i].place];
      run->regions[i].allocation = 0; /* released once */
      run->addresses[i] = run->addresses[x->tensors[i].place];
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
    execution_add_fault(run->faults, "bounds", text);
    break;
  }
  return true;
}

static bool read_back(GpuRun *run, GError **error)
{
  Execution *x = run->x;
  for (unsigned i = 0; i <= x->plan->n_tensors; i++) {
    const GpuRegion *region = &run->regions[i];
    /* an output in an input's memory has no allocation of its own */
    if (region->allocation &&
        (!check_margin(run, region, region->allocation, region->address - region->allocation, true, error) ||
         !check_margin(run, region, region->address + region->bytes, MARGIN, false, error)))
      return false;
    if (i < x->plan->n_tensors && x->plan->tensors[i]->kind == PLAN_OUTPUT &&
        !device_read(run->device, x->tensors[i].data, region->address, region->bytes, error))
      return false;
  }
  return true;
}

/* ---- machine code ---- */

static void note_differences(const GpuRun *run, const Context *context, const char *target)
{
  g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
  figures_compare(context_figures(context), run->x->gpu, target, lines);
  for (guint i = 0; i < lines->len; i++)
    g_string_append_printf(run->faults->notes, "%s\n", (const char *)lines->pdata[i]);
}

static bool load_kernels(GpuRun *run, const Assembler *assembler, GError **error)
{
  g_autofree char *target = device_target(run->device, run->x->gpu->target, error);
  Context *context = target ? context_open(0, error) : NULL; /* the device's, which is current */
  if (!context) return false;
  note_differences(run, context, target);
  run->loaded = jit_kernels(run->x->compiled, context, assembler, target, error);
  return run->loaded != NULL;
}

/* ---- launching ---- */

static void *pointer_of(uint64_t address)
{
  return (void *)(uintptr_t)address; // NOLINT: of the device
}

static bool note_launches(const GpuRun *run, GError **error)
{
  const PlanLaunch *planned = NULL;
  PlanWalk walk = plan_walk(run->x->plan, &(PlanBindings){run->x->symbols, run->addresses});
  for (;;) {
    if (!plan_walk_next(&walk, &planned, error)) return false;
    if (!planned) return true;
    const ResolvedLaunch *launch = plan_resolve(walk.plan, planned, &walk.bindings, run->arena, error);
    if (!launch) return false;
    if (launch->empty) continue;
    g_string_append_printf(run->faults->notes, "%s: %s, grid %u x %u x %u\n", launch->launch->name,
                           launch->variant->kernel, launch->grid[0], launch->grid[1], launch->grid[2]);
    execution_add_launch(run->faults, launch);
  }
}

static bool queue(const ExecutableObserver *observer, void *data, GError **error)
{
  const GpuRun *run = data;
  const GpuRegion *workspace = &run->regions[run->x->plan->n_tensors];
  return executable_launch_observed(run->loaded->executable, device_stream(run->device), run->arguments,
                                    run->x->symbols, pointer_of(workspace->address), workspace->bytes,
                                    observer, error);
}

static bool launch_all(GpuRun *run, GError **error)
{
  unsigned n = executable_tensor_count(run->loaded->executable);
  run->arguments = arena_new_array(run->arena, const void *, n);
  for (unsigned i = 0; i < n; i++)
    run->arguments[i] = pointer_of(run->addresses[executable_tensor(run->loaded->executable, i)->index]);
  return note_launches(run, error) && queue(NULL, run, error) && device_wait(run->device, error);
}

/* Behind everything else: the launches run many times more, and what they change in place is no result any longer. */
static bool profile(GpuRun *run, GError **error)
{
  if (!run->x->profile) return true;
  g_autoptr(DeviceRecorder) recorder = device_recorder_new(run->device, error);
  LaunchTimes times;
  if (!recorder || !profile_launches(recorder, queue, run, &times, error)) return false;
  run->faults->us = times.whole;
  for (unsigned i = 0; i < times.n; i++)
    json_object_set_new(json_array_get(run->faults->launches, i), "us", json_real(times.us[i]));
  g_free(times.us);
  return true;
}

static void run_clear(GpuRun *run)
{
  loaded_free(run->loaded);
  for (unsigned i = 0; run->regions && i <= run->x->plan->n_tensors; i++)
    device_release(run->device, run->regions[i].allocation);
  arena_free(run->arena);
}

bool execution_run(Execution *x, Device *device, const Assembler *assembler, ExecutionFaults *faults,
                   GError **error)
{
  GpuRun run = {.x = x, .device = device, .faults = faults, .arena = arena_new()};
  bool ok = make_memory(&run, error) && load_kernels(&run, assembler, error) && launch_all(&run, error) &&
            read_back(&run, error) && profile(&run, error);
  run_clear(&run);
  return ok;
}
