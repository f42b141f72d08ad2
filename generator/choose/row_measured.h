/* Rows of one length of softmax, norms and losses, of which is known what kernels of them take: the fit that uses an SM best. */
#pragma once
#include "generator/choose/row_fit.h"
#include "generator/choose/row_reach.h"

/* Reductions, and results behind all of them that need one value of each element. */
bool row_is_measured(const Problem *problem);
typedef struct {
  int64_t columns; /* of a row's tile */
  unsigned vector; /* elements of one access */
  RowReach reach;
} RowReached;

/* The best of those that the template says are tried, of equal ones the first; `peers`: blocks that may share a row. */
bool row_fit_best(const Problem *problem, const RowReached *row, unsigned peers, RowFit *fit);
/* Blocks that an SM shall have of short rows, several of which share a block: norms of 16 bits take more registers than they need, if none are
 * asked for, and fewer blocks wait for their scale and bias then. */
unsigned row_short_blocks(const Problem *problem, const RowFit *fit, RowReach reach);
/* Chunks of a sum of exponentials, each of which changes a thread's state once: those that use SMs best of so many rows; 0: only the launch
 * knows how many. */
bool row_fit_chunks(const Problem *problem, const RowReached *row, int64_t rows, RowFit *fit);
/* The fewest rows that use SMs better by these chunks than where they stay; 0: there are none. */
int64_t row_least_chunks(const Problem *problem, const RowReached *row, unsigned peers, const RowFit *fit);
/* Rows that all SMs have at once. */
int64_t row_turn(const Problem *problem, const RowFit *fit);
