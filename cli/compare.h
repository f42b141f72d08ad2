/* How far an output is from its reference. */
#pragma once
#include "base/number.h"
#include <jansson.h>

typedef struct Comparison {
  double error;   /* ||out - reference|| / ||reference||; ||out|| where the reference is zero */
  double max_abs; /* largest difference of one element */
  double limit;   /* of error */
  bool ok;
  uint64_t misplaced; /* elements where only one of the two is NaN or infinite, or with another sign */
  uint64_t worst;     /* index of the element that max_abs is of, or of the first misplaced one */
  double worst_out, worst_reference;
} Comparison;

/* The limit of an output of a type; tf32: some product it depends on is in tf32. 0: must be exact. */
double comparison_limit(NumberType type, bool tf32);
/* reference: exact values, not rounded to the type. Integers and booleans must agree in every bit; they are
 * compared through reference_integers, if given, since not all 64-bit integers are doubles. */
Comparison compare(NumberType type, const void *out, const double *reference,
                   const int64_t *reference_integers, uint64_t n, double limit);
