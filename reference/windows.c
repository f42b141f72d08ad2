/* MaxPool, AveragePool, LpPool: a window of elements for each element of the result. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

#define SPATIAL 2 /* dimensions in front of those of a window */

typedef struct {
  const ReferenceCall *call;
  const Value *x;
  unsigned n; /* dimensions of the window */
  int64_t kernel[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK], dilations[TENSOR_MAX_RANK];
  int64_t front[TENSOR_MAX_RANK], behind[TENSOR_MAX_RANK];
  int64_t shape[TENSOR_MAX_RANK]; /* of the result */
  double p;
} Pool;

bool reference_is_window(const char *op)
{
  return !strcmp(op, "MaxPool") || !strcmp(op, "AveragePool") || !strcmp(op, "LpPool");
}

static int64_t item(const ReferenceCall *call, const char *name, unsigned i, int64_t otherwise)
{
  const ReferenceAttribute *attribute = reference_attribute(call, name);
  return attribute && i < attribute->n ? attribute->integers[i] : otherwise;
}

/* How many windows there are along dimension i, and what is padded. */
static bool place_windows(Pool *pool, unsigned i, GError **error)
{
  const char *mode = reference_attribute(pool->call, "auto_pad")->text;
  int64_t extent = pool->x->shape[SPATIAL + i], span = (pool->kernel[i] - 1) * pool->dilations[i] + 1, n;
  if (!strncmp(mode, "SAME", 4)) {
    n = (extent + pool->strides[i] - 1) / pool->strides[i];
    int64_t pad = MAX((n - 1) * pool->strides[i] + span - extent, 0);
    pool->front[i] = !strcmp(mode, "SAME_UPPER") ? pad / 2 : pad - pad / 2;
    pool->behind[i] = pad - pool->front[i];
  } else {
    bool pads = !strcmp(mode, "NOTSET");
    pool->front[i] = pads ? item(pool->call, "pads", i, 0) : 0;
    pool->behind[i] = pads ? item(pool->call, "pads", pool->n + i, 0) : 0;
    int64_t rest = extent + pool->front[i] + pool->behind[i] - span;
    if (rest < 0) return reference_refuse(error, pool->call, "the window is larger than the image");
    n = rest / pool->strides[i] + 1;
    bool more = reference_integer(pool->call, "ceil_mode") && rest % pool->strides[i];
    if (more && n * pool->strides[i] < extent + pool->front[i]) n++;
  }
  pool->shape[SPATIAL + i] = n;
  return true;
}

static bool open_pool(Pool *pool, const ReferenceCall *call, GError **error)
{
  *pool = (Pool){.call = call, .x = call->inputs[0]};
  if (pool->x->rank <= SPATIAL) return reference_refuse(error, call, "it has no spatial dimension");
  pool->n = pool->x->rank - SPATIAL;
  memcpy(pool->shape, pool->x->shape, SPATIAL * sizeof *pool->shape);
  for (unsigned i = 0; i < pool->n; i++) {
    pool->kernel[i] = item(call, "kernel_shape", i, 1);
    pool->strides[i] = item(call, "strides", i, 1);
    pool->dilations[i] = item(call, "dilations", i, 1);
    if (!place_windows(pool, i, error)) return false;
  }
  return true;
}

typedef struct {
  double best, sum, power;
  int64_t whole, place; /* of integers the largest; where the largest is */
  size_t inside, counted;
} Window;

static double number_at(const Pool *pool, size_t at)
{
  return value_is_float(pool->x) ? pool->x->floats[at] : (double)pool->x->integers[at];
}

static void take(const Pool *pool, Window *window, size_t at, int64_t place, double p)
{
  double x = number_at(pool, at);
  if (!window->inside++ || x > window->best || (isnan(x) && !isnan(window->best))) {
    window->best = x;
    window->place = place;
  }
  window->sum += x;
  window->power += pow(fabs(x), p);
}

/* The window of one element of the result, whose first element of x is `base` and which begins at `start`. */
static Window walk(const Pool *pool, size_t base, const int64_t *start)
{
  Window window = {.best = -INFINITY};
  const int64_t *extent = &pool->x->shape[SPATIAL];
  bool columns =
      reference_attribute(pool->call, "storage_order") && reference_integer(pool->call, "storage_order");
  size_t total = 1;
  for (unsigned i = 0; i < pool->n; i++)
    total *= (size_t)pool->kernel[i];
  for (size_t j = 0; j < total; j++) {
    int64_t at[TENSOR_MAX_RANK];
    size_t rest = j, offset = 0, place = 0;
    bool inside = true, padded = true;
    for (unsigned i = pool->n; i-- > 0; rest /= (size_t)pool->kernel[i]) {
      at[i] = start[i] + (int64_t)(rest % (size_t)pool->kernel[i]) * pool->dilations[i];
      inside = inside && at[i] >= 0 && at[i] < extent[i];
      padded = padded && at[i] < extent[i] + pool->behind[i];
    }
    window.counted += padded;
    if (!inside) continue;
    for (unsigned i = 0; i < pool->n; i++) {
      unsigned d = columns ? pool->n - 1 - i : i;
      offset = offset * (size_t)extent[i] + (size_t)at[i];
      place = place * (size_t)extent[d] + (size_t)at[d];
    }
    take(pool, &window, base + offset, (int64_t)(base + place), pool->p);
  }
  return window;
}

static void give(const Pool *pool, const Window *window, size_t i, Value **outputs, unsigned n_outputs)
{
  const char *op = pool->call->op;
  if (n_outputs > 1 && outputs[1]) outputs[1]->integers[i] = window->place;
  if (!value_is_float(outputs[0])) {
    double least = pool->x->type == NUMBER_U8 ? 0 : INT8_MIN;
    outputs[0]->integers[i] = (int64_t)(window->inside ? window->best : least);
    return;
  }
  bool pads = !strcmp(op, "AveragePool") && reference_integer(pool->call, "count_include_pad");
  outputs[0]->floats[i] = !strcmp(op, "MaxPool") ? window->best
                          : !strcmp(op, "AveragePool")
                              ? window->sum / (double)(pads ? window->counted : window->inside)
                              : pow(window->power, 1 / pool->p);
}

bool reference_windows(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  Pool pool;
  if (!open_pool(&pool, call, error)) return false;
  const Value *x = pool.x;
  pool.p = reference_attribute(call, "p") ? (double)reference_integer(call, "p") : 1;
  outputs[0] = value_new(x->type, x->rank, pool.shape, error);
  if (!outputs[0]) return false;
  if (n_outputs > 1) outputs[1] = value_new(NUMBER_S64, x->rank, pool.shape, error);
  if (n_outputs > 1 && !outputs[1]) return false;
  size_t image = 1;
  for (unsigned i = 0; i < pool.n; i++)
    image *= (size_t)x->shape[SPATIAL + i];
  for (size_t i = 0; i < outputs[0]->n; i++) {
    int64_t start[TENSOR_MAX_RANK];
    size_t rest = i;
    for (unsigned d = pool.n; d-- > 0; rest /= (size_t)pool.shape[SPATIAL + d])
      start[d] = (int64_t)(rest % (size_t)pool.shape[SPATIAL + d]) * pool.strides[d] - pool.front[d];
    Window window = walk(&pool, rest * image, start);
    give(&pool, &window, i, outputs, n_outputs);
  }
  return true;
}
