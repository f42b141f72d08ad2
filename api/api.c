/* The public C API (include/adlgen/adlgen.h) over the compile door. */
#include "api/private.h"
#include "base/version.h"
#include "execute/build.h"
#include "generator/choose/tuned.h"
#include <string.h>

const char *adlgen_version(void)
{
  return ADLGEN_VERSION;
}

/* ---- errors ---- */

void adlgen_error_clear(adlgen_error *error)
{
  g_free(error->message);
  g_free(error->file);
  g_free(error->hint);
  memset(error, 0, sizeof *error);
}

static void take_fault(adlgen_error *error, const GError *fault)
{
  adlgen_error_clear(error);
  error->code = error_exit_code(fault);
  error->message = g_strdup(fault->message);
  const GPtrArray *diagnostics = error_diagnostics(fault);
  if (!diagnostics || !diagnostics->len) return;
  const Diagnostic *first = diagnostics->pdata[0];
  error->hint = g_strdup(first->hint);
  error->file = first->source ? g_strdup(first->source->name) : NULL;
  error->line = first->line;
  error->column = first->column;
}

void *api_fail(adlgen_error *error, GError *fault)
{
  if (error) take_fault(error, fault);
  g_error_free(fault);
  return NULL;
}

int api_fail_code(adlgen_error *error, GError *fault)
{
  int code = error_exit_code(fault);
  api_fail(error, fault);
  return code;
}

/* ---- GPUs ---- */

adlgen_gpu *api_gpu(Gpu *gpu)
{
  adlgen_gpu *handle = g_new0(adlgen_gpu, 1);
  g_atomic_ref_count_init(&handle->references);
  handle->gpu = gpu;
  return handle;
}

adlgen_gpu *adlgen_gpu_load(const char *name_or_path, adlgen_error *error)
{
  GError *fault = NULL;
  Gpu *gpu = gpu_load(name_or_path, &fault);
  return gpu ? api_gpu(gpu) : api_fail(error, fault);
}

void adlgen_gpu_free(adlgen_gpu *gpu)
{
  if (!gpu || !g_atomic_ref_count_dec(&gpu->references)) return;
  gpu_free(gpu->gpu);
  g_free(gpu);
}

const char *adlgen_gpu_name(const adlgen_gpu *gpu)
{
  return gpu->gpu->name;
}

const char *adlgen_gpu_target(const adlgen_gpu *gpu)
{
  return gpu->gpu->target;
}

char **adlgen_gpu_names(void)
{
  return gpu_names();
}

void adlgen_names_free(char **names)
{
  g_strfreev(names);
}

/* ---- compiling ---- */

adlgen_options api_options(const adlgen_options *options)
{
  adlgen_options result = {0};
  if (options) memcpy(&result, options, MIN(options->size, sizeof result));
  return result;
}

bool api_compile_options(const adlgen_options *options, CompileOptions *compile, GError **error)
{
  static const Accumulate ways[] = {[ADLGEN_ACCUMULATE_DEFAULT] = ACCUMULATE_DEFAULT,
                                    [ADLGEN_ACCUMULATE_EXACT] = ACCUMULATE_EXACT,
                                    [ADLGEN_ACCUMULATE_FAST] = ACCUMULATE_FAST};
  if (options->accumulate < 0 || (unsigned)options->accumulate >= G_N_ELEMENTS(ways)) {
    error_set(error, ERROR_USAGE, NULL, "bad-accumulate", NULL, "there is no way to accumulate %d",
              options->accumulate);
    return false;
  }
  *compile = (CompileOptions){.fast_math = options->fast_math != 0,
                              .accumulate = ways[options->accumulate],
                              .sm_budget = options->sm_budget,
                              .threads = options->jobs,
                              .sets = options->sets};
  return true;
}

static void assembly_destroy(void *assembly)
{
  assembly_free(assembly);
}

static bool assemble(adlgen_result *result, const Gpu *gpu, const adlgen_options *options, GError **error)
{
  g_autoptr(Assembler) assembler =
      assembler_find_cached(options->ptxas, NULL, cache_open(options->cache_dir, 0), error);
  if (!assembler) return false;
  unsigned n = result->result->kernels->len;
  g_autofree AssemblyJob *jobs = g_new0(AssemblyJob, n + 1);
  for (unsigned i = 0; i < n; i++) {
    const CompiledKernel *kernel = result->result->kernels->pdata[i];
    jobs[i] = (AssemblyJob){kernel->name, kernel->text, gpu->target, NULL, NULL, NULL};
  }
  bool ok = assembler_run_all(assembler, jobs, n, options->jobs, NULL, NULL) == 0;
  result->assemblies = g_ptr_array_new_with_free_func(assembly_destroy);
  for (unsigned i = 0; i < n; i++) {
    if (jobs[i].result) g_ptr_array_add(result->assemblies, jobs[i].result);
    if (jobs[i].error && error && !*error)
      g_propagate_error(error, jobs[i].error);
    else
      g_clear_error(&jobs[i].error);
  }
  return ok;
}

