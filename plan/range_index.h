/* Ranges of numbers below a bound, found by the ranges that they share a number with. */
#pragma once
#include <glib.h>

typedef struct {
  unsigned size;   /* leaves of a tree over the numbers: a power of two */
  GArray **begins; /* by number: ids of ranges that begin there; NULL: none */
  GArray **
      covers; /* by node of the tree, whose children are 2 i and 2 i + 1: ids of ranges that have all of its numbers and not
                    * all of its parent's */
} RangeIndex;

/* Of numbers below n. */
void range_index_open(RangeIndex *index, unsigned n);
void range_index_close(RangeIndex *index);
/* low .. high, both in it. */
void range_index_add(RangeIndex *index, unsigned low, unsigned high, unsigned id);
/* Appends the ids (unsigned) of the ranges that share a number with low .. high, each once, in no order. */
void range_index_find(const RangeIndex *index, unsigned low, unsigned high, GArray *ids);
