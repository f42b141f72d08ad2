/* Shapes of operators that take elements at indices of their own: Gather, GatherElements, Pad, Tile, Trilu, Mask. */
#include "generator/front/infer_private.h"
#include <string.h>

/* Attribute `axis`, as bit of node->axes too. */
static bool read_axis(Inference *at, unsigned *axis)
{
  GraphNode *node = at->node;
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  const Mark *mark = attribute->given ? &attribute->mark : &node->input_marks[0];
  if (!infer_axis(at, attribute->integer, node->inputs[0]->rank, mark, axis)) return false;
  node->axes = 1u << *axis;
  return true;
}

/* ---- Gather ---- */

bool infer_gather(Inference *at, Shape *shape)
{
  const GraphTensor *input = at->node->inputs[0], *indices = at->node->inputs[1];
  unsigned axis = 0;
  if (!read_axis(at, &axis)) return false;
  *shape = (Shape){.rank = input->rank - 1 + indices->rank};
  if (shape->rank > GRAPH_MAX_RANK) return true; /* reported for all operators alike */
  memcpy(shape->dims, input->shape, axis * sizeof *shape->dims);
  memcpy(shape->dims + axis, indices->shape, indices->rank * sizeof *shape->dims);
  memcpy(shape->dims + axis + indices->rank, input->shape + axis + 1,
         (input->rank - axis - 1) * sizeof *shape->dims);
  return true;
}

bool infer_indices_fit(Inference *at)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0], *indices = node->inputs[1];
  unsigned axis = 0;
  if (!read_axis(at, &axis)) return false;
  bool fits = indices->rank == input->rank;
  for (unsigned d = 0; fits && d < input->rank; d++) {
    int64_t least, most;
    symbolic_range(symbolic_sub(at->graph->arena, input->shape[d], indices->shape[d]), &at->graph->facts,
                   &least, &most);
    fits = d == axis || least >= 0;
  }
  if (fits) return true;
  g_autofree char *have = graph_shape_text(indices->shape, indices->rank);
  g_autofree char *want = graph_shape_text(input->shape, input->rank);
  return infer_refuse(at, ERROR_INPUT, &node->input_marks[1], "shape",
                      "of all dimensions but that of `axis` it may have as many indices at most",
                      "`%s` of shape %s does not take elements of `%s` of shape %s along axis %u",
                      indices->name, have, input->name, want, axis);
}

bool infer_gather_elements(Inference *at, Shape *shape)
{
  *shape = infer_shape_of(at->node->inputs[1]);
  return infer_indices_fit(at);
}

/* ---- Pad ---- */

typedef struct {
  List pads, axes;
} PadLists;

static bool read_pads(Inference *at, PadLists *lists)
{
  const GraphTensor *input = at->node->inputs[0];
  if (!infer_list(at, &(ListArgument){"pads", 1, "pads"}, &lists->pads) ||
      !infer_list(at, &(ListArgument){"axes", 3, "axes"}, &lists->axes))
    return false;
  unsigned n = lists->axes.given ? lists->axes.n : input->rank;
  if (lists->pads.n == 2 * n) return true;
  return infer_refuse(at, ERROR_INPUT, &lists->pads.mark, "arity", "those in front, then those behind",
                      "%u pads of %u dimensions", lists->pads.n, n);
}

/* What stands outside: one number that is known, or nothing. */
static bool check_fill(Inference *at)
{
  GraphNode *node = at->node;
  const GraphTensor *fill = node->n_inputs > 2 ? node->inputs[2] : NULL;
  double value;
  if (!fill || graph_scalar(fill, &value)) return true;
  bool one = graph_has_one_element(fill);
  return infer_refuse(at, one ? ERROR_UNSUPPORTED : ERROR_INPUT, &node->input_marks[2], "fill",
                      one ? "put it under `constants`, with `data`" : NULL,
                      one ? "a constant value that the description does not hold is not supported: `%s`"
                          : "the constant value of Pad is one number: `%s` is not",
                      fill->name);
}

static bool check_fill_type(Inference *at)
{
  const GraphTensor *input = at->node->inputs[0];
  const GraphTensor *fill = at->node->n_inputs > 2 ? at->node->inputs[2] : NULL;
  if (!fill || fill->type == input->type) return true;
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[2], "type", NULL,
                      "the constant value `%s` is %s, `%s` is %s", fill->name, number_name(fill->type),
                      input->name, number_name(input->type));
}

