/* Route chooses each token's experts: scores = softmax or sigmoid of the logits; `bias` is added where experts are chosen, and nowhere
 * else. Where experts form groups, the `topk_group` best groups are left: by their largest score, or (`group_score` top2) by the sum of
 * their two largest.
 *
 * Few of few experts are found one after the other, by the largest of those that are left, so that all of it is one kernel of rows; of
 * more, rows are put in order. */
#include "generator/front/expand_rows.h"
#include "generator/front/expand_search.h"
#include <float.h>
#include <math.h>
#include <string.h>

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

/* Of each row along the last of three dimensions the sum of its two largest: the largest counts twice where several are as large. */
static GraphTensor *sum_of_two(Expansion *x, GraphTensor *rows)
{
  GraphTensor *most = expand_reduce(x, ONNX_ReduceMax, "most", rows, 1u << 2);
  GraphTensor *is = expand(x, ONNX_Equal, "is", rows, most);
  GraphTensor *number =
      expand_reduce(x, ONNX_ReduceSum, "number", expand_cast(x, "one", is, NUMBER_F32), 1u << 2);
  GraphTensor *others = expand_where(x, "others", is, expand_number(x, "never", NUMBER_F32, -INFINITY), rows);
  GraphTensor *next = expand_reduce(x, ONNX_ReduceMax, "next", others, 1u << 2);
  GraphTensor *several = expand(x, ONNX_Greater, "several", number, expand_number(x, "once", NUMBER_F32, 1));
  GraphTensor *second = expand_where(x, "second", several, most, next);
  return expand(x, ONNX_Add, "group_score", most, second);
}

/* How many groups are better than each: of equal ones those in front. Values are [tokens, groups, 1]. */
static GraphTensor *groups_before(Expansion *x, GraphTensor *best, const Symbolic *const *shape)
{
  const Symbolic *turned[] = {shape[0], symbolic_constant(expand_arena(x), 1), shape[2]};
  GraphTensor *size = expand_known(x, "square", shape, 3, 1);
  GraphTensor *own = expand(x, ONNX_Expand, "own", best, size),
              *other = expand(x, ONNX_Expand, "other", expand_reshape(x, "other", best, turned, 3), size);
  GraphTensor *of = expand_index(x, "of", shape, 3, 2), *it = expand_index(x, "it", shape, 3, 1);
  GraphTensor *front = expand(x, ONNX_Less, "front", of, it),
              *behind = expand(x, ONNX_Less, "behind", it, of);
  /* none is better than itself, however its score is rounded */
  GraphTensor *greater =
      expand(x, ONNX_And, "beyond", behind, expand(x, ONNX_Greater, "greater", other, own));
  GraphTensor *better = expand_node(
      x, &(ExpandNode){
             ONNX_Where, "better", 3, {front, expand(x, ONNX_GreaterOrEqual, "first", other, own), greater}});
  return expand_reduce(x, ONNX_ReduceSum, "before", expand_cast(x, "better", better, NUMBER_F32), 1u << 2);
}

/* -infinity for experts of groups that are not among the best. */
static GraphTensor *best_groups(Expansion *x, GraphTensor *scores, int64_t experts)
{
  const GraphNode *node = expand_written(x);
  int64_t groups = graph_attribute(node, "n_group")->integer,
          kept = graph_attribute(node, "topk_group")->integer, each = experts / groups;
  if (kept == 0 || kept == groups) return scores;
  bool two = !strcmp(graph_attribute(node, "group_score")->text, "top2") && each > 1;
  Arena *arena = expand_arena(x);
  const Symbolic *tokens = scores->shape[0], *many = symbolic_constant(arena, groups);
  const Symbolic *const parts[] = {tokens, many, symbolic_constant(arena, each)};
  GraphTensor *apart = expand_reshape(x, "apart", scores, parts, 3);
  GraphTensor *best =
      two ? sum_of_two(x, apart) : expand_reduce(x, ONNX_ReduceMax, "group_score", apart, 1u << 2);
  GraphTensor *before = groups_before(x, best, (const Symbolic *const[]){tokens, many, many});
  GraphTensor *open = expand(x, ONNX_Less, "open",
                             expand(x, ONNX_Expand, "before", before, expand_known(x, "parts", parts, 3, 1)),
                             expand_number(x, "kept", NUMBER_F32, (double)kept));
  GraphTensor *left = expand_where(x, "left", open, apart, expand_number(x, "never", NUMBER_F32, -INFINITY));
  return expand_reshape(x, "left", left, (const Symbolic *const[]){tokens, symbolic_constant(arena, experts)},
                        2);
}

