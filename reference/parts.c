#include "reference/parts.h"
#include <math.h>
#include <string.h>

void part_clear(Part *part)
{
  g_clear_pointer(&part->value, value_free);
  g_clear_pointer(&part->errors.each, g_free);
}

Part part_copy(Parts *at, const Part *part)
{
  Part copy = {0};
  if (!at->ok) return copy;
  copy.value = value_new(part->value->type, part->value->rank, part->value->shape, at->error);
  at->ok = copy.value != NULL;
  if (at->ok) memcpy(copy.value->floats, part->value->floats, part->value->n * sizeof(double));
  if (at->ok && part->errors.each)
    copy.errors = (Errors){g_memdup2(part->errors.each, (part->value->n + 1) * sizeof(double)),
                           part->errors.shared, part->errors.total};
  return copy;
}

Part part_number(Parts *at, double value)
{
  Part part = {0};
  if (at->ok) part.value = value_new(NUMBER_F32, 0, NULL, at->error);
  at->ok = part.value != NULL;
  if (at->ok) part.value->floats[0] = (float)value;
  return part;
}

Part part_step(Parts *at, const char *op, Part a, Part b, const ReferenceAttribute *attributes, unsigned n,
               NumberType held)
{
  const Value *values[] = {a.value, b.value};
  const Errors errors[] = {a.errors, b.errors};
  const ReferenceCall call = {op, at->call->opset, values, b.value ? 2 : 1, attributes, n, NUMBER_F32};
  Part part = {0};
  if (at->ok) at->ok = reference_run(&call, &part.value, 1, at->error);
  if (at->ok) part.value->type = held;
  if (at->ok && at->inputs)
    at->ok = reference_errors(&call, errors, &part.value, 1, at->model, &part.errors, at->error);
  part_clear(&a);
  part_clear(&b);
  return part;
}

Part part_of(Parts *at, const char *op, Part a, Part b)
{
  return part_step(at, op, a, b, NULL, 0, NUMBER_F32);
}

double part_scale(const ReferenceCall *call, const Value *queries)
{
  double scale = reference_number(call, "scale");
  return scale != 0 ? scale : 1 / sqrt((double)MAX(queries->shape[queries->rank - 1], 1));
}

/* Of the tanh of scores whose operands have 16 bits, which is one for results of f16: good to 2^-14, half of it as a rule. */
#define NARROW_TANH 0x1p-15

static void bend_narrowly(Part *bent, NumberType type)
{
  for (size_t i = 0; bent->errors.each && number_bits(type) <= 16 && i < bent->value->n; i++)
    bent->errors.each[i] = error_sum(bent->errors.each[i], NARROW_TANH * fabs(bent->value->floats[i]));
}

Part part_scores(Parts *at, Part product, const Value *queries, Part *bent)
{
  double cap = reference_number(at->call, "softcap");
  Part scores = part_of(at, "Mul", product, part_number(at, part_scale(at->call, queries)));
  if (bent) *bent = (Part){0};
  if (!(cap > 0)) return scores;
  scores = part_of(at, "Tanh", part_of(at, "Div", scores, part_number(at, cap)), (Part){0});
  if (at->ok) bend_narrowly(&scores, queries->type);
  if (bent) *bent = part_copy(at, &scores);
  return part_of(at, "Mul", scores, part_number(at, cap));
}

PartWindow part_window(const ReferenceCall *call)
{
  int64_t left = reference_integer(call, "left_window_size"),
          right = reference_integer(call, "right_window_size");
  if (reference_integer(call, "is_causal")) right = 0;
  return (PartWindow){left >= 0 ? -left : INT64_MIN, right >= 0 ? right : INT64_MAX};
}
