/* Few results of a long k (generator/choose/dots.c), and what it shares with copies.c. */
#pragma once
#include "generator/choose/choose.h"

/* Variants in which each result is a sum of its own, for rows up to which that is the cheapest: they come
 * before all others; the last may be for any number of rows that there can be. */
void choose_dots(Chooser *chooser);
/* Clocks of m rows so, or a negative number if it is not for them: operands read where they lie, `vector`
 * elements at a time. */
double choose_dots_clocks(const Problem *problem, int64_t m, unsigned vector);

/* ---- of copies.c ---- */
/* The product of operands as they lie, without copies that were inserted, in the problem's arena; NULL: sums
 * along k are not for it. `odd`: some rows are known to start at no multiples of 16 bytes. */
const FusedOperator *choose_direct(const Problem *problem, bool *odd);
/* Elements of `direct` that a lane may load at a time, as far as is known. */
unsigned choose_direct_vector(const Problem *problem, const FusedOperator *direct);
/* Clocks of sums along k by warps (gemv_few), or a negative number: they are not for so many rows. */
double choose_sums_clocks(const Problem *problem, const FusedOperator *direct, int64_t m);
/* Clocks of what would run otherwise for m rows, `odd` as choose_direct() says; operands that threads copy are
 * copied by so many bytes. */
double choose_others_clocks(const Problem *problem, int64_t m, bool odd, unsigned bytes);
/* Rows up to which the variants so far serve. */
int64_t choose_rows_taken(const Chooser *chooser);
