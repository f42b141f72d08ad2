/* Mixtures of experts around their products (GroupedMatMul): Route (expand_route.c) chooses each token's experts, Permute puts the
 * tokens of an expert beside one another, Combine adds up what the experts made of a token. No size of a group is read back: all stay on
 * the device.
 *
 *   Permute: a stable counting sort. Before a choice stand those of experts with smaller numbers, and earlier ones of its own.
 *   Combine: a token's rows times their weights, added in the order of its choices, in f32. */
#include "generator/front/expand_rows.h"
#include "generator/front/expand_search.h"
#include <math.h>
#include <string.h>

static GraphTensor *along(Expansion *x, OperatorId op, const char *part, GraphTensor *a, int64_t axis)
{
  return expand(x, op, part, a, expand_integers(x, "axes", &axis, 1));
}

/* Indices 0, 1, .. of so many elements, s32. */
static GraphTensor *places(Expansion *x, const char *part, const Symbolic *extent)
{
  return expand_index(x, part, &extent, 1, 0);
}

static GraphTensor *cumulative(Expansion *x, const char *part, GraphTensor *a)
{
  return expand(x, ONNX_CumSum, part, a, expand_number(x, "first", NUMBER_S32, 0));
}

/* ---- Permute ---- */

#define COUNTED_MOST 1024 /* experts whose choices a kernel counts as it goes */

static void place_by_counts(Expansion *x, GraphTensor *chosen, const Symbolic *choices)
{
  const GraphNode *node = expand_written(x);
  GraphTensor *ends[2] = {NULL};
  GraphTensor *place =
      expand_place_keys(x, chosen, choices, graph_attribute(node, "experts")->integer,
                        graph_attribute(node, "align")->integer, ends, expand_wants(x, 1) ? 2 : 1);
  expand_give(x, 0, ends[0]);
  if (ends[1]) expand_give(x, 1, ends[1]);
  expand_give(x, 2, place);
}

#define PART_MOST 512 /* choices that are put in order by one block */

/* Choices are sorted in parts of a power of two, by keys: expert times the part's length, plus the place in the part; nobody's
 * stand behind all experts. Where a part's choices of an expert begin, and how many of that expert are in the parts before, then
 * tell where each choice goes, and which choice comes to a place: by halves, as keys rise. */
typedef struct Sorted {
  const Symbolic *choices; /* tokens times choices of each */
  const Symbolic *parts;   /* one at least */
  int64_t part, experts, align;
  NumberType index;          /* of what has a value for each part and expert */
  GraphTensor *list;         /* expert of each choice, s32 */
  GraphTensor *keys;         /* [parts * part], each part in order */
  GraphTensor *low;          /* keys of a part below those of an expert, [parts * (experts + 1)] */
  GraphTensor *before;       /* choices of an expert in parts before, [parts * experts] */
  GraphTensor *begin, *ends; /* of each expert's rows */
} Sorted;

/* a / b and what is left. */
static GraphTensor *divide(Expansion *x, const char *part, GraphTensor *a, int64_t b, GraphTensor **rest)
{
  GraphTensor *quotient = expand(x, ONNX_Div, part, a, expand_number_s32(x, part, b));
  *rest = expand(x, ONNX_Sub, part, a, expand(x, ONNX_Mul, part, quotient, expand_number_s32(x, part, b)));
  return quotient;
}

/* The key of choices with such indices, of which some may lie behind the last. */
static GraphTensor *keys_of(Expansion *x, const Sorted *s, GraphTensor *index)
{
  GraphTensor *place, *expert = expand_of_each(x, "expert", s->list, index);
  GraphTensor *valid = expand(
      x, ONNX_And, "valid", expand(x, ONNX_GreaterOrEqual, "from", expert, expand_number_s32(x, "zero", 0)),
      expand(x, ONNX_Less, "below", expert, expand_number_s32(x, "limit", s->experts)));
  valid = expand(x, ONNX_And, "valid", valid,
                 expand(x, ONNX_Less, "real", index, expand_known_s32(x, "choices", s->choices)));
  expert = expand_where(x, "expert", valid, expert, expand_number_s32(x, "nobody", s->experts));
  divide(x, "part", index, s->part, &place);
  return expand(x, ONNX_Add, "key",
                expand(x, ONNX_Mul, "key", expert, expand_number_s32(x, "length", s->part)), place);
}

