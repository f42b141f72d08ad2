/* Gather, GatherElements, Pad, Tile, Trilu and Mask: elements at indices that are data, or follow from where they go. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

typedef struct Walk Walk;
struct Walk {
  const ReferenceCall *call;
  const Value *x;
  int64_t shape[TENSOR_MAX_RANK]; /* of the result */
  unsigned rank;
  unsigned axis;
  int64_t pads[2 * TENSOR_MAX_RANK]; /* in front, by dimension; then behind */
  char mode;
  /* The element of x at a place of the result; REFERENCE_NOWHERE: what stands outside. */
  size_t (*source)(const Walk *walk, const int64_t *at);
};

size_t reference_element(const Value *x, const int64_t *at)
{
  size_t index = 0;
  for (unsigned d = 0; d < x->rank; d++) {
    if (at[d] < 0 || at[d] >= x->shape[d]) return REFERENCE_NOWHERE;
    index = index * (size_t)x->shape[d] + (size_t)at[d];
  }
  return index;
}

static bool find_axis(Walk *walk, GError **error)
{
  int64_t axis = reference_integer(walk->call, "axis");
  if (axis < 0) axis += walk->x->rank;
  if (axis < 0 || axis >= walk->x->rank) return reference_refuse(error, walk->call, "there is no such axis");
  walk->axis = (unsigned)axis;
  return true;
}

static int64_t from_end(int64_t index, int64_t extent)
{
  return index < 0 ? index + extent : index;
}

/* ---- Gather, GatherElements ---- */

static size_t gather_source(const Walk *walk, const int64_t *at)
{
  const Value *x = walk->x, *indices = walk->call->inputs[1];
  int64_t place[TENSOR_MAX_RANK];
  size_t index = 0;
  for (unsigned d = 0; d < indices->rank; d++)
    index = index * (size_t)indices->shape[d] + (size_t)at[walk->axis + d];
  for (unsigned d = 0; d < x->rank; d++)
    if (d != walk->axis) place[d] = at[d < walk->axis ? d : d + indices->rank - 1];
  place[walk->axis] = from_end(indices->integers[index], x->shape[walk->axis]);
  return reference_element(x, place);
}

static bool gather(Walk *walk, GError **error)
{
  const Value *x = walk->x, *indices = walk->call->inputs[1];
  if (!find_axis(walk, error)) return false;
  walk->rank = x->rank - 1 + indices->rank;
  if (walk->rank > TENSOR_MAX_RANK)
    return reference_refuse(error, walk->call, "its result has too many dimensions");
  for (unsigned d = 0; d < walk->rank; d++)
    walk->shape[d] = d < walk->axis                   ? x->shape[d]
                     : d < walk->axis + indices->rank ? indices->shape[d - walk->axis]
                                                      : x->shape[d + 1 - indices->rank];
  walk->source = gather_source;
  return true;
}

static size_t elements_source(const Walk *walk, const int64_t *at)
{
  const Value *x = walk->x, *indices = walk->call->inputs[1];
  int64_t place[TENSOR_MAX_RANK];
  memcpy(place, at, x->rank * sizeof *place);
  place[walk->axis] = from_end(indices->integers[reference_element(indices, at)], x->shape[walk->axis]);
  return reference_element(x, place);
}

static bool gather_elements(Walk *walk, GError **error)
{
  const Value *x = walk->x, *indices = walk->call->inputs[1];
  if (!find_axis(walk, error)) return false;
  bool fits = indices->rank == x->rank;
  for (unsigned d = 0; fits && d < x->rank; d++)
    fits = d == walk->axis || indices->shape[d] <= x->shape[d];
  if (!fits) return reference_refuse(error, walk->call, "the indices do not fit the data");
  walk->rank = x->rank;
  memcpy(walk->shape, indices->shape, sizeof walk->shape);
  walk->source = elements_source;
  return true;
}

/* ---- Pad ---- */

