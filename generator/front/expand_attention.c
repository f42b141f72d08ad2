/* Attention as nodes: heads are views, a group of heads that shares keys and values is a dimension that these do not have,
 * so that nothing is repeated.
 *
 *   scores  = scale Q K^T             [B, Hkv, G, rows, keys], or without G where each head has keys of its own
 *   capped  = softcap tanh(scores / softcap)
 *   leant   = capped + slope of the head * (key - row), in f32 (ALiBi: Press et al., 2022)
 *   biased  = leant + mask, or -infinity where a truth value, the diagonal, a window or a length says so
 *   weights = Softmax(biased)         rows that see nothing: 0
 *   Y       = weights V
 *
 * A tree hides keys that the rows brought along and that are no ancestors of a row; where it is given as truth values these become bits first.
 *
 * Operands of e4m3 are widened, which changes nothing of them, and weights may be rounded to e4m3 too: attention's kernel multiplies all of
 * them as they are, where the GPU has such products. Their scales multiply scores and the result.
 *
 * A sink is a score of each head that rows see beside those of keys, and that has no value: with s = ln sum e^biased, weights are e^s / (e^s + e^sink)
 * of what they were without it, so Y is multiplied by that. */
#include "generator/front/expand_scores.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS, SINK, FIRST, SLOPES, TREE, Q_SCALE, K_SCALE, V_SCALE };
enum { Y, PRESENT_KEY, PRESENT_VALUE, SCORES, SUMS };
typedef enum { SHOW_PRODUCT, SHOW_CAPPED, SHOW_BIASED, SHOW_WEIGHTS } Shown; /* qk_matmul_output_mode */

typedef struct {
  Expansion *x;
  ExpandScores scores; /* keys: with those of the cache */
  const GraphNode *node;
  bool flat;       /* operands are [batch, rows, heads * size] */
  NumberType type; /* in which operands are multiplied as nodes: theirs, or of e4m3 that of the result */
  const Symbolic *keys, *depth, *width;
  const Symbolic *past; /* keys of the cache */
  GraphTensor *shown;   /* what qk_matmul_output is */
  GraphTensor *precise; /* what the softmax is of */
  GraphTensor *sums;    /* ln sum e^precise of each row, in f32; NULL: nobody needs them */
} Attention;

static const Symbolic *number(const Attention *at, int64_t value)
{
  return symbolic_constant(expand_arena(at->x), value);
}

static int64_t integer(const Attention *at, const char *name)
{
  const GraphAttribute *attribute = graph_attribute_find(at->node, name);
  return attribute ? attribute->integer : -1;
}

/* ---- shapes ---- */

/* Something that two inputs have in common. */
static void expect(Attention *at, unsigned input, const char *what, const Symbolic *have,
                   const Symbolic *want)
{
  if (expand_failed(at->x) || expand_same(at->x, have, want)) return;
  g_autofree char *is = symbolic_text(have), *should = symbolic_text(want);
  expand_refuse(at->x, ERROR_INPUT, input, "shape", NULL, "Attention needs `%s` to have %s %s, not %s",
                expand_input(at->x, input)->name, should, what, is);
}

static void check_ranks(Attention *at)
{
  const GraphTensor *q = expand_input(at->x, Q);
  at->flat = q->rank == 3;
  for (unsigned i = Q; i <= V; i++) {
    const GraphTensor *tensor = expand_input(at->x, i);
    if (tensor->rank == q->rank && (q->rank == 3 || q->rank == 4)) continue;
    expand_refuse(
        at->x, ERROR_INPUT, i, "rank",
        "[batch, heads, rows, size], or [batch, rows, heads * size] with `q_num_heads` and `kv_num_heads`",
        "Q, K and V of Attention have 3 or 4 dimensions, all alike: `%s` has %u", tensor->name, tensor->rank);
    return;
  }
}

/* Heads of one of the operands by the attribute; of four dimensions it may repeat what they say, until opset 25 forbids it. */
static const Symbolic *heads_of(Attention *at, unsigned input, const char *name)
{
  const GraphAttribute *given = graph_attribute(at->node, name);
  const Symbolic *heads = at->flat ? number(at, given->integer) : expand_input(at->x, input)->shape[1];
  if (at->flat && !given->given)
    expand_refuse(at->x, ERROR_INPUT, G_MAXUINT, "missing-attribute", NULL,
                  "Attention of three dimensions needs the attribute `%s`", name);
  else if (at->flat && given->integer < 1)
    expand_refuse_attribute(at->x, ERROR_INPUT, name, NULL,
                            "`%s` is a number of heads, not %" G_GINT64_FORMAT, name, given->integer);
  else if (!at->flat && given->given &&
           (at->node->op->since >= 25 || !symbolic_equals(heads, given->integer)))
    expand_refuse_attribute(at->x, ERROR_INPUT, name, "leave it out: the second dimension says it",
                            "`%s` is for operands of three dimensions", name);
  return heads;
}

