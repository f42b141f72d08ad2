/* The places of a row's largest elements, and of some more: few elements of a long row are put in order, and nothing but a
 * comparison is done with the others.
 *
 * A row is a warp's, whose lanes have groups of its elements. As many groups as elements are wanted have maxima of at least some
 * number, a level, which is found by halving between the least and the largest maximum: so many elements are at least that
 * level. Each lane has a bit for each of its elements, set where it is; places of set bits are moved together in shared memory.
 * Where more are set than there is room for, levels are halved further until they fit; where they do not even at the wanted
 * element itself, all above it are taken, and of those equal to it the first, by halving of places.
 *
 * Levels are integers that rise with numbers. NaN is above all of them: less a level it is a NaN, whose sign is that of numbers
 * from the level on. */
#include "ir/lower/lower.h"
#include "ir/sorting.h"

#define WORD_BITS 32
#define MAX_WORDS 4
#define SIGN      0x80000000ll
#define SIZE      0x7fffffffll
/* Groups may be more by this part of what is wanted: a level that is as good is found sooner. */
#define LOOSE_PART 8
/* Levels that are tried before ends are moved to elements, which costs as much as to try one. */
#define EARLY_TURNS 2

typedef struct {
  unsigned shift, bits,
      unit; /* of an element's number in its lane; elements by which one of the part moves */
} Part;

typedef struct {
  Lower *lower;
  IrOp *op;
  unsigned n, words, keep, room;
  IrExpr **x;     /* by their columns */
  unsigned *at;   /* columns of the first lane's */
  IrExpr *column; /* of the lane's first */
  IrExpr *list;   /* address of the row's places in shared memory */
  int64_t offset;
  unsigned n_parts;
  Part part[WORD_BITS]; /* lowest first */
  /* variables: */
  IrExpr *low, *high, *level, *start, *total;
  IrExpr *word[MAX_WORDS]; /* bits of elements, the first one's highest */
} Pick;

static IrExpr *number(const Pick *pick, IrOpcode code, IrExpr *a, IrExpr *b)
{
  return lower_value(pick->lower, code, ir_scalar(NUMBER_S32), "n", 2, a, b);
}

static IrExpr *bits(const Pick *pick, IrOpcode code, IrExpr *a, IrExpr *b)
{
  return lower_value(pick->lower, code, ir_scalar(NUMBER_U32), "bits", 2, a, b);
}

static IrExpr *test(const Pick *pick, IrOpcode code, IrExpr *a, IrExpr *b)
{
  return lower_value(pick->lower, code, ir_predicate(), "test", 2, a, b);
}

static IrExpr *either(const Pick *pick, NumberType type, IrExpr *taken, IrExpr *a, IrExpr *b)
{
  return lower_value(pick->lower, OP_SELECT, ir_scalar(type), "either", 3, taken, a, b);
}

static IrExpr *cast_bits(const Pick *pick, NumberType type, IrExpr *x)
{
  return lower_value(pick->lower, OP_BITCAST, ir_scalar(type), "bits", 1, x);
}

static IrExpr *constant(const Pick *pick, int64_t value)
{
  return lower_int(pick->lower, value);
}

static IrExpr *variable(const Pick *pick, const char *name, NumberType type, IrExpr *initial)
{
  return ir_value(pick->lower->module, lower_variable(pick->lower, name, ir_scalar(type), initial));
}

static IrExpr *shuffled(const Pick *pick, IrExpr *x, const char *mode, unsigned lane)
{
  Lower *lower = pick->lower;
  IrExpr *other =
      lower_value(lower, OP_SHUFFLE, ir_scalar(NUMBER_S32), "other", 2, x, lower_int(lower, lane));
  ir_attribute_set(other->value->def, ATTR_MODE, ir_name(lower->module, mode));
  return other;
}

/* Of all lanes' numbers, in each of them. */
static IrExpr *combined(const Pick *pick, IrOpcode code, IrExpr *x)
{
  for (unsigned lanes = 1; lanes < SORTING_LANES; lanes *= 2)
    x = number(pick, code, x, shuffled(pick, x, "xor", lanes));
  return x;
}

static IrOp *open_loop(const Pick *pick)
{
  IrOp *loop = lower_emit(pick->lower, OP_LOOP, 0);
  lower_scope_open(pick->lower, loop, ir_region_add(loop), false);
  return loop;
}

