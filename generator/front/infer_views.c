/* Shapes of operators that only take elements from elsewhere: Split, Transpose, Slice, Concat. */
#include "generator/front/infer_private.h"
#include <string.h>

/* ---- Split ---- */

static bool refuse_division(Inference *at, unsigned axis, const Symbolic *extent, unsigned n)
{
  bool number = symbolic_is_constant(extent, NULL);
  g_autofree char *text = symbolic_text(extent);
  g_autofree char *hint = number ? g_strdup("name the sizes in `split`")
                                 : g_strdup_printf("declare under `dims` that it is a multiple of %u", n);
  return infer_refuse(at, ERROR_INPUT, &at->node->mark, "shape", hint,
                      "dimension %u of `%s`, %s, %s into %u parts", axis, at->node->inputs[0]->name, text,
                      number ? "does not divide" : "is not known to divide", n);
}

/* Parts of one size; where `rest`, a last one that is smaller. */
static bool divide_evenly(Inference *at, unsigned axis, const Symbolic *extent, bool rest)
{
  GraphNode *node = at->node;
  Arena *arena = at->graph->arena;
  unsigned n = node->n_outputs;
  const Symbolic *size = symbolic_ceil_div(arena, extent, symbolic_constant(arena, n)), *last = size;
  if (!symbolic_divisible(extent, n, &at->graph->facts)) {
    int64_t least, most;
    last = symbolic_sub(arena, extent, symbolic_mul(arena, size, symbolic_constant(arena, n - 1)));
    symbolic_range(last, &at->graph->facts, &least, &most);
    /* half of anything, rounded up, leaves something; of more parts only numbers tell */
    if (!rest || (n > 2 && (!symbolic_is_constant(last, NULL) || least < 0)))
      return refuse_division(at, axis, extent, n);
  }
  for (unsigned i = 0; i < n; i++)
    node->sizes[i] = i + 1 < n ? size : last;
  return true;
}

static bool take_sizes(Inference *at, unsigned axis, const Symbolic *extent, const List *sizes)
{
  GraphNode *node = at->node;
  int64_t sum = 0;
  if (sizes->n != node->n_outputs)
    return infer_refuse(at, ERROR_INPUT, &sizes->mark, "arity", NULL,
                        "`split` has %u sizes, Split %u outputs", sizes->n, node->n_outputs);
  for (unsigned i = 0; i < sizes->n; i++) {
    if (sizes->items[i] < 0 || __builtin_add_overflow(sum, sizes->items[i], &sum))
      return infer_refuse(at, ERROR_INPUT, &sizes->mark, "shape", NULL,
                          "a part of %" G_GINT64_FORMAT " elements", sizes->items[i]);
    node->sizes[i] = symbolic_constant(at->graph->arena, sizes->items[i]);
  }
  if (symbolic_equals(extent, sum) || infer_assume(at, extent, symbolic_constant(at->graph->arena, sum)))
    return true;
  g_autofree char *text = symbolic_text(extent);
  return infer_refuse(at, ERROR_INPUT, &sizes->mark, "shape", NULL,
                      "the parts have %" G_GINT64_FORMAT " elements together, dimension %u of `%s` has %s",
                      sum, axis, node->inputs[0]->name, text);
}

bool infer_split(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphAttribute *attribute = graph_attribute(node, "axis"),
                       *parts = graph_attribute_find(node, "num_outputs");
  unsigned axis = 0;
  List sizes;
  *shape = infer_shape_of(node->inputs[0]);
  if (!infer_axis(at, attribute->integer, shape->rank,
                  attribute->given ? &attribute->mark : &node->input_marks[0], &axis) ||
      !infer_list(at, &(ListArgument){"split", 1, "sizes"}, &sizes))
    return false;
  node->axes = 1u << axis;
  node->sizes = arena_new_array(at->graph->arena, const Symbolic *, node->n_outputs);
  const Symbolic *extent = shape->dims[axis];
  bool named = node->n_inputs > 1 && node->inputs[1];
  if (parts && parts->given == named)
    return infer_refuse(at, named ? ERROR_INPUT : ERROR_UNSUPPORTED, &node->mark, "bad-attribute", NULL,
                        named ? "Split takes `num_outputs` or the input `split`, not both"
                              : "Split needs the attribute `num_outputs` or the input `split`");
  if (parts && parts->given && parts->integer != node->n_outputs)
    return infer_refuse(at, ERROR_INPUT, &parts->mark, "bad-attribute", NULL,
                        "num_outputs is %" G_GINT64_FORMAT ", Split has %u outputs", parts->integer,
                        node->n_outputs);
  bool ok = sizes.n || named ? take_sizes(at, axis, extent, &sizes)
                             : divide_evenly(at, axis, extent, parts != NULL);
  if (ok) shape->dims[axis] = node->sizes[0];
  return ok;
}

