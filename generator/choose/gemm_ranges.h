/* Ranges of rows that have a tile of their own, for products whose number of rows is known at launch only. */
#pragma once
#include "generator/choose/gemm_candidate.h"

typedef struct GemmRange {
  int64_t most; /* rows; the last range, which serves all that are more, has what is the most at all */
  GemmCandidate tile;
} GemmRange;

/* Divides the rows up to `longest` so that few ranges come near to the best tile for every number of rows;
 * the last one's tile serves any number. What was measured for some rows (generator/choose/tuned.h) counts as the
 * best for them. Elements are GemmRange by rising rows, from 1 to `most` (at least 1) of them; the caller
 * owns the array. Notes how the best tiles were found. */
GArray *gemm_ranges(Chooser *chooser, bool warpgroups, int64_t longest, unsigned most);
