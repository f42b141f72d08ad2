/* Instantiation: binds the template's parameters, evaluates `when`, inlines sub-kernels, folds. Each kernel's
 * body is copied once, everything happening on the way. */
#include "ir/instance.h"
#include "ir/reducer.h"
#include <stdarg.h>
#include <string.h>

/* ---- Errors ---- */

static const Frame *outermost(const Frame *frame)
{
  while (frame->caller)
    frame = frame->caller;
  return frame;
}

static char *bindings_text(const IrModule *module)
{
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < module->n_bound; i++)
    g_string_append_printf(text, "%s%s = %s", i ? ", " : " with ", module->bound[i].name,
                           ir_expr_text((IrModule *)module, module->bound[i].value));
  return g_string_free(text, FALSE);
}

bool instance_fail(const Frame *frame, const Mark *mark, const char *code, const char *hint,
                   const char *format, ...)
{
  GError **error = frame->instance->error;
  if (!error || *error) return false;
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_set(error, ERROR_INPUT, mark, code, hint, "%s", message);
  for (const Frame *at = frame; at->caller; at = at->caller)
    error_add(error, ERROR_INPUT, SEVERITY_NOTE, &at->call->mark, "called", NULL, "in `@%s`, called here",
              at->function->name);
  const IrFunction *kernel = outermost(frame)->function;
  g_autofree char *bound = bindings_text(frame->instance->module);
  error_add(error, ERROR_INPUT, SEVERITY_NOTE, &kernel->mark, "instantiation", NULL,
            "in the instantiation of %s `%s`%s", kernel->is_kernel ? "kernel" : "sub-kernel", kernel->name,
            bound);
  return false;
}

/* ---- Expressions and types of the template, mapped ---- */

static IrExpr *map_leaf(const IrExpr *leaf, void *data)
{
  const Frame *frame = data;
  switch (leaf->kind) {
  case EXPR_VALUE: return g_hash_table_lookup(frame->values, leaf->value);
  case EXPR_DIM: return frame->dims ? g_hash_table_lookup(frame->dims, leaf->name) : NULL;
  case EXPR_PARAMETER: return g_hash_table_lookup(frame->instance->bindings, leaf->name);
  case EXPR_SYMBOL: {
    const char *name = g_hash_table_lookup(frame->symbols, leaf->name);
    return name ? ir_symbol(frame->instance->module, name) : NULL;
  }
  default: return NULL;
  }
}

static IrExpr *map_expr(const Frame *frame, const IrExpr *expr)
{
  return expr ? ir_expr_map(frame->instance->module, expr, map_leaf, (void *)frame) : NULL;
}

static bool map_type(const Frame *frame, IrType *type, const Mark *mark)
{
  if (type->element_parameter) {
    const IrExpr *name = map_expr(frame, type->element_parameter);
    if (name->kind != EXPR_NAME || !number_parse(name->name, &type->element))
      return instance_fail(frame, mark, "type", NULL, "`%s` is not a number type",
                           ir_expr_text(frame->instance->module, type->element_parameter));
    type->element_parameter = NULL;
  }
  for (unsigned i = 0; i < type->rank; i++) {
    type->dims[i] = map_expr(frame, type->dims[i]);
    type->strides[i] = map_expr(frame, type->strides[i]);
    /* A combiner that stays a function keeps the bare names of its signature. */
    bool constant =
        type->dims[i]->kind == EXPR_INT || !frame->instance->target->is_kernel || frame->instance->rows;
    if (type->kind == TYPE_TILE && !constant)
      return instance_fail(frame, mark, "extent", NULL, "the extent `%s` of a tile is not a constant",
                           ir_expr_text(frame->instance->module, type->dims[i]));
  }
  return true;
}

/* ---- Copying ---- */

static bool expand_region(Frame *frame, IrBuilder *builder, const IrRegion *region);
static bool inline_call(Frame *frame, IrBuilder *builder, const IrOp *call);

static void define(Frame *frame, const IrValue *from, IrExpr *to)
{
  g_hash_table_insert(frame->values, (gpointer)from, to);
}

/* A sub-kernel's symbols get names of their own at each call. */
static const char *new_symbol(Frame *frame, const IrOp *op)
{
  Instance *instance = frame->instance;
  if (!frame->caller || op->code == OP_SLOT) return op->symbol;
  const char *name = op->symbol;
  for (unsigned number = 1; g_hash_table_contains(instance->reserved, name); number++)
    name = arena_printf(instance->module->arena, "%s%u", op->symbol, number);
  g_hash_table_add(instance->reserved, (gpointer)name);
  g_hash_table_insert(frame->symbols, (gpointer)op->symbol, (gpointer)name);
  return name;
}

