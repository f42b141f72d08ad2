/* Reshape, Flatten, Squeeze, Unsqueeze and Expand: the same elements in another shape, or repeated. */
#include "reference/private.h"
#include <string.h>

typedef struct {
  unsigned rank;
  int64_t dims[TENSOR_MAX_RANK];
} Shape;

static bool push(const ReferenceCall *call, Shape *shape, int64_t extent, GError **error)
{
  if (shape->rank == TENSOR_MAX_RANK)
    return reference_refuse(error, call, "its result has too many dimensions");
  shape->dims[shape->rank++] = extent;
  return true;
}

static bool reshape(const ReferenceCall *call, Shape *shape, GError **error)
{
  const Value *x = call->inputs[0], *entries = call->inputs[1];
  const ReferenceAttribute *zeros = reference_attribute(call, "allowzero");
  size_t known = 1;
  int open = -1;
  for (size_t i = 0; i < entries->n; i++) {
    int64_t entry = entries->integers[i];
    bool copied = !entry && !(zeros && zeros->integer);
    if (copied && i >= x->rank) return reference_refuse(error, call, "an entry of 0 has no dimension");
    if (entry < 0) open = (int)i;
    if (!push(call, shape, copied ? x->shape[i] : entry, error)) return false;
    if (entry >= 0) known *= (size_t)shape->dims[i];
  }
  if (call->shape)
    memcpy(shape->dims, call->shape, shape->rank * sizeof *shape->dims);
  else if (open >= 0)
    shape->dims[open] = known ? (int64_t)(x->n / known) : 0;
  return true;
}

static bool flatten(const ReferenceCall *call, Shape *shape, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t axis = reference_integer(call, "axis");
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis > x->rank) return reference_refuse(error, call, "there is no such axis");
  *shape = (Shape){2, {1, 1}};
  for (unsigned d = 0; d < x->rank; d++)
    shape->dims[d >= axis] *= x->shape[d];
  return true;
}

/* Bit i: axis i of a shape of that rank is named. */
static bool named_axes(const ReferenceCall *call, size_t rank, uint32_t *bits, bool *given, GError **error)
{
  const ReferenceAttribute *attribute = reference_attribute(call, "axes");
  const Value *input = call->n_inputs > 1 ? call->inputs[1] : NULL;
  size_t n = attribute ? attribute->n : input ? input->n : 0;
  const int64_t *axes = attribute ? attribute->integers : input ? input->integers : NULL;
  *given = attribute ? attribute->integers != NULL : input != NULL;
  *bits = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + (int64_t)rank : axes[i];
    if (axis < 0 || axis >= (int64_t)rank) return reference_refuse(error, call, "there is no such axis");
    *bits |= 1u << axis;
  }
  return true;
}

static bool squeeze(const ReferenceCall *call, Shape *shape, GError **error)
{
  const Value *x = call->inputs[0];
  uint32_t gone;
  bool given;
  if (!named_axes(call, x->rank, &gone, &given, error)) return false;
  for (unsigned d = 0; d < x->rank; d++) {
    bool goes = given ? gone >> d & 1 : x->shape[d] == 1;
    if (goes && x->shape[d] != 1) return reference_refuse(error, call, "a dimension that goes is not 1");
    if (!goes && !push(call, shape, x->shape[d], error)) return false;
  }
  return true;
}

static bool unsqueeze(const ReferenceCall *call, Shape *shape, GError **error)
{
  const Value *x = call->inputs[0];
  const ReferenceAttribute *attribute = reference_attribute(call, "axes");
  size_t rank = x->rank + (attribute ? attribute->n : call->n_inputs > 1 ? call->inputs[1]->n : 0);
  uint32_t added;
  bool given;
  if (rank > TENSOR_MAX_RANK) return reference_refuse(error, call, "its result has too many dimensions");
  if (!named_axes(call, rank, &added, &given, error)) return false;
  for (unsigned d = 0, from = 0; d < rank; d++)
    if (!push(call, shape, added >> d & 1 ? 1 : x->shape[from++], error)) return false;
  return true;
}

static bool expand(const ReferenceCall *call, Shape *shape, GError **error)
{
  const Value *x = call->inputs[0], *entries = call->inputs[1];
  size_t rank = MAX(x->rank, entries->n);
  for (size_t d = 0; d < rank; d++) {
    int64_t own = d + x->rank >= rank ? x->shape[d + x->rank - rank] : 1;
    int64_t entry = d + entries->n >= rank ? entries->integers[d + entries->n - rank] : 1;
    if (!push(call, shape, entry == 1 ? own : entry, error)) return false;
  }
  return true;
}

static const struct {
  const char *op;
  bool (*shape)(const ReferenceCall *call, Shape *shape, GError **error);
} table[] = {
    {"Reshape", reshape},     {"Flatten", flatten}, {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze}, {"Expand", expand},
};

bool reference_is_reshape(const char *op)
{
  for (size_t i = 0; i < G_N_ELEMENTS(table); i++)
    if (!strcmp(op, table[i].op)) return true;
  return false;
}

/* Of `n` elements in row-major order the one that element i of the shape shows. */
static size_t source_of(size_t i, const Shape *shape, const int64_t *strides)
{
  size_t index = 0;
  for (unsigned d = shape->rank; d-- > 0; i /= (size_t)shape->dims[d])
    index += i % (size_t)shape->dims[d] * (size_t)strides[d];
  return index;
}

Value *reference_reshape(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  Shape shape = {0};
  int64_t strides[TENSOR_MAX_RANK];
  for (size_t i = 0; i < G_N_ELEMENTS(table); i++)
    if (!strcmp(call->op, table[i].op) && !table[i].shape(call, &shape, error)) return NULL;
  bool repeats = !strcmp(call->op, "Expand");
  Value *result = value_new(x->type, shape.rank, shape.dims, error);
  if (!result) return NULL;
  bool fits = repeats ? reference_strides(x, shape.rank, shape.dims, strides) : result->n == x->n;
  if (!fits) {
    reference_refuse(error, call, "the shape does not fit its input");
    value_free(result);
    return NULL;
  }
  for (size_t i = 0; i < result->n; i++) {
    size_t from = repeats ? source_of(i, &shape, strides) : i;
    if (value_is_float(x))
      result->floats[i] = x->floats[from];
    else
      result->integers[i] = x->integers[from];
  }
  return result;
}
