#include "catalog/make.h"
#include "execute/build.h"
#include <string.h>

/* ---- generating ---- */

typedef struct GenerateJob {
  const CatalogGraph *graph;
  const Gpu *gpu;
  unsigned gpu_index;
  GPtrArray *kernels;
  GError *error;
} GenerateJob;

/* The guard of the variant that launches a kernel, as text; NULL if it is always taken. */
static char *guard_of(const Plan *plan, const char *kernel)
{
  for (unsigned i = 0; i < plan->n_launches; i++)
    for (unsigned j = 0; j < plan->launches[i]->n_variants; j++) {
      const PlanVariant *variant = plan->launches[i]->variants[j];
      if (!strcmp(variant->kernel, kernel)) return variant->guard ? symbolic_text(variant->guard) : NULL;
    }
  return NULL;
}

static char *describe(const CompiledKernel *kernel)
{
  const char *parts[] = {kernel->template_name, kernel->tile_text, kernel->mechanism, kernel->roles};
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++)
    if (parts[i] && *parts[i]) g_string_append_printf(text, "%s%s", text->len ? ", " : "", parts[i]);
  return g_string_free(text, FALSE);
}

/* A graph of which one kernel is committed gives its own name to it. */
static bool has_one_kernel(const CatalogGraph *graph, guint n)
{
  return n == 1 || (graph->variants && !(graph->variants & (graph->variants - 1)));
}

char *catalog_kernel_name(const CatalogGraph *graph, unsigned n, unsigned i)
{
  return has_one_kernel(graph, n) ? g_strdup(graph->name) : g_strdup_printf("%s.%u", graph->name, i + 1);
}

static void take_kernels(GenerateJob *job, const CompileResult *result)
{
  for (guint i = 0; i < result->kernels->len; i++) {
    if (job->graph->variants && !(job->graph->variants >> i & 1)) continue;
    const CompiledKernel *compiled = result->kernels->pdata[i];
    CatalogKernel *kernel = g_new0(CatalogKernel, 1);
    kernel->gpu = job->gpu_index;
    kernel->graph = g_strdup(job->graph->name);
    kernel->name = catalog_kernel_name(job->graph, result->kernels->len, i);
    kernel->entry = g_strdup(compiled->entry);
    kernel->target = g_strdup(job->gpu->target);
    kernel->about = describe(compiled);
    kernel->guard = guard_of(result->plan, compiled->name);
    kernel->text = g_strdup(compiled->text);
    kernel->sha256 = catalog_checksum(kernel->text);
    g_ptr_array_add(job->kernels, kernel);
  }
}

static void generate_one(void *memory, void *queue)
{
  GenerateJob *job = memory;
  g_autofree char *name = g_strdup_printf("catalog.json (%s)", job->graph->name);
  g_autoptr(Source) source = source_new(name, job->graph->text, strlen(job->graph->text));
  g_autoptr(Graph) graph = build_graph(source, NULL, &job->error);
  /* the catalogue is made on all processors anyway */
  CompileOptions options = {.threads = 1,
                            .drop_ir = true,
                            .drop_notes = true,
                            .verify_each = true,
                            .sets = (const char *const *)job->graph->sets};
  g_autoptr(CompileResult) result = graph ? generator_compile(graph, job->gpu, &options, &job->error) : NULL;
  if (result) take_kernels(job, result);
  g_async_queue_push(queue, job);
}

static void run_jobs(GenerateJob *jobs, unsigned n, unsigned threads, CatalogProgress progress)
{
  GAsyncQueue *queue = g_async_queue_new();
  GThreadPool *pool =
      g_thread_pool_new(generate_one, queue, (int)(threads ? threads : g_get_num_processors()), FALSE, NULL);
  for (unsigned i = 0; i < n; i++)
    g_thread_pool_push(pool, &jobs[i], NULL);
  for (unsigned i = 0; i < n; i++) {
    g_async_queue_pop(queue);
    if (progress) progress(i + 1, n, "generating");
  }
  g_thread_pool_free(pool, FALSE, TRUE);
  g_async_queue_unref(queue);
}

