/* Searches by halves, selections (a mask's bits in words of 32, counted in rows of words), and keys in order. */
#include "generator/front/expand_search.h"
#include "generator/front/expand_rows.h"

#define WORD     32   /* bits */
#define ROW_MOST 1024 /* words of a row, which a block adds up; more rows are added up by one block */

GraphTensor *expand_number_s32(Expansion *x, const char *part, int64_t value)
{
  return expand_number(x, part, NUMBER_S32, (double)value);
}

GraphTensor *expand_known_s32(Expansion *x, const char *part, const Symbolic *value)
{
  return expand_cast(x, part, expand_known(x, part, &value, 1, 0), NUMBER_S32);
}

GraphTensor *expand_with_s32(Expansion *x, OperatorId op, const char *part, GraphTensor *a, int64_t b)
{
  return expand(x, op, part, a, expand_number_s32(x, part, b));
}

GraphTensor *expand_of_each(Expansion *x, const char *part, GraphTensor *list, GraphTensor *index)
{
  return expand_node(x, &(ExpandNode){ONNX_Gather, part, 2, {list, index}, .attributes = {{"axis", 0}}});
}

bool expand_is_at_most(Expansion *x, const Symbolic *value, int64_t limit)
{
  int64_t least, most;
  symbolic_range(value, expand_facts(x), &least, &most);
  return most <= limit;
}

/* ---- by halves ---- */

static GraphTensor *element_at(Expansion *x, const char *part, const Rising *rising, GraphTensor *index)
{
  if (rising->column) {
    GraphTensor *step = expand_number(x, part, NUMBER_S64, (double)rising->step);
    index = expand(x, ONNX_Mul, part, expand_cast(x, part, index, NUMBER_S64), step);
    index = expand(x, ONNX_Add, part, index, rising->column);
  }
  return expand_of_each(x, part, rising->list, index);
}

GraphTensor *expand_last_up_to(Expansion *x, const char *part, const Rising *rising, GraphTensor *target)
{
  int64_t least, most, bit = 1;
  symbolic_range(rising->n, expand_facts(x), &least, &most);
  while (bit <= most / 2)
    bit *= 2;
  GraphTensor *found = rising->first;
  for (; bit && most > 0; bit /= 2) {
    GraphTensor *step = expand_number_s32(x, part, rising->column ? bit : bit * rising->step);
    GraphTensor *more = expand(x, ONNX_Min, part, expand(x, ONNX_Add, part, found, step), rising->last);
    GraphTensor *under = expand(x, ONNX_LessOrEqual, part, element_at(x, part, rising, more), target);
    found = expand_where(x, part, under, more, found);
  }
  return found;
}

/* ---- words ---- */

/* Bits come from the left with the sign: masks behind it take them away. */
static GraphTensor *shift(Expansion *x, const char *part, GraphTensor *a, GraphTensor *by, const char *where)
{
  return expand_node(
      x, &(ExpandNode){ONNX_BitShift, part, 2, {a, by}, .attributes = {{"direction", .text = where}}});
}

static GraphTensor *right(Expansion *x, const char *part, GraphTensor *a, int64_t by)
{
  return shift(x, part, a, expand_number_s32(x, part, by), "RIGHT");
}

/* Bits of each word: of pairs, of fours, of bytes, of all. */
static GraphTensor *count_bits(Expansion *x, GraphTensor *word)
{
  static const char *const part = "bits";
  GraphTensor *pairs = expand(x, ONNX_Sub, part, word,
                              expand_with_s32(x, ONNX_BitwiseAnd, part, right(x, part, word, 1), 0x55555555));
  GraphTensor *fours =
      expand(x, ONNX_Add, part, expand_with_s32(x, ONNX_BitwiseAnd, part, pairs, 0x33333333),
             expand_with_s32(x, ONNX_BitwiseAnd, part, right(x, part, pairs, 2), 0x33333333));
  GraphTensor *bytes = expand_with_s32(
      x, ONNX_BitwiseAnd, part, expand(x, ONNX_Add, part, fours, right(x, part, fours, 4)), 0x0f0f0f0f);
  return right(x, part, expand_with_s32(x, ONNX_Mul, part, bytes, 0x01010101), WORD - 8);
}

/* The place in the word of the bit in front of which `rank` others are set. */
static GraphTensor *find_bit(Expansion *x, GraphTensor *word, GraphTensor *rank)
{
  GraphTensor *place = NULL;
  for (int64_t half = WORD / 2; half; half /= 2) {
    GraphTensor *below =
        count_bits(x, expand_with_s32(x, ONNX_BitwiseAnd, "half", word, (INT64_C(1) << half) - 1));
    GraphTensor *upper = expand(x, ONNX_GreaterOrEqual, "upper", rank, below);
    GraphTensor *step = expand_node(
        x, &(ExpandNode){ONNX_Where,
                         "step",
                         3,
                         {upper, expand_number_s32(x, "step", half), expand_number_s32(x, "stay", 0)}});
    place = place ? expand(x, ONNX_Add, "place", place, step) : step;
    if (half == 1) break;
    rank = expand_where(x, "rank", upper, expand(x, ONNX_Sub, "rank", rank, below), rank);
    word = expand_where(x, "half", upper, right(x, "half", word, half), word);
  }
  return place;
}

