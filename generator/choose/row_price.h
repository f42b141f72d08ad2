/* What kernels of rows take: all that crosses memory, or what a block has of it, one after the other. */
#pragma once
#include "generator/choose/choose.h"

/* Blocks of the kernel that an SM has at once. */
double row_resident(const Gpu *gpu, const Choice *choice);
/* Clocks of a variant that leaves so many results in each of its outputs, in `blocks` blocks; a negative number: not
 * known. */
double row_clocks(const Problem *problem, const Choice *choice, double blocks, double results);
