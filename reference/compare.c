/* Errors are taken over the whole tensor and over blocks of it: a single rounding far from the others is no
 * fault, a wrong row or tile is. */
#include "reference/errors.h"
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

/* Errors of a whole tensor near their typical size; those of a block, and single elements of many, may have a
 * few times that. */
#define WHOLE_FACTOR  1.5
#define BLOCK_FACTOR  3.0
#define SINGLE_FACTOR 4.0
/* Of the plain limit: what every block may be off before anything is known of its errors. */
#define PLAIN_BLOCK_FACTOR 2.0

/* A limit that many times a type's own, or one beyond half of the result, proves nothing. */
#define WIDE_FACTOR 16.0
#define WIDE_MOST   0.5
/* Of the elements that many may be undetermined, each of which could be off by more than such a limit. */
#define UNDETERMINED_PART (1 / 16.0)
/* Of the norm of integers: what those that may be another one amount to at most. */
#define WIDE_INTEGERS (1 / 16.0)

/* A wrong row or tile is lost in the norm of a large tensor, so parts of it are compared too: so many
 * elements that follow one another, but of one row where rows are longer. */
#define BLOCK 64

typedef struct Blocks {
  size_t row;    /* elements of what is cut: the last dimension, or as many of them as a block holds */
  size_t pieces; /* of each */
} Blocks;

static Blocks blocks_of(const Value *value)
{
  size_t row = value->rank ? (size_t)value->shape[value->rank - 1] : 1;
  if (row < BLOCK) row *= BLOCK / MAX(row, 1);
  return (Blocks){row, (row + BLOCK - 1) / BLOCK};
}

/* End of the block that begins at `first`. */
static size_t block_end(const Blocks *blocks, size_t first, size_t n)
{
  size_t at = first % blocks->row, piece = 0;
  while (at >= (piece + 1) * blocks->row / blocks->pieces)
    piece++;
  return MIN(n, first - at + (piece + 1) * blocks->row / blocks->pieces);
}

double comparison_widest(double plain)
{
  return fmin(WIDE_FACTOR * plain, WIDE_MOST);
}

/* What elements may be off. */
typedef struct Allowance {
  double limit;         /* in units of the size of the reference's elements, before it was raised */
  double widest;        /* that proves anything */
  const double *errors; /* NULL: nothing more is known */
  double size; /* root of the mean of all squares; 0: a reference of zeros, which compares absolutely */
  Blocks blocks;
} Allowance;

static double error_at(const Allowance *a, size_t i)
{
  return a->errors ? a->errors[i] : 0;
}

/* Root of the mean of the squares of elements that are finite; 0 if all are zero. */
static double size_of(const Value *reference, size_t first, size_t end)
{
  double sum = 0;
  size_t n = 0;
  for (size_t i = first; i < end; i++) {
    if (!isfinite(reference->floats[i])) continue;
    sum += reference->floats[i] * reference->floats[i];
    n++;
  }
  return n ? sqrt(sum / (double)n) : 0;
}

static Allowance allowance_of(const Value *reference, const double *errors, double limit, double widest)
{
  return (Allowance){limit, widest, errors, size_of(reference, 0, reference->n), blocks_of(reference)};
}

/* Of a block's elements. */
static double block_size(const Allowance *a, const Value *reference, size_t first, size_t end)
{
  return a->size > 0 ? size_of(reference, first, end) : 1;
}

/* Could it be off by more than any limit that proves something, and is it so large that it matters? */
static bool is_undetermined(const Allowance *a, double y, double block, double error)
{
  return WHOLE_FACTOR * error > fmax(a->widest * fmax(fabs(y), block), a->limit * a->size);
}

/* More than a few elements may be another integer, and that by more than a small part of them. */
static bool are_integers_wide(const Value *reference, const double *errors)
{
  double moved = 0, norm = 0;
  size_t n = 0;
  for (size_t i = 0; i < reference->n; i++) {
    n += errors[i] > 0;
    moved += errors[i] * errors[i];
    norm += (double)reference->integers[i] * (double)reference->integers[i];
  }
  return (double)n > UNDETERMINED_PART * (double)reference->n && !(sqrt(moved) <= WIDE_INTEGERS * sqrt(norm));
}