/* Of each part how many keys lie below those of each expert, and below those of nobody. */
static GraphTensor *count_below(Expansion *x, const Sorted *s)
{
  const Symbolic *all =
      symbolic_mul(expand_arena(x), s->parts, symbolic_constant(expand_arena(x), s->experts + 1));
  GraphTensor *expert, *part = divide(x, "part", places(x, "cell", all), s->experts + 1, &expert);
  GraphTensor *start = expand(x, ONNX_Mul, "start", part, expand_number_s32(x, "length", s->part));
  GraphTensor *front = expand(x, ONNX_Sub, "front", start, expand_number_s32(x, "one", 1));
  const Rising keys = {.list = s->keys,
                       .first = front,
                       .last = expand(x, ONNX_Add, "last", front, expand_number_s32(x, "length", s->part)),
                       .n = symbolic_constant(expand_arena(x), s->part),
                       .step = 1};
  GraphTensor *target = expand(x, ONNX_Sub, "under",
                               expand(x, ONNX_Mul, "key", expert, expand_number_s32(x, "length", s->part)),
                               expand_number_s32(x, "one", 1));
  return expand(x, ONNX_Sub, "low", expand_last_up_to(x, "search", &keys, target), front);
}

/* Groups begin at multiples of `align`. */
static void find_ends(Expansion *x, Sorted *s, GraphTensor *count)
{
  GraphTensor *wide = count;
  if (s->align > 1) {
    GraphTensor *step = expand_number_s32(x, "align", s->align);
    wide = expand(x, ONNX_Add, "more", count, expand_number_s32(x, "less", s->align - 1));
    wide = expand(x, ONNX_Mul, "room", expand(x, ONNX_Div, "parts", wide, step), step);
  }
  s->begin = expand(x, ONNX_Sub, "begin", cumulative(x, "rooms", wide), wide);
  s->ends = expand(x, ONNX_Add, "ends", s->begin, count);
}

/* What the parts before have of each expert, and all of them together. */
static void find_groups(Expansion *x, Sorted *s)
{
  Arena *arena = expand_arena(x);
  const Symbolic *shape[] = {s->parts, symbolic_constant(arena, s->experts + 1)},
                 *width = symbolic_constant(arena, s->experts), *all = symbolic_mul(arena, s->parts, width);
  GraphTensor *low = expand_reshape(x, "low", s->low, shape, 2);
  GraphTensor *counts = expand(x, ONNX_Sub, "counts", expand_slice(x, "ends", low, 1, 1, s->experts + 1),
                               expand_slice(x, "begins", low, 1, 0, s->experts));
  if (symbolic_equals(s->parts, 1)) {
    find_ends(x, s, expand_reshape(x, "count", counts, &width, 1));
    return;
  }
  GraphTensor *up_to = cumulative(x, "up_to", counts);
  s->before = expand_reshape(x, "before", expand(x, ONNX_Sub, "before", up_to, counts), &all, 1);
  GraphTensor *last = expand_slice(x, "last", up_to, 0, -1, INT32_MAX);
  find_ends(x, s, expand_reshape(x, "count", last, &width, 1));
}

static void sort_choices(Expansion *x, Sorted *s)
{
  Arena *arena = expand_arena(x);
  int64_t least, most;
  symbolic_range(s->choices, expand_facts(x), &least, &most);
  for (s->part = 1; s->part < MIN(most, PART_MOST);)
    s->part *= 2;
  const Symbolic *length = symbolic_constant(arena, s->part);
  s->parts = infer_larger(expand_graph(x), symbolic_ceil_div(arena, s->choices, length),
                          symbolic_constant(arena, 1));
  const Symbolic *all = symbolic_mul(arena, s->parts, length),
                 *cells = symbolic_mul(arena, s->parts, symbolic_constant(arena, s->experts + 1));
  s->index = expand_is_at_most(x, cells, INT32_MAX / 2) ? NUMBER_S32
                                                        : NUMBER_S64; /* sums reach twice as far as indices */
  GraphTensor *keys = expand_reshape(x, "keys", keys_of(x, s, places(x, "slot", all)),
                                     (const Symbolic *const[]){s->parts, length}, 2);
  GraphTensor *unused = NULL;
  keys = expand_node(x, &(ExpandNode){ONNX_TopRows,
                                      "sorted",
                                      1,
                                      {keys},
                                      .attributes = {{"k", s->part}, {"largest", 0}, {"wide", 0}},
                                      .further = &unused,
                                      .n_further = 1});
  s->keys = expand_reshape(x, "sorted", keys, &all, 1);
  s->low = count_below(x, s);
  find_groups(x, s);
}

/* Of a part and an expert: where its value is in a matrix of so many columns. */
static GraphTensor *cell(Expansion *x, const Sorted *s, GraphTensor *part, GraphTensor *expert,
                         int64_t columns)
{
  GraphTensor *line = expand(x, ONNX_Mul, "line", expand_cast(x, "line", part, s->index),
                             expand_number(x, "width", s->index, (double)columns));
  return expand(x, ONNX_Add, "cell", line, expand_cast(x, "own", expert, s->index));
}

