/* Sample: a token for each row of logits, drawn by the largest of logits + temperature * Gumbel noise, which is a draw from
 * the softmax of logits / temperature: no sum of all of a row's exponentials is needed, and what each element adds is known by its
 * number alone.
 *
 *   E = -ln(1 - v), v = (word + 1/2) 2^-32 in f32, at most 1 - 2^-24; word: word 0 of Philox4x32-10 with the seed as key and the counter
 *   (token, row, offset, 0), where row is 0 if `seed` has an element for each row. Taken is the first of the largest logit - temperature ln E.
 *
 * With candidates the largest logits of a row are put in order first, and what is drawn is one of these, as many as top_k and top_p leave.
 * All that follows the order is one row operator, or two.
 * Without (`candidates` 0) top_k and top_p are of whole rows: the least logit that they leave is found by digits, the highest first, of
 * the bits of f32 in an order that rises as the numbers do. A pass over the rows tells for each value of the digit how much is above
 * it: elements, or weights.
 * Long rows are looked through in parts, so that few of them occupy more than a block each. */
#include "generator/front/expand_rows.h"
#include "generator/front/expand_search.h"
#include <math.h>

#define CANDIDATES  128    /* without the attribute */
#define SERIES      0x1p-6 /* below it the series has more digits than the logarithm of what is near 1 */
#define DIGIT_BITS  3      /* of what a pass finds: as many sums less one are one kernel's */
#define WORD        32
#define PART        2048 /* elements of a row's part at least, */
#define PARTS       64   /* as many as this at most */
#define PART_RESULT 4    /* and of its elements so many times fewer are left */

typedef struct Sampler {
  Expansion *at;
  GraphTensor *rows; /* [R, V] */
  const Symbolic *n;
  int64_t columns;                                          /* 0: a symbol */
  GraphTensor *temperature, *top_k, *top_p, *seed, *offset; /* [R or 1, 1]; NULL: absent */
  bool row_seeds;
} Sampler;

static GraphTensor *f32(const Sampler *s, double value)
{
  return expand_number(s->at, "number", NUMBER_F32, value);
}

static GraphTensor *s64(const Sampler *s, double value)
{
  return expand_number(s->at, "number", NUMBER_S64, value);
}

/* [R, second, ..], as many dimensions as have extents. */
static GraphTensor *shaped(const Sampler *s, const char *part, GraphTensor *x, int64_t second, int64_t third)
{
  Arena *arena = expand_arena(s->at);
  const Symbolic *shape[] = {s->n, symbolic_constant(arena, second), symbolic_constant(arena, third)};
  return expand_reshape(s->at, part, x, shape, third ? 3 : 2);
}

/* What rows have, for each of their elements: a view, so that steps with it are steps of one kernel with what it meets. */
static GraphTensor *for_each(const Sampler *s, const char *part, GraphTensor *x, const GraphTensor *like,
                             NumberType type)
{
  if (!x || !like) return NULL;
  int64_t last[GRAPH_MAX_RANK];
  unsigned n = 0;
  while (x->rank + n < like->rank) {
    last[n] = x->rank + n;
    n++;
  }
  if (n) x = expand(s->at, ONNX_Unsqueeze, part, x, expand_integers(s->at, "last", last, n));
  g_autofree char *name = g_strdup_printf("%s_shape", part);
  GraphTensor *shape = expand_known(s->at, name, (const Symbolic *const *)like->shape, like->rank, 1);
  return expand_cast(s->at, part, expand(s->at, ONNX_Expand, part, x, shape), type);
}

static GraphTensor *index_along(const Sampler *s, const char *part, const GraphTensor *like, unsigned axis)
{
  return like ? expand_index(s->at, part, (const Symbolic *const *)like->shape, like->rank, axis) : NULL;
}

/* ---- inputs ---- */

