/* AttentionGradPart: gradients of attention's queries, keys or values, from the operators that they are made of, so that errors are theirs.
 * All values are [batch, head of keys, which of the heads of queries that share it, rows, columns]. */
#include "reference/parts.h"
#include <math.h>
#include <string.h>

enum { GRAD, Q, K, V, SUMS, DELTA, MASK, CHANGES };
enum { RANK = 5 };

/* ---- parts ---- */

/* An input's elements in another shape of as many. */
static Part view(Parts *at, unsigned input, const int64_t *shape)
{
  const Value *x = at->call->inputs[input];
  Part part = {0};
  if (!at->ok) return part;
  part.value = value_new(x->type, RANK, shape, at->error);
  at->ok = part.value != NULL && part.value->n == x->n;
  if (!at->ok) return part;
  memcpy(part.value->floats, x->floats, x->n * sizeof *x->floats);
  const Errors *errors = at->inputs && at->inputs[input].each ? &at->inputs[input] : NULL;
  if (errors) part.errors = (Errors){g_memdup2(errors->each, (x->n + 1) * sizeof(double)), errors->shared, 0};
  return part;
}

static int64_t group_of(const Parts *at)
{
  return at->call->inputs[Q]->shape[1] / MAX(at->call->inputs[K]->shape[1], 1);
}

static Part operand(Parts *at, unsigned input)
{
  const Value *x = at->call->inputs[input];
  int64_t heads = at->call->inputs[K]->shape[1], columns = x->rank > 3 ? x->shape[3] : 1;
  bool keys = input == K || input == V;
  return view(at, input, (int64_t[]){x->shape[0], heads, keys ? 1 : group_of(at), x->shape[2], columns});
}

/* Columns for rows. */
static Part turned(Parts *at, Part part)
{
  Part result = {0};
  if (at->ok) {
    const int64_t *from = part.value->shape;
    size_t rows = (size_t)from[3], columns = (size_t)from[4], size = rows * columns;
    result.value = value_new(part.value->type, RANK, (int64_t[]){from[0], from[1], from[2], from[4], from[3]},
                             at->error);
    at->ok = result.value != NULL;
    if (at->ok && part.errors.each)
      result.errors = (Errors){g_new0(double, part.value->n + 1), part.errors.shared, 0};
    for (size_t i = 0; at->ok && i < part.value->n; i++) {
      size_t to = i / size * size + i % columns * rows + i % size / columns;
      result.value->floats[to] = part.value->floats[i];
      if (part.errors.each) result.errors.each[to] = part.errors.each[i];
    }
  }
  part_clear(&part);
  return result;
}

/* ---- scores ---- */

/* Where the scores' element i is in the mask, which broadcasts. */
static size_t place_in(const Value *mask, const Value *scores, size_t i, int64_t group)
{
  const int64_t *shape = scores->shape;
  int64_t key = (int64_t)i % shape[4], row = (int64_t)i / shape[4] % shape[3],
          head = (int64_t)i / shape[4] / shape[3] % (shape[1] * group),
          batch = (int64_t)i / shape[4] / shape[3] / (shape[1] * group);
  const int64_t full[] = {batch, head, row, key};
  int64_t at[4];
  for (unsigned d = 0; d < mask->rank; d++)
    at[d] = mask->shape[d] == 1 ? 0 : full[4 - mask->rank + d];
  return reference_element(mask, at);
}

/* Adds the mask, and hides what a row does not see. */
static void mask_scores(const Parts *at, Part *scores)
{
  const ReferenceCall *call = at->call;
  const Value *mask = call->n_inputs > MASK ? call->inputs[MASK] : NULL;
  PartWindow seen = part_window(call);
  for (size_t i = 0; at->ok && i < scores->value->n; i++) {
    const int64_t *shape = scores->value->shape;
    int64_t distance = (int64_t)i % shape[4] - (int64_t)i / shape[4] % shape[3];
    size_t place = mask ? place_in(mask, scores->value, i, group_of(at)) : 0;
    bool truth = mask && mask->type == NUMBER_BOOL, added = mask && !truth;
    if (added) scores->value->floats[i] += mask->floats[place];
    if (added && at->inputs && at->inputs[MASK].each && scores->errors.each)
      scores->errors.each[i] = error_sum(scores->errors.each[i], at->inputs[MASK].each[place]);
    if ((truth && !mask->integers[place]) || distance < seen.least || distance > seen.most)
      scores->value->floats[i] = -INFINITY;
    if (scores->errors.each && isinf(scores->value->floats[i])) scores->errors.each[i] = 0;
  }
}

/* *slope: what scores grow by with products, but for the scale; nothing: 1. */
static Part scores_of(Parts *at, Part *slope)
{
  Part bent, product = part_of(at, "MatMul", operand(at, Q), turned(at, operand(at, K)));
  Part scores = part_scores(at, product, at->call->inputs[Q], &bent);
  *slope = (Part){0};
  if (bent.value) {
    Part square = part_of(at, "Mul", part_copy(at, &bent), bent);
    *slope = part_of(at, "Sub", part_number(at, 1), square);
  }
  mask_scores(at, &scores);
  return scores;
}