static void keep_function(Instance *instance, const char *name)
{
  IrFunction *function = ir_function_find(instance->module, name);
  if (!function || !g_hash_table_add(instance->referenced, (gpointer)function->name)) return;
  g_queue_push_tail(instance->pending, function);
}

static void keep_referenced(const IrExpr *expr, void *data)
{
  if (expr->kind == EXPR_SYMBOL) keep_function(data, expr->name);
}

/* Combiners of `with`, with what else a reducer has, and tile schedulers stay functions. */
static void keep_callees(Frame *frame, IrOp *op)
{
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH);
  if (with) ir_expr_visit(with, keep_referenced, frame->instance);
  for (ReducerPart part = 0; with && with->kind == EXPR_SYMBOL && part < REDUCER_PARTS; part++) {
    const IrFunction *function = ir_reducer_part(frame->instance->module, with->name, part);
    if (function) keep_function(frame->instance, function->name);
  }
  if (op->code != OP_TILES) return;
  const IrExpr *scheduler = op->operands[0];
  if (scheduler->kind == EXPR_NAME && ir_function_find(frame->instance->module, scheduler->name))
    op->operands[0] = ir_symbol(frame->instance->module, scheduler->name);
  keep_referenced(op->operands[0], frame->instance);
}

static bool copy_results(Frame *frame, IrOp *copy, const IrOp *op)
{
  for (unsigned i = 0; i < op->n_results; i++) {
    IrType type = op->results[i]->type;
    if (!map_type(frame, &type, &op->mark)) return false;
    if (frame->shape && !elementwise_result(frame, copy, &type)) return false;
    IrValue *value = ir_result(copy, op->results[i]->name, type);
    value->variable = op->results[i]->variable;
    define(frame, op->results[i], ir_value(frame->instance->module, value));
  }
  IrType none = {0};
  return op->n_results || !frame->shape || op->code == OP_SET || elementwise_result(frame, copy, &none);
}

/* In a pipelined loop operations name values that others behind them give. */
static void map_ahead(IrOp *op, void *data)
{
  Frame *frame = data;
  for (unsigned i = 0; i < op->n_operands; i++)
    op->operands[i] = map_expr(frame, op->operands[i]);
}

static bool copy_bodies(Frame *frame, IrOp *copy, const IrOp *op)
{
  for (unsigned i = 0; i < op->n_regions; i++) {
    const IrRegion *from = op->regions[i];
    IrRegion *body = ir_region_add(copy);
    for (unsigned j = 0; j < from->n_arguments; j++) {
      IrType type = from->arguments[j]->type;
      if (!map_type(frame, &type, &op->mark)) return false;
      IrValue *value = ir_argument_add(body, from->arguments[j]->name, type);
      define(frame, from->arguments[j], ir_value(frame->instance->module, value));
    }
    IrBuilder inside = ir_builder_at_end(body);
    if (!expand_region(frame, &inside, from)) return false;
    if (ir_attribute(op, ATTR_PIPELINED)) ir_region_visit(body, map_ahead, frame);
  }
  return true;
}

/* `let` is for scalars. Applied to tiles it names what was computed; the value of a variable must be copied.
 */
static bool name_tile(Frame *frame, IrBuilder *builder, const IrOp *let, IrExpr *tile)
{
  IrType type = ir_expr_type(frame->instance->target, tile);
  if (type.kind != TYPE_TILE) return false;
  const char *name = let->results[0]->name;
  builder->mark = let->mark;
  if (tile->value->variable)
    tile = ir_emit_value(builder, OP_VAR, type, name, 1, tile);
  else if (map_expr(frame, let->operands[0])->kind != EXPR_VALUE)
    tile->value->name = name;
  define(frame, let->results[0], tile);
  return true;
}

/* What is left of an index that picks one of several variables. */
static void find_unpicked(const IrExpr *expr, void *data)
{
  const IrExpr **unpicked = data;
  if (expr->kind == EXPR_INDEX && expr->items[0]->kind == EXPR_LIST) *unpicked = expr;
}

static bool check_picked(Frame *frame, const IrExpr *expr, const Mark *mark)
{
  const IrExpr *unpicked = NULL;
  ir_expr_visit(expr, find_unpicked, &unpicked);
  if (!unpicked) return true;
  return instance_fail(frame, mark, "several", NULL,
                       "the index `%s` of several variables has to be a constant from 0 to %u",
                       ir_expr_text(frame->instance->module, unpicked->items[1]), unpicked->items[0]->n - 1);
}