static void free_gpu(void *gpu)
{
  gpu_free(gpu);
}

/* The entry's place, then the places in the graph that its variables made of it. */
static void report_job(const GenerateJob *job, GError **error)
{
  const GPtrArray *diagnostics = error_diagnostics(job->error);
  error_add(error, error_exit_code(job->error), SEVERITY_ERROR, &job->graph->mark, "catalog", NULL,
            "%s for %s: %s", job->graph->name, job->gpu->name, job->error->message);
  for (guint i = 0; diagnostics && i < diagnostics->len; i++) {
    const Diagnostic *one = diagnostics->pdata[i];
    const Mark mark = {one->source, one->line, one->column};
    if (one->source)
      error_add(error, error_exit_code(job->error), SEVERITY_NOTE, &mark, one->code, one->hint, "%s",
                one->message);
  }
}

/* Adds what a job gave to the whole, faults to the error; in the order of jobs, whatever order they ran in.
 */
static void gather(GenerateJob *job, GPtrArray *kernels, GError **error)
{
  for (guint i = 0; i < job->kernels->len; i++)
    g_ptr_array_add(kernels, job->kernels->pdata[i]);
  g_ptr_array_unref(job->kernels);
  if (job->error) report_job(job, error);
  g_clear_error(&job->error);
}

/* Runs the jobs of graphs and GPUs that are wanted; their kernels, or NULL. */
static GPtrArray *generate(const Catalog *catalog,
                           bool (*wanted)(const void *data, unsigned gpu, const char *graph),
                           const void *data, unsigned threads, CatalogProgress progress, GError **error)
{
  unsigned n_gpus = g_strv_length(catalog->gpus), n = 0;
  g_autoptr(GPtrArray) gpus = g_ptr_array_new_with_free_func(free_gpu);
  g_autofree GenerateJob *jobs = g_new0(GenerateJob, (gsize)n_gpus * catalog->graphs->len + 1);
  GError *first = NULL;
  for (unsigned g = 0; g < n_gpus && !first; g++) {
    Gpu *gpu = NULL;
    for (guint i = 0; i < catalog->graphs->len; i++) {
      CatalogGraph *graph = catalog->graphs->pdata[i];
      if (!(graph->gpus >> g & 1) || !wanted(data, g, graph->name)) continue;
      if (!gpu && !(gpu = gpu_load(catalog->gpus[g], &first))) {
        error_place(first, &catalog->gpu_marks[g]);
        break;
      }
      jobs[n++] = (GenerateJob){graph, gpu, g, g_ptr_array_new(), NULL};
    }
    if (gpu) g_ptr_array_add(gpus, gpu);
  }
  if (!first) run_jobs(jobs, n, threads, progress);
  GPtrArray *kernels = g_ptr_array_new_with_free_func(catalog_kernel_free);
  for (unsigned i = 0; i < n; i++)
    gather(&jobs[i], kernels, &first);
  if (!first) return kernels;
  g_propagate_error(error, first);
  g_ptr_array_unref(kernels);
  return NULL;
}

static bool is_selected(const void *data, unsigned gpu, const char *graph)
{
  const bool *selected = data;
  return selected[gpu];
}

GPtrArray *catalog_generate(const Catalog *catalog, const bool *selected, unsigned threads,
                            CatalogProgress progress, GError **error)
{
  return generate(catalog, is_selected, selected, threads, progress, error);
}

static bool lacks_text(const void *data, unsigned gpu, const char *graph)
{
  const GPtrArray *kernels = data;
  for (guint i = 0; i < kernels->len; i++) {
    const CatalogKernel *kernel = kernels->pdata[i];
    if (!kernel->text && kernel->gpu == gpu && !strcmp(kernel->graph, graph)) return true;
  }
  return false;
}