bool infer_pad(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  Arena *arena = at->graph->arena;
  uint32_t taken = 0;
  PadLists lists;
  if (!read_pads(at, &lists) || !check_fill_type(at) || !check_fill(at)) return false;
  *shape = infer_shape_of(node->inputs[0]);
  node->firsts = arena_new_array(arena, const Symbolic *, GRAPH_MAX_RANK);
  for (unsigned d = 0; d < shape->rank; d++)
    node->firsts[d] = symbolic_constant(arena, 0);
  unsigned n = lists.pads.n / 2;
  for (unsigned i = 0; i < n; i++) {
    unsigned axis = i;
    if (lists.axes.given && !infer_axis(at, lists.axes.items[i], shape->rank, &lists.axes.mark, &axis))
      return false;
    if (taken >> axis & 1)
      return infer_refuse(at, ERROR_INPUT, &lists.axes.mark, "axis", NULL, "axis %u is named twice", axis);
    taken |= 1u << axis;
    int64_t front = lists.pads.items[i], behind = lists.pads.items[i + n], least, most;
    if (ABS(front) > SYMBOLIC_DIMENSION_MAX || ABS(behind) > SYMBOLIC_DIMENSION_MAX)
      return infer_refuse(at, ERROR_INPUT, &lists.pads.mark, "shape", NULL,
                          "pads of dimension %u are no extents", axis);
    shape->dims[axis] = symbolic_add(arena, shape->dims[axis], symbolic_constant(arena, front + behind));
    node->firsts[axis] = symbolic_constant(arena, -front);
    symbolic_range(shape->dims[axis], &at->graph->facts, &least, &most);
    if (least < 0)
      return infer_refuse(at, ERROR_INPUT, &lists.pads.mark, "shape", "declare `min` under `dims`",
                          "dimension %u of `%s` is not known to have as many elements as negative pads take",
                          axis, node->inputs[0]->name);
  }
  return true;
}

/* ---- Tile ---- */

bool infer_tile(Inference *at, Shape *shape)
{
  const GraphTensor *input = at->node->inputs[0];
  Arena *arena = at->graph->arena;
  List repeats;
  if (!infer_list(at, &(ListArgument){"repeats", 1, "repeats", true}, &repeats)) return false;
  *shape = infer_shape_of(input);
  if (repeats.n != input->rank)
    return infer_refuse(at, ERROR_INPUT, &repeats.mark, "arity", NULL, "%u repeats of %u dimensions",
                        repeats.n, input->rank);
  for (unsigned d = 0; d < input->rank; d++) {
    int64_t least, most;
    symbolic_range(repeats.values[d], &at->graph->facts, &least, &most);
    if (least < 0 || (least == most && most > SYMBOLIC_DIMENSION_MAX))
      return infer_refuse(at, ERROR_INPUT, &repeats.mark, "shape", NULL,
                          "%" G_GINT64_FORMAT " repeats of dimension %u", repeats.items[d], d);
    shape->dims[d] = symbolic_mul(arena, shape->dims[d], repeats.values[d]);
  }
  return true;
}

/* ---- Trilu ---- */

bool infer_trilu(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0], *k = node->n_inputs > 1 ? node->inputs[1] : NULL;
  double value;
  if (input->rank < 2)
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[0], "rank", NULL,
                        "Trilu takes matrices: `%s` has rank %u", input->name, input->rank);
  if (k && !graph_scalar(k, &value))
    return infer_refuse(
        at, ERROR_UNSUPPORTED, &node->input_marks[1], "diagonal", "put it under `constants`, with `data`",
        "a diagonal that is not a constant of the description is not supported: `%s`", k->name);
  *shape = infer_shape_of(input);
  return true;
}

/* ---- Mask ---- */

bool infer_mask(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0];
  if (input->rank < 2)
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[0], "rank", NULL,
                        "Mask takes matrices: `%s` has rank %u", input->name, input->rank);
  *shape = infer_shape_of(input);
  for (unsigned i = 1; i < node->n_inputs; i++) {
    const GraphTensor *bound = node->inputs[i];
    if (!bound) continue;
    const Mark *mark = &node->input_marks[i];
    if (bound->type != NUMBER_S32 && bound->type != NUMBER_S64)
      return infer_refuse(at, ERROR_INPUT, mark, "type", "it takes s32, s64",
                          "a bound of Mask is an integer: `%s` is %s", bound->name, number_name(bound->type));
    bool each = input->rank > 2 && bound->rank == 1 && symbolic_same(bound->shape[0], input->shape[0]);
    if (each || (bound->rank <= 1 && graph_has_one_element(bound))) continue;
    g_autofree char *have = graph_shape_text(bound->shape, bound->rank);
    return infer_refuse(at, ERROR_INPUT, mark, "shape",
                        "one number, or one for each index of x's first dimension",
                        "the bound `%s` has shape %s", bound->name, have);
  }
  return true;
}

