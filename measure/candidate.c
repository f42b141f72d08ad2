/* Kernels of ours as candidates: compiled, or read from a folder that `adlgen compile` wrote. */
#include "measure/bench.h"
#include <string.h>

typedef struct Kernel {
  const char *name, *entry;
  char *ptx;     /* text; NULL if there is machine code alone */
  GBytes *cubin; /* read from the folder; NULL: ptx is assembled */
  bool launched;
} Kernel;

struct BenchBuild {
  const BenchCase *c;
  char *name;
  Arena *arena;
  Gpu *own_gpu; /* of the variant */
  Graph *graph;
  CompileResult *compiled; /* NULL for a folder */
  Plan *own_plan;          /* of a folder */
  const Plan *plan;
  int64_t *symbols;
  GPtrArray *kernels; /* Kernel * of the arena */
  json_t *facts;
};

typedef struct Ours {
  BenchBuild *build;
  Device *device;
  BenchCode *code;        /* where its machine code comes from, while it is loaded */
  Executable *executable; /* has the build's plan */
  uint64_t workspace, workspace_bytes;
  const void ***sets; /* [set][tensor of the executable]: addresses */
} Ours;

static GraphTensor *tensor_of_plan(const BenchCase *c, const PlanTensor *tensor)
{
  return graph_tensor(c->graph, tensor->name);
}

/* ---- builds ---- */

void bench_build_free(BenchBuild *build)
{
  if (!build) return;
  for (unsigned i = 0; build->kernels && i < build->kernels->len; i++) {
    Kernel *kernel = build->kernels->pdata[i];
    g_free(kernel->ptx);
    g_clear_pointer(&kernel->cubin, g_bytes_unref);
  }
  g_clear_pointer(&build->kernels, g_ptr_array_unref);
  compile_result_free(build->compiled);
  plan_free(build->own_plan);
  graph_free(build->graph);
  gpu_free(build->own_gpu);
  json_decref(build->facts);
  arena_free(build->arena);
  g_free(build->name);
  g_free(build);
}

const char *bench_build_name(const BenchBuild *build)
{
  return build->name;
}

json_t *bench_build_facts(const BenchBuild *build)
{
  return build->facts;
}

static const GraphBinding *binding_of(const BenchCase *c, const char *name)
{
  for (unsigned i = 0; i < c->n_bindings; i++)
    if (!strcmp(c->bindings[i].name, name)) return &c->bindings[i];
  return NULL;
}

static bool bind_symbols(BenchBuild *build, GError **error)
{
  const Plan *plan = build->plan;
  build->symbols = arena_new_array(build->arena, int64_t, plan->n_symbols);
  for (unsigned i = 0; i < plan->n_symbols; i++) {
    const GraphBinding *binding = binding_of(build->c, plan->symbols[i].name);
    build->symbols[i] = binding ? binding->value : plan->symbols[i].min;
  }
  const PlanBindings bindings = {build->symbols, NULL};
  return plan_check_bindings(plan, &bindings, error);
}

static Kernel *add_kernel(BenchBuild *build, const char *name, const char *entry)
{
  Kernel *kernel = arena_new_object(build->arena, Kernel);
  kernel->name = name;
  kernel->entry = entry;
  g_ptr_array_add(build->kernels, kernel);
  return kernel;
}

static Kernel *find_kernel(const BenchBuild *build, const char *name)
{
  for (unsigned i = 0; i < build->kernels->len; i++) {
    Kernel *kernel = build->kernels->pdata[i];
    if (!strcmp(kernel->name, name)) return kernel;
  }
  return NULL;
}

