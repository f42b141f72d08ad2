/* Copies of operations, regions and modules. */
#include "ir/ir.h"
#include <string.h>

typedef struct Copy {
  IrModule *module;
  GHashTable *map; /* IrValue* -> IrExpr* */
  bool duplicate;  /* another module: leaves are copied, not shared */
  const char
      *wide; /* what is added to names of functions: f32 and s32 are read as f64 and s64. NULL: nothing */
} Copy;

static IrExpr *map_leaf(const IrExpr *leaf, void *data)
{
  const Copy *copy = data;
  if (leaf->kind == EXPR_VALUE) return g_hash_table_lookup(copy->map, leaf->value);
  return NULL;
}

/* A copy that shares nothing with the original's arena. */
static IrExpr *duplicate_expr(const Copy *copy, const IrExpr *expr)
{
  Arena *arena = copy->module->arena;
  IrExpr *mapped = expr->kind == EXPR_VALUE ? g_hash_table_lookup(copy->map, expr->value) : NULL;
  if (mapped) return mapped;
  IrExpr *other = arena_memdup(arena, expr, sizeof *expr);
  other->name = copy->wide && expr->kind == EXPR_SYMBOL ? arena_printf(arena, "%s%s", expr->name, copy->wide)
                                                        : arena_strdup(arena, expr->name);
  if (expr->n) other->items = arena_new_array(arena, IrExpr *, expr->n);
  for (unsigned i = 0; i < expr->n; i++)
    other->items[i] = duplicate_expr(copy, expr->items[i]);
  return other;
}

static IrExpr *copy_expr(const Copy *copy, const IrExpr *expr)
{
  if (!expr) return NULL;
  return copy->duplicate ? duplicate_expr(copy, expr)
                         : ir_expr_map(copy->module, expr, map_leaf, (void *)copy);
}

static IrType copy_type(const Copy *copy, const IrType *type)
{
  IrType other = *type;
  if (!copy->duplicate) return other;
  if (copy->wide && other.element == NUMBER_F32) other.element = NUMBER_F64;
  if (copy->wide && other.element == NUMBER_S32) other.element = NUMBER_S64;
  other.element_parameter = copy_expr(copy, type->element_parameter);
  for (unsigned i = 0; i < type->rank; i++) {
    other.dims[i] = copy_expr(copy, type->dims[i]);
    other.strides[i] = copy_expr(copy, type->strides[i]);
  }
  if (type->layout) {
    Layout *layout = arena_memdup(copy->module->arena, type->layout, sizeof *type->layout);
    layout->name = arena_strdup(copy->module->arena, layout->name);
    other.layout = layout;
  }
  return other;
}

static void record(const Copy *copy, const IrValue *from, IrValue *to)
{
  to->variable = from->variable;
  g_hash_table_insert(copy->map, (gpointer)from, ir_value(copy->module, to));
}

static void copy_region(const Copy *copy, IrBuilder *builder, const IrRegion *region);

/* In a pipelined loop operations name values that others behind them give. */
static void map_again(IrOp *op, void *data)
{
  const Copy *copy = data;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = copy_expr(copy, op->operands[i]);
}

static IrOp *copy_op(const Copy *copy, IrBuilder *builder, const IrOp *op)
{
  Arena *arena = copy->module->arena;
  IrOp *other = ir_emit_array(builder, op->code, op->n_operands, op->operands);
  other->mark = op->mark;
  other->symbol = arena_strdup(arena, op->symbol);
  for (unsigned i = 0; i < op->n_operands; i++)
    other->operands[i] = copy_expr(copy, op->operands[i]);
  if (op->declared) {
    IrType declared = copy_type(copy, op->declared);
    other->declared = arena_memdup(arena, &declared, sizeof declared);
  }
  for (unsigned i = 0; i < op->n_attributes; i++)
    ir_attribute_set(other, op->attributes[i].key, copy_expr(copy, op->attributes[i].value));
  for (unsigned i = 0; i < op->n_regions; i++) {
    IrRegion *body = ir_region_add(other);
    for (unsigned j = 0; j < op->regions[i]->n_arguments; j++) {
      const IrValue *argument = op->regions[i]->arguments[j];
      record(copy, argument, ir_argument_add(body, argument->name, copy_type(copy, &argument->type)));
    }
    IrBuilder inside = ir_builder_at_end(body);
    copy_region(copy, &inside, op->regions[i]);
    if (ir_attribute(op, ATTR_PIPELINED)) ir_region_visit(body, map_again, (void *)copy);
  }
  for (unsigned i = 0; i < op->n_results; i++)
    record(copy, op->results[i],
           ir_result(other, op->results[i]->name, copy_type(copy, &op->results[i]->type)));
  return other;
}

static void copy_region(const Copy *copy, IrBuilder *builder, const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next)
    copy_op(copy, builder, op);
}

IrOp *ir_op_clone(IrBuilder *builder, const IrOp *op, GHashTable *map)
{
  Copy copy = {builder->module, map, false};
  return copy_op(&copy, builder, op);
}

void ir_region_clone_into(IrBuilder *builder, const IrRegion *region, GHashTable *map)
{
  Copy copy = {builder->module, map, false};
  copy_region(&copy, builder, region);
}

/* ---- Whole functions and modules ---- */

