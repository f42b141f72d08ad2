#include "cli/catalog_simulate.h"
#include "catalog/cases.h"
#include "catalog/make.h"
#include "cli/report.h"
#include "execute/data.h"
#include "execute/execute.h"
#include "execute/report.h"
#include <math.h>
#include <string.h>

#define MAX_FAILURES 3 /* of one kernel: its further cases would say the same */
/* Persistent kernels get two SMs, so that small sizes already give a block several tiles. */
#define FEW_SMS 2

typedef struct Whole Whole;

/* A distinct file of the catalogue, with what its GPU's compiler gives for its graph. */
typedef struct Subject {
  Whole *whole;
  const CatalogKernel *committed;
  const CatalogGraph *graph;
  const Gpu *gpu;
  Source *source;
  CompileResult *compiled;
  CompiledKernel *kernel; /* of compiled */
  Arena *arena;
  CatalogCase *cases;
  unsigned n_cases;
  unsigned failures;
  uint64_t wavefronts[2], sectors[2]; /* with counts, of the largest case: what it took, and the least */
  char *problem;                      /* why there is nothing to run */
} Subject;

typedef struct Job {
  Subject *subject;
  const CatalogCase *tried; /* NULL: the subject has a problem */
  char *failure;            /* NULL: passed */
  char *details;            /* the simulator's whole report */
  bool left_out;
} Job;

struct Whole {
  const CatalogSimulation *simulation;
  const Cli *cli;
  GPtrArray *committed; /* CatalogKernel * */
  GPtrArray *gpus;      /* Gpu *, as catalog->gpus; NULL where not selected */
  GArray *subjects;     /* Subject */
  GArray *jobs;         /* Job */
  unsigned passed, failed, left_out;
  json_t *failures;
};

/* ---- which kernels ---- */

static bool load_committed(Whole *whole, GError **error)
{
  const CatalogSimulation *s = whole->simulation;
  for (unsigned i = 0; s->catalog->gpus[i]; i++) {
    Gpu *gpu = s->selected[i] ? gpu_load(s->catalog->gpus[i], error) : NULL;
    if (s->selected[i] && !gpu) return false;
    g_ptr_array_add(whole->gpus, gpu);
    if (gpu && !catalog_read_manifest(s->catalog, s->folder, i, whole->committed, error)) return false;
  }
  return true;
}

static bool is_wanted(const Whole *whole, const CatalogKernel *kernel)
{
  const char *const *only = whole->simulation->only;
  return !*only || g_strv_contains(only, kernel->name);
}

static bool check_dims(const Whole *whole, GError **error)
{
  g_autoptr(Arena) arena = arena_new();
  GraphBinding binding;
  for (const char *const *dim = whole->simulation->dims; *dim; dim++)
    if (!graph_binding_parse(arena, *dim, &binding, error)) return false;
  return true;
}

static bool choose_subjects(Whole *whole, GError **error)
{
  g_autoptr(GHashTable) files = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) found = g_hash_table_new(g_str_hash, g_str_equal);
  for (guint i = 0; i < whole->committed->len; i++) {
    const CatalogKernel *kernel = whole->committed->pdata[i];
    if (!is_wanted(whole, kernel)) continue;
    g_hash_table_add(found, kernel->name);
    if (!g_hash_table_add(files, kernel->file)) continue;
    const Subject subject = {.whole = whole,
                             .committed = kernel,
                             .graph = catalog_graph(whole->simulation->catalog, kernel->graph),
                             .gpu = whole->gpus->pdata[kernel->gpu]};
    g_array_append_val(whole->subjects, subject);
  }
  for (const char *const *name = whole->simulation->only; *name; name++)
    if (!g_hash_table_contains(found, *name)) {
      error_set(error, ERROR_INPUT, NULL, "unknown-kernel", "the manifests generated/*.json list them",
                "the catalogue has no kernel %s", *name);
      return false;
    }
  return true;
}

/* ---- compiling ---- */

static bool compile_subject(Subject *s, unsigned sms, GError **error)
{
  g_autoptr(Graph) graph = graph_read(s->source, NULL, 0, error);
  const CompileOptions options = {
      .threads = 1, .drop_ir = true, .sm_budget = sms, .sets = (const char *const *)s->graph->sets};
  s->compiled = graph ? generator_compile(graph, s->gpu, &options, error) : NULL;
  s->kernel = NULL;
  for (guint i = 0; s->compiled && i < s->compiled->kernels->len; i++) {
    g_autofree char *name = catalog_kernel_name(s->graph, s->compiled->kernels->len, i);
    bool is_committed = !s->graph->variants || s->graph->variants >> i & 1;
    if (is_committed && !strcmp(name, s->committed->name)) s->kernel = s->compiled->kernels->pdata[i];
  }
  return s->compiled != NULL;
}