static bool compile(BenchBuild *build, const BenchVariant *variant, const Gpu *gpu, GError **error)
{
  const BenchCase *c = build->c;
  const GraphBinding *bound = variant && variant->fixed ? c->bindings : c->constants;
  unsigned n_bound = variant && variant->fixed ? c->n_bindings : c->n_constants;
  if (variant && variant->gpu) {
    build->own_gpu = gpu_load(variant->gpu, error);
    if (!build->own_gpu) return false;
    gpu = build->own_gpu;
  }
  CompileOptions options = {.drop_ir = true,
                            .accumulate = c->accumulate,
                            .sm_budget = variant ? variant->sms : 0,
                            .sets = variant ? (const char *const *)variant->sets : NULL,
                            .skip = variant ? (const char *const *)variant->skips : NULL,
                            .tuned = variant && !variant->gpu ? variant->tuned : NULL};
  unsigned n_sets = variant && variant->sets ? g_strv_length(variant->sets) : 0;
  options.set_used = arena_new_array(build->arena, bool, n_sets);
  build->graph = graph_read(c->source, bound, n_bound, error);
  build->compiled = build->graph ? generator_compile(build->graph, gpu, &options, error) : NULL;
  if (!build->compiled) return false;
  for (unsigned i = 0; i < n_sets; i++)
    if (!options.set_used[i]) {
      error_set(error, ERROR_INPUT, NULL, "unknown-parameter", NULL,
                "no kernel of %s has the parameter of %s", c->name, variant->sets[i]);
      return false;
    }
  build->plan = build->compiled->plan;
  for (unsigned i = 0; i < build->compiled->kernels->len; i++) {
    const CompiledKernel *kernel = build->compiled->kernels->pdata[i];
    add_kernel(build, kernel->name, kernel->entry)->ptx = g_strdup(kernel->text);
  }
  return true;
}

static bool read_kernel(BenchBuild *build, const char *folder, const PlanVariant *variant, GError **error)
{
  if (find_kernel(build, variant->kernel)) return true;
  Kernel *kernel = add_kernel(build, variant->kernel, variant->entry);
  const char *file = variant->text ? variant->text : variant->cubin;
  g_autofree char *path = file ? g_build_filename(folder, file, NULL) : NULL;
  char *data = NULL;
  gsize length = 0;
  GError *cause = NULL;
  if (!path || !g_file_get_contents(path, &data, &length, &cause)) {
    error_set(error, ERROR_INPUT, NULL, "unreadable", NULL, "cannot read kernel %s of the plan in %s: %s",
              variant->kernel, folder, cause ? cause->message : "it has no file");
    g_clear_error(&cause);
    return false;
  }
  if (variant->text)
    kernel->ptx = data;
  else
    kernel->cubin = g_bytes_new_take(data, length);
  return true;
}

static bool read_folder(BenchBuild *build, const char *folder, GError **error)
{
  g_autofree char *path = g_build_filename(folder, "plan.json", NULL);
  g_autoptr(Source) source = source_load(path, error);
  build->own_plan = source ? plan_read(source, error) : NULL;
  if (!build->own_plan) return false;
  build->plan = build->own_plan;
  for (unsigned i = 0; i < build->plan->n_launches; i++)
    for (unsigned j = 0; j < build->plan->launches[i]->n_variants; j++)
      if (!read_kernel(build, folder, build->plan->launches[i]->variants[j], error)) return false;
  return true;
}

/* Addresses of tensors as far as guards ask: what device_allocate() gives is aligned to 256. */
static bool mark_launched(BenchBuild *build, GError **error)
{
  const Plan *plan = build->plan;
  g_autoptr(Arena) arena = arena_new();
  uint64_t *addresses = arena_new_array(arena, uint64_t, plan->n_tensors);
  for (unsigned i = 0; i < plan->n_tensors; i++)
    addresses[i] = 4096;
  const PlanBindings bindings = {build->symbols, addresses};
  build->facts = json_object();
  json_t *list = json_array();
  json_object_set_new(build->facts, "kernels", list);
  PlanWalk walk = plan_walk(plan, &bindings);
  for (const PlanLaunch *planned = NULL;;) {
    if (!plan_walk_next(&walk, &planned, error)) return false;
    if (!planned) return true;
    const ResolvedLaunch *launch = plan_resolve(plan, planned, &walk.bindings, arena, error);
    if (!launch) return false;
    if (launch->empty) continue;
    Kernel *kernel = find_kernel(build, launch->variant->kernel);
    kernel->launched = true;
    json_array_append_new(
        list,
        json_pack("{s:s, s:s, s:[i,i,i], s:i, s:i}", "launch", planned->name, "name", kernel->name, "grid",
                  (int)launch->grid[0], (int)launch->grid[1], (int)launch->grid[2], "threads",
                  (int)(launch->variant->block[0] * launch->variant->block[1] * launch->variant->block[2]),
                  "shared", (int)launch->variant->shared));
  }
}