bool catalog_make_texts(const Catalog *catalog, GPtrArray *kernels, unsigned threads,
                        CatalogProgress progress, GError **error)
{
  g_autoptr(GPtrArray) made = generate(catalog, lacks_text, kernels, threads, progress, error);
  bool ok = made != NULL;
  for (guint i = 0; made && i < kernels->len; i++) {
    CatalogKernel *kernel = kernels->pdata[i];
    for (guint j = 0; !kernel->text && j < made->len; j++) {
      const CatalogKernel *other = made->pdata[j];
      if (other->gpu == kernel->gpu && !strcmp(other->name, kernel->name))
        kernel->text = g_strdup(other->text);
    }
    if (kernel->text) continue;
    error_add(error, ERROR_INPUT, SEVERITY_ERROR, NULL, "catalog", NULL,
              "catalog.json gives no kernel %s for %s any more, though the manifest lists it", kernel->name,
              catalog->gpus[kernel->gpu]);
    ok = false;
  }
  return ok;
}

/* ---- assembling ---- */

static void resource_free(void *memory)
{
  CatalogResource *resource = memory;
  g_free(resource->file);
  g_free(resource);
}

static CatalogResources *resources_new(const char *assembler)
{
  CatalogResources *resources = g_new0(CatalogResources, 1);
  resources->assembler = g_strdup(assembler);
  resources->resources = g_ptr_array_new_with_free_func(resource_free);
  resources->findings = g_ptr_array_new_with_free_func(g_free);
  return resources;
}

void catalog_resources_free(CatalogResources *resources)
{
  if (!resources) return;
  g_free(resources->assembler);
  g_ptr_array_unref(resources->resources);
  g_ptr_array_unref(resources->findings);
  g_free(resources);
}

static int compare_resources(const void *a, const void *b)
{
  return strcmp((*(CatalogResource *const *)a)->file, (*(CatalogResource *const *)b)->file);
}

static void take_assembly(CatalogResources *resources, const CatalogKernel *kernel, const Assembly *assembly)
{
  const AssembledEntry *entry = assembly_entry(assembly, kernel->entry);
  CatalogResource *resource = g_new0(CatalogResource, 1);
  resource->file = g_strdup(kernel->file);
  resource->cubin_bytes = g_bytes_get_size(assembly->cubin);
  if (entry) {
    resource->registers = entry->registers;
    resource->barriers = entry->barriers;
    resource->spill_bytes = entry->spill_stores + entry->spill_loads;
    resource->stack = entry->stack;
    resource->shared = entry->shared;
  }
  g_ptr_array_add(resources->resources, resource);
  for (guint i = 0; i < assembly->findings->len; i++)
    g_ptr_array_add(resources->findings,
                    g_strdup_printf("%s: %s", kernel->file, (const char *)assembly->findings->pdata[i]));
}

static void assembling(unsigned done, unsigned n, void *progress)
{
  (*(CatalogProgress *)progress)(done, n, "assembling");
}

CatalogResources *catalog_assemble(const GPtrArray *kernels, const bool *selected, const Assembler *assembler,
                                   unsigned threads, CatalogProgress progress, GError **error)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  g_autofree AssemblyJob *jobs = g_new0(AssemblyJob, kernels->len + 1);
  g_autofree const CatalogKernel **job_kernels = g_new0(const CatalogKernel *, kernels->len + 1);
  unsigned n = 0;
  for (guint i = 0; i < kernels->len; i++) {
    const CatalogKernel *kernel = kernels->pdata[i];
    if (!selected[kernel->gpu] || !g_hash_table_add(seen, kernel->file)) continue;
    job_kernels[n] = kernel;
    jobs[n++] = (AssemblyJob){kernel->file, kernel->text, kernel->target, NULL, NULL, NULL};
  }
  unsigned failed = assembler_run_all(assembler, jobs, n, threads, progress ? assembling : NULL, &progress);
  CatalogResources *resources = resources_new(assembler->version);
  for (unsigned i = 0; i < n; i++) {
    if (jobs[i].result) take_assembly(resources, job_kernels[i], jobs[i].result);
    if (jobs[i].error)
      error_add(error, ERROR_VERIFY, SEVERITY_ERROR, NULL, "assembler-refused", NULL, "%s",
                jobs[i].error->message);
    assembly_free(jobs[i].result);
    g_clear_error(&jobs[i].error);
  }
  if (resources->resources->len)
    qsort(resources->resources->pdata, resources->resources->len, sizeof(void *), compare_resources);
  if (!failed) return resources;
  catalog_resources_free(resources);
  return NULL;
}

