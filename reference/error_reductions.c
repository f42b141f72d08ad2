/* Errors of reductions that are no sums: products, logarithms of sums, and what chooses an element. */
#include "reference/errors.h"
#include "reference/private.h"
#include <math.h>
#include <string.h>

/* Of f32 arithmetic. */
#define UNIT 0x1p-24
/* Units that the logarithm of a sum of exponentials may be off, besides those of storing it. */
#define COMPUTING 8

/* The reduction `op` of other values than the call's. */
static Value *reduced(const ReferenceCall *call, const char *op, const Value *x, GError **error)
{
  g_autofree const Value **inputs = g_memdup2(call->inputs, call->n_inputs * sizeof *inputs);
  inputs[0] = x;
  ReferenceCall other = *call;
  other.op = op;
  other.inputs = inputs;
  Value *result = NULL;
  return reference_run(&other, &result, 1, error) ? result : NULL;
}

/* ---- products ---- */

/* Errors of factors are added up as shares of these; of one that may be 0 the product of all that they may be says more. */
static bool of_product(const ReferenceCall *call, const Errors *input, const Value *out, double *each,
                       GError **error)
{
  const Value *x = call->inputs[0];
  double n = out->n ? (double)x->n / (double)out->n : 1;
  g_autoptr(Value) shares = value_new(NUMBER_F64, x->rank, x->shape, error),
                   most = shares ? value_new(NUMBER_F64, x->rank, x->shape, error) : NULL;
  if (!most || !out->floats) return most != NULL;
  for (size_t i = 0; i < x->n; i++) {
    double e = input->each ? input->each[i] : 0, size = fabs(x->floats[i]);
    most->floats[i] = size + e;
    shares->floats[i] = e == 0 ? 0 : size <= 2 * e ? INFINITY : e * e / (size * size);
  }
  g_autoptr(Value) squares = reduced(call, "ReduceSum", shares, error),
                   all = squares ? reduced(call, "ReduceProd", most, error) : NULL;
  if (!all) return false;
  double grown = error_growth(input, n);
  for (size_t i = 0; i < out->n; i++) {
    double size = fabs(out->floats[i]), share = sqrt(squares->floats[i] * grown + n * UNIT * UNIT);
    each[i] = isfinite(share) ? size * share : all->floats[i];
    if (!isfinite(size)) each[i] = 0;
  }
  return true;
}

/* ---- logarithms of sums of exponentials ---- */

static bool of_log_sum_exp(const ReferenceCall *call, const Errors *input, Value *const *outputs,
                           Errors *results, GError **error)
{
  const Value *out = outputs[0];
  if (input->each && !errors_by_moving(call, 0, input->each, outputs, 1, results, error)) return false;
  g_autoptr(Value) largest = reduced(call, "ReduceMax", call->inputs[0], error);
  for (size_t i = 0; largest && i < out->n; i++) {
    double own = COMPUTING * UNIT * (1 + fabs(largest->floats[i]) + fabs(out->floats[i]));
    if (isfinite(own)) results[0].each[i] = error_sum(results[0].each[i], own);
  }
  return largest != NULL;
}

/* ---- what chooses ---- */

/* Where others of a row are as near to the extreme as errors reach, an index may be that of any of them; of a 1 and zeros each may
 * be the 1. Equal elements that have no errors are in order. */
static bool of_choice(const ReferenceCall *call, const Errors *input, const Value *out, double *each,
                      GError **error)
{
  const Value *x = call->inputs[0];
  bool hard = !strcmp(call->op, "Hardmax"), smallest = !strcmp(call->op, "ArgMin");
  if (!input->each || !x->floats) return true;
  size_t rows = 0, columns = 0;
  g_autofree size_t *at = reference_row_elements(call, &rows, &columns);
  for (size_t r = 0; at && r < rows; r++) {
    const size_t *row = at + r * columns;
    size_t best = row[0], near = 0;
    for (size_t c = 0; c < columns; c++)
      if (smallest ? x->floats[row[c]] < x->floats[best] : x->floats[row[c]] > x->floats[best]) best = row[c];
    for (size_t c = 0; c < columns; c++) {
      double error = input->each[row[c]] + input->each[best];
      if (!(error > 0) || !(fabs(x->floats[row[c]] - x->floats[best]) <= error)) continue;
      near++;
      if (!hard) each[r] = fmax(each[r], fabs((double)c - (double)out->integers[r]));
    }
    for (size_t c = 0; near > 1 && hard && c < columns; c++)
      each[row[c]] = 1;
  }
  return true;
}

/* Each value of a row in order may be off as any of the row is, and so may the elements: those that are no further from it than both
 * may have its place. */
static void of_order(const ReferenceCall *call, const Errors *input, Value *const *outputs, Errors *results)
{
  const Value *x = call->inputs[0], *values = outputs[0];
  if (!input->each || !x->floats || !values->n) return;
  size_t k = (size_t)values->shape[values->rank - 1], columns = (size_t)x->shape[x->rank - 1];
  for (size_t r = 0; r < values->n / k; r++) {
    double most = 0;
    for (size_t c = 0; c < columns; c++)
      most = fmax(most, input->each[r * columns + c]);
    for (size_t i = 0; i < k; i++)
      results[0].each[r * k + i] = most;
    for (size_t i = 0; outputs[1] && i < k; i++) {
      double here = values->floats[r * k + i], *off = &results[1].each[r * k + i];
      for (size_t c = 0; most > 0 && c < columns; c++)
        if (fabs(x->floats[r * columns + c] - here) <= 2 * most)
          *off = fmax(*off, fabs((double)c - (double)outputs[1]->integers[r * k + i]));
    }
  }
}

bool errors_of_reductions(const ReferenceCall *call, const Errors *input, Value *const *outputs,
                          Errors *results, GError **error)
{
  if (!strcmp(call->op, "ReduceProd")) return of_product(call, input, outputs[0], results[0].each, error);
  if (!strcmp(call->op, "ReduceLogSumExp")) return of_log_sum_exp(call, input, outputs, results, error);
  if (!strcmp(call->op, "TopRows")) {
    of_order(call, input, outputs, results);
    return true;
  }
  return of_choice(call, input, outputs[0], results[0].each, error);
}
