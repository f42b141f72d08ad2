/* Quantiles of measured times. */
#pragma once

/* By linear interpolation between neighbours; NaN of no values, which stay in their order. */
double quantile(const double *values, unsigned n, double q);
double median(const double *values, unsigned n);