static bool copy_op(Frame *frame, IrBuilder *builder, const IrOp *op)
{
  IrModule *module = frame->instance->module;
  if (++frame->instance->copied > INSTANCE_MAX_OPS)
    return instance_fail(frame, &op->mark, "too-large", NULL, "the kernel grows beyond %d operations",
                         INSTANCE_MAX_OPS);
  g_autofree IrExpr **operands = g_new(IrExpr *, op->n_operands + 1);
  for (unsigned i = 0; i < op->n_operands; i++) {
    operands[i] = map_expr(frame, op->operands[i]);
    if (!check_picked(frame, operands[i], &op->mark)) return false;
    if (frame->shape && !(operands[i] = elementwise_expr(frame, builder, operands[i], &op->mark)))
      return false;
  }
  if (frame->shape && op->code == OP_LET && name_tile(frame, builder, op, operands[0])) return true;
  builder->mark = op->mark;
  IrOp *copy = ir_emit_array(builder, op->code, op->n_operands, operands);
  for (unsigned i = 0; i < op->n_attributes; i++) {
    IrExpr *value = map_expr(frame, op->attributes[i].value);
    if (value && !check_picked(frame, value, &op->mark)) return false;
    ir_attribute_set(copy, op->attributes[i].key, value);
  }
  if (op->symbol) copy->symbol = new_symbol(frame, op);
  if (op->declared) {
    copy->declared = arena_memdup(module->arena, op->declared, sizeof *op->declared);
    if (!map_type(frame, copy->declared, &op->mark)) return false;
  }
  keep_callees(frame, copy);
  return copy_bodies(frame, copy, op) && copy_results(frame, copy, op);
}

/* `when`, and an `if` whose condition has become known: only the taken region remains, in place. */
static bool choose_region(Frame *frame, IrBuilder *builder, const IrOp *op)
{
  IrExpr *condition = map_expr(frame, op->operands[0]);
  int64_t taken;
  if (!ir_expr_is_int(condition, &taken)) {
    if (op->code == OP_IF) return copy_op(frame, builder, op);
    return instance_fail(frame, &op->mark, "when", "use `if` for conditions known at run time",
                         "the condition `%s` of `when` is not known at instantiation",
                         ir_expr_text(frame->instance->module, condition));
  }
  if (taken) return expand_region(frame, builder, op->regions[0]);
  return op->n_regions < 2 || expand_region(frame, builder, op->regions[1]);
}

/* `repeat`: its body once for each value of the index. */
static bool repeat_body(Frame *frame, IrBuilder *builder, const IrOp *op)
{
  IrExpr *low = map_expr(frame, op->operands[0]), *high = map_expr(frame, op->operands[1]);
  if (low->kind != EXPR_INT || high->kind != EXPR_INT)
    return instance_fail(frame, &op->mark, "repeat", "use `for` for bounds known at run time",
                         "the bounds of `repeat` are not known at instantiation");
  for (int64_t at = low->integer; at < high->integer; at++) {
    if (++frame->instance->copied > INSTANCE_MAX_OPS)
      return instance_fail(frame, &op->mark, "too-large", NULL, "the kernel grows beyond %d operations",
                           INSTANCE_MAX_OPS);
    define(frame, op->regions[0]->arguments[0], ir_int(frame->instance->module, at));
    if (!expand_region(frame, builder, op->regions[0])) return false;
  }
  return true;
}

/* `var ... count n`: so many variables, of which `%x[i]` is one. */
static bool copy_variables(Frame *frame, IrBuilder *builder, const IrOp *op)
{
  IrModule *module = frame->instance->module;
  const IrExpr *written = ir_attribute_value(op, ATTR_COUNT);
  if (!written) return copy_op(frame, builder, op);
  IrExpr *count = map_expr(frame, written);
  if (count->kind != EXPR_INT || count->integer < 1 || count->integer > INSTANCE_MAX_OPS)
    return instance_fail(frame, &op->mark, "several", NULL, "`count` is a constant from 1 to %d, not `%s`",
                         INSTANCE_MAX_OPS, ir_expr_text(module, count));
  IrExpr **variables = arena_new_array(module->arena, IrExpr *, (size_t)count->integer);
  for (int64_t i = 0; i < count->integer; i++) {
    if (!copy_op(frame, builder, op)) return false;
    variables[i] = g_hash_table_lookup(frame->values, op->results[0]);
    ir_attribute_remove(variables[i]->value->def, ATTR_COUNT);
  }
  define(frame, op->results[0], ir_list(module, (unsigned)count->integer, variables));
  return true;
}