static void leave_if(const Pick *pick, IrExpr *done)
{
  lower_emit(pick->lower, OP_BREAK_IF, 1, done);
}

/* Elements in order, asked for one by one. Pairs of 16 bits are widened again from their word, so that a thread need not keep them as
 * f32. */
typedef struct {
  const Pick *pick;
  IrExpr *second; /* of a pair whose first was the last one */
} Walk;

static IrExpr *element(Walk *walk, unsigned i)
{
  const Pick *pick = walk->pick;
  IrExpr *second = walk->second;
  NumberType type = NUMBER_F32;
  walk->second = NULL;
  if (second) return second;
  IrExpr *word = i + 1 < pick->n && i % 2 == 0 ? lower_halves_of(pick->x[i], pick->x[i + 1], &type) : NULL;
  if (!word) return pick->x[i];
  IrOp *unpack = lower_emit(pick->lower, OP_UNPACK, 1, word);
  IrExpr *half[2];
  for (unsigned h = 0; h < 2; h++)
    half[h] = lower_result(pick->lower, unpack, "half", ir_scalar(type));
  walk->second = lower_value(pick->lower, OP_CAST, ir_scalar(NUMBER_F32), "x", 1, half[1]);
  return lower_value(pick->lower, OP_CAST, ir_scalar(NUMBER_F32), "x", 1, half[0]);
}

/* ---- Levels ---- */

/* What `order_rank` of templates/operators.ir gives: -0 is 0. */
static IrExpr *level_of(const Pick *pick, IrExpr *x)
{
  IrExpr *plain = lower_value(pick->lower, OP_ADD, ir_scalar(NUMBER_F32), "plain", 2, x,
                              lower_constant(pick->lower, NUMBER_F32, 0));
  IrExpr *all = cast_bits(pick, NUMBER_S32, plain), *below = number(pick, OP_SHR, all, constant(pick, 31));
  return number(pick, OP_XOR, number(pick, OP_AND, all, constant(pick, SIZE)), below);
}

/* The number of a level; 0 as -0, less which both zeros are 0. */
static IrExpr *number_of(const Pick *pick, IrExpr *level)
{
  IrExpr *below = number(pick, OP_SHR, level, constant(pick, 31));
  IrExpr *size = number(pick, OP_XOR, level, below);
  IrExpr *sign = number(pick, OP_AND, level, constant(pick, INT32_MIN));
  IrExpr *zero = test(pick, OP_EQ, level, constant(pick, 0));
  IrExpr *all = number(pick, OP_OR, size, sign);
  return cast_bits(pick, NUMBER_F32, either(pick, NUMBER_S32, zero, constant(pick, INT32_MIN), all));
}

/* Between two levels, the upper of two in the middle. */
static IrExpr *middle(const Pick *pick, IrExpr *low, IrExpr *high)
{
  IrExpr *half = number(pick, OP_SHR, number(pick, OP_XOR, low, high), constant(pick, 1));
  return number(pick, OP_SUB, number(pick, OP_OR, low, high), half);
}

/* Takes the level for the lower or the upper end. */
static void halve(const Pick *pick, IrExpr *level, IrExpr *enough)
{
  IrExpr *less = number(pick, OP_SUB, level, constant(pick, 1));
  IrExpr *low = either(pick, NUMBER_S32, enough, level, pick->low);
  IrExpr *high = either(pick, NUMBER_S32, enough, pick->high, less);
  lower_set(pick->lower, pick->low, low);
  lower_set(pick->lower, pick->high, high);
}

static unsigned groups_of(const Pick *pick)
{
  unsigned groups = 1;
  while (groups * SORTING_LANES < 2 * pick->keep && groups < pick->n)
    groups *= 2;
  return groups;
}

/* Two elements of 16 bits at once. */
static IrExpr *larger_pair(const Pick *pick, NumberType type, IrExpr *a, IrExpr *b)
{
  IrExpr *both = lower_value(pick->lower, OP_MAX_PAIR, ir_scalar(NUMBER_B32), "both", 2, a, b);
  ir_attribute_set(both->value->def, ATTR_TYPE, ir_name(pick->lower->module, number_name(type)));
  return both;
}