/* ---- selections ---- */

/* x [have] with zeros behind up to `want` elements. */
static GraphTensor *padded(Expansion *x, const char *part, GraphTensor *list, int64_t have, int64_t want)
{
  if (have == want) return list;
  int64_t pads[2] = {0, want - have};
  return expand_node(x, &(ExpandNode){ONNX_Pad, part, 2, {list, expand_integers(x, "pads", pads, 2)}});
}

/* The mask as numbers, as many as words have bits: how many more that is, is known or follows from a symbol. */
static GraphTensor *fill_words(Expansion *x, GraphTensor *mask, const Selection *s, const Symbolic *words)
{
  Arena *arena = expand_arena(x);
  const Symbolic *bits = symbolic_mul(arena, words, symbolic_constant(arena, WORD));
  int64_t have, want;
  GraphTensor *ones = expand_cast(x, "ones", mask, NUMBER_S32);
  if (symbolic_is_constant(s->n, &have) && symbolic_is_constant(bits, &want))
    return padded(x, "ones", ones, have, want);
  GraphTensor *index = expand_index(x, "bit", &bits, 1, 0), *n = expand_known_s32(x, "n", s->n);
  GraphTensor *inside = expand(x, ONNX_Less, "inside", index, n);
  return expand(x, ONNX_Mul, "ones", expand_cast(x, "ones", inside, NUMBER_S32),
                expand_of_each(x, "ones", ones, index));
}

/* The table's name is its own: a graph that is read again with a symbol bound takes other steps, and has it too. */
static GraphTensor *make_words(Expansion *x, GraphTensor *mask, const Selection *s, const Symbolic *words)
{
  Arena *arena = expand_arena(x);
  int32_t bits[WORD];
  int64_t have, want;
  for (unsigned i = 0; i < WORD; i++)
    bits[i] = (int32_t)(1u << i);
  const Symbolic *shape[] = {words, symbolic_constant(arena, WORD)},
                 *all = symbolic_mul(arena, s->rows, symbolic_constant(arena, s->row));
  GraphTensor *apart = expand_reshape(x, "apart", fill_words(x, mask, s, words), shape, 2);
  GraphTensor *value =
      expand(x, ONNX_Mul, "value", apart, expand_table(x, "powers", NUMBER_S32, 1, WORD, bits));
  GraphTensor *made = expand_reduce_away(x, ONNX_ReduceSum, "words", value, 1u << 1);
  bool known = symbolic_is_constant(words, &have) && symbolic_is_constant(all, &want);
  return known ? padded(x, "words", made, have, want) : made;
}

static void select_layout(Expansion *x, const Symbolic *n, Selection *s)
{
  Arena *arena = expand_arena(x);
  int64_t least, most;
  symbolic_range(n, expand_facts(x), &least, &most);
  *s = (Selection){.n = n, .row = 1};
  while (s->row < ROW_MOST && s->row * WORD < most)
    s->row *= 2;
  const Symbolic *words = symbolic_ceil_div(arena, n, symbolic_constant(arena, WORD));
  s->rows = infer_larger(expand_graph(x), symbolic_ceil_div(arena, words, symbolic_constant(arena, s->row)),
                         symbolic_constant(arena, 1));
}

static GraphTensor *select_words(Expansion *x, GraphTensor *mask, const Selection *s)
{
  Arena *arena = expand_arena(x);
  int64_t known;
  const Symbolic *words = symbolic_ceil_div(arena, s->n, symbolic_constant(arena, WORD)),
                 *all = symbolic_mul(arena, s->rows, symbolic_constant(arena, s->row));
  /* of an open number all rows are filled up at once */
  return make_words(x, mask, s, symbolic_is_constant(words, &known) && known ? words : all);
}

static void select_count(Expansion *x, GraphTensor *words, Selection *s)
{
  Arena *arena = expand_arena(x);
  const Symbolic *row = symbolic_constant(arena, s->row), *all = symbolic_mul(arena, s->rows, row),
                 *shape[] = {s->rows, row};
  s->words = words;
  GraphTensor *counts = expand_reshape(x, "counts", count_bits(x, words), shape, 2);
  GraphTensor *axis = expand_number_s32(x, "axis", 1);
  s->before = expand_reshape(
      x, "before",
      expand_node(x,
                  &(ExpandNode){ONNX_CumSum, "before", 2, {counts, axis}, .attributes = {{"exclusive", 1}}}),
      &all, 1);
  GraphTensor *totals = expand_reduce_away(x, ONNX_ReduceSum, "totals", counts, 1u << 1);
  s->count = expand_reduce_away(x, ONNX_ReduceSum, "count", totals, 1u << 0);
  if (symbolic_equals(s->rows, 1)) return;
  s->begin = expand_node(x, &(ExpandNode){ONNX_CumSum,
                                          "begin",
                                          2,
                                          {totals, expand_number_s32(x, "axis", 0)},
                                          .attributes = {{"exclusive", 1}}});
}

