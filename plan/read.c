/* plan.json, the reading side: strict, every fault with its place. */
#include "base/document.h"
#include "plan/private.h"
#include <math.h>
#include <string.h>

typedef struct {
  Plan *plan;
  int64_t version; /* that the plan says */
  GError **error;
} Reader;

static bool refuse(Reader *reader, const Node *node, const char *code, const char *format, ...)
    G_GNUC_PRINTF(4, 5);

static bool refuse(Reader *reader, const Node *node, const char *code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  error_add(reader->error, ERROR_INPUT, SEVERITY_ERROR, &node->mark, code, NULL, "%s", message);
  return false;
}

/* ---- values ---- */

static bool get_text(Reader *reader, Node *mapping, const char *key, bool required, const char **text)
{
  Node *node = required ? node_require(mapping, key, reader->error) : node_get(mapping, key);
  *text = NULL;
  if (!node) return !required;
  const char *value;
  if (!node_string(node, &value, reader->error)) return false;
  *text = arena_strdup(reader->plan->arena, value);
  return true;
}

static bool get_integer(Reader *reader, Node *mapping, const char *key, int64_t min, int64_t max,
                        int64_t *value)
{
  Node *node = node_require(mapping, key, reader->error);
  if (!node || !node_integer(node, value, reader->error)) return false;
  if (*value >= min && *value <= max) return true;
  return refuse(reader, node, "out-of-range",
                "`%s` must lie between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, key, min, max);
}

static bool get_unsigned(Reader *reader, Node *mapping, const char *key, unsigned *value)
{
  int64_t wide;
  if (!get_integer(reader, mapping, key, 0, G_MAXINT32, &wide)) return false;
  *value = (unsigned)wide;
  return true;
}

static const Symbolic *read_expression(Reader *reader, Node *node)
{
  const char *text;
  int64_t value;
  if (node->kind == NODE_SCALAR && !node->quoted) {
    if (!node_integer(node, &value, reader->error)) return NULL;
    return symbolic_constant(reader->plan->arena, value);
  }
  if (!node_string(node, &text, reader->error)) return NULL;
  Mark mark = node->mark;
  mark.column++; /* behind the quote */
  return symbolic_parse(reader->plan->arena, text, &mark, reader->error);
}

static bool get_expression(Reader *reader, Node *mapping, const char *key, bool required,
                           const Symbolic **value)
{
  Node *node = required ? node_require(mapping, key, reader->error) : node_get(mapping, key);
  *value = NULL;
  if (!node) return !required;
  return (*value = read_expression(reader, node)) != NULL;
}

/* A list of min .. max items. NULL: reported. */
static Node *get_list(Reader *reader, Node *mapping, const char *key, unsigned min, unsigned max)
{
  Node *node = node_require(mapping, key, reader->error);
  if (!node || !node_kind_is(node, NODE_SEQUENCE, NULL, reader->error)) return NULL;
  if (node->n >= min && node->n <= max) return node;
  refuse(reader, node, "out-of-range", "`%s` has %u items; %u to %u are allowed", key, node->n, min, max);
  return NULL;
}

static bool get_expressions(Reader *reader, Node *mapping, const char *key, unsigned min, unsigned max,
                            const Symbolic **list, unsigned *n)
{
  Node *node = get_list(reader, mapping, key, min, max);
  if (!node) return false;
  for (unsigned i = 0; i < node->n; i++)
    if (!(list[i] = read_expression(reader, node->items[i]))) return false;
  if (n) *n = node->n;
  return true;
}

static bool get_numbers(Reader *reader, Node *mapping, const char *key, unsigned n, unsigned *list)
{
  Node *node = get_list(reader, mapping, key, n, n);
  int64_t value;
  if (!node) return false;
  for (unsigned i = 0; i < n; i++) {
    if (!node_integer(node->items[i], &value, reader->error)) return false;
    if (value < 0 || value > G_MAXINT32)
      return refuse(reader, node->items[i], "out-of-range", "%" G_GINT64_FORMAT " is out of range", value);
    list[i] = (unsigned)value;
  }
  return true;
}

/* Index of a text among the NULL-terminated names. */
static bool get_choice(Reader *reader, Node *mapping, const char *key, const char *const *names,
                       unsigned *choice)
{
  Node *node = node_require(mapping, key, reader->error);
  const char *text;
  if (!node || !node_string(node, &text, reader->error)) return false;
  for (*choice = 0; names[*choice]; ++*choice)
    if (!strcmp(names[*choice], text)) return true;
  g_autofree char *known = g_strjoinv(", ", (char **)names);
  return refuse(reader, node, "unknown-value", "`%s` is not a value of `%s`: %s", text, key, known);
}

static bool get_type(Reader *reader, Node *mapping, const char *key, NumberType *type)
{
  const char *text;
  if (!get_text(reader, mapping, key, true, &text)) return false;
  return number_parse(text, type) ||
         refuse(reader, node_get(mapping, key), "unknown-type", "unknown type `%s`", text);
}

static bool get_tensor(Reader *reader, Node *mapping, const PlanTensor **tensor)
{
  const char *name;
  if (!get_text(reader, mapping, "tensor", true, &name)) return false;
  *tensor = plan_tensor(reader->plan, name);
  return *tensor ||
         refuse(reader, node_get(mapping, "tensor"), "undefined-tensor", "tensor `%s` is not defined", name);
}

#define FINISH(reader, node, ...)                                                                            \
  node_finish((node), (const char *const[]){__VA_ARGS__, NULL}, (reader)->error)

/* Reads every item of a list under a key. */
static bool read_each(Reader *reader, Node *mapping, const char *key, bool (*read)(Reader *, Node *, void *),
                      void *data)
{
  Node *list = get_list(reader, mapping, key, 0, G_MAXINT32);
  if (!list) return false;
  bool ok = true;
  for (unsigned i = 0; i < list->n; i++)
    ok = node_kind_is(list->items[i], NODE_MAPPING, NULL, reader->error) &&
         read(reader, list->items[i], data) && ok;
  return ok;
}

/* ---- parts ---- */

static bool read_symbol(Reader *reader, Node *node, void *data)
{
  const char *name;
  int64_t min, max, multiple;
  if (!get_text(reader, node, "name", true, &name) ||
      !get_integer(reader, node, "min", G_MININT64, G_MAXINT64, &min) ||
      !get_integer(reader, node, "max", G_MININT64, G_MAXINT64, &max) ||
      !get_integer(reader, node, "multiple", 1, G_MAXINT64, &multiple))
    return false;
  plan_add_symbol(reader->plan, name, min, max, multiple);
  return FINISH(reader, node, "name", "min", "max", "multiple");
}

/* A key that the version which the plan says does not have. */
static bool is_of_version(Reader *reader, Node *mapping, const char *key, int64_t least)
{
  Node *node = reader->version < least ? node_get(mapping, key) : NULL;
  return !node || refuse(reader, node, "version", "`%s` is of version %d of the format, not %d", key,
                         (int)least, (int)reader->version);
}

/* An output in the memory of an input, which stands before it. */
static bool get_memory(Reader *reader, Node *mapping, const PlanTensor **tensor)
{
  const char *name;
  if (!is_of_version(reader, mapping, "in_place", 3) || !get_text(reader, mapping, "in_place", false, &name))
    return false;
  *tensor = name ? plan_tensor(reader->plan, name) : NULL;
  return !name || (*tensor && (*tensor)->kind == PLAN_INPUT) ||
         refuse(reader, node_get(mapping, "in_place"), "undefined-tensor", "`%s` is no input before it",
                name);
}

static bool read_part(Reader *reader, Node *node, void *data)
{
  PlanTensor *tensor = data;
  PlanPart *part = plan_append(reader->plan, tensor->stacks, tensor->n_stacks);
  *part = (PlanPart){NULL, 0};
  return get_text(reader, node, "name", true, &part->name) &&
         get_integer(reader, node, "columns", 1, G_MAXINT32, &part->columns) &&
         FINISH(reader, node, "name", "columns");
}

static bool read_tensor(Reader *reader, Node *node, void *data)
{
  Plan *plan = reader->plan;
  PlanTensor *tensor = arena_new_object(plan->arena, PlanTensor);
  unsigned kind, rank;
  if (!get_text(reader, node, "name", true, &tensor->name) ||
      !get_choice(reader, node, "kind", plan_tensor_kinds, &kind) ||
      !get_type(reader, node, "type", &tensor->type) ||
      !get_expressions(reader, node, "shape", 0, PLAN_MAX_RANK, tensor->shape, &tensor->rank) ||
      !get_expressions(reader, node, "strides", tensor->rank, tensor->rank, tensor->strides, &rank) ||
      !get_unsigned(reader, node, "align", &tensor->align) ||
      !get_text(reader, node, "file", false, &tensor->file) ||
      !get_expression(reader, node, "offset", false, &tensor->offset) ||
      !get_memory(reader, node, &tensor->memory) || !is_of_version(reader, node, "stacks", 2) ||
      (node_get(node, "stacks") && !read_each(reader, node, "stacks", read_part, tensor)) ||
      (node_get(node, "stays") && !node_boolean(node_get(node, "stays"), &tensor->stays, reader->error)) ||
      (node_get(node, "zero") && !node_boolean(node_get(node, "zero"), &tensor->zero, reader->error)))
    return false;
  tensor->kind = (PlanTensorKind)kind;
  plan_enter_tensor(plan, tensor);
  return FINISH(reader, node, "name", "kind", "type", "shape", "strides", "align", "file", "stacks", "offset",
                "stays", "in_place", "zero");
}

static bool read_map(Reader *reader, Node *node, PlanTensorMap *map)
{
  unsigned interleave, fill, n, mode = PLAN_MAP_TILED; /* older plans have no other */
  if ((node_get(node, "mode") && !get_choice(reader, node, "mode", plan_map_modes, &mode)) ||
      !get_type(reader, node, "element", &map->element) ||
      !get_expressions(reader, node, "dims", 1, 5, map->dims, &map->rank) ||
      !get_expressions(reader, node, "strides", map->rank - 1, map->rank - 1, map->strides, &n) ||
      !get_expressions(reader, node, "box", map->rank, map->rank, map->box, &n) ||
      !get_numbers(reader, node, "element_strides", map->rank, map->element_strides) ||
      !get_unsigned(reader, node, "swizzle", &map->swizzle) ||
      !get_choice(reader, node, "interleave", plan_interleaves, &interleave) ||
      !get_choice(reader, node, "fill", plan_fills, &fill) ||
      !get_unsigned(reader, node, "l2_promotion", &map->l2_promotion))
    return false;
  map->mode = (PlanMapMode)mode;
  map->interleave = (PlanInterleave)interleave;
  map->fill = (PlanFill)fill;
  return true;
}

static bool read_scalar(Reader *reader, Node *node, PlanArgument *argument)
{
  if (!get_type(reader, node, "type", &argument->type)) return false;
  if (number_class(argument->type) != NUMBER_FLOAT)
    return get_expression(reader, node, "value", true, &argument->value);
  Node *value = node_require(node, "value", reader->error);
  if (!value) return false;
  if (value->kind == NODE_SCALAR && value->quoted) {
    static const char *const specials[] = {"nan", "inf", "-inf"};
    static const double numbers[] = {NAN, INFINITY, -INFINITY};
    for (unsigned i = 0; i < G_N_ELEMENTS(specials); i++)
      if (!strcmp(value->text, specials[i])) {
        argument->number = numbers[i];
        return true;
      }
  }
  return node_number(value, &argument->number, reader->error);
}

static bool read_argument(Reader *reader, Node *node, void *data)
{
  PlanVariant *variant = data;
  PlanArgument *argument = plan_append(reader->plan, variant->arguments, variant->n_arguments);
  unsigned kind;
  *argument = (PlanArgument){0};
  if (!get_choice(reader, node, "kind", plan_argument_kinds, &kind) ||
      !get_text(reader, node, "name", true, &argument->name))
    return false;
  argument->kind = (PlanArgumentKind)kind;
  switch (argument->kind) {
  case PLAN_ARGUMENT_SCALAR:
    return read_scalar(reader, node, argument) && FINISH(reader, node, "kind", "name", "type", "value");
  case PLAN_ARGUMENT_DIVISOR:
    return get_expression(reader, node, "value", true, &argument->value) &&
           FINISH(reader, node, "kind", "name", "value");
  case PLAN_ARGUMENT_POINTER:
    return get_tensor(reader, node, &argument->tensor) &&
           get_expression(reader, node, "offset", false, &argument->offset) &&
           FINISH(reader, node, "kind", "name", "tensor", "offset");
  case PLAN_ARGUMENT_TENSOR_MAP:
    return get_tensor(reader, node, &argument->tensor) &&
           get_expression(reader, node, "offset", false, &argument->offset) &&
           read_map(reader, node, &argument->map) &&
           FINISH(reader, node, "kind", "name", "tensor", "offset", "mode", "element", "dims", "strides",
                  "box", "element_strides", "swizzle", "interleave", "fill", "l2_promotion");
  }
  return false;
}

static bool read_flag(Reader *reader, Node *node, const char *key, bool *flag)
{
  Node *value = node_get(node, key);
  return !value || node_boolean(value, flag, reader->error);
}

static bool read_variant(Reader *reader, Node *node, void *data)
{
  PlanLaunch *launch = data;
  const char *kernel, *entry;
  if (!get_text(reader, node, "kernel", true, &kernel) || !get_text(reader, node, "entry", true, &entry))
    return false;
  PlanVariant *variant = plan_add_variant(reader->plan, launch, kernel, entry);
  return get_text(reader, node, "ptx", false, &variant->text) &&
         get_text(reader, node, "cubin", false, &variant->cubin) &&
         get_expression(reader, node, "guard", false, &variant->guard) &&
         get_expressions(reader, node, "grid", 3, 3, variant->grid, NULL) &&
         get_numbers(reader, node, "block", 3, variant->block) &&
         get_numbers(reader, node, "cluster", 3, variant->cluster) &&
         get_unsigned(reader, node, "shared", &variant->shared) &&
         read_flag(reader, node, "waits", &variant->waits) &&
         read_flag(reader, node, "together", &variant->together) &&
         read_each(reader, node, "arguments", read_argument, variant) &&
         get_text(reader, node, "note", false, &variant->note) &&
         FINISH(reader, node, "kernel", "entry", "ptx", "cubin", "guard", "grid", "block", "cluster",
                "shared", "waits", "together", "arguments", "note");
}

static bool read_edge(Reader *reader, Node *node, void *data)
{
  PlanLaunch *launch = data;
  PlanEdge *edge = plan_append(reader->plan, launch->depends_on, launch->n_depends);
  *edge = (PlanEdge){0};
  Node *dependent = node_require(node, "dependent", reader->error);
  return get_unsigned(reader, node, "launch", &edge->launch) && dependent &&
         node_boolean(dependent, &edge->dependent, reader->error) &&
         FINISH(reader, node, "launch", "dependent");
}

static bool read_region(Reader *reader, Node *node, void *data)
{
  PlanLaunch *launch = data;
  const Symbolic *offset, *bytes;
  if (!get_expression(reader, node, "offset", true, &offset) ||
      !get_expression(reader, node, "bytes", true, &bytes))
    return false;
  plan_add_zero(reader->plan, launch, offset, bytes);
  return FINISH(reader, node, "offset", "bytes");
}

/* The variants of an earlier launch, with other tensors. */
static bool read_like(Reader *reader, Node *node, PlanLaunch *launch)
{
  int64_t index;
  Node *names = node_require(node, "tensors", reader->error);
  if (!names || !node_kind_is(names, NODE_MAPPING, NULL, reader->error) ||
      !get_integer(reader, node, "like", 0, G_MAXINT32, &index))
    return false;
  if (index >= launch->index)
    return refuse(reader, node_get(node, "like"), "undefined-launch",
                  "launch %" G_GINT64_FORMAT " does not come earlier", index);
  g_autoptr(GHashTable) tensors = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < names->n; i++) {
    const char *name;
    if (!node_string(names->items[i], &name, reader->error)) return false;
    PlanTensor *from = plan_tensor(reader->plan, names->keys[i]), *to = plan_tensor(reader->plan, name);
    if (!from || !to)
      return refuse(reader, names->items[i], "undefined-tensor", "tensor `%s` is not defined",
                    from ? name : names->keys[i]);
    g_hash_table_insert(tensors, from, to);
  }
  plan_copy_variants(reader->plan, launch, reader->plan->launches[index], tensors);
  return true;
}

