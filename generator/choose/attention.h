/* Between attention's chooser and its judge. */
#pragma once
#include "generator/choose/choose.h"

/* NULL: kernels exist for the problem, whatever its tensors' addresses. Else why not; static, or in the problem's arena. */
const char *attention_refuse(const Problem *problem);
/* Clocks of the chooser's first variant at typical extents. */
double attention_clocks(const Problem *problem, const Choice *choice);
