/* Few results of a long k (generator/choose/dots.c). */
#pragma once
#include "generator/choose/choose.h"

/* Variants in which each result is a sum of its own, for rows up to which that is the cheapest: they come
 * before all others; the last may be for any number of rows that there can be. */
void choose_dots(Chooser *chooser);
/* Clocks of m rows so, or a negative number if it is not for them: operands read where they lie, `vector`
 * elements at a time. */
double choose_dots_clocks(const Problem *problem, int64_t m, unsigned vector);