/* ---- Transpose ---- */

bool infer_transpose(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0];
  const GraphAttribute *perm = graph_attribute(node, "perm");
  uint32_t taken = 0;
  *shape = (Shape){.rank = input->rank};
  if (perm->given && perm->n != input->rank)
    return infer_refuse(at, ERROR_INPUT, &perm->mark, "bad-attribute", NULL,
                        "perm has %u entries, `%s` has rank %u", perm->n, input->name, input->rank);
  for (unsigned i = 0; i < input->rank; i++) {
    int64_t from = perm->given ? perm->integers[i] : input->rank - 1 - i;
    if (from < 0 || from >= input->rank || taken >> from & 1)
      return infer_refuse(at, ERROR_INPUT, &perm->mark, "bad-attribute", NULL,
                          "perm is to have each of 0 to %u once", input->rank - 1);
    taken |= 1u << from;
    node->order[i] = (unsigned)from;
    shape->dims[i] = input->shape[from];
  }
  return true;
}

/* ---- Slice ---- */

/* What an index of a slice may be along a dimension of `extent`: low .. extent + top. */
typedef struct {
  const Symbolic *extent;
  int64_t low, top;
} IndexRange;

static const Symbolic *at_least(const Inference *at, const Symbolic *index, int64_t bound)
{
  return infer_larger(at->graph, index, symbolic_constant(at->graph->arena, bound));
}

/* An index as it is written: negative ones count from the end, those outside are brought inside. NULL: it depends on symbols
 * whether it is one. */
static const Symbolic *resolve_index(const Inference *at, const Symbolic *index, const IndexRange *range)
{
  Arena *arena = at->graph->arena;
  int64_t least, most;
  symbolic_range(index, &at->graph->facts, &least, &most);
  if (least == most) { /* a number, which may be as large as s64 has them */
    least = most = CLAMP(least, -SYMBOLIC_DIMENSION_MAX - 1, SYMBOLIC_DIMENSION_MAX);
    index = symbolic_constant(arena, least);
    if (least == SYMBOLIC_DIMENSION_MAX) /* no dimension has more, those of sums of symbols neither */
      return symbolic_add(arena, range->extent, symbolic_constant(arena, range->top));
  }
  if (least < 0 && most >= 0) return NULL;
  const Symbolic *place = least < 0 ? symbolic_add(arena, range->extent, index) : index;
  place = at_least(at, place, range->low); /* an empty dimension has no last index: -1 then */
  return infer_smaller(at->graph, place,
                       symbolic_add(arena, range->extent, symbolic_constant(arena, range->top)));
}

typedef struct {
  List starts, ends, axes, steps;
} SliceLists;

static bool read_slice(Inference *at, SliceLists *lists)
{
  const GraphTensor *input = at->node->inputs[0];
  bool read = infer_list(at, &(ListArgument){"starts", 1, "starts", true}, &lists->starts) &&
              infer_list(at, &(ListArgument){"ends", 2, "ends", true}, &lists->ends) &&
              infer_list(at, &(ListArgument){"axes", 3, "axes"}, &lists->axes) &&
              infer_list(at, &(ListArgument){"steps", 4, "steps"}, &lists->steps);
  if (!read) return false;
  unsigned n = lists->starts.n;
  if (!lists->axes.given && n > input->rank)
    return infer_refuse(at, ERROR_INPUT, &lists->starts.mark, "arity", NULL,
                        "Slice of %u dimensions of `%s`, which has rank %u", n, input->name, input->rank);
  const struct {
    const char *what;
    const List *list;
    bool optional;
  } others[] = {{"ends", &lists->ends, false}, {"axes", &lists->axes, true}, {"steps", &lists->steps, true}};
  for (unsigned i = 0; i < G_N_ELEMENTS(others); i++)
    if (others[i].list->n != n && (others[i].list->given || !others[i].optional))
      return infer_refuse(at, ERROR_INPUT, &others[i].list->mark, "arity", NULL,
                          "`%s` has %u entries, `starts` %u", others[i].what, others[i].list->n, n);
  return true;
}

static const Symbolic *entry_of(const Inference *at, const List *list, unsigned i)
{
  return list->values ? list->values[i] : symbolic_constant(at->graph->arena, list->items[i]);
}

static bool refuse_index(Inference *at, const List *list, unsigned i)
{
  g_autofree char *text = symbolic_text(list->values[i]);
  return infer_refuse(at, ERROR_UNSUPPORTED, &list->mark, "slice", "bind the symbols: --dim",
                      "an index of Slice that may be negative or not is not supported: %s", text);
}

