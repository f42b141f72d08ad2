/* What kernels of rows ask of how their operands lie. */
#pragma once
#include "generator/choose/choose.h"

/* Of a scan: accesses of 16 bytes along the columns: rows start aligned, and a vector never straddles a row's end. false: they cannot
 * be had; else the choice has what is required of sizes and addresses. */
bool choose_row_vectors(const Problem *problem, Choice *choice, const Symbolic *columns);
/* Neighbouring rows are neighbours in memory in all that is read, elements of a row are not. */
bool choose_rows_lie_across(const FusedOperator *op);
/* Accesses of 16 bytes along such rows. */
bool choose_row_runs(const Problem *problem, Choice *choice);
/* Rows that are neighbours which a block takes together. */
unsigned choose_row_run(const FusedOperator *op);

typedef struct RowAsked { /* of a template of rows */
  int64_t columns;        /* the most elements of a row */
  unsigned run;           /* rows that lie across memory, side by side; 0: rows lie along it */
  unsigned vector; /* their neighbours that a thread reads together, where each has one such run; 0: more */
} RowAsked;

/* The templates whose blocks take so many rows and columns. */
extern const SpaceKind row_block_kind;
/* Gives the variant rows, columns and threads that its template says are tried, and the chooser the variant. */
bool choose_row_block(Chooser *chooser, Choice *choice, RowAsked asked);
