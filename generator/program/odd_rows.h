/* Tensors whose rows start anywhere: TMA and wide copies of threads need multiples of 16 bytes. */
#pragma once
#include "generator/front/graph.h"

#define WIDE_BYTES 16

/* The dimension of a matrix whose elements lie side by side; -1: there is none. */
int tensor_contiguous_dimension(const GraphTensor *tensor);
/* Some row or matrix is known to start beside a multiple of 16 bytes. */
bool tensor_has_odd_rows(const GraphTensor *tensor);
/* What all rows start at multiples of, as far as is known: at most 16 bytes. */
unsigned tensor_row_bytes(const GraphTensor *tensor, const SymbolicFacts *facts);
