/* Compression of gradients: the k elements of the largest magnitudes of a whole tensor, exactly, as 4-bit numbers with a scale for each
 * 128, and what is lost, which belongs to the next gradient.
 *
 * The k-th magnitude is found by digits, the highest one first: as bits, magnitudes of floats rise as the floats do. Of the elements
 * that have the digits found so far the next one is counted, all its values in one pass; it is the largest one that leaves k elements not
 * below. What is above the magnitude is taken, and of its equals the first ones: both are counted in parts, so that blocks know where
 * what they take comes to. */
#include "generator/front/expand_rows.h"
#include "generator/front/expand_search.h"
#include <math.h>

#define DIGIT_MOST 11  /* bits: so many values a block counts at once */
#define BLOCK      128 /* values that share a scale */
#define LARGEST    7   /* of 4 bits with a sign, as far on both sides */

static GraphTensor *number_f32(Expansion *x, const char *part, double value)
{
  return expand_number(x, part, NUMBER_F32, value);
}

static GraphTensor *reshape(Expansion *x, const char *part, GraphTensor *of, int64_t a, int64_t b)
{
  const Symbolic *shape[] = {symbolic_constant(expand_arena(x), a), symbolic_constant(expand_arena(x), b)};
  return expand_reshape(x, part, of, shape, b ? 2 : 1);
}

/* ---- the k-th magnitude ---- */

typedef struct Largest {
  Expansion *x;
  int64_t n, k;
  GraphTensor *key;   /* [n] */
  GraphTensor *keys;  /* the same, [n, 1] */
  GraphTensor *bits;  /* of the magnitude, as far as they are found, with room for the next digit, s32 [1] */
  GraphTensor *above; /* so many elements have larger ones, s32 [1] */
} Largest;

#define SINGLE_MANTISSA 23
#define SINGLE_EXPONENT 8

/* Bits of f32's mantissa that numbers of the type leave 0. */
static unsigned unused_bits(NumberType type)
{
  return SINGLE_MANTISSA - (type == NUMBER_F16 ? 10 : type == NUMBER_BF16 ? 7 : SINGLE_MANTISSA);
}

/* One more digit of the magnitude, from bit `shift` on of so many values. Elements with other digits in front of it have no key. `next`:
 * values of the digit behind it. */
static void find_digit(Largest *s, unsigned shift, int64_t values, int64_t next)
{
  Expansion *x = s->x;
  int64_t part;
  GraphTensor *tallies = expand_tally_magnitudes(x, s->keys, s->bits, values, shift, false, &part);
  GraphTensor *count = expand_reduce_away(x, ONNX_ReduceSum, "count", tallies, 1u << 0);
  GraphTensor *reach = expand_node(x, &(ExpandNode){ONNX_CumSum,
                                                    "reach",
                                                    2,
                                                    {count, expand_number_s32(x, "axis", 0)},
                                                    .attributes = {{"exclusive", 0}, {"reverse", 1}}});
  if (s->above) reach = expand(x, ONNX_Add, "reach", reach, s->above);
  GraphTensor *enough = expand(x, ONNX_GreaterOrEqual, "enough", reach, expand_number_s32(x, "k", s->k));
  GraphTensor *found =
      expand_reduce(x, ONNX_ReduceSum, "found", expand_cast(x, "enough", enough, NUMBER_S32), 1u << 0);
  GraphTensor *more = expand_where(x, "more", enough, expand_number_s32(x, "none", 0), count);
  more = expand_reduce(x, ONNX_ReduceSum, "more", more, 1u << 0);
  found = expand_with_s32(x, ONNX_Sub, "found", found, 1);
  if (s->bits) found = expand(x, ONNX_Add, "bits", s->bits, found);
  s->bits = expand_with_s32(x, ONNX_Mul, "bits", found, next);
  s->above = s->above ? expand(x, ONNX_Add, "above", s->above, more) : more;
}

