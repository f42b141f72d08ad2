/* Between attention's chooser and its judge. */
#pragma once
#include "generator/choose/choose.h"

/* NULL: kernels exist for the problem, whatever its tensors' addresses. Else why not; static, or in the problem's arena. */
const char *attention_refuse(const Problem *problem);
/* Columns of a tile: whole steps of products; where some are added, rows that swizzle. What is added is zero. */
int64_t attention_tile_width(NumberType type, int64_t width);
/* What all templates of attention are told of operands: type, elements of heads of keys and of values and of their tiles, and whether rows see
 * the keys up to their own. */
void attention_set_heads(Choice *choice, NumberType type, const Symbolic *depth, const Symbolic *width,
                         bool causal);
/* Clocks of the tensor cores in a second. */
double attention_clock(const Gpu *gpu);
/* Do the passes let the tile be? Sums that are alive twice, before and behind their scaling, may be too many: then all
 * passes tell. */
bool attention_is_legal(const Problem *problem, Choice *choice, const char **why);
/* Clocks of the chooser's first variant at typical extents. */
double attention_clocks(const Problem *problem, const Choice *choice);
