#include "generator/compile/compile.h"
#include "base/parallel.h"
#include "generator/choose/choose.h"
#include "generator/choose/gemm_space.h"
#include "generator/choose/tuned.h"
#include "generator/compile/dry_run.h"
#include "generator/compile/kernel.h"
#include "generator/compile/names.h"
#include "generator/compile/parts.h"
#include "generator/compile/plan.h"
#include "generator/front/groups.h"
#include "generator/program/family.h"
#include "ir/mechanism.h"
#include <string.h>

/* Kernels that are made at the same time, at most about: each takes some megabytes while it is made. */
#define KERNELS_AT_ONCE 64

typedef struct {
  const Graph *graph;
  const Gpu *gpu;
  const CompileOptions *options;
  const Fusion *fusion;
  CompileResult *result;
  GString *explain;
  KernelLibraries *libraries;
  PlanLaunch **launches;   /* by the fusion's operators; NULL: there is nothing to launch */
  GPtrArray *opened;       /* OpenOperator *: their variants are chosen; in the order of the fusion */
  GHashTable *keys;        /* key text -> OpenOperator *, the first that has it */
  GHashTable *texts;       /* CompiledKernel * -> itself, equal where the texts are */
  GPtrArray *making;       /* KernelJob * of the same time */
  const Symbolic **direct; /* of each fused operator: when it reads operands as they lie, not their copies */
  const Spaces *spaces;    /* NULL: there is no product */
  GHashTable *names; /* of kernels of other parts of the graph (compile/parts.h); NULL: it is the whole */
  Mechanism mechanisms[MECHANISM_COUNT]; /* of the GPU */
} Compilation;

/* A kernel that is being made, which other threads do. */
typedef struct KernelJob {
  const Compilation *compilation;
  const FusedOperator *op;
  const Choice *choice;
  CompiledKernel *kernel; /* until the result takes it */
  Arena *expressions;     /* that the plan copies in the end */
  KernelBuild *build;
  char *tile; /* the text that the passes begin with, without the kernel's name */
  const struct KernelJob
      *like; /* made at the same time, of the same text: the passes run for that one alone */
  const CompiledKernel *taken; /* what the result has for it */
  GString *remarks;
  bool done;
  GError *error; /* if it is not */
} KernelJob;

typedef struct OpenOperator {
  const FusedOperator *op;
  OperatorKey *key;
  const struct OpenOperator *like; /* an operator before it that has the same key, and all the kernels */
  PlanLaunch *launch;
  const Symbolic *unless; /* where this holds another launch has done it; NULL: never */
  Choice *variants;
  unsigned n;
  char **names; /* of kernels, by variants; NULL where one before it has the kernel */
  GString *explain;
  KernelJob *jobs; /* by variants; all zero before and after they are being made */
} OpenOperator;

static void open_job(const Compilation *compilation, OpenOperator *opened, unsigned i)
{
  const Choice *choice = &opened->variants[i];
  CompiledKernel *kernel = g_new0(CompiledKernel, 1);
  kernel->name = g_strdup(opened->names[i]);
  kernel->entry = g_strdup(kernel->name);
  kernel->template_name = g_strdup(choice->template_name);
  kernel->tile_text = g_strdup(choice->tile_text);
  kernel->stages = choice->stages;
  opened->jobs[i] = (KernelJob){.compilation = compilation,
                                .op = choice->direct ? choice->direct : opened->op,
                                .choice = choice,
                                .kernel = kernel,
                                .expressions = arena_new(),
                                .remarks = g_string_new(NULL)};
  g_ptr_array_add(compilation->making, &opened->jobs[i]);
}

/* The name stands once in the text, at the kernel's head. */
static void take_tile_text(KernelJob *job, const CompileOptions *options)
{
  job->tile = ir_print(job->build->module);
  if (options && options->keep_tile) job->kernel->tile = g_strdup(job->tile);
  char *name = strstr(job->tile, job->kernel->name);
  size_t length = strlen(job->kernel->name);
  if (name) memmove(name, name + length, strlen(name + length) + 1);
}

