/* Errors of the operators over rows. Of a softmax from the logarithm of its odds, of which its results follow
 * exactly and within [0, 1]; of normalisation from its derivatives, within what a normalised row can hold.
 * Sums along the row are taken by the reference's own reductions. */
#include "reference/errors.h"
#include "reference/private.h"
#include <math.h>
#include <string.h>

/* Of the arithmetic, some units: a difference, a sum and a quotient. */
static double some_units(NumberType type)
{
  return type == NUMBER_F64 ? 0x1p-51 : 0x1p-22;
}

/* Exponentials of a softmax's scores, of which the largest is 1, are right from e^-87 on and may be 0 below. */
#define FLUSHED 0x1.8p-126

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

/* What the operator reduces `terms`, of x's shape, to along the rows: of rank and shape to broadcast against x. */
static Value *reduce_rows(const char *op, const Value *x, double *terms, Axes *axes, GError **error)
{
  Value all = *x;
  all.type = NUMBER_F64;
  all.floats = terms;
  all.integers = NULL;
  const Value *inputs[] = {&all, &axes->list};
  const ReferenceAttribute keep[] = {{.name = "keepdims", .integer = 1}, {.name = "noop_with_empty_axes"}};
  const ReferenceCall call = {.op = op,
                              .opset = 18,
                              .inputs = inputs,
                              .n_inputs = 2,
                              .attributes = keep,
                              .n_attributes = G_N_ELEMENTS(keep),
                              .result = NUMBER_F64};
  Value *sums = NULL;
  return reference_run(&call, &sums, 1, error) ? sums : NULL;
}

