/* What bodies of functions share that look for elements of lists, or put them in order: Permute, NonZero, the compression of gradients. */
#pragma once
#include "generator/front/expand.h"

/* A constant of one element, s32: a number, or an expression that fits 32 bits. */
GraphTensor *expand_number_s32(Expansion *x, const char *part, int64_t value);
GraphTensor *expand_known_s32(Expansion *x, const char *part, const Symbolic *value);
/* An operator of a tensor and such a number. */
GraphTensor *expand_with_s32(Expansion *x, OperatorId op, const char *part, GraphTensor *a, int64_t b);
/* Elements of a list, of one dimension. */
GraphTensor *expand_of_each(Expansion *x, const char *part, GraphTensor *list, GraphTensor *index);
/* It is so whatever its symbols are. */
bool expand_is_at_most(Expansion *x, const Symbolic *value, int64_t limit);

/* Elements of a list that do not fall from one to the next, `step` apart. */
typedef struct Rising {
  GraphTensor *list;
  GraphTensor *first; /* s32: where each that looks begins, or in front of it */
  GraphTensor *last;  /* s32: the last that it may find */
  const Symbolic *n;  /* so far does one lie behind the other, at most, in steps */
  int64_t step;
  GraphTensor *column; /* s64: 32 bits do not hold indices, which count steps from here on; NULL: they do */
} Rising;

/* Index of the last of them behind the first that is at most `target` (the first: none is), by halves: each that looks reads
 * as many as their number has bits. */
GraphTensor *expand_last_up_to(Expansion *x, const char *part, const Rising *rising, GraphTensor *target);

/* The elements of a list that a mask names, in order. The mask's bits stand in words; how many there are in front of each word of
 * a row of words, and in front of each row, is counted once: what comes to a place is found by halves. */
typedef struct Selection {
  const Symbolic *n; /* of the list */
  int64_t row;       /* words of a row, a power of two */
  const Symbolic *rows;
  GraphTensor *words;  /* s32, [rows * row] */
  GraphTensor *before; /* in front of the word within its row, likewise */
  GraphTensor *begin;  /* in front of the row, [rows]; NULL: there is one row */
  GraphTensor *count;  /* of all, s32, rank 0 */
} Selection;

/* mask: bool, [n]. n is at most 2^31 - 1. */
void expand_select(Expansion *x, GraphTensor *mask, const Symbolic *n, Selection *selection);
/* Which element comes to each of these places, s32; any where the place is none of the first `count`. */
GraphTensor *expand_selected(Expansion *x, const Selection *selection, GraphTensor *place);

/* Keys in order, by TallyKeys and PlaceKeys: `keys` [tokens, choices], `n` of them, each from 0 to `bins` - 1, others are none. */

/* How often each key is among each part of the keys, s32 [parts, bins]; *part: elements of one. */
GraphTensor *expand_tally_keys(Expansion *x, GraphTensor *keys, const Symbolic *n, int64_t bins,
                               int64_t *part);
/* The same of floats [n, 1] by the bits of their magnitudes from `shift` on, less `base`, s32 [1], which may be NULL; above: larger ones
 * count as the last. */
GraphTensor *expand_tally_magnitudes(Expansion *x, GraphTensor *keys, GraphTensor *base, int64_t bins,
                                     unsigned shift, bool above, int64_t *part);
/* The row of each key; further results as PlaceKeys has them, one or two. One block does all of few. */
GraphTensor *expand_place_keys(Expansion *x, GraphTensor *keys, const Symbolic *n, int64_t bins,
                               int64_t align, GraphTensor **further, unsigned n_further);