/* One number for all rows, or one for each. */
static GraphTensor *read_input(const Sampler *s, unsigned input, const char *part, bool whole)
{
  const GraphTensor *logits = expand_input(s->at, 0);
  GraphTensor *x = expand_input(s->at, input);
  if (!x) return NULL;
  if ((number_class(x->type) == NUMBER_FLOAT) == whole || x->type == NUMBER_BOOL) {
    expand_refuse(s->at, ERROR_INPUT, input, "type", NULL, "`%s` of Sample is %s: `%s` is %s", part,
                  whole ? "an integer" : "a float", x->name, number_name(x->type));
    return NULL;
  }
  bool same = x->rank + 1 == logits->rank;
  for (unsigned d = 0; same && d < x->rank; d++)
    same = symbolic_same(x->shape[d], logits->shape[d]);
  const Symbolic *one = symbolic_constant(expand_arena(s->at), 1);
  if (same && x->rank) return shaped(s, part, x, 1, 0);
  if (graph_has_one_element(x)) return expand_reshape(s->at, part, x, (const Symbolic *const[]){one, one}, 2);
  expand_refuse(s->at, ERROR_INPUT, input, "shape", NULL,
                "`%s` of Sample is one number, or one for each row: `%s` is neither", part, x->name);
  return NULL;
}

static bool read_inputs(Sampler *s)
{
  GraphTensor *logits = expand_input(s->at, 0);
  if (!logits->rank) {
    expand_refuse(s->at, ERROR_INPUT, 0, "rank", NULL, "Sample takes rows of logits: `%s` is one number",
                  logits->name);
    return false;
  }
  const Symbolic *last = logits->shape[logits->rank - 1];
  Arena *arena = expand_arena(s->at);
  s->n = symbolic_constant(arena, 1);
  for (unsigned d = 0; d + 1 < logits->rank; d++)
    s->n = symbolic_mul(arena, s->n, logits->shape[d]);
  if (!symbolic_is_constant(last, &s->columns)) s->columns = 0;
  if (symbolic_equals(last, 0)) {
    expand_refuse(s->at, ERROR_INPUT, 0, "shape", NULL, "rows without logits have no token: `%s`",
                  logits->name);
    return false;
  }
  s->temperature = read_input(s, 1, "temperature", false);
  s->top_k = read_input(s, 2, "top_k", true);
  s->top_p = read_input(s, 3, "top_p", false);
  s->seed = read_input(s, 4, "seed", true);
  s->offset = read_input(s, 5, "offset", true);
  s->row_seeds = s->seed && !symbolic_equals(s->seed->shape[0], 1);
  const Symbolic *shape[] = {s->n, last};
  s->rows = expand_reshape(s->at, "rows", logits, shape, 2);
  return !expand_failed(s->at);
}

/* ---- noise ---- */

/* -ln E of each token (s64) */
static GraphTensor *noise_of(const Sampler *s, GraphTensor *token)
{
  Expansion *at = s->at;
  GraphTensor *counter = token;
  if (!s->row_seeds) {
    GraphTensor *row = expand_cast(at, "row", index_along(s, "row", token, 0), NUMBER_S64);
    counter = expand(at, ONNX_Add, "counter", expand(at, ONNX_Mul, "high", row, s64(s, 0x1p32)), token);
  }
  GraphTensor *seed = s->seed ? for_each(s, "seed", s->seed, token, NUMBER_S64) : s64(s, 0);
  GraphTensor *offset = s->offset ? for_each(s, "offset", s->offset, token, NUMBER_S64) : s64(s, 0);
  GraphTensor *word = expand_node(at, &(ExpandNode){ONNX_Philox, "word", 3, {counter, seed, offset}});
  GraphTensor *middle =
      expand(at, ONNX_Add, "middle", expand_cast(at, "bits", word, NUMBER_F32), f32(s, 0.5));
  GraphTensor *v =
      expand(at, ONNX_Min, "v", expand(at, ONNX_Mul, "part", middle, f32(s, 0x1p-32)), f32(s, 1 - 0x1p-24));
  GraphTensor *large =
      expand(at, ONNX_Neg, "large",
             expand(at, ONNX_Log, "log", expand(at, ONNX_Sub, "rest", f32(s, 1), v), NULL), NULL);
  /* v + v^2 / 2 + v^3 / 3 + v^4 / 4 */
  GraphTensor *small = f32(s, 0.25);
  for (unsigned power = 3; power; power--)
    small =
        expand(at, ONNX_Add, "term", expand(at, ONNX_Mul, "series", small, v), f32(s, (float)(1.0 / power)));
  small = expand(at, ONNX_Mul, "small", small, v);
  GraphTensor *e = expand_where(s->at, "e", expand(at, ONNX_Less, "near", v, f32(s, SERIES)), small, large);
  return expand(at, ONNX_Neg, "noise", expand(at, ONNX_Log, "log_e", e, NULL), NULL);
}

