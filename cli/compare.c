#include "cli/compare.h"
#include <math.h>
#include <string.h>

double comparison_limit(NumberType type, bool tf32)
{
  switch (type) {
  case NUMBER_F64: return 1e-13;
  case NUMBER_F32: return tf32 ? 1e-3 : 5e-6;
  case NUMBER_TF32:
  case NUMBER_F16: return 1e-3;
  case NUMBER_BF16: return 4e-3;
  case NUMBER_E4M3: return 4e-2;
  case NUMBER_E5M2: return 8e-2;
  default: return 0;
  }
}

/* Sums that neither overflow nor lose small terms to large ones. */
typedef struct Norms {
  long double difference, reference, out;
} Norms;

static void note(Comparison *c, uint64_t index, double out, double reference)
{
  c->worst = index;
  c->worst_out = out;
  c->worst_reference = reference;
}

static bool same_special(double a, double b)
{
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b;
}

/* Elements that are NaN or infinite on either side: out counts from what the type can hold of the
 * reference. */
static bool take_special(Comparison *c, NumberType type, uint64_t index, double out, double reference)
{
  uint64_t memory = 0;
  number_from_double(type, reference, false, &memory);
  double rounded = number_to_double(type, &memory);
  if (isfinite(out) && isfinite(rounded)) return false;
  if (same_special(out, rounded)) return true;
  if (!c->misplaced++) note(c, index, out, reference);
  return true;
}

static void compare_floats(Comparison *c, NumberType type, const uint8_t *out, const double *reference,
                           uint64_t n)
{
  unsigned size = number_bytes(type);
  Norms norms = {0};
  for (uint64_t i = 0; i < n; i++) {
    double x = number_to_double(type, out + i * size), r = reference[i];
    if ((!isfinite(x) || !isfinite(r)) && take_special(c, type, i, x, r)) continue;
    double difference = fabs(x - r);
    norms.difference += (long double)difference * difference;
    norms.reference += (long double)r * r;
    norms.out += (long double)x * x;
    if (!(difference > c->max_abs)) continue;
    c->max_abs = difference;
    if (!c->misplaced) note(c, i, x, r);
  }
  c->error = (double)(norms.reference > 0 ? sqrtl(norms.difference / norms.reference) : sqrtl(norms.out));
}

static int64_t integer_at(NumberType type, const uint8_t *at)
{
  int64_t value = 0;
  unsigned size = number_bytes(type);
  memcpy(&value, at, size);
  if (number_class(type) != NUMBER_SIGNED || size == 8) return value;
  unsigned shift = 64 - 8 * size;
  return (int64_t)((uint64_t)value << shift) >> shift;
}

static void compare_integers(Comparison *c, NumberType type, const uint8_t *out, const double *reference,
                             const int64_t *integers, uint64_t n)
{
  unsigned size = number_bytes(type);
  long double wrong = 0, whole = 0;
  for (uint64_t i = 0; i < n; i++) {
    int64_t x = integer_at(type, out + i * size);
    int64_t r = integers ? integers[i] : (int64_t)reference[i];
    long double difference = fabsl((long double)x - (long double)r);
    wrong += difference * difference;
    whole += (long double)r * (long double)r;
    if (!((double)difference > c->max_abs)) continue;
    c->max_abs = (double)difference;
    note(c, i, (double)x, (double)r);
  }
  c->error = (double)sqrtl(whole > 0 ? wrong / whole : wrong);
}

Comparison compare(NumberType type, const void *out, const double *reference,
                   const int64_t *reference_integers, uint64_t n, double limit)
{
  Comparison c = {.limit = limit};
  if (number_class(type) == NUMBER_FLOAT)
    compare_floats(&c, type, out, reference, n);
  else
    compare_integers(&c, type, out, reference, reference_integers, n);
  c.ok = c.error <= limit && !c.misplaced && !(limit == 0 && c.max_abs > 0);
  return c;
}
