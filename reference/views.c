/* Split and Transpose: the same elements at other indices. */
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

bool reference_views(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  if (g_str_equal(call->op, "Split")) return split(call, outputs, n_outputs, error);
  outputs[0] = transpose(call, error);
  return outputs[0] != NULL;
}
