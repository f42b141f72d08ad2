/* One kernel: its template, what the writer of its family adds to it, and what these call of the libraries. */
#include "generator/kernel/kernel.h"
#include "base/data.h"

static IrModule *read_template(const char *name, GError **error)
{
  g_autofree char *path = g_strdup_printf("templates/%s.ir", name);
  g_autoptr(Source) source = data_load(path, error);
  return source ? ir_read_chosen(source, error) : NULL;
}

/* Template parameters that are bound to a function of a library. */
static const char *const library_functions[] = {"combine", "power"};

static void bind_parameters(KernelBuild *build)
{
  IrModule *module = build->module;
  GHashTable *bindings = build->bindings;
  for (unsigned i = 0; i < build->choice->n_parameters; i++) {
    const ChoiceParameter *parameter = &build->choice->parameters[i];
    if (parameter->own) continue;
    IrExpr *value = parameter->kind == EXPR_INT     ? ir_int(module, parameter->integer)
                    : parameter->kind == EXPR_FLOAT ? ir_float(module, parameter->number)
                                                    : ir_name(module, parameter->text);
    g_hash_table_insert(bindings, (gpointer)parameter->name, value);
  }
  static const char *const functions[] = {
      "prologue",      "epilogue",        "body",     "score",     "seen",  "slab",   "own",
      "value",         "place",           "new_key",  "new_value", "kept",  "behind", "down",
      "keyed",         "start",           "gathered", "values",    "slope", "power",  "rows_epilogue",
      "keys_epilogue", "values_epilogue", "changes",  "found"};
  for (unsigned i = 0; i < G_N_ELEMENTS(functions); i++)
    if (ir_function_find(module, functions[i]))
      g_hash_table_insert(bindings, (gpointer)functions[i], ir_symbol(module, functions[i]));
  for (unsigned i = 0; i < G_N_ELEMENTS(library_functions); i++) {
    const ChoiceParameter *chosen = choice_parameter(build->choice, library_functions[i]);
    if (chosen)
      g_hash_table_insert(bindings, (gpointer)library_functions[i], ir_symbol(module, chosen->text));
  }
}

/* What a parameter of kind `function` is bound to is not called by its name, so the linker cannot see it. */
static void copy_bound_function(KernelBuild *build)
{
  const IrModule *libraries[] = {build->operators, build->math, build->math_narrow};
  for (unsigned i = 0; i < G_N_ELEMENTS(library_functions); i++) {
    const ChoiceParameter *chosen = choice_parameter(build->choice, library_functions[i]);
    for (unsigned j = 0; chosen && j < G_N_ELEMENTS(libraries); j++) {
      const IrFunction *function = ir_function_find(libraries[j], chosen->text);
      if (function) ir_function_copy(build->module, function);
    }
  }
}

static bool link_libraries(KernelBuild *build, GError **error)
{
  copy_bound_function(build);
  return kernel_libraries_link(build->libraries, build->module, error);
}

/* Says what the passes may rely on where launches overlap: what the graph does not compute, no launch of the
 * plan writes, and what the caller did before the plan has ended when its first launch starts. */
static void mark_overlap(KernelBuild *build)
{
  IrFunction *kernel = ir_kernel(build->module);
  ir_launch_set(kernel, ATTR_OVERLAP, ir_int(build->module, 1));
  for (unsigned i = 0; i < kernel->n_parameters; i++) {
    const GraphTensor *tensor = g_hash_table_lookup(build->tensors, kernel->parameters[i]->name);
    kernel->parameters[i]->type.constant = tensor && tensor->kind != TENSOR_COMPUTED && !tensor->written;
  }
}

/* Facts of the launch that name the tensor. */
static void drop_facts(IrFunction *kernel, const IrValue *tensor)
{
  unsigned n = 0;
  for (unsigned i = 0; i < kernel->n_launch; i++) {
    const IrExpr *value = kernel->launch[i].value;
    bool names = value && value->kind == EXPR_NAME && g_str_equal(value->name, tensor->name);
    if (!names) kernel->launch[n++] = kernel->launch[i];
  }
  kernel->n_launch = n;
}

/* Tensors of the template that its writer has said there are none of. */
static void drop_spare(KernelBuild *build)
{
  IrFunction *kernel = build->kernel;
  unsigned n = 0;
  for (unsigned i = 0; i < kernel->n_parameters; i++) {
    IrValue *parameter = kernel->parameters[i];
    bool spare = g_hash_table_contains(build->tensors, parameter->name) &&
                 !g_hash_table_lookup(build->tensors, parameter->name);
    if (spare)
      drop_facts(kernel, parameter);
    else
      kernel->parameters[n++] = parameter;
  }
  kernel->n_parameters = n;
}

static bool (*const writers[FAMILY_COUNT])(KernelBuild *build) = {
#define FAMILY(name, ...) kernel_write_##name,
#include "generator/program/families.def"
#undef FAMILY
};