static void find_magnitude(Largest *s)
{
  unsigned unused = unused_bits(s->key->type), bits = SINGLE_EXPONENT + SINGLE_MANTISSA - unused,
           digits = (bits + DIGIT_MOST - 1) / DIGIT_MOST, width = (bits + digits - 1) / digits;
  s->keys = reshape(s->x, "keys", s->key, s->n, 1);
  for (; digits && !expand_failed(s->x); digits--) {
    bits -= width;
    unsigned next = digits > 1 ? (bits + digits - 2) / (digits - 1) : 0;
    find_digit(s, unused + bits, INT64_C(1) << width, INT64_C(1) << next);
    width = next;
  }
}

/* ---- the elements that are taken ---- */

/* In their order. */
typedef struct Taken {
  GraphTensor *place; /* of each element among them, -1: it is none, s32 [n] */
  GraphTensor *order; /* the element at each place, s32 [k] */
} Taken;

/* Elements above the magnitude, and so many of its equals that there are k. */
static void take_largest(Largest *s, Taken *taken)
{
  Expansion *x = s->x;
  find_magnitude(s);
  if (expand_failed(x)) return;
  int64_t part;
  unsigned shift = unused_bits(s->key->type);
  GraphTensor *tallies = expand_tally_magnitudes(x, s->keys, s->bits, 2, shift, true, &part);
  GraphTensor *room = expand(x, ONNX_Sub, "room", expand_number_s32(x, "k", s->k), s->above);
  GraphTensor *place =
      expand_node(x, &(ExpandNode){ONNX_PlaceMagnitudes,
                                   "places",
                                   4,
                                   {s->keys, s->bits, tallies, room},
                                   .attributes = {{"count", s->k}, {"part", part}, {"shift", shift}},
                                   .further = &taken->order,
                                   .n_further = 1});
  taken->place = reshape(x, "place", place, s->n, 0);
}

/* ---- what the operators share ---- */

/* How many: `k`, or `share` of all, at least one. */
static bool read_count(Expansion *x, const GraphTensor *of, Largest *s)
{
  int64_t k = graph_attribute(expand_written(x), "k")->integer;
  double share = graph_attribute(expand_written(x), "share")->number;
  *s = (Largest){.x = x, .n = 1};
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
  Taken taken;
  if (!read_count(x, expand_input(x, 0), &s)) return;
  s.key = flat(x, "flat", expand_input(x, 0), s.n);
  take_largest(&s, &taken);
  if (expand_failed(x)) return;
  expand_give(x, 0, expand_of_each(x, "values", s.key, taken.order));
  expand_give(x, 1, taken.order);
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
  GraphTensor *units = expand_where(x, "units", some, expand(x, ONNX_Div, "units", apart, scale), zero);
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
  GraphTensor *low = expand_with_s32(x, ONNX_BitwiseAnd, "low", expand_slice(x, "low", pairs, 1, 0, 1), 15),
              *high =
                  expand_with_s32(x, ONNX_BitwiseAnd, "high", expand_slice(x, "high", pairs, 1, 1, 2), 15);
  GraphTensor *both = expand(x, ONNX_BitwiseOr, "both", low, expand_with_s32(x, ONNX_Mul, "high", high, 16));
  return reshape(x, "bytes", expand_cast(x, "bytes", both, NUMBER_U8), n / 2, 0);
}

