/* Iteration spaces: several operands over one list of dims, each with a stride a dim, merged together. */
#pragma once
#include "generator/front/graph.h"

/* Rows, columns and blocks that numbers of 32 bits count, though loops and tiles reach beyond the last by less than 2^16. */
#define SPACE_COUNTED (SYMBOLIC_DIMENSION_MAX + 1 - 65536)

#define SPACE_MAX_RANK (GRAPH_MAX_RANK + 1)

typedef struct Space {
  unsigned rank, n_operands;
  const Symbolic *dims[SPACE_MAX_RANK];
  const Symbolic **strides[SPACE_MAX_RANK]; /* by dim, then operand */
} Space;

/* Strides of a tensor over `rank` dims whose last ones it broadcasts to; 0 where it does or where a dim is 1.
 */
void space_broadcast(Arena *arena, const GraphTensor *tensor, const Symbolic *const *dims, unsigned rank,
                     const Symbolic **strides);
void space_init(Arena *arena, Space *space, unsigned rank, const Symbolic *const *dims, unsigned n_operands);
/* Drops dims of extent 1 and merges adjacent ones within first .. last (exclusive) wherever every operand
 * allows it. Returns how many are left of them. */
unsigned space_merge(Arena *arena, Space *space, unsigned first, unsigned last);
/* Dim `at + 1` has one place at most: dim `at` has the places of both. */
void space_absorb(Arena *arena, Space *space, unsigned at);
/* One dim, of extent 1 if there is none. */
void space_insert(Arena *arena, Space *space, unsigned at);