/* Elements of a head. */
static const Symbolic *size_of(Attention *at, unsigned input, const Symbolic *heads)
{
  const GraphTensor *tensor = expand_input(at->x, input);
  int64_t n = 1;
  if (!at->flat) return tensor->shape[3];
  symbolic_is_constant(heads, &n);
  if (expand_failed(at->x)) return NULL;
  if (symbolic_divisible(tensor->shape[2], n, expand_facts(at->x)))
    return symbolic_binary(expand_arena(at->x), SYMBOLIC_DIV, tensor->shape[2], heads);
  g_autofree char *have = symbolic_text(tensor->shape[2]);
  expand_refuse(
      at->x, ERROR_INPUT, input, "shape",
      symbolic_is_constant(tensor->shape[2], NULL) ? NULL : "declare under `dims` what it is a multiple of",
      "the last dimension of `%s`, %s, does not divide into %" G_GINT64_FORMAT " heads", tensor->name, have,
      n);
  return NULL;
}

static void read_shapes(Attention *at)
{
  const GraphTensor *q = expand_input(at->x, Q), *k = expand_input(at->x, K), *v = expand_input(at->x, V);
  check_ranks(at);
  if (expand_failed(at->x)) return;
  unsigned rows = at->flat ? 1 : 2;
  at->scores.batch = q->shape[0];
  at->scores.rows = q->shape[rows];
  at->keys = k->shape[rows];
  at->scores.q_heads = heads_of(at, Q, "q_num_heads");
  at->scores.kv_heads = heads_of(at, K, "kv_num_heads");
  at->depth = size_of(at, Q, at->scores.q_heads);
  const Symbolic *depth = size_of(at, K, at->scores.kv_heads);
  at->width = size_of(at, V, at->scores.kv_heads);
  if (expand_failed(at->x)) return;
  expect(at, K, "batches", k->shape[0], at->scores.batch);
  expect(at, V, "batches", v->shape[0], at->scores.batch);
  expect(at, K, "elements a head", depth, at->depth);
  expect(at, V, "keys", v->shape[rows], at->keys);
  if (!at->flat) expect(at, V, "heads", v->shape[1], at->scores.kv_heads);
  if (!expand_failed(at->x)) expand_scores_group(&at->scores, K);
}

static void check_past(Attention *at, unsigned input, const Symbolic *size)
{
  const GraphTensor *past = expand_input(at->x, input);
  if (!past || expand_failed(at->x)) return;
  if (past->rank != 4) {
    expand_refuse(at->x, ERROR_INPUT, input, "rank", NULL,
                  "a cache is [batch, heads, keys, size]: `%s` has %u dimensions", past->name, past->rank);
    return;
  }
  expect(at, input, "batches", past->shape[0], at->scores.batch);
  expect(at, input, "heads", past->shape[1], at->scores.kv_heads);
  expect(at, input, "elements a head", past->shape[3], size);
  if (at->past) expect(at, input, "keys", past->shape[2], at->past);
  at->past = past->shape[2];
}

/* A cache goes in and out in pairs, and not beside lengths. */
static void read_cache(Attention *at)
{
  const GraphTensor *key = expand_input(at->x, PAST_KEY), *value = expand_input(at->x, PAST_VALUE),
                    *lengths = expand_input(at->x, LENGTHS);
  bool presents = expand_has_output(at->x, PRESENT_KEY);
  if (expand_failed(at->x)) return;
  if (!key != !value || (at->node->op->since >= 25 && presents != expand_has_output(at->x, PRESENT_VALUE)))
    expand_refuse(at->x, ERROR_INPUT, key ? PAST_KEY : PAST_VALUE, "missing-input", NULL,
                  "Attention takes past_key with past_value, and gives present_key with present_value");
  if (lengths && (key || presents))
    expand_refuse(at->x, ERROR_INPUT, LENGTHS, "extra-input", NULL,
                  "nonpad_kv_seqlen is for a cache that is all of K and V: not beside past or present ones");
  check_past(at, PAST_KEY, at->depth);
  check_past(at, PAST_VALUE, at->width);
  const GraphTensor *first = expand_input(at->x, FIRST);
  if (first &&
      (key || presents || first->rank != 1 || (first->type != NUMBER_S64 && first->type != NUMBER_S32)))
    expand_refuse(
        at->x, ERROR_INPUT, FIRST, key || presents ? "extra-input" : "shape", NULL,
        "where rows stand is one integer for each batch, of a cache that is all of K and V: not `%s`",
        first->name);
  else if (first)
    expect(at, FIRST, "elements", first->shape[0], at->scores.batch);
  if (lengths && lengths->rank != 1)
    expand_refuse(at->x, ERROR_INPUT, LENGTHS, "rank", NULL,
                  "lengths are one for each batch: `%s` has rank %u", lengths->name, lengths->rank);
  else if (lengths)
    expect(at, LENGTHS, "elements", lengths->shape[0], at->scores.batch);
  at->scores.keys = at->past ? symbolic_add(expand_arena(at->x), at->past, at->keys) : at->keys;
}