/* On any thread: what it shares with other jobs is only read. */
static void build_kernel(unsigned i, void *data)
{
  const Compilation *compilation = data;
  KernelJob *job = compilation->making->pdata[i];
  job->build = kernel_build(job->op, compilation->graph, job->choice, job->kernel->name,
                            compilation->libraries, job->expressions, &job->error);
  if (job->build) take_tile_text(job, compilation->options);
}

/* Finds kernels that are one: operators may differ in what a variant makes no use of. */
static void find_equal_jobs(const Compilation *compilation)
{
  g_autoptr(GHashTable) first = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < compilation->making->len; i++) {
    KernelJob *job = compilation->making->pdata[i];
    if (!job->build) continue;
    job->like = g_hash_table_lookup(first, job->tile);
    if (!job->like) g_hash_table_insert(first, job->tile, job);
  }
}

static bool run_job(KernelJob *job)
{
  const Compilation *compilation = job->compilation;
  if (!job->build) return false;
  if (!compile_kernel(job->kernel, job->build->module, compilation->gpu, NULL, compilation->options,
                      compilation->mechanisms, job->remarks, &job->error))
    return false;
  job->build->kernel = ir_kernel(job->build->module);
  return true;
}

static void make_kernel(unsigned i, void *data)
{
  const Compilation *compilation = data;
  KernelJob *job = compilation->making->pdata[i];
  bool serial = compilation->options && compilation->options->report;
  for (unsigned before = 0; serial && before < i; before++) {
    const KernelJob *other = compilation->making->pdata[before];
    if (!other->done && !other->like) return; /* the first fault ends it */
  }
  if (!job->like) job->done = run_job(job);
}

/* ---- Kernels of one text ---- */

/* The text behind a piece of `text` that has no name of the kernel's in it, which ends at *end. */
static const char *next_piece(const char *text, const CompiledKernel *kernel, const char **end)
{
  const char *name = strstr(text, kernel->entry);
  *end = name ? name : text + strlen(text);
  return name ? name + strlen(kernel->entry) : NULL;
}

/* But for their names. */
static gboolean same_text(gconstpointer a, gconstpointer b)
{
  const CompiledKernel *x = a, *y = b;
  if (x->threads != y->threads || x->cluster != y->cluster || x->shared_bytes != y->shared_bytes)
    return FALSE;
  const char *p = x->text, *q = y->text, *p_end, *q_end;
  while (p && q) {
    const char *p_next = next_piece(p, x, &p_end), *q_next = next_piece(q, y, &q_end);
    if (p_end - p != q_end - q || memcmp(p, q, (size_t)(p_end - p)) != 0) return FALSE;
    p = p_next;
    q = q_next;
  }
  return !p && !q;
}

static guint hash_text(gconstpointer memory)
{
  const CompiledKernel *kernel = memory;
  guint hash = kernel->shared_bytes + kernel->threads;
  for (const char *at = kernel->text, *next, *end; at; at = next) {
    next = next_piece(at, kernel, &end);
    for (; at < end; at++)
      hash = hash * 31 + (guchar)*at;
  }
  return hash;
}

static void explain_kernel(Compilation *compilation, const KernelJob *job, const char *name,
                           const CompiledKernel *same)
{
  g_auto(GStrv) lines = g_strsplit(job->remarks->str, "\n", -1);
  g_string_append_printf(compilation->explain, "  kernel %s%s%s\n", name, same ? ": the text of " : "",
                         same ? same->name : "");
  for (char **line = lines; !same && *line; line++)
    if (**line) g_string_append_printf(compilation->explain, "    %s\n", *line);
}

/* Gives the result the job's kernel, unless it has one of the same text. */
static void take_kernel(Compilation *compilation, KernelJob *job)
{
  CompiledKernel *kernel = g_steal_pointer(&job->kernel);
  job->taken = job->like ? job->like->taken : g_hash_table_lookup(compilation->texts, kernel);
  explain_kernel(compilation, job, kernel->name, job->taken);
  if (job->taken) {
    compiled_kernel_free(kernel);
    return;
  }
  g_hash_table_add(compilation->texts, kernel);
  g_ptr_array_add(compilation->result->kernels, kernel);
  job->taken = kernel;
}

