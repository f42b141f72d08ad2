#include "generator/compile.h"
#include "backends/ptx/ptx.h"
#include "generator/choose.h"
#include "ir/liveness.h"
#include <string.h>

/* ---- What a kernel turned out to be, gathered while its passes run ---- */

typedef struct {
  const CompileOptions *options;
  CompiledKernel *kernel;
} Watch;

static void watch_mechanism(IrOp *op, void *data)
{
  GString *text = data;
  const IrExpr *via = ir_attribute_value(op, ATTR_VIA);
  if ((op->code != OP_FILL && op->code != OP_MMA) || !via) return;
  if (strstr(text->str, via->name)) return;
  g_string_append_printf(text, "%s%s", text->len ? "+" : "", via->name);
}

static void note_mechanism(CompiledKernel *kernel, const IrModule *module)
{
  g_autoptr(GString) text = g_string_new(NULL);
  ir_region_visit(ir_kernel(module)->body, watch_mechanism, text);
  g_free(kernel->mechanism);
  kernel->mechanism = g_strdup(text->len ? text->str : "plain");
}

static void note_roles(CompiledKernel *kernel, const IrModule *module)
{
  g_autoptr(GString) text = g_string_new(NULL);
  for (const IrOp *op = ir_kernel(module)->body->first; op; op = op->next) {
    int64_t first, last;
    if (op->code != OP_ROLE) continue;
    const IrExpr *warps = ir_attribute_value(op, ATTR_WARPS);
    if (!ir_expr_is_int(warps->items[0], &first) || !ir_expr_is_int(warps->items[1], &last)) continue;
    g_string_append_printf(text, "%s%d %s", text->len ? " + " : "", (int)(last - first), op->symbol);
  }
  g_free(kernel->roles);
  kernel->roles = g_strdup(text->str);
}

static void watch_pass(const IrPassReport *report, IrModule *module, void *data)
{
  Watch *watch = data;
  if (g_str_equal(report->pass->name, "choose_mechanisms")) note_mechanism(watch->kernel, module);
  if (g_str_equal(report->pass->name, "split_roles")) note_roles(watch->kernel, module);
  if (watch->options && watch->options->report)
    watch->options->report(watch->kernel->name, report, module, watch->options->data);
}

static void note_wait(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_DEPENDENT_WAIT;
}

static unsigned launch_int(const IrFunction *kernel, IrAttributeKey key, unsigned otherwise)
{
  int64_t value;
  IrExpr *expr = ir_launch_get(kernel, key);
  return expr && ir_expr_is_int(expr, &value) ? (unsigned)value : otherwise;
}

static void note_resources(CompiledKernel *kernel, const IrModule *module)
{
  const IrFunction *function = ir_kernel(module);
  kernel->threads = launch_int(function, ATTR_THREADS, 128);
  kernel->cluster = launch_int(function, ATTR_CLUSTER, 1);
  kernel->shared_bytes = launch_int(function, ATTR_SHARED_BYTES, 0);
  kernel->arena_bytes = arena_used(module->arena);
  ir_region_visit(function->body, note_wait, &kernel->waits);
  unsigned n;
  g_autofree IrPressure *pressure = ir_pressure(function, &n);
  for (unsigned i = 0; i < n; i++)
    kernel->predicted_registers =
        MAX(kernel->predicted_registers, n > 1 ? pressure[i].peak : ir_pressure_registers(&pressure[i]));
}

void compiled_kernel_free(CompiledKernel *kernel)
{
  if (!kernel) return;
  g_free(kernel->name);
  g_free(kernel->entry);
  g_free(kernel->ir);
  g_free(kernel->tile);
  g_free(kernel->ptx);
  g_free(kernel->template_name);
  g_free(kernel->tile_text);
  g_free(kernel->mechanism);
  g_free(kernel->roles);
  g_free(kernel);
}

/* Runs the passes on a module and emits it. */
static bool finish_kernel(CompiledKernel *kernel, IrModule *module, const Gpu *gpu, const char *start_after,
                          const CompileOptions *options, GString *remarks, GError **error)
{
  IrPassContext context = {.gpu = gpu, .remarks = remarks};
  if (options) {
    context.fast_math = options->fast_math;
    context.sm_budget = options->sm_budget;
  }
  Watch watch = {options, kernel};
  IrRunOptions run = {.start_after = start_after,
                      .skip = options ? options->skip : NULL,
                      .report = watch_pass,
                      .data = &watch};
  if (!ir_run_passes(module, &context, &run, error)) return false;
  note_resources(kernel, module);
  kernel->ir = ir_print(module);
  kernel->ptx = ptx_emit(module, gpu, error);
  return kernel->ptx != NULL;
}

/* ---- The plan ---- */

typedef struct {
  const Graph *graph;
  const Gpu *gpu;
  const CompileOptions *options;
  const Fusion *fusion;
  CompileResult *result;
  GString *explain;
  GHashTable *names; /* kernel names taken */
  const KernelLibraries *libraries;
} Compilation;

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
    int64_t extent, one;
    if (!ir_expr_is_int(box->items[d], &extent)) return false;
    map->box[i] = (unsigned)extent;
    map->element_strides[i] = 1;
    map->dims[i] = kernel_symbolic(build, plan->arena, tensor->dims[d]);
    if (!map->dims[i]) return false;
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

