/* Dimensions of a graph: symbols, their declarations and what they are bound to. */
#include "generator/front/private.h"
#include <string.h>

static bool is_symbol_name(const char *name)
{
  static const char *const reserved[] = {"ceil_div", "min", "max", "align"};
  for (unsigned i = 0; i < G_N_ELEMENTS(reserved); i++)
    if (!strcmp(name, reserved[i])) return false;
  for (const char *at = name; *at; at++)
    if (!g_ascii_isalpha(*at) && *at != '_' && (at == name || !g_ascii_isdigit(*at))) return false;
  return *name && strlen(name) <= 64;
}

static GraphDim *find_dim(GraphBuilder *b, const char *name)
{
  for (unsigned i = 0; i < b->dims->len; i++) {
    GraphDim *dim = &g_array_index(b->dims, GraphDim, i);
    if (!strcmp(dim->name, name)) return dim;
  }
  return NULL;
}

static GraphDim *add_dim(GraphBuilder *b, const char *name, Mark mark)
{
  GraphDim dim = {.name = arena_strdup(b->graph->arena, name),
                  .max = SYMBOLIC_DIMENSION_MAX,
                  .multiple = 1,
                  .mark = mark};
  g_array_append_val(b->dims, dim);
  return &g_array_index(b->dims, GraphDim, b->dims->len - 1);
}

static void refuse_name(GraphBuilder *b, const char *name, const Mark *mark)
{
  graph_builder_report(b, ERROR_INPUT, mark, "bad-name", "letters, digits and `_`, not starting with a digit",
                       "`%s` cannot be the name of a dimension", name);
}

void graph_builder_dim(GraphBuilder *b, const GraphDimSpec *spec)
{
  if (!is_symbol_name(spec->name)) refuse_name(b, spec->name, &spec->name_mark);
  GraphDim *dim = add_dim(b, spec->name, spec->name_mark);
  dim->declared = true;
  dim->min = spec->min;
  dim->max = spec->max;
  dim->multiple = spec->multiple;
  if (dim->min > dim->max)
    graph_builder_report(b, ERROR_INPUT, &spec->mark, "empty-range", NULL,
                         "dimension `%s` has min %" G_GINT64_FORMAT " above max %" G_GINT64_FORMAT,
                         spec->name, dim->min, dim->max);
  else if (dim->max / dim->multiple < (dim->min + dim->multiple - 1) / dim->multiple)
    graph_builder_report(b, ERROR_INPUT, &spec->mark, "empty-range", NULL,
                         "no multiple of %" G_GINT64_FORMAT " lies between min %" G_GINT64_FORMAT
                         " and max %" G_GINT64_FORMAT,
                         dim->multiple, dim->min, dim->max);
}

void builder_declare_plain_symbols(GraphBuilder *b, const GraphTensor *tensor, const Mark *marks)
{
  for (unsigned i = 0; i < tensor->rank; i++) {
    const Symbolic *extent = tensor->shape[i];
    if (extent->kind != SYMBOLIC_SYMBOL || find_dim(b, extent->name)) continue;
    if (is_symbol_name(extent->name))
      add_dim(b, extent->name, marks[i]);
    else
      refuse_name(b, extent->name, &marks[i]);
  }
}

static char *dim_names(GraphBuilder *b)
{
  GString *names = g_string_new(NULL);
  for (unsigned i = 0; i < b->dims->len; i++)
    g_string_append_printf(names, "%s%s", i ? ", " : "", g_array_index(b->dims, GraphDim, i).name);
  return g_string_free(names, FALSE);
}