static bool read_launch(Reader *reader, Node *node, void *data)
{
  const char *name;
  if (!get_text(reader, node, "name", true, &name)) return false;
  PlanLaunch *launch = plan_add_launch(reader->plan, name);
  if (!is_of_version(reader, node, "like", 2)) return false;
  if (node_get(node, "like"))
    return read_each(reader, node, "depends_on", read_edge, launch) &&
           read_each(reader, node, "zero", read_region, launch) && read_like(reader, node, launch) &&
           FINISH(reader, node, "name", "depends_on", "zero", "like", "tensors");
  return read_each(reader, node, "depends_on", read_edge, launch) &&
         read_each(reader, node, "zero", read_region, launch) &&
         read_each(reader, node, "variants", read_variant, launch) &&
         FINISH(reader, node, "name", "depends_on", "zero", "variants");
}

static bool read_repeat(Reader *reader, Node *node, void *data)
{
  PlanRepeat *repeat = plan_append(reader->plan, reader->plan->repeats, reader->plan->n_repeats);
  *repeat = (PlanRepeat){0};
  return get_text(reader, node, "counter", true, &repeat->counter) &&
         get_expression(reader, node, "count", true, &repeat->count) &&
         get_unsigned(reader, node, "first", &repeat->first) &&
         get_unsigned(reader, node, "launches", &repeat->n) &&
         FINISH(reader, node, "counter", "count", "first", "launches");
}

