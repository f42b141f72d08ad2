/* Softmax, LogSoftmax, Hardmax, LayerNormalization, RMSNormalization, the reductions, ArgMax, ArgMin, CumSum and the first of rows in order, over any axes. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

/* The elements of a tensor as rows: element (r, c) lies at outer[r] + inner[c]. */
typedef struct {
  size_t n_rows, n_columns;
  size_t *outer, *inner;
} Rows;

static void free_rows(Rows *rows)
{
  g_free(rows->outer);
  g_free(rows->inner);
}

/* Offsets of all combinations of the dims whose bit is set (or not). */
static size_t *offsets(const Value *value, uint32_t axes, bool set, size_t *n)
{
  int64_t strides[TENSOR_MAX_RANK];
  reference_strides(value, value->rank, value->shape, strides);
  *n = 1;
  for (unsigned d = 0; d < value->rank; d++)
    if ((axes >> d & 1) == set) *n *= (size_t)value->shape[d];
  size_t *list = g_new0(size_t, *n + 1);
  for (size_t i = 0; i < *n; i++) {
    size_t rest = i;
    for (unsigned d = value->rank; d-- > 0;) {
      if ((axes >> d & 1) != set) continue;
      list[i] += rest % (size_t)value->shape[d] * (size_t)strides[d];
      rest /= (size_t)value->shape[d];
    }
  }
  return list;
}

static Rows rows_of(const Value *value, uint32_t axes)
{
  Rows rows;
  rows.outer = offsets(value, axes, false, &rows.n_rows);
  rows.inner = offsets(value, axes, true, &rows.n_columns);
  return rows;
}

/* Bits of axis .. rank - 1; false if there is no such axis. */
static bool axes_from(int64_t axis, unsigned rank, uint32_t *axes)
{
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return false;
  *axes = (1u << rank) - (1u << axis);
  return true;
}

/* ---- what is largest ---- */

typedef struct {
  bool largest, last; /* last: of equal ones */
} Which;

static double element(const Value *x, size_t i)
{
  return x->floats ? x->floats[i] : (double)x->integers[i]; /* of at most 32 bits: exact */
}

/* NaN is beyond everything. */
static bool is_better(double x, double best, Which which)
{
  if (isnan(best) || isnan(x)) return isnan(x) && (which.last || !isnan(best));
  bool beyond = which.largest ? x > best : x < best;
  return beyond || (which.last && x == best);
}

static size_t best_of(const Value *x, const Rows *rows, size_t row, Which which)
{
  size_t best = 0;
  for (size_t c = 1; c < rows->n_columns; c++)
    if (is_better(element(x, rows->outer[row] + rows->inner[c]),
                  element(x, rows->outer[row] + rows->inner[best]), which))
      best = c;
  return best;
}

static void hardmax_row(const Value *x, Value *y, const Rows *rows, size_t row)
{
  for (size_t c = 0; c < rows->n_columns; c++)
    y->floats[rows->outer[row] + rows->inner[c]] = 0;
  if (rows->n_columns)
    y->floats[rows->outer[row] + rows->inner[best_of(x, rows, row, (Which){true, false})]] = 1;
}

/* ---- softmax ---- */

static void softmax_row(const double *x, double *y, const Rows *rows, size_t row, const ReferenceCall *call)
{
  bool logarithm = !strcmp(call->op, "LogSoftmax");
  const ReferenceAttribute *masked = reference_attribute(call, "masked_rows");
  bool zero = masked && !strcmp(masked->text, "zero");
  double largest = -INFINITY, sum = 0;
  const size_t *inner = rows->inner;
  x += rows->outer[row];
  y += rows->outer[row];
  for (size_t c = 0; c < rows->n_columns; c++)
    if (isnan(x[inner[c]]) || x[inner[c]] > largest) largest = x[inner[c]];
  for (size_t c = 0; c < rows->n_columns; c++)
    sum += exp(x[inner[c]] - largest);
  for (size_t c = 0; c < rows->n_columns; c++)
    y[inner[c]] = logarithm                      ? x[inner[c]] - largest - log(sum)
                  : zero && largest == -INFINITY ? 0
                                                 : exp(x[inner[c]] - largest) / sum;
}

