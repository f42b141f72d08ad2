/* Compression of gradients: the k elements of the largest magnitudes of a whole tensor, exactly, as 4-bit numbers with a scale for each
 * 128, and what is lost, which belongs to the next gradient.
 *
 * The k-th magnitude is found by digits, the highest one first: as bits, magnitudes of floats rise as the floats do. For each value
 * of a digit one pass over the tensor counts the elements that are not below; the digit is the last one that leaves k of them. What
 * is above the magnitude is taken, and of its equals the first ones: two masks in words, which are counted and found by halves. */
#include "generator/front/expand_rows.h"
#include "generator/front/expand_search.h"
#include <math.h>

#define DIGIT_BITS                                                                                           \
  3 /* so many thresholds, less one, that a pass counts with: more would compute longer than it loads */
#define PASS_ROW                                                                                             \
  8192 /* elements that a block counts; of other numbers what is left over is counted by itself */
#define BLOCK   128 /* values that share a scale */
#define LARGEST 7   /* of 4 bits with a sign, as far on both sides */

/* Of the bits of a magnitude. */
typedef struct Format {
  unsigned mantissa, exponent;
} Format;

static Format format_of(NumberType type)
{
  bool half = type == NUMBER_F16, brain = type == NUMBER_BF16;
  return (Format){half ? 10 : brain ? 7 : 23, half ? 5 : 8};
}

static GraphTensor *number_f32(Expansion *x, const char *part, double value)
{
  return expand_number(x, part, NUMBER_F32, value);
}

static GraphTensor *with(Expansion *x, OperatorId op, const char *part, GraphTensor *a, int64_t b)
{
  return expand(x, op, part, a, expand_number_s32(x, part, b));
}

static GraphTensor *where(Expansion *x, const char *part, GraphTensor *condition, GraphTensor *a,
                          GraphTensor *b)
{
  return expand_node(x, &(ExpandNode){ONNX_Where, part, 3, {condition, a, b}});
}

static GraphTensor *reshape(Expansion *x, const char *part, GraphTensor *of, int64_t a, int64_t b)
{
  const Symbolic *shape[] = {symbolic_constant(expand_arena(x), a), symbolic_constant(expand_arena(x), b)};
  return expand_reshape(x, part, of, shape, b ? 2 : 1);
}

static GraphTensor *magnitude(Expansion *x, GraphTensor *key)
{
  return expand(x, ONNX_Abs, "magnitude", expand_widened(x, key), NULL);
}

/* ---- the k-th magnitude ---- */

typedef struct Largest {
  Expansion *x;
  Format format;
  int64_t n, k;
  GraphTensor *key;    /* [n] */
  GraphTensor *powers; /* of 2, by the exponent's bits */
  GraphTensor *bits;   /* of the threshold so far, s32 [1] */
} Largest;

static GraphTensor *powers_of(Expansion *x, Format format)
{
  int64_t n = INT64_C(1) << format.exponent, bias = n / 2 - 1;
  g_autofree float *power = g_new(float, n);
  for (int64_t i = 0; i < n; i++)
    power[i] = ldexpf(1, (int)(MAX(i, 1) - bias));
  power[n - 1] = INFINITY;
  return expand_reshape(x, "powers_of", expand_table(x, "exponents", NUMBER_F32, 1, (size_t)n, power),
                        (const Symbolic *const[]){symbolic_constant(expand_arena(x), n)}, 1);
}

/* The float of a magnitude's bits, in f32, exactly. */
static GraphTensor *float_of(const Largest *s, GraphTensor *bits)
{
  Expansion *x = s->x;
  int64_t unit = INT64_C(1) << s->format.mantissa;
  GraphTensor *exponent = with(x, ONNX_Div, "exponent", bits, unit);
  GraphTensor *mantissa =
      expand_cast(x, "mantissa", with(x, ONNX_BitwiseAnd, "mantissa", bits, unit - 1), NUMBER_F32);
  GraphTensor *fraction =
      expand(x, ONNX_Mul, "fraction", mantissa, number_f32(x, "unit", 1.0 / (double)unit));
  GraphTensor *lead = expand_cast(
      x, "lead", expand(x, ONNX_Less, "normal", expand_number_s32(x, "none", 0), exponent), NUMBER_F32);
  return expand(x, ONNX_Mul, "threshold", expand(x, ONNX_Add, "fraction", fraction, lead),
                expand_of_each(x, "power", s->powers, exponent));
}

/* NaN is not below anything. */
static GraphTensor *not_below(Expansion *x, GraphTensor *magnitudes, GraphTensor *threshold)
{
  return expand(x, ONNX_Not, "reached", expand(x, ONNX_Less, "below", magnitudes, threshold), NULL);
}