static bool take_returned(Frame *frame, IrBuilder *builder, const IrOp *op)
{
  if (!frame->caller) return copy_op(frame, builder, op);
  frame->returned = arena_new_array(frame->instance->module->arena, IrExpr *, op->n_operands);
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrExpr *value = map_expr(frame, op->operands[i]);
    if (frame->shape) value = elementwise_expr(frame, builder, value, &op->mark);
    if (!value) return false;
    frame->returned[i] = value;
  }
  return true;
}

static bool expand_region(Frame *frame, IrBuilder *builder, const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    bool ok;
    switch (op->code) {
    case OP_WHEN:
    case OP_IF: ok = choose_region(frame, builder, op); break;
    case OP_REPEAT: ok = repeat_body(frame, builder, op); break;
    case OP_VAR: ok = copy_variables(frame, builder, op); break;
    case OP_CALL: ok = inline_call(frame, builder, op); break;
    case OP_RETURN: ok = take_returned(frame, builder, op); break;
    default: ok = copy_op(frame, builder, op);
    }
    if (!ok) return false;
  }
  return true;
}

/* ---- Calls ---- */

static const IrFunction *find_callee(Frame *frame, const IrOp *call, const IrExpr *callee)
{
  const IrModule *module = frame->instance->module;
  const IrFunction *function = callee->kind == EXPR_SYMBOL ? ir_function_find(module, callee->name) : NULL;
  if (!function) {
    g_autofree const char **names = g_new0(const char *, module->n_functions + 1);
    for (unsigned i = 0; i < module->n_functions; i++)
      names[i] = module->functions[i]->name;
    const char *nearest = callee->name ? nearest_name(callee->name, names) : NULL;
    g_autofree char *hint = nearest ? g_strdup_printf("did you mean `@%s`?", nearest) : NULL;
    instance_fail(frame, &call->mark, "unknown-function", hint, "there is no function `@%s`",
                  callee->name ? callee->name : "?");
    return NULL;
  }
  for (const Frame *at = frame; at; at = at->caller)
    if (at->function == function) {
      instance_fail(frame, &call->mark, "recursion", NULL,
                    "`@%s` calls itself; sub-kernels cannot be recursive", function->name);
      return NULL;
    }
  if (function->is_kernel) {
    instance_fail(frame, &call->mark, "callee", NULL, "`@%s` is a kernel; only sub-kernels can be called",
                  function->name);
    return NULL;
  }
  if (call->n_operands - 1 != function->n_parameters) {
    instance_fail(frame, &call->mark, "argument-count", NULL, "`@%s` takes %u argument%s, not %u",
                  function->name, function->n_parameters, function->n_parameters == 1 ? "" : "s",
                  call->n_operands - 1);
    return NULL;
  }
  return function;
}

/* A bare name in the callee's signature takes the argument's extent; a constant must be it. */
static bool match_extent(Frame *frame, const IrExpr *formal, IrExpr *actual)
{
  if (formal->kind == EXPR_DIM) {
    if (!g_hash_table_contains(frame->dims, formal->name))
      g_hash_table_insert(frame->dims, (gpointer)formal->name, actual);
    const IrExpr *bound = g_hash_table_lookup(frame->dims, formal->name);
    return bound->kind != EXPR_INT || actual->kind != EXPR_INT || bound->integer == actual->integer;
  }
  const IrExpr *expected = map_expr(frame, formal);
  return expected->kind != EXPR_INT || actual->kind != EXPR_INT || expected->integer == actual->integer;
}

static char *type_text_of(const IrType *type)
{
  return type->kind == TYPE_NONE ? g_strdup("a literal") : ir_type_text(type);
}

static bool argument_fault(const Frame *frame, unsigned index, const IrType *formal, const IrType *actual)
{
  g_autofree char *expected = ir_type_text(formal), *found = type_text_of(actual);
  return instance_fail(frame->caller, &frame->call->mark, "argument-type", NULL,
                       "argument %u of `@%s` must be %s, not %s", index + 1, frame->function->name, expected,
                       found);
}

static bool elements_match(const IrType *formal, const IrType *actual)
{
  if (actual->kind == TYPE_NONE || formal->element == actual->element) return true;
  bool truth = formal->element == NUMBER_BOOL || formal->kind == TYPE_PREDICATE;
  if (truth && (actual->kind == TYPE_PREDICATE || actual->element == NUMBER_BOOL)) return true;
  /* A scalar integer is a coordinate, of whatever width. */
  return actual->kind == TYPE_SCALAR && number_class(formal->element) != NUMBER_FLOAT &&
         number_class(actual->element) != NUMBER_FLOAT;
}

