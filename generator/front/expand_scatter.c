/* ScatterND of parts that have several elements, and scatters of many updates: which updates name a part is found once, and not for
 * each of its elements.
 *
 *   place  = of each update the part that it names; behind the last one where some index lies outside, which updates nothing
 *   latest = of each part the number of the last update of it, -1: none
 *   result = latest < 0 ? data : updates[latest]
 *
 * Each part looks through few updates by itself. Many are put in the order of their places, those of a part in their own: by a
 * counting sort or, of more parts than that counts, by one for each digit; the last of a part is then found by halves. Where updates
 * are added, or combined otherwise, the order and the end of each part in it are all that ReduceSegments needs. */
#include "generator/front/expand_search.h"
#include <string.h>

#define FEW_UPDATES 16 /* which each element looks through sooner than a kernel of their own is launched */
#define MANY_UPDATES                                                                                         \
  1024 /* which take longer to be looked through by each part than to be sorted: 4 ns one after the other */
#define DIGIT 1024 /* parts that one counting sort puts in order */
#define LOOKED_MOST                                                                                          \
  (INT64_C(1) << 26) /* elements times the updates each looks through: 20 us, in which they are sorted */

static bool replaces(const GraphNode *node)
{
  const GraphAttribute *reduction = graph_attribute_find(node, "reduction");
  return !reduction || !strcmp(reduction->text, "none");
}

/* The most elements that there may be; INT64_MAX: more. */
static int64_t count_most(const SymbolicFacts *facts, const Symbolic *const *extents, unsigned n)
{
  int64_t all = 1, least, most;
  for (unsigned i = 0; i < n; i++) {
    symbolic_range(extents[i], facts, &least, &most);
    if (!most) return 0;
    all = all <= INT64_MAX / most ? all * most : INT64_MAX;
  }
  return all;
}

static int64_t count_tensor(const SymbolicFacts *facts, const GraphTensor *tensor)
{
  return count_most(facts, (const Symbolic *const *)tensor->shape, tensor->rank);
}

/* Do elements that look through so many updates each, of which there are `updates` of `parts`, take longer than sorting these? */
static bool sorts_sooner(const SymbolicFacts *facts, const GraphTensor *data, int64_t looked, int64_t updates,
                         int64_t parts)
{
  int64_t elements = MAX(count_tensor(facts, data), 1);
  return looked > FEW_UPDATES && looked > LOOKED_MOST / elements && updates <= INT32_MAX && parts < INT32_MAX;
}

bool expand_scatters_parts(const GraphNode *node, const SymbolicFacts *facts)
{
  const GraphTensor *data = node->inputs[0], *indices = node->inputs[1];
  int64_t told = 0;
  if (node->op->id != ONNX_ScatterND || indices->rank < 1) return false;
  symbolic_is_constant(indices->shape[indices->rank - 1], &told);
  int64_t updates = count_most(facts, (const Symbolic *const *)indices->shape, indices->rank - 1);
  if (replaces(node)) return updates > (told < data->rank ? FEW_UPDATES : MANY_UPDATES);
  int64_t parts = count_most(facts, (const Symbolic *const *)data->shape, (unsigned)told);
  return sorts_sooner(facts, data, updates, updates, parts);
}

/* Of indices that are repeated along all dimensions but the first, of whole parts of the data, those that are repeated; NULL: they
 * are not. Frameworks write sums of rows so. */
static GraphTensor *repeated_indices(const GraphNode *node)
{
  const GraphTensor *data = node->inputs[0], *indices = node->inputs[1];
  const GraphNode *expand = indices->producer;
  if (node->axes != 1 || data->rank < 2 || !expand || expand->op->id != ONNX_Expand) return NULL;
  GraphTensor *from = expand->inputs[0];
  if (from->rank != indices->rank || !symbolic_same(from->shape[0], indices->shape[0])) return NULL;
  for (unsigned d = 1; d < data->rank; d++)
    if (!symbolic_equals(from->shape[d], 1) || !symbolic_same(indices->shape[d], data->shape[d])) return NULL;
  return from;
}