/* Keys of the part below those of the expert, less the choices of the expert in parts before. */
static GraphTensor *shift_of(Expansion *x, const Sorted *s, GraphTensor *part, GraphTensor *expert)
{
  if (!s->before) return expand_of_each(x, "low", s->low, expert);
  GraphTensor *low = expand_of_each(x, "low", s->low, cell(x, s, part, expert, s->experts + 1));
  return expand(x, ONNX_Sub, "shift", low,
                expand_of_each(x, "before", s->before, cell(x, s, part, expert, s->experts)));
}

/* The row of each choice, -1: nobody's. */
static GraphTensor *rows_of(Expansion *x, const Sorted *s)
{
  GraphTensor *index = places(x, "choice", s->choices), *key = keys_of(x, s, index), *unused;
  GraphTensor *expert = divide(x, "owner", key, s->part, &unused),
              *part = divide(x, "part", index, s->part, &unused);
  GraphTensor *start = expand(x, ONNX_Mul, "start", part, expand_number_s32(x, "length", s->part));
  const Rising keys = {.list = s->keys,
                       .first = start,
                       .last =
                           expand(x, ONNX_Add, "last", start, expand_number_s32(x, "length", s->part - 1)),
                       .n = symbolic_constant(expand_arena(x), s->part - 1),
                       .step = 1};
  GraphTensor *place = expand(x, ONNX_Sub, "place", expand_last_up_to(x, "search", &keys, key), start);
  place = expand(x, ONNX_Sub, "place", place, shift_of(x, s, part, expert));
  place = expand(x, ONNX_Add, "place", place, expand_of_each(x, "begin", s->begin, expert));
  GraphTensor *valid = expand(x, ONNX_Less, "somebody", expert, expand_number_s32(x, "limit", s->experts));
  return expand_where(x, "place", valid, place, expand_number_s32(x, "nowhere", -1));
}

/* The part in which an expert's choice lies that has so many of the expert before it. */
static GraphTensor *part_of(Expansion *x, const Sorted *s, GraphTensor *expert, GraphTensor *rank)
{
  Arena *arena = expand_arena(x);
  const Symbolic *others = symbolic_sub(arena, s->parts, symbolic_constant(arena, 1));
  Rising parts = {.list = s->before, .n = others, .step = s->experts};
  if (s->index == NUMBER_S64) {
    parts.column = expand_cast(x, "column", expert, NUMBER_S64);
    parts.first = expand(x, ONNX_Min, "first", expert, expand_number_s32(x, "first", 0));
    parts.last = expand_known_s32(x, "last", others);
    return expand_last_up_to(x, "search", &parts, rank);
  }
  const Symbolic *far = symbolic_mul(arena, others, symbolic_constant(arena, s->experts));
  parts.first = expert;
  parts.last = expand(x, ONNX_Add, "last", expert, expand_known_s32(x, "far", far));
  return expand(x, ONNX_Div, "part", expand_last_up_to(x, "search", &parts, rank),
                expand_number_s32(x, "width", s->experts));
}

/* The token of each row, -1: nobody's. The row's expert is the last that begins in front of it. */
static GraphTensor *sources(Expansion *x, const Sorted *s, const Symbolic *rows, const Symbolic *each)
{
  GraphTensor *row = places(x, "row", rows), *place;
  const Rising begins = {.list = s->begin,
                         /* of each row, so that one kernel has all of it */
                         .first = expand(x, ONNX_Min, "first", row, expand_number_s32(x, "first", 0)),
                         .last = expand_number_s32(x, "last", s->experts - 1),
                         .n = symbolic_constant(expand_arena(x), s->experts - 1),
                         .step = 1};
  GraphTensor *expert = expand_last_up_to(x, "owner", &begins, row);
  GraphTensor *rank = expand(x, ONNX_Sub, "rank", row, expand_of_each(x, "begin", s->begin, expert));
  GraphTensor *part = s->before ? part_of(x, s, expert, rank) : NULL;
  GraphTensor *start = part ? expand(x, ONNX_Mul, "start", part, expand_number_s32(x, "length", s->part))
                            : expand_number_s32(x, "start", 0);
  place = expand(x, ONNX_Add, "place", rank, shift_of(x, s, part, expert));
  GraphTensor *key = expand_of_each(x, "key", s->keys, expand(x, ONNX_Add, "slot", start, place));
  divide(x, "owner", key, s->part, &place);
  GraphTensor *token = expand(x, ONNX_Div, "token", expand(x, ONNX_Add, "choice", start, place),
                              expand_known_s32(x, "each", each));
  GraphTensor *taken = expand(x, ONNX_Less, "taken", row, expand_of_each(x, "end", s->ends, expert));
  return expand_where(x, "source", taken, token, expand_number_s32(x, "nobody", -1));
}

