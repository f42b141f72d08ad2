/* Mixtures of experts around their products (GroupedMatMul): Route chooses each token's experts, Permute puts the tokens of an
 * expert beside one another, Combine adds up what the experts made of a token. No size of a group is read back: all stay on the device.
 *
 *   Route:   scores = softmax or sigmoid of the logits; `bias` is added where experts are chosen, and nowhere else. Where experts form
 *            groups, the `topk_group` best groups are left: by their largest score, or (`group_score` top2) by the sum of their two largest.
 *   Permute: a stable counting sort. Before a choice stand those of experts with smaller numbers, and earlier ones of its own.
 *   Combine: a token's rows times their weights, added in the order of its choices, in f32. */
#include "generator/front/expand_rows.h"
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

/* The same where the extent is a number: a constant. */
static GraphTensor *numbers_below(Expansion *x, const char *part, int64_t n)
{
  g_autofree int32_t *items = g_new(int32_t, n + 1);
  for (int64_t i = 0; i < n; i++)
    items[i] = (int32_t)i;
  return expand_table(x, part, NUMBER_S32, 1, (size_t)n, items);
}

static GraphTensor *cumulative(Expansion *x, const char *part, GraphTensor *a)
{
  return expand(x, ONNX_CumSum, part, a, expand_number(x, "first", NUMBER_S32, 0));
}

/* ---- Route ---- */

/* The k largest of each row; places get their indices, s32. */
static GraphTensor *largest(Expansion *x, const char *part, GraphTensor *rows, int64_t k,
                            GraphTensor **places_of)
{
  GraphTensor *indices = NULL;
  GraphTensor *values = expand_node(x, &(ExpandNode){ONNX_TopRows,
                                                     part,
                                                     1,
                                                     {rows},
                                                     .attributes = {{"k", k}, {"largest", 1}, {"wide", 0}},
                                                     .further = &indices,
                                                     .n_further = 1});
  if (places_of) *places_of = indices;
  return values;
}

static bool check_counts(Expansion *x, int64_t experts)
{
  static const char *const names[] = {"k", "n_group", "topk_group"};
  const GraphNode *node = expand_written(x);
  int64_t k = graph_attribute(node, "k")->integer, groups = graph_attribute(node, "n_group")->integer,
          kept = graph_attribute(node, "topk_group")->integer;
  bool groups_fit = groups >= 1 && experts % groups == 0, kept_fit = kept >= 0 && kept <= MAX(groups, 1);
  int64_t left = groups_fit && kept_fit && kept ? experts / groups * kept : experts;
  bool fit = k >= 1 && k <= left;
  unsigned at = !groups_fit ? 1 : !kept_fit ? 2 : 0;
  if (fit && groups_fit && kept_fit) return true;
  expand_refuse_attribute(
      x, ERROR_INPUT, names[at],
      "groups divide the experts; `k` experts are chosen among those of `topk_group` groups",
      "%d of %d experts in %d groups, of which %d are left, cannot be chosen", (int)k, (int)experts,
      (int)groups, (int)kept);
  return false;
}

/* -infinity for experts of groups that are not among the best. */
static GraphTensor *best_groups(Expansion *x, GraphTensor *scores, int64_t experts)
{
  const GraphNode *node = expand_written(x);
  int64_t groups = graph_attribute(node, "n_group")->integer,
          kept = graph_attribute(node, "topk_group")->integer, each = experts / groups;
  if (kept == 0 || kept == groups) return scores;
  bool two = !strcmp(graph_attribute(node, "group_score")->text, "top2") && each > 1;
  const Symbolic *tokens = scores->shape[0];
  Arena *arena = expand_arena(x);
  GraphTensor *apart = expand_reshape(
      x, "apart", scores,
      (const Symbolic *const[]){tokens, symbolic_constant(arena, groups), symbolic_constant(arena, each)}, 3);
  GraphTensor *best = expand_reduce_away(x, two ? ONNX_ReduceSum : ONNX_ReduceMax, "group_score",
                                         two ? largest(x, "two", apart, 2, NULL) : apart, 1u << 2);
  GraphTensor *chosen = NULL;
  largest(x, "groups", best, kept, &chosen);
  /* [T, kept, 1] == [groups]: one of the kept is the group */
  GraphTensor *is = expand_cast(x, "is",
                                expand(x, ONNX_Equal, "same", along(x, ONNX_Unsqueeze, "column", chosen, 2),
                                       numbers_below(x, "group", groups)),
                                NUMBER_F32);
  GraphTensor *any =
      along(x, ONNX_Unsqueeze, "open", expand_reduce_away(x, ONNX_ReduceSum, "any", is, 1u << 1), 2);
  GraphTensor *left = expand_node(x, &(ExpandNode){ONNX_Where,
                                                   "left",
                                                   3,
                                                   {expand_cast(x, "open", any, NUMBER_BOOL), apart,
                                                    expand_number(x, "never", NUMBER_F32, -INFINITY)}});
  return expand_reshape(x, "left", left, (const Symbolic *const[]){tokens, symbolic_constant(arena, experts)},
                        2);
}