static IrExpr *larger(const Pick *pick, IrExpr *a, IrExpr *b)
{
  return lower_value(pick->lower, OP_MAX, ir_scalar(NUMBER_F32), "most", 2, a, b);
}

/* Pairs of elements that were widened from words: maxima of groups of pairs, then of both halves. false: they were not. */
static bool find_most_pairs(const Pick *pick, unsigned groups, IrExpr **most)
{
  Lower *lower = pick->lower;
  unsigned of_words = MAX(1, groups / 2), half = 0;
  g_autofree IrExpr **words = g_new0(IrExpr *, of_words);
  NumberType type = NUMBER_BF16, here;
  for (unsigned i = 0; i + 1 < pick->n; i += 2) {
    IrExpr *word = lower_halves_of(pick->x[i], pick->x[i + 1], &here), **to = &words[i / 2 % of_words];
    if (!word || (i && here != type)) return false;
    type = here;
    *to = *to ? larger_pair(pick, type, *to, word) : word;
  }
  for (unsigned w = 0; w < of_words; w++) {
    IrOp *unpack = lower_emit(lower, OP_UNPACK, 1, words[w]);
    for (unsigned i = 0; i < 2; i++, half++) {
      IrExpr *narrow = lower_result(lower, unpack, "half", ir_scalar(type));
      IrExpr *wide = lower_value(lower, OP_CAST, ir_scalar(NUMBER_F32), "half", 1, narrow);
      most[half % groups] = half < groups ? wide : larger(pick, most[half % groups], wide);
    }
  }
  /* a maximum of pairs is NaN where an element is, which is at least any level */
  for (unsigned i = 0; i < groups; i++)
    most[i] = lower_value(lower, OP_MIN, ir_scalar(NUMBER_F32), "most", 2, most[i],
                          lower_constant(lower, NUMBER_F32, INFINITY));
  return true;
}

/* The largest element of each group of a lane. */
static IrExpr **find_most(const Pick *pick, unsigned groups)
{
  IrExpr **most = arena_new_array(pick->lower->arena, IrExpr *, groups);
  if (pick->n > 1 && find_most_pairs(pick, groups, most)) return most;
  for (unsigned i = 0; i < pick->n; i++) {
    IrExpr *before = i < groups ? lower_constant(pick->lower, NUMBER_F32, -INFINITY) : most[i % groups];
    most[i % groups] = larger(pick, pick->x[i], before);
  }
  return most;
}

/* The least of the groups' maxima that are no less than `low`: a level that an element has. */
static IrExpr *least_from(const Pick *pick, IrExpr *const *most, unsigned groups)
{
  IrExpr *least = NULL;
  for (unsigned i = 0; i < groups; i++) {
    IrExpr *below = test(pick, OP_LT, most[i], pick->low);
    IrExpr *one = either(pick, NUMBER_S32, below, constant(pick, INT32_MAX), most[i]);
    least = least ? number(pick, OP_MIN, least, one) : one;
  }
  return combined(pick, OP_MIN, least);
}

/* Sets `low` to a level that enough elements are at least, `high` to the row's largest. */
static void find_level(Pick *pick)
{
  Lower *lower = pick->lower;
  unsigned groups = groups_of(pick);
  IrExpr **most = find_most(pick, groups);
  IrExpr *least = NULL, *largest = NULL;
  for (unsigned i = 0; i < groups; i++) {
    most[i] = level_of(pick, most[i]);
    least = least ? number(pick, OP_MIN, least, most[i]) : most[i];
    largest = largest ? number(pick, OP_MAX, largest, most[i]) : most[i];
  }
  largest = combined(pick, OP_MAX, largest);
  pick->low = variable(pick, "low", NUMBER_S32, combined(pick, OP_MIN, least));
  pick->high = variable(pick, "high", NUMBER_S32, largest);
  open_loop(pick);
  leave_if(pick, test(pick, OP_GE, pick->low, pick->high));
  IrExpr *level = middle(pick, pick->low, pick->high), *count = NULL;
  for (unsigned i = 0; i < groups; i++) {
    IrExpr *lanes =
        lower_value(lower, OP_VOTE, ir_scalar(NUMBER_U32), "lanes", 1, test(pick, OP_GE, most[i], level));
    ir_attribute_set(lanes->value->def, ATTR_MODE, ir_name(lower->module, "ballot"));
    IrExpr *some = lower_value(lower, OP_POPULATION, ir_scalar(NUMBER_S32), "some", 1, lanes);
    count = count ? number(pick, OP_ADD, count, some) : some;
  }
  IrExpr *enough = test(pick, OP_GE, count, constant(pick, pick->keep));
  halve(pick, level, enough);
  IrExpr *few = test(pick, OP_LE, count, constant(pick, pick->keep + pick->keep / LOOSE_PART));
  leave_if(pick, lower_value(lower, OP_AND, ir_predicate(), "near", 2, enough, few));
  lower_scope_close(lower);
  lower_set(lower, pick->low, least_from(pick, most, groups));
  lower_set(lower, pick->high, largest);
}

