#include "reference/private.h"
#include <math.h>
#include <string.h>

bool value_is_float(const Value *value)
{
  return number_class(value->type) == NUMBER_FLOAT;
}

Value *value_new(NumberType type, unsigned rank, const int64_t *shape, GError **error)
{
  size_t n = 1;
  bool fits = rank <= TENSOR_MAX_RANK, empty = false;
  for (unsigned i = 0; fits && i < rank; i++)
    empty = empty || shape[i] == 0;
  for (unsigned i = 0; fits && i < rank; i++)
    fits = shape[i] >= 0 && (empty || !__builtin_mul_overflow(n, (size_t)shape[i], &n));
  if (empty) n = 0;
  void *data = fits && n < G_MAXSSIZE / 8 ? g_try_malloc0(MAX(n * 8, 8)) : NULL;
  if (!data) {
    error_set(error, ERROR_INPUT, NULL, "too-large", NULL, "a reference value does not fit into memory");
    return NULL;
  }
  Value *value = g_new0(Value, 1);
  *value = (Value){.type = type, .rank = rank, .n = n};
  if (rank) memcpy(value->shape, shape, rank * sizeof *shape);
  if (value_is_float(value))
    value->floats = data;
  else
    value->integers = data;
  return value;
}

void value_free(Value *value)
{
  if (!value) return;
  g_free(value->floats);
  g_free(value->integers);
  g_free(value);
}

int64_t reference_wrap(NumberType type, int64_t value)
{
  switch (type) {
  case NUMBER_S4: return (int8_t)((uint64_t)value << 4) >> 4;
  case NUMBER_U4: return value & 15;
  case NUMBER_S8: return (int8_t)value;
  case NUMBER_U8: return (uint8_t)value;
  case NUMBER_S16: return (int16_t)value;
  case NUMBER_U16: return (uint16_t)value;
  case NUMBER_S32: return (int32_t)value;
  case NUMBER_U32: return (uint32_t)value;
  case NUMBER_BOOL: return value != 0;
  default: return value;
  }
}

static int64_t load_integer(const Tensor *tensor, size_t i)
{
  return reference_wrap(tensor->type, (int64_t)number_get_bits(tensor->type, tensor->data, i));
}

Value *value_from_tensor(const Tensor *tensor, GError **error)
{
  Value *value = value_new(tensor->type, tensor->rank, tensor->shape, error);
  if (!value) return NULL;
  for (size_t i = 0; i < value->n; i++)
    if (value->floats)
      value->floats[i] = number_read(tensor->type, tensor->data, i);
    else
      value->integers[i] = load_integer(tensor, i);
  return value;
}

Tensor *value_to_tensor(const Value *value, const char *name, GError **error)
{
  Tensor *tensor = tensor_new(name, value->type, value->rank, value->shape, error);
  if (!tensor) return NULL;
  for (size_t i = 0; i < value->n; i++)
    if (value->floats)
      number_write(value->type, value->floats[i], false, tensor->data, i);
    else
      number_set_bits(value->type, (uint64_t)value->integers[i], tensor->data, i);
  return tensor;
}

bool reference_strides(const Value *value, unsigned rank, const int64_t *shape, int64_t *strides)
{
  int64_t stride = 1;
  if (value->rank > rank) return false;
  for (unsigned i = 0; i < rank; i++)
    strides[i] = 0;
  for (unsigned d = 1; d <= value->rank; d++) {
    int64_t own = value->shape[value->rank - d];
    if (own != 1 && own != shape[rank - d]) return false;
    strides[rank - d] = own == 1 ? 0 : stride;
    stride *= own;
  }
  return true;
}