/* What decides: logit + temperature * noise, which has the order of logit / temperature + noise and, at 0, that of the logits. */
static GraphTensor *score_of(const Sampler *s, GraphTensor *logits, GraphTensor *token)
{
  GraphTensor *noise = noise_of(s, token);
  if (s->temperature)
    noise = expand(s->at, ONNX_Mul, "heated", noise,
                   for_each(s, "temperature", s->temperature, logits, NUMBER_F32));
  return expand(s->at, ONNX_Add, "score", logits, noise);
}

/* ---- rows and their parts ---- */

static int64_t parts_of(const Sampler *s, int64_t left)
{
  for (int64_t parts = PARTS; parts > 1; parts--)
    if (s->columns % parts == 0 && s->columns / parts >= MAX(PART, left * PART_RESULT)) return parts;
  return 1;
}

static GraphTensor *arg_max(const Sampler *s, const char *part, GraphTensor *x)
{
  return expand_node(s->at,
                     &(ExpandNode){ONNX_ArgMax, part, 1, {x}, .attributes = {{"axis", -1}, {"keepdims", 1}}});
}

static GraphTensor *gather(const Sampler *s, const char *part, GraphTensor *x, GraphTensor *index)
{
  return expand_node(s->at,
                     &(ExpandNode){ONNX_GatherElements, part, 2, {x, index}, .attributes = {{"axis", -1}}});
}

/* ---- candidates ---- */

static GraphTensor *largest(const Sampler *s, GraphTensor *x, int64_t k, GraphTensor **places)
{
  return expand_node(s->at, &(ExpandNode){ONNX_TopRows,
                                          "largest",
                                          1,
                                          {x},
                                          .attributes = {{"k", k}, {"largest", 1}, {"wide", 0}},
                                          .further = places,
                                          .n_further = 1});
}

/* The `n` largest in order, and their tokens, s32: [R, n]. */
static GraphTensor *candidates_of(const Sampler *s, int64_t n, GraphTensor **tokens)
{
  Expansion *at = s->at;
  int64_t parts = parts_of(s, n), width = s->columns / parts;
  GraphTensor *places = NULL, *chosen = NULL, *values;
  if (parts == 1) {
    values = largest(s, s->rows, n, &places);
    *tokens = places;
    return expand_cast(at, "value", values, NUMBER_F32);
  }
  GraphTensor *of_parts = largest(s, shaped(s, "parts", s->rows, parts, width), n, &places);
  values = largest(s, shaped(s, "of_parts", of_parts, parts * n, 0), n, &chosen);
  GraphTensor *part = expand(at, ONNX_Div, "part", chosen, expand_number_s32(at, "each", n));
  GraphTensor *begin = expand(at, ONNX_Mul, "begin", part, expand_number_s32(at, "width", width));
  GraphTensor *token = expand(at, ONNX_Add, "token",
                              gather(s, "place", shaped(s, "places", places, parts * n, 0), chosen), begin);
  *tokens = token;
  return expand_cast(at, "value", values, NUMBER_F32);
}

/* Column `i` of [R, n], for each. */
static GraphTensor *column(const Sampler *s, const char *part, GraphTensor *x, int64_t i)
{
  Expansion *at = s->at;
  GraphTensor *one = expand_slice(at, part, x, 1, i, i + 1);
  return for_each(s, part, one, x, NUMBER_F32);
}

