/* Rows of one length of softmax, norms and losses, of which is known what kernels of them take: the fit that uses an SM best. */
#pragma once
#include "generator/choose/row_reach.h"
#include "generator/choose/row_tile.h"

/* Reductions, and results behind all of them that need one value of each element. */
bool row_is_measured(const Problem *problem);
/* The best of those that the template says are tried, of equal ones the first; `peers`: blocks that may share a row. */
bool row_fit_best(const Problem *problem, int64_t columns, unsigned vector, RowReach reach, unsigned peers,
                  RowTile *fit);
/* Of a sum of exponentials: chunks, of which each changes a thread's state once, where they use an SM better than rows that stay, from
 * so many *rows on. */
bool row_fit_chunks(const Problem *problem, int64_t columns, unsigned vector, RowReach reach, unsigned peers,
                    RowTile *fit, int64_t *rows);