static Value *softmax(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  uint32_t axes;
  if (!axes_from(reference_integer(call, "axis"), x->rank, &axes)) {
    reference_refuse(error, call, "there is no such axis");
    return NULL;
  }
  if (call->opset >= 13) axes &= ~(axes - 1); /* that axis alone */
  Value *y = value_new(x->type, x->rank, x->shape, error);
  if (!y) return NULL;
  Rows rows = rows_of(x, axes);
  for (size_t r = 0; r < rows.n_rows; r++)
    if (!strcmp(call->op, "Hardmax"))
      hardmax_row(x, y, &rows, r);
    else
      softmax_row(x->floats, y->floats, &rows, r, call);
  free_rows(&rows);
  return y;
}

/* ---- normalisation ---- */

typedef struct {
  double mean, inverse; /* 1 / sqrt(variance + epsilon) */
} Statistics;

static Statistics statistics_of(const double *x, const Rows *rows, bool centred, double epsilon)
{
  double sum = 0, squares = 0, n = (double)rows->n_columns;
  for (size_t c = 0; centred && c < rows->n_columns; c++)
    sum += x[rows->inner[c]];
  double mean = centred ? sum / n : 0;
  for (size_t c = 0; c < rows->n_columns; c++)
    squares += (x[rows->inner[c]] - mean) * (x[rows->inner[c]] - mean);
  return (Statistics){mean, 1 / sqrt(squares / n + epsilon)};
}

/* Offsets of a scale or bias for every element of x, or NULL if it does not broadcast. */
static size_t *broadcast_offsets(const Value *value, const Value *x)
{
  int64_t strides[TENSOR_MAX_RANK];
  if (!reference_strides(value, x->rank, x->shape, strides)) return NULL;
  size_t *list = g_new0(size_t, x->n + 1);
  for (size_t i = 0; i < x->n; i++) {
    size_t rest = i;
    for (unsigned d = x->rank; d-- > 0;) {
      list[i] += rest % (size_t)x->shape[d] * (size_t)strides[d];
      rest /= (size_t)x->shape[d];
    }
  }
  return list;
}

static bool scale_or_shift(Value *y, const Value *by, bool scale)
{
  g_autofree size_t *at = by ? broadcast_offsets(by, y) : NULL;
  if (!by) return true;
  if (!at) return false;
  for (size_t i = 0; i < y->n; i++)
    y->floats[i] = scale ? y->floats[i] * by->floats[at[i]] : y->floats[i] + by->floats[at[i]];
  return true;
}

/* Mean or inverse deviation as outputs: the normalised axes become 1. */
static Value *statistics_value(const Value *x, uint32_t axes, GError **error)
{
  int64_t shape[TENSOR_MAX_RANK];
  for (unsigned d = 0; d < x->rank; d++)
    shape[d] = axes >> d & 1 ? 1 : x->shape[d];
  return value_new(NUMBER_F32, x->rank, shape, error);
}

static bool normalise(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  const Value *x = call->inputs[0];
  bool centred = !strcmp(call->op, "LayerNormalization");
  uint32_t axes;
  if (!axes_from(reference_integer(call, "axis"), x->rank, &axes))
    return reference_refuse(error, call, "there is no such axis");
  if (!(outputs[0] = value_new(x->type, x->rank, x->shape, error))) return false;
  for (unsigned i = 1; i < n_outputs; i++)
    if (!(outputs[i] = statistics_value(x, axes, error))) return false;
  Rows rows = rows_of(x, axes);
  for (size_t r = 0; r < rows.n_rows; r++) {
    const double *row = x->floats + rows.outer[r];
    Statistics s = statistics_of(row, &rows, centred, reference_number(call, "epsilon"));
    for (size_t c = 0; c < rows.n_columns; c++)
      outputs[0]->floats[rows.outer[r] + rows.inner[c]] = (row[rows.inner[c]] - s.mean) * s.inverse;
    if (n_outputs > 1) outputs[1]->floats[r] = s.mean;
    if (n_outputs > 2) outputs[2]->floats[r] = s.inverse;
  }
  free_rows(&rows);
  const Value *bias = call->n_inputs > 2 ? call->inputs[2] : NULL;
  if (scale_or_shift(outputs[0], call->inputs[1], true) && scale_or_shift(outputs[0], bias, false))
    return true;
  return reference_refuse(error, call, "scale or bias do not broadcast");
}