void expand_select(Expansion *x, GraphTensor *mask, const Symbolic *n, Selection *s)
{
  select_layout(x, n, s);
  select_count(x, select_words(x, mask, s), s);
}

GraphTensor *expand_selected(Expansion *x, const Selection *s, GraphTensor *place)
{
  Arena *arena = expand_arena(x);
  GraphTensor *zero = expand_number_s32(x, "zero", 0), *first = expand(x, ONNX_Min, "first", place, zero);
  GraphTensor *last = expand_number_s32(x, "last", s->row - 1);
  if (s->begin) {
    const Symbolic *others = symbolic_sub(arena, s->rows, symbolic_constant(arena, 1));
    const Rising rows = {.list = s->begin,
                         .first = first,
                         .last = expand_known_s32(x, "last", others),
                         .n = others,
                         .step = 1};
    GraphTensor *row = expand_last_up_to(x, "row", &rows, place);
    place = expand(x, ONNX_Sub, "within", place, expand_of_each(x, "begin", s->begin, row));
    first = expand_with_s32(x, ONNX_Mul, "first", row, s->row);
    last = expand(x, ONNX_Add, "last", first, last);
  }
  const Rising words = {
      .list = s->before, .first = first, .last = last, .n = symbolic_constant(arena, s->row - 1), .step = 1};
  GraphTensor *word = expand_last_up_to(x, "word", &words, place);
  GraphTensor *rank = expand(x, ONNX_Sub, "rank", place, expand_of_each(x, "before", s->before, word));
  GraphTensor *bit = find_bit(x, expand_of_each(x, "bits", s->words, word), rank);
  return expand(x, ONNX_Add, "selected", expand_with_s32(x, ONNX_Mul, "selected", word, WORD), bit);
}

/* ---- keys in order ---- */

/* A kernel counts keys as it goes: one block all of them or, of more, several, after another kernel has counted those of each
 * part. */
#define ALONE_MOST    8192 /* keys: two rounds of a block, for which there is a launch less; */
#define ALONE_MANY    2048 /* of more bins than that: 8192 of 1024 took 34 us, 200000 by parts 21 */
#define ALONE_BINS    512
#define COUNTED_LEAST 2048      /* keys of a part: each block reads what all parts count */
#define PARTS_MOST    128       /* so there are not many more of them; */
#define PARTS_READ    512       /* of magnitudes, whose counts another kernel adds up */
#define LIKELY_MOST   (1 << 19) /* keys, where nothing is known of them */

static int64_t part_of_keys(Expansion *x, const Symbolic *n, int64_t parts)
{
  int64_t least, most, known, part = COUNTED_LEAST;
  symbolic_range(n, expand_facts(x), &least, &most);
  if (!symbolic_is_constant(n, &known)) most = MIN(most, LIKELY_MOST);
  while (most / part > parts)
    part *= 2;
  return part;
}

GraphTensor *expand_tally_keys(Expansion *x, GraphTensor *keys, const Symbolic *n, int64_t bins,
                               int64_t *part)
{
  *part = part_of_keys(x, n, PARTS_MOST);
  return expand_node(
      x, &(ExpandNode){
             ONNX_TallyKeys, "tallies", 1, {keys}, .attributes = {{"experts", bins}, {"part", *part}}});
}

GraphTensor *expand_tally_magnitudes(Expansion *x, GraphTensor *keys, GraphTensor *base, int64_t bins,
                                     unsigned shift, bool above, int64_t *part)
{
  *part = part_of_keys(x, keys->shape[0], PARTS_READ);
  return expand_node(
      x,
      &(ExpandNode){ONNX_TallyMagnitudes,
                    "tallies",
                    2,
                    {keys, base},
                    .attributes = {{"experts", bins}, {"part", *part}, {"shift", shift}, {"above", above}}});
}

GraphTensor *expand_place_keys(Expansion *x, GraphTensor *keys, const Symbolic *n, int64_t bins,
                               int64_t align, GraphTensor **further, unsigned n_further)
{
  int64_t part = part_of_keys(x, n, PARTS_MOST);
  GraphTensor *tallies = expand_is_at_most(x, n, bins > ALONE_BINS ? ALONE_MANY : ALONE_MOST)
                             ? NULL
                             : expand_tally_keys(x, keys, n, bins, &part);
  return expand_node(x, &(ExpandNode){ONNX_PlaceKeys,
                                      "places",
                                      tallies ? 2 : 1,
                                      {keys, tallies},
                                      .attributes = {{"align", align}, {"experts", bins}, {"part", part}},
                                      .further = further,
                                      .n_further = n_further});
}
