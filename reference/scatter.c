/* ScatterElements, Scatter, ScatterND, ReduceSegments, TensorScatter, AppendRows, GatherND, ReverseSequence: update by update, in their order. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

static const char *const names[] = {"ScatterElements", "Scatter",         "ScatterND",     "TensorScatter",
                                    "GatherND",        "ReverseSequence", "ReduceSegments"};

bool reference_is_scatter(const char *op)
{
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
    if (!strcmp(names[i], op)) return true;
  return false;
}

/* ---- places ---- */

static void place_of(const Value *value, size_t i, int64_t *at)
{
  for (unsigned d = value->rank; d-- > 0; i /= (size_t)value->shape[d])
    at[d] = (int64_t)(i % (size_t)value->shape[d]);
}

/* false: it is outside. */
static bool element_at(const Value *value, const int64_t *at, size_t *i)
{
  *i = 0;
  for (unsigned d = 0; d < value->rank; d++) {
    if (at[d] < 0 || at[d] >= value->shape[d]) return false;
    *i = *i * (size_t)value->shape[d] + (size_t)at[d];
  }
  return true;
}

static int64_t from_end(int64_t index, int64_t extent)
{
  return index < 0 ? index + extent : index;
}

static bool read_axis(const ReferenceCall *call, const char *name, unsigned *axis, GError **error)
{
  int64_t value = from_end(reference_integer(call, name), call->inputs[0]->rank);
  if (value < 0 || value >= call->inputs[0]->rank)
    return reference_refuse(error, call, "there is no such axis");
  *axis = (unsigned)value;
  return true;
}

/* ---- updates ---- */

static double combined(const char *how, double x, double u)
{
  if (!strcmp(how, "add")) return x + u;
  if (!strcmp(how, "mul")) return x * u;
  if (isnan(x) || isnan(u)) return strcmp(how, "none") ? NAN : u;
  if (!strcmp(how, "max")) return fmax(x, u);
  return !strcmp(how, "min") ? fmin(x, u) : u;
}

static int64_t combined_integers(const char *how, int64_t x, int64_t u)
{
  if (!strcmp(how, "add")) return (int64_t)((uint64_t)x + (uint64_t)u);
  if (!strcmp(how, "mul")) return (int64_t)((uint64_t)x * (uint64_t)u);
  if (!strcmp(how, "max")) return MAX(x, u);
  return !strcmp(how, "min") ? MIN(x, u) : u;
}

static void update(const ReferenceCall *call, Value *result, size_t to, const Value *updates, size_t from)
{
  const ReferenceAttribute *attribute = reference_attribute(call, "reduction");
  const char *how = attribute ? attribute->text : "none";
  if (value_is_float(result)) {
    result->floats[to] = combined(how, result->floats[to], updates->floats[from]);
    return;
  }
  int64_t whole = combined_integers(how, result->integers[to], updates->integers[from]);
  result->integers[to] = reference_wrap(result->type, whole);
}

static Value *copy_of(const Value *x, GError **error)
{
  Value *result = value_new(x->type, x->rank, x->shape, error);
  if (result && value_is_float(x)) memcpy(result->floats, x->floats, x->n * sizeof *x->floats);
  if (result && !value_is_float(x)) memcpy(result->integers, x->integers, x->n * sizeof *x->integers);
  return result;
}

static Value *scatter_elements(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0], *indices = call->inputs[1], *updates = call->inputs[2];
  unsigned axis = 0;
  int64_t at[TENSOR_MAX_RANK];
  size_t to;
  if (!read_axis(call, "axis", &axis, error)) return NULL;
  Value *result = copy_of(x, error);
  for (size_t i = 0; result && i < indices->n; i++) {
    place_of(indices, i, at);
    at[axis] = from_end(indices->integers[i], x->shape[axis]);
    if (element_at(x, at, &to)) update(call, result, to, updates, i);
  }
  return result;
}