static bool check_tensors(const BenchBuild *build, GError **error)
{
  for (unsigned i = 0; i < build->plan->n_tensors; i++) {
    const PlanTensor *tensor = build->plan->tensors[i];
    if (tensor->kind == PLAN_WORKSPACE || tensor->n_stacks || tensor_of_plan(build->c, tensor)) continue;
    error_set(error, ERROR_INPUT, NULL, "unknown-tensor", NULL,
              "the plan of %s has a tensor %s, which %s has not", build->name, tensor->name, build->c->name);
    return false;
  }
  return true;
}

BenchBuild *bench_build_new(const BenchCase *c, const BenchVariant *variant, const Gpu *gpu, GError **error)
{
  g_autoptr(BenchBuild) build = g_new0(BenchBuild, 1);
  build->c = c;
  build->name = g_strdup(variant ? variant->name : "adlgen");
  build->arena = arena_new();
  build->kernels = g_ptr_array_new();
  bool ok = variant && variant->plan ? read_folder(build, variant->plan, error)
                                     : compile(build, variant, gpu, error);
  if (!ok || !check_tensors(build, error) || !bind_symbols(build, error) || !mark_launched(build, error))
    return NULL;
  return g_steal_pointer(&build);
}

/* ---- machine code ---- */

struct BenchCode {
  const Assembler *assembler;
  Device *device;
  GHashTable *cubins; /* digest of text and target -> GBytes */
};

BenchCode *bench_code_new(const Assembler *assembler, Device *device)
{
  BenchCode *code = g_new0(BenchCode, 1);
  code->assembler = assembler;
  code->device = device;
  code->cubins = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_bytes_unref);
  return code;
}

void bench_code_free(BenchCode *code)
{
  if (!code) return;
  g_hash_table_unref(code->cubins);
  g_free(code);
}

static char *digest_of(const char *ptx, const char *target)
{
  g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
  g_checksum_update(sum, (const guchar *)target, (gssize)strlen(target) + 1);
  g_checksum_update(sum, (const guchar *)ptx, (gssize)strlen(ptx));
  return g_strdup(g_checksum_get_string(sum));
}

static GBytes *code_get(BenchCode *code, const BenchBuild *build, const Kernel *kernel, GError **error)
{
  if (kernel->cubin) return g_bytes_ref(kernel->cubin);
  g_autofree char *target = device_target(code->device, build->plan->gpu_target, error);
  if (!target) return NULL;
  g_autofree char *digest = digest_of(kernel->ptx, target);
  GBytes *known = g_hash_table_lookup(code->cubins, digest);
  if (known) return g_bytes_ref(known);
  g_autoptr(Assembly) assembly = assembler_run(code->assembler, kernel->name, kernel->ptx, target, error);
  if (!assembly) return NULL;
  g_hash_table_insert(code->cubins, g_steal_pointer(&digest), g_bytes_ref(assembly->cubin));
  return g_bytes_ref(assembly->cubin);
}