/* An index beyond the edges as the modes take it; beyond what they mirror it stays outside. */
static int64_t brought_inside(char mode, int64_t index, int64_t extent)
{
  if (mode == 'e') return MAX(0, MIN(index, extent - 1));
  if (mode == 'w' && extent) return (index % extent + extent) % extent;
  if (mode != 'r') return index;
  if (index < 0) index = -index;
  return index >= extent ? 2 * (extent - 1) - index : index;
}

static size_t pad_source(const Walk *walk, const int64_t *at)
{
  int64_t place[TENSOR_MAX_RANK];
  for (unsigned d = 0; d < walk->rank; d++)
    place[d] = brought_inside(walk->mode, at[d] - walk->pads[d], walk->x->shape[d]);
  return reference_element(walk->x, place);
}

static bool read_pads(Walk *walk, GError **error)
{
  const ReferenceCall *call = walk->call;
  const ReferenceAttribute *attribute = reference_attribute(call, "pads");
  const Value *input = attribute ? NULL : call->inputs[1];
  const Value *axes = call->n_inputs > 3 ? call->inputs[3] : NULL;
  size_t n = attribute ? attribute->n : input->n, half = axes ? axes->n : walk->rank;
  const int64_t *pads = attribute ? attribute->integers : input->integers;
  if (n != 2 * half) return reference_refuse(error, call, "it has another number of pads");
  for (size_t i = 0; i < half; i++) {
    int64_t axis = axes ? from_end(axes->integers[i], walk->rank) : (int64_t)i;
    if (axis < 0 || axis >= walk->rank) return reference_refuse(error, call, "there is no such axis");
    walk->pads[axis] = pads[i];
    walk->pads[walk->rank + axis] = pads[half + i];
  }
  return true;
}

static bool pad(Walk *walk, GError **error)
{
  const Value *x = walk->x;
  walk->rank = x->rank;
  walk->mode = reference_attribute(walk->call, "mode")->text[0];
  if (!read_pads(walk, error)) return false;
  for (unsigned d = 0; d < x->rank; d++) {
    walk->shape[d] = x->shape[d] + walk->pads[d] + walk->pads[x->rank + d];
    if (walk->shape[d] < 0) return reference_refuse(error, walk->call, "pads take more than there is");
  }
  walk->source = pad_source;
  return true;
}

/* ---- Tile, Trilu ---- */

static size_t tile_source(const Walk *walk, const int64_t *at)
{
  int64_t place[TENSOR_MAX_RANK];
  for (unsigned d = 0; d < walk->rank; d++)
    place[d] = at[d] % walk->x->shape[d];
  return reference_element(walk->x, place);
}

static bool tile(Walk *walk, GError **error)
{
  const Value *x = walk->x, *repeats = walk->call->inputs[1];
  if (repeats->n != x->rank) return reference_refuse(error, walk->call, "it has another number of repeats");
  walk->rank = x->rank;
  for (unsigned d = 0; d < x->rank; d++)
    walk->shape[d] = x->shape[d] * repeats->integers[d];
  walk->source = tile_source;
  return true;
}

static size_t trilu_source(const Walk *walk, const int64_t *at)
{
  const Value *k = walk->call->n_inputs > 1 ? walk->call->inputs[1] : NULL;
  int64_t distance = at[walk->rank - 1] - at[walk->rank - 2] - (k ? k->integers[0] : 0);
  bool upper = reference_integer(walk->call, "upper") != 0;
  return (upper ? distance >= 0 : distance <= 0) ? reference_element(walk->x, at) : REFERENCE_NOWHERE;
}

static bool trilu(Walk *walk, GError **error)
{
  walk->rank = walk->x->rank;
  memcpy(walk->shape, walk->x->shape, sizeof walk->shape);
  walk->source = trilu_source;
  return true;
}

/* ---- Mask ---- */

/* Of the bound at input i: its number for that index of the first dimension; false: it is absent. */
static bool read_bound(const Walk *walk, unsigned i, const int64_t *at, int64_t *bound)
{
  const Value *value = walk->call->n_inputs > i ? walk->call->inputs[i] : NULL;
  if (value) *bound = value->integers[value->n > 1 ? at[0] : 0];
  return value != NULL;
}

