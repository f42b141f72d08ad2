/* How whole rows fit the registers of a block. */
#pragma once
#include "generator/choose/choose.h"

typedef struct RowFit {
  unsigned rows, cols, threads; /* of a block's tile */
  unsigned blocks;              /* that share an SM */
} RowFit;

/* The operator, a row program, with rows of so many columns at most, of which threads access `vector` at once.
 * NULL, or what keeps its rows from staying in registers. */
const char *row_program_fit(const Problem *problem, int64_t longest, unsigned vector, RowFit *fit);
/* Variants of a row program, by the template `row`. */
void choose_row_program(Chooser *chooser);
/* Do rows of every length that there can be stay in registers? */
bool row_program_stays(const Problem *problem);
/* NULL, or why a program that no other template takes is none for these either. */
const char *row_program_refuse(const Problem *problem);