/* ---- CumSum ---- */

bool infer_scan(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0], *along = node->inputs[1];
  double value = 0;
  unsigned axis = 0;
  if (!graph_scalar(along, &value)) {
    bool one = graph_has_one_element(along);
    return infer_refuse(at, one ? ERROR_UNSUPPORTED : ERROR_INPUT, &node->input_marks[1], "axis",
                        one ? "put it under `constants`, with `data`" : NULL,
                        one ? "an axis that is not a constant of the description is not supported: `%s`"
                            : "the axis of a sum is one number: `%s` is not",
                        along->name);
  }
  if (!infer_axis(at, (int64_t)value, input->rank, &node->input_marks[1], &axis)) return false;
  node->axes = 1u << axis;
  *shape = infer_shape_of(input);
  return true;
}

/* ---- Resample ---- */

bool infer_is_weighted(const GraphNode *node)
{
  for (unsigned i = 2; i < node->n_inputs; i += 2)
    if (node->inputs[i]) return true;
  return false;
}

/* Lists of places along the i-th of the axes, and of as many weights; *n: how many lists. */
static bool check_places(Inference *at, unsigned i, const Symbolic **n)
{
  const GraphNode *node = at->node;
  unsigned first = 1 + 2 * i;
  const GraphTensor *places = first < node->n_inputs ? node->inputs[first] : NULL;
  const GraphTensor *weights = first + 1 < node->n_inputs ? node->inputs[first + 1] : NULL;
  int64_t each;
  bool fits = places && places->rank == 2 && symbolic_is_constant(places->shape[0], &each) && each > 0 &&
              (weights ? graph_same_shape(places, weights) : each == 1);
  if (!fits)
    return infer_refuse(at, ERROR_INPUT, &node->mark, "shape", "[n, size], n a number; without weights 1",
                        "places and weights of axis %u of Resample do not fit", i);
  *n = places->shape[1];
  return true;
}

bool infer_resample(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphAttribute *axes = graph_attribute(node, "axes");
  *shape = infer_shape_of(node->inputs[0]);
  if (axes->n != node->n_inputs / 2)
    return infer_refuse(at, ERROR_INPUT, &axes->mark, "arity", "places and weights for each",
                        "%u axes of Resample with %u inputs", axes->n, node->n_inputs);
  for (unsigned i = 0; i < axes->n; i++) {
    unsigned axis = 0;
    if (!infer_axis(at, axes->integers[i], shape->rank, &axes->mark, &axis)) return false;
    if (node->axes >> axis & 1)
      return infer_refuse(at, ERROR_INPUT, &axes->mark, "axis", NULL, "axis %u is named twice", axis);
    node->axes |= 1u << axis;
    node->order[i] = axis;
    if (!check_places(at, i, &shape->dims[axis])) return false;
  }
  return true;
}

/* ---- TopRows ---- */

bool infer_top(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *input = node->inputs[0];
  int64_t k = graph_attribute(node, "k")->integer, columns;
  if (!input->rank)
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[0], "rank", NULL,
                        "%s takes rows: `%s` has rank 0", graph_written_operator(node)->name, input->name);
  const Symbolic *extent = input->shape[input->rank - 1];
  if (k < 0 || (symbolic_is_constant(extent, &columns) && k > columns)) {
    g_autofree char *have = symbolic_text(extent);
    return infer_refuse(at, ERROR_INPUT, &node->mark, "k", NULL,
                        "%s of %" G_GINT64_FORMAT " elements: `%s` has %s along the axis",
                        graph_written_operator(node)->name, k, input->name, have);
  }
  *shape = infer_shape_of(input);
  shape->dims[shape->rank - 1] = symbolic_constant(at->graph->arena, k);
  node->axes = 1u << (shape->rank - 1);
  return true;
}

/* ---- Shape ---- */

/* Indices as a slice takes them: negative ones from the end, those outside brought inside. */
bool infer_shape_list(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphAttribute *start = graph_attribute_find(node, "start"), *end = graph_attribute_find(node, "end");
  int64_t rank = node->inputs[0]->rank, first = start ? start->integer : 0, last = end ? end->integer : rank;
  first = CLAMP(first < 0 ? first + rank : first, 0, rank);
  last = CLAMP(last < 0 ? last + rank : last, first, rank);
  node->firsts = arena_new_array(at->graph->arena, const Symbolic *, 1);
  node->firsts[0] = symbolic_constant(at->graph->arena, first);
  *shape = (Shape){1, {symbolic_constant(at->graph->arena, last - first)}};
  return true;
}