static size_t mask_source(const Walk *walk, const int64_t *at)
{
  const int64_t *extents = &walk->shape[walk->rank - 2];
  int64_t column = at[walk->rank - 1], length = extents[1], bound;
  bool seen = !read_bound(walk, 3, at, &length) || column < length;
  int64_t distance = column - at[walk->rank - 2] - (walk->mode == 'e' ? length - extents[0] : 0);
  seen = seen && (!read_bound(walk, 1, at, &bound) || distance >= bound);
  seen = seen && (!read_bound(walk, 2, at, &bound) || distance <= bound);
  return seen ? reference_element(walk->x, at) : REFERENCE_NOWHERE;
}

static bool mask(Walk *walk, GError **error)
{
  walk->rank = walk->x->rank;
  memcpy(walk->shape, walk->x->shape, sizeof walk->shape);
  walk->mode = reference_attribute(walk->call, "diagonal")->text[0];
  walk->source = mask_source;
  return true;
}

/* ---- all ---- */

static const struct {
  const char *op;
  bool (*open)(Walk *walk, GError **error);
} table[] = {
    {"Gather", gather}, {"GatherElements", gather_elements}, {"Pad", pad}, {"Tile", tile}, {"Trilu", trilu},
    {"Mask", mask},
};

static bool is_place(const char *op)
{
  return !strcmp(op, "IndexAlong");
}

/* The index of each element along an axis, or along the `dims` from there on as one. */
static Value *places_along(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t axis = reference_integer(call, "axis");
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank) {
    reference_refuse(error, call, "there is no such axis");
    return NULL;
  }
  Value *result = value_new(NUMBER_S32, x->rank, x->shape, error);
  size_t inner = 1, extent = 1, behind = (size_t)(axis + reference_integer(call, "dims"));
  for (size_t d = (size_t)axis; d < x->rank; d++)
    *(d < behind ? &extent : &inner) *= (size_t)x->shape[d];
  for (size_t i = 0; result && i < result->n; i++)
    result->integers[i] = (int64_t)(i / inner % extent);
  return result;
}

bool reference_is_index(const char *op)
{
  if (is_place(op)) return true;
  for (size_t i = 0; i < G_N_ELEMENTS(table); i++)
    if (!strcmp(op, table[i].op)) return true;
  return false;
}

/* What stands where there is no element of the input: Pad's value, Mask's -infinity, or 0. */
static void read_fill(const ReferenceCall *call, double *number, int64_t *integer)
{
  const ReferenceAttribute *attribute = reference_attribute(call, "value");
  const Value *fill = !strcmp(call->op, "Pad") && call->n_inputs > 2 ? call->inputs[2] : NULL;
  *number = fill && fill->floats       ? fill->floats[0]
            : attribute                ? attribute->number
            : strcmp(call->op, "Mask") ? 0
                                       : -INFINITY;
  *integer = fill && fill->integers ? fill->integers[0] : 0;
}

static void copy_elements(const Walk *walk, Value *result)
{
  int64_t at[TENSOR_MAX_RANK], whole;
  double fraction;
  read_fill(walk->call, &fraction, &whole);
  for (size_t i = 0; i < result->n; i++) {
    size_t rest = i;
    for (unsigned d = walk->rank; d-- > 0; rest /= (size_t)walk->shape[d])
      at[d] = (int64_t)(rest % (size_t)walk->shape[d]);
    size_t from = walk->source(walk, at);
    if (value_is_float(result))
      result->floats[i] = from == REFERENCE_NOWHERE ? fraction : walk->x->floats[from];
    else
      result->integers[i] = from == REFERENCE_NOWHERE ? whole : walk->x->integers[from];
  }
}

Value *reference_index(const ReferenceCall *call, GError **error)
{
  Walk walk = {.call = call, .x = call->inputs[0]};
  if (is_place(call->op)) return places_along(call, error);
  for (size_t i = 0; i < G_N_ELEMENTS(table); i++)
    if (!strcmp(call->op, table[i].op) && !table[i].open(&walk, error)) return NULL;
  Value *result = value_new(walk.x->type, walk.rank, walk.shape, error);
  if (result) copy_elements(&walk, result);
  return result;
}