/* ---- Bits of elements ---- */

static unsigned bits_of_word(const Pick *pick, unsigned word)
{
  return MIN(WORD_BITS, pick->n - word * WORD_BITS);
}

/* Those from a number on: the sign of a difference is moved in behind those of the elements before. */
static void find_elements(const Pick *pick, IrExpr *from, IrExpr **to)
{
  Lower *lower = pick->lower;
  Walk walk = {pick, NULL};
  IrType word = ir_scalar(NUMBER_U32);
  for (unsigned w = 0; w < pick->words; w++) {
    unsigned n = bits_of_word(pick, w);
    IrExpr *below = constant(pick, 0);
    for (unsigned i = 0; i < n; i++) {
      IrExpr *apart = lower_value(lower, OP_SUB, ir_scalar(NUMBER_F32), "apart", 2,
                                  element(&walk, w * WORD_BITS + i), from);
      if (!i) below = lower_value(lower, OP_MOVE, word, "below", 1, below);
      below = lower_value(lower, OP_SHIFT_IN, word, "below", 2, below, cast_bits(pick, NUMBER_U32, apart));
    }
    to[w] = lower_value(lower, OP_NOT, word, "from", 1, below);
    if (n < WORD_BITS) to[w] = bits(pick, OP_AND, to[w], constant(pick, (1ll << n) - 1));
  }
}

/* Those above a number, NaN among them. */
static void find_above(const Pick *pick, IrExpr *limit, IrExpr **to)
{
  Lower *lower = pick->lower;
  Walk walk = {pick, NULL};
  for (unsigned w = 0; w < pick->words; w++) {
    unsigned n = bits_of_word(pick, w);
    IrExpr *all = variable(pick, "above", NUMBER_U32, constant(pick, 0));
    for (unsigned i = 0; i < n; i++) {
      IrExpr *most = test(pick, OP_LE, element(&walk, w * WORD_BITS + i), limit);
      IrExpr *above = lower_value(lower, OP_NOT, ir_predicate(), "above", 1, most);
      lower_when(
          lower_emit(lower, OP_SET, 2, all, bits(pick, OP_OR, all, constant(pick, 1ll << (n - 1 - i)))),
          above);
    }
    to[w] = all;
  }
}

static IrExpr *count_of(const Pick *pick, IrExpr *const *words)
{
  IrExpr *count = NULL;
  for (unsigned w = 0; w < pick->words; w++) {
    IrExpr *some = lower_value(pick->lower, OP_POPULATION, ir_scalar(NUMBER_S32), "some", 1, words[w]);
    count = count ? number(pick, OP_ADD, count, some) : some;
  }
  return count;
}

/* Takes elements: their bits, how many the lanes in front have, and how many there are. */
static void take(const Pick *pick, IrExpr *const *words)
{
  Lower *lower = pick->lower;
  IrExpr *mine = count_of(pick, words), *all = mine;
  for (unsigned lanes = 1; lanes < SORTING_LANES; lanes *= 2) {
    IrExpr *below = shuffled(pick, all, "up", lanes);
    IrExpr *exists = lower_compare(lower, OP_GE, lower->lane, constant(pick, lanes));
    all = number(pick, OP_ADD, all, either(pick, NUMBER_S32, exists, below, constant(pick, 0)));
  }
  lower_set(lower, pick->start, number(pick, OP_SUB, all, mine));
  lower_set(lower, pick->total, shuffled(pick, all, "index", SORTING_LANES - 1));
  for (unsigned w = 0; w < pick->words; w++)
    lower_set(lower, pick->word[w], words[w]);
}