void expand_route(Expansion *x)
{
  const GraphNode *node = expand_written(x);
  GraphTensor *logits = expand_input(x, 0), *bias = expand_input(x, 1), *chosen = NULL;
  int64_t experts;
  if (logits->rank != 2 || !symbolic_is_constant(logits->shape[1], &experts)) {
    expand_refuse(x, logits->rank == 2 ? ERROR_UNSUPPORTED : ERROR_INPUT, 0, "shape",
                  "[tokens, experts], the latter a number", "Route takes the logits of each token's experts");
    return;
  }
  if (!check_counts(x, experts)) return;
  bool sigmoid = !strcmp(graph_attribute(node, "scoring")->text, "sigmoid");
  double factor = graph_attribute(node, "factor")->number;
  GraphTensor *wide = expand_cast(x, "wide", logits, NUMBER_F32);
  GraphTensor *scores = expand(x, sigmoid ? ONNX_Sigmoid : ONNX_Softmax, "scores", wide, NULL);
  GraphTensor *judged =
      bias ? expand(x, ONNX_Add, "judged", scores, expand_cast(x, "bias", bias, NUMBER_F32)) : scores;
  GraphTensor *values =
      largest(x, "chosen", best_groups(x, judged, experts), graph_attribute(node, "k")->integer, &chosen);
  GraphTensor *weights =
      !bias ? values
            : expand_node(
                  x, &(ExpandNode){
                         ONNX_GatherElements, "weights", 2, {scores, chosen}, .attributes = {{"axis", 1}}});
  if (graph_attribute(node, "normalize")->integer) /* scores of sigmoids may all be 0 */
    weights =
        expand(x, ONNX_Div, "shares", weights,
               expand(x, ONNX_Add, "divisor", expand_reduce(x, ONNX_ReduceSum, "total", weights, 1u << 1),
                      expand_number(x, "tiny", NUMBER_F32, 1e-20)));
  if (factor != 1)
    weights = expand(x, ONNX_Mul, "scaled", weights, expand_number(x, "factor", NUMBER_F32, factor));
  expand_give(x, 0, chosen);
  expand_give(x, 1, weights);
}

/* ---- Permute ---- */

typedef struct Sorted {
  const Symbolic *choices; /* tokens times choices of each */
  GraphTensor *expert;     /* of each choice, [choices]; nobody's: 0 */
  GraphTensor *valid;
  GraphTensor *ends, *place;
  GraphTensor *begin; /* of each expert's rows */
  GraphTensor *up_to; /* choices of an expert up to each, [choices * experts] */
} Sorted;

/* Elements of a list, of one dimension. */
static GraphTensor *of_each(Expansion *x, const char *part, GraphTensor *list, GraphTensor *index)
{
  return expand_node(x, &(ExpandNode){ONNX_Gather, part, 2, {list, index}, .attributes = {{"axis", 0}}});
}

static bool below(Expansion *x, const Symbolic *value, int64_t limit)
{
  int64_t least, most;
  symbolic_range(value, expand_facts(x), &least, &most);
  return most <= limit;
}

/* Ends of groups that begin at multiples of `align`, and the place of each choice. */
static void sort_choices(Expansion *x, Sorted *s, int64_t experts, int64_t align)
{
  GraphTensor *numbers = numbers_below(x, "number", experts);
  GraphTensor *is = expand_cast(
      x, "is", expand(x, ONNX_Equal, "same", along(x, ONNX_Unsqueeze, "column", s->expert, 1), numbers),
      NUMBER_S32);
  is = expand(x, ONNX_Mul, "is", is,
              along(x, ONNX_Unsqueeze, "real", expand_cast(x, "real", s->valid, NUMBER_S32), 1));
  GraphTensor *up_to = cumulative(x, "up_to", is),
              *count = expand_reduce_away(x, ONNX_ReduceSum, "count", is, 1u << 0);
  GraphTensor *wide = count;
  if (align > 1) {
    GraphTensor *step = expand_number(x, "align", NUMBER_S32, (double)align);
    wide = expand(x, ONNX_Add, "more", count, expand_number(x, "less", NUMBER_S32, (double)align - 1));
    wide = expand(x, ONNX_Mul, "room", expand(x, ONNX_Div, "parts", wide, step), step);
  }
  GraphTensor *begin = expand(x, ONNX_Sub, "begin", cumulative(x, "rooms", wide), wide);
  s->begin = begin;
  s->ends = expand(x, ONNX_Add, "ends", begin, count);
  /* of 32 bits where these hold every index */
  const Symbolic *all =
      symbolic_mul(expand_arena(x), s->choices, symbolic_constant(expand_arena(x), experts));
  NumberType type = below(x, all, INT32_MAX / 2) ? NUMBER_S32 : NUMBER_S64;
  GraphTensor *line =
      expand(x, ONNX_Mul, "line", expand_cast(x, "order", places(x, "order", s->choices), type),
             expand_number(x, "width", type, (double)experts));
  s->up_to = expand_reshape(x, "counts", up_to, &all, 1);
  GraphTensor *rank =
      of_each(x, "rank", s->up_to, expand(x, ONNX_Add, "own", line, expand_cast(x, "own", s->expert, type)));
  GraphTensor *first = of_each(x, "first", begin, s->expert);
  GraphTensor *place = expand(x, ONNX_Sub, "place", expand(x, ONNX_Add, "behind", first, rank),
                              expand_number(x, "one", NUMBER_S32, 1));
  s->place = expand_node(
      x,
      &(ExpandNode){ONNX_Where, "place", 3, {s->valid, place, expand_number(x, "nowhere", NUMBER_S32, -1)}});
}