/* e^((value - largest) / temperature), 0 of what top_k leaves out. */
static GraphTensor *weight_of(const Sampler *s, GraphTensor *value, GraphTensor *peak, GraphTensor *inside)
{
  Expansion *at = s->at;
  GraphTensor *below = expand(at, ONNX_Sub, "distance", value, peak);
  if (s->temperature)
    below =
        expand(at, ONNX_Div, "divided", below, for_each(s, "temperature", s->temperature, value, NUMBER_F32));
  below = expand_where(s->at, "level", expand(at, ONNX_Equal, "equal", value, peak), f32(s, 0), below);
  GraphTensor *weight = expand(at, ONNX_Exp, "weight", below, NULL);
  return inside ? expand_where(s->at, "weight", inside, weight, f32(s, 0)) : weight;
}

/* Of places (s32) those among the first top_k; NULL: all are. */
static GraphTensor *among_first(const Sampler *s, GraphTensor *rank)
{
  if (!s->top_k) return NULL;
  GraphTensor *k = for_each(s, "top_k", s->top_k, rank, NUMBER_S64);
  GraphTensor *below = expand(s->at, ONNX_Less, "below", expand_cast(s->at, "wide", rank, NUMBER_S64), k);
  return expand(s->at, ONNX_Or, "inside", below, expand(s->at, ONNX_LessOrEqual, "open", k, s64(s, 0)));
}

static GraphTensor *row_sum(const Sampler *s, const char *part, GraphTensor *x)
{
  return x ? expand_reduce(s->at, ONNX_ReduceSum, part, x, 1u << 1) : NULL;
}

/* The last place in front of which weights add up to less than `bound`, for each: bit by bit, the highest first. A scan would be a kernel
 * of its own, sums over the row are phases of one. */
static GraphTensor *last_below(const Sampler *s, GraphTensor *weight, GraphTensor *rank, GraphTensor *bound,
                               int64_t n)
{
  Expansion *at = s->at;
  int64_t bit = 1;
  while (bit * 2 < n)
    bit *= 2;
  GraphTensor *last = expand(at, ONNX_Min, "last", rank, expand_number_s32(at, "none", 0));
  for (; bit && !expand_failed(at); bit /= 2) {
    GraphTensor *next = expand(at, ONNX_Add, "next", last, expand_number_s32(at, "bit", (int32_t)bit));
    GraphTensor *front = expand(at, ONNX_Less, "front", rank, next);
    GraphTensor *sum = row_sum(s, "sum", expand_where(at, "in_front", front, weight, f32(s, 0)));
    last = expand_where(at, "last", expand(at, ONNX_Less, "below", sum, bound), next, last);
  }
  return last;
}

/* Which candidates are left: the first always, of the others the first top_k, and of these those that weights in front of them do
 * not add up to top_p of all of. NULL: all are. */
static GraphTensor *left_of(const Sampler *s, GraphTensor *values, int64_t n)
{
  Expansion *at = s->at;
  if (!s->top_k && !s->top_p) return NULL;
  GraphTensor *rank = index_along(s, "rank", values, 1);
  GraphTensor *first = expand(at, ONNX_Equal, "first", rank, expand_number_s32(at, "none", 0));
  GraphTensor *inside = among_first(s, rank), *left = inside;
  if (s->top_p) {
    GraphTensor *peak = column(s, "peak", values, 0), *p = for_each(s, "top_p", s->top_p, values, NUMBER_F32);
    GraphTensor *weight = weight_of(s, values, peak, inside);
    GraphTensor *all = row_sum(s, "all", weight);
    GraphTensor *last = last_below(s, weight, rank, expand(at, ONNX_Mul, "bound", all, p), n);
    left = expand(at, ONNX_Or, "nucleus", expand(at, ONNX_LessOrEqual, "before", rank, last),
                  expand(at, ONNX_GreaterOrEqual, "whole", p, f32(s, 1)));
    if (inside) left = expand(at, ONNX_And, "nucleus", left, among_first(s, rank));
  }
  return expand(at, ONNX_Or, "left", first, left);
}