/* Of a job like another the tensors and dims are its own, what the passes made the other's. */
static bool finish_job(Compilation *compilation, KernelJob *job, PlanLaunch *launch, GError **error)
{
  KernelBuild build = *job->build;
  if (job->like) build.module = job->like->build->module;
  if (job->like) build.kernel = job->like->build->kernel;
  take_kernel(compilation, job);
  return compile_fill_variant(compilation->result->plan, launch, &build, job->taken, error);
}

static void clear_job(KernelJob *job)
{
  if (!job->compilation) return;
  compiled_kernel_free(job->kernel);
  kernel_build_free(job->build);
  arena_free(job->expressions);
  g_free(job->tile);
  g_string_free(job->remarks, TRUE);
  g_clear_error(&job->error);
  *job = (KernelJob){0};
}

static void opened_free(void *memory)
{
  OpenOperator *opened = memory;
  for (unsigned i = 0; i < opened->n; i++) {
    clear_job(&opened->jobs[i]);
    g_free(opened->names[i]);
  }
  g_free(opened->jobs);
  g_free(opened->names);
  g_free(opened->variants);
  operator_key_free(opened->key);
  g_string_free(opened->explain, TRUE);
  g_free(opened);
}

/* Its results have no element, whatever the symbols are. */
static bool computes_nothing(const FusedOperator *op)
{
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const GraphTensor *tensor = op->outputs[i].tensor;
    bool empty = false;
    for (unsigned d = 0; d < tensor->rank && !empty; d++)
      empty = symbolic_equals(tensor->shape[d], 0);
    if (!empty) return false;
  }
  return true;
}

static bool leaves_parts(const PlanLaunch *launch)
{
  for (unsigned i = 0; i < launch->n_variants; i++)
    for (unsigned j = 0; j < launch->variants[i]->n_arguments; j++) {
      const PlanTensor *tensor = launch->variants[i]->arguments[j].tensor;
      if (tensor && tensor->zero) return true;
    }
  return false;
}

/* Launches that share parts and flags come one after the other, also on a program's several streams. */
void compile_order_sharers(Plan *plan)
{
  const PlanLaunch *before = NULL;
  for (unsigned i = 0; i < plan->n_launches; i++) {
    PlanLaunch *launch = plan->launches[i];
    if (!leaves_parts(launch)) continue;
    bool known = !before;
    for (unsigned j = 0; before && j < launch->n_depends; j++)
      known |= launch->depends_on[j].launch == before->index;
    if (!known) plan_add_dependency(plan, launch, before, false);
    before = launch;
  }
}

/* A variant that waits for the launch before it on the stream may start while that one runs. It waits for no
 * other: that one has ended only when all before it have, since it has waited itself or was not let start
 * early. (The first launch never is, so what the caller ran before has ended, whatever it triggered.) */
void compile_allow_overlap(Plan *plan, PlanLaunch *launch)
{
  bool waits = false, follows = false;
  for (unsigned i = 0; i < launch->n_variants; i++)
    waits |= launch->variants[i]->waits;
  if (!launch->index || !waits) return;
  for (unsigned i = 0; i < launch->n_depends; i++) {
    launch->depends_on[i].dependent = true;
    follows |= launch->depends_on[i].launch + 1 == launch->index;
  }
  if (!follows) plan_add_dependency(plan, launch, plan->launches[launch->index - 1], true);
}

/* ---- Operators: choose, name, make, finish ---- */

static void keep_variants(OpenOperator *opened, const Chooser *chooser)
{
  opened->n = chooser->n;
  opened->variants = g_memdup2(chooser->variants, chooser->n * sizeof *chooser->variants);
  opened->names = g_new0(char *, chooser->n);
  opened->jobs = g_new0(KernelJob, chooser->n);
}

/* Chooses an operator's variants; it keeps those that there are. */
static bool choose_for(Compilation *compilation, OpenOperator *opened, GError **error)
{
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  bool silent = compilation->options && compilation->options->drop_notes;
  Problem problem = problem_of(opened->op, compilation->graph, compilation->gpu, compilation->options,
                               compilation->result->plan->arena);
  problem.spaces = compilation->spaces;
  DryRunner runner = {compilation->gpu, compilation->options, compilation->libraries,
                      compilation->mechanisms};
  g_autoptr(DryRuns) dry = dry_runs_new(opened->op, compilation->graph, compile_dry_run, &runner);
  problem.dry = dry;
  *chooser = (Chooser){.problem = &problem, .explain = silent ? NULL : opened->explain, .error = error};
  if (!choose_variants(chooser)) {
    if (error) choose_name_sets(compilation->options, NULL, *error);
    return false;
  }
  bool beside =
      (compilation->fusion->n > 1 || compilation->names) && gpu_has(compilation->gpu, "dependent_launch");
  for (unsigned i = 0; i < chooser->n; i++) {
    Choice *choice = &chooser->variants[i];
    choice->overlap = beside && !choice->alone;
    if (choice->direct) compilation->direct[opened->op->index] = choice->guard;
  }
  keep_variants(opened, chooser);
  return true;
}

