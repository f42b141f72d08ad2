/* The public C API's devices and executables. */
#include "api/private.h"
#include "execute/jit.h"
#include "plan/resolve.h"
#include <string.h>

G_STATIC_ASSERT(sizeof(long long) == sizeof(int64_t));

struct adlgen_executable {
  Loaded *loaded;
  GMutex lock; /* of what follows */
  char *plan;  /* NULL: nobody has asked */
};

/* ---- devices ---- */

int adlgen_device_count(adlgen_error *error)
{
  GError *fault = NULL;
  int n = figures_device_count(&fault);
  if (n < 0) api_fail(error, fault);
  return n;
}

int adlgen_device_get(unsigned number, adlgen_device *device, adlgen_error *error)
{
  GError *fault = NULL;
  DeviceFigures figures;
  if (!figures_of_device(number, &figures, &fault)) return api_fail_code(error, fault);
  adlgen_device known = {.size = device->size,
                         .capability_major = figures.capability / 10,
                         .capability_minor = figures.capability % 10,
                         .sm_count = figures.sm_count,
                         .shared_per_block = figures.shared_per_block,
                         .memory_bytes = figures.memory_bytes,
                         .l2_bytes = figures.l2_bytes};
  memcpy(known.name, figures.name, sizeof known.name);
  memcpy(device, &known, MIN(device->size, sizeof known));
  return 0;
}

adlgen_gpu *adlgen_gpu_of_device(unsigned number, adlgen_error *error)
{
  GError *fault = NULL;
  DeviceFigures figures;
  Gpu *gpu = figures_of_device(number, &figures, &fault) ? figures_find_gpu(&figures, &fault) : NULL;
  return gpu ? api_gpu(gpu) : api_fail(error, fault);
}

/* ---- loading ---- */

static bool jit_options(const adlgen_options *options, JitOptions *jit, GError **error)
{
  if (options->assembler < ADLGEN_ASSEMBLER_PTXAS || options->assembler > ADLGEN_ASSEMBLER_NVJITLINK) {
    error_set(error, ERROR_USAGE, NULL, "bad-assembler", NULL, "there is no assembler %d",
              options->assembler);
    return false;
  }
  *jit = (JitOptions){.dims = options->dims,
                      .tuned = options->tuned,
                      .no_tuned = options->no_tuned != 0,
                      .ptxas = options->ptxas,
                      .cache_dir = options->cache_dir,
                      .nvjitlink = options->assembler == ADLGEN_ASSEMBLER_NVJITLINK,
                      .jobs = options->jobs,
                      .device = options->device,
                      .share = options->constants_of ? options->constants_of->loaded->executable : NULL};
  return api_compile_options(options, &jit->compile, error);
}

static adlgen_executable *give(Loaded *loaded, GError *fault, adlgen_error *error)
{
  if (!loaded) return api_fail(error, fault);
  adlgen_executable *executable = g_new0(adlgen_executable, 1);
  executable->loaded = loaded;
  g_mutex_init(&executable->lock);
  return executable;
}

adlgen_executable *adlgen_load(const adlgen_result *result, const adlgen_options *given, adlgen_error *error)
{
  const adlgen_options options = api_options(given);
  JitOptions jit;
  GError *fault = NULL;
  Loaded *loaded = jit_options(&options, &jit, &fault)
                       ? jit_result(result->result, result->graph, result->gpu->gpu, &jit, &fault)
                       : NULL;
  return give(loaded, fault, error);
}

static adlgen_executable *jit(Source *source, const adlgen_gpu *gpu, const adlgen_options *given,
                              adlgen_error *error)
{
  const adlgen_options options = api_options(given);
  JitOptions jit;
  GError *fault = NULL;
  Loaded *loaded =
      jit_options(&options, &jit, &fault) ? jit_source(source, gpu ? gpu->gpu : NULL, &jit, &fault) : NULL;
  return give(loaded, fault, error);
}

adlgen_executable *adlgen_jit_file(const char *path, const adlgen_gpu *gpu, const adlgen_options *options,
                                   adlgen_error *error)
{
  GError *fault = NULL;
  g_autoptr(Source) source = source_load(path, &fault);
  return source ? jit(source, gpu, options, error) : api_fail(error, fault);
}

adlgen_executable *adlgen_jit_text(const char *name, const char *text, size_t length, const adlgen_gpu *gpu,
                                   const adlgen_options *options, adlgen_error *error)
{
  g_autoptr(Source) source = source_new(name, text, length);
  return jit(source, gpu, options, error);
}

void adlgen_executable_free(adlgen_executable *executable)
{
  if (!executable) return;
  loaded_free(executable->loaded);
  g_mutex_clear(&executable->lock);
  g_free(executable->plan);
  g_free(executable);
}