/* ---- reductions ---- */

static bool read_axes(const ReferenceCall *call, uint32_t *axes)
{
  const Value *x = call->inputs[0];
  const ReferenceAttribute *attribute = reference_attribute(call, "axes");
  const Value *input = call->n_inputs > 1 ? call->inputs[1] : NULL;
  const int64_t *list = attribute ? attribute->integers : input ? input->integers : NULL;
  size_t n = attribute ? attribute->n : input ? input->n : 0;
  const ReferenceAttribute *noop = reference_attribute(call, "noop_with_empty_axes");
  *axes = n || (noop && noop->integer) ? 0 : (1u << x->rank) - 1;
  for (size_t i = 0; i < n; i++) {
    int64_t axis = list[i] < 0 ? list[i] + x->rank : list[i];
    if (axis < 0 || axis >= x->rank) return false;
    *axes |= 1u << axis;
  }
  return true;
}

typedef enum { REDUCE_SUM, REDUCE_MEAN, REDUCE_MAX, REDUCE_MIN, REDUCE_PROD, REDUCE_LOG_SUM_EXP } Reduction;

/* ln sum e^x: of rows whose largest is infinite that. */
static double log_sum_exp(const double *x, const Rows *rows, double largest)
{
  double sum = 0;
  if (!isfinite(largest)) return largest;
  for (size_t c = 0; c < rows->n_columns; c++)
    sum += exp(x[rows->inner[c]] - largest);
  return largest + log(sum);
}

static double product(const double *x, const Rows *rows)
{
  double result = 1;
  for (size_t c = 0; c < rows->n_columns; c++)
    result *= x[rows->inner[c]];
  return result;
}

static double reduce_floats(const double *x, const Rows *rows, Reduction kind)
{
  if (kind == REDUCE_LOG_SUM_EXP) return log_sum_exp(x, rows, reduce_floats(x, rows, REDUCE_MAX));
  if (kind == REDUCE_PROD) return product(x, rows);
  double result = kind == REDUCE_MAX ? -INFINITY : kind == REDUCE_MIN ? INFINITY : 0;
  for (size_t c = 0; c < rows->n_columns; c++) {
    double value = x[rows->inner[c]];
    if (kind <= REDUCE_MEAN)
      result += value;
    else if (isnan(value) || (kind == REDUCE_MAX ? value > result : value < result))
      result = isnan(result) ? result : value;
  }
  return kind == REDUCE_MEAN ? result / (double)rows->n_columns : result;
}

/* The largest of no numbers is the type's least, and the other way round. */
static int64_t best_of_none(Reduction kind, NumberType type)
{
  uint64_t half = UINT64_C(1) << (number_bits(type) - 1);
  bool is_signed = reference_wrap(type, -1) < 0;
  if (kind == REDUCE_MAX) return is_signed ? (int64_t)(0 - half) : 0;
  return (int64_t)(is_signed ? half - 1 : 2 * half - 1);
}

static int64_t reduce_integers(const int64_t *x, const Rows *rows, Reduction kind, NumberType type)
{
  uint64_t sum = 0, all = 1;
  int64_t result = best_of_none(kind, type);
  for (size_t c = 0; c < rows->n_columns; c++) {
    int64_t value = x[rows->inner[c]];
    sum += (uint64_t)value;
    all *= (uint64_t)value;
    bool better = c == 0 || (kind == REDUCE_MAX ? value > result : value < result);
    if (better) result = value;
  }
  if (kind == REDUCE_PROD) return reference_wrap(type, (int64_t)all);
  if (kind > REDUCE_MEAN) return result;
  int64_t total = reference_wrap(type, (int64_t)sum);
  return kind == REDUCE_SUM || !rows->n_columns ? total : total / (int64_t)rows->n_columns;
}

