/* Errors of the operators over rows, from their derivatives: sums along the row are taken by the reference's
 * own reductions. */
#include "reference/errors.h"
#include "reference/private.h"
#include <math.h>
#include <string.h>

/* Of f32 arithmetic, some units: a difference, a sum and a quotient. */
#define UNIT 0x1p-22

typedef struct Axes {
  Value list; /* s64, for the reductions */
  int64_t axes[TENSOR_MAX_RANK];
  double n; /* elements of a row */
} Axes;

static void find_axes(const ReferenceCall *call, Axes *axes)
{
  const Value *x = call->inputs[0];
  int64_t axis = reference_integer(call, "axis");
  if (axis < 0) axis += x->rank;
  bool one = g_str_has_suffix(call->op, "oftmax") && call->opset >= 13;
  int64_t last = one ? axis + 1 : x->rank;
  *axes = (Axes){.list = {.type = NUMBER_S64, .rank = 1}, .n = 1};
  for (int64_t d = axis; d < last; d++) {
    axes->axes[axes->list.n++] = d;
    axes->n *= (double)x->shape[d];
  }
  axes->list.shape[0] = (int64_t)axes->list.n;
  axes->list.integers = axes->axes;
}

/* Sums of `terms`, of x's shape, along the rows: of rank and shape to broadcast against x. */
static Value *row_sums(const Value *x, double *terms, Axes *axes, GError **error)
{
  Value all = *x;
  all.type = NUMBER_F64;
  all.floats = terms;
  all.integers = NULL;
  const Value *inputs[] = {&all, &axes->list};
  const ReferenceAttribute keep[] = {{.name = "keepdims", .integer = 1}, {.name = "noop_with_empty_axes"}};
  const ReferenceCall call = {.op = "ReduceSum",
                              .opset = 18,
                              .inputs = inputs,
                              .n_inputs = 2,
                              .attributes = keep,
                              .n_attributes = G_N_ELEMENTS(keep),
                              .result = NUMBER_F64};
  Value *sums = NULL;
  return reference_run(&call, &sums, 1, error) ? sums : NULL;
}

/* Element of a row's sums for element i of x. */
static size_t row_of(const Value *x, const Value *sums, size_t i)
{
  int64_t strides[TENSOR_MAX_RANK];
  size_t at = 0;
  reference_strides(sums, x->rank, x->shape, strides);
  for (unsigned d = x->rank; d-- > 0; i /= (size_t)x->shape[d])
    at += i % (size_t)x->shape[d] * (size_t)strides[d];
  return at;
}

static double square(double x)
{
  return isfinite(x) ? x * x : 0;
}

/* y_i (dx_i - sum of y dx), or the bracket alone for the logarithm. */
static bool softmax(const ReferenceCall *call, const Errors *input, const Value *y, double *errors,
                    GError **error)
{
  const Value *x = call->inputs[0];
  bool logarithm = !strcmp(call->op, "LogSoftmax");
  Axes axes;
  find_axes(call, &axes);
  g_autofree double *own = g_new0(double, x->n + 1), *terms = g_new0(double, x->n + 1);
  for (size_t i = 0; i < x->n; i++) {
    double p = logarithm ? exp(y->floats[i]) : y->floats[i];
    own[i] = (input->each ? square(input->each[i]) : 0) + square(UNIT) * (1 + square(x->floats[i]));
    terms[i] = square(p) * own[i];
  }
  g_autoptr(Value) sums = row_sums(x, terms, &axes, error);
  double grown = error_growth(input, axes.n);
  for (size_t i = 0; sums && i < x->n; i++) {
    double bracket = sqrt(own[i] + grown * sums->floats[row_of(x, sums, i)] + square(UNIT));
    errors[i] = logarithm ? bracket : fabs(y->floats[i]) * bracket;
    if (!isfinite(errors[i])) errors[i] = 0; /* the reference is not finite either */
  }
  return sums != NULL;
}

/* What normalising needs of each row. */
typedef struct Statistics {
  Value *mean, *inverse; /* 1 / sqrt(variance + epsilon) */
} Statistics;