static Value *row_sums(const Value *x, double *terms, Axes *axes, GError **error)
{
  return reduce_rows("ReduceSum", x, terms, axes, error);
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

/* Sums over each row of a softmax. One element of a row at most is above a half: it is kept out of the sums,
 * so that what stands beside it is not lost in its rounding. */
typedef enum {
  REST,         /* probabilities */
  SQUARES,      /* squares of probabilities times those of the errors of their scores */
  SPREAD,       /* probabilities times the latter */
  LARGE_SQUARE, /* the same of the element that is above a half */
  LARGE_SPREAD,
  N_SOFTMAX_SUMS
} SoftmaxSum;

static double softmax_term(SoftmaxSum kind, double p, double own)
{
  if ((p > 0.5) != (kind >= LARGE_SQUARE) || p == 0) return 0;
  return kind == REST ? p : kind == SQUARES || kind == LARGE_SQUARE ? p * p * own : p * own;
}

static bool find_softmax_sums(const Value *x, const double *p, const double *own, Axes *axes,
                              Value *sums[N_SOFTMAX_SUMS], GError **error)
{
  g_autofree double *terms = g_new0(double, x->n + 1);
  for (unsigned k = 0; k < N_SOFTMAX_SUMS; k++) {
    for (size_t i = 0; i < x->n; i++)
      terms[i] = softmax_term((SoftmaxSum)k, p[i], own[i]);
    if (!(sums[k] = row_sums(x, terms, axes, error))) return false;
  }
  return true;
}

/* Error of log(p / (1 - p)) of an element: of its own score and, weighted by their share, of the others'.
 * These may have some of it in common, but never more than their mean. Errors beyond 1 raise the mean of e^x
 * too. */
static double odds_error(Value *const sums[N_SOFTMAX_SUMS], size_t row, double p, double own, double grown,
                         double *rest)
{
  double part[N_SOFTMAX_SUMS];
  bool above = p > 0.5;
  for (unsigned k = 0; k < N_SOFTMAX_SUMS; k++)
    part[k] = sums[k]->floats[row];
  *rest = above ? part[REST] : 1 - p;
  double squares = part[SQUARES], spread = part[SPREAD];
  if (!above) {
    squares = fmax(0, squares - p * p * own) + part[LARGE_SQUARE];
    spread = fmax(0, spread - p * own) + part[LARGE_SPREAD];
  }
  double mean = *rest > 0 ? spread / *rest : 0;
  double others = *rest > 0 ? fmin(grown * squares / (*rest * *rest), mean) : 0;
  double off = sqrt(own + others) + 0.5 * mean;
  return isnan(off) ? INFINITY : off;
}

/* What an error of `off` of log(p / rest) makes of p, where p + rest = 1: p e^off / (rest + p e^off) - p or,
 * downwards, its counterpart, whichever is more. To first order p rest off, and never above either of them.
 */
static double moved_probability(double p, double rest, double off)
{
  double left = exp(-off), gone = -expm1(-off);
  p = fmax(p, 0x1p-1070); /* of what vanishes in double something may remain */
  rest = fmax(rest, 0x1p-1070);
  return p * rest * gone / fmin(rest * left + p, rest + p * left);
}

/* The same of log p. */
static double moved_logarithm(double p, double rest, double off)
{
  double gone = -expm1(-off);
  return fmax(-log1p(-rest * gone), off + log1p(-p * gone));
}

/* Weights that a product takes in a type of 8 bits, of which the largest one of a row is at least so many times the least normal number. */
#define WEIGHTS_RANGE 0x1p8
#define LEAST_NORMAL  0x1p-6 /* of e4m3 */

/* What rounding them to e4m3 adds; each row's largest one is by how much the type is shifted. */
static bool round_weights(const Value *x, double *p, Axes *axes, double *errors, GError **error)
{
  Value *largest = reduce_rows("ReduceMax", x, p, axes, error);
  for (size_t i = 0; largest && i < x->n; i++) {
    if (p[i] == 0) continue; /* 0 stays 0 */
    double most = largest->floats[row_of(x, largest, i)];
    double unit = most > 0 ? most / WEIGHTS_RANGE : 1; /* is the least normal number */
    double rounding = error_of_storing(NUMBER_E4M3, p[i] / unit * LEAST_NORMAL) * unit / LEAST_NORMAL;
    errors[i] = error_sum(errors[i], rounding);
  }
  value_free(largest);
  return largest != NULL;
}

/* e^x vanishes in double that far below 0, however large the sum of the others is. */
#define VANISHES     (-760.0)
#define MOST_SQUARED 16.0 /* an error is taken for four times what it may be */

static double furthest(double own)
{
  return sqrt(MOST_SQUARED * own);
}

/* Scores so far below their row's largest one that their weights are 0 with all errors are hidden by a mask: a lowest number of 16 bits has
 * an error of 1e36, and nothing follows from it. Their `own` becomes 0; false: out of what reduces rows. */
static bool leave_hidden(const Value *x, double *own, Axes *axes, bool *hidden, GError **error)
{
  g_autofree double *least = g_new0(double, x->n + 1);
  for (size_t i = 0; i < x->n; i++)
    least[i] = isinf(x->floats[i]) ? x->floats[i] : x->floats[i] - furthest(own[i]);
  Value *largest = reduce_rows("ReduceMax", x, least, axes, error);
  for (size_t i = 0; largest && i < x->n; i++) {
    double peak = largest->floats[row_of(x, largest, i)];
    double most = isinf(x->floats[i]) ? x->floats[i] : x->floats[i] + furthest(own[i]);
    hidden[i] = isfinite(peak) && most < peak + VANISHES;
    if (hidden[i]) own[i] = 0;
  }
  value_free(largest);
  return largest != NULL;
}

/* log(p_i / (1 - p_i)) = x_i - log of the sum of the others' e^x: from its error that of p_i follows exactly,
 * however large it is. */
static bool softmax(const ReferenceCall *call, const Errors *input, const Value *y, double *errors,
                    GError **error)
{
  const Value *x = call->inputs[0];
  double unit = some_units(x->type);
  bool logarithm = !strcmp(call->op, "LogSoftmax");
  Axes axes;
  find_axes(call, &axes);
  g_autofree double *own = g_new0(double, x->n + 1), *p = g_new0(double, x->n + 1);
  for (size_t i = 0; i < x->n; i++) {
    p[i] = logarithm ? exp(y->floats[i]) : y->floats[i];
    double given = input->each ? input->each[i] : 0;
    own[i] = given * given + square(unit) * (1 + square(x->floats[i]));
  }
  Value *sums[N_SOFTMAX_SUMS] = {NULL};
  g_autofree bool *hidden = g_new0(bool, x->n + 1);
  bool ok = (logarithm || leave_hidden(x, own, &axes, hidden, error)) &&
            find_softmax_sums(x, p, own, &axes, sums, error);
  double grown = error_growth(input, axes.n);
  for (size_t i = 0; ok && i < x->n; i++) {
    errors[i] = 0;
    if (hidden[i]) continue;
    double rest, off = odds_error(sums, row_of(x, sums[REST], i), p[i], own[i], grown, &rest);
    double moved = logarithm ? moved_logarithm(p[i], rest, off) : moved_probability(p[i], rest, off);
    errors[i] = moved + unit * (logarithm ? 1 + fabs(y->floats[i]) : p[i]);
    if (!logarithm && y->type != NUMBER_F64) errors[i] += FLUSHED;
    if (isnan(errors[i])) errors[i] = 0; /* the reference is not finite either */
  }
  for (unsigned k = 0; k < N_SOFTMAX_SUMS; k++)
    value_free(sums[k]);
  if (reference_rounds_to(call, y) == NUMBER_E4M3) ok = ok && round_weights(x, p, &axes, errors, error);
  return ok;
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

/* The inverse deviation is 1 / sqrt(epsilon) at most; where its error is as large as itself, anything up to
 * that may come out. */
static double bounded_inverse(const ReferenceCall *call, double inverse, double off)
{
  return off < inverse / 2 ? off : fmax(off, 1 / sqrt(reference_number(call, "epsilon")));
}

/* (dx_i - mean of dx - n_i mean of n dx) / deviation, n being the normalised row; without the mean of dx
 * where nothing is taken off. What all of the row have in common, or in proportion, cancels. */
static bool normalise(const ReferenceCall *call, const Errors *input, Value *const *outputs,
                      unsigned n_outputs, Errors *results, GError **error)
{
  const Value *x = call->inputs[0];
  double unit = some_units(x->type);
  Axes axes;
  find_axes(call, &axes);
  g_autofree double *terms = g_new0(double, x->n + 1), *own = g_new0(double, x->n + 1),
                    *normal = g_new0(double, x->n + 1);
  Statistics s = {NULL, NULL};
  bool centred = !strcmp(call->op, "LayerNormalization");
  bool ok = find_statistics(call, &axes, terms, &s, error);
  g_autoptr(Value) mean = s.mean, inverse = s.inverse;
  for (size_t i = 0; ok && i < x->n; i++) {
    size_t r = row_of(x, mean, i);
    /* the difference is as exact as its terms */
    double given = input->each ? input->each[i] : 0;
    own[i] = given * given + square(unit) * (square(x->floats[i]) + square(mean->floats[r]));
    normal[i] = (x->floats[i] - mean->floats[r]) * inverse->floats[r];
    terms[i] = square(normal[i]) * own[i];
  }
  g_autoptr(Value) across = ok ? row_sums(x, terms, &axes, error) : NULL;
  for (size_t i = 0; ok && i < x->n; i++)
    terms[i] = normal[i] * own[i];
  g_autoptr(Value) tilt = across ? row_sums(x, terms, &axes, error) : NULL;
  g_autoptr(Value) along = tilt ? row_sums(x, own, &axes, error) : NULL;
  if (!along) return false;
  double n2 = axes.n * axes.n, ones = centred ? 1 : 0;
  double most = sqrt(axes.n - ones); /* of an element of a normalised row */
  for (size_t i = 0; outputs[0] && i < x->n; i++) {
    size_t r = row_of(x, mean, i);
    /* squares of the derivatives by x_i itself, and by the others */
    double self = 1 - (ones + square(normal[i])) / axes.n;
    double others = ones * along->floats[r] + 2 * ones * normal[i] * tilt->floats[r] +
                    square(normal[i]) * across->floats[r] - square(ones + square(normal[i])) * own[i];
    double off = square(self) * own[i] + fmax(0, others) / n2;
    double e = inverse->floats[r] * sqrt(off) + unit * fabs(normal[i]);
    e = fmin(e, fabs(normal[i]) + most);
    results[0].each[i] = isfinite(e) ? fabs(weight_of(call, i)) * e + unit * fabs(outputs[0]->floats[i]) : 0;
    if (!isfinite(results[0].each[i])) results[0].each[i] = 0;
  }
  double grown = error_growth(input, axes.n);
  for (size_t r = 0; r < mean->n; r++) {
    double of_mean = sqrt(grown * along->floats[r] / n2);
    double of_inverse =
        inverse->floats[r] * (inverse->floats[r] * sqrt(grown * across->floats[r] / n2) + unit);
    if (n_outputs > 1 && outputs[1]) results[1].each[r] = isfinite(of_mean) ? of_mean : 0;
    of_inverse = bounded_inverse(call, inverse->floats[r], of_inverse);
    if (n_outputs > 2 && outputs[2]) results[2].each[r] = isnan(of_inverse) ? 0 : of_inverse;
  }
  return true;
}

bool errors_of_rows(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                    unsigned n_outputs, Errors *results, GError **error)
{
  if (!g_str_has_suffix(call->op, "Normalization")) {
    int64_t axis = reference_integer(call, "axis");
    bool last = call->opset < 13 || axis == -1 || axis == call->inputs[0]->rank - 1;
    /* two rows, both positive and of sum 1 */
    if (last && !strcmp(call->op, "Softmax")) results[0].total = 2;
    return softmax(call, &inputs[0], outputs[0], results[0].each, error);
  }
  if (!normalise(call, &inputs[0], outputs, n_outputs, results, error)) return false;
  for (unsigned i = 1; i < call->n_inputs; i++) /* scale and bias */
    if (call->inputs[i] && inputs[i].each &&
        !errors_by_moving(call, i, inputs[i].each, outputs, n_outputs, results, error))
      return false;
  return true;
}