/* Integers are exact, unless they follow from floats that lie near the edge between two of them. */
static Comparison compare_integers(const Tensor *out, const Value *reference, const double *errors)
{
  Comparison result = {.wide = errors && are_integers_wide(reference, errors)};
  for (size_t i = 0; i < out->n; i++) {
    if (errors && errors[i] > 0) result.undetermined++;
    uint64_t bits = number_get_bits(out->type, out->data, i);
    if (bits == ((uint64_t)reference->integers[i] & UINT64_MAX >> (64 - number_bits(out->type)))) continue;
    double difference = fabs(number_read(out->type, out->data, i) - (double)reference->integers[i]);
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

/* Sums over a block, or over all blocks. */
typedef struct Sums {
  double difference, norm, error; /* of squares, of elements that are determined */
} Sums;

static void add_sums(Sums *to, const Sums *from)
{
  to->difference += from->difference;
  to->norm += from->norm;
  to->error += from->error;
}

/* Of one element that is not finite, or whose reference is not. */
static void compare_place(const Allowance *a, NumberType type, double x, double y, size_t i, Comparison *c)
{
  double off = fmax(a->limit * fabs(y), SINGLE_FACTOR * error_at(a, i));
  if (!is_in_place(type, x, y, off) && !c->misplaced++) c->worst = i;
}

/* What all elements have in common. */
typedef struct Pass {
  const Tensor *out;
  const Value *reference;
  const Allowance *allowance;
  bool all;      /* undetermined elements count too */
  double excess; /* of the outlier that is furthest off */
} Pass;

static void compare_element(Pass *pass, size_t i, double block, Sums *sums, Comparison *c)
{
  const Allowance *a = pass->allowance;
  const Tensor *out = pass->out;
  double x = number_read(out->type, out->data, i);
  double y = pass->reference->floats[i], error = error_at(a, i), d = fabs(x - y);
  bool undetermined = isfinite(y) && is_undetermined(a, y, block, error);
  c->undetermined += undetermined;
  if (isinf(error) && isfinite(y) && !isfinite(x)) return; /* nothing can be said of it */
  if (!isfinite(x) || !isfinite(y)) {
    compare_place(a, out->type, x, y, i, c);
    return;
  }
  double most = SINGLE_FACTOR * fmax(error, a->limit * fmax(fabs(y), block));
  most = fmax(most, 2 * error_of_storing(out->type, y)); /* the number beside it, where steps are wide */
  if (d > c->max_abs && (!undetermined || pass->all)) {
    c->max_abs = d;
    if (!c->misplaced && !c->outliers) c->worst = i;
  }
  c->outliers += d > most;
  if (d > pass->excess * most) {
    pass->excess = d / most;
    if (!c->misplaced) c->worst = i;
  }
  if (!undetermined || pass->all) add_sums(sums, &(Sums){d * d, y * y, error * error});
}

static Sums compare_block(Pass *pass, size_t first, size_t end, Comparison *c)
{
  const Allowance *a = pass->allowance;
  double block = block_size(a, pass->reference, first, end);
  Sums sums = {0};
  for (size_t i = first; i < end; i++)
    compare_element(pass, i, block, &sums, c);
  double norm = a->size > 0 ? sums.norm : (double)(end - first);
  double most = fmax(PLAIN_BLOCK_FACTOR * a->limit * sqrt(norm), BLOCK_FACTOR * sqrt(sums.error));
  c->wrong_blocks += sqrt(sums.difference) > most;
  return sums;
}

/* ||a|| / ||b||, or ||a|| if there is no b. */
static double ratio(double a, double b)
{
  return b > 0 ? sqrt(a / b) : sqrt(a);
}

static Comparison compare_floats(const Tensor *out, const Value *reference, const Allowance *a, double most,
                                 bool all)
{
  Comparison c = {.plain = a->limit, .widest = a->widest};
  Pass pass = {out, reference, a, all, 1};
  Sums sums = {0};
  for (size_t first = 0, end; first < out->n; first = end) {
    end = block_end(&a->blocks, first, out->n);
    Sums block = compare_block(&pass, first, end, &c);
    add_sums(&sums, &block);
  }
  c.error = ratio(sums.difference, sums.norm);
  c.limit = fmin(fmax(a->limit, WHOLE_FACTOR * ratio(sums.error, sums.norm)), most);
  c.ok = !c.misplaced && c.error <= c.limit;
  return c;
}

Comparison compare_values(const Tensor *out, const Value *reference, double limit)
{
  if (!reference->floats) return compare_integers(out, reference, NULL);
  const Allowance allowance = allowance_of(reference, NULL, limit, comparison_widest(limit));
  return compare_floats(out, reference, &allowance, limit, true);
}

static bool are_many(size_t some, size_t n)
{
  return (double)some > UNDETERMINED_PART * (double)n;
}

Comparison compare_with_errors(const Tensor *out, const Value *reference, const double *errors, double limit,
                               double widest, double most)
{
  if (!reference->floats) return compare_integers(out, reference, errors);
  const Allowance allowance = allowance_of(reference, errors, fmin(limit, most), widest);
  Comparison c = compare_floats(out, reference, &allowance, most, false);
  bool many = are_many(c.undetermined, out->n), ok = c.ok; /* of what is determined */
  if (many) c = compare_floats(out, reference, &allowance, most, true);
  c.wide = c.limit > widest;
  c.ok = c.ok && ok && !c.outliers && !c.wrong_blocks;
  return c;
}

double comparison_width(const Value *reference, const double *errors, double limit, double widest)
{
  if (!reference->floats || !errors) return 0;
  const Allowance a = allowance_of(reference, errors, limit, widest);
  Sums all = {0}, determined = {0};
  size_t n_undetermined = 0;
  for (size_t first = 0, end; first < reference->n; first = end) {
    end = block_end(&a.blocks, first, reference->n);
    double block = block_size(&a, reference, first, end);
    for (size_t i = first; i < end; i++) {
      double y = reference->floats[i];
      if (!isfinite(y)) continue;
      const Sums one = {0, y * y, errors[i] * errors[i]};
      bool undetermined = is_undetermined(&a, y, block, errors[i]);
      add_sums(&all, &one);
      if (!undetermined) add_sums(&determined, &one);
      n_undetermined += undetermined;
    }
  }
  bool many = are_many(n_undetermined, reference->n);
  const Sums *sums = many ? &all : &determined;
  return WHOLE_FACTOR * ratio(sums->error, sums->norm) / widest;
}