static bool match_shaped(Frame *frame, unsigned index, const IrType *formal, const IrType *actual)
{
  bool ok =
      formal->kind == actual->kind && formal->rank == actual->rank && formal->element == actual->element;
  for (unsigned i = 0; ok && i < formal->rank; i++)
    ok = match_extent(frame, formal->dims[i], actual->dims[i]);
  for (unsigned i = 0; ok && i < formal->rank; i++)
    if (formal->strides[i] && formal->strides[i]->kind == EXPR_DIM && actual->strides[i])
      match_extent(frame, formal->strides[i], actual->strides[i]);
  return ok || argument_fault(frame, index, formal, actual);
}

/* Scalars that meet a tile: the whole call is done element by element. */
static bool match_scalar(Frame *frame, unsigned index, const IrType *formal, const IrType *actual,
                         IrType *shape)
{
  if (!elements_match(formal, actual) || actual->kind == TYPE_TENSOR || actual->kind == TYPE_CURSOR)
    return argument_fault(frame, index, formal, actual);
  if (actual->kind != TYPE_TILE) return true;
  IrType both = *actual;
  if (frame->shape && !ir_broadcast(shape, actual, &both))
    return argument_fault(frame, index, formal, actual);
  *shape = both;
  frame->shape = shape;
  return true;
}

static bool resolve_element(Frame *frame, IrType *type)
{
  IrType element = {
      .kind = TYPE_SCALAR, .element = type->element, .element_parameter = type->element_parameter};
  if (!map_type(frame, &element, &frame->function->mark)) return false;
  type->element = element.element;
  type->element_parameter = NULL;
  return true;
}

/* An argument that is more than a name gets the parameter's name, so that it is computed once. */
static IrExpr *name_argument(Frame *frame, IrBuilder *builder, const IrValue *parameter, IrExpr *argument,
                             const IrType *actual, const IrType *formal)
{
  bool plain = !argument->n || actual->kind == TYPE_TILE || actual->kind == TYPE_TENSOR;
  if (plain) return argument;
  builder->mark = frame->call->mark;
  IrType type =
      actual->kind == TYPE_SCALAR && formal->kind == TYPE_SCALAR ? ir_scalar(formal->element) : *actual;
  return ir_emit_value(builder, OP_LET, type, parameter->name, 1, argument);
}

static bool bind_arguments(Frame *frame, IrBuilder *builder, IrExpr **arguments, IrType *shape)
{
  for (unsigned i = 0; i < frame->function->n_parameters; i++) {
    const IrValue *parameter = frame->function->parameters[i];
    IrType formal = parameter->type, actual = ir_expr_type(frame->instance->target, arguments[i]);
    if (!resolve_element(frame, &formal)) return false;
    bool shaped = formal.kind == TYPE_TENSOR || formal.kind == TYPE_TILE;
    bool ok =
        shaped ? match_shaped(frame, i, &formal, &actual) : match_scalar(frame, i, &formal, &actual, shape);
    if (!ok) return false;
    arguments[i] = name_argument(frame, builder, parameter, arguments[i], &actual, &formal);
    define(frame, parameter, arguments[i]);
  }
  for (unsigned i = 0; frame->shape && i < frame->function->n_parameters; i++)
    if (frame->function->parameters[i]->type.kind == TYPE_TILE)
      return instance_fail(frame->caller, &frame->call->mark, "elementwise", NULL,
                           "`@%s` takes scalars and tiles, so it cannot be applied to the elements of a tile",
                           frame->function->name);
  return true;
}

typedef struct VariableSearch {
  IrExpr *const *arguments;
  unsigned n;
  bool found;
} VariableSearch;

static void find_argument_variable(const IrExpr *expr, void *data)
{
  VariableSearch *search = data;
  if (expr->kind != EXPR_VALUE || !expr->value->variable) return;
  for (unsigned i = 0; i < search->n; i++)
    search->found |= search->arguments[i]->kind == EXPR_VALUE && search->arguments[i]->value == expr->value;
}

static bool is_argument(const IrExpr *value, IrExpr *const *arguments, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    if (arguments[i]->kind == EXPR_VALUE && arguments[i]->value == value->value) return true;
  return false;
}

/* The result of a call is a value of its own: what is returned may be a variable of the caller, which changes
 * later. */
