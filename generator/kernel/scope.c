/* What all writers of kernels need: run-time scalars, tensors, and the steps of a fused operator in a sub-kernel.
 * The dispatcher that calls the writers is kernel.c. */
#include "generator/kernel/kernel.h"
#include "generator/kernel/steps.h"
#include "generator/program/times.h"
#include <string.h>

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
  /* A number that is known is its own multiple and maximum, 1 too: a maximum of 1 alone is nothing's as well. */
  bool is_one = least == 1 && most == 1;
  dim->multiple = multiple > 1 || is_one ? multiple : 0;
  dim->maximum =
      most < SYMBOLIC_DIMENSION_MAX ? MAX(most, 1) : 0; /* 0 says that nobody knows: of nothing it is 1 */
}

static void find_tiles(IrOp *op, void *data)
{
  if (op->code == OP_TILES) *(IrOp **)data = op;
}

IrOp *kernel_tiles(const KernelBuild *build)
{
  IrOp *tiles = NULL;
  ir_region_visit(build->kernel->body, find_tiles, &tiles);
  return tiles;
}

IrExpr *kernel_dim(KernelBuild *build, const Symbolic *expression, const char *hint, NumberType type)
{
  int64_t value;
  if (symbolic_is_constant(expression, &value)) return ir_int(build->module, value);
  return kernel_named_dim(build, expression, hint, type);
}