/* ---- results ---- */

/* Kernels multiply it in the operands' type. */
static Part rounded(const Parts *at, Part part)
{
  if (at->ok) part.value->type = at->call->inputs[Q]->type;
  return part;
}

/* The sum over heads that share keys. */
static Part summed(Parts *at, Part left, Part right)
{
  static const int64_t group = 2;
  const ReferenceAttribute sum[] = {{.name = "axes", .integers = &group, .n = 1},
                                    {.name = "keepdims", .integer = 1},
                                    {.name = "noop_with_empty_axes", .integer = 0}};
  return part_step(at, "ReduceSum", part_of(at, "MatMul", turned(at, left), right), (Part){0}, sum,
                   G_N_ELEMENTS(sum), NUMBER_F32);
}

/* Values go to y, or errors to *errors. */
static void give(Parts *at, Part part, Value *y, Errors *errors)
{
  if (at->ok && y && !at->inputs) memcpy(y->floats, part.value->floats, y->n * sizeof(double));
  if (at->ok && y && at->inputs && part.errors.each)
    memcpy(errors->each, part.errors.each, y->n * sizeof(double));
  part_clear(&part);
}

/* The input CHANGES, heads apart: keys by rows. */
static Part given_changes(Parts *at)
{
  const Value *x = at->call->inputs[CHANGES];
  return view(
      at, CHANGES,
      (int64_t[]){x->shape[0], at->call->inputs[K]->shape[1], group_of(at), x->shape[2], x->shape[3]});
}

/* dQ of dS. */
static void give_queries(Parts *at, Part changes, Value *y, Errors *errors)
{
  Part sum = part_of(at, "MatMul", changes, operand(at, K));
  give(at, part_of(at, "Mul", sum, part_number(at, part_scale(at->call, at->call->inputs[Q]))), y, errors);
}

/* errors: NULL where values are wanted. */
static bool compute(Parts *at, Value *const *outputs, unsigned n_outputs, Errors *errors)
{
  const char *of = reference_attribute(at->call, "of")->text;
  bool queries = !strcmp(of, "queries"), values = !strcmp(of, "values");
  Value *of_values = values ? outputs[0] : n_outputs > 1 ? outputs[1] : NULL;
  Errors *value_errors = errors && of_values ? &errors[values ? 0 : 1] : NULL;
  if (queries && at->call->n_inputs > CHANGES && at->call->inputs[CHANGES]) {
    give_queries(at, turned(at, given_changes(at)), outputs[0], errors);
    return at->ok;
  }
  Part slope, scores = scores_of(at, &slope);
  Part weights = part_of(at, "Exp", part_of(at, "Sub", scores, operand(at, SUMS)), (Part){0});
  if (of_values)
    give(at, summed(at, rounded(at, part_copy(at, &weights)), operand(at, GRAD)), of_values, value_errors);
  if (!values) {
    Part of_weights = part_of(at, "MatMul", operand(at, GRAD), turned(at, operand(at, V)));
    Part changes = part_of(at, "Mul", weights, part_of(at, "Sub", of_weights, operand(at, DELTA)));
    weights = (Part){0};
    if (slope.value) changes = part_of(at, "Mul", changes, part_copy(at, &slope));
    changes = rounded(at, changes);
    if (n_outputs > 2 && outputs[2])
      give(at, turned(at, part_copy(at, &changes)), outputs[2], errors ? &errors[2] : NULL);
    if (queries)
      give_queries(at, changes, outputs[0], errors);
    else
      give(at,
           part_of(at, "Mul", summed(at, changes, operand(at, Q)),
                   part_number(at, part_scale(at->call, at->call->inputs[Q]))),
           outputs[0], errors);
  }
  part_clear(&slope);
  part_clear(&weights);
  return at->ok;
}

bool reference_is_gradient(const char *op)
{
  return !strcmp(op, "AttentionGradPart");
}

bool reference_gradient(const ReferenceCall *call, Value **outputs, unsigned n_outputs, GError **error)
{
  const char *of = reference_attribute(call, "of")->text;
  unsigned like = !strcmp(of, "queries") ? Q : !strcmp(of, "keys") ? K : V;
  Parts at = {.call = call, .error = error, .ok = true};
  for (unsigned i = 0; i <= V; i++)
    if (call->inputs[i]->rank != 4) return reference_refuse(error, call, "the shapes do not fit");
  for (unsigned i = 0; at.ok && i < n_outputs; i++) {
    const int64_t *q = call->inputs[Q]->shape, changes[] = {q[0], q[1], call->inputs[K]->shape[2], q[2]};
    outputs[i] = value_new(call->result, 4, i > 1 ? changes : call->inputs[i ? V : like]->shape, error);
    at.ok = outputs[i] != NULL;
  }
  return at.ok && compute(&at, outputs, n_outputs, NULL);
}

bool errors_of_gradient(const ReferenceCall *call, const Errors *inputs, Value *const *outputs,
                        unsigned n_outputs, const ErrorModel *model, Errors *results, GError **error)
{
  Parts at = {.call = call, .inputs = inputs, .model = model, .error = error, .ok = true};
  return compute(&at, outputs, n_outputs, results);
}