static bool is_committed_text(const Subject *s)
{
  if (!s->kernel) return false;
  if (s->committed->text) return !strcmp(s->kernel->text, s->committed->text);
  g_autofree char *sum = catalog_checksum(s->kernel->text);
  return !strcmp(sum, s->committed->sha256);
}

static void choose_cases(Subject *s, GError **error)
{
  const Plan *plan = s->compiled->plan;
  const CatalogSimulation *simulation = s->whole->simulation;
  if (!*simulation->dims && !simulation->has_skew) {
    s->cases = catalog_cases(plan, s->kernel, s->arena, &s->n_cases);
    if (!s->n_cases) s->problem = g_strdup("no size was found at which the plan launches it");
    return;
  }
  CatalogCase *one = arena_new_array(s->arena, CatalogCase, 1);
  one->symbols = arena_new_array(s->arena, int64_t, plan->n_symbols + 1);
  one->skew = simulation->skew;
  for (unsigned i = 0; i < plan->n_symbols; i++) {
    one->symbols[i] = MAX(plan->symbols[i].min, MAX(plan->symbols[i].multiple, 1));
    for (const char *const *dim = simulation->dims; *dim; dim++) {
      GraphBinding binding;
      if (!graph_binding_parse(s->arena, *dim, &binding, error)) return;
      if (!strcmp(binding.name, plan->symbols[i].name)) one->symbols[i] = binding.value;
    }
  }
  s->cases = one;
  s->n_cases = 1;
  if (!catalog_case_launches(plan, s->kernel, one)) {
    g_autofree char *text = catalog_case_text(plan, one);
    s->problem = g_strdup_printf("the plan does not launch it at %s", text);
  }
}

/* In a thread of its own: touches its subject only. */
static void prepare_subject(void *memory, void *queue)
{
  Subject *s = memory;
  g_autoptr(GError) error = NULL;
  s->arena = arena_new();
  if (s->graph) {
    g_autofree char *name = g_strdup_printf("catalog.json (%s)", s->graph->name);
    s->source = source_new(name, s->graph->text, strlen(s->graph->text));
    bool fits = compile_subject(s, FEW_SMS, NULL); /* blocks that share tiles may need more */
    if (!fits || !is_committed_text(s)) {
      compile_result_free(s->compiled);
      compile_subject(s, 0, &error);
    }
  }
  if (error)
    s->problem = g_strdup(error->message);
  else if (!s->kernel)
    s->problem = g_strdup("catalog.json has no such kernel any more");
  else if (!is_committed_text(s) && !s->whole->simulation->edited)
    s->problem = g_strdup("the compiler emits another text now; adlgen catalog check shows the difference");
  else
    choose_cases(s, &error);
  if (s->n_cases)
    s->n_cases =
        catalog_sample(s->compiled->plan, s->kernel, s->cases, s->n_cases, s->whole->simulation->cases);
  if (s->kernel && !s->problem && s->committed->text) {
    g_free(s->kernel->text);
    s->kernel->text = g_strdup(s->committed->text);
  }
  if (error && !s->problem) s->problem = g_strdup(error->message);
  g_async_queue_push(queue, s);
}

static void subject_clear(void *memory)
{
  Subject *s = memory;
  compile_result_free(s->compiled);
  source_unref(s->source);
  arena_free(s->arena);
  g_free(s->problem);
}

/* ---- one case ---- */

static char *first_line(const char *text)
{
  return g_strndup(text, strcspn(text, "\n"));
}

static void explain_faults(Job *job, const ExecutionFaults *faults)
{
  size_t i = 0;
  json_t *fault = NULL;
  json_array_foreach(faults->list, i, fault)
  {
    if (strcmp(json_string_value(json_object_get(fault, "severity")), "error") != 0) continue;
    g_autofree char *message = first_line(json_string_value(json_object_get(fault, "message")));
    job->failure = g_strdup_printf("%s at line %d: %s", json_string_value(json_object_get(fault, "kind")),
                                   (int)json_integer_value(json_object_get(fault, "line")), message);
    break;
  }
  job->details = g_strdup(faults->text->str);
}

