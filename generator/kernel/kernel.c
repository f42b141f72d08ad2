#include "generator/kernel/kernel.h"
#include "base/data.h"
#include "generator/kernel/steps.h"
#include <string.h>

/* ---- Choices ---- */

static ChoiceParameter *choice_add(Choice *choice, const char *name, IrExprKind kind)
{
  g_assert(choice->n_parameters < CHOICE_MAX_PARAMETERS);
  ChoiceParameter *parameter = &choice->parameters[choice->n_parameters++];
  parameter->name = name;
  parameter->kind = kind;
  return parameter;
}

void choice_set_int(Choice *choice, const char *name, int64_t value)
{
  choice_add(choice, name, EXPR_INT)->integer = value;
}

void choice_set_own(Choice *choice, const char *name, int64_t value)
{
  ChoiceParameter *parameter = choice_add(choice, name, EXPR_INT);
  parameter->integer = value;
  parameter->own = true;
}

void choice_set_float(Choice *choice, const char *name, double value)
{
  choice_add(choice, name, EXPR_FLOAT)->number = value;
}

void choice_set_name(Choice *choice, const char *name, const char *value)
{
  choice_add(choice, name, EXPR_NAME)->text = value;
}

const ChoiceParameter *choice_parameter(const Choice *choice, const char *name)
{
  for (unsigned i = 0; i < choice->n_parameters; i++)
    if (g_str_equal(choice->parameters[i].name, name)) return &choice->parameters[i];
  return NULL;
}

int64_t choice_int(const Choice *choice, const char *name, int64_t otherwise)
{
  const ChoiceParameter *parameter = choice_parameter(choice, name);
  return parameter ? parameter->integer : otherwise;
}

/* ---- Run-time scalars ---- */

/* What divides a number that both divide; the larger where that would be too large to matter. */
static int64_t common_multiple(int64_t a, int64_t b)
{
  int64_t x = a, y = b, product;
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x && !__builtin_mul_overflow(a / x, b, &product) && product <= G_MAXINT32 ? product : MAX(a, b);
}

static void apply_facts(KernelBuild *build, IrDim *dim, const Symbolic *expression)
{
  int64_t least, most, multiple = symbolic_multiple(expression, &build->graph->facts);
  symbolic_range(expression, &build->graph->facts, &least, &most);
  for (unsigned i = 0; i < build->choice->n_assumptions; i++) {
    const Assumption *assumption = &build->choice->assumptions[i];
    if (!symbolic_same(assumption->expression, expression)) continue;
    if (assumption->multiple > 1) multiple = common_multiple(MAX(multiple, 1), assumption->multiple);
    if (assumption->maximum > 0) most = MIN(most, assumption->maximum);
  }
  dim->multiple = multiple > 1 ? multiple : 0;
  dim->maximum = most > 0 && most < SYMBOLIC_DIMENSION_MAX ? most : 0;
}

IrExpr *kernel_dim(KernelBuild *build, const Symbolic *expression, const char *hint, NumberType type)
{
  int64_t value;
  if (symbolic_is_constant(expression, &value)) return ir_int(build->module, value);
  GHashTableIter iterator;
  gpointer name, known;
  g_hash_table_iter_init(&iterator, build->dims);
  while (g_hash_table_iter_next(&iterator, &name, &known))
    if (symbolic_same(known, expression)) return ir_dim(build->module, name);
  char *fresh = arena_strdup(build->module->arena, hint);
  for (unsigned i = 1; ir_dim_find(build->kernel, fresh); i++)
    fresh = arena_printf(build->module->arena, "%s%u", hint, i);
  IrDim *dim = ir_dim_new(build->kernel, fresh, type);
  apply_facts(build, dim, expression);
  g_hash_table_insert(build->dims, fresh, (gpointer)expression);
  return ir_dim(build->module, fresh);
}

typedef struct {
  const char *name;
  IrExpr *with;
  IrModule *module;
} DimReplacement;

static IrExpr *replace_leaf(const IrExpr *leaf, void *data)
{
  DimReplacement *replacement = data;
  return leaf->kind == EXPR_DIM && g_str_equal(leaf->name, replacement->name) ? replacement->with : NULL;
}

static void replace_in_op(IrOp *op, void *data)
{
  DimReplacement *replacement = data;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = ir_expr_map(replacement->module, op->operands[i], replace_leaf, data);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].value)
      op->attributes[i].value = ir_expr_map(replacement->module, op->attributes[i].value, replace_leaf, data);
}

