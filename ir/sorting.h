/* Sorted tiles: which places of a layout the elements of a sorted row take.
 *
 * A place in the order is a number whose bits are digits of a register, lane or warp. Where all of a row is wanted, bits
 * count as columns do, and the result lies as its operand. Where only the first so many are, registers count first, then
 * lanes, then warps: what comes in front is found within a thread as far as that goes, and what is left is the same in all
 * lanes and warps that have no bit of it. */
#pragma once
#include "ir/layout.h"

typedef struct SortingBit {
  LayoutPlace place;
  unsigned mask;   /* in the index of the lane or warp; of registers counts those along the dimension */
  unsigned column; /* what it moves the operand's elements by */
} SortingBit;

#define SORTING_MAX_BITS 32

typedef struct Sorting {
  unsigned n;    /* bits of a place in the operand */
  unsigned kept; /* and in the result: the first so many */
  SortingBit bit[SORTING_MAX_BITS];
  unsigned registers;      /* bits of these that are registers */
  unsigned other_lanes;    /* bits of the lane that move along the other dimension */
  unsigned rows_of_thread; /* registers along the other dimension */
  unsigned warps;
} Sorting;

/* false: sizes are no powers of two, or the tile has no more than one dimension. */
bool sorting_of(const Layout *layout, unsigned dim, unsigned keep, Sorting *sorting);
/* The layout of the first `keep` elements of each sorted row. NULL as above. */
const Layout *sorting_layout(Arena *arena, const Layout *layout, unsigned dim, unsigned keep);
/* Lanes' bits that tell elements apart where the places' bits `live` do. */
unsigned sorting_lanes(const Sorting *sorting, uint32_t live);
/* Elements that the warps of a row leave in shared memory at once, at most; 0: they need not meet. `more`: the result
 * takes in a tile like itself. */
uint64_t sorting_exchanged(const Sorting *sorting, bool more);
