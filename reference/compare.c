/* Errors are taken over the whole tensor: a single rounding far from the others is no fault, a wrong tile is.
 */
#include "reference/operators.h"
#include <math.h>
#include <string.h>

/* Sums that keep 13 bits and are cut off, not rounded, over some ten thousand of k. */
#define FAST_LIMIT 1e-2
/* Products of tf32 and of 8-bit floats: 10 and 13 bits; a result of few elements whose terms cancel loses
 * more. */
#define COARSE_LIMIT 2e-3

/* Tensor cores cut sums off instead of rounding them, so errors grow with k: 1.2e-9 and 1.6e-9 of it on
 * random data, with 25 and 24 bits. */
#define F32_LIMIT     5e-6
#define F32_LIMIT_SUM 2.5e-9

static double plain_limit(NumberType type, bool coarse_products, int64_t longest_sum)
{
  switch (type) {
  case NUMBER_F64: return 1e-13;
  case NUMBER_F32:
    return coarse_products ? COARSE_LIMIT : fmax(F32_LIMIT, F32_LIMIT_SUM * (double)longest_sum);
  case NUMBER_TF32: return 1e-3;
  case NUMBER_F16: return 1e-3;
  case NUMBER_BF16: return 4e-3;
  case NUMBER_E4M3: return 4e-2;
  case NUMBER_E5M2: return 8e-2;
  default: return 0;
  }
}

double comparison_limit(NumberType type, bool coarse_products, bool fast_sums, int64_t longest_sum)
{
  double limit = plain_limit(type, coarse_products, longest_sum);
  return fast_sums && limit > 0 ? fmax(limit, FAST_LIMIT) : limit;
}

/* Errors of a whole tensor near their typical size; single elements of many may have a few times that. */
#define WHOLE_FACTOR  2.0
#define SINGLE_FACTOR 4.0

/* What single elements may be off. */
typedef struct Allowance {
  double limit;         /* in units of the size of the reference's elements, before it was raised */
  double size;          /* of those elements */
  const double *errors; /* NULL: nothing more is known */
} Allowance;

static double known_error(const Allowance *a, size_t i)
{
  return a->errors ? SINGLE_FACTOR * a->errors[i] : 0;
}

/* ||errors|| / ||reference||, where both are finite. */
static double relative_size(const Value *reference, const double *errors)
{
  double sum = 0, norm = 0;
  for (size_t i = 0; i < reference->n; i++) {
    if (!isfinite(errors[i]) || !isfinite(reference->floats[i])) continue;
    sum += errors[i] * errors[i];
    norm += reference->floats[i] * reference->floats[i];
  }
  return norm > 0 ? sqrt(sum / norm) : sqrt(sum);
}

/* Root of the mean of the squares; a reference of zeros compares absolutely. */
static double size_of(const Value *reference)
{
  double sum = 0;
  size_t n = 0;
  for (size_t i = 0; i < reference->n; i++) {
    if (!isfinite(reference->floats[i])) continue;
    sum += reference->floats[i] * reference->floats[i];
    n++;
  }
  return sum > 0 ? sqrt(sum / (double)n) : 1;
}

/* Integers are exact, unless they follow from floats that lie near the edge between two of them. */
static Comparison compare_integers(const Tensor *out, const Value *reference, const double *errors)
{
  Comparison result = {0};
  unsigned size = number_bytes(out->type);
  for (size_t i = 0; i < out->n; i++) {
    if (!memcmp(out->data + i * size, &reference->integers[i], size)) continue;
    double difference =
        fabs(number_to_double(out->type, out->data + i * size) - (double)reference->integers[i]);
    if (errors && difference <= errors[i]) continue;
    if (!result.error || difference > result.max_abs) result.worst = i;
    result.max_abs = fmax(result.max_abs, difference);
    result.error++;
  }
  result.ok = result.error == 0;
  return result;
}

/* A result that is not finite is in place if the reference is so too, or so large that its type cannot hold
 * it, within `off` of it. */
static bool is_in_place(NumberType type, double out, double reference, double off)
{
  uint8_t memory[8];
  if (isnan(out) || isnan(reference)) {
    if (isnan(out) && isnan(reference)) return true;
    number_from_double(type, reference, false, memory); /* a type without infinities overflows to NaN */
    return isnan(out) && isnan(number_to_double(type, memory));
  }
  if (!isinf(out)) {
    number_from_double(type, reference, false, memory);
    double rounded = number_to_double(type, memory);
    return !isinf(reference) && (isfinite(rounded) || fabs(out) + off >= fabs(reference));
  }
  number_from_double(type, reference + copysign(off, reference), false, memory);
  return number_to_double(type, memory) == out;
}

static Comparison compare_floats(const Tensor *out, const Value *reference, const Allowance *allowance,
                                 double limit)
{
  Comparison result = {.limit = limit};
  unsigned size = number_bytes(out->type);
  double difference = 0, norm = 0, excess = 1;
  for (size_t i = 0; i < out->n; i++) {
    double x = number_to_double(out->type, out->data + i * size), y = reference->floats[i];
    double known = known_error(allowance, i);
    if (isinf(known) && isfinite(y)) continue; /* nothing can be said of it */
    if (!isfinite(x) || !isfinite(y)) {
      double off = fmax(allowance->limit * fabs(y), known);
      if (!is_in_place(out->type, x, y, off) && !result.misplaced++) result.worst = i;
      continue;
    }
    double d = fabs(x - y);
    double most = fmax(known, SINGLE_FACTOR * allowance->limit * fmax(fabs(y), allowance->size));
    if (d > result.max_abs) {
      result.max_abs = d;
      if (!result.misplaced && !result.outliers) result.worst = i;
    }
    result.outliers += d > most;
    if (d > excess * most) {
      excess = d / most;
      if (!result.misplaced) result.worst = i;
    }
    difference += d * d;
    norm += y * y;
  }
  result.error = norm > 0 ? sqrt(difference / norm) : sqrt(difference);
  result.ok = !result.misplaced && result.error <= limit;
  return result;
}

Comparison compare_values(const Tensor *out, const Value *reference, double limit)
{
  if (!reference->floats) return compare_integers(out, reference, NULL);
  const Allowance allowance = {limit, size_of(reference), NULL};
  return compare_floats(out, reference, &allowance, limit);
}

Comparison compare_with_errors(const Tensor *out, const Value *reference, const double *errors, double limit,
                               double most)
{
  if (!reference->floats) return compare_integers(out, reference, errors);
  limit = fmin(limit, most);
  const Allowance allowance = {limit, size_of(reference), errors};
  if (errors) limit = fmin(fmax(limit, WHOLE_FACTOR * relative_size(reference, errors)), most);
  Comparison result = compare_floats(out, reference, &allowance, limit);
  result.ok = result.ok && !result.outliers;
  return result;
}