/* ---- heads ---- */

static bool is_narrow(const Attention *at)
{
  return expand_input(at->x, Q)->type == NUMBER_E4M3;
}

/* In the type that operands are multiplied in. */
static GraphTensor *widened(Attention *at, const char *part, GraphTensor *tensor)
{
  return is_narrow(at) ? expand_cast(at->x, part, tensor, at->type) : tensor;
}

/* [batch, heads, keys, size], behind the cache. */
static GraphTensor *keys_of(Attention *at, unsigned input, const char *part, GraphTensor *tensor,
                            const Symbolic *size)
{
  unsigned cache = input == K ? PAST_KEY : PAST_VALUE;
  if (at->flat) {
    tensor = expand_reshape(at->x, part, tensor,
                            (const Symbolic *[]){at->scores.batch, at->keys, at->scores.kv_heads, size}, 4);
    tensor = expand_transpose(at->x, part, tensor, (int64_t[]){0, 2, 1, 3});
  }
  if (!at->past) return tensor;
  return expand_node(at->x, &(ExpandNode){ONNX_Concat,
                                          input == K ? "keys" : "values",
                                          2,
                                          {expand_input(at->x, cache), tensor},
                                          .attributes = {{"axis", 2}}});
}

/* The same as they are multiplied; `keys`: as they are. */
static GraphTensor *multiplied(Attention *at, unsigned input, const char *part, GraphTensor *keys,
                               const Symbolic *size)
{
  if (!is_narrow(at) || at->past || expand_failed(at->x)) return widened(at, part, keys);
  return keys_of(at, input, part, widened(at, part, expand_input(at->x, input)), size);
}

static GraphTensor *queries(Attention *at)
{
  GraphTensor *q = widened(at, "q", expand_input(at->x, Q));
  if (at->flat && at->scores.grouped) {
    const Symbolic *shape[] = {at->scores.batch, at->scores.rows, at->scores.kv_heads, at->scores.group,
                               at->depth};
    return expand_transpose(at->x, "q", expand_reshape(at->x, "q", q, shape, 5), (int64_t[]){0, 2, 3, 1, 4});
  }
  if (at->flat) {
    const Symbolic *shape[] = {at->scores.batch, at->scores.rows, at->scores.q_heads, at->depth};
    return expand_transpose(at->x, "q", expand_reshape(at->x, "q", q, shape, 4), (int64_t[]){0, 2, 1, 3});
  }
  return expand_scores_split(&at->scores, "q", q, at->depth);
}

static GraphTensor *result(Attention *at, GraphTensor *tensor)
{
  if (!at->flat) return expand_scores_merge(&at->scores, "y", tensor, at->width);
  tensor = expand_transpose(at->x, "heads", tensor,
                            at->scores.grouped ? (int64_t[]){0, 3, 1, 2, 4} : (int64_t[]){0, 2, 1, 3});
  const Symbolic *columns = symbolic_mul(expand_arena(at->x), at->scores.q_heads, at->width);
  return expand_reshape(at->x, "y", tensor, (const Symbolic *[]){at->scores.batch, at->scores.rows, columns},
                        3);
}

/* ---- scores ---- */

static double scale_of(const Attention *at)
{
  const GraphAttribute *given = graph_attribute(at->node, "scale");
  int64_t depth = 1;
  symbolic_is_constant(at->depth, &depth);
  return given->given ? given->number : 1 / sqrt((double)depth);
}

/* The factor of scores goes behind what leans them if nothing between wants it: it costs nothing there. */
static bool scales_last(const Attention *at)
{
  return expand_input(at->x, SLOPES) && !expand_wants(at->x, SCORES) && scale_of(at) > 0 &&
         graph_attribute(at->node, "softcap")->number == 0;
}

static GraphTensor *product(Attention *at, GraphTensor *q, GraphTensor *k)
{
  if (expand_failed(at->x)) return NULL;
  if (!graph_attribute(at->node, "scale")->given && !symbolic_is_constant(at->depth, NULL))
    expand_refuse(at->x, ERROR_UNSUPPORTED, Q, "shape",
                  "give the attribute `scale`, or bind the symbol: --dim",
                  "heads of symbolic size without the attribute `scale` are not supported");
  double scale = scales_last(at) ? 1 : scale_of(at);
  return expand_node(
      at->x, &(ExpandNode){ONNX_MatMul, "scores", 2, {q, k}, .attributes = {{"alpha", .number = scale}}});
}