static void explain_outputs(Job *job, const Graph *graph, const RunComparison *comparisons)
{
  for (unsigned i = 0; i < graph->n_outputs && !job->failure; i++) {
    const Comparison *c = &comparisons[i].whole;
    if (run_comparison_passes(&comparisons[i])) continue;
    job->failure = g_strdup_printf("output %s: error %.2e, limit %.0e, %zu misplaced, %zu outliers",
                                   graph->outputs[i]->name, c->error, c->limit, c->misplaced, c->outliers);
    job->details = run_comparison_reason(graph->outputs[i], &comparisons[i]);
  }
}

/* Sums of the largest case; only one job touches them. */
static void take_counts(Job *job, const ExecutionFaults *faults)
{
  Subject *s = job->subject;
  size_t i = 0, k = 0;
  json_t *launch = NULL, *row = NULL;
  if (job->tried != &s->cases[s->n_cases - 1]) return;
  json_array_foreach(faults->counts, i, launch)
  {
    json_array_foreach(json_object_get(launch, "instructions"), k, row)
    {
      s->wavefronts[0] += (uint64_t)json_integer_value(json_object_get(row, "wavefronts"));
      s->wavefronts[1] += (uint64_t)json_integer_value(json_object_get(row, "least_wavefronts"));
      s->sectors[0] += (uint64_t)json_integer_value(json_object_get(row, "sectors"));
      s->sectors[1] += (uint64_t)json_integer_value(json_object_get(row, "least_sectors"));
    }
  }
}

static bool simulate(Job *job, const Graph *graph, const Graph *compiled, Execution *x, Arena *arena,
                     GError **error)
{
  const CatalogSimulation *simulation = job->subject->whole->simulation;
  SimOptions options = simulation->options;
  options.jobs = 1;
  options.strict = true; /* these are our own kernels */
  g_autoptr(RunData) data = run_data_new(graph, NULL, options.seed, error);
  if (!data || !run_data_put_inputs(data, compiled, x, error)) return false;
  g_autoptr(ExecutionFaults) faults = execution_faults_new();
  if (!execution_simulate(x, &options, faults, error)) return false;
  if (faults->n_errors) {
    explain_faults(job, faults);
    return true;
  }
  take_counts(job, faults);
  if (!run_data_take_outputs(data, x, error)) return false;
  const RunCheck check = {.tolerance = INFINITY};
  const RunComparison *comparisons = run_data_check(data, &check, arena, error);
  if (comparisons) explain_outputs(job, graph, comparisons);
  return comparisons != NULL;
}

static bool try_case(Job *job, Arena *arena, GError **error)
{
  const Subject *s = job->subject;
  const Plan *plan = s->compiled->plan;
  GraphBinding *bindings = arena_new_array(arena, GraphBinding, plan->n_symbols + 1);
  for (unsigned i = 0; i < plan->n_symbols; i++)
    bindings[i] = (GraphBinding){plan->symbols[i].name, job->tried->symbols[i]};
  g_autoptr(Graph) open = graph_read(s->source, NULL, 0, error);
  g_autoptr(Graph) graph = open ? graph_read(s->source, bindings, plan->n_symbols, error) : NULL;
  g_autoptr(Execution) x =
      graph ? execution_new(s->compiled, s->gpu, bindings, plan->n_symbols, error) : NULL;
  if (!x) return false;
  for (unsigned i = 0; i < plan->n_tensors; i++)
    if (plan->tensors[i]->kind != PLAN_WORKSPACE)
      x->tensors[i].skew = catalog_tensor_skew(plan->tensors[i], job->tried->skew);
  return simulate(job, graph, open, x, arena, error);
}

static void run_job(void *memory, void *queue)
{
  Job *job = memory;
  Subject *s = job->subject;
  if (!job->tried) {
    job->failure = g_strdup(s->problem);
  } else if (g_atomic_int_get((gint *)&s->failures) >= MAX_FAILURES) {
    job->left_out = true;
  } else {
    g_autoptr(GError) error = NULL;
    g_autoptr(Arena) arena = arena_new();
    if (!try_case(job, arena, &error)) {
      job->failure = first_line(error->message);
      job->details = g_strconcat(error->message, "\n", NULL);
    }
    if (job->failure) g_atomic_int_inc((gint *)&s->failures);
  }
  g_async_queue_push(queue, job);
}

/* ---- reporting ---- */