/* The kernels of one operator differ: tiles chosen for several ranges are numbered. */
static void name_variants(OpenOperator *opened)
{
  for (unsigned i = 0; i < opened->n; i++) {
    if (opened->variants[i].kernel_of != i) continue;
    g_autofree char *base = compile_kernel_name(opened->op, &opened->variants[i]);
    unsigned number = 1;
    for (unsigned j = 0; j < i; j++) {
      g_autofree char *other =
          opened->names[j] ? compile_kernel_name(opened->op, &opened->variants[j]) : NULL;
      number += !g_strcmp0(base, other);
    }
    opened->names[i] = number > 1 ? g_strdup_printf("%s_%u", base, number) : g_strdup(base);
  }
}

/* Nodes that one rewrite of fusion put there: from the first of them on. */
static void explain_joined(GString *explain, const FusedOperator *op, unsigned first)
{
  const char *by = op->joined_by[first];
  for (unsigned i = 0; i < first; i++)
    if (op->joined_by[i] == by) return;
  g_string_append_printf(explain, "  joined by %s: %s", by, op->nodes[first]->op->name);
  for (unsigned i = first + 1; i < op->n_nodes; i++)
    if (op->joined_by[i] == by) g_string_append_printf(explain, ", %s", op->nodes[i]->op->name);
  g_string_append_c(explain, '\n');
}

/* What it computes: its program without the name, which stands above; and how its nodes came together. */
static void explain_program(GString *explain, const FusedOperator *op)
{
  g_autofree char *text = program_print(op->program);
  g_string_append_printf(explain, "  family %s%s", op->family->name, strchr(text, '\n'));
  for (unsigned i = 0; i < op->n_nodes; i++)
    if (op->joined_by[i]) explain_joined(explain, op, i);
}

static OpenOperator *add_opened(Compilation *compilation, const FusedOperator *op)
{
  OpenOperator *opened = g_new0(OpenOperator, 1);
  opened->op = op;
  opened->explain = g_string_new(NULL);
  g_ptr_array_add(compilation->opened, opened);
  g_string_append_printf(opened->explain, "%s\n", op->name);
  return opened;
}

/* A launch that does all times of the loop, where a kernel can. Its guard, which the plan's allows where it does not hold: *guard. */
static bool open_times(Compilation *compilation, const FusedOperator *op, const Symbolic **guard)
{
  const char *why;
  Plan *plan = compilation->result->plan;
  GString *explain = compilation->explain;
  if (!op->family->in_times) return false;
  const FusedOperator *all = op->family->in_times(plan->arena, op, compilation->graph->times, &why);
  if (!all) {
    g_string_append_printf(explain, "all times of the loop in one launch: no, %s\n", why);
    return false;
  }
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  Problem problem = problem_of(all, compilation->graph, compilation->gpu, compilation->options, plan->arena);
  problem.spaces = compilation->spaces;
  DryRunner runner = {compilation->gpu, compilation->options, compilation->libraries,
                      compilation->mechanisms};
  g_autoptr(DryRuns) dry = dry_runs_new(all, compilation->graph, compile_dry_run, &runner);
  problem.dry = dry;
  *chooser = (Chooser){.problem = &problem, .explain = explain};
  if (!choose_by_model(chooser)) return false;
  OpenOperator *opened = add_opened(compilation, all);
  opened->launch = plan_add_launch(plan, arena_printf(plan->arena, "%s_times", op->name));
  opened->key = operator_key(all, compilation->graph);
  g_hash_table_insert(compilation->keys, opened->key->text, opened);
  keep_variants(opened, chooser);
  name_variants(opened);
  compilation->result->in_times = 1;
  *guard = chooser->variants[0].guard;
  return true;
}