static GraphTensor *capped(Attention *at, GraphTensor *scores)
{
  double most = graph_attribute(at->node, "softcap")->number;
  if (most < 0 || isnan(most))
    expand_refuse_attribute(at->x, ERROR_INPUT, "softcap", "0: none", "`softcap` is not negative");
  if (most == 0 || expand_failed(at->x)) return scores;
  GraphTensor *angle;
  return expand_scores_capped(&at->scores, scores, most, &angle);
}

/* One number for each head, or one for all, beside scores: in f32, `behind` dimensions in front of their last. Of keys and values: one
 * for each head of theirs. */
static GraphTensor *of_heads(Attention *at, unsigned input, const char *what, unsigned behind)
{
  GraphTensor *tensor = expand_input(at->x, input);
  bool keys = input == K_SCALE || input == V_SCALE;
  const Symbolic *heads = keys ? at->scores.kv_heads : at->scores.q_heads;
  if (tensor->rank > 1 || (tensor->rank == 1 && !symbolic_same(tensor->shape[0], heads))) {
    expand_refuse(at->x, ERROR_INPUT, input, "shape", NULL,
                  "a %s is one number for each head of %s, or one number: not `%s`", what,
                  keys ? "keys" : "queries", tensor->name);
    return NULL;
  }
  if (!tensor->rank) return expand_cast(at->x, what, tensor, NUMBER_F32);
  const Symbolic *shape[4];
  unsigned n = 0;
  shape[n++] = at->scores.grouped ? at->scores.kv_heads : at->scores.q_heads;
  if (at->scores.grouped) shape[n++] = keys ? number(at, 1) : at->scores.group;
  while (behind--)
    shape[n++] = number(at, 1);
  return expand_cast(at->x, what, expand_reshape(at->x, what, tensor, shape, n), NUMBER_F32);
}

/* By the scales of what was multiplied; in f32 where there are some. */
static GraphTensor *scaled(Attention *at, const char *part, GraphTensor *tensor, unsigned first,
                           unsigned last)
{
  GraphTensor *scale = NULL;
  for (unsigned i = first; i <= last && !expand_failed(at->x); i++) {
    if (!expand_input(at->x, i)) continue;
    GraphTensor *more = of_heads(at, i, "scale", 2);
    scale = scale ? expand(at->x, ONNX_Mul, "scale", scale, more) : more;
  }
  if (!scale || expand_failed(at->x)) return tensor;
  return expand(at->x, ONNX_Mul, part, expand_cast(at->x, part, tensor, NUMBER_F32), scale);
}

/* An index of scores. */
static GraphTensor *place(Attention *at, const char *part, GraphTensor *scores, int64_t axis)
{
  return expand_node(at->x,
                     &(ExpandNode){ONNX_IndexAlong, part, 1, {scores}, .attributes = {{"axis", axis}}});
}

/* Adds (or subtracts) to an index in s64 where the first row stands among the keys: behind a cache, or so that the last row stands at the
 * last key. */
static GraphTensor *moved(Attention *at, GraphTensor *index, OperatorId by, OperatorId back)
{
  const char part[] = "stands";
  GraphTensor *first = expand_input(at->x, FIRST), *lengths = expand_input(at->x, LENGTHS);
  index = expand_cast(at->x, part, index, NUMBER_S64);
  if (at->past) return expand(at->x, by, part, index, expand_known(at->x, part, &at->past, 1, 0));
  if (!first && !lengths) return index;
  const Symbolic *one = number(at, 1), *shape[] = {at->scores.batch, one, one, one, one};
  GraphTensor *front =
      expand_reshape(at->x, part, first ? first : lengths, shape, at->scores.grouped ? 5 : 4);
  if (expand_failed(at->x)) return NULL;
  index = expand(at->x, by, part, expand_cast(at->x, part, index, front->type), front);
  index = expand_cast(at->x, part, index, NUMBER_S64);
  return first ? index : expand(at->x, back, part, index, expand_known(at->x, part, &at->scores.rows, 1, 0));
}

/* Scores that lean by head, by a bias of which nothing is written. Distances are exact up to 2^24. */
static GraphTensor *leant(Attention *at, GraphTensor *scores)
{
  if (!expand_input(at->x, SLOPES) || expand_failed(at->x)) return scores;
  const char part[] = "lean";
  GraphTensor *slopes = of_heads(at, SLOPES, "slope", 2);
  GraphTensor *scale = expand_number(at->x, "scale", NUMBER_F32, scale_of(at));
  GraphTensor *row = moved(at, place(at, "row", scores, -2), ONNX_Add, ONNX_Sub);
  GraphTensor *key = expand_cast(at->x, "key", place(at, "key", scores, -1), NUMBER_F32);
  row = expand_cast(at->x, "row", row, NUMBER_F32);
  if (scales_last(at)) {
    GraphTensor *inverse = expand_number(at->x, "inverse", NUMBER_F32, 1 / scale_of(at));
    slopes = expand(at->x, ONNX_Mul, "slope", slopes, inverse);
  }
  GraphTensor *bias = expand(at->x, ONNX_Mul, part, expand(at->x, ONNX_Sub, "distance", key, row), slopes);
  scores = expand(at->x, ONNX_Add, part, expand_cast(at->x, "wide", scores, NUMBER_F32), bias);
  return scales_last(at) ? expand(at->x, ONNX_Mul, part, scores, scale) : scores;
}