/* How many elements a list of indices names. */
static size_t part_size(const Value *x, unsigned told)
{
  size_t n = 1;
  for (unsigned d = told; d < x->rank; d++)
    n *= (size_t)x->shape[d];
  return n;
}

static Value *scatter_lists(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0], *indices = call->inputs[1], *updates = call->inputs[2];
  unsigned told = (unsigned)indices->shape[indices->rank - 1];
  size_t part = part_size(x, told), to;
  Value *result = copy_of(x, error);
  for (size_t i = 0; result && i < indices->n / told; i++) {
    int64_t at[TENSOR_MAX_RANK] = {0};
    for (unsigned d = 0; d < told; d++)
      at[d] = from_end(indices->integers[i * told + d], x->shape[d]);
    for (size_t j = 0; j < part && element_at(x, at, &to); j++)
      update(call, result, to + j, updates, i * part + j);
  }
  return result;
}

static Value *reduce_segments(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0], *order = call->inputs[1], *updates = call->inputs[2],
              *ends = call->inputs[3];
  size_t part = part_size(x, 1);
  Value *zero = value_new(x->type, 0, NULL, error), *result = copy_of(x, error);
  for (int64_t p = 0, at = 0; result && zero && p < x->shape[0]; at = ends->integers[p++])
    for (int64_t i = MAX(at, 0); i < MIN(ends->integers[p], (int64_t)order->n); i++)
      for (size_t j = 0; j < part; j++) {
        bool given = order->integers[i] >= 0 && order->integers[i] < updates->shape[0];
        update(call, result, (size_t)p * part + j, given ? updates : zero,
               given ? (size_t)order->integers[i] * part + j : 0);
      }
  value_free(zero);
  return result;
}

static Value *insert(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0], *updates = call->inputs[1],
              *begins = call->n_inputs > 2 ? call->inputs[2] : NULL;
  bool circular = !strcmp(reference_attribute(call, "mode")->text, "circular");
  unsigned axis = 0;
  int64_t at[TENSOR_MAX_RANK];
  size_t to;
  if (!read_axis(call, "axis", &axis, error)) return NULL;
  Value *result = copy_of(x, error);
  for (size_t i = 0; result && i < updates->n; i++) {
    place_of(updates, i, at);
    if (begins) at[axis] += begins->integers[at[0]];
    if (circular) at[axis] = (at[axis] % x->shape[axis] + x->shape[axis]) % x->shape[axis];
    if (element_at(x, at, &to)) update(call, result, to, updates, i);
  }
  return result;
}

/* ---- AppendRows ---- */

static void take(Value *result, size_t to, const Value *x, bool inside, size_t from)
{
  if (value_is_float(result))
    result->floats[to] = inside ? x->floats[from] : 0;
  else
    result->integers[to] = inside ? x->integers[from] : 0;
}

bool reference_is_append(const char *op)
{
  return !strcmp(op, "AppendRows");
}

/* Where an element of the rows goes; false: nowhere. */
static bool appended_at(const ReferenceCall *call, unsigned axis, const Value *cache, const Value *rows,
                        size_t from, size_t *to)
{
  const Value *places = call->inputs[0];
  bool slots = !strcmp(reference_attribute(call, "places")->text, "slots"),
       circular = !strcmp(reference_attribute(call, "mode")->text, "circular");
  int64_t at[TENSOR_MAX_RANK + 1] = {0};
  unsigned pages = slots && cache->rank > rows->rank;
  place_of(rows, from, at + pages);
  if (!slots) {
    if (places) at[axis] += places->integers[at[0]];
    const Value *table = call->n_inputs > 5 ? call->inputs[5] : NULL;
    int64_t size = cache->shape[axis], page = table && size && at[axis] >= 0 ? at[axis] / size : 0;
    if (table && (at[axis] < 0 || page >= table->shape[1])) return false;
    if (table) at[0] = from_end(table->integers[at[0] * table->shape[1] + page], cache->shape[0]);
    if (table) at[axis] %= size;
    if (circular) at[axis] = (at[axis] % cache->shape[axis] + cache->shape[axis]) % cache->shape[axis];
    return element_at(cache, at, to);
  }
  int64_t slot = places->integers[at[pages]], size = pages ? cache->shape[1] : 1;
  if (slot < 0 || !size) return false;
  at[pages] = slot;
  if (pages) {
    at[0] = slot / size;
    at[1] = slot % size;
  }
  return element_at(cache, at, to);
}

