/* Split, Transpose, Slice and Concat: the same elements at other indices. */
#include "reference/private.h"

/* An element of another value, floats or integers as its type has them. */
static void copy_element(Value *to, size_t at, const Value *from, size_t index)
{
  if (value_is_float(from))
    to->floats[at] = from->floats[index];
  else
    to->integers[at] = from->integers[index];
}

/* ---- Split ---- */

/* Sizes of the parts: the input or attribute `split`, or by their number. */
static bool sizes_of(const ReferenceCall *call, int64_t extent, unsigned n, int64_t *sizes, GError **error)
{
  const Value *input = call->n_inputs > 1 ? call->inputs[1] : NULL;
  const ReferenceAttribute *list = reference_attribute(call, "split");
  bool by_attribute = list && list->n;
  int64_t sum = 0, each = (extent + n - 1) / n;
  if ((input && input->n != n) || (by_attribute && list->n != n))
    return reference_refuse(error, call, "it has another number of outputs than of sizes");
  for (unsigned i = 0; i < n; i++) {
    int64_t rest = i + 1 < n ? each : extent - each * (n - 1);
    sizes[i] = input ? input->integers[i] : by_attribute ? list->integers[i] : rest;
    if (sizes[i] < 0) return reference_refuse(error, call, "a part has less than no elements");
    sum += sizes[i];
  }
  return sum == extent || reference_refuse(error, call, "the parts are not the whole");
}

/* Indices first .. first + size - 1 along the axis. */
static Value *part_of(const Value *x, unsigned axis, int64_t first, int64_t size, GError **error)
{
  int64_t shape[TENSOR_MAX_RANK];
  size_t inner = 1;
  for (unsigned d = 0; d < x->rank; d++) {
    shape[d] = d == axis ? size : x->shape[d];
    inner *= d > axis ? (size_t)x->shape[d] : 1;
  }
  Value *part = value_new(x->type, x->rank, shape, error);
  for (size_t i = 0; part && i < part->n; i++) {
    size_t row = i / (inner * (size_t)size), rest = i % (inner * (size_t)size);
    copy_element(part, i, x, row * inner * (size_t)x->shape[axis] + (size_t)first * inner + rest);
  }
  return part;
}

static bool split(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t axis = reference_integer(call, "axis"), first = 0;
  g_autofree int64_t *sizes = g_new0(int64_t, n_outputs + 1);
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank) return reference_refuse(error, call, "there is no such axis");
  if (!sizes_of(call, x->shape[axis], n_outputs, sizes, error)) return false;
  for (unsigned i = 0; i < n_outputs; i++) {
    outputs[i] = part_of(x, (unsigned)axis, first, sizes[i], error);
    if (!outputs[i]) return false;
    first += sizes[i];
  }
  return true;
}

/* ---- Transpose ---- */