/* Kernels that the builds launch and that are not made yet, each text once; targets: as jobs, owned. */
static GArray *jobs_of(BenchBuild *const *builds, unsigned n, const BenchCode *code, GPtrArray *texts)
{
  GArray *jobs = g_array_new(FALSE, TRUE, sizeof(AssemblyJob));
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < n; i++)
    for (unsigned j = 0; builds[i] && j < builds[i]->kernels->len; j++) {
      const Kernel *kernel = builds[i]->kernels->pdata[j];
      if (!kernel->launched || !kernel->ptx) continue;
      const char *own = builds[i]->plan->gpu_target;
      char *target = code ? device_target(code->device, own, NULL) : g_strdup(own);
      if (!target) continue;
      char *digest = digest_of(kernel->ptx, target);
      g_ptr_array_add(texts, target);
      g_ptr_array_add(texts, digest);
      if ((code && g_hash_table_contains(code->cubins, digest)) || !g_hash_table_add(seen, digest)) continue;
      AssemblyJob job = {.name = kernel->name, .ptx = kernel->ptx, .target = target};
      g_array_append_val(jobs, job);
    }
  return jobs;
}

static void clear_jobs(GArray *jobs)
{
  for (unsigned i = 0; i < jobs->len; i++) {
    AssemblyJob *job = &g_array_index(jobs, AssemblyJob, i);
    assembly_free(job->result);
    g_clear_error(&job->error);
  }
}

void bench_code_add(BenchCode *code, BenchBuild *const *builds, unsigned n, unsigned threads)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) jobs = jobs_of(builds, n, code, texts);
  assembler_run_all(code->assembler, (AssemblyJob *)(void *)jobs->data, jobs->len, threads, NULL, NULL);
  for (unsigned i = 0; i < jobs->len; i++) {
    const AssemblyJob *job = &g_array_index(jobs, AssemblyJob, i);
    if (job->result)
      g_hash_table_insert(code->cubins, digest_of(job->ptx, job->target), g_bytes_ref(job->result->cubin));
  }
  clear_jobs(jobs);
}

void bench_build_assemble(BenchBuild *const *builds, unsigned n, const Assembler *assembler, unsigned threads,
                          unsigned *n_assembled, unsigned *n_failed)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) jobs = jobs_of(builds, n, NULL, texts);
  unsigned failed =
      assembler_run_all(assembler, (AssemblyJob *)(void *)jobs->data, jobs->len, threads, NULL, NULL);
  *n_failed += failed;
  *n_assembled += jobs->len - failed;
  clear_jobs(jobs);
}

/* ---- candidates ---- */

static void ours_release(BenchCandidate *candidate)
{
  Ours *ours = candidate->data;
  executable_free(ours->executable);
  device_release(ours->device, ours->workspace);
  bench_build_free(ours->build);
  g_free(ours);
}

static bool ours_queue_observed(BenchCandidate *candidate, unsigned set, const ExecutableObserver *observer,
                                GError **error)
{
  const Ours *ours = candidate->data;
  void *workspace = (void *)(uintptr_t)ours->workspace; // NOLINT: of the device
  return executable_launch_observed(ours->executable, device_stream(ours->device), ours->sets[set],
                                    ours->build->symbols, workspace, ours->workspace_bytes, observer, error);
}

static bool ours_queue(BenchCandidate *candidate, unsigned set, GError **error)
{
  return ours_queue_observed(candidate, set, NULL, error);
}

static GBytes *take_code(void *data, unsigned kernel, GError **error)
{
  const Ours *ours = data;
  return code_get(ours->code, ours->build, ours->build->kernels->pdata[kernel], error);
}

/* Kernels are loaded here, not when they are first timed. The executable takes the plan, which the build goes
 * on reading. */
static bool load(Ours *ours, GError **error)
{
  BenchBuild *build = ours->build;
  unsigned n = build->kernels->len;
  ExecutableKernel *kernels = arena_new_array(build->arena, ExecutableKernel, n);
  bool *launched = arena_new_array(build->arena, bool, n);
  for (unsigned i = 0; i < n; i++) {
    const Kernel *kernel = build->kernels->pdata[i];
    kernels[i] = (ExecutableKernel){.name = kernel->name, .entry = kernel->entry};
    launched[i] = kernel->launched;
  }
  const KernelSource source = {.take = take_code, .data = ours};
  Context *context = context_open(0, error); /* the device's, which is current */
  Plan **plan = build->compiled ? &build->compiled->plan : &build->own_plan;
  ours->executable = context ? executable_new(*plan, context, kernels, n, &source, error) : NULL;
  if (ours->executable) *plan = NULL;
  return ours->executable && executable_load(ours->executable, launched, error);
}

