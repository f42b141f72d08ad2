/* Names of kernels: what they compute and how, and nothing of where that stands in a graph. */
#pragma once
#include "generator/kernel/kernel.h"

/* "gemm_gelu_bf16_n11008k4096_128x176x64": the operators, the types, the sizes that are compiled in, the tile.
 * A C identifier; g_free. */
char *compile_kernel_name(const FusedOperator *op, const Choice *choice);
