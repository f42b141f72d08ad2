#include "generator/compile.h"
#include "base/parallel.h"
#include "generator/choose.h"
#include "generator/compile_kernel.h"
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
  GHashTable *names; /* kernel names taken */
  const KernelLibraries *libraries;
  PlanLaunch **launches;   /* by the fusion's operators; NULL: there is nothing to launch */
  GPtrArray *opened;       /* OpenOperator *: their variants are chosen, kernels and plan are to come */
  GPtrArray *making;       /* KernelJob *, of those */
  const Symbolic **direct; /* of each fused operator: when it reads operands as they lie, not their copies */
} Compilation;

/* A kernel that is being made, which other threads do. */
typedef struct KernelJob {
  const Compilation *compilation;
  const FusedOperator *op;
  const Choice *choice;
  CompiledKernel *kernel; /* of the result */
  Arena *expressions;     /* that the plan copies in the end */
  KernelBuild *build;
  GString *remarks;
  bool done;
  GError *error; /* if it is not */
} KernelJob;

typedef struct OpenOperator {
  PlanLaunch *launch;
  Chooser chooser;
  GString *explain;
  KernelJob jobs[PLAN_MAX_VARIANTS]; /* of the variants that have a kernel of their own */
} OpenOperator;

static const char *file_name(Plan *plan, const char *kernel, const char *suffix)
{
  return arena_printf(plan->arena, "%s.%s", kernel, suffix);
}

/* Order in which the copy engine counts a tensor's dimensions: the contiguous one, then the others from last
 * to first. */
static unsigned engine_order(const IrType *tensor, unsigned *order)
{
  unsigned n = 0, inner = tensor->rank - 1;
  int64_t stride;
  for (unsigned d = 0; d < tensor->rank; d++)
    if (tensor->strides[d] && ir_expr_is_int(tensor->strides[d], &stride) && stride == 1) inner = d;
  order[n++] = inner;
  for (unsigned d = tensor->rank; d-- > 0;)
    if (d != inner) order[n++] = d;
  return n;
}

#define MAP_STRIDE 16 /* bytes: strides of tensor maps are multiples of it */

/* What the second-level cache fetches when a box misses. Boxes whose rows begin beside multiples of a sector
 * are loaded a sixth slower with more than a line (docs/performance-log.md). */
static unsigned promotion_of(const PlanTensorMap *map)
{
  int64_t stride;
  for (unsigned i = 0; i + 1 < map->rank; i++)
    if (symbolic_is_constant(map->strides[i], &stride) && stride % 32 != 0) return 128;
  return 256;
}

/* The stride or, if it may be no multiple of what the copy engine steps in, the next one. */
static const Symbolic *legal_stride(const KernelBuild *build, Arena *arena, const Symbolic *bytes)
{
  if (symbolic_divisible(bytes, MAP_STRIDE, &build->graph->facts)) return bytes;
  const Symbolic *step = symbolic_constant(arena, MAP_STRIDE);
  return symbolic_mul(arena, step, symbolic_ceil_div(arena, bytes, step));
}

static bool fill_map(const KernelBuild *build, Plan *plan, const IrOp *op, PlanTensorMap *map)
{
  const IrType *tensor = &op->operands[0]->value->type;
  const IrExpr *box = ir_attribute_value(op, ATTR_BOX);
  unsigned order[IR_MAX_RANK], bytes = number_bytes(tensor->element);
  map->rank = engine_order(tensor, order);
  map->element = tensor->element;
  map->swizzle = (unsigned)ir_attribute_int(op, ATTR_SWIZZLE, 0);
  for (unsigned i = 0; i < map->rank; i++) {
    unsigned d = order[i];
    int64_t one;
    map->box[i] = kernel_symbolic(build, plan->arena, box->items[d]);
    map->element_strides[i] = 1;
    map->dims[i] = kernel_symbolic(build, plan->arena, tensor->dims[d]);
    if (!map->box[i] || !map->dims[i]) return false;
    int64_t least, most; /* an empty tensor is never read, but the engine takes no extent of 0 */
    symbolic_range(map->dims[i], &build->graph->facts, &least, &most);
    if (least < 1)
      map->dims[i] =
          symbolic_binary(plan->arena, SYMBOLIC_MAX, map->dims[i], symbolic_constant(plan->arena, 1));
    if (i == 0) continue;
    const Symbolic *stride = kernel_symbolic(build, plan->arena, tensor->strides[d]);
    map->strides[i - 1] = symbolic_mul(plan->arena, stride, symbolic_constant(plan->arena, bytes));
    /* a dimension of extent 1 is never stepped along; its stride must only be legal, so it takes its
     * neighbour's */
    bool single = ir_expr_is_int(tensor->dims[d], &one) && one == 1;
    if (single && i > 1) map->strides[i - 1] = map->strides[i - 2];
    if (single && i == 1) map->strides[0] = legal_stride(build, plan->arena, map->strides[0]);
  }
  map->l2_promotion = promotion_of(map);
  return true;
}

