/* Shapes of operators that give the same elements, in the same order or repeated, another shape: Reshape, Flatten, Squeeze,
 * Unsqueeze, Expand. */
#include "generator/front/infer_private.h"
#include <string.h>

/* ---- Reshape ---- */

/* Elements that the entries of a shape do not account for yet: dimensions of the input that no entry names, the
 * product of the entries that are numbers, and of the expressions that are no dimension by themselves. */
#define MAX_FACTORS 32
typedef struct {
  Arena *arena;
  const Symbolic *dims[MAX_FACTORS]; /* or factors of one, where it is a product */
  unsigned n;
  int64_t entries;
  const Symbolic *expressions; /* NULL: there are none */
} Rest;

/* Takes dimensions that stand beside each other and have that product. */
static bool take(Rest *rest, const Symbolic *product, unsigned most)
{
  for (unsigned i = 0; i < rest->n; i++) {
    const Symbolic *some = symbolic_constant(rest->arena, 1);
    for (unsigned n = 1; n <= most && i + n <= rest->n; n++) {
      some = symbolic_mul(rest->arena, some, rest->dims[i + n - 1]);
      if (!symbolic_same(some, product)) continue;
      rest->n -= n;
      memmove(&rest->dims[i], &rest->dims[i + n], (rest->n - i) * sizeof *rest->dims);
      return true;
    }
  }
  return false;
}

/* Puts factors of a product behind the list; false: there are too many. */
static bool add_factors(const Symbolic *product, const Symbolic **factors, unsigned *n)
{
  if (product->kind == SYMBOLIC_MUL)
    return add_factors(product->a, factors, n) && add_factors(product->b, factors, n);
  if (*n == MAX_FACTORS) return false;
  factors[(*n)++] = product;
  return true;
}

static void add_dims(Rest *rest, const GraphTensor *input)
{
  for (unsigned d = 0; d < input->rank; d++)
    if (!add_factors(input->shape[d], rest->dims, &rest->n)) rest->entries = -1;
}

static void cancel(Rest *rest, const Symbolic *entry);

static bool cancel_factors(Rest *rest, const Symbolic *entry)
{
  const Symbolic *factors[MAX_FACTORS];
  unsigned n = 0;
  if (entry->kind != SYMBOLIC_MUL || !add_factors(entry, factors, &n)) return false;
  for (unsigned i = 0; i < n; i++)
    cancel(rest, factors[i]);
  return true;
}

static void cancel(Rest *rest, const Symbolic *entry)
{
  int64_t value;
  if (take(rest, entry, 1) || cancel_factors(rest, entry)) return;
  if (!symbolic_is_constant(entry, &value))
    rest->expressions = rest->expressions ? symbolic_mul(rest->arena, rest->expressions, entry) : entry;
  else if (__builtin_mul_overflow(rest->entries, value, &rest->entries))
    rest->entries = -1;
}

/* Expressions of entries that are several dimensions together, or parts of one. */
static void cancel_expressions(Rest *rest)
{
  if (rest->expressions && !take(rest, rest->expressions, MAX_FACTORS)) rest->entries = -1;
}

/* What is left of the dimensions, over what is left of the entries; NULL if it is not known to divide. */
static const Symbolic *quotient(Inference *at, const Rest *rest)
{
  Arena *arena = at->graph->arena;
  int64_t numbers = 1, value;
  const Symbolic *symbols = symbolic_constant(arena, 1);
  if (rest->entries <= 0) return NULL;
  for (unsigned i = 0; i < rest->n; i++) {
    if (!symbolic_is_constant(rest->dims[i], &value))
      symbols = symbolic_mul(arena, symbols, rest->dims[i]);
    else if (__builtin_mul_overflow(numbers, value, &numbers))
      return NULL;
  }
  if (!numbers) return symbolic_constant(arena, 0);
  int64_t common = symbolic_common_factor(numbers, rest->entries), left = rest->entries / common;
  const Symbolic *whole = symbolic_mul(arena, symbolic_constant(arena, numbers / common), symbols);
  if (left == 1) return whole;
  if (!symbolic_divisible(whole, left, &at->graph->facts)) return NULL;
  return symbolic_binary(arena, SYMBOLIC_DIV, whole, symbolic_constant(arena, left));
}

static bool are_numbers(const GraphTensor *tensor)
{
  for (unsigned d = 0; d < tensor->rank; d++)
    if (!symbolic_is_constant(tensor->shape[d], NULL)) return false;
  return true;
}