static bool bind_result(Frame *frame, IrBuilder *builder, unsigned index, IrExpr **arguments)
{
  const IrValue *result = frame->call->results[index];
  IrExpr *returned = frame->returned[index];
  IrType declared = result->type, actual = ir_expr_type(frame->instance->target, returned);
  if (!map_type(frame->caller, &declared, &frame->call->mark)) return false;
  if (frame->caller->shape && actual.kind == TYPE_TILE && declared.kind != TYPE_TILE) {
    NumberType element = declared.kind == TYPE_PREDICATE ? NUMBER_BOOL : declared.element;
    declared = actual; /* the caller itself is applied to tiles */
    declared.element = element;
  }
  bool splat = declared.kind == TYPE_TILE && actual.kind != TYPE_TILE;
  bool fits = actual.kind == TYPE_TILE
                  ? ir_type_equal(&declared, &actual)
                  : (splat && frame->shape) || (!splat && elements_match(&declared, &actual));
  if (!fits) {
    g_autofree char *expected = ir_type_text(&declared), *found = type_text_of(&actual);
    return instance_fail(frame->caller, &frame->call->mark, "result-type", NULL,
                         "result %u of `@%s` is %s, not %s", index + 1, frame->function->name, found,
                         expected);
  }
  VariableSearch search = {arguments, frame->function->n_parameters, false};
  ir_expr_visit(returned, find_argument_variable, &search);
  builder->mark = frame->call->mark;
  if (splat)
    returned = ir_emit_value(builder, OP_SPLAT, declared, result->name, 1, returned);
  else if (actual.kind == TYPE_TILE && search.found)
    returned = ir_emit_value(builder, OP_VAR, declared, result->name, 1, returned);
  else if (actual.kind != TYPE_TILE && (search.found || returned->n))
    returned = ir_emit_value(builder, OP_LET, declared, result->name, 1, returned);
  else if (returned->kind == EXPR_VALUE && !is_argument(returned, arguments, frame->function->n_parameters))
    returned->value->name = result->name;
  define(frame->caller, result, returned);
  return true;
}

static bool inline_body(Frame *frame, IrBuilder *builder, IrExpr **arguments)
{
  IrType shape;
  if (!bind_arguments(frame, builder, arguments, &shape)) return false;
  if (!expand_region(frame, builder, frame->function->body)) return false;
  const IrOp *call = frame->call;
  if (call->n_results != frame->function->n_results || (call->n_results && !frame->returned))
    return instance_fail(frame->caller, &call->mark, "result-count", NULL, "`@%s` gives %u, not %u results",
                         frame->function->name, frame->function->n_results, call->n_results);
  for (unsigned i = 0; i < call->n_results; i++)
    if (!bind_result(frame, builder, i, arguments)) return false;
  return true;
}

static bool inline_call(Frame *frame, IrBuilder *builder, const IrOp *call)
{
  const IrFunction *function = find_callee(frame, call, map_expr(frame, call->operands[0]));
  if (!function) return false;
  g_autofree IrExpr **arguments = g_new(IrExpr *, call->n_operands);
  for (unsigned i = 1; i < call->n_operands; i++) {
    arguments[i - 1] = map_expr(frame, call->operands[i]);
    if (!check_picked(frame, arguments[i - 1], &call->mark)) return false;
    if (frame->shape && !(arguments[i - 1] = elementwise_expr(frame, builder, arguments[i - 1], &call->mark)))
      return false;
  }
  Frame inside = {.instance = frame->instance, .caller = frame, .function = function, .call = call};
  inside.values = g_hash_table_new(NULL, NULL);
  inside.symbols = g_hash_table_new(g_str_hash, g_str_equal);
  inside.dims = g_hash_table_new(g_str_hash, g_str_equal);
  bool ok = inline_body(&inside, builder, arguments);
  g_hash_table_unref(inside.values);
  g_hash_table_unref(inside.symbols);
  g_hash_table_unref(inside.dims);
  return ok;
}

/* ---- Functions ---- */

static void reserve_symbols(Instance *instance, const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    if (op->symbol) g_hash_table_add(instance->reserved, (gpointer)op->symbol);
    for (unsigned i = 0; i < op->n_regions; i++)
      reserve_symbols(instance, op->regions[i]);
  }
}

static bool map_signature(Frame *frame, IrFunction *function)
{
  for (unsigned i = 0; i < function->n_parameters; i++)
    if (!map_type(frame, &function->parameters[i]->type, &function->mark)) return false;
  for (unsigned i = 0; i < function->n_results; i++)
    if (!map_type(frame, &function->results[i], &function->mark)) return false;
  for (unsigned i = 0; i < function->n_dims; i++)
    function->dims[i].launch = map_expr(frame, function->dims[i].launch);
  for (unsigned i = 0; i < function->n_launch; i++)
    function->launch[i].value = map_expr(frame, function->launch[i].value);
  return true;
}

static void find_rows(IrOp *op, void *data)
{
  if (op->code == OP_TILES && ir_attribute(op, ATTR_ROW)) *(bool *)data = true;
}