static bool open_operator(Compilation *compilation, const FusedOperator *op, GError **error)
{
  Plan *plan = compilation->result->plan;
  const Symbolic *unless = NULL;
  if (compilation->fusion->walks && open_times(compilation, op, &unless) && !unless) return true;
  OpenOperator *opened = add_opened(compilation, op);
  opened->unless = unless;
  if (computes_nothing(op)) {
    g_string_append(opened->explain, "  no kernel: its results have no elements\n");
    return true;
  }
  PlanLaunch *launch = opened->launch = plan_add_launch(plan, op->name);
  compilation->launches[op->index] = launch;
  for (unsigned i = 0; i < op->n_depends; i++)
    if (compilation->launches[op->depends_on[i]])
      plan_add_dependency(plan, launch, compilation->launches[op->depends_on[i]], false);
  opened->key = operator_key(op, compilation->graph);
  opened->like = g_hash_table_lookup(compilation->keys, opened->key->text);
  if (!opened->like) {
    g_hash_table_insert(compilation->keys, opened->key->text, opened);
    explain_program(opened->explain, op);
    if (!choose_for(compilation, opened, error)) return false;
    name_variants(opened);
    return true;
  }
  compilation->direct[op->index] = compile_rename(plan->arena, compilation->direct[opened->like->op->index],
                                                  opened->like->key, opened->key);
  g_string_append_printf(opened->explain, "  the same variants and kernels as %s\n", opened->like->op->name);
  return true;
}

/* Another part of the graph has a kernel of that name which computes something else. */
static bool is_taken(const Compilation *compilation, const char *name, const OperatorKey *key)
{
  const char *known = compilation->names ? g_hash_table_lookup(compilation->names, name) : NULL;
  return known && strcmp(known, key->text) != 0;
}

static void note_names(const Compilation *compilation)
{
  for (unsigned i = 0; compilation->names && i < compilation->opened->len; i++) {
    const OpenOperator *opened = compilation->opened->pdata[i];
    for (unsigned j = 0; j < opened->n; j++)
      if (opened->names[j])
        g_hash_table_replace(compilation->names, g_strdup(opened->names[j]), g_strdup(opened->key->text));
  }
}

/* Operators may differ only in what their names do not tell, such as how rows are aligned: then digits of
 * what they compute do. No name depends on the order of operators. */
static void name_kernels(Compilation *compilation)
{
  g_autoptr(GHashTable) taken = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) several = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (unsigned i = 0; i < compilation->opened->len; i++) {
    const OpenOperator *opened = compilation->opened->pdata[i];
    for (unsigned j = 0; j < opened->n; j++)
      if (opened->names[j] && (is_taken(compilation, opened->names[j], opened->key) ||
                               !g_hash_table_add(taken, g_strdup(opened->names[j]))))
        g_hash_table_add(several, g_strdup(opened->names[j]));
  }
  for (unsigned i = 0; i < compilation->opened->len; i++) {
    const OpenOperator *opened = compilation->opened->pdata[i];
    for (unsigned j = 0; j < opened->n; j++) {
      if (!opened->names[j] || !g_hash_table_contains(several, opened->names[j])) continue;
      g_autofree char *plain = opened->names[j];
      opened->names[j] = NULL;
      for (unsigned n = 4; !opened->names[j] || is_taken(compilation, opened->names[j], opened->key) ||
                           !g_hash_table_add(taken, g_strdup(opened->names[j]));
           n += 4) {
        g_autofree char *digits = operator_key_digits(opened->key, n);
        g_free(opened->names[j]);
        opened->names[j] = g_strdup_printf("%s_%s", plain, digits);
      }
    }
  }
  note_names(compilation);
}

/* A variant that launches nothing, in front of the others or behind them. */
static void add_nothing(Plan *plan, PlanLaunch *launch, const Symbolic *guard, const char *note)
{
  if (guard)
    plan_add_variant_before(plan, launch, launch->variants[0])->guard = guard;
  else
    compile_repeat_variant(plan, launch, launch->variants[0], NULL);
  PlanVariant *nothing = launch->variants[guard ? 0 : launch->n_variants - 1];
  nothing->grid[0] = symbolic_constant(plan->arena, 0);
  nothing->note = note;
}

