/* Resample: sums of an input's elements at places that lists along some of its dimensions hold, by their weights. */
#include "reference/private.h"
#include <string.h>

typedef struct {
  const ReferenceCall *call;
  const Value *x;
  double fill;
  unsigned n;                     /* dimensions with lists: */
  unsigned axes[TENSOR_MAX_RANK]; /* these */
  int64_t shape[TENSOR_MAX_RANK]; /* of the result */
} Resample;

bool reference_is_resample(const char *op)
{
  return !strcmp(op, "Resample");
}

static const Value *list_of(const Resample *resample, unsigned i, bool weights)
{
  unsigned input = 1 + 2 * i + weights;
  return input < resample->call->n_inputs ? resample->call->inputs[input] : NULL;
}

static bool open_resample(Resample *resample, const ReferenceCall *call, GError **error)
{
  const ReferenceAttribute *axes = reference_attribute(call, "axes");
  const Value *x = call->inputs[0];
  *resample = (Resample){.call = call, .x = x, .fill = reference_number(call, "fill"), .n = axes->n};
  memcpy(resample->shape, x->shape, sizeof resample->shape);
  for (unsigned i = 0; i < axes->n; i++) {
    int64_t axis = axes->integers[i] < 0 ? axes->integers[i] + x->rank : axes->integers[i];
    const Value *places = list_of(resample, i, false);
    if (axis < 0 || axis >= x->rank || !places || places->rank != 2)
      return reference_refuse(error, call, "its lists do not fit");
    resample->axes[i] = (unsigned)axis;
    resample->shape[axis] = places->shape[1];
  }
  return true;
}

/* The sum along the lists of dimension i and those behind it; `point` lies in the result, `at` in x. */
static double sum_along(const Resample *resample, unsigned i, const int64_t *point, int64_t *at)
{
  const Value *x = resample->x;
  if (i == resample->n) {
    size_t from = reference_element(x, at);
    return from == REFERENCE_NOWHERE ? resample->fill
           : value_is_float(x)       ? x->floats[from]
                                     : (double)x->integers[from];
  }
  const Value *places = list_of(resample, i, false), *weights = list_of(resample, i, true);
  unsigned axis = resample->axes[i];
  double sum = 0;
  for (int64_t j = 0; j < places->shape[0]; j++) {
    size_t item = (size_t)(j * places->shape[1] + point[axis]);
    at[axis] = places->integers[item];
    sum += (weights ? weights->floats[item] : 1) * sum_along(resample, i + 1, point, at);
  }
  return sum;
}

/* Integers, one place each: exact. */
static int64_t integer_at(const Resample *resample, const int64_t *point, int64_t *at)
{
  for (unsigned i = 0; i < resample->n; i++)
    at[resample->axes[i]] = list_of(resample, i, false)->integers[point[resample->axes[i]]];
  size_t from = reference_element(resample->x, at);
  return from == REFERENCE_NOWHERE ? (int64_t)resample->fill : resample->x->integers[from];
}

Value *reference_resample(const ReferenceCall *call, GError **error)
{
  Resample resample;
  if (!open_resample(&resample, call, error)) return NULL;
  Value *result = value_new(call->result, resample.x->rank, resample.shape, error);
  for (size_t i = 0; result && i < result->n; i++) {
    int64_t point[TENSOR_MAX_RANK], at[TENSOR_MAX_RANK];
    size_t rest = i;
    for (unsigned d = result->rank; d-- > 0; rest /= (size_t)result->shape[d])
      at[d] = point[d] = (int64_t)(rest % (size_t)result->shape[d]);
    if (value_is_float(result))
      result->floats[i] = sum_along(&resample, 0, point, at);
    else
      result->integers[i] = integer_at(&resample, point, at);
  }
  return result;
}