static adlgen_result *compile(Source *source, adlgen_gpu *gpu, const adlgen_options *given,
                              adlgen_error *error)
{
  adlgen_options options = api_options(given);
  GError *fault = NULL;
  CompileOptions compile_options;
  if (!api_compile_options(&options, &compile_options, &fault)) return api_fail(error, fault);
  g_autoptr(Graph) graph = build_graph(source, options.dims, &fault);
  if (!graph) return api_fail(error, fault);
  g_autoptr(TunedDatabase) tuned = NULL;
  if (!options.no_tuned && !(tuned = tuned_database_open(gpu->gpu, options.tuned, &fault)))
    return api_fail(error, fault);
  compile_options.tuned = tuned;
  CompileResult *compiled = generator_compile(graph, gpu->gpu, &compile_options, &fault);
  if (!compiled) return api_fail(error, fault);
  adlgen_result *result = g_new0(adlgen_result, 1);
  result->result = compiled;
  result->graph = g_steal_pointer(&graph);
  g_atomic_ref_count_inc(&gpu->references);
  result->gpu = gpu;
  result->plan = plan_text(compiled->plan);
  result->warnings = result->graph->warnings ? error_to_text(result->graph->warnings, false) : g_strdup("");
  if (!options.assemble || assemble(result, gpu->gpu, &options, &fault)) return result;
  adlgen_result_free(result);
  return api_fail(error, fault);
}

adlgen_result *adlgen_compile_file(const char *path, const adlgen_gpu *gpu, const adlgen_options *options,
                                   adlgen_error *error)
{
  GError *fault = NULL;
  g_autoptr(Source) source = source_load(path, &fault);
  return source ? compile(source, (adlgen_gpu *)gpu, options, error) : api_fail(error, fault);
}

adlgen_result *adlgen_compile_text(const char *name, const char *text, size_t length, const adlgen_gpu *gpu,
                                   const adlgen_options *options, adlgen_error *error)
{
  g_autoptr(Source) source = source_new(name, text, length);
  return compile(source, (adlgen_gpu *)gpu, options, error); /* counts a reference */
}

void adlgen_result_free(adlgen_result *result)
{
  if (!result) return;
  compile_result_free(result->result);
  graph_free(result->graph);
  adlgen_gpu_free(result->gpu);
  if (result->assemblies) g_ptr_array_unref(result->assemblies);
  g_free(result->plan);
  g_free(result->warnings);
  g_free(result);
}

/* ---- reading the result ---- */

static const CompiledKernel *kernel_at(const adlgen_result *result, size_t kernel)
{
  const GPtrArray *kernels = result->result->kernels;
  return kernel < kernels->len ? kernels->pdata[kernel] : NULL;
}

size_t adlgen_result_kernel_count(const adlgen_result *result)
{
  return result->result->kernels->len;
}

const char *adlgen_result_name(const adlgen_result *result, size_t kernel)
{
  const CompiledKernel *compiled = kernel_at(result, kernel);
  return compiled ? compiled->name : NULL;
}

const char *adlgen_result_entry(const adlgen_result *result, size_t kernel)
{
  const CompiledKernel *compiled = kernel_at(result, kernel);
  return compiled ? compiled->entry : NULL;
}

const char *adlgen_result_ptx(const adlgen_result *result, size_t kernel)
{
  const CompiledKernel *compiled = kernel_at(result, kernel);
  return compiled ? compiled->text : NULL;
}

const char *adlgen_result_ir(const adlgen_result *result, size_t kernel)
{
  const CompiledKernel *compiled = kernel_at(result, kernel);
  return compiled ? compiled->ir : NULL;
}

const void *adlgen_result_cubin(const adlgen_result *result, size_t kernel, size_t *size)
{
  if (!result->assemblies || kernel >= result->assemblies->len) return NULL;
  gsize bytes = 0;
  const void *data = g_bytes_get_data(((Assembly *)result->assemblies->pdata[kernel])->cubin, &bytes);
  if (size) *size = bytes;
  return data;
}

const char *adlgen_result_plan(const adlgen_result *result)
{
  return result->plan;
}

const char *adlgen_result_explain(const adlgen_result *result)
{
  return result->result->explain;
}

const char *adlgen_result_warnings(const adlgen_result *result)
{
  return result->warnings;
}