/* The command that runs one case again. */
static char *repeat_command(const Job *job)
{
  const Subject *s = job->subject;
  const SimOptions *options = &s->whole->simulation->options;
  GString *text = g_string_new("adlgen catalog simulate");
  g_string_append_printf(text, " --gpu %s --kernel %s", s->gpu->name, s->committed->name);
  for (unsigned i = 0; job->tried && i < s->compiled->plan->n_symbols; i++)
    g_string_append_printf(text, " --dim %s=%" G_GINT64_FORMAT, s->compiled->plan->symbols[i].name,
                           job->tried->symbols[i]);
  if (job->tried && job->tried->skew) g_string_append_printf(text, " --skew %u", job->tried->skew);
  if (s->whole->simulation->edited) g_string_append(text, " --edited");
  if (options->schedules != CATALOG_SCHEDULES)
    g_string_append_printf(text, " --schedules %u", options->schedules);
  if (options->seed) g_string_append_printf(text, " --seed %" G_GUINT64_FORMAT, options->seed);
  return g_string_free(text, FALSE);
}

static void report_failure(Whole *whole, const Job *job)
{
  const Subject *s = job->subject;
  g_autofree char *sizes = job->tried ? catalog_case_text(s->compiled->plan, job->tried) : g_strdup("");
  g_autofree char *again = repeat_command(job);
  if (whole->cli->json) {
    json_array_append_new(whole->failures, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "gpu", s->gpu->name,
                                                     "kernel", s->committed->name, "file", s->committed->file,
                                                     "sizes", sizes, "what", job->failure, "again", again));
    return;
  }
  if (whole->cli->error_terminal) fputs("\r\033[K", stderr);
  printf("FAILED %s %s%s%s: %s; again: %s\n", s->gpu->name, s->committed->name, *sizes ? " " : "", sizes,
         job->failure, again);
  const CatalogSimulation *simulation = whole->simulation;
  if ((*simulation->dims || simulation->has_skew) && job->details) fputs(job->details, stdout);
  fflush(stdout);
}

static void take_job(Whole *whole, Job *job)
{
  if (job->left_out)
    whole->left_out++;
  else if (job->failure)
    whole->failed++;
  else
    whole->passed++;
  if (job->failure) report_failure(whole, job);
  g_free(job->failure);
  g_free(job->details);
}

static char *ratio(const uint64_t pair[2])
{
  return pair[1] ? g_strdup_printf("%.3f", (double)pair[0] / (double)pair[1]) : g_strdup("-");
}

/* How far each kernel's accesses are from the least they could cost, at its largest size. */
static void print_counts(const Whole *whole)
{
  static const char *const headers[] = {"GPU",      "kernel",   "size",     ">wavefronts",
                                        ">/ least", ">sectors", ">/ least", NULL};
  g_autoptr(Table) table = table_new(headers);
  for (guint i = 0; i < whole->subjects->len; i++) {
    const Subject *s = &g_array_index(whole->subjects, Subject, i);
    if (s->problem || !s->n_cases) continue;
    g_autofree char *sizes = catalog_case_text(s->compiled->plan, &s->cases[s->n_cases - 1]);
    g_autofree char *wavefronts = g_strdup_printf("%" G_GUINT64_FORMAT, s->wavefronts[0]);
    g_autofree char *sectors = g_strdup_printf("%" G_GUINT64_FORMAT, s->sectors[0]);
    g_autofree char *bank_ratio = ratio(s->wavefronts), *sector_ratio = ratio(s->sectors);
    table_row(table, s->gpu->name, s->committed->name, sizes, wavefronts, bank_ratio, sectors, sector_ratio,
              NULL);
  }
  table_print(table, whole->cli);
}

static void print_end(const Whole *whole)
{
  if (whole->cli->json) {
    cli_print_json(json_pack("{s:i, s:i, s:i, s:i, s:i, s:O}", "version", 1, "kernels",
                             (int)whole->subjects->len, "passed", (int)whole->passed, "failed",
                             (int)whole->failed, "left_out", (int)whole->left_out, "failures",
                             whole->failures));
    return;
  }
  if (whole->simulation->options.counts) print_counts(whole);
  if (whole->left_out)
    printf("%u cases were left out: after %u failures a kernel's further cases are not run\n",
           whole->left_out, MAX_FAILURES);
  printf("%u kernels: %u passed, %u failed\n", whole->subjects->len, whole->passed, whole->failed);
}

/* ---- everything ---- */

static void show_progress(const Whole *whole, const char *what, unsigned done, unsigned n)
{
  if (whole->cli->error_terminal && !whole->cli->json) report_progress(done, n, (void *)what);
}

