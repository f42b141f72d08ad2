#include "generator/program/odd_rows.h"

int tensor_contiguous_dimension(const GraphTensor *tensor)
{
  for (unsigned i = tensor->rank; i-- > (tensor->rank > 2 ? tensor->rank - 2 : 0);)
    if (symbolic_equals(tensor->strides[i], 1)) return (int)i;
  return -1;
}

/* A dimension that is stepped along, other than the contiguous one. */
static bool is_outer(const GraphTensor *tensor, unsigned dimension)
{
  return !symbolic_equals(tensor->strides[dimension], 1) && !symbolic_equals(tensor->shape[dimension], 1);
}

bool tensor_has_odd_rows(const GraphTensor *tensor)
{
  bool odd = false;
  if (tensor->rank < 2 || tensor_contiguous_dimension(tensor) < 0) return false;
  for (unsigned i = 0; i < tensor->rank; i++) {
    int64_t stride;
    if (is_outer(tensor, i) && symbolic_is_constant(tensor->strides[i], &stride))
      odd = odd || stride * number_bits(tensor->type) % (CHAR_BIT * WIDE_BYTES) != 0;
  }
  int64_t begins;
  if (tensor->begins && symbolic_is_constant(tensor->begins, &begins))
    odd = odd || begins * number_bits(tensor->type) % (CHAR_BIT * WIDE_BYTES) != 0;
  return odd;
}

unsigned tensor_row_bytes(const GraphTensor *tensor, const SymbolicFacts *facts)
{
  unsigned element = number_bytes(tensor->type), bytes = MAX(element, MIN(tensor->align, WIDE_BYTES));
  for (unsigned i = 0; i < tensor->rank; i++)
    while (bytes > element && is_outer(tensor, i) &&
           !symbolic_divisible(tensor->strides[i], bytes / element, facts))
      bytes /= 2;
  return bytes;
}
