/* How whole rows fit a block, or the blocks of a cluster. */
#pragma once
#include "generator/choose/choose.h"

/* One value of each row comes out, one sum, product or extreme of its elements: nothing of a row is kept. */
bool row_program_streams(const FusedOperator *op);
/* NULL, or why rows cannot be read so. */
const char *row_program_refuse(const Problem *problem);
/* It computes so much that only the passes know whether its threads have the registers. */
bool row_program_is_heavy(const FusedOperator *op);
