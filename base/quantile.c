#include "base/quantile.h"
#include <glib.h>
#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double quantile(const double *values, unsigned n, double q)
{
  if (!n) return NAN;
  g_autofree double *sorted = g_memdup2(values, n * sizeof *values);
  qsort(sorted, n, sizeof *sorted, compare_doubles);
  double at = q * (n - 1);
  unsigned i = (unsigned)at;
  return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

double median(const double *values, unsigned n)
{
  return quantile(values, n, 0.5);
}