/* Of the candidates, s64 [R, 1]. */
static GraphTensor *draw_candidate(const Sampler *s, int64_t n)
{
  GraphTensor *tokens = NULL, *values = candidates_of(s, n, &tokens);
  if (expand_failed(s->at) || n == 1) return expand_cast(s->at, "token", tokens, NUMBER_S64);
  GraphTensor *score = score_of(s, values, expand_cast(s->at, "token", tokens, NUMBER_S64)),
              *left = left_of(s, values, n);
  if (left) score = expand_where(s->at, "left", left, score, f32(s, -INFINITY));
  /* a Gather would be one more kernel behind the row's */
  GraphTensor *rank = expand_cast(s->at, "rank", index_along(s, "rank", values, 1), NUMBER_S64),
              *best = arg_max(s, "rank", score);
  GraphTensor *drawn = expand_where(s->at, "drawn", expand(s->at, ONNX_Equal, "is_best", rank, best), tokens,
                                    expand_number_s32(s->at, "none", -1));
  return expand_cast(s->at, "drawn", expand_reduce(s->at, ONNX_ReduceMax, "drawn", drawn, 1u << 1),
                     NUMBER_S64);
}

/* ---- whole rows ---- */

/* The least logits that top_k and top_p leave, as place_of() has them but from 0 on, s64 [R, 1], and the largest one; NULL: all are left. */
typedef struct Limits {
  GraphTensor *of_k, *of_p, *peak;
} Limits;

/* Rows in parts, [R, parts, width], in f32. */
typedef struct Passes {
  const Sampler *s;
  int64_t parts;
  GraphTensor *once;
} Passes;

/* Numbers of s32 that rise as f32 does; both zeros are one. */
static GraphTensor *place_of(const Sampler *s, GraphTensor *x)
{
  Expansion *at = s->at;
  GraphTensor *bits =
      expand_node(at, &(ExpandNode){ONNX_BitCast, "bits", 1, {x}, .attributes = {{"to", NUMBER_S32}}});
  return expand_where(at, "place", expand(at, ONNX_Less, "negative", bits, expand_number_s32(at, "none", 0)),
                      expand(at, ONNX_Sub, "below", expand_number_s32(at, "least", INT32_MIN), bits), bits);
}

/* Of a limit, which counts from 0 on (s64), the place for each of x. */
static GraphTensor *limit_of(const Sampler *s, GraphTensor *limit, const GraphTensor *x)
{
  Expansion *at = s->at;
  limit = expand_cast(at, "limit", expand(at, ONNX_Sub, "limit", limit, s64(s, 0x1p31)), NUMBER_S32);
  return for_each(s, "limit", limit, x, NUMBER_S32);
}

static GraphTensor *reaches(const Sampler *s, GraphTensor *x, GraphTensor *limit)
{
  return expand(s->at, ONNX_GreaterOrEqual, "inside", place_of(s, x), limit_of(s, limit, x));
}

/* What an element counts: one, where weights are not asked for; 0 of what top_k leaves out. */
static GraphTensor *count_of(const Sampler *s, GraphTensor *x, const Limits *limits)
{
  if (!limits) return f32(s, 1);
  GraphTensor *inside = limits->of_k ? reaches(s, x, limits->of_k) : NULL;
  return weight_of(s, x, for_each(s, "peak", limits->peak, x, NUMBER_F32), inside);
}

static GraphTensor *over_parts(const Sampler *s, OperatorId op, const char *part, GraphTensor *of_parts)
{
  return expand_reduce(s->at, op, part, of_parts, 1u << 1);
}