/* Of a slice from a number of places before the end up to the end: so many, or what there is. NULL: it is none. That the last one of a
 * dimension is one at most would not follow from its first and its end. */
static const Symbolic *last_ones(const Inference *at, const Symbolic *start, const Symbolic *last,
                                 const Symbolic *extent)
{
  int64_t number;
  if (!symbolic_is_constant(start, &number) || number >= 0 || number < -SYMBOLIC_DIMENSION_MAX ||
      !symbolic_same(last, extent))
    return NULL;
  return infer_smaller(at->graph, extent, symbolic_constant(at->graph->arena, -number));
}

/* Indices start, start + step, ... before the end of one dimension: entry i of the lists. */
static bool take_slice(Inference *at, const SliceLists *lists, unsigned i, unsigned axis, Shape *shape)
{
  int64_t step = lists->steps.n ? lists->steps.items[i] : 1;
  GraphNode *node = at->node;
  Arena *arena = at->graph->arena;
  bool back = step < 0;
  IndexRange from = {shape->dims[axis], 0, back ? -1 : 0},
             to = {shape->dims[axis], back ? -1 : 0, back ? -1 : 0};
  const Symbolic *first = resolve_index(at, entry_of(at, &lists->starts, i), &from);
  const Symbolic *last = resolve_index(at, entry_of(at, &lists->ends, i), &to);
  if (!first || !last) return refuse_index(at, first ? &lists->ends : &lists->starts, i);
  const Symbolic *span = back ? symbolic_sub(arena, first, last) : symbolic_sub(arena, last, first);
  /* no dimension has more elements, and so many can be negated */
  int64_t stride = CLAMP(step, -SYMBOLIC_DIMENSION_MAX, SYMBOLIC_DIMENSION_MAX);
  const Symbolic *known =
      back ? NULL : last_ones(at, entry_of(at, &lists->starts, i), last, shape->dims[axis]);
  span = known ? known : at_least(at, span, 0);
  if (stride != 1 && stride != -1)
    span = symbolic_ceil_div(arena, span, symbolic_constant(arena, back ? -stride : stride));
  node->firsts[axis] = first;
  node->steps[axis] = stride;
  shape->dims[axis] = span;
  return true;
}

bool infer_slice(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  SliceLists lists;
  if (!read_slice(at, &lists)) return false;
  *shape = infer_shape_of(node->inputs[0]);
  node->firsts = arena_new_array(at->graph->arena, const Symbolic *, GRAPH_MAX_RANK);
  for (unsigned d = 0; d < shape->rank; d++) {
    node->firsts[d] = symbolic_constant(at->graph->arena, 0);
    node->steps[d] = 1;
  }
  uint32_t taken = 0;
  for (unsigned i = 0; i < lists.starts.n; i++) {
    unsigned axis = i;
    if (lists.axes.n && !infer_axis(at, lists.axes.items[i], shape->rank, &lists.axes.mark, &axis))
      return false;
    if (taken >> axis & 1)
      return infer_refuse(at, ERROR_INPUT, &lists.axes.mark, "axis", NULL, "axis %u is named twice", axis);
    if (lists.steps.n && !lists.steps.items[i])
      return infer_refuse(at, ERROR_INPUT, &lists.steps.mark, "bad-step", NULL, "a step of 0 along axis %u",
                          axis);
    taken |= 1u << axis;
    if (!take_slice(at, &lists, i, axis, shape)) return false;
  }
  return true;
}

/* ---- Concat ---- */

bool infer_concat(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  Arena *arena = at->graph->arena;
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  unsigned axis = 0;
  *shape = infer_shape_of(node->inputs[0]);
  if (!infer_axis(at, attribute->integer, shape->rank, &attribute->mark, &axis)) return false;
  node->axes = 1u << axis;
  for (unsigned i = 1; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input)
      return infer_refuse(at, ERROR_INPUT, &node->input_marks[i], "missing-input", NULL,
                          "input %u of Concat is required", i + 1);
    bool fits = input->rank == shape->rank;
    for (unsigned d = 0; fits && d < shape->rank; d++)
      fits = d == axis || infer_same(at, input->shape[d], shape->dims[d]);
    if (!fits) {
      g_autofree char *have = graph_shape_text(input->shape, input->rank);
      g_autofree char *want = graph_shape_text(node->inputs[0]->shape, node->inputs[0]->rank);
      return infer_refuse(at, ERROR_INPUT, &node->input_marks[i], "shape",
                          "all dimensions but that of `axis` must be equal",
                          "`%s` of shape %s does not go behind `%s` of shape %s along axis %u", input->name,
                          have, node->inputs[0]->name, want, axis);
    }
    shape->dims[axis] = symbolic_add(arena, shape->dims[axis], input->shape[axis]);
  }
  return true;
}