static GraphTensor *scaled(Expansion *x, GraphTensor *weights)
{
  double factor = graph_attribute(expand_written(x), "factor")->number;
  return factor == 1 ? weights
                     : expand(x, ONNX_Mul, "scaled", weights, expand_number(x, "factor", NUMBER_F32, factor));
}

/* Shares of the chosen in a softmax of all are a softmax of the chosen, and the largest scores are those of the largest logits:
 * no score of the others is computed. */
static bool needs_logits_only(const GraphNode *node, bool bias)
{
  int64_t groups = graph_attribute(node, "n_group")->integer,
          kept = graph_attribute(node, "topk_group")->integer;
  return !bias && (kept == 0 || kept == groups) && graph_attribute(node, "normalize")->integer &&
         strcmp(graph_attribute(node, "scoring")->text, "sigmoid");
}

/* ---- one after the other ---- */

#define STEPS_MOST   8   /* experts, and groups, that are found so: each is two reductions of a row */
#define EXPERTS_MOST 512 /* rows that a warp keeps, with what is computed of them */

typedef struct Steps {
  Expansion *x;
  int64_t k, groups, kept,
      each; /* kept: groups that are left; 0: there are no groups, and rows have two dimensions, else three */
  GraphTensor *column; /* the expert of each element */
  GraphTensor *places[STEPS_MOST], *values[STEPS_MOST], *hits[STEPS_MOST];
} Steps;

static bool takes_steps(const GraphNode *node, int64_t experts)
{
  int64_t groups = graph_attribute(node, "n_group")->integer,
          kept = graph_attribute(node, "topk_group")->integer, each = experts / groups;
  bool whole = kept == 0 || kept == groups;
  return experts <= EXPERTS_MOST && graph_attribute(node, "k")->integer <= STEPS_MOST &&
         (whole || (kept <= STEPS_MOST && !(each & (each - 1))));
}

static uint32_t columns_of(const Steps *s)
{
  return s->kept ? 3u << 1 : 1u << 1;
}

static GraphTensor *never(const Steps *s)
{
  return expand_number(s->x, "never", NUMBER_F32, -INFINITY);
}

/* What is not taken yet stays above -infinity. */
static GraphTensor *bounded(const Steps *s, GraphTensor *scores)
{
  return expand(s->x, ONNX_Max, "bounded", scores, expand_number(s->x, "least", NUMBER_F32, -FLT_MAX));
}

/* Where each row's largest element is. */
static GraphTensor *place_of_largest(const Steps *s, GraphTensor *rows)
{
  ExpandNode node = {
      ONNX_ArgMax, "largest", 1, {rows}, .attributes = {{"axis", 1}, {"dims", s->kept ? 2 : 1}}};
  return expand_cast(s->x, "place", expand_node(s->x, &node), NUMBER_S32);
}

/* Rows by the dimensions of groups. */
static GraphTensor *apart(const Steps *s, const char *part, GraphTensor *rows)
{
  Arena *arena = expand_arena(s->x);
  const Symbolic *shape[3] = {rows->shape[0], symbolic_constant(arena, s->groups),
                              symbolic_constant(arena, s->each)};
  if (!s->kept) return rows;
  return rows->rank == 1 ? expand_reshape(s->x, part, rows, &shape[1], 2)
                         : expand_reshape(s->x, part, rows, shape, 3);
}