/* What is above a limit, over whole rows: [R, 1]. */
static GraphTensor *sum_above(const Passes *passes, GraphTensor *place, GraphTensor *limit,
                              GraphTensor *count)
{
  const Sampler *s = passes->s;
  Expansion *at = s->at;
  GraphTensor *above = expand(at, ONNX_Greater, "above", place, limit);
  GraphTensor *sums = expand_reduce_away(at, ONNX_ReduceSum, "sums",
                                         expand_where(at, "counted", above, count, f32(s, 0)), 1u << 2);
  return passes->parts == 1 ? sums : over_parts(s, ONNX_ReduceSum, "sum", sums);
}

/* The least place above which there is less than `bound` (f32 [R, 1]). NaN among them: 0. limits: NULL: elements are counted. The sums of a pass, one
 * for each value of its digit but the last, are reductions of one kernel, which computes an element's weight once. */
static GraphTensor *find_limit(const Passes *passes, const Limits *limits, GraphTensor *bound)
{
  const Sampler *s = passes->s;
  Expansion *at = s->at;
  GraphTensor *x = passes->once, *found = NULL, *place = place_of(s, x), *count = count_of(s, x, limits);
  NumberType type = s->rows->type;
  unsigned unused = type == NUMBER_BF16 ? 16 : type == NUMBER_F16 ? 13 : 0;
  for (unsigned shift = WORD; shift > unused && !expand_failed(at);) {
    GraphTensor *digit = NULL;
    unsigned bits = MIN(DIGIT_BITS, shift - unused);
    shift -= bits;
    for (int64_t value = 0; value + 1 < 1 << bits && !expand_failed(at); value++) {
      int64_t last = ((value + 1) << shift) - 1;
      GraphTensor *limit = found ? limit_of(s, expand(at, ONNX_Add, "limit", found, s64(s, (double)last)), x)
                                 : expand_number_s32(at, "limit", last + INT32_MIN);
      GraphTensor *enough =
          expand(at, ONNX_GreaterOrEqual, "enough", sum_above(passes, place, limit, count), bound);
      enough = expand_cast(at, "enough", enough, NUMBER_S32);
      digit = digit ? expand(at, ONNX_Add, "digit", digit, enough) : enough;
    }
    digit = expand(at, ONNX_Mul, "digit", expand_cast(at, "digit", digit, NUMBER_S64),
                   s64(s, (double)(INT64_C(1) << shift)));
    found = found ? expand(at, ONNX_Add, "found", found, digit) : digit;
  }
  return found;
}

/* A bound that is never reached where `open` holds. */
static GraphTensor *bound_of(const Sampler *s, GraphTensor *open, GraphTensor *bound)
{
  return expand_where(s->at, "bound", open, f32(s, INFINITY), bound);
}

static void find_limits(const Sampler *s, Limits *limits)
{
  Expansion *at = s->at;
  int64_t parts = parts_of(s, 1), width = s->columns / parts;
  Passes passes = {.s = s, .parts = parts};
  passes.once = expand_cast(at, "wide", shaped(s, "parts", s->rows, parts, width), NUMBER_F32);
  limits->peak = over_parts(s, ONNX_ReduceMax, "peak",
                            expand_reduce_away(at, ONNX_ReduceMax, "peaks", passes.once, 1u << 2));
  if (s->top_k) {
    GraphTensor *k = expand_cast(at, "k", s->top_k, NUMBER_F32);
    GraphTensor *bound = bound_of(s, expand(at, ONNX_LessOrEqual, "open", k, f32(s, 0)), k);
    limits->of_k = find_limit(&passes, NULL, bound);
  }
  if (!s->top_p || expand_failed(at)) return;
  GraphTensor *all = over_parts(
      s, ONNX_ReduceSum, "all",
      expand_reduce_away(at, ONNX_ReduceSum, "weights", count_of(s, passes.once, limits), 1u << 2));
  GraphTensor *p = for_each(s, "top_p", s->top_p, all, NUMBER_F32);
  GraphTensor *bound = bound_of(s, expand(at, ONNX_GreaterOrEqual, "open", p, f32(s, 1)),
                                expand(at, ONNX_Mul, "share", all, p));
  limits->of_p = find_limit(&passes, limits, bound);
}