static void replace_in_type(IrType *type, DimReplacement *replacement)
{
  for (unsigned d = 0; d < type->rank; d++) {
    type->dims[d] = ir_expr_map(replacement->module, type->dims[d], replace_leaf, replacement);
    if (type->strides[d])
      type->strides[d] = ir_expr_map(replacement->module, type->strides[d], replace_leaf, replacement);
  }
}

static void drop_dim(IrFunction *kernel, const char *name)
{
  for (unsigned i = 0; i < kernel->n_dims; i++)
    if (g_str_equal(kernel->dims[i].name, name)) {
      memmove(&kernel->dims[i], &kernel->dims[i + 1], (kernel->n_dims - i - 1) * sizeof *kernel->dims);
      kernel->n_dims--;
      return;
    }
}

void kernel_bind_dim(KernelBuild *build, const char *name, const Symbolic *expression)
{
  int64_t value;
  if (!symbolic_is_constant(expression, &value)) {
    g_hash_table_insert(build->dims, (gpointer)name, (gpointer)expression);
    apply_facts(build, (IrDim *)ir_dim_find(build->kernel, name), expression);
    return;
  }
  DimReplacement replacement = {name, ir_int(build->module, value), build->module};
  ir_region_visit(build->kernel->body, replace_in_op, &replacement);
  for (unsigned i = 0; i < build->kernel->n_parameters; i++)
    replace_in_type(&build->kernel->parameters[i]->type, &replacement);
  drop_dim(build->kernel, name);
}

const Symbolic *kernel_symbolic(const KernelBuild *build, Arena *arena, const IrExpr *expr)
{
  const Symbolic *a, *b;
  switch (expr->kind) {
  case EXPR_INT: return symbolic_constant(arena, expr->integer);
  case EXPR_DIM: return g_hash_table_lookup(build->dims, expr->name);
  case EXPR_BINARY: {
    static const SymbolicKind kinds[OPERATOR_COUNT] = {[OPERATOR_ADD] = SYMBOLIC_ADD,
                                                       [OPERATOR_SUB] = SYMBOLIC_SUB,
                                                       [OPERATOR_MUL] = SYMBOLIC_MUL,
                                                       [OPERATOR_DIV] = SYMBOLIC_DIV,
                                                       [OPERATOR_MOD] = SYMBOLIC_MOD};
    a = kernel_symbolic(build, arena, expr->items[0]);
    b = kernel_symbolic(build, arena, expr->items[1]);
    return a && b && kinds[expr->operator_] ? symbolic_binary(arena, kinds[expr->operator_], a, b) : NULL;
  }
  case EXPR_CALL: {
    if (expr->n != 2) return NULL;
    SymbolicKind kind = g_str_equal(expr->name, "ceil_div") ? SYMBOLIC_CEIL_DIV
                        : g_str_equal(expr->name, "min")    ? SYMBOLIC_MIN
                        : g_str_equal(expr->name, "max")    ? SYMBOLIC_MAX
                                                            : SYMBOLIC_CONSTANT;
    if (kind == SYMBOLIC_CONSTANT) return NULL;
    a = kernel_symbolic(build, arena, expr->items[0]);
    b = kernel_symbolic(build, arena, expr->items[1]);
    return a && b ? symbolic_binary(arena, kind, a, b) : NULL;
  }
  default: return NULL;
  }
}

/* ---- Tensors ---- */

static void describe_tensor(KernelBuild *build, IrType *type, const char *name, const GraphTensor *tensor,
                            unsigned rank, const Symbolic *const *dims, const Symbolic *const *strides)
{
  type->kind = TYPE_TENSOR;
  type->count = 1;
  type->element = tensor->type;
  type->rank = rank;
  type->align = MAX(tensor->align, build->choice->align);
  for (unsigned d = 0; d < rank; d++) {
    bool broadcast = symbolic_equals(strides[d], 0);
    char *hint = arena_printf(build->module->arena, "%s_stride%u", name, d);
    type->dims[d] = broadcast ? ir_int(build->module, 1) : kernel_dim(build, dims[d], "extent", NUMBER_S32);
    type->strides[d] = kernel_dim(build, strides[d], hint, NUMBER_S64);
  }
}

static bool is_input(const FusedOperator *op, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (op->inputs[i].tensor == tensor) return true;
  return false;
}

/* Letters, since numbers tell values of one name apart: in_a, in_b, .. in_z, in_ba, ... */
static char *name_by_position(KernelBuild *build, const char *side, unsigned position)
{
  char *letters = arena_strdup(build->module->arena, "");
  do {
    letters = arena_printf(build->module->arena, "%c%s", 'a' + position % 26, letters);
    position /= 26;
  } while (position);
  return arena_printf(build->module->arena, "%s_%s", side, letters);
}