/* Of a launch for all times and one for each, which do the same, one launches nothing. */
static void leave_to_others(Plan *plan, const OpenOperator *opened)
{
  PlanLaunch *launch = opened->launch;
  if (opened->unless)
    add_nothing(plan, launch, opened->unless, "nothing: one launch has done all times of the loop");
  else if (opened->op->times && opened->variants[0].guard)
    add_nothing(plan, launch, NULL, "nothing: each time of the loop has a launch");
}

static bool finish_operator(Compilation *compilation, OpenOperator *opened, GError **error)
{
  Plan *plan = compilation->result->plan;
  g_string_append(compilation->explain, opened->explain->str);
  if (!opened->launch) return true;
  if (opened->like)
    compile_repeat_launch(plan, opened->launch, opened->key, opened->like->launch, opened->like->key);
  for (unsigned i = 0; i < opened->n; i++) {
    const Choice *choice = &opened->variants[i];
    KernelJob *job = &opened->jobs[i];
    if (choice->kernel_of < i) {
      compile_repeat_variant(plan, opened->launch, opened->launch->variants[choice->kernel_of],
                             choice->guard);
      continue;
    }
    if (!job->done && !job->like) {
      choose_name_sets(compilation->options, choice, job->error);
      g_propagate_error(error, g_steal_pointer(&job->error));
      return false;
    }
    if (!finish_job(compilation, job, opened->launch, error)) return false;
  }
  leave_to_others(plan, opened);
  compile_allow_overlap(plan, opened->launch);
  plan_own_launch(plan, opened->launch);
  return true;
}

/* Makes the kernels of operators [first, last) and completes their part of the plan. */
static bool make_operators(Compilation *compilation, unsigned first, unsigned last, GError **error)
{
  const CompileOptions *options = compilation->options;
  unsigned threads = options ? options->report ? 1 : options->threads : 0;
  parallel_for(compilation->making->len, threads, build_kernel, compilation);
  find_equal_jobs(compilation);
  parallel_for(compilation->making->len, threads, make_kernel, compilation);
  bool ok = true;
  for (unsigned i = first; ok && i < last; i++)
    ok = finish_operator(compilation, compilation->opened->pdata[i], error);
  for (unsigned i = 0; i < compilation->making->len; i++)
    clear_job(compilation->making->pdata[i]);
  g_ptr_array_set_size(compilation->making, 0);
  return ok;
}

static bool compile_operators(Compilation *compilation, GError **error)
{
  const Fusion *fusion = compilation->fusion;
  for (unsigned i = 0; i < fusion->n; i++)
    if (!open_operator(compilation, fusion->operators[i], error)) return false;
  name_kernels(compilation);
  for (unsigned i = 0, first = 0; i < compilation->opened->len; i++) {
    OpenOperator *opened = compilation->opened->pdata[i];
    for (unsigned j = 0; j < opened->n; j++)
      if (opened->names[j]) open_job(compilation, opened, j);
    if (compilation->making->len < KERNELS_AT_ONCE && i + 1 < compilation->opened->len) continue;
    if (!make_operators(compilation, first, i + 1, error)) return false;
    first = i + 1;
  }
  return true;
}

/* When nobody reads what a launch writes, a copy for products; NULL: never. */
static const Symbolic *unread(const Compilation *compilation, const FusedOperator *op)
{
  const Symbolic *when = NULL;
  if (!fused_is_copy(op) || op->n_outputs != 1) return NULL;
  const GraphTensor *copy = op->outputs[0].tensor;
  if (copy->index < compilation->graph->n_tensors) return NULL;
  for (unsigned i = 0; i < compilation->fusion->n; i++) {
    const FusedOperator *reader = compilation->fusion->operators[i];
    bool reads = false;
    for (unsigned j = 0; j < reader->n_inputs; j++)
      reads |= reader->inputs[j].tensor == copy;
    if (!reads) continue;
    const Symbolic *direct = compilation->direct[i];
    if (!direct || (when && !symbolic_same(when, direct))) return NULL;
    when = direct;
  }
  return when;
}