bool reference_append(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  bool slots = !strcmp(reference_attribute(call, "places")->text, "slots");
  int64_t axis = from_end(reference_integer(call, "axis"), call->inputs[1]->rank);
  size_t to;
  if (!slots && (axis < 0 || axis >= call->inputs[1]->rank))
    return reference_refuse(error, call, "there is no such axis");
  for (unsigned i = 0; i < n_outputs; i++) {
    const Value *cache = call->inputs[i ? 3 : 1], *rows = call->inputs[i ? 4 : 2];
    outputs[i] = copy_of(cache, error);
    if (!outputs[i]) return false;
    for (size_t j = 0; j < rows->n; j++)
      if (appended_at(call, (unsigned)axis, cache, rows, j, &to)) take(outputs[i], to, rows, true, j);
  }
  return true;
}

/* ---- elements at indices ---- */

static Value *gather_lists(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0], *indices = call->inputs[1];
  const ReferenceAttribute *attribute = reference_attribute(call, "batch_dims");
  unsigned batches = attribute ? (unsigned)attribute->integer : 0, lists = indices->rank - 1;
  unsigned told = (unsigned)indices->shape[lists], skipped = batches + told;
  int64_t shape[2 * TENSOR_MAX_RANK];
  if (skipped > x->rank) {
    reference_refuse(error, call, "the indices do not fit the data");
    return NULL;
  }
  memcpy(shape, indices->shape, lists * sizeof *shape);
  memcpy(shape + lists, x->shape + skipped, (x->rank - skipped) * sizeof *shape);
  Value *result = value_new(x->type, lists + x->rank - skipped, shape, error);
  size_t part = part_size(x, skipped), from;
  for (size_t i = 0; result && i < indices->n / told; i++) {
    int64_t at[TENSOR_MAX_RANK] = {0}, list[TENSOR_MAX_RANK];
    place_of(indices, i * told, list);
    memcpy(at, list, batches * sizeof *at);
    for (unsigned d = 0; d < told; d++)
      at[batches + d] = from_end(indices->integers[i * told + d], x->shape[batches + d]);
    bool inside = element_at(x, at, &from);
    for (size_t j = 0; j < part; j++)
      take(result, i * part + j, x, inside, from + j);
  }
  return result;
}

static Value *reverse(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0], *lengths = call->inputs[1];
  unsigned time = 0, batch = 0;
  int64_t at[TENSOR_MAX_RANK];
  size_t from;
  if (!read_axis(call, "time_axis", &time, error) || !read_axis(call, "batch_axis", &batch, error))
    return NULL;
  Value *result = value_new(x->type, x->rank, x->shape, error);
  for (size_t i = 0; result && i < x->n; i++) {
    place_of(x, i, at);
    int64_t length = lengths->integers[at[batch]];
    if (at[time] < length) at[time] = length - 1 - at[time];
    bool inside = element_at(x, at, &from);
    take(result, i, x, inside, from);
  }
  return result;
}

Value *reference_scatter(const ReferenceCall *call, GError **error)
{
  static Value *(*const functions[])(const ReferenceCall *call, GError **error) = {
      scatter_elements, scatter_elements, scatter_lists, insert, gather_lists, reverse, reduce_segments};
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
    if (!strcmp(names[i], call->op)) return functions[i](call, error);
  return NULL;
}