/* ---- masks ---- */

#define WORD_BITS  32
#define MOST_WORDS 8 /* of a row of a tree */

/* Truth values of up to 32 columns as the bits of a number. */
static GraphTensor *packed(Attention *at, GraphTensor *values, int64_t columns)
{
  int32_t bits[WORD_BITS];
  int64_t axis = -1;
  for (unsigned i = 0; i < WORD_BITS; i++)
    bits[i] = (int32_t)(1u << i);
  GraphTensor *table = expand_table(at->x, "bits", NUMBER_S32, 1, (size_t)columns, bits),
              *zero = expand_number(at->x, "zero", NUMBER_S32, 0);
  GraphTensor *kept = expand_where(at->x, "bits", values, table, zero);
  return expand_node(
      at->x, &(ExpandNode){ONNX_ReduceSum, "word", 2, {kept, expand_integers(at->x, "axis", &axis, 1)}});
}

/* Word i of each row's bits, beside scores. */
static GraphTensor *word_of(Attention *at, unsigned i, int64_t columns)
{
  GraphTensor *tree = expand_input(at->x, TREE);
  bool truth = tree->type == NUMBER_BOOL;
  int64_t width = truth ? WORD_BITS : 1, from = i * width, to = MIN(columns, from + width);
  GraphTensor *word = columns > width ? expand_slice(at->x, "word", tree, -1, from, to) : tree;
  if (truth) word = packed(at, word, to - from);
  const Symbolic *one = number(at, 1), *shape[] = {tree->shape[0], one, one, at->scores.rows, one};
  if (!at->scores.grouped) shape[2] = at->scores.rows, shape[3] = one;
  return expand_reshape(at->x, "word", word, shape, at->scores.grouped ? 5 : 4);
}

/* Columns of the tree, or -1, which was reported. */
static int64_t check_tree(Attention *at)
{
  const GraphTensor *tree = expand_input(at->x, TREE);
  bool truth = tree->type == NUMBER_BOOL, fits = tree->rank == 3 && (truth || tree->type == NUMBER_S32);
  int64_t columns = 0, most = truth ? MOST_WORDS * WORD_BITS : MOST_WORDS;
  if (expand_failed(at->x)) return -1;
  if (fits) fits = symbolic_equals(tree->shape[0], 1) || expand_same(at->x, tree->shape[0], at->scores.batch);
  if (fits) fits = expand_same(at->x, tree->shape[1], at->scores.rows);
  if (fits) fits = symbolic_is_constant(tree->shape[2], &columns);
  if (fits && truth) fits = expand_same(at->x, tree->shape[2], at->scores.rows);
  if (!fits)
    expand_refuse(at->x, ERROR_INPUT, TREE, "shape", NULL,
                  "a tree is bool [batch or 1, rows, rows] of a known number of rows, or s32 [batch or 1, "
                  "rows, words] of 32 bits each: not `%s`",
                  tree->name);
  else if (columns > most)
    expand_refuse(at->x, ERROR_UNSUPPORTED, TREE, "shape", NULL,
                  "a tree of more than %d rows is not supported", MOST_WORDS * WORD_BITS);
  return expand_failed(at->x) ? -1 : columns;
}

