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
/* How the first `keep` elements of a row of whole warps are found by a bound. Each lane has `groups` groups of its elements;
 * of a warp's groups the `share` with the least minima hold so many elements up to the last of these minima, and the largest
 * such number of all warps is a bound of the row's element number `keep`. What lies below it is put in order by one warp. */
typedef struct SortingBound {
  unsigned registers; /* of a thread */
  unsigned warps;     /* of a row */
  unsigned groups, share, survivors;
} SortingBound;

#define SORTING_LANES 32

/* false: all elements are put in order, since nothing is asked for (`survivors` 0), or rows are no whole warps, one or all of
 * the tile's. */
bool sorting_bound_of(const Layout *layout, unsigned dim, unsigned keep, unsigned survivors,
                      SortingBound *bound);
/* A row of so many registers of each lane, which count first, in one warp alone. */
const Layout *sorting_warp(Arena *arena, unsigned dim, unsigned registers);
/* The layout of the result, by a bound where there is one. NULL as above. */
const Layout *sorting_result(Arena *arena, const Layout *layout, unsigned dim, unsigned keep,
                             unsigned survivors);
/* The layout of `n` places of elements of a row, which is a warp's: they lie as its survivors do. NULL: rows lie otherwise, or `n` is
 * no power of two that whole warps have. */
const Layout *sorting_picked(Arena *arena, const Layout *layout, unsigned dim, unsigned n);
/* Elements in shared memory of what is found by a bound: survivors of each row, and of rows of several warps two of each. */
uint64_t sorting_bound_exchanged(const SortingBound *bound, const Layout *layout);
/* Lanes' bits that tell elements apart where the places' bits `live` do. */
unsigned sorting_lanes(const Sorting *sorting, uint32_t live);
/* Elements that the warps of a row leave in shared memory at once, at most; 0: they need not meet. `more`: the result
 * takes in a tile like itself. */
uint64_t sorting_exchanged(const Sorting *sorting, bool more);