/* Makes the function's body anew. The parameters stay the same values. */
static bool expand_function(Instance *instance, IrFunction *function)
{
  IrRegion *old = function->body, *body = arena_new_object(instance->module->arena, IrRegion);
  body->function = function;
  Frame frame = {.instance = instance, .function = function};
  frame.values = g_hash_table_new(NULL, NULL);
  frame.symbols = g_hash_table_new(g_str_hash, g_str_equal);
  g_hash_table_remove_all(instance->reserved);
  reserve_symbols(instance, old);
  instance->target = function;
  instance->rows = false;
  ir_region_visit(old, find_rows, &instance->rows);
  function->body = body;
  IrBuilder builder = ir_builder_at_end(body);
  bool ok = map_signature(&frame, function) && expand_region(&frame, &builder, old);
  g_hash_table_unref(frame.values);
  g_hash_table_unref(frame.symbols);
  return ok;
}

static bool expand_functions(Instance *instance)
{
  IrModule *module = instance->module;
  for (unsigned i = 0; i < module->n_functions; i++)
    if (module->functions[i]->is_kernel && !expand_function(instance, module->functions[i])) return false;
  for (IrFunction *function; (function = g_queue_pop_head(instance->pending));)
    if (!expand_function(instance, function)) return false;
  unsigned left = 0;
  for (unsigned i = 0; i < module->n_functions; i++) {
    IrFunction *function = module->functions[i];
    if (function->is_kernel || g_hash_table_contains(instance->referenced, function->name))
      module->functions[left++] = function;
  }
  /* A fresh array: ir_function_new() counts on room up to a power of two only. */
  IrFunction **kept = module->functions;
  unsigned n = left;
  module->functions = NULL;
  module->n_functions = 0;
  module->functions = arena_new_array(module->arena, IrFunction *, 2 * (size_t)n + 1);
  if (n) memcpy(module->functions, kept, n * sizeof *kept);
  module->n_functions = n;
  return true;
}

/* ---- Bindings ---- */

#define MOST_EXACT (1ll << 53)

static bool is_kind(Instance *instance, const char *kind, IrExpr **value)
{
  NumberType type;
  if (!strcmp(kind, "int")) return (*value)->kind == EXPR_INT;
  if (!strcmp(kind, "type")) return (*value)->kind == EXPR_NAME && number_parse((*value)->name, &type);
  if (!strcmp(kind, "name")) return (*value)->kind == EXPR_NAME;
  if (!strcmp(kind, "function")) return (*value)->kind == EXPR_SYMBOL;
  if ((*value)->kind != EXPR_INT) return (*value)->kind == EXPR_FLOAT;
  int64_t integer = (*value)->integer; /* of 64 bits it may be none that a float is, such as the largest */
  if (integer >= -MOST_EXACT && integer <= MOST_EXACT) *value = ir_float(instance->module, (double)integer);
  return true;
}

/* A default and a condition may use parameters: those that are bound by now. */
static IrExpr *bind_expr(Instance *instance, const IrExpr *expr)
{
  Frame frame = {.instance = instance};
  frame.values = frame.symbols = g_hash_table_new(NULL, NULL);
  IrExpr *bound = ir_expr_map(instance->module, expr, map_leaf, &frame);
  g_hash_table_unref(frame.values);
  return bound;
}

/* A value that the parameter's domain has. */
static bool check_domain(const Instance *instance, const IrParameter *parameter, const IrExpr *value)
{
  if (!parameter->domain || ir_domain_has(parameter->domain, value->integer)) return true;
  g_autofree char *domain = ir_domain_text(parameter->domain);
  error_set(instance->error, ERROR_INPUT, &parameter->mark, "parameter-value", NULL,
            "parameter `%s` is %s, not %" G_GINT64_FORMAT, parameter->name, domain, value->integer);
  return false;
}

static void find_fact(const IrExpr *expr, void *data)
{
  *(bool *)data |= expr->kind == EXPR_DIM;
}

/* Where its condition does not hold a parameter has its default. One that asks for facts is held by who knows them, as the
 * template's values are chosen. */
static bool check_condition(Instance *instance, const IrParameter *parameter)
{
  int64_t holds;
  bool asks = false;
  const IrExpr *bound = g_hash_table_lookup(instance->bindings, parameter->name);
  if (!parameter->condition || !bound) return true;
  ir_expr_visit(parameter->condition, find_fact, &asks);
  if (asks) return true;
  IrExpr *condition = bind_expr(instance, parameter->condition),
         *otherwise = bind_expr(instance, parameter->value);
  if (!ir_expr_is_int(condition, &holds)) {
    error_set(instance->error, ERROR_INPUT, &parameter->condition->mark, "condition", NULL,
              "the condition of `%s` is not known when the template is filled in", parameter->name);
    return false;
  }
  if (holds || bound->integer == otherwise->integer) return true;
  ir_parameter_refuse(parameter, otherwise->integer, bound->integer, instance->error);
  return false;
}

