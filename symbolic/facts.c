/* What facts prove of expressions: ranges by interval arithmetic, divisibility by greatest common divisors.
 */
#include "symbolic/symbolic.h"
#include <string.h>

#define ALIGN_MAX 4096

static const SymbolicFact *find(const SymbolicFacts *facts, const Symbolic *leaf)
{
  bool pointer = leaf->kind == SYMBOLIC_ALIGN;
  for (unsigned i = 0; facts && i < facts->n; i++)
    if (facts->facts[i].pointer == pointer && !strcmp(facts->facts[i].name, leaf->name))
      return &facts->facts[i];
  return NULL;
}

/* ---- ranges: the ends of the 64-bit range stand for "unbounded" ---- */

typedef struct {
  int64_t min, max;
} Range;

static const Range unbounded = {INT64_MIN, INT64_MAX};

static int64_t clamp(__int128 value)
{
  return value < INT64_MIN ? INT64_MIN : value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static bool is_bounded(Range range)
{
  return range.min != INT64_MIN && range.max != INT64_MAX;
}

static Range add(Range a, Range b)
{
  Range sum = {clamp((__int128)a.min + b.min), clamp((__int128)a.max + b.max)};
  if (a.min == INT64_MIN || b.min == INT64_MIN) sum.min = INT64_MIN;
  if (a.max == INT64_MAX || b.max == INT64_MAX) sum.max = INT64_MAX;
  return sum;
}

static Range negate(Range a)
{
  return (Range){a.max == INT64_MAX ? INT64_MIN : -a.max, a.min == INT64_MIN ? INT64_MAX : -a.min};
}

static Range multiply(Range a, Range b)
{
  if (a.min >= 0 && b.min >= 0) {
    bool zero = a.max == 0 || b.max == 0;
    return (Range){clamp((__int128)a.min * b.min), zero ? 0 : clamp((__int128)a.max * b.max)};
  }
  if (!is_bounded(a) || !is_bounded(b)) return unbounded;
  __int128 products[] = {(__int128)a.min * b.min, (__int128)a.min * b.max, (__int128)a.max * b.min,
                         (__int128)a.max * b.max};
  __int128 low = products[0], high = products[0];
  for (unsigned i = 1; i < 4; i++) {
    low = MIN(low, products[i]);
    high = MAX(high, products[i]);
  }
  return (Range){clamp(low), clamp(high)};
}

static Range divide(SymbolicKind kind, Range a, Range b)
{
  if (a.min < 0 || b.min <= 0) return unbounded;
  bool up = kind == SYMBOLIC_CEIL_DIV;
  Range quotient = {0, INT64_MAX};
  if (b.max != INT64_MAX) quotient.min = a.min / b.max + (up && a.min % b.max);
  if (up && a.min > 0) quotient.min = MAX(quotient.min, 1);
  if (a.max != INT64_MAX) quotient.max = a.max / b.min + (up && a.max % b.min);
  return quotient;
}

static Range remainder_range(const Symbolic *x, Range a, Range b, const SymbolicFacts *facts)
{
  int64_t divisor;
  if (symbolic_is_constant(x->b, &divisor) && divisor > 0 && symbolic_divisible(x->a, divisor, facts))
    return (Range){0, 0};
  if (a.min < 0 || b.min <= 0) return unbounded;
  if (a.max < b.min) return a;
  return (Range){0, MIN(a.max, b.max == INT64_MAX ? INT64_MAX : b.max - 1)};
}

static Range range_of(const Symbolic *x, const SymbolicFacts *facts);

static Range leaf_range(const Symbolic *x, const SymbolicFacts *facts)
{
  const SymbolicFact *fact = find(facts, x);
  if (x->kind == SYMBOLIC_ALIGN) return (Range){fact ? MIN(fact->multiple, ALIGN_MAX) : 1, ALIGN_MAX};
  if (!fact) return (Range){0, SYMBOLIC_DIMENSION_MAX};
  Range range = {fact->min, fact->max};
  /* Round the ends to multiples where they are plain numbers. */
  if (range.min >= 0 && fact->multiple > 1) {
    __int128 low = ((__int128)range.min + fact->multiple - 1) / fact->multiple * fact->multiple;
    range.min = clamp(low);
    if (range.max != INT64_MAX && range.max >= 0) range.max -= range.max % fact->multiple;
  }
  return range;
}

static Range truth_range(const Symbolic *x, const SymbolicFacts *facts)
{
  SymbolicTruth truth = symbolic_decide(x, facts);
  return (Range){truth == SYMBOLIC_TRUE, truth != SYMBOLIC_FALSE};
}

static Range range_of(const Symbolic *x, const SymbolicFacts *facts)
{
  if (x->kind == SYMBOLIC_CONSTANT) return (Range){x->value, x->value};
  if (x->kind == SYMBOLIC_SYMBOL || x->kind == SYMBOLIC_ALIGN) return leaf_range(x, facts);
  if (x->kind >= SYMBOLIC_LT) return truth_range(x, facts);
  Range a = range_of(x->a, facts), b = range_of(x->b, facts);
  switch (x->kind) {
  case SYMBOLIC_ADD: return add(a, b);
  case SYMBOLIC_SUB: return add(a, negate(b));
  case SYMBOLIC_MUL: return multiply(a, b);
  case SYMBOLIC_DIV:
  case SYMBOLIC_CEIL_DIV: return divide(x->kind, a, b);
  case SYMBOLIC_MOD: return remainder_range(x, a, b, facts);
  case SYMBOLIC_MIN: return (Range){MIN(a.min, b.min), MIN(a.max, b.max)};
  case SYMBOLIC_MAX: return (Range){MAX(a.min, b.min), MAX(a.max, b.max)};
  default: return unbounded;
  }
}

void symbolic_range(const Symbolic *expression, const SymbolicFacts *facts, int64_t *min, int64_t *max)
{
  Range range = range_of(expression, facts);
  *min = range.min;
  *max = range.max;
}

/* ---- divisibility: 0 is divided by everything ---- */

int64_t symbolic_common_factor(int64_t a, int64_t b)
{
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static int64_t leaf_multiple(const Symbolic *x, const SymbolicFacts *facts)
{
  const SymbolicFact *fact = find(facts, x);
  if (!fact) return 1;
  if (x->kind == SYMBOLIC_SYMBOL && fact->min == fact->max && fact->min > INT64_MIN) return ABS(fact->min);
  return x->kind == SYMBOLIC_ALIGN ? MIN(fact->multiple, ALIGN_MAX) : MAX(fact->multiple, 1);
}

int64_t symbolic_multiple(const Symbolic *x, const SymbolicFacts *facts)
{
  if (x->kind == SYMBOLIC_CONSTANT) return x->value == INT64_MIN ? (int64_t)1 << 62 : ABS(x->value);
  if (x->kind == SYMBOLIC_SYMBOL || x->kind == SYMBOLIC_ALIGN) return leaf_multiple(x, facts);
  if (x->kind >= SYMBOLIC_LT) return 1;
  int64_t a = symbolic_multiple(x->a, facts), product, divisor;
  int64_t b = symbolic_multiple(x->b, facts);
  switch (x->kind) {
  case SYMBOLIC_MUL: return __builtin_mul_overflow(a, b, &product) ? MAX(a, b) : product;
  case SYMBOLIC_DIV:
  case SYMBOLIC_CEIL_DIV:
    if (!symbolic_is_constant(x->b, &divisor) || divisor <= 0 || a % divisor) return 1;
    return a / divisor;
  default: return symbolic_common_factor(a, b); /* sums, remainders, min and max */
  }
}

bool symbolic_divisible(const Symbolic *expression, int64_t divisor, const SymbolicFacts *facts)
{
  return divisor != 0 && symbolic_multiple(expression, facts) % divisor == 0;
}

/* ---- conditions ---- */

static SymbolicTruth decide_comparison(SymbolicKind kind, Range d)
{
  switch (kind) {
  case SYMBOLIC_LT: return d.max < 0 ? SYMBOLIC_TRUE : d.min >= 0 ? SYMBOLIC_FALSE : SYMBOLIC_UNDECIDED;
  case SYMBOLIC_LE: return d.max <= 0 ? SYMBOLIC_TRUE : d.min > 0 ? SYMBOLIC_FALSE : SYMBOLIC_UNDECIDED;
  case SYMBOLIC_EQ:
    if (d.min == 0 && d.max == 0) return SYMBOLIC_TRUE;
    return d.min > 0 || d.max < 0 ? SYMBOLIC_FALSE : SYMBOLIC_UNDECIDED;
  default: return SYMBOLIC_UNDECIDED;
  }
}

static SymbolicTruth invert(SymbolicTruth truth)
{
  return truth == SYMBOLIC_UNDECIDED ? truth : truth == SYMBOLIC_TRUE ? SYMBOLIC_FALSE : SYMBOLIC_TRUE;
}

SymbolicTruth symbolic_decide(const Symbolic *x, const SymbolicFacts *facts)
{
  if (x->kind == SYMBOLIC_NOT) return invert(symbolic_decide(x->a, facts));
  if (x->kind == SYMBOLIC_AND || x->kind == SYMBOLIC_OR) {
    SymbolicTruth stops = x->kind == SYMBOLIC_OR ? SYMBOLIC_TRUE : SYMBOLIC_FALSE;
    SymbolicTruth a = symbolic_decide(x->a, facts), b = symbolic_decide(x->b, facts);
    if (a == stops || b == stops) return stops;
    return a == SYMBOLIC_UNDECIDED || b == SYMBOLIC_UNDECIDED ? SYMBOLIC_UNDECIDED : invert(stops);
  }
  if (x->kind < SYMBOLIC_LT) return invert(decide_comparison(SYMBOLIC_EQ, range_of(x, facts)));
  g_autoptr(Arena) arena = arena_new();
  Range difference = range_of(symbolic_sub(arena, x->a, x->b), facts);
  switch (x->kind) {
  case SYMBOLIC_LT:
  case SYMBOLIC_LE:
  case SYMBOLIC_EQ: return decide_comparison(x->kind, difference);
  case SYMBOLIC_GE: return invert(decide_comparison(SYMBOLIC_LT, difference));
  case SYMBOLIC_GT: return invert(decide_comparison(SYMBOLIC_LE, difference));
  default: return invert(decide_comparison(SYMBOLIC_EQ, difference));
  }
}