IrExpr *kernel_named_dim(KernelBuild *build, const Symbolic *expression, const char *hint, NumberType type)
{
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

void kernel_replace_dim(KernelBuild *build, IrOp *op, IrType *type, const char *name, IrExpr *with)
{
  DimReplacement replacement = {name, with, build->module};
  if (type) replace_in_type(type, &replacement);
  if (!op) return;
  replace_in_op(op, &replacement);
  for (unsigned i = 0; i < op->n_regions; i++)
    ir_region_visit(op->regions[i], replace_in_op, &replacement);
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
  switch ((unsigned)expr->kind) {
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
  type->align = choice_align(build->choice, tensor);
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
  if (build->choice->bytes && number_is_small_float(type.element)) type.element = NUMBER_U8;
  g_hash_table_insert(build->tensors, name, (gpointer)tensor);
  return ir_parameter_new(build->kernel, name, type);
}

/* `output`: NULL for an input. every: one element is for so many of the last dim, or 0. */
static IrValue *add_operand(KernelBuild *build, unsigned position, const GraphTensor *tensor,
                            const Symbolic *const *strides, const FusedOutput *output, int64_t every,
                            unsigned lead)
{
  const FusedOperator *op = build->op;
  const Symbolic *all_dims[FUSED_MAX_RANK + 3], *all_strides[FUSED_MAX_RANK + 3];
  for (unsigned d = 0; d < lead; d++) {
    all_dims[d] = symbolic_constant(build->expressions, 1);
    all_strides[d] = symbolic_constant(build->expressions, 0);
  }
  memcpy(all_dims + lead, op->dims, op->rank * sizeof *all_dims);
  if (op->times) all_dims[lead] = fused_time_extent(build->expressions, op, tensor);
  memcpy(all_strides + lead, strides, op->rank * sizeof *all_strides);
  if (output && output->reduced) {
    const Symbolic **parts = &all_dims[lead + op->rank - (output->by_rows ? 2 : 1)];
    *parts =
        symbolic_ceil_div(build->expressions, *parts, symbolic_constant(build->expressions, output->width));
  }
  const Symbolic **last = &all_dims[lead + op->rank - 1];
  if (every)
    *last = symbolic_ceil_div(build->expressions, *last, symbolic_constant(build->expressions, every));
  return kernel_add_tensor(build, output ? KERNEL_OUTPUT : KERNEL_INPUT, position, tensor, op->rank + lead,
                           all_dims, all_strides);
}

void kernel_add_operands(KernelBuild *build, unsigned lead)
{
  const FusedOperator *op = build->op;
  for (unsigned i = 0; i < op->n_inputs; i++)
    if (!fused_is_contracted(op, i))
      build->inputs[i] =
          add_operand(build, i, op->inputs[i].tensor, op->inputs[i].strides, NULL, op->inputs[i].every, lead);
  for (unsigned i = 0; i < op->n_outputs; i++)
    build->outputs[i] = add_operand(build, i, op->outputs[i].tensor, op->outputs[i].strides, &op->outputs[i],
                                    op->outputs[i].every, lead);
}

/* ---- Steps in a sub-kernel ---- */

static void open_values(StepScope *scope, KernelBuild *build)
{
  const FusedOperator *op = build->op;
  Arena *arena = build->module->arena;
  scope->build = build;
  scope->step_values = arena_new_array(arena, IrExpr *, op->n_steps + 1);
  scope->input_values = arena_new_array(arena, IrExpr *, op->n_inputs + 1);
  scope->tensors = arena_new_array(arena, IrValue *, op->n_inputs + op->n_outputs + 1);
}

bool scope_open(StepScope *scope, KernelBuild *build, const char *name)
{
  open_values(scope, build);
  scope->function = ir_function_new(build->module, name, false);
  scope->builder = ir_builder_at_end(scope->function->body);
  return true;
}

void scope_enter(StepScope *scope, IrRegion *region)
{
  const FusedOperator *op = scope->build->op;
  Mark mark = scope->builder.mark;
  memset(scope->step_values, 0, op->n_steps * sizeof *scope->step_values);
  memset(scope->input_values, 0, op->n_inputs * sizeof *scope->input_values);
  scope->builder = ir_builder_at_end(region);
  scope->builder.mark = mark;
}

void scope_open_region(StepScope *scope, KernelBuild *build, IrRegion *region)
{
  const FusedOperator *op = build->op;
  open_values(scope, build);
  scope->function = build->kernel;
  scope->builder = ir_builder_at_end(region);
  memcpy(scope->tensors, build->inputs, op->n_inputs * sizeof *scope->tensors);
  memcpy(scope->tensors + op->n_inputs, build->outputs, op->n_outputs * sizeof *scope->tensors);
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

bool kernel_may_share_memory(const FusedOperator *op, const GraphTensor *input)
{
  for (unsigned i = 0; i < op->n_outputs; i++) {
    const GraphTensor *output = op->outputs[i].tensor;
    if (op->outputs[i].reduced) continue; /* parts in the workspace, of another shape than what is stored */
    bool same = input->type == output->type && graph_same_shape(input, output);
    for (unsigned d = 0; same && d < input->rank; d++)
      same = symbolic_equals(input->shape[d], 1) || symbolic_same(input->strides[d], output->strides[d]);
    if (same) return true;
  }
  return false;
}

int64_t scope_rows_loaded(const StepScope *scope, unsigned input, int64_t rows)
{
  const FusedOperator *op = scope->build->op;
  for (unsigned d = 0; d + 1 < op->rank; d++)
    if (!symbolic_equals(op->dims[d], 1)) return 1;
  return kernel_may_share_memory(op, op->inputs[input].tensor) ? rows : 1;
}

IrExpr *scope_load_tile(StepScope *scope, unsigned input, IrExpr *access, const int64_t *extent)
{
  const IrValue *tensor = scope->tensors[input];
  IrType type = ir_tile(scope->build->module, tensor->type.element, 2, extent, NULL);
  IrExpr *value = ir_emit_value(&scope->builder, OP_LOAD, type, tensor->name, 1, access);
  if (choice_reads_single(scope->build->choice, input))
    ir_attribute_set(value->value->def, ATTR_ALIGNED, ir_int(scope->build->module, 1));
  return value;
}

static bool is_byte_float(const StepScope *scope, const GraphTensor *tensor)
{
  return scope->build->choice->bytes && number_is_small_float(tensor->type);
}

static IrExpr *load_input(StepScope *scope, unsigned input)
{
  const GraphTensor *tensor = scope->build->op->inputs[input].tensor;
  IrExpr *value = scope->load(scope, input);
  bool stored = number_is_packed(tensor->type) || tensor->type == NUMBER_E8M0; /* only memory has such */
  if (!is_byte_float(scope, tensor) && !stored) return value;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  if (stored)
    return step_convert(&writer, value, number_class(tensor->type) == NUMBER_FLOAT ? NUMBER_F32 : NUMBER_S32);
  return step_from_byte(&writer, value, tensor->type);
}

NumberType scope_output_type(const StepScope *scope, unsigned i)
{
  const FusedOperator *op = scope->build->op;
  return is_byte_float(scope, op->outputs[i].tensor) ? NUMBER_F32
                                                     : scope->tensors[op->n_inputs + i]->type.element;
}

IrExpr *scope_stored(StepScope *scope, unsigned i, IrExpr *value)
{
  const FusedOperator *op = scope->build->op;
  const GraphTensor *tensor = op->outputs[i].tensor;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  if (is_byte_float(scope, tensor)) return step_to_byte(&writer, value, tensor->type, false);
  return step_convert(&writer, value, scope->tensors[op->n_inputs + i]->type.element);
}

IrExpr *scope_operand(StepScope *scope, const FusedOperand *operand)
{
  IrModule *module = scope->build->module;
  switch (operand->kind) {
  case OPERAND_ABSENT: return NULL;
  case OPERAND_INPUT:
    if (!scope->input_values[operand->index])
      scope->input_values[operand->index] = load_input(scope, operand->index);
    return scope->input_values[operand->index];
  case OPERAND_STEP: return scope->step_values[operand->index];
  case OPERAND_ANCHOR: return scope->anchors[operand->index];
  case OPERAND_REDUCED: return scope->reduced[operand->index];
  case OPERAND_INDEX: return scope->index(scope, operand->index);
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
                      .wide = build->math_wide,
                      .operators = build->operators,
                      .fast = build->fast,
                      .bytes = build->choice->bytes,
                      .least = STEP_FULL,
                      .error = build->error};
}

bool scope_write_step(StepScope *scope, unsigned i)
{
  KernelBuild *build = scope->build;
  const FusedStep *step = &build->op->steps[i];
  StepWriter writer = kernel_steps(build, &scope->builder);
  if (scope->approximate) {
    writer.approximate = true;
    writer.least = scope->least;
  }
  IrExpr **operands = arena_new_array(build->module->arena, IrExpr *, step->n_operands + 1);
  for (unsigned j = 0; j < step->n_operands; j++)
    operands[j] = in_compute_form(build->module, scope_operand(scope, &step->operands[j]), step->compute);
  for (unsigned j = 0; scope->fit && j < step->n_operands; j++)
    operands[j] = operands[j] ? scope->fit(scope, step, operands[j]) : NULL;
  scope->builder.mark = step->node ? step->node->mark : (Mark){0};
  scope->step_values[i] = step_write(&writer, step, operands);
  return scope->step_values[i] != NULL;
}

bool scope_write_steps(StepScope *scope, bool prologue)
{
  const FusedOperator *op = scope->build->op;
  for (unsigned i = 0; i < op->n_steps; i++)
    if (fused_step_is_in_front(op, &op->steps[i]) == prologue && !scope_write_step(scope, i)) return false;
  return true;
}