void expand_permute(Expansion *x)
{
  const GraphNode *node = expand_written(x);
  GraphTensor *chosen = expand_input(x, 0);
  int64_t experts = graph_attribute(node, "experts")->integer,
          align = graph_attribute(node, "align")->integer;
  Arena *arena = expand_arena(x);
  if (chosen->rank != 2) {
    expand_refuse(x, ERROR_INPUT, 0, "shape", "[tokens, choices]",
                  "Permute takes the experts that each token has chosen");
    return;
  }
  if (experts < 1 || align < 1 || experts > 65536 || align > 65536) {
    expand_refuse_attribute(x, ERROR_INPUT, experts < 1 || experts > 65536 ? "experts" : "align",
                            "1 to 65536", "%d experts whose rows begin at multiples of %d cannot be",
                            (int)experts, (int)align);
    return;
  }
  const Symbolic *each = chosen->shape[1], *choices = symbolic_mul(arena, chosen->shape[0], each);
  if (experts <= COUNTED_MOST) {
    place_by_counts(x, chosen, choices);
    return;
  }
  const Symbolic *rows = infer_rows_of_keys(expand_graph(x), choices, experts, align);
  GraphTensor *list = expand_reshape(x, "choices", expand_cast(x, "narrow", chosen, NUMBER_S32), &choices, 1);
  Sorted s = {.choices = choices, .experts = experts, .align = align, .list = list};
  sort_choices(x, &s);
  GraphTensor *source = expand_wants(x, 1) ? sources(x, &s, rows, each) : NULL, *place = rows_of(x, &s);
  expand_give(x, 0, s.ends); /* what is given has another name from here on */
  if (source) expand_give(x, 1, source);
  expand_give(x, 2, expand_reshape(x, "places", place, (const Symbolic *const *)chosen->shape, 2));
}

/* ---- Combine ---- */

/* So many choices of a token are added by one elementwise kernel; more, or of an open number, are a tensor that is reduced. */
#define MOST_ADDED 16

typedef struct Rows {
  GraphTensor *rows, *place, *weights; /* weights in f32 */
} Rows;

/* What the choices in `place`, of any shape, bring: those of nobody 0, though some row is read. */
static GraphTensor *shares(Expansion *x, const Rows *of, GraphTensor *place, GraphTensor *weights)
{
  GraphTensor *taken =
      expand_node(x, &(ExpandNode){ONNX_Gather, "taken", 2, {of->rows, place}, .attributes = {{"axis", 0}}});
  GraphTensor *part = expand(x, ONNX_Mul, "part", expand_cast(x, "wide", taken, NUMBER_F32),
                             along(x, ONNX_Unsqueeze, "share", weights, -1));
  if (expand_failed(x)) return NULL;
  GraphTensor *which =
      expand(x, ONNX_Expand, "which", along(x, ONNX_Unsqueeze, "which", place, -1),
             expand_known(x, "shape", part->shape, part->rank, 1)); /* asked where `part` is */
  GraphTensor *nobody = expand(x, ONNX_Less, "nobody", which, expand_number(x, "first", place->type, 0));
  return expand_where(x, "given", nobody, expand_number(x, "nothing", NUMBER_F32, 0), part);
}

/* The choices in column j, [tokens]. */
static GraphTensor *column(Expansion *x, const char *part, GraphTensor *of, int64_t j)
{
  return along(x, ONNX_Squeeze, part, expand_slice(x, part, of, 1, j, j + 1), 1);
}

void expand_combine(Expansion *x)
{
  Rows of = {expand_input(x, 0), expand_input(x, 1), expand_input(x, 2)};
  bool fit = of.rows->rank == 2 && of.place->rank == 2 && of.weights->rank == 2;
  int64_t choices;
  if (!fit || !expand_same(x, of.place->shape[0], of.weights->shape[0]) ||
      !expand_same(x, of.place->shape[1], of.weights->shape[1])) {
    if (!expand_failed(x))
      expand_refuse(
          x, ERROR_INPUT, 0, "shape", "[rows, size], [tokens, choices] and [tokens, choices]",
          "Combine takes the rows that experts made, and where those of each token stand with their weights");
    return;
  }
  of.weights = expand_cast(x, "share", of.weights, NUMBER_F32);
  GraphTensor *total = NULL;
  if (symbolic_is_constant(of.place->shape[1], &choices) && choices >= 1 && choices <= MOST_ADDED)
    for (int64_t j = 0; j < choices; j++) {
      GraphTensor *part = shares(x, &of, column(x, "place", of.place, j), column(x, "weight", of.weights, j));
      total = total ? expand(x, ONNX_Add, "total", total, part) : part;
    }
  else
    total = expand_reduce_away(x, ONNX_ReduceSum, "total", shares(x, &of, of.place, of.weights), 1u << 1);
  expand_give(x, 0, expand_cast(x, "combined", total, of.rows->type));
}