/* ---- resources.json ---- */

char *catalog_resources_text(const CatalogResources *resources)
{
  GString *text = g_string_new(NULL);
  g_string_append_printf(text, "{\"version\": 1, \"ptxas\": \"%s\", \"kernels\": [", resources->assembler);
  for (guint i = 0; i < resources->resources->len; i++) {
    const CatalogResource *row = resources->resources->pdata[i];
    g_string_append_printf(
        text,
        "%s\n  {\"file\": \"%s\", \"registers\": %u, \"barriers\": %u, \"spill_bytes\": %" G_GUINT64_FORMAT
        ", \"stack\": %" G_GUINT64_FORMAT ", \"shared\": %" G_GUINT64_FORMAT
        ", \"cubin_bytes\": %" G_GUINT64_FORMAT "}",
        i ? "," : "", row->file, row->registers, row->barriers, row->spill_bytes, row->stack, row->shared,
        row->cubin_bytes);
  }
  g_string_append(text, "\n]}\n");
  return g_string_free(text, FALSE);
}

static uint64_t integer_member(const json_t *row, const char *key)
{
  return (uint64_t)json_integer_value(json_object_get(row, key));
}

CatalogResources *catalog_resources_read(const char *path, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr(GError) system = NULL;
  if (!g_file_get_contents(path, &text, NULL, &system) &&
      !g_error_matches(system, G_FILE_ERROR, G_FILE_ERROR_NOENT)) {
    error_set(error, ERROR_INPUT, NULL, "catalog", NULL, "%s: %s", path, system->message);
    return NULL;
  }
  return catalog_resources_parse(text, path, error);
}

CatalogResources *catalog_resources_parse(const char *text, const char *path, GError **error)
{
  if (!text) return resources_new(NULL);
  json_error_t where;
  json_t *root = json_loads(text, 0, &where);
  if (!root) {
    error_set(error, ERROR_INPUT, NULL, "catalog", NULL, "%s:%d: %s", path, where.line, where.text);
    return NULL;
  }
  CatalogResources *resources = resources_new(json_string_value(json_object_get(root, "ptxas")));
  size_t i = 0;
  json_t *row = NULL;
  json_array_foreach(json_object_get(root, "kernels"), i, row)
  {
    CatalogResource *resource = g_new0(CatalogResource, 1);
    const char *file = json_string_value(json_object_get(row, "file"));
    resource->file = g_strdup(file ? file : "");
    resource->registers = (unsigned)integer_member(row, "registers");
    resource->barriers = (unsigned)integer_member(row, "barriers");
    resource->spill_bytes = integer_member(row, "spill_bytes");
    resource->stack = integer_member(row, "stack");
    resource->shared = integer_member(row, "shared");
    resource->cubin_bytes = integer_member(row, "cubin_bytes");
    g_ptr_array_add(resources->resources, resource);
  }
  json_decref(root);
  return resources;
}

const CatalogResource *catalog_resource(const CatalogResources *resources, const char *file)
{
  for (guint i = 0; i < resources->resources->len; i++) {
    const CatalogResource *resource = resources->resources->pdata[i];
    if (!strcmp(resource->file, file)) return resource;
  }
  return NULL;
}

char *catalog_resource_rise(const CatalogResource *from, const CatalogResource *to)
{
  const struct {
    const char *what;
    uint64_t from, to;
  } budgets[] = {{"registers", from->registers, to->registers},
                 {"spill bytes", from->spill_bytes, to->spill_bytes},
                 {"stack", from->stack, to->stack},
                 {"shared", from->shared, to->shared}};
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < G_N_ELEMENTS(budgets); i++)
    if (budgets[i].to > budgets[i].from)
      g_string_append_printf(text, "%s%s %" G_GUINT64_FORMAT " -> %" G_GUINT64_FORMAT, text->len ? ", " : "",
                             budgets[i].what, budgets[i].from, budgets[i].to);
  char *result = text->len ? g_strdup(text->str) : NULL;
  g_string_free(text, TRUE);
  return result;
}