static bool read_gpu(Reader *reader, Node *node)
{
  Plan *plan = reader->plan;
  int64_t sms = 0;
  bool ok = node && node_kind_is(node, NODE_MAPPING, NULL, reader->error) &&
            get_text(reader, node, "name", true, &plan->gpu_name) &&
            get_text(reader, node, "target", true, &plan->gpu_target) &&
            get_text(reader, node, "hash", true, &plan->gpu_hash) &&
            (!node_get(node, "sms") || get_integer(reader, node, "sms", 1, G_MAXINT32, &sms)) &&
            FINISH(reader, node, "name", "target", "hash", "sms");
  plan->sms = (unsigned)sms;
  return ok;
}

static bool read_workspace(Reader *reader, Node *node)
{
  int64_t align;
  return node && node_kind_is(node, NODE_MAPPING, NULL, reader->error) &&
         get_expression(reader, node, "bytes", true, &reader->plan->workspace_bytes) &&
         get_integer(reader, node, "align", 256, 256, &align) && FINISH(reader, node, "bytes", "align");
}

static bool read_root(Reader *reader, Node *root)
{
  if (!node_kind_is(root, NODE_MAPPING, "a plan", reader->error)) return false;
  Node *node = node_require(root, "version", reader->error);
  if (!node || !node_integer(node, &reader->version, reader->error)) return false;
  if (reader->version < 1 || reader->version > PLAN_VERSION) {
    error_add(reader->error, ERROR_UNSUPPORTED, SEVERITY_ERROR, &node->mark, "version", NULL,
              "version %" G_GINT64_FORMAT
              " of the format is not supported: this program reads versions 1 to %d",
              reader->version, PLAN_VERSION);
    return false;
  }
  bool ok = get_text(reader, root, "name", true, &reader->plan->name);
  ok = read_gpu(reader, node_require(root, "gpu", reader->error)) && ok;
  ok = read_each(reader, root, "symbols", read_symbol, NULL) && ok;
  ok = read_each(reader, root, "tensors", read_tensor, NULL) && ok;
  ok = read_workspace(reader, node_require(root, "workspace", reader->error)) && ok;
  ok = read_each(reader, root, "launches", read_launch, NULL) && ok;
  ok = is_of_version(reader, root, "repeats", 4) && ok;
  ok = (!node_get(root, "repeats") || read_each(reader, root, "repeats", read_repeat, NULL)) && ok;
  return FINISH(reader, root, "version", "name", "gpu", "symbols", "tensors", "workspace", "launches",
                "repeats") &&
         ok;
}

Plan *plan_read(Source *source, GError **error)
{
  g_autoptr(Document) document = document_parse(source, error);
  if (!document) return NULL;
  GError *local = NULL;
  g_autoptr(Plan) plan = plan_new("", "", "", "");
  Reader reader = {plan, 0, &local};
  Node *root = document_root(document);
  if (read_root(&reader, root) && plan_check_at(plan, &root->mark, &local)) return g_steal_pointer(&plan);
  g_propagate_error(error, local);
  return NULL;
}