/* Which elements are left: those that no limit is above, the largest always, and what is no number. NULL: all are. */
static GraphTensor *left_of_rows(const Sampler *s, const Limits *limits, GraphTensor *x)
{
  Expansion *at = s->at;
  if (!limits->of_k && !limits->of_p) return NULL;
  GraphTensor *left = limits->of_k ? reaches(s, x, limits->of_k) : NULL;
  if (limits->of_p) {
    GraphTensor *nucleus = reaches(s, x, limits->of_p);
    left = left ? expand(at, ONNX_And, "left", left, nucleus) : nucleus;
  }
  GraphTensor *first = expand(at, ONNX_Equal, "first", x, for_each(s, "peak", limits->peak, x, NUMBER_F32));
  GraphTensor *none = expand(at, ONNX_IsNaN, "nan", x, NULL);
  return expand(at, ONNX_Or, "left", left, expand(at, ONNX_Or, "always", first, none));
}

/* Of all of a row, s64 [R, 1]. */
static GraphTensor *draw(const Sampler *s, const Limits *limits)
{
  Expansion *at = s->at;
  int64_t parts = s->columns ? parts_of(s, 1) : 1, width = s->columns / parts;
  GraphTensor *x = parts > 1 ? shaped(s, "parts", s->rows, parts, width) : s->rows;
  GraphTensor *token = index_along(s, "place", x, parts > 1 ? 2 : 1);
  if (parts > 1)
    token = expand(
        at, ONNX_Add, "token", token,
        expand(at, ONNX_Mul, "begin", index_along(s, "part", x, 1), expand_number_s32(at, "width", width)));
  GraphTensor *wide = expand_cast(at, "wide", x, NUMBER_F32),
              *score = score_of(s, wide, expand_cast(at, "token", token, NUMBER_S64)),
              *left = left_of_rows(s, limits, wide);
  if (left) score = expand_where(at, "left", left, score, f32(s, -INFINITY));
  if (parts == 1) return arg_max(s, "drawn", score);
  GraphTensor *best = expand_reduce_away(at, ONNX_ReduceMax, "best", score, 1u << 2);
  GraphTensor *place = shaped(s, "places", arg_max(s, "place", score), parts, 0),
              *part = arg_max(s, "of_parts", best);
  GraphTensor *begin = expand(at, ONNX_Mul, "begin", part, s64(s, (double)width));
  return expand(at, ONNX_Add, "drawn", gather(s, "place", place, part), begin);
}

void expand_sample(Expansion *at)
{
  Sampler s = {.at = at};
  if (!read_inputs(&s)) return;
  int64_t n = graph_attribute(expand_written(at), "candidates")->integer;
  bool given = graph_attribute(expand_written(at), "candidates")->given;
  if (given && n < 0) {
    expand_refuse_attribute(at, ERROR_INPUT, "candidates", "0 is whole rows",
                            "a row has 0 candidates (whole rows) or more, not %d", (int)n);
    return;
  }
  bool limited = s.top_k || s.top_p, whole = given && !n && s.columns != 1;
  bool some = !whole && (given || limited || s.columns == 1);
  if ((some || limited) && !s.columns) {
    expand_refuse(at, ERROR_UNSUPPORTED, 0, "shape", "bind the symbol: --dim",
                  "Sample with %s of rows whose length is a symbol is not supported: `%s`",
                  some ? "candidates" : "top_k or top_p", expand_input(at, 0)->name);
    return;
  }
  Limits limits = {NULL};
  if (whole && limited) find_limits(&s, &limits);
  if (!given) n = CANDIDATES;
  if (some) n = CLAMP(n, 1, s.columns); /* rows of one logit have one, also where whole rows are asked for */
  GraphTensor *drawn = some ? draw_candidate(&s, n) : draw(&s, &limits);
  const GraphTensor *logits = expand_input(at, 0);
  if (drawn)
    expand_give(
        at, 0, expand_reshape(at, "tokens", drawn, (const Symbolic *const *)logits->shape, logits->rank - 1));
}