int adlgen_executable_set_constant(adlgen_executable *executable, const char *name, const void *data,
                                   size_t bytes, adlgen_error *error)
{
  GError *fault = NULL;
  return executable_replace_constant(executable->loaded->executable, name, data, bytes, &fault)
             ? 0
             : api_fail_code(error, fault);
}

/* ---- what was loaded ---- */

size_t adlgen_executable_warning_count(const adlgen_executable *executable)
{
  size_t n = 0;
  while (loaded_warning(executable->loaded, n))
    n++;
  return n;
}

const char *adlgen_executable_warning(const adlgen_executable *executable, size_t warning)
{
  return loaded_warning(executable->loaded, warning);
}

size_t adlgen_executable_assembled(const adlgen_executable *executable)
{
  return assembly_queue_assembled(executable->loaded->queue);
}

const char *adlgen_executable_gpu(const adlgen_executable *executable)
{
  return executable->loaded->gpu;
}

const char *adlgen_executable_plan(adlgen_executable *executable)
{
  g_mutex_lock(&executable->lock);
  if (!executable->plan) executable->plan = plan_text(executable_plan(executable->loaded->executable));
  g_mutex_unlock(&executable->lock);
  return executable->plan;
}

size_t adlgen_executable_dim_count(const adlgen_executable *executable)
{
  return executable_plan(executable->loaded->executable)->n_symbols;
}

const char *adlgen_executable_dim(const adlgen_executable *executable, size_t dim)
{
  const Plan *plan = executable_plan(executable->loaded->executable);
  return dim < plan->n_symbols ? plan->symbols[dim].name : NULL;
}

size_t adlgen_executable_tensor_count(const adlgen_executable *executable)
{
  return executable_tensor_count(executable->loaded->executable);
}

G_STATIC_ASSERT(PLAN_MAX_RANK <= G_N_ELEMENTS(((adlgen_tensor *)0)->shape));

static bool resolve(const Plan *plan, const PlanTensor *tensor, const long long *dims, adlgen_tensor *out,
                    GError **error)
{
  const PlanBindings bindings = {(const int64_t *)dims, NULL};
  ResolvedTensor resolved;
  if (!plan_check_bindings(plan, &bindings, error) ||
      !plan_resolve_tensor(plan, tensor, &bindings, &resolved, error))
    return false;
  for (unsigned i = 0; i < tensor->rank; i++) {
    out->shape[i] = resolved.shape[i];
    out->strides[i] = resolved.strides[i];
  }
  out->bytes = resolved.bytes;
  return true;
}

int adlgen_executable_tensor(const adlgen_executable *executable, size_t tensor, const long long *dims,
                             adlgen_tensor *description, adlgen_error *error)
{
  static const int kinds[] = {
      [PLAN_INPUT] = ADLGEN_INPUT, [PLAN_CONSTANT] = ADLGEN_CONSTANT, [PLAN_OUTPUT] = ADLGEN_OUTPUT};
  Executable *loaded = executable->loaded->executable;
  const Plan *plan = executable_plan(loaded);
  const PlanTensor *found = tensor <= UINT_MAX ? executable_tensor(loaded, (unsigned)tensor) : NULL;
  GError *fault = NULL;
  if (!found) {
    error_set(&fault, ERROR_INPUT, NULL, "unknown-tensor", NULL, "%s has %u tensors, there is no number %zu",
              plan->name, executable_tensor_count(loaded), tensor);
    return api_fail_code(error, fault);
  }
  adlgen_tensor known = {.size = description->size,
                         .name = found->name,
                         .kind = kinds[found->kind],
                         .type = number_name(found->type),
                         .rank = found->rank,
                         .align = found->align};
  if (dims && !resolve(plan, found, dims, &known, &fault)) return api_fail_code(error, fault);
  memcpy(description, &known, MIN(description->size, sizeof known));
  return 0;
}

int adlgen_executable_workspace(const adlgen_executable *executable, const long long *dims, size_t *bytes,
                                adlgen_error *error)
{
  GError *fault = NULL;
  uint64_t needed = 0;
  if (!executable_workspace(executable->loaded->executable, (const int64_t *)dims, &needed, &fault))
    return api_fail_code(error, fault);
  *bytes = needed;
  return 0;
}

int adlgen_executable_load(adlgen_executable *executable, adlgen_error *error)
{
  GError *fault = NULL;
  return executable_load(executable->loaded->executable, NULL, &fault) ? 0 : api_fail_code(error, fault);
}

int adlgen_launch(adlgen_executable *executable, void *stream, const void *const *tensors,
                  const long long *dims, void *workspace, size_t workspace_bytes, adlgen_error *error)
{
  GError *fault = NULL;
  if (executable_launch(executable->loaded->executable, stream, tensors, (const int64_t *)dims, workspace,
                        workspace_bytes, &fault))
    return 0;
  return api_fail_code(error, fault);
}