/* How many of a part of the keys, rows of so many, reach each threshold: [thresholds]. */
static GraphTensor *count_part(const Largest *s, GraphTensor *keys, int64_t rows, int64_t columns,
                               GraphTensor *thresholds, int64_t n)
{
  Expansion *x = s->x;
  ExpandNode all = {ONNX_Concat, "counts", 0, {NULL}, .attributes = {{"axis", 0}}};
  GraphTensor *size = magnitude(x, reshape(x, "rows", keys, rows, columns)), *joined = NULL;
  for (int64_t j = 0; j < n && !expand_failed(x); j++) {
    GraphTensor *reached = expand_cast(
        x, "ones", not_below(x, size, expand_slice(x, "threshold", thresholds, 0, j, j + 1)), NUMBER_S32);
    GraphTensor *count =
        reshape(x, "count", expand_reduce_away(x, ONNX_ReduceSum, "count", reached, 1u << 1), 1, rows);
    all.inputs[all.n_inputs++] = count;
    if (all.n_inputs < EXPAND_MAX_INPUTS && j + 1 < n) continue;
    joined = all.n_inputs > 1 ? expand_node(x, &all) : count;
    all.inputs[0] = joined;
    all.n_inputs = 1;
  }
  return expand_failed(x) ? NULL : expand_reduce_away(x, ONNX_ReduceSum, "reach", joined, 1u << 1);
}

static GraphTensor *count_reaching(const Largest *s, GraphTensor *thresholds, int64_t n)
{
  int64_t row = MIN(s->n, PASS_ROW), whole = s->n / row * row;
  GraphTensor *first = whole == s->n ? s->key : expand_slice(s->x, "whole", s->key, 0, 0, whole);
  GraphTensor *count = count_part(s, first, whole / row, row, thresholds, n);
  if (whole == s->n) return count;
  GraphTensor *rest = expand_slice(s->x, "rest", s->key, 0, whole, s->n);
  return expand(s->x, ONNX_Add, "reach", count, count_part(s, rest, 1, s->n - whole, thresholds, n));
}

/* One more digit of the threshold, so many bits from the lowest on. */
static void find_digit(Largest *s, unsigned shift, unsigned width)
{
  Expansion *x = s->x;
  int64_t n = (INT64_C(1) << width) - 1, step = INT64_C(1) << shift,
          last = ((INT64_C(1) << s->format.exponent) - 1) << s->format.mantissa; /* of infinity */
  const Symbolic *count = symbolic_constant(expand_arena(x), n);
  GraphTensor *digit = with(x, ONNX_Add, "digit", expand_index(x, "digit", &count, 1, 0), 1);
  /* the largest multiples do not matter: they lie behind infinity's bits, which each digit below `limit` does not */
  GraphTensor *limit = with(x, ONNX_Div, "limit",
                            expand(x, ONNX_Sub, "limit", expand_number_s32(x, "last", last), s->bits), step);
  GraphTensor *inside = expand(x, ONNX_Min, "inside", digit, limit);
  GraphTensor *bits = expand(x, ONNX_Add, "bits", s->bits, with(x, ONNX_Mul, "more", inside, step));
  GraphTensor *reach = count_reaching(s, float_of(s, bits), n);
  GraphTensor *enough = expand(x, ONNX_LessOrEqual, "enough", expand_number_s32(x, "k", s->k), reach);
  enough = expand(x, ONNX_And, "enough", enough, expand(x, ONNX_LessOrEqual, "possible", digit, limit));
  GraphTensor *found =
      expand_reduce(x, ONNX_ReduceSum, "digits", expand_cast(x, "enough", enough, NUMBER_S32), 1u << 0);
  s->bits = expand(x, ONNX_Add, "bits", s->bits, with(x, ONNX_Mul, "found", found, step));
}

static GraphTensor *find_threshold(Largest *s)
{
  unsigned bits = s->format.mantissa + s->format.exponent, width = DIGIT_BITS + bits % DIGIT_BITS;
  int32_t zero = 0;
  s->powers = powers_of(s->x, s->format);
  s->bits = reshape(s->x, "bits", expand_table(s->x, "no_bits", NUMBER_S32, 1, 1, &zero), 1, 0);
  while (bits && !expand_failed(s->x)) {
    bits -= width;
    find_digit(s, bits, width);
    width = DIGIT_BITS;
  }
  return float_of(s, s->bits);
}