void expand_compress_gradient(Expansion *x)
{
  GraphTensor *gradient = expand_input(x, 0), *lost = expand_input(x, 1), *scales = NULL;
  Largest s;
  Taken chosen;
  if (lost && !graph_same_shape(gradient, lost)) {
    expand_refuse(x, ERROR_INPUT, 1, "shape", NULL, "what was lost has the gradient's shape: `%s`",
                  lost->name);
    return;
  }
  if (!read_count(x, gradient, &s)) return;
  GraphTensor *sum = expand_widened(x, flat(x, "flat", gradient, s.n));
  if (lost) sum = expand(x, ONNX_Add, "sum", sum, expand_widened(x, flat(x, "lost", lost, s.n)));
  s.key = lost ? expand_cast(x, "key", sum, gradient->type) : flat(x, "flat", gradient, s.n);
  take_largest(&s, &chosen);
  if (expand_failed(x)) return;
  int64_t blocks = (s.k + BLOCK - 1) / BLOCK, slots = blocks * BLOCK;
  GraphTensor *slot = places(x, slots),
              *index = expand_of_each(x, "index", chosen.order,
                                      expand_with_s32(x, ONNX_Min, "slot", slot, s.k - 1));
  GraphTensor *taken = expand_where(x, "taken", expand_with_s32(x, ONNX_Less, "real", slot, s.k),
                                    expand_of_each(x, "taken", sum, index), number_f32(x, "zero", 0));
  GraphTensor *codes = quantize(x, taken, blocks, &scales);
  expand_give(x, 0, chosen.order);
  GraphTensor *spread =
      reshape(x, "sent",
              expand(x, ONNX_Mul, "sent",
                     expand_cast(x, "sent", reshape(x, "sent", codes, blocks, BLOCK), NUMBER_F32),
                     reshape(x, "sent_scales", scales, blocks, 1)),
              slots, 0);
  GraphTensor *is = expand_with_s32(x, ONNX_GreaterOrEqual, "is", chosen.place, 0);
  GraphTensor *sent =
      expand_where(x, "given", is,
                   expand_of_each(x, "given", spread, expand_with_s32(x, ONNX_Max, "rank", chosen.place, 0)),
                   number_f32(x, "zero", 0));
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
      x, "start", &all,
      expand_with_s32(x, ONNX_Sub, "front", expand_with_s32(x, ONNX_Mul, "front", part, PART), 1));
  /* each element's own place, if it has one */
  GraphTensor *element = places(x, n), *own = expand_with_s32(x, ONNX_Div, "own", element, PART);
  const Rising few = {.list = index,
                      .first = expand_of_each(x, "start", start, own),
                      .last = expand_of_each(x, "end", start, expand_with_s32(x, ONNX_Add, "next", own, 1)),
                      .n = symbolic_constant(arena, PART),
                      .step = 1};
  GraphTensor *found = expand_with_s32(x, ONNX_Max, "found", expand_last_up_to(x, "found", &few, element), 0);
  GraphTensor *is = expand(x, ONNX_Equal, "is", expand_of_each(x, "is", index, found), element);
  GraphTensor *byte =
      expand_cast(x, "byte", expand_of_each(x, "byte", codes, expand_with_s32(x, ONNX_Div, "byte", found, 2)),
                  NUMBER_S32);
  GraphTensor *odd = expand_cast(x, "odd", expand_with_s32(x, ONNX_BitwiseAnd, "odd", found, 1), NUMBER_BOOL);
  GraphTensor *code = expand_where(x, "code", odd, expand_with_s32(x, ONNX_Div, "high", byte, 16),
                                   expand_with_s32(x, ONNX_BitwiseAnd, "low", byte, 15));
  code = expand_where(x, "code", expand_with_s32(x, ONNX_Less, "above", code, LARGEST + 1), code,
                      expand_with_s32(x, ONNX_Sub, "below", code, 16));
  GraphTensor *scale =
      expand_of_each(x, "scale", scales, expand_with_s32(x, ONNX_Div, "block", found, BLOCK));
  GraphTensor *value = expand(x, ONNX_Mul, "value", expand_cast(x, "value", code, NUMBER_F32), scale);
  GraphTensor *y = expand_cast(x, "gradient", expand_where(x, "value", is, value, number_f32(x, "zero", 0)),
                               type->integer == OPERATOR_NO_TYPE ? NUMBER_F32 : (NumberType)type->integer);
  for (unsigned d = 0; d < shape->n; d++)
    extents[d] = symbolic_constant(arena, shape->integers[d]);
  expand_give(x, 0, expand_reshape(x, "whole", y, extents, shape->n));
}