static bool write_kernel(KernelBuild *build, const char *name, GError **error)
{
  build->kernel->name = arena_strdup(build->module->arena, name);
  if (!writers[build->op->family->index](build) || !link_libraries(build, error)) return false;
  bind_parameters(build);
  if (!ir_instantiate(build->module, build->bindings, error)) return false;
  drop_spare(build);
  if (build->choice->overlap) mark_overlap(build);
  return true;
}

/* A copy of the template. On any thread. */
static IrModule *take_template(KernelLibraries *libraries, const char *name, GError **error)
{
  g_mutex_lock(&libraries->mutex);
  IrModule *module = g_hash_table_lookup(libraries->templates, name);
  if (!module && (module = read_template(name, error)))
    g_hash_table_insert(libraries->templates, g_strdup(name), module);
  g_mutex_unlock(&libraries->mutex);
  return module ? ir_module_clone(module) : NULL;
}

KernelLibraries *kernel_libraries_read(bool fast, GError **error)
{
  g_autoptr(KernelLibraries) libraries = g_new0(KernelLibraries, 1);
  g_mutex_init(&libraries->mutex);
  libraries->templates =
      g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)ir_module_free);
  libraries->math = read_template("math", error);
  if (libraries->math) libraries->math_narrow = read_template("math_narrow", error);
  if (libraries->math_narrow) libraries->math_wide = read_template("math_wide", error);
  if (libraries->math_wide) libraries->operators = read_template("operators", error);
  if (libraries->operators) libraries->reducers = read_template("reducers", error);
  if (libraries->reducers) libraries->groups = read_template("groups", error);
  if (libraries->groups && fast) libraries->math_fast = read_template("math_fast", error);
  return libraries->groups && (!fast || libraries->math_fast) ? g_steal_pointer(&libraries) : NULL;
}

bool kernel_libraries_link(const KernelLibraries *libraries, IrModule *module, GError **error)
{
  return ir_link(module, libraries->groups, error) && ir_link(module, libraries->operators, error) &&
         ir_link(module, libraries->reducers, error) && ir_link(module, libraries->math, error) &&
         ir_link(module, libraries->math_narrow, error) && ir_link(module, libraries->math_wide, error) &&
         (!libraries->math_fast || ir_link(module, libraries->math_fast, error));
}

typedef struct {
  const IrModule *module;
  bool lacks;
} Lack;

static void find_lacking(IrOp *op, void *data)
{
  Lack *lack = data;
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH),
               *name = op->code == OP_CALL ? op->operands[0] : with;
  if (name && name->kind == EXPR_SYMBOL && !ir_function_find(lack->module, name->name)) lack->lacks = true;
}

bool kernel_link_text(IrModule *module, bool fast, GError **error)
{
  Lack lack = {module, false};
  for (unsigned i = 0; i < module->n_functions; i++)
    ir_region_visit(module->functions[i]->body, find_lacking, &lack);
  if (!lack.lacks) return true;
  g_autoptr(KernelLibraries) libraries = kernel_libraries_read(fast, error);
  return libraries && kernel_libraries_link(libraries, module, error);
}

void kernel_libraries_free(KernelLibraries *libraries)
{
  if (!libraries) return;
  ir_module_free(libraries->math);
  ir_module_free(libraries->math_narrow);
  ir_module_free(libraries->math_wide);
  ir_module_free(libraries->math_fast);
  ir_module_free(libraries->operators);
  ir_module_free(libraries->reducers);
  ir_module_free(libraries->groups);
  g_hash_table_unref(libraries->templates);
  g_mutex_clear(&libraries->mutex);
  g_free(libraries);
}

KernelBuild *kernel_build(const FusedOperator *op, const Graph *graph, const Choice *choice, const char *name,
                          KernelLibraries *libraries, Arena *expressions, GError **error)
{
  IrModule *module = take_template(libraries, choice->template_name, error);
  if (!module) return NULL;
  g_autoptr(KernelBuild) build = arena_new_object(module->arena, KernelBuild);
  *build = (KernelBuild){.op = op, .graph = graph, .choice = choice, .module = module, .error = error};
  build->fast = libraries->math_fast != NULL;
  build->math = libraries->math;
  build->math_narrow = libraries->math_narrow;
  build->math_wide = libraries->math_wide;
  build->math_fast = libraries->math_fast;
  build->operators = libraries->operators;
  build->libraries = libraries;
  build->expressions = expressions;
  build->kernel = ir_kernel(module);
  build->bindings = g_hash_table_new(g_str_hash, g_str_equal);
  build->dims = g_hash_table_new(g_str_hash, g_str_equal);
  build->tensors = g_hash_table_new(g_str_hash, g_str_equal);
  build->inputs = arena_new_array(module->arena, IrValue *, op->n_inputs + 1);
  build->outputs = arena_new_array(module->arena, IrValue *, op->n_outputs + 1);
  if (!write_kernel(build, name, error)) return NULL;
  build->kernel = ir_kernel(module);
  build->error = NULL;
  return g_steal_pointer(&build);
}

void kernel_build_free(KernelBuild *build)
{
  if (!build) return;
  g_hash_table_unref(build->bindings);
  g_hash_table_unref(build->dims);
  g_hash_table_unref(build->tensors);
  ir_module_free(build->module); /* the build itself lives in its arena */
}