/* Runs each element of the array in the pool, in its order, and hands over each as it is done. */
static void in_parallel(Whole *whole, GFunc work, GArray *items, const char *what,
                        void (*done)(Whole *whole, void *item))
{
  unsigned jobs = whole->simulation->jobs ? whole->simulation->jobs : g_get_num_processors();
  GAsyncQueue *queue = g_async_queue_new();
  GThreadPool *pool = g_thread_pool_new(work, queue, (int)jobs, FALSE, NULL);
  unsigned size = g_array_get_element_size(items);
  for (guint i = 0; i < items->len; i++)
    g_thread_pool_push(pool, items->data + (size_t)i * size, NULL);
  for (guint i = 0; i < items->len; i++) {
    void *item = g_async_queue_pop(queue);
    if (done) done(whole, item);
    show_progress(whole, what, i + 1, items->len);
  }
  g_thread_pool_free(pool, FALSE, TRUE);
  g_async_queue_unref(queue);
}

/* The smallest case of every kernel first, then the second of each: a fault that many kernels have shows at
 * once. */
static void order_jobs(Whole *whole)
{
  unsigned most = 1;
  for (unsigned round = 0; round < most; round++)
    for (guint i = 0; i < whole->subjects->len; i++) {
      Subject *s = &g_array_index(whole->subjects, Subject, i);
      most = MAX(most, s->n_cases);
      Job job = {.subject = s, .tried = s->problem || round >= s->n_cases ? NULL : &s->cases[round]};
      if (job.tried || (s->problem && !round)) g_array_append_val(whole->jobs, job);
    }
}

/* A case with its graph: what another program needs to run it elsewhere. */
static json_t *job_json(const Job *job)
{
  const Subject *s = job->subject;
  const Plan *plan = s->compiled->plan;
  json_t *dims = json_object();
  for (unsigned i = 0; i < plan->n_symbols; i++)
    json_object_set_new(dims, plan->symbols[i].name, json_integer(job->tried->symbols[i]));
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:i}", "gpu", s->gpu->name, "kernel", s->committed->name,
                   "file", s->committed->file, "graph", s->graph->text, "dims", dims, "skew",
                   (int)job->tried->skew);
}

static void list_jobs_json(const Whole *whole)
{
  json_t *cases = json_array(), *problems = json_array();
  for (guint i = 0; i < whole->jobs->len; i++) {
    const Job *job = &g_array_index(whole->jobs, Job, i);
    if (job->tried)
      json_array_append_new(cases, job_json(job));
    else
      json_array_append_new(problems,
                            json_pack("{s:s, s:s, s:s}", "gpu", job->subject->gpu->name, "kernel",
                                      job->subject->committed->name, "what", job->subject->problem));
  }
  cli_print_json(json_pack("{s:i, s:o, s:o}", "version", 1, "cases", cases, "problems", problems));
}

/* What would run. */
static void list_jobs(const Whole *whole)
{
  if (whole->cli->json) {
    list_jobs_json(whole);
    return;
  }
  for (guint i = 0; i < whole->jobs->len; i++) {
    const Job *job = &g_array_index(whole->jobs, Job, i);
    const Subject *s = job->subject;
    g_autofree char *sizes =
        job->tried ? catalog_case_text(s->compiled->plan, job->tried) : g_strdup(s->problem);
    printf("%s %s: %s\n", s->gpu->name, s->committed->name, sizes);
  }
}

static void take(Whole *whole, void *item)
{
  take_job(whole, item);
}

static void free_gpu(void *gpu)
{
  gpu_free(gpu);
}

bool catalog_simulate(const CatalogSimulation *simulation, const Cli *cli, GError **error)
{
  Whole whole = {.simulation = simulation, .cli = cli, .failures = json_array()};
  whole.committed = g_ptr_array_new_with_free_func(catalog_kernel_free);
  whole.gpus = g_ptr_array_new_with_free_func(free_gpu);
  whole.subjects = g_array_new(FALSE, TRUE, sizeof(Subject));
  g_array_set_clear_func(whole.subjects, subject_clear);
  whole.jobs = g_array_new(FALSE, TRUE, sizeof(Job));
  bool ok = check_dims(&whole, error) && load_committed(&whole, error) && choose_subjects(&whole, error);
  if (ok) {
    in_parallel(&whole, prepare_subject, whole.subjects, "compiling", NULL);
    order_jobs(&whole);
  }
  if (ok && simulation->list) {
    list_jobs(&whole);
  } else if (ok) {
    in_parallel(&whole, run_job, whole.jobs, "simulating", take);
    print_end(&whole);
    if (whole.failed || !whole.passed) *cli->exit_code = ERROR_VERIFY;
  }
  g_array_free(whole.jobs, TRUE);
  g_array_free(whole.subjects, TRUE);
  g_ptr_array_unref(whole.gpus);
  g_ptr_array_unref(whole.committed);
  json_decref(whole.failures);
  return ok;
}