static void count_columns(Steps *s, GraphTensor *rows)
{
  ExpandNode node = {
      ONNX_IndexAlong, "column", 1, {rows}, .attributes = {{"axis", 1}, {"dims", s->kept ? 2 : 1}}};
  s->column = expand_node(s->x, &node);
}

/* -infinity for experts of other groups than the best. */
static GraphTensor *of_best_groups(Steps *s, GraphTensor *judged)
{
  Expansion *x = s->x;
  bool two = !strcmp(graph_attribute(expand_written(x), "group_score")->text, "top2") && s->each > 1;
  GraphTensor *best =
      two ? sum_of_two(x, judged) : expand_reduce(x, ONNX_ReduceMax, "group_score", judged, 1u << 2);
  GraphTensor *each = expand_number_s32(x, "each", s->each), *open = NULL;
  GraphTensor *own = expand(x, ONNX_Div, "group", s->column, each);
  GraphTensor *nowhere = expand(x, ONNX_Less, "nowhere", s->column, expand_number_s32(x, "zero", 0));
  GraphTensor *left =
      expand_where(x, "of_group", nowhere, judged, bounded(s, best)); /* as wide as the rows */
  for (int64_t i = 0; i < s->kept; i++) {
    GraphTensor *here =
        expand(x, ONNX_Equal, "here", own, expand(x, ONNX_Div, "group", place_of_largest(s, left), each));
    open = open ? expand(x, ONNX_Or, "open", open, here) : here;
    left = expand_where(x, "others", here, never(s), left);
  }
  return expand_where(x, "open", open, judged, never(s));
}

static void find_largest(Steps *s, GraphTensor *rows)
{
  Expansion *x = s->x;
  for (int64_t i = 0; i < s->k; i++) {
    s->places[i] = place_of_largest(s, rows);
    s->values[i] = expand_reduce(x, ONNX_ReduceMax, "score", rows, columns_of(s));
    s->hits[i] = expand(x, ONNX_Equal, "taken", s->column, s->places[i]);
    if (i + 1 < s->k) rows = expand_where(x, "left", s->hits[i], never(s), rows);
  }
}

static GraphTensor *total_of(const Steps *s)
{
  GraphTensor *total = s->values[0];
  for (int64_t i = 1; i < s->k; i++)
    total = expand(s->x, ONNX_Add, "total", total, s->values[i]);
  return total;
}

static void divide_all(Steps *s, GraphTensor *by)
{
  for (int64_t i = 0; i < s->k; i++)
    s->values[i] = expand(s->x, ONNX_Div, "share", s->values[i], by);
}

/* The largest scores are those of the largest logits, so that scores of others are not computed, but for a softmax's sum. */
static void choose_by_logits(Steps *s, GraphTensor *logits, bool sigmoid, bool normalize)
{
  Expansion *x = s->x;
  GraphTensor *rows = bounded(s, logits);
  count_columns(s, rows);
  find_largest(s, rows);
  GraphTensor *most = s->values[0], *sum = NULL;
  if (!sigmoid && !normalize)
    sum = expand_reduce(x, ONNX_ReduceSum, "sum",
                        expand(x, ONNX_Exp, "power", expand(x, ONNX_Sub, "below", logits, most), NULL),
                        columns_of(s));
  for (int64_t i = 0; i < s->k; i++)
    s->values[i] = sigmoid
                       ? expand(x, ONNX_Sigmoid, "score", s->values[i], NULL)
                       : expand(x, ONNX_Exp, "power", expand(x, ONNX_Sub, "below", s->values[i], most), NULL);
  if (sum || !sigmoid) divide_all(s, sum ? sum : total_of(s));
}

