/* What a plan's types do not say. */
#include "plan/private.h"
#include <string.h>

typedef struct {
  const Plan *plan;
  const Mark *mark;
  GError **error;
  const char *where;   /* "launch `x`", for messages */
  bool guard;          /* align() is allowed */
  const char *counter; /* of the repeat that the launch is in; or NULL */
  bool ok;
} Check;

static void fault(Check *check, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void fault(Check *check, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  check->ok = false;
  error_add(check->error, ERROR_INPUT, SEVERITY_ERROR, check->mark, "plan", NULL, "%s: %s", check->where,
            message);
}

static void check_leaf(const Symbolic *leaf, void *data)
{
  Check *check = data;
  if (leaf->kind == SYMBOLIC_ALIGN) {
    if (!check->guard) fault(check, "align() belongs into guards");
    if (!plan_tensor(check->plan, leaf->name)) fault(check, "align() of the unknown tensor `%s`", leaf->name);
    return;
  }
  for (unsigned i = 0; i < check->plan->n_symbols; i++)
    if (!strcmp(check->plan->symbols[i].name, leaf->name)) return;
  if (check->counter && !strcmp(check->counter, leaf->name)) return;
  fault(check, "the symbol `%s` is not declared", leaf->name);
}

static void check_expression(Check *check, const Symbolic *expression)
{
  if (expression) symbolic_visit(expression, check_leaf, check);
}

static void check_symbols(Check *check)
{
  const Plan *plan = check->plan;
  check->where = "symbols";
  for (unsigned i = 0; i < plan->n_symbols; i++) {
    const PlanSymbol *symbol = &plan->symbols[i];
    if (symbol->min > symbol->max || symbol->multiple < 1)
      fault(check, "`%s` has an empty range or no multiple", symbol->name);
    for (unsigned j = 0; j < i; j++)
      if (!strcmp(plan->symbols[j].name, symbol->name)) fault(check, "`%s` is declared twice", symbol->name);
  }
}

static void check_tensors(Check *check)
{
  const Plan *plan = check->plan;
  check->where = "tensors";
  g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < plan->n_tensors; i++) {
    const PlanTensor *tensor = plan->tensors[i];
    if (!g_hash_table_add(names, (void *)tensor->name)) fault(check, "`%s` is declared twice", tensor->name);
    if (tensor->align & (tensor->align - 1))
      fault(check, "align of `%s` is not a power of two", tensor->name);
    if ((tensor->kind == PLAN_WORKSPACE) != (tensor->offset != NULL))
      fault(check, "`%s`: exactly the tensors of the workspace have an offset", tensor->name);
    if (tensor->zero && tensor->kind != PLAN_WORKSPACE)
      fault(check, "`%s`: only tensors of the workspace can be zero before the first launch", tensor->name);
    for (unsigned d = 0; d < tensor->rank; d++) {
      check_expression(check, tensor->shape[d]);
      check_expression(check, tensor->strides[d]);
    }
    check_expression(check, tensor->offset);
  }
  check->where = "workspace";
  check_expression(check, plan->workspace_bytes);
}

static void check_map(Check *check, const PlanArgument *argument)
{
  const PlanTensorMap *map = &argument->map;
  if (map->rank < 1 || map->rank > 5) {
    fault(check, "tensor map `%s` has rank %u", argument->name, map->rank);
    return;
  }
  bool swizzle = map->swizzle == 0 || map->swizzle == 32 || map->swizzle == 64 || map->swizzle == 128;
  if (!swizzle) fault(check, "tensor map `%s` has a swizzle of %u bytes", argument->name, map->swizzle);
  for (unsigned i = 0; i < map->rank; i++) {
    if (!map->box[i] || !map->dims[i] || (i && !map->strides[i - 1])) {
      fault(check, "tensor map `%s` lacks a box, dims or strides", argument->name);
      return;
    }
    int64_t side;
    if (symbolic_is_constant(map->box[i], &side) && (side < 1 || side > PLAN_MAX_BOX))
      fault(check, "tensor map `%s` has a box of %" G_GINT64_FORMAT, argument->name, side);
    check_expression(check, map->box[i]);
    check_expression(check, map->dims[i]);
    if (i) check_expression(check, map->strides[i - 1]);
  }
  int64_t inner;
  if (map->swizzle && symbolic_is_constant(map->box[0], &inner) &&
      number_bytes_of(map->element, (uint64_t)inner) > map->swizzle)
    fault(check, "tensor map `%s`: the inner box is wider than the swizzle", argument->name);
}