static bool bind_parameter(Instance *instance, const IrParameter *parameter, GHashTable *given,
                           IrParameter *bound)
{
  IrModule *module = instance->module;
  IrExpr *value = given ? g_hash_table_lookup(given, parameter->name) : NULL;
  if (!value) value = parameter->value;
  if (!value) {
    error_set(instance->error, ERROR_INPUT, &parameter->mark, "unbound-parameter", NULL,
              "parameter `%s` needs a value", parameter->name);
    return false;
  }
  value = bind_expr(instance, value);
  if (!is_kind(instance, parameter->kind, &value)) {
    error_set(instance->error, ERROR_INPUT, &parameter->mark, "parameter-kind", NULL,
              "parameter `%s` is of kind %s; `%s` is not", parameter->name, parameter->kind,
              ir_expr_text(module, value));
    return false;
  }
  if (!strcmp(parameter->kind, "function") && !ir_function_find(module, value->name)) {
    error_set(instance->error, ERROR_INPUT, &parameter->mark, "unknown-function", NULL,
              "parameter `%s` is bound to `@%s`, which the module lacks", parameter->name, value->name);
    return false;
  }
  if (!check_domain(instance, parameter, value)) return false;
  *bound = (IrParameter){
      .name = parameter->name, .kind = parameter->kind, .value = value, .mark = parameter->mark};
  g_hash_table_insert(instance->bindings, (gpointer)parameter->name, value);
  return true;
}

static bool check_given(const Instance *instance, GHashTable *given)
{
  const IrModule *module = instance->module;
  g_autofree const char **names = g_new0(const char *, module->n_parameters + 1);
  for (unsigned i = 0; i < module->n_parameters; i++)
    names[i] = module->parameters[i].name;
  guint n;
  g_autofree const char **keys = (const char **)g_hash_table_get_keys_as_array(given, &n);
  const char *unknown = NULL; /* the first in the alphabet, so that the message does not depend on hashing */
  for (guint i = 0; i < n; i++)
    if (!g_strv_contains(names, keys[i]) && (!unknown || strcmp(keys[i], unknown) < 0)) unknown = keys[i];
  if (!unknown) return true;
  const char *nearest = nearest_name(unknown, names);
  g_autofree char *hint = nearest ? g_strdup_printf("did you mean `%s`?", nearest) : NULL;
  error_set(instance->error, ERROR_INPUT, NULL, "unknown-parameter", hint,
            "the template has no parameter `%s`", unknown);
  return false;
}

/* What the body does not read is told only where it is given. */
static bool is_left_out(const IrParameter *parameter, GHashTable *given)
{
  return parameter->outside && !(given && g_hash_table_contains(given, parameter->name));
}

static bool bind_parameters(Instance *instance, GHashTable *given)
{
  IrModule *module = instance->module;
  if (given && !check_given(instance, given)) return false;
  IrParameter *bound = arena_new_array(module->arena, IrParameter, module->n_bound + module->n_parameters);
  unsigned n = module->n_bound;
  if (n) memcpy(bound, module->bound, n * sizeof *bound);
  for (unsigned i = 0; i < module->n_parameters; i++)
    if (!is_left_out(&module->parameters[i], given) &&
        !bind_parameter(instance, &module->parameters[i], given, &bound[n++]))
      return false;
  for (unsigned i = 0; i < module->n_parameters; i++)
    if (!check_condition(instance, &module->parameters[i])) return false;
  module->bound = bound;
  module->n_bound = n;
  module->n_parameters = module->n_key = module->n_alike = module->n_tries = 0;
  return true;
}

bool ir_instantiate(IrModule *module, GHashTable *bindings, GError **error)
{
  /* Callers may not ask for the error; the rest of this file does. */
  g_autoptr(GError) unasked = NULL;
  if (!error) error = &unasked;
  if (!ir_verify(module, NULL, error)) return false;
  Instance instance = {.module = module, .error = error};
  instance.bindings = g_hash_table_new(g_str_hash, g_str_equal);
  instance.reserved = g_hash_table_new(g_str_hash, g_str_equal);
  instance.referenced = g_hash_table_new(g_str_hash, g_str_equal);
  instance.pending = g_queue_new();
  bool ok = bind_parameters(&instance, bindings) && expand_functions(&instance);
  g_hash_table_unref(instance.bindings);
  g_hash_table_unref(instance.reserved);
  g_hash_table_unref(instance.referenced);
  g_queue_free(instance.pending);
  return ok;
}