/* The workspace's tensor behind a kernel's tensor parameter that no graph knows (combine_streams), or NULL.
 */
static const PlanTensor *shared_tensor(const KernelBuild *build, Plan *plan, const IrValue *tensor)
{
  static const IrAttributeKey keys[] = {ATTR_PARTS, ATTR_FLAGS};
  for (unsigned i = 0; i < G_N_ELEMENTS(keys); i++) {
    const IrExpr *name = ir_launch_get(build->kernel, keys[i]);
    int64_t rows, columns;
    if (!name || !name->name || !g_str_equal(name->name, tensor->name) ||
        !ir_expr_is_int(tensor->type.dims[0], &rows) || !ir_expr_is_int(tensor->type.dims[1], &columns))
      continue;
    PlanTensor *shared = plan_share_tensor(plan, tensor->name, tensor->type.element, rows, columns);
    shared->zero = keys[i] == ATTR_FLAGS;
    return shared;
  }
  return NULL;
}

static bool fill_arguments(const KernelBuild *build, Plan *plan, PlanVariant *variant, GError **error)
{
  unsigned n;
  const IrArgument *arguments = ir_kernel_arguments(build->kernel, &n);
  for (unsigned i = 0; i < n; i++) {
    const IrArgument *argument = &arguments[i];
    const GraphTensor *tensor =
        argument->tensor ? g_hash_table_lookup(build->tensors, argument->tensor->name) : NULL;
    const PlanTensor *planned = tensor             ? plan_tensor(plan, tensor->name)
                                : argument->tensor ? shared_tensor(build, plan, argument->tensor)
                                                   : NULL;
    const Symbolic *value = NULL, *offset = NULL;
    bool ok = true;
    if (tensor && tensor->begins && !symbolic_equals(tensor->begins, 0))
      offset = symbolic_mul(plan->arena, tensor->begins,
                            symbolic_constant(plan->arena, number_bytes(tensor->type)));
    switch (argument->kind) {
    case ARGUMENT_POINTER:
      ok = planned && plan_add_pointer(plan, variant, argument->name, planned, offset);
      break;
    case ARGUMENT_SCALAR:
      value = kernel_symbolic(build, plan->arena, ir_dim(build->module, argument->name));
      ok = value && plan_add_scalar(plan, variant, argument->name, argument->type, value);
      break;
    case ARGUMENT_MAP: {
      PlanArgument *added =
          planned ? plan_add_tensor_map(plan, variant, argument->name, planned, offset) : NULL;
      ok = added && fill_map(build, plan, argument->map, &added->map);
      break;
    }
    }
    if (!ok) {
      error_set(error, ERROR_INTERNAL, NULL, "argument", NULL,
                "argument '%s' of kernel '%s' has no launch expression", argument->name, build->kernel->name);
      return false;
    }
  }
  return true;
}