static bool find_statistics(const ReferenceCall *call, Axes *axes, double *terms, Statistics *s,
                            GError **error)
{
  const Value *x = call->inputs[0];
  bool centred = !strcmp(call->op, "LayerNormalization");
  for (size_t i = 0; i < x->n; i++)
    terms[i] = centred ? x->floats[i] : 0;
  if (!(s->mean = row_sums(x, terms, axes, error))) return false;
  for (size_t r = 0; r < s->mean->n; r++)
    s->mean->floats[r] /= axes->n;
  for (size_t i = 0; i < x->n; i++)
    terms[i] = (x->floats[i] - s->mean->floats[row_of(x, s->mean, i)]) *
               (x->floats[i] - s->mean->floats[row_of(x, s->mean, i)]);
  if (!(s->inverse = row_sums(x, terms, axes, error))) return false;
  for (size_t r = 0; r < s->inverse->n; r++)
    s->inverse->floats[r] = 1 / sqrt(s->inverse->floats[r] / axes->n + reference_number(call, "epsilon"));
  return true;
}

/* Of a weight or of nothing, for element i of x. */
static double weight_of(const ReferenceCall *call, size_t i)
{
  const Value *x = call->inputs[0], *weight = call->n_inputs > 1 ? call->inputs[1] : NULL;
  return weight ? weight->floats[row_of(x, weight, i)] : 1;
}

/* (dx_i - mean of dx - n_i mean of n dx) / deviation, n being the normalised row. */
static bool normalise(const ReferenceCall *call, const Errors *input, Value *const *outputs,
                      unsigned n_outputs, Errors *results, GError **error)
{
  const Value *x = call->inputs[0];
  Axes axes;
  find_axes(call, &axes);
  g_autofree double *terms = g_new0(double, x->n + 1), *own = g_new0(double, x->n + 1),
                    *normal = g_new0(double, x->n + 1);
  Statistics s = {NULL, NULL};
  bool ok = find_statistics(call, &axes, terms, &s, error);
  g_autoptr(Value) mean = s.mean, inverse = s.inverse;
  for (size_t i = 0; ok && i < x->n; i++) {
    size_t r = row_of(x, mean, i);
    /* the difference is as exact as its terms */
    own[i] = (input->each ? square(input->each[i]) : 0) +
             square(UNIT) * (square(x->floats[i]) + square(mean->floats[r]));
    normal[i] = (x->floats[i] - mean->floats[r]) * inverse->floats[r];
    terms[i] = square(normal[i]) * own[i];
  }
  g_autoptr(Value) across = ok ? row_sums(x, terms, &axes, error) : NULL;
  g_autoptr(Value) along = across ? row_sums(x, own, &axes, error) : NULL;
  if (!along) return false;
  double n2 = axes.n * axes.n / error_growth(input, axes.n);
  for (size_t i = 0; outputs[0] && i < x->n; i++) {
    size_t r = row_of(x, mean, i);
    double off = own[i] + along->floats[r] / n2 + square(normal[i]) * across->floats[r] / n2;
    double e = inverse->floats[r] * sqrt(off) + UNIT * fabs(normal[i]);
    results[0].each[i] = isfinite(e) ? fabs(weight_of(call, i)) * e + UNIT * fabs(outputs[0]->floats[i]) : 0;
    if (!isfinite(results[0].each[i])) results[0].each[i] = 0;
  }
  for (size_t r = 0; r < mean->n; r++) {
    double of_mean = sqrt(along->floats[r] / n2);
    double of_inverse = inverse->floats[r] * (inverse->floats[r] * sqrt(across->floats[r] / n2) + UNIT);
    if (n_outputs > 1 && outputs[1]) results[1].each[r] = isfinite(of_mean) ? of_mean : 0;
    if (n_outputs > 2 && outputs[2]) results[2].each[r] = isfinite(of_inverse) ? of_inverse : 0;
  }
  return true;
}

bool errors_of_rows(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                    unsigned n_outputs, Errors *results, GError **error)
{
  if (!g_str_has_suffix(call->op, "Normalization"))
    return softmax(call, &inputs[0], outputs[0], results[0].each, error);
  if (!normalise(call, &inputs[0], outputs, n_outputs, results, error)) return false;
  for (unsigned i = 1; i < call->n_inputs; i++) /* scale and bias */
    if (call->inputs[i] && inputs[i].each &&
        !errors_by_moving(call, i, inputs[i].each, outputs, n_outputs, results, error))
      return false;
  return true;
}