IrValue *kernel_add_tensor(KernelBuild *build, const char *side, unsigned position, const GraphTensor *tensor,
                           unsigned rank, const Symbolic *const *dims, const Symbolic *const *strides)
{
  char *name = name_by_position(build, side, position);
  IrType type = {0};
  describe_tensor(build, &type, name, tensor, rank, dims, strides);
  /* only products read tf32 as such; a result is rounded to it, so that a product may follow */
  if (type.element == NUMBER_TF32 && is_input(build->op, tensor)) type.element = NUMBER_F32;
  g_hash_table_insert(build->tensors, name, (gpointer)tensor);
  return ir_parameter_new(build->kernel, name, type);
}

/* `output`: NULL for an input. */
static IrValue *add_operand(KernelBuild *build, unsigned position, const GraphTensor *tensor,
                            const Symbolic *const *strides, const FusedOutput *output, unsigned lead)
{
  const FusedOperator *op = build->op;
  const Symbolic *all_dims[FUSED_MAX_RANK + 3], *all_strides[FUSED_MAX_RANK + 3];
  for (unsigned d = 0; d < lead; d++) {
    all_dims[d] = symbolic_constant(build->expressions, 1);
    all_strides[d] = symbolic_constant(build->expressions, 0);
  }
  memcpy(all_dims + lead, op->dims, op->rank * sizeof *all_dims);
  memcpy(all_strides + lead, strides, op->rank * sizeof *all_strides);
  if (output && output->reduced) {
    const Symbolic **parts = &all_dims[lead + op->rank - (output->by_rows ? 2 : 1)];
    int64_t width = output->by_rows ? REDUCED_ROWS : REDUCED_COLUMNS;
    *parts = symbolic_ceil_div(build->expressions, *parts, symbolic_constant(build->expressions, width));
  }
  return kernel_add_tensor(build, output ? KERNEL_OUTPUT : KERNEL_INPUT, position, tensor, op->rank + lead,
                           all_dims, all_strides);
}

void kernel_add_operands(KernelBuild *build, unsigned skip_a, unsigned skip_b, unsigned lead)
{
  const FusedOperator *op = build->op;
  unsigned skip_dual = op->kind == FUSED_GEMM && op->gemm.dual ? op->gemm.b2 : G_MAXUINT;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (i != skip_a && i != skip_b && i != skip_dual)
      build->inputs[i] = add_operand(build, i, op->inputs[i].tensor, op->inputs[i].strides, NULL, lead);
  for (unsigned i = 0; i < op->n_outputs; i++)
    build->outputs[i] =
        add_operand(build, i, op->outputs[i].tensor, op->outputs[i].strides, &op->outputs[i], lead);
}

/* ---- Steps in a sub-kernel ---- */

bool scope_open(StepScope *scope, KernelBuild *build, const char *name)
{
  const FusedOperator *op = build->op;
  Arena *arena = build->module->arena;
  scope->build = build;
  scope->function = ir_function_new(build->module, name, false);
  scope->builder = ir_builder_at_end(scope->function->body);
  scope->step_values = arena_new_array(arena, IrExpr *, op->n_steps + 1);
  scope->input_values = arena_new_array(arena, IrExpr *, op->n_inputs + 1);
  scope->tensors = arena_new_array(arena, IrValue *, op->n_inputs + op->n_outputs + 1);
  return true;
}

typedef struct {
  const char *callee;
  IrModule *module;
  GPtrArray *tensors;
} CallExtension;

static void extend_call(IrOp *op, void *data)
{
  CallExtension *extension = data;
  if (op->code != OP_CALL || op->operands[0]->kind != EXPR_PARAMETER ||
      !g_str_equal(op->operands[0]->name, extension->callee))
    return;
  unsigned more = extension->tensors->len;
  IrExpr **operands = arena_new_array(extension->module->arena, IrExpr *, op->n_operands + more);
  memcpy(operands, op->operands, op->n_operands * sizeof *operands);
  for (unsigned i = 0; i < more; i++)
    operands[op->n_operands + i] = ir_value(extension->module, extension->tensors->pdata[i]);
  op->operands = operands;
  op->n_operands += more;
}

void scope_add_tensors(StepScope *scope)
{
  KernelBuild *build = scope->build;
  const FusedOperator *op = build->op;
  g_autoptr(GPtrArray) tensors = g_ptr_array_new();
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    IrValue *tensor = i < op->n_inputs ? build->inputs[i] : build->outputs[i - op->n_inputs];
    if (!tensor) continue;
    scope->tensors[i] = ir_parameter_new(scope->function, tensor->name, tensor->type);
    g_ptr_array_add(tensors, tensor);
  }
  CallExtension extension = {scope->function->name, build->module, tensors};
  ir_region_visit(build->kernel->body, extend_call, &extension);
}