/* Keys that rows have brought along are seen where the tree says so, those in front all the same. */
static GraphTensor *branched(Attention *at, GraphTensor *scores)
{
  const char part[] = "tree";
  if (!expand_input(at->x, TREE) || expand_failed(at->x)) return scores;
  int64_t columns = check_tree(at);
  if (columns < 0) return NULL;
  int64_t words =
      expand_input(at->x, TREE)->type == NUMBER_BOOL ? (columns + WORD_BITS - 1) / WORD_BITS : columns;
  GraphTensor *own = moved(at, place(at, part, scores, -1), ONNX_Sub, ONNX_Add), *word = NULL;
  own = expand_cast(at->x, part, own, NUMBER_S32);
  for (int64_t i = words; i-- > 0;) { /* the last one first: of keys in front of it others are taken */
    GraphTensor *of = word_of(at, (unsigned)i, columns);
    GraphTensor *end = expand_number(at->x, part, NUMBER_S32, (double)(WORD_BITS * (i + 1)));
    GraphTensor *within = expand(at->x, ONNX_Less, part, own, end);
    GraphTensor *rest = word ? word : expand_number(at->x, part, NUMBER_S32, 0);
    word = expand_where(at->x, part, within, of, rest);
  }
  if (!word) word = expand_number(at->x, part, NUMBER_S32, 0);
  GraphTensor *place =
      expand(at->x, ONNX_BitwiseAnd, part, own, expand_number(at->x, part, NUMBER_S32, WORD_BITS - 1));
  GraphTensor *bit = expand_node(
      at->x,
      &(ExpandNode){ONNX_BitShift, part, 2, {word, place}, .attributes = {{"direction", .text = "RIGHT"}}});
  bit = expand(at->x, ONNX_BitwiseAnd, part, bit, expand_number(at->x, part, NUMBER_S32, 1));
  GraphTensor *front = expand(at->x, ONNX_Less, part, own, expand_number(at->x, part, NUMBER_S32, 0));
  GraphTensor *seen = expand(at->x, ONNX_Or, part, front, expand_cast(at->x, part, bit, NUMBER_BOOL));
  GraphTensor *hidden =
      expand_number(at->x, "hidden", expand_failed(at->x) ? NUMBER_F32 : scores->type, -INFINITY);
  return expand_where(at->x, part, seen, scores, hidden);
}

/* Keys that the mask's last dimension lacks are hidden, since opset 24. */
static GraphTensor *lengthened(Attention *at, GraphTensor *mask)
{
  int64_t have, all;
  bool known =
      symbolic_is_constant(mask->shape[mask->rank - 1], &have) && symbolic_is_constant(at->scores.keys, &all);
  if (at->node->op->since < 24 || !known || have >= all) return mask;
  g_autofree int64_t *pads = g_new0(int64_t, 2 * mask->rank);
  pads[2 * mask->rank - 1] = all - have;
  GraphTensor *fill =
      mask->type == NUMBER_BOOL ? NULL : expand_number(at->x, "hidden", mask->type, -INFINITY);
  return expand_node(at->x, &(ExpandNode){ONNX_Pad,
                                          "mask",
                                          fill ? 3 : 2,
                                          {mask, expand_integers(at->x, "pads", pads, 2 * mask->rank), fill},
                                          .attributes = {{"mode", .text = "constant"}}});
}

/* The same of a mask of one key where nothing says how many keys there are. */
static GraphTensor *first_key_only(Attention *at, GraphTensor *scores)
{
  const char part[] = "mask";
  GraphTensor *key = place(at, part, scores, -1);
  if (expand_failed(at->x)) return NULL;
  GraphTensor *seen = expand(at->x, ONNX_Less, part, key, expand_number(at->x, part, key->type, 1));
  return expand_where(at->x, part, seen, scores, expand_number(at->x, "hidden", scores->type, -INFINITY));
}

static GraphTensor *masked(Attention *at, GraphTensor *scores)
{
  GraphTensor *mask = expand_input(at->x, MASK);
  int64_t keys;
  if (!mask || expand_failed(at->x)) return scores;
  if (mask->rank) mask = lengthened(at, mask);
  if (!expand_scores_fit(&at->scores, MASK, mask)) return NULL;
  bool one = at->node->op->since >= 24 && symbolic_equals(mask->shape[mask->rank - 1], 1) &&
             !symbolic_is_constant(at->scores.keys, &keys);
  scores = expand_scores_masked(&at->scores, scores, mask);
  return one ? first_key_only(at, scores) : scores;
}

static GraphTensor *bound(Attention *at, const char *part, bool binds, int64_t distance)
{
  if (!binds || expand_failed(at->x)) return NULL;
  GraphTensor *first = expand_input(at->x, FIRST);
  distance =
      CLAMP(distance, G_MININT32 / 2, G_MAXINT32 / 2); /* of keys: more is without end, and is added to */
  if (first && !distance) return first;
  if (first)
    return expand(at->x, ONNX_Add, part, expand_cast(at->x, part, first, NUMBER_S64),
                  expand_number(at->x, part, NUMBER_S64, (double)distance));
  const Symbolic *value = number(at, distance);
  if (at->past) value = symbolic_add(expand_arena(at->x), value, at->past);
  return expand_known(at->x, part, &value, 1, 0);
}

/* The diagonal, windows beside it and lengths. Keys count from where the cache begins; where lengths are given, the last
 * row stands at the last key, unless it is given where the first one stands. */
static GraphTensor *banded(Attention *at, GraphTensor *scores)
{
  GraphTensor *lengths = expand_input(at->x, LENGTHS);
  int64_t left = integer(at, "left_window_size"), right = integer(at, "right_window_size");
  expand_scores_windows(at->x, G_MAXINT64);
  if (integer(at, "is_causal")) right = 0;
  if (!lengths && left < 0 && right < 0) return scores;
  bool end = lengths && !expand_input(at->x, FIRST);
  GraphTensor *lower = bound(at, "first_key", left >= 0, -left),
              *upper = bound(at, "last_key", right >= 0, right);
  return expand_node(at->x, &(ExpandNode){ONNX_Mask,
                                          "banded",
                                          4,
                                          {scores, lower, upper, lengths},
                                          .attributes = {{"diagonal", .text = end ? "end" : "begin"}}});
}