/* Bindings hold for symbols known from `dims` or from shapes, so they come after both. */
static void bind_dims(GraphBuilder *b)
{
  for (unsigned i = 0; i < b->reading.n_bindings; i++) {
    const GraphBinding *binding = &b->reading.bindings[i];
    GraphDim *dim = find_dim(b, binding->name);
    if (!dim) {
      g_autofree char *names = dim_names(b);
      g_autofree char *hint = g_strdup_printf("its symbols: %s", *names ? names : "none");
      graph_builder_report(b, ERROR_INPUT, NULL, "unknown-symbol", hint, "the graph has no dimension `%s`",
                           binding->name);
    } else if (dim->bound && dim->min != binding->value) {
      graph_builder_report(b, ERROR_INPUT, NULL, "bound-twice", NULL, "dimension `%s` is given two values",
                           binding->name);
    } else if (binding->value < dim->min || binding->value > dim->max || binding->value % dim->multiple) {
      graph_builder_report(b, ERROR_INPUT, &dim->mark, "out-of-range", NULL,
                           "%s=%" G_GINT64_FORMAT " is not a multiple of %" G_GINT64_FORMAT
                           " between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                           binding->name, binding->value, dim->multiple, dim->min, dim->max);
    } else {
      dim->bound = true;
      dim->min = dim->max = binding->value;
      dim->multiple = 1;
    }
  }
}

static const Symbolic *bound_value(const Symbolic *leaf, void *data)
{
  GraphBuilder *b = data;
  const GraphDim *dim = leaf->kind == SYMBOLIC_SYMBOL ? find_dim(b, leaf->name) : NULL;
  return dim && dim->min == dim->max ? symbolic_constant(b->graph->arena, dim->min) : NULL;
}

static void note_use(const Symbolic *leaf, void *data)
{
  GHashTable *used = data;
  g_hash_table_add(used, (void *)leaf->name);
}

static void check_uses(GraphBuilder *b, const Symbolic *const *list, size_t n, const GraphTensor *tensor,
                       GHashTable *used)
{
  for (size_t i = 0; i < n; i++) {
    g_autoptr(GHashTable) here = g_hash_table_new(g_str_hash, g_str_equal);
    if (!list[i]) continue;
    symbolic_visit(list[i], note_use, here);
    GHashTableIter iterator;
    gpointer name;
    g_hash_table_iter_init(&iterator, here);
    while (g_hash_table_iter_next(&iterator, &name, NULL)) {
      g_hash_table_add(used, name);
      if (find_dim(b, name)) continue;
      graph_builder_report(b, ERROR_INPUT, &tensor->mark, "undefined-symbol",
                           "declare it under `dims`, or let it stand alone as a dimension",
                           "symbol `%s` in the shape of `%s` is not defined", (char *)name, tensor->name);
    }
  }
}

/* Every symbol that a shape uses is defined, and every declared one is used. */
static void check_symbols(GraphBuilder *b)
{
  g_autoptr(GHashTable) used = g_hash_table_new(g_str_hash, g_str_equal);
  for (unsigned i = 0; i < b->inputs->len; i++) {
    GraphTensor *tensor = b->inputs->pdata[i];
    check_uses(b, (const Symbolic *const *)tensor->shape, tensor->rank, tensor, used);
    check_uses(b, (const Symbolic *const *)tensor->strides, tensor->rank, tensor, used);
  }
  for (unsigned i = 0; i < b->constants->len; i++) {
    const GraphTensor *tensor = b->constants->pdata[i];
    g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
    if (tensor->values && !tensor->data) check_uses(b, tensor->values, tensor->n_elements, tensor, known);
  }
  for (unsigned i = 0; i < b->dims->len; i++) {
    const GraphDim *dim = &g_array_index(b->dims, GraphDim, i);
    if (dim->declared && !g_hash_table_contains(used, dim->name))
      graph_builder_report(b, ERROR_INPUT, &dim->mark, "unused-symbol", "remove it, or use it in a shape",
                           "no input's shape uses dimension `%s`", dim->name);
  }
}

static void append_leaf(const Symbolic *leaf, void *data)
{
  g_ptr_array_add(data, (void *)leaf->name);
}

/* Order of appearance: kernels take their symbols in it. */
void builder_order_dims(GraphBuilder *b)
{
  g_autoptr(GArray) ordered = g_array_new(FALSE, TRUE, sizeof(GraphDim));
  for (unsigned i = 0; i < b->inputs->len; i++) {
    const GraphTensor *tensor = b->inputs->pdata[i];
    for (unsigned j = 0; j < 2 * tensor->rank; j++) {
      const Symbolic *extent = j < tensor->rank ? tensor->shape[j] : tensor->strides[j - tensor->rank];
      GPtrArray *leaves = g_ptr_array_new();
      if (extent) symbolic_visit(extent, append_leaf, leaves);
      for (unsigned k = 0; k < leaves->len; k++) {
        const GraphDim *dim = find_dim(b, leaves->pdata[k]);
        bool seen = !dim;
        for (unsigned l = 0; l < ordered->len; l++)
          seen = seen || !strcmp(g_array_index(ordered, GraphDim, l).name, dim->name);
        if (!seen) g_array_append_val(ordered, *dim);
      }
      g_ptr_array_unref(leaves);
    }
  }
  g_array_set_size(b->dims, 0);
  g_array_append_vals(b->dims, ordered->data, ordered->len);
}

/* What was taken for granted of symbols that are not bound is as good as declared. */
static void take_assumptions(GraphBuilder *b)
{
  const Assumptions *assumptions = b->reading.assumptions;
  for (unsigned i = 0; assumptions && i < assumptions->list->len; i++) {
    const Assumption *made = &g_array_index(assumptions->list, Assumption, i);
    GraphDim *dim = find_dim(b, made->name);
    if (!dim || dim->bound || made->equals) continue;
    int64_t min = MAX(dim->min, made->min), max = MIN(dim->max, made->max);
    if (min > max || max / dim->multiple < (min + dim->multiple - 1) / dim->multiple)
      graph_builder_report(b, ERROR_INPUT, &dim->mark, "empty-range", NULL,
                           "dimension `%s` is to lie between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT
                           ", and it lies between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                           dim->name, made->min, made->max, dim->min, dim->max);
    dim->min = min;
    dim->max = max;
  }
}

/* A bound symbol that others give has their value. */
static void check_assumptions(GraphBuilder *b)
{
  const Assumptions *assumptions = b->reading.assumptions;
  for (unsigned i = 0; assumptions && i < assumptions->list->len; i++) {
    const Assumption *made = &g_array_index(assumptions->list, Assumption, i);
    const GraphDim *dim = find_dim(b, made->name);
    int64_t value;
    if (!dim || !dim->bound || !made->equals) continue;
    const Symbolic *wanted = assumptions_apply(assumptions, b->graph->arena, made->equals);
    wanted = symbolic_substitute(b->graph->arena, wanted, bound_value, b);
    if (!symbolic_is_constant(wanted, &value) || value == dim->min) continue;
    g_autofree char *text = symbolic_text(made->equals);
    graph_builder_report(b, ERROR_INPUT, &dim->mark, "out-of-range", NULL,
                         "%s=%" G_GINT64_FORMAT " is not %s, %" G_GINT64_FORMAT, dim->name, dim->min, text,
                         value);
  }
}

static const Symbolic *settle_extent(GraphBuilder *b, const Symbolic *extent)
{
  Arena *arena = b->graph->arena;
  return symbolic_substitute(arena, assumptions_apply(b->reading.assumptions, arena, extent), bound_value, b);
}

/* Bound symbols become numbers; absent strides row-major. */
static void settle_shapes(GraphBuilder *b, GPtrArray *list)
{
  Arena *arena = b->graph->arena;
  for (unsigned i = 0; i < list->len; i++) {
    GraphTensor *tensor = list->pdata[i];
    bool strided = tensor->rank && tensor->strides[0];
    for (unsigned j = 0; j < tensor->rank; j++) {
      tensor->shape[j] = settle_extent(b, tensor->shape[j]);
      if (strided) tensor->strides[j] = settle_extent(b, tensor->strides[j]);
    }
    if (!strided) graph_row_major(arena, tensor);
  }
}

/* Where all symbols are bound they are numbers like others. What the type does not hold stays as it is written. */
static void write_bound(GraphBuilder *b, GraphTensor *constant)
{
  guint8 *data = arena_alloc(b->graph->arena, number_bytes_of(constant->type, constant->n_elements) + 1);
  for (size_t i = 0; i < constant->n_elements; i++) {
    int64_t value;
    if (!symbolic_is_constant(constant->values[i], &value)) return;
    if (constant->type == NUMBER_S32 && value != (int32_t)value) return;
    number_set_bits(constant->type, (uint64_t)value, data, i);
  }
  constant->data = data;
}

/* Constants that are written as expressions of symbols. */
static void settle_values(GraphBuilder *b, GraphTensor *constant)
{
  if (!constant->values || constant->data) return;
  Arena *arena = b->graph->arena;
  const Symbolic **values = arena_new_array(arena, const Symbolic *, constant->n_elements + 1);
  for (size_t i = 0; i < constant->n_elements; i++)
    values[i] = settle_extent(b, constant->values[i]);
  constant->values = values;
  write_bound(b, constant);
}

void builder_settle_dims(GraphBuilder *b)
{
  check_symbols(b);
  bind_dims(b);
  take_assumptions(b);
  check_assumptions(b);
  settle_shapes(b, b->inputs);
  settle_shapes(b, b->constants);
  for (unsigned i = 0; i < b->constants->len; i++)
    settle_values(b, b->constants->pdata[i]);
}