static void check_argument(Check *check, const PlanArgument *argument)
{
  bool needs_tensor = argument->kind == PLAN_ARGUMENT_POINTER || argument->kind == PLAN_ARGUMENT_TENSOR_MAP;
  if (needs_tensor && !argument->tensor) fault(check, "argument `%s` lacks its tensor", argument->name);
  if (argument->kind == PLAN_ARGUMENT_DIVISOR && !argument->value)
    fault(check, "argument `%s` lacks its value", argument->name);
  bool is_float = argument->kind == PLAN_ARGUMENT_SCALAR && number_class(argument->type) == NUMBER_FLOAT;
  if (argument->kind == PLAN_ARGUMENT_SCALAR && is_float == (argument->value != NULL))
    fault(check, "argument `%s`: integers have a value, floats a number", argument->name);
  check_expression(check, argument->offset);
  check_expression(check, argument->value);
  if (argument->kind == PLAN_ARGUMENT_TENSOR_MAP) check_map(check, argument);
}

static void check_variant(Check *check, const PlanVariant *variant, bool last)
{
  if (last == (variant->guard != NULL)) fault(check, "the last variant, and only that, has no guard");
  check->guard = true;
  check_expression(check, variant->guard);
  check->guard = false;
  for (unsigned i = 0; i < 3; i++) {
    check_expression(check, variant->grid[i]);
    if (!variant->block[i] || !variant->cluster[i]) fault(check, "a block or cluster of 0");
  }
  for (unsigned i = 0; i < variant->n_arguments; i++)
    check_argument(check, &variant->arguments[i]);
}

static void check_launch(Check *check, const PlanLaunch *launch)
{
  g_autofree char *where = g_strdup_printf("launch `%s`", launch->name);
  const PlanRepeat *repeat = plan_repeat_of(check->plan, launch->index);
  check->where = where;
  check->counter = repeat ? repeat->counter : NULL;
  if (!launch->n_variants || launch->n_variants > PLAN_MAX_VARIANTS)
    fault(check, "%u variants; 1 to %d are allowed", launch->n_variants, PLAN_MAX_VARIANTS);
  for (unsigned i = 0; i < launch->n_variants; i++)
    check_variant(check, launch->variants[i], i + 1 == launch->n_variants);
  for (unsigned i = 0; i < launch->n_depends; i++)
    if (launch->depends_on[i].launch >= launch->index)
      fault(check, "it waits for launch %u, which does not come earlier", launch->depends_on[i].launch);
  for (unsigned i = 0; i < launch->n_zero; i++) {
    check_expression(check, launch->zero[i].offset);
    check_expression(check, launch->zero[i].bytes);
  }
  check->where = "";
  check->counter = NULL;
}

static void check_repeats(Check *check)
{
  const Plan *plan = check->plan;
  check->where = "repeats";
  for (unsigned i = 0, end = 0; i < plan->n_repeats; i++) {
    const PlanRepeat *repeat = &plan->repeats[i];
    check_expression(check, repeat->count);
    for (unsigned j = 0; j < plan->n_symbols; j++)
      if (!strcmp(plan->symbols[j].name, repeat->counter))
        fault(check, "the counter `%s` is a symbol too", repeat->counter);
    if (!repeat->n || repeat->first < end ||
        repeat->n > plan->n_launches - MIN(repeat->first, plan->n_launches))
      fault(check, "repeat %u has no launches, or not behind those of the one before", i);
    end = repeat->first + repeat->n;
  }
}

bool plan_check_at(const Plan *plan, const Mark *mark, GError **error)
{
  GError *local = NULL;
  Check check = {.plan = plan, .mark = mark, .error = &local, .ok = true};
  check_symbols(&check);
  check_tensors(&check);
  for (unsigned i = 0; i < plan->n_launches; i++)
    check_launch(&check, plan->launches[i]);
  check_repeats(&check);
  if (local) g_propagate_error(error, local);
  return check.ok;
}

bool plan_check(const Plan *plan, GError **error)
{
  return plan_check_at(plan, NULL, error);
}