/* A mask, a length or a window that begins behind the last key may leave nothing to see. */
static bool may_see_nothing(const Attention *at)
{
  const Symbolic *rows =
      at->past ? symbolic_add(expand_arena(at->x), at->scores.rows, at->past) : at->scores.rows;
  return expand_input(at->x, MASK) || expand_input(at->x, LENGTHS) || expand_input(at->x, FIRST) ||
         expand_input(at->x, TREE) ||
         (integer(at, "left_window_size") >= 0 && !symbolic_same(rows, at->scores.keys));
}

static bool needs_sums(const Attention *at)
{
  return expand_wants(at->x, SUMS) || expand_input(at->x, SINK);
}

static GraphTensor *weights(Attention *at, GraphTensor *scores)
{
  int64_t asked = integer(at, "softmax_precision");
  if (expand_failed(at->x)) return NULL;
  bool floats = asked == OPERATOR_NO_TYPE ||
                (number_class((NumberType)asked) == NUMBER_FLOAT && number_bits((NumberType)asked) >= 16);
  if (!floats)
    expand_refuse_attribute(at->x, ERROR_INPUT, "softmax_precision", "one of f32, f16, bf16, f64",
                            "a softmax is not computed in %s", number_name((NumberType)asked));
  NumberType type = scores ? scores->type : NUMBER_F32, compute = asked != OPERATOR_NO_TYPE
                                                                      ? (NumberType)asked
                                                                  : needs_sums(at) ? NUMBER_F32
                                                                                   : type;
  at->precise = expand_cast(at->x, "precise", scores, compute);
  GraphTensor *rows = expand_node(
      at->x, &(ExpandNode){ONNX_Softmax,
                           "weights",
                           1,
                           {at->precise},
                           .attributes = {{"axis", -1},
                                          {"masked_rows", .text = may_see_nothing(at) ? "zero" : "nan"},
                                          {"weights", .text = is_narrow(at) ? "e4m3" : "own"}}});
  return expand_cast(at->x, "weights", rows, at->type);
}

/* ---- the whole ---- */

static void check_types(Attention *at)
{
  const GraphTensor *q = expand_input(at->x, Q);
  for (unsigned i = is_narrow(at) ? K : V; i <= V; i++) { /* else the product refuses keys of another type */
    const GraphTensor *other = expand_input(at->x, i);
    if (q->type == other->type) continue;
    expand_refuse(at->x, ERROR_UNSUPPORTED, i, "unsupported-type", "insert a Cast",
                  "%s of another type than queries are not supported: `%s` is %s, `%s` %s",
                  i == K ? "keys" : "values", other->name, number_name(other->type), q->name,
                  number_name(q->type));
    return;
  }
}

/* The type in which operands are multiplied, and what operands of e4m3 have beside them. */
static void read_types(Attention *at)
{
  const GraphAttribute *asked = graph_attribute_find(at->node, "output_dtype");
  bool narrow = is_narrow(at), says = asked && asked->integer != OPERATOR_NO_TYPE;
  at->type = !narrow ? expand_input(at->x, Q)->type : says ? (NumberType)asked->integer : NUMBER_BF16;
  if (says && (!narrow || (at->type != NUMBER_BF16 && at->type != NUMBER_F16)))
    expand_refuse_attribute(at->x, ERROR_INPUT, "output_dtype", "bf16, f16; of other operands it is theirs",
                            "`output_dtype` is the type of the result of operands of e4m3");
  for (unsigned i = Q_SCALE; i <= V_SCALE && !narrow; i++)
    if (expand_input(at->x, i))
      expand_refuse(at->x, ERROR_INPUT, i, "extra-input", NULL, "scales are of operands of e4m3: not `%s`",
                    expand_input(at->x, i)->name);
}

/* qk_matmul_output_mode says which of the steps it is. */
static GraphTensor *show(Attention *at, Shown step, GraphTensor *tensor)
{
  if (integer(at, "qk_matmul_output_mode") == step) at->shown = tensor;
  return tensor;
}

static void check_shown(Attention *at)
{
  int64_t mode = integer(at, "qk_matmul_output_mode");
  if (mode < SHOW_PRODUCT || mode > SHOW_WEIGHTS)
    expand_refuse_attribute(at->x, ERROR_INPUT, "qk_matmul_output_mode",
                            "0: the product, 1: behind softcap, 2: with the mask, 3: behind the softmax",
                            "there is no mode %" G_GINT64_FORMAT, mode);
}