static bool refuse_elements(Inference *at, const List *entries, bool open)
{
  const GraphTensor *input = at->node->inputs[0];
  g_autofree char *have = graph_shape_text(input->shape, input->rank);
  g_autoptr(GString) want = g_string_new("[");
  for (unsigned i = 0; i < entries->n; i++) {
    g_autofree char *entry = symbolic_text(entries->values[i]);
    g_string_append_printf(want, "%s%s", i ? ", " : "", entry);
  }
  g_string_append_c(want, ']');
  if (are_numbers(input))
    return infer_refuse(at, ERROR_INPUT, &entries->mark, "shape", NULL,
                        "`%s`, %s, has not as many elements as the shape %s", input->name, have, want->str);
  return infer_refuse(at, ERROR_INPUT, &entries->mark, "shape",
                      open ? "declare under `dims` what the dimension is a multiple of"
                           : "an entry of 0 stands for the input's dimension, one of -1 for what is left",
                      "the elements of `%s`, %s, are not known to have the shape %s", input->name, have,
                      want->str);
}

static bool refuse_entry(Inference *at, const List *entries, unsigned i, const char *why)
{
  return infer_refuse(at, ERROR_INPUT, &entries->mark, "shape", NULL,
                      "entry %u of the shape, %" G_GINT64_FORMAT ", %s", i, entries->items[i], why);
}

/* Entry i of the shape; NULL and no error for the one that is -1. */
static bool read_entry(Inference *at, const List *entries, unsigned i, int *open, const Symbolic **extent)
{
  const GraphTensor *input = at->node->inputs[0];
  const GraphAttribute *zeros = graph_attribute_find(at->node, "allowzero");
  int64_t entry = entries->items[i];
  *extent = NULL;
  if (!symbolic_is_constant(entries->values[i], NULL)) {
    *extent = entries->values[i];
    return true;
  }
  if (entry < -1 || entry > SYMBOLIC_DIMENSION_MAX) return refuse_entry(at, entries, i, "is no extent");
  if (entry == -1) {
    if (*open >= 0) return refuse_entry(at, entries, i, "is the second one that is left open");
    *open = (int)i;
  } else if (entry || (zeros && zeros->integer)) {
    *extent = symbolic_constant(at->graph->arena, entry);
  } else {
    if (i >= input->rank)
      return refuse_entry(at, entries, i, "stands for a dimension that the input does not have");
    *extent = input->shape[i];
  }
  return true;
}

/* No elements at all, whatever the other extents are. */
static bool has_none(const Symbolic *const *dims, unsigned rank)
{
  for (unsigned d = 0; d < rank; d++)
    if (dims[d] && symbolic_equals(dims[d], 0)) return true;
  return false;
}

bool infer_reshape(Inference *at, Shape *shape)
{
  const GraphTensor *input = at->node->inputs[0];
  List entries;
  int open = -1;
  if (!infer_list(at, &(ListArgument){"shape", 1, "shapes", true}, &entries)) return false;
  *shape = (Shape){.rank = entries.n};
  if (entries.n > GRAPH_MAX_RANK) return true; /* reported for all operators alike */
  Rest rest = {.arena = at->graph->arena, .entries = 1};
  add_dims(&rest, input);
  for (unsigned i = 0; i < entries.n; i++) {
    if (!read_entry(at, &entries, i, &open, &shape->dims[i])) return false;
    if (shape->dims[i]) cancel(&rest, shape->dims[i]);
  }
  cancel_expressions(&rest);
  if (open < 0 && has_none(input->shape, input->rank) && has_none(shape->dims, shape->rank)) return true;
  const Symbolic *left = quotient(at, &rest);
  if (!left || (open < 0 && !symbolic_equals(left, 1))) return refuse_elements(at, &entries, open >= 0);
  if (open >= 0) shape->dims[open] = left;
  return true;
}

/* ---- Flatten ---- */

bool infer_flatten(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0];
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  int64_t axis = attribute->integer < 0 ? attribute->integer + input->rank : attribute->integer;
  if (axis < 0 || axis > input->rank)
    return infer_refuse(at, ERROR_INPUT, attribute->given ? &attribute->mark : &node->input_marks[0], "axis",
                        NULL, "axis %" G_GINT64_FORMAT " of `%s`, which has rank %u", attribute->integer,
                        input->name, input->rank);
  *shape = (Shape){.rank = 2};
  for (unsigned part = 0; part < 2; part++)
    shape->dims[part] = symbolic_constant(at->graph->arena, 1);
  for (unsigned d = 0; d < input->rank; d++)
    shape->dims[d >= axis] = symbolic_mul(at->graph->arena, shape->dims[d >= axis], input->shape[d]);
  return true;
}

/* ---- Squeeze and Unsqueeze ---- */

/* `axes` as bits, of a shape of that rank. */
static bool read_axes(Inference *at, const List *axes, unsigned rank, uint32_t *bits)
{
  *bits = 0;
  for (unsigned i = 0; i < axes->n; i++) {
    unsigned axis;
    if (!infer_axis(at, axes->items[i], rank, &axes->mark, &axis)) return false;
    if (*bits >> axis & 1)
      return infer_refuse(at, ERROR_INPUT, &axes->mark, "axis", NULL, "axis %u is named twice", axis);
    *bits |= 1u << axis;
  }
  return true;
}