/* Are they enough, and is there room for them? */
static IrExpr *fit(const Pick *pick, IrExpr *enough)
{
  IrExpr *few = test(pick, OP_LE, pick->total, constant(pick, pick->room));
  return lower_value(pick->lower, OP_AND, ir_predicate(), "fit", 2, enough, few);
}

/* The level of the least element from a number on, or of the largest below it. NaN is neither. */
static IrExpr *level_beside(const Pick *pick, IrExpr *from, bool below)
{
  Lower *lower = pick->lower;
  Walk walk = {pick, NULL};
  IrType type = ir_scalar(NUMBER_F32);
  IrExpr *none = lower_constant(lower, NUMBER_F32, below ? -INFINITY : INFINITY), *best = NULL;
  for (unsigned i = 0; i < pick->n; i++) {
    IrExpr *x = element(&walk, i), *less = test(pick, OP_LT, x, from);
    IrExpr *one = either(pick, NUMBER_F32, less, below ? x : none, below ? none : x);
    best = best ? lower_value(lower, below ? OP_MAX : OP_MIN, type, "best", 2, best, one) : one;
  }
  return combined(pick, below ? OP_MAX : OP_MIN, level_of(pick, best));
}

/* The ends move to elements: where many are equal, few levels are left. */
static void narrow(const Pick *pick, IrExpr *from, IrExpr *enough)
{
  Lower *lower = pick->lower;
  IrOp *branch = lower_emit(lower, OP_IF, 1, enough);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  lower_set(lower, pick->low, level_beside(pick, from, false));
  lower_scope_close(lower);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  lower_set(lower, pick->high, level_beside(pick, from, true));
  lower_scope_close(lower);
}

/* In the middle of what lies between the ends, of numbers (of infinite ones the level above the lower one), or of levels. */
static IrExpr *between(const Pick *pick, IrExpr *of_levels)
{
  Lower *lower = pick->lower;
  IrExpr *ends[] = {pick->low, pick->high}, *mean = lower_constant(lower, NUMBER_F32, 0);
  for (unsigned i = 0; i < G_N_ELEMENTS(ends); i++)
    mean = lower_value(lower, OP_FMA, ir_scalar(NUMBER_F32), "mean", 3, number_of(pick, ends[i]),
                       lower_constant(lower, NUMBER_F32, 0.5), mean);
  IrExpr *level =
      number(pick, OP_MAX, level_of(pick, mean), number(pick, OP_ADD, pick->low, constant(pick, 1)));
  level = number(pick, OP_MIN, level, pick->high);
  return either(pick, NUMBER_S32, of_levels, middle(pick, pick->low, pick->high), level);
}

/* Elements from a level on that fit. The first levels are halves of what numbers span: what a mask hides is infinite, and the level
 * above it tells it from the rest. Then ends move to elements, and levels are halved in turn, for numbers that grow by powers. */
static void find_few(Pick *pick)
{
  Lower *lower = pick->lower;
  IrExpr *words[MAX_WORDS];
  pick->level = variable(pick, "level", NUMBER_S32, pick->low);
  IrExpr *turn = variable(pick, "turn", NUMBER_S32, constant(pick, 0));
  open_loop(pick);
  IrExpr *from = number_of(pick, pick->level);
  find_elements(pick, from, words);
  take(pick, words);
  IrExpr *enough = test(pick, OP_GE, pick->total, constant(pick, pick->keep));
  leave_if(pick, fit(pick, enough));
  IrExpr *late = test(pick, OP_GE, turn, constant(pick, EARLY_TURNS));
  IrOp *branch = lower_emit(lower, OP_IF, 1, late);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  narrow(pick, from, enough);
  lower_scope_close(lower);
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  halve(pick, pick->level, enough);
  lower_scope_close(lower);
  leave_if(pick, test(pick, OP_GE, pick->low, pick->high));
  IrExpr *even = test(pick, OP_EQ, number(pick, OP_AND, turn, constant(pick, 1)), constant(pick, 0));
  IrExpr *of_levels = lower_value(lower, OP_AND, ir_predicate(), "of_levels", 2, late, even);
  lower_set(lower, pick->level, between(pick, of_levels));
  lower_set(lower, turn, number(pick, OP_ADD, turn, constant(pick, 1)));
  lower_scope_close(lower);
}

