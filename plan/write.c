/* plan.json, the writing side. Keys and order are docs/plan.md's. */
#include "plan/private.h"
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* A number if it is one, else its text. */
static json_t *expression_json(const Symbolic *expression)
{
  int64_t value;
  if (symbolic_is_constant(expression, &value)) return json_integer(value);
  g_autofree char *text = symbolic_text(expression);
  return json_string(text);
}

static json_t *expressions_json(const Symbolic *const *list, unsigned n)
{
  json_t *array = json_array();
  for (unsigned i = 0; i < n; i++)
    json_array_append_new(array, expression_json(list[i]));
  return array;
}

static json_t *numbers_json(const unsigned *list, unsigned n, unsigned otherwise)
{
  json_t *array = json_array();
  for (unsigned i = 0; i < n; i++)
    json_array_append_new(array, json_integer(list[i] ? list[i] : otherwise));
  return array;
}

static void set_text(json_t *object, const char *key, const char *text)
{
  if (text) json_object_set_new(object, key, json_string(text));
}

static json_t *symbol_json(const PlanSymbol *symbol)
{
  return json_pack("{s:s, s:I, s:I, s:I}", "name", symbol->name, "min", (json_int_t)symbol->min, "max",
                   (json_int_t)symbol->max, "multiple", (json_int_t)symbol->multiple);
}

static json_t *tensor_json(const PlanTensor *tensor)
{
  json_t *object = json_object();
  set_text(object, "name", tensor->name);
  set_text(object, "kind", plan_tensor_kinds[tensor->kind]);
  set_text(object, "type", number_name(tensor->type));
  json_object_set_new(object, "shape", expressions_json(tensor->shape, tensor->rank));
  json_object_set_new(object, "strides", expressions_json(tensor->strides, tensor->rank));
  json_object_set_new(object, "align", json_integer(tensor->align));
  set_text(object, "file", tensor->file);
  if (tensor->n_stacks) {
    json_t *stacks = json_array();
    for (unsigned i = 0; i < tensor->n_stacks; i++)
      json_array_append_new(stacks, json_pack("{s:s, s:I}", "name", tensor->stacks[i].name, "columns",
                                              (json_int_t)tensor->stacks[i].columns));
    json_object_set_new(object, "stacks", stacks);
  }
  if (tensor->offset) json_object_set_new(object, "offset", expression_json(tensor->offset));
  if (tensor->stays) json_object_set_new(object, "stays", json_true());
  set_text(object, "in_place", tensor->memory ? tensor->memory->name : NULL);
  if (tensor->zero) json_object_set_new(object, "zero", json_true());
  return object;
}

static void set_map(json_t *object, const PlanTensorMap *map)
{
  set_text(object, "mode", plan_map_modes[map->mode]);
  set_text(object, "element", number_name(map->element));
  json_object_set_new(object, "dims", expressions_json(map->dims, map->rank));
  json_object_set_new(object, "strides", expressions_json(map->strides, map->rank - 1));
  json_object_set_new(object, "box", expressions_json(map->box, map->rank));
  json_object_set_new(object, "element_strides", numbers_json(map->element_strides, map->rank, 1));
  json_object_set_new(object, "swizzle", json_integer(map->swizzle));
  set_text(object, "interleave", plan_interleaves[map->interleave]);
  set_text(object, "fill", plan_fills[map->fill]);
  json_object_set_new(object, "l2_promotion", json_integer(map->l2_promotion));
}