/* Elements of a list that do not fall from one to the next, `step` apart. */
typedef struct Rising {
  GraphTensor *list;
  GraphTensor *before, *last; /* index in front of the first, and of the last, of each that looks: s32 */
  const Symbolic *n;          /* how many there are */
  int64_t step;
  GraphTensor
      *column; /* s64: where 32 bits do not hold the indices, they count steps from here on; NULL: they do */
} Rising;

static GraphTensor *element_at(Expansion *x, const char *part, const Rising *rising, GraphTensor *index)
{
  if (rising->column) {
    GraphTensor *step = expand_number(x, part, NUMBER_S64, (double)rising->step);
    index = expand(x, ONNX_Mul, part, expand_cast(x, part, index, NUMBER_S64), step);
    index = expand(x, ONNX_Add, part, index, rising->column);
  }
  return expand_node(x,
                     &(ExpandNode){ONNX_Gather, part, 2, {rising->list, index}, .attributes = {{"axis", 0}}});
}

/* Index of the last of them that is at most `target` (the one in front of the first: none is), by halves: each that looks
 * reads as many as their number has bits. */
static GraphTensor *last_up_to(Expansion *x, const char *part, const Rising *rising, GraphTensor *target)
{
  int64_t least, most, bit = 1;
  symbolic_range(rising->n, expand_facts(x), &least, &most);
  while (bit <= most / 2)
    bit *= 2;
  GraphTensor *found = rising->before;
  for (; bit; bit /= 2) {
    GraphTensor *step =
        expand_number(x, part, NUMBER_S32, (double)(rising->column ? bit : bit * rising->step));
    GraphTensor *more = expand(x, ONNX_Min, part, expand(x, ONNX_Add, part, found, step), rising->last);
    GraphTensor *under = expand(x, ONNX_LessOrEqual, part, element_at(x, part, rising, more), target);
    found = expand_node(x, &(ExpandNode){ONNX_Where, part, 3, {under, more, found}});
  }
  return found;
}

static GraphTensor *known_number(Expansion *x, const char *part, const Symbolic *value)
{
  return expand_cast(x, part, expand_known(x, part, &value, 1, 0), NUMBER_S32);
}

/* Of each row the choice that it is, by its expert and how many of that expert's rows are before it: the choice behind the last
 * up to which the expert has no more. */
static GraphTensor *choices_of(Expansion *x, const Sorted *s, GraphTensor *expert, GraphTensor *before,
                               int64_t experts)
{
  Arena *arena = expand_arena(x);
  const Symbolic *width = symbolic_constant(arena, experts), *all = symbolic_mul(arena, s->choices, width);
  Rising counts = {.list = s->up_to, .n = s->choices, .step = experts};
  GraphTensor *one = expand_number(x, "one", NUMBER_S32, 1);
  if (!below(x, all, INT32_MAX / 2)) { /* sums reach twice as far as the indices */
    const Symbolic *final = symbolic_sub(arena, s->choices, symbolic_constant(arena, 1));
    counts.column = expand_cast(x, "column", expert, NUMBER_S64);
    counts.before = expand_number(x, "none", NUMBER_S32, -1);
    counts.last = known_number(x, "final", final);
    return expand(x, ONNX_Add, "choice", last_up_to(x, "search", &counts, before), one);
  }
  GraphTensor *wide = expand_number(x, "width", NUMBER_S32, (double)experts);
  counts.before = expand(x, ONNX_Sub, "above", expert, wide);
  counts.last =
      expand(x, ONNX_Add, "below", expert, known_number(x, "final", symbolic_sub(arena, all, width)));
  GraphTensor *behind = expand(x, ONNX_Add, "behind", last_up_to(x, "search", &counts, before), wide);
  return expand(x, ONNX_Div, "choice", behind, wide);
}