static Value *transpose(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  const ReferenceAttribute *perm = reference_attribute(call, "perm");
  int64_t shape[TENSOR_MAX_RANK], own[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
  bool given = perm && perm->integers;
  if (given && perm->n != x->rank) {
    reference_refuse(error, call, "perm has another length than the shape");
    return NULL;
  }
  reference_strides(x, x->rank, x->shape, own);
  for (unsigned i = 0; i < x->rank; i++) {
    int64_t from = given ? perm->integers[i] : (int64_t)x->rank - 1 - i;
    if (from < 0 || from >= x->rank) {
      reference_refuse(error, call, "perm names no dimension");
      return NULL;
    }
    shape[i] = x->shape[from];
    strides[i] = own[from];
  }
  Value *result = value_new(x->type, x->rank, shape, error);
  for (size_t i = 0; result && i < result->n; i++) {
    size_t rest = i, index = 0;
    for (unsigned d = x->rank; d-- > 0;) {
      index += rest % (size_t)shape[d] * (size_t)strides[d];
      rest /= (size_t)shape[d];
    }
    copy_element(result, i, x, index);
  }
  return result;
}

/* ---- Slice ---- */

/* The list of an attribute or of an input; NULL, and n 0: there is none. */
static const int64_t *list_of(const ReferenceCall *call, const char *name, unsigned input, size_t *n)
{
  const ReferenceAttribute *attribute = reference_attribute(call, name);
  const Value *value = call->n_inputs > input ? call->inputs[input] : NULL;
  *n = attribute ? attribute->n : value ? value->n : 0;
  return attribute ? attribute->integers : value ? value->integers : NULL;
}

static int64_t inside(int64_t index, int64_t extent, int64_t low, int64_t high)
{
  if (index < 0) index = index < -extent ? low : index + extent;
  return MIN(MAX(index, low), high);
}

/* First index, distance and number of indices of each dimension; false: the lists do not fit the value. */
static bool read_slice(const ReferenceCall *call, int64_t *first, int64_t *step, int64_t *shape)
{
  const Value *x = call->inputs[0];
  size_t n, n_ends, n_axes, n_steps;
  const int64_t *starts = list_of(call, "starts", 1, &n), *ends = list_of(call, "ends", 2, &n_ends);
  const int64_t *axes = list_of(call, "axes", 3, &n_axes), *steps = list_of(call, "steps", 4, &n_steps);
  if (n != n_ends || (axes && n_axes && n_axes != n) || (steps && n_steps && n_steps != n)) return false;
  for (unsigned d = 0; d < x->rank; d++)
    first[d] = 0, step[d] = 1, shape[d] = x->shape[d];
  for (size_t i = 0; i < n; i++) {
    int64_t axis = n_axes ? axes[i] : (int64_t)i, by = n_steps ? steps[i] : 1;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || !by) return false;
    int64_t extent = x->shape[axis], end;
    first[axis] = inside(starts[i], extent, 0, by > 0 ? extent : extent - 1);
    end = by > 0 ? inside(ends[i], extent, 0, extent) : inside(ends[i], extent, -1, extent - 1);
    shape[axis] = 0;
    step[axis] = by;
    for (int64_t at = first[axis]; by > 0 ? at < end : at > end; shape[axis]++)
      if (__builtin_add_overflow(at, by, &at)) at = end;
  }
  return true;
}

static Value *slice(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t first[TENSOR_MAX_RANK], step[TENSOR_MAX_RANK], shape[TENSOR_MAX_RANK];
  if (!read_slice(call, first, step, shape)) {
    reference_refuse(error, call, "its lists do not fit the shape");
    return NULL;
  }
  Value *result = value_new(x->type, x->rank, shape, error);
  for (size_t i = 0; result && i < result->n; i++) {
    size_t rest = i, index = 0, stride = 1;
    for (unsigned d = x->rank; d-- > 0; stride *= (size_t)x->shape[d], rest /= (size_t)shape[d])
      index += (size_t)(first[d] + (int64_t)(rest % (size_t)shape[d]) * step[d]) * stride;
    copy_element(result, i, x, index);
  }
  return result;
}

/* ---- Concat ---- */

static Value *concat(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t axis = reference_integer(call, "axis"), shape[TENSOR_MAX_RANK];
  size_t inner = 1, outer = 1, before = 0;
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank) {
    reference_refuse(error, call, "there is no such axis");
    return NULL;
  }
  for (unsigned d = 0; d < x->rank; d++) {
    shape[d] = x->shape[d];
    inner *= d > axis ? (size_t)x->shape[d] : 1;
    outer *= d < axis ? (size_t)x->shape[d] : 1;
  }
  for (unsigned k = 1; k < call->n_inputs; k++)
    shape[axis] += call->inputs[k]->shape[axis];
  Value *result = value_new(x->type, x->rank, shape, error);
  for (unsigned k = 0; result && k < call->n_inputs; k++) {
    const Value *part = call->inputs[k];
    size_t run = (size_t)part->shape[axis] * inner, row = (size_t)shape[axis] * inner;
    for (size_t i = 0; i < outer * run; i++)
      copy_element(result, i / run * row + before + i % run, part, i);
    before += run;
  }
  return result;
}

bool reference_views(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  if (g_str_equal(call->op, "Split")) return split(call, outputs, n_outputs, error);
  if (g_str_equal(call->op, "Slice"))
    outputs[0] = slice(call, error);
  else
    outputs[0] = g_str_equal(call->op, "Concat") ? concat(call, error) : transpose(call, error);
  return outputs[0] != NULL;
}
