#include "execute/build.h"
#include <string.h>

Graph *build_graph(Source *source, const char *const *dims, GError **error)
{
  return build_graph_with(source, dims, &(GraphReading){0}, error);
}

Graph *build_graph_with(Source *source, const char *const *dims, const GraphReading *reading, GError **error)
{
  unsigned n = dims ? g_strv_length((char **)dims) : 0;
  g_autoptr(Arena) arena = arena_new();
  GraphBinding *bindings = arena_new_array(arena, GraphBinding, n);
  for (unsigned i = 0; i < n; i++)
    if (!graph_binding_parse(arena, dims[i], &bindings[i], error)) return NULL;
  GraphReading bound = *reading;
  bound.bindings = bindings;
  bound.n_bindings = n;
  return graph_read_with(source, &bound, error);
}

/* ---- the set of kernels ---- */

static void gpu_destroy(void *gpu)
{
  gpu_free(gpu);
}

static void result_destroy(void *result)
{
  compile_result_free(result);
}

static void compiled_kernel_destroy(void *kernel)
{
  compiled_kernel_free(kernel);
}

/* One Assembly may serve several kernels; the first of them owns it. */
typedef struct OwnedKernel {
  BuildKernel public;
  bool owns_assembly;
} OwnedKernel;

static void kernel_destroy(void *memory)
{
  OwnedKernel *kernel = memory;
  if (kernel->owns_assembly) assembly_free(kernel->public.assembly);
  g_free(kernel);
}

Build *build_new(void)
{
  Build *build = g_new0(Build, 1);
  build->gpus = g_ptr_array_new_with_free_func(gpu_destroy);
  build->results = g_ptr_array_new_with_free_func(result_destroy);
  build->loose = g_ptr_array_new_with_free_func(compiled_kernel_destroy);
  build->kernels = g_ptr_array_new_with_free_func(kernel_destroy);
  return build;
}

void build_free(Build *build)
{
  if (!build) return;
  g_ptr_array_unref(build->kernels);
  g_ptr_array_unref(build->loose);
  g_ptr_array_unref(build->results);
  g_ptr_array_unref(build->gpus);
  g_free(build);
}

static void add_kernel(Build *build, const Gpu *gpu, const CompiledKernel *kernel)
{
  OwnedKernel *owned = g_new0(OwnedKernel, 1);
  owned->public.gpu = gpu;
  owned->public.kernel = kernel;
  g_ptr_array_add(build->kernels, owned);
}

void build_add_result(Build *build, Gpu *gpu, CompileResult *result)
{
  g_ptr_array_add(build->gpus, gpu);
  g_ptr_array_add(build->results, result);
  for (guint i = 0; i < result->kernels->len; i++)
    add_kernel(build, gpu, result->kernels->pdata[i]);
}

void build_add_kernel(Build *build, Gpu *gpu, CompiledKernel *kernel)
{
  g_ptr_array_add(build->gpus, gpu);
  g_ptr_array_add(build->loose, kernel);
  add_kernel(build, gpu, kernel);
}

const BuildKernel *build_kernel(const Build *build, const Gpu *gpu, const char *name)
{
  for (guint i = 0; i < build->kernels->len; i++) {
    const BuildKernel *kernel = build->kernels->pdata[i];
    if (kernel->gpu == gpu && !strcmp(kernel->kernel->name, name)) return kernel;
  }
  return NULL;
}

/* ---- assembling ---- */

/* Kernels that share text and target share a job: index of the job of each kernel. */
static unsigned gather_jobs(const Build *build, AssemblyJob *jobs, unsigned *job_of)
{
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  unsigned n = 0;
  for (guint i = 0; i < build->kernels->len; i++) {
    const BuildKernel *kernel = build->kernels->pdata[i];
    const char *hash = kernel->kernel->text_hash, *text = hash ? hash : kernel->kernel->text;
    char *key = g_strconcat(kernel->gpu->target, "\n", text, NULL);
    void *index = NULL;
    if (g_hash_table_lookup_extended(seen, key, NULL, &index)) {
      job_of[i] = GPOINTER_TO_UINT(index);
      g_free(key);
      continue;
    }
    job_of[i] = n;
    jobs[n] =
        (AssemblyJob){kernel->kernel->name, kernel->kernel->text, kernel->gpu->target, hash, NULL, NULL};
    g_hash_table_insert(seen, key, GUINT_TO_POINTER(n++));
  }
  return n;
}

static void merge_error(GError **error, const GError *fault)
{
  error_add(error, error_exit_code(fault), SEVERITY_ERROR, NULL, "assembler-refused", NULL, "%s",
            fault->message);
}

bool build_assemble(Build *build, const Assembler *assembler, unsigned jobs_at_once,
                    void (*progress)(unsigned done, unsigned n, void *data), void *data, GError **error)
{
  g_autofree AssemblyJob *jobs = g_new0(AssemblyJob, build->kernels->len);
  g_autofree unsigned *job_of = g_new0(unsigned, build->kernels->len);
  g_autofree bool *taken = g_new0(bool, build->kernels->len);
  unsigned n = gather_jobs(build, jobs, job_of);
  bool ok = assembler_run_all(assembler, jobs, n, jobs_at_once, progress, data) == 0;
  for (guint i = 0; i < build->kernels->len; i++) {
    OwnedKernel *kernel = build->kernels->pdata[i];
    kernel->public.assembly = jobs[job_of[i]].result;
    kernel->owns_assembly = !taken[job_of[i]];
    taken[job_of[i]] = true;
  }
  for (unsigned i = 0; i < n; i++) {
    if (jobs[i].error) merge_error(error, jobs[i].error);
    g_clear_error(&jobs[i].error);
  }
  return ok;
}

bool build_check_sets(const char *const *sets, const bool *used, GError **error)
{
  for (unsigned i = 0; sets[i]; i++) {
    if (used[i]) continue;
    error_set(error, ERROR_INPUT, NULL, "unknown-parameter", "adlgen compile --explain names the templates",
              "--set %s: no kernel of this graph has such a parameter, or may have that value", sets[i]);
    return false;
  }
  return true;
}
