/* Where elements lie that raise counters in turn (`count`): each warp has elements that follow one another, one lane's behind
 * the other's. */
#pragma once
#include "ir/layout.h"

/* NULL: the elements along `dim`, the only dimension of which there are several, are no whole warps for each of so many. */
const Layout *counting_layout(Arena *arena, const unsigned *extents, unsigned dim, unsigned warps);