/* ---- Places ---- */

/* Columns of the first lane's elements by their numbers: bits of the number move by powers of two. */
static bool find_parts(Pick *pick)
{
  for (unsigned bit = 0; 1u << bit < pick->n; bit++) {
    unsigned unit = pick->at[1u << bit];
    Part *last = pick->n_parts ? &pick->part[pick->n_parts - 1] : NULL;
    if (last && unit == last->unit << last->bits)
      last->bits++;
    else
      pick->part[pick->n_parts++] = (Part){bit, 1, unit};
  }
  for (unsigned i = 0; i < pick->n; i++) {
    unsigned column = 0;
    for (unsigned p = 0; p < pick->n_parts; p++)
      column += (i >> pick->part[p].shift & ((1u << pick->part[p].bits) - 1)) * pick->part[p].unit;
    if (column != pick->at[i]) return false;
  }
  return true;
}

static unsigned log_of(unsigned power)
{
  return (unsigned)__builtin_ctz(power);
}

/* The column of the lane's element of a number. */
static IrExpr *column_of(const Pick *pick, IrExpr *i)
{
  IrExpr *column = pick->column;
  for (unsigned p = 0; p < pick->n_parts; p++) {
    const Part *part = &pick->part[p];
    IrExpr *digit = part->shift ? number(pick, OP_SHR, i, constant(pick, part->shift)) : i;
    digit = number(pick, OP_AND, digit, constant(pick, (1 << part->bits) - 1));
    if (part->unit > 1) digit = number(pick, OP_SHL, digit, constant(pick, log_of(part->unit)));
    column = number(pick, OP_ADD, column, digit);
  }
  return column;
}

/* How many of the lane's elements stand in no column behind one. */
static IrExpr *elements_to(const Pick *pick, IrExpr *column)
{
  IrExpr *rest = number(pick, OP_SUB, column, pick->column), *count = constant(pick, 1);
  IrExpr *none = test(pick, OP_LT, rest, constant(pick, 0));
  for (unsigned p = pick->n_parts; p-- > 0;) {
    const Part *part = &pick->part[p];
    unsigned reach = pick->at[(1u << (part->shift + part->bits)) - 1];
    rest = number(pick, OP_MIN, rest, constant(pick, reach));
    IrExpr *digit = part->unit > 1 ? number(pick, OP_SHR, rest, constant(pick, log_of(part->unit))) : rest;
    IrExpr *before = part->shift ? number(pick, OP_SHL, digit, constant(pick, part->shift)) : digit;
    count = number(pick, OP_ADD, count, before);
    rest = number(pick, OP_AND, rest, constant(pick, part->unit - 1));
  }
  return either(pick, NUMBER_S32, none, constant(pick, 0), count);
}

/* Of elements those in no column behind one. */
static void cut(const Pick *pick, IrExpr *const *words, IrExpr *column, IrExpr **to)
{
  IrExpr *count = elements_to(pick, column);
  for (unsigned w = 0; w < pick->words; w++) {
    int n = (int)bits_of_word(pick, w);
    IrExpr *behind = number(pick, OP_SUB, constant(pick, n + (int)(w * WORD_BITS)), count);
    behind = number(pick, OP_MIN, number(pick, OP_MAX, behind, constant(pick, 0)), constant(pick, n));
    to[w] = bits(pick, OP_AND, words[w], bits(pick, OP_SHL, constant(pick, UINT32_MAX), behind));
  }
}

/* The level is that of the wanted element, and there are too many of it: all above, and the first of these. Above all levels are
 * NaNs: of enough of them the first. */