static json_t *number_json(double number)
{
  if (isfinite(number)) return json_real(number);
  return json_string(isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
}

static json_t *argument_json(const PlanArgument *argument)
{
  json_t *object = json_object();
  set_text(object, "kind", plan_argument_kinds[argument->kind]);
  set_text(object, "name", argument->name);
  if (argument->tensor) set_text(object, "tensor", argument->tensor->name);
  if (argument->offset) json_object_set_new(object, "offset", expression_json(argument->offset));
  if (argument->kind == PLAN_ARGUMENT_SCALAR) set_text(object, "type", number_name(argument->type));
  if (argument->value)
    json_object_set_new(object, "value", expression_json(argument->value));
  else if (argument->kind == PLAN_ARGUMENT_SCALAR)
    json_object_set_new(object, "value", number_json(argument->number));
  if (argument->kind == PLAN_ARGUMENT_TENSOR_MAP) set_map(object, &argument->map);
  return object;
}

static json_t *variant_json(const PlanVariant *variant)
{
  json_t *object = json_object(), *arguments = json_array();
  set_text(object, "kernel", variant->kernel);
  set_text(object, "entry", variant->entry);
  set_text(object, "ptx", variant->text);
  set_text(object, "cubin", variant->cubin);
  if (variant->guard) {
    g_autofree char *guard = symbolic_text(variant->guard);
    set_text(object, "guard", guard);
  }
  json_object_set_new(object, "grid", expressions_json(variant->grid, 3));
  json_object_set_new(object, "block", numbers_json(variant->block, 3, 1));
  json_object_set_new(object, "cluster", numbers_json(variant->cluster, 3, 1));
  json_object_set_new(object, "shared", json_integer(variant->shared));
  if (variant->waits) json_object_set_new(object, "waits", json_true());
  if (variant->together) json_object_set_new(object, "together", json_true());
  for (unsigned i = 0; i < variant->n_arguments; i++)
    json_array_append_new(arguments, argument_json(&variant->arguments[i]));
  json_object_set_new(object, "arguments", arguments);
  set_text(object, "note", variant->note);
  return object;
}

static int by_index(const void *a, const void *b)
{
  const PlanTensor *x = *(const PlanTensor *const *)a, *y = *(const PlanTensor *const *)b;
  return (x->index > y->index) - (x->index < y->index);
}

/* Those that differ, in the plan's order. */
static json_t *pairing_json(GHashTable *tensors)
{
  json_t *object = json_object();
  guint n = 0;
  g_autofree gpointer *from = g_hash_table_get_keys_as_array(tensors, &n);
  if (n) qsort(from, n, sizeof *from, by_index);
  for (guint i = 0; i < n; i++) {
    const PlanTensor *tensor = from[i], *other = g_hash_table_lookup(tensors, tensor);
    if (other != tensor) set_text(object, tensor->name, other->name);
  }
  return object;
}

static json_t *launch_json(const Plan *plan, const PlanLaunch *launch, GHashTable *firsts)
{
  json_t *object = json_object(), *edges = json_array(), *zero = json_array();
  set_text(object, "name", launch->name);
  for (unsigned i = 0; i < launch->n_depends; i++)
    json_array_append_new(edges, json_pack("{s:i, s:b}", "launch", (int)launch->depends_on[i].launch,
                                           "dependent", (int)launch->depends_on[i].dependent));
  json_object_set_new(object, "depends_on", edges);
  for (unsigned i = 0; i < launch->n_zero; i++)
    json_array_append_new(zero, json_pack("{s:o, s:o}", "offset", expression_json(launch->zero[i].offset),
                                          "bytes", expression_json(launch->zero[i].bytes)));
  json_object_set_new(object, "zero", zero);
  g_autoptr(GHashTable) tensors = NULL;
  unsigned like = plan_like(plan, launch, firsts, &tensors);
  if (like != launch->index) {
    json_object_set_new(object, "like", json_integer(like));
    json_object_set_new(object, "tensors", pairing_json(tensors));
    return object;
  }
  json_t *variants = json_array();
  for (unsigned i = 0; i < launch->n_variants; i++)
    json_array_append_new(variants, variant_json(launch->variants[i]));
  json_object_set_new(object, "variants", variants);
  return object;
}

static json_t *repeat_json(const PlanRepeat *repeat)
{
  return json_pack("{s:s, s:o, s:i, s:i}", "counter", repeat->counter, "count",
                   expression_json(repeat->count), "first", (int)repeat->first, "launches", (int)repeat->n);
}

json_t *plan_to_json(const Plan *plan)
{
  json_t *symbols = json_array(), *tensors = json_array(), *launches = json_array();
  for (unsigned i = 0; i < plan->n_symbols; i++)
    json_array_append_new(symbols, symbol_json(&plan->symbols[i]));
  for (unsigned i = 0; i < plan->n_tensors; i++)
    json_array_append_new(tensors, tensor_json(plan->tensors[i]));
  g_autoptr(GHashTable) firsts =
      g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_ptr_array_unref);
  int version = 1; /* who reads the first one only reads what has no more than it */
  for (unsigned i = 0; i < plan->n_tensors; i++)
    version = MAX(version, plan->tensors[i]->memory ? 3 : plan->tensors[i]->n_stacks ? 2 : 1);
  for (unsigned i = 0; i < plan->n_launches; i++) {
    json_t *launch = launch_json(plan, plan->launches[i], firsts);
    if (json_object_get(launch, "like")) version = MAX(version, 2);
    json_array_append_new(launches, launch);
  }
  json_t *repeats = plan->n_repeats ? json_array() : NULL;
  for (unsigned i = 0; i < plan->n_repeats; i++)
    json_array_append_new(repeats, repeat_json(&plan->repeats[i]));
  if (repeats) version = PLAN_VERSION;
  json_t *gpu = json_pack("{s:s, s:s, s:s}", "name", plan->gpu_name, "target", plan->gpu_target, "hash",
                          plan->gpu_hash);
  if (plan->sms) json_object_set_new(gpu, "sms", json_integer(plan->sms));
  return json_pack("{s:i, s:s, s:o, s:o, s:o, s:{s:o, s:i}, s:o, s:o*}", "version", version, "name",
                   plan->name, "gpu", gpu, "symbols", symbols, "tensors", tensors, "workspace", "bytes",
                   expression_json(plan->workspace_bytes), "align", 256, "launches", launches, "repeats",
                   repeats);
}

char *plan_text(const Plan *plan)
{
  json_t *json = plan_to_json(plan);
  char *dumped = json_dumps(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
  json_decref(json);
  char *text = g_strconcat(dumped, "\n", NULL);
  free(dumped);
  return text;
}

bool plan_write(const Plan *plan, const char *path, GError **error)
{
  g_autofree char *text = plan_text(plan);
  return g_file_set_contents_full(path, text, (gssize)strlen(text), G_FILE_SET_CONTENTS_CONSISTENT, 0644,
                                  error);
}