/* What the compiler stacked of several constants is the executable's own. */
static bool set_stack(const Ours *ours, const BenchTensors *tensors, unsigned i, GError **error)
{
  const PlanTensor *constant = executable_tensor(ours->executable, i);
  g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  int64_t columns = 0;
  symbolic_is_constant(constant->shape[constant->rank - 1], &columns);
  for (unsigned j = 0; j < constant->n_stacks; j++) {
    const GraphTensor *from = graph_tensor(ours->build->c->graph, constant->stacks[j].name);
    int64_t shape[GRAPH_MAX_RANK];
    for (unsigned d = 0; d < from->rank; d++)
      symbolic_is_constant(from->shape[d], &shape[d]);
    Tensor *part = tensor_new(from->name, from->type, from->rank, shape, error);
    if (!part) return false;
    g_ptr_array_add(parts, part);
    if (!device_read(ours->device, part->data, bench_tensor_address(tensors, 0, from), part->bytes, error))
      return false;
  }
  g_autoptr(Tensor) stack = tensor_stack(constant->name, (Tensor *const *)(void *)parts->pdata, parts->len,
                                         constant->rank, columns, error);
  return stack && executable_set_constant(ours->executable, i, stack->data, stack->bytes, error);
}

static bool prepare(Ours *ours, const BenchTensors *tensors, GError **error)
{
  BenchBuild *build = ours->build;
  if (!load(ours, error) ||
      !executable_workspace(ours->executable, build->symbols, &ours->workspace_bytes, error))
    return false;
  ours->workspace = device_allocate(ours->device, ours->workspace_bytes, error);
  unsigned n = executable_tensor_count(ours->executable);
  for (unsigned i = 0; i < n; i++)
    if (executable_tensor(ours->executable, i)->n_stacks && !set_stack(ours, tensors, i, error)) return false;
  ours->sets = arena_new_array(build->arena, const void **, tensors->n_sets);
  for (unsigned set = 0; set < tensors->n_sets; set++) {
    ours->sets[set] = arena_new_array(build->arena, const void *, n);
    for (unsigned i = 0; i < n; i++) {
      const PlanTensor *wanted = executable_tensor(ours->executable, i);
      if (wanted->n_stacks) continue; /* NULL: its own */
      const GraphTensor *tensor = tensor_of_plan(build->c, wanted);
      ours->sets[set][i] =
          (const void *)(uintptr_t)bench_tensor_address(tensors, set, tensor); // NOLINT: of the device
    }
  }
  return ours->workspace != 0;
}

BenchCandidate *bench_candidate_new(BenchBuild *build, BenchCode *code, const BenchTensors *tensors,
                                    GError **error)
{
  Ours *ours = g_new0(Ours, 1);
  ours->build = build;
  ours->code = code;
  ours->device = bench_gpu_device(tensors->gpu);
  g_autoptr(BenchCandidate) candidate = g_new0(BenchCandidate, 1);
  candidate->name = g_strdup(build->name);
  candidate->facts = json_incref(build->facts);
  candidate->queue = ours_queue;
  candidate->queue_observed = ours_queue_observed;
  candidate->release = ours_release;
  candidate->data = ours;
  return prepare(ours, tensors, error) ? g_steal_pointer(&candidate) : NULL;
}

void bench_candidate_free(BenchCandidate *candidate)
{
  if (!candidate) return;
  if (candidate->release) candidate->release(candidate);
  json_decref(candidate->facts);
  g_free(candidate->name);
  g_free(candidate);
}