void scope_close(StepScope *scope, IrExpr *result)
{
  IrFunction *function = scope->function, *kernel = scope->build->kernel;
  IrModule *module = scope->build->module;
  if (result) {
    function->results = arena_memdup(module->arena, &result->value->type, sizeof(IrType));
    function->n_results = 1;
    ir_emit(&scope->builder, OP_RETURN, 1, result);
  } else {
    ir_emit_array(&scope->builder, OP_RETURN, 0, NULL);
  }
  for (unsigned i = 0; i < kernel->n_dims; i++)
    if (!ir_dim_find(function, kernel->dims[i].name))
      ir_dim_new(function, kernel->dims[i].name, kernel->dims[i].type);
}

IrExpr *scope_load_tile(StepScope *scope, unsigned input, IrExpr *access, const int64_t *extent)
{
  const IrValue *tensor = scope->tensors[input];
  IrType type = ir_tile(scope->build->module, tensor->type.element, 2, extent, NULL);
  return ir_emit_value(&scope->builder, OP_LOAD, type, tensor->name, 1, access);
}

IrExpr *scope_operand(StepScope *scope, const FusedOperand *operand)
{
  IrModule *module = scope->build->module;
  switch (operand->kind) {
  case OPERAND_ABSENT: return NULL;
  case OPERAND_INPUT:
    if (!scope->input_values[operand->index])
      scope->input_values[operand->index] = scope->load(scope, operand->index);
    return scope->input_values[operand->index];
  case OPERAND_STEP: return scope->step_values[operand->index];
  case OPERAND_ANCHOR: return operand->index ? scope->second_anchor : scope->anchor;
  case OPERAND_IMMEDIATE:
    return number_class(operand->type) == NUMBER_FLOAT ? ir_float(module, operand->immediate)
                                                       : ir_int(module, (int64_t)operand->immediate);
  }
  return NULL;
}

/* A constant among operands takes the form of the type it is computed in. */
static IrExpr *in_compute_form(IrModule *module, IrExpr *value, NumberType compute)
{
  if (value && value->kind == EXPR_INT && number_class(compute) == NUMBER_FLOAT)
    return ir_float(module, (double)value->integer);
  if (value && value->kind == EXPR_FLOAT && number_class(compute) != NUMBER_FLOAT)
    return ir_int(module, (int64_t)value->number);
  return value;
}

StepWriter kernel_steps(KernelBuild *build, IrBuilder *builder)
{
  return (StepWriter){.builder = builder,
                      .library = build->math_fast,
                      .narrow = build->math_narrow,
                      .fast = build->fast,
                      .error = build->error};
}

bool scope_write_steps(StepScope *scope, bool prologue)
{
  KernelBuild *build = scope->build;
  const FusedOperator *op = build->op;
  StepWriter writer = kernel_steps(build, &scope->builder);
  for (unsigned i = 0; i < op->n_steps; i++) {
    const FusedStep *step = &op->steps[i];
    if (step->prologue != prologue) continue;
    IrExpr **operands = arena_new_array(build->module->arena, IrExpr *, step->n_operands + 1);
    for (unsigned j = 0; j < step->n_operands; j++)
      operands[j] = in_compute_form(build->module, scope_operand(scope, &step->operands[j]), step->compute);
    scope->builder.mark = step->node ? step->node->mark : (Mark){0};
    scope->step_values[i] = step_write(&writer, step, operands);
    if (!scope->step_values[i]) return false;
  }
  return true;
}

/* ---- The kernel ---- */

static IrModule *read_template(const char *name, GError **error)
{
  g_autofree char *path = g_strdup_printf("templates/%s.ir", name);
  g_autoptr(Source) source = data_load(path, error);
  return source ? ir_read(source, error) : NULL;
}

/* Template parameters that are bound to a function of a library. */
static const char *const library_functions[] = {"combine", "power"};