static void take_first(const Pick *pick)
{
  Lower *lower = pick->lower;
  IrExpr *above[MAX_WORDS], *from[MAX_WORDS], *same[MAX_WORDS], *first[MAX_WORDS], *all[MAX_WORDS];
  IrExpr *limit = number_of(pick, pick->low);
  find_above(pick, limit, above);
  find_elements(pick, limit, from);
  IrExpr *count = combined(pick, OP_ADD, count_of(pick, above));
  IrExpr *enough = test(pick, OP_GE, count, constant(pick, pick->keep));
  IrExpr *missing = number(pick, OP_SUB, constant(pick, pick->keep), count);
  missing = either(pick, NUMBER_S32, enough, constant(pick, pick->keep), missing);
  for (unsigned w = 0; w < pick->words; w++) {
    IrExpr *equal = bits(pick, OP_XOR, from[w], above[w]);
    same[w] = either(pick, NUMBER_U32, enough, above[w], equal);
    above[w] = either(pick, NUMBER_U32, enough, constant(pick, 0), above[w]);
  }
  IrExpr *low = variable(pick, "low", NUMBER_S32, constant(pick, 0));
  IrExpr *high = variable(pick, "high", NUMBER_S32,
                          constant(pick, (int64_t)pick->op->operands[0]->value->type.layout->extent[1] - 1));
  open_loop(pick);
  leave_if(pick, test(pick, OP_GE, low, high));
  IrExpr *between = number(pick, OP_SHR, number(pick, OP_ADD, low, high), constant(pick, 1));
  cut(pick, same, between, first);
  IrExpr *so_many = combined(pick, OP_ADD, count_of(pick, first));
  IrExpr *reached = test(pick, OP_GE, so_many, missing);
  IrExpr *next = number(pick, OP_ADD, between, constant(pick, 1));
  IrExpr *upper = either(pick, NUMBER_S32, reached, between, high);
  lower_set(lower, low, either(pick, NUMBER_S32, reached, low, next));
  lower_set(lower, high, upper);
  lower_scope_close(lower);
  cut(pick, same, low, first);
  for (unsigned w = 0; w < pick->words; w++)
    all[w] = bits(pick, OP_OR, above[w], first[w]);
  take(pick, all);
}

/* Each lane writes the places of its elements behind those of the lanes in front. */
static void leave_places(const Pick *pick)
{
  Lower *lower = pick->lower;
  IrExpr *bytes = number(pick, OP_SHL, pick->start, constant(pick, 2));
  IrExpr *at = variable(pick, "at", NUMBER_U32, bits(pick, OP_ADD, pick->list, bytes));
  for (unsigned w = 0; w < pick->words; w++) {
    unsigned n = bits_of_word(pick, w), zero = 0;
    open_loop(pick);
    leave_if(pick, test(pick, OP_EQ, pick->word[w], constant(pick, 0)));
    IrExpr *clear = lower_value(lower, OP_LEADING, ir_scalar(NUMBER_S32), "clear", 1, pick->word[w]);
    IrExpr *i = number(pick, OP_ADD, clear, constant(pick, (int64_t)(w * WORD_BITS + n) - WORD_BITS));
    IrExpr *place = column_of(pick, i);
    LowerTile part = {.element = NUMBER_S32, .n = 1, .reg = &place};
    lower_store_vector(lower, OP_STORE_SHARED, (LowerAddress){at, pick->offset}, &part, &zero, 1, NULL, NULL);
    lower_set(lower, pick->word[w],
              bits(pick, OP_XOR, pick->word[w], bits(pick, OP_SHR, constant(pick, SIGN), clear)));
    lower_set(lower, at, bits(pick, OP_ADD, at, constant(pick, (int64_t)number_bytes_of(NUMBER_S32, 1))));
    lower_scope_close(lower);
  }
}

static void read_places(const Pick *pick, LowerTile *to)
{
  Lower *lower = pick->lower;
  LowerMap map = lower_map_of(to->layout);
  IrExpr *column = lower_map_coordinate(lower, &map, 1),
         *last = number(pick, OP_SUB, pick->total, constant(pick, 1));
  for (unsigned r = 0; r < to->n && !lower->failed; r++) {
    unsigned zero = 0, ahead = lower_registers(lower, to->layout)[(size_t)r * LAYOUT_MAX_DIMS + 1];
    IrExpr *index = lower_add(lower, NUMBER_S32, column, constant(pick, ahead)), *place = NULL;
    IrExpr *bytes = number(pick, OP_SHL, number(pick, OP_MIN, index, last), constant(pick, 2));
    LowerTile part = {.element = NUMBER_S32, .n = 1, .reg = &place};
    LowerAddress at = {bits(pick, OP_ADD, pick->list, bytes), pick->offset};
    lower_load_vector(lower, OP_LOAD_SHARED, at, &part, &zero, 1, NULL, NULL, NULL);
    to->reg[r] = either(pick, NUMBER_S32, test(pick, OP_LE, index, last), place, constant(pick, -1));
  }
}