/* Elements above the threshold, and so many of its equals that there are k. */
static void select_largest(Largest *s, Selection *selection)
{
  Expansion *x = s->x;
  const Symbolic *n = symbolic_constant(expand_arena(x), s->n);
  GraphTensor *threshold = find_threshold(s), *size = magnitude(x, s->key);
  if (expand_failed(x)) return;
  Selection above, equal;
  expand_select_layout(x, n, &above);
  equal = *selection = above;
  GraphTensor *reached = not_below(x, size, threshold);
  /* of infinity and NaN, which are one magnitude, all are equals */
  GraphTensor *finite = expand(x, ONNX_Less, "finite", threshold, number_f32(x, "infinity", INFINITY));
  GraphTensor *same =
      expand(x, ONNX_And, "finite", finite,
             expand(x, ONNX_Not, "more", expand(x, ONNX_LessOrEqual, "less", size, threshold), NULL));
  expand_select_count(x, expand_select_words(x, same, &above), &above);
  expand_select_count(
      x, expand(x, ONNX_BitwiseXor, "equals", expand_select_words(x, reached, &equal), above.words), &equal);
  /* the first one that is too many, or behind all */
  GraphTensor *room = expand(x, ONNX_Sub, "room", expand_number_s32(x, "k", s->k), above.count);
  GraphTensor *next = expand_selected(x, &equal, room),
              *some = expand(x, ONNX_Less, "some", room, equal.count);
  next = where(x, "next", some, next, expand_number_s32(x, "behind", G_MAXINT32));
  GraphTensor *taken = expand_words_before(x, &equal, equal.words, next);
  expand_select_count(x, expand(x, ONNX_BitwiseOr, "taken", above.words, taken), selection);
}

/* ---- what the operators share ---- */

/* How many: `k`, or `share` of all, at least one. */
static bool read_count(Expansion *x, const GraphTensor *of, Largest *s)
{
  int64_t k = graph_attribute(expand_written(x), "k")->integer;
  double share = graph_attribute(expand_written(x), "share")->number;
  *s = (Largest){.x = x, .format = format_of(of->type), .n = 1};
  int64_t extent;
  for (unsigned d = 0; d < of->rank; d++) {
    if (!symbolic_is_constant(of->shape[d], &extent)) {
      expand_refuse(x, ERROR_UNSUPPORTED, 0, "shape", "bind the symbol: --dim",
                    "the largest magnitudes of a tensor whose extents depend on symbols: `%s`", of->name);
      return false;
    }
    s->n = extent && s->n > G_MAXINT32 / extent ? G_MAXINT64 / G_MAXINT32 : s->n * extent;
  }
  if (s->n > G_MAXINT32 || !s->n) {
    expand_refuse(x, s->n ? ERROR_UNSUPPORTED : ERROR_INPUT, 0, "shape", NULL,
                  "the largest magnitudes of %s: `%s`", s->n ? "more than 2^31 - 1 elements" : "no elements",
                  of->name);
    return false;
  }
  bool by_share = !k && share > 0 && share <= 1, by_number = k > 0 && k <= s->n && share == 0;
  if (!by_share && !by_number) {
    expand_refuse_attribute(x, ERROR_INPUT, k ? "k" : "share",
                            "`k` from 1 to the number of elements, or `share` above 0 and at most 1",
                            "%" G_GINT64_FORMAT
                            " elements and a share of %g are not to be taken of %" G_GINT64_FORMAT,
                            k, share, s->n);
    return false;
  }
  s->k = by_share ? MAX(1, MIN(s->n, (int64_t)ceil(share * (double)s->n))) : k;
  return true;
}

static GraphTensor *flat(Expansion *x, const char *part, GraphTensor *of, int64_t n)
{
  return of ? reshape(x, part, of, n, 0) : NULL;
}

static GraphTensor *places(Expansion *x, int64_t n)
{
  const Symbolic *extent = symbolic_constant(expand_arena(x), n);
  return expand_index(x, "slot", &extent, 1, 0);
}

/* ---- LargestMagnitudes ---- */

void expand_largest_magnitudes(Expansion *x)
{
  Largest s;
  Selection selection;
  if (!read_count(x, expand_input(x, 0), &s)) return;
  s.key = flat(x, "flat", expand_input(x, 0), s.n);
  select_largest(&s, &selection);
  if (expand_failed(x)) return;
  GraphTensor *index = expand_selected(x, &selection, places(x, s.k));
  expand_give(x, 0, expand_of_each(x, "values", s.key, index));
  expand_give(x, 1, index);
}

/* ---- CompressGradient ---- */