/* The token of each row, -1: nobody's. The row's expert is the last that begins in front of it. */
static GraphTensor *sources(Expansion *x, const Sorted *s, const Symbolic *rows, const Symbolic *each,
                            int64_t experts)
{
  GraphTensor *row = places(x, "row", rows);
  const Rising begins = {.list = s->begin,
                         /* of each row, so that one kernel has all of it */
                         .before = expand(x, ONNX_Min, "none", row, expand_number(x, "none", NUMBER_S32, -1)),
                         .last = expand_number(x, "last", NUMBER_S32, (double)experts - 1),
                         .n = symbolic_constant(expand_arena(x), experts),
                         .step = 1};
  GraphTensor *expert = last_up_to(x, "owner", &begins, row);
  GraphTensor *before = expand(x, ONNX_Sub, "before", row, of_each(x, "first", s->begin, expert));
  GraphTensor *token =
      expand(x, ONNX_Div, "token", choices_of(x, s, expert, before, experts), known_number(x, "each", each));
  GraphTensor *taken = expand(x, ONNX_Less, "taken", row, of_each(x, "end", s->ends, expert));
  return expand_node(
      x, &(ExpandNode){ONNX_Where, "source", 3, {taken, token, expand_number(x, "nobody", NUMBER_S32, -1)}});
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
  const Symbolic *each = chosen->shape[1], *choices = symbolic_mul(arena, chosen->shape[0], each),
                 *rows = choices;
  if (align > 1) { /* each group may end just behind a multiple */
    const Symbolic *step = symbolic_constant(arena, align);
    rows = symbolic_add(arena, choices, symbolic_constant(arena, experts * (align - 1)));
    rows = symbolic_mul(arena, symbolic_ceil_div(arena, rows, step), step);
  }
  GraphTensor *list = expand_reshape(x, "choices", expand_cast(x, "narrow", chosen, NUMBER_S32), &choices, 1);
  GraphTensor *none = expand_number(x, "zero", NUMBER_S32, 0),
              *limit = expand_number(x, "limit", NUMBER_S32, (double)experts);
  Sorted s = {.choices = choices};
  s.valid = expand(x, ONNX_And, "valid", expand(x, ONNX_GreaterOrEqual, "from", list, none),
                   expand(x, ONNX_Less, "below", list, limit));
  s.expert = expand_node(x, &(ExpandNode){ONNX_Where, "expert", 3, {s.valid, list, none}});
  sort_choices(x, &s, experts, align);
  GraphTensor *source = expand_wants(x, 1) ? sources(x, &s, rows, each, experts) : NULL;
  expand_give(x, 0, s.ends); /* what is given has another name from here on */
  if (source) expand_give(x, 1, source);
  expand_give(x, 2, expand_reshape(x, "places", s.place, (const Symbolic *const *)chosen->shape, 2));
}

/* ---- Combine ---- */

/* So many choices of a token are added by one elementwise kernel; more, or of an open number, are a tensor that is reduced. */
#define MOST_ADDED 16

typedef struct Rows {
  GraphTensor *rows, *place, *weights; /* weights in f32 */
} Rows;

/* What the choices in `place`, of any shape, bring: those of nobody, which point outside of the rows, 0. */
static GraphTensor *shares(Expansion *x, const Rows *of, GraphTensor *place, GraphTensor *weights)
{
  GraphTensor *taken =
      expand_node(x, &(ExpandNode){ONNX_Gather, "taken", 2, {of->rows, place}, .attributes = {{"axis", 0}}});
  return expand(x, ONNX_Mul, "part", expand_cast(x, "wide", taken, NUMBER_F32),
                along(x, ONNX_Unsqueeze, "share", weights, -1));
}

/* The choices in column j, [tokens]. */
static GraphTensor *column(Expansion *x, const char *part, GraphTensor *of, int64_t j)
{
  return along(x, ONNX_Squeeze, part,
               expand_node(x, &(ExpandNode){ONNX_Slice,
                                            part,
                                            4,
                                            {of, expand_integers(x, "from", &j, 1),
                                             expand_integers(x, "to", (int64_t[]){j + 1}, 1),
                                             expand_integers(x, "axis", (int64_t[]){1}, 1)}}),
               1);
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
  of.place = expand_node(
      x,
      &(ExpandNode){ONNX_Where,
                    "place",
                    3,
                    {expand(x, ONNX_Less, "nobody", of.place, expand_number(x, "first", of.place->type, 0)),
                     expand_number(x, "outside", of.place->type, G_MAXINT32), of.place}});
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
