/* QuantizeLinear and DequantizeLinear: scale and zero point for all elements, for each index of an axis, or
 * broadcast. */
#include "reference/private.h"
#include <math.h>
#include <string.h>

typedef struct {
  const Value *value; /* NULL: absent */
  int64_t strides[TENSOR_MAX_RANK];
} Factor;

/* A vector that is not one element lies along `axis`; anything else broadcasts from the last dimension. */
static bool place(const ReferenceCall *call, unsigned input, Factor *factor)
{
  const Value *x = call->inputs[0];
  *factor = (Factor){.value = call->n_inputs > input ? call->inputs[input] : NULL};
  const Value *value = factor->value;
  if (!value || value->n == 1) return true;
  if (value->rank != 1 || !reference_attribute(call, "axis"))
    return reference_strides(value, x->rank, x->shape, factor->strides);
  int64_t axis = reference_integer(call, "axis");
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank || x->shape[axis] != value->shape[0]) return false;
  factor->strides[axis] = 1;
  return true;
}

/* Ties go to the even neighbour; what is out of range gives the nearest integer of the type. */
static int64_t quantized_integer(double x, int64_t zero, NumberType type)
{
  bool is_signed = number_class(type) == NUMBER_SIGNED;
  double high = ldexp(1, (int)number_bits(type) - is_signed) - 1, low = is_signed ? -high - 1 : 0;
  if (isnan(x)) return 0;
  return (int64_t)fmin(fmax(nearbyint(x) + (double)zero, low), high);
}

static double quantized_float(const ReferenceCall *call, double x)
{
  uint8_t memory[8];
  const ReferenceAttribute *saturate = reference_attribute(call, "saturate");
  number_from_double(call->result, x, !saturate || saturate->integer, memory);
  return number_to_double(call->result, memory);
}

static double number_at(const Value *value, size_t i)
{
  return value->floats ? value->floats[i] : (double)value->integers[i];
}

static void compute(const ReferenceCall *call, const Factor *scale, const Factor *zero, size_t scale_at,
                    size_t zero_at, size_t i, Value *out)
{
  const Value *x = call->inputs[0];
  double factor = scale->value->floats[scale_at], value = number_at(x, i);
  int64_t offset = zero->value && zero->value->integers ? zero->value->integers[zero_at] : 0;
  if (out->integers)
    out->integers[i] = quantized_integer(value / factor, offset, call->result);
  else if (number_is_small_float(call->result))
    out->floats[i] = quantized_float(call, value / factor);
  else
    out->floats[i] = (value - (double)offset) * factor;
}

bool reference_is_quantization(const char *op)
{
  return !strcmp(op, "QuantizeLinear") || !strcmp(op, "DequantizeLinear");
}

Value *reference_quantization(const ReferenceCall *call, GError **error)
{
  const Value *x = call->inputs[0];
  Factor scale, zero;
  if (!place(call, 1, &scale) || !place(call, 2, &zero) || !scale.value->floats) {
    reference_refuse(error, call, "the scale or zero point does not fit");
    return NULL;
  }
  Value *out = value_new(call->result, x->rank, x->shape, error);
  for (size_t i = 0; out && i < out->n; i++) {
    size_t scale_at = 0, zero_at = 0, rest = i;
    for (unsigned d = x->rank; d-- > 0; rest /= (size_t)x->shape[d]) {
      size_t index = rest % (size_t)x->shape[d];
      scale_at += index * (size_t)scale.strides[d];
      zero_at += index * (size_t)zero.strides[d];
    }
    compute(call, &scale, &zero, scale_at, zero_at, i, out);
  }
  return out;
}