/* Copies have a variant in front that launches nothing, for when nobody reads them. */
static void leave_out_copies(const Compilation *compilation)
{
  Plan *plan = compilation->result->plan;
  for (unsigned i = 0; i < compilation->fusion->n; i++) {
    PlanLaunch *launch = compilation->launches[i];
    const Symbolic *when = launch ? unread(compilation, compilation->fusion->operators[i]) : NULL;
    if (!when || launch->n_variants == PLAN_MAX_VARIANTS) continue;
    add_nothing(plan, launch, when, "nothing: whoever reads the copy reads what it is made of");
  }
}

static PlanTensor *add_tensor(Plan *plan, PlanTensorKind kind, const GraphTensor *tensor)
{
  return plan_add_tensor(plan, kind, tensor->name, tensor->type, tensor->rank, tensor->shape, tensor->strides,
                         tensor->align);
}

/* Indices of the tensors that kernels read, or views of. */
static GHashTable *find_used(const Fusion *fusion)
{
  GHashTable *used = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < fusion->n; i++)
    for (unsigned j = 0; j < fusion->operators[i]->n_inputs; j++)
      g_hash_table_add(used, GUINT_TO_POINTER(fusion->operators[i]->inputs[j].tensor->index));
  return used;
}

static bool is_used(GHashTable *used, const GraphTensor *tensor)
{
  return g_hash_table_contains(used, GUINT_TO_POINTER(tensor->index));
}

/* A plan's stacks are side by side along the last dimension: those along the first one, which lie one behind the other, are a vector
 * to it. */
static void flatten(Plan *plan, PlanTensor *tensor)
{
  for (; tensor->rank > 1; tensor->rank--)
    tensor->shape[0] = symbolic_mul(plan->arena, tensor->shape[0], tensor->shape[tensor->rank - 1]);
  tensor->strides[0] = symbolic_constant(plan->arena, 1);
}

static void add_stack(Compilation *compilation, const FusionStack *stack)
{
  Plan *plan = compilation->result->plan;
  PlanTensor *tensor = add_tensor(plan, PLAN_CONSTANT, stack->tensor);
  if (stack->along + 1 < tensor->rank) flatten(plan, tensor);
  tensor->n_stacks = stack->n;
  tensor->stacks = arena_new_array(plan->arena, PlanPart, stack->n);
  for (unsigned i = 0; i < stack->n; i++) {
    const GraphTensor *part = stack->parts[i];
    tensor->stacks[i].name = arena_strdup(plan->arena, part->name);
    tensor->stacks[i].columns = 1;
    for (unsigned d = stack->along; d < part->rank; d++) {
      int64_t extent = 0;
      symbolic_is_constant(part->shape[d], &extent);
      tensor->stacks[i].columns *= extent;
    }
  }
}

static void declare_tensors(Compilation *compilation)
{
  Plan *plan = compilation->result->plan;
  const Graph *graph = compilation->graph;
  for (unsigned i = 0; i < graph->n_dims; i++)
    if (!graph->dims[i].bound)
      plan_add_symbol(plan, graph->dims[i].name, graph->dims[i].min, graph->dims[i].max,
                      graph->dims[i].multiple);
  for (unsigned i = 0; i < graph->n_inputs; i++)
    add_tensor(plan, PLAN_INPUT, graph->inputs[i]);
  g_autoptr(GHashTable) used = find_used(compilation->fusion);
  for (unsigned i = 0; i < graph->n_constants; i++)
    if (is_used(used, graph->constants[i])) add_tensor(plan, PLAN_CONSTANT, graph->constants[i]);
  for (unsigned i = 0; i < compilation->fusion->n_stacks; i++)
    if (is_used(used, compilation->fusion->stacks[i]->tensor))
      add_stack(compilation, compilation->fusion->stacks[i]);
  g_autoptr(GHashTable) staying = graph_staying(graph);
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    const GraphTensor *output = graph->outputs[i];
    PlanTensor *tensor = add_tensor(plan, PLAN_OUTPUT, output);
    tensor->stays = g_hash_table_contains(staying, output);
    if (output->memory) tensor->memory = plan_tensor(plan, output->memory->name);
  }
  for (unsigned i = 0; i < compilation->fusion->n_intermediates; i++)
    add_tensor(plan, PLAN_WORKSPACE, compilation->fusion->intermediates[i]);
}