static bool fill_variant(Compilation *compilation, const KernelBuild *build, const CompiledKernel *kernel,
                         PlanLaunch *launch, GError **error)
{
  Plan *plan = compilation->result->plan;
  PlanVariant *variant = plan_add_variant(plan, launch, kernel->name, kernel->entry);
  variant->ptx = file_name(plan, kernel->name, "ptx");
  variant->cubin = file_name(plan, kernel->name, "cubin");
  variant->guard = build->choice->guard;
  variant->note = arena_printf(plan->arena, "template %s, tile %s, %s", kernel->template_name,
                               kernel->tile_text, kernel->mechanism);
  variant->shared = kernel->shared_bytes;
  variant->waits = kernel->waits;
  variant->block[0] = kernel->threads;
  variant->cluster[0] = kernel->cluster;
  const IrExpr *grid = ir_launch_get(build->kernel, ATTR_GRID);
  for (unsigned d = 0; grid && d < 3 && d < grid->n; d++) {
    variant->grid[d] = kernel_symbolic(build, plan->arena, grid->items[d]);
    if (!variant->grid[d]) {
      error_set(error, ERROR_INTERNAL, NULL, "grid", NULL, "the grid of kernel '%s' has no launch expression",
                kernel->name);
      return false;
    }
  }
  return fill_arguments(build, plan, variant, error);
}

/* A variant with another guard for the kernel that one before it has. */
static void repeat_variant(Plan *plan, PlanLaunch *launch, const PlanVariant *before, const Symbolic *guard)
{
  PlanVariant *variant = plan_add_variant(plan, launch, before->kernel, before->entry);
  *variant = *before;
  variant->guard = guard;
  variant->arguments = arena_new_array(plan->arena, PlanArgument, before->n_arguments);
  memcpy(variant->arguments, before->arguments, before->n_arguments * sizeof *before->arguments);
}

static char *kernel_name(Compilation *compilation, const FusedOperator *op, const Choice *choice)
{
  g_autofree char *base = g_strdup_printf("%s_%s", op->name, choice->suffix);
  char *name = g_strdup(base);
  for (unsigned i = 2; g_hash_table_contains(compilation->names, name); i++) {
    g_free(name);
    name = g_strdup_printf("%s_%u", base, i);
  }
  g_hash_table_add(compilation->names, g_strdup(name));
  return name;
}

static void open_job(Compilation *compilation, OpenOperator *opened, const Choice *choice, KernelJob *job)
{
  CompiledKernel *kernel = g_new0(CompiledKernel, 1);
  g_ptr_array_add(compilation->result->kernels, kernel);
  kernel->name = kernel_name(compilation, opened->chooser.op, choice);
  kernel->entry = g_strdup(kernel->name);
  kernel->template_name = g_strdup(choice->template_name);
  kernel->tile_text = g_strdup(choice->tile_text);
  kernel->stages = choice->stages;
  *job = (KernelJob){.compilation = compilation,
                     .op = choice->direct ? choice->direct : opened->chooser.op,
                     .choice = choice,
                     .kernel = kernel,
                     .expressions = arena_new(),
                     .remarks = g_string_new(NULL)};
  g_ptr_array_add(compilation->making, job);
}

/* On any thread: what it shares with other jobs is only read. */
static bool run_job(KernelJob *job)
{
  const Compilation *compilation = job->compilation;
  const CompileOptions *options = compilation->options;
  job->build = kernel_build(job->op, compilation->graph, job->choice, job->kernel->name,
                            compilation->libraries, job->expressions, &job->error);
  if (!job->build) return false;
  if (options && options->keep_tile) job->kernel->tile = ir_print(job->build->module);
  if (!compile_kernel(job->kernel, job->build->module, compilation->gpu, NULL, options, job->remarks,
                      &job->error))
    return false;
  job->build->kernel = ir_kernel(job->build->module);
  return true;
}

static void make_kernel(unsigned i, void *data)
{
  const Compilation *compilation = data;
  KernelJob *job = compilation->making->pdata[i];
  bool serial = compilation->options && compilation->options->report;
  for (unsigned before = 0; serial && before < i; before++)
    if (!((const KernelJob *)compilation->making->pdata[before])->done) return; /* the first fault ends it */
  job->done = run_job(job);
}

static bool finish_job(Compilation *compilation, const KernelJob *job, PlanLaunch *launch, GError **error)
{
  g_auto(GStrv) lines = g_strsplit(job->remarks->str, "\n", -1);
  g_string_append_printf(compilation->explain, "  kernel %s\n", job->kernel->name);
  for (char **line = lines; *line; line++)
    if (**line) g_string_append_printf(compilation->explain, "    %s\n", *line);
  return fill_variant(compilation, job->build, job->kernel, launch, error);
}