/* Parts are elements here. */
bool expand_scatters_elements(const GraphNode *node, const SymbolicFacts *facts)
{
  const GraphTensor *data = node->inputs[0], *indices = node->inputs[1];
  bool elements = node->op->id == ONNX_ScatterElements || node->op->id == ONNX_Scatter;
  if (!elements || !indices->rank) return false;
  if (repeated_indices(node)) return true;
  int64_t updates = count_tensor(facts, indices), parts = count_tensor(facts, data),
          looked = count_most(facts, (const Symbolic *const *)&indices->shape[__builtin_ctz(node->axes)], 1);
  if (!replaces(node)) return sorts_sooner(facts, data, looked, updates, parts);
  return looked > MANY_UPDATES && updates <= INT32_MAX && parts < INT32_MAX;
}

static const Symbolic *product(Arena *arena, const Symbolic *const *extents, unsigned n)
{
  const Symbolic *all = symbolic_constant(arena, 1);
  for (unsigned i = 0; i < n; i++)
    all = symbolic_mul(arena, all, extents[i]);
  return all;
}

static GraphTensor *known(Expansion *at, const char *part, const Symbolic *value)
{
  return expand_known(at, part, &value, 1, 0);
}

/* Indices along dimension d of the data, s64, from the front; *inside: is it one of the dimension's? */
static GraphTensor *from_front(Expansion *at, GraphTensor *index, unsigned d, GraphTensor **inside)
{
  GraphTensor *zero = expand_number(at, "zero", NUMBER_S64, 0),
              *extent = known(at, "extent", expand_input(at, 0)->shape[d]);
  GraphTensor *turned = expand(at, ONNX_Add, "turned", index, extent);
  index = expand_where(at, "index", expand(at, ONNX_Less, "behind", index, zero), turned, index);
  *inside = expand(at, ONNX_And, "inside", expand(at, ONNX_GreaterOrEqual, "from", index, zero),
                   expand(at, ONNX_Less, "below", index, extent));
  return index;
}

/* Index d of each update, [updates]. */
static GraphTensor *index_of(Expansion *at, unsigned d, const Symbolic *updates, GraphTensor **inside)
{
  GraphTensor *indices = expand_input(at, 1);
  GraphTensor *index = expand_slice(at, "column", indices, (int64_t)indices->rank - 1, d, d + 1);
  index = expand_cast(at, "wide", expand_reshape(at, "column", index, &updates, 1), NUMBER_S64);
  return from_front(at, index, d, inside);
}

/* The part that each update names, s64; `parts`: none. */
static GraphTensor *place_of(Expansion *at, unsigned told, const Symbolic *updates, const Symbolic *parts)
{
  GraphTensor *data = expand_input(at, 0), *place = NULL, *inside = NULL;
  for (unsigned d = 0; d < told; d++) {
    GraphTensor *fits, *index = index_of(at, d, updates, &fits);
    place = !d ? index
               : expand(at, ONNX_Add, "place",
                        expand(at, ONNX_Mul, "row", place, known(at, "extent", data->shape[d])), index);
    inside = !d ? fits : expand(at, ONNX_And, "inside", inside, fits);
  }
  return expand_where(at, "place", inside, place, known(at, "outside", parts));
}

/* ---- the last update of each part ---- */

/* By looking through all of them. */
static GraphTensor *latest_of_few(Expansion *at, GraphTensor *place, const Symbolic *n, const Symbolic *parts)
{
  GraphTensor *none = expand_number(at, "none", NUMBER_S32, -1);
  GraphTensor *blank = expand(at, ONNX_Expand, "blank", none, expand_known(at, "parts", &parts, 1, 1));
  return expand_node(at, &(ExpandNode){ONNX_ScatterElements,
                                       "latest",
                                       3,
                                       {blank, place, expand_index(at, "number", &n, 1, 0)},
                                       .attributes = {{"axis", 0}}});
}

