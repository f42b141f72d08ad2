/* How far a right result may be off: errors carried along a graph, node by node, beside the reference's
 * values.
 *
 * An error is a distance from the exact value, one for each element. Each operator adds its own (half a unit
 * of the last place for storing a result in its type, some units of f32 for computing it, more for sums) to
 * what its inputs' errors become in it: to first order, and as if they were independent, so that squares are
 * added. The unit is thus about two standard deviations of what kernels are seen to be off, not a bound.
 * Thread-safe. */
#pragma once
#include "reference/operators.h"

typedef struct ErrorModel {
  /* Of a product of floats, in units of the root of the sum of the squares of its terms: by the
   * accumulator. */
  double product;
} ErrorModel;

/* Errors of the call's outputs: errors[i] has as many elements as outputs[i] (g_free), or is NULL where
 * outputs[i] is, or where it is exact. input_errors: as the call's inputs, NULL for what is exact. Outputs
 * have the types of the graph. INFINITY: nothing can be said of the element. */
bool reference_errors(const ReferenceCall *call, const double *const *input_errors, Value *const *outputs,
                      unsigned n_outputs, const ErrorModel *model, double **errors, GError **error);

/* Half the distance of two neighbouring numbers of a type at x; 0 for integers. */
double error_of_storing(NumberType type, double x);

/* Adds to errors what follows from an input's error by taking the input once larger and once smaller. */
bool errors_by_moving(const ReferenceCall *call, unsigned input, const double *input_error,
                      Value *const *outputs, unsigned n_outputs, double **errors, GError **error);

/* Softmax, LogSoftmax and the normalisations: error_rows.c. */
bool errors_of_rows(const ReferenceCall *call, const double *const *input_errors, Value *const *outputs,
                    unsigned n_outputs, double **errors, GError **error);

/* sqrt(a^2 + b^2) where both may be infinite; never NaN. */
double error_sum(double a, double b);