static void clear_job(KernelJob *job)
{
  if (!job->compilation) return;
  kernel_build_free(job->build);
  arena_free(job->expressions);
  g_string_free(job->remarks, TRUE);
  g_clear_error(&job->error);
}

static void opened_free(void *memory)
{
  OpenOperator *opened = memory;
  for (unsigned i = 0; i < PLAN_MAX_VARIANTS; i++)
    clear_job(&opened->jobs[i]);
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
static void order_sharers(Plan *plan)
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
static void allow_overlap(Plan *plan, PlanLaunch *launch)
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

/* Chooses an operator's variants. */
static bool open_operator(Compilation *compilation, const FusedOperator *op, GError **error)
{
  Plan *plan = compilation->result->plan;
  OpenOperator *opened = g_new0(OpenOperator, 1);
  opened->explain = g_string_new(NULL);
  g_ptr_array_add(compilation->opened, opened);
  g_string_append_printf(opened->explain, "%s\n", op->name);
  if (computes_nothing(op)) {
    g_string_append(opened->explain, "  no kernel: its results have no elements\n");
    return true;
  }
  PlanLaunch *launch = opened->launch = plan_add_launch(plan, op->name);
  compilation->launches[op->index] = launch;
  for (unsigned i = 0; i < op->n_depends; i++)
    if (compilation->launches[op->depends_on[i]])
      plan_add_dependency(plan, launch, compilation->launches[op->depends_on[i]], false);
  Chooser *chooser = &opened->chooser;
  *chooser = (Chooser){.op = op,
                       .graph = compilation->graph,
                       .gpu = compilation->gpu,
                       .options = compilation->options,
                       .arena = plan->arena,
                       .explain = opened->explain,
                       .error = error};
  if (!choose_variants(chooser)) return false;
  bool beside = compilation->fusion->n > 1 && gpu_has(compilation->gpu, "dependent_launch");
  for (unsigned i = 0; i < chooser->n; i++) {
    Choice *choice = &chooser->variants[i];
    choice->overlap = beside && !choice->alone;
    if (choice->direct) compilation->direct[op->index] = choice->guard;
    if (choice->kernel_of == i) open_job(compilation, opened, choice, &opened->jobs[i]);
  }
  return true;
}

static bool finish_operator(Compilation *compilation, OpenOperator *opened, GError **error)
{
  Plan *plan = compilation->result->plan;
  g_string_append(compilation->explain, opened->explain->str);
  for (unsigned i = 0; i < opened->chooser.n; i++) {
    const Choice *choice = &opened->chooser.variants[i];
    KernelJob *job = &opened->jobs[i];
    if (choice->kernel_of < i)
      repeat_variant(plan, opened->launch, opened->launch->variants[choice->kernel_of], choice->guard);
    else if (!job->done)
      g_propagate_error(error, g_steal_pointer(&job->error));
    if (choice->kernel_of == i && (!job->done || !finish_job(compilation, job, opened->launch, error)))
      return false;
  }
  if (opened->launch) {
    allow_overlap(plan, opened->launch);
    plan_own_launch(plan, opened->launch);
  }
  return true;
}

/* Makes the kernels of the operators that are open and completes their part of the plan. */
static bool finish_opened(Compilation *compilation, GError **error)
{
  const CompileOptions *options = compilation->options;
  unsigned threads = options ? options->report ? 1 : options->threads : 0;
  parallel_for(compilation->making->len, threads, make_kernel, compilation);
  bool ok = true;
  for (unsigned i = 0; ok && i < compilation->opened->len; i++)
    ok = finish_operator(compilation, compilation->opened->pdata[i], error);
  g_ptr_array_set_size(compilation->making, 0);
  g_ptr_array_set_size(compilation->opened, 0);
  return ok;
}

static bool compile_operators(Compilation *compilation, GError **error)
{
  const Fusion *fusion = compilation->fusion;
  for (unsigned i = 0; i < fusion->n; i++) {
    if (!open_operator(compilation, fusion->operators[i], error)) return false;
    bool full = compilation->making->len >= KERNELS_AT_ONCE || i + 1 == fusion->n;
    if (full && !finish_opened(compilation, error)) return false;
  }
  return true;
}

/* When nobody reads what a launch writes, a copy for products; NULL: never. */
static const Symbolic *unread(const Compilation *compilation, const FusedOperator *op)
{
  const Symbolic *when = NULL;
  if (op->kind != FUSED_ELEMENTWISE || op->n_outputs != 1) return NULL;
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
    PlanVariant *nothing = plan_add_variant_before(plan, launch, launch->variants[0]);
    nothing->guard = when;
    nothing->grid[0] = symbolic_constant(plan->arena, 0);
    nothing->note = "nothing: whoever reads the copy reads what it is made of";
  }
}