/* Of a type, in the shape of input 0 without the axes, or with 1 there. */
static Value *reduced_value(const ReferenceCall *call, uint32_t axes, NumberType type, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t shape[TENSOR_MAX_RANK];
  unsigned rank = 0;
  for (unsigned d = 0; d < x->rank; d++)
    if (!(axes >> d & 1))
      shape[rank++] = x->shape[d];
    else if (reference_integer(call, "keepdims"))
      shape[rank++] = 1;
  return value_new(type, rank, shape, error);
}

static Value *reduce(const ReferenceCall *call, GError **error)
{
  static const char *const names[] = {"ReduceSum", "ReduceMean", "ReduceMax",
                                      "ReduceMin", "ReduceProd", "ReduceLogSumExp"};
  const Value *x = call->inputs[0];
  uint32_t axes;
  Reduction kind = REDUCE_SUM;
  while (strcmp(names[kind], call->op))
    kind++;
  if (!read_axes(call, &axes)) {
    reference_refuse(error, call, "there is no such axis");
    return NULL;
  }
  Value *y = reduced_value(call, axes, x->type, error);
  if (!y) return NULL;
  Rows rows = rows_of(x, axes);
  for (size_t r = 0; r < rows.n_rows; r++)
    if (x->floats)
      y->floats[r] = reduce_floats(x->floats + rows.outer[r], &rows, kind);
    else
      y->integers[r] = reduce_integers(x->integers + rows.outer[r], &rows, kind, x->type);
  free_rows(&rows);
  return y;
}

/* ---- ArgMax, ArgMin ---- */

static bool chosen_axes(const ReferenceCall *call, uint32_t *axes)
{
  if (!axes_from(reference_integer(call, "axis"), call->inputs[0]->rank, axes)) return false;
  const ReferenceAttribute *dims =
      reference_attribute(call, "dims"); /* so many as one, else that axis alone */
  uint32_t first = *axes & ~(*axes - 1), behind = first << (dims ? dims->integer : 1);
  if (strcmp(call->op, "Hardmax") || call->opset >= 13) *axes &= behind - first;
  return true;
}

size_t *reference_row_elements(const ReferenceCall *call, size_t *n_rows, size_t *n_columns)
{
  uint32_t axes;
  if (!chosen_axes(call, &axes)) return NULL;
  Rows rows = rows_of(call->inputs[0], axes);
  size_t *list = g_new0(size_t, rows.n_rows * rows.n_columns + 1);
  for (size_t r = 0; r < rows.n_rows; r++)
    for (size_t c = 0; c < rows.n_columns; c++)
      list[r * rows.n_columns + c] = rows.outer[r] + rows.inner[c];
  *n_rows = rows.n_rows;
  *n_columns = rows.n_columns;
  free_rows(&rows);
  return list;
}

static Value *arg(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  const ReferenceAttribute *last = reference_attribute(call, "select_last_index");
  Which which = {!strcmp(call->op, "ArgMax"), last && last->integer};
  uint32_t axes;
  if (!chosen_axes(call, &axes)) {
    reference_refuse(error, call, "there is no such axis");
    return NULL;
  }
  Value *y = reduced_value(call, axes, NUMBER_S64, error);
  if (!y) return NULL;
  Rows rows = rows_of(x, axes);
  for (size_t r = 0; r < rows.n_rows; r++)
    y->integers[r] = rows.n_columns ? (int64_t)best_of(x, &rows, r, which)
                     : which.last   ? -INT32_MAX
                                    : INT32_MAX; /* ONNX does not say: no element's */
  free_rows(&rows);
  return y;
}

/* ---- CumSum ---- */