/* The numbers of updates by rising key; *ends: where those of each key do. */
static GraphTensor *sort(Expansion *at, GraphTensor *key, const Symbolic *n, int64_t keys, GraphTensor **ends)
{
  GraphTensor *further[2] = {NULL};
  const Symbolic *shape[] = {n, symbolic_constant(expand_arena(at), 1)};
  expand_place_keys(at, expand_reshape(at, "keys", key, shape, 2), n, keys, 1, further, 2);
  *ends = further[0];
  return further[1];
}

/* Of few parts where the updates of each end is counted. */
static GraphTensor *latest_of_counted(Expansion *at, GraphTensor *place, const Symbolic *n, int64_t parts)
{
  const Symbolic *extent = symbolic_constant(expand_arena(at), parts);
  GraphTensor *ends, *order = sort(at, place, n, parts, &ends),
                     *part = expand_index(at, "part", &extent, 1, 0);
  GraphTensor *front = expand_with_s32(at, ONNX_Sub, "front", part, 1),
              *zero = expand_number_s32(at, "zero", 0);
  GraphTensor *begin = expand_of_each(at, "begin", ends, expand_with_s32(at, ONNX_Max, "front", front, 0));
  begin = expand_where(at, "begin", expand(at, ONNX_Less, "first", front, zero), zero, begin);
  GraphTensor *last =
      expand_with_s32(at, ONNX_Max, "last", expand_with_s32(at, ONNX_Sub, "last", ends, 1), 0);
  return expand_where(at, "latest", expand(at, ONNX_Less, "some", begin, ends),
                      expand_of_each(at, "latest", order, last), expand_number_s32(at, "none", -1));
}

/* The numbers of updates by rising place, of which `most` is the largest: that of none. */
static GraphTensor *sort_digits(Expansion *at, GraphTensor *place, const Symbolic *n, int64_t most)
{
  GraphTensor *order = NULL, *unused;
  for (int64_t unit = 1; !order || unit <= most; unit *= DIGIT) {
    GraphTensor *digit = order ? expand_of_each(at, "place", place, order) : place;
    if (unit > 1) digit = expand_with_s32(at, ONNX_Div, "digit", digit, unit);
    digit = expand_with_s32(at, ONNX_BitwiseAnd, "digit", digit, DIGIT - 1);
    GraphTensor *next = sort(at, digit, n, DIGIT, &unused);
    order = order ? expand_of_each(at, "order", order, next) : next;
  }
  return order;
}

/* Of each part the number of its last update among all in order; in front of all, or that of a part before: it has none. */
static GraphTensor *last_of_each(Expansion *at, GraphTensor *sorted_places, const Symbolic *n,
                                 GraphTensor *part)
{
  const Symbolic *last = symbolic_sub(expand_arena(at), n, symbolic_constant(expand_arena(at), 1));
  const Rising sorted = {.list = sorted_places,
                         .first = expand_with_s32(at, ONNX_Min, "first", part, -1),
                         .last = expand_known_s32(at, "last", last),
                         .n = n,
                         .step = 1};
  return expand_last_up_to(at, "search", &sorted, part);
}

static GraphTensor *latest_of_many(Expansion *at, GraphTensor *place, const Symbolic *n,
                                   const Symbolic *parts, int64_t most)
{
  GraphTensor *order = sort_digits(at, place, n, most), *part = expand_index(at, "part", &parts, 1, 0);
  GraphTensor *sorted = expand_of_each(at, "sorted", place, order),
              *found = last_of_each(at, sorted, n, part),
              *own = expand_with_s32(at, ONNX_Max, "own", found, 0);
  GraphTensor *is = expand(at, ONNX_And, "is", expand_with_s32(at, ONNX_GreaterOrEqual, "some", found, 0),
                           expand(at, ONNX_Equal, "same", expand_of_each(at, "own", sorted, own), part));
  return expand_where(at, "latest", is, expand_of_each(at, "latest", order, own),
                      expand_number_s32(at, "none", -1));
}