/* Numbers of 4 bits with a sign, and the scale of each BLOCK of them. */
static GraphTensor *quantize(Expansion *x, GraphTensor *values, int64_t blocks, GraphTensor **scales)
{
  GraphTensor *apart = reshape(x, "blocks", values, blocks, BLOCK);
  GraphTensor *most =
      expand_reduce(x, ONNX_ReduceMax, "most", expand(x, ONNX_Abs, "size", apart, NULL), 1u << 1);
  GraphTensor *scale = expand(x, ONNX_Mul, "scale", most, number_f32(x, "unit", 1.0 / LARGEST));
  GraphTensor *zero = number_f32(x, "zero", 0);
  GraphTensor *some = expand(x, ONNX_Less, "some", zero, scale);
  GraphTensor *units = where(x, "units", some, expand(x, ONNX_Div, "units", apart, scale), zero);
  GraphTensor *code =
      expand_node(x, &(ExpandNode){ONNX_Clip,
                                   "code",
                                   3,
                                   {expand(x, ONNX_Round, "code", units, NULL),
                                    number_f32(x, "least", -LARGEST), number_f32(x, "most", LARGEST)}});
  *scales = reshape(x, "scales", scale, blocks, 0);
  return reshape(x, "codes", expand_cast(x, "code", code, NUMBER_S32), blocks * BLOCK, 0);
}

/* Two in a byte, the first in the lower half. */
static GraphTensor *pack(Expansion *x, GraphTensor *codes, int64_t n)
{
  GraphTensor *pairs = reshape(x, "pairs", codes, n / 2, 2);
  GraphTensor *low = with(x, ONNX_BitwiseAnd, "low", expand_slice(x, "low", pairs, 1, 0, 1), 15),
              *high = with(x, ONNX_BitwiseAnd, "high", expand_slice(x, "high", pairs, 1, 1, 2), 15);
  GraphTensor *both = expand(x, ONNX_BitwiseOr, "both", low, with(x, ONNX_Mul, "high", high, 16));
  return reshape(x, "bytes", expand_cast(x, "bytes", both, NUMBER_U8), n / 2, 0);
}

void expand_compress_gradient(Expansion *x)
{
  GraphTensor *gradient = expand_input(x, 0), *lost = expand_input(x, 1), *scales = NULL;
  Largest s;
  Selection selection;
  if (lost && !graph_same_shape(gradient, lost)) {
    expand_refuse(x, ERROR_INPUT, 1, "shape", NULL, "what was lost has the gradient's shape: `%s`",
                  lost->name);
    return;
  }
  if (!read_count(x, gradient, &s)) return;
  GraphTensor *sum = expand_widened(x, flat(x, "flat", gradient, s.n));
  if (lost) sum = expand(x, ONNX_Add, "sum", sum, expand_widened(x, flat(x, "lost", lost, s.n)));
  s.key = lost ? expand_cast(x, "key", sum, gradient->type) : flat(x, "flat", gradient, s.n);
  select_largest(&s, &selection);
  if (expand_failed(x)) return;
  int64_t blocks = (s.k + BLOCK - 1) / BLOCK, slots = blocks * BLOCK;
  GraphTensor *slot = places(x, slots), *index = expand_selected(x, &selection, slot);
  GraphTensor *taken = where(x, "taken", with(x, ONNX_Less, "real", slot, s.k),
                             expand_of_each(x, "taken", sum, index), number_f32(x, "zero", 0));
  GraphTensor *codes = quantize(x, taken, blocks, &scales);
  expand_give(x, 0, expand_selected(x, &selection, places(x, s.k)));
  GraphTensor *spread =
      reshape(x, "sent",
              expand(x, ONNX_Mul, "sent",
                     expand_cast(x, "sent", reshape(x, "sent", codes, blocks, BLOCK), NUMBER_F32),
                     reshape(x, "sent_scales", scales, blocks, 1)),
              slots, 0);
  GraphTensor *element = places(x, s.n), *rank = expand_selected_before(x, &selection, element);
  GraphTensor *sent = where(x, "given", expand_is_selected(x, &selection, element),
                            expand_of_each(x, "given", spread, rank), number_f32(x, "zero", 0));
  GraphTensor *rest =
      expand_cast(x, "rest", expand(x, ONNX_Sub, "rest", sum, sent), lost ? lost->type : gradient->type);
  GraphTensor *error =
      expand_reshape(x, "error", rest, (const Symbolic *const *)gradient->shape, gradient->rank);
  expand_give(x, 1, pack(x, codes, slots));
  expand_give(x, 2, scales);
  expand_give(x, 3, error);
}

/* ---- DecompressGradient ---- */

#define PART 32 /* elements whose values are found by one search; within them few steps are left */