static void choose_by_scores(Steps *s, GraphTensor *logits, GraphTensor *bias, bool sigmoid)
{
  Expansion *x = s->x;
  GraphTensor *scores = sigmoid ? expand(x, ONNX_Sigmoid, "scores", apart(s, "logits", logits), NULL)
                                : apart(s, "scores", expand(x, ONNX_Softmax, "scores", logits, NULL));
  GraphTensor *judged = scores;
  if (bias)
    judged = bounded(
        s, expand(x, ONNX_Add, "judged", scores, apart(s, "bias", expand_cast(x, "bias", bias, NUMBER_F32))));
  count_columns(s, judged);
  find_largest(s, s->kept ? of_best_groups(s, judged) : judged);
  for (int64_t i = 0; i < s->k && bias; i++)
    s->values[i] = expand_reduce(x, ONNX_ReduceMax, "score",
                                 expand_where(x, "chosen", s->hits[i], scores, never(s)), columns_of(s));
}

/* Values of each row beside one another. */
static GraphTensor *beside(const Steps *s, const char *part, GraphTensor *const *values)
{
  Expansion *x = s->x;
  ExpandNode node = {ONNX_Concat, part, (unsigned)s->k, .attributes = {{"axis", -1}}};
  memcpy(node.inputs, values, (size_t)s->k * sizeof *values);
  GraphTensor *all = expand_node(x, &node);
  const Symbolic *shape[] = {values[0]->shape[0], symbolic_constant(expand_arena(x), s->k)};
  return s->kept ? expand_reshape(x, part, all, shape, 2) : all;
}

static void route_by_steps(Expansion *x, GraphTensor *logits, GraphTensor *bias, int64_t experts)
{
  const GraphNode *node = expand_written(x);
  bool sigmoid = !strcmp(graph_attribute(node, "scoring")->text, "sigmoid"),
       normalize = graph_attribute(node, "normalize")->integer != 0;
  int64_t groups = graph_attribute(node, "n_group")->integer,
          kept = graph_attribute(node, "topk_group")->integer;
  Steps s = {.x = x,
             .k = graph_attribute(node, "k")->integer,
             .groups = groups,
             .kept = kept == groups ? 0 : kept,
             .each = experts / groups};
  if (bias || s.kept)
    choose_by_scores(&s, logits, bias, sigmoid);
  else
    choose_by_logits(&s, logits, sigmoid, normalize);
  if (normalize && (sigmoid || bias || s.kept)) /* scores of sigmoids may all be 0 */
    divide_all(&s, expand(x, ONNX_Add, "divisor", total_of(&s), expand_number(x, "tiny", NUMBER_F32, 1e-20)));
  for (int64_t i = 0; i < s.k; i++)
    s.values[i] = scaled(x, s.values[i]);
  expand_give(x, 0, beside(&s, "experts", s.places));
  expand_give(x, 1, beside(&s, "weights", s.values));
}

/* ---- all ---- */

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
  int64_t k = graph_attribute(node, "k")->integer;
  GraphTensor *wide = expand_cast(x, "wide", logits, NUMBER_F32);
  if (takes_steps(node, experts)) {
    route_by_steps(x, wide, bias, experts);
    return;
  }
  if (needs_logits_only(node, bias != NULL)) {
    GraphTensor *shares = expand(x, ONNX_Softmax, "shares", largest(x, "chosen", wide, k, &chosen), NULL);
    expand_give(x, 0, chosen);
    expand_give(x, 1, scaled(x, shares));
    return;
  }
  GraphTensor *scores = expand(x, sigmoid ? ONNX_Sigmoid : ONNX_Softmax, "scores", wide, NULL);
  GraphTensor *judged =
      bias ? expand(x, ONNX_Add, "judged", scores, expand_cast(x, "bias", bias, NUMBER_F32)) : scores;
  GraphTensor *values = largest(x, "chosen", best_groups(x, judged, experts), k, &chosen);
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
  expand_give(x, 0, chosen);
  expand_give(x, 1, scaled(x, weights));
}