static bool compile_variant(Compilation *compilation, const FusedOperator *op, const Choice *choice,
                            PlanLaunch *launch, GError **error)
{
  const CompileOptions *options = compilation->options;
  CompiledKernel *kernel = g_new0(CompiledKernel, 1);
  g_ptr_array_add(compilation->result->kernels, kernel);
  kernel->name = kernel_name(compilation, op, choice);
  kernel->entry = g_strdup(kernel->name);
  kernel->template_name = g_strdup(choice->template_name);
  kernel->tile_text = g_strdup(choice->tile_text);
  kernel->stages = choice->stages;
  g_autoptr(KernelBuild) build =
      kernel_build(op, compilation->graph, choice, kernel->name, compilation->libraries,
                   compilation->result->plan->arena, error);
  if (!build) return false;
  if (options && options->keep_tile) kernel->tile = ir_print(build->module);
  g_autoptr(GString) remarks = g_string_new(NULL);
  if (!finish_kernel(kernel, build->module, compilation->gpu, NULL, options, remarks, error)) return false;
  build->kernel = ir_kernel(build->module);
  g_auto(GStrv) lines = g_strsplit(remarks->str, "\n", -1);
  g_string_append_printf(compilation->explain, "  kernel %s\n", kernel->name);
  for (char **line = lines; *line; line++)
    if (**line) g_string_append_printf(compilation->explain, "    %s\n", *line);
  return fill_variant(compilation, build, kernel, launch, error);
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

static bool compile_operator(Compilation *compilation, const FusedOperator *op, PlanLaunch **launches,
                             GError **error)
{
  Plan *plan = compilation->result->plan;
  if (computes_nothing(op)) {
    g_string_append_printf(compilation->explain, "%s\n  no kernel: its results have no elements\n", op->name);
    return true;
  }
  PlanLaunch *launch = plan_add_launch(plan, op->name);
  launches[op->index] = launch;
  for (unsigned i = 0; i < op->n_depends; i++)
    if (launches[op->depends_on[i]]) plan_add_dependency(plan, launch, launches[op->depends_on[i]], false);
  g_string_append_printf(compilation->explain, "%s\n", op->name);
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  *chooser = (Chooser){.op = op,
                       .graph = compilation->graph,
                       .gpu = compilation->gpu,
                       .options = compilation->options,
                       .arena = plan->arena,
                       .explain = compilation->explain,
                       .error = error};
  if (!choose_variants(chooser)) return false;
  bool beside = compilation->fusion->n > 1 && gpu_has(compilation->gpu, "dependent_launch");
  for (unsigned i = 0; i < chooser->n; i++) {
    Choice *choice = &chooser->variants[i];
    choice->overlap = beside && !choice->alone;
    if (choice->kernel_of < i)
      repeat_variant(plan, launch, launch->variants[choice->kernel_of], choice->guard);
    else if (!compile_variant(compilation, op, choice, launch, error))
      return false;
  }
  allow_overlap(plan, launch);
  return true;
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

CompileResult *generator_compile(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                                 GError **error)
{
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
  Compilation compilation = {graph, gpu, options, fusion, result, explain, names, libraries};
  for (unsigned i = 0; i < fusion->n_notes; i++)
    g_string_append_printf(explain, "%s\n", fusion->notes[i]);
  const TunedDatabase *tuned = options ? options->tuned : NULL;
  for (const char *const *note = tuned ? tuned_database_notes(tuned) : NULL; note && *note; note++)
    g_string_append_printf(explain, "%s\n", *note);
  declare_tensors(&compilation);
  g_autofree PlanLaunch **launches = g_new0(PlanLaunch *, fusion->n + 1);
  for (unsigned i = 0; i < fusion->n; i++)
    if (!compile_operator(&compilation, fusion->operators[i], launches, error)) return NULL;
  result->explain = g_strdup(explain->str);
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

CompiledKernel *generator_compile_ir(Source *source, const Gpu *gpu, const char *start_after,
                                     const CompileOptions *options, GError **error)
{
  g_autoptr(IrModule) module = ir_read(source, error);
  if (!module) return NULL;
  const IrFunction *function = ir_kernel(module);
  if (!function) {
    error_set(error, ERROR_INPUT, NULL, "no-kernel", NULL, "%s holds no kernel", source->name);
    return NULL;
  }
  g_autoptr(CompiledKernel) kernel = g_new0(CompiledKernel, 1);
  kernel->name = g_strdup(function->name);
  kernel->entry = g_strdup(function->name);
  kernel->template_name = g_strdup("-");
  kernel->tile_text = g_strdup("-");
  kernel->mechanism = g_strdup("-");
  kernel->roles = g_strdup("-");
  if (!finish_kernel(kernel, module, gpu, start_after, options, NULL, error)) return NULL;
  return g_steal_pointer(&kernel);
}