/* So few parts that the updates of each are counted. */
static bool are_counted(const Symbolic *parts, int64_t *known)
{
  return symbolic_is_constant(parts, known) && *known && *known <= DIGIT;
}

static GraphTensor *latest_of(Expansion *at, GraphTensor *place, const Symbolic *n, const Symbolic *parts)
{
  int64_t least, most, known = 0;
  symbolic_range(parts, expand_facts(at), &least, &most);
  bool sorts = count_most(expand_facts(at), &n, 1) > MANY_UPDATES && most < INT32_MAX &&
               expand_is_at_most(at, n, INT32_MAX);
  if (!sorts) return latest_of_few(at, place, n, parts);
  place = expand_cast(at, "narrow", place, NUMBER_S32);
  return are_counted(parts, &known) ? latest_of_counted(at, place, n, known)
                                    : latest_of_many(at, place, n, parts, most);
}

/* ---- updates that are combined ---- */

/* data [parts, ...] and list [n, ...] */
static GraphTensor *reduce_updates(Expansion *at, GraphTensor *data, GraphTensor *list, GraphTensor *place)
{
  const Symbolic *n = list->shape[0], *parts = data->shape[0];
  const char *how = graph_attribute(expand_written(at), "reduction")->text;
  int64_t least, most, known;
  GraphTensor *order, *ends;
  symbolic_range(parts, expand_facts(at), &least, &most);
  place = expand_cast(at, "narrow", place, NUMBER_S32);
  if (are_counted(parts, &known)) {
    order = sort(at, place, n, known, &ends);
  } else {
    order = sort_digits(at, place, n, most);
    GraphTensor *last = last_of_each(at, expand_of_each(at, "sorted", place, order), n,
                                     expand_index(at, "part", &parts, 1, 0));
    ends = expand_with_s32(at, ONNX_Add, "ends", last, 1);
  }
  return expand_node(at, &(ExpandNode){ONNX_ReduceSegments,
                                       "reduced",
                                       4,
                                       {data, order, list, ends},
                                       .attributes = {{"reduction", .text = how}}});
}

/* ---- the operators ---- */

void expand_scatter_parts(Expansion *at)
{
  GraphTensor *data = expand_input(at, 0), *indices = expand_input(at, 1), *updates = expand_input(at, 2);
  Arena *arena = expand_arena(at);
  unsigned lists = indices->rank - 1, told = data->rank - (updates->rank - lists), inner = data->rank - told;
  const Symbolic *n = product(arena, indices->shape, lists), *parts = product(arena, data->shape, told);
  GraphTensor *place = place_of(at, told, n, parts);
  const Symbolic *shape[GRAPH_MAX_RANK + 1] = {n};
  for (unsigned d = 0; d < inner; d++)
    shape[d + 1] = data->shape[told + d];
  GraphTensor *list = expand_reshape(at, "list", updates, shape, inner + 1);
  if (!replaces(expand_written(at))) {
    shape[0] = parts;
    GraphTensor *reduced =
        reduce_updates(at, expand_reshape(at, "parts", data, shape, inner + 1), list, place);
    expand_give(at, 0,
                expand_reshape(at, "updated", reduced, (const Symbolic *const *)data->shape, data->rank));
    return;
  }
  GraphTensor *latest = latest_of(at, place, n, parts);
  GraphTensor *given = expand_reshape(at, "given", latest, (const Symbolic *const *)data->shape, told);
  GraphTensor *taken =
      expand_node(at, &(ExpandNode){ONNX_Gather, "taken", 2, {list, given}, .attributes = {{"axis", 0}}});
  int64_t axes[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < inner; d++)
    axes[d] = told + d;
  GraphTensor *found =
      expand(at, ONNX_GreaterOrEqual, "found", given, expand_number(at, "first", NUMBER_S32, 0));
  if (inner) found = expand(at, ONNX_Unsqueeze, "found", found, expand_integers(at, "axes", axes, inner));
  expand_give(at, 0, expand_where(at, "updated", found, taken, data));
}