/* Sums of integers wrap as the type does. */
static void scan_row(const Value *x, Value *y, const Rows *rows, size_t row, bool exclusive, bool reverse)
{
  double sum = 0;
  int64_t whole = 0;
  for (size_t i = 0; i < rows->n_columns; i++) {
    size_t at = rows->outer[row] + rows->inner[reverse ? rows->n_columns - 1 - i : i];
    if (x->floats) {
      y->floats[at] = exclusive ? sum : sum + x->floats[at];
      sum += x->floats[at];
    } else {
      int64_t next = reference_wrap(x->type, (int64_t)((uint64_t)whole + (uint64_t)x->integers[at]));
      y->integers[at] = exclusive ? whole : next;
      whole = next;
    }
  }
}

static Value *cumulative(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0], *axes = call->inputs[1];
  int64_t axis = axes->n == 1 ? axes->integers[0] : x->rank;
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank) {
    reference_refuse(error, call, "there is no such axis");
    return NULL;
  }
  Value *y = value_new(x->type, x->rank, x->shape, error);
  if (!y) return NULL;
  Rows rows = rows_of(x, 1u << axis);
  for (size_t r = 0; r < rows.n_rows; r++)
    scan_row(x, y, &rows, r, reference_integer(call, "exclusive") != 0,
             reference_integer(call, "reverse") != 0);
  free_rows(&rows);
  return y;
}

/* ---- TopRows ---- */

typedef struct {
  const Value *x;
  const Rows *rows;
  size_t row;
  bool largest;
} Order;

static int by_order(const void *a, const void *b, void *data)
{
  const Order *order = data;
  size_t p = *(const size_t *)a, q = *(const size_t *)b;
  const size_t *inner = order->rows->inner;
  double x = element(order->x, order->rows->outer[order->row] + inner[p]),
         y = element(order->x, order->rows->outer[order->row] + inner[q]);
  bool less = isnan(y) ? !isnan(x) : x < y, more = isnan(x) ? !isnan(y) : x > y;
  if (less == more) return (p > q) - (p < q);
  return (order->largest ? more : less) ? -1 : 1;
}

/* The first of each row in order, and where they stood. */
static bool order_rows(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  const Value *x = call->inputs[0];
  int64_t k = reference_integer(call, "k"), shape[TENSOR_MAX_RANK];
  if (!x->rank || k < 0 || k > x->shape[x->rank - 1])
    return reference_refuse(error, call, "there are not so many elements");
  NumberType index = reference_integer(call, "wide") ? NUMBER_S64 : NUMBER_S32;
  memcpy(shape, x->shape, sizeof shape);
  shape[x->rank - 1] = k;
  for (unsigned i = 0; i < n_outputs; i++)
    if (!(outputs[i] = value_new(i ? index : x->type, x->rank, shape, error))) return false;
  Rows rows = rows_of(x, 1u << (x->rank - 1));
  g_autofree size_t *place = g_new(size_t, rows.n_columns + 1);
  for (size_t r = 0; r < rows.n_rows; r++) {
    Order order = {x, &rows, r, reference_integer(call, "largest") != 0};
    for (size_t c = 0; c < rows.n_columns; c++)
      place[c] = c;
    g_qsort_with_data(place, (gint)rows.n_columns, sizeof *place, by_order, &order);
    for (size_t i = 0; i < (size_t)k; i++) {
      size_t from = rows.outer[r] + rows.inner[place[i]], to = r * (size_t)k + i;
      if (x->floats)
        outputs[0]->floats[to] = x->floats[from];
      else
        outputs[0]->integers[to] = x->integers[from];
      if (n_outputs > 1) outputs[1]->integers[to] = (int64_t)place[i];
    }
  }
  free_rows(&rows);
  return true;
}

bool reference_rows(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  if (!strcmp(call->op, "TopRows")) return order_rows(call, outputs, n_outputs, error);
  if (g_str_has_suffix(call->op, "Normalization")) return normalise(call, outputs, n_outputs, error);
  outputs[0] = g_str_has_prefix(call->op, "Reduce") ? reduce(call, error)
               : g_str_has_prefix(call->op, "Arg")  ? arg(call, error)
               : !strcmp(call->op, "CumSum")        ? cumulative(call, error)
                                                    : softmax(call, error);
  return outputs[0] != NULL;
}