/* ---- The operation ---- */

static bool open_list(Pick *pick)
{
  Lower *lower = pick->lower;
  const IrExpr *symbol = ir_attribute_value(pick->op, ATTR_EXCHANGE);
  unsigned warps = layout_size(pick->op->operands[0]->value->type.layout, PLACE_WARP);
  LowerShared tile;
  if (!symbol || !lower_shared_operand(lower, symbol, &tile) ||
      number_bytes_of(NUMBER_S32, (uint64_t)warps * pick->room) > layout_bytes(tile.layout, tile.element)) {
    lower_fail(lower, ERROR_INPUT, "exchange", NULL, "a `pick` needs an exchange tile of its size");
    return false;
  }
  IrExpr *before = lower_mul(lower, NUMBER_S32, lower_source(lower, SOURCE_WARP),
                             constant(pick, (int64_t)number_bytes_of(NUMBER_S32, pick->room)));
  pick->list = lower_add(lower, NUMBER_U32, tile.base, before);
  pick->offset = tile.offset;
  return true;
}

/* The lane's elements by their columns. */
static bool open_elements(Pick *pick)
{
  Lower *lower = pick->lower;
  LowerTile *from = lower_tile(lower, pick->op->operands[0]);
  if (!from) return false;
  const Layout *wanted = sorting_picked(lower->arena, from->layout, 1, pick->room);
  if (wanted && layout_equal(wanted, pick->op->results[0]->type.layout)) {
    const unsigned *at = lower_registers(lower, from->layout);
    unsigned columns = from->layout->extent[1];
    g_autofree IrExpr **by_column = g_new0(IrExpr *, columns);
    for (unsigned r = 0; r < from->n; r++)
      by_column[at[(size_t)r * LAYOUT_MAX_DIMS + 1]] = from->reg[r];
    pick->x = arena_new_array(lower->arena, IrExpr *, from->n);
    pick->at = arena_new_array(lower->arena, unsigned, from->n);
    for (unsigned column = 0; column < columns; column++) {
      if (!by_column[column]) continue;
      pick->x[pick->n] = by_column[column];
      pick->at[pick->n++] = column;
    }
    LowerMap map = lower_map_of(from->layout);
    pick->column = lower_map_coordinate(lower, &map, 1);
    pick->words = (pick->n + WORD_BITS - 1) / WORD_BITS;
    if (pick->n <= WORD_BITS * MAX_WORDS && 2 * pick->keep <= pick->n * SORTING_LANES && find_parts(pick))
      return true;
  }
  lower_fail(lower, ERROR_UNSUPPORTED, "pick", "rows of whole warps, of at most 4096 elements",
             "this tile is not spread over threads as a `pick` needs it");
  return false;
}

void lower_pick(Lower *lower, IrOp *op)
{
  Pick pick = {.lower = lower, .op = op, .room = op->results[0]->type.layout->extent[1]};
  pick.keep = (unsigned)ir_attribute_int(op, ATTR_COUNT, 1);
  if (!open_elements(&pick) || !open_list(&pick)) return;
  find_level(&pick);
  pick.start = variable(&pick, "start", NUMBER_S32, constant(&pick, 0));
  pick.total = variable(&pick, "total", NUMBER_S32, constant(&pick, 0));
  for (unsigned w = 0; w < pick.words; w++)
    pick.word[w] = variable(&pick, "word", NUMBER_U32, constant(&pick, 0));
  find_few(&pick);
  IrExpr *enough = test(&pick, OP_GE, pick.total, constant(&pick, pick.keep));
  IrOp *branch =
      lower_emit(lower, OP_IF, 1, lower_value(lower, OP_NOT, ir_predicate(), "unfit", 1, fit(&pick, enough)));
  lower_scope_open(lower, branch, ir_region_add(branch), false);
  take_first(&pick);
  lower_scope_close(lower);
  lower_emit(lower, OP_SYNC_WARP, 0); /* readers of the places before are done */
  leave_places(&pick);
  lower_emit(lower, OP_SYNC_WARP, 0);
  LowerTile *to = lower_tile_new(lower, NUMBER_S32, op->results[0]->type.layout);
  read_places(&pick, to);
  if (!lower->failed) lower_tile_bind(lower, op->results[0], to);
}
