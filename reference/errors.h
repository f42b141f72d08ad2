/* How far a right result may be off: errors carried along a graph, node by node, beside the reference's
 * values.
 *
 * An error is a distance from the exact value, one for each element. Each operator adds its own (half a unit
 * of the last place for storing a result in its type, some units of f32 for computing it, more for sums) to
 * what its inputs' errors become in it, as if they were independent, so that squares are added: a function of
 * one element by moving it, a product to first order, a softmax within [0, 1]. An error that several elements
 * have in common, as all columns of a product have those of its rows, does not average out where these are
 * added up: how many may have one is carried along too. The unit is thus about two standard deviations of
 * what kernels are seen to be off, not a bound. Thread-safe. */
#pragma once
#include "reference/operators.h"

typedef struct ErrorModel {
  /* Of a product of floats, in units of the root of the sum of the squares of its terms: at least so much, as
   * tensor cores have few bits for its operands or its sums. 0: what sums in f32 cost. */
  double product;
} ErrorModel;

/* Of the elements of a value. */
typedef struct Errors {
  double *each;  /* as many as there are elements; NULL: the value is exact. INFINITY: nothing can be said */
  double shared; /* elements that may have an error in common; 1: all are independent */
  double total;  /* what the errors along the last axis sum to at most; 0: unknown */
} Errors;

/* Errors of the call's outputs, which have the types of the graph; `each` (g_free) is NULL where the output
 * is. */
bool reference_errors(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                      unsigned n_outputs, const ErrorModel *model, Errors *results, GError **error);

/* true if the operator's result is rounded to its type by kernels, but not by the reference. */
bool reference_rounds(const ReferenceCall *call, const Value *out);

/* Of the types that kernels may round the result to, or to which those who read it may, the coarsest one. */
NumberType reference_rounds_to(const ReferenceCall *call, const Value *out);

/* Half the distance of two neighbouring numbers of a type at x; 0 for integers. */
double error_of_storing(NumberType type, double x);

/* Adds to `each` of the results what follows from an input's error by taking the input once larger and once
 * smaller. */
bool errors_by_moving(const ReferenceCall *call, unsigned input, const double *input_error,
                      Value *const *outputs, unsigned n_outputs, Errors *results, GError **error);

/* Softmax, LogSoftmax and the normalisations: error_rows.c. */
bool errors_of_rows(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                    unsigned n_outputs, Errors *results, GError **error);

/* ReduceProd, ReduceLogSumExp, ArgMax, ArgMin, Hardmax and TopRows: error_reductions.c. */
bool errors_of_reductions(const ReferenceCall *call, const Errors *input, Value *const *outputs,
                          Errors *results, GError **error);

/* VarlenAttention: sequences.c. */
bool errors_of_sequences(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                         unsigned n_outputs, const ErrorModel *model, Errors *results, GError **error);

/* AttentionGradPart: gradient.c. */
bool errors_of_gradient(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                        unsigned n_outputs, const ErrorModel *model, Errors *results, GError **error);

/* How much the variance of a sum of n terms grows if some have their error in common. */
double error_growth(const Errors *errors, double n);

/* sqrt(a^2 + b^2) where both may be infinite; never NaN. */
double error_sum(double a, double b);