/* [batch, heads, rows], of groups if there are some; kept: a last dimension of 1 behind. */
static GraphTensor *log_sums(Attention *at, int64_t kept)
{
  int64_t last = -1;
  GraphTensor *sums =
      expand_node(at->x, &(ExpandNode){ONNX_ReduceLogSumExp,
                                       "log_sum_exp",
                                       2,
                                       {at->precise, expand_integers(at->x, "keys", &last, 1)},
                                       .attributes = {{"keepdims", kept}}});
  return expand_cast(at->x, "sums", sums, NUMBER_F32);
}

/* Sums with the sink: of a small and a large number, too. */
static GraphTensor *sums_sunk(Attention *at, GraphTensor *sink, GraphTensor *above)
{
  Expansion *x = at->x;
  GraphTensor *less = expand(x, ONNX_Neg, "less", expand(x, ONNX_Abs, "apart", above, NULL), NULL);
  return expand(x, ONNX_Add, "sums", expand(x, ONNX_Max, "most", at->sums, sink),
                expand(x, ONNX_Softplus, "more", less, NULL));
}

/* The result beside a sink, which the sums then have too. All of it lies over rows, so that the attention's kernel may compute it. A sink of
 * -infinity is none: where sums are so too, their difference is to be a number. */
static GraphTensor *sunk(Attention *at, GraphTensor *y, GraphTensor *sink)
{
  if (!sink || expand_failed(at->x)) return y;
  at->sums = log_sums(at, 1);
  GraphTensor *finite =
      expand(at->x, ONNX_Max, "finite", at->sums, expand_number(at->x, "least", NUMBER_F32, -FLT_MAX));
  GraphTensor *above = expand(at->x, ONNX_Sub, "above", finite, sink),
              *share = expand(at->x, ONNX_Sigmoid, "share", above, NULL);
  if (expand_wants(at->x, SUMS)) at->sums = sums_sunk(at, sink, above);
  if (expand_failed(at->x)) return NULL;
  GraphTensor *wide = expand(at->x, ONNX_Mul, "shared", expand_cast(at->x, "wide", y, NUMBER_F32), share);
  return expand_cast(at->x, "shared", wide, y->type);
}

void expand_attention(Expansion *x)
{
  Attention attention = {.x = x, .scores = {.x = x}, .node = expand_written(x)}, *at = &attention;
  check_types(at);
  read_types(at);
  check_shown(at);
  if (!expand_failed(x)) read_shapes(at);
  read_cache(at);
  if (expand_failed(x)) return;
  GraphTensor *keys = keys_of(at, K, "k", expand_input(x, K), at->depth),
              *values = keys_of(at, V, "v", expand_input(x, V), at->width);
  GraphTensor *k = multiplied(at, K, "k", keys, at->depth), *v = multiplied(at, V, "v", values, at->width);
  k = expand_scores_turned(&at->scores, "kt", expand_scores_shared(&at->scores, "k", k));
  GraphTensor *scores =
      show(at, SHOW_PRODUCT, scaled(at, "scaled", product(at, queries(at), k), Q_SCALE, K_SCALE));
  scores = show(at, SHOW_CAPPED, capped(at, scores));
  scores = show(at, SHOW_BIASED, banded(at, branched(at, masked(at, leant(at, scores)))));
  scores = show(at, SHOW_WEIGHTS, weights(at, scores));
  GraphTensor *sink = expand_input(x, SINK) && !expand_failed(x) ? of_heads(at, SINK, "sink", 2) : NULL;
  const GraphAttribute *sums = graph_attribute_find(at->node, "accumulate");
  bool says = sums && strcmp(sums->text, "default") != 0;
  GraphTensor *y = expand_node(
      x, &(ExpandNode){ONNX_MatMul,
                       "product",
                       2,
                       {scores, expand_scores_shared(&at->scores, "v", v)},
                       .attributes = {{says ? "accumulate" : NULL, .text = says ? sums->text : NULL}}});
  y = scaled(at, "scaled", sunk(at, y, sink), V_SCALE, V_SCALE);
  y = result(at, expand_cast(x, "y", y, at->type));
  if (expand_wants(x, SUMS) && !at->sums) at->sums = log_sums(at, 0);
  if (expand_wants(x, SUMS) && (at->scores.grouped || sink))
    at->sums = expand_reshape(x, "sums", at->sums,
                              (const Symbolic *[]){at->scores.batch, at->scores.q_heads, at->scores.rows}, 3);
  if (expand_wants(x, SUMS)) expand_give(x, SUMS, at->sums);
  if (expand_wants(x, SCORES))
    expand_give(x, SCORES,
                expand_scores_merge(&at->scores, "shown", expand_cast(x, "shown", at->shown, at->type),
                                    at->scores.keys));
  expand_give(x, PRESENT_KEY, keys);
  expand_give(x, PRESENT_VALUE, values);
  expand_give(x, Y, y);
}