static void add_tensor(Plan *plan, PlanTensorKind kind, const GraphTensor *tensor)
{
  plan_add_tensor(plan, kind, tensor->name, tensor->type, tensor->rank, tensor->shape, tensor->strides,
                  tensor->align);
}

static bool is_used(const Fusion *fusion, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < fusion->n; i++)
    for (unsigned j = 0; j < fusion->operators[i]->n_inputs; j++)
      if (fusion->operators[i]->inputs[j].tensor->index == tensor->index) return true; /* or a view of it */
  return false;
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
  for (unsigned i = 0; i < graph->n_constants; i++)
    if (is_used(compilation->fusion, graph->constants[i]))
      add_tensor(plan, PLAN_CONSTANT, graph->constants[i]);
  for (unsigned i = 0; i < graph->n_outputs; i++)
    add_tensor(plan, PLAN_OUTPUT, graph->outputs[i]);
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

CompileResult *generator_compile(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                                 GError **error)
{
  if (!choose_check_sets(options, error) || !check_budget(gpu, options, error)) return NULL;
  g_autoptr(Fusion) fusion = choose_fusion(graph, gpu, options, error);
  if (!fusion) return NULL;
  g_autoptr(CompileResult) result = g_new0(CompileResult, 1);
  result->kernels = g_ptr_array_new_with_free_func(kernel_destroy);
  result->plan = plan_new(graph->name, gpu->name, gpu->target, gpu->hash);
  result->plan->sms = options ? options->sm_budget : 0;
  g_autoptr(GString) explain = g_string_new(NULL);
  g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(KernelLibraries) libraries = kernel_libraries_read(options && options->fast_math, error);
  if (!libraries) return NULL;
  g_autofree PlanLaunch **launches = g_new0(PlanLaunch *, fusion->n + 1);
  g_autoptr(GPtrArray) opened = g_ptr_array_new_with_free_func(opened_free), making = g_ptr_array_new();
  g_autofree const Symbolic **direct = g_new0(const Symbolic *, fusion->n + 1);
  Compilation compilation = {graph, gpu,       options,  fusion, result, explain,
                             names, libraries, launches, opened, making, direct};
  for (unsigned i = 0; i < fusion->n_notes; i++)
    g_string_append_printf(explain, "%s\n", fusion->notes[i]);
  const TunedDatabase *tuned = options ? options->tuned : NULL;
  for (const char *const *note = tuned ? tuned_database_notes(tuned) : NULL; note && *note; note++)
    g_string_append_printf(explain, "%s\n", *note);
  declare_tensors(&compilation);
  if (!compile_operators(&compilation, error)) return NULL;
  result->explain = g_strdup(explain->str);
  leave_out_copies(&compilation);
  order_sharers(result->plan);
  plan_place_shared(result->plan);
  plan_own_expressions(result->plan);
  if (!plan_check(result->plan, error)) return NULL;
  return g_steal_pointer(&result);
}

Accumulate accumulate_parse(const char *text)
{
  if (!g_strcmp0(text, "fast")) return ACCUMULATE_FAST;
  return !g_strcmp0(text, "exact") ? ACCUMULATE_EXACT : ACCUMULATE_DEFAULT;
}

void compile_result_free(CompileResult *result)
{
  if (!result) return;
  g_ptr_array_unref(result->kernels);
  plan_free(result->plan);
  g_free(result->explain);
  g_free(result);
}