static void kernel_destroy(void *kernel)
{
  compiled_kernel_free(kernel);
}

static bool check_budget(const Gpu *gpu, const CompileOptions *options, GError **error)
{
  unsigned budget = options ? options->sm_budget : 0;
  if (budget <= gpu->sm_count) return true;
  error_set(error, ERROR_INPUT, NULL, "sms", NULL, "a budget of %u SMs is more than the %u of %s", budget,
            gpu->sm_count, gpu->name);
  return false;
}

/* Of names to skip those that are no rewrites of fusion. */
static const char **passes_of(const char *const *skip)
{
  unsigned n = 0;
  const char **passes = g_new0(const char *, (skip ? g_strv_length((char **)skip) : 0) + 1);
  for (; skip && *skip; skip++)
    if (!fusion_has_rewrite(*skip)) passes[n++] = *skip;
  return passes;
}

/* Fusion whose judge runs the passes where only they tell whether there is a kernel. */
static Fusion *fuse(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                    const char *const *passes, KernelLibraries *libraries, Spaces **spaces, GError **error)
{
  CompileOptions dry = *options;
  DryRunner runner = {gpu, &dry, libraries, NULL};
  dry.skip = passes;
  return choose_fusion_dry(graph, gpu, options, compile_dry_run, &runner, spaces, error);
}

CompileResult *compile_graph(const Graph *graph, const Gpu *gpu, const CompileOptions *asked,
                             GHashTable *names, GError **error)
{
  if (!choose_check_sets(asked, error) || !check_budget(gpu, asked, error)) return NULL;
  g_auto(GStrv) sets = choose_sets_today(asked);
  CompileOptions today = asked ? *asked : (CompileOptions){0};
  today.sets = (const char *const *)sets;
  const CompileOptions *options = &today;
  g_autofree const char **passes = passes_of(today.skip);
  g_autoptr(KernelLibraries) libraries = kernel_libraries_read(options->fast_math, error);
  g_autoptr(Spaces) spaces = NULL;
  g_autoptr(Fusion) fusion = libraries ? fuse(graph, gpu, options, passes, libraries, &spaces, error) : NULL;
  if (!fusion) return NULL;
  today.skip = passes; /* rewrites were fusion's */
  g_autoptr(CompileResult) result = g_new0(CompileResult, 1);
  result->kernels = g_ptr_array_new_with_free_func(kernel_destroy);
  result->plan = plan_new(graph->name, gpu->name, gpu->target, gpu->hash);
  result->plan->sms = options ? options->sm_budget : 0;
  g_autoptr(GString) explain = g_string_new(NULL);
  g_autoptr(GHashTable) keys = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) texts = g_hash_table_new(hash_text, same_text);
  g_autofree PlanLaunch **launches = g_new0(PlanLaunch *, fusion->n + 1);
  g_autoptr(GPtrArray) opened = g_ptr_array_new_with_free_func(opened_free), making = g_ptr_array_new();
  g_autofree const Symbolic **direct = g_new0(const Symbolic *, fusion->n + 1);
  Compilation compilation = {graph,  gpu,  options, fusion, result, explain, libraries, launches,
                             opened, keys, texts,   making, direct, spaces,  names,     {{0}}};
  mechanisms_read(gpu, compilation.mechanisms);
  for (unsigned i = 0; i < fusion->n_notes; i++)
    g_string_append_printf(explain, "%s\n", fusion->notes[i]);
  const TunedDatabase *tuned = options ? options->tuned : NULL;
  for (const char *const *note = tuned ? tuned_database_notes(tuned) : NULL; note && *note; note++)
    g_string_append_printf(explain, "%s\n", *note);
  declare_tensors(&compilation);
  if (!compile_operators(&compilation, error)) return NULL;
  result->explain = g_strdup(explain->str);
  leave_out_copies(&compilation);
  compile_order_sharers(result->plan);
  plan_place_workspace(result->plan);
  plan_own_expressions(result->plan);
  if (!plan_check(result->plan, error)) return NULL;
  return g_steal_pointer(&result);
}

void compile_result_free(CompileResult *result)
{
  if (!result) return;
  g_ptr_array_unref(result->kernels);
  plan_free(result->plan);
  g_free(result->explain);
  g_free(result);
}