static bool check_parts(Expansion *x, int64_t *k, int64_t *n)
{
  const GraphAttribute *shape = graph_attribute(expand_written(x), "shape");
  GraphTensor *index = expand_input(x, 0), *codes = expand_input(x, 1), *scales = expand_input(x, 2);
  int64_t bytes, blocks;
  *n = 1;
  for (unsigned d = 0; d < shape->n; d++)
    *n = shape->integers[d] < 1 || *n > G_MAXINT32 / shape->integers[d] ? 0 : *n * shape->integers[d];
  if (!*n || shape->n > GRAPH_MAX_RANK) {
    expand_refuse_attribute(x, ERROR_INPUT, "shape", "at most eight extents of at least 1, 2^31 - 1 elements",
                            "this is no shape of a gradient");
    return false;
  }
  bool fit = index->type == NUMBER_S32 && codes->type == NUMBER_U8 && scales->type == NUMBER_F32 &&
             index->rank == 1 && codes->rank == 1 && scales->rank == 1 &&
             symbolic_is_constant(index->shape[0], k) && symbolic_is_constant(codes->shape[0], &bytes) &&
             symbolic_is_constant(scales->shape[0], &blocks) && *k > 0 &&
             blocks == (*k + BLOCK - 1) / BLOCK && bytes == blocks * BLOCK / 2;
  if (!fit)
    expand_refuse(x, ERROR_INPUT, 0, "shape",
                  "as CompressGradient gives them: s32 [k], u8 [64 ceil(k / 128)], f32 [ceil(k / 128)]",
                  "these are no indices, numbers and scales of a gradient");
  return fit;
}

void expand_decompress_gradient(Expansion *x)
{
  const GraphAttribute *shape = graph_attribute(expand_written(x), "shape"),
                       *type = graph_attribute(expand_written(x), "to");
  GraphTensor *index = expand_input(x, 0), *codes = expand_input(x, 1), *scales = expand_input(x, 2);
  Arena *arena = expand_arena(x);
  int64_t k, n;
  if (!check_parts(x, &k, &n)) return;
  const Symbolic *before = symbolic_constant(arena, k), *extents[GRAPH_MAX_RANK];
  /* how many indices stand in front of each part */
  int64_t parts = (n + PART - 1) / PART;
  GraphTensor *part = places(x, parts + 1),
              *none = expand(x, ONNX_Min, "none", part, expand_number_s32(x, "none", -1));
  const Rising all = {
      .list = index, .first = none, .last = expand_number_s32(x, "last", k - 1), .n = before, .step = 1};
  GraphTensor *start = expand_last_up_to(
      x, "start", &all, with(x, ONNX_Sub, "front", with(x, ONNX_Mul, "front", part, PART), 1));
  /* each element's own place, if it has one */
  GraphTensor *element = places(x, n), *own = with(x, ONNX_Div, "own", element, PART);
  const Rising few = {.list = index,
                      .first = expand_of_each(x, "start", start, own),
                      .last = expand_of_each(x, "end", start, with(x, ONNX_Add, "next", own, 1)),
                      .n = symbolic_constant(arena, PART),
                      .step = 1};
  GraphTensor *found = with(x, ONNX_Max, "found", expand_last_up_to(x, "found", &few, element), 0);
  GraphTensor *is = expand(x, ONNX_Equal, "is", expand_of_each(x, "is", index, found), element);
  GraphTensor *byte = expand_cast(
      x, "byte", expand_of_each(x, "byte", codes, with(x, ONNX_Div, "byte", found, 2)), NUMBER_S32);
  GraphTensor *odd = expand_cast(x, "odd", with(x, ONNX_BitwiseAnd, "odd", found, 1), NUMBER_BOOL);
  GraphTensor *code =
      where(x, "code", odd, with(x, ONNX_Div, "high", byte, 16), with(x, ONNX_BitwiseAnd, "low", byte, 15));
  code = where(x, "code", with(x, ONNX_Less, "above", code, LARGEST + 1), code,
               with(x, ONNX_Sub, "below", code, 16));
  GraphTensor *scale = expand_of_each(x, "scale", scales, with(x, ONNX_Div, "block", found, BLOCK));
  GraphTensor *value = expand(x, ONNX_Mul, "value", expand_cast(x, "value", code, NUMBER_F32), scale);
  GraphTensor *y = expand_cast(x, "gradient", where(x, "value", is, value, number_f32(x, "zero", 0)),
                               type->integer == OPERATOR_NO_TYPE ? NUMBER_F32 : (NumberType)type->integer);
  for (unsigned d = 0; d < shape->n; d++)
    extents[d] = symbolic_constant(arena, shape->integers[d]);
  expand_give(x, 0, expand_reshape(x, "whole", y, extents, shape->n));
}