/* The element that each update names, s64 [n]; `parts`: none. */
static GraphTensor *element_of(Expansion *at, const Symbolic *n, const Symbolic *parts)
{
  GraphTensor *data = expand_input(at, 0), *indices = expand_input(at, 1), *place = NULL, *inside = NULL;
  unsigned axis = (unsigned)__builtin_ctz(expand_written(at)->axes);
  for (unsigned d = 0; d < data->rank; d++) {
    GraphTensor *index =
        d == axis ? from_front(at, expand_cast(at, "wide", indices, NUMBER_S64), d, &inside)
                  : expand_index(at, "point", (const Symbolic *const *)indices->shape, indices->rank, d);
    index = expand_cast(at, "wide", index, NUMBER_S64);
    place = !d ? index
               : expand(at, ONNX_Add, "place",
                        expand(at, ONNX_Mul, "row", place, known(at, "extent", data->shape[d])), index);
  }
  place = expand_where(at, "place", inside, place, known(at, "outside", parts));
  return expand_reshape(at, "places", place, &n, 1);
}

static void scatter_rows(Expansion *at, GraphTensor *index)
{
  const GraphAttribute *how = graph_attribute_find(expand_written(at), "reduction");
  const Symbolic *shape[] = {index->shape[0], symbolic_constant(expand_arena(at), 1)};
  GraphTensor *lists = expand_cast(at, "wide", expand_reshape(at, "lists", index, shape, 2), NUMBER_S64);
  expand_give(
      at, 0,
      expand_node(at, &(ExpandNode){ONNX_ScatterND,
                                    "rows",
                                    3,
                                    {expand_input(at, 0), lists, expand_input(at, 2)},
                                    .attributes = {{"reduction", .text = how ? how->text : "none"}}}));
}

void expand_scatter_elements(Expansion *at)
{
  GraphTensor *repeated = repeated_indices(expand_written(at));
  if (repeated) {
    scatter_rows(at, repeated);
    return;
  }
  GraphTensor *data = expand_input(at, 0), *indices = expand_input(at, 1), *updates = expand_input(at, 2);
  Arena *arena = expand_arena(at);
  const Symbolic *n = product(arena, indices->shape, indices->rank),
                 *parts = product(arena, data->shape, data->rank);
  GraphTensor *place = element_of(at, n, parts), *list = expand_reshape(at, "list", updates, &n, 1);
  if (!replaces(expand_written(at))) {
    GraphTensor *reduced = reduce_updates(at, expand_reshape(at, "parts", data, &parts, 1), list, place);
    expand_give(at, 0,
                expand_reshape(at, "updated", reduced, (const Symbolic *const *)data->shape, data->rank));
    return;
  }
  GraphTensor *latest = latest_of(at, place, n, parts);
  GraphTensor *given = expand_reshape(at, "given", latest, (const Symbolic *const *)data->shape, data->rank);
  GraphTensor *taken = expand_of_each(at, "taken", list, given);
  expand_give(
      at, 0,
      expand_where(at, "updated", expand_with_s32(at, ONNX_GreaterOrEqual, "found", given, 0), taken, data));
}

/* ---- TensorScatter in place: new rows alone are stored ---- */

bool expand_inserts_in_place(const GraphNode *node)
{
  return node->op->id == ONNX_TensorScatter && node->outputs[0]->memory;
}

void expand_insert_in_place(Expansion *at)
{
  const GraphNode *node = expand_written(at);
  expand_give(
      at, 0,
      expand_node(at, &(ExpandNode){ONNX_AppendRows,
                                    "cache",
                                    3,
                                    {expand_input(at, 2), expand_input(at, 0), expand_input(at, 1)},
                                    .attributes = {{"places", .text = "begins"},
                                                   {"axis", graph_attribute(node, "axis")->integer},
                                                   {"mode", .text = graph_attribute(node, "mode")->text}}}));
}