/* Without `axes`, dimensions of 1 go; of each it must be known whether it is one. */
static bool find_ones(Inference *at, uint32_t *bits)
{
  const GraphTensor *input = at->node->inputs[0];
  *bits = 0;
  for (unsigned d = 0; d < input->rank; d++) {
    int64_t least, most;
    symbolic_range(input->shape[d], &at->graph->facts, &least, &most);
    if (least == 1 && most == 1)
      *bits |= 1u << d;
    else if (least <= 1 && most >= 1)
      return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->input_marks[0], "shape", "name the `axes`",
                          "Squeeze without axes, and dimension %u of `%s` may be 1 or not", d, input->name);
  }
  return true;
}

/* A dimension that `axes` name: 1, or taken for it where a model says so. */
static bool is_one(Inference *at, unsigned d, const Mark *mark)
{
  const GraphTensor *input = at->node->inputs[0];
  const Symbolic *extent = input->shape[d];
  int64_t least, most;
  if (symbolic_equals(extent, 1) || infer_same(at, extent, symbolic_constant(at->graph->arena, 1)))
    return true;
  g_autofree char *text = symbolic_text(extent);
  symbolic_range(extent, &at->graph->facts, &least, &most);
  if (least <= 1 && most >= 1)
    return infer_refuse(
        at, ERROR_UNSUPPORTED, mark, "shape", "bind the symbol, or say so by its `min` and `max`",
        "dimension %u of `%s` is %s, which Squeeze takes away if it is 1", d, input->name, text);
  return infer_refuse(at, ERROR_INPUT, mark, "shape", NULL,
                      "dimension %u of `%s` is %s, and Squeeze takes away dimensions of 1", d, input->name,
                      text);
}

bool infer_squeeze(Inference *at, Shape *shape)
{
  const GraphTensor *input = at->node->inputs[0];
  uint32_t gone;
  List axes;
  if (!infer_list(at, &(ListArgument){"axes", 1, "axes"}, &axes)) return false;
  if (!(axes.given ? read_axes(at, &axes, input->rank, &gone) : find_ones(at, &gone))) return false;
  *shape = (Shape){0};
  for (unsigned d = 0; d < input->rank; d++) {
    if (!(gone >> d & 1))
      shape->dims[shape->rank++] = input->shape[d];
    else if (!is_one(at, d, &axes.mark))
      return false;
  }
  return true;
}

bool infer_unsqueeze(Inference *at, Shape *shape)
{
  const GraphTensor *input = at->node->inputs[0];
  uint32_t added;
  List axes;
  if (!infer_list(at, &(ListArgument){"axes", 1, "axes"}, &axes)) return false;
  *shape = (Shape){.rank = input->rank + axes.n};
  if (shape->rank > GRAPH_MAX_RANK) return true; /* reported for all operators alike */
  if (!read_axes(at, &axes, shape->rank, &added)) return false;
  for (unsigned d = 0, from = 0; d < shape->rank; d++)
    shape->dims[d] = added >> d & 1 ? symbolic_constant(at->graph->arena, 1) : input->shape[from++];
  return true;
}

/* ---- Expand ---- */

bool infer_expand(Inference *at, Shape *shape)
{
  const GraphTensor *input = at->node->inputs[0];
  List entries;
  if (!infer_list(at, &(ListArgument){"shape", 1, "shapes", true}, &entries)) return false;
  *shape = (Shape){.rank = MAX(input->rank, entries.n)};
  if (shape->rank > GRAPH_MAX_RANK) return true; /* reported for all operators alike */
  for (unsigned d = 0; d < shape->rank; d++) {
    bool has = d + input->rank >= shape->rank, asked = d + entries.n >= shape->rank;
    const Symbolic *own =
        has ? input->shape[d + input->rank - shape->rank] : symbolic_constant(at->graph->arena, 1);
    unsigned i = asked ? d + entries.n - shape->rank : 0;
    const Symbolic *entry = asked ? entries.values[i] : symbolic_constant(at->graph->arena, 1);
    int64_t number = asked ? entries.items[i] : 1;
    if (number < 0 || number > SYMBOLIC_DIMENSION_MAX) return refuse_entry(at, &entries, i, "is no extent");
    shape->dims[d] = symbolic_equals(entry, 1) ? own : entry;
    if (symbolic_equals(entry, 1) || symbolic_equals(own, 1) || infer_same(at, own, entry)) continue;
    g_autofree char *have = graph_shape_text(input->shape, input->rank), *want = symbolic_text(entry);
    return infer_refuse(at, ERROR_INPUT, &entries.mark, "shape", "an entry of 1 leaves a dimension as it is",
                        "`%s`, %s, does not broadcast: entry %u of the shape is %s", input->name, have, i,
                        want);
  }
  return true;
}