static GHashTable *bindings_of(KernelBuild *build)
{
  IrModule *module = build->module;
  GHashTable *bindings = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < build->choice->n_parameters; i++) {
    const ChoiceParameter *parameter = &build->choice->parameters[i];
    if (parameter->own) continue;
    IrExpr *value = parameter->kind == EXPR_INT     ? ir_int(module, parameter->integer)
                    : parameter->kind == EXPR_FLOAT ? ir_float(module, parameter->number)
                                                    : ir_name(module, parameter->text);
    g_hash_table_insert(bindings, (gpointer)parameter->name, value);
  }
  if (build->op->kind == FUSED_GEMM) { /* which is A tells the operator, exchanged or not */
    g_hash_table_insert(bindings, (gpointer) "ta", ir_name(module, number_name(build->op->gemm.a_type)));
    g_hash_table_insert(bindings, (gpointer) "tb", ir_name(module, number_name(build->op->gemm.b_type)));
  }
  static const char *const functions[] = {"prologue", "epilogue", "body"};
  for (unsigned i = 0; i < G_N_ELEMENTS(functions); i++)
    if (ir_function_find(module, functions[i]))
      g_hash_table_insert(bindings, (gpointer)functions[i], ir_symbol(module, functions[i]));
  for (unsigned i = 0; i < G_N_ELEMENTS(library_functions); i++) {
    const ChoiceParameter *chosen = choice_parameter(build->choice, library_functions[i]);
    if (chosen)
      g_hash_table_insert(bindings, (gpointer)library_functions[i], ir_symbol(module, chosen->text));
  }
  return bindings;
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
  return ir_link(build->module, build->operators, error) && ir_link(build->module, build->math, error) &&
         ir_link(build->module, build->math_narrow, error) &&
         (!build->math_fast || ir_link(build->module, build->math_fast, error));
}

/* Says what the passes may rely on where launches overlap: what the graph does not compute, no launch of the
 * plan writes, and what the caller did before the plan has ended when its first launch starts. */
static void mark_overlap(KernelBuild *build)
{
  IrFunction *kernel = ir_kernel(build->module);
  ir_launch_set(kernel, ATTR_OVERLAP, ir_int(build->module, 1));
  for (unsigned i = 0; i < kernel->n_parameters; i++) {
    const GraphTensor *tensor = g_hash_table_lookup(build->tensors, kernel->parameters[i]->name);
    kernel->parameters[i]->type.constant = tensor && tensor->kind != TENSOR_COMPUTED;
  }
}

static bool write_kernel(KernelBuild *build, const char *name, GError **error)
{
  build->kernel->name = arena_strdup(build->module->arena, name);
  bool turned = g_str_equal(build->choice->template_name, "transpose");
  bool ok = build->op->kind == FUSED_GEMM  ? kernel_write_gemm(build)
            : build->op->kind == FUSED_ROW ? kernel_write_row(build)
            : turned                       ? kernel_write_transpose(build)
                                           : kernel_write_elementwise(build);
  if (!ok || !link_libraries(build, error)) return false;
  g_autoptr(GHashTable) bindings = bindings_of(build);
  if (!ir_instantiate(build->module, bindings, error)) return false;
  if (build->choice->overlap) mark_overlap(build);
  return true;
}

KernelLibraries *kernel_libraries_read(bool fast, GError **error)
{
  g_autoptr(KernelLibraries) libraries = g_new0(KernelLibraries, 1);
  libraries->math = read_template("math", error);
  if (libraries->math) libraries->math_narrow = read_template("math_narrow", error);
  if (libraries->math_narrow) libraries->operators = read_template("operators", error);
  if (libraries->operators && fast) libraries->math_fast = read_template("math_fast", error);
  return libraries->operators && (!fast || libraries->math_fast) ? g_steal_pointer(&libraries) : NULL;
}

void kernel_libraries_free(KernelLibraries *libraries)
{
  if (!libraries) return;
  ir_module_free(libraries->math);
  ir_module_free(libraries->math_narrow);
  ir_module_free(libraries->math_fast);
  ir_module_free(libraries->operators);
  g_free(libraries);
}

KernelBuild *kernel_build(const FusedOperator *op, const Graph *graph, const Choice *choice, const char *name,
                          const KernelLibraries *libraries, Arena *expressions, GError **error)
{
  IrModule *module = read_template(choice->template_name, error);
  if (!module) return NULL;
  g_autoptr(KernelBuild) build = arena_new_object(module->arena, KernelBuild);
  if (choice_int(choice, "swapped", 0)) op = fused_gemm_transposed(module->arena, op);
  if (g_str_equal(choice->template_name, "transpose")) op = fused_elementwise_turned(module->arena, op);
  *build = (KernelBuild){.op = op, .graph = graph, .choice = choice, .module = module, .error = error};
  build->fast = libraries->math_fast != NULL;
  build->math = libraries->math;
  build->math_narrow = libraries->math_narrow;
  build->math_fast = libraries->math_fast;
  build->operators = libraries->operators;
  build->expressions = expressions;
  build->kernel = ir_kernel(module);
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
  g_hash_table_unref(build->dims);
  g_hash_table_unref(build->tensors);
  ir_module_free(build->module); /* the build itself lives in its arena */
}