static void keep_source(IrModule *module, Source *source)
{
  if (!source || source == module->source || g_ptr_array_find(module->sources, source, NULL)) return;
  g_ptr_array_add(module->sources, source_ref(source));
}

static IrFunction *copy_function(IrModule *module, const IrFunction *function, const char *wide)
{
  if (function->module != module) { /* the marks point into these */
    keep_source(module, function->module->source);
    for (unsigned i = 0; i < function->module->sources->len; i++)
      keep_source(module, function->module->sources->pdata[i]);
  }
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  Copy copy = {module, map, true, wide};
  const char *name = wide ? arena_printf(module->arena, "%s%s", function->name, wide) : function->name;
  IrFunction *other = ir_function_new(module, name, function->is_kernel);
  other->mark = function->mark;
  for (unsigned i = 0; i < function->n_dims; i++) {
    const IrDim *dim = &function->dims[i];
    IrDim *new = ir_dim_new(other, dim->name, dim->type);
    const char *own = new->name;
    *new = *dim;
    new->name = own;
    new->launch = copy_expr(&copy, dim->launch);
  }
  for (unsigned i = 0; i < function->n_parameters; i++) {
    const IrValue *value = function->parameters[i];
    record(&copy, value, ir_parameter_new(other, value->name, copy_type(&copy, &value->type)));
  }
  other->results = arena_new_array(module->arena, IrType, function->n_results);
  other->n_results = function->n_results;
  for (unsigned i = 0; i < function->n_results; i++)
    other->results[i] = copy_type(&copy, &function->results[i]);
  for (unsigned i = 0; i < function->n_launch; i++)
    ir_launch_set(other, function->launch[i].key, copy_expr(&copy, function->launch[i].value));
  IrBuilder builder = ir_builder_at_end(other->body);
  copy_region(&copy, &builder, function->body);
  return other;
}

IrFunction *ir_function_copy(IrModule *module, const IrFunction *function)
{
  return copy_function(module, function, NULL);
}

IrFunction *ir_function_widen(IrModule *module, const IrFunction *function, const char *suffix)
{
  return copy_function(module, function, suffix);
}

static const IrDomain *copy_domain(const Copy *copy, const IrDomain *domain)
{
  Arena *arena = copy->module->arena;
  if (!domain) return NULL;
  IrDomain *other = arena_memdup(arena, domain, sizeof *domain);
  if (domain->values) other->values = arena_memdup(arena, domain->values, domain->n * sizeof *domain->values);
  return other;
}

static const char **copy_names(Arena *arena, const char *const *names, unsigned n)
{
  const char **other = arena_new_array(arena, const char *, n);
  for (unsigned i = 0; i < n; i++)
    other[i] = arena_strdup(arena, names[i]);
  return other;
}

static IrParameter *copy_parameters(const Copy *copy, const IrParameter *list, unsigned n)
{
  IrParameter *other = arena_memdup(copy->module->arena, list, n * sizeof *list);
  for (unsigned i = 0; i < n; i++) {
    other[i].name = arena_strdup(copy->module->arena, list[i].name);
    other[i].kind = arena_strdup(copy->module->arena, list[i].kind);
    other[i].value = copy_expr(copy, list[i].value);
    other[i].condition = copy_expr(copy, list[i].condition);
    other[i].decided_by = arena_strdup(copy->module->arena, list[i].decided_by);
    other[i].domain = copy_domain(copy, list[i].domain);
  }
  return other;
}

static IrTry *copy_tries(const Copy *copy, const IrTry *list, unsigned n)
{
  Arena *arena = copy->module->arena;
  IrTry *other = arena_memdup(arena, list, n * sizeof *list);
  for (unsigned i = 0; i < n; i++) {
    other[i].lines = arena_memdup(arena, list[i].lines, list[i].n * sizeof *list[i].lines);
    for (unsigned j = 0; j < list[i].n; j++) {
      IrTryLine *line = &other[i].lines[j];
      line->names = copy_names(arena, line->names, line->n);
      line->values = copy_expr(copy, line->values);
      line->step = copy_expr(copy, line->step);
      line->condition = copy_expr(copy, line->condition);
      line->most = copy_expr(copy, line->most);
    }
  }
  return other;
}

IrModule *ir_module_clone(const IrModule *module)
{
  IrModule *other = ir_module_new(module->level);
  g_autoptr(GHashTable) map = g_hash_table_new(NULL, NULL);
  Copy copy = {other, map, true};
  other->gpu = arena_strdup(other->arena, module->gpu);
  other->gpu_hash = arena_strdup(other->arena, module->gpu_hash);
  other->after_pass = arena_strdup(other->arena, module->after_pass);
  other->parameters = copy_parameters(&copy, module->parameters, module->n_parameters);
  other->n_parameters = module->n_parameters;
  other->key = copy_names(other->arena, module->key, module->n_key);
  other->n_key = module->n_key;
  other->alike = copy_names(other->arena, module->alike, module->n_alike);
  other->n_alike = module->n_alike;
  other->tries = copy_tries(&copy, module->tries, module->n_tries);
  other->n_tries = module->n_tries;
  other->bound = copy_parameters(&copy, module->bound, module->n_bound);
  other->n_bound = module->n_bound;
  if (module->source) other->source = source_ref(module->source);
  for (unsigned i = 0; i < module->n_functions; i++)
    ir_function_copy(other, module->functions[i]);
  return other;
}
